"""Tensors placed on meshes of devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from rulegrad.errors import CommunicationError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import DType
from rulegrad.tensor import capturing

if TYPE_CHECKING:
    from rulegrad.tensor.tensor import Tensor


@runtime_checkable
class Grid(Protocol):
    """A mesh, as `rulegrad.distributed.Mesh` is one."""

    sizes: tuple[int, ...]
    device: str

    def numbers(self, axes: Mapping[str, int | None], rank: int) -> tuple[int, ...]:
        """For each axis of the mesh the axis of a tensor of this rank that is split along it, or -1."""

    def expect_same(self, what: str) -> None:
        """All ranks of the mesh call it, and go on: where they do not all give the same, what follows is an error."""


def shard(self: Tensor, mesh: Grid, **axes: int | None) -> Tensor:
    """The same values, split along axes of a `rulegrad.distributed.Mesh`: `x.shard(mesh, data=0, model=1)`.

    The tensor's axis 0 is split along the mesh's axis `data`, its axis 1 along `model`; along axes of the mesh that are
    not named all devices have all of it, so `x.shard(mesh)` gathers. The shape and the dtype stay; the result is on the
    mesh's device. Differentiable where the tensor is there too; a copy from another device has no gradient, as of `to`.
    All ranks call it, on tensors of one shape and dtype: where they differ, what follows is a CommunicationError (in a
    captured function they are not compared). Raises ShapeError for an axis that the
    tensor has not, CommunicationError for one that the mesh has not, and for a value that is not a mesh.

    >>> from rulegrad import Tensor
    >>> from rulegrad.distributed import Mesh, placement
    >>> mesh = Mesh({"data": 2}, device="numpy*2")
    >>> x = Tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], device="numpy").shard(mesh, data=0)
    >>> x.sum(0).tolist(), placement(x, mesh)
    ([9.0, 12.0], {'data': 0})
    """
    check_is_mesh(mesh, "shard")
    if capturing.current.trace is None:  # whether a function is traced again is a matter of each rank
        mesh.expect_same(placement_text(self.dtype, self.shape, axes))
    return placed(self, mesh, axes)


def placed(x: Tensor, mesh: Grid, axes: Mapping[str, int | None]) -> Tensor:
    """The same, of a tensor that all ranks are known to have.

    >>> from rulegrad import Tensor
    >>> from rulegrad.distributed import Mesh, placement
    >>> mesh = Mesh({"data": 2}, device="numpy*2")
    >>> placement(placed(Tensor.arange(3, device=mesh.device), mesh, {"data": 0}), mesh)
    {'data': 0}
    """
    numbers = mesh.numbers(axes, x.ndim)
    there = x if x.device == mesh.device else x.to(mesh.device)
    return there._result(UOp("REDISTRIBUTE", (there.uop,), mesh=mesh.sizes, placement=numbers))


def check_is_mesh(mesh: object, name: str) -> None:
    """Raises CommunicationError, in the name of a function, for a value that is not a mesh.

    >>> check_is_mesh(2, "shard")
    Traceback (most recent call last):
    rulegrad.errors.CommunicationError: shard: give a rulegrad.distributed.Mesh, as `Mesh({"data": 2})`, not 2
    """
    if not isinstance(mesh, Grid):
        raise CommunicationError(f'{name}: give a rulegrad.distributed.Mesh, as `Mesh({{"data": 2}})`, not {mesh!r}')


def placement_text(dtype: DType, shape: tuple[int, ...], axes: Mapping[str, int | None]) -> str:
    """A placement as text, which ranks compare with that of their neighbours.

    >>> from rulegrad import float32
    >>> placement_text(float32, (6, 4), {"data": 0})
    "shard of float32 (6, 4) along {'data': 0}"
    """
    return f"shard of {dtype} {tuple(shape)} along {dict(axes)}"
