"""Costs of collectives: the formulas by hand, what they are bounded by, groups over the links of a machine."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulegrad.communication import KINDS
from rulegrad.errors import ConfigError
from rulegrad.workbench.scale import costs
from rulegrad.workbench.scale.costs import ALGORITHMS, Wire, collective_cost, group_of, sent_bytes
from rulegrad.workbench.scale.machine import Machine, machine_of

WIRE = Wire(alpha=10.0, beta=2.0, ring=1.0, gamma=0.5)


def machine(*links: tuple[int, float, float]) -> Machine:
    """Of links with (devices, latency, bandwidth); adding bytes costs nothing that matters."""
    rows = [
        {"name": f"link{n}", "devices": devices, "latency": latency, "bandwidth": bandwidth}
        for n, (devices, latency, bandwidth) in enumerate(links)
    ]
    device = {"rates": {"float32": 1.0}, "memory_bandwidth": 1e30, "memory": 1.0}
    return machine_of({"doc": "", "device": device, "links": rows}, "test", "test")


FLAT = machine((1 << 20, 1e-6, 1e9))
NODES = machine((8, 1e-6, 100e9), (1 << 17, 10e-6, 10e9))


@pytest.mark.parametrize(
    ("formula", "ranks", "expected"),
    [
        # n = 120 bytes; by hand from α = 10, β = 2 (1 on a ring), γ = 0.5
        (costs.ring_gather, 4, 3 * 10 + 90 * 1),
        (costs.bruck_gather, 4, 2 * 10 + 90 * 2),
        (costs.bruck_gather, 5, 3 * 10 + 96 * 2),
        (costs.ring_scatter, 4, 3 * 10 + 90 * 1.5),
        (costs.halving, 4, 2 * 10 + 90 * 2.5),
        (costs.halving, 6, (2 * 10 + 90 * 2.5) + 2 * 10 + 120 * 2.5 + 20 * 2),
        (costs.ring_reduce, 4, 6 * 10 + 180 * 1 + 90 * 0.5),
        (costs.doubling, 8, 3 * (10 + 120 * 2.5)),
        (costs.doubling, 9, 3 * (10 + 120 * 2.5) + 2 * (10 + 240) + 60),
        (costs.rabenseifner, 4, 4 * 10 + 90 * 4.5),
        (costs.rabenseifner, 5, 4 * 10 + 90 * 4.5 + 2 * (10 + 240) + 60),
        (costs.tree, 5, 3 * (2 * (10 + 240) + 60)),
        (costs.pairwise, 4, 3 * 10 + 90 * 2),
        (costs.bruck_exchange, 4, 2 * (10 + 60 * 2)),
        (costs.message, 4, 10 + 240),
    ],
)
def test_formulas_by_hand(formula: costs._Formula, ranks: int, expected: float) -> None:
    assert formula(120, ranks, WIRE) == pytest.approx(expected)


def test_what_is_best_depends_on_the_size() -> None:
    group = group_of((16,), (0,), FLAT)
    assert collective_cost("all_reduce", 8, group, FLAT).algorithm == "recursive doubling"
    assert collective_cost("all_reduce", 1e9, group, FLAT).algorithm == "halving and doubling"
    # the two extra messages of a number that is not a power of two are more than a ring's latencies
    odd = group_of((17,), (0,), FLAT)
    assert collective_cost("all_reduce", 1e9, odd, FLAT).algorithm == "ring"


def test_one_rank_sends_nothing() -> None:
    alone = group_of((1, 4), (0,), FLAT)
    for kind in KINDS:
        assert collective_cost(kind, 1e9, alone, FLAT).seconds == 0
        assert sent_bytes(kind, 1e9, 1) == 0
    assert collective_cost("part", 1e9, group_of((4,), (0,), FLAT), FLAT).seconds == 0


def test_groups_of_a_mesh() -> None:
    inner, outer = group_of((4, 8), (1,), NODES), group_of((4, 8), (0,), NODES)
    assert [(hop.link.name, hop.members) for hop in inner.hops] == [("link0", 8)] and inner.neighbours == 8
    assert [(hop.link.name, hop.members) for hop in outer.hops] == [("link1", 4)] and outer.neighbours == 1
    both = group_of((4, 4), (0, 1), NODES)
    assert [(hop.link.name, hop.members) for hop in both.hops] == [("link0", 8), ("link1", 2)]
    assert both.reach == (7, 8) and both.is_regular
    uneven = group_of((12,), (0,), NODES)
    assert not uneven.is_regular and uneven.neighbours == 4 and uneven.size == 12


def test_nodes_send_a_part_over_the_network() -> None:
    """32 ranks in 4 nodes: each rank sends an eighth to the other nodes, by its own port."""
    group = group_of((32,), (0,), NODES)
    found = collective_cost("all_reduce", 8e6, group, NODES)
    inside = 2 * 3 * 1e-6 + 2 * 7 / 8 * 8e6 / 100e9
    between = 2 * 2 * 10e-6 + 2 * 3 / 4 * 1e6 / 10e9
    assert found.algorithm == "hierarchical: recursive halving, halving and doubling"
    assert found.seconds == pytest.approx(inside + between, rel=1e-6)
    # of much data: a ring for each port at once, that of a node's eight ranks is as fast as eight links
    found = collective_cost("all_reduce", 8e9, group, NODES)
    assert found.algorithm == "ring"
    assert found.seconds == pytest.approx(2 * 31 * 10e-6 + 2 * 31 / 32 * 8e9 / 80e9, rel=1e-6)


def test_pairs_of_ranks_use_the_first_link_that_they_share() -> None:
    group = group_of((16,), (0,), NODES)
    found = collective_cost("all_to_all", 16e9, group, NODES)
    assert found.seconds == pytest.approx(7 * (1e-6 + 1e9 / 100e9) + 8 * (10e-6 + 1e9 / 10e9))


def test_a_mesh_larger_than_the_machine_is_refused() -> None:
    small = machine((8, 0.0, 1.0))
    with pytest.raises(ConfigError, match="16 devices are more than the 8 of machine test"):
        group_of((16,), (0,), small)
    with pytest.raises(ConfigError, match="'gossip' is not a collective"):
        collective_cost("gossip", 1, group_of((4,), (0,), small), small)


RANKS = st.integers(2, 4096)
SIZES = st.floats(0, 1e12)
SENDING = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "shift")


@given(st.sampled_from(SENDING), SIZES, SIZES, RANKS, st.sampled_from([FLAT, NODES]))
def test_more_bytes_never_take_less_time(kind: str, one: float, other: float, ranks: int, on: Machine) -> None:
    group = group_of((ranks,), (0,), on)
    less, more = sorted((one, other))
    assert collective_cost(kind, less, group, on).seconds <= collective_cost(kind, more, group, on).seconds * (1 + 1e-9)


@given(st.sampled_from(SENDING), SIZES, st.integers(1, 11), st.sampled_from([FLAT, NODES]))
def test_twice_as_many_ranks_never_take_less_time(kind: str, size: float, power: int, on: Machine) -> None:
    """Of powers of two; of other numbers it may, for their algorithms send more."""
    few, many = (group_of((ranks,), (0,), on) for ranks in (1 << power, 2 << power))
    # the blocks of an array among more ranks are smaller, but there are more of them
    assert collective_cost(kind, size, few, on).seconds <= collective_cost(kind, size, many, on).seconds * (1 + 1e-9)


@given(st.sampled_from(SENDING), SIZES, RANKS)
def test_no_algorithm_beats_the_bounds(kind: str, size: float, ranks: int) -> None:
    """The latency of log2 p messages (but of a ring's neighbours), and the bytes that a rank has to send (Chan et al.)."""
    for formula in ALGORITHMS[kind].values():
        seconds = formula(size, ranks, Wire(1e-6, 1e-9, 1e-9, 0.0))
        messages = 1 if kind == "shift" else math.floor(math.log2(ranks))
        assert seconds * (1 + 1e-9) >= messages * 1e-6
        assert seconds * (1 + 1e-9) >= sent_bytes(kind, size, ranks) * 1e-9 * (0.5 if kind == "all_to_all" else 1)


@given(SIZES, RANKS)
def test_all_reduce_is_at_most_its_two_halves(size: float, ranks: int) -> None:
    group = group_of((ranks,), (0,), FLAT)
    halves = sum(collective_cost(kind, size, group, FLAT).seconds for kind in ("reduce_scatter", "all_gather"))
    power = ranks & (ranks - 1) == 0
    whole = collective_cost("all_reduce", size, group, FLAT).seconds
    # the parts choose their algorithms apart: by more than the sum only where extra messages are counted
    assert whole <= halves * (1 + 1e-9) if power else whole <= 2 * halves + 4e-6
