"""The text form: str(node) parses back to the same node, and other text is an error with its line."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from random_graphs import TEXTS, graphs, scalars
from rule_programs import const, var

from rulegrad.errors import GraphError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import ALL


def buffer(device: str) -> UOp:
    return UOp("BUFFER", (), "float32", id=0, shape=(), device=device)


@given(graphs())
def test_round_trip_of_graphs(root: UOp) -> None:
    assert UOp.parse(str(root)) == root


@given(st.sampled_from(["int32", "index", "bool", "float64"]).flatmap(scalars))
def test_round_trip_of_scalars(root: UOp) -> None:
    assert UOp.parse(str(root)) == root


@given(st.floats(), st.sampled_from(["float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"]))
@example(-0.0, "float32")
@example(5e-324, "float64")
@example(-math.inf, "float32")
@example(math.nan, "float64")
def test_round_trip_of_floats(value: float, dtype: str) -> None:
    assert UOp.parse(str(const(value, dtype))) == const(value, dtype)


@pytest.mark.parametrize("dtype", ["uint64", "int64", "index"])
@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), 2**64 - 1, 0, -1])
def test_round_trip_of_integers(value: int, dtype: str) -> None:
    if dtype == "index" and value >= 2**63:
        return
    assert UOp.parse(str(const(value, dtype))) == const(value, dtype)


@given(st.text() | TEXTS)
@example('a"b\\c\n\r\t\x00\x7f\u2028\x85\x1c')
@example("]:int32(%0)\n%0 = CONST[value=1]:int32()")
@example("é€😀")
def test_round_trip_of_strings(text: str) -> None:
    node = buffer(text)
    assert node.attrs["device"] == text
    assert UOp.parse(str(node)) == node and str(node).count("\n") == 0


def test_what_it_looks_like() -> None:
    node = UOp("REDUCE", (var(0, "float32", (2, 3)) * 0.5,), op="ADD", axes=(1,))
    assert str(node).split("\n") == [
        '%0 = BUFFER[id=0, shape=(2, 3), device="", space="global", mesh=(), placement=()]:float32()',
        "%1 = CONST[value=0.5]:float32()",
        "%2 = MUL:float32(%0, %1)",
        "%3 = REDUCE[op=ADD, axes=(1,)]:float32(%2)",
    ]


def test_what_parsing_admits() -> None:
    text = ["\n\n  %a = CONST[value=1]:int32()  \r\n", "=no"][0]
    assert UOp.parse(text) == const(1)
    assert UOp.parse("%x = CONST[value=3]:int32()\n%y = ADD:int32(%x,%x)") == const(3) + const(3)
    assert UOp.parse("%x = CONST[value=1e3]:float32()") == const(1000.0, "float32")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the text has no node"),
        ("%0 = CONST[value=1]:int32()\nhello", "line 2: expected .* found 'hello'"),
        ("%0 = ADD:int32(%1, %2)", "line 1: %1 is not defined above"),
        ("%0 = CONST[value=1]:int32()\n\n%1 = NOPE:int32(%0)", "line 3: there is no op called NOPE"),
        ("%0 = CONST[value=1]:int31()", "line 1: there is no dtype called int31"),
        ("%0 = CONST[value=1]:int32()\n%1 = NEG:int64(%0)", "line 2: NEG: has dtype int32, not int64"),
        ("%0 = CONST[value=]:int32()", "line 1"),
        ("%0 = CONST[value=(1]:int32()", "line 1"),
        ("%0 = CONST[value=f(1)]:int32()", "line 1"),
        ("%0 = CONST[value=1, value=2]:int32()", "line 1: the attribute value is given twice"),
        ("%0 = CONST[value]:int32()", "line 1: expected `attribute=value`"),
        ("%0 = CONST[value=one]:int32()", "line 1"),
        ('%0 = CONST[value="]:int32()', "line 1"),
        ("%0 = CONST[value=1+2]:int32()", "line 1"),
        ("%0 = CONST[value=" + "(" * 5000 + "]:int32()", "line 1"),
        ("%0 = CONST[value=" + "9" * 5000 + "]:int32()", "line 1"),
        ("%0 = BUFFER[id=0, shape=(), size=1]:int32()", "line 1: BUFFER has no attribute size"),
        ("%0 = CONST[value=1]:int32()\n%0 = CONST[value=2]:int32()", "line 2: %0 is defined twice"),
        ("%0 = CONST[value=1]:int32()\n%1 = ADD:int32(%0, 0)", "line 2: expected .* a source is written `%name`"),
    ],
)
def test_wrong_texts(text: str, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        UOp.parse(text)


@given(st.text() | graphs().map(str), st.data())
def test_damaged_texts_never_crash(text: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(text)))
    length = data.draw(st.integers(0, 3))
    damaged = text[:place] + data.draw(st.text(max_size=3)) + text[place + length :]
    try:
        node = UOp.parse(damaged)
    except GraphError as error:
        assert "line " in str(error) or "no node" in str(error)
    else:
        assert UOp.parse(str(node)) == node


# Attributes of types that no op of ours has; an op table can be installed once, so this is a process of its own.
ALL_TYPES = """
op TESTFLOATS[factor: float, exact: bool = false](x: T) -> T
    shape shape(x)
    doc   "test"
op TESTNAMES[kind: dtype = float16, what: op = ADD, notes: tuple = ()](x: T) -> T
    shape shape(x)
    doc   "test"
"""
PROGRAM = """
import sys
from rulegrad import engine
from rulegrad.engine import sources
from pathlib import Path
sources.loaded_files.append(Path(sys.argv[1]))
from hypothesis import given, settings, strategies as st
from rulegrad.errors import GraphError
from rulegrad.ir import UOp

one = UOp.const(1, "int32")
plain = st.integers(-2**90, 2**90) | st.floats() | st.booleans() | st.text()
notes = st.recursive(st.lists(plain, max_size=3).map(tuple), lambda s: st.lists(plain | s, max_size=3).map(tuple), max_leaves=8)
dtypes, ops = st.sampled_from(["float32", "bool", "index", "float8_e5m2"]), st.sampled_from(["ADD", "MUL", "CONST"])

@settings(max_examples=150, deadline=None, database=None)
@given(st.floats() | st.integers(-9, 9), st.booleans(), dtypes, ops, notes)
def round_trip(factor, exact, kind, what, notes):
    scaled = UOp("TESTFLOATS", (one,), factor=factor, exact=exact)
    assert UOp.parse(str(scaled)) == scaled, str(scaled)
    assert isinstance(scaled.attrs["factor"], float) and scaled.replace(factor=factor) == scaled
    tagged = UOp("TESTNAMES", (scaled,), kind=kind, what=what, notes=notes)
    assert UOp.parse(str(tagged)) == tagged, str(tagged)
    attributes = {**tagged.attrs, "kind": str(tagged.attrs["kind"])}
    assert repr(attributes) == repr({"kind": kind, "what": what, "notes": notes}), tagged

round_trip()
assert UOp("TESTFLOATS", (one,), factor=1) == UOp("TESTFLOATS", (one,), factor=1.0)
for wrong in [{"factor": "1"}, {"factor": True}, {"factor": 1.0, "exact": 1}]:
    try:
        UOp("TESTFLOATS", (one,), **wrong)
    except GraphError:
        continue
    raise AssertionError(wrong)
deep = ()
for _ in range(40):
    deep = (deep,)
for wrong in [{"kind": "ADD"}, {"what": "float32"}, {"notes": 1}, {"notes": (one,)}, {"notes": (None,)}, {"notes": deep}, {"notes": ((one,),)}]:
    try:
        UOp("TESTNAMES", (one,), **wrong)
    except GraphError:
        continue
    raise AssertionError(wrong)
print("done")
"""


def test_every_type_of_attribute(tmp_path: object) -> None:
    from pathlib import Path

    rules = Path(str(tmp_path)) / "more.rules"
    rules.write_text(ALL_TYPES, encoding="utf-8")
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(rules)], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "done", done.stderr[-3000:]


def test_every_dtype_has_a_text() -> None:
    for dtype in (*ALL, "index"):
        assert UOp.parse(str(var(3, dtype) if dtype != "index" else const(1, dtype))).dtype == dtype
