"""Tensors in parts on a mesh are used as any other: copied, saved, changed in place, mapped over, looked at for nan."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rulegrad
from rulegrad import Tensor, config, nn
from rulegrad.distributed import Mesh, fully_sharded, placement, shard
from rulegrad.errors import NanError

A = np.random.default_rng(0).random((5, 4)).astype(np.float32)
MESH = Mesh({"data": 2}, device="numpy*2")
DEVICES = ("numpy", "c")


def parts() -> Tensor:
    return shard(A, MESH, data=0)


# ---- placing ----


def test_a_tensor_is_split_and_gathered_by_its_method() -> None:
    x = Tensor(A, device=MESH.device, requires_grad=True)
    split = x.shard(MESH, data=-1)
    assert placement(split, MESH) == {"data": 1} and split.tolist() == A.tolist()
    whole = split.shard(MESH)
    assert placement(whole, MESH) == {} and whole.tolist() == A.tolist()
    (split * shard(A, MESH, data=1)).sum().backward()
    assert x.grad is not None and x.grad.tolist() == A.tolist()
    moved = Tensor(A, device="numpy").shard(MESH, data=0)
    assert placement(moved, MESH) == {"data": 0} and moved.device == MESH.device and moved.tolist() == A.tolist()


# ---- copies and files ----


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x)), Tensor.clone])
def test_a_copy_lies_as_the_tensor_does(copied: Callable[[Any], Any]) -> None:
    found = copied(parts())
    assert placement(found, MESH) == {"data": 0}
    assert found.tolist() == A.tolist()


def test_a_copy_of_a_model_takes_no_more_memory() -> None:
    model = fully_sharded(nn.Linear(4, 6).to(MESH.device), MESH)
    for parameter in copy.deepcopy(model).parameters():
        assert placement(parameter, MESH) == {"data": 0} and parameter.requires_grad


def test_a_pickle_is_whole_where_there_is_no_such_mesh() -> None:
    x = pickle.loads(pickle.dumps(parts()).replace(b"numpy*2", b"numpy*3"))
    assert x.device == "numpy*3" and x.tolist() == A.tolist()


@pytest.mark.parametrize("names", [(rulegrad.save, rulegrad.load), (nn.state.safe_save, nn.state.safe_load)])
def test_files_have_whole_tensors(names: tuple[Any, Any], tmp_path: Path) -> None:
    save, load = names
    save({"x": parts()}, tmp_path / "x")
    assert load(tmp_path / "x")["x"].tolist() == A.tolist()


@pytest.mark.parametrize("device", DEVICES)
def test_other_libraries_get_a_copy(device: str) -> None:
    x = shard(A, Mesh({"data": 2}, device=f"{device}*2"), data=0)
    assert np.from_dlpack(x).tolist() == A.tolist()  # type: ignore[arg-type]
    assert np.asarray(x).tolist() == A.tolist()
    with pytest.raises(BufferError, match="cannot be lent to the host"):
        x.__dlpack__(copy=False)


def test_other_devices() -> None:
    for device in ("numpy", "c", "numpy*3"):
        moved = parts().to(device)
        assert moved.device == device and moved.tolist() == A.tolist()


def test_it_is_printed_as_a_whole() -> None:
    assert repr(parts()) == repr(Tensor(A, device=MESH.device))


# ---- changes in place ----


def _set_row(x: Tensor) -> None:
    x[0] = 7


def _set_part(x: Tensor) -> None:
    x[1:4, 1] = x[0, :3] * 2


def _set_rows(x: Tensor) -> None:
    x[Tensor([0, 4], device=x.device)] = 3


def _through_a_view(x: Tensor) -> None:
    x[1:4].mul_(2)


def _through_a_transposed_view(x: Tensor) -> None:
    x.T[2] += 1


def _through_a_flat_view(x: Tensor) -> None:
    x.reshape(-1)[3:9] = 9


CHANGES: dict[str, Callable[[Tensor], Any]] = {
    "a row": _set_row, "a part": _set_part, "rows": _set_rows, "a view": _through_a_view,
    "a transposed view": _through_a_transposed_view, "a flat view": _through_a_flat_view,
    "assign": lambda x: x.assign(A + 1), "assign from a device": lambda x: x.assign(Tensor(A + 1, device="numpy")),
    "copy_": lambda x: x.copy_(Tensor(A[:1], device="numpy")), "zero_": lambda x: x.zero_(),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("is_leaf", [False, True])
def test_a_change_in_place_leaves_it_in_its_parts(name: str, is_leaf: bool) -> None:
    found, expected = parts(), Tensor(A, device="numpy")
    for x in (found, expected):
        x.requires_grad_(is_leaf)
        with rulegrad.no_grad():
            CHANGES[name](x)
    assert found.tolist() == expected.tolist()
    assert placement(found, MESH) == {"data": 0} and found.device == MESH.device


def test_a_state_that_a_captured_function_assigns_stays_in_its_parts() -> None:
    total = parts()

    @rulegrad.jit
    def add(x: Tensor) -> None:
        total.assign(total + x.sum(0, keepdim=True))

    for _ in range(3):
        add(shard(A, MESH, data=1))
    np.testing.assert_allclose(total.numpy(), A + 3 * A.sum(0), rtol=1e-6)
    assert placement(total, MESH) == {"data": 0} and len(add.reasons()) == 1


# ---- vmap ----

FUNCTIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "product": lambda x, w: (x @ w).tanh(),
    "sum": lambda x, w: x.sum() * w,
    "softmax and scan": lambda x, w: x.softmax(-1).cumsum(0),
    "places": lambda x, w: w[x.argmax()],
    "gradient": lambda x, w: rulegrad.grad(lambda one: (one @ w).exp().sum())(x),
    "captured": rulegrad.jit(lambda x, w: x @ w + 1),
    "placed": lambda x, w: shard(x, MESH, data=0) * 2 if x.device == MESH.device else x * 2,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_mapped_over_tensors_in_parts(name: str) -> None:
    w = np.random.default_rng(1).random((4, 3)).astype(np.float32)
    mapped = rulegrad.vmap(FUNCTIONS[name], (0, None))
    expected = mapped(Tensor(A, device="numpy"), Tensor(w, device="numpy")).numpy()
    for first in ({"data": 0}, {"data": 1}, {}):
        for second in ({"data": 0}, {"data": 1}, {}):
            found = mapped(shard(A, MESH, **first), shard(w, MESH, **second))
            np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)


def test_elements_of_a_mapped_function_stay_on_their_devices() -> None:
    x = shard(A, MESH, data=0)
    assert placement(rulegrad.vmap(lambda one: one * 2)(x), MESH) == {"data": 0}
    assert placement(rulegrad.vmap(lambda one: shard(one, MESH, data=0) * 2)(x), MESH) == {"data": 1}


# ---- detect_nan ----


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("row", [0, 4])
def test_the_op_that_made_a_nan_on_one_device_is_named(device: str, captured: bool, row: int) -> None:
    mesh = Mesh({"data": 2}, device=f"{device}*2")
    values = A.copy()
    values[row, 2] = -1

    def function(x: Tensor) -> Tensor:
        return x.log() * 2

    with config(detect_nan=1), pytest.raises(NanError, match=r"LOG \(float32 5 × 4\) made the first nan at test_use"):
        (rulegrad.jit(function) if captured else function)(shard(values, mesh, data=0)).realize()


def test_a_nan_in_the_backward_pass_of_tensors_in_parts() -> None:
    x = shard(np.zeros((5, 4), np.float32), MESH, data=0).requires_grad_()
    with config(detect_nan=1), pytest.raises(NanError, match=r"DIV .* in the backward pass \(rule gradient.sqrt\)"):
        (x.sqrt() * 0).sum().backward()
        x.grad.realize()  # type: ignore[union-attr]


def test_what_lies_behind_the_end_of_an_axis_is_no_value() -> None:
    with config(detect_nan=2):
        assert np.isfinite((1 / shard(A, MESH, data=0)).numpy()).all()  # the last device has a row of zeros


def test_a_nan_that_is_read_on_one_device_is_told() -> None:
    values = A.copy()
    values[4, 3] = np.nan
    with config(detect_nan=1), pytest.raises(NanError, match=r"a tensor that is read, float32 5 × 4, has a nan"):
        (shard(values, MESH, data=0) * 2).realize()
