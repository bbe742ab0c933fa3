"""Attention by matrix instructions: which kernels reach it, and that their values are right, by emulation and on devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import engine
from rulegrad.compile import compile_graph
from rulegrad.compile.kernels import forget_kernels
from rulegrad.ir import UOp
from rulegrad.ir.dtype import DType
from rulegrad.nn.functional import scaled_dot_product_attention
from rulegrad.runtime.kernel import Kernel
from rulegrad.workbench.diagnosis import meaning, samples

Shape = tuple[int, ...]
Attention = Callable[..., rg.Tensor]
Written = Callable[[str], Path]
Prepared = Callable[[str, str, int], None]

# A function stands for the instruction of one thread, so that real devices can run it.
MULTIPLY_4X4X4 = (
    '"multiply_4x4x4" 4 4 4 float32 float32 1 (1, 2, 4, 8) (1, 2, 4, 8) {} (1, 1) (1, 1) 0 '
    '"void multiply_4x4x4(float* c, const float* a, const float* b) {{\\n'
    "  for (int i = 0; i < 16; i++)\\n"
    '    for (int k = 0; k < 4; k++) c[i] += a[i / 4 * 4 + k] * b[i % 4 + 4 * k];\\n}}"'
)


@contextmanager
def tilings(written: Written, target: str, name: str, *uses: str, more: str = "") -> Iterator[None]:
    """A target that computes attention by an instruction so: high, teams, keys, width."""
    rows = "".join(f'    row attention_tilings "{name}" {use}\n' for use in uses)
    text = f"target {target}:\n    has MATRIX_MULACC\n{rows}    limit occupancy 1, online_block 1\n{more}"
    with rg.load_rules(written(text)):
        yield


def on_opencl(written: Written, *uses: str, result: str = "(1, 2, 4, 8)") -> AbstractContextManager[None]:
    """OpenCL with an instruction, whose result has this layout."""
    row = f"    row matrix_instructions {MULTIPLY_4X4X4.format(result)}\n"
    return tilings(written, "opencl", "multiply_4x4x4", *uses, more=row)


def given(*shapes: Shape, dtype: str = "float32", device: str = "opencl") -> list[rg.Tensor]:
    numbers = np.random.default_rng(7)
    arrays = [numbers.standard_normal(shape).astype(np.float32) for shape in shapes]
    return [rg.Tensor(array.astype(DType(dtype).numpy), device=device).realize() for array in arrays]


def attention(q: rg.Tensor, k: rg.Tensor, v: rg.Tensor) -> rg.Tensor:
    return scaled_dot_product_attention(q, k, v)


def causal(q: rg.Tensor, k: rg.Tensor, v: rg.Tensor) -> rg.Tensor:
    return scaled_dot_product_attention(q, k, v, is_causal=True)


def masked(q: rg.Tensor, k: rg.Tensor, v: rg.Tensor) -> rg.Tensor:
    mask = rg.Tensor((np.arange(q.shape[-2] * k.shape[-2]) % 3 > 0).reshape(q.shape[-2], k.shape[-2]), device=q.device)
    return scaled_dot_product_attention(q, k, v, attn_mask=mask)


def masked_by_the_least_number(q: rg.Tensor, k: rg.Tensor, v: rg.Tensor) -> rg.Tensor:
    """As Hugging Face does: where all keys are masked, all have the same share."""
    mask = np.zeros((q.shape[-2], k.shape[-2]), np.float32)
    mask[:5] = mask[7, 3:] = np.finfo(np.float32).min
    scores = (q @ k.mT).cast("float32") / q.shape[-1] ** 0.5 + rg.Tensor(mask, device=q.device)
    return scores.softmax(-1).cast(q.dtype) @ v


def as_people_write_it(q: rg.Tensor, k: rg.Tensor, v: rg.Tensor) -> rg.Tensor:
    return ((q @ k.mT) / q.shape[-1] ** 0.5).cast("float32").softmax(-1).cast(q.dtype) @ v


def heads_last(q: rg.Tensor, k: rg.Tensor, v: rg.Tensor) -> rg.Tensor:
    """Heads on the axis before the last one, which are put together."""
    found = scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)))
    return found.transpose(1, 2).reshape(q.shape[0], q.shape[1], -1)


def with_residual(q: rg.Tensor, k: rg.Tensor, v: rg.Tensor) -> rg.Tensor:
    return (scaled_dot_product_attention(q, k, v) * 2 + q).relu()


#: queries, keys and values
CASES: dict[str, tuple[Attention, tuple[Shape, Shape, Shape]]] = {
    "one block": (attention, ((32, 16), (16, 16), (16, 16))),
    "blocks": (attention, ((2, 32, 16), (2, 48, 16), (2, 48, 16))),
    "sizes that fill no tile": (attention, ((2, 35, 12), (2, 37, 12), (2, 37, 10))),
    "causal": (causal, ((2, 48, 16), (2, 48, 16), (2, 48, 8))),
    "causal, more keys": (causal, ((33, 16), (50, 16), (50, 8))),
    "causal, few queries": (causal, ((36, 16), (50, 16), (50, 8))),
    "masked by the least number": (masked_by_the_least_number, ((32, 16), (32, 16), (32, 16))),
    "masked": (masked, ((32, 16), (32, 16), (32, 16))),
    "as people write it": (as_people_write_it, ((2, 32, 16), (2, 32, 16), (2, 32, 16))),
    "heads last": (heads_last, ((1, 32, 2, 16), (1, 32, 2, 16), (1, 32, 2, 8))),
    "with a residual": (with_residual, ((32, 16), (32, 16), (32, 16))),
}


def ops_of(graph: UOp) -> set[str]:
    return {node.op for node in graph.toposort()}


def kernels_of(build: Attention, tensors: list[rg.Tensor], target: str = "opencl") -> list[Kernel]:
    return compile_graph([build(*tensors).uop], target)


# the interpreter has no loops whose extents differ, as those of causal attention do
@pytest.mark.each_value
@pytest.mark.parametrize("case", [name for name in CASES if "causal" not in name])
@pytest.mark.parametrize(
    ("target", "name", "dtype", "use"),
    [
        ("cuda", "mma_m16n8k16_bfloat16", "bfloat16", "1 2 16 16"),
        # the left operand has the columns of a result in another order
        ("cuda", "mma_m16n8k8_tf32", "float32", "2 1 16 16"),
        ("metal", "simdgroup_8x8", "float32", "2 2 8 16"),
    ],
)
def test_programs_mean_what_their_kernels_mean(
    target: str, name: str, dtype: str, use: str, case: str, written: Written
) -> None:
    build, shapes = CASES[case]
    tensors = given(*shapes, dtype=dtype, device="numpy")
    with tilings(written, target, name, use, more="    flag tf32\n" if "tf32" in name else ""):
        (kernel,) = kernels_of(build, tensors, target)
        (program,) = engine.run_all([kernel.graph], engine.pipeline("program"), target)
        assert "MATRIX_MULACC" in ops_of(program)
        arrays = samples.sample_arrays(kernel.graph)
        assert meaning.agree(meaning.meaning(kernel.graph, arrays), meaning.meaning(program, arrays))


@pytest.mark.parametrize(
    ("use", "cases"),
    [
        ("2 1 8 16", [*CASES]),
        ("1 2 16 16", ["sizes that fill no tile", "causal, few queries", "masked", "with a residual"]),
    ],
)
def test_values_on_a_device(use: str, cases: list[str], written: Written) -> None:
    for build, shapes in (CASES[case] for case in cases):
        wanted = build(*given(*shapes, device="numpy")).numpy()
        tensors = given(*shapes)
        with on_opencl(written, use):
            assert "multiply_4x4x4" in kernels_of(build, tensors)[-1].source
            found = build(*tensors).numpy()
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.each_value
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    ("device", "target", "dtype", "order"),
    [
        ("cuda_shim", "cuda", "bfloat16", 0),
        ("cuda_shim", "cuda_sm90a", "float16", 77),
        ("metal_shim", "metal", "float32", 1),
        ("metal_shim", "metal", "bfloat16", 77),
    ],
)
def test_values_on_simulators(
    device: str,
    target: str,
    dtype: str,
    order: int,
    case: str,
    prepared: Prepared,
    written: Written,
) -> None:
    """In the target's own tiles, but for one warp or two, which is faster here."""
    name = "simdgroup_8x8" if target == "metal" else f"mma_m16n8k16_{dtype}"
    prepared(device, target, order)
    build, shapes = CASES[case]
    tensors = given(*shapes, dtype=dtype, device=device)
    wanted = build(*(x.to("numpy").cast("float64") for x in tensors)).numpy()
    forget_kernels()
    with tilings(written, target, name, "2 2 16 16" if order else "1 1 32 16"):
        kernels = kernels_of(build, tensors, target)
        assert len(kernels) == 1 and name in kernels[0].source
        found = build(*tensors).numpy().astype(np.float32)
    np.testing.assert_allclose(
        found, wanted, **({"atol": 1e-5} if dtype == "float32" else {"rtol": 2e-2, "atol": 2e-2})
    )


HOPPER: dict[str, tuple[Attention, tuple[Shape, Shape, Shape]]] = {
    "two teams": (attention, ((2, 128, 64), (2, 128, 64), (2, 128, 64))),
    "one team": (causal, ((2, 100, 64), (2, 100, 64), (2, 100, 64))),
    "wide": (attention, ((70, 128), (70, 128), (70, 128))),
    "heads last": (heads_last, ((1, 128, 2, 64), (1, 128, 2, 64), (1, 128, 2, 64))),
}


@pytest.mark.each_value
@pytest.mark.parametrize("case", HOPPER)
@pytest.mark.parametrize(("dtype", "order"), [("bfloat16", 0), ("float16", 1), ("float16", 77)])
def test_values_by_hopper_s_instruction(
    dtype: str, order: int, case: str, hopper: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queries and weights are in registers, keys and values stay in shared memory."""
    monkeypatch.setattr(hopper, "order", order)
    build, shapes = HOPPER[case]
    tensors = given(*shapes, dtype=dtype, device="cuda_shim")
    wanted = build(*(x.to("numpy").cast("float64") for x in tensors)).numpy()
    (kernel,) = kernels_of(build, tensors, hopper.target)
    assert f"wgmma_registers_m64n64k64_{dtype}_d(" in kernel.source
    assert f"wgmma_registers_m64n64k64_{dtype}_c(" in kernel.source
    found = build(*tensors).numpy().astype(np.float32)
    np.testing.assert_allclose(found, wanted, rtol=2e-2, atol=2e-2 if dtype == "bfloat16" else 3e-3)


def is_reached(shapes: tuple[Shape, ...], dtype: str = "float32") -> bool:
    """Whether one kernel computes attention on OpenCL by the instruction."""
    kernels = kernels_of(attention, given(*shapes, dtype=dtype))
    return len(kernels) == 1 and "multiply_4x4x4" in kernels[0].source


def test_the_first_row_that_fits_is_taken(written: Written) -> None:
    shapes = ((64, 8), (64, 8), (64, 8))
    with on_opencl(written, "2 4 8 4", "2 2 8 16", "1 1 8 16"):
        (kernel,) = kernels_of(attention, given(*shapes))
    assert kernel.local[0] == 2  # the second: the first one's values are narrower


def test_attention_that_is_computed_otherwise(written: Written) -> None:
    shapes = ((64, 8), (64, 8), (64, 8))
    with on_opencl(written, "2 2 8 16"):
        assert is_reached(shapes)
        assert not is_reached(shapes, "float16"), "another dtype"
        assert not is_reached(((64, 24), (64, 24), (64, 8))), "more features than the row says"
        assert not is_reached(((5, 8), (64, 8), (64, 8))), "mostly padding"
        queries, keys, values = given(*shapes)
        shares = (queries @ keys.mT).softmax(-1)
        kernels = compile_graph([(shares @ values).uop, shares.uop], "opencl")
        assert not any("exp2" in kernel.source for kernel in kernels), "weights that somebody needs"
    with on_opencl(written, "2 2 1024 16"):
        assert not is_reached(shapes), "more keys than local memory has room for"
    with on_opencl(written, "2 2 8 16", result="(4, 8, 1, 2)"):
        assert is_reached(shapes), "elements in another order"


@pytest.mark.parametrize(
    "use",
    ["0 1 8 16", "1 1 6 16", *(pytest.param(use, marks=pytest.mark.long_run) for use in ("1 1 0 16", "1 -1 8 16"))],
)
def test_a_row_that_is_not_a_tile(use: str, written: Written) -> None:
    with on_opencl(written, use):
        assert not is_reached(((64, 8), (64, 8), (64, 8)))


def heads_of(x: rg.Tensor) -> rg.Tensor:
    return x.reshape(*x.shape[:2], -1, 64).transpose(1, 2)


def normed(x: rg.Tensor) -> rg.Tensor:
    return x * ((x * x).mean(-1, keepdims=True) + 1e-5).rsqrt()


#: of x (2, 512, 512), weights (512, 1536), and queries, keys and values (2, 8, 512, 64): computed operands, and more than one
WHOLE: dict[str, Callable[..., Any]] = {
    "projections": lambda x, w, *_: attention(*(heads_of(x @ part) for part in w.chunk(3, 1))),
    "one projection": lambda x, w, *_: causal(*(heads_of(part) for part in (x @ w).chunk(3, -1))),
    "biases": lambda x, w, q, k, v: attention(heads_of(x @ w[:, :512] + w[0, :512]), k, v),
    "normed": lambda x, w, q, k, v: attention(normed(q), normed(heads_of(x @ w[:, 512:1024])), v),
    "attention of attention": lambda x, w, q, k, v: attention(
        attention(q, k, v), attention(k, q, v), attention(v, q, k)
    ),
    "sums and products of two": lambda x, w, q, k, v: attention(q, k, v) + attention(q, v, k) * attention(k, q, v),
    "several results": lambda x, w, q, k, v: (attention(q, k, v), attention(q, k, q), q + 1),
    "two layers": lambda x, w, *_: attention(
        *(heads_of(part) for part in ((x + heads_last(*(x.reshape(2, 512, 8, 64),) * 3)) @ w).chunk(3, -1))
    ),
    "a total that is larger": lambda x, w, q, k, v: (lambda e: (e / (1 + e.sum(-1, keepdims=True))).cast(q.dtype) @ v)(
        (lambda s: (s - s.max(-1, keepdims=True)).exp())((q @ k.mT).cast("float32"))
    ),
    "scores with another sum": lambda x, w, q, k, v: (
        ((q @ k.mT) * q.sum(-1, keepdims=True)).cast("float32").softmax(-1).cast(q.dtype) @ v
    ),
}


@pytest.mark.parametrize("case", WHOLE)
@pytest.mark.parametrize(
    ("target", "name", "dtype"), [("cuda", "mma_m16n8k16_bfloat16", "bfloat16"), ("metal", "simdgroup_8x8", "float32")]
)
def test_what_is_fused_is_computed_in_tiles(target: str, name: str, dtype: str, case: str) -> None:
    """Attention that the schedule fuses is computed by matrix instructions: one element at a time is slow."""
    x, w, *others = given((2, 512, 512), (512, 1536), *((2, 8, 512, 64),) * 3, dtype=dtype, device="numpy")
    found = WHOLE[case](x, w, *others)
    kernels = compile_graph([part.uop for part in (found if isinstance(found, tuple) else (found,))], target)
    fused = [kernel for kernel in kernels if "EXPSUM" in ops_of(kernel.graph)]
    assert all(name in kernel.source for kernel in fused)
    wanted = {
        "a total that is larger": 0,
        "scores with another sum": 0,
        "attention of attention": 4,
        "sums and products of two": 3,
    }
    assert len(fused) == wanted.get(case, 2 if case in ("several results", "two layers") else 1)
