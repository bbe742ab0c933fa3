"""Collectives to try, with what they should give: each kind in each dtype, by NumPy alone."""

from __future__ import annotations

import numpy as np

from rulegrad.communication import Collective
from rulegrad.ir.dtype import DType

DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip


def values_of(dtype: str, count: int, rank: int) -> np.ndarray:
    """Values of a rank: sums and products of a few of them round or wrap around in every narrow dtype."""
    rng = np.random.default_rng([rank, count, DType(dtype).bits])
    kind = DType(dtype).kind
    if kind == "bool":
        return rng.integers(0, 2, count).astype(bool)
    if kind in ("int", "uint"):
        bounds = np.iinfo(DType(dtype).numpy)
        return rng.integers(bounds.min, bounds.max, count, dtype=DType(dtype).numpy, endpoint=True)
    real = rng.uniform(-3, 3, count)
    if kind == "complex":
        return (real + 1j * rng.uniform(-3, 3, count)).astype(DType(dtype).numpy)
    return real.astype(DType(dtype).numpy)


def collectives(size: int, dtype: str, blocks: int = 3) -> list[Collective]:
    """Collectives of all kinds among `size` ranks, with blocks of `blocks` elements."""
    mesh, axes = (size,), (0,)
    many = size * blocks
    operations = ("sum", "prod") if DType(dtype).is_complex else ("sum", "prod", "max", "min")
    found = [
        Collective("all_gather", mesh, axes, "", blocks, dtype),
        Collective("all_to_all", mesh, axes, "", many, dtype),
        Collective("part", mesh, axes, "", many, dtype),
        *(Collective("shift", mesh, axes, "", blocks, dtype, by=by) for by in (1, -1, size)),
    ]
    for operation in operations:
        found.append(Collective("all_reduce", mesh, axes, operation, blocks, dtype))
        found.append(Collective("reduce_scatter", mesh, axes, operation, many, dtype))
    return found


def expected(of: Collective, sources: list[np.ndarray], member: int) -> np.ndarray:
    """The result of a member of a group, from what its members had."""
    size = len(sources)
    block = slice(member * of.result_count, (member + 1) * of.result_count)
    if of.kind == "all_gather":
        return np.concatenate(sources)
    if of.kind == "all_to_all":
        return np.concatenate([source.reshape(size, -1)[member] for source in sources])
    if of.kind == "part":
        return sources[member][block]
    if of.kind == "shift":
        return sources[(member - of.by) % size]
    small = sources[0].dtype.itemsize < 4 and DType(of.dtype).is_float
    stacked = np.stack([source.astype(np.float32) if small else source for source in sources])
    function = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[of.operation]
    with np.errstate(all="ignore"):
        total = stacked[0]
        for row in stacked[1:]:
            total = function(total, row)
        total = total.astype(sources[0].dtype)
    return total if of.kind == "all_reduce" else total[block]
