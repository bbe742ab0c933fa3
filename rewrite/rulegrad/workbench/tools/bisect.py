"""Find the rule, and the firing of it, that makes a result wrong: SCRIPT, --expect COMMAND or --graph FILE.

A script's output is compared with that of the interpreter without all rules that may be left out, or with `--check` the
script must end well under CHECK=2. A command is right when its exit status is 0. A saved graph must mean the same
after a pass. Where no rule that may be left out is to blame, each pass is compared under CHECK=2, firing by firing.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rulegrad import engine
from rulegrad.errors import RulegradError
from rulegrad.ir import UOp
from rulegrad.workbench.diagnosis.bisecting import Culprit, NoCulpritError, Trial, find_culprit
from rulegrad.workbench.diagnosis.blaming import Blame
from rulegrad.workbench.diagnosis.trials import Checked, Commands, Firing, Graphs, Scripts


def main(arguments: Sequence[str]) -> int:
    """Prints the rule, its place and the firing; 0 when the result is right, 1 when it is wrong."""
    parser = argparse.ArgumentParser("python -m rulegrad bisect", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of text")
    parser.add_argument("--expect", metavar="COMMAND", help="a command that ends with 0 when the result is right")
    parser.add_argument("--check", action="store_true", help="the script is right when it ends well under CHECK=2")
    parser.add_argument("--graph", type=Path, metavar="FILE", help="a graph as text, as str(uop) gives it")
    parser.add_argument("--pass", dest="name", help="the pass that is run on the graph")
    parser.add_argument("--target", help="the target whose rules are used for the graph")
    parser.add_argument("script", nargs="?", type=Path, help="a Python program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    options = parser.parse_args(arguments)
    if sum(given is not None for given in (options.expect, options.graph, options.script)) != 1:
        parser.error("give a script, --expect COMMAND or --graph FILE")
    if options.graph is not None and not options.name:
        parser.error("--graph needs --pass NAME")
    trials = _trials(options)
    try:
        culprit = find_culprit(trials.suspects(), trials.right)
    except NoCulpritError as error:
        return _tell(*_essential(trials.checked(), str(error)), as_json=options.json)
    if culprit is None:
        # its reference has the essential rules too
        checked = trials.checked() if isinstance(trials, Scripts) or options.check else Checked(None, "", ())
        if checked.blame is None and not checked.problem:
            data = {"right": True, "skipped": list(checked.skipped)}
            return _tell(data, "\n".join(["the result is right", *checked.skipped]), as_json=options.json, status=0)
        return _tell(*_essential(checked, ""), as_json=options.json)
    firing = trials.firing(Trial(culprit.off, (culprit.rule, culprit.firing)))
    return _tell(_data(culprit, firing), _text(culprit, firing), as_json=options.json)


def _tell(data: dict[str, Any], text: str, as_json: bool, status: int = 1) -> int:
    print(json.dumps(data, indent=2) if as_json else text)
    return status


def _essential(checked: Checked, problem: str) -> tuple[dict[str, Any], str]:
    """The report, as data and as text, where a rule that cannot be left out is to blame, or none is found."""
    found = checked.blame
    if found is None:
        problem = checked.problem or f"{problem}; CHECK=2 finds no pass that changes what a graph computes"
        lines = [f"rulegrad: {problem}", *checked.skipped]
        return {"right": False, "rule": None, "problem": problem, "skipped": list(checked.skipped)}, "\n".join(lines)
    data: dict[str, Any] = {
        "right": False,
        "rule": found.rules[0] if found.exact else None,
        "location": found.location,
        "firing": found.last,
        "pass": found.in_pass,
        "change": f"{found.before.rstrip()}\n->\n{found.after.rstrip()}\n" if found.exact else None,
        "cases": list(found.cases),
        "off": [],
    }
    if not found.exact:
        data["problem"] = f"pass {found.in_pass} makes the result wrong; only the pass is known"
        if found.last:
            data["problem"] += f", and that it is one of its firings {found.first} to {found.last}"
        data["suspects"] = list(found.rules)
        return data, f"rulegrad: {data['problem']}\nrules that fired: {', '.join(found.rules)}"
    return data, _essential_text(found, data["change"])


def _essential_text(found: Blame, change: str) -> str:
    rule = found.rules[0]
    lines = [f"{found.location}: rule {rule} makes the result wrong, at firing {found.last} of pass {found.in_pass}"]
    if found.certain:
        lines[0] += f", by the case {found.cases[0]}"
    elif found.cases:
        lines[0] += f"; it uses {', '.join(found.cases)}"
    return "\n".join([f"{lines[0]}:", change.rstrip(), "found under CHECK=2, as this cannot be left out"])


def _trials(options: argparse.Namespace) -> Commands | Graphs:
    if options.expect is not None:
        return Commands(shlex.split(options.expect))
    if options.graph is not None:
        try:
            text = options.graph.read_text(encoding="utf-8")
        except OSError as error:
            raise RulegradError(f"the graph {options.graph} cannot be read: {error}") from None
        return Graphs(UOp.parse(text), options.name, options.target)
    if not options.script.is_file():
        raise RulegradError(f"there is no script {options.script}")
    if options.check:
        return Commands([sys.executable, str(options.script), *options.arguments], {"CHECK": "2"})
    return Scripts(options.script, options.arguments)


def _location(culprit: Culprit, firing: Firing | None) -> str:
    if firing is not None:
        return firing.location
    facts = engine.rules().get(culprit.rule)
    return facts.location if facts else "in a file that the program loads"


def _data(culprit: Culprit, firing: Firing | None) -> dict[str, Any]:
    return {
        "right": False,
        "rule": culprit.rule,
        "location": _location(culprit, firing),
        "firing": culprit.firing,
        "pass": firing.in_pass if firing else None,
        "change": firing.change if firing else None,
        "off": list(culprit.off),
        "trials": culprit.trials,
    }


def _text(culprit: Culprit, firing: Firing | None) -> str:
    location = _location(culprit, firing)
    lines = [f"{location}: rule {culprit.rule} makes the result wrong, at its firing {culprit.firing}"]
    if firing is not None:
        lines[0] += f", in pass {firing.in_pass}:"
        lines.append(firing.change.rstrip())
    lines.append(f"RULES_OFF={culprit.rule} leaves it out ({culprit.trials} runs)")
    return "\n".join(lines)
