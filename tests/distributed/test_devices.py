"""Several devices of one process as a mesh: parts of a divided device, and devices of different drivers."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from networks import TARGETS, TOKENS, losses, network, training_step

import rulegrad
from rulegrad import Tensor
from rulegrad.distributed import Mesh, data_parallel, from_parts, fully_sharded, placement, shard
from rulegrad.errors import CommunicationError, DeviceError, OutOfMemoryError
from rulegrad.runtime import backends, devices
from rulegrad.runtime.buffer import Buffer


@pytest.fixture(scope="module")
def alone() -> list[float]:
    return losses(network().to("numpy"), Tensor(TOKENS, device="numpy"), Tensor(TARGETS, device="numpy"))


def working() -> list[str]:
    """The OpenCL devices that can be used."""
    known = devices.report(backends.backend("opencl"))
    return [known.name(found) for found in known.discovery.devices if not found.problem]


def divided() -> list[str]:
    """OpenCL devices in two parts with cores of their own."""
    names = [f"{name}*2" for name in working()]
    found: list[Any] = [devices.get(name) for name in names]
    return [name for name, one in zip(names, found, strict=True) if one.devices[0] is not one.devices[1]]


@pytest.fixture
def halves() -> str:
    names = divided()
    if not names:
        pytest.skip("no OpenCL device here can be divided")
    return names[0]


def test_parts_of_a_device_have_compute_units_of_their_own(halves: str) -> None:
    several: Any = devices.get(halves)
    whole: Any = devices.get(halves.removesuffix("*2"))
    units = [part._device.max_compute_units for part in several.devices]
    assert sum(units) == whole._device.max_compute_units and max(units) - min(units) <= 1
    assert len({part._context.int_ptr for part in several.devices}) == 1
    assert [part.name for part in several.devices] == [f"{halves} (part 0)", f"{halves} (part 1)"]


def test_kernels_of_parts_are_built_once(halves: str, monkeypatch: pytest.MonkeyPatch) -> None:
    several: Any = devices.get(halves)
    programs = several.devices[0]._programs
    built, build = [], programs._build
    monkeypatch.setattr(programs, "_build", lambda source, count: built.append(source) or build(source, count))
    x = shard(np.arange(10, dtype=np.float32), Mesh({"data": 2}, device=halves), data=0)
    np.testing.assert_allclose((x * 3.25 + 17.5).numpy(), np.arange(10) * 3.25 + 17.5)
    assert len(built) == len(set(built)) >= 1


@pytest.mark.each_value
@pytest.mark.parametrize("kind", [data_parallel, fully_sharded])
@pytest.mark.parametrize("is_captured", [False, True], ids=["eager", "captured"])
def test_training_on_parts_of_a_device(halves: str, kind: Any, is_captured: bool, alone: list[float]) -> None:
    mesh = Mesh({"data": 2}, device=halves)
    tokens, targets = shard(TOKENS, mesh, data=0), shard(TARGETS, mesh, data=0)
    step = training_step(kind(network(), mesh))
    step = rulegrad.jit(step) if is_captured else step
    np.testing.assert_allclose([step(tokens, targets).item() for _ in range(3)], alone, rtol=2e-5)


def test_more_parts_than_compute_units() -> None:
    """They are on the whole device, one after the other."""
    if not working():
        pytest.skip("no OpenCL device works here")
    whole: Any = devices.get(working()[0])
    count = whole._device.max_compute_units + 1
    mesh = Mesh({"data": count}, device=f"{whole.name}*{count}")
    several: Any = devices.get(mesh.device)
    assert set(several.devices) == {whole}
    x = shard(np.arange(7.0, dtype=np.float32), mesh, data=0)
    np.testing.assert_allclose((x * 2 + x.sum()).numpy(), np.arange(7) * 2 + 21)


def test_devices_of_different_drivers(alone: list[float]) -> None:
    pairs = [
        pair for pair in itertools.combinations(working(), 2) if len({devices.target_of(name) for name in pair}) == 1
    ]
    if not pairs:
        pytest.skip("there are no two OpenCL devices of one target here")
    mesh = Mesh({"data": 2}, devices=pairs[0])
    assert mesh.device == "+".join(pairs[0]) and [one.name for one in devices.get(mesh.device).devices] == [*pairs[0]]  # type: ignore[attr-defined]
    for kind in (data_parallel, fully_sharded):
        found = losses(kind(network(), mesh), shard(TOKENS, mesh, data=0), shard(TARGETS, mesh, data=0))
        np.testing.assert_allclose(found, alone, rtol=2e-5)


def test_values_of_each_part(halves: str) -> None:
    mesh = Mesh({"data": 2}, device=halves)
    x = from_parts([np.zeros(3, np.float32), np.ones(3, np.float32)], mesh, data=0)
    moved = shard(x.reshape(2, 3), mesh, data=1)
    assert placement(moved, mesh) == {"data": 1}
    assert moved.tolist() == [[0.0] * 3, [1.0] * 3]
    more = (x + 1).realize()
    assert [part.tolist() for part in Buffer.of(more.uop).arrays_of_parts()] == [[1.0] * 3, [2.0] * 3]


def test_names() -> None:
    assert devices.canonical("opencl:1+opencl") == "opencl:1+opencl:0"
    with pytest.raises(DeviceError, match=r"'numpy' is named twice; parts of one device are written as 'numpy\*2'"):
        Mesh({"data": 2}, devices=["numpy", "numpy"])
    with pytest.raises(DeviceError, match=r"'numpy\*2' is in parts itself"):
        Mesh({"data": 3}, devices=["c", "numpy*2"])
    with pytest.raises(DeviceError, match=r"one program runs on all devices of a mesh, but c is compiled for as"):
        Mesh({"data": 2}, devices=["c", "numpy"])
    with pytest.raises(CommunicationError, match=r"needs 3 devices, and there are 2 on 'c\+numpy'"):
        Mesh({"data": 3}, devices=["c", "numpy"])
    with pytest.raises(CommunicationError, match="give `device`, the name of one in parts, or `devices`"):
        Mesh({"data": 2}, "numpy*2", devices=["c", "numpy"])


def test_memory_that_one_part_has_not(halves: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that the other parts were given is given back."""
    several: Any = devices.get(halves)
    first, second = several.devices
    freed: list[Any] = []
    monkeypatch.setattr(first, "free", freed.append)

    def full(nbytes: int) -> Any:
        raise OutOfMemoryError("no memory here")

    monkeypatch.setattr(second, "allocate", full)
    with pytest.raises(OutOfMemoryError, match="no memory here"):
        several.allocate(64)
    assert len(freed) == 1
