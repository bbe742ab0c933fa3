"""`DataLoader`: batches of a data set, made by workers ahead of time, with a position that can be saved."""

from __future__ import annotations

import multiprocessing
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswer  # Python's own from 3.11 on
from itertools import count, islice
from multiprocessing.context import BaseContext
from typing import Any, Literal

from rulegrad.data._collate import collate_on_host, convert_on_host, to_tensors
from rulegrad.data._datasets import IterableDataset
from rulegrad.data._fetching import End, Fetcher, Setup, Task
from rulegrad.data._samplers import (
    BatchSampler,
    RandomSampler,
    SequentialSampler,
    draw_key,
    load_sampler_state,
    sampler_state,
)
from rulegrad.data._workers import ProcessWorker, ThreadWorker
from rulegrad.errors import ConfigError, DataError
from rulegrad.tensor.generators import Generator


class DataLoader:
    """Batches of a data set, in PyTorch's way: `for x, y in loader` is an epoch.

    dataset: has `__getitem__` and `__len__`, or is an `IterableDataset`. batch_size: samples a batch; None: samples one
    by one. shuffle: a new order for each epoch, of `generator` (the default one, which `rulegrad.manual_seed` sets,
    without it). sampler, batch_sampler: iterables of numbers, or of lists of numbers, in the place of shuffle and
    batch_size. collate_fn: from a list of samples to a batch (`default_collate`). drop_last: without a last batch that
    is shorter.

    num_workers: workers that make batches ahead, `prefetch_factor` (2) each; 0: none. worker_type: "process", or
    "thread" for data sets that release the GIL (NumPy, files). multiprocessing_context: "fork", "spawn", "forkserver",
    or one of `multiprocessing.get_context`. worker_init_fn(number) is called in a worker when it starts.
    persistent_workers: they stay from epoch to epoch. timeout: seconds to wait for a batch, 0 for no limit.

    pin_memory, pin_memory_device, in_order: PyTorch's, which change nothing: batches come in order, and are uploaded
    from where they are. device: where the tensors are; the default device without it. A batch that is ready before it
    is asked for is uploaded while the device computes on the one before. In workers that are processes tensors are on
    `numpy`.

    Random numbers in workers depend on the epoch and the batch, not on the number of workers (of an iterable data set:
    on the worker too). An exception in a worker is raised here, with the worker's traceback as its cause. Raises
    ConfigError for arguments that exclude each other, and DataError for a worker that was killed or does not answer.

    >>> from rulegrad.data import DataLoader
    >>> loader = DataLoader(range(6), batch_size=4, num_workers=2, worker_type="thread")
    >>> len(loader), [batch.tolist() for batch in loader]
    (2, [[0, 1, 2, 3], [4, 5]])
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: str | BaseContext | None = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        device: str | None = None,
        worker_type: Literal["process", "thread"] = "process",
    ) -> None:
        self.dataset, self.num_workers, self.drop_last = dataset, num_workers, drop_last
        self.timeout, self.worker_init_fn, self.generator = timeout, worker_init_fn, generator
        self.pin_memory, self.pin_memory_device, self.in_order = pin_memory, pin_memory_device, in_order
        self.prefetch_factor = 2 if prefetch_factor is None and num_workers else prefetch_factor
        self.multiprocessing_context = multiprocessing_context
        self.persistent_workers, self.device, self.worker_type = persistent_workers, device, worker_type
        self._iterable = isinstance(dataset, IterableDataset)
        self._check(prefetch_factor, multiprocessing_context)
        self._context = _context(multiprocessing_context)
        self.sampler, self.batch_sampler = self._samplers(batch_size, shuffle, sampler, batch_sampler)
        self.batch_size = None if batch_sampler is not None else batch_size
        batched = batch_sampler is not None or batch_size is not None
        self.collate_fn = collate_fn or (collate_on_host if batched else convert_on_host)
        self._workers: list[Any] = []
        self._key: tuple[int, int] | None = None  # of the epoch that is running
        self._handed_out: int | None = None  # batches of that epoch; None between epochs
        self._resumed: Mapping[str, Any] | None = None

    def _check(self, prefetch_factor: int | None, context: Any) -> None:
        if self.worker_type not in ("process", "thread"):
            raise ConfigError(f"DataLoader: worker_type={self.worker_type!r}; use process or thread")
        if self.num_workers < 0 or self.timeout < 0 or (self.prefetch_factor or 1) < 1:
            raise ConfigError(
                f"DataLoader: num_workers={self.num_workers}, timeout={self.timeout}, prefetch_factor="
                f"{self.prefetch_factor}; use numbers of 0 or more, and a prefetch_factor of 1 or more"
            )
        if self.num_workers == 0 and (prefetch_factor is not None or self.persistent_workers or self.timeout):
            raise ConfigError("DataLoader: prefetch_factor, persistent_workers and timeout need num_workers above 0")
        if context is not None and (self.num_workers == 0 or self.worker_type == "thread"):
            raise ConfigError("DataLoader: multiprocessing_context needs workers that are processes")

    def _samplers(
        self, batch_size: int | None, shuffle: bool | None, sampler: Any, batch_sampler: Any
    ) -> tuple[Any, Any]:
        """The sampler, and that of batches; None where an iterable has none, or where there are no batches."""
        if self._iterable:
            if shuffle or sampler is not None or batch_sampler is not None:
                raise ConfigError("DataLoader: an IterableDataset has its own order; leave out shuffle and samplers")
            if batch_size is not None:
                BatchSampler((), batch_size)  # which checks it
            return None, None
        if batch_sampler is not None:
            if batch_size not in (1, None) or shuffle or sampler is not None or self.drop_last:
                raise ConfigError("DataLoader: batch_sampler excludes batch_size, shuffle, sampler and drop_last")
            return None, batch_sampler
        if sampler is not None and shuffle:
            raise ConfigError("DataLoader: a sampler and shuffle; the order is the sampler's, so leave out shuffle")
        if sampler is None:
            sampler = RandomSampler(self.dataset, generator=self.generator) if shuffle else None
            sampler = sampler or SequentialSampler(self.dataset)
        if batch_size is None:
            if self.drop_last:
                raise ConfigError("DataLoader: drop_last needs a batch_size")
            return sampler, None
        return sampler, BatchSampler(sampler, batch_size, self.drop_last)

    @property
    def _index_sampler(self) -> Any:
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def __len__(self) -> int:
        """The batches of an epoch. Raises TypeError where the data set or the sampler has no length."""
        if not self._iterable:
            return len(self._index_sampler)
        whole = len(self.dataset)
        if self.batch_size is None:
            return whole
        return whole // self.batch_size if self.drop_last else -(-whole // self.batch_size)

    # ---- the position ----

    def state_dict(self) -> dict[str, Any]:
        """The position in the epoch that is running, and what makes its order: plain values, to be saved.

        It counts the batches that were handed out, so what workers have made ahead is made again; after the last one
        it is the beginning of the next epoch. State of the user's data set is not in it; a sampler's is, by its
        `state_dict`.

        >>> from rulegrad.data import DataLoader
        >>> loader = DataLoader(range(6), batch_size=2, shuffle=True)
        >>> epoch = iter(loader); _ = next(epoch)
        >>> state = loader.state_dict(); rest = [batch.tolist() for batch in epoch]
        >>> loader.load_state_dict(state)
        >>> [batch.tolist() for batch in loader] == rest
        True
        """
        if self._resumed is not None:
            return dict(self._resumed)
        if self._handed_out is None or self._key is None or self._is_over():
            return {"batches": None}
        state = {"batches": self._handed_out, "key": list(self._key)}
        return {**state, "workers": self.num_workers, "sampler": sampler_state(self._index_sampler)}

    def _is_over(self) -> bool:
        """Whether the last batch was handed out; of an iterable that is known when a further one is asked for."""
        try:
            return not self._iterable and self._handed_out == len(self)
        except TypeError:
            return False  # a sampler without a length

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Let the next epoch be the rest of the one in which the state was taken.

        The batches before are passed over without reading samples; an `IterableDataset` is read from its beginning.
        Raises ConfigError for one that other workers read: each had its own part.
        """
        other = state_dict["batches"] is not None and state_dict["workers"] != self.num_workers
        if other and self._iterable:
            raise ConfigError(
                f"load_state_dict: {state_dict['workers']} workers read the iterable data set; use as many to go on"
            )
        self._resumed = dict(state_dict)

    def __iter__(self) -> Iterator[Any]:
        state, self._resumed = self._resumed, None
        if state is None or state["batches"] is None:
            self._key, first = draw_key(self.generator), 0
        else:
            self._key, first = (int(state["key"][0]), int(state["key"][1])), int(state["batches"])
            load_sampler_state(self._index_sampler, state["sampler"])
        self._handed_out = first
        return self._epoch(self._key, first)

    def _epoch(self, key: tuple[int, int], first: int) -> Iterator[Any]:
        handed_out = first
        for batch in self._made_here(key, first) if self.num_workers == 0 else self._made_by_workers(key, first):
            handed_out += 1
            if self._key == key:  # else a later epoch has begun
                self._handed_out = handed_out
            yield batch
        if self._key == key:
            self._handed_out = None

    # ---- making batches ----

    def _setup(self, worker: int) -> Setup:
        return Setup(
            self.dataset,
            self.collate_fn,
            self._iterable,
            self.batch_size,
            self.drop_last,
            self.worker_init_fn,
            worker,
            self.num_workers,
        )

    def _tasks(self, key: tuple[int, int], first: int) -> Iterator[Task]:
        """The batches of an epoch from `first` on; of an iterable all, as they cannot be passed over."""
        if self._iterable:
            return (Task(key, number) for number in count())
        return (Task(key, k, indices) for k, indices in islice(enumerate(self._index_sampler), first, None))

    def _made_here(self, key: tuple[int, int], first: int) -> Iterator[Any]:
        fetch = Fetcher(self._setup(0))
        for task in self._tasks(key, first):
            batch = fetch(task)
            if isinstance(batch, End):
                return
            if not self._iterable or task.number >= first:
                yield to_tensors(batch, self.device)

    def _made_by_workers(self, key: tuple[int, int], first: int) -> Iterator[Any]:
        workers = self._started()
        pending: deque[_Asked] = deque()
        failed = True
        try:
            passed_over = first if self._iterable else 0
            for batch in self._answers(workers, pending, key, first):
                if passed_over:
                    passed_over -= 1
                else:
                    yield batch
            failed = False
        except GeneratorExit:
            failed = False
            raise
        finally:
            for asked in pending:
                asked.future.cancel()
            if failed or not self.persistent_workers:
                self._workers.clear()
                _stop(workers, failed)

    def _answers(
        self, workers: list[ThreadWorker], pending: deque[_Asked], key: tuple[int, int], first: int
    ) -> Iterator[Any]:
        """The batches in order. As many as `prefetch_factor` says are being made by each worker."""
        tasks = self._tasks(key, first)
        ahead = self.prefetch_factor or 1
        for task in islice(tasks, ahead * len(workers)):
            number = task.number // len(workers) if self._iterable else task.number
            self._ask(pending, workers[task.number % len(workers)], Task(key, number, task.indices))
        while pending:
            asked = pending.popleft()
            batch = self._wait(asked)
            if isinstance(batch, End):
                continue  # what else this worker was asked for gives the same answer
            if self._iterable:
                self._ask(pending, asked.worker, Task(key, asked.task.number + ahead))
            elif (following := next(tasks, None)) is not None:
                self._ask(pending, asked.worker, following)
            if pending:
                pending[0].upload_if_ready(self.device)
            yield asked.uploaded(batch, self.device)

    @staticmethod
    def _ask(pending: deque[_Asked], worker: ThreadWorker, task: Task) -> None:
        pending.append(_Asked(worker, task))

    def _wait(self, asked: _Asked) -> Any:
        try:
            return asked.future.result(self.timeout or None)
        except NoAnswer:
            if asked.future.done():
                raise  # the data set's own
            raise DataError(
                f"a worker of a loader made no batch in {self.timeout} seconds; raise timeout, or look for what the "
                "data set waits for with num_workers=0"
            ) from None

    def _started(self) -> list[ThreadWorker]:
        """The workers of this epoch; those of the last one where they stay."""
        if self._workers:
            return list(self._workers)
        setups = [self._setup(number) for number in range(self.num_workers)]
        workers: list[ThreadWorker]
        if self.worker_type == "thread":
            workers = [ThreadWorker(setup) for setup in setups]
        else:
            workers = [ProcessWorker(setup, self._context) for setup in setups]
        for worker in workers:
            worker.start()
        if self.persistent_workers:
            self._workers[:] = workers
            weakref.finalize(self, _stop, workers, True)
        return workers


class _Asked:
    """A batch that a worker was asked for."""

    def __init__(self, worker: ThreadWorker, task: Task) -> None:
        self.worker, self.task = worker, task
        self.future: Future[Any] = worker.submit(task)
        self._uploaded: list[Any] = []

    def upload_if_ready(self, device: str | None) -> None:
        """Begin the upload now, while the device computes, where the batch has been made."""
        future = self.future
        if not self._uploaded and future.done() and not future.cancelled() and future.exception() is None:
            self.uploaded(future.result(), device)

    def uploaded(self, batch: Any, device: str | None) -> Any:
        if not self._uploaded and not isinstance(batch, End):
            self._uploaded.append(to_tensors(batch, device))
        return self._uploaded[0] if self._uploaded else batch


def _stop(workers: list[ThreadWorker], at_once: bool) -> None:
    for worker in workers:
        worker.stop(at_once)


def _context(given: str | BaseContext | None) -> BaseContext:
    if isinstance(given, BaseContext):
        return given
    methods = multiprocessing.get_all_start_methods()
    if given is not None and given not in methods:
        raise ConfigError(f"DataLoader: multiprocessing_context={given!r}; here there are {', '.join(methods)}")
    return multiprocessing.get_context(given)
