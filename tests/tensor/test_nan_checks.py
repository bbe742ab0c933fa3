"""The setting `detect_nan`: the op and the line that made the first nan, forward and backward, eager and captured."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import rulegrad as rg
from rulegrad import Tensor, config
from rulegrad.errors import NanError

NAN = float("nan")


@pytest.fixture(params=[False, True], ids=["eager", "captured"])
def called(request: pytest.FixtureRequest) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return rg.jit if request.param else lambda function: function


@pytest.fixture(autouse=True)
def detect() -> Iterator[None]:
    with config(detect_nan=1):
        yield


def line_of(function: Callable[..., Any], text: str) -> str:
    lines, first = inspect.getsourcelines(function)
    return f"{Path(__file__).name}:{first + next(k for k, line in enumerate(lines) if text in line)}"


def test_the_first_op_and_its_line(device: str, called: Callable[..., Any]) -> None:
    def forward(x: Tensor) -> Tensor:
        shifted = x * 2 - 3
        logs = shifted.log()
        return (logs.exp() + 1).sum()

    function = called(forward)
    assert function(Tensor([2.0, 3.0], device=device)).item() == pytest.approx(6)
    for _ in range(2):
        with pytest.raises(NanError) as found:
            function(Tensor([1.0, 2.0], device=device)).item()
        assert str(found.value) == (
            f"detect_nan: LOG (float32 2) made the first nan at {line_of(forward, '.log()')}; "
            "it is computed from values of -1 to 1"
        )
    assert function(Tensor([2.0, 3.0], device=device)).item() == pytest.approx(6)


def test_the_backward_pass(device: str, called: Callable[..., Any]) -> None:
    weight = Tensor([1.0, 0.0], device=device, requires_grad=True)

    def step(x: Tensor) -> Tensor:
        weight.grad = None
        loss = (weight * weight).sqrt().sum() + (x * 0).sum()
        loss.backward()
        return loss

    function = called(step)
    with pytest.raises(NanError) as found:
        function(Tensor([1.0, 2.0], device=device)).item()
    assert "first nan in the backward pass (rule gradient.mul)" in str(found.value)
    assert f"at {line_of(step, 'sqrt()')}" in str(found.value)
    with (
        config(detect_nan=2),
        pytest.raises(NanError, match=r"infinite value in the backward pass \(rule gradient.sqrt\)"),
    ):
        called(lambda x: step(x))(Tensor([1.0, 2.0], device=device)).item()


def test_it_is_off_by_default(device: str, called: Callable[..., Any]) -> None:
    function = called(lambda x: x.log() * 2)
    with config(detect_nan=0):
        for _ in range(2):
            assert str(function(Tensor([-1.0], device=device)).item()) == "nan"


def test_infinite_values_count_where_they_are_asked_for(device: str) -> None:
    x = Tensor([0.0, 1.0], device=device)
    assert x.log().tolist() == [float("-inf"), 0.0]
    with config(detect_nan=2), pytest.raises(NanError, match=r"LOG \(float32 2\) made the first infinite value"):
        (x + 0).log().tolist()


def test_a_difference_of_infinite_values_is_a_nan(device: str) -> None:
    x = Tensor([float("inf"), 1.0], device=device)
    with config(detect_nan=2), pytest.raises(NanError, match="made the first nan"):
        (x - x).tolist()


def test_what_the_program_wrote_is_not_made(device: str) -> None:
    assert str(Tensor.full((2,), NAN, device=device).tolist()) == "[nan, nan]"
    masked = Tensor([1.0, 2.0], device=device).masked_fill(Tensor([True, False], device=device), float("-inf"))
    with config(detect_nan=2):
        assert masked.tolist() == [float("-inf"), 2.0]
        assert (masked + 1).softmax(axis=0).tolist() == [0.0, 1.0]


def test_a_nan_that_no_result_has_is_not_told(device: str) -> None:
    x = Tensor([-1.0, 1.0], device=device)
    assert (x > 0).where(x.log(), 0.0).tolist() == [0.0, 0.0]
    assert Tensor([NAN, 1.0], device=device).nansum().item() == 1.0


def test_data_with_a_nan(device: str) -> None:
    with pytest.raises(NanError, match="a tensor that is read, float32 2, has a nan already"):
        (Tensor([NAN, 1.0], device=device) + 1).tolist()


def test_what_is_read_keeps_its_values(device: str) -> None:
    x = Tensor([4.0, 9.0], device=device)
    x.assign(x.sqrt())
    x.assign(x - 2.5)
    with pytest.raises(NanError, match="it is computed from values of -0.5 to 0.5"):
        x.assign(x.sqrt()).tolist()


def test_low_precision_and_complex(device: str) -> None:
    with pytest.raises(NanError, match="float16"):
        (Tensor([-2.0], dtype="float16", device=device).sqrt() + 1).tolist()
    with pytest.raises(NanError):
        (Tensor([1 + 2j], device=device) * (Tensor([-1.0], device=device).log() + 0)).tolist()


def test_the_environment_variable() -> None:
    from rulegrad.config import read_environment

    assert read_environment({"RULEGRAD_DETECT_NAN": "2"})["detect_nan"] == 2
    assert read_environment({})["detect_nan"] == 0
