"""`jit` with `dynamic`: one trace serves all sizes of axes and all integers within their bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor, Variable
from rulegrad.errors import CaptureError, IndexRangeError

Array = np.ndarray[Any, Any]
noise = np.random.default_rng(0)
T = Variable("t", 1, 300)


def floats(*shape: int) -> Array:
    return noise.standard_normal(shape).astype(np.float32)


def same(found: Any, wanted: Array) -> None:
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-5)


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_one_trace_serves_all_sizes(device: str) -> None:
    step = rg.jit(lambda x: (x - x.mean(0)) * x.shape[0], dynamic={"x": {0: T}})
    for t in (5, 2, 300, 9, 5):
        x = floats(t, 3)
        same(step(Tensor(x, device=device)), (x - x.mean(0)) * t)
    assert step.reasons() == ["the first call"]


def test_one_set_of_kernels_serves_all_sizes(built: list[int]) -> None:
    step = rg.jit(lambda x, y: (x @ y).softmax(-1), dynamic={"x": {0: T}, "y": {1: Variable("u", 1, 300)}})
    for t, u in ((5, 9), (6, 9), (7, 7), (90, 33), (33, 90), (2, 300)):
        x, y = floats(t, 8), floats(8, u)
        same(step(Tensor(x, device="c"), Tensor(y, device="c")), softmax(x @ y))
    assert len(built) == 1 and len(step.reasons()) == 1


@pytest.mark.parametrize(
    "declared", [True, {"x": {1: Variable("batch", 1, 8), 2: Variable("t", 60, 2000)}}], ids=["all", "two"]
)
def test_windows_with_steps_of_sizes_of_any_remainder(declared: Any, built: list[int]) -> None:
    weights = floats(4, 2, 7), floats(3, 4, 2)

    def compute(x: Tensor) -> tuple[Tensor, Tensor]:
        first, second = (Tensor(weight, device=x.device) for weight in weights)
        features = x.transpose(0, 1).conv1d(first, stride=5).relu().conv1d(second, stride=2)
        return features, features.max_pool1d(3, 2).sum(-1)

    captured = rg.jit(compute, dynamic=declared)
    for number, shape in enumerate(((2, 3, 100), (2, 3, 113), (2, 5, 98), (2, 2, 251), (2, 5, 1000), (2, 7, 64))):
        x = floats(*shape)
        if number == (4 if declared is True else 1):
            built.clear()
        for found, wanted in zip(captured(Tensor(x, device="c")), compute(Tensor(x, device="numpy")), strict=True):
            assert found.shape == wanted.shape
            np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-4, atol=1e-4)
    assert built == [] and len(captured.reasons()) == (4 if declared is True else 1), captured.reasons()


def test_one_has_a_trace_of_its_own(device: str) -> None:
    step = rg.jit(lambda x: x.softmax(-1), dynamic={"x": {-1: T}})
    for t in (7, 1, 30, 1):
        x = floats(3, t)
        same(step(Tensor(x, device=device)), softmax(x))
    assert len(step.reasons()) == 2


@pytest.mark.parametrize("call", ["by position", "by name"])
def test_integers(call: str, built: list[int]) -> None:
    def last(x: Tensor, n: int) -> Tensor:
        return x[-n:].sum(0) / n

    step = rg.jit(last, dynamic={"x": {0: Variable("t", 40, 300)}, "n": Variable("n", 0, 40)})
    for t, n in ((64, 2), (100, 3), (40, 40), (256, 17)):
        x = floats(t, 3)
        found = step(Tensor(x, device="c"), n) if call == "by position" else step(Tensor(x, device="c"), n=n)
        same(found, x[-n:].sum(0) / np.float32(n))
    assert len(step.reasons()) == 1 and len(built) == 1


def test_positions_of_a_cache_that_is_updated_in_place(device: str) -> None:
    cache = Tensor(np.zeros((64, 3), np.float32), device=device)

    @rg.jit(dynamic={"n": Variable("n", 0, 63)})
    def write(x: Tensor, n: int) -> Tensor:
        cache[n] = x
        return cache[: n + 1].sum(0)

    kept = np.zeros((64, 3), np.float32)
    for n in range(12):
        x = floats(3)
        kept[n] = x
        same(write(Tensor(x, device=device), n), kept.sum(0))
    same(cache, kept)
    assert len(write.reasons()) == 3  # 0, 1, and all others but 63, at which the cache is whole


def decoder(layers: int, width: int, heads: int) -> tuple[Callable[..., Any], Callable[..., Array]]:
    """A token through layers of attention over caches that are grown by `cat`; the same by NumPy."""
    own = [floats(width, 3 * width) * np.float32(0.1) for _ in range(layers)]
    weights = [Tensor(one, device="c").realize() for one in own]

    def token(x: Tensor, caches: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        new = []
        for k, weight in enumerate(weights):
            parts = (x @ weight).reshape(3, heads, 1, width // heads)
            query, keys, values = parts[0], parts[1], parts[2]
            if caches:
                keys, values = Tensor.cat([caches[k][0], keys], dim=1), Tensor.cat([caches[k][1], values], dim=1)
            new.append((keys, values))
            x = x + ((query @ keys.transpose(-1, -2)) * 0.25).softmax(-1).matmul(values).reshape(1, width)
        return x, new

    caches: list[list[Array]] = [[] for _ in range(2 * layers)]

    def token_of(x: Array) -> Array:
        for k, weight in enumerate(own):
            query, keys, values = (x @ weight).reshape(3, heads, 1, width // heads)
            caches[2 * k].append(keys)
            caches[2 * k + 1].append(values)
            keys, values = (np.concatenate(caches[2 * k + j], 1) for j in (0, 1))
            x = x + (softmax(query @ keys.swapaxes(-1, -2) * np.float32(0.25)) @ values).reshape(1, width)
        return x

    return token, token_of


@pytest.mark.parametrize("dynamic", [{"caches": {1: T}}, True])
def test_decoding_with_a_growing_cache(dynamic: Any, built: list[int]) -> None:
    token, token_of = decoder(2, 32, 2)
    step, counts = rg.jit(token, dynamic=dynamic), []
    caches: Any = []
    for _ in range(24):
        x = floats(1, 32)
        y, caches = step(Tensor(x, device="c"), caches)
        same(y, token_of(x))
        counts.append((len(built), len(step.reasons())))
    first = 3 if dynamic is True else 2  # two sizes have to be seen where no bounds are given
    assert counts[first] == counts[-1]
    assert caches[0][0].shape == (2, 24, 16)


def test_what_vanishes_at_a_bound(device: str) -> None:
    step = rg.jit(lambda x: x[2:].sum(0) if x.shape[0] > 2 else x.sum(0), dynamic={"x": {0: T}})
    for t in (9, 2, 3, 300, 2):
        x = floats(t, 3)
        same(step(Tensor(x, device=device)), x[2:].sum(0) if t > 2 else x.sum(0))
    assert len(step.reasons()) == 3  # 2, 3, and all others


def test_gradients_through_it(device: str) -> None:
    weight = Tensor(floats(4), device=device, requires_grad=True)
    step = rg.jit(lambda x: (x * weight).sum(0), dynamic={"x": {0: T}})
    for t in (3, 8, 5):
        x = Tensor(floats(t, 4), device=device, requires_grad=True)
        weight.grad = None
        step(x * 2).sum().backward()
        same(weight.grad, 2 * x.numpy().sum(0))
        assert x.grad is not None
        same(x.grad, np.broadcast_to(2 * weight.detach().numpy(), (t, 4)))
    assert len(step.reasons()) == 1


@pytest.mark.parametrize(("stride", "padding"), [(1, 1), (2, 1), (3, 0)])
def test_gradients_of_transposed_convolutions_of_any_length(device: str, stride: int, padding: int) -> None:
    """Sizes such as 4 * (2 * t + 3), of windows, are formulas too."""
    w = Tensor(floats(3, 2, 4), device=device)

    def both(x: Tensor) -> tuple[Tensor, ...]:
        loss = rg.grad(lambda x, w: x.conv_transpose1d(w, stride=stride, padding=padding).square().sum(), (0, 1))
        return loss(x, w)  # type: ignore[no-any-return]

    step = rg.jit(both, dynamic={"x": {2: Variable("t", 4, 30)}})
    for t in (7, 4, 30, 12):
        x = Tensor(floats(2, 3, t), device=device)
        for found, wanted in zip(step(x), both(x), strict=True):
            np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-4, atol=1e-3)
    assert len(step.reasons()) == 1


def test_an_index_out_of_range_is_told_with_the_size_of_the_call(device: str) -> None:
    step = rg.jit(lambda x, i, u: x.index_add(0, i, u), dynamic={"x": {0: Variable("t", 1, 50)}})
    for t in (7, 40, 12):
        i = np.arange(9) % t
        i[3] = t
        with pytest.raises(
            IndexRangeError, match=f"index_add: {t} is out of range for axis 0 of size {t}; use 0 to {t - 1}"
        ):
            step(
                Tensor.zeros(t, 20, device=device), Tensor(i, device=device), Tensor.ones(9, 20, device=device)
            ).numpy()


def test_a_training_step_of_batches_of_any_size(device: str) -> None:
    def weights() -> Tensor:
        return Tensor(np.ones((4, 2), np.float32), device=device, requires_grad=True)

    def step_of(weight: Tensor) -> Callable[[Tensor], Tensor]:
        optimizer = rg.optim.SGD([weight], lr=0.1, momentum=0.9)

        def step(x: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss = (x @ weight).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    one, other = weights(), weights()
    captured, eager = rg.jit(step_of(one), dynamic={"x": {0: T}}), step_of(other)
    for t in (8, 8, 3, 5, 8, 20):
        x = floats(t, 4)
        same(captured(Tensor(x, device=device)), eager(Tensor(x, device=device)).numpy())
    same(one.detach(), other.detach().numpy())
    assert len(captured.reasons()) == 2  # momentum is made in the first step


def test_random_numbers_are_those_of_eager_calls(device: str) -> None:
    def noisy(x: Tensor) -> Tensor:
        return x + Tensor.rand(3, device=device)

    step = rg.jit(noisy, dynamic={"x": {0: T}})
    found = []
    for function in (step, noisy):
        Tensor.manual_seed(3)
        found.append([function(Tensor(np.zeros((t, 3), np.float32), device=device)).numpy() for t in (4, 6, 9)])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_views_and_shapes_of_results(device: str) -> None:
    step = rg.jit(lambda x: ((x * 2).reshape(-1, 2), {"last": (x + 1)[1:]}), dynamic={"x": {0: T}})
    for t in (4, 8, 50):
        x = floats(t, 6)
        twice, others = step(Tensor(x, device=device))
        same(twice, (x * 2).reshape(-1, 2))
        same(others["last"], (x + 1)[1:])


def test_a_size_that_is_used_often_has_kernels_of_its_own(built: list[int]) -> None:
    step = rg.jit(lambda x: x * 2 + 1, dynamic={"x": {0: T}})
    for t in (5, 6, *[7] * 40):
        x = floats(t)
        same(step(Tensor(x, device="c")), x * 2 + 1)
    assert len(built) == 2


def test_whatever_varies(device: str) -> None:
    step = rg.jit(lambda x, y, n: (x @ y) * n, dynamic=True)
    for t, n in ((3, 5), (4, 7), (5, 9), (90, 2), (7, 70)):
        x, y = floats(4, t), floats(t, 5)
        same(step(Tensor(x, device=device), Tensor(y, device=device), n), (x @ y) * n)
    assert len(step.reasons()) == 2


def test_what_branches_on_a_size_is_one_computation_from_there_on_where_nothing_is_declared(device: str) -> None:
    step = rg.jit(lambda x: x * 2 if x.shape[0] > 40 else x * 3, dynamic=True)
    for t in (20, 50, 30, 60):
        x = floats(t)
        same(step(Tensor(x, device=device)), x * (2 if t > 40 else 3))
    assert len(step.reasons()) == 3, step.reasons()  # 60 is that of 50


# ---- errors ----


def test_leaving_the_bounds(device: str) -> None:
    step = rg.jit(lambda x, n: x * n, dynamic={"x": {0: T}, "n": Variable("n", 3, 64)})
    step(Tensor(floats(5), device=device), 4)
    with pytest.raises(CaptureError, match=r"t = 301, axis 0 of `x`, is above its bound 300 \(test_dynamic.py:\d+\)"):
        step(Tensor(floats(301), device=device), 4)
    with pytest.raises(CaptureError, match=r"n = 2, `n`, is below its bound 3 \(test_dynamic.py:\d+\)"):
        step(Tensor(floats(5), device=device), 2)


def test_one_name_has_one_value(device: str) -> None:
    step = rg.jit(lambda x, y: x.sum() + y.sum(), dynamic={"x": {0: T}, "y": {0: T}})
    step(Tensor(floats(5), device=device), Tensor(floats(5), device=device))
    for t in (1, 6):
        with pytest.raises(CaptureError, match=f"t is 5 along axis 0 of `x` and {t} along axis 0 of `y`"):
            step(Tensor(floats(5), device=device), Tensor(floats(t), device=device))


def one_branch(x: Tensor) -> Tensor:
    return x * 2 if x.shape[0] > 40 else x * 3


def clamped(x: Tensor) -> Tensor:
    return x[: min(x.shape[0], 100)]


def of_the_host(x: Tensor) -> Tensor:
    return x * Tensor(np.arange(x.shape[0], dtype=np.float32), device=x.device)


def failing(x: Tensor) -> Tensor:
    return x.reshape(-1, 2)


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (one_branch, "the computation at t = 2 is not that at t = 211"),
        (clamped, "t = 2"),
        (of_the_host, "values of the host that it computes with depend on a size"),
        (failing, "ShapeError"),
        (lambda x: (x * 2, x.shape[0]), "the rest of the result"),
    ],
)
def test_what_is_not_one_computation(function: Callable[..., Any], why: str, device: str) -> None:
    step = rg.jit(function, dynamic={"x": {0: T}})
    with pytest.raises(CaptureError, match=f"is not one computation at all sizes.*({why})"):
        step(Tensor(floats(20), device=device))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Variable("t", 5, 3), "the bounds are 5 and 3"),
        (lambda: Variable("", 1, 3), "the name is ''"),
        (lambda: rg.jit(lambda x: x, dynamic={"y": {0: T}}), "names the parameter 'y', and the function has x"),
        (lambda: rg.jit(lambda x: x, dynamic={"x": 3}), r"dynamic\['x'\] is 3"),
        (lambda: rg.jit(lambda x: x, dynamic={"x": {0: T}, "n": T}), "names the parameter 'n'"),
        (lambda: rg.jit(lambda x, n: x, dynamic={"x": {0: T}, "n": Variable("t", 1, 5)}), "two bounds for 't'"),
        (lambda: rg.jit(lambda x: x, dynamic=3), "dynamic is 3"),  # type: ignore[call-overload]
        (lambda: rg.jit(lambda x: x, dynamic={"x": {2: T}})(Tensor([1.0])), "declares axis 2 of `x`"),
    ],
)
def test_wrong_declarations(make: Callable[[], Any], why: str) -> None:
    with pytest.raises(CaptureError, match=why):
        make()


def test_state_is_as_before_where_it_is_no_one_computation(device: str) -> None:
    total = Tensor(np.zeros(3, np.float32), device=device)

    @rg.jit(dynamic={"x": {0: T}})
    def step(x: Tensor) -> Tensor:
        total.assign(total + x.sum(0))
        return x * 2 if x.shape[0] > 40 else x * 3

    with pytest.raises(CaptureError):
        step(Tensor(floats(5, 3), device=device))
    same(total, np.zeros(3, np.float32))


def test_it_cannot_be_saved(tmp_path: Any) -> None:
    with pytest.raises(CaptureError, match="captures for all sizes"):
        rg.jit(lambda x: x, dynamic=True).save(tmp_path / "file")
