"""Programs as people write them, beside torch: what is much slower than it ought to be.

    python bench/everyday.py [--json] [--quick] [--device NAME] [--dtype NAME] [WORD ...]

Programs of a few lines (bench/everyday_cases.py), and losses that are differentiated (bench/everyday_losses.py). Each
is captured (`rulegrad.jit`) and timed beside torch's eager one, with as many threads; the values are compared. WORD:
only those whose names have it. --quick: fewer repeats.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

import rulegrad
from common import Row, arguments, find, note, report
from everyday_cases import FORWARD, Case
from everyday_losses import LOSSES
from rulegrad.nn import functional

TOLERANCE = {"float32": 1e-3, "float64": 1e-9, "float16": 2e-2, "bfloat16": 5e-2}


def sizes_of(text: str) -> list[int]:
    return [int(size) for size in text.split("x")]


def inputs_of(case: Case) -> list[np.ndarray[Any, Any]]:
    numbers = np.random.default_rng(0)

    def drawn(text: str) -> np.ndarray[Any, Any]:
        if text[0] == "i":
            return numbers.integers(0, 100, sizes_of(text[1:]))
        if text[0] == "u":
            return numbers.integers(0, 256, sizes_of(text[1:]), np.uint8)
        return numbers.standard_normal(sizes_of(text)).astype(np.float32)

    return [drawn(text) for text in case.shapes.split()]


def results_of(found: Any) -> list[Any]:
    return [part for part in found if part is not None] if isinstance(found, (tuple, list)) else [found]


def seconds(call: Callable[[], object], repeats: int) -> float:
    """The least of some calls, after two that do not count; of short ones as many as 50 ms have room for."""
    times: list[float] = []
    while len(times) < repeats + 2 or (sum(times[2:]) < 0.05 and len(times) < 500):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times[2:])


def ours(case: Case, is_loss: bool, arrays: Sequence[Any], options: Any) -> Callable[[], list[Any]]:
    tensors = [
        rulegrad.Tensor(array, device=options.device)
        .cast({"f": options.dtype, "i": "int64", "u": "uint8"}[array.dtype.kind])
        .realize()
        for array in arrays
    ]
    floats = tuple(place for place, array in enumerate(arrays) if array.dtype.kind == "f")

    def called(*given: Any) -> Any:
        return case.call(rulegrad, functional, *given)

    captured = rulegrad.jit(rulegrad.grad(called, floats) if is_loss else called)
    return lambda: [part.realize() for part in results_of(captured(*tensors))]


def peers(torch: Any, case: Case, is_loss: bool, arrays: Sequence[Any], options: Any) -> Callable[[], list[Any]]:
    tensors = [torch.from_numpy(array.copy()).to(torch.get_default_device()) for array in arrays]
    tensors = [x.to(getattr(torch, options.dtype)) if x.is_floating_point() else x for x in tensors]
    floats = [x.requires_grad_(is_loss) for x in tensors if x.is_floating_point()]

    def called() -> list[Any]:
        with nullcontext() if is_loss else torch.no_grad():
            found = case.call(torch, torch.nn.functional, *tensors)
            return results_of(torch.autograd.grad(found, floats, materialize_grads=True) if is_loss else found)

    return called


def difference(found: Any, wanted: Any) -> float:
    """The largest one, relative to the largest number."""
    mine, theirs = (np.asarray(x.tolist(), np.float64) for x in (found, wanted))
    return float(np.abs(mine - theirs).max(initial=0) / max(np.abs(theirs).max(initial=0), 1e-6))


def rows(torch: Any, options: Any) -> Iterator[Row]:
    programs = [(name, case, False) for name, case in FORWARD.items()]
    programs += [(f"gradient: {name}", case, True) for name, case in LOSSES.items()]
    for name, case, is_loss in programs:
        if options.words and not any(word in name for word in options.words):
            continue
        note(name)
        arrays = inputs_of(case)
        repeats = 3 if options.quick else 9
        row = Row(name, "ms")
        mine = ours(case, is_loss, arrays, options)
        row.put("rulegrad", seconds(mine, repeats) * 1e3)
        if torch is not None:
            theirs = peers(torch, case, is_loss, arrays, options)
            try:
                row.put("torch", seconds(theirs, repeats) * 1e3)
            except (RuntimeError, NotImplementedError) as error:  # it lacks some dtypes
                note(f"{name}: torch: {error}")
            else:
                off = max(difference(a, b) for a, b in zip(mine(), theirs(), strict=True))
                if not off <= TOLERANCE[options.dtype]:
                    note(f"{name}: differs by {off:.1e} of the largest number")
        yield row


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--device", default="c")
    parser.add_argument("--dtype", default="float32", choices=TOLERANCE)
    parser.add_argument("words", nargs="*", metavar="WORD")
    options = parser.parse_args()
    torch = find("torch")
    if torch is not None:
        torch.set_num_threads(len(os.sched_getaffinity(0)))
    report(list(rows(torch, options)), options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
