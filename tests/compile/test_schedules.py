"""Schedules: random steps on random kernels mean what the kernels mean, every size of every tail, steps that are refused, kernels that overwrite."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor, engine
from rulegrad.compile import compile_graph
from rulegrad.compile.kernels import forget_kernels
from rulegrad.engine.schedules import parse_schedule, schedule_text
from rulegrad.errors import RewriteError
from rulegrad.ir import UOp
from rulegrad.workbench.diagnosis.comparing import Comparison
from rulegrad.workbench.diagnosis.meaning import NotComparableError

RULES = Path(__file__).parents[2] / "rules" / "loops"
TAILS = ("exact", "guard", "clamp", "peel")
CLOSING = ("END", "REDUCE")
#: What is said of loops that steps have made stand inside each other: it is an error, not a wrong program.
NO_ORDER = "would each stand inside the other"
Build = Callable[..., Tensor]
#: Steps that are drawn for processors, and for grids of work-items.
KINDS = ("split", "split", "split", "fuse", "unroll", "vectorize", "bind", "reorder", "stage")
PLACES = ("item", "item axis 1", "group", "group", "group axis 1", "local", "local", "unrolled")
KINDS_OF_GRIDS = ("split", "split", "fuse", "unroll", "place", "place", "place", "reorder")

#: name -> shapes of what is read, and the result
KERNELS: dict[str, tuple[tuple[tuple[int, ...], ...], Build]] = {
    "elementwise": (((3, 11), (3, 11)), lambda x, y: x * 2 + y),
    "transposed": (((11, 3), (3, 11)), lambda x, y: x.T + y),
    "row sums": (((3, 11),), lambda x: x.sum(1)),
    "row maxima": (((3, 11),), lambda x: x.max(1)),
    "column sums": (((5, 9),), lambda x: x.sum(0)),
    "product": (((5, 7), (7, 9)), lambda x, y: x @ y),
    "product of turned operands": (((7, 5), (9, 7)), lambda x, y: x.T @ y.T),
    "product and more": (((5, 7), (7, 9), (5, 9)), lambda x, y, z: (x @ y + z).relu()),
    "two reductions": (((4, 10),), lambda x: x.sum(1) + x.max(1)),
}


def kernel(name: str, target: str = "c") -> UOp:
    """The kernel with names for its loops."""
    shapes, build = KERNELS[name]
    tensors = [Tensor(np.ones(shape, np.float32), device="numpy").realize() for shape in shapes]
    (found,) = compile_graph([build(*tensors).uop], target)
    return with_names(found.graph, target)


def with_names(graph: UOp, target: str = "c") -> UOp:
    """A kernel with names for its loops: one for each axis."""
    passes = engine.pipeline("program")
    before = [name for name in passes[: passes.index("name_loops") + 1] if name != "merge_loops"]
    return engine.run_all([graph], before, target)[0]


def scheduled(graph: UOp, text: str, target: str = "c") -> UOp:
    """The graph after the steps; a SCHEDULED is left where one does not apply."""
    return engine.rewrite(UOp("SCHEDULED", (graph, *parse_schedule(text))), "apply_schedule", target)


def loops(graph: UOp) -> dict[str, int]:
    """The extents of the loops, by path."""
    found = (node for node in graph.toposort() if node.op == "RANGE")
    return {".".join(node.attrs["path"]): node.src[0].attrs["value"] for node in found}


def labelled_as(graph: UOp, op: str, name: str) -> UOp:
    """The graph with a name for the value of the first node of an op."""
    first = next(node for node in graph.toposort() if node.op == op)
    made: dict[UOp, UOp] = {}
    for node in graph.toposort():
        built = node.replace([made[source] for source in node.src])
        made[node] = UOp("LABEL", (built,), name=name) if node == first else built
    return made[graph]


def random_step(graph: UOp, r: random.Random, kinds: tuple[str, ...] = KINDS) -> str:
    known = loops(graph)
    loop = r.choice(sorted(known))
    match r.choice(kinds):
        case "split":
            return f"split {loop} by {r.randint(2, 5)} tail {r.choice(TAILS)}"
        case "fuse":
            return f"fuse {loop}, {r.choice(sorted(known))} as both{r.randint(0, 9)}"
        case "unroll" if known[loop] <= 6:
            return f"unroll {loop}"
        case "vectorize" if known[loop] <= 12:
            return f"vectorize {loop}"
        case "bind" if loop.startswith("i"):
            return f"bind {loop} to thread"
        case "place":
            return f"bind {loop} to {r.choice(PLACES)}"
        case "reorder":
            ended = sorted({".".join(p.attrs["path"]) for n in graph.toposort() if n.op == "END" for p in n.src[1:]})
            return f"reorder {', '.join(r.sample(ended, len(ended)))}" if ended else f"unroll {loop}"
        case "stage":
            return f"stage a layout {', '.join(r.sample(sorted(known), min(2, len(known))))}"
        case _:
            return f"split {loop} by 2 tail guard"


def require_one_place(graph: UOp) -> None:
    """Every loop is closed in one place: by effects or by reductions, and never inside itself."""
    closers: dict[UOp, set[str]] = {}
    for node in graph.toposort():
        if node.op in CLOSING:
            for loop in node.src[1:]:
                closers.setdefault(loop, set()).add(node.op)
                assert loop in node.src[0].ranges or loop not in closed_below(node.src[0]), loop
    assert not [loop for loop, ops in closers.items() if len(ops) > 1]


def closed_below(node: UOp) -> set[UOp]:
    return {loop for below in node.toposort() if below.op in CLOSING for loop in below.src[1:]}


@pytest.mark.each_value
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("seed", range(6))
def test_random_schedules(name: str, seed: int) -> None:
    """After each step, and lowered to a program, the kernel computes what it did."""
    r = random.Random(f"{name} {seed}")
    start = labelled_as(kernel(name), "LOAD", "a")
    comparison = Comparison(start)
    wanted = comparison.meanings(start)
    graph, taken = start, list[str]()

    def require_same(after: UOp) -> None:
        assert not comparison.different(wanted, after), "; ".join(taken)

    for _ in range(6):
        step = random_step(graph, r)
        after = scheduled(graph, step)
        if after.op == "SCHEDULED":  # it does not apply
            continue
        taken.append(step)
        require_one_place(after)
        try:
            require_same(after)
        except NotComparableError as error:
            assert NO_ORDER in str(error), "; ".join(taken)
            return
        graph = after
        if not loops(graph):
            break
    passes = engine.pipeline("program")
    require_same(engine.run_all([graph], passes[passes.index("finish_schedule") :], "c")[0])


@pytest.mark.each_value
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("target", ["cuda", "webgpu"])
def test_random_grids(name: str, target: str) -> None:
    """Loops bound to items, groups and work-items of groups: a step that would be wrong is refused, with subgroups and without."""
    start = kernel(name, target)
    comparison = Comparison(start)
    wanted = comparison.meanings(start)
    passes = engine.pipeline("program")
    places = 0
    for seed in range(24):
        r = random.Random(f"{name} {target} {seed}")
        taken = list[str]()
        graph = start
        for _ in range(8):
            step = random_step(graph, r, KINDS_OF_GRIDS)
            if scheduled(start, "; ".join([*taken, step]), target).op == "SCHEDULED":  # it does not apply
                continue
            taken.append(step)
            graph = steps_taken(start, taken, target)
            if not loops(graph):
                break
        program = engine.run_all(
            [scheduled(start, "; ".join(taken), target)], passes[passes.index("finish_schedule") :], target
        )[0]
        assert not comparison.different(wanted, program), "; ".join(taken)
        places += any(node.attrs["name"] == "local" for node in program.toposort("SPECIAL"))
    assert places


@pytest.mark.parametrize("axes", list(itertools.permutations(range(3))), ids=str)
def test_groups_of_three_axes(axes: tuple[int, ...]) -> None:
    """Each column's sum is reduced in memory of its own, whichever axis of the group its loops are."""
    x = Tensor(np.ones((3, 8, 4), np.float32), device="numpy").realize()
    (found,) = compile_graph([x.sum(1).uop], "cuda")
    start = with_names(found.graph, "cuda")
    steps = [f"bind {path} to local axis {axis}" for path, axis in zip(("i0", "i1", "k0"), axes, strict=True)]
    after = scheduled(start, "; ".join(steps), "cuda")
    assert after.op == "SINK"
    passes = engine.pipeline("program")
    program = engine.run_all([after], passes[passes.index("finish_schedule") :], "cuda")[0]
    assert {node.attrs["axis"] for node in program.toposort("SPECIAL")} == {0, 1, 2}
    comparison = Comparison(start)
    assert not comparison.different(comparison.meanings(start), program)


def steps_taken(graph: UOp, taken: list[str], target: str) -> UOp:
    """The kernel after some steps, before its groups are made: with one step more that does not apply."""
    after = scheduled(graph, "; ".join([*taken, "unroll nothing"]), target)
    return after.src[0] if after.op == "SCHEDULED" else after


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("extent", [1, 3, 4, 5, 8])
@pytest.mark.parametrize("build", [lambda x: x * 2, lambda x: x.sum(1), lambda x: x.max(1)], ids=["all", "sum", "max"])
def test_tails(tail: str, extent: int, build: Build) -> None:
    """Parts of four of 1, 3, 4, 5 and 8: it is refused where it says nothing, and right elsewhere."""
    (found,) = compile_graph([build(Tensor(np.ones((2, extent), np.float32), device="numpy").realize()).uop], "c")
    graph = with_names(found.graph)
    extents = loops(graph)
    loop = next((path for path, size in sorted(extents.items()) if size == extent and path != "i0"), "")
    if extent == 1:
        assert not loop  # a loop of one iteration is none
        return
    after = scheduled(graph, f"split {loop} by 4 tail {tail}")
    adds = any(node.attrs.get("op") == "ADD" for node in graph.toposort() if node.op == "REDUCE")
    refused = (tail == "exact" and extent % 4) or (tail == "clamp" and (extent < 4 or adds))
    assert (after.op == "SCHEDULED") == bool(refused)
    if not refused:
        comparison = Comparison(graph)
        assert not comparison.different(comparison.meanings(graph), after)


@pytest.mark.parametrize("width", [1, 2, 7, 8, 9, 15, 16, 17, 32, 33])
def test_values_on_c(device: str, width: int) -> None:
    """The tactics' choices, around the lanes of a vector."""
    random_numbers = np.random.default_rng(width)
    x, y = (random_numbers.uniform(-1, 1, shape).astype(np.float32) for shape in ((9, width), (width, width + 1)))
    a, b = (Tensor(array, device=device).realize() for array in (x, y))
    for found, wanted in (
        (a @ b, x @ y),
        (b.T @ a.T, (x @ y).T),
        (a.sum(1), x.sum(1)),
        (a.max(0), x.max(0)),
        ((a @ b + 1).relu(), np.maximum(x @ y + 1, 0)),
        (a.softmax(1), np.exp(x) / np.exp(x).sum(1, keepdims=True)),
    ):
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [5, 17, 33])
def test_kernels_of_several_stores_have_schedules(device: str, size: int) -> None:
    """A product whose result is stored beside what is made of it; neighbours stored twice; four axes."""
    x = np.random.default_rng(size).uniform(0.5, 1, (2, 3, size, size)).astype(np.float32)
    a, b = (Tensor(part, device=device).realize() for part in (x[0, 0], x[1]))
    product = a @ a
    for wanted, values in (
        ("product", {"x": (product, x[0, 0] @ x[0, 0]), "y": (product * 2 + a, (x[0, 0] @ x[0, 0]) * 2 + x[0, 0])}),
        ("elementwise", {"x": (b * 2, x[1] * 2), "y": (b * 2 - 1, x[1] * 2 - 1)}),
    ):
        with rg.profile() as profile:
            Tensor.realize(*(found for found, _ in values.values()))
        for found, expected in values.values():
            np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-5)
        (record,) = profile.kernels
        assert device != "c" or size < 16 or record.schedule.startswith(wanted)


@pytest.mark.parametrize("size", [5, 17, 33])
def test_kernels_that_overwrite_what_they_read(device: str, size: int) -> None:
    x = np.random.default_rng(size).uniform(0.5, 1, (size, size)).astype(np.float32)

    def assigned(change: Callable[[Tensor, Tensor], Tensor]) -> Any:
        target, other = (Tensor(x.copy(), device=device).realize() for _ in range(2))
        target.assign(change(target, other))
        return target.numpy()

    powers = np.exp(x)
    for change, wanted in (
        (lambda t, b: t.softmax(1), powers / powers.sum(1, keepdims=True)),
        (lambda t, b: t @ b + t, x @ x + x),
        (lambda t, b: t * 2 + b @ b, x * 2 + x @ x),
        (lambda t, b: t / t.sum(0).reshape(1, size), x / x.sum(0)),
        (lambda t, b: t + t.sum(1).reshape(size, 1), x + x.sum(1, keepdims=True)),
    ):
        np.testing.assert_allclose(assigned(change), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("further", [0, 1])
def test_what_overwrites_is_not_clamped_and_copies_its_own_elements(further: int) -> None:
    """An element would be computed twice, the second time from what it is already; a copy of others' would be old."""
    memory, loop = UOp("PARAM", (), "float32", slot=0, shape=(9,)), named("i0", 8)
    place = loop + 1 if further else loop
    value = UOp("LABEL", (UOp("LOAD", (UOp("INDEX", (memory, place)),)),), name="x")
    graph = UOp("SINK", (UOp("END", (UOp("STORE", (UOp("INDEX", (memory, loop)), value + value)), loop)),))
    assert scheduled(graph, "split i0 by 3 tail clamp").op == "SCHEDULED"
    assert scheduled(graph, "stage x layout i0").op == ("SCHEDULED" if further else "SINK")
    assert scheduled(graph, "split i0 by 3 tail guard").op == "SINK"


def named(name: str, extent: int) -> UOp:
    return UOp("RANGE", (UOp.const(extent, "index"),), id=0, kind="output", path=(name,))


REFUSED = {
    "split i9 by 4": "split i9 by 4",  # no such loop
    "split i1 by 4": "split i1 by 4",  # 11 is not a multiple of 4
    "unroll i1; unroll i1": "unroll i1",  # it is gone
    "fuse i0, k0 as both": "fuse i0, k0 as both",
    "stage c layout i1": "stage c layout i1",
    "split i1 by 4 tail peel; unroll i1.rest; unroll i1.middle": "unroll i1.middle",
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_step_that_does_not_apply_is_an_error(text: str, tmp_path: Path) -> None:
    rules = tmp_path / "mine.rules"
    rules.write_text(
        "pass mine rewrite walk:\n"
        "    mine: k@SINK(END(x, rs...)) -> SCHEDULED(k, steps {" + text + "})\n"
        "remove choose_schedule from program\n"
        "insert mine before apply_schedule in program\n"
    )
    x = Tensor(np.ones((3, 11), np.float32), device="numpy").realize()
    try:
        with engine.load_rules(rules), pytest.raises(RewriteError, match=re.escape(f"the step `{REFUSED[text]}`")):
            compile_graph([(x * x[:, :1]).uop], "c")
    finally:
        forget_kernels()


def test_steps_on_parts_that_are_none_do_nothing() -> None:
    """The rest of a split of whole parts has no loop; steps on it are taken."""
    graph = kernel("row sums")
    after = scheduled(graph, "split i0 by 3 tail peel; unroll i0.outer; unroll i0.rest; vectorize i0.inner")
    assert after.op == "SINK"
    comparison = Comparison(graph)
    assert not comparison.different(comparison.meanings(graph), after)


def test_no_rule_numbers_loops_by_hand() -> None:
    """A loop that a step or a tactic makes has a path; an id would be one of a table that everybody must know."""
    numbered = re.compile(r"RANGE\[id=(?!0,)")
    for path in (RULES / "forms.rules", RULES / "steps.rules", *(RULES / "tactics").glob("*.rules")):
        lines = path.read_text().splitlines()
        assert [line.strip() for line in lines if numbered.search(line)] == [], path.name


def test_a_schedule_is_text() -> None:
    text = "split i0 by 8 tail guard; fuse i0.outer, i1 as task; bind task to thread; vectorize i0.inner"
    assert schedule_text(parse_schedule(text)) == text


@pytest.mark.parametrize("width", [7, 16, 33])
def test_truth_values_in_vectors(device: str, width: int) -> None:
    """Masks are read from bytes and written to them, as 1 or 0, whole rows and rests; one for a row, too."""
    random_numbers = np.random.default_rng(width)
    x, mask = random_numbers.standard_normal((5, width), np.float32), random_numbers.random((5, width)) < 0.5
    a, m = (Tensor(array, device=device).realize() for array in (x, mask))
    for found, wanted in (
        ((a < 0) & m, (x < 0) & mask),
        (~m, ~mask),
        (m.where(a, 0), np.where(mask, x, 0)),
        ((a * m.cast("float32")).sum(1), (x * mask).sum(1)),
        (m.flip(1) | (a < 0), mask[:, ::-1] | (x < 0)),
        ((a[:, :1] < 0).expand(5, width).contiguous(), np.repeat(x[:, :1] < 0, width, 1)),
    ):
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-5)
        assert wanted.dtype != bool or set(np.unique(found.numpy().view(np.uint8))) <= {0, 1}


@pytest.mark.parametrize("size", [3, 7, 14])
def test_rows_of_several_axes(device: str, size: int) -> None:
    """The axes of a plane are one loop; a channel's sums are computed once for all its images."""
    x = np.random.default_rng(size).standard_normal((3, 5, size, size), np.float32)
    a = Tensor(x, device=device).realize()
    axes = (0, 2, 3)
    found = (a - a.mean(axes, keepdim=True)) / (a.var(axes, keepdim=True, correction=0) + 1e-5).sqrt()
    wanted = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose((a * 2 + 1).numpy(), x * 2 + 1, rtol=1e-6)


@pytest.mark.parametrize("rows", [1, 5, 64])
@pytest.mark.parametrize("transposed", [False, True], ids=["columns", "rows"])
def test_two_products_in_one_kernel(rows: int, transposed: bool) -> None:
    """A gate and what it gates: tiles of both side by side, of equal or of different factors, while they are small."""
    r = np.random.default_rng(rows)
    x, y, a, b = (r.standard_normal(s, np.float32) for s in ((rows, 33), (rows, 33), (33, 50), (33, 50)))
    tensors = [Tensor(z, device="c").realize() for z in (x, y)]
    weights = [Tensor(z.T.copy() if transposed else z, device="c").realize() for z in (a, b)]
    a_of, b_of = [w.T if transposed else w for w in weights]
    for one, other, expected in [(0, 0, (x @ a) * (x @ b)), (0, 1, (x @ a) * (y @ b))]:
        with rg.profile() as p:
            result = ((tensors[one] @ a_of) * (tensors[other] @ b_of)).numpy()
        assert len(p.kernels) == (1 if rows < 64 else 2)
        assert all(k.schedule.partition(":")[0] in ("product", "rows", "columns") for k in p.kernels)
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("depth", [96, 768, 4096])
def test_products_by_transposed_weights_are_computed_in_tiles(dtype: str, depth: int) -> None:
    """Whatever the width of the numbers: a sum along each row waits for memory, and was thought to be half as long."""
    x, w = (Tensor(np.zeros((rows, depth), dtype), device="numpy") for rows in (256, 128))
    for result in (x @ w.T, (x @ w.T).silu() * (x @ w.T)):
        kernels = compile_graph([result.uop], "c_avx512")
        assert [kernel.tactic for kernel in kernels] == ["product"]


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize(
    "build",
    [
        lambda a, b: (a**2).sum(1, keepdim=True) + (b**2).sum(1) - 2 * a @ b.T,
        lambda a, b: a.sum(1, keepdim=True) + a @ b.T,
        lambda a, b: (a @ b.T) * (b.abs().max(1) / 127),
        lambda a, b: (a @ b.T) * b.softmax(1).max(1),
    ],
    ids=["distances", "sums", "largest", "softmax"],
)
def test_a_product_has_tiles_beside_reductions_of_its_rows(build: Callable[..., Tensor], dtype: str) -> None:
    x, y = (np.random.default_rng(n).integers(-4, 5, (n, 64)) / 4 for n in (128, 200))
    tensors = [Tensor(z, device="c").cast(dtype).realize() for z in (x, y)]
    assert compile_graph([build(*tensors).uop], "c_avx512")[-1].tactic == "product"
    wanted = build(*(Tensor(z, device="numpy") for z in (x, y))).numpy()
    tolerance = {"float32": 1e-5, "bfloat16": 2e-2, "float64": 1e-12}[dtype] * np.abs(wanted).max()
    np.testing.assert_allclose(build(*tensors).cast("float64").numpy(), wanted, atol=tolerance, rtol=0)


def test_sums_of_columns_beside_sums_of_rows_have_vectors() -> None:
    """A mean of those elements that a mask names: how many there are is counted once, not for each column."""
    x, m = np.random.default_rng(0).standard_normal((8, 40, 64)), np.arange(320).reshape(8, 40) % 3 - 1.0
    tensors = [Tensor(z, device="c").cast("float32").realize() for z in (x, m)]

    def build(x: Tensor, m: Tensor) -> Tensor:
        return (x * (m > 0)[:, :, None]).sum(1) / (m > 0).sum(1, keepdim=True)

    wanted = (x * (m > 0)[:, :, None]).sum(1) / (m > 0).sum(1, keepdims=True)
    np.testing.assert_allclose(build(*tensors).numpy(), wanted, rtol=1e-4, atol=1e-5)
    large = [Tensor(np.zeros(s, np.float32), device="numpy") for s in ((64, 128, 256), (64, 128))]
    tactics = [kernel.tactic for kernel in compile_graph([build(*large).uop], "c_avx512")]
    assert tactics == ["rows", "streamed_columns"]


@pytest.mark.parametrize("target", ["c", "c_avx512", "c_avx512_vnni", "c_avx512_bf16"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16", "int8", "int32"])
@pytest.mark.parametrize("transposed", ["", "a", "b", "ab"])
def test_products_of_large_matrices_have_tiles(target: str, dtype: str, transposed: str) -> None:
    """Whatever their dtype and layout: rows of a matrix that are read once more for each row of another are no stream."""
    a, b = (Tensor(np.zeros((1024, 1024), np.int8), device="numpy").cast(dtype).realize() for _ in range(2))
    product = (a.T if "a" in transposed else a) @ (b.T if "b" in transposed else b)
    kernel = compile_graph([product.uop], target)[-1]
    assert kernel.tactic in ("product", "dot", "matrix_product"), kernel.tactic


def test_gradients_of_what_several_products_share_have_tiles() -> None:
    """They are sums of products, each of which has tiles: in one sum none had any."""
    x, a, b = (Tensor(np.zeros(s, np.float32), device="numpy") for s in ((64, 96), (80, 96), (80, 96)))
    x = x.requires_grad_()
    (x.linear(a).silu() * x.linear(b)).square().sum().backward()
    assert x.grad is not None
    kernels = compile_graph([x.grad.uop], "c_avx512")
    assert [k.tactic for k in kernels].count("product") == 4
    assert not any(k.tactic in ("none", "rows") for k in kernels)


def test_one_of_two_nested_sums_has_lanes() -> None:
    """That of the columns: their elements are neighbours in all that is read."""
    r = np.random.default_rng(0)
    x, m, y = (r.standard_normal(s).astype(np.float32) for s in ((7, 33), (7, 33, 45), (7, 45)))
    tensors = [Tensor(z, device="c").realize() for z in (x, m, y)]
    with rg.profile() as p:
        result = rg.einsum("bi,bij,bj->b", *tensors).numpy()
    assert [k.schedule.partition(":")[0] for k in p.kernels] == ["rows"]
    np.testing.assert_allclose(result, np.einsum("bi,bij,bj->b", x, m, y), rtol=1e-4, atol=1e-4)


def test_sums_of_rows_and_of_columns_are_two_kernels() -> None:
    """As stores of one kernel, or as terms of one sum, neither had vectors."""
    x = np.random.default_rng(0).standard_normal((200, 200)).astype(np.float32)
    a = Tensor(x, device="c").realize()
    for build in (lambda: (a.sum(0), a.sum(1)), lambda: (a.sum(0) + a.sum(1),)):
        results = build()
        with rg.profile() as p:
            Tensor.realize(*results)
        assert sorted(k.schedule.partition(":")[0] for k in p.kernels) == ["columns", "rows"]
    np.testing.assert_allclose(results[0].numpy(), x.sum(0) + x.sum(1), rtol=1e-4, atol=1e-4)


def test_shifted_lines_are_read_by_whole_vectors() -> None:
    """The loop is cut behind the first line, so that no vector has elements of both."""
    x = Tensor(np.zeros((2, 100, 64), np.float32), device="numpy")
    shifted = rg.cat([rg.zeros(2, 1, 64, device="numpy"), x[:, :-1]], 1)
    (kernel,) = compile_graph([shifted.uop], "c_avx512")
    assert kernel.tactic == "pieces" and "data1[" not in kernel.source.replace("&data1[", "")


def test_windows_of_each_channel_by_itself_are_no_products_of_one_row() -> None:
    """A convolution of groups of one channel, with padding: there is nothing to reuse in tiles, and all to read in gates."""
    x, w = (Tensor(np.zeros(s, np.float32), device="numpy") for s in ((8, 128, 512), (128, 1, 4)))
    (kernel,) = compile_graph([x.conv1d(w, padding=3, groups=128).uop], "c_avx512")
    assert kernel.tactic == "windows"


def test_lines_of_windows_are_copied_by_vectors_where_some_lanes_are_read_at_once() -> None:
    """The copy of a part of the plane, with padding: that of a processor with AVX2, every second element too."""
    x, w = (Tensor(np.zeros(s, np.float32), device="numpy") for s in ((2, 8, 28, 28), (8, 1, 3, 3)))
    for stride, copied in ((1, "LOAD_LANES(float, 8,"), (2, "LOAD_LANES_STRIDED(float, 8, 2,")):
        convolved = x.conv2d(w, stride=stride, padding=1, groups=8)
        (kernel,) = compile_graph([convolved.uop], "c_avx2")
        assert kernel.tactic == "convolution" and copied in kernel.source
        assert copied not in compile_graph([convolved.uop], "c")[0].source


@pytest.mark.parametrize(
    "build",
    [
        lambda a: a / a.sum(0) / a.sum(1, keepdim=True),
        lambda a: (lambda b: b / b.sum(0))(a / a.sum(1, keepdim=True)),
        lambda a: a.abs().sum(1).rsqrt()[:, None] * a * a.abs().sum(0).rsqrt(),
    ],
    ids=["both", "in turn", "roots"],
)
def test_rows_and_columns_that_are_normalized_are_two_kernels(build: Callable[[Tensor], Tensor]) -> None:
    """Neither sum is computed again for each element of the other one."""
    large = Tensor(np.zeros((400, 500), np.float32), device="numpy")
    assert [kernel.tactic for kernel in compile_graph([build(large).uop], "c_avx512")] == ["rows", "stored_columns"]
    x = np.random.default_rng(0).uniform(0.5, 1, (400, 500)).astype(np.float32)
    wanted = build(Tensor(x, device="numpy").cast("float64")).numpy()
    np.testing.assert_allclose(build(Tensor(x, device="c").realize()).numpy(), wanted, rtol=1e-4)


@pytest.mark.parametrize("target", ["opencl_cpu", "opencl_cpu_avx512", "c_avx512", "cuda"])
def test_a_kernel_of_more_loops_than_there_are_names_has_no_schedule(target: str) -> None:
    """The gradient of maxima of windows that lie over each other: nine times the search for the largest of nine."""
    x = Tensor(np.ones((2, 17, 28, 28), np.float32), device="numpy", requires_grad=True)
    y = x.max_pool2d(3, 2, 0, 2)
    y.sum().backward()
    assert compile_graph([y.uop, x.grad.uop], target)


def test_reductions_along_columns_read_whole_rows() -> None:
    """Of much memory: columns by the vector would be pieces of rows. What the results are expanded to is another kernel."""
    x = Tensor(np.zeros((6000, 1000), np.float32), device="numpy")
    weights = Tensor(np.zeros(6000, np.float32), device="numpy")
    for value, after in ((x.sum(0), []), (x - x.mean(0), ["elementwise"]), (weights @ x, [])):
        tactics = [kernel.tactic for kernel in compile_graph([value.uop], "c_avx512")]
        assert tactics == ["streamed_columns", "columns", *after]
    few = Tensor(np.zeros((60, 1000), np.float32), device="numpy")
    assert [kernel.tactic for kernel in compile_graph([few.sum(0).uop], "c_avx512")] == ["columns"]


def test_streamed_columns_of_odd_sizes_are_right() -> None:
    x = np.random.default_rng(0).standard_normal((1301, 1003)).astype(np.float32)
    y = Tensor(x, device="c").realize()
    np.testing.assert_allclose(y.sum(0).numpy(), x.sum(0), rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose((y - y.max(0)).numpy(), x - x.max(0))
    np.testing.assert_allclose((y[0] @ y[:1003]).numpy(), x[0] @ x[:1003], rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose((y + 1).mT.sum(1).numpy(), (x + 1).sum(0), rtol=1e-4, atol=1e-3)
    np.testing.assert_array_equal((y > 0).sum(0).numpy(), (x > 0).sum(0))


def test_elements_that_are_rolled_far_are_read_from_memory_alone() -> None:
    """A load of no lanes far behind an array, where no memory is, is caught by the processor: it took 60 times as long."""
    x = np.arange(70_000 * 10, dtype=np.float32).reshape(-1, 10)
    np.testing.assert_array_equal(Tensor(x, device="c").roll(3, 0).numpy(), np.roll(x, 3, 0))


def test_sums_of_products_whose_operands_depend_on_different_loops() -> None:
    """A copy of one operand has the loops of rows and columns, that of another, which is the same in all rows, only one."""
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal((8, 12)).astype("float32") for _ in range(3))
    p, q = (rng.standard_normal((8, 1)).astype("float32") for _ in range(2))
    x, y, z, u, v = (Tensor(array, device="c") for array in (a, b, c, p, q))

    def column(t: Tensor) -> Tensor:
        return t.pad(((0, 0), (0, 1))).reshape(8, 1, 2)

    ones = Tensor.ones(8, 1, device="c")
    parts = [(x, column(u)), (y, column(ones)), (z, Tensor.cat([u, v], 1).reshape(8, 1, 2))]
    found = sum((left.reshape(8, 12, 1) * right).sum(0) for left, right in parts)
    first = np.array([1.0, 0.0], "float32")
    wanted = a.T @ (p * first) + b.T @ np.ones((8, 1), "float32") * first + c.T @ np.concatenate([p, q], 1)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-5)
