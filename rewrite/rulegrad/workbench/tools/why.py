"""Why a rule fires on a graph, or does not: the furthest match, the first false test, and who was there before.

python -m rulegrad why nested --graph g.txt --at %37 --pass symbolic
python -m rulegrad why index_division.nested train.py --epochs 1     every graph of a script, with its arguments
python -m rulegrad why nested < g.txt                                a graph in the text form, from the standard input
python -m rulegrad why --fusion %7 train.py                          why the schedule stores the value of a node, or not
python -m rulegrad why --schedule KERNEL train.py                    how the loops of a kernel run, and why so
python -m rulegrad why --schedule train.py                           the same for all kernels of a script

KERNEL is a kernel's name, as DEBUG=2 prints it, or a part of it. RULE is SET.RULE, or RULE where one set has it. The
exit status is 0 when the rule fires on a node that is asked about (the value is stored, a kernel has a schedule), 1
when it does not, 2 for a question that cannot be answered.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rulegrad import engine
from rulegrad.errors import GraphError, RulegradError
from rulegrad.ir import UOp
from rulegrad.runtime import devices
from rulegrad.workbench.explaining import Explanation, Subject, explain
from rulegrad.workbench.explaining.fusion import explain_fusion
from rulegrad.workbench.explaining.schedules import ScheduleExplanation, ScheduleRecording, explain_schedule
from rulegrad.workbench.explaining.script import Recording, run_script

__all__ = ["Explanation", "explain", "main"]
_WITH_VALUE = ("--fusion", "--schedule", "--graph", "--at", "--pass", "--target", "--most")


def main(arguments: Sequence[str]) -> int:
    """Prints the explanation; the exit status as above."""
    options = _options(arguments)
    try:
        if options.fusion is not None:
            return _fusion(options)
        if options.schedule is not None:
            return _schedule(options)
        explanation = _explained(options)
    except RulegradError as error:
        print(f"rulegrad why: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps({**dataclasses.asdict(explanation), "fires": explanation.fires}, indent=2))
    else:
        print(explanation)
        if options.show:
            for number, text in explanation.graphs.items():
                print(f"\ngraph {number}:\n{text}")
    return 0 if explanation.fires else 1


def _fusion(options: argparse.Namespace) -> int:
    """Prints what the schedule did with a node of each graph that has it; 0 when one stores it, 1 when none does."""
    scheduled = _scheduled(options)
    found = [explain_fusion(graph, options.fusion, target) for graph, target in scheduled]
    if options.json:
        print(json.dumps([dataclasses.asdict(one) for one in found], indent=2))
        return 0 if any(one.stored for one in found) else 1
    for number, ((graph, _), one) in enumerate(zip(scheduled, found, strict=True), 1):
        head = f"graph {number}: " if len(found) > 1 else ""
        print(f"{head}{one}" + (f"\n\n{graph}" if options.show else ""))
    return 0 if any(one.stored for one in found) else 1


def _schedule(options: argparse.Namespace) -> int:
    """Prints the schedules of kernels; 0 when one has steps, 1 when none has."""
    found = _schedules(options)
    if options.json:
        print(json.dumps([dataclasses.asdict(one) for one in found], indent=2))
    else:
        print("\n\n".join(map(str, found)))
    return 0 if any(one.schedule for one in found) else 1


def _schedules(options: argparse.Namespace) -> list[ScheduleExplanation]:
    if options.script is None and options.graph is not None:
        engine.install_op_table()
        graph = _graph(options.graph)
        return [explain_schedule(graph, options.target or devices.target_of(devices.default()))]
    kernel, script = (options.schedule, options.script) if options.script else ("", options.schedule)
    away = contextlib.redirect_stdout(sys.stderr) if options.json else contextlib.nullcontext()
    recording = ScheduleRecording()
    with recording, away:
        problem = run_script(script, options.arguments)
    if problem:
        print(f"rulegrad why: the script failed: {problem}", file=sys.stderr)
    found = recording.explained(kernel, options.target)
    if not found:
        names = ", ".join(dict.fromkeys(recording.names.values())) or "none"
        raise GraphError(f"the script has no kernel {kernel or 'with loops'}; its kernels are: {names}")
    return found


def _scheduled(options: argparse.Namespace) -> list[tuple[UOp, str]]:
    """The graphs that are scheduled, with their targets: those of a script that have the node, or the given one."""
    first = next(name for name in engine.pipeline("schedule") if name != "number_buffers")
    subjects = _subjects(options)
    if isinstance(subjects, UOp):
        return [(subjects, options.target or devices.target_of(devices.default()))]
    graphs = [(one.graph, one.target) for one in subjects if one.pass_name == first and one.target is not None]
    if not graphs:
        raise GraphError("the script computes no tensor, so there is no graph to ask about")
    number = options.fusion.removeprefix("%")
    have = [(graph, target) for graph, target in graphs if number.isdecimal() and int(number) < graph.count_nodes()]
    return have or graphs[-1:]


def _explained(options: argparse.Namespace) -> Explanation:
    subjects = _subjects(options)
    return explain(
        options.rule, subjects, at=options.at, pass_name=options.pass_name, target=options.target, most=options.most
    )


def _subjects(options: argparse.Namespace) -> UOp | list[Subject]:
    """The graph of a file or of the standard input, or all graphs of a script."""
    if options.script is None:
        engine.install_op_table()
        return _graph(options.graph)
    # the output of the script is not a part of ours
    away = contextlib.redirect_stdout(sys.stderr) if options.json else contextlib.nullcontext()
    with Recording() as recording, away:
        problem = run_script(options.script, options.arguments)
    if problem:
        print(f"rulegrad why: the script failed: {problem}", file=sys.stderr)
    return [subject for subject in recording.subjects if options.target in (None, subject.target)]


def _graph(file: str | None) -> UOp:
    name = "the standard input" if file in (None, "-") else file
    try:
        text = sys.stdin.read() if file in (None, "-") else Path(str(file)).read_text(encoding="utf-8")
        return UOp.parse(text)
    except (OSError, UnicodeDecodeError) as error:
        raise GraphError(f"{name} cannot be read: {error}") from None
    except GraphError as error:
        raise GraphError(f"{name} is not a graph: {error}") from None


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m rulegrad why",
        usage="%(prog)s [options] {RULE | --fusion NODE | --schedule KERNEL} [SCRIPT argument ...]",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("rule", metavar="RULE", nargs="?", help="the rule; what follows a SCRIPT is the script's")
    parser.add_argument("--fusion", metavar="NODE", help="instead of a RULE: why the value of a node is stored, or not")
    parser.add_argument(
        "--schedule", metavar="KERNEL", help="instead of a RULE: the schedule of a kernel, or of a SCRIPT's"
    )
    parser.add_argument("--graph", metavar="FILE", help="a graph in the text form, instead of a script")
    parser.add_argument("--at", metavar="NODE", help="the node, by its number in the printed text: %%37 or 37")
    parser.add_argument("--pass", dest="pass_name", metavar="PASS", help="the pass; else every one that has the rule")
    parser.add_argument("--target", metavar="NAME", help="the target whose rules are used")
    parser.add_argument("--most", metavar="N", type=int, default=3, help="nodes to tell of (3), the best matches first")
    parser.add_argument("--show", action="store_true", help="print the graphs too, with the numbers of their nodes")
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of text")
    ours, script = _split(arguments)
    options = parser.parse_args(ours)
    if options.rule is None and options.fusion is None and options.schedule is None:
        parser.error("the following arguments are required: RULE")
    if script and options.graph is not None:
        parser.error("give a script or --graph FILE, not both")
    options.script, options.arguments = (script[0], script[1:]) if script else (None, [])
    return options


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Our arguments, and the script's: from the second non-option on, or the first where no RULE is given."""
    at = names = 0
    wanted = 1 if any(one.startswith(("--fusion", "--schedule")) for one in arguments) else 2
    while at < len(arguments):
        one = arguments[at]
        if not one.startswith("-") or one == "-":
            names += 1
            if names == wanted:
                break
        at += 2 if one in _WITH_VALUE else 1
    return list(arguments[:at]), list(arguments[at:])
