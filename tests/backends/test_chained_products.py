"""Chains of products by matrix instructions, as in the gradients of attention: which kernels reach them, and that their values are right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import engine
from rulegrad.compile import compile_graph
from rulegrad.compile.kernels import forget_kernels
from rulegrad.ir import UOp
from rulegrad.nn.functional import scaled_dot_product_attention
from rulegrad.runtime import devices
from rulegrad.runtime.kernel import Kernel
from rulegrad.workbench.diagnosis import meaning, samples

Shape = tuple[int, ...]
Program = Callable[..., rg.Tensor | tuple[rg.Tensor, ...]]
Written = Callable[[str], Path]
Prepared = Callable[[str, str, int], None]


def gradients(attention: Callable[..., rg.Tensor]) -> Program:
    """Attention, and the gradients of queries, keys and values; the last argument is the result's."""

    def program(*inputs: rg.Tensor) -> tuple[rg.Tensor, ...]:
        *operands, upstream = (x.detach().requires_grad_() for x in inputs)
        result = attention(*operands)
        result.backward(upstream)
        found = (result, *(x.grad for x in operands))
        assert all(x is not None for x in found)
        return found  # type: ignore[return-value]

    return program


def plain(q: rg.Tensor, k: rg.Tensor, v: rg.Tensor) -> rg.Tensor:
    return scaled_dot_product_attention(q, k, v)


def causal(q: rg.Tensor, k: rg.Tensor, v: rg.Tensor) -> rg.Tensor:
    return scaled_dot_product_attention(q, k, v, is_causal=True)


def masked(q: rg.Tensor, k: rg.Tensor, v: rg.Tensor) -> rg.Tensor:
    mask = rg.Tensor((np.arange(q.shape[-2] * k.shape[-2]) % 3 > 0).reshape(q.shape[-2], k.shape[-2]), device=q.device)
    return scaled_dot_product_attention(q, k, v, attn_mask=mask)


def as_people_write_it(q: rg.Tensor, k: rg.Tensor, v: rg.Tensor) -> rg.Tensor:
    return ((q @ k.mT) / q.shape[-1] ** 0.5).cast("float32").softmax(-1).cast(q.dtype) @ v


def grouped(q: rg.Tensor, k: rg.Tensor, v: rg.Tensor) -> rg.Tensor:
    return scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def heads_last(q: rg.Tensor, k: rg.Tensor, v: rg.Tensor) -> rg.Tensor:
    return scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v))).transpose(1, 2)


def relu_of_products(q: rg.Tensor, k: rg.Tensor, v: rg.Tensor) -> rg.Tensor:
    return (q @ k.mT).relu() @ v


def with_dropout(q: rg.Tensor, k: rg.Tensor, v: rg.Tensor) -> rg.Tensor:
    """The same weights are left out in each library and each time."""
    kept = (rg.Tensor.arange(q.shape[-2] * k.shape[-2], device=q.device) * 7919 % 11 > 2).reshape(q.shape[-2], -1)
    return ((q @ k.mT).cast("float32").softmax(-1) * kept / 0.8).cast(q.dtype) @ v


def sigmoid(q: rg.Tensor, k: rg.Tensor, v: rg.Tensor) -> rg.Tensor:
    scores = ((q @ k.mT) / 8).tanh() * 8
    return scores.sigmoid() @ v


def largest(q: rg.Tensor, k: rg.Tensor) -> rg.Tensor:
    return (q @ k.mT).cast("float32").max(-1)


def logarithm_of_sum(q: rg.Tensor, k: rg.Tensor) -> rg.Tensor:
    return (q @ k.mT).cast("float32").logsumexp(-1)


def sum_of_columns(q: rg.Tensor, k: rg.Tensor) -> rg.Tensor:
    return (q @ k.mT).cast("float32").sigmoid().sum(-2)


#: queries, keys, values, and the gradient of the result
CASES: dict[str, tuple[Program, tuple[Shape, ...]]] = {
    "gradients": (gradients(plain), ((2, 32, 16), (2, 48, 16), (2, 48, 8), (2, 32, 8))),
    "sizes that fill no tile": (gradients(plain), ((2, 37, 12), (2, 35, 12), (2, 35, 10), (2, 37, 10))),
    "causal": (gradients(causal), ((2, 48, 16),) * 4),
    "causal, more keys": (gradients(causal), ((33, 16), (50, 16), (50, 8), (33, 8))),
    "causal, more queries": (gradients(causal), ((50, 16), (33, 16), (33, 16), (50, 16))),
    "masked": (gradients(masked), ((32, 16), (36, 16), (36, 16), (32, 16))),
    "as people write it": (gradients(as_people_write_it), ((2, 32, 16),) * 4),
    "grouped": (gradients(grouped), ((1, 4, 32, 16), (1, 2, 32, 16), (1, 2, 32, 16), (1, 4, 32, 16))),
    "heads last": (gradients(heads_last), ((1, 32, 2, 16), (1, 36, 2, 16), (1, 36, 2, 8), (1, 32, 2, 8))),
    "heads put together": (
        gradients(lambda *x: heads_last(*x).reshape(*x[0].shape[:2], -1)),
        ((1, 32, 2, 16), (1, 36, 2, 16), (1, 36, 2, 8), (1, 32, 16)),
    ),
    "dropout": (gradients(with_dropout), ((2, 32, 16),) * 4),
    "sigmoid": (gradients(sigmoid), ((2, 32, 16),) * 4),
    "other terms": (relu_of_products, ((40, 16), (48, 16), (48, 12))),
    "largest": (largest, ((40, 16), (37, 16))),
    "logarithm of a sum": (logarithm_of_sum, ((2, 40, 16), (2, 48, 16))),
    "sum of columns": (sum_of_columns, ((40, 16), (37, 16))),
}


@pytest.fixture(scope="module")
def tiles(tests_of: Callable[[str], Any]) -> Any:
    """The tests of attention's tiles, whose targets and inputs are these."""
    return tests_of("backends/test_attention_tiles.py")


def results(program: Program, tensors: list[rg.Tensor]) -> tuple[rg.Tensor, ...]:
    found = program(*tensors)
    return found if isinstance(found, tuple) else (found,)


def kernels_of(program: Program, tensors: list[rg.Tensor], target: str) -> list[Kernel]:
    return compile_graph([x.uop for x in results(program, tensors)], target)


def is_chain(graph: UOp) -> bool:
    """Whether a reduction is computed for each term of another one: slow, unless in tiles."""
    reductions = [node for node in graph.toposort() if node.op in ("REDUCE", "EXPSUM")]
    return any(below.op == "REDUCE" for node in reductions for source in node.src for below in source.toposort())


def chains_by(kernels: list[Kernel], instruction: str) -> int:
    """How many kernels compute chains, all of them by the instruction."""
    chains = [kernel for kernel in kernels if is_chain(kernel.graph)]
    assert all(instruction in kernel.source for kernel in chains)
    return len(chains)


# the interpreter has no loops whose extents differ, as those of causal attention do
@pytest.mark.each_value
@pytest.mark.parametrize("case", [name for name in CASES if "causal" not in name and name != "grouped"])
@pytest.mark.parametrize(
    ("target", "name", "dtype", "use"),
    [
        ("cuda", "mma_m16n8k16_bfloat16", "bfloat16", "1 2 16 16"),
        ("cuda", "mma_m16n8k8_tf32", "float32", "1 1 16 16"),
        ("metal", "simdgroup_8x8", "float32", "1 2 8 16"),
    ],
)
def test_programs_mean_what_their_kernels_mean(
    target: str, name: str, dtype: str, use: str, case: str, written: Written, tiles: Any
) -> None:
    program, shapes = CASES[case]
    if "tf32" in name and case == "masked":
        pytest.skip("powers of random numbers are so large that the rounding of operands shows")
    tensors = tiles.given(*shapes, dtype=dtype, device="numpy")
    with tiles.tilings(written, target, name, use, more="    flag tf32\n" if "tf32" in name else ""):
        chains = [kernel for kernel in kernels_of(program, tensors, target) if is_chain(kernel.graph)]
        assert chains
        for kernel in chains:
            (lowered,) = engine.run_all([kernel.graph], engine.pipeline("program"), target)
            assert any(node.op == "MATRIX_MULACC" for node in lowered.toposort())
            arrays = samples.sample_arrays(kernel.graph)
            assert meaning.agree(meaning.meaning(kernel.graph, arrays), meaning.meaning(lowered, arrays))


# one work-item in a work-group: of two PoCL gives the first other sums in one of these kernels, oclgrind does not, and finds no race
@pytest.mark.each_value
@pytest.mark.parametrize("use", ["1 1 8 16", "1 1 16 16"])
@pytest.mark.parametrize("case", CASES)
def test_values_on_a_device(use: str, case: str, written: Written, tiles: Any) -> None:
    program, shapes = CASES[case]
    wanted = [x.numpy() for x in results(program, tiles.given(*shapes, device="numpy"))]
    target = devices.get("opencl").target
    with tiles.on_opencl(written, use):
        found = results(program, tiles.given(*shapes))
        assert chains_by(compile_graph([x.uop for x in found], target), "multiply_4x4x4") > 0
        found[0].realize(*found[1:])
        arrays = [x.numpy() for x in found]
    for array, right in zip(arrays, wanted, strict=True):
        np.testing.assert_allclose(array, right, rtol=1e-5, atol=2e-5)


@pytest.mark.each_value
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    ("device", "target", "dtype", "order"),
    [
        ("cuda_shim", "cuda", "bfloat16", 77),
        ("cuda_shim", "cuda_sm90a", "float16", 0),
        ("metal_shim", "metal", "float32", 1),
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
    tiles: Any,
) -> None:
    """In the target's own tiles, but for one warp or two, which is faster here."""
    name = "simdgroup_8x8" if target == "metal" else f"mma_m16n8k16_{dtype}"
    prepared(device, target, order)
    program, shapes = CASES[case]
    tensors = tiles.given(*shapes, dtype=dtype, device=device)
    wanted = [x.numpy() for x in results(program, [x.to("numpy").cast("float64") for x in tensors])]
    forget_kernels()
    with tiles.tilings(written, target, name, "1 2 16 16" if order else "1 1 32 16"):
        found = results(program, tensors)
        assert chains_by(compile_graph([x.uop for x in found], target), name) > 0
        found[0].realize(*found[1:])
        arrays = [x.numpy().astype(np.float32) for x in found]
    for array, right in zip(arrays, wanted, strict=True):
        largest = float(np.abs(right).max())
        np.testing.assert_allclose(array, right, rtol=0, atol=largest * (1e-5 if dtype == "float32" else 2e-2))


HOPPER: dict[str, tuple[Program, tuple[Shape, ...]]] = {
    "two teams": (gradients(plain), ((2, 128, 64),) * 4),
    "causal": (gradients(causal), ((1, 192, 64),) * 4),
    "sizes that fill no tile": (gradients(causal), ((2, 100, 64), (2, 150, 64), (2, 150, 64), (2, 100, 64))),
    "wide": (gradients(plain), ((150, 128),) * 4),
    "grouped": (gradients(grouped), ((1, 2, 128, 64), (1, 1, 128, 64), (1, 1, 128, 64), (1, 2, 128, 64))),
}


@pytest.mark.each_value
@pytest.mark.parametrize("case", HOPPER)
@pytest.mark.parametrize(("dtype", "order"), [("bfloat16", 0), ("float16", 77)])
def test_values_by_hopper_s_instruction(
    dtype: str, order: int, case: str, hopper: Any, tiles: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Left operands are in registers, right ones stay in shared memory."""
    monkeypatch.setattr(hopper, "order", order)
    program, shapes = HOPPER[case]
    tensors = tiles.given(*shapes, dtype=dtype, device="cuda_shim")
    wanted = [x.numpy() for x in results(program, [x.to("numpy").cast("float64") for x in tensors])]
    found = results(program, tensors)
    kernels = compile_graph([x.uop for x in found], hopper.target)
    assert chains_by(kernels, f"wgmma_registers_m64n64k64_{dtype}_d(") == 6
    found[0].realize(*found[1:])
    for x, right in zip(found, wanted, strict=True):
        largest = float(np.abs(right).max())
        np.testing.assert_allclose(x.numpy().astype(np.float32), right, rtol=0, atol=2e-2 * largest)


def heads_of(x: rg.Tensor) -> rg.Tensor:
    return x.reshape(*x.shape[:2], -1, 64).transpose(1, 2)


#: the gradients of inputs (2, 512, 512) and weights (512, 1536), and of queries, keys and values (2, 8, 512, 64); and how many chains these are
WHOLE: dict[str, tuple[Callable[..., rg.Tensor], int]] = {
    "projections": (lambda x, w, *_: causal(*(heads_of(part) for part in (x @ w).chunk(3, -1))), 5),
    "heads put together": (
        lambda x, w, *_: plain(*(heads_of(part) for part in (x @ w).chunk(3, -1))).transpose(1, 2).reshape(x.shape) + x,
        5,
    ),
    "dropout": (lambda x, w, q, k, v: scaled_dot_product_attention(q, k, v, dropout_p=0.1), 7),
    "attention of attention": (lambda x, w, q, k, v: causal(causal(q, k, v), k, v), 11),
    "several": (lambda x, w, q, k, v: plain(q, k, v) * causal(k, q, v), 12),
    "positions": (
        lambda x, w, q, k, v: scaled_dot_product_attention(
            q, k, v, attn_mask=(rg.Tensor.arange(512, device=q.device).cast(q.dtype) * 0.1)
        ),
        6,
    ),
}


@pytest.mark.parametrize("case", WHOLE)
@pytest.mark.parametrize(
    ("target", "name", "dtype"), [("cuda", "mma_m16n8k16_bfloat16", "bfloat16"), ("metal", "simdgroup_8x8", "float32")]
)
def test_what_is_fused_is_computed_in_tiles(target: str, name: str, dtype: str, case: str, tiles: Any) -> None:
    """Products that the schedule fuses are computed by matrix instructions; nothing as large as scores is stored."""
    shapes = ((2, 512, 512), (512, 1536), *((2, 8, 512, 64),) * 3)
    build, count = WHOLE[case]
    inputs = [x.requires_grad_() for x in tiles.given(*shapes, dtype=dtype, device="numpy")]
    result = build(*inputs)
    (result.cast("float32") ** 2).sum().backward()
    asked = [result, *(x.grad for x in inputs if x.grad is not None)]
    kernels = compile_graph([x.uop for x in asked], target)
    assert chains_by(kernels, name) >= count
    scores = 2 * 8 * 512 * 512
    stored = {node.attrs["shape"] for kernel in kernels for node in kernel.graph.toposort("PARAM")}
    assert case == "dropout" or max(int(np.prod(shape)) for shape in stored) < scores
