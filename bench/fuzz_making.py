"""Making random tensor programs: each step picks an op, and values that fit it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import numpy as np

from fuzz_programs import COMPLEX, DTYPES, FLOATS, INTEGERS, SMALL_FLOATS, Array, Program, Statement, Value, numpy_dtype

EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 16, 17)
LARGE_EXTENTS = (1, 3, 8, 16, 17, 31, 32, 33, 64, 65, 96, 130)  # of some programs: tiles, and what is left of them
MOST_ELEMENTS = 600


class Maker:
    """Makes one program.

    aliasing: with updates through views; gradients: of float32 or float64, and smooth. larger: by how much the axes
    are larger, but those of one element: most programs are the same otherwise.
    """

    def __init__(self, seed: int, aliasing: bool, gradients: bool, larger: int = 0) -> None:
        self.random = Random(seed)
        is_large = self.random.random() < 0.2
        self.extents = tuple(n + larger if n > 1 else n for n in (LARGE_EXTENTS if is_large else EXTENTS))
        self.most_elements = MOST_ELEMENTS * (20 if is_large else (1 + larger) ** 2)
        self.noise = np.random.default_rng(seed)
        self.program = Program(seed)
        self.known: dict[int, Value] = {}
        self.aliasing = aliasing and self.random.random() < 0.5
        self.program.with_gradient = gradients

    def make(self, kinds: Sequence[Kind], not_smooth: Sequence[Kind]) -> Program:
        r = self.random
        dtype = r.choice(("float32", "float64")) if self.program.with_gradient else r.choice(DTYPES + FLOATS[:4])
        for _ in range(r.randint(1, 3)):
            self.input(self.shape(), dtype if r.random() < 0.7 or self.program.with_gradient else r.choice(DTYPES))
        steps, tries = r.randint(2, 9), 0
        while steps and tries < 60:
            tries += 1
            kind = r.choice(kinds)
            if self.program.with_gradient and kind in not_smooth:
                continue
            if kind(self):
                steps -= 1
        made = [s.result for s in self.program.statements] or [n for n, _ in self.program.inputs]
        last = list(dict.fromkeys(made))
        count = 1 if self.program.with_gradient else min(len(last), r.choice((1, 1, 2, 3)))
        self.program.outputs = last[-count:]
        self.program.with_gradient &= self.known[last[-1]].is_float
        if self.program.with_gradient:
            result = self.known[last[-1]]
            weights = self.input(result.shape, result.dtype)
            self.put([last[-1], weights], "{0} * {1}", "{0} * {1}", result.shape, result.dtype, rounds=True)
            self.program.outputs = [len(self.known) - 1]
        return self.program.needed()

    def shape(self, rank: int | None = None) -> tuple[int, ...]:
        rank = self.random.choice((0, 1, 1, 2, 2, 2, 3, 3, 4)) if rank is None else rank
        while True:
            found = tuple(self.random.choice(self.extents) for _ in range(rank))
            if np.prod(found) <= self.most_elements:
                return found

    def input(self, shape: tuple[int, ...], dtype: str) -> int:
        number = len(self.known)
        self.known[number] = Value(shape, dtype)
        self.program.inputs.append((number, self.sample(shape, dtype)))
        return number

    def sample(self, shape: tuple[int, ...], dtype: str) -> Array:
        if dtype == "bool":
            return self.noise.integers(0, 2, shape).astype(bool)
        if dtype in INTEGERS:
            if self.random.random() < 0.12:  # near the ends of the range
                info = np.iinfo(dtype)
                ends = np.array([info.min, info.min + 1, info.max - 1, info.max, 0, 1, 2], dtype)
                return self.noise.choice(ends, shape)
            low = 0 if dtype.startswith("u") else -9
            return self.noise.integers(low, 10, shape).astype(dtype)
        if dtype in COMPLEX:  # finite: of infinities NumPy's sums and products depend on its order
            return np.asarray(self.noise.normal(size=shape) + 1j * self.noise.normal(size=shape)).astype(dtype)
        values = self.noise.normal(size=shape)
        if not self.program.with_gradient and self.random.random() < 0.4:
            values = np.round(values * 2) / 2
        if not self.program.with_gradient and self.random.random() < 0.08:
            values = np.where(
                self.noise.random(shape) < 0.2, self.noise.choice([np.inf, -np.inf, np.nan, -0.0], shape), values
            )
        return np.asarray(values).astype(numpy_dtype(dtype))

    def pick(self, accepts: Callable[[Value], bool] = lambda value: True) -> int | None:
        """A name that fits, late ones more often."""
        found = [n for n, value in self.known.items() if accepts(value)]
        return (
            self.random.choice(found[-4:])
            if found and self.random.random() < 0.7
            else self.random.choice(found)
            if found
            else None
        )

    def partner(self, number: int, shape: tuple[int, ...] | None = None, dtype: str | None = None) -> int:
        """Another name of the same dtype that can be broadcast with it; else a new input."""
        value = self.known[number]
        wanted, kind = value.shape if shape is None else shape, dtype or value.dtype
        same = self.pick(lambda v: v.dtype == kind and v.shape == wanted)
        if same is not None and self.random.random() < 0.7:
            return same
        if shape is None and self.random.random() < 0.5:
            wanted = tuple(1 if self.random.random() < 0.4 else n for n in wanted)[
                self.random.randint(0, len(wanted)) :
            ]
        return self.input(wanted, kind)

    def put(
        self, sources: Sequence[int], numpy: str, tensor: str, shape: tuple[int, ...], dtype: str,
        rounds: bool = False,
    ) -> bool:  # fmt: skip
        """A statement, unless its result is too large; names in the texts are written {0}, {1}, …"""
        if np.prod(shape) > self.most_elements:
            return False
        names = [f"v{n}" for n in sources]
        number = len(self.known)
        self.known[number] = Value(shape, dtype)
        statement = Statement(number, tuple(sources), numpy.format(*names), tensor.format(*names), dtype, rounds)
        self.program.statements.append(statement)
        return True


Kind = Callable[[Maker], bool]

# The numbers are those that every dtype has exactly: others are rounded before the sum, or after it.
ROUNDED = {
    "np.exp({0})": "{0}.exp()", "np.sqrt(np.abs({0}))": "{0}.abs().sqrt()", "np.sin({0})": "{0}.sin()",
    "np.cos({0})": "{0}.cos()", "np.tanh({0})": "{0}.tanh()", "np.log(np.abs({0}) + 1)": "({0}.abs() + 1).log()",
    "1 / (1 + np.exp(-{0}))": "{0}.sigmoid()", "{0} * 0.3125": "{0} * 0.3125", "{0} + 0.75": "{0} + 0.75",
    "1 / ({0} * {0} + 1)": "1 / ({0} * {0} + 1)", "np.arctan({0})": "{0}.atan()", "np.expm1({0})": "{0}.expm1()",
}  # fmt: skip
OF_ALL = {"-{0}": "-{0}", "{0} * 2": "{0} * 2", "{0} * 0": "{0} * 0", "{0} + 0": "{0} + 0", "{0} * 1": "{0} * 1"}
EXACT = {**OF_ALL, "np.abs({0})": "{0}.abs()", "np.maximum({0}, 0)": "{0}.relu()"}
OF_COMPLEX = {"np.conj({0})": "{0}.conj()", "{0} * 1j": "{0} * 1j", "{0} - 2": "{0} - 2", "{0} * {0}": "{0} * {0}"}
PARTS = {"np.real({0})": "{0}.real", "np.imag({0})": "{0}.imag", "np.abs({0})": "{0}.abs()"}
STEPS = {
    "np.floor({0})": "{0}.floor()", "np.ceil({0})": "{0}.ceil()", "np.trunc({0})": "{0}.trunc()",
    "np.rint({0})": "{0}.round()", "np.sign({0})": "{0}.sign()",
}  # fmt: skip


def is_ordered(value: Value) -> bool:
    """Whether it has numbers of which one is the larger."""
    return value.dtype != "bool" and not value.is_complex


def unary_rounded(m: Maker) -> bool:
    n = m.pick(lambda v: v.is_float)
    numpy, tensor = m.random.choice(list(ROUNDED.items()))
    return n is not None and m.put([n], numpy, tensor, m.known[n].shape, m.known[n].dtype, rounds=True)


def unary_exact(m: Maker) -> bool:
    n = m.pick(lambda v: v.dtype != "bool")
    if n is None:
        return False
    texts = {**OF_ALL, **OF_COMPLEX} if m.known[n].is_complex else EXACT
    numpy, tensor = m.random.choice(list(texts.items()))
    return m.put([n], numpy, tensor, m.known[n].shape, m.known[n].dtype, rounds=m.known[n].is_complex)


def parts(m: Maker) -> bool:
    n = m.pick(lambda v: v.is_complex)
    if n is None:
        return False
    numpy, tensor = m.random.choice(list(PARTS.items()))
    dtype = {"complex64": "float32", "complex128": "float64"}[m.known[n].dtype]
    return m.put([n], numpy, tensor, m.known[n].shape, dtype, rounds=True)


def unary_step(m: Maker) -> bool:
    n = m.pick(lambda v: v.is_float)
    numpy, tensor = m.random.choice(list(STEPS.items()))
    return n is not None and m.put([n], numpy, tensor, m.known[n].shape, m.known[n].dtype)


def binary(m: Maker) -> bool:
    n = m.pick()
    if n is None:
        return False
    value = m.known[n]
    other = m.partner(n)
    texts = [("{0} + {1}", "{0} + {1}"), ("{0} * {1}", "{0} * {1}")]
    if not value.is_complex:
        texts += [("np.maximum({0}, {1})", "{0}.maximum({1})"), ("np.minimum({0}, {1})", "{0}.minimum({1})")]
    if value.dtype != "bool":
        texts += [("{0} - {1}", "{0} - {1}")] * 2
    if value.is_float:
        texts += [("{0} / ({1} * {1} + 1)", "{0} / ({1} * {1} + 1)")]
        # the sign of a nan that is computed is any
        texts += [("np.copysign({0}, np.nan_to_num({1} * {1} - 2))", "{0}.copysign(({1} * {1} - 2).nan_to_num())")]
    elif not value.is_complex:
        texts += [(f"{{0}} {op} {{1}}", f"{{0}} {op} {{1}}") for op in ("&", "|", "^")]
    if m.random.random() < 0.3:
        n, other = other, n
    numpy, tensor = m.random.choice(texts)
    shape = np.broadcast_shapes(m.known[n].shape, m.known[other].shape)
    rounds = value.is_inexact and "max" not in numpy and "min" not in numpy and "sign" not in numpy
    return m.put([n, other], numpy, tensor, shape, value.dtype, rounds=rounds)


def division(m: Maker) -> bool:
    n = m.pick(is_ordered)
    if n is None:
        return False
    other = m.partner(n)
    if other == n:  # a zero or the smallest number, by rounding, divided by itself
        return False
    op = m.random.choice(("//", "%"))
    shape = np.broadcast_shapes(m.known[n].shape, m.known[other].shape)
    numpy = "floor_divide({0}, {1})" if op == "//" else "{0} % {1}"
    return m.put([n, other], numpy, f"{{0}} {op} {{1}}", shape, m.known[n].dtype, rounds=True)


def comparison(m: Maker) -> bool:
    n = m.pick()
    if n is None:
        return False
    other = m.partner(n)
    op = m.random.choice(("==", "!=") if m.known[n].is_complex else ("<", "<=", "==", "!=", ">", ">="))
    shape = np.broadcast_shapes(m.known[n].shape, m.known[other].shape)
    return m.put([n, other], f"{{0}} {op} {{1}}", f"{{0}} {op} {{1}}", shape, "bool")


def choice(m: Maker) -> bool:
    n = m.pick()
    if n is None:
        return False
    other, shape = m.partner(n), m.known[n].shape
    condition = m.partner(n, shape, "bool")
    shape = np.broadcast_shapes(shape, m.known[other].shape)
    return m.put([condition, n, other], "np.where({0}, {1}, {2})", "{0}.where({1}, {2})", shape, m.known[n].dtype)


def cast(m: Maker) -> bool:
    n = m.pick()
    if n is None:
        return False
    dtype = m.random.choice(("float32", "float64") if m.program.with_gradient else DTYPES)
    if m.known[n].is_complex and dtype not in COMPLEX:
        return False
    if m.known[n].is_float and dtype not in FLOATS + COMPLEX:
        # what does not fit an integer has no defined value
        low = 0 if dtype in ("bool", "uint8", "uint16", "uint32", "uint64") else -64
        bounded = f"np.clip(np.nan_to_num({{0}}), {low}, 64)"
        text = f"{{0}}.nan_to_num().clip({low}, 64)"
        return m.put([n], f"{bounded}.astype('{dtype}')", f"{text}.cast('{dtype}')", m.known[n].shape, dtype)
    rounds = dtype in FLOATS + COMPLEX
    return m.put([n], f"{{0}}.astype(D('{dtype}'))", f"{{0}}.cast('{dtype}')", m.known[n].shape, dtype, rounds=rounds)


def reshape(m: Maker) -> bool:
    n = m.pick()
    if n is None:
        return False
    size, factors = m.known[n].size, []
    while size > 1 and len(factors) < 3:
        factor = m.random.choice([k for k in range(1, size + 1) if size % k == 0])
        factors.append(factor)
        size //= factor
    shape = tuple([*factors, size] if size > 1 or not factors else factors)
    # NumPy copies where the order in memory, which nothing here keeps track of, does not allow a view
    copied = (f"np.array({{0}}).reshape({shape})", f"{{0}}.clone().reshape({shape})")
    viewed = (f"{{0}}.reshape({shape})", f"{{0}}.reshape({shape})")
    return m.put([n], *(copied if m.aliasing else viewed), shape, m.known[n].dtype)


def permute(m: Maker) -> bool:
    n = m.pick(lambda v: v.rank > 1)
    if n is None:
        return False
    order = m.random.sample(range(m.known[n].rank), m.known[n].rank)
    shape = tuple(m.known[n].shape[k] for k in order)
    return m.put([n], f"{{0}}.transpose({order})", f"{{0}}.permute({order})", shape, m.known[n].dtype)


def part_of(m: Maker, value: Value) -> tuple[str, tuple[int, ...]]:
    """A basic index and the shape of what it takes."""
    items, shape = [], []
    for extent in value.shape:
        if m.random.random() < 0.25:
            items.append(str(m.random.randint(-extent, extent - 1)))
            continue
        begin = m.random.randint(0, extent - 1)
        end, step = m.random.randint(begin + 1, extent), m.random.choice((1, 1, 1, 2, -1))
        items.append(f"{begin}:{end}:{step}" if step > 0 else f"{end - 1}:{begin - 1 if begin else ''}:-1")
        shape.append(len(range(begin, end, abs(step))))
    return ", ".join(items), tuple(shape)


def part(m: Maker) -> bool:
    n = m.pick(lambda v: v.rank > 0)
    if n is None:
        return False
    items, shape = part_of(m, m.known[n])
    return m.put([n], f"{{0}}[{items}]", f"{{0}}[{items}]", shape, m.known[n].dtype)


def pad(m: Maker) -> bool:
    n = m.pick(lambda v: v.rank > 0)
    if n is None:
        return False
    sides = [(m.random.randint(0, 2), m.random.randint(0, 2)) for _ in m.known[n].shape]
    shape = tuple(a + k + b for k, (a, b) in zip(m.known[n].shape, sides, strict=True))
    return m.put([n], f"np.pad({{0}}, {sides})", f"{{0}}.pad({sides})", shape, m.known[n].dtype)


def expand(m: Maker) -> bool:
    n = m.pick(lambda v: v.rank > 0 and 1 in v.shape)
    if n is None:
        return False
    shape = tuple(m.random.choice(m.extents) if k == 1 else k for k in m.known[n].shape)
    return m.put([n], f"np.broadcast_to({{0}}, {shape})", f"{{0}}.expand({shape})", shape, m.known[n].dtype)


def join(m: Maker) -> bool:
    n = m.pick(lambda v: v.rank > 0)
    if n is None:
        return False
    value = m.known[n]
    other, axis = m.partner(n, value.shape), m.random.randrange(value.rank)
    if other == n:  # where it is computed twice, it may be rounded in two ways, and neither is the larger
        return False
    if m.random.random() < 0.3:
        shape = (*value.shape[:axis], 2, *value.shape[axis:])
        return m.put(
            [n, other],
            f"np.stack([{{0}}, {{1}}], {axis})",
            f"Tensor.stack([{{0}}, {{1}}], axis={axis})",
            shape,
            value.dtype,
        )
    shape = tuple(2 * k if j == axis else k for j, k in enumerate(value.shape))
    return m.put(
        [n, other], f"np.concatenate([{{0}}, {{1}}], {axis})", f"{{0}}.cat({{1}}, axis={axis})", shape, value.dtype
    )


def roll(m: Maker) -> bool:
    n = m.pick(lambda v: v.rank > 0)
    if n is None:
        return False
    axis, by = m.random.randrange(m.known[n].rank), m.random.randint(-3, 3)
    text = m.random.choice(
        (("np.roll({{0}}, {0}, {1})", "{{0}}.roll({0}, {1})"), ("np.flip({{0}}, {1})", "{{0}}.flip({1})"))
    )
    return m.put([n], text[0].format(by, axis), text[1].format(by, axis), m.known[n].shape, m.known[n].dtype)


def counted(m: Maker) -> bool:
    """Numbers that count places, and constants: they have no memory."""
    count, dtype = (
        m.random.choice(EXTENTS),
        "float32" if m.program.with_gradient else m.random.choice([d for d in DTYPES if d != "bool"]),
    )
    if m.random.random() < 0.5:
        return m.put(
            [],
            f"np.arange({count}).astype(D('{dtype}'))",
            f"Tensor.arange({count}, device=DEVICE).cast('{dtype}')",
            (count,),
            dtype,
        )
    shape = m.shape(2)
    return m.put(
        [],
        f"np.full({shape}, 3).astype(D('{dtype}'))",
        f"Tensor.full({shape}, 3, dtype='{dtype}', device=DEVICE)",
        shape,
        dtype,
    )


def axis_of(m: Maker, n: int) -> tuple[int, tuple[int, ...]]:
    axis = m.random.randrange(m.known[n].rank)
    return axis, tuple(k for j, k in enumerate(m.known[n].shape) if j != axis)


def reduction(m: Maker) -> bool:
    n = m.pick(lambda v: v.rank > 0)
    if n is None:
        return False
    value, (axis, shape) = m.known[n], axis_of(m, n)
    names = ["sum", "sum", "prod", "any", "all"] + ["max", "min"] * (not value.is_complex)
    names += ["mean", "mean"] * value.is_inexact
    if m.program.with_gradient:
        names = ["sum", "mean", "max"]
    name = m.random.choice(names)
    if name in ("any", "all"):
        return m.put([n], f"({{0}} != 0).{name}({axis})", f"({{0}} != 0).{name}({axis})", shape, "bool")
    dtype = str(np.dtype(getattr(np.ones(1, value.dtype), name)().dtype)) if not value.is_inexact else value.dtype
    rounds = value.is_inexact and name in ("sum", "prod", "mean")
    if value.dtype in SMALL_FLOATS:  # their digits are those of float32 until the end
        wide = f"{{0}}.astype(D('float32')).{name}({axis}).astype({{0}}.dtype)"
        return m.put([n], wide, f"{{0}}.{name}(axis={axis})", shape, dtype, rounds=rounds)
    return m.put([n], f"{{0}}.{name}({axis})", f"{{0}}.{name}(axis={axis})", shape, dtype, rounds=rounds)


def place_of_extreme(m: Maker) -> bool:
    n = m.pick(lambda v: v.rank > 0 and is_ordered(v))
    if n is None:
        return False
    (axis, shape), name = axis_of(m, n), m.random.choice(("argmax", "argmin"))
    return m.put([n], f"{{0}}.{name}({axis})", f"{{0}}.{name}({axis})", shape, "int64")


def running(m: Maker) -> bool:
    n = m.pick(lambda v: v.rank > 0 and v.dtype not in SMALL_FLOATS)
    if n is None:
        return False
    value, (axis, _) = m.known[n], axis_of(m, n)
    name = m.random.choice(("cumsum", "cumsum", "cumprod", *(() if value.is_complex else ("cummax", "cummin"))))
    if name in ("cummax", "cummin"):
        ufunc = "maximum" if name == "cummax" else "minimum"
        return m.put([n], f"np.{ufunc}.accumulate({{0}}, {axis})", f"{{0}}.{name}({axis})[0]", value.shape, value.dtype)
    dtype = value.dtype if value.is_inexact else str(np.dtype(getattr(np.ones(1, value.dtype), name)().dtype))
    return m.put([n], f"np.{name}({{0}}, {axis})", f"{{0}}.{name}({axis})", value.shape, dtype, rounds=value.is_inexact)


def product(m: Maker) -> bool:
    n = m.pick(lambda v: v.rank >= 2 and v.dtype != "bool")
    if n is None:
        return False
    value = m.known[n]
    columns = m.random.choice(m.extents)
    batch = value.shape[:-2] if m.random.random() < 0.5 else ()
    if m.random.random() < 0.3:  # with a transposed operand
        other = m.partner(n, (*batch, columns, value.shape[-1]))
        texts = "matmul({0}, np.swapaxes({1}, -1, -2))", "{0} @ {1}.transpose(-1, -2)"
    else:
        other = m.partner(n, (*batch, value.shape[-1], columns))
        texts = "matmul({0}, {1})", "{0} @ {1}"
    return m.put([n, other], *texts, (*value.shape[:-1], columns), value.dtype, rounds=value.is_inexact)


def softmax(m: Maker) -> bool:
    n = m.pick(lambda v: v.rank > 0 and v.dtype in ("float32", "float64"))
    if n is None:
        return False
    axis, _ = axis_of(m, n)
    exponentials = f"np.exp({{0}} - {{0}}.max({axis}, keepdims=True))"
    text = f"{exponentials} / {exponentials}.sum({axis}, keepdims=True)"
    return m.put([n], text, f"{{0}}.softmax({axis})", m.known[n].shape, m.known[n].dtype, rounds=True)


def attention(m: Maker) -> bool:
    n = m.pick(lambda v: v.rank == 2 and v.dtype in ("float32", "float64"))
    if n is None:
        return False
    value, keys = m.known[n], m.random.choice(EXTENTS)
    k, v = m.partner(n, (keys, value.shape[1])), m.partner(n, (keys, m.random.choice(EXTENTS)))
    shape = (value.shape[0], m.known[v].shape[1])
    return m.put(
        [n, k, v],
        "attention({0}, {1}, {2})",
        "(({0} @ {1}.T) * 0.5).softmax(-1) @ {2}",
        shape,
        value.dtype,
        rounds=True,
    )


def convolution(m: Maker) -> bool:
    n = m.pick(lambda v: v.rank == 3 and v.dtype in ("float32", "float64"))
    if n is None:
        return False
    value = m.known[n]
    size, kernels = m.random.randint(1, min(4, value.shape[2])), m.random.choice((1, 2, 3, 4))
    w = m.partner(n, (kernels, value.shape[1], size))
    shape = (value.shape[0], kernels, value.shape[2] - size + 1)
    rows = "{0}.reshape({0}.shape[0], {0}.shape[1], 1, -1)"
    tensor = f"{rows}.conv2d({rows.replace('{0}', '{1}')}).squeeze(2)"
    return m.put([n, w], "conv1d({0}, {1})", tensor, shape, value.dtype, rounds=True)


def places_for(m: Maker, n: int, axis: int) -> int:
    shape = tuple(m.random.choice(EXTENTS[:7]) if j == axis else k for j, k in enumerate(m.known[n].shape))
    number = m.input(shape, "int64")
    m.program.inputs[-1] = (number, m.noise.integers(0, m.known[n].shape[axis], shape))
    return number


def gather(m: Maker) -> bool:
    n = m.pick(lambda v: v.rank > 0)
    if n is None:
        return False
    axis, _ = axis_of(m, n)
    places = places_for(m, n, axis)
    texts = f"np.take_along_axis({{0}}, {{1}}, {axis})", f"{{0}}.gather({axis}, {{1}})"
    return m.put([n, places], *texts, m.known[places].shape, m.known[n].dtype)


def scatter(m: Maker) -> bool:
    n = m.pick(lambda v: v.rank > 0 and v.dtype != "bool")
    if n is None:
        return False
    axis, _ = axis_of(m, n)
    places = places_for(m, n, axis)
    values = m.partner(n, m.known[places].shape)
    texts = f"added_at({{0}}, {axis}, {{1}}, {{2}})", f"{{0}}.scatter_add({axis}, {{1}}, {{2}})"
    return m.put([n, places, values], *texts, m.known[n].shape, m.known[n].dtype, rounds=m.known[n].is_inexact)


def indices(m: Maker, value: Value) -> tuple[list[int], list[str], tuple[int, ...]]:
    """Tensors of indices, which are broadcast with each other, an index of several axes with them, and its shape."""
    common, names, items, kept = m.shape(m.random.choice((0, 1, 1, 2))), [], [], []
    taken = sorted(m.random.sample(range(value.rank), m.random.randint(1, value.rank)))
    for axis, extent in enumerate(value.shape):
        if axis in taken:
            shape = tuple(1 if m.random.random() < 0.3 else k for k in common) if len(taken) > 1 else common
            names.append(m.input(shape, "int64"))
            m.program.inputs[-1] = (names[-1], m.noise.integers(-extent, extent, shape))
            items.append(f"{{{len(names)}}}")
            continue
        begin = m.random.choice((0, m.random.randrange(extent)))
        items.append(f"{begin}:" if begin else ":")
        kept.append(extent - begin)
    common = np.broadcast_shapes(*(m.known[n].shape for n in names))
    together = taken[-1] - taken[0] == len(taken) - 1
    place = taken[0] if together else 0
    return names, items, (*kept[:place], *common, *kept[place:])


def several_axes(m: Maker) -> bool:
    n = m.pick(lambda v: v.rank > 0)
    if n is None:
        return False
    names, items, shape = indices(m, m.known[n])
    text = f"{{0}}[{', '.join(items)}]"
    return m.put([n, *names], text, text, shape, m.known[n].dtype)


def added_to_several_axes(m: Maker) -> bool:
    """x[i, :, j] += value where indices repeat: added up in order."""
    n = m.pick(lambda v: v.rank > 0 and v.dtype != "bool")
    if n is None:
        return False
    names, items, shape = indices(m, m.known[n])
    if ":" in "".join(items) or np.prod(shape) > MOST_ELEMENTS:
        return False
    values = m.partner(n, shape)
    places = f"({', '.join(items)},)"
    numpy = f"added_to({{0}}, {places}, {{{len(names) + 1}}})"
    tensor = f"{{0}}.index_put({places}, {{{len(names) + 1}}}, accumulate=True)"
    return m.put([n, *names, values], numpy, tensor, m.known[n].shape, m.known[n].dtype, m.known[n].is_inexact)


def sort(m: Maker) -> bool:
    n = m.pick(lambda v: v.rank > 0 and is_ordered(v))
    if n is None:
        return False
    axis, _ = axis_of(m, n)
    return m.put([n], f"in_order({{0}}, {axis})", f"{{0}}.sort({axis})[0]", m.known[n].shape, m.known[n].dtype)


def update(m: Maker) -> bool:
    """An update through a view: its base, and other views of it, change."""
    n = m.pick(lambda v: v.rank > 0 and v.dtype != "bool")
    written = {s.result for s in m.program.statements if not s.update and s.sources}
    if n is None or not m.aliasing or n not in written or m.known[n].dtype in SMALL_FLOATS[1:]:
        return False
    items, shape = part_of(m, m.known[n])
    if not shape or not m.put([n], f"{{0}}[{items}]", f"{{0}}[{items}]", shape, m.known[n].dtype):
        return False
    view = len(m.known) - 1
    other = m.partner(view, shape)
    op = m.random.choice(("+", "*", "-"))
    m.program.statements.append(
        Statement(view, (view, other), f"v{other}", f"v{other}", m.known[n].dtype, m.known[n].is_inexact, op)
    )
    return m.put([n], "{0} * 1", "{0} * 1", m.known[n].shape, m.known[n].dtype)


NOT_SMOOTH = (unary_step, division, comparison, place_of_extreme, update)
KINDS: tuple[Kind, ...] = (
    *(unary_rounded, unary_exact, unary_step, binary, binary, binary, division, comparison, choice, cast),
    *(reshape, permute, part, pad, expand, join, join, roll, counted, reduction, reduction, place_of_extreme),
    *(running, product, product, softmax, attention, convolution, gather, scatter, sort, update),
    *(parts, several_axes, several_axes, added_to_several_axes),
)  # fmt: skip
