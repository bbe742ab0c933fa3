"""Checkpoints in parts: each rank writes what it has, and a program on another number of ranks reads them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from rulegrad.communication import world
from rulegrad.communication.meshes import bounds_of, own_parts, world_of
from rulegrad.errors import FileError, FileMissingError
from rulegrad.nn import state as files
from rulegrad.nn._checkpoint_files import load, save
from rulegrad.runtime.buffer import Buffer, Parts
from rulegrad.tensor import Tensor
from rulegrad.tensor.storage import parts_of

_MARK: Final = "tensor in parts"  # the key of what stands for a tensor in the tree that is written


class StoredTensor:
    """A tensor of a checkpoint; its values are read when they are asked for: `Tensor(stored)`, `np.asarray(stored)`."""

    def __init__(self, shape: tuple[int, ...], dtype: str, pieces: list[tuple[Path, str, tuple[tuple[int, int], ...]]]):
        self.shape, self.dtype = shape, dtype
        self._pieces = pieces

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        whole: np.ndarray[Any, Any] | None = None
        for path, name, bounds in self._pieces:
            values = files.safe_open(path)[name].numpy()
            if whole is None:
                whole = np.empty(self.shape, values.dtype)
            whole[tuple(slice(*one) for one in bounds)] = values
        assert whole is not None  # each tensor has a piece, if an empty one
        return whole if dtype is None else whole.astype(dtype)

    def __float__(self) -> float:
        return float(np.asarray(self))


def save_parts(tree: Any, folder: str | os.PathLike[str]) -> None:
    """Write a tree of dicts, lists, tensors and plain values, such as states of a model and its optimizer, to a folder.

    All ranks call it; each writes its own parts, and rank 0 what all have. The checkpoint takes the place of the one
    before when it is complete on all ranks: a run that is killed leaves the old one or the new one. Raises FileError.

    >>> import tempfile
    >>> from rulegrad.distributed import Mesh, load_parts, save_parts, shard
    >>> folder = tempfile.mkdtemp()
    >>> x = shard([1.0, 2.0, 3.0], Mesh({"data": 2}, device="numpy*2"), data=0)
    >>> save_parts({"x": x, "epoch": 3}, folder)
    >>> found = load_parts(folder)
    >>> Tensor(found["x"]).tolist(), found["epoch"]
    ([1.0, 2.0, 3.0], 3)
    """
    top, here = Path(folder), world()
    number = _current(top) + 1
    here.check_same(
        "the number of a checkpoint (a file may not be where all ranks see it)", str(number)
    )  # all have read the number
    new = top / str(number)
    tensors: list[Tensor] = []
    described = _described(tree, tensors)
    if tensors:
        Tensor.realize(*tensors)
    try:
        new.mkdir(parents=True, exist_ok=True)
        pieces = dict(_pieces(tensors))
        files.safe_save(pieces, new / f"rank-{here.local[0]}.safetensors")
        if here.local[0] == 0:
            save({"tree": described, "tensors": [_about(tensor) for tensor in tensors]}, new / "tree.checkpoint")
        here.check_same("save_parts: written", str(number))
        if here.local[0] == 0:
            _replace(top / "current", str(number))
            for old in top.iterdir():
                if old.is_dir() and old.name.isdecimal() and int(old.name) != number:
                    shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise FileError(f"{top} cannot be written: {error}") from None
    here.check_same("save_parts: in place", str(number))


def load_parts(folder: str | os.PathLike[str]) -> Any:
    """The tree that `save_parts` wrote, with a `StoredTensor` for each tensor, which reads values when they are needed.

    The ranks need not be as many as those that wrote it: `load_state_dict` of modules and optimizers takes what is
    stored, and keeps the placements of their own tensors. Raises FileError, FileMissingError.
    """
    top = Path(folder)
    number = _current(top)
    if not number:
        raise FileMissingError(f"{top} has no checkpoint in parts; save_parts writes one")
    place = top / str(number)
    found = load(place / "tree.checkpoint")
    try:
        about, tree = found["tensors"], found["tree"]
    except (KeyError, TypeError):
        raise FileError(
            f"{place / 'tree.checkpoint'} is not a checkpoint in parts; read it with rulegrad.load"
        ) from None
    return _restored(tree, [_stored(place, k, one) for k, one in enumerate(about)])


def _current(top: Path) -> int:
    try:
        return int((top / "current").read_text(encoding="ascii"))
    except FileNotFoundError:
        return 0
    except (OSError, ValueError) as error:
        raise FileError(f"{top / 'current'} cannot be read: {error}") from None


def _replace(path: Path, text: str) -> None:
    """Writes a file, which appears complete or not at all."""
    written = path.with_suffix(".part")
    with written.open("w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(written, path)


def _described(tree: Any, tensors: list[Tensor]) -> Any:
    """The tree with a mark in the place of each tensor, which is listed."""
    if isinstance(tree, Tensor):
        tensors.append(tree)
        return {_MARK: len(tensors) - 1}
    if isinstance(tree, dict):
        return {key: _described(value, tensors) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [_described(value, tensors) for value in tree]
    return tree


def _restored(tree: Any, tensors: list[StoredTensor]) -> Any:
    if isinstance(tree, dict):
        if tree.keys() == {_MARK}:
            return tensors[tree[_MARK]]
        return {key: _restored(value, tensors) for key, value in tree.items()}
    return [_restored(value, tensors) for value in tree] if isinstance(tree, list) else tree


def _about(tensor: Tensor) -> dict[str, Any]:
    """Shape, dtype and placement of a tensor, and how many ranks a process has."""
    parts = parts_of(tensor)
    return {
        "shape": list(tensor.shape), "dtype": str(tensor.dtype),
        "mesh": list(parts.mesh) if parts else [], "placement": list(parts.placement) if parts else [],
        "ranks of a process": len(world_of(tensor.device).local),
    }  # fmt: skip


def _writers(parts: Parts) -> Iterator[tuple[int, tuple[tuple[int, int], ...]]]:
    """The ranks that write parts of a tensor, one for each part, and the bounds of these."""
    seen = set()
    for rank in range(int(np.prod(parts.mesh))):
        bounds = bounds_of(parts, rank)
        if bounds not in seen:
            seen.add(bounds)
            yield rank, bounds


def _pieces(tensors: list[Tensor]) -> Iterator[tuple[str, Tensor]]:
    """The pieces that this process writes, by the number of the tensor, and that of the rank."""
    for number, tensor in enumerate(tensors):
        parts, own = parts_of(tensor), world_of(tensor.device).local
        if parts is None:
            if own[0] == 0:
                yield f"{number}.0", Tensor(tensor.numpy(), device="numpy")
            continue
        writers = {rank for rank, _ in _writers(parts)}
        for rank, _, array in own_parts(Buffer.of(tensor.uop)):
            if rank in writers:
                yield f"{number}.{rank}", Tensor(np.ascontiguousarray(array), device="numpy")


def _stored(place: Path, number: int, about: dict[str, Any]) -> StoredTensor:
    shape = tuple(about["shape"])
    if not about["mesh"]:
        whole = tuple((0, extent) for extent in shape)
        return StoredTensor(shape, about["dtype"], [(place / "rank-0.safetensors", f"{number}.0", whole)])
    parts = Parts(shape, tuple(about["mesh"]), tuple(about["placement"]))
    local = about["ranks of a process"]
    return StoredTensor(shape, about["dtype"], [
        (place / f"rank-{rank // local * local}.safetensors", f"{number}.{rank}", bounds)
        for rank, bounds in _writers(parts)
    ])  # fmt: skip
