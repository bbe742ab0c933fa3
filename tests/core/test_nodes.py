"""Nodes: equal nodes are one node, wrong nodes are refused, and nobody keeps what nobody holds."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_graphs import graphs
from rule_programs import SMALLER, const, loop, var

from rulegrad import _core
from rulegrad.errors import GraphError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import ALL


def settled() -> int:
    """Number of live nodes once the garbage of earlier tests is gone."""
    gc.collect()
    return _core.live_nodes()


COMMUTATIVE = ("ADD", "MUL", "MAX", "MIN", "AND", "OR", "XOR", "CMPEQ", "CMPNE")


# ---- identity ----


def test_equal_nodes_are_one_node() -> None:
    a, b = var(0) + var(1), var(0) + var(1)
    assert a == b and hash(a) == hash(b) and a.key == b.key
    assert not a != b
    assert len({a, b, var(0)}) == 2


@pytest.mark.parametrize(
    "other",
    [
        var(1) + var(0),
        var(0) - var(1),
        var(0, "int64") + var(1, "int64"),
        var(0) + var(2),
        UOp("BUFFER", (), "int32", id=0, shape=(), device="x") + var(1),
    ],
)
def test_any_difference_is_another_node(other: UOp) -> None:
    node = var(0) + var(1)
    assert node != other and node.key != other.key


def test_a_node_equals_nothing_else() -> None:
    node = const(1)
    assert (node == 1) is False and (node != 1) is True and (node == None) is False  # noqa: E711


def test_values_of_one_kind_only_are_equal() -> None:
    assert const(1, "int32") != const(1, "int64")
    assert const(0.0, "float32") != const(-0.0, "float32")
    assert const(True, "bool") == const(5, "bool")
    assert const(float("nan"), "float64") == const(-np.float64("nan"), "float64")
    assert const(2**32 + 7, "int32") == const(7, "int32")
    assert const(1, "float32") == const(1.0, "float32")


@pytest.mark.parametrize("op", COMMUTATIVE)
def test_a_commutative_node_keeps_its_constant_last(op: str) -> None:
    dtype = "int32"
    node = UOp(op, (const(3, dtype), var(0, dtype)))
    assert node.src == (var(0, dtype), const(3, dtype))
    assert node == UOp(op, (var(0, dtype), const(3, dtype)))
    assert UOp(op, (const(4), const(3))) != UOp(op, (const(3), const(4)))  # two constants stay as they are


@pytest.mark.parametrize("op", ["SUB", "FLOORDIV", "FLOORMOD", "SHL", "CMPLT", "CMPLE"])
def test_other_nodes_keep_their_order(op: str) -> None:
    assert UOp(op, (const(3), var(0))).src == (const(3), var(0))


def test_a_replaced_source_can_move() -> None:
    node = var(0) + var(1)
    assert node.replace(src=(const(1), var(1))) == var(1) + 1


def test_handles_are_immutable() -> None:
    node = const(1)
    with pytest.raises(AttributeError):
        node.op = "ADD"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        node.colour = 1  # type: ignore[attr-defined]


# ---- what is refused ----


def buffer(**attributes: Any) -> UOp:
    return UOp("BUFFER", (), "float32", **{"id": 0, "shape": (2,), **attributes})


class Broken:
    def __index__(self) -> int:
        raise ZeroDivisionError


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "op name": (lambda: UOp("ADDD", ()), "there is no op called ADDD"),
    "op type": (lambda: UOp(3), "an op must be given by name"),  # type: ignore[arg-type]
    "no op": (lambda: UOp(), r"UOp\(op, src"),  # type: ignore[call-arg]
    "dtype name": (lambda: UOp.const(1, "int33"), "no dtype called int33"),
    "dtype type": (lambda: UOp.const(1, 32), "a dtype must be given by name"),  # type: ignore[arg-type]
    "dtype missing": (lambda: UOp("CAST", (const(1),)), "CAST: its dtype must be given"),
    "dtype given twice": (lambda: UOp("ADD", (const(1), const(2)), "int64"), "ADD: has dtype int32, not int64"),
    "too few sources": (lambda: UOp("ADD", (const(1),)), "ADD: expected 2 sources, got 1"),
    "too many sources": (lambda: UOp("NEG", (const(1), const(1))), "NEG: expected 1 sources, got 2"),
    "optional sources": (lambda: UOp("LOAD", (const(1),) * 4), "LOAD: expected 1 to 3 sources, got 4"),
    "variadic sources": (lambda: UOp("INDEX", ()), "INDEX: expected at least 1 sources, got 0"),
    "not a node": (lambda: UOp("ADD", (const(1), 2)), "ADD: source 1 is not a UOp"),  # type: ignore[arg-type]
    "no sequence": (lambda: UOp("ADD", 5), "the sources must be a tuple"),  # type: ignore[arg-type]
    "mixed dtypes": (lambda: const(1) + const(1, "int64"), "different dtypes, int32 and int64"),
    "wrong class": (lambda: UOp("SQRT", (const(1),)), "source a has dtype int32, expected one of float8"),
    "void constant": (lambda: UOp.const(1, "void"), "a constant cannot have dtype void"),
    "text constant": (lambda: UOp.const("1", "int32"), "must be a number or a bool"),
    "huge constant": (lambda: UOp.const(10**5000, "int32"), "does not fit in 128 bits"),
    "large constant": (lambda: UOp.const(2**127, "int32"), "does not fit in 128 bits"),
    "index constant": (lambda: UOp.const(2**63, "index"), "does not fit in 64 bits"),
    "array": (lambda: const(1) + np.array([1, 2]), "an attribute must be an int"),
    "complex": (lambda: UOp.const(1j, "float32"), "an attribute must be an int"),
    "broken number": (lambda: UOp.const(Broken(), "int32"), "an attribute must be an int"),
    "attribute missing": (lambda: UOp("BUFFER", (), "float32", id=0), "attribute shape is missing"),
    "attribute unknown": (lambda: buffer(size=3), "BUFFER has no attribute size"),
    "attribute of none": (lambda: UOp("ADD", (const(1), const(1)), size=3), "ADD has no attribute size"),
    "int": (lambda: buffer(id="x"), 'attribute id must be an int, not "x"'),
    "bool as int": (lambda: buffer(id=True), "attribute id must be an int, not true"),
    "node as int": (lambda: buffer(id=const(1)), "attribute id must be an int"),
    "str": (lambda: buffer(device=3), "attribute device must be a str, not 3"),
    "ints": (lambda: buffer(shape=(2.5,)), "attribute shape must be a tuple of ints"),
    "nested ints": (lambda: buffer(shape=((2,),)), "attribute shape must be a tuple of ints"),
    "large ints": (lambda: buffer(shape=(2**64,)), "attribute shape must be a tuple of ints"),
    "op attribute": (lambda: UOp("REDUCE", (var(0),), op="PLUS"), "there is no op called PLUS"),
    "lone surrogate": (lambda: buffer(device="\ud800"), "must be given by name"),
    "negative size": (lambda: buffer(shape=(-1,)), "its shape cannot be computed"),
    "shapes differ": (lambda: var(0, shape=(2,)) + var(1, shape=(3,)), r"source shapes \(2,\) and \(3,\) differ"),
    "reshape": (lambda: UOp("RESHAPE", (buffer(),), shape=(3,)), r"keep the number of elements; source shapes: \(2,\)"),
    "reshape overflow": (lambda: UOp("RESHAPE", (buffer(),), shape=(2**62,) * 3), "overflow"),
    "permute": (lambda: UOp("PERMUTE", (buffer(),), order=(1,)), "the order must name every axis once"),
    "expand": (lambda: UOp("EXPAND", (buffer(),), shape=(4,)), "only axes of size 1"),
    "pad": (lambda: UOp("PAD", (buffer(),), before=(-1,), after=(0,)), "one padding, not negative"),
    "shrink": (lambda: UOp("SHRINK", (buffer(),), begin=(0,), end=(3,)), "must lie within the axis"),
    "flip": (lambda: UOp("FLIP", (buffer(),), axes=(1,)), "no such axis"),
    "bitcast": (lambda: UOp("BITCAST", (const(1),), "int64"), "different sizes"),
    "replaced sources": (lambda: (var(0) + 1).replace(src=(var(0),)), "expected 2 sources"),
    "replaced by no node": (lambda: (var(0) + 1).replace(src=(1, 2)), "source 0 is not a UOp"),  # type: ignore[arg-type]
    "replaced attribute": (lambda: buffer().replace(size=1), "BUFFER has no attribute size"),
    "level": (lambda: _core.verify(const(1), "nowhere"), "there is no IR level called nowhere"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_nodes_are_refused(case: str) -> None:
    build, message = WRONG[case]
    before = settled()
    with pytest.raises(GraphError, match=message):
        build()
    gc.collect()
    assert _core.live_nodes() <= before  # nothing of what was half built stays


def test_a_graph_error_is_a_value_error() -> None:
    with pytest.raises(ValueError):
        UOp("NOPE")


def test_numbers_of_other_libraries() -> None:
    assert UOp.const(np.int64(3), "int32") == const(3)
    assert UOp.const(np.float32(0.5), "float32") == const(0.5, "float32")
    assert buffer(shape=[np.int32(2)]) == buffer()
    assert var(0) + np.int8(1) == var(0) + 1


# ---- what a handle says ----


def test_what_a_node_is_made_of() -> None:
    node = UOp("REDUCE", (var(0, "float32", (2, 3)),), op="MAX", axes=(1,))
    assert (node.op, node.dtype, node.shape) == ("REDUCE", "float32", (2, 1))
    assert node.attrs == {"op": "MAX", "axes": (1,)} and node.src == (var(0, "float32", (2, 3)),)
    assert node.replace(axes=(0, 1)).shape == (1, 1)
    assert repr(const(1)) == "<UOp CONST[value=1]:int32>"
    assert node.describe() == "REDUCE[op=MAX, axes=(1,)]:float32"


def test_default_attributes() -> None:
    attributes = {"id": 0, "shape": (2,), "device": "", "space": "global", "mesh": (), "placement": ()}
    assert buffer().attrs == attributes
    assert buffer() == buffer(device="", space="global")


def test_operators_build_nodes() -> None:
    x, y = var(0), var(1)
    built = [x + y, x - y, x * y, x // y, x % y, x & y, x | y, x ^ y, x << y, x >> y, x**y, x < y, x <= y, -x, ~x]
    assert " ".join(n.op for n in built) == ("ADD SUB MUL FLOORDIV FLOORMOD AND OR XOR SHL SHR POW CMPLT CMPLE NEG NOT")
    assert (x > y) == (y < x) and (x >= y) == (y <= x)
    assert (1 - x).src == (const(1), x) and (x / 2 if x.dtype == "float32" else 2**x).src[0] == const(2)
    assert (var(0, "float32") / 2).op == "DIV"


def test_toposort_is_sources_first_and_each_once() -> None:
    x = var(0)
    y = x + 1
    root = (y * y) - (x + 1)
    order = root.toposort()
    assert order[-1] == root and len(order) == len(set(order)) == root.count_nodes() == 5
    for place, node in enumerate(order):
        assert all(source in order[:place] for source in node.src)


@given(graphs())
def test_keys_tell_nodes_apart(root: UOp) -> None:
    nodes = root.toposort()
    assert len({n.key for n in nodes}) == len(set(nodes)) == len(nodes)


def test_keys_are_the_same_in_every_process() -> None:
    code = """
from rulegrad.ir import UOp
x = UOp("BUFFER", (), "float32", id=1, shape=(2, 3), device="a")
y = UOp("REDUCE", (x * 2 + x,), op="ADD", axes=(1,))
print(y.key, hash(y), [n.describe() for n in y.toposort()])
"""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], env={**__import__("os").environ, "PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("0", "1", "random")
    }  # fmt: skip
    assert len(outputs) == 1


# ---- lifetime ----


def test_nodes_are_freed_when_nobody_holds_them() -> None:
    base = settled()
    x = var(98765)
    kept = x + 4321
    others = [x * k + 77777 for k in range(3, 50)]
    assert _core.live_nodes() > base + 40
    del others
    assert _core.live_nodes() == base + 3  # the variable, the constant, the sum
    del x
    assert _core.live_nodes() == base + 3 and kept.src[0] == var(98765)
    del kept
    assert _core.live_nodes() == base


def test_facts_hold_no_nodes() -> None:
    base = settled()
    node = loop(7, 1234) * 5 + loop(8, 321)
    assert (node.vmin, node.vmax, node.shape, len(node.ranges)) == (0, 1233 * 5 + 320, (), 2)
    del node
    assert _core.live_nodes() == base


def test_an_iterator_of_sources() -> None:
    node = (var(0) + var(1)).replace(src=(var(k) for k in (10, 11)))
    gc.collect()
    assert node == var(10) + var(11)
    assert UOp("ADD", (var(k) for k in (10, 11))) == node
    assert UOp("ADD", [var(10), var(11)]) == node


def test_a_million_nodes() -> None:
    base = settled()
    node = x = var(0)
    depth = 500_000 // SMALLER
    for _ in range(depth):
        node = -node + x
    assert node.count_nodes() == 2 * depth + 1
    assert node.shape == () and node.vmin is not None and len(node.ranges) == 0
    assert len(node.toposort()) == 2 * depth + 1
    del node, x
    assert _core.live_nodes() == base


def test_a_deep_graph_of_loops_has_its_facts() -> None:
    node = first = loop(0, 3)
    for _ in range(100_000):
        node = node + 1
    assert (node.vmin, node.vmax, node.ranges) == (100_000, 100_002, [first])


def test_threads_make_the_same_nodes() -> None:
    made: list[list[UOp]] = [[] for _ in range(8)]
    start = threading.Barrier(8)

    def work(place: int) -> None:
        start.wait()
        for k in range(2_000):
            node = (var(k % 50) + k) * (var(k % 7) - 3)
            made[place].append(node)
            if k % 3 == 0:
                made[place].pop()  # frees it, unless another thread has it

    base = settled()
    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(nodes == made[0] for nodes in made)
    made.clear()
    gc.collect()
    assert _core.live_nodes() == base


# ---- validity at an IR level ----


def test_verify() -> None:
    tensor = UOp("RESHAPE", (var(0, shape=(4,)),), shape=(2, 2))
    assert _core.verify(tensor, "tensor") == ""
    assert "RESHAPE" in _core.verify(tensor, "kernel") and "may not stand here" in _core.verify(tensor, "program")
    load = UOp("LOAD", (var(0),))
    assert _core.verify(load, "kernel") == "" and "LOAD" in _core.verify(load, "tensor")


@given(st.sampled_from([*(d for d in ALL if not d.is_complex), "index"]), st.integers(-(2**64), 2**65))
def test_constants_are_stored_as_their_dtype_stores_them(dtype: str, value: int) -> None:
    if dtype == "index" and not -(2**63) <= value < 2**63:
        with pytest.raises(GraphError):
            const(value, dtype)
        return
    node = const(value, dtype)
    assert node.attrs["value"] == node.replace().attrs["value"] or node.attrs["value"] != node.attrs["value"]
    assert const(node.attrs["value"], dtype) == node


def test_the_nodes_below_by_op_and_their_dtypes() -> None:
    x, y = var(0), var(1)
    graph = UOp("SINK", ((x + y) * x,))
    assert graph.toposort() == [x, y, x + y, (x + y) * x, graph]
    assert graph.toposort("MUL", "ADD") == [x + y, (x + y) * x]
    assert graph.toposort("REDUCE") == graph.toposort("NO_SUCH_OP") == []
    assert {str(dtype) for dtype in graph.dtypes()} == {str(x.dtype), "void"}
