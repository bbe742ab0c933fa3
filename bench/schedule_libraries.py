"""The libraries that bench/schedule.py measures, behind one face: operands, a prepared row, one turn.

Each runs in a process of its own. `prepare` builds a row, runs it once and gives its results; `turn` runs it again and
gives the seconds. Of rulegrad only kernels count: the graph is built, and its plan found, before the clock runs.
"""

from __future__ import annotations

import importlib.util
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

import common  # noqa: F401  # finds rulegrad
from schedule_cases import Case, Work

STEP, MOMENTUM = 1e-4, 0.9  # of training


@dataclass
class Prepared:
    """A row that has run once: its results as arrays, the seconds, and the plan's kernels and estimated seconds."""

    results: Sequence[Any]
    seconds: float
    kernels: int | None = None
    estimate: float | None = None


class Library:
    """Operands are the same in every library: the generator starts from the row's name."""

    nn: Any
    functional: Any

    def start(self, case: Case) -> None:
        self._generator = np.random.default_rng(crc32(case.name.encode()))

    def normal(self, *shape: int, dtype: str = "float32", gradient: bool = False) -> Any:
        """Normal numbers; as int8 between -127 and 127."""
        array = self._normal(shape)
        if dtype == "int8":
            array = np.clip(np.rint(32 * array), -127, 127).astype(np.int8)
        return self.tensor(array, dtype, gradient)

    def integers(self, limit: int, *shape: int) -> Any:
        return self.tensor(self._generator.integers(0, limit, shape), "int64", False)

    def module(self, make: Callable[[Any], Any]) -> Any:
        """A module of normal weights, scaled by what goes into an element; the scales of norms are about 1."""
        module = make(self.nn)
        values = {}
        for name, parameter in module.named_parameters():
            shape = tuple(parameter.shape)
            if len(shape) > 1:
                values[name] = self._normal(shape) * np.float32(math.prod(shape[1:]) ** -0.5)
            else:
                values[name] = np.float32(0.1) * self._normal(shape) + np.float32("weight" in name)
        self.load(module, values)
        return module

    def _normal(self, shape: Sequence[int]) -> Any:
        return self._generator.standard_normal(shape, dtype=np.float32)

    def tensor(self, array: Any, dtype: str, gradient: bool) -> Any:
        raise NotImplementedError

    def load(self, module: Any, values: dict[str, Any]) -> None:
        raise NotImplementedError

    def prepare(self, case: Case, with_plan: bool) -> Prepared:
        raise NotImplementedError

    def turn(self) -> float:
        raise NotImplementedError


class Rulegrad(Library):
    """rulegrad on one device."""

    def __init__(self, device: str) -> None:
        import rulegrad
        from rulegrad import nn
        from rulegrad.compile.realize import realize
        from rulegrad.nn import functional
        from rulegrad.runtime import devices
        from rulegrad.runtime.backends import backend

        rulegrad.config.device = device
        devices.get(device)
        found = devices.report(backend(device.partition(":")[0]))
        number = int(device.partition(":")[2] or 0)
        self.description = next(one.description for one in found.discovery.devices if one.number == number)
        self.device, self.target = device, devices.target_of(device)
        self.nn, self.functional = nn, functional
        self._realize, self._profile = realize, rulegrad.profile
        self._outputs: list[Any] = []  # they hold the operands
        self._uops: list[Any] = []

    def tensor(self, array: Any, dtype: str, gradient: bool) -> Any:
        from rulegrad import Tensor

        made = Tensor(array).cast(dtype).clone().realize()  # in the device's own memory
        made.requires_grad = gradient
        return made

    def load(self, module: Any, values: dict[str, Any]) -> None:
        self.nn.state.load_state_dict(module, values, strict=False)
        for parameter in module.parameters():
            parameter.realize()

    def int8_product(self, a: Any, b: Any) -> Any:
        return a.cast("int32") @ b.cast("int32")

    def prepare(self, case: Case, with_plan: bool) -> Prepared:
        self._outputs, self._uops = [], []  # the last row's operands go
        self.start(case)
        self._outputs = self._built(case.build(self))
        self._uops = [output.uop for output in self._outputs]
        estimate = self._estimate() if with_plan else None
        with self._profile() as profile:
            buffers = self._realize(self._uops)
        results = [buffer.numpy().reshape(output.shape) for buffer, output in zip(buffers, self._outputs, strict=True)]
        return Prepared(results, profile.seconds, len(profile.kernels), estimate)

    def turn(self) -> float:
        with self._profile() as profile:
            self._realize(self._uops)
        return profile.seconds

    def _built(self, work: Work) -> list[Any]:
        from rulegrad import no_grad

        if not work.wanted:
            with no_grad():
                return _several(work.forward())
        results = _several(work.forward())
        results[0].backward(work.upstream)
        gradients = [tensor.grad for tensor in work.wanted]
        if work.only_gradients:
            return gradients
        if not work.trains:
            return [*results, *gradients]
        with no_grad():
            still = [self.tensor(np.zeros(g.shape, np.float32), "float32", False) for g in gradients]
            momenta = [MOMENTUM * m + g for m, g in zip(still, gradients, strict=True)]
            parameters = [p - STEP * m for p, m in zip(work.wanted, momenta, strict=True)]
        return [*results, *momenta, *parameters, *work.changed()]

    def _estimate(self) -> float:
        """Seconds, by the cost model's terms."""
        import rulegrad
        from fusion_rulegrad import POLICIES, estimated
        from rulegrad.compile import compile_graph

        with rulegrad.load_rules(POLICIES / "estimate.rules"):
            return estimated(compile_graph(self._uops, self.target), self.target)


class Torch(Library):
    """PyTorch, eager or compiled; a whole call counts."""

    def __init__(self, threads: int, compiled: bool) -> None:
        import torch

        torch.set_num_threads(threads)
        self._torch, self._compiled, self.version = torch, compiled, torch.__version__
        self.nn, self.functional = torch.nn, torch.nn.functional
        self._call: Callable[[], Any] = tuple

    def tensor(self, array: Any, dtype: str, gradient: bool) -> Any:
        made = self._torch.from_numpy(array).to(getattr(self._torch, dtype))
        return made.requires_grad_(gradient)

    def load(self, module: Any, values: dict[str, Any]) -> None:
        module.load_state_dict({name: self._torch.from_numpy(array) for name, array in values.items()}, strict=False)

    def int8_product(self, a: Any, b: Any) -> Any:
        return self._torch._int_mm(a, b)

    def prepare(self, case: Case, with_plan: bool) -> Prepared:
        self._call = tuple  # the last row's operands go
        self.start(case)
        self._call = self._call_of(case.build(self))
        start = time.perf_counter()
        results = self._call()
        seconds = time.perf_counter() - start
        return Prepared([result.detach().float().numpy().copy() for result in results], seconds)

    def turn(self) -> float:
        start = time.perf_counter()
        self._call()
        return time.perf_counter() - start

    def _call_of(self, work: Work) -> Callable[[], Sequence[Any]]:
        """The call that is timed; it gives the results that rulegrad gives."""
        torch, wanted = self._torch, list(work.wanted)
        forward = torch.compile(work.forward) if self._compiled else work.forward
        if not wanted:
            without: Callable[[], Sequence[Any]] = torch.no_grad()(lambda: _several(forward()))
            return without
        gradients = torch.autograd.grad
        if work.only_gradients:
            result = forward()
            return lambda: gradients(result, wanted, work.upstream, retain_graph=True)
        if not work.trains:

            def both() -> Sequence[Any]:
                results = _several(forward())
                return [*results, *gradients(results[0], wanted, work.upstream)]

            return both
        optimizer = torch.optim.SGD(wanted, STEP, MOMENTUM)

        def step() -> Sequence[Any]:
            optimizer.zero_grad()
            loss = forward()
            loss.backward()
            optimizer.step()
            momenta = [optimizer.state[parameter]["momentum_buffer"] for parameter in wanted]
            return [loss, *momenta, *wanted, *work.changed()]

        return step


#: the names of rows that are others in a folder of recipes
RECIPES = {
    "matmul 1024, bfloat16": "bf16 matmul 1024 (widened)",
    "matmul 1024, int8": "int8 matmul 1024 (vpdpbusd)",
    "matmul 16x128x1024": "16x128x1024, b packed before",
}


class Recipes(Library):
    """Kernels written by hand: a folder with a `run.py` that has `cases(families)`, `library` and the cases' names.

    A case is (family, name, work, unit, source, defines, make, eager, outputs, tolerance): `make(library(source,
    compiler, *defines))` is the call, `eager()` the results to compare with. A row that has none is left out.
    """

    FAMILIES = ("matmul", "conv", "rows", "attention", "small", "quant")

    def __init__(self, folder: Path, compiler: str, threads: int) -> None:
        spec = importlib.util.spec_from_file_location("recipes_run", folder / "run.py")
        if spec is None or spec.loader is None:
            raise ImportError(f"{folder} has no run.py")
        self._module: Any = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self._module)
        self._compiler, self._threads = compiler, threads
        self._call: Callable[[], Any] = tuple
        self._found: Sequence[Any] = ()

    def prepare(self, case: Case, with_plan: bool) -> Prepared:
        wanted = RECIPES.get(case.name, case.name)
        for family in self.FAMILIES:
            for found in self._module.cases([family]):
                if found[1] == wanted:
                    return self._prepared(found)
        raise LookupError("there is no recipe for it")

    def _prepared(self, found: Sequence[Any]) -> Prepared:
        self._found = found  # the call has the addresses of operands that this holds
        _, _, _, _, source, defines, make, eager, outputs, tolerance = found
        self._call = make(self._module.library(source, self._compiler, *defines, threads=self._threads))
        seconds = self.turn()
        for output, right in zip(outputs, _several(eager())):
            error = difference([output], [right.detach().float().numpy().reshape(output.shape)])
            if error > tolerance:
                raise ArithmeticError(f"the recipe is wrong by {error:.1e}")
        return Prepared([], seconds)

    def turn(self) -> float:
        start = time.perf_counter()
        self._call()
        return time.perf_counter() - start


def difference(found: Sequence[Any], expected: Sequence[Any]) -> float:
    """The largest difference of two lists of arrays, as a share of the largest element of the array it is in."""
    if [array.shape for array in found] != [array.shape for array in expected]:
        return math.inf
    worst = 0.0
    for one, other in zip(found, expected, strict=True):
        one, other = one.astype(np.float64), other.astype(np.float64)
        error = float(np.abs(one - other).max()) / (float(np.abs(other).max()) or 1.0)
        worst = max(worst, math.inf if math.isnan(error) else error)
    return worst


def _several(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple | list) else [result]
