"""Which rule, and which firing of it, makes a result wrong: SCRIPT, --expect COMMAND or --graph FILE.

A script's output is compared with that of the interpreter without all rules that may be left out, or with `--check` the
script must end well under CHECK=2. A command is right when its exit status is 0. A saved graph must mean the same
after a pass.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rulegrad.diagnosis.bisecting import Culprit, NoCulpritError, Trial, find_culprit
from rulegrad.diagnosis.trials import Commands, Firing, Graphs, Scripts
from rulegrad.errors import RulegradError
from rulegrad.ir import UOp


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
        print(
            json.dumps({"right": False, "rule": None, "problem": str(error)}) if options.json else f"rulegrad: {error}"
        )
        return 1
    if culprit is None:
        print(json.dumps({"right": True}) if options.json else "the result is right")
        return 0
    firing = trials.firing(Trial(culprit.off, (culprit.rule, culprit.firing)))
    print(json.dumps(_data(culprit, firing), indent=2) if options.json else _text(culprit, firing))
    return 1


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


def _place(culprit: Culprit, firing: Firing | None) -> str:
    from rulegrad.lang import engine

    if firing is not None:
        return firing.place
    facts = engine.rules().get(culprit.rule)
    return facts.place if facts else "in a file that the program loads"


def _data(culprit: Culprit, firing: Firing | None) -> dict[str, Any]:
    return {
        "right": False,
        "rule": culprit.rule,
        "place": _place(culprit, firing),
        "firing": culprit.firing,
        "pass": firing.in_pass if firing else None,
        "change": firing.change if firing else None,
        "off": list(culprit.off),
        "trials": culprit.trials,
    }


def _text(culprit: Culprit, firing: Firing | None) -> str:
    lines = [f"{_place(culprit, firing)}: rule {culprit.rule} makes the result wrong, at its firing {culprit.firing}"]
    if firing is not None:
        lines[0] += f", in pass {firing.in_pass}:"
        lines.append(firing.change.rstrip())
    lines.append(f"RULES_OFF={culprit.rule} leaves it out ({culprit.trials} runs)")
    return "\n".join(lines)
