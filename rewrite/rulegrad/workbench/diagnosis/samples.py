"""Contents of buffers on which graphs are compared: of several kinds, as a wrong rule may be right for some."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from rulegrad.interpreter.numerics import Array
from rulegrad.ir import UOp
from rulegrad.ir.dtype import DType, as_dtype

#: 0 to 4; signs, fractions and ties; infinities, nan, zeros of both signs, the ends of a dtype, what the graph compares
#: with; every magnitude.
KINDS = ("whole", "fractions", "special", "magnitudes")
_ADDING = ("ADD", "MUL")  # reductions by them round, and may overflow, in another order
_SPECIAL_SHARE = 0.2  # of the elements
_NEAR_SHARE = 0.15


class Samples(list[Array]):
    """Contents for each slot of a graph, all of one kind.

    places: the memory that has whole numbers in any case. adds: whether the graph adds up, see `adds_up`.
    """

    def __init__(
        self,
        arrays: Iterable[Array] = (),
        kind: str = "whole",
        places: frozenset[int] = frozenset(),
        adds: bool = False,
    ) -> None:
        super().__init__(arrays)
        self.kind = kind
        self.places = places
        self.adds = adds


def all_samples(graph: UOp) -> list[Samples]:
    """Contents for each slot of a graph, of each kind; the same in every run."""
    return [sample_arrays(graph, kind) for kind in KINDS]


def sample_arrays(graph: UOp, kind: str = "whole") -> Samples:
    """Contents for each slot of a graph, the same in every run; nothing for a slot that it lacks.

    What is an index somewhere has small whole numbers, so that it stays within bounds, and a checked index is in its
    range: what a kernel computes with another is never seen.
    """
    nodes = graph.toposort()
    shapes = {n.attrs["slot"]: (n.shape, n.dtype) for n in nodes if n.op == "PARAM"}
    found = Samples([np.zeros(0)] * (1 + max(shapes, default=-1)), kind, _indices(nodes), adds_up(graph))
    extents, near = _checked(nodes), constants((graph,))
    for slot, (shape, dtype) in sorted(shapes.items()):
        found[slot] = sample(shape, dtype, slot, "whole" if slot in found.places else kind, found.adds, near)
        if slot in extents:
            found[slot] %= extents[slot]
    return found


def _checked(nodes: Sequence[UOp]) -> dict[int, int]:
    """For each slot with indices that are checked the smallest extent that they are checked against."""
    found: dict[int, int] = {}
    for index, extent in (node.src for node in nodes if node.op == "INSIDE" and node.src[1].op == "CONST"):
        for leaf in (n for n in index.toposort() if n.op == "PARAM" and as_dtype(n.dtype).is_integer):
            slot, size = leaf.attrs["slot"], max(int(extent.attrs["value"]), 1)
            found[slot] = min(found.get(slot, size), size)
    return found


def _indices(nodes: Sequence[UOp]) -> frozenset[int]:
    """The slots (and the ids of buffers, as -1 - id) whose contents are indices, or have a part in one."""
    roots: list[UOp] = []
    for node in nodes:
        if node.op in ("INDEX", "GATHER", "SCATTER"):
            roots += node.src[1:] if node.op == "INDEX" else node.src[1:2]
    if not roots:
        return frozenset()
    leaves = [n for n in UOp("SINK", tuple(dict.fromkeys(roots))).toposort() if n.op in ("PARAM", "BUFFER")]
    return frozenset(place_of(leaf) for leaf in leaves)


def place_of(leaf: UOp) -> int:
    """A number for the memory of a PARAM (its slot) or BUFFER."""
    slot: int = leaf.attrs["slot"] if leaf.op == "PARAM" else -1 - leaf.attrs["id"]
    return slot


def constants(graphs: Sequence[UOp]) -> tuple[float, ...]:
    """The numbers in some graphs, apart from indices and truth values: at one of them something may change."""
    nodes = (n for graph in graphs for n in graph.toposort() if n.op == "CONST")
    kept = (n for n in nodes if as_dtype(n.dtype).kind in ("int", "uint", "float"))
    return tuple(dict.fromkeys(n.attrs["value"] for n in kept))


def numbers_near(numbers: Sequence[float], dtype: DType) -> Array:
    """Those of the numbers that a dtype has, and the values on both sides of each.

    >>> sorted(numbers_near((3, 300, 0.5), as_dtype("uint8")).tolist())
    [2, 3, 4]
    """
    kept = numbers_in(numbers, dtype)
    with np.errstate(all="ignore"):
        if dtype.is_float:
            ends = (np.array(sign * np.inf, dtype.numpy) for sign in (-1, 1))
            return np.concatenate([kept, *(np.nextafter(kept, end) for end in ends)])
        limits = np.iinfo(dtype.numpy)
        return np.concatenate([kept, kept[kept > limits.min] - 1, kept[kept < limits.max] + 1]).astype(dtype.numpy)


def numbers_in(numbers: Sequence[float], dtype: DType) -> Array:
    """Those of the numbers that a dtype has; for floats all, as it rounds them."""
    if dtype.is_float:
        with np.errstate(all="ignore"):
            return np.array([float(n) for n in numbers]).astype(dtype.numpy)
    limits = np.iinfo(dtype.numpy)
    whole = (int(n) for n in numbers if math.isfinite(n) and n == int(n))
    return np.array([n for n in whole if limits.min <= n <= limits.max], dtype.numpy)


def adds_up(graph: UOp) -> bool:
    """Whether it has reductions that another order of computing changes by rounding, or by an overflow on the way."""
    return any(
        n.attrs.get("op") in _ADDING or n.op in ("EXPSUM", "MATRIX_MULACC") or (n.op == "BUFFER" and _is_register(n))
        for n in graph.toposort()
    )


def _is_register(node: UOp) -> bool:
    return node.attrs.get("space") == "register"


def sample(
    shape: Sequence[int],
    dtype: DType | str,
    seed: int,
    kind: str = "whole",
    adds: bool = False,
    near: Sequence[float] = (),
) -> Array:
    """Contents of that shape, dtype and kind, the same for the same seed.

    adds: leaves out the ends of a float dtype. Sums of them overflow on the way or do not, as their order is: to
    infinity, to nan where parts overflow to both infinities, or not at all.
    near: numbers at which something may change, which are among the special ones.

    >>> sample((4,), "int8", 0, "fractions").tolist() == sample((4,), "int8", 0, "fractions").tolist()
    True
    >>> bool(np.isnan(sample((99,), "float16", 0, "special")).any())
    True
    >>> [bool((sample((99,), "float16", 0, "special", adds) == 65504).any()) for adds in (False, True)]
    [True, False]
    """
    facts = as_dtype(dtype)
    if facts.is_complex:
        parts = sample((*shape, 2), facts.real, seed, kind, adds, near)
        return np.ascontiguousarray(parts).view(facts.numpy)[..., 0]
    generator = np.random.default_rng(seed if kind == "whole" else [seed, zlib.crc32(kind.encode())])
    if kind == "whole":
        return generator.integers(0, 5, tuple(shape)).astype(facts.numpy)
    with np.errstate(all="ignore"):
        if facts.is_float:
            made = _floats(shape, facts, kind, generator, adds)
        else:
            made = _integers(shape, facts, kind, generator)
        made = np.asarray(made).astype(facts.numpy)
    return _with_some(made, near, facts, generator, adds) if kind == "special" else made


def _with_some(made: Array, near: Sequence[float], dtype: DType, generator: np.random.Generator, adds: bool) -> Array:
    """Contents some of which are near those numbers. Floats are these numbers: next to one, a rounding decides."""
    if dtype.kind in ("bool", "index"):
        return made
    some = numbers_in(near, dtype) if dtype.is_float else numbers_near(near, dtype)
    if adds and dtype.is_float:
        some = some[np.abs(some.astype(np.float64)) < 2.0 ** (2 ** (dtype.exponent - 2))]
    if not some.size:
        return made
    chosen = some[generator.integers(0, some.size, made.shape)]
    return np.where(generator.random(made.shape) < _NEAR_SHARE, chosen, made)


def _floats(shape: Sequence[int], dtype: DType, kind: str, generator: np.random.Generator, adds: bool) -> Array:
    if kind == "magnitudes":
        most = 2 ** (dtype.exponent - 1) / 3  # so that a product of two of them is a number
        sign = generator.choice([-1.0, 1.0], shape)
        return np.asarray(sign * generator.uniform(1, 2, shape) * 2.0 ** generator.integers(-most, most + 1, shape))
    eighths = generator.integers(-40, 41, shape) / 8
    if kind == "fractions":
        return np.asarray(eighths)
    limits = _finfo(dtype)
    pool = [np.nan, np.inf, -np.inf, 0.0, -0.0, limits.smallest_subnormal, -limits.tiny]
    if not adds:
        pool += [limits.max, -limits.max]
    special = generator.choice(np.array([float(value) for value in pool]), shape)
    return np.asarray(np.where(generator.random(shape) < _SPECIAL_SHARE, special, eighths))


def _integers(shape: Sequence[int], dtype: DType, kind: str, generator: np.random.Generator) -> Array:
    if dtype.kind == "bool":
        return generator.integers(0, 2, shape)
    if dtype.kind == "index":
        return generator.integers(0, 5, shape)
    limits = np.iinfo(dtype.numpy)
    small = generator.integers(max(limits.min, -9), 13, shape).astype(dtype.numpy)
    if kind == "fractions":
        return small
    if kind == "magnitudes":
        bits = generator.integers(0, 256, (*shape, dtype.itemsize), dtype=np.uint8)
        by = generator.integers(0, dtype.bits, shape).astype(dtype.numpy)
        return np.asarray(bits.view(dtype.numpy)[..., 0] >> by)
    ends = np.array([limits.min, limits.min + 1, limits.max - 1, limits.max, 0, 1], dtype.numpy)
    return np.where(generator.random(shape) < 2 * _SPECIAL_SHARE, generator.choice(ends, shape), small)


def _finfo(dtype: DType) -> Any:
    import ml_dtypes  # late: for bfloat16 and fp8

    return ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call]
