"""The process that builds and runs kernels which may crash or hang: `python -m rulegrad.compile.tuning.child DEVICE`.

A request is a line of JSON, and so is its answer. `prepare` makes sample inputs, and the results that are right;
`build` builds a kernel, which then is on disk for other processes; `measure` compares a kernel's results, and times it.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rulegrad import engine
from rulegrad.config import config
from rulegrad.errors import RulegradError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import as_dtype
from rulegrad.runtime import devices
from rulegrad.runtime.buffer import Buffer
from rulegrad.runtime.device import Executable
from rulegrad.runtime.kernel import Kernel, TensorMap

Array = np.ndarray[Any, Any]

_LEAST_LAUNCHES, _MOST_LAUNCHES = 3, 1000
_HOPELESS = 1.5  # times the kernel beside it: after the least number of launches no more are made
_SLOW = 10  # times what was to be spent: no more launches, were there only one
_GRACE = 5  # seconds that a request may take longer than it was given, where nobody ends the process


class Bench:
    """One device, and the samples of the kernel whose schedules are measured."""

    def __init__(self, device: str) -> None:
        self._name = device
        self._device = devices.get(device)
        self._samples: list[Array] = []
        self._results: list[Array] = []
        self._tolerances: list[float] = []
        self._buffers: list[Buffer] = []
        self._writes_inputs = False

    def prepare(self, request: dict[str, Any]) -> dict[str, Any]:
        """Samples for the slots, and the results of the kernel that is right, from a file or written to it."""
        self._tolerances, self._writes_inputs = request["tolerances"], request["writes_inputs"]
        path = Path(request["results"])
        slots = [(tuple(shape), dtype) for shape, dtype in request["slots"]]
        self._buffers = [Buffer(shape, dtype, self._name) for shape, dtype in slots]
        if path.exists():
            with np.load(path) as read:
                self._samples = [_of_bits(read[f"sample{k}"], *slot) for k, slot in enumerate(slots)]
                self._results = [_of_bits(read[f"result{k}"], *slot) for k, slot in enumerate(slots)]
            return {}
        executable = self._built(request["kernel"])
        for is_positive in (False, True):
            self._samples = [_sample(k, *slot, is_positive) for k, slot in enumerate(slots)]
            self._results = self._run(executable)
            if _is_telling(self._results):
                break
        kept: dict[str, Any] = {f"sample{k}": _bits(array) for k, array in enumerate(self._samples)}
        kept |= {f"result{k}": _bits(array) for k, array in enumerate(self._results)}
        np.savez(path, **kept)
        return {}

    def build(self, request: dict[str, Any]) -> dict[str, Any]:
        """Builds a kernel."""
        self._built(request["kernel"])
        return {}

    def measure(self, request: dict[str, Any]) -> dict[str, Any]:
        """The least time of a launch in seconds, or what is wrong with its results; and that of a kernel beside it.

        They take turns, so that a slow spell of the machine meets both.
        """
        executables = [self._built(request["kernel"])]
        wrong = _difference(self._run(executables[0]), self._results, self._tolerances)
        if wrong:
            return {"wrong": wrong}
        if request["beside"] is not None:
            executables.append(self._built(request["beside"]))
        handles = [buffer.handle for buffer in self._buffers]
        times: list[list[float]] = [[] for _ in executables]
        spent = 0.0
        while len(times[0]) < _MOST_LAUNCHES and (spent < request["spend"] or len(times[0]) < _LEAST_LAUNCHES):
            for executable, of_one in zip(executables, times, strict=True):
                if self._writes_inputs:
                    self._fill()
                of_one.append(_seconds(executable, handles))
                spent += of_one[-1]
            if len(times[0]) >= _LEAST_LAUNCHES and min(times[0]) > _HOPELESS * min(times[-1]):
                break
            if spent > _SLOW * request["spend"]:
                break
        return {"seconds": min(times[0]), "beside": min(times[-1])}

    def _built(self, described: dict[str, Any]) -> Executable:
        kernel = kernel_of(described)
        return self._device.compile([kernel])[0]

    def _fill(self) -> None:
        for buffer, sample in zip(self._buffers, self._samples, strict=True):
            buffer.copy_in(sample)

    def _run(self, executable: Executable) -> list[Array]:
        """The contents of all buffers after a launch on the samples: outputs, and inputs, which are not to change."""
        self._fill()
        executable([buffer.handle for buffer in self._buffers], True)
        self._device.synchronize()
        return [buffer.numpy() for buffer in self._buffers]


def _seconds(executable: Executable, handles: Sequence[Any]) -> float:
    """Of one launch. With one thread the processor's time bounds it too, which leaves out what other programs take."""
    start, of_process = time.perf_counter(), time.process_time()
    told = executable(handles, True)
    seconds = time.perf_counter() - start if told is None else told
    return min(seconds, time.process_time() - of_process) if config.threads == 1 else seconds


def described_kernel(kernel: Kernel) -> dict[str, Any]:
    """A kernel as data, without its graph, which a device that compiles does not look at."""
    names = ("name", "source", "grid", "local", "slots", "flops", "nbytes", "local_bytes", "checks_indices")
    maps = [[m.slot, m.itemsize, m.shape, m.sizes, m.box] for m in kernel.maps]
    return {**{name: getattr(kernel, name) for name in names}, "maps": maps}


def kernel_of(described: dict[str, Any]) -> Kernel:
    """The kernel that `described_kernel` described."""
    values = dict(described)
    maps = [TensorMap(slot, size, *map(tuple, rest)) for slot, size, *rest in values.pop("maps")]
    values["grid"], values["local"] = tuple(values["grid"]), tuple(values["local"])
    engine.install_op_table()
    return Kernel(graph=UOp("SINK", ()), maps=tuple(maps), **values)


# ---- samples and results ----


def _sample(slot: int, shape: tuple[int, ...], dtype: str, is_positive: bool) -> Array:
    """Multiples of 1/8 below 1, whose sums and products are exact; small integers, which are places in most tensors."""
    numbers = np.random.default_rng(slot)
    kind = as_dtype(dtype)
    if kind.is_float or kind.is_complex:
        low = 1 if is_positive else -7
        values = numbers.integers(low, 8, shape) / 8
        return values.astype(kind.numpy)
    return numbers.integers(0, 2 if kind == "bool" else 8, shape).astype(kind.numpy)


def _is_telling(results: Sequence[Array]) -> bool:
    """Whether most of the numbers are numbers, so that a wrong one would be seen."""
    finite = [np.isfinite(r.astype(np.float64)).mean() for r in results if r.size and r.dtype.kind not in "biuc"]
    return not finite or min(finite) > 0.5


def _difference(found: Sequence[Array], right: Sequence[Array], tolerances: Sequence[float]) -> str:
    """The wrong elements in words, "" for none. A tolerance is a share of the largest number in its array; 0: equal."""
    for slot, (one, other, tolerance) in enumerate(zip(found, right, tolerances, strict=True)):
        if not one.size:
            continue
        with np.errstate(all="ignore"):
            if tolerance == 0:
                wrong = _bits(one) != _bits(other)
            else:
                a, b = (x.astype(np.complex128 if x.dtype.kind == "c" else np.float64) for x in (one, other))
                scale = float(np.max(np.abs(b), where=np.isfinite(b), initial=0.0))
                same = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= tolerance * scale)
                wrong = ~same.reshape(-1)
        if wrong.any():
            at = int(np.argmax(wrong))
            return f"{int(wrong.sum())} of {one.size} elements of buffer {slot} are wrong, the first at {at}"
    return ""


def _bits(array: Array) -> Array:
    """The elements of any dtype as integers, or pairs of them, which files and comparisons know."""
    size = array.dtype.itemsize
    words = np.ascontiguousarray(array).reshape(-1).view(f"u{min(size, 8)}")
    return words if size <= 8 else words.reshape(-1, size // 8)


def _of_bits(bits: Array, shape: tuple[int, ...], dtype: str) -> Array:
    return np.ascontiguousarray(bits).reshape(-1).view(as_dtype(dtype).numpy).reshape(shape)


# ---- the process ----


def _end_after(seconds: float) -> None:
    """Ends this process then, for a kernel that hangs is not to outlive a parent that was killed; 0: not any more.

    A signal does, where the system has it: the interpreter may be waiting for the kernel.
    """
    if hasattr(signal, "alarm"):
        signal.alarm(math.ceil(seconds) + _GRACE if seconds else 0)


def serve(device: str) -> None:
    """Answers requests until the input ends. What a driver prints goes nowhere near the answers."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(**values: Any) -> None:
        print(json.dumps(values), file=answers, flush=True)

    try:
        bench = Bench(device)
    except Exception as error:
        answer(error=f"{type(error).__name__}: {error}")
        return
    answer()
    for line in sys.stdin:
        request = json.loads(line)
        _end_after(request["limit"])
        try:
            answer(**getattr(bench, request["do"])(request))
        except RulegradError as error:
            answer(error=error.problem)
        except Exception as error:  # of a driver, whatever it is
            answer(error=f"{type(error).__name__}: {error}")
        _end_after(0)


if __name__ == "__main__":
    serve(sys.argv[1])
