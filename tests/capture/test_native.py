"""Replays in the engine: the values of those in Python, and who holds an old value keeps it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from capture_contract import Run, array, check

import rulegrad as rg
from rulegrad import Tensor
from rulegrad.capture.captured import Captured


@pytest.fixture(autouse=True)
def compiled() -> Iterator[None]:
    """Programs of launches are the engine's on `c`."""
    with rg.config(device="c"):
        yield


@pytest.fixture
def in_python(monkeypatch: pytest.MonkeyPatch) -> list[Captured]:
    """The captures that were replayed in Python, as often as they were."""
    seen: list[Captured] = []
    replay = Captured.replay

    def counted(self: Captured, *given: Any) -> Any:
        seen.append(self)
        return replay(self, *given)

    monkeypatch.setattr(Captured, "replay", counted)
    return seen


def calls_in_python(seen: list[Captured], step: Callable[[], object], calls: int = 4) -> int:
    """How many of the calls after the third were replayed in Python: the first ones find out which memory is free."""
    for _ in range(3):
        step()
    seen.clear()
    for _ in range(calls):
        step()
    return len(seen)


def weights(*shape: int) -> Tensor:
    return Tensor(array(*shape), requires_grad=True)


def test_a_function_of_arguments(in_python: list[Captured]) -> None:
    x, f = Tensor(array(3, 4)).realize(), rg.jit(lambda a, scale: {"sum": a + scale, "same": a})
    assert not calls_in_python(in_python, lambda: f(x, 2.0))
    result = f(x, 2.0)
    np.testing.assert_allclose(result["sum"].numpy(), array(3, 4) + 2)
    assert result["same"] is x


def test_a_step_of_training(in_python: list[Captured]) -> None:
    weight = weights(5, 3)
    optimizer, x = rg.optim.Adam([weight], lr=0.1), Tensor(array(4, 5, seed=1)).realize()

    @rg.jit
    def step(given: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = (given @ weight).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    losses: list[float] = []
    assert not calls_in_python(in_python, lambda: losses.append(step(x).item()))
    assert losses == sorted(losses, reverse=True) and len(set(losses)) == len(losses)
    optimizer.param_groups[0]["lr"] = 0.0
    before = weight.numpy()
    step(x)
    np.testing.assert_array_equal(weight.numpy(), before)
    with pytest.raises(rg.errors.GradientError, match="does not flow back"):
        step(x).backward()


def test_the_state_stays_in_its_buffer_where_nobody_has_it() -> None:
    state = Tensor(array(3)).realize()
    f = rg.jit(lambda: state.assign(state * 2))
    for _ in range(4):
        f()
    buffer = state._history.id
    f()
    assert state._history.id == buffer
    np.testing.assert_allclose(state.numpy(), array(3) * 32)


HOLDERS: dict[str, Callable[[Tensor], Any]] = {
    "a graph": lambda w: w.detach() * 1,
    "a view": lambda w: w.detach()[1:] * 1,
    "an array": lambda w: np.asarray(w.detach()),
    "a copy": lambda w: w.detach(),
    "a clone": lambda w: w.clone().detach(),
}


@pytest.mark.parametrize("name", HOLDERS)
@pytest.mark.parametrize("leaf", [False, True])
def test_old_values_stay(name: str, leaf: bool) -> None:
    def program(run: Run) -> None:
        weight, x = Tensor(array(4), requires_grad=leaf).realize(), Tensor(array(4, seed=1)).realize()

        def step(given: Tensor) -> Tensor:
            with rg.no_grad():
                weight.assign(weight * 0.5 + given)
            return weight.sum().detach()

        f = run.jit(step)
        held = []
        for number in range(7):
            if number in (4, 6):
                held.append(HOLDERS[name](weight))
            run.see(f(x))
        run.see(weight.detach(), *(Tensor(np.array(one)) for one in held))

    check(program, traces=1)


def test_a_node_that_somebody_has_is_not_given_new_values() -> None:
    """A bare node keeps no memory: it may be gone, but it never has another value."""
    state = Tensor(array(3)).realize()
    f = rg.jit(lambda: state.assign(state + 1))
    for _ in range(4):
        f()
    node, before = state.uop, state.numpy()
    f()
    np.testing.assert_allclose(state.numpy(), before + 1)
    with pytest.raises(rg.errors.DeviceError, match="is gone"):
        (Tensor(node) * 1).numpy()


def test_options_that_are_changed_in_place() -> None:
    def program(run: Run) -> None:
        weight = Tensor(array(4), requires_grad=True)
        optimizer = rg.optim.Adam([weight], lr=0.1, betas=[0.9, 0.99])  # type: ignore[arg-type]

        def step() -> Tensor:
            optimizer.zero_grad()
            loss = weight.square().sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        f = run.jit(step)
        for number in range(8):
            if number == 5:
                optimizer.param_groups[0]["betas"][0] = 0.5
            run.see(f())
        optimizer.add_param_group({"params": [Tensor(array(2), requires_grad=True)]})
        run.see(f(), weight)

    check(program, traces=3)


def test_a_failing_call_changes_nothing(in_python: list[Captured]) -> None:
    state, fails = Tensor(array(3)).realize(), []

    def rate() -> Tensor:
        if fails:
            raise RuntimeError("no rate")
        return Tensor(np.float32(2.0))

    f = rg.jit(lambda: state.assign(state * rg.each_call(rate)))
    assert not calls_in_python(in_python, f)
    before = state.numpy()
    fails.append(True)
    with pytest.raises(RuntimeError, match="no rate"):
        f()
    np.testing.assert_array_equal(state.numpy(), before)
    fails.clear()
    f()
    np.testing.assert_allclose(state.numpy(), before * 2)


def test_arguments_that_contain_themselves() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(RecursionError):
        rg.jit(lambda tree: Tensor([1.0]))(loop)


def test_a_cache_that_is_written_at_a_place(in_python: list[Captured]) -> None:
    """Kernels that check indices are replayed in the engine too, and a wrong index is an error where a value is read."""
    cache, place = Tensor(np.zeros((4, 3), np.float32)).realize(), [0]

    @rg.jit
    def step(row: Tensor, index: Tensor) -> Tensor:
        cache[index] = row
        return cache.sum()

    def call() -> float:
        found: float = step(Tensor(array(3)), Tensor(np.array(place[0]))).item()
        return found

    assert not calls_in_python(in_python, call)
    expected = np.zeros((4, 3), np.float32)
    expected[0] = array(3)
    for number in (2, -1, 2):
        place[0] = number
        expected[number] = array(3)
        assert call() == pytest.approx(expected.sum(), rel=1e-6)
    for number in (4, -5):
        place[0] = number
        with pytest.raises(rg.errors.IndexRangeError, match=f"{number} is out of range for axis 0 of size 4"):
            call()
        with pytest.raises(rg.errors.IndexRangeError):
            cache.numpy()
        cache.assign(Tensor(expected))
        place[0] = 1
        expected[1] = array(3)
        assert call() == pytest.approx(expected.sum(), rel=1e-6)
    np.testing.assert_allclose(cache.numpy(), expected)
