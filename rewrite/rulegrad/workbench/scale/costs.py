"""Costs of collectives by Hockney's model, and the best algorithm for a size and a group of devices.

A message of n bytes takes α + nβ: a latency, and a byte's share of a bandwidth. γ is the time to add a byte to another.
Formulas: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH" (2005); Chan,
Heimlich, Purkayastha, van de Geijn, "Collective communication: theory, practice, and experience" (2007); Patarasuk,
Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations" (2009). docs/scale.md has them as a table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from rulegrad.communication import KINDS
from rulegrad.errors import ConfigError
from rulegrad.workbench.scale.machine import Link, Machine


@dataclass(frozen=True, slots=True)
class Wire:
    """The link that a part of an algorithm is bound by."""

    alpha: float  #: seconds of a message
    beta: float  #: seconds of a byte where partners are any two members
    ring: float  #: seconds of a byte where each member sends to the next, and more than one port leads out of a node
    gamma: float  #: seconds to add a byte to another


@dataclass(frozen=True, slots=True)
class Hop:
    """A level of links that a group spans: so many members, or parts of it, are joined by this link."""

    link: Link
    members: int


@dataclass(frozen=True, slots=True)
class Group:
    """The ranks of a collective, as the machine's links join them."""

    size: int
    hops: tuple[Hop, ...]  #: the innermost first, those with one member left out
    is_regular: bool  #: whether each part of it has as many members
    neighbours: int  #: the least members in one node: so many ports a node of a ring has
    reach: tuple[int, ...]  #: for each link of the machine, how many of the others it is the first link to


@dataclass(frozen=True, slots=True)
class Cost:
    """The time of a collective by its best algorithm."""

    algorithm: str
    seconds: float


def group_of(mesh: Sequence[int], axes: Sequence[int], machine: Machine) -> Group:
    """The ranks that differ from rank 0 only along some axes of a mesh; ranks are row-major, in the devices' order.

    The other groups of the same axes have as many members; where nodes hold no whole number of them, one may be spread
    over more nodes. Raises ConfigError for a mesh that is larger than the machine.

    >>> from rulegrad.workbench.scale.machine import load_machine
    >>> machine = load_machine("h100-infiniband")
    >>> [(hop.link.name, hop.members) for hop in group_of((4, 8), (0, 1), machine).hops]
    [('NVLink', 8), ('InfiniBand NDR', 4)]
    >>> [(hop.link.name, hop.members) for hop in group_of((4, 8), (0,), machine).hops]
    [('InfiniBand NDR', 4)]
    """
    if math.prod(mesh) > machine.devices:
        raise ConfigError(f"{math.prod(mesh)} devices are more than the {machine.devices} of machine {machine.name}")
    ranks = [0]
    for axis in axes:
        stride = math.prod(mesh[axis + 1 :])
        ranks = [rank + k * stride for rank in ranks for k in range(mesh[axis])]
    hops, reach, regular, before = [], [], True, 1
    parts = len(ranks)  # of the level before: single devices
    fewest = 1
    for level, link in enumerate(machine.links):
        sizes: dict[int, int] = {}
        for rank in ranks:
            sizes[rank // link.devices] = sizes.get(rank // link.devices, 0) + 1
        near = sizes[0]
        regular = regular and len(set(sizes.values())) == 1
        fewest = min(sizes.values()) if level == 0 else fewest
        reach.append(near - before)
        members = -(-parts // len(sizes))
        if members > 1:
            hops.append(Hop(link, members))
        before, parts = near, len(sizes)
    return Group(len(ranks), tuple(hops), regular, fewest, tuple(reach))


def collective_cost(kind: str, nbytes: float, group: Group, machine: Machine) -> Cost:
    """The time of a collective by the algorithm that is the best for it.

    nbytes: of the whole array: what each rank has before all_reduce, reduce_scatter, all_to_all and part, what it has
    after all_gather, what it sends in shift. Raises ConfigError for a kind that is not known.

    >>> from rulegrad.workbench.scale.machine import load_machine
    >>> machine = load_machine("h100-infiniband")
    >>> pair = group_of((2,), (0,), machine)
    >>> collective_cost("shift", 450e9, pair, machine).seconds
    1.0000034
    >>> collective_cost("all_reduce", 4, group_of((1024,), (0,), machine), machine).algorithm
    'hierarchical: recursive doubling, recursive doubling'
    """
    if kind not in KINDS:
        raise ConfigError(f"{kind!r} is not a collective; they are {', '.join(KINDS)}")
    if group.size == 1 or kind == "part":
        return Cost("nothing is sent", 0.0)
    flat = _best(kind, nbytes, group.size, _wire(group, machine))
    if kind == "all_to_all":
        return min(flat, _all_pairs(nbytes, group, machine), key=lambda cost: cost.seconds)
    if kind == "shift" or len(group.hops) == 1 or not group.is_regular:
        return flat
    return min(flat, _hierarchical(kind, nbytes, group.hops, machine), key=lambda cost: cost.seconds)


def sent_bytes(kind: str, nbytes: float, ranks: int) -> float:
    """The bytes that one rank sends at the least, of a whole array of so many.

    >>> sent_bytes("all_reduce", 1000, 4), sent_bytes("all_gather", 1000, 4), sent_bytes("shift", 1000, 4)
    (1500.0, 750.0, 1000.0)
    """
    share = (ranks - 1) / ranks
    shares = {"all_reduce": 2 * share, "part": 0.0, "shift": 1.0 if ranks > 1 else 0.0}
    return nbytes * shares.get(kind, share)


def _wire(group: Group, machine: Machine) -> Wire:
    """The slowest link of a group. A ring leaves a node by all the ports of its members at once."""
    betas = [1 / hop.link.bandwidth for hop in group.hops]
    outer = [1 / (hop.link.bandwidth * group.neighbours) for hop in group.hops if hop.link != machine.links[0]]
    inner = [1 / hop.link.bandwidth for hop in group.hops if hop.link == machine.links[0]]
    alpha = max(hop.link.latency for hop in group.hops)
    return Wire(alpha, max(betas), max(inner + outer), _gamma(machine))


def _gamma(machine: Machine) -> float:
    """To add a byte, two are read and one is written."""
    return 3 / (machine.memory_bandwidth * machine.reached)


def _hierarchical(kind: str, nbytes: float, hops: Sequence[Hop], machine: Machine) -> Cost:
    """In each part of the group first, and of the result then between the parts: less goes over the outer links."""
    inner, outer = hops[0], hops[1:]
    link = inner.link
    wire = Wire(link.latency, 1 / link.bandwidth, 1 / link.bandwidth, _gamma(machine))
    if not outer:
        return _best(kind, nbytes, inner.members, wire)
    rest = _hierarchical(kind, nbytes / inner.members, outer, machine)
    if kind == "all_reduce":
        scattered = _best("reduce_scatter", nbytes, inner.members, wire)
        gathered = _best("all_gather", nbytes, inner.members, wire)
        whole = Cost(scattered.algorithm, scattered.seconds + gathered.seconds)
        # little data: all of it is reduced inside, and again outside
        again = _hierarchical(kind, nbytes, outer, machine)
        direct = _best(kind, nbytes, inner.members, wire)
        if direct.seconds + again.seconds < whole.seconds + rest.seconds:
            whole, rest = direct, again
    else:
        whole = _best(kind, nbytes, inner.members, wire)
    names = f"{whole.algorithm}, {rest.algorithm.removeprefix('hierarchical: ')}"
    return Cost(f"hierarchical: {names}", whole.seconds + rest.seconds)


def _all_pairs(nbytes: float, group: Group, machine: Machine) -> Cost:
    """All-to-all by pairwise exchange: a message to each other member, over the first link that both are on."""
    each = nbytes / group.size
    seconds = sum(count * link.seconds(each) for count, link in zip(group.reach, machine.links, strict=True))
    return Cost("pairwise exchange", seconds)


_Formula = Callable[[float, int, Wire], float]


def _best(kind: str, nbytes: float, ranks: int, wire: Wire) -> Cost:
    """The best algorithm between ranks that are all joined in the same way."""
    costs = [Cost(name, formula(nbytes, ranks, wire)) for name, formula in ALGORITHMS[kind].items()]
    return min(costs, key=lambda cost: cost.seconds)


def _power(ranks: int) -> int:
    """The logarithm of the largest power of two that is at most `ranks`."""
    return ranks.bit_length() - 1


def _depth(ranks: int) -> int:
    """How often a message is passed on until all have it, where each who has it passes it on: ⌈log2 p⌉."""
    return (ranks - 1).bit_length()


def _share(ranks: int) -> float:
    return (ranks - 1) / ranks


def ring_gather(n: float, p: int, w: Wire) -> float:
    """(p - 1)α + (p - 1)/p nβ: a block at each of p - 1 steps, to the next (Thakur et al.)."""
    return (p - 1) * w.alpha + _share(p) * n * w.ring


def bruck_gather(n: float, p: int, w: Wire) -> float:
    """⌈log2 p⌉α + (p - 1)/p nβ: recursive doubling, or Bruck's algorithm where p is not a power of two (Thakur)."""
    return _depth(p) * w.alpha + _share(p) * n * w.beta


def ring_scatter(n: float, p: int, w: Wire) -> float:
    """(p - 1)α + (p - 1)/p n(β + γ): partial sums of a block go round (Chan et al.)."""
    return (p - 1) * w.alpha + _share(p) * n * (w.ring + w.gamma)


def halving(n: float, p: int, w: Wire) -> float:
    """Recursive halving: log2 p α + (p - 1)/p n(β + γ) (Thakur).

    Of p = 2^k + r ranks, r hand over all that they have first and receive their block at the end.
    """
    power = 1 << _power(p)
    inner = _power(p) * w.alpha + _share(power) * n * (w.beta + w.gamma)
    return inner if power == p else inner + 2 * w.alpha + n * (w.beta + w.gamma) + n / p * w.beta


def ring_reduce(n: float, p: int, w: Wire) -> float:
    """2(p - 1)α + 2(p - 1)/p nβ + (p - 1)/p nγ: a ring's reduce-scatter and all-gather (Patarasuk and Yuan)."""
    return ring_scatter(n, p, w) + ring_gather(n, p, w)


def doubling(n: float, p: int, w: Wire) -> float:
    """Recursive doubling: log2 p (α + nβ + nγ); where p is not a power of two, two more messages (Thakur)."""
    inner = _power(p) * (w.alpha + n * (w.beta + w.gamma))
    return inner if 1 << _power(p) == p else inner + 2 * (w.alpha + n * w.beta) + n * w.gamma


def rabenseifner(n: float, p: int, w: Wire) -> float:
    """2 log2 p α + 2(p - 1)/p nβ + (p - 1)/p nγ: halving, then doubling; else two more messages (Thakur)."""
    power = 1 << _power(p)
    inner = 2 * _power(p) * w.alpha + _share(power) * n * (2 * w.beta + w.gamma)
    return inner if power == p else inner + 2 * (w.alpha + n * w.beta) + n * w.gamma


def tree(n: float, p: int, w: Wire) -> float:
    """2⌈log2 p⌉(α + nβ) + ⌈log2 p⌉nγ: a binomial tree to the first rank, and back (Chan et al.)."""
    return _depth(p) * (2 * (w.alpha + n * w.beta) + n * w.gamma)


def pairwise(n: float, p: int, w: Wire) -> float:
    """(p - 1)α + (p - 1)/p nβ: a message to each other rank (Thakur)."""
    return (p - 1) * w.alpha + _share(p) * n * w.beta


def bruck_exchange(n: float, p: int, w: Wire) -> float:
    """⌈log2 p⌉(α + n/2 β): each step sends half of all on (Bruck et al. 1997, in Thakur)."""
    return _depth(p) * (w.alpha + n / 2 * w.beta)


def message(n: float, p: int, w: Wire) -> float:
    """α + nβ: each rank sends to the next, all at once, by its own port (Hockney)."""
    return w.alpha + n * w.beta


#: By kind of collective, the time that n bytes take between p ranks.
ALGORITHMS: Final[dict[str, dict[str, _Formula]]] = {
    "all_reduce": {
        "recursive doubling": doubling, "halving and doubling": rabenseifner, "ring": ring_reduce, "tree": tree,
    },
    "all_gather": {"recursive doubling": bruck_gather, "ring": ring_gather},
    "reduce_scatter": {"recursive halving": halving, "ring": ring_scatter},
    "all_to_all": {"Bruck": bruck_exchange, "pairwise exchange": pairwise},
    "shift": {"message": message},
}  # fmt: skip
