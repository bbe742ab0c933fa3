"""Modules on meshes: which parameters are split, and along which axes."""

from __future__ import annotations

import fnmatch
import hashlib
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from rulegrad.communication.meshes import world_of
from rulegrad.distributed._mesh import Mesh, devices_along, placement
from rulegrad.errors import CommunicationError, ShapeError
from rulegrad.nn import Embedding, Linear, Module
from rulegrad.tensor import Tensor
from rulegrad.tensor.placing import placed

#: What ranks compare of modules, by a hash.
PARAMETERS: Final = (
    "the parameters of a module (call manual_seed, or make the mesh, before the module; or load one file on all ranks)"
)

AnyModule = TypeVar("AnyModule", bound=Module)


def data_parallel(module: AnyModule, mesh: Mesh) -> AnyModule:
    """The module with the same parameters on all devices of a mesh, for batches that are split; changed in place.

    Gradients are added up over the parts of the batch by themselves. Raises CommunicationError where ranks made other
    parameters: modules are made after the mesh, or after `manual_seed`, or load the same file.

    >>> from rulegrad import nn
    >>> from rulegrad.distributed import shard
    >>> mesh = Mesh({"data": 2}, device="numpy*2")
    >>> model = data_parallel(nn.Linear(3, 2), mesh)
    >>> model(shard([[1.0, 2.0, 3.0]] * 4, mesh, data=0)).shape
    (4, 2)
    """
    module.to(device=mesh.device)
    world = world_of(mesh.device)
    if world.size > len(world.local):
        world.check_same(PARAMETERS, digest(module))
    return module


def digest(module: Module) -> str:
    """A hash of names and values of parameters and buffers."""
    found = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        found.update(f"{name} {tensor.dtype} {tensor.shape}".encode())
        found.update(tensor.numpy().tobytes())
    return found.hexdigest()[:16]


def shard_parameters(module: AnyModule, mesh: Mesh, plan: Mapping[str, Mapping[str, int]]) -> AnyModule:
    """The module with parameters split as a plan says; changed in place.

    plan: by pattern of names (`"blocks.*.up.weight"`, the first that fits), axes of the mesh and the parameter's axis
    that is split along each; others are the same on all devices. Raises CommunicationError for a pattern that fits no
    name, and where ranks made other parameters.

    >>> from rulegrad import nn
    >>> from rulegrad.distributed import placement
    >>> mesh = Mesh({"model": 2}, device="numpy*2")
    >>> model = shard_parameters(nn.Linear(4, 6), mesh, {"weight": {"model": 0}})
    >>> placement(model.weight, mesh), placement(model.bias, mesh)
    ({'model': 0}, {})
    """
    data_parallel(module, mesh)
    parameters = dict(module.named_parameters())
    for pattern in plan:
        if not fnmatch.filter(parameters, pattern):
            raise CommunicationError(
                f"shard_parameters: no parameter is called {pattern!r}; there are {', '.join(parameters)}"
            )
    for name, parameter in parameters.items():
        axes = next((axes for pattern, axes in plan.items() if fnmatch.fnmatchcase(name, pattern)), {})
        if axes:
            _split(parameter, mesh, axes)
    return module


def _split(parameter: Tensor, mesh: Mesh, axes: Mapping[str, int | None]) -> None:
    """Keeps the device's own part of a parameter only; the tensor stays the same object."""
    parts = placed(parameter.detach(), mesh, {**placement(parameter, mesh), **axes}).realize()
    parameter._replace(parts)
    parameter.realize()


def column_parallel(layer: Linear, mesh: Mesh, axis: str = "model") -> Linear:
    """A linear layer whose outputs are split along an axis of the mesh: a device has columns of the transposed weight.

    Followed by `row_parallel`, two layers need one all-reduce. Source: M. Shoeybi and others, "Megatron-LM: training
    multi-billion parameter language models using model parallelism", 2019.

    >>> from rulegrad import nn
    >>> from rulegrad.distributed import placement
    >>> mesh = Mesh({"model": 2}, device="numpy*2")
    >>> placement(column_parallel(nn.Linear(3, 4), mesh)(Tensor.ones(2, 3, device=mesh.device)), mesh)
    {'model': 1}
    """
    plan: dict[str, dict[str, int]] = {"weight": {axis: 0}}
    if layer.bias is not None:
        plan["bias"] = {axis: 0}
    return shard_parameters(layer, mesh, plan)


def row_parallel(layer: Linear, mesh: Mesh, axis: str = "model") -> Linear:
    """A linear layer whose inputs are split along an axis of the mesh; its result is a sum over that axis.

    >>> from rulegrad import nn
    >>> from rulegrad.distributed import placement
    >>> mesh = Mesh({"model": 2}, device="numpy*2")
    >>> up, down = column_parallel(nn.Linear(3, 4), mesh), row_parallel(nn.Linear(4, 3), mesh)
    >>> placement(down(up(Tensor.ones(2, 3, device=mesh.device)).relu()), mesh)
    {}
    """
    return shard_parameters(layer, mesh, {"weight": {axis: 1}})


def vocabulary_parallel(layer: Embedding, mesh: Mesh, axis: str = "model") -> Embedding:
    """An embedding whose rows are split along an axis of the mesh: each device looks up the rows that it has.

    >>> from rulegrad import nn
    >>> mesh = Mesh({"model": 2}, device="numpy*2")
    >>> layer = vocabulary_parallel(nn.Embedding(10, 3), mesh)
    >>> layer(Tensor([1, 9], device=mesh.device)).shape
    (2, 3)
    """
    return shard_parameters(layer, mesh, {"weight": {axis: 0}})


class FullySharded(Module):
    """A module whose parameters are split along an axis of a mesh, and gathered when it is called.

    Each device keeps its parts of parameters, gradients and the optimizer's state only. Made by `fully_sharded`.
    """

    def __init__(self, module: Module, mesh: Mesh) -> None:
        super().__init__()
        self.module = module
        self._mesh = mesh

    def forward(self, *arguments: Any, **named: Any) -> Any:
        """The result of the module, computed with all of each of its parameters."""
        own = [(layer, name) for layer in self.module.modules() for name, _ in layer.named_parameters(recurse=False)]
        kept = [(layer, name, getattr(layer, name)) for layer, name in own]
        try:
            for layer, name, parameter in kept:
                object.__setattr__(layer, name, placed(parameter, self._mesh, {}))
            return self.module(*arguments, **named)
        finally:
            for layer, name, parameter in kept:
                object.__setattr__(layer, name, parameter)


def fully_sharded(module: Module, mesh: Mesh, axis: str = "data") -> FullySharded:
    """A module whose parameters are split along an axis of the mesh: the largest axis of each that the parts divide.

    Where they divide none it is the largest axis. Wrap the blocks of a network one by one, or all of it. Source: S.
    Rajbhandari and others, "ZeRO: memory optimizations toward training trillion parameter models", 2020.

    >>> from rulegrad import nn
    >>> from rulegrad.distributed import shard
    >>> mesh = Mesh({"data": 2}, device="numpy*2")
    >>> model = fully_sharded(nn.Linear(4, 6), mesh)
    >>> model(shard([[1.0, 2.0, 3.0, 4.0]] * 2, mesh, data=0)).shape
    (2, 6)
    """
    count = devices_along(mesh, axis, "fully_sharded")
    data_parallel(module, mesh)
    for name, parameter in module.named_parameters():
        if not parameter.ndim:
            raise ShapeError(f"fully_sharded: the parameter {name!r} has no axis to split; make it one of shape (1,)")
        places = range(parameter.ndim)
        best = max(places, key=lambda k: (parameter.shape[k] % count == 0, parameter.shape[k], -k))
        _split(parameter, mesh, {axis: best})
    return FullySharded(module, mesh)
