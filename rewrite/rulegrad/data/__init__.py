"""Data sets, the order in which their samples are drawn, and loaders of batches. Names and arguments are PyTorch's.

>>> import numpy as np
>>> from rulegrad import data
>>> numbers = data.TensorDataset(np.arange(5, dtype="float32"), np.arange(5) * 10)
>>> for x, y in data.DataLoader(numbers, batch_size=2):
...     print(x.tolist(), y.tolist())
[0.0, 1.0] [0, 10]
[2.0, 3.0] [20, 30]
[4.0] [40]
"""

from rulegrad.data._collate import default_collate, default_convert
from rulegrad.data._datasets import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from rulegrad.data._distributed import DistributedSampler
from rulegrad.data._loader import DataLoader
from rulegrad.data._samplers import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from rulegrad.data._worker_info import WorkerInfo, get_worker_info

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "WorkerInfo",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "random_split",
]
