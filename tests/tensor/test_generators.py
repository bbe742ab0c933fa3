"""The state of random numbers: read, set, forked, of generators of their own, and in checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
import rulegrad.nn as nn
from rulegrad import Tensor, optim
from rulegrad.errors import DtypeError, FileError

DRAWS: list[Callable[..., Any]] = [
    lambda **options: Tensor.rand(5, device="numpy", **options),
    lambda **options: Tensor.randn(5, device="numpy", **options),
    lambda **options: Tensor.uniform(5, low=1.0, high=2.0, device="numpy", **options),
    lambda **options: Tensor.normal(5, std=2.0, device="numpy", **options),
    lambda **options: Tensor.randint(5, high=99, device="numpy", **options),
    lambda **options: Tensor.randperm(5, device="numpy", **options),
]


def test_the_state_can_be_read_and_set() -> None:
    rg.manual_seed(11)
    Tensor.rand(3, device="numpy")
    state = rg.get_rng_state()
    assert (state.tolist(), state.dtype) == ([11, 3], "uint64")
    for draw in DRAWS:
        rg.set_rng_state(state)
        first = draw().tolist()
        assert draw().tolist() != first
        rg.set_rng_state(state.numpy())  # type: ignore[arg-type]
        assert draw().tolist() == first
    for wrong in (Tensor([1, 2]), Tensor([1, 2, 3], dtype="uint64")):
        with pytest.raises(DtypeError, match="a state is two numbers of uint64"):
            rg.set_rng_state(wrong)


def test_generators_draw_on_their_own() -> None:
    rg.manual_seed(1)
    before = rg.get_rng_state().tolist()
    for draw in DRAWS:
        one, other = rg.Generator().manual_seed(4), rg.Generator().manual_seed(4)
        assert draw(generator=one).tolist() == draw(generator=other).tolist()
        assert one.get_state().tolist() == [4, 5]
    assert rg.get_rng_state().tolist() == before
    fresh = rg.Generator()
    assert fresh.seed() == fresh.initial_seed() != rg.Generator().initial_seed()
    assert rg.manual_seed(2) is rg.manual_seed(3)
    assert rg.get_rng_state().tolist() == [3, 0]


def test_a_fork_leaves_the_numbers_after_it() -> None:
    rg.manual_seed(1)
    with pytest.raises(ZeroDivisionError), rg.fork_rng():
        Tensor.rand(4, device="numpy")
        _ = 1 / 0
    assert rg.get_rng_state().tolist() == [1, 0]
    with rg.fork_rng(enabled=False):
        Tensor.rand(4, device="numpy")
    assert rg.get_rng_state().tolist() == [1, 4]


class Training:
    """A network with dropout, and its optimizer."""

    def __init__(self) -> None:
        self.model = nn.Sequential(nn.Linear(4, 8, device="numpy"), nn.Dropout(0.5), nn.Linear(8, 1, device="numpy"))
        self.adam = optim.Adam(self.model.parameters(), lr=0.1)

    def steps(self, count: int) -> list[float]:
        x, losses = Tensor(np.arange(12, dtype=np.float32).reshape(3, 4), device="numpy"), []
        for _ in range(count):
            self.adam.zero_grad()
            loss = self.model(x).square().mean()
            loss.backward()
            self.adam.step()
            losses.append(loss.item())
        return losses


def test_training_with_dropout_resumes_bit_for_bit(tmp_path: Path) -> None:
    rg.manual_seed(5)
    whole = Training()
    whole.steps(2)
    rg.save({"model": whole.model.state_dict(), "adam": whole.adam.state_dict()}, tmp_path / "half")
    expected = whole.steps(3)

    rg.manual_seed(77)
    resumed = Training()
    found = rg.load(tmp_path / "half", random=True)
    resumed.model.load_state_dict(found["model"])
    resumed.adam.load_state_dict(found["adam"])
    assert resumed.steps(3) == expected
    for one, other in zip(whole.model.parameters(), resumed.model.parameters(), strict=True):
        assert one.numpy().tobytes() == other.numpy().tobytes()


def test_loading_leaves_the_random_numbers_alone_unless_asked(tmp_path: Path) -> None:
    rg.manual_seed(5)
    rg.save({}, tmp_path / "empty")
    rg.manual_seed(6)
    rg.load(tmp_path / "empty")
    assert rg.get_rng_state().tolist() == [6, 0]
    rg.load(tmp_path / "empty", random=True)
    assert rg.get_rng_state().tolist() == [5, 0]
    nn.state.safe_save({"a": Tensor([1.0])}, tmp_path / "plain")
    with pytest.raises(FileError, match="has no state of random numbers; leave out random=True"):
        rg.load(tmp_path / "plain", random=True)
    for damaged in ("[1]", "x", "[-1, 0]", '["a", "b"]'):
        nn.state.safe_save({}, tmp_path / "damaged", {"rulegrad.random": damaged})
        with pytest.raises(FileError, match="its state of random numbers is damaged"):
            rg.load(tmp_path / "damaged", random=True)
