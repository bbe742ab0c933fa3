"""Values of a row that are computed once and kept: in which kernels, that programs mean what their kernels mean, and values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from rulegrad import Tensor, concatenate, engine
from rulegrad.compile import compile_graph
from rulegrad.compile.kernels import forget_kernels
from rulegrad.config import config
from rulegrad.errors import DeviceError
from rulegrad.nn import functional
from rulegrad.runtime import devices
from rulegrad.workbench.diagnosis import meaning, samples

Build = Callable[[Tensor], Sequence[Tensor]]

#: name -> results, shape of x, how many powers or logarithms each element costs
GRAPHS: dict[str, tuple[Build, tuple[int, ...], int]] = {
    "softmax of rows": (lambda x: [x.softmax(1)], (3, 70), 1),
    "softmax of columns": (lambda x: [x.softmax(0)], (70, 32), 1),
    "what does not depend on a reduction": (lambda x: [functional.layer_norm(x.exp(), (70,))], (3, 70), 1),
    "two values": (lambda x: [x.exp() / x.exp().sum(1, keepdims=True) + (x * x + 1).log2().sum(1, keepdims=True) * (x * x + 1).log2()], (3, 70), 2),
    "batches": (lambda x: [x.softmax(2)], (2, 3, 64), 1),
}  # fmt: skip
COSTLY = ("EXP", "EXP2", "LOG", "LOG2")


def given(shape: tuple[int, ...], device: str) -> Tensor:
    return Tensor(np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32), device=device).realize()


@pytest.fixture(params=["opencl", "c"])
def device(request: pytest.FixtureRequest) -> str:
    try:
        devices.get(request.param)
    except DeviceError as problem:
        pytest.skip(str(problem))
    return str(request.param)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("target", ["opencl", "c"])
def test_programs_mean_what_their_kernels_mean(name: str, target: str) -> None:
    build, shape, count = GRAPHS[name]
    (kernel,) = compile_graph([x.uop for x in build(given(shape, "numpy"))], target)
    pipeline = engine.pipeline("program")
    marked = engine.run_all([kernel.graph], pipeline[: pipeline.index("mark_private") + 1], target)[0]
    assert "PRIVATE" in {node.op for node in marked.toposort()}
    whole = engine.run_all([kernel.graph], pipeline[: pipeline.index("decompose")], target)[0]
    assert "PRIVATE" not in {node.op for node in whole.toposort()}
    # once for a row; the elements that vectors leave over are text of their own
    parts = 2 if target == "c" and shape[-1] % 16 and "columns" not in name else 1
    assert len([node for node in whole.toposort() if node.op in COSTLY]) == count * parts
    program = engine.run_all([kernel.graph], pipeline, target)[0]
    arrays = samples.sample_arrays(kernel.graph)
    assert meaning.agree(meaning.meaning(kernel.graph, arrays), meaning.meaning(program, arrays))


def test_steps_on_the_way_that_the_interpreter_cannot_run_are_no_errors(device: str) -> None:
    """CHECK=2: between private_arrays and accumulate there are reductions beside registers."""
    x = given((3, 70), device)
    forget_kernels()
    with config(check=2):
        (kernel,) = compile_graph([x.softmax(1).uop], devices.get(device).target)
    assert "[70]" in kernel.source


@pytest.mark.parametrize("name", GRAPHS)
def test_values(name: str, device: str) -> None:
    build, shape, _ = GRAPHS[name]
    for found, wanted in zip(build(given(shape, device)), build(given(shape, "numpy")), strict=True):
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("count", [6, 18])
def test_more_values_than_names(count: int, device: str) -> None:
    """The fifth value of a kernel was left to a pass after that of vectors, and C has no such index."""

    def normalized(x: Tensor) -> Tensor:
        return concatenate([functional.layer_norm(functional.silu(x * k + 1), (70,)) for k in range(1, count + 1)], 1)

    wanted = normalized(given((3, 70), "numpy")).numpy()
    np.testing.assert_allclose(normalized(given((3, 70), device)).numpy(), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(4000, 2000), (64, 8192), (64, 8193)])
def test_many_rows_and_long_ones(shape: tuple[int, int], device: str) -> None:
    """A driver may give all work-items of a group their memory at once."""
    x = given(shape, device)
    (kernel,) = compile_graph([x.softmax(1).uop], devices.get(device).target)
    if device == "opencl":
        assert math.prod(kernel.local) == 1
    powers = np.exp(x.numpy() - x.numpy().max(1, keepdims=True))
    np.testing.assert_allclose(x.softmax(1).numpy(), powers / powers.sum(1, keepdims=True), rtol=1e-5, atol=1e-7)


def test_kernels_of_one_launch() -> None:
    x, y = given((3000, 1000), "opencl"), given((2000, 900), "opencl")
    results = [x.softmax(1), y.softmax(1)]
    (kernel,) = compile_graph([result.uop for result in results], "opencl")
    assert kernel.name.startswith("reduce_of_2_kernels") and kernel.local == (1,)
    Tensor.realize(*results)
    for given_, result in ((x, results[0]), (y, results[1])):
        powers = np.exp(given_.numpy())
        np.testing.assert_allclose(result.numpy(), powers / powers.sum(1, keepdims=True), rtol=1e-4, atol=1e-7)


def test_short_rows_and_cheap_values_are_not_kept() -> None:
    for build, shape in ((lambda x: x.softmax(1), (9, 16)), (lambda x: x - x.mean(1, keepdims=True), (9, 70))):
        (kernel,) = compile_graph([build(given(shape, "numpy")).uop], "opencl")
        assert kernel.local == ()
