"""Statistics of passes and rules: tried, fired and time, over a corpus or a script; --census: what is rule text.

`python -m rulegrad stats [SCRIPT arguments…]`; without a script, small programs that use most rules are run.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from rulegrad.workbench.diagnosis.counting import Census, Counts, as_data, census, counted, run_corpus, run_script

GOAL = 0.02  # of the firings may have an extern in them


def main(arguments: Sequence[str]) -> int:
    """Prints the figures; 1 when the script failed, or too many firings have an extern in them."""
    parser = argparse.ArgumentParser("python -m rulegrad stats", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of tables")
    parser.add_argument("--census", action="store_true", help="rules and lines of each file, externs, host steps")
    parser.add_argument("--top", type=int, default=25, metavar="N", help="rules that are printed (all with 0)")
    parser.add_argument("--device", help="where the corpus runs; a script chooses its own")
    parser.add_argument("script", nargs="?", type=Path, help="a Python program to run instead of the corpus")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    options = parser.parse_args(arguments)
    status = 0
    with counted() as found:
        if options.script is not None:
            status = run_script(options.script, options.arguments)
        else:
            run_corpus(options.device)
    (counts,) = found
    people = census(counts) if options.census else None
    if options.json:
        print(json.dumps(as_data(counts, people), indent=2))
    else:
        print("\n".join(_census_text(people) if people else _counts_text(counts, options.top)))
    return 1 if status or (people and people.extern_share > GOAL) else 0


def _counts_text(counts: Counts, top: int) -> Iterator[str]:
    yield f"{'pass':<28}{'ms':>10}{'runs':>8}{'visited':>11}{'fired':>9}"
    for one in counts.passes:
        yield f"{one.name:<28}{one.seconds * 1e3:>10.2f}{one.runs:>8}{one.visited:>11}{one.fired:>9}"
    shown = counts.rules[: top or None]
    yield ""
    yield f"{'rule':<40}{'ms':>10}{'tried':>9}{'fired':>9}  location"
    for rule in shown:
        yield f"{rule.name:<40}{rule.seconds * 1e3:>10.2f}{rule.tried:>9}{rule.fired:>9}  {rule.location}"
    rest = len(counts.rules) - len(shown)
    fired = sum(1 for rule in counts.rules if rule.fired)
    yield ""
    yield f"{len(counts.rules)} rules were tried, {fired} fired" + (f"; {rest} more with --top 0" if rest else "")


def _census_text(found: Census) -> Iterator[str]:
    yield f"{'file':<36}{'lines':>8}{'rules':>8}"
    for path, (lines, rules) in found.files.items():
        yield f"{path:<36}{lines:>8}{rules:>8}"
    total = sum(lines for lines, _ in found.files.values())
    yield f"{len(found.files):>3} files{'':<27}{total:>8}{found.rules:>8}"
    yield ""
    externs = ", ".join(f"{name} ({qualified_name})" for name, qualified_name in found.externs.items()) or "none"
    yield f"externs: {externs}"
    share = f"{found.extern_share:.2%} of {found.fired} firings"
    yield f"firings with an extern in them: {share}; the goal is at most {GOAL:.0%}"
    yield f"firings through built-in functions for whole sums: {found.structural_share:.2%} of {found.fired} firings"
    yield ""
    yield "host steps, which are Python and not rules:"
    for name, (does, why) in found.host_steps.items():
        yield f"  compile/{name}.py: {does}; {why}"
