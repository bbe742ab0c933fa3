"""Batches out of samples: arrays on the host, which become tensors on the device in the process that asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rulegrad.errors import DtypeError, ShapeError
from rulegrad.tensor import trees
from rulegrad.tensor.core import TensorCore
from rulegrad.tensor.storage import default_float
from rulegrad.tensor.tensor import Tensor


class HostArray:
    """An array that is to become a tensor. Others, which a user's `collate_fn` made, stay what they are."""

    def __init__(self, values: Any) -> None:
        self.values = values


def default_collate(batch: Sequence[Any]) -> Any:
    """One batch of a list of samples, which are alike: tensors with a new first axis, in the samples' structure.

    Tensors, arrays and numbers become tensors (floats of Python float32, ints int64), tuples, lists, named tuples and
    dicts are collated part by part, text stays a list. Raises ShapeError for parts of different shapes or lengths, and
    DtypeError for objects that are not data.

    >>> from rulegrad.data import default_collate
    >>> found = default_collate([{"x": [1.0, 2.0], "name": "a"}, {"x": [3.0, 4.0], "name": "b"}])
    >>> [part.tolist() for part in found["x"]], found["name"]
    ([[1.0, 3.0], [2.0, 4.0]], ['a', 'b'])
    """
    return to_tensors(collate_on_host(batch), None)


def default_convert(data: Any) -> Any:
    """Arrays and NumPy's numbers as tensors, in any structure; the rest as it is.

    >>> import numpy as np
    >>> from rulegrad.data import default_convert
    >>> found = default_convert({"x": np.array([1.0, 2.0]), "n": 3})
    >>> found["x"].tolist(), found["n"]
    ([1.0, 2.0], 3)
    """
    return to_tensors(convert_on_host(data), None)


def convert_on_host(data: Any) -> Any:
    """The result of `default_convert`, with arrays on the host in the place of tensors."""
    if isinstance(data, (np.ndarray, np.generic)):
        return data if np.asarray(data).dtype.kind in "USO" else HostArray(np.asarray(data))
    if isinstance(data, (Mapping, list, tuple)):
        return _rebuilt(data, [convert_on_host(part) for part in _parts(data)])
    return data


def collate_on_host(batch: Sequence[Any]) -> Any:
    """The result of `default_collate`, with arrays on the host in the place of tensors."""
    first = batch[0]
    if isinstance(first, (str, bytes)):
        return list(batch)
    if isinstance(first, (TensorCore, np.ndarray, np.generic, bool, int, float, complex)):
        return HostArray(_stacked(batch))
    if isinstance(first, Mapping):
        if any(sample.keys() != first.keys() for sample in batch):
            raise ShapeError(f"default_collate: dicts with other keys than {list(first)}; {_ADVICE}")
        return _rebuilt(first, [collate_on_host([sample[key] for sample in batch]) for key in first])
    if isinstance(first, (tuple, list)):
        if any(len(sample) != len(first) for sample in batch):
            lengths = sorted({len(sample) for sample in batch})
            raise ShapeError(f"default_collate: samples of {lengths} parts; {_ADVICE}")
        return _rebuilt(first, [collate_on_host(parts) for parts in zip(*batch)])
    raise DtypeError(
        f"default_collate: samples of {type(first).__name__}; it takes tensors, arrays, numbers, text, and tuples, "
        "lists and dicts of these. Give a collate_fn for others"
    )


_ADVICE = "make them alike, or give a collate_fn"


def _stacked(batch: Sequence[Any]) -> Any:
    tensors: list[Any] = [sample for sample in batch if isinstance(sample, TensorCore)]
    if tensors:
        Tensor.realize(*tensors)  # in one call
    if isinstance(batch[0], float) and not isinstance(batch[0], np.generic):
        return np.asarray(batch, default_float().numpy)
    arrays = [np.asarray(sample) for sample in batch]
    if arrays[0].dtype.kind in "USO":
        raise DtypeError(f"default_collate: arrays of {arrays[0].dtype}; give a collate_fn for them")
    if any(array.shape != arrays[0].shape for array in arrays):
        shapes = list(dict.fromkeys(array.shape for array in arrays))
        raise ShapeError(f"default_collate: samples of shapes {shapes}; {_ADVICE} that pads them")
    return np.stack(arrays)


def _parts(data: Any) -> list[Any]:
    return list(data.values() if isinstance(data, Mapping) else data)


def _rebuilt(like: Any, parts: list[Any]) -> Any:
    """A dict, list, tuple or named tuple of other parts."""
    if isinstance(like, Mapping):
        made = dict(zip(like, parts))
        return made if type(like) is dict else type(like)(made)  # type: ignore[call-arg]
    return type(like)(*parts) if hasattr(like, "_fields") else type(like)(parts)


def to_host(batch: Any) -> Any:
    """The batch as it travels from a worker: tensors as their values."""
    leaves, rebuild = trees.flatten(batch)
    if leaves:
        Tensor.realize(*leaves)
    return rebuild([HostArray(leaf.numpy()) for leaf in leaves])


def to_tensors(batch: Any, device: str | None) -> Any:
    """The batch with tensors on the device: those that are tensors already are moved where a device is named."""
    leaves, rebuild = trees.flatten(batch, (HostArray, TensorCore))  # type: ignore[arg-type]
    return rebuild([_tensor(leaf, device) for leaf in leaves])


def _tensor(leaf: Any, device: str | None) -> Tensor:
    if isinstance(leaf, HostArray):
        return Tensor(leaf.values, device=device)
    tensor: Tensor = leaf if device is None else leaf.to(device=device)
    return tensor
