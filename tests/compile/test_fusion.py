"""How many kernels common functions become, and that an equal kernel is compiled once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rulegrad import Tensor
from rulegrad.compile import compile_graph

ROWS = np.linspace(-2, 2, 64 * 10, dtype="float32").reshape(64, 10)


def rows() -> Tensor:
    return Tensor(ROWS, device="numpy")


def layer_norm(x: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdims=True)
    return centred * ((centred * centred).mean(-1, keepdims=True) + 1e-5).rsqrt()


def twice(x: Tensor) -> list[Tensor]:
    return [x * 2, x + 1]


CASES: dict[str, tuple[Callable[[], list[Tensor]], int]] = {
    "elementwise chain": (lambda: [((rows() * 2 + 1).exp() - 3).abs()], 1),
    "reduction with work before and after": (lambda: [(rows() * rows()).sum(-1).sqrt() + 1], 1),
    "matmul, bias, relu": (lambda: [(rows() @ rows().T + 1).relu()], 1),
    "softmax": (lambda: [rows().softmax(-1)], 1),
    "log-softmax": (lambda: [rows().log_softmax(-1)], 1),
    "layer norm": (lambda: [layer_norm(rows())], 1),
    "a sum over everything after rows": (lambda: [rows().softmax(-1).sum()], 2),
    "two matmuls": (lambda: [(rows() @ rows().T).relu() @ rows()], 2),
    "a reduction that two results use": (lambda: twice(rows().sum(-1)), 3),
    "an input alone": (lambda: [rows().reshape(10, 64)], 1),
}


@pytest.mark.parametrize("name", CASES)
def test_kernel_count(name: str) -> None:
    build, count = CASES[name]
    kernels = compile_graph([t.uop for t in build()], target="numpy")
    assert len(kernels) == count, [k.name for k in kernels]


def test_too_few_rows_are_not_shared() -> None:
    """With three rows, work-items of a row each would leave the device idle."""
    few = Tensor(ROWS[:3], device="numpy")
    assert len(compile_graph([few.softmax(-1).uop], target="numpy")) == 3


def test_equal_layers_are_one_kernel() -> None:
    x, w = Tensor(ROWS, device="numpy"), Tensor(np.eye(10, dtype="float32"), device="numpy")
    kernels = compile_graph([((x @ w).relu() @ w).relu().uop], target="numpy")
    assert len(kernels) == 2
    assert kernels[0] is kernels[1]
