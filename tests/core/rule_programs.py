"""Rule texts as programs of the engine."""

from __future__ import annotations

import functools
import os
import textwrap

from rulegrad._core import Program
from rulegrad.ir import UOp
from rulegrad.lang import syntax
from rulegrad.lang.checker import check
from rulegrad.lang.compiler import compile_program
from rulegrad.lang.diagnostics import report
from rulegrad.lang.parser import parse_file
from rulegrad.support.paths import data_folder

#: By how much graphs for limits of size and depth are smaller under sanitizers, where frames are larger and all is slower.
SMALLER = 5 if "libasan" in os.environ.get("LD_PRELOAD", "") else 1


@functools.cache
def op_table() -> syntax.File:
    """The op table that the engine has installed."""
    path = data_folder("rules") / "ops" / "ops.rules"
    return parse_file(path.read_text(encoding="utf-8"), "ops.rules")


def compile_bytes(text: str, target: str | None = None, strict: bool = False, checked: bool = True) -> bytes:
    """The compiled program of a rule text, which may be indented; the checker must have nothing to say against it."""
    file = parse_file(textwrap.dedent(text), "test.rules")
    files = [op_table(), file]
    if checked:
        errors = [d for d in check(files) if d.is_error]
        assert not errors, report(errors)
    targets = {d.name: d for d in file.declarations if isinstance(d, syntax.Target)}
    return compile_program(files, targets[target] if target else None, strict)


def compile_rules(text: str, target: str | None = None, strict: bool = False, checked: bool = True) -> Program:
    return Program(compile_bytes(text, target, strict, checked))


def one_pass(rules: str, kind: str = "rewrite children_first", before: str = "") -> Program:
    """A program with the pass `p` of these rules."""
    body = textwrap.indent(textwrap.dedent(rules).strip("\n"), "    ")
    return compile_rules(f"{textwrap.dedent(before)}\npass p {kind}:\n{body}\n")


def rewritten(rules: str, root: UOp, kind: str = "rewrite children_first", before: str = "") -> UOp:
    """The result of the pass `p` of these rules."""
    return one_pass(rules, kind, before).rewrite("p", root)[0]


def const(value: object, dtype: str = "int32") -> UOp:
    return UOp.const(value, dtype)


def var(name: int, dtype: str = "int32", shape: tuple[int, ...] = ()) -> UOp:
    """A variable of any dtype but index."""
    return UOp("BUFFER", (), dtype, id=name, shape=shape)


def loop(number: int, extent: int, kind: str = "output") -> UOp:
    """A loop counter: an index variable from 0 to extent - 1."""
    return UOp("RANGE", (UOp.const(extent, "index"),), id=number, kind=kind)
