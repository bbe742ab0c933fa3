"""Small programs that together use most rules: what `stats` counts when no script is given."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from rulegrad import optim
from rulegrad.interpreter.numerics import Array
from rulegrad.tensor import Tensor

Program = Callable[[str], list[Tensor]]


def _floats(device: str, *shape: int, dtype: str = "float32", seed: int = 0) -> Tensor:
    values = np.random.default_rng(seed).normal(size=shape)
    return Tensor(values.astype("float32"), device=device).cast(dtype)


def _integers(device: str, *shape: int, dtype: str = "int32", low: int = -20, seed: int = 0) -> Tensor:
    values = np.random.default_rng(seed).integers(low, 20, shape)
    return Tensor(values.astype(dtype), device=device)


def functions(device: str) -> list[Tensor]:
    """Elementwise functions of floats."""
    x, y = _floats(device, 3, 5), _floats(device, 3, 5, seed=1)
    smooth = [x.exp(), x.exp2(), x.sin(), x.cos(), x.tan(), x.tanh(), x.sigmoid(), x.gelu(), x.softplus()]
    rough = [x.floor(), x.ceil(), x.trunc(), x.round(), x.abs(), x.sign(), x.relu(), x.clip(-1.0, 1.0)]
    positive = [x.abs().log(), x.abs().log2(), x.abs().sqrt(), (x * x + 1).rsqrt(), x.abs().pow(0.3), x**3, 2.0**x]
    return [*smooth, *rough, *positive, x / y, x.maximum(y), x.minimum(y), x.where(x > y, y), -x + 1 - 1, x * 1 + y / 2]


def integers(device: str) -> list[Tensor]:
    """Integer arithmetic, with divisors and shifts that are not known."""
    found = []
    for dtype in ("int8", "int32", "uint8", "uint64"):
        low = 0 if dtype.startswith("u") else -20
        x, y = _integers(device, 12, dtype=dtype, low=low), _integers(device, 12, dtype=dtype, low=low, seed=1)
        found += [x + y * 3, x - y, x // (y | 1), x % (y | 1), x // 4, x % 4, x // 7, x & y, x | y, x ^ y, ~x]
        found += [x << (y & 3), x >> (y & 3), x.maximum(y), x.abs(), x**2, x < y, x == y, x.cast("float32") / 2]
    return found


def booleans(device: str) -> list[Tensor]:
    """Conditions."""
    x, y = _integers(device, 4, 6), _integers(device, 4, 6, seed=1)
    p, q, r = x < y, x > 3, y <= 0
    both = [p & q, p | q, p ^ q, ~p, (p & q) | (p & r), p.where(q, r), p.logical_not() & q]
    sums = [p.sum(), p.any(axis=0), p.all(axis=1), p.cast("int32") + 1, (p & True) | False, p.where(x, y).sum()]
    nested = [p.where(q.where(x, y), y), (~p).where(x, 0), p.where(x, 1) * 0 + 2, p.max(), p.maximum(q), p * q, p + q]
    return [*both, *sums, *nested, (x < 2) & (x < 5), ~(x < y), (x + 3) < 7, p == q]


def casts(device: str) -> list[Tensor]:
    """Dtypes that devices compute in and that they only store."""
    x = _floats(device, 2, 7) * 10
    wide = [x.cast(t) for t in ("int8", "int64", "uint32", "bool", "float64", "float16", "bfloat16")]
    small = [_floats(device, 9, dtype=t) for t in ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")]
    used = [
        [s.exp() + s, s.sum(), (s * 2).maximum(s), s.cast("float32") < 0, s < 1.0, s.where(s < 0, -s)] for s in small
    ]
    bits = [x.bitcast("int32") & 255, x.bitcast("uint32").bitcast("float32"), small[0].bitcast("uint16")]
    return [*wide, *(t for row in used for t in row), *bits, x.cast("int32").cast("uint8").cast("int32")]


def movement(device: str) -> list[Tensor]:
    """Views, and copies of them."""
    x = _floats(device, 4, 6)
    views = [x.reshape(3, 8).permute(1, 0), x.T.reshape(2, 12), x.flip(0)[1:, ::2], x.pad(((1, 2), (0, 3)))]
    views += [x.expand(3, 4, 6).reshape(12, 6), x.reshape(2, 2, 3, 2).permute(2, 0, 3, 1).reshape(6, 4)]
    joined = [Tensor.cat(x, x[:2]), Tensor.stack(x, -x), x.repeat(2, 3), x.roll(2, 1), x.pad(1)[1:-1, 1:-1] + x]
    picked = [x[:, 1::2], x[2], Tensor.arange(7, device=device) * 3 + 1]
    return [*views, *joined, *picked, x.reshape(24).reshape(4, 6) * 2, Tensor.eye(3, device=device)]


def reductions(device: str) -> list[Tensor]:
    """Reductions, alone and with what follows."""
    x = _floats(device, 5, 33)
    plain = [x.sum(), x.sum(0), x.mean(1), x.max(1), x.min(0), x.prod(1), x.var(1), x.std(), x.argmax(1), x.argmin(0)]
    rows = [x.softmax(), x.log_softmax(), x.logsumexp(1), x - x.mean(1, keepdim=True), (x * 2 + 1).sum(1).exp()]
    ones = Tensor.ones(6, 7, device=device)
    return [*plain, *rows, ones.sum(1), ones.max(), (x.sum(1, keepdim=True) + x).max(0), _integers(device, 300).sum()]


def products(device: str) -> list[Tensor]:
    """Matrix products, convolutions and pools."""
    a, b = _floats(device, 9, 17), _floats(device, 17, 6, seed=1)
    image, weights = _floats(device, 2, 3, 9, 8), _floats(device, 4, 3, 3, 3, seed=1)
    layers = [
        image.conv2d(weights, padding=1),
        image.conv2d(weights, stride=2),
        image.max_pool2d(2),
        image.avg_pool2d(2),
    ]
    return [a @ b, (a @ b).relu() + 1, a.half() @ b.half(), a.outer(a)[0] if a.ndim == 1 else a @ a.T, *layers]


def redundant(device: str) -> list[Tensor]:
    """Expressions that the laws of arithmetic simplify."""
    x, y = _integers(device, 6), _integers(device, 6, seed=1)
    u, f = _integers(device, 6, dtype="uint8", low=0), _floats(device, 6)
    p, q = x < y, x > 3
    laws = [x << 0, x // -1, x % 1, x % -1, x & -1, x | -1, x - x, x ^ x, x & x, (x & y) & y, x & (x | y), x | (x & y)]
    laws += [
        x - (-y),
        x.neg().neg(),
        (-x) * 3,
        x + -y,
        (x * 2).abs().abs(),
        u.abs(),
        x.floor(),
        x.maximum(x),
        x**0,
        x * x,
    ]
    laws += [(x + 2) - 5, (x * 3) * 5, x.maximum(3).maximum(5), (u & 15) >> 2, (x | 8) & 7, (x ^ y) ^ y, u & 255]
    logic = [p & ~p, p | ~p, ~~p, p ^ True, (p & q) & p, p == True, p != True, x < x, x <= x, ~(x <= y), ~(x == y)]  # noqa: E712
    logic += [(x > 3) & (x > 5), (x < 3) | (x < 5), (x < 3) & (x > 5), (x < 5) | (x > 3), u < 0, p.cast("int32") == 1]
    logic += [p.where(x, x), p.where(q, False), p.where(True, q), (~p).where(x, y), p.where(p.where(x, y), 0)]
    rounded = [
        f.round().floor(),
        f - f,
        f / f,
        f * 0,
        (f + 1) + 2,
        (f / 2) / 3,
        (f * 4) / 2,
        f + 0,
        f.neg().neg(),
        f / 1,
    ]
    wide = [x.cast("int64").cast("int32"), (u.cast("int32") + 1).cast("uint8"), x.cast("int64").cast("int8")]
    return [*laws, *logic, *rounded, *wide, f.cast("bool").cast("int32"), x.bitcast("uint32").bitcast("int32")]


def randoms(device: str) -> list[Tensor]:
    """Random numbers."""
    Tensor.manual_seed(3)
    return [
        Tensor.rand(8, device=device),
        Tensor.randn(5, device=device),
        Tensor.randint(6, low=0, high=9, device=device),
    ]


def training(device: str) -> list[Tensor]:
    """Steps of training."""
    Tensor.manual_seed(1)
    x, labels = _floats(device, 8, 6), _integers(device, 8, low=0) % 3
    w1, w2 = _floats(device, 6, 9, seed=2).requires_grad_(), _floats(device, 9, 3, seed=3).requires_grad_()
    optimizer = optim.Adam([w1, w2], lr=0.01)
    for _ in range(2):
        optimizer.zero_grad()
        hidden = (x @ w1).tanh() + (x @ w1).sigmoid()
        (hidden.maximum(0.1) @ w2).cross_entropy(labels).backward()
        optimizer.step()
    return [w1, w2]


def gradients(device: str) -> list[Tensor]:
    """Gradients of many functions."""
    x = (_floats(device, 4, 5).abs() + 0.5).requires_grad_()
    value = (x.exp() + x.log() + x.sqrt() + x.sin() * x.cos() + x.reciprocal() + x**1.5 + x.tanh() + x.exp2()).sum()
    value = value + x.max(1).sum() + x.prod(1).sum() + x.pad(1).flip(0).sum() + x.T.reshape(20)[3:9].sum() + x.var()
    value = value + x.softmax().square().sum() + (x > 1).where(x, 2 * x).sum() + x.log2().sum() + x.clip(0.7, 1.2).sum()
    value.backward()
    assert x.grad is not None
    return [x.grad]


PROGRAMS: tuple[Program, ...] = (
    functions,
    integers,
    booleans,
    casts,
    movement,
    reductions,
    products,
    redundant,
    randoms,
    training,
    gradients,
)


def answers(program: Program, device: str) -> Iterator[Array]:
    """The results of a program of the corpus on a device."""
    results = program(device)
    Tensor.realize(*results)
    return (result.numpy() for result in results)
