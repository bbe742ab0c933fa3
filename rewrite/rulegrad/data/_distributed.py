"""The sampler of one of several processes that share a data set."""

from __future__ import annotations

from collections.abc import Iterator, Sized

import numpy as np

from rulegrad.communication.current import world
from rulegrad.data._samplers import Sampler
from rulegrad.errors import ConfigError


class DistributedSampler(Sampler[int]):
    """The numbers that the process `rank` of `num_replicas` takes: every so many of an order that all agree on.

    By default they are this rank, and the ranks that the program was started with (`python -m rulegrad launch`). With
    `drop_last` what is left over is left out, else the first ones come again. `set_epoch` draws another order, which is
    not PyTorch's. Raises ConfigError for a rank that none of the processes has.

    >>> from rulegrad.data import DistributedSampler
    >>> [list(DistributedSampler(range(5), 2, rank, shuffle=False)) for rank in (0, 1)]
    [[0, 2, 4], [1, 3, 0]]
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        self.num_replicas = world().size if num_replicas is None else num_replicas
        self.rank = world().local[0] if rank is None else rank
        if not 0 <= self.rank < self.num_replicas:
            raise ConfigError(f"DistributedSampler: rank={self.rank} of {self.num_replicas} processes")
        self.dataset, self.shuffle, self.seed, self.drop_last, self.epoch = dataset, shuffle, seed, drop_last, 0

    def set_epoch(self, epoch: int) -> None:
        """The next order is that of this epoch."""
        self.epoch = epoch

    @property
    def num_samples(self) -> int:
        """How many numbers this process takes."""
        return (len(self.dataset) + (0 if self.drop_last else self.num_replicas - 1)) // self.num_replicas

    @property
    def total_size(self) -> int:
        """How many numbers all processes take together."""
        return self.num_samples * self.num_replicas

    def __len__(self) -> int:
        return self.num_samples

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        order = np.random.default_rng((self.seed, self.epoch)).permutation(count) if self.shuffle else np.arange(count)
        places = np.arange(self.rank, self.total_size, self.num_replicas)
        return iter(order[places % count].tolist() if count else [])
