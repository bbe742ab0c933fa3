"""Tensor maps of the simulator: 128 bytes, made as the driver's cuTensorMapEncodeTiled is documented, and read by cuda_shim/tensor_maps.hpp."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

BYTES, ALIGNMENT = 128, 64
#: address, a word that marks it, rank, bytes of an element, strides of the axes but the innermost, sizes less 1, box
_FORMAT = "<QIHH4Q5I5H"
_MARK = 0x7A5E_B0C5


def encoded(
    address: int,
    itemsize: int,
    sizes: Sequence[int],
    strides: Sequence[int],
    box: Sequence[int],
    steps: Sequence[int],
) -> bytes:
    """The map of an array at an address, with 128-byte swizzle; the innermost axis is the first, strides are in bytes.

    Raises ValueError for what the driver refuses.

    >>> len(encoded(4096, 2, (64, 10), (128,), (64, 8), (1, 1)))
    128
    >>> encoded(4096, 2, (64, 10), (120,), (64, 8), (1, 1))
    Traceback (most recent call last):
    ValueError: strides are multiples of 16, less than 2**40, and not less than a line: (120,)
    """
    rank = len(sizes)
    least = [math.prod(sizes[:k]) * itemsize if k == 1 else strides[k - 2] for k in range(1, rank)]
    wrong = {
        f"a map has 1 to 5 axes, not {rank}": not 1 <= rank <= 5 or {len(box), len(steps), len(strides) + 1} != {rank},
        f"an address at a multiple of 16, not {address:#x}": address % 16 != 0,
        f"sizes are 1 to 2**32: {sizes}": not all(1 <= size <= 1 << 32 for size in sizes),
        f"strides are multiples of 16, less than 2**40, and not less than a line: {strides}": any(
            stride % 16 or not low <= stride < 1 << 40 for stride, low in zip(strides, least, strict=False)
        ),
        f"a box has 1 to 256 elements along each axis: {box}": not all(1 <= size <= 256 for size in box),
        f"lines of a box are multiples of 16 bytes, 128 at most: {box}": box[0] * itemsize % 16 or box[0] * itemsize > 128,
        f"steps are 1 here: {steps}": any(step != 1 for step in steps),
    }  # fmt: skip
    for problem, is_so in wrong.items():
        if is_so:
            raise ValueError(problem)
    more = [0] * (5 - rank)
    words = (*strides, *more[:4], *(size - 1 for size in sizes), *more, *box, *more)
    return struct.pack(_FORMAT, address, _MARK, rank, itemsize, *words).ljust(BYTES, b"\0")


def reach(text: bytes) -> tuple[int, int]:
    """The address of a map's array, and how many bytes it lies in.

    >>> reach(encoded(4096, 2, (64, 10), (256,), (64, 8), (1, 1)))
    (4096, 2432)
    """
    address, _, rank, itemsize, *words = struct.unpack_from(_FORMAT, text)
    steps = [itemsize, *words[: rank - 1]]
    return address, itemsize + sum(last * step for last, step in zip(words[4 : 4 + rank], steps, strict=True))
