"""`torch.utils.data.dataloader`: names of what goes through PyTorch's loaders, which ask for batches by themselves."""

from __future__ import annotations

from typing import Any

__all__ = ["_BaseDataLoaderIter", "_MultiProcessingDataLoaderIter", "_SingleProcessDataLoaderIter"]

#: Names of annotations.
_collate_fn_t = _worker_init_fn_t = T_co = Any


class _BaseDataLoaderIter:
    """An epoch of PyTorch's loader: nothing is one, as an epoch of `DataLoader` is a plain iterator."""

    def __init__(self, loader: Any) -> None:
        """Never called by a loader."""


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """The same without workers: nothing is one."""


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """The same with workers: nothing is one."""
