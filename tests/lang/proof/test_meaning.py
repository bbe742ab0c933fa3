"""The logic of each op agrees with its evaluator: both come from the `eval` line."""

from __future__ import annotations

import random

import numpy as np
import pytest

from rulegrad import engine
from rulegrad.interpreter.evaluators import evaluators
from rulegrad.ir.dtype import as_dtype
from rulegrad.lang.compiler import library_of
from rulegrad.lang.optable import OpTable
from rulegrad.lang.parser import parse_file
from rulegrad.support.paths import data_folder

z3 = pytest.importorskip("z3")

from rulegrad.workbench.proof.encoding import Encoding  # noqa: E402
from rulegrad.workbench.proof.meaning import Meaning  # noqa: E402
from rulegrad.workbench.proof.values import limits  # noqa: E402

TABLE = library_of(engine.loaded().sources.files).table
ENCODINGS = {"bit-vectors": Encoding(), "integers": Encoding(True), "words": Encoding(words=True)}
OPS = [op for op in TABLE.ops.values() if op.declaration.evaluator is not None and op.elementwise]
INTEGERS = ("bool", "int8", "uint8", "int32", "uint64", "index")


def cases(dtype: str, count: int, r: random.Random) -> list[int]:
    if dtype == "bool":
        return [r.random() < 0.5 for _ in range(count)]
    low, high = limits(dtype) if dtype != "index" else (-9, 9)
    ends = [v for v in (low, low + 1, high, high - 1, 0, 1, 2, 3, 7, 8, -1, -2) if low <= v <= high]
    return [r.choice(ends) for _ in range(count)]


def dtypes_of(op, dtype: str) -> list[str] | None:
    """The dtypes of an op's sources where its variable is this dtype; None where it takes none such."""
    declaration = op.declaration
    for parameter in declaration.parameters:
        bound = declaration.where.get(parameter.type or "")
        if bound is not None and dtype not in TABLE.resolve_dtypes(bound):
            return None
    return [p.type if p.type in TABLE.dtypes else dtype for p in declaration.parameters]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=ENCODINGS)
def test_ops_mean_what_their_evaluators_compute(encoding: Encoding, dtype: str) -> None:
    r, compared = random.Random(0), 0
    for op in OPS:
        sources = dtypes_of(op, dtype)
        if sources is None or op.explicit:
            continue
        result = op.declaration.result if op.declaration.result in TABLE.dtypes else dtype
        for _ in range(6):
            values = [cases(s, 1, r)[0] for s in sources]
            meaning = Meaning(TABLE, encoding)
            nodes = [meaning.constant(v, s) for v, s in zip(values, sources)]
            found = z3.simplify(meaning.node(op.name, nodes, result).term)
            if not (z3.is_int_value(found) or z3.is_bv_value(found) or z3.is_true(found) or z3.is_false(found)):
                continue  # nothing is known of the function in this encoding
            arrays = [np.asarray(v, as_dtype(s).numpy) for v, s in zip(values, sources)]
            wanted = evaluators().evaluate(op.name, result, arrays)[()]
            assert meaning.encoding.constant(wanted.item(), result).eq(found), (op.name, values)
            compared += 1
    assert compared > 20


@pytest.mark.parametrize("target", [d for d in INTEGERS if d != "index"])
@pytest.mark.parametrize("source", [d for d in INTEGERS if d != "index"])
def test_casts(source: str, target: str) -> None:
    r = random.Random(0)
    for value in cases(source, 10, r):
        meaning = Meaning(TABLE, Encoding())
        found = z3.simplify(meaning.node("CAST", [meaning.constant(value, source)], target).term)
        wanted = evaluators().evaluate("CAST", target, [np.asarray(value, as_dtype(source).numpy)])[()]
        assert meaning.encoding.constant(wanted.item(), target).eq(found), value


STEPS = """
op DISTANCE_OF(a: T, b: T) -> T where T: Int
    class Elementwise
    eval abs(a - b)
op CLAMPED_SUM(a: T, b: T) -> T where T: Int
    class Elementwise
    eval min(max(a + b, dtype_min()), dtype_max())
op HALF_OF_SUM(a: T, b: T) -> T where T: Int
    class Elementwise
    eval (a + b) // 2
op IN_ORDER(a: T, b: T) -> bool where T: Int
    class Elementwise
    eval not (a - b > 0) and bit_and(a + b, 256) == 0
op QUOTIENT_OF_SUM(a: T, b: T) -> T where T: Int
    class Elementwise
    eval (a + b) // b if b != 0 else 0
"""


@pytest.mark.parametrize(
    ("op", "dtype", "values", "wanted"),
    [
        ("DISTANCE_OF", "int8", (100, -100), -56),
        ("DISTANCE_OF", "uint8", (3, 200), 197),
        ("CLAMPED_SUM", "int8", (100, 100), 127),
        ("CLAMPED_SUM", "uint8", (3, 4), 7),
        ("HALF_OF_SUM", "int8", (127, 126), 126),
        ("HALF_OF_SUM", "int8", (-128, -1), -65),
        ("IN_ORDER", "uint8", (3, 200), True),
        ("IN_ORDER", "uint8", (200, 200), False),
        ("QUOTIENT_OF_SUM", "int8", (3, 4), None),
    ],
)
def test_lines_of_several_steps_are_exact_and_wrapped_once(op, dtype, values, wanted) -> None:
    """A value beyond the dtype on the way is kept; of a division by what may be 0 nothing is known (None)."""
    table_text = (data_folder("rules") / "ops" / "ops.rules").read_text(encoding="utf-8")
    files = [parse_file(table_text, "ops.rules"), parse_file(STEPS, "steps.rules")]
    table = OpTable.from_declarations([d for file in files for d in file.declarations])
    for integers in (False, True):
        meaning = Meaning(table, Encoding(integers))
        if integers and op == "IN_ORDER":  # bits of an Int have no meaning
            continue
        sources = [meaning.constant(value, dtype) for value in values]
        term = z3.simplify(meaning.node(op, sources, meaning.result_dtype(op, sources, dtype)).term)
        if wanted is None:
            assert z3.is_app(term) and term.num_args() == 2 and str(term.decl()) == f"{op} {dtype}"
        elif isinstance(wanted, bool):
            assert z3.is_true(term) is wanted
        else:
            is_signed = dtype == "int8"
            assert (term.as_signed_long() if z3.is_bv(term) and is_signed else term.as_long()) == wanted


MIXED = """
op MIXED_SUM(a: int8, b: int8, c: int32) -> int32
    class     Elementwise
    eval      a * b + c
op MIXED_MOST(a: int8, b: int32) -> int32
    class     Elementwise
    eval      max(a * a, b)
op MIXED_RESULT(a: int8, b: int8) -> int32
    class     Elementwise
    eval      a * b
"""


@pytest.mark.parametrize(
    ("op", "values", "wanted"),
    [
        ("MIXED_SUM", ((100, "int8"), (-100, "int8"), (5, "int32")), -9995),
        ("MIXED_MOST", ((100, "int8"), (0, "int32")), 10000),
        ("MIXED_RESULT", ((100, "int8"), (-100, "int8")), -10000),
    ],
)
def test_lines_on_several_dtypes_are_exact(op: str, values: tuple[tuple[int, str], ...], wanted: int) -> None:
    table_text = (data_folder("rules") / "ops" / "ops.rules").read_text(encoding="utf-8")
    files = [parse_file(table_text, "ops.rules"), parse_file(MIXED, "mixed.rules")]
    meaning = Meaning(OpTable.from_declarations([d for file in files for d in file.declarations]), Encoding(False))
    node = meaning.node(op, [meaning.constant(value, dtype) for value, dtype in values], "int32")
    assert z3.simplify(node.term).as_signed_long() == wanted
