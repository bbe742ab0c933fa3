"""Every rule that fires while a script runs, or in a pass on one graph: as text, as JSON, or as a page for a browser.

python -m rulegrad trace train.py --epochs 1          a script, with its arguments
python -m rulegrad trace --html trace.html train.py   one file that a browser opens, with no server
python -m rulegrad trace --graph g.txt --pass symbolic
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import runpy
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from rulegrad import engine
from rulegrad.errors import RulegradError
from rulegrad.ir import UOp
from rulegrad.lang.diagnostics import did_you_mean
from rulegrad.workbench.tracing import Selection, Trace


def main(arguments: Sequence[str]) -> int:
    """Runs and prints; exit status 1 when what was traced fails, or no firing is selected."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if (options.script is None) == (options.graph is None):
        parser.error("give a script, or --graph FILE --pass PASS")
    if options.graph is not None and options.pass_name is None:
        parser.error("--graph needs --pass PASS: the pass to run on the graph")
    for file in (options.script, options.graph):
        if file is not None and not Path(file).is_file():
            parser.error(f"there is no file {file}")
    trace = Trace()
    selection = Selection(options.rule, options.pass_name, options.limit)
    with trace, contextlib.redirect_stdout(sys.stderr) if options.json else contextlib.nullcontext():
        status = _run_graph(options) if options.graph else _run_script(options.script, options.arguments)
    title = os.path.basename(options.graph or options.script)
    try:
        _give(trace, title, selection, options)
    except OSError as error:
        print(f"rulegrad trace: the trace cannot be written: {error}", file=sys.stderr)
        return 1
    if options.rule and not any(firings for _, firings in selection.passes(trace)):
        print(f"rulegrad trace: no rule that fired is called {options.rule}", file=sys.stderr)
        return 1
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m rulegrad trace", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("script", nargs="?", help="a Python program to run")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    parser.add_argument("--graph", metavar="FILE", help="a graph in the text form, instead of a script")
    parser.add_argument("--target", metavar="NAME", help="with --graph: the target whose rules are used")
    parser.add_argument("--pass", dest="pass_name", metavar="PASS", help="only this pass (* stands for anything)")
    parser.add_argument("--rule", metavar="RULE", help="only this rule: NAME or SET.NAME (* stands for anything)")
    parser.add_argument("--limit", metavar="N", type=_count, help="only the first N of these firings")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--text", action="store_true", help="print text: the default")
    form.add_argument("--html", metavar="OUT", help="write one HTML file, which a browser opens with no server")
    form.add_argument("--json", action="store_true", help="print a JSON object; the script's output goes to stderr")
    parser.add_argument("--timeline", metavar="OUT", help="also write a timeline for Perfetto or Chrome")
    return parser


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _run_script(script: str, arguments: Sequence[str]) -> int:
    """Runs a program as `python SCRIPT` does; its exit status. What it did before an error is traced too."""
    before, path = sys.argv, sys.path
    sys.argv, sys.path = [script, *arguments], [os.path.dirname(os.path.abspath(script)), *path]
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        return _status(end)
    except Exception:
        traceback.print_exc()
        return 1
    finally:
        sys.argv, sys.path = before, path
    return 0


def _status(end: SystemExit) -> int:
    """The exit status that Python gives a program which ends with this."""
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    print(end.code, file=sys.stderr)
    return 1


def _run_graph(options: argparse.Namespace) -> int:
    try:
        known = engine.program(options.target).passes
        if options.pass_name not in known:
            hint = did_you_mean(options.pass_name, known) or f"there are: {', '.join(engine.summary()['passes'])}"
            print(f"rulegrad trace: no pass is called {options.pass_name}; {hint}", file=sys.stderr)
            return 1
        text = Path(options.graph).read_text(encoding="utf-8")
        engine.rewrite(UOp.parse(text), options.pass_name, options.target)
    except (OSError, UnicodeDecodeError) as error:
        print(f"rulegrad trace: the graph {options.graph} cannot be read: {error}", file=sys.stderr)
        return 1
    except RulegradError as error:
        print(f"rulegrad: {error}", file=sys.stderr)
        return 1
    return 0


def _give(trace: Trace, title: str, selection: Selection, options: argparse.Namespace) -> None:
    """Prints or writes the trace as it was asked for."""
    if options.timeline:
        trace.save_timeline(options.timeline)
    if options.html:
        trace.save(options.html, title, selection)
    if options.json:
        print(json.dumps(trace.data(title, selection)))
    elif not options.html:
        print(trace.text(title, selection, colored=sys.stdout.isatty() and not os.environ.get("NO_COLOR")))
