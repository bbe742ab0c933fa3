"""The logic of each op agrees with its evaluator: both come from the `eval` line."""

from __future__ import annotations

import random

import numpy as np
import pytest

from rulegrad import engine
from rulegrad.interpreter.evaluators import evaluators
from rulegrad.ir.dtype import as_dtype
from rulegrad.lang.compiler import library_of

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
