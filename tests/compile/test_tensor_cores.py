"""Matrix instructions: which kernels reach them, and that their values are right, by emulation and on a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import engine
from rulegrad.compile import compile_graph
from rulegrad.errors import RuleError
from rulegrad.interpreter.fragments import positions
from rulegrad.ir.dtype import DType
from rulegrad.nn import functional
from rulegrad.workbench.diagnosis import meaning, samples

Written = Callable[[str], Path]

# A function that multiplies 4x4 matrices stands for the instruction of one thread, so that real devices can run it.
SCALAR = (
    '"multiply_4x4x4" 4 4 4 float32 float32 1 (1, 2, 4, 8) (1, 2, 4, 8) (1, 2, 4, 8) {use}\n'
    '        "void multiply_4x4x4(float* c, const float* a, const float* b) {{\\n'
    "  for (int i = 0; i < 16; i++)\\n"
    '    for (int k = 0; k < 4; k++) c[i] += a[i / 4 * 4 + k] * b[i % 4 + 4 * k];\\n}}"'
)
# NVIDIA's mma.m16n8k16, as its instruction set manual draws the fragments, and the 8x8 matrices of Apple's SIMD-groups.
WARP = (
    '"mma_m16n8k16" 16 8 16 bfloat16 float32 32 (2, 4, 16, 32, 64, 1, 128, 8) (16, 32, 1, 2, 4, 8, 64) '
    '(2, 4, 8, 16, 32, 1, 64) {use} ""'
)
SIMD_GROUP = (
    '"simdgroup_8x8" 8 8 8 float32 float32 32 (2, 8, 4, 16, 32, 1) (2, 8, 4, 16, 32, 1) (2, 8, 4, 16, 32, 1) {use} ""'
)
# As wgmma: four warps multiply, and the right operand is in local memory, in blocks of 8 columns by 8 of the depth or the other way.
GROUP = (
    '"{name}" 64 16 16 bfloat16 float32 128 (2, 4, 16, 32, 64, 256, 512, 1, 128, 8) '
    '({right}, 128, 8) (2, 4, 16, 32, 64, 256, 512, 1, 128, 8) (1, 2) (1, 1) 2 ""'
)
BY_DEPTH, BY_COLUMNS = "16, 32, 64, 1, 2, 4", "1, 2, 4, 16, 32, 64"
DIRECT = "(2, 2) (1, 1) 0"
STAGED = "(2, 2) (2, 2) 2"


@contextmanager
def instructions(written: Written, *rows: str) -> Iterator[None]:
    """A target opencl with these rows of the table."""
    lines = [f"    row matrix_instructions {row}" for row in rows]
    with rg.load_rules(written("target opencl:\n    has MATRIX_MULACC\n" + "\n".join(lines) + "\n")):
        yield


GRAPHS: dict[str, tuple[Callable[..., rg.Tensor], tuple[tuple[int, ...], ...]]] = {
    "product": (lambda a, b: a @ b, ((32, 64), (64, 32))),
    "sizes that do not fit": (lambda a, b: a @ b, ((30, 45), (45, 29))),
    "both transposed": (lambda a, b: a.T @ b.T, ((64, 32), (32, 64))),
    "batches": (lambda a, b: a @ b, ((2, 3, 16, 32), (2, 3, 32, 16))),
    "bias, activation, factor": (lambda a, b, c, d: (a @ b + c).relu() * d, ((32, 32), (32, 32), (32,), (32, 32))),
    "computed operand": (lambda a, b: (a * 2 + 1).relu() @ b, ((32, 32), (32, 32))),
    "convolution": (lambda x, w: functional.conv2d(x, w, padding=1), ((2, 16, 8, 8), (16, 16, 3, 3))),
    "attention": (functional.scaled_dot_product_attention, ((2, 2, 32, 16),) * 3),
}


def given(shape: tuple[int, ...], dtype: str, device: str = "opencl") -> rg.Tensor:
    values = np.random.default_rng(sum(shape)).integers(-3, 4, shape).astype(DType(dtype).numpy)
    return rg.Tensor(values, device=device).realize()


def ops_of(program: Any) -> set[str]:
    return {node.op for node in program.toposort()}


@pytest.mark.parametrize(("row", "dtype"), [(WARP, "bfloat16"), (SIMD_GROUP, "float32")])
def test_programs_of_matrix_instructions_mean_what_their_kernels_mean(row: str, dtype: str, written: Written) -> None:
    tensors = {name: [given(shape, dtype) for shape in shapes] for name, (_, shapes) in GRAPHS.items()}
    reached = set()
    with instructions(written, row.format(use=STAGED), row.format(use=DIRECT)):
        for name, (build, _) in GRAPHS.items():
            for kernel in compile_graph([build(*tensors[name]).uop], "opencl"):
                program = engine.run_all([kernel.graph], engine.pipeline("program"), "opencl")[0]
                arrays = samples.sample_arrays(kernel.graph)
                assert meaning.agree(meaning.meaning(kernel.graph, arrays), meaning.meaning(program, arrays)), name
                if "MATRIX_MULACC" in ops_of(program):
                    reached.add(name)
    assert reached >= set(GRAPHS) - {"attention"}


@pytest.mark.parametrize("use", [DIRECT, STAGED])
def test_values_on_a_device_are_those_without_matrix_instructions(use: str, written: Written) -> None:
    for build, shapes in GRAPHS.values():
        wanted = build(*(given(shape, "float32", "numpy") for shape in shapes)).numpy()
        tensors = [given(shape, "float32") for shape in shapes]
        with instructions(written, SCALAR.format(use=use)):
            found = build(*tensors).numpy()
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-4)


def test_kernels_that_are_compiled_together_share_an_instruction(written: Written) -> None:
    a, b, c = (given(shape, "float32") for shape in ((128, 128), (128, 128), (128, 64)))
    with instructions(written, SCALAR.format(use=DIRECT)):
        found = (a @ b @ c).numpy()
    np.testing.assert_array_equal(found, a.numpy() @ b.numpy() @ c.numpy())


def multiplied(written: Written, *rows: str) -> set[str]:
    """The ops of the program of a product on a target with these rows."""
    text = "target opencl:\n    has MATRIX_MULACC\n" + "".join(f"    row {row}\n" for row in rows)
    with rg.load_rules(written(text)):
        (kernel,) = compile_graph([(given((32, 64), "bfloat16") @ given((64, 32), "bfloat16")).uop], "opencl")
        return ops_of(engine.run_all([kernel.graph], engine.pipeline("program"), "opencl")[0])


def test_other_tilings_are_tried_after_those_of_the_instruction(written: Written) -> None:
    large = f"matrix_instructions {WARP.format(use='(16, 16) (4, 4) 2')}"
    assert "MATRIX_MULACC" not in multiplied(written, large)
    assert "MATRIX_MULACC" in multiplied(written, large, f'other_tilings "mma_m16n8k16" {DIRECT}')
    assert "MATRIX_MULACC" not in multiplied(written, large, f'other_tilings "another" {DIRECT}')


def test_a_tiling_of_no_results_leaves_the_others_as_they_are(written: Written) -> None:
    good = f"matrix_instructions {WARP.format(use=DIRECT)}"
    for wrong in ("(0, 2) (1, 1) 0", "(2, 2) (0, 1) 2", "(-2, 2) (1, 1) 0", "(2, 2) (1, 1) -2"):
        assert "MATRIX_MULACC" in multiplied(written, f'other_tilings "mma_m16n8k16" {wrong}', good)
        other = WARP.format(use=wrong).replace("mma_m16n8k16", "other")
        assert "MATRIX_MULACC" in multiplied(written, f"matrix_instructions {other}", good)


def test_a_tiling_is_high_and_wide(written: Written) -> None:
    with pytest.raises(RuleError, match=r".rules:3:\d+: error\[bad-row\]: `tiles` is 2 numbers in brackets"):
        multiplied(written, 'other_tilings "mma_m16n8k16" (2,) (1, 1) 0')


@pytest.mark.parametrize("use", [DIRECT, STAGED])
def test_a_sum_of_products_begins_each_of_them_anew(use: str, written: Written) -> None:
    """Or adds them up without matrix instructions: a fragment's sums of one batch must not go on into the next."""
    shapes = ((3, 64, 32), (32, 64))
    a, b = (given(shape, "float32", "numpy").numpy() for shape in shapes)
    tensors = [given(shape, "float32") for shape in shapes]
    with instructions(written, SCALAR.format(use=use)):
        found = (tensors[0] @ tensors[1]).sum(0).numpy()
    np.testing.assert_array_equal(found, (a @ b).sum(0))


def test_the_right_operand_may_stay_in_local_memory(written: Written) -> None:
    products: tuple[Callable[..., rg.Tensor], ...] = (lambda a, b: a @ b, lambda a, b: a @ b.T)
    rows = ""
    for name, right in (("by_depth", BY_DEPTH), ("by_columns", BY_COLUMNS)):
        rows += f'    row operands_in_local_memory "{name}" (1,) () 0\n'
        rows += f"    row matrix_instructions {GROUP.format(name=name, right=right)}\n"
    with rg.load_rules(written("target opencl:\n    has MATRIX_MULACC\n" + rows)):
        for build, sizes in zip(products, (((64, 64), (64, 64)), ((60, 50), (50, 50))), strict=True):
            (kernel,) = compile_graph([build(*(given(shape, "bfloat16") for shape in sizes)).uop], "opencl")
            program = engine.run_all([kernel.graph], engine.pipeline("program"), "opencl")[0]
            (node,) = [node for node in program.toposort() if node.op == "MATRIX_MULACC"]
            assert "local" in [below.attrs["space"] for below in node.src[2].toposort() if below.op == "BUFFER"]
            arrays = samples.sample_arrays(kernel.graph)
            assert meaning.agree(meaning.meaning(kernel.graph, arrays), meaning.meaning(program, arrays))


def test_each_step_begins_with_a_barrier_and_copies_the_next_tile(written: Written) -> None:
    with instructions(written, SCALAR.format(use=STAGED)):
        (kernel,) = compile_graph([(given((32, 64), "float32") @ given((64, 32), "float32")).uop], "opencl")
    assert kernel.local == (4, 1)
    assert kernel.grid == (8, 2)
    assert kernel.source.count("barrier(") == 1
    assert kernel.source.count("__local float") == 2
    assert kernel.source.count("void multiply_4x4x4(") == 1


def test_a_row_is_not_taken_where_most_would_be_padding_or_dtypes_differ(written: Written) -> None:
    with instructions(written, SCALAR.format(use=DIRECT)):
        for a, b, dtype in (((3, 5), (5, 3), "float32"), ((32, 64), (64,), "float32"), ((32, 32), (32, 32), "float64")):
            (kernel,) = compile_graph([(given(a, dtype) @ given(b, dtype)).uop], "opencl")
            assert "multiply_4x4x4" not in kernel.source


@pytest.mark.parametrize(
    ("layout", "size"),
    [
        ((2, 4, 16, 32, 64, 1, 128, 8), 256),
        ((16, 32, 1, 2, 4, 8, 64), 128),
        ((2, 4, 8, 16, 32, 1, 64), 128),
        ((2, 8, 4, 16, 32, 1), 64),
    ],
)
def test_a_layout_has_each_position_once(layout: tuple[int, ...], size: int) -> None:
    assert sorted(positions(layout, 32).reshape(-1)) == list(range(size))
