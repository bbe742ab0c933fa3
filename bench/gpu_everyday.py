"""Programs as people write them on an NVIDIA GPU, beside PyTorch: what is much slower than it ought to be.

    python bench/gpu_everyday.py [--device NAME] [--dtype NAME] [--scale N] [--jobs N] [--top N] [WORD ...]

The programs are those of bench/everyday.py. rulegrad's time is that of its kernels by the device's own clock, and
that of a captured call; PyTorch's is that of a replayed graph of its kernels (of an eager call where it cannot be
captured, marked `e`), and of an eager call. --scale: as many times the first size of each shape, where a program can be
called so. --jobs: so many processes compile before anything is timed. --top: so many kernels are printed below a
program that takes over 1.3 times PyTorch's time. Exit status 1 when values differ, or a program does not run.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import common
import everyday
import rulegrad
from everyday_cases import FORWARD, Case
from everyday_losses import LOSSES
from rulegrad.runtime import devices

RUNS = 8
Program = tuple[str, Case, bool]  # its name, and whether it is a loss that is differentiated


def programs(options: argparse.Namespace) -> Iterator[Program]:
    named = [(name, case, False) for name, case in FORWARD.items()]
    named += [(f"gradient: {name}", case, True) for name, case in LOSSES.items()]
    for name, case, is_loss in named:
        if not options.words or any(word in name for word in options.words):
            yield name, scaled(case, options.scale), is_loss


def scaled(case: Case, scale: int) -> Case:
    """The program with as many times the first size of each shape that begins as the first one does."""
    first = case.shapes.split()[0].lstrip("i").split("x")[0]
    grown = []
    for shape in case.shapes.split():
        kind = "i" if shape[0] == "i" else ""
        head, *others = shape.removeprefix("i").split("x")
        grown.append(kind + "x".join([str(int(head) * (scale if head == first else 1)), *others]))
    return Case(" ".join(grown), case.call)


def compiled(given: tuple[argparse.Namespace, int]) -> None:
    """Compiles the share of one of several processes, into the cache on disk."""
    options, number = given
    rulegrad.config.device = options.device
    for _, case, is_loss in list(programs(options))[number :: options.jobs]:
        try:
            everyday.ours(case, is_loss, everyday.inputs_of(case), options)()
        except Exception:  # the timed run says what is wrong
            continue


def seconds(call: Callable[[], object], wait: Callable[[], object]) -> float:
    """The least of some calls and what they launched."""
    best = float("inf")
    for run in range(RUNS + 2):
        start = time.perf_counter()
        call()
        wait()
        best = min(best, time.perf_counter() - start) if run > 1 else best
    return best


def graph_of(torch: Any, call: Callable[[], object]) -> Callable[[], object]:
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay  # type: ignore[no-any-return]


def events(torch: Any, call: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(RUNS + 2):
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        before.record()
        call()
        after.record()
        torch.cuda.synchronize()
        best = min(best, before.elapsed_time(after) * 1e-3)
    return best


def difference(found: Any, wanted: Any) -> float:
    """The largest one, relative to the largest number."""
    mine, theirs = found.numpy().astype(np.float64), wanted.detach().double().cpu().numpy()
    return float(np.abs(mine - theirs).max(initial=0) / max(np.abs(theirs).max(initial=0), 1e-6))


def line(torch: Any, program: Program, options: argparse.Namespace) -> tuple[str, bool]:
    """The line to print for a program, and whether its values are right."""
    name, case, is_loss = program
    arrays = everyday.inputs_of(case)
    theirs = everyday.peers(torch, case, is_loss, arrays, options)
    try:
        wanted = theirs()
    except RuntimeError as error:  # scaled sizes do not fit, or it lacks a dtype
        return f"{name:<34} torch: {str(error).splitlines()[0][:80]}", True
    mine = everyday.ours(case, is_loss, arrays, options)
    found = mine()
    off = max(difference(a, b) for a, b in zip(found, wanted, strict=True))
    is_right = off <= everyday.TOLERANCE[options.dtype]
    profiles = []
    for _ in range(RUNS):
        with rulegrad.profile() as profile:
            mine()
        profiles.append(profile)
    best = min(profiles, key=lambda one: one.seconds)
    call = seconds(mine, devices.get(options.device).synchronize)
    mark = " "
    try:
        replayed = events(torch, graph_of(torch, theirs))
    except RuntimeError:
        torch.cuda.synchronize()
        replayed, mark = events(torch, theirs), "e"
    eager = seconds(theirs, torch.cuda.synchronize)
    ratio = best.seconds / replayed
    text = f"{name:<34}{len(best.kernels):>4}{best.seconds * 1e6:>9.1f}{call * 1e6:>9.1f}{replayed * 1e6:>9.1f}{mark}"
    text += f"{eager * 1e6:>8.1f}{ratio:>7.2f}" + ("" if is_right else f"   WRONG by {off:.1e}")
    if ratio > 1.3 and options.top:
        text += "\n" + "\n".join(str(best).splitlines()[1 : options.top + 1])
    return text, is_right


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--dtype", default="float32", choices=everyday.TOLERANCE)
    parser.add_argument("--scale", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--top", type=int, default=0)
    parser.add_argument("words", nargs="*", metavar="WORD")
    options = parser.parse_args()
    torch = common.find("torch")
    if torch is None or not torch.cuda.is_available():
        print("it needs torch with a GPU")
        return 1
    if options.jobs > 1:
        with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
            pool.map(compiled, [(options, number) for number in range(options.jobs)])
    torch.set_default_device("cuda")
    rulegrad.config.device = options.device
    print(f"{'µs':<34}kernels{'':>6}{'call':>9}{'torch':>9}{'eager':>9}{'ratio':>7}", flush=True)
    wrong = False
    for program in programs(options):
        try:
            text, is_right = line(torch, program, options)
        except Exception as error:  # the other programs are measured
            text, is_right = f"{program[0]:<34} {type(error).__name__}: {str(error)[:200]}", False
        wrong |= not is_right
        print(text, flush=True)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
