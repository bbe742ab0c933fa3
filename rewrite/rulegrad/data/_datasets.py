"""Data sets: samples by number (`Dataset`), or one after the other (`IterableDataset`)."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from rulegrad.data._samplers import permutation
from rulegrad.errors import ConfigError, ShapeError
from rulegrad.tensor.generators import Generator
from rulegrad.tensor.tensor import Tensor

T = TypeVar("T")


class Dataset(Generic[T]):
    """Samples by number. A subclass has `__getitem__(index)`, and `__len__` where the loader is to know the length.

    `__getitems__(indices)`, where there is one, gives a list of the samples of a batch in one call.

    >>> from rulegrad.data import Dataset
    >>> class Squares(Dataset):
    ...     def __len__(self):
    ...         return 10
    ...     def __getitem__(self, index):
    ...         return index * index
    >>> (Squares() + Squares())[13]
    9
    """

    def __getitem__(self, index: Any) -> T:
        raise NotImplementedError(f"{type(self).__name__} has no __getitem__, which a Dataset needs")

    def __add__(self, other: Dataset[T]) -> ConcatDataset[T]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T]):
    """Samples one after the other: a subclass has `__iter__`. `a + b` has those of a, and then those of b.

    Each worker of a loader iterates over a copy: `get_worker_info()` says which part is its own.

    >>> from rulegrad.data import DataLoader, IterableDataset
    >>> class Upwards(IterableDataset):
    ...     def __iter__(self):
    ...         return iter(range(5))
    >>> [batch.tolist() for batch in DataLoader(Upwards(), batch_size=2)]
    [[0, 1], [2, 3], [4]]
    """

    def __iter__(self) -> Iterator[T]:
        raise NotImplementedError(f"{type(self).__name__} has no __iter__, which an IterableDataset needs")

    def __add__(self, other: Dataset[T]) -> Any:
        parts: list[Any] = [self, other]
        return ChainDataset(parts)


class TensorDataset(Dataset[tuple[Any, ...]]):
    """Rows of tensors or arrays that have equally many. Raises ShapeError where they do not, and for scalars.

    The values are read once, when the data set is made: loaders, and their workers, take rows of these on the host.

    >>> from rulegrad.data import TensorDataset
    >>> rows = TensorDataset(Tensor([[1.0, 2.0], [3.0, 4.0]]), Tensor([0, 1]))
    >>> len(rows), [part.tolist() for part in rows[1]]
    (2, [[3.0, 4.0], 1])
    """

    def __init__(self, *tensors: Any) -> None:
        self._arrays = [np.asarray(tensor) for tensor in tensors]
        shapes = [array.shape for array in self._arrays]
        if not shapes or any(not shape or shape[0] != shapes[0][0] for shape in shapes):
            raise ShapeError(
                f"TensorDataset: tensors of shapes {shapes}; give one or more that have equally many rows (axis 0)"
            )

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The values, as tensors on the default device."""
        return tuple(map(Tensor, self._arrays))

    def __len__(self) -> int:
        return len(self._arrays[0])

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        return tuple(Tensor(array[index]) for array in self._arrays)

    def __getitems__(self, indices: Sequence[int]) -> list[tuple[Any, ...]]:
        """The samples as arrays on the host, which are to be stacked."""
        rows = [array[list(indices)] for array in self._arrays]
        return list(zip(*rows))


class StackDataset(Dataset[Any]):
    """Samples of several data sets side by side: tuples, or dicts where they are given by name.

    Raises ShapeError for data sets of different lengths, and ConfigError for none, or both kinds.

    >>> from rulegrad.data import StackDataset
    >>> StackDataset(image=[1.5, 2.5], label=[0, 1])[1]
    {'image': 2.5, 'label': 1}
    """

    def __init__(self, *parts: Any, **named: Any) -> None:
        if bool(parts) == bool(named):
            raise ConfigError("StackDataset: give data sets by position, or all by name")
        self.datasets: Any = parts or named
        lengths = [len(part) for part in (parts or named.values())]
        if len(set(lengths)) > 1:
            raise ShapeError(f"StackDataset: data sets of lengths {lengths}; they must be equally long")
        self._length = lengths[0]

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, Mapping):
            return {name: part[index] for name, part in self.datasets.items()}
        return tuple(part[index] for part in self.datasets)


class Subset(Dataset[T]):
    """The samples of a data set at `indices`, in that order.

    >>> from rulegrad.data import Subset
    >>> list(Subset("abcd", [3, 0]))
    ['d', 'a']
    """

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: Any) -> T:
        found: T = self.dataset[self.indices[index]]
        return found

    def __getitems__(self, indices: Sequence[int]) -> list[T]:
        """The samples of a batch in one call."""
        return samples(self.dataset, [self.indices[index] for index in indices])


class ConcatDataset(Dataset[T]):
    """Data sets one after the other. Raises ConfigError for none, and for an `IterableDataset`.

    >>> from rulegrad.data import ConcatDataset
    >>> joined = ConcatDataset(["ab", "cde"])
    >>> len(joined), joined[2], joined[-1]
    (5, 'c', 'e')
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets or any(isinstance(part, IterableDataset) for part in self.datasets):
            raise ConfigError("ConcatDataset: give data sets with a length; ChainDataset joins iterable ones")
        self.cumulative_sizes = list(itertools.accumulate(map(len, self.datasets)))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: Any) -> T:
        part, place = self._place(index)
        found: T = self.datasets[part][place]
        return found

    def __getitems__(self, indices: Sequence[int]) -> list[T]:
        """The samples of a batch, with one call for each data set that they are from."""
        places = [self._place(index) for index in indices]
        found: dict[int, T] = {}
        for part in dict.fromkeys(part for part, _ in places):
            here = [k for k, (owner, _) in enumerate(places) if owner == part]
            found.update(zip(here, samples(self.datasets[part], [places[k][1] for k in here])))
        return [found[k] for k in range(len(places))]

    def _place(self, index: int) -> tuple[int, int]:
        """Which data set has the sample, and where."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"ConcatDataset: sample {index} of {len(self)}")
        index %= len(self)
        part = bisect.bisect_right(self.cumulative_sizes, index)
        return part, index - (self.cumulative_sizes[part - 1] if part else 0)


class ChainDataset(IterableDataset[T]):
    """Iterables one after the other.

    >>> from rulegrad.data import ChainDataset
    >>> list(ChainDataset(["ab", "c"]))
    ['a', 'b', 'c']
    """

    def __init__(self, datasets: Iterable[Iterable[T]]) -> None:
        self.datasets = list(datasets)

    def __iter__(self) -> Iterator[T]:
        return itertools.chain.from_iterable(self.datasets)

    def __len__(self) -> int:
        parts: list[Any] = self.datasets
        return sum(map(len, parts))


def samples(dataset: Any, indices: Sequence[int]) -> list[Any]:
    """The samples of a batch: in one call where the data set has `__getitems__`."""
    together = getattr(dataset, "__getitems__", None)
    return [dataset[index] for index in indices] if together is None else list(together(indices))


def random_split(dataset: Any, lengths: Sequence[float], generator: Generator | None = None) -> list[Subset[Any]]:
    """Random parts of these lengths, or of these shares of the whole, which add up to 1.

    What is left over by rounding shares down goes to the first parts, one sample each. generator: of the order; the
    default one (`rulegrad.manual_seed`) without it. Raises ConfigError for lengths that do not add up.

    >>> from rulegrad import Generator
    >>> from rulegrad.data import random_split
    >>> [len(part) for part in random_split(range(10), [0.75, 0.25], Generator().manual_seed(1))]
    [8, 2]
    """
    total = len(dataset)
    counts = [int(length) for length in lengths]
    if any(length < 0 for length in lengths):
        raise ConfigError(f"random_split: lengths {list(lengths)}; they cannot be negative")
    if math.isclose(sum(lengths), 1.0) and any(length != int(length) or length == 1 for length in lengths):
        counts = [math.floor(total * share) for share in lengths]
        for k in range(total - sum(counts)):
            counts[k % len(counts)] += 1
    if sum(counts) != total:
        raise ConfigError(
            f"random_split: lengths {list(lengths)} for {total} samples; they must add up to {total} or 1"
        )
    order = permutation(total, generator).tolist()
    ends = list(itertools.accumulate(counts))
    return [Subset(dataset, order[end - count : end]) for end, count in zip(ends, counts)]
