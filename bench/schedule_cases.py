"""The rows of bench/schedule.py: what is computed, the same text for every library, and how much work it is.

A case counts the operations and the bytes that cannot be avoided: each input read once, each result written once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Work:
    """A computation on operands that are there: its results, or those and gradients of `wanted`."""

    forward: Callable[[], Any]  # a tensor, or several
    wanted: Sequence[Any] = ()  # tensors whose gradients are computed, of the first result
    upstream: Any = None  # the gradient of that result; nothing for a loss
    only_gradients: bool = False  # the results themselves are not asked for
    trains: bool = False  # `wanted` makes a step by SGD with momentum
    changed: Callable[[], Sequence[Any]] = tuple  # further tensors that `forward` gave new values


@dataclass
class Case:
    """A row: how its work is built from a library (bench/schedule_libraries.py), and how much it is."""

    name: str
    build: Callable[[Any], Work]
    operations: float = 0.0
    reads: float = 0.0  # bytes
    writes: float = 0.0
    dtype: str = "float32"
    tolerance: float = 1e-4  # of the largest element of a result
    quick: bool = field(default=False, kw_only=True)
    is_model: bool = field(default=False, kw_only=True)


def cases() -> list[Case]:
    """All rows, models last."""
    from schedule_models import models

    families = (products, small_products, convolutions, attentions, rows, losses, memory, models)
    return [case for family in families for case in family()]


def products() -> Iterator[Case]:
    for n in (512, 1024, 2048):
        yield product(f"matmul {n}", n, n, n, quick=n == 512)
    yield product("matmul 1024 (a transposed)", 1024, 1024, 1024, turned="a")
    yield product("matmul 1024 (b transposed)", 1024, 1024, 1024, turned="b")
    yield product("matmul 1024 (both transposed)", 1024, 1024, 1024, turned="ab")
    for n in (1024, 2048):
        yield product(f"matmul {n}, bfloat16", n, n, n, dtype="bfloat16")
    yield product("matmul 1024, int8", 1024, 1024, 1024, dtype="int8")
    for n in (511, 510, 500, 1023):
        yield product(f"matmul {n}", n, n, n, quick=n == 511)
    yield product("matmul 127x768x3072", 127, 768, 3072)
    yield product("matmul 128x768x50257 (b transposed)", 128, 768, 50257, turned="b")


def small_products() -> Iterator[Case]:
    """One row: decoding a token; few rows: a step of an LSTM."""
    for n in (768, 3072):
        yield product(f"vector x matrix 768x{n}", 1, 768, n, quick=n == 768)
        yield product(f"matrix x vector {n}x768", 1, 768, n, turned="b")
    yield product("matmul 16x128x1024", 16, 128, 1024, quick=True)


def product(name: str, m: int, k: int, n: int, turned: str = "", dtype: str = "float32", quick: bool = False) -> Case:
    """m × k by k × n; turned: the operands that lie in memory the other way round."""

    def build(library: Any) -> Work:
        a = library.normal(*((k, m) if "a" in turned else (m, k)), dtype=dtype)
        b = library.normal(*((n, k) if "b" in turned else (k, n)), dtype=dtype)

        def forward() -> Any:
            left, right = a.T if "a" in turned else a, b.T if "b" in turned else b
            return library.int8_product(left, right) if dtype == "int8" else left @ right

        return Work(forward)

    size = {"float32": 4, "bfloat16": 2, "int8": 1}[dtype]
    tolerance = {"float32": 1e-4, "bfloat16": 1e-2, "int8": 0.0}[dtype]
    result = 4 if dtype == "int8" else size
    return Case(name, build, 2 * m * k * n, size * (m * k + k * n), result * m * n, dtype, tolerance, quick=quick)


#: name -> images, channels, height and width, channels of the result, kernel, stride, padding
CONVOLUTIONS = {
    "conv 64ch 56x56 3x3": (1, 64, 56, 64, 3, 1, 1),
    "conv 128ch 28x28 3x3": (1, 128, 28, 128, 3, 1, 1),
    "conv 256ch 14x14 3x3": (1, 256, 14, 256, 3, 1, 1),
    "conv 512ch 7x7 3x3": (1, 512, 7, 512, 3, 1, 1),
    "conv stem 3ch 224 7x7 s2": (1, 3, 224, 64, 7, 2, 3),
    "conv 64->128 56 3x3 s2": (1, 64, 56, 128, 3, 2, 1),
    "conv 8x64ch 56x56": (8, 64, 56, 64, 3, 1, 1),
    "conv 8x128ch 28x28": (8, 128, 28, 128, 3, 1, 1),
    "conv 8x256ch 14x14": (8, 256, 14, 256, 3, 1, 1),
    "conv 8x512ch 7x7": (8, 512, 7, 512, 3, 1, 1),
}
#: of these both gradients are rows too
WITH_GRADIENTS = (
    "conv 64ch 56x56 3x3",
    "conv 8x64ch 56x56",
    "conv 8x128ch 28x28",
    "conv 8x256ch 14x14",
    "conv 8x512ch 7x7",
)


def convolutions() -> Iterator[Case]:
    for name, sizes in CONVOLUTIONS.items():
        yield convolution(name, "", *sizes)
        if name in WITH_GRADIENTS:
            yield convolution(f"{name} input gradient", "input", *sizes)
            yield convolution(f"{name} weight gradient", "weight", *sizes)


def convolution(
    name: str, gradient: str, images: int, channels: int, side: int, outputs: int, kernel: int, stride: int,
    padding: int,
) -> Case:  # fmt: skip
    """A convolution of square planes, or one of its gradients alone."""
    out = (side + 2 * padding - kernel) // stride + 1

    def build(library: Any) -> Work:
        x = library.normal(images, channels, side, side, gradient=gradient == "input")
        w = library.normal(outputs, channels, kernel, kernel, gradient=gradient == "weight")

        def forward() -> Any:
            return library.functional.conv2d(x, w, stride=stride, padding=padding)

        if not gradient:
            return Work(forward)
        upstream = library.normal(images, outputs, out, out)
        return Work(forward, [x if gradient == "input" else w], upstream, only_gradients=True)

    sizes = {
        "input": 4 * images * channels * side**2,
        "weight": 4 * outputs * channels * kernel**2,
        "": 4 * images * outputs * out**2,
    }
    writes = sizes[gradient]
    operations = 2 * images * outputs * out**2 * channels * kernel**2
    return Case(name, build, operations, sum(sizes.values()) - writes, writes)


def attentions() -> Iterator[Case]:
    heads, length, width = 12, 1024, 64
    for causal in (False, True):

        def build(library: Any, causal: bool = causal) -> Work:
            q, k, v = (library.normal(1, heads, length, width) for _ in "qkv")
            attention = library.functional.scaled_dot_product_attention
            return Work(lambda: attention(q, k, v, is_causal=causal))

        name = f"attention {heads}x{length}x{width}" + " causal" * causal
        size = 4 * heads * length * width
        yield Case(name, build, 4 * heads * length**2 * width // (1 + causal), 3 * size, size)


def rows() -> Iterator[Case]:
    """Softmax, norms and sums."""
    for count, width in ((4096, 1024), (4096, 1000)):
        size = 4 * count * width
        yield on(f"softmax {count}x{width}", (count, width), lambda _, x: x.softmax(-1), size)
    yield Case("layer norm 4096x1024", layer_norm, 0, 4 * 4096 * 1024, 4 * 4096 * 1024)
    yield on("sums of rows 4096x1024", (4096, 1024), lambda _, x: x.sum(-1), 4 * 4096)
    yield on("sums of columns 4096x1024", (4096, 1024), lambda _, x: x.sum(0), 4 * 1024)
    yield on("sum 16 M", (1 << 24,), lambda _, x: x.sum(), 4, tolerance=1e-3)
    size = 4 * 16 * 64 * 56**2
    yield Case("batch norm training, forward + backward 16x64x56x56", batch_norm, 0, 2 * size, 2 * size, quick=True)


def on(name: str, shape: tuple[int, ...], compute: Any, writes: int, tolerance: float = 1e-4) -> Case:
    """A function of the library and one tensor."""

    def build(library: Any) -> Work:
        x = library.normal(*shape)
        return Work(lambda: compute(library, x))

    count = 1
    for extent in shape:
        count *= extent
    return Case(name, build, 0, 4 * count, writes, tolerance=tolerance)


def layer_norm(library: Any) -> Work:
    x, weight, bias = library.normal(4096, 1024), library.normal(1024), library.normal(1024)
    return Work(lambda: library.functional.layer_norm(x, (1024,), weight, bias))


def batch_norm(library: Any) -> Work:
    x = library.normal(16, 64, 56, 56, gradient=True)
    weight, bias = library.normal(64, gradient=True), library.normal(64, gradient=True)
    upstream = library.normal(16, 64, 56, 56)
    norm = library.functional.batch_norm
    return Work(lambda: norm(x, None, None, weight, bias, training=True), [x, weight, bias], upstream)


def losses() -> Iterator[Case]:
    count, width = 1024, 32000

    def build(library: Any, gradient: bool) -> Work:
        x = library.normal(count, width, gradient=gradient)
        labels = library.integers(width, count)
        return Work(lambda: library.functional.cross_entropy(x, labels), [x] if gradient else [])

    size = 4 * count * width
    yield Case("cross entropy 1024x32000", lambda library: build(library, False), 0, size, 4)
    yield Case("cross entropy + gradient", lambda library: build(library, True), 0, size, size)


def memory() -> Iterator[Case]:
    """Rows bound by memory: they move values, or compute little on each."""

    def added(library: Any) -> Work:
        x, y = library.normal(2048, 2048), library.normal(2048, 2048)
        return Work(lambda: x + y)

    def embedded(library: Any) -> Work:
        table, places = library.normal(50257, 768), library.integers(50257, 8, 1024)
        return Work(lambda: library.functional.embedding(places, table))

    def ordered(library: Any) -> Work:
        x = library.normal(1 << 20)
        return Work(lambda: tuple(x.sort(stable=True)))

    size = 4 << 22
    yield Case("add 4 M", added, 0, 2 * size, size, tolerance=0.0)
    yield on("exp 4 M", (2048, 2048), lambda _, x: x.exp(), size)
    yield on("gelu 1 M", (1 << 20,), lambda library, x: library.functional.gelu(x), 4 << 20)
    size = 4 * 8192 * 768
    yield Case("embedding 8192 of 50257x768", embedded, 0, size + 8 * 8192, size, tolerance=0.0)
    for n in (1024, 4096):
        yield on(f"transpose {n}", (n, n), lambda _, x: x.T.contiguous(), 4 * n * n, tolerance=0.0)
    yield on("running sum 1 M", (1 << 20,), lambda _, x: x.cumsum(0), 4 << 20, tolerance=1e-3)
    yield Case("sort 1 M with places", ordered, 0, 4 << 20, 12 << 20, tolerance=0.0)
