"""Random tensor programs on devices, against NumPy: every dtype, gradients, several outputs, updates through views.

    python bench/fuzz.py --device c --programs 1000 --seed 0
    python bench/fuzz.py --captured     (each as a captured function, which is replayed)

A program is made from its number. NumPy runs it op by op in the same dtypes. Integers and truth values must be equal;
how far floats may be off follows from the program: it is run again in float64 a few times, with every rounded result,
and what it is computed from, changed by about a digit (as in stochastic arithmetic), and a result may differ by a
multiple of what that changes. What even then is not one value (the place of the largest of two numbers that rounding
makes equal) is not compared. Gradients are compared with difference quotients along a random direction. A program that
differs is made smaller and printed as Python.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import common  # noqa: F401  (finds a developer build)
from fuzz_idioms import IDIOMS
from fuzz_idioms import NOT_SMOOTH as NOT_SMOOTH_IDIOMS
from fuzz_making import Maker
from fuzz_programs import (
    COMPLEX,
    FLOATS,
    NUMPY_NAMES,
    Array,
    Program,
    Statement,
    digits,
    float64,
    largest,
    literal,
    numpy_dtype,
)
from fuzz_steps import KINDS, NOT_SMOOTH

RUNS = 3
MORE_RUNS = 60  # where a result differs, before it counts: one value in a thousand is that near to the next integer
SIZES = (3, 4, 0, 1, 9, 30, 14)  # of a program, how much larger its axes are: the first two make general plans
SLACK = {"float8_e4m3fn": 4, "float8_e5m2": 4}  # of the others 32
BATCHES = {"numpy": 1, "c": 24, "opencl": 12, "webgpu": 6}  # programs that are compiled together

Values = dict[int, Array]


class NotJudgedError(Exception):
    """NumPy cannot run a program, or says nothing about its result."""


# ---- the reference ----


def name_of(array: Array) -> str:
    return array.dtype.name


def reference(program: Program) -> Values:
    """Every value of a program, by NumPy op by op in its own dtypes."""
    return _run(program, {n: array.copy() for n, array in program.inputs}, NUMPY_NAMES, {}, None)


def _run(
    program: Program, values: Values, names: dict[str, Any], dtypes: dict[int, str], noise: np.random.Generator | None
) -> Values:
    """noise: by how much what is rounded is changed, in digits of the value's dtype."""
    updated = {s.result for s in program.statements if s.update}
    for s in program.statements:
        scope = {f"v{n}": values[n] for n in s.sources}
        if noise is not None and s.rounds:
            scope.update({f"v{n}": changed(values[n], dtypes[n], noise) for n in s.sources if n not in updated})
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = eval(s.numpy, dict(names), scope)
            if s.update:
                found = np.asarray(found)
                if s.update == "copy":
                    np.copyto(values[s.result], found, casting="unsafe")
                    continue
                {"+": np.add, "-": np.subtract, "*": np.multiply}[s.update](
                    values[s.result], found, out=values[s.result], casting="unsafe"
                )
                continue
        found = np.asarray(found)
        if noise is None and found.dtype not in (np.float64, np.complex128):  # ml_dtypes has no weak scalars
            found = found.astype(numpy_dtype(s.dtype), copy=False)
        values[s.result] = changed(found, dtypes[s.result], noise) if noise is not None and s.rounds else found
    return values


def changed(array: Array, dtype: str, noise: np.random.Generator) -> Array:
    if dtype not in FLOATS + COMPLEX:
        return array
    with np.errstate(all="ignore"):
        if dtype in COMPLEX:  # each part is rounded beside the other, but to digits of the whole
            by = np.abs(array) * digits(dtype)
            return np.asarray(
                array + by * noise.uniform(-1, 1, array.shape) + 1j * by * noise.uniform(-1, 1, array.shape)
            )
        found = np.asarray(array * (1 + digits(dtype) * noise.uniform(-1, 1, array.shape)))
        # so few values there are that two results are often equal, which unrounded ones never are
        return found.astype(numpy_dtype(dtype)).astype(found.dtype) if dtype in SLACK else found


def wide(program: Program, dtypes: dict[int, str], seed: int | None, inputs: Values | None = None) -> Values:
    """Every value in float64; with a seed each rounded result and its sources are changed a little."""
    given = {n: a.copy() for n, a in program.inputs} if inputs is None else dict(inputs)
    for n, array in given.items():
        given[n] = array.astype(float64(dtypes[n]))
    names = {**NUMPY_NAMES, "D": lambda name: np.dtype(float64(name))}
    noise = None if seed is None else np.random.default_rng(seed)
    return _run(program, given, names, dtypes, noise)


@dataclass(slots=True)
class Expected:
    """The expected values, and how far each may be off."""

    program: Program
    values: Values = field(init=False)
    runs: list[Values] = field(init=False)
    dtypes: dict[int, str] = field(init=False)

    def __post_init__(self) -> None:
        try:
            self.values = reference(self.program)
            self.dtypes = {n: name_of(array) for n, array in self.values.items()}
            self.runs = [wide(self.program, self.dtypes, seed) for seed in range(RUNS)]
        except Exception as error:
            raise NotJudgedError(str(error)) from error

    def problem(self, number: int, found: Array) -> str:
        """Empty, or how a result differs."""
        wanted = self.values[number]
        if found.dtype == np.float32 and self.dtypes[number] in FLOATS and self._is_of_integers():
            # functions of integers give the dtype of Python's floats, and NumPy's one that depends on their bits
            wanted, self.dtypes[number] = wanted.astype(np.float32), "float32"
        if found.shape != wanted.shape or name_of(found) != name_of(wanted):
            return f"{name_of(found)}{found.shape} instead of {name_of(wanted)}{wanted.shape}"
        wrong = self._wrong(number, wanted, found)
        if wrong.any() and len(self.runs) == RUNS:
            self.runs += [wide(self.program, self.dtypes, seed) for seed in range(RUNS, RUNS + MORE_RUNS)]
            wrong = self._wrong(number, wanted, found)
        if not wrong.any():
            return ""
        place = tuple(int(k) for k in np.argwhere(wrong)[0])
        return f"{int(wrong.sum())} of {wrong.size} differ; at {place} {found[place]} instead of {wanted[place]}"

    def _is_of_integers(self) -> bool:
        return not any(self.dtypes[n] in FLOATS + COMPLEX for n, _ in self.program.inputs)

    def _wrong(self, number: int, wanted: Array, found: Array) -> Array:
        others = [np.asarray(run[number]) for run in self.runs]
        if self.dtypes[number] in COMPLEX:
            wrong = np.zeros(wanted.shape, bool)
            for part in (np.real, np.imag):
                wrong |= self._off(
                    part(wanted), part(found), [part(o) for o in others], self.dtypes[number], np.abs(wanted)
                )
        elif self.dtypes[number] not in FLOATS:
            known = np.logical_and.reduce([other == wanted for other in others])
            wrong = known & (found != wanted)
        else:
            wrong = self._off(wanted, found, others, self.dtypes[number], np.abs(wanted.astype(np.float64)))
        return wrong

    @staticmethod
    def _off(wanted: Array, found: Array, others: Sequence[Array], dtype: str, size: Array) -> Array:
        """Where real numbers differ: size is that of the whole numbers of which they are."""
        a, b = wanted.astype(np.float64), found.astype(np.float64)
        with np.errstate(all="ignore"):
            spread = np.max([np.abs(other - a) for other in others], axis=0)
            most = largest(dtype) / 6
            least = 1e-30 if most > 1e30 else 1 / most
            open_ = np.isnan(spread) & ~np.isnan(a) & np.isfinite(a)
            for other in others:  # nan or infinite in one run and not in another; too large for the dtype
                open_ |= (np.isnan(other) != np.isnan(a)) | (np.isinf(other) != np.isinf(a))
                open_ |= np.isinf(a) & (other != a) | (np.isfinite(other) & (np.abs(other) > most))
            allowed = SLACK.get(dtype, 32) * (spread + digits(dtype) * size) + least
            near = np.abs(a - b) <= allowed
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        return np.asarray(~(same | open_ | (np.isfinite(a) & np.isfinite(b) & near)))


# ---- on a device ----


def aliasing() -> bool:
    """Whether an update of a view is one of its base."""
    from rulegrad import Tensor
    from rulegrad.errors import RulegradError

    x = Tensor([1.0, 2.0], device="numpy")
    try:
        view = x[:1]
        view += 1
    except RulegradError:
        return False
    return x.tolist() == [2.0, 2.0]


@dataclass(slots=True)
class Built:
    """A program's tensors, not computed yet."""

    outputs: dict[int, Any]
    gradients: dict[int, Any]

    def tensors(self) -> list[Any]:
        return [*self.outputs.values(), *(g for g in self.gradients.values() if g is not None)]


Build = Callable[[Program, str], Built]


def build(program: Program, device: str) -> Built:
    return _built(program, device, _inputs(program, device, 0))


def build_captured(program: Program, device: str) -> Built:
    """The program as a captured function that ran on other values before: a replay."""
    import rulegrad

    captured = rulegrad.jit(lambda given: _built(program, device, given))
    captured(_inputs(program, device, 1))
    return captured(_inputs(program, device, 0))


def _inputs(program: Program, device: str, rolled: int) -> dict[int, Any]:
    """The tensors that a program is given; the values of each may be moved along by some places."""
    from rulegrad import Tensor

    return {
        number: Tensor(
            np.roll(array, rolled), device=device, requires_grad=program.with_gradient and array.dtype.kind == "f"
        )
        for number, array in program.inputs
    }


def _built(program: Program, device: str, given: dict[int, Any]) -> Built:
    from rulegrad import Tensor

    values = dict(given)
    for s in program.statements:
        scope = {f"v{n}": values[n] for n in s.sources}
        found = eval(s.tensor, {"Tensor": Tensor, "DEVICE": device}, scope)
        if s.update == "+":
            values[s.result] += found
        elif s.update == "-":
            values[s.result] -= found
        elif s.update == "*":
            values[s.result] *= found
        elif s.update == "copy":
            values[s.result].copy_(found)
        else:
            values[s.result] = found
    gradients = {}
    if program.with_gradient:
        values[program.outputs[0]].sum().backward()
        gradients = {n: values[n].grad for n, array in program.inputs if array.dtype.kind == "f"}
    return Built({n: values[n] for n in program.outputs}, gradients)


def gradient_problem(program: Program, expected: Expected, found: dict[int, Array | None]) -> str:
    """Empty, or how gradients differ from the difference quotient along a random direction."""
    noise = np.random.default_rng(program.seed)
    directions = {n: noise.normal(size=array.shape) for n, array in program.inputs if n in found}

    def loss(step: float) -> float:
        inputs = {
            n: array.astype(np.float64) + step * directions[n] if n in directions else array
            for n, array in program.inputs
        }
        values = wide(program, expected.dtypes, None, inputs)
        return float(np.sum(values[program.outputs[0]]))

    quotients = [(loss(h) - loss(-h)) / (2 * h) for h in (1e-5, 4e-5)]
    with np.errstate(all="ignore"):
        parts = [(g.astype(np.float64) * directions[n]) for n, g in found.items() if g is not None]
        got, size = sum(float(p.sum()) for p in parts), sum(float(np.abs(p).sum()) for p in parts)
    scale = size + abs(quotients[0]) + abs(loss(0.0)) * 1e-3 + 1e-3
    if not np.isfinite(quotients).all() or abs(quotients[0] - quotients[1]) > 1e-4 * scale:
        return ""  # a kink or a pole
    if abs(quotients[0]) > min((largest(name_of(g)) for g in found.values() if g is not None), default=np.inf) / 6:
        return ""  # too large for the dtype
    limit = 1e-2 if any(array.dtype == np.float32 for _, array in program.inputs) else 1e-3
    if np.isfinite(got) and abs(got - quotients[0]) <= limit * scale:
        return ""
    return f"the gradient along a direction is {got}, the difference quotient {quotients[0]}"


def judge(program: Program, expected: Expected, built: Built) -> str:
    for number, tensor in built.outputs.items():
        if problem := expected.problem(number, tensor.numpy()):
            return f"v{number}: {problem}"
    if program.with_gradient:
        grads = {n: None if g is None else g.numpy() for n, g in built.gradients.items()}
        return gradient_problem(program, expected, grads)
    return ""


def verdict(program: Program, device: str, build: Build = build) -> str:
    """Empty, or what is wrong with one program on a device. Raises NotJudgedError, also where it lacks a dtype."""
    from rulegrad.errors import DtypeError

    expected = Expected(program)
    try:
        return judge(program, expected, build(program, device))
    except DtypeError as error:
        if " devices have no " in str(error):
            raise NotJudgedError(str(error)) from error
        return f"DtypeError: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:300]}"


def verdicts(programs: Sequence[Program], device: str, build: Build = build) -> list[tuple[Program, str]]:
    """The errors of some programs, compiled together; those that are not judged are left out."""
    judged: list[tuple[Program, Expected]] = []
    for program in programs:
        try:
            judged.append((program, Expected(program)))
        except NotJudgedError:
            continue
    try:
        built = [build(program, device) for program, _ in judged]
        tensors = [tensor for one in built for tensor in one.tensors()]
        if tensors:
            tensors[0].realize(*tensors[1:])
        results = [judge(program, expected, one) for (program, expected), one in zip(judged, built, strict=True)]
    except Exception:
        return list(_one_by_one([program for program, _ in judged], device, build))
    return [(program, problem) for (program, _), problem in zip(judged, results, strict=True)]


def judged_at_sizes(programs: Sequence[Program], device: str, build: Build = build) -> Iterator[tuple[Program, str]]:
    """The errors of programs that are run one after the other, with a plan for all sizes from the second one on."""
    import rulegrad as rg

    with rg.config(general_plans=1):
        yield from _one_by_one(programs, device, build)


def _one_by_one(programs: Sequence[Program], device: str, build: Build) -> Iterator[tuple[Program, str]]:
    for program in programs:
        try:
            yield program, verdict(program, device, build)
        except NotJudgedError:
            continue


# ---- smaller programs ----


def smaller(program: Program, device: str, build: Build) -> Program:
    """A program that is wrong in fewer statements: one output, and parts replaced by inputs with their values."""

    def is_wrong(one: Program) -> bool:
        try:
            return bool(verdict(one, device, build))
        except NotJudgedError:
            return False

    if not program.with_gradient:
        for statement in program.statements:
            one = replace(program, outputs=[statement.result]).needed()
            if is_wrong(one):
                program = one
                break
    if any(s.update for s in program.statements):
        return program
    tried: set[int] = set()
    while True:
        waiting = [s for s in program.statements if s.result not in tried and s.result not in program.outputs]
        if not waiting:
            return program
        tried.add(waiting[0].result)
        one = cut(program, waiting[0])
        if is_wrong(one):
            program = one


def cut(program: Program, statement: Statement) -> Program:
    """The same with an input in the place of a statement."""
    value = reference(program)[statement.result]
    statements = [s for s in program.statements if s is not statement]
    return replace(program, inputs=[*program.inputs, (statement.result, value)], statements=statements).needed()


def report(program: Program, device: str, problem: str, build: Build = build) -> str:
    small = smaller(program, device, build)
    wanted = reference(small)
    lines = [f"# program {program.seed} on {device}: {problem}", small.text(device)]
    lines += [f"# NumPy: v{n} = {literal(np.asarray(wanted[n]))[:400]}" for n in small.outputs]
    return "\n".join(lines)


def programs_of(seed: int, count: int, with_views: bool, larger: Sequence[int] = (0,)) -> list[Program]:
    """Programs by their numbers: one in five has gradients. larger: each once with axes that are so much larger."""
    numbers = range(seed, seed + count)
    return [
        Maker(number, with_views, number % 5 == 0, more).make((*KINDS, *IDIOMS), NOT_SMOOTH + NOT_SMOOTH_IDIOMS)
        for number in numbers
        for more in larger
    ]


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="numpy")
    parser.add_argument("--seed", type=int, default=0, help="the number of the first program")
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--minutes", type=float, help="stop after so long")
    parser.add_argument("--captured", action="store_true", help="each program as a captured function (rulegrad.jit)")
    parser.add_argument(
        "--sizes", type=int, default=1, help="run each program at so many sizes, by plans for all of them where it can"
    )
    parser.add_argument("--json", metavar="FILE", help="write what was found")
    return parser.parse_args()


def main() -> None:
    given = parsed()
    with_views, begin, done = aliasing(), time.perf_counter(), 0
    failures: list[dict[str, Any]] = []
    step = 1 if given.captured else BATCHES.get(given.device.partition(":")[0], 1)
    make = build_captured if given.captured else build
    number = given.seed
    while number < given.seed + given.programs:
        if given.minutes and time.perf_counter() - begin > 60 * given.minutes:
            break
        count = min(step, given.seed + given.programs - number)
        batch = programs_of(number, count, with_views, SIZES[: given.sizes])
        number += count
        judged = judged_at_sizes if given.sizes > 1 else verdicts
        for program, problem in judged(batch, given.device, make):
            done += 1
            if problem:
                text = report(program, given.device, problem, make)
                failures.append({"program": program.seed, "problem": problem, "text": text})
                print(text, end="\n\n", flush=True)
    minutes = (time.perf_counter() - begin) / 60
    tried = f"{done} programs of {given.seed} to {number - 1} on {given.device}"
    print(f"{tried}: {len(failures)} differ; {done / minutes:.0f} a minute")
    if given.json:
        found = {
            "device": given.device,
            "seed": given.seed,
            "tried": number - given.seed,
            "judged": done,
            "minutes": minutes,
            "failures": failures,
        }
        Path(given.json).write_text(json.dumps(found, indent=1), encoding="utf-8")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
