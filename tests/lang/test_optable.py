"""The op table and the list of built-in functions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rulegrad.lang.builtins import BUILTINS, RULE
from rulegrad.lang.optable import INFIX_OPS, PREFIX_OPS, SWAPPED_OPS, OpTable
from rulegrad.lang.parser import parse_file

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def table() -> OpTable:
    file = parse_file((ROOT / "rules" / "ops" / "ops.rules").read_text(encoding="utf-8"), "ops.rules")
    return OpTable.from_declarations(file.declarations)


def test_order_is_that_of_the_declarations(table: OpTable) -> None:
    assert [op.number for op in table.ops.values()] == list(range(len(table.ops)))
    assert next(iter(table.ops)) == "CONST"
    assert table.declared_order({"MUL", "CONST", "float32"}) == ["CONST", "MUL", "float32"]


def test_classes(table: OpTable) -> None:
    assert table.op_classes["Comparison"] == {"CMPLT", "CMPLE", "CMPEQ", "CMPNE"}
    assert table.dtype_classes["Int"] >= {"int8", "uint64", "index"}
    assert table.resolve_ops("ADD") == {"ADD"}
    assert table.resolve_ops("Nothing") is None
    assert table.resolve_dtypes("bool") == {"bool"}
    assert table.resolve_generic(("ADD", "Comparison")) == ("op", {"ADD"} | table.op_classes["Comparison"])
    assert table.resolve_generic(("float16", "Float8")) == ("dtype", {"float16"} | table.dtype_classes["Float8"])
    assert table.resolve_generic(()) == ("dtype", set(table.dtypes))


@pytest.mark.parametrize(
    ("name", "minimum", "maximum", "described"),
    [
        ("CONST", 0, 0, "0 sources"),
        ("SQRT", 1, 1, "1 source"),
        ("WHERE", 3, 3, "3 sources"),
        ("LOAD", 1, 3, "1 to 3 sources"),
        ("REDUCE", 1, None, "at least 1 source"),
        ("SINK", 0, None, "any number of sources"),
    ],
)
def test_sources(table: OpTable, name: str, minimum: int, maximum: int | None, described: str) -> None:
    op = table.ops[name]
    assert (op.minimum, op.maximum, op.describe_sources()) == (minimum, maximum, described)
    assert op.takes(minimum) and not op.takes(minimum - 1)


def test_flags(table: OpTable) -> None:
    assert table.ops["ADD"].commutative and table.ops["ADD"].associative and table.ops["ADD"].elementwise
    assert table.ops["MAX"].idempotent and not table.ops["SUB"].commutative
    assert table.ops["CAST"].explicit and not table.ops["ADD"].explicit
    assert table.by_function_name["where"] == "WHERE"


def test_operators_name_ops(table: OpTable) -> None:
    assert {*INFIX_OPS.values(), *SWAPPED_OPS.values(), *PREFIX_OPS.values()} <= table.ops.keys()


def test_classes_of_classes_and_of_ops() -> None:
    text = """
class Outer = Inner + int8
class Inner = Outer + int16 + nothing
class Steps = Unary + MUL
dtype int8: kind int, bits 8
dtype int16: kind int, bits 16
op NEG(a: T) -> T
    class Unary
op MUL(a: T, b: T) -> T
op MUL(a: T) -> T
"""
    table = OpTable.from_declarations(parse_file(text, "t.rules").declarations)
    assert table.dtype_classes == {"Outer": {"int8", "int16"}, "Inner": {"int8", "int16"}}
    assert table.op_classes == {"Unary": {"NEG"}, "Steps": {"NEG", "MUL"}, "Op": {"NEG", "MUL"}}
    assert table.ops["MUL"].minimum == 2


def test_builtins_are_described() -> None:
    for name, builtin in BUILTINS.items():
        assert builtin.signature.startswith((f"{name}(", f"{name}[")) and builtin.doc
        assert builtin.maximum is None or builtin.minimum <= builtin.maximum


def test_builtins_of_rules_are_documented() -> None:
    text = (ROOT / "docs" / "language.md").read_text(encoding="utf-8")
    section = text.split("**Closed list of built-in functions**")[1].split("\n## ")[0].split("\n### ")[0]
    documented = set[str]()
    for cell in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE):
        for code in re.findall(r"`([^`]*)`", cell):
            documented |= set(re.findall(r"[a-z_0-9]+", re.sub(r"\([^)]*\)|\[[^]]*\]", " ", code)))
    own = {"sum", "prod", "all_of", "rewritten", "given", "must"}  # in paragraphs of their own
    render = {"type", "literal"}
    rules = {name for name, builtin in BUILTINS.items() if RULE in builtin.scopes}
    assert rules - own <= documented
    assert documented - render <= rules
