"""Programs in one process after another with one cache on disk: milliseconds of their calls, on the device c.

    python bench/restarts.py [PROGRAM ...]

What the first process compiled is on disk for the second, and the second sees other sizes than the first: another
image, a prompt of another length. Each column is a call that is the first of its kind in its process: the first one,
the second size, which is the one that makes the plan for all sizes, and a third.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np


def images(sizes: tuple[int, ...]) -> Iterator[Any]:
    """ResNet-18 on images of these sizes."""
    import rulegrad as rg
    from rulegrad import nn
    from schedule_models import _resnet18

    network = _resnet18(nn.functional)(nn).eval()
    with rg.no_grad():
        for size in sizes:
            x = rg.Tensor(
                np.random.default_rng(size).standard_normal((1, 3, size, size)).astype(np.float32), device="c"
            )
            yield network(x).numpy()


def chunks(sizes: tuple[int, ...]) -> Iterator[Any]:
    """An encoder on sequences of these lengths, which are padded to chunks of 16."""
    import rulegrad as rg
    from rulegrad import nn

    layers = [nn.TransformerEncoderLayer(128, 4, 256, batch_first=True, dropout=0.0) for _ in range(3)]
    with rg.no_grad():
        for size in sizes:
            x = rg.Tensor(np.random.default_rng(size).standard_normal((1, size, 128)).astype(np.float32), device="c")
            x = nn.functional.pad(x, (0, 0, 0, -size % 16)).reshape(-1, 16, 128)
            for layer in layers:
                x = layer(x)
            yield x.reshape(1, -1, 128)[:, :size].numpy()


def tokens(sizes: tuple[int, ...]) -> Iterator[Any]:
    """A decoder with caches that grow, on prompts of one of these lengths."""
    import growing
    import rulegrad as rg

    decoder = growing.decoded(rg, "c", sizes[0])
    yield from decoder


#: each program with the sizes of the first process, and of the second
PROGRAMS: dict[str, tuple[Callable[[tuple[int, ...]], Iterator[Any]], tuple[int, ...], tuple[int, ...]]] = {
    "images": (images, (224, 192, 160), (160, 256, 288)),
    "chunks": (chunks, (100, 130, 75), (91, 150, 201)),
    "tokens": (tokens, (4,), (4,)),
}


def measured(name: str, sizes: tuple[int, ...]) -> list[float]:
    """The milliseconds of each call in a process of its own."""
    command = [sys.executable, __file__, "--child", json.dumps([name, sizes])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: list[float] = json.loads(done.stdout)
    return found


def child(name: str, sizes: tuple[int, ...]) -> None:
    """Runs a program, and prints the milliseconds of each call."""
    found, start = [], time.perf_counter()
    for _ in PROGRAMS[name][0](sizes):
        end = time.perf_counter()
        found.append((end - start) * 1e3)
        start = end
    print(json.dumps(found))


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", choices=[*PROGRAMS, []], help="all without any")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        name, sizes = json.loads(options.child)
        child(name, tuple(sizes))
        return
    print("| program | process | first | second size | third |\n|---|---|---|---|---|")
    for name in options.programs or PROGRAMS:
        _, first, second = PROGRAMS[name]
        with tempfile.TemporaryDirectory() as folder:
            os.environ["RULEGRAD_CACHE"] = folder
            for process, sizes in (("first", first), ("second", second), ("third", second)):
                calls = " | ".join(f"{ms:.0f}" for ms in measured(name, sizes)[:3])
                print(f"| {name} | {process} | {calls} |", flush=True)


if __name__ == "__main__":
    main()
