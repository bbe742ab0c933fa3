"""Checkpoints: nested dicts, lists and tuples of tensors and plain values in one safetensors file.

The tensors are the file's tensors, so any reader of safetensors sees them; how they are nested, and the plain values,
are JSON in the file's metadata. Nothing in a file is executed when it is read.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from rulegrad.errors import DtypeError, FileError, FileMissingError
from rulegrad.nn._safetensors_files import SafetensorsFile, safe_open, safe_save
from rulegrad.nn._torch_files import is_torch_file, torch_load
from rulegrad.tensor.generators import get_rng_state, set_rng_state
from rulegrad.tensor.tensor import Tensor

#: The key of the tree in a file's metadata.
_TREE: Final = "rulegrad.tree"
#: That of the state of the random numbers.
_RANDOM: Final = "rulegrad.random"


def save(state: Any, path: Any, *, pickle_protocol: int | None = None) -> None:
    """Write a checkpoint: a dict, list or tuple, nested at will, of tensors, NumPy arrays and plain values.

    Plain values are numbers, strings, bools and None; keys of dicts are strings, ints, bools or None. Of a model or an
    optimizer give its `state_dict()`. A tensor that is held twice is written once. The state of the random numbers goes
    along (`load(path, random=True)`). The file appears complete or not at all. path: also an open file, such as
    `io.BytesIO()`. pickle_protocol: PyTorch's; nothing is pickled. Raises DtypeError for other objects,
    with their place, and FileError when the file cannot be written.

    >>> import os, tempfile, rulegrad
    >>> from rulegrad import Tensor
    >>> path = os.path.join(tempfile.mkdtemp(), "last.checkpoint")
    >>> rulegrad.save({"model": {"weight": Tensor([1.0, 2.0])}, "epoch": 3, "losses": [0.5, 0.25]}, path)
    >>> found = rulegrad.load(path)
    >>> found["model"]["weight"].tolist(), found["epoch"], found["losses"]
    ([1.0, 2.0], 3, [0.5, 0.25])
    """
    if hasattr(path, "write"):
        with tempfile.TemporaryDirectory() as folder:
            save(state, Path(folder, "checkpoint"))
            path.write(Path(folder, "checkpoint").read_bytes())
        return
    writer = _Writer()
    tree = writer.node(state, ())
    random = json.dumps(get_rng_state().tolist())
    safe_save(writer.tensors, path, {_TREE: json.dumps(tree), _RANDOM: random})


def load(
    path: Any,
    device: str | None = None,
    *,
    random: bool = False,
    map_location: Any = None,
    weights_only: bool | None = True,
    mmap: bool | None = None,
) -> Any:
    """Read a file that `save` wrote, with its tensors on `device`; also PyTorch's files and other safetensors files.

    random: go on with the random numbers from where they were when the file was saved, so that training with dropout
    resumes bit for bit. path: also an open file. map_location is PyTorch's name of `device`; a function, or a dict, of
    places in PyTorch's memory says nothing here. Whatever weights_only and mmap say, nothing but weights and plain
    values is ever read. A safetensors file that `save` has not written gives a dict of tensors. Raises FileError
    for a file that is missing, damaged, or of another format, or that has no random numbers to go on with.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "last.checkpoint")
    >>> rg.save([Tensor([1.0, 2.0]), "note"], path)
    >>> weights, note = rg.load(path)
    >>> weights.tolist(), note
    ([1.0, 2.0], 'note')
    """
    device = map_location if device is None and isinstance(map_location, str) else device
    if hasattr(path, "read"):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "checkpoint").write_bytes(path.read())
            return load(Path(folder, "checkpoint"), device, random=random)
    if not Path(path).is_file():
        raise FileMissingError(f"{path} cannot be read: there is no such file")
    if is_torch_file(path):
        if random:
            raise FileError(f"{path} is of PyTorch, whose random numbers are others; leave out random=True")
        return torch_load(path, device)
    file = safe_open(path, device)
    if random:
        _resume_random(file)
    if _TREE not in file.metadata:
        return dict(file)
    try:
        return _Reader(file).value(json.loads(file.metadata[_TREE]))
    except (KeyError, ValueError, TypeError, RecursionError) as error:
        raise FileError(f"{path}: its description of the checkpoint is damaged ({error!r})") from None


def _resume_random(file: SafetensorsFile) -> None:
    if _RANDOM not in file.metadata:
        raise FileError(f"{file.path} has no state of random numbers; leave out random=True")
    try:
        set_rng_state(Tensor(np.array(json.loads(file.metadata[_RANDOM]), np.uint64), device="numpy"))
    except (ValueError, TypeError, OverflowError) as error:
        raise FileError(f"{file.path}: its state of random numbers is damaged ({error})") from None


class _Writer:
    """The tensors of a checkpoint by name, and the tree that says where they belong."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._names: dict[int, str] = {}
        self._held: list[Any] = []  # so that no id is given away meanwhile

    def node(self, value: Any, path: tuple[str, ...]) -> Any:
        """`value` as JSON: a plain value as itself, anything else as a list of its kind and its parts."""
        if isinstance(value, (Tensor, np.ndarray)):
            return self._leaf(value, path)
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, complex):
            return ["complex", value.real, value.imag]
        if isinstance(value, Mapping):
            pairs = [[self._key(key, path), self.node(part, (*path, str(key)))] for key, part in value.items()]
            return ["dict", pairs]
        if isinstance(value, (list, tuple)):
            kind = "list" if isinstance(value, list) else "tuple"
            return [kind, [self.node(part, (*path, str(number))) for number, part in enumerate(value)]]
        where = ".".join(path) or "the top"
        hint = "give its state_dict()" if hasattr(value, "state_dict") else "give its values"
        raise DtypeError(f"save: a {type(value).__name__} at {where} is neither a tensor nor a plain value; {hint}")

    def _key(self, key: Any, path: tuple[str, ...]) -> Any:
        if key is None or isinstance(key, (bool, int, str)):
            return key
        where = ".".join(path) or "the top"
        raise DtypeError(f"save: a key of a dict at {where} is a {type(key).__name__}; use strings or ints")

    def _leaf(self, value: Any, path: tuple[str, ...]) -> Any:
        name = self._names.get(id(value))
        if name is None:
            name = ".".join(path) or "value"
            while name in self.tensors:
                name += "_"
            self._names[id(value)] = name
            self._held.append(value)
            self.tensors[name] = value.detach() if isinstance(value, Tensor) else Tensor(value)
        if isinstance(value, np.ndarray):
            return ["array", name]
        return ["tensor", name, bool(value.requires_grad)]


class _Reader:
    """The values that a tree stands for."""

    def __init__(self, file: SafetensorsFile) -> None:
        self._file = file
        self._tensors: dict[str, Tensor] = {}

    def value(self, node: Any) -> Any:
        """The value of a node of the tree."""
        if not isinstance(node, list):
            return node
        kind, *parts = node
        if kind == "dict":
            return {key: self.value(part) for key, part in parts[0]}
        if kind in ("list", "tuple"):
            values = [self.value(part) for part in parts[0]]
            return values if kind == "list" else tuple(values)
        if kind == "complex":
            return complex(*parts)
        if kind == "array":
            return self._file.array(parts[0]).copy()
        if kind != "tensor":
            raise ValueError(f"an unknown kind {kind!r}")
        name, requires_grad = parts
        if name not in self._tensors:
            found = self._file[name]
            self._tensors[name] = found.requires_grad_() if requires_grad else found
        return self._tensors[name]
