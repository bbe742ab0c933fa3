"""Launch grids: the blocks of threads that a launch's work-items become."""

from __future__ import annotations

from rulegrad.errors import DeviceError
from rulegrad.runtime.kernel import Kernel

#: Threads of a block where the kernel leaves their number open: enough to hide the latency of memory.
THREADS = 256
#: Local memory of a block that a launch may have without asking, on every GPU.
UNASKED_BYTES = 48 << 10
_MOST_BLOCKS = (2**31 - 1, 65535, 65535)  # along each axis, on every compute capability
_MOST_THREADS = (1024, 1024, 64)
_WARP = 32

Sizes = tuple[int, int, int]


def geometry(kernel: Kernel) -> tuple[Sizes, Sizes]:
    """Blocks along each axis, and threads of a block along each. Raises DeviceError for a grid that no GPU takes.

    Work-items along axis 0 are neighbours in memory, so a block is as long there as the grid allows.

    >>> from rulegrad.runtime.backends import backend
    >>> geometry = backend("cuda").module.geometry
    >>> from rulegrad.runtime.kernel import Kernel
    >>> geometry(Kernel("f", None, "", (1000, 3), (), 1))
    ((4, 3, 1), (256, 1, 1))
    >>> geometry(Kernel("f", None, "", (6, 500), (), 1))
    ((1, 12, 1), (6, 42, 1))
    """
    grid = _three(kernel.grid)
    threads = _three(kernel.local) if kernel.local else _threads(grid)
    blocks = tuple(-(-items // size) for items, size in zip(grid, threads, strict=True))
    if any(count > most for count, most in zip(blocks, _MOST_BLOCKS, strict=True)):
        raise DeviceError(
            f"kernel {kernel.name!r} needs {'×'.join(map(str, blocks))} blocks; a GPU takes at most "
            f"{'×'.join(map(str, _MOST_BLOCKS))}. Reshape the tensor so that its long axes come last"
        )
    return (blocks[0], blocks[1], blocks[2]), threads


def _threads(grid: Sizes) -> Sizes:
    left, sizes = THREADS, []
    for items, most in zip(grid, _MOST_THREADS, strict=True):
        size = _part(items, min(left, most))
        sizes.append(size)
        left //= size
    # a long axis that is not the first takes threads from it, rather than not fit at all
    for axis in (1, 2):
        while -(-grid[axis] // sizes[axis]) > _MOST_BLOCKS[axis] and sizes[axis] < _MOST_THREADS[axis]:
            sizes[axis] *= 2
            longest = max(range(3), key=lambda k: sizes[k] if k != axis else 0)
            sizes[longest] = max(1, sizes[longest] // 2)
    return sizes[0], sizes[1], sizes[2]


def _part(items: int, most: int) -> int:
    """Threads of a block along an axis: the same in all blocks but for a few, whole warps where it is more than one."""
    size = -(-items // -(-items // most))
    return size if size <= _WARP else min(most, -(-size // _WARP) * _WARP)


def _three(sizes: tuple[int, ...]) -> Sizes:
    first, second, third = (*sizes, 1, 1, 1)[:3]
    return first, second, third
