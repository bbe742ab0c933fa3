"""Errors inside a model name the layer by its path, and the user's line."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

import rulegrad as rg
from rulegrad import Tensor, nn
from rulegrad.errors import ShapeError


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.proj = nn.Linear(width, 8)

    def forward(self, x: Tensor) -> Any:
        return self.proj(x)


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.attn = Attention(width)

    def forward(self, x: Tensor) -> Any:
        return x + self.attn(x)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(8), Block(8), Block(8), Block(9)])

    def forward(self, x: Tensor) -> Any:
        for block in self.blocks:
            x = block(x)
        return x


def place(function: Any, text: str) -> str:
    lines, first = inspect.getsourcelines(function)
    return f"{Path(__file__).name}:{first + next(k for k, line in enumerate(lines) if text in line)}"


@pytest.mark.parametrize("captured", [False, True])
def test_the_path_and_the_line(captured: bool) -> None:
    model = Model()
    call = rg.jit(lambda x: model(x)) if captured else model
    with pytest.raises(ShapeError) as found:
        call(Tensor.ones(2, 8))
    assert found.value.layer == f"blocks.3.attn.proj (Linear) of Model, at {place(Attention.forward, 'self.proj(x)')}"
    assert str(found.value).endswith(f"\n    in the layer {found.value.layer}")
    assert "layer" not in found.value.problem and found.value.problem.startswith("linear: ")


def test_an_error_in_forward_itself() -> None:
    class Sum(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return x + Tensor.ones(3)

    with pytest.raises(ShapeError) as found:
        nn.Sequential(nn.ReLU(), nn.Sequential(Sum()))(Tensor.ones(2))
    assert found.value.layer == f"1.0 (Sum) of Sequential, at {place(Sum, 'Tensor.ones(3)')}"


def test_a_layer_alone_has_the_line_of_its_call() -> None:
    with pytest.raises(ShapeError) as found:
        nn.Linear(3, 4)(Tensor.ones(2))
    assert found.value.layer == f"Linear, at {place(test_a_layer_alone_has_the_line_of_its_call, 'nn.Linear(3, 4)')}"


def test_a_layer_that_is_not_a_part_of_its_caller() -> None:
    other = nn.Linear(3, 4)

    class Caller(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return other(x)

    with pytest.raises(ShapeError) as found:
        Caller()(Tensor.ones(2))
    assert found.value.layer.startswith("<Linear> (Linear) of Caller, at ")


def test_other_errors_are_left_alone() -> None:
    class Broken(nn.Module):
        def forward(self, x: Tensor) -> Any:
            raise KeyError("mine")

    with pytest.raises(KeyError, match=r"^'mine'$"):
        Broken()(Tensor.ones(2))
    with pytest.raises(ShapeError) as found:
        Tensor.ones(2) + Tensor.ones(3)
    assert found.value.layer == "" and "layer" not in str(found.value)
