"""Errors are those that NumPy or PyTorch raise, so that programs written for either catch it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor
from rulegrad.errors import RulegradError

X = Tensor([1, 2], device="numpy")
CASES: list[tuple[Callable[[], Any], tuple[type[Exception], ...]]] = [
    (lambda: X + Tensor([1, 2, 3], device="numpy"), (ValueError, RuntimeError)),
    (lambda: X.reshape(3), (ValueError, RuntimeError)),
    (lambda: X @ Tensor([[1]], device="numpy"), (ValueError, RuntimeError)),
    (lambda: X.item(), (ValueError, RuntimeError)),
    (lambda: bool(X), (ValueError, RuntimeError)),
    (lambda: X[5], (IndexError,)),
    (lambda: X.sum(3), (ValueError, IndexError)),
    (lambda: len(Tensor(1.0)), (TypeError,)),
    (lambda: X.cast("float32") & X, (TypeError, RuntimeError)),
    (lambda: Tensor([1], dtype="uint8") + 300, (OverflowError, RuntimeError)),
    (lambda: X.backward(), (RuntimeError,)),
    (lambda: X.to("abacus"), (RuntimeError,)),
    (lambda: X.div(2, rounding_mode="up"), (ValueError, RuntimeError)),
    (lambda: rg.linalg.norm(Tensor([[1.0]], device="numpy"), ord="none"), (ValueError, RuntimeError)),
    (lambda: rg.nn.Linear(2, 2).load_state_dict({}), (RuntimeError,)),
    (lambda: rg.nn.Linear(2, 2).get_submodule("x"), (AttributeError,)),
    (lambda: rg.nn.Linear(2, 2).get_parameter("x"), (AttributeError,)),
    (lambda: setattr(rg.nn.Linear(2, 2), "weight", X), (TypeError,)),
    (lambda: rg.optim.SGD([], lr=0.1), (ValueError,)),
    (lambda: rg.optim.SGD([Tensor([1.0], requires_grad=True) * 2], lr=0.1), (ValueError,)),
    (lambda: rg.optim.SGD(Tensor([1.0], requires_grad=True), lr=0.1), (TypeError,)),  # type: ignore[arg-type]
    (lambda: Tensor.rand(2, generator=5), (TypeError,)),  # type: ignore[arg-type]
    (lambda: rg.linalg.inv(Tensor([[0.0]], device="numpy")), (np.linalg.LinAlgError, RuntimeError)),
]


@pytest.mark.parametrize(("wrong", "expected"), CASES)
def test_errors_are_those_of_numpy_and_pytorch(wrong: Callable[[], Any], expected: tuple[type[Exception], ...]) -> None:
    with pytest.raises(RulegradError) as found:
        wrong()
    assert all(issubclass(found.type, one) for one in expected), found.type.__mro__


def test_a_missing_file_is_pythons_error(tmp_path: Path) -> None:
    for load in (rg.load, rg.nn.state.safe_load, rg.nn.state.safe_open, rg.nn.state.torch_load):
        with pytest.raises(FileNotFoundError, match="there is no such file"):
            load(tmp_path / "missing")
