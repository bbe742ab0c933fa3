"""The description of a word for hover, as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from rulegrad.lang.builtins import BUILTINS
from rulegrad.lang.diagnostics import location
from rulegrad.lang.optable import INFIX_OPS, PREFIX_OPS, Op, OpTable
from rulegrad.workbench.editing.lookup import Word, meanings
from rulegrad.workbench.editing.project import Project
from rulegrad.workbench.editing.symbols import Symbol

_MOST_LINES = 16  # of a declaration's text
_FIELDS = {
    "bits": "size in bits",
    "mantissa": "digits of the mantissa, without the hidden one",
    "exponent": "bits of the exponent",
    "bias": "bias of the exponent",
    "min": "least value",
    "max": "greatest value",
}


def describe(project: Project, name: str, word: Word) -> str:
    """The description of a word of the file called `name`; empty when nothing is known about it."""
    found = meanings(project, name, word)
    table = OpTable.from_declarations([d for file in project.files() for d in file.declarations])
    if found:
        return "\n\n---\n\n".join(_described(symbol, table) for symbol in found)
    if word.before.endswith(".") and word.text in _FIELDS:
        return f"`T.{word.text}`: {_FIELDS[word.text]} of a dtype"
    if word.text in BUILTINS and word.after.lstrip().startswith(("(", "[") if word.text == "fold" else "("):
        return _code(BUILTINS[word.text].signature) + f"\n\nbuilt in: {BUILTINS[word.text].doc}"
    return ""


def _described(symbol: Symbol, table: OpTable) -> str:
    parts = [_code(_cut(symbol.text)), symbol.comment]
    if symbol.kind == "op" and symbol.name in table.ops:
        parts.append(_of_op(table.ops[symbol.name], table))
    elif symbol.kind == "class":
        members = table.op_classes.get(symbol.name) or table.dtype_classes.get(symbol.name) or ()
        parts.append(f"members: {_names(_ordered(members, table))}")
    elif symbol.children:
        parts.append(f"{len(symbol.children)} {'rule' if len(symbol.children) == 1 else 'rules'}")
    named = f"{symbol.owner}.{symbol.name}" if symbol.owner else symbol.name
    parts.append(f"*{symbol.kind} {named}, {location(symbol.span)}*")
    return "\n\n".join(part for part in parts if part)


def _of_op(op: Op, table: OpTable) -> str:
    """Its doc, how it is written, the dtypes of its variables, and its attributes."""
    declaration = op.declaration
    written = [sign for sign, of in (*INFIX_OPS.items(), *PREFIX_OPS.items()) if of == op.name]
    lines = [declaration.doc] if declaration.doc else []
    if written:
        lines.append(f"- written `{written[0]}`")
    for variable, name in declaration.where.items():
        dtypes = table.dtype_classes.get(name, frozenset((name,)))
        lines.append(f"- {variable}: {name}, that is {_names(_ordered(dtypes, table))}")
    if not declaration.where and declaration.result == "explicit":
        lines.append("- its dtype is given when it is built: in brackets, `dtype=T`, or by the place")
    classes = [name for name, ops in table.op_classes.items() if op.name in ops]
    if classes:
        lines.append(f"- in the classes {_names(sorted(classes))}")
    return "\n".join(lines)


def _ordered(members: Sequence[str] | frozenset[str], table: OpTable) -> list[str]:
    """Members of a class in the order of their declarations."""
    known = [*table.ops, *table.dtypes]
    return sorted(members, key=lambda name: known.index(name) if name in known else -1)


def _names(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"


def _cut(text: str) -> str:
    lines = text.split("\n")
    return "\n".join([*lines[:_MOST_LINES], "…"] if len(lines) > _MOST_LINES else lines)


def _code(text: str) -> str:
    return f"```rulegrad\n{text}\n```"
