"""Ranks with an NVIDIA GPU each: collectives and training by NCCL, checked against NumPy, with their times.

    python -m rulegrad launch -n 2 bench/gpu_nccl.py [--shared]

It needs nccl4py, mpi4py and torch, whose memory the collectives work on. --shared: all ranks take the first GPU. NCCL
refuses two ranks on one GPU of one host, so each then says it is a host of its own, and values go over sockets: that
checks what is computed, and in which order, but its times say nothing of NCCL. Exit status 1 when a value is wrong.
"""

from __future__ import annotations

import os
import runpy
import sys
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
from mpi4py import MPI

import common
import rulegrad
from rulegrad import Tensor, communication, nn, optim
from rulegrad.communication.carriers import carrier_of
from rulegrad.communication.mpi import MpiWorld
from rulegrad.communication.nccl import DeviceArray, NcclWorld, is_carried
from rulegrad.distributed import Mesh, data_parallel, fully_sharded, shard
from rulegrad.runtime import devices

CASES = common.BENCH.parent / "tests" / "communication" / "collective_cases.py"
cases = SimpleNamespace(**runpy.run_path(str(CASES)))
RANKS = MPI.COMM_WORLD
RANK, SIZE = RANKS.Get_rank(), RANKS.Get_size()


def say(text: str) -> None:
    if RANK == 0:
        print(text, flush=True)


def all_right(is_right: bool) -> bool:
    return bool(RANKS.allreduce(int(is_right), MPI.MIN))


def on_gpu(torch: Any, array: np.ndarray[Any, Any]) -> Any:
    return torch.from_numpy(array.view(np.uint8).copy()).cuda()


def collectives(torch: Any, number: int) -> bool:
    """Each kind in each dtype that NCCL moves or reduces, between the GPUs' memories."""
    stream = torch.cuda.Stream()
    world = NcclWorld(communication.world(), number, stream.cuda_stream)
    tried = wrong = 0
    for dtype in cases.DTYPES:
        for of in cases.collectives(SIZE, dtype):
            if not is_carried(of):
                continue
            sources = [cases.values_of(dtype, of.count, rank) for rank in range(SIZE)]
            wanted = cases.expected(of, sources, RANK)
            source = on_gpu(torch, sources[RANK])
            result = torch.zeros(wanted.nbytes, dtype=torch.uint8, device="cuda")
            torch.cuda.synchronize()
            given = (
                DeviceArray(source.data_ptr(), of.count, dtype),
                DeviceArray(result.data_ptr(), of.result_count, dtype),
            )
            world.start(of, [given[0]], [given[1]]).wait()
            stream.synchronize()
            found = result.cpu().numpy().view(wanted.dtype)
            tried += 1
            if not np.allclose(found.astype(np.complex128), wanted.astype(np.complex128), rtol=1e-5, equal_nan=True):
                wrong += 1
                print(f"rank {RANK}: {of}: {found} instead of {wanted}", flush=True)
    say(f"collectives: {tried} tried, {wrong} wrong on rank 0")
    return wrong == 0


def losses(kind: str, mesh: Mesh | None, is_captured: bool) -> list[float]:
    """Of steps of training on the mesh, or on the interpreter."""
    rulegrad.manual_seed(1)
    with rulegrad.config(device="numpy"):
        model: Any = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 4))
        Tensor.realize(*model.parameters())
        random = np.random.default_rng(2)
        x, y = random.random((8 * SIZE, 64), np.float32), random.integers(0, 4, 8 * SIZE)
        given = Tensor(x), Tensor(y)
    if mesh is not None:
        model = fully_sharded(model, mesh) if kind == "fully" else data_parallel(model, mesh)
        given = shard(x, mesh, data=0), shard(y, mesh, data=0)
    optimizer = optim.SGD(model.parameters(), lr=0.5, momentum=0.9)

    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss: Tensor = model(x).cross_entropy(y)
        loss.backward()
        optimizer.step()
        return loss

    run = rulegrad.jit(step) if is_captured else step
    found = [run(*given).item() for _ in range(6)]
    start = time.perf_counter()
    found.append(run(*given).item())
    if mesh is not None:
        say(f"  a step: {(time.perf_counter() - start) * 1e3:.2f} ms")
    return found


def training(device: str) -> bool:
    if carrier_of(device) is None:
        say("a rank has no NCCL or no GPU of its own")
        return False
    host: list[str] = []
    start = MpiWorld.start

    def noted(self: MpiWorld, of: Any, *given: Any) -> Any:
        host.append(str(of))
        return start(self, of, *given)

    MpiWorld.start = noted  # type: ignore[method-assign, assignment]
    mesh, is_right = Mesh({"data": SIZE}, device=device), True
    for kind in ("data", "fully"):
        for is_captured in (False, True):
            host.clear()
            found, wanted = losses(kind, mesh, is_captured), losses(kind, None, False)
            close = bool(np.allclose(found, wanted, rtol=1e-4))
            say(f"training, {kind}, {'captured' if is_captured else 'eager'}: losses {'agree' if close else 'DIFFER'}")
            say(f"  {found}\n  {wanted}\n  through the host: {sorted(set(host)) or 'nothing'}")
            is_right &= close and not host
    rolled = shard(np.arange(4 * SIZE, dtype=np.float32), mesh, data=0).roll(4, 0).tolist()
    return is_right and bool(rolled == [float((k - 4) % (4 * SIZE)) for k in range(4 * SIZE)])


def main() -> int:
    torch = common.find("torch")
    if torch is None or not torch.cuda.is_available():
        print("it needs torch with a GPU")
        return 1
    number = 0
    if "--shared" in sys.argv:
        os.environ["NCCL_HOSTID"] = f"rank{RANK}"
        kind: Any = type(devices.get("cuda:0"))
        make = kind.communication_stream

        def apart(device: Any) -> Any:
            stream = make(device)
            stream.identity = bytes([RANK + 1]) * 16
            return stream

        kind.communication_stream = apart
    torch.cuda.set_device(number)
    is_right = all_right(collectives(torch, number))
    is_right = all_right(training(f"cuda:{number}")) and is_right
    say("all right" if is_right else "WRONG")
    return int(not is_right)


if __name__ == "__main__":
    sys.exit(main())
