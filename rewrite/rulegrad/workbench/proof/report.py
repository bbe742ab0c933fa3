"""Outcomes for people: a line for what matters, and a table of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rulegrad.workbench.proof.prover import KINDS, NOT_PROVED, PROBLEMS, Outcome


def as_text(outcomes: Sequence[Outcome], verbose: bool = False) -> str:
    """Problems, integer rules that are not proved (or all rules, if `verbose`), then the table."""
    lines: list[str] = []
    for outcome in outcomes:
        if verbose or outcome.kind in PROBLEMS or NOT_PROVED in outcome.how:
            lines.extend(_described(outcome))
    if lines:
        lines.append("")
    return "\n".join([*lines, *_table(outcomes)])


def _described(outcome: Outcome) -> Iterator[str]:
    yield f"{outcome.location}: {outcome.name}: {outcome.kind}: {outcome.how}"
    if outcome.line:
        yield f"        {outcome.line}"


def _table(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """One line a file: how many rules came out how."""
    counts: dict[str, Counter[str]] = {}
    for outcome in outcomes:
        counts.setdefault(outcome.file, Counter())[outcome.kind] += 1
    kinds = [kind for kind in KINDS if kind not in PROBLEMS or any(c[kind] for c in counts.values())]
    width = max([len("total"), *map(len, counts)])
    yield f"{'':<{width}}" + "".join(f"{kind:>10}" for kind in kinds) + f"{'total':>10}"
    for file, found in sorted(counts.items()):
        yield f"{file:<{width}}" + _numbers(found, kinds)
    yield f"{'total':<{width}}" + _numbers(sum(counts.values(), Counter()), kinds)


def _numbers(found: Counter[str], kinds: Sequence[str]) -> str:
    return "".join(f"{found[kind] or '':>10}" for kind in kinds) + f"{sum(found.values()):>10}"
