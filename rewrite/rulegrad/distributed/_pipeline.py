"""Pipelines: equal blocks of a network on the devices of a mesh's axis, and micro-batches that go from one to the next.

All devices run one program. What is in the pipeline is one tensor with an element for each stage, split along the axis;
in a tick each stage computes its element (`vmap`), and then the tensor is rolled by one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from rulegrad.communication.meshes import world_of
from rulegrad.distributed._mesh import Mesh, devices_along, placement, shard
from rulegrad.distributed._modules import PARAMETERS, digest
from rulegrad.errors import CommunicationError, RulegradError, ShapeError
from rulegrad.nn import Module, ModuleList
from rulegrad.nn import state as names
from rulegrad.nn._module import NOT_WALKED
from rulegrad.nn.parameter import Parameter, mark
from rulegrad.nn.utils import checkpoint
from rulegrad.tensor import Tensor
from rulegrad.tensor.mapping import vmap
from rulegrad.tensor.placing import placed

#: Stands for the number of a block in the names of parameters that have all blocks' values.
EVERY = "*"


class _Place(NamedTuple):
    """Where a tensor is held: the attributes of a module, a list or a dict, and the key there."""

    path: str
    holder: Any
    key: Any

    @property
    def tensor(self) -> Tensor:
        found: Tensor = self.holder[self.key]
        return found


class Pipeline(Module):
    """Equal blocks one after the other, of which each device of a mesh's axis has some. Made by `pipeline`.

    Its parameters are those of one block with a new first axis, for the blocks: `*.weight`.
    """

    def __init__(
        self, blocks: Module, stacked: Iterable[str], count: int, mesh: Mesh, axis: str, micro_batches: int,
        recompute: bool,
    ) -> None:  # fmt: skip
        super().__init__()
        self._blocks, self._paths, self._count = blocks, frozenset(stacked), count
        self._mesh, self._axis = mesh, axis
        self._stages = devices_along(mesh, axis, "pipeline")
        self._micro_batches, self._recompute = micro_batches, recompute

    def _walked(self) -> Mapping[str, Any]:
        return {EVERY: self._blocks}

    def forward(self, x: Tensor, *shared: Any) -> Tensor:
        """The result of the blocks, one after the other, for x of shape (batch, …).

        shared: other arguments, which each block gets as they are: a mask, tables. Raises ShapeError for a batch that
        is not a multiple of the number of micro-batches, and where a block changes the shape.
        """
        many, stages = self._micro_batches, self._stages
        if not x.ndim or x.shape[0] % many:
            raise ShapeError(
                f"pipeline: x of shape {x.shape} in {many} micro-batches; its first axis must be a multiple of {many}"
            )
        run = checkpoint if self._recompute else _called
        # Every `many`-th row: so each part of a batch that is split along another axis of the mesh has a share.
        shape = (x.shape[0] // many, many, *x.shape[1:])
        rows = run(Tensor.reshape, x, shape) if x.requires_grad else x.reshape(shape)
        ready = [rows[:, k].unsqueeze(0) for k in range(many)]
        place = placed(Tensor.arange(stages, device=self._mesh.device), self._mesh, {self._axis: 0})
        place = place.reshape(stages, *(1,) * x.ndim)
        # All stages begin with values like any others: of a nan in what is not used there would be one in a gradient.
        # A choice by the place is in parts, as the place is.
        state = place.equal(0).where(ready[0], ready[0])
        results = []
        for tick in range(many + stages - 1):
            if tick:
                state = state.roll(1, 0)
            if 0 < tick < many:
                state = place.equal(0).where(ready[tick], state)
            state = run(self._tick, state, *shared)
            if tick >= stages - 1:
                results.append(state)
        joined: Tensor = run(self._joined, place, *results)
        return joined

    def _joined(self, place: Tensor, *results: Tensor) -> Tensor:
        """The results of the last stage in some ticks, as rows in the order of those of the batch."""
        every = Tensor.stack(*results, axis=2).flatten(1, 2)
        return place.equal(self._stages - 1).where(every, 0).sum(0, dtype=every.dtype)

    def _tick(self, state: Tensor, *shared: Any) -> Tensor:
        """The next state: each stage applied to its own element of the state."""
        found = [place for place in _places(self._blocks) if place.path in self._paths]
        per_stage = self._count // self._stages
        given = [one.tensor.reshape(self._stages, per_stage, *one.tensor.shape[1:]) for one in found]

        def stage(tensors: list[Tensor], x: Tensor) -> Tensor:
            for number in range(per_stage):
                with _instead(found, [tensor[number] for tensor in tensors]):
                    result = self._blocks(x, *shared)
                if not isinstance(result, Tensor) or result.shape != x.shape:
                    made = f"a tensor of shape {result.shape}" if isinstance(result, Tensor) else repr(type(result))
                    raise ShapeError(f"pipeline: a block makes {made} of one of shape {x.shape}; they must be the same")
                x = result
            return x

        stepped: Tensor = vmap(stage, randomness="different")(given, state)
        return stepped

    def extra_repr(self) -> str:
        """The numbers of blocks, stages and micro-batches."""
        return (
            f"{self._count} blocks in {self._stages} stages along {self._axis!r}, {self._micro_batches} micro-batches"
        )


def _called(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def pipeline(
    blocks: Iterable[Module], mesh: Mesh, axis: str = "pipe", *, micro_batches: int, recompute: bool = False
) -> Pipeline:
    """A module that runs equal blocks one after the other, in stages along an axis of the mesh.

    Each device has the parameters of len(blocks) / stages neighbouring blocks. The batch goes through in
    `micro_batches` parts, one a tick: after stages - 1 ticks all stages compute, each on another part, and send what
    they made to the next; so they are idle for the share (stages - 1) / (micro_batches + stages - 1) of the ticks.
    Gradients go the other way by themselves. Values, and the gradients' sums, are those of the blocks one by one; only
    random numbers (dropout) are others. Parameters that were placed on the mesh before stay so along other axes
    (`column_parallel`), and the batch may be split along another axis. recompute: of a tick's values only the result
    is kept for `backward` (`nn.utils.checkpoint`).

    Blocks give a result of the shape of x. Raises RulegradError for blocks that differ in more than the values of
    tensors, or that share a parameter, and at the call for one that changes a buffer, as batch normalisation does;
    ShapeError for blocks that the stages do not divide. Source: Y. Huang and others, "GPipe: efficient training of
    giant neural networks using pipeline parallelism", 2019; as one program with a shifted buffer: Y. Xu and others,
    "GSPMD: general and scalable parallelization for ML computation graphs", 2021.

    >>> from rulegrad import nn
    >>> from rulegrad.distributed import Mesh, pipeline, shard
    >>> blocks = nn.Sequential(*(nn.Linear(3, 3) for _ in range(4)))
    >>> mesh = Mesh({"pipe": 2}, device="numpy*2")
    >>> staged, x = pipeline(blocks, mesh, micro_batches=3), Tensor.rand(6, 3)
    >>> bool((staged(shard(x, mesh)).to("numpy") - blocks(x).to("numpy")).abs().max() < 1e-6)
    True
    >>> {name: parameter.shape for name, parameter in staged.named_parameters()}
    {'*.weight': (4, 3, 3), '*.bias': (4, 3)}
    """
    listed = list(blocks)
    stages = devices_along(mesh, axis, "pipeline")
    if not listed or len(listed) % stages:
        raise ShapeError(f"pipeline: {len(listed)} blocks in {stages} stages; each stage has the same number of blocks")
    if micro_batches < 1:
        raise ShapeError(f"pipeline: {micro_batches} micro-batches; use 1 or more, best several for each stage")
    _check_equal(listed)
    world = world_of(mesh.device)
    if world.size > len(world.local):
        world.check_same(PARAMETERS, digest(ModuleList(listed)))
    every = [list(_places(block)) for block in listed]
    memo: dict[int, Any] = {}
    paths = []
    for tied in zip(*every, strict=True):
        tensors = [place.tensor for place in tied]
        if len({id(tensor) for tensor in tensors}) == len(listed):
            paths.append(tied[0].path)
            if id(tensors[0]) not in memo:
                memo[id(tensors[0])] = _stacked(tied[0].path, tensors, mesh, axis)
        elif isinstance(tensors[0], Parameter):
            raise RulegradError(f"pipeline: blocks share the parameter {tied[0].path}; each needs one of its own")
        else:
            memo[id(tensors[0])] = tensors[0].to(device=mesh.device)
    one = copy.deepcopy(listed[0], memo)
    return Pipeline(one, paths, len(listed), mesh, axis, micro_batches, recompute)


def _stacked(path: str, tensors: list[Tensor], mesh: Mesh, axis: str) -> Tensor:
    """The tensors along a new first axis, which is split along an axis of the mesh."""
    before = placement(tensors[0], mesh) if tensors[0].device == mesh.device else {}
    if axis in before:
        raise CommunicationError(f"pipeline: {path} is split along {axis!r} already; that axis is for the stages")
    places = {name: place + 1 for name, place in before.items()}
    new = shard(np.stack([tensor.numpy() for tensor in tensors]), mesh, **{axis: 0}, **places)
    new.requires_grad = tensors[0].requires_grad
    if isinstance(tensors[0], Parameter):
        mark(new)
    return new


def _places(item: Any, path: str = "") -> Iterator[_Place]:
    """Where a module, and what is in it, holds tensors."""
    holder = vars(item) if isinstance(item, Module) else item
    for key, part in list(holder.items() if isinstance(holder, dict) else enumerate(holder)):
        if key in NOT_WALKED:
            continue
        if isinstance(part, Tensor):
            yield _Place(_inside(path, key), holder, key)
        elif isinstance(part, (Module, list, dict)):
            yield from _places(part, _inside(path, key))


def _inside(path: str, key: Any) -> str:
    """The path of a part; the entries of a container stand in it as the state names them."""
    if key == "_entries":
        return path
    return f"{path}.{key}" if path else str(key)


@contextmanager
def _instead(places: list[_Place], tensors: list[Tensor]) -> Iterator[None]:
    """Other tensors in some places. Raises RulegradError where one is changed."""
    kept, nodes = [place.tensor for place in places], [tensor.uop for tensor in tensors]
    try:
        for place, tensor in zip(places, tensors, strict=True):
            place.holder[place.key] = tensor
        yield
        for place, tensor, node in zip(places, tensors, nodes, strict=True):
            if place.tensor is not tensor or tensor.uop is not node:
                raise RulegradError(
                    f"pipeline: a block changes its tensor {place.path}, which has a value for each micro-batch then; "
                    "use blocks without such state: layer normalisation in the place of batch normalisation, or eval()"
                )
    finally:
        for place, tensor in zip(places, kept, strict=True):
            place.holder[place.key] = tensor


# ---- equal blocks ----


def _check_equal(blocks: list[Module]) -> None:
    """Raises RulegradError for blocks that differ in more than the values of their tensors."""
    first = dict(_described(blocks[0], "", {}))
    reached = {id(place.tensor) for place in _places(blocks[0])}
    for path, tensor in names.get_state_dict(blocks[0]).items():
        if id(tensor) not in reached:
            raise RulegradError(
                f"pipeline: {path} is in an object that is not a module, a list or a dict, and cannot be exchanged"
            )
    for number, block in enumerate(blocks[1:], 1):
        other = dict(_described(block, "", {}))
        for path in [*first, *(path for path in other if path not in first)]:
            if path not in other or path not in first or not _is_same(first[path], other[path]):
                mine, its = first.get(path, "nothing"), other.get(path, "nothing")
                raise RulegradError(
                    f"pipeline: block {number} is not like block 0: {path or 'the block'} is {its!r} and not {mine!r}; "
                    "blocks may differ in the values of their tensors only"
                )


def _described(item: Any, path: str, seen: dict[int, str]) -> Iterator[tuple[str, Any]]:
    """The parts of a block, by path. Of tensors not the values, but which places hold the same one."""
    if isinstance(item, Tensor):
        same = seen.setdefault(id(item), path)
        yield path, ("a tensor", item.shape, str(item.dtype), item.requires_grad, same)
        return
    if not isinstance(item, (Module, list, tuple, dict)):
        yield path, item
        return
    yield path, (type(item).__name__, type(item), getattr(item, "_training", None))
    parts = vars(item) if isinstance(item, Module) else item
    for key, part in parts.items() if isinstance(parts, dict) else enumerate(parts):
        if key not in ("_training", "_kinds"):
            yield from _described(part, _inside(path, key), seen)


def _is_same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other)
    code = getattr(one, "__code__", None)
    if code is not None:  # a function that is made for each block
        return code is other.__code__ and one.__closure__ is None and one.__defaults__ == other.__defaults__
    return bool(one == other)


# ---- states of the blocks one by one ----


def unstacked_state_dict(model: Module) -> dict[str, Tensor]:
    """The state of a model with pipelines under the names that it has without: `0.weight`, `1.weight` for `*.weight`.

    So it can be loaded where the blocks are in a list. The tensors are on the host; all ranks have to ask.

    >>> from rulegrad import nn
    >>> from rulegrad.distributed import Mesh, pipeline, unstacked_state_dict
    >>> staged = pipeline([nn.Linear(3, 3) for _ in range(2)], Mesh({"pipe": 2}, device="numpy*2"), micro_batches=2)
    >>> list(unstacked_state_dict(staged)), list(staged.state_dict())
    (['0.weight', '1.weight', '0.bias', '1.bias'], ['*.weight', '*.bias'])
    """
    stacks = _stacks(model)
    found: dict[str, Tensor] = {}
    for name, tensor in names.get_state_dict(model).items():
        if name not in stacks:
            found[name] = tensor.detach()
            continue
        numbers, is_stacked = stacks[name]
        values = tensor.numpy()
        for number, plain in enumerate(numbers):
            found[plain] = Tensor(values[number] if is_stacked else values, device="numpy")
    return found


def load_unstacked_state_dict(model: Module, state: Mapping[str, Any], strict: bool = True) -> names.IncompatibleKeys:
    """Give a model with pipelines the values of a state in which each block has its own, as `load_state_dict` does.

    >>> from rulegrad import nn
    >>> from rulegrad.distributed import Mesh, load_unstacked_state_dict, pipeline
    >>> blocks = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    >>> staged = pipeline(blocks, Mesh({"pipe": 2}, device="numpy*2"), micro_batches=2)
    >>> load_unstacked_state_dict(staged, blocks.state_dict())
    IncompatibleKeys(missing_keys=[], unexpected_keys=[])
    """
    rest = dict(state)
    for name, (numbers, is_stacked) in _stacks(model).items():
        if all(plain in rest for plain in numbers):
            values = [_array(rest.pop(plain)) for plain in numbers]
            rest[name] = np.stack(values) if is_stacked else values[0]
    return names.load_state_dict(model, rest, strict)


def _array(value: Any) -> Any:
    return value.numpy() if isinstance(value, Tensor) else np.asarray(value)


def _stacks(model: Module) -> dict[str, tuple[list[str], bool]]:
    """Of each tensor in the state of a pipeline's block the names for the blocks, and whether it has values for all."""
    found: dict[str, tuple[list[str], bool]] = {}
    for prefix, module in model.named_modules():
        if isinstance(module, Pipeline):
            start = f"{prefix}." if prefix else ""
            stacked = {id(place.tensor) for place in _places(module._blocks) if place.path in module._paths}
            for path, tensor in names.get_state_dict(module._blocks).items():
                plain = [f"{start}{number}.{path}" for number in range(module._count)]
                found[f"{start}{EVERY}.{path}"] = plain, id(tensor) in stacked
    return found
