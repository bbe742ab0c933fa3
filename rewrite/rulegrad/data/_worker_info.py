"""The number, seed and data set of a loader's worker, as the worker sees them."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any


@dataclass
class WorkerInfo:
    """A worker: its number, how many there are, the seed of the batch it makes, and its copy of the data set.

    seed: follows from the loader's generator, the epoch and the number of the batch, so that it is the same however
    many workers there are. Workers that are processes have set `random`, `numpy.random` and `rulegrad.manual_seed` to
    it; in a thread, which shares these with others, use `numpy.random.default_rng(get_worker_info().seed)`.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


class _Current(threading.local):
    info: WorkerInfo | None = None


current = _Current()


def get_worker_info() -> WorkerInfo | None:
    """The worker that this is called in; None outside of workers.

    >>> from rulegrad.data import get_worker_info
    >>> get_worker_info() is None
    True
    """
    return current.info
