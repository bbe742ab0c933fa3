"""Long rows that work-groups share: which kernels they are, that programs mean what their kernels mean, and values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor, engine
from rulegrad.compile import compile_graph
from rulegrad.errors import RuleError
from rulegrad.ir.dtype import DType
from rulegrad.workbench.diagnosis import meaning, samples

Build = Callable[[Tensor], Sequence[Tensor]]
Written = Callable[[str], Path]

GRAPHS: dict[str, tuple[Build, tuple[int, ...], str]] = {
    "sums of rows": (lambda x: [x.sum(1)], (3, 64), "float32"),
    "rows that do not fit": (lambda x: [x.max(1)], (2, 37), "float32"),
    "columns": (lambda x: [x.sum(0)], (50, 3), "float32"),
    "everything": (lambda x: [(x * x).sum()], (5, 40), "float32"),
    "two axes": (lambda x: [x.min((1, 2))], (2, 40, 3), "float32"),
    "what follows along the row": (lambda x: [x.softmax(1)], (2, 41), "float32"),
    "several results": (lambda x: [x.max(1), x.mean(1), x.std(1)], (3, 40), "float32"),
    "several results along the row": (lambda x: [x - x.mean(1, keepdims=True), x * x.max(1, keepdims=True)], (3, 40),
                                      "float32"),
    "places": (lambda x: [x.argmax(1)], (3, 70), "float32"),
    "truth": (lambda x: [(x > 2).any(1), (x < 2).all(1)], (3, 70), "float32"),
    "halves": (lambda x: [x.sum(1)], (3, 70), "float16"),
    "integers": (lambda x: [x.max(1), x.sum(1)], (3, 70), "int8"),
    "integers of 64 bits": (lambda x: [x.sum(1)], (3, 70), "int64"),
    "product": (lambda x: [x @ x.T], (3, 70), "float32"),
}  # fmt: skip

SUBGROUPS = "webgpu+f16+subgroups"


def given(shape: tuple[int, ...], dtype: str, device: str) -> Tensor:
    values = np.random.default_rng(sum(shape)).integers(-3, 4, shape).astype(DType(dtype).numpy)
    return Tensor(values, device=device).realize()


@contextmanager
def groups_of(items: int, written: Written, target: str = "opencl") -> Iterator[None]:
    """A target whose work-groups of so many work-items share rows."""
    with rg.load_rules(written(f"target {target}:\n    limit row_items {items}\n")):
        yield


@pytest.mark.parametrize(
    ("items", "names", "target"),
    [
        (8, [*GRAPHS], "opencl"),
        (2, ["two axes", "product", "what follows along the row"], "opencl"),
        # two, four and one place for subgroups
        (8, [*GRAPHS], SUBGROUPS),
        (16, ["sums of rows", "two axes", "places", "halves"], SUBGROUPS),
        (4, ["rows that do not fit", "integers", "truth"], SUBGROUPS),
    ],
)
def test_programs_mean_what_their_kernels_mean(items: int, names: list[str], target: str, written: Written) -> None:
    """Under CHECK=2 too, which compares the steps on the way."""
    reached = set()
    with groups_of(items, written, target), rg.config(check=2):
        for name in names:
            build, shape, dtype = GRAPHS[name]
            results = build(given(shape, dtype, "numpy"))
            for kernel in compile_graph([result.uop for result in results], target):
                program = engine.run_all([kernel.graph], engine.pipeline("program"), target)[0]
                arrays = samples.sample_arrays(kernel.graph)
                assert meaning.agree(meaning.meaning(kernel.graph, arrays), meaning.meaning(program, arrays)), name
                if kernel.local:
                    assert kernel.local[0] == items and all(n == 1 for n in kernel.local[1:])
                    reached.add(name)
    # kernels of different loops are segments of a launch, which have no groups
    assert reached >= set(names) - {"several results along the row", "truth"}


def test_a_work_group_meets_twice(written: Written) -> None:
    x = given((3, 64), "float32", "numpy")
    with groups_of(16, written):
        (kernel,) = compile_graph([x.sum(1).uop], "opencl")
        (softmax,) = compile_graph([x.softmax(1).uop], "opencl")
    assert (kernel.grid, kernel.local) == ((48,), (16,))
    assert kernel.source.count("barrier(") == 2 and kernel.source.count("__local float") == 2
    # the maximum and the sum; then the work-items share the elements of the row
    assert softmax.source.count("barrier(") == 4


@pytest.mark.parametrize(
    ("shape", "items", "why"),
    [
        ((3, 63), 16, "a row is shorter than four turns of the group"),
        ((40, 640), 16, "there are as many rows as work-items are wanted"),
        ((3, 640), 1, "a group of one work-item shares nothing"),
    ],
)
def test_rows_that_are_not_shared(shape: tuple[int, ...], items: int, why: str, written: Written) -> None:
    with groups_of(items, written):
        (kernel,) = compile_graph([given(shape, "float32", "numpy").sum(1).uop], "opencl")
    assert kernel.local == (), why


def test_steps_halve_the_number_of_work_items(written: Written) -> None:
    with pytest.raises(RuleError, match="`row_items` is 24, and its type is power_of_two"), groups_of(24, written):
        compile_graph([given((3, 640), "float32", "numpy").sum(1).uop], "opencl")


def test_subgroups_meet_once(written: Written) -> None:
    x = given((3, 64), "float32", "numpy")
    with groups_of(16, written, SUBGROUPS):
        (kernel,) = compile_graph([x.sum(1).uop], SUBGROUPS)
        (softmax,) = compile_graph([x.softmax(1).uop], SUBGROUPS)
        (wide,) = compile_graph([x.cast("int64").sum(1).uop], SUBGROUPS)
    assert (kernel.grid, kernel.local) == ((48,), (16,))
    assert kernel.source.count("workgroupBarrier();") == 1 and kernel.source.count("subgroupAdd(") == 1
    assert "var<workgroup> shared6000: array<f32, 4>;" in kernel.source
    # maxima of floats are those of integers
    assert softmax.source.count("workgroupBarrier();") == 2
    assert "i32 = subgroupMax(" in softmax.source and "f32 = subgroupAdd(" in softmax.source
    # what subgroups do not reduce meets in memory
    assert "subgroup" not in wide.source.replace("subgroup_", "").partition("{")[2]
    assert wide.source.count("workgroupBarrier();") == 2


def test_a_target_without_subgroups_does_without(written: Written) -> None:
    x = given((3, 64), "float32", "numpy")
    for target in ("webgpu", "webgpu+f16"):
        with groups_of(16, written, target):
            (kernel,) = compile_graph([x.softmax(1).uop], target)
        assert "subgroup" not in kernel.source and kernel.source.count("workgroupBarrier();") == 4
