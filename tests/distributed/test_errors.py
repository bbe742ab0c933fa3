"""Errors of tensors on a mesh: each is said, and nothing else happens."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rulegrad import Tensor
from rulegrad.distributed import Mesh, from_parts, shard
from rulegrad.errors import CommunicationError, DeviceError, IndexRangeError, ShapeError

MESH = Mesh({"data": 2}, device="numpy*2")


def test_a_mesh_that_there_are_no_devices_for() -> None:
    with pytest.raises(CommunicationError, match=r"needs 3 devices, and there are 2 on 'numpy\*2'.*launch -n 3"):
        Mesh({"data": 3}, device="numpy*2")
    with pytest.raises(CommunicationError, match="a size of at least 1"):
        Mesh({"data": 0})
    with pytest.raises(DeviceError, match="write a device and a number of parts"):
        Mesh({"data": 2}, device="numpy*two")


def test_axes_that_do_not_exist() -> None:
    with pytest.raises(CommunicationError, match="the mesh has no axis 'model'; it has 'data'"):
        shard([1.0], MESH, model=0)
    with pytest.raises(ShapeError, match="data=1: a tensor of 1 axes has no axis 1 to split"):
        shard([1.0], MESH, data=1)
    with pytest.raises(CommunicationError, match="the mesh has no axis 'model'"):
        Tensor([1.0]).shard(MESH, model=0)
    with pytest.raises(ShapeError, match="data=-2: a tensor of 1 axes has no axis -2 to split"):
        Tensor([1.0]).shard(MESH, data=-2)


@pytest.mark.parametrize("x", [[1.0], Tensor([1.0], device="numpy")])
def test_what_is_no_mesh(x: Any) -> None:
    with pytest.raises(CommunicationError, match=r"^shard: give a rulegrad.distributed.Mesh, as .*, not 2$"):
        shard(x, 2, data=0)  # type: ignore[arg-type]


def test_tensors_that_are_elsewhere() -> None:
    with pytest.raises(DeviceError, match=r"the operands are on numpy\*2 and numpy"):
        shard([1.0, 2.0], MESH, data=0) + Tensor([1.0, 2.0], device="numpy")


def test_parts_of_different_shapes() -> None:
    with pytest.raises(ShapeError, match=r"parts have one shape, not \(2,\) and \(3,\)"):
        from_parts([np.zeros(2), np.zeros(3)], MESH, data=0)
    with pytest.raises(CommunicationError, match="this process has 2 devices, 1 parts were given"):
        from_parts(np.zeros(2), MESH, data=0)


@pytest.mark.parametrize("device", ["numpy*2", "c*2"])
def test_an_index_out_of_range_on_the_second_device(device: str) -> None:
    mesh = Mesh({"data": 2}, device=device)
    table = Tensor(np.arange(10.0), device=mesh.device)
    assert table[shard([1, 2, 3, 9], mesh, data=0)].tolist() == [1, 2, 3, 9]
    with pytest.raises(IndexRangeError, match="11 is out of range for axis 0 of size 10"):
        table[shard([1, 2, 3, 11], mesh, data=0)].tolist()


def test_tensors_of_two_meshes_meet_as_wholes() -> None:
    other = Mesh({"a": 1, "b": 2}, device=MESH.device)
    assert (shard([1.0, 2.0], MESH, data=0) + shard([3.0, 4.0], other, b=0)).tolist() == [4, 6]
