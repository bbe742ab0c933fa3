"""Kinds of steps for fuzz_making.Maker: what picks an op, and values that fit it."""

from __future__ import annotations

import numpy as np

from fuzz_making import EXTENTS, MOST_ELEMENTS, Kind, Maker, axis_of, is_ordered, part_of
from fuzz_programs import COMPLEX, DTYPES, FLOATS, SMALL_FLOATS, Statement, Value

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
