"""Data sets of the tests of loaders, in a module that a process which is spawned can import."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from rulegrad import Tensor, data


class Squares(data.Dataset[Any]):
    """Numbers and their squares; and, as an augmentation, random numbers of three sources."""

    def __len__(self) -> int:
        return 23

    def __getitem__(self, index: int) -> Any:
        return np.full(3, index, np.float32), index * index


class Augmented(Squares):
    def __getitem__(self, index: int) -> Any:
        return index, random.random(), np.random.rand(), Tensor.rand(2)


class Counting(data.IterableDataset[int]):
    """0 … 12, shared among the workers."""

    def __iter__(self) -> Iterator[int]:
        info = data.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(first, 13, step))


def collate_own(batch: list[Any]) -> Any:
    return {
        "sum": Tensor([float(sum(square for _, square in batch))]),
        "text": f"{len(batch)} samples",
        "host": np.ones(1),
    }
