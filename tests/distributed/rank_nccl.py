"""The program of each rank of test_nccl_plans.py: training on pretend GPUs, between which a pretend NCCL moves values.

The GPU is that of `shims/fake_cuda.py`, whose streams do nothing before somebody waits; NCCL is MPI on its memory, on the stream that it is given.
"""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from mpi4py import MPI
from networks import training_step

import rulegrad
from rulegrad import Tensor, communication, nn, optim
from rulegrad.communication.mpi import MpiWorld
from rulegrad.distributed import Mesh, data_parallel, fully_sharded, shard
from rulegrad.runtime.backends import backend

SHIMS = Path(__file__).resolve().parents[1] / "shims"
fake_nccl = SimpleNamespace(**runpy.run_path(str(SHIMS / "fake_nccl.py")))
memory = fake_nccl.memory
RANK = MPI.COMM_WORLD.Get_rank()


class Communicator:
    """nccl.core.Communicator, as far as training uses it."""

    driver: Any = None
    calls: list[str] = []  # noqa: RUF012

    def __init__(self, ranks: Any) -> None:
        self._ranks = ranks

    @classmethod
    def init(cls, nranks: int, rank: int, unique_id: Any) -> Communicator:
        assert (nranks, rank) == (MPI.COMM_WORLD.Get_size(), RANK) and unique_id == bytes(range(128))
        return cls(MPI.COMM_WORLD.Dup())

    def split(self, color: int, key: int) -> Communicator:
        return Communicator(self._ranks.Split(color, key))

    def _put(self, stream: int, kind: str, work: Callable[[], None]) -> None:
        self.calls.append(kind)
        self.driver.put(self.driver._objects[stream], work)

    def allreduce(self, source: Any, result: Any, operation: Any, *, stream: int) -> None:
        given, wanted = memory(source), memory(result)
        self._put(stream, "allreduce", lambda: self._ranks.Allreduce(given.copy(), wanted, operation))

    def reduce_scatter(self, source: Any, result: Any, operation: Any, *, stream: int) -> None:
        given, wanted = memory(source), memory(result)
        self._put(stream, "reduce_scatter", lambda: self._ranks.Reduce_scatter_block(given.copy(), wanted, operation))

    def allgather(self, source: Any, result: Any, *, stream: int) -> None:
        given, wanted = memory(source), memory(result)
        self._put(stream, "allgather", lambda: self._ranks.Allgather(given.copy(), wanted))

    def send(self, source: Any, peer: int, *, stream: int) -> None:
        self._sent = memory(source), peer

    def recv(self, result: Any, peer: int, *, stream: int) -> None:
        (given, to), wanted = self._sent, memory(result)
        self._put(stream, "sendrecv", lambda: self._ranks.Sendrecv(given.copy(), to, 0, wanted, peer, 0))

    def get_async_error(self) -> int:
        return 0


def install() -> Any:
    """Puts the pretend driver, compiler and NCCL in the place of NVIDIA's. The GPU of each rank is another one."""
    rulegrad.load_backend(SHIMS / "cuda_shim")
    module, cuda = SimpleNamespace(**runpy.run_path(str(SHIMS / "fake_cuda.py"))), backend("cuda").module
    driver, compiler = module.FakeDriver(), module.FakeCompiler()
    driver.is_lazy = True
    driver.cuDeviceGetUuid = lambda device: (module.OK, SimpleNamespace(bytes=bytes([RANK + 1]) * 16))
    for part, name, replacement in module.replacements(cuda, driver, compiler):
        setattr(part, name, replacement)
    sys.modules.update(fake_nccl.modules(Communicator, (MPI.SUM, MPI.PROD, MPI.MAX, MPI.MIN)))
    Communicator.driver = driver
    return driver


def main(kind: str, captured: bool) -> None:
    driver = install()
    started: list[str] = []  # what goes through the host
    start = MpiWorld.start
    MpiWorld.start = lambda self, of, *given: started.append(str(of)) or start(self, of, *given)  # type: ignore[method-assign]
    mesh = Mesh({"data": 2}, device="cuda:0")
    rulegrad.manual_seed(1)
    with rulegrad.config(device="numpy"):
        model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))
        Tensor.realize(*model.parameters())
    model = fully_sharded(model, mesh) if kind == "fully" else data_parallel(model, mesh)
    optimizer = optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    random = np.random.default_rng(2)
    x = shard(random.random((8, 6), np.float32), mesh, data=0)
    y = shard(random.integers(0, 4, 8), mesh, data=0)
    step = training_step(model, optimizer)
    run = rulegrad.jit(step) if captured else step
    losses = [run(x, y).item() for _ in range(3)]
    communication.reset_counters()
    started.clear()
    Communicator.calls.clear()
    copies = driver.called.count("cuMemcpyDtoHAsync")
    losses.append(run(x, y).item())
    sent = {name: count.bytes for name, count in communication.counters().items() if count.bytes}
    calls, copies = sorted(Communicator.calls), driver.called.count("cuMemcpyDtoHAsync") - copies
    host = list(started)
    rolled = shard(np.arange(8, dtype=np.float32), mesh, data=0).roll(4, 0).tolist()
    if RANK == 0:
        print(json.dumps({
            "losses": losses, "sent": sent, "calls": calls, "host": host, "rolled": rolled, "copies": copies,
        }))  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] == "captured")
