"""Facts of a node: its shape, the interval of its values, the loops it is in."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from random_graphs import INTEGERS, Undefined, assignments, limits, scalars, value_of
from rule_programs import const, loop, var

from rulegrad import _core, rewrite
from rulegrad.errors import GraphError
from rulegrad.ir import UOp

# ---- intervals ----


def check_interval(root: UOp, value: Any) -> None:
    low, high = root.vmin, root.vmax
    assert low is None or low <= value, f"{value} is below {low}:\n{root}"
    assert high is None or value <= high, f"{value} is above {high}:\n{root}"


@settings(max_examples=60)
@pytest.mark.parametrize("dtype", [*INTEGERS, "bool"])
@given(st.data())
def test_every_value_lies_in_the_interval(dtype: str, data: st.DataObject) -> None:
    root = data.draw(scalars(dtype))
    for _ in range(4):
        values = data.draw(assignments(root))
        try:
            check_interval(root, value_of(root, values))
        except Undefined:
            continue


BINARY = ("ADD", "SUB", "MUL", "MAX", "MIN", "AND", "OR", "XOR", "FLOORDIV", "FLOORMOD", "TRUNCDIV", "TRUNCMOD", "SHR")
COMPARISONS = ("CMPLT", "CMPLE", "CMPEQ", "CMPNE")


def interval_variable(number: int, low: int, high: int) -> UOp:
    return loop(number, high - low + 1) + low


@pytest.mark.parametrize("op", [*BINARY, *COMPARISONS])
def test_intervals_of_all_small_operands(op: str) -> None:
    """Every pair of intervals within -3 .. 3: no value is outside, and what is said is not empty."""
    bounds = [(low, high) for low in range(-3, 4) for high in range(low, 4)]
    results = {}
    for a, b in itertools.product(range(-3, 4), repeat=2):
        results[a, b] = _core.evaluate(op, "bool" if op in COMPARISONS else "index", a, b)
    for (low_a, high_a), (low_b, high_b) in itertools.product(bounds, repeat=2):
        if op == "SHR" and low_b < 0:
            continue
        node = UOp(op, (interval_variable(0, low_a, high_a), interval_variable(1, low_b, high_b)))
        values = [results[a, b] for a in range(low_a, high_a + 1) for b in range(low_b, high_b + 1)]
        assert node.vmin is None or node.vmin <= min(values), (op, low_a, high_a, low_b, high_b)
        assert node.vmax is None or node.vmax >= max(values), (op, low_a, high_a, low_b, high_b)


def test_the_smaller_of_an_unbounded_value_and_a_constant_is_at_most_that() -> None:
    """Of a checked index it follows that the sums of an address do not wrap."""
    index = UOp("MIN", (var(0, "uint64"), const(999, "uint64")))
    assert (index.vmin, index.vmax) == (0, 999)
    assert UOp("MAX", (var(0, "uint64"), const(999, "uint64"))).vmax is None


def test_one_end_of_what_is_chosen() -> None:
    """The larger of any number of 64 bits and 0 is not negative: nothing wraps where one of the sources is the result."""
    larger = UOp("MAX", (var(0, "int64"), const(0, "int64")))
    assert (larger.vmin, larger.vmax) == (0, None)
    inside = UOp("MIN", (larger, const(255, "int64")))
    assert (inside.vmin, inside.vmax) == (0, 255)
    total = UOp("ADD", (larger, const(1, "int64")))
    assert (total.vmin, total.vmax) == (None, None)
    assert UOp("CAST", (var(0, "uint64"),), dtype="int64").vmin is None


def test_terms_that_are_constant_in_inner_loops_come_first() -> None:
    """The numbers of loops that rules make are large: those of lanes are the largest."""
    outer, inner = loop(1000000, 8, "reduce"), loop(3000000, 8, "vector")
    for a, b in ((outer * 8, inner), (outer, inner * 8)):
        for total in (a + b, b + a, (b + loop(3, 4)) + a):
            assert rewrite(total, "symbolic").src[1] == b


@pytest.mark.parametrize("op", ["NEG", "NOT", "ABS"])
def test_intervals_of_unary_ops_are_exact(op: str) -> None:
    for low, high in itertools.combinations_with_replacement(range(-4, 5), 2):
        values = [_core.evaluate(op, "index", a) for a in range(low, high + 1)]
        node = UOp(op, (interval_variable(0, low, high),))
        assert (node.vmin, node.vmax) == (min(values), max(values))


@pytest.mark.parametrize("op", ["ADD", "SUB", "MUL", "MAX", "MIN"])
def test_intervals_of_arithmetic_are_exact(op: str) -> None:
    for low, high in itertools.combinations_with_replacement(range(-3, 4), 2):
        node = UOp(op, (interval_variable(0, low, high), interval_variable(1, -2, 5)))
        values = [_core.evaluate(op, "index", a, b) for a in range(low, high + 1) for b in range(-2, 6)]
        assert (node.vmin, node.vmax) == (min(values), max(values))


@pytest.mark.parametrize(
    ("node", "interval"),
    [
        (loop(0, 10) % 4, (0, 3)),
        (loop(0, 3) % 4, (0, 2)),
        (loop(0, 10) // 4, (0, 2)),
        ((loop(0, 10) - 5) // 4, (-2, 1)),
        (UOp("CAST", (loop(0, 10),), "int8"), (0, 9)),
        (UOp("CAST", (loop(0, 1000),), "int8"), (-128, 127)),
        (UOp("CAST", (loop(0, 10) - 5,), "bool"), (0, 1)),
        (UOp("CAST", (loop(0, 5) - 4,), "bool"), (0, 1)),
        (UOp("CAST", (loop(0, 5) + 4,), "bool"), (1, 1)),
        (UOp("CAST", (var(0, "float32"),), "int8"), (-128, 127)),
        (UOp("WHERE", (loop(0, 2) < 1, loop(1, 5), loop(2, 9) + 7)), (0, 15)),
        (loop(0, 10) < 10, (1, 1)),
        (loop(0, 10) < 0, (0, 0)),
        (loop(0, 10) < 5, (0, 1)),
        (var(0, "int8") + 1, (-128, 127)),
        (UOp("CAST", (var(0, "int8"),), "int32") + 1, (-127, 128)),
        (var(0, "uint8"), (0, 255)),
        (var(0, "uint64"), (0, None)),
        (var(0, "int64"), (None, None)),
        (const(2**64 - 1, "uint64"), (2**64 - 1, 2**64 - 1)),
        (const(-(2**63), "int64"), (-(2**63), -(2**63))),
        (const(2**63 - 1, "index"), (2**63 - 1, 2**63 - 1)),
        (const(2.0, "float32"), (None, None)),
        (var(0, "float32"), (None, None)),
        (UOp("SINK", ()), (None, None)),
        (loop(0, 0), (None, None)),  # a loop that does not run
    ],
)
def test_particular_intervals(node: UOp, interval: tuple[int | None, int | None]) -> None:
    assert (node.vmin, node.vmax) == interval


def test_intervals_near_the_ends_of_64_bits() -> None:
    big = const(2**62, "index") * 2 - 1  # 2**63 - 1, not folded
    assert big.vmin is None or big.vmin <= 2**63 - 1
    assert (big + 1).vmax is None
    assert (loop(0, 2**62) * 4).vmax is None
    assert (loop(0, 2**62) * 4 - 7).vmin == -7


# ---- shapes ----

X = var(0, "float32", (4, 1, 6))
LANES = UOp("STACK", (loop(3, 2), loop(3, 2) + 1))


@pytest.mark.parametrize(
    ("node", "shape"),
    [
        (const(1), ()),
        (X + 1, (4, 1, 6)),
        (-X, (4, 1, 6)),
        (UOp("WHERE", (const(True, "bool"), X, X)), (4, 1, 6)),
        (UOp("RESHAPE", (X,), shape=(2, 12)), (2, 12)),
        (UOp("RESHAPE", (var(1, shape=(0, 3)),), shape=(7, 0)), (7, 0)),
        (UOp("PERMUTE", (X,), order=(2, 0, 1)), (6, 4, 1)),
        (UOp("EXPAND", (X,), shape=(4, 5, 6)), (4, 5, 6)),
        (UOp("PAD", (X,), before=(1, 0, 2), after=(0, 0, 3)), (5, 1, 11)),
        (UOp("SHRINK", (X,), begin=(1, 0, 2), end=(3, 1, 2)), (2, 1, 0)),
        (UOp("FLIP", (X,), axes=(0, 2)), (4, 1, 6)),
        (UOp("REDUCE", (X,), op="ADD", axes=(0, 2)), (1, 1, 1)),
        (UOp("INDEX", (X, loop(0, 4), loop(1, 1), loop(2, 6))), ()),
        (UOp("INDEX", (X, LANES, loop(1, 1), LANES + loop(2, 4))), (2,)),
        (UOp("LOAD", (UOp("INDEX", (X, LANES, loop(1, 1), loop(2, 6))),)), (2,)),
        (UOp("LOAD", (UOp("INDEX", (X, loop(0, 4), loop(1, 1), loop(2, 6))),)), ()),
        (UOp("STORE", (UOp("INDEX", (X, LANES, loop(1, 1), loop(2, 6))), const(0.0, "float32"))), ()),
        (UOp("STACK", (const(1), const(2))), (2,)),
        (UOp("MATERIALIZE", (X,)), (4, 1, 6)),
        (UOp("AFTER", (X, UOp("SINK", ()))), (4, 1, 6)),
        (UOp("STORE", (X, X)), ()),
        (UOp("CAST", (X,), "int8"), (4, 1, 6)),
        (UOp("BITCAST", (X,), "int32"), (4, 1, 6)),
    ],
)
def test_shapes(node: UOp, shape: tuple[int, ...]) -> None:
    assert node.shape == shape


def test_indices_of_different_shapes() -> None:
    three = UOp("STACK", (loop(3, 2),) * 3)
    with pytest.raises(GraphError, match=r"INDEX: source shapes \(2,\) and \(3,\) differ"):
        _ = UOp("INDEX", (X, LANES, loop(1, 1), three)).shape


@given(st.lists(st.integers(0, 4), max_size=4), st.data())
def test_movement_there_and_back(shape: list[int], data: st.DataObject) -> None:
    x = var(0, "float32", tuple(shape))
    order = data.draw(st.permutations(range(len(shape))))
    back = tuple(order.index(k) for k in range(len(shape)))
    assert UOp("PERMUTE", (UOp("PERMUTE", (x,), order=tuple(order)),), order=back).shape == x.shape
    pads = data.draw(st.lists(st.integers(0, 3), min_size=len(shape), max_size=len(shape)))
    padded = UOp("PAD", (x,), before=tuple(pads), after=tuple(pads))
    end = tuple(p + n for p, n in zip(pads, shape, strict=True))
    assert UOp("SHRINK", (padded,), begin=tuple(pads), end=end).shape == x.shape


# ---- loops ----


def test_open_ranges() -> None:
    i, j, k = loop(5, 3), loop(2, 4), loop(9, 5, "reduce")
    body = i * 4 + j + k
    assert body.ranges == [j, i, k]
    total = UOp("REDUCE", (body, k), op="ADD")
    assert total.ranges == [j, i]
    store = UOp("STORE", (UOp("INDEX", (var(0, "index", (3,)), i)), total))
    assert UOp("END", (store, i)).ranges == [j]
    assert UOp("END", (store, i, j)).ranges == [] and UOp("SINK", (UOp("END", (store, i)),)).ranges == [j]
    assert i.ranges == [i] and const(1).ranges == []


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12), st.sets(st.integers(0, 9)))
def test_ranges_are_what_is_below_and_not_closed(edges: list[tuple[int, int]], closed: set[int]) -> None:
    nodes: list[UOp] = [loop(k, 7) for k in range(10)]
    below: list[set[int]] = [{k} for k in range(10)]
    for a, b in edges:
        nodes.append(nodes[a % len(nodes)] + nodes[-b - 1])
        below.append(below[a % len(below)] | below[-b - 1])
    reduced = UOp("REDUCE", (nodes[-1], *(loop(k, 7) for k in sorted(closed))), op="ADD")
    assert [r.attrs["id"] for r in reduced.ranges] == sorted(below[-1] - closed)


@given(scalars("index"))
def test_ranges_do_not_depend_on_the_order_of_asking(root: UOp) -> None:
    assume(root.ranges)
    expected = sorted({n for n in root.toposort() if n.op == "RANGE"}, key=lambda n: (n.attrs["id"], n.key))
    found = root.ranges
    assert set(found) == set(expected) and [n.attrs["id"] for n in found] == [n.attrs["id"] for n in expected]


def test_limits_are_the_dtypes() -> None:
    for dtype in ("int8", "int16", "int32", "uint8", "uint16", "uint32", "bool"):
        assert (var(0, dtype).vmin, var(0, dtype).vmax) == limits(dtype)


def test_a_remainder_of_the_largest_numbers() -> None:
    """The quotient rounded down, times the divisor, would be beyond 64 bits."""
    check_interval(const(2**63 - 2, "index") % interval_variable(0, -2, -2), 0)
    check_interval(const(2**63 - 1, "index") % interval_variable(0, -2, -2), -1)
