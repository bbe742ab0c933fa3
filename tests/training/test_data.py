"""Data sets, samplers and loaders: the same batches by every kind of worker, the position, and what goes wrong."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from loader_datasets import Augmented, Counting, Squares, collate_own
from processes import eventually, is_running, start

import rulegrad as rg
from rulegrad import Generator, Tensor, data
from rulegrad.errors import ConfigError, DataError, DtypeError, ShapeError

KINDS = [
    pytest.param({"num_workers": 0}, id="none"),
    pytest.param({"num_workers": 2}, id="processes"),
    pytest.param({"num_workers": 3, "worker_type": "thread"}, id="threads"),
    pytest.param({"num_workers": 1, "multiprocessing_context": "spawn"}, id="spawned"),
    pytest.param({"num_workers": 2, "persistent_workers": True, "prefetch_factor": 1}, id="persistent"),
]
needs_proc = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")


def values(batch: Any) -> Any:
    return rg.tensor.trees.change(batch, lambda tensor: tensor.tolist())


def epochs(loader: data.DataLoader, count: int = 2) -> list[Any]:
    return [[values(batch) for batch in loader] for _ in range(count)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_worker_gives_the_same_batches(kind: dict[str, Any]) -> None:
    def made(**how: Any) -> list[Any]:
        rg.manual_seed(5)
        return epochs(data.DataLoader(Squares(), batch_size=4, shuffle=True, **how))

    found = made(**kind)
    assert found == made()
    assert found[0] != found[1]
    seen = sorted(n for _, squares in found[0] for n in squares)
    assert seen == [n * n for n in range(23)]
    assert [len(squares) for _, squares in found[0]] == [4, 4, 4, 4, 4, 3]


def test_the_order_follows_from_the_seed() -> None:
    def order(seed: int) -> list[Any]:
        loader = data.DataLoader(Squares(), shuffle=True, generator=Generator().manual_seed(seed))
        return [values(batch)[1][0] for batch in loader]

    assert order(1) == order(1) != order(2)


def test_random_numbers_in_processes_do_not_depend_on_how_many_there_are() -> None:
    def made(workers: int) -> list[Any]:
        rg.manual_seed(7)
        return epochs(data.DataLoader(Augmented(), batch_size=5, num_workers=workers))

    one = made(1)
    assert one == made(3)
    drawn = [x for epoch in one for _, first, second, third in epoch for x in (*first, *second, *np.ravel(third))]
    assert len(set(drawn)) == len(drawn)


@pytest.mark.parametrize("kind", KINDS)
def test_iterables_are_shared_among_workers(kind: dict[str, Any]) -> None:
    loader = data.DataLoader(Counting(), batch_size=3, **kind)
    found = epochs(loader)
    assert found[0] == found[1]
    assert sorted(n for batch in found[0] for n in batch) == list(range(13))
    if not kind["num_workers"]:
        assert found[0] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11], [12]]
    whole = [values(batch) for batch in data.DataLoader(Counting(), batch_size=3, drop_last=True, **kind)]
    assert whole == [batch for batch in found[0] if len(batch) == 3]


@pytest.mark.each_value
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("taken", [1, 3, 5])
def test_an_epoch_goes_on_where_the_state_was_taken(kind: dict[str, Any], taken: int) -> None:
    def loader() -> data.DataLoader:
        dataset = Augmented() if kind["num_workers"] and "worker_type" not in kind else Squares()
        return data.DataLoader(dataset, batch_size=4, shuffle=True, **kind)

    rg.manual_seed(9)
    first = loader()
    epoch = iter(first)
    for _ in range(taken):
        next(epoch)
    state, random_state = first.state_dict(), rg.get_rng_state()
    rest = [values(batch) for batch in epoch]
    following = [values(batch) for batch in first]

    second = loader()
    second.load_state_dict(state)
    assert second.state_dict() == state
    rg.set_rng_state(random_state)
    assert [values(batch) for batch in second] == rest
    assert [values(batch) for batch in second] == following


def test_an_iterable_goes_on_where_the_state_was_taken() -> None:
    for workers in (0, 2):
        loader = data.DataLoader(Counting(), batch_size=2, num_workers=workers)
        epoch = iter(loader)
        next(epoch), next(epoch)
        state = loader.state_dict()
        rest = [values(batch) for batch in epoch]
        loader.load_state_dict(state)
        assert [values(batch) for batch in loader] == rest
    with pytest.raises(ConfigError, match="2 workers read the iterable"):
        data.DataLoader(Counting(), batch_size=2).load_state_dict(state)


def test_the_state_between_epochs_is_the_beginning_of_the_next() -> None:
    loader = data.DataLoader(Squares(), batch_size=8)
    assert loader.state_dict() == {"batches": None}
    assert len(list(loader)) == 3
    assert loader.state_dict() == {"batches": None}
    epoch = iter(loader)
    assert [next(epoch) and loader.state_dict()["batches"] for _ in range(3)] == [1, 2, None]
    loader.load_state_dict(loader.state_dict())
    assert len(list(loader)) == 3


def test_samples_without_batches_and_lists_of_numbers() -> None:
    assert [values(sample) for sample in data.DataLoader(Squares(), batch_size=None)][3] == ([3.0, 3.0, 3.0], 9)
    loader = data.DataLoader(Squares(), batch_sampler=[[1, 2], [5]], num_workers=2)
    assert [values(batch)[1] for batch in loader] == [[1, 4], [25]]
    assert len(loader) == 2


class Pair(NamedTuple):
    left: Any
    right: Any


def test_collating() -> None:
    found = data.default_collate([Pair(1.5, [True, "a"]), Pair(2.5, [False, "b"])])
    assert isinstance(found, Pair)
    assert found.left.dtype == "float32" and found.left.tolist() == [1.5, 2.5]
    assert found.right[0].dtype == "bool" and found.right[1] == ["a", "b"]
    assert data.default_collate([Tensor([1, 2]), Tensor([3, 4]) * 2]).tolist() == [[1, 2], [6, 8]]
    with pytest.raises(ShapeError, match=r"samples of shapes \[\(1,\), \(2,\)\]"):
        data.default_collate([np.zeros(1), np.zeros(2)])
    with pytest.raises(ShapeError, match="2, 3"):
        data.default_collate([(1, 2), (1, 2, 3)])
    with pytest.raises(DtypeError, match="samples of object"):
        data.default_collate([object()])


@pytest.mark.parametrize("kind", KINDS)
def test_tensors_are_on_the_device(kind: dict[str, Any], device: str) -> None:
    rows = data.TensorDataset(Tensor([[1.0, 2.0], [3.0, 4.0]]), np.array([1, 2]))
    x, y = next(iter(data.DataLoader(rows, batch_size=2, device=device, **kind)))
    assert x.device == y.device == Tensor([0], device=device).device
    assert x.tolist() == [[1.0, 2.0], [3.0, 4.0]] and y.tolist() == [1, 2]


@pytest.mark.parametrize("kind", KINDS)
def test_a_collate_function_of_the_users(kind: dict[str, Any]) -> None:
    batch = next(iter(data.DataLoader(Squares(), batch_size=3, collate_fn=collate_own, **kind)))
    assert batch["sum"].tolist() == [5.0] and batch["text"] == "3 samples"
    assert isinstance(batch["host"], np.ndarray)


def test_data_sets() -> None:
    joined = Squares() + Squares()
    assert isinstance(joined, data.ConcatDataset) and len(joined) == 46 and joined[24][1] == joined[-22][1] == 1
    assert [square for _, square in joined.__getitems__([23, 1, 25])] == [0, 1, 4]
    with pytest.raises(IndexError, match="sample 46 of 46"):
        joined[46]
    assert list(Counting() + Counting()) == [*range(13), *range(13)]
    parts = data.random_split(range(11), [0.5, 0.25, 0.25], Generator().manual_seed(2))
    assert [len(part) for part in parts] == [6, 3, 2]
    assert sorted(n for part in parts for n in part) == list(range(11))
    again = data.random_split(range(11), [6, 3, 2], Generator().manual_seed(2))
    assert [list(part) for part in again] == [list(part) for part in parts]
    assert len(data.StackDataset([1, 2], [3, 4])) == 2 and data.StackDataset([1, 2], [3, 4])[0] == (1, 3)


def test_samplers() -> None:
    generator = Generator().manual_seed(4)
    assert len(set(data.RandomSampler(range(8), num_samples=16, generator=generator))) == 8
    many = list(data.RandomSampler(range(2), replacement=True, num_samples=400, generator=generator))
    assert 150 < sum(many) < 250
    drawn = list(data.WeightedRandomSampler([1.0, 3.0], 4000, generator=generator))
    assert 2850 < sum(drawn) < 3150  # 3000 are expected, with a deviation of 27
    assert sorted(data.WeightedRandomSampler([1.0, 0.0, 2.0], 2, replacement=False)) == [0, 2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 0}, "batch_size=0"),
        ({"shuffle": True, "sampler": [1]}, "leave out shuffle"),
        ({"batch_sampler": [[1]], "batch_size": 4}, "batch_sampler excludes"),
        ({"batch_size": None, "drop_last": True}, "drop_last needs a batch_size"),
        ({"num_workers": -1}, "num_workers=-1"),
        ({"prefetch_factor": 2}, "need num_workers above 0"),
        ({"worker_type": "fibre"}, "use process or thread"),
        ({"num_workers": 1, "multiprocessing_context": "clone"}, "'clone'; here there are"),
        ({"num_workers": 1, "worker_type": "thread", "multiprocessing_context": "spawn"}, "workers that are processes"),
    ],
)
def test_arguments_that_exclude_each_other(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        data.DataLoader(Squares(), **arguments)


def test_other_mistakes() -> None:
    with pytest.raises(ConfigError, match="has its own order"):
        data.DataLoader(Counting(), shuffle=True)
    with pytest.raises(ConfigError, match="the data set is empty"):
        data.DataLoader([], shuffle=True)
    with pytest.raises(ConfigError, match="must add up to 10 or 1"):
        data.random_split(range(10), [3, 4])
    with pytest.raises(ConfigError, match="not all 0"):
        data.WeightedRandomSampler([0.0], 1)
    with pytest.raises(ShapeError, match="equally many rows"):
        data.TensorDataset(np.zeros(2), np.zeros(3))


# ---- workers that fail ----


class Fails(Squares):
    def __getitem__(self, index: int) -> Any:
        if index == 6:
            raise KeyError("sample six has no label")
        return index


class Unsendable(Exception):
    """Made of two arguments and of a message of another form, so pickle cannot make it again."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} before {second}")


class FailsStrangely(Squares):
    def __getitem__(self, index: int) -> Any:
        raise Unsendable(index, 2)


class Dies(Squares):
    def __getitem__(self, index: int) -> Any:
        if index == 6:
            os.kill(os.getpid(), signal.SIGKILL)
        return index


class Sleeps(Squares):
    def __getitem__(self, index: int) -> Any:
        time.sleep(60.0)


def init_that_fails(worker: int) -> None:
    raise LookupError(f"no file for worker {worker}")


def test_an_exception_arrives_with_the_workers_traceback() -> None:
    loader = iter(data.DataLoader(Fails(), batch_size=4, num_workers=2))
    assert values(next(loader)) == [0, 1, 2, 3]
    with pytest.raises(KeyError, match="sample six has no label") as found:
        next(loader)
    assert isinstance(found.value.__cause__, DataError)
    assert "in __getitem__" in str(found.value.__cause__) and "worker 1" in str(found.value.__cause__)


def test_an_exception_in_a_thread_is_raised() -> None:
    with pytest.raises(KeyError, match="sample six has no label"):
        list(data.DataLoader(Fails(), batch_size=4, num_workers=2, worker_type="thread"))


def test_an_exception_that_cannot_be_sent_is_an_error_with_its_traceback() -> None:
    with pytest.raises(DataError, match="Unsendable: 0 before 2"):
        list(data.DataLoader(FailsStrangely(), num_workers=1))


def test_an_exception_in_worker_init_fn_is_raised() -> None:
    with pytest.raises(LookupError, match="no file for worker 0"):
        list(data.DataLoader(Squares(), num_workers=1, worker_init_fn=init_that_fails))


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_killed_worker_is_an_error() -> None:
    loader = data.DataLoader(Dies(), batch_size=4, num_workers=2, persistent_workers=True)
    for _ in range(2):  # the second epoch has new workers
        with pytest.raises(DataError, match=r"worker 1 of a loader \(process \d+\) was killed by SIGKILL"):
            list(loader)


def test_a_worker_that_does_not_answer_is_an_error() -> None:
    before = time.monotonic()
    with pytest.raises(DataError, match="no batch in 0.3 seconds"):
        list(data.DataLoader(Sleeps(), num_workers=2, timeout=0.3))
    assert time.monotonic() - before < 30.0


# ---- programs that end ----

PROGRAM = """
import os, sys, time
from rulegrad import data

class Slow(data.Dataset):
    def __len__(self):
        return 1000
    def __getitem__(self, index):
        time.sleep(0.05)
        return os.getpid()

if __name__ == "__main__":
    loader = data.DataLoader(Slow(), batch_size=2, num_workers=2, prefetch_factor=4, persistent_workers=len(sys.argv) > 1)
    for number, batch in enumerate(loader):
        print(batch.tolist()[0], flush=True)
        if number > 3:
            time.sleep(0.01)
"""


@needs_proc
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_program_that_is_ended_leaves_no_workers(tmp_path: Path, how: signal.Signals, persistent: bool) -> None:
    """By ctrl-C, which the whole group gets; by the others the program alone."""
    program = start(PROGRAM, tmp_path, *(["persistent"] if persistent else []))
    assert program.stdout is not None
    workers = {int(program.stdout.readline()) for _ in range(6)}
    assert len(workers) == 2 and all(map(is_running, workers))
    if how == signal.SIGINT:
        os.killpg(program.pid, how)
    else:
        os.kill(program.pid, how)
    _, errors = program.communicate(timeout=60)
    assert program.returncode == -how
    assert ("KeyboardInterrupt" in errors) == (how == signal.SIGINT)
    assert eventually(lambda: not any(map(is_running, workers)))


@needs_proc
def test_leaving_a_loop_early_ends_the_workers() -> None:
    class Pids(Squares):
        def __getitem__(self, index: int) -> Any:
            return os.getpid()

    epoch = iter(data.DataLoader(Pids(), num_workers=2, multiprocessing_context="fork"))
    workers = {next(epoch).item() for _ in range(4)}
    assert len(workers) == 2 and all(map(is_running, workers))
    epoch.close()
    assert not any(map(is_running, workers))


def test_arguments_are_in_pytorchs_places():
    loader = data.DataLoader(range(5), 2, False, None, None, 0, None, True, True, pin_memory_device="", in_order=False)
    assert len(loader) == 2 and loader.pin_memory and loader.drop_last and loader.prefetch_factor is None
    assert data.DataLoader(range(5), num_workers=1).prefetch_factor == 2
