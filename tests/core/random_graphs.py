"""Graphs at random, and what a graph of scalars means by the op table's evaluators."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st
from rule_programs import const, loop, var

from rulegrad import _core
from rulegrad.errors import GraphError
from rulegrad.ir import UOp

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = (*SIGNED, *UNSIGNED, "index")
FLOATS = ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2")
BINARY = ("ADD", "SUB", "MUL", "MAX", "MIN")
DIVISION = ("FLOORDIV", "FLOORMOD", "TRUNCDIV", "TRUNCMOD")
BITS = ("AND", "OR", "XOR")
COMPARISONS = ("CMPLT", "CMPLE", "CMPEQ", "CMPNE")


class Undefined(Exception):
    """An operation has no value on these operands: a negative shift, an index beyond 64 bits."""


def limits(dtype: str) -> tuple[int, int]:
    """Least and greatest value of an integer dtype or bool."""
    if dtype == "bool":
        return 0, 1
    bits = 63 if dtype == "index" else int(str(dtype).lstrip("uint")) - (dtype in SIGNED)
    return (0 if dtype in UNSIGNED else -(2**bits)), 2**bits - 1


def value_of(root: UOp, values: Mapping[UOp, Any]) -> Any:
    """The value of a graph of scalars; `values` are those of its variables. Raises Undefined."""
    known: dict[UOp, Any] = {}
    for node in root.toposort():
        if node in values:
            known[node] = values[node]
        elif node.op == "CONST":
            known[node] = node.attrs["value"]
        elif node.op != "RANGE":
            try:
                result = _core.evaluate(node.op, node.dtype, *(known[s] for s in node.src))
            except GraphError as error:  # an index beyond 64 bits
                raise Undefined(str(error)) from None
            if result is None:
                raise Undefined(node.describe())
            known[node] = result
    return known[root]


def same_value(a: Any, b: Any) -> bool:
    """Equal, or both nan; the sign of zero counts for floats."""
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    return type(a) is type(b) and a == b


def constants(dtype: str) -> st.SearchStrategy[UOp]:
    if dtype == "bool":
        return st.booleans().map(lambda v: const(v, dtype))
    if dtype in FLOATS:
        return st.floats().map(lambda v: const(v, dtype))
    low, high = limits(dtype)
    near = st.integers(max(low, -9), min(high, 20))
    return st.one_of(near, near, st.sampled_from([low, high, low + 1, high - 1]) if dtype != "index" else near).map(
        lambda v: const(v, dtype)
    )


@st.composite
def scalars(draw: st.DrawFn, dtype: str, depth: int = 3, divisions: bool = True) -> UOp:
    """A scalar expression over variables (loop counters, for index) and constants."""
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        if draw(st.booleans()):
            return draw(constants(dtype))
        number = draw(st.integers(0, 2))
        return loop(number, draw(st.sampled_from([1, 2, 5, 12, 100]))) if dtype == "index" else var(number, dtype)
    deeper = lambda d: scalars(d, depth - 1, divisions)  # noqa: E731
    if dtype == "bool":
        kind = draw(st.sampled_from(["compare", "logic", "not", "cast", "where"]))
        if kind == "compare":
            other = draw(st.sampled_from(["index", "int8", "uint8", "int32", "bool"]))
            return UOp(draw(st.sampled_from(COMPARISONS)), (draw(deeper(other)), draw(deeper(other))))
        if kind == "logic":
            return UOp(draw(st.sampled_from((*BITS, "MAX", "MIN"))), (draw(deeper(dtype)), draw(deeper(dtype))))
        if kind == "not":
            return ~draw(deeper(dtype))
        if kind == "cast":
            return UOp("CAST", (draw(deeper(draw(st.sampled_from(["index", "int8", "uint16"])))),), dtype)
    else:
        kind = draw(st.sampled_from(["binary", "binary", "binary", "unary", "where", "cast"]))
        if kind == "binary":
            ops = BINARY if dtype in FLOATS else (*BINARY, *BITS, *(DIVISION if divisions else ()))
            return UOp(draw(st.sampled_from(ops)), (draw(deeper(dtype)), draw(deeper(dtype))))
        if kind == "unary":
            ops = ("NEG", "ABS") if dtype in FLOATS else ("NEG", "ABS", "NOT")
            return UOp(draw(st.sampled_from(ops)), (draw(deeper(dtype)),))
        if kind == "cast" and dtype not in FLOATS:
            sources = [d for d in ("bool", "int8", "uint8", "int32", "int64", "index") if d != dtype]
            return UOp("CAST", (draw(deeper(draw(st.sampled_from(sources)))),), dtype)
    return UOp("WHERE", (draw(deeper("bool")), draw(deeper(dtype)), draw(deeper(dtype))))


def variables_of(root: UOp) -> list[UOp]:
    return [n for n in root.toposort() if n.op in ("RANGE", "BUFFER")]


@st.composite
def assignments(draw: st.DrawFn, root: UOp) -> dict[UOp, Any]:
    """Values of a graph's variables."""
    found: dict[UOp, Any] = {}
    for node in variables_of(root):
        if node.op == "RANGE":
            extent = node.src[0].attrs["value"]
            found[node] = draw(st.one_of(st.integers(0, extent - 1), st.sampled_from([0, extent - 1])))
        elif node.dtype in FLOATS:
            found[node] = const(draw(st.floats()), node.dtype).attrs["value"]
        else:
            low, high = limits(node.dtype)
            value = draw(
                st.one_of(
                    st.integers(low, high), st.integers(max(low, -20), min(high, 20)), st.sampled_from([low, high])
                )
            )
            found[node] = bool(value) if node.dtype == "bool" else value
    return found


TEXTS = st.text(max_size=6) | st.sampled_from(
    ['"', "\\", '"\\"', "a\nb", "\r", "\x00", "]:int32(%0)", "\u2028", "é", ", ", "'"]
)
SHAPES = st.lists(st.integers(0, 3), max_size=3).map(tuple)


@st.composite
def leaves(draw: st.DrawFn) -> UOp:
    dtype = draw(st.sampled_from(("bool", *INTEGERS, *FLOATS)))
    kind = draw(st.sampled_from(["const", "buffer", "param", "invalid"]))
    if kind == "const":
        return draw(constants(dtype))
    if kind == "invalid":
        return UOp("INVALID", (), dtype)
    if kind == "param":
        return UOp("PARAM", (), dtype, slot=draw(st.integers(-(2**100), 2**100)), shape=draw(SHAPES))
    texts = {"device": draw(TEXTS), "space": draw(TEXTS)}
    return UOp("BUFFER", (), dtype, id=draw(st.integers(-(2**70), 2**70)), shape=draw(SHAPES), **texts)


@st.composite
def graphs(draw: st.DrawFn) -> UOp:
    """A graph of anything: its nodes are valid, but it need not mean anything."""
    nodes = [draw(leaves()) for _ in range(draw(st.integers(1, 4)))]
    for _ in range(draw(st.integers(0, 8))):
        x = draw(st.sampled_from(nodes))
        kind = draw(
            st.sampled_from(
                ["materialize", "copy", "cast", "reduce", "sink", "after", "flip", "index", "load", "twice"]
            )
        )
        if x.dtype == "void" and kind not in ("sink", "after"):
            continue
        if kind == "materialize":
            nodes.append(UOp("MATERIALIZE", (x,)))
        elif kind == "copy":
            nodes.append(UOp("COPY", (x,), device=draw(TEXTS)))
        elif kind == "cast":
            nodes.append(UOp("CAST", (x,), draw(st.sampled_from(("bool", *INTEGERS, *FLOATS)))))
        elif kind == "reduce":
            op = draw(st.sampled_from(["ADD", "MUL", "MAX", "MIN"]))
            nodes.append(UOp("REDUCE", (x,), op=op, axes=tuple(range(draw(st.integers(0, len(x.shape)))))))
        elif kind in ("sink", "after"):
            others = tuple(draw(st.lists(st.sampled_from(nodes), max_size=3)))
            nodes.append(UOp("SINK", (x, *others)) if kind == "sink" else UOp("AFTER", (x, *others)))
        elif kind == "flip":
            nodes.append(UOp("FLIP", (x,), axes=tuple(range(len(x.shape)))))
        elif kind == "index":
            nodes.append(UOp("INDEX", (x, *(loop(k, 3) for k in range(len(x.shape))))))
        elif kind == "load":
            nodes.append(UOp("LOAD", (x,)))
        else:
            nodes.append(UOp("MAX", (x, x)))
    return nodes[-1]
