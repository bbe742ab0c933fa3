"""The programs of the ladder: each is run on the device and on the interpreter, and the results are compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from rulegrad.interpreter.numerics import Array
from rulegrad.ir.dtype import as_dtype
from rulegrad.lang import syntax
from rulegrad.tensor import Tensor
from rulegrad.workbench.conformance.values import small_integers
from rulegrad.workbench.diagnosis import corpus

Program = Callable[[str], list[Tensor]]  #: the results on a device of this name

_DIGITS = 11  # of the factors of a product at most: as many as TF32 has, which instructions may take float32 for
_DEEP = 9  # steps of a tile's depth: more than a ring of tiles has
_SIZES = ((), (1,), (3,), (1000,), (70_001,), (2, 3, 5, 7), (257, 129))


def given(device: str, *shape: int, dtype: str = "float32", seed: int = 0) -> Tensor:
    """Small integers in memory: sums and products of a few of them are exact in every order.

    >>> given("numpy", 4).tolist()
    [2.0, 1.0, 0.0, -2.0]
    """
    return Tensor(small_integers(dtype, shape, seed), device=device)


def adding(dtype: str) -> Iterator[tuple[str, Program]]:
    """Sums of two tensors: one work-item, a few, more than any group of work-items, several axes."""
    for shape in _SIZES:
        yield (
            f"add {dtype} {shape}",
            lambda device, shape=shape: [  # type: ignore[misc]
                given(device, *shape, dtype=dtype) + given(device, *shape, dtype=dtype, seed=1)
            ],
        )
    yield "add a constant", lambda device: [given(device, 9, dtype=dtype) + 1]
    yield "broadcast", lambda device: [given(device, 5, 1, dtype=dtype) + given(device, 7, dtype=dtype)]
    yield "launches in order", _in_order


def _in_order(device: str) -> list[Tensor]:
    """Each launch reads what the one before it wrote."""
    x = given(device, 1000)
    for _ in range(5):
        x = (x + x).contiguous().realize()
    return [x]


def reducing(dtype: str) -> Iterator[tuple[str, Program]]:
    """Reductions: over everything, rows, columns, a middle axis; and with what follows in the same kernel."""
    for shape, axis in (((1,), 0), ((64,), 0), ((5000,), 0), ((6, 5), 1), ((6, 5), 0), ((3, 4, 5), 1), ((40, 129), 1)):
        for op in ("sum", "max", "min"):
            yield (
                f"{op} {dtype} {shape} over axis {axis}",
                lambda device, op=op, shape=shape, axis=axis: [  # type: ignore[misc]
                    getattr(given(device, *shape, dtype=dtype), op)(axis)
                ],
            )
    yield "softmax", lambda device: [given(device, 9, 33).softmax(-1)]
    yield "two sums", lambda device: [given(device, 9, 33).sum(1), (given(device, 9, 33) * 2).sum(1)]


def multiplying(dtypes: list[str]) -> Iterator[tuple[str, Program]]:
    """Matrix products whose sizes fit matrix units, and others; batches; a chain with an epilogue."""
    for dtype in dtypes:
        for m, k, n in ((1, 1, 1), (4, 4, 4), (16, 16, 16), (17, 19, 23), (64, 32, 48), (128, 64, 128)):
            yield (
                f"matmul {dtype} {m}x{k}x{n}",
                lambda device, dtype=dtype, m=m, k=k, n=n: [  # type: ignore[misc]
                    given(device, m, k, dtype=dtype) @ given(device, k, n, dtype=dtype, seed=1)
                ],
            )
    yield "batched", lambda device: [given(device, 3, 8, 16) @ given(device, 3, 16, 12, seed=1)]
    yield "epilogue", lambda device: [(given(device, 32, 16) @ given(device, 16, 32, seed=1) + 1).relu() * 0.5]
    yield "transposed", lambda device: [given(device, 16, 32).T @ given(device, 16, 32, seed=1)]
    yield "matrix and vector", lambda device: [given(device, 33, 17) @ given(device, 17, seed=1)]
    yield "convolution", lambda device: [given(device, 2, 4, 9, 9).conv2d(given(device, 8, 4, 3, 3, seed=1), padding=1)]


def multiplying_by_instructions(rows: Sequence[syntax.Row]) -> Iterator[tuple[str, Program]]:
    """Products of each dtype that has a matrix instruction: at sizes that tile and that do not, in every layout.

    rows: those of the table matrix_instructions that the target has.
    """
    sizes: dict[str, dict[tuple[int, int, int], None]] = {}
    for row in rows:
        columns = [_plain(column) for column in row]
        (rows_, across, depth, dtype), (high, wide), (teams_high, teams_wide) = columns[1:5], columns[10], columns[11]
        tile = (rows_ * high * teams_high, depth * max(1, columns[12]), across * wide * teams_wide)
        fits_not = tuple(n + n // 2 + 1 for n in tile)
        sizes.setdefault(dtype, {}).update(dict.fromkeys((tile, fits_not)))
    for dtype, some in sizes.items():
        for m, k, n in some:
            for layout, product in LAYOUTS.items():
                yield (
                    f"{layout} {dtype} {m}x{k}x{n}",
                    lambda device, dtype=dtype, size=(m, k, n), product=product: [product(device, dtype, *size)],  # type: ignore[misc]
                )
        (m, k, n), fits_not = next(iter(some)), list(some)[1]
        yield (
            f"digits of {dtype} sums",
            lambda device, dtype=dtype, size=(m, _DEEP * k, n): [_many_digits(device, dtype, *size)],  # type: ignore[misc]
        )
        yield (
            f"digits of {dtype} products",
            lambda device, dtype=dtype, size=fits_not: [_every_digit(device, dtype, *size)],  # type: ignore[misc]
        )
        if not as_dtype(dtype).is_integer:
            yield (
                f"nan and infinity of {dtype}",
                lambda device, dtype=dtype, size=fits_not: [_not_finite(device, dtype, *size)],  # type: ignore[misc]
            )


def _many_digits(device: str, dtype: str, m: int, k: int, n: int) -> Tensor:
    """Products of 2048 and many ones, in several steps of the depth.

    Sums that are kept in fewer than 12 digits show, and tiles that are read before they are there.
    """
    ones = [np.ones(shape, np.float32) for shape in ((m, k), (k, n))]
    ones[0][:, 0], ones[1][0] = 64, 32
    ones[0][:, -1] = np.arange(m) % 4  # each row has a sum of its own
    return _product(device, dtype, *ones)


def _every_digit(device: str, dtype: str, m: int, k: int, n: int) -> Tensor:
    """Products of numbers that need all digits of the dtype, the largest integers among them, of both signs.

    Operands or products that are rounded, cut off or taken for others of fewer bits show. A sum is of two products of
    floats, which float32 has exactly.
    """
    facts, generator = as_dtype(dtype), np.random.default_rng(0)
    if facts.is_integer:
        limits = np.iinfo(facts.numpy)
        a, b = (generator.integers(limits.min, limits.max + 1, shape) for shape in ((m, k), (k, n)))
        a[0], a[-1] = limits.min, limits.max
        b[:, 0], b[:, -1] = limits.min, limits.max
        return _product(device, dtype, a, b)
    most = 2 ** min(facts.mantissa + 1, _DIGITS)
    a, b = ((2 * generator.integers(-most // 2, most // 2, shape) + 1) for shape in ((m, k), (k, n)))
    distance = (np.arange(k)[:, None] - np.arange(n)) % k
    return _product(device, dtype, a, np.where(distance < 2, b, 0))


def _not_finite(device: str, dtype: str, m: int, k: int, n: int) -> Tensor:
    """Rows with a nan, and rows with an infinity, in the first and in the last column; no other row has any of it."""
    a, b = np.ones((m, k)), np.ones((k, n))
    a[0, 0] = a[1, -1] = np.nan
    if np.isinf(np.array(np.inf).astype(as_dtype(dtype).numpy)):  # some dtypes have no infinity
        a[2, 0] = a[3, -1] = np.inf
    return _product(device, dtype, a, b)


def _product(device: str, dtype: str, a: Array, b: Array) -> Tensor:
    """The product of matrices of a dtype, in the dtype in which instructions add up."""
    sums = "int32" if as_dtype(dtype).is_integer else "float32"
    left, right = (Tensor(values.astype(as_dtype(dtype).numpy), device=device).cast(sums) for values in (a, b))
    return left @ right


def _plain(x: syntax.Expression) -> Any:
    """The value of a column: a number, the name of a dtype, or a tuple of numbers."""
    match x:
        case syntax.Literal(value=value):
            return value
        case syntax.Name(name=name):
            return name
        case syntax.Sequence(items=items):
            return tuple(map(_plain, items))
    raise TypeError(x)


def _operand(device: str, *shape: int, dtype: str, seed: int = 0) -> Tensor:
    """Small integers; those of 8 bits are multiplied as int32, which is what instructions add them up in."""
    made = given(device, *shape, dtype=dtype, seed=seed)
    return made.cast("int32") if as_dtype(dtype).is_integer else made


#: Products of matrices (m, k) and (k, n), by how they lie in memory.
LAYOUTS: dict[str, Callable[[str, str, int, int, int], Tensor]] = {
    "matmul": lambda device, dtype, m, k, n: (
        _operand(device, m, k, dtype=dtype) @ _operand(device, k, n, dtype=dtype, seed=1)
    ),
    "left transposed": lambda device, dtype, m, k, n: (
        _operand(device, k, m, dtype=dtype).T @ _operand(device, k, n, dtype=dtype, seed=1)
    ),
    "right transposed": lambda device, dtype, m, k, n: (
        _operand(device, m, k, dtype=dtype) @ _operand(device, n, k, dtype=dtype, seed=1).T
    ),
    "both transposed": lambda device, dtype, m, k, n: (
        _operand(device, k, m, dtype=dtype).T @ _operand(device, n, k, dtype=dtype, seed=1).T
    ),
    "batches": lambda device, dtype, m, k, n: (
        _operand(device, 2, m, k, dtype=dtype) @ _operand(device, 2, k, n, dtype=dtype, seed=1)
    ),
}


def suite() -> Iterator[tuple[str, Program]]:
    """The op test-suite: the corpus of the tools, and what goes wrong on devices rather than in rules."""
    for program in corpus.PROGRAMS:
        yield program.__name__, program
    yield "attention", _attention
    yield "gathering", _gathering
    yield "in place", _in_place
    yield "nothing", lambda device: [given(device, 0, 3) + 1, given(device, 0, 3).sum(0)]
    yield "sorting", lambda device: [given(device, 6, 9).sort(1)[0], given(device, 6, 9).argsort(1)]
    yield "running sums", lambda device: [given(device, 5, 40).cumsum(1), given(device, 300).cumsum(0)]
    yield (
        "running extremes",
        lambda device: [
            given(device, 5, 40).cummax(1)[0],
            (given(device, 5, 40) - 4).cummax(0)[0],
            given(device, 300).abs().cummin(0)[0],
        ],
    )
    yield "running products", lambda device: [(given(device, 5, 20) + 0.5).cumprod(1)]
    yield "an index out of range is told of", _out_of_range
    yield "large", lambda device: [given(device, 300_007) * 2 + 1, given(device, 300_000).sum()]
    yield "many axes", lambda device: [given(device, 2, 3, 2, 3, 2, 3).permute(5, 3, 1, 0, 2, 4).contiguous() + 1]
    yield "many arguments", lambda device: [Tensor.cat(*(given(device, 3, seed=k) for k in range(20)))]


def _attention(device: str) -> list[Tensor]:
    q, k, v = (given(device, 2, 4, 8, 16, seed=seed) * 0.1 for seed in range(3))
    return [(q @ k.transpose(-2, -1)).softmax(-1) @ v]


def _gathering(device: str) -> list[Tensor]:
    x, i = given(device, 7, 5), Tensor(np.array([3, 0, 6, 3], np.int32), device=device)
    return [x[i], x.gather(0, i.reshape(4, 1).expand(4, 5)), Tensor.zeros(7, 5, device=device).scatter_add(
        0, i.reshape(4, 1).expand(4, 5), x[:4])]  # fmt: skip


def _out_of_range(device: str) -> list[Tensor]:
    """Whether reading says that an index is out of range: 1 where it does."""
    x, told = given(device, 7, 5), []
    for places in ([3, 0, 6, -7], [3, 7, 0, 1], [3, 0, -8, 1]):
        try:
            x[Tensor(np.array(places), device=device)].numpy()
            told.append(0)
        except IndexError:
            told.append(1)
    return [Tensor(told, device=device)]


def _in_place(device: str) -> list[Tensor]:
    x = given(device, 8, 8).contiguous().realize()
    x[2:4] = 7
    x += 1
    return [x]


def results(program: Program, device: str) -> list[Array]:
    """The results of a program on a device."""
    found = program(device)
    Tensor.realize(*found)
    return [tensor.numpy() for tensor in found]


def dtypes_of(program: Program) -> set[str]:
    """The dtypes that a program keeps or computes with."""
    nodes = {node for tensor in program("numpy") for node in tensor.uop.toposort()}
    return {str(node.dtype) for node in nodes} - {"void", "index"}
