"""Making batches, in a worker or in the process that asks for them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import numpy as np

from rulegrad.data._datasets import samples
from rulegrad.data._worker_info import WorkerInfo, current
from rulegrad.tensor.generators import default_generator


class End:
    """In the place of a batch: the worker's iterable has no more."""


@dataclass(frozen=True)
class Setup:
    """All that a worker needs to make batches, which is sent to it when it starts."""

    dataset: Any
    collate: Callable[[Any], Any]
    iterable: bool
    batch_size: int | None  # of an iterable; None: samples one by one
    drop_last: bool
    init: Callable[[int], None] | None
    worker: int
    workers: int


@dataclass(frozen=True)
class Task:
    """A batch to be made: of these samples, or the next of an iterable."""

    key: tuple[int, int]  # of the epoch
    number: int  # of the batch in the epoch; of an iterable: in that worker
    indices: Any = None  # a list, or one index where there are no batches


#: In the place of a batch's number, in the seed of `worker_init_fn`.
_START: Final = 1 << 32


class Fetcher:
    """Makes the batches that it is asked for."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._key: tuple[int, int] | None = None
        self._iterator: Iterator[Any] = iter(())

    def __call__(self, task: Task) -> Any:
        """The batch as the collate function makes it; `End` behind the last one of an iterable."""
        setup = self._setup
        if not setup.iterable:
            batched = isinstance(task.indices, (list, tuple))
            found = samples(setup.dataset, task.indices) if batched else setup.dataset[task.indices]
            return setup.collate(found)
        if self._key != task.key:
            self._key, self._iterator = task.key, iter(setup.dataset)
        if setup.batch_size is None:
            sample = next(self._iterator, End)
            return End() if sample is End else setup.collate(sample)
        batch = list(islice(self._iterator, setup.batch_size))
        if not batch or (setup.drop_last and len(batch) < setup.batch_size):
            return End()
        return setup.collate(batch)


class WorkerFetcher(Fetcher):
    """A fetcher in a worker, with a seed for each batch: random numbers do not depend on what was made before."""

    def __init__(self, setup: Setup, own_process: bool) -> None:
        super().__init__(setup)
        self._own_process = own_process
        self._info = WorkerInfo(setup.worker, setup.workers, 0, setup.dataset)
        self._started = False

    def __call__(self, task: Task) -> Any:
        current.info = self._info
        if not self._started:
            self._started = True
            if self._setup.init is not None:
                self._seed(task.key, self._setup.worker, _START)
                self._setup.init(self._setup.worker)
        # The batches of a data set with numbers are the same whichever worker makes them.
        self._seed(task.key, self._setup.worker + 1 if self._setup.iterable else 0, task.number)
        return super().__call__(task)

    def _seed(self, key: tuple[int, int], part: int, number: int) -> None:
        seed = int(np.random.SeedSequence((*key, part, number)).generate_state(1, np.uint64)[0])
        self._info.seed = seed
        if self._own_process:
            random.seed(seed)
            np.random.seed(seed & 0xFFFFFFFF)
            default_generator.manual_seed(seed)
