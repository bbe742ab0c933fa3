"""Meshes of devices, and placing tensors on them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rulegrad.communication import world
from rulegrad.communication.collective import place_of
from rulegrad.communication.meshes import check_mesh, world_of
from rulegrad.errors import CommunicationError, ShapeError
from rulegrad.ir.dtype import as_dtype
from rulegrad.runtime import devices as named
from rulegrad.runtime.buffer import Buffer, Parts
from rulegrad.tensor import Tensor
from rulegrad.tensor.generators import default_generator
from rulegrad.tensor.placing import check_is_mesh, placement_text
from rulegrad.tensor.storage import upload_in_parts, uploaded


class Mesh:
    """A grid of devices whose axes have names.

    axes: the sizes, `{"data": 4, "model": 2}`; the devices are numbered row-major, the last axis is between neighbours.
    device: `"c*8"` for eight parts of the device `c` in this process. By default the mesh is the ranks that the program
    was started on (`python -m rulegrad launch -n 8`), and where it was started as one process, as many GPUs as it
    needs, or parts of the default device. devices: in the place of `device`, the names of devices of one kind, in
    order: `["cuda:0", "cuda:1"]`, which is the device `"cuda:0+cuda:1"`. Raises CommunicationError where there are not
    as many devices, DeviceError where there is none of a name.

    >>> mesh = Mesh({"data": 2, "model": 2}, device="numpy*4")
    >>> mesh.size, mesh.device
    (4, 'numpy*4')
    """

    def __init__(
        self, axes: Mapping[str, int], device: str | None = None, *, devices: Sequence[str] | None = None
    ) -> None:
        if not axes or any(not isinstance(size, int) or size < 1 for size in axes.values()):
            raise CommunicationError(f"Mesh: each axis has a name and a size of at least 1, not {dict(axes)}")
        self.names: tuple[str, ...] = tuple(axes)
        self.sizes: tuple[int, ...] = tuple(axes.values())
        self.size: int = math.prod(self.sizes)
        if device is not None and devices is not None:
            raise CommunicationError("Mesh: give `device`, the name of one in parts, or `devices`, one name for each")
        if devices is not None:
            device = "+".join(devices)
        elif device is None:
            device = named.on_mesh(self.size) if world().size == 1 else named.default()
        self.device: str = named.canonical(device)
        check_mesh(self.sizes, self.device)
        if devices is not None:
            named.get(self.device)
        self.expect_same(f"a mesh of {dict(axes)}")
        default_generator.start_with_ranks()

    @property
    def ranks(self) -> tuple[int, ...]:
        """The numbers of the devices that this process has.

        >>> Mesh({"data": 2}, device="numpy*2").ranks
        (0, 1)
        """
        return world_of(self.device).local

    def place(self, rank: int) -> dict[str, int]:
        """Where a device is on each axis.

        >>> Mesh({"data": 2, "model": 2}, device="numpy*4").place(1)
        {'data': 0, 'model': 1}
        """
        axes = range(len(self.sizes))
        return {name: place_of(self.sizes, (axis,), rank)[1] for axis, name in zip(axes, self.names, strict=True)}

    def numbers(self, axes: Mapping[str, int | None], rank: int) -> tuple[int, ...]:
        """For each axis of the mesh the axis of a tensor of this rank that is split along it, or -1.

        Along an axis of one device nothing is split. Raises CommunicationError for an unknown name, ShapeError for an
        axis that the tensor has not.
        """
        unknown = [name for name in axes if name not in self.names]
        if unknown:
            raise CommunicationError(f"the mesh has no axis {unknown[0]!r}; it has {', '.join(map(repr, self.names))}")
        found = []
        for name, size in zip(self.names, self.sizes, strict=True):
            axis = axes.get(name)
            if axis is not None and not (isinstance(axis, (int, np.integer)) and -rank <= axis < rank):
                raise ShapeError(f"{name}={axis!r}: a tensor of {rank} axes has no axis {axis!r} to split")
            found.append(-1 if axis is None or size == 1 else axis % rank)
        return tuple(found)

    def expect_same(self, what: str) -> None:
        """All ranks call it, and go on: where they do not all give the same, what follows is a CommunicationError.

        >>> Mesh({"data": 2}, device="numpy*2").expect_same("the same learning rate, 0.1")
        """
        world_of(self.device).expect_same(what)

    def __repr__(self) -> str:
        axes = ", ".join(f"{name!r}: {size}" for name, size in zip(self.names, self.sizes, strict=True))
        return f"Mesh({{{axes}}}, device={self.device!r})"


def devices_along(mesh: Mesh, axis: str, name: str) -> int:
    """The size of an axis of a mesh. Raises CommunicationError, in the name of a function, where there is none."""
    if axis not in mesh.names:
        raise CommunicationError(f"{name}: the mesh has no axis {axis!r}; it has {', '.join(mesh.names)}")
    return mesh.sizes[mesh.names.index(axis)]


def shard(x: Any, mesh: Mesh, **axes: int | None) -> Tensor:
    """A tensor of the same values that is split along axes of a mesh: `shard(x, mesh, data=0, model=1)`.

    Along axes of the mesh that are not named all devices have all of it; `shard(x, mesh)` gathers. Of a tensor it is
    its method `shard`; of an array or a list only the device's own part is uploaded: all ranks give the same. Raises
    ShapeError for an axis that x has not, CommunicationError for one that the mesh has not; what follows raises it
    where what ranks give has other shapes or dtypes.

    >>> mesh = Mesh({"data": 2}, device="numpy*2")
    >>> x = shard([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], mesh, data=0)
    >>> x.sum(0).tolist(), placement(x, mesh)
    ([9.0, 12.0], {'data': 0})
    """
    check_is_mesh(mesh, "shard")
    return x.shard(mesh, **axes) if isinstance(x, Tensor) else _uploaded(Tensor(x, device="numpy").numpy(), mesh, axes)


def _uploaded(array: np.ndarray[Any, Any], mesh: Mesh, axes: Mapping[str, int | None]) -> Tensor:
    parts = Parts(array.shape, mesh.sizes, mesh.numbers(axes, array.ndim))
    mesh.expect_same(placement_text(as_dtype(array.dtype), array.shape, axes))
    if max(parts.placement) < 0:
        return Tensor(array, device=mesh.device)
    buffer = upload_in_parts(array, parts, mesh.device)
    return Tensor._new(buffer.uop, buffer, buffer.device)


def from_parts(arrays: Any, mesh: Mesh, **axes: int) -> Tensor:
    """A tensor of which each device gives its own part: an array, or one for each device that this process has.

    The parts are equally large. Raises ShapeError where they are not, CommunicationError.

    >>> mesh = Mesh({"data": 2}, device="numpy*2")
    >>> from_parts([np.zeros(2), np.ones(2)], mesh, data=0).tolist()
    [0.0, 0.0, 1.0, 1.0]
    """
    given = [np.asarray(one) for one in (arrays if isinstance(arrays, (list, tuple)) else [arrays])]
    if len(given) != len(mesh.ranks):
        raise CommunicationError(
            f"from_parts: this process has {len(mesh.ranks)} devices, {len(given)} parts were given"
        )
    shape = given[0].shape
    if any(one.shape != shape for one in given):
        raise ShapeError(f"from_parts: parts have one shape, not {' and '.join(str(one.shape) for one in given)}")
    numbers = mesh.numbers(axes, len(shape))
    world_of(mesh.device).check_same("shape, dtype and axes of from_parts", f"{shape} {given[0].dtype} {numbers}")
    whole = list(shape)
    for size, axis in zip(mesh.sizes, numbers, strict=True):
        if axis >= 0:
            whole[axis] *= size
    parts = Parts(tuple(whole), mesh.sizes, numbers)
    buffer = Buffer(parts.shape, given[0].dtype, mesh.device, parts)
    buffer.copy_in_parts(given)
    return Tensor._new(uploaded(buffer).uop, buffer, buffer.device)


def placement(x: Tensor, mesh: Mesh) -> dict[str, int]:
    """How the values of a tensor lie on a mesh: the tensor's axis for each axis of the mesh along which it is split.

    Computes the tensor.

    >>> mesh = Mesh({"data": 2, "model": 2}, device="numpy*4")
    >>> x = shard(np.ones((4, 6)), mesh, data=0)
    >>> placement(x @ shard(np.ones((6, 2)), mesh, model=1), mesh)
    {'data': 0, 'model': 1}
    """
    node = x.realize().uop
    numbers = node.attrs["placement"] if node.op == "BUFFER" else ()
    return {name: axis for name, axis in zip(mesh.names, numbers) if axis >= 0}
