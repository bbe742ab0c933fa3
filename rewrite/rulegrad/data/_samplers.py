"""Samplers: the numbers of the samples of an epoch, in order. Random ones depend on a generator only.

A sampler that draws has a `state_dict`, by which the order of the epoch that is running can be had again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any, Generic, TypeVar

import numpy as np

from rulegrad.errors import ConfigError
from rulegrad.tensor.generators import Generator, default_generator

T_co = TypeVar("T_co", covariant=True)


class Sampler(Generic[T_co]):
    """A base for samplers of the user's. A loader needs `__iter__`, and `__len__` for its own length.

    >>> from rulegrad.data import DataLoader, Sampler
    >>> class Backwards(Sampler):
    ...     def __iter__(self):
    ...         return iter([2, 1, 0])
    >>> [batch.tolist() for batch in DataLoader([5, 6, 7], sampler=Backwards())]
    [[7], [6], [5]]
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} has no __iter__, which a Sampler needs")


class SequentialSampler(Sampler[int]):
    """0 … length - 1.

    >>> from rulegrad.data import SequentialSampler
    >>> list(SequentialSampler("abc"))
    [0, 1, 2]
    """

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class _Drawing(Sampler[int]):
    """A sampler whose order is drawn anew for each epoch: two numbers of a generator say which it is."""

    def __init__(self, generator: Generator | None) -> None:
        self.generator = generator
        self._key: tuple[int, int] | None = None  # of the order that was drawn last
        self._again = False  # whether the next epoch has that order

    def _order(self, random: np.random.Generator) -> Iterable[int]:
        raise NotImplementedError

    def __iter__(self) -> Iterator[int]:
        if self._key is None or not self._again:
            self._key = draw_key(self.generator)
        self._again = False
        return iter(self._order(np.random.default_rng(self._key)))

    def state_dict(self) -> dict[str, Any]:
        """The state that makes the order of the last epoch; `load_state_dict` gives the next epoch this order.

        >>> from rulegrad.data import RandomSampler
        >>> sampler = RandomSampler(range(100))
        >>> order = list(sampler)
        >>> sampler.load_state_dict(sampler.state_dict())
        >>> list(sampler) == order, list(sampler) == order
        (True, False)
        """
        return {"key": None if self._key is None else list(self._key)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        key = state_dict["key"]
        self._key, self._again = (None, False) if key is None else ((int(key[0]), int(key[1])), True)


class RandomSampler(_Drawing):
    """All numbers below the length in random order, or `num_samples` of them; with `replacement` each is drawn freely.

    Without replacement more samples than there are come from several orders, one after the other. generator: the
    default one (`rulegrad.manual_seed`) without it. Raises ConfigError for no samples.

    >>> from rulegrad import Generator
    >>> from rulegrad.data import RandomSampler
    >>> sorted(RandomSampler(range(5), generator=Generator().manual_seed(1)))
    [0, 1, 2, 3, 4]
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(generator)
        self.data_source, self.replacement, self._num_samples = data_source, replacement, num_samples
        if num_samples is not None and num_samples <= 0:
            raise ConfigError(f"RandomSampler: num_samples={num_samples}; use a number of 1 or more")
        if not len(data_source):
            raise ConfigError("RandomSampler: the data set is empty; give one with samples")

    @property
    def num_samples(self) -> int:
        """How many numbers an epoch has."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def _order(self, random: np.random.Generator) -> list[int]:
        count, wanted = len(self.data_source), self.num_samples
        if self.replacement:
            return [int(n) for n in random.integers(count, size=wanted)]
        rounds = [random.permutation(count) for _ in range(-(-wanted // count))]
        return [int(n) for n in np.concatenate(rounds)[:wanted]]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(_Drawing):
    """The given numbers in random order.

    >>> from rulegrad.data import SubsetRandomSampler
    >>> sorted(SubsetRandomSampler([7, 3, 5]))
    [3, 5, 7]
    """

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        super().__init__(generator)
        self.indices = indices

    def _order(self, random: np.random.Generator) -> list[int]:
        return [self.indices[place] for place in random.permutation(len(self.indices))]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(_Drawing):
    """`num_samples` numbers below the count of weights, drawn in proportion to these, which need not add up to 1.

    Without replacement each is drawn once at most. Raises ConfigError for weights that are negative, not finite or all
    0, and for more samples than weights above 0 without replacement.

    >>> from rulegrad.data import WeightedRandomSampler
    >>> list(WeightedRandomSampler([0.0, 3.0, 0.0], 4))
    [1, 1, 1, 1]
    """

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(generator)
        self.weights = np.asarray(weights, np.float64)
        self.num_samples, self.replacement = num_samples, replacement
        usable = self.weights.ndim == 1 and np.isfinite(self.weights).all() and (self.weights >= 0).all()
        if not usable or not self.weights.any():
            raise ConfigError("WeightedRandomSampler: weights must be finite numbers of 0 or more, and not all 0")
        most = num_samples if replacement else np.count_nonzero(self.weights)
        if not 0 < num_samples <= most:
            raise ConfigError(
                f"WeightedRandomSampler: num_samples={num_samples} of {most} weights above 0; use fewer, or replacement"
            )

    def _order(self, random: np.random.Generator) -> list[int]:
        share = self.weights / self.weights.sum()
        return [int(n) for n in random.choice(len(share), self.num_samples, self.replacement, share)]

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """The numbers of a sampler in lists of `batch_size`; the last is shorter, or left out with `drop_last`.

    Raises ConfigError for a size below 1.

    >>> from rulegrad.data import BatchSampler
    >>> list(BatchSampler(range(5), 2)), list(BatchSampler(range(5), 2, drop_last=True))
    ([[0, 1], [2, 3], [4]], [[0, 1], [2, 3]])
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool = False) -> None:
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
            raise ConfigError(f"BatchSampler: batch_size={batch_size!r}; use an integer of 1 or more")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[int]]:
        batch: list[int] = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]  # a TypeError for a sampler without a length
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

    def state_dict(self) -> dict[str, Any]:
        """The state of the sampler, where it has one."""
        return sampler_state(self.sampler)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        load_sampler_state(self.sampler, state_dict)


def sampler_state(sampler: Any) -> dict[str, Any]:
    """The state of a sampler; {} of one that has none, whose order does not change."""
    found: dict[str, Any] = sampler.state_dict() if hasattr(sampler, "state_dict") else {}
    return found


def load_sampler_state(sampler: Any, state: Mapping[str, Any]) -> None:
    if hasattr(sampler, "load_state_dict"):
        sampler.load_state_dict(state)


def draw_key(generator: Generator | None) -> tuple[int, int]:
    """Two numbers that no other draw of the generator has, and that are the same for the same seed."""
    drawn, seed = (generator or default_generator).draw(1)
    return seed, drawn


def permutation(count: int, generator: Generator | None) -> Any:
    """The numbers below `count` in random order."""
    return np.random.default_rng(draw_key(generator)).permutation(count)
