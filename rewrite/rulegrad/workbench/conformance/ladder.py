"""The ladder: load, copy, add, reduce, matmul, ops, suite; each rung on what the rungs below have shown to work."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from rulegrad import engine
from rulegrad.compile.realize import prepare
from rulegrad.engine import load_target
from rulegrad.errors import RulegradError
from rulegrad.interpreter.numerics import Array
from rulegrad.ir.dtype import as_dtype
from rulegrad.lang import syntax
from rulegrad.runtime.backends import Backend, backend, load_backend
from rulegrad.runtime.device import Device
from rulegrad.workbench.conformance import programs
from rulegrad.workbench.conformance.declarations import check_folder, check_target, open_device
from rulegrad.workbench.conformance.memory import check_memory
from rulegrad.workbench.conformance.operations import Operations
from rulegrad.workbench.conformance.report import PASSED, Deadline, Rung, problem_of
from rulegrad.workbench.conformance.spelling import Spellings

#: What a rung cannot be tried without.
_NEEDS = {"load": (), "copy": ("load",), "add": ("copy",)}
Tell = Callable[[str, Rung | None], None]  #: a rung begins (None), or has ended


class Ladder:
    """Climbs the rungs with one device of a backend: a folder, or the name of one that is known."""

    def __init__(
        self, place: str, number: int = 0, seconds: float = 300.0, tell: Tell = lambda name, rung: None
    ) -> None:
        self._place = place
        self._number = number
        self._deadline = Deadline(seconds)
        self._tell = tell
        self._done: dict[str, Rung] = {}
        self._owner: Backend
        self._device: Device

    def climb(self, last: str = "suite") -> list[Rung]:
        """The rungs up to the last, those that could not be tried too."""
        steps: dict[str, Callable[[Rung], None]] = {
            "load": self._load,
            "copy": lambda rung: check_memory(self._device, self._target, self._owner.folder, rung),
            "add": self._add,
            "reduce": lambda rung: self._compare(
                rung, (p for dtype in self._some_dtypes() for p in programs.reducing(dtype))
            ),
            "matmul": self._multiply,
            "ops": lambda rung: Operations(self._device, self._owner.folder, rung, self._deadline).run(),
            "suite": lambda rung: self._compare(rung, programs.suite()),
        }
        for name, step in steps.items():
            self._tell(name, None)
            rung = self._done[name] = Rung(name)
            start = time.perf_counter()
            missing = [below for below in _NEEDS.get(name, ("add",)) if self._done[below].status != PASSED]
            if missing:
                rung.skipped = f"{missing[0]} did not pass"
            elif self._deadline.over():
                rung.skipped = "time is up"
            else:
                step(rung)
            rung.seconds = time.perf_counter() - start
            self._tell(name, rung)
            if name == last:
                break
        return list(self._done.values())

    # ---- the rungs ----

    def _load(self, rung: Rung) -> None:
        folder = Path(self._place).expanduser()
        is_path = folder.is_dir() or len(folder.parts) > 1
        if is_path and not check_folder(folder, rung):
            return
        try:
            self._owner = load_backend(folder) if is_path else backend(self._place)
            if not self._owner.is_ours:
                load_target(self._owner.rules)
            engine.program()  # all rule text is read, and what is wrong with it is said
        except RulegradError as error:
            rung.found("rules", error.problem)
            return
        opened = open_device(self._owner, self._number, rung)
        if opened is None:
            return
        self._device = opened
        check_target(opened, rung)
        if not rung.findings:
            self._compile_rules(rung)

    def _compile_rules(self, rung: Rung) -> None:
        try:
            engine.program(self._device.target)
        except RulegradError as error:
            rung.found(f"target {self._device.target}", error.problem)

    def _add(self, rung: Rung) -> None:
        self._compare(rung, (p for dtype in self._some_dtypes() for p in programs.adding(dtype)))

    def _multiply(self, rung: Rung) -> None:
        rows = self._target.rows.get("matrix_instructions", ())
        by_instructions = programs.multiplying_by_instructions(rows)
        self._compare(rung, (*programs.multiplying(self._some_dtypes()), *by_instructions))

    # ---- what they share ----

    @property
    def _target(self) -> syntax.Target:
        return engine.target_declaration(self._device.target)

    def _stored(self) -> list[str]:
        """The dtypes that the target keeps in memory."""
        target = self._target
        return sorted((target.dtypes | set(target.types)) - {"index", "void"})

    def _some_dtypes(self) -> list[str]:
        """Those of the first rungs; all others come with the ops."""
        stored = self._stored()
        return [dtype for dtype in ("float32", "int32", "float16") if dtype in stored] or stored[:1]

    def _compare(self, rung: Rung, wanted: Iterable[tuple[str, programs.Program]]) -> None:
        """Runs programs on the device and on the interpreter."""
        listed = list(wanted)
        self._build_ahead([program for _, program in listed])
        for name, program in listed:
            if self._deadline.over():
                rung.notes.append("time is up: the last programs were not tried")
                return
            missing = sorted(programs.dtypes_of(program) - set(self._stored()) - {"complex64", "complex128"})
            if missing:
                rung.notes.append(f"{name} was not tried: the target does not keep {', '.join(missing)}")
                continue
            rung.tried += 1
            problem = self._difference(program)
            if problem:
                rung.found(name, problem, Spellings(engine.loaded().sources.files, self._target).hint_for(problem))

    def _build_ahead(self, wanted: Sequence[programs.Program]) -> None:
        """Builds all kernels in one program, which is several times faster; where that fails, each is built alone."""
        with contextlib.suppress(Exception):  # what is wrong with which program is said when it is run
            prepare([[t.uop for t in program(self._device.name)] for program in wanted], self._device.name)

    def _difference(self, program: programs.Program) -> str:
        """Differences between the device and the interpreter; empty when there are none."""
        try:
            found = programs.results(program, self._device.name)
        except Exception as error:  # of a stranger's code, whatever it is
            return problem_of(error, self._owner.folder)
        for number, (mine, theirs) in enumerate(zip(found, programs.results(program, "numpy"), strict=True)):
            if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
                return f"result {number} is {mine.dtype}{mine.shape}, not {theirs.dtype}{theirs.shape}"
            same = _alike(mine, theirs)
            if not same.all():
                place = tuple(int(k) for k in np.argwhere(~same)[0])
                count = f"{int((~same).sum()):,} of {same.size:,} values differ"
                return f"result {number} at {place} is {mine[place]!s}, not {theirs[place]!s}; {count}"
        return ""


def _alike(found: Array, wanted: Array) -> Array:
    """Where the results of whole programs agree: sums in another order and functions have a few units of error."""
    dtype = as_dtype(wanted.dtype)
    if not dtype.is_inexact:
        return np.asarray(found == wanted)
    near = 2.0**-14 if dtype.bits >= 32 else 2.0 ** (3 - dtype.mantissa)
    mine, theirs = found.astype(np.complex128), wanted.astype(np.complex128)
    return np.isclose(mine, theirs, rtol=near, atol=near, equal_nan=True)
