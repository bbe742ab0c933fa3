"""Idioms of tensors, in several steps: heads of attention, gathered rows beside products, pools, distances.

Kinds of steps for fuzz_making.Maker, as those beside it. What they need of NumPy is in fuzz_programs.
"""

from __future__ import annotations

from fuzz_making import Kind, Maker, axis_of, is_ordered, part_of
from fuzz_programs import COMPLEX, SMALL_FLOATS, Statement, Value, accumulated

FLOAT_LINES = ("float32", "float64", "bfloat16", "float16")


def is_real_float(value: Value) -> bool:
    return value.dtype in FLOAT_LINES


def is_matrix(value: Value) -> bool:
    return value.rank == 2 and value.dtype != "bool" and min(value.shape) > 0


def last(m: Maker) -> int:
    """The name of the newest value."""
    return len(m.known) - 1


def images(m: Maker) -> int:
    """Three or four axes of floats: a value, or a new input."""
    n = m.pick(lambda v: v.rank in (3, 4) and is_real_float(v) and min(v.shape) > 0)
    dtype = m.random.choice(FLOAT_LINES[:2] if m.program.with_gradient else FLOAT_LINES)
    return m.input(m.shape(m.random.choice((3, 4))), dtype) if n is None else n


def rows_at(m: Maker, extent: int, count: int) -> int:
    """Indices of rows, with a few that are counted from the end."""
    number = m.input((count,), m.random.choice(("int64", "int64", "int32")))
    low = m.random.choice((0, 0, -extent))
    m.program.inputs[-1] = (number, m.noise.integers(low, extent, (count,)).astype(m.known[number].dtype))
    return number


def gathered_product(m: Maker) -> bool:
    """Rows of a table at indices beside a product of matrices: embeddings, samples of classes, gates of experts."""
    n = m.pick(is_matrix)
    if n is None:
        return False
    (rows, depth), dtype = m.known[n].shape, m.known[n].dtype
    count, columns = m.random.choice(m.extents), m.random.choice(m.extents)
    form = m.random.randrange(4)
    if form == 0:  # rows of the table times a matrix
        w = m.partner(n, (depth, columns))
        texts, sources, shape = ("matmul({0}[{1}], {2})", "{0}[{1}] @ {2}"), [n, rows_at(m, rows, count), w], count
    elif form == 1:  # times some rows of the weights
        w = m.partner(n, (columns, depth))
        texts, sources, shape = (
            ("matmul({0}, {1}[{2}].T)", "{0} @ {1}[{2}].T"),
            [n, w, rows_at(m, columns, count)],
            rows,
        )
        columns = count
    elif form == 2:  # and rows of a table are added
        w, table = m.partner(n, (depth, columns)), m.partner(n, (count, columns))
        texts = ("matmul({0}, {1}) + {2}[{3}]", "{0} @ {1} + {2}[{3}]")
        sources, shape = [n, w, table, rows_at(m, count, rows)], rows
    else:  # and rows are weighted by gathered numbers
        w, weights = m.partner(n, (depth, columns)), m.partner(n, (count,))
        texts = ("matmul({0}, {1}) * {2}[{3}][:, None]", "({0} @ {1}) * {2}[{3}].unsqueeze(1)")
        sources, shape = [n, w, weights, rows_at(m, count, rows)], rows
    return m.put(sources, *texts, (shape, columns), dtype, rounds=m.known[n].is_inexact)


def heads(m: Maker) -> bool:
    """Queries, keys and values of heads by one matrix, stored apart."""
    n = m.pick(is_matrix)
    if n is None:
        return False
    (rows, depth), dtype, rounds = m.known[n].shape, m.known[n].dtype, m.known[n].is_inexact
    parts, count, width = m.random.choice((2, 3, 3)), m.random.choice((1, 2, 3, 4)), m.random.choice(m.extents)
    if rows * parts * count * width > m.most_elements:
        return False
    w = m.partner(n, (depth, parts * count * width))
    m.put([n, w], "matmul({0}, {1})", "{0} @ {1}", (rows, parts * count * width), dtype, rounds)
    order, shape = m.random.choice((((1, 2, 0, 3), (count, rows, width)), ((1, 0, 2, 3), (rows, count, width))))
    split = f"reshape({rows}, {parts}, {count}, {width})"
    m.put([last(m)], f"{{0}}.{split}.transpose({order})", f"{{0}}.{split}.permute({order})", (parts, *shape), dtype)
    whole = last(m)
    for k in range(parts):
        m.put([whole], f"{{0}}[{k}]", f"{{0}}[{k}]", shape, dtype)
    first = last(m) - parts + 1
    if order[1] == 2 and m.random.random() < 0.5 and is_real_float(m.known[n]):
        texts = "matmul({0}, np.swapaxes({1}, -1, -2))", "{0} @ {1}.transpose(-1, -2)"
        if not m.put([first, first + 1], *texts, (count, rows, rows), dtype, rounds):
            return True
        m.put([last(m)], "softmax({0}, 2)", "{0}.softmax(-1)", (count, rows, rows), dtype, rounds)
        return m.put([last(m), whole + parts], "matmul({0}, {1})", "{0} @ {1}", shape, dtype, rounds)
    return True


def columns_apart(m: Maker) -> bool:
    """Parts of the columns of one product, of which one is the gate of the other."""
    n = m.pick(lambda v: is_matrix(v) and is_real_float(v))
    if n is None:
        return False
    (rows, depth), dtype, width = m.known[n].shape, m.known[n].dtype, m.random.choice(m.extents)
    if not m.put(
        [n, m.partner(n, (depth, 2 * width))], "matmul({0}, {1})", "{0} @ {1}", (rows, 2 * width), dtype, True
    ):
        return False
    whole = last(m)
    m.put([whole], f"{{0}}[:, :{width}]", f"{{0}}[:, :{width}]", (rows, width), dtype)
    m.put([whole], f"{{0}}[:, {width}:]", f"{{0}}[:, {width}:]", (rows, width), dtype)
    gate = m.random.choice((("{0} / (1 + np.exp(-{0}))", "{0}.silu()"), ("np.maximum({0}, 0)", "{0}.relu()")))
    m.put([whole + 1], *gate, (rows, width), dtype, True)
    return m.put([last(m), whole + 2], "{0} * {1}", "{0} * {1}", (rows, width), dtype, True)


def every_other(m: Maker) -> bool:
    """Elements some places apart computed with each other, and put back: turned pairs, channels of pixels."""
    n = m.pick(lambda v: v.rank > 0 and v.dtype != "bool" and v.shape[-1] > 1)
    if n is None:
        return False
    value, step = m.known[n], m.random.choice((2, 2, 3, 4))
    count = value.shape[-1] // step
    if not count:
        return False
    shape = (*value.shape[:-1], count)
    first, second = (f"{{0}}[..., {k}:{count * step}:{step}]" for k in m.random.sample(range(step), 2))
    op, other = m.random.choice("+-*"), m.random.choice("+-*")
    if m.random.random() < 0.4:
        return m.put(
            [n], f"{first} {op} {second} * 2", f"{first} {op} {second} * 2", shape, value.dtype, value.is_inexact
        )
    turned = m.partner(n, (count,))
    one, two = f"{first} * {{1}} {op} {second}", f"{first} {other} {second} * {{1}}"
    m.put([n, turned], one, one, shape, value.dtype, value.is_inexact)
    m.put([n, turned], two, two, shape, value.dtype, value.is_inexact)
    texts = "np.stack([{0}, {1}], -1).reshape(*{0}.shape[:-1], -1)", "Tensor.stack([{0}, {1}], axis=-1).flatten(-2)"
    return m.put([last(m) - 1, last(m)], *texts, (*value.shape[:-1], 2 * count), value.dtype)


#: A distance of rows and columns: what is between two elements, and what is done with these.
DISTANCES = {
    "({0}[:, :, None] + {1}[None]).min(1)": "({0}.unsqueeze(2) + {1}).min(axis=1)",
    "({0}[:, :, None] - {1}[None]).max(1)": "({0}.unsqueeze(2) - {1}).max(axis=1)",
    "np.minimum({0}[:, :, None], {1}[None]).max(1)": "{0}.unsqueeze(2).minimum({1}).max(axis=1)",
    "total(np.abs({0}[:, :, None] - {1}[None]), 1)": "({0}.unsqueeze(2) - {1}).abs().sum(axis=1)",
    "total(({0}[:, :, None] - {1}[None]) ** 2, 1)": "(({0}.unsqueeze(2) - {1}) ** 2).sum(axis=1)",
    "({0}[:, :, None] == {1}[None]).sum(1)": "({0}.unsqueeze(2) == {1}).sum(axis=1)",
    "({0}[:, :, None] < {1}[None]).any(1)": "({0}.unsqueeze(2) < {1}).any(axis=1)",
    "({0}[:, :, None] <= {1}[None]).all(1)": "({0}.unsqueeze(2) <= {1}).all(axis=1)",
    "({0}[:, :, None] + {1}[None]).argmin(1)": "({0}.unsqueeze(2) + {1}).argmin(axis=1)",
}  # fmt: skip


def distance(m: Maker) -> bool:
    """Products of matrices with other operations: the shortest ways, sums of differences, counts."""
    n = m.pick(lambda v: is_matrix(v) and is_ordered(v))
    if n is None:
        return False
    value, columns = m.known[n], m.random.choice(m.extents)
    texts = list(DISTANCES.items())[: 5 if m.program.with_gradient else None]
    numpy, tensor = m.random.choice(texts)
    dtype = accumulated(value.dtype) if "total" in numpy else value.dtype
    dtype = "bool" if ".any" in numpy or ".all" in numpy else "int64" if "==" in numpy or "arg" in numpy else dtype
    if m.random.random() < 0.4:  # of rows and rows
        other = m.partner(n, (columns, value.shape[1]))
        numpy, tensor = numpy.replace("{1}", "{1}.T"), tensor.replace("{1}", "{1}.T")
    else:
        other = m.partner(n, (value.shape[1], columns))
    if other == n:  # rounded in two ways, and compared
        return False
    return m.put([n, other], numpy, tensor, (value.shape[0], columns), dtype, value.is_inexact)


def strided_windows(m: Maker) -> bool:
    """Windows along an axis that begin some places apart, as they are or reduced."""
    n = m.pick(lambda v: v.rank > 0 and v.dtype != "bool" and min(v.shape) > 0)
    if n is None:
        return False
    value, (axis, _) = m.known[n], axis_of(m, n)
    size, step = m.random.randint(1, min(5, value.shape[axis])), m.random.randint(1, 4)
    count = (value.shape[axis] - size) // step + 1
    shape = tuple(count if k == axis else extent for k, extent in enumerate(value.shape))
    cut = ", ".join(f"::{step}" if k == axis else ":" for k in range(value.rank))
    numpy, tensor = f"windows({{0}}, {size}, {axis})[{cut}]", f"{{0}}.unfold({axis}, {size}, {step})"
    if m.random.random() < 0.3 or value.is_complex:
        return m.put([n], numpy, tensor, (*shape, size), value.dtype)
    name = m.random.choice(("max", "min", "sum"))
    if name == "sum":
        dtype = accumulated(value.dtype)
        return m.put([n], f"total({numpy}, -1)", f"{tensor}.sum(axis=-1)", shape, dtype, value.is_inexact)
    return m.put([n], f"{numpy}.{name}(-1)", f"{tensor}.{name}(axis=-1)", shape, value.dtype)


def window_of(m: Maker, extent: int, padded: bool) -> tuple[int, int, int, int, int]:
    """A window's size, stride, padding and dilation, and the count of windows; no count where none fits."""
    size, stride, dilation = m.random.randint(1, 4), m.random.choice((1, 1, 2, 3)), m.random.choice((1, 1, 2, 3))
    padding = m.random.randint(0, size // 2) if padded else 0
    return size, stride, padding, dilation, (extent + 2 * padding - dilation * (size - 1) - 1) // stride + 1


def pool(m: Maker) -> bool:
    """Maxima and means of windows over one or two axes."""
    n = images(m)
    value, rank, name = m.known[n], m.known[n].rank - 2, m.random.choice(("max", "avg"))
    given = [window_of(m, extent, True) for extent in value.shape[2:]]
    if name == "avg":
        given = [
            (size, stride, 0, 1, (k - size) // stride + 1) for (size, stride, *_), k in zip(given, value.shape[2:])
        ]
    size, stride, padding, dilation, counts = (list(found) for found in zip(*given))
    if min(counts) < 1:
        return False
    shape = (*value.shape[:2], *counts)
    extra = f", {dilation}" if name == "max" else ""
    tensor = f"{{0}}.{name}_pool{rank}d({size}, {stride}, {padding}{extra})"
    numpy = f"pooled({{0}}, {name!r}, {size}, {stride}, {padding}, {dilation})"
    return m.put([n], numpy, tensor, shape, value.dtype, rounds=name == "avg")


def strided_convolution(m: Maker) -> bool:
    """Convolutions over one or two axes with stride, padding, dilation and groups; and transposed ones."""
    n = images(m)
    value, rank = m.known[n], m.known[n].rank - 2
    batch, channels = value.shape[:2]
    groups = m.random.choice([k for k in (1, 1, 1, 2, 3, channels) if channels % k == 0])
    outputs = groups * m.random.choice((1, 2, 3, 4, 8))
    given = [window_of(m, extent, True) for extent in value.shape[2:]]
    size, stride, padding, dilation, counts = (list(found) for found in zip(*given))
    if rank == 1 and m.random.random() < 0.4:
        w = m.partner(n, (channels, outputs // groups, *size))
        count = (value.shape[2] - 1) * stride[0] - 2 * padding[0] + dilation[0] * (size[0] - 1) + 1
        more = f"{stride[0]}, {padding[0]}, {dilation[0]}, {groups}"
        tensor = f"{{0}}.conv_transpose1d({{1}}, None, {stride[0]}, {padding[0]}, 0, {groups}, {dilation[0]})"
        numpy, counts = f"transposed_convolution({{0}}, {{1}}, {more})", [count]
    else:
        w = m.partner(n, (outputs, channels // groups, *size))
        more = f"{stride}, {padding}, {dilation}, {groups}"
        numpy, tensor = f"convolution({{0}}, {{1}}, {more})", f"{{0}}.conv{rank}d({{1}}, None, {more})"
    if min(counts) < 1:
        return False
    return m.put([n, w], numpy, tensor, (batch, outputs, *counts), value.dtype, rounds=True)


def own_padding(m: Maker) -> bool:
    """Padded by its own elements; repeated; each element repeated."""
    n = m.pick(lambda v: v.rank > 0 and min(v.shape) > 0)
    if n is None:
        return False
    value, (axis, _) = m.known[n], axis_of(m, n)
    form = m.random.randrange(4)
    if form < 2:
        numpy, tensor = m.random.choice((("reflect", "reflect"), ("wrap", "circular"), ("edge", "replicate")))
        sides = [(0, 0)] * value.rank
        for k in {axis, m.random.randrange(value.rank)}:
            most = min(3, value.shape[k] - (numpy == "reflect"))
            sides[k] = m.random.randint(0, most), m.random.randint(0, most)
        shape = tuple(a + k + b for k, (a, b) in zip(value.shape, sides))
        texts = f"np.pad({{0}}, {sides}, {numpy!r})", f"{{0}}.pad({sides}, {tensor!r})"
        return m.put([n], *texts, shape, value.dtype)
    count = m.random.randint(1, 3)
    if form == 2:
        times = tuple(count if k == axis else 1 for k in range(value.rank))
        texts = f"np.tile({{0}}, {times})", f"{{0}}.repeat({', '.join(map(str, times))})"
    else:
        texts = f"np.repeat({{0}}, {count}, {axis})", f"{{0}}.repeat_interleave({count}, {axis})"
    return m.put([n], *texts, tuple(k * count if j == axis else k for j, k in enumerate(value.shape)), value.dtype)


def ordered(m: Maker) -> bool:
    """Places in order, the largest few, one of a certain rank, the order from the largest on."""
    n = m.pick(lambda v: v.rank > 0 and is_ordered(v) and min(v.shape) > 0)
    if n is None:
        return False
    value, (axis, others) = m.known[n], axis_of(m, n)
    extent = value.shape[axis]
    count = m.random.randint(1, extent)
    cut = ", ".join(f":{count}" if k == axis else ":" for k in range(value.rank))
    shape = tuple(count if k == axis else extent for k, extent in enumerate(value.shape))
    falling = f"np.flip(in_order({{0}}, {axis}), {axis})"
    forms = [
        (f"{falling}[{cut}]", f"{{0}}.topk({count}, {axis})[0]", shape, value.dtype),
        (f"in_order({{0}}, {axis})[{cut}]", f"{{0}}.topk({count}, {axis}, largest=False)[0]", shape, value.dtype),
        (falling, f"{{0}}.sort({axis}, descending=True)[0]", value.shape, value.dtype),
        (
            f"in_order({{0}}, {axis}).take({count - 1}, {axis})",
            f"{{0}}.kthvalue({count}, {axis})[0]",
            others,
            value.dtype,
        ),
        (f"order_of({{0}}, {axis})", f"{{0}}.argsort({axis}, stable=True)", value.shape, "int64"),
    ]
    return m.put([n], *m.random.choice(forms[:4] if m.program.with_gradient else forms))


def places_in_order(m: Maker) -> bool:
    """Where numbers belong in a line that is in order."""
    n = m.pick(lambda v: v.rank > 0 and is_ordered(v) and min(v.shape) > 0)
    if n is None:
        return False
    line, side = m.partner(n, (m.random.choice(m.extents),)), m.random.choice(("left", "right"))
    if line == n or not m.put([line], "in_order({0}, 0)", "{0}.sort(0)[0]", m.known[line].shape, m.known[n].dtype):
        return False
    texts = f"places_in({{0}}, {{1}}, {side!r})", f"{{0}}.searchsorted({{1}}, side={side!r})"
    return m.put([last(m), n], *texts, m.known[n].shape, "int64")


def scan(m: Maker) -> bool:
    """Running sums and extremes of all dtypes: from the end, without the last, of logarithms, differences."""
    n = m.pick(lambda v: v.rank > 0 and is_ordered(v) and min(v.shape) > 0)
    if n is None:
        return False
    value, (axis, _) = m.known[n], axis_of(m, n)
    dtype, rounds, extent = accumulated(value.dtype), value.is_inexact, value.shape[axis]
    shorter = tuple(extent - 1 if k == axis else k_extent for k, k_extent in enumerate(value.shape))
    forms = [
        (f"running_sum({{0}}, {axis})", f"{{0}}.cumsum({axis})", value.shape, dtype, rounds),
        (
            f"np.flip(running_sum(np.flip({{0}}, {axis}), {axis}), {axis})",
            f"{{0}}.flip({axis}).cumsum({axis}).flip({axis})", value.shape, dtype, rounds,
        ),
        (f"running_sum({{0}}, {axis}) * 2 - {{0}}", f"{{0}}.cumsum({axis}) * 2 - {{0}}", value.shape, dtype, rounds),
        (f"np.diff({{0}}, 1, {axis})", f"{{0}}.diff(1, {axis})", shorter, value.dtype, rounds),
    ]  # fmt: skip
    if value.dtype in ("float32", "float64"):
        text = f"np.logaddexp.accumulate({{0}}, {axis})"
        forms.append((text, f"{{0}}.logcumsumexp({axis})", value.shape, value.dtype, True))
    if extent == 1:
        forms.pop(3)
    return m.put([n], *m.random.choice(forms))


#: What is computed of a line and put beside it; {a} is the axis or the axes. Nothing is taken from itself: it may be
#: rounded in two ways, as in a fused multiplication and addition.
LINES = {
    "{0} - mean({0}, {a})": "{0} - {0}.mean(axis={a}, keepdim=True)",
    "({0} - mean({0}, {a})) / np.sqrt(variance({0}, {a}) + 1)":
        "({0} - {0}.mean(axis={a}, keepdim=True)) / ({0}.var(axis={a}, correction=0, keepdim=True) + 1).sqrt()",
    "{0} / np.sqrt(mean({0} * {0}, {a}) + 1)": "{0} / (({0} * {0}).mean(axis={a}, keepdim=True) + 1).sqrt()",
    "{0} / (np.abs({0}).max({a}, keepdims=True) + 1)": "{0} / ({0}.abs().max(axis={a}, keepdims=True) + 1)",
    "{0} * 2 - log_total({0}, {a})": "{0} * 2 - {0}.exp().sum(axis={a}, keepdim=True).log()",
    "({0} * 2 - {0}.min({a}, keepdims=True)) * mean({0}, {a})":
        "({0} * 2 - {0}.min(axis={a}, keepdims=True)) * {0}.mean(axis={a}, keepdim=True)",
}  # fmt: skip


def line(m: Maker) -> bool:
    """Norms: numbers of whole lines beside their elements, along one axis or several."""
    n = m.pick(lambda v: v.rank > 0 and is_real_float(v) and min(v.shape) > 0)
    if n is None:
        return False
    rank = m.known[n].rank
    axes = tuple(sorted(m.random.sample(range(rank), m.random.randint(1, min(rank, 3)))))
    given = str(axes[0] if len(axes) == 1 else axes)
    numpy, tensor = (text.replace("{a}", given) for text in m.random.choice(list(LINES.items())))
    return m.put([n], numpy, tensor, m.known[n].shape, m.known[n].dtype, rounds=True)


def several_reduced(m: Maker) -> bool:
    """Several axes reduced at once, some of them kept."""
    n = m.pick(lambda v: v.rank > 1 and is_ordered(v) and min(v.shape) > 0)
    if n is None:
        return False
    value = m.known[n]
    axes = tuple(sorted(m.random.sample(range(value.rank), m.random.randint(1, value.rank))))
    keep, name = m.random.random() < 0.4, m.random.choice(("sum", "max", "min"))
    shape = tuple(1 if k in axes else extent for k, extent in enumerate(value.shape) if keep or k not in axes)
    tensor = f"{{0}}.{name}(axis={axes}, keepdims={keep})"
    if name == "sum":
        dtype = accumulated(value.dtype)
        return m.put([n], f"total({{0}}, {axes}, {keep})", tensor, shape, dtype, value.is_inexact)
    return m.put([n], f"{{0}}.{name}({axes}, keepdims={keep})", tensor, shape, value.dtype)


def triangle(m: Maker) -> bool:
    """Parts of matrices beside the diagonal, and the diagonal."""
    n = m.pick(lambda v: v.rank >= 2 and min(v.shape) > 0)
    if n is None:
        return False
    value, k = m.known[n], m.random.randint(-2, 2)
    name = m.random.choice(("tril", "triu", "rot90", "diagonal"))
    shape = value.shape
    if name == "diagonal":
        count = np_diagonal(shape[-2], shape[-1], k)
        if count < 1:
            return False
        texts = f"np.diagonal({{0}}, {k}, -2, -1)", f"{{0}}.diagonal({k}, -2, -1)"
        return m.put([n], *texts, (*shape[:-2], count), value.dtype)
    if name == "rot90":
        turned = (*shape[:-2], shape[-1], shape[-2]) if k % 2 else shape
        return m.put([n], f"np.rot90({{0}}, {k}, (-2, -1))", f"{{0}}.rot90({k}, (-2, -1))", turned, value.dtype)
    return m.put([n], f"np.{name}({{0}}, {k})", f"{{0}}.{name}({k})", shape, value.dtype)


def np_diagonal(rows: int, columns: int, k: int) -> int:
    """How many elements a diagonal has."""
    return min(rows + min(k, 0), columns - max(k, 0))


def bits(m: Maker) -> bool:
    """Shifts by less than the width, and bits that are turned."""
    n = m.pick(lambda v: v.dtype not in (*SMALL_FLOATS, *COMPLEX, "bool", "float32", "float64"))
    if n is None:
        return False
    value, by = m.known[n], m.random.randint(0, 7)
    text = m.random.choice((f"{{0}} << {by}", f"{{0}} >> {by}", "~{0}", f"({{0}} >> {by}) & 3", "{0} * {0}"))
    return m.put([n], text, text, value.shape, value.dtype)


def bag(m: Maker) -> bool:
    """Rows at indices added up, by bags; rows chosen by a number that is one among zeros."""
    n = m.pick(lambda v: is_matrix(v) and is_ordered(v))
    if n is None:
        return False
    value, rows = m.known[n], m.known[n].shape[0]
    bags, count = m.random.choice(m.extents), m.random.choice(m.extents[:6])
    if bags * count > m.most_elements:
        return False
    places = rows_at(m, rows, bags * count)
    index = f"{{1}}.reshape({bags}, {count})"
    shape = (bags, value.shape[1])
    if m.random.random() < 0.3:
        texts = f"{{0}}[{index}].max(1)", f"{{0}}[{index}].max(axis=1)"
        return m.put([n, places], *texts, shape, value.dtype)
    texts = f"total({{0}}[{index}], 1)", f"{{0}}[{index}].sum(axis=1)"
    return m.put([n, places], *texts, shape, accumulated(value.dtype), value.is_inexact)


def overwritten(m: Maker) -> bool:
    """A part, or what a mask says, set to other values in place: x[1:, ::2] = y."""
    n = m.pick(lambda v: v.rank > 0 and min(v.shape) > 0)
    written = {s.result for s in m.program.statements if not s.update and s.sources}
    if n is None or not m.aliasing or n not in written:
        return False
    items, shape = part_of(m, m.known[n])
    if not shape or not m.put([n], f"{{0}}[{items}]", f"{{0}}[{items}]", shape, m.known[n].dtype):
        return False
    view = last(m)
    other = m.partner(view, shape)
    if other == view:
        return False
    text = f"v{other}"
    m.program.statements.append(Statement(view, (view, other), text, text, m.known[n].dtype, update="copy"))
    return m.put([n], "np.array({0})", "{0}.clone()", m.known[n].shape, m.known[n].dtype)


def scores(m: Maker) -> bool:
    """The loss of classes: the logarithm of a softmax at one place of each row."""
    n = m.pick(lambda v: is_matrix(v) and v.dtype in ("float32", "float64"))
    if n is None:
        return False
    (rows, classes), dtype = m.known[n].shape, m.known[n].dtype
    places = rows_at(m, classes, rows)
    m.program.inputs[-1] = (places, m.program.inputs[-1][1] % classes)
    numpy = "({0} - {0}.max(1, keepdims=True) - log_total({0} - {0}.max(1, keepdims=True), 1))"
    numpy += "[np.arange(len({1})), {1}]"
    tensor = f"{{0}}.log_softmax(1).gather(1, {{1}}.cast('int64').reshape({rows}, 1)).squeeze(1)"
    return m.put([n, places], numpy, tensor, (rows,), dtype, rounds=True)


NOT_SMOOTH: tuple[Kind, ...] = (places_in_order, bits, overwritten)
IDIOMS: tuple[Kind, ...] = (
    *(gathered_product, gathered_product, heads, heads, columns_apart, every_other, every_other, distance, distance),
    *(strided_windows, pool, strided_convolution, strided_convolution, own_padding, own_padding, ordered, ordered),
    *(places_in_order, scan, scan, line, line, several_reduced, triangle, bits, bag, overwritten, overwritten, scores),
)  # fmt: skip
