"""Models on an NVIDIA GPU beside PyTorch: the time of all kernels, of a whole call, and the kernels that take longest.

    python bench/gpu_models.py [--device NAME] [--top N] [--quick] [NAME...]

NAME: the rows whose names contain one of these. The models are those of bench/schedule.py at a GPU's sizes, with the
same weights in both libraries, and attention with its gradients. rulegrad's time is that of its kernels by the device's
own clock, the least of several runs; PyTorch's that of a replayed graph of its kernels, or of an eager call where it
cannot be captured, by events. --top: so many rows of the profile are printed below a model. Without a GPU that torch
finds its columns are empty. Exit status 1 when results differ from PyTorch's, or a model does not run.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

import common  # noqa: F401  # finds rulegrad
import schedule_models as models
from rulegrad.runtime import devices
from schedule_cases import Case, Work
from schedule_libraries import Rulegrad, Torch, difference

RUNS = 8


def cases(quick: bool) -> Iterator[Case]:
    """The rows: a quick run has small ones."""
    length, batch, images = (64, 2, 2) if quick else (1024, 8, 32)
    for dtype, tolerance in (("float32", 2e-2), ("bfloat16", 0.1)):
        yield Case(f"GPT-2 small, T = {length}, {dtype}", partial(gpt2, length=length, layers=2 if quick else 12),
                   dtype=dtype, tolerance=tolerance)  # fmt: skip
        yield Case(f"GPT-2 block, batch {batch}, T = {length}, {dtype}", partial(block, batch=batch, length=length),
                   dtype=dtype, tolerance=tolerance)  # fmt: skip
        yield Case(f"ResNet-18, batch {images}, {dtype}",
                   partial(models.resnet18, images=images, training=False), dtype=dtype,
                   tolerance=3 * tolerance)  # fmt: skip
        yield Case(f"attention and gradients, {batch} x 16 x {2 * length} x 64, {dtype}",
                   partial(attention, batch=batch, length=2 * length), dtype=dtype, tolerance=tolerance)  # fmt: skip
    # A few units turn from off to on, so gradients of the two libraries differ.
    yield Case("nanoGPT 6x384, T = 256, batch 8, training step, float32", models.nanogpt, tolerance=5e-2)
    yield Case(f"GPT-2 layers, T = {length}, batch {batch}, training step, bfloat16",
               partial(training, batch=batch, length=length, layers=2), dtype="bfloat16", tolerance=0.2)  # fmt: skip
    yield Case(f"ResNet-18, batch {images}, training step, float32",
               partial(models.resnet18, images=images, training=True), tolerance=1.0)  # fmt: skip


def gpt2(library: Any, length: int, layers: int) -> Work:
    model = models._decoder(library, layers, models.WIDTH, models.HEADS, length, models.VOCABULARY)
    tokens = library.integers(models.VOCABULARY, 1, length)
    return Work(lambda: model(tokens))


def training(library: Any, batch: int, length: int, layers: int) -> Work:
    model = models._decoder(library, layers, models.WIDTH, models.HEADS, length, models.VOCABULARY)
    tokens, labels = (library.integers(models.VOCABULARY, *shape) for shape in ((batch, length), (batch * length,)))
    return models._training(library, model, tokens, labels)


def block(library: Any, batch: int, length: int) -> Work:
    model = library.module(lambda nn: models._block(nn, library.functional, models.WIDTH, models.HEADS))
    x = library.normal(batch, length, models.WIDTH)
    return Work(lambda: model(x))


def attention(library: Any, batch: int, length: int) -> Work:
    q, k, v = (library.normal(batch, 16, length, 64, gradient=True) for _ in range(3))
    upstream = library.normal(batch, 16, length, 64)
    attended = library.functional.scaled_dot_product_attention
    return Work(lambda: attended(q, k, v, is_causal=True), [q, k, v], upstream)


class Ours(Rulegrad):
    """rulegrad, whose operands have a row's dtype."""

    dtype = "float32"

    def __init__(self, device: str) -> None:
        super().__init__(device)
        self._wait = devices.get(device).synchronize

    def tensor(self, array: Any, dtype: str, gradient: bool) -> Any:
        return super().tensor(array, self.dtype if dtype == "float32" else dtype, gradient)

    def module(self, make: Callable[[Any], Any]) -> Any:
        made = super().module(make).to(self.dtype)
        for parameter in made.parameters():
            parameter.realize()
        return made

    def _built(self, work: Work) -> list[Any]:
        return [one.cast("float32") for one in super()._built(work)]

    def arrays(self, case: Case) -> Sequence[Any]:
        """The results of a row, which is prepared."""
        self.dtype = case.dtype
        return self.prepare(case, with_plan=False).results

    def best(self) -> tuple[float, float, Any]:
        """Seconds of all kernels, of a whole call, and the profile of the first."""
        found = []
        for _ in range(RUNS):
            with self._profile() as profile:
                self._realize(self._uops)
            found.append(profile)
        whole = []
        for _ in range(RUNS):
            start = time.perf_counter()
            self._realize(self._uops)
            self._wait()
            whole.append(time.perf_counter() - start)
        kernels = min(found, key=lambda one: one.seconds)
        return kernels.seconds, min(whole), kernels


class Theirs(Torch):
    """PyTorch on a GPU, likewise."""

    dtype = "float32"

    def tensor(self, array: Any, dtype: str, gradient: bool) -> Any:
        found = getattr(self._torch, self.dtype if dtype == "float32" else dtype)
        made = self._torch.from_numpy(array).to("cuda", found)
        return made.requires_grad_(gradient)

    def module(self, make: Callable[[Any], Any]) -> Any:
        return super().module(make).to("cuda", getattr(self._torch, self.dtype))

    def arrays(self, case: Case) -> list[Any]:
        self.dtype = case.dtype
        self.start(case)
        self._call = self._call_of(case.build(self))
        return [result.detach().float().cpu().numpy() for result in self._call()]

    def best(self) -> float:
        """Seconds of a call: of its graph, or eager."""
        try:
            return self._timed(self._captured())
        except RuntimeError as error:
            print(f"  torch could not capture it: {str(error).splitlines()[0]}")
            self._torch.cuda.synchronize()
            return self._timed(self._call)

    def _captured(self) -> Callable[[], Any]:
        cuda = self._torch.cuda
        side = cuda.Stream()
        with cuda.stream(side):
            for _ in range(3):
                self._call()
        cuda.synchronize()
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            self._call()
        return graph.replay  # type: ignore[no-any-return]

    def _timed(self, call: Callable[[], Any]) -> float:
        cuda, best = self._torch.cuda, float("inf")
        for _ in range(RUNS + 3):
            before, after = (cuda.Event(enable_timing=True) for _ in range(2))
            before.record()
            call()
            after.record()
            cuda.synchronize()
            best = min(best, before.elapsed_time(after) * 1e-3)
        return best


def main() -> int:
    options = parsed()
    ours = Ours(options.device)
    theirs = torch_on_a_gpu()
    print(f"{ours.description}\n{'':<62}{'kernels':>8}{'ms':>9}{'call':>9}{'torch':>9}", flush=True)
    is_wrong = False
    for case in cases(options.quick):
        if options.names and not any(name in case.name for name in options.names):
            continue
        try:
            line, profile = row(case, ours, theirs)
        except Exception as error:  # the other rows are measured
            line, profile = f"{case.name:<62} {type(error).__name__}: {error}", None
        is_wrong |= profile is None or "WRONG" in line
        print(line, flush=True)
        if profile is not None and options.top:
            print("\n".join(str(profile).splitlines()[1 : options.top + 1]), flush=True)
    return int(is_wrong)


def row(case: Case, ours: Ours, theirs: Theirs | None) -> tuple[str, Any]:
    """The line of a model, and the profile of its kernels."""
    found = ours.arrays(case)
    seconds, call, profile = ours.best()
    line = f"{case.name:<62}{len(profile.kernels):>8}{seconds * 1e3:>9.3f}{call * 1e3:>9.3f}"
    if theirs is not None:
        expected = theirs.arrays(case)
        error = difference(found, expected)
        wrong = "" if error <= case.tolerance else f"   WRONG by {error:.2g}: {_worst(found, expected)}"
        line += f"{theirs.best() * 1e3:>9.3f}{wrong}"
    return line, profile


def _worst(found: Sequence[Any], expected: Sequence[Any]) -> str:
    """Which result differs most, where, and what the two libraries have there."""
    number = max(range(len(found)), key=lambda k: difference(found[k : k + 1], expected[k : k + 1]))
    one, other = found[number], expected[number]
    place = np.unravel_index(np.abs(one.astype(np.float64) - other).argmax(), one.shape)
    return f"result {number} of shape {one.shape} at {tuple(map(int, place))}: {one[place]:.5g} for {other[place]:.5g}"


def torch_on_a_gpu() -> Theirs | None:
    try:
        theirs = Theirs(1, compiled=False)
    except ImportError:
        return None
    return theirs if theirs._torch.cuda.is_available() else None


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", metavar="NAME", nargs="*")
    parser.add_argument("--device", default="cuda:0", help="cuda:0 without it")
    parser.add_argument("--top", type=int, default=0, help="rows of the profile below each")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
