"""Every op on every dtype that a target declares: lowered, rendered, built, run, and compared with the op table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rulegrad import engine
from rulegrad.compile.kernels import compile_kernels
from rulegrad.errors import DeviceError, RulegradError
from rulegrad.interpreter.evaluation import evaluate
from rulegrad.interpreter.numerics import Array
from rulegrad.ir import UOp
from rulegrad.ir.dtype import as_dtype
from rulegrad.lang import syntax
from rulegrad.lang.optable import OpTable
from rulegrad.runtime.device import Device, Executable
from rulegrad.runtime.kernel import Kernel
from rulegrad.workbench.analysis.lowering import Value, buffer, left_over, lowering_steps, values
from rulegrad.workbench.conformance.report import Deadline, Rung, problem_of
from rulegrad.workbench.conformance.spelling import Spellings, quoted_line
from rulegrad.workbench.conformance.values import differs, first_difference, operands, small_integers

Fail = Callable[["_Group", str, str], None]  #: takes what is wrong with a kernel, and what to do

_SIZE = 2048  # elements of each operand
_GROUP = 8  # ops that one kernel computes: for most compilers that is much faster than a kernel for each
_BATCH = 16  # kernels in one program
_MOST_REFUSED = 20  # kernels of one op that the device's compiler refuses, until no more are tried


@dataclass(slots=True)
class _Case:
    """An op on certain dtypes."""

    value: Value
    graph: UOp

    @property
    def about(self) -> str:
        return f"{self.value.op} on {self.value.dtypes}"

    @property
    def name(self) -> str:
        return self.value.op.removeprefix("REDUCE by ")

    @property
    def leaves(self) -> tuple[UOp, ...]:
        return tuple(sorted((n for n in self.graph.toposort() if n.op == "PARAM"), key=lambda n: int(n.attrs["slot"])))

    @property
    def exact_sums(self) -> bool:
        """Sums and products of floats are of small integers: then every order of adding gives the same."""
        return self.value.op in ("REDUCE by ADD", "REDUCE by MUL") and as_dtype(self.graph.dtype).is_float


@dataclass(slots=True)
class _Group:
    """Ops on the same operands, in one kernel: its slots are the first result, the operands, the other results."""

    cases: list[_Case]
    kernel: Kernel | None = None
    executable: Executable | None = None

    @property
    def graph(self) -> UOp:
        leaves = len(self.cases[0].leaves)
        stores = []
        for k, case in enumerate(self.cases):
            slot = leaves + k if k else 0
            stores.append(UOp("STORE", (buffer(slot, case.graph.dtype, case.graph.shape), case.graph)))
        return UOp("SINK", (stores[0] if len(stores) == 1 else UOp("GROUP", tuple(stores)),))

    def find_operands(self) -> list[Array]:
        first = self.cases[0]
        dtypes, shape = [leaf.dtype for leaf in first.leaves], first.leaves[0].shape
        if first.exact_sums:
            return [small_integers(dtypes[0], shape)]
        return [array.reshape(shape) for array in operands(dtypes, int(np.prod(shape)))]


class Operations:
    """The rung of ops and dtypes, for one opened device.

    Several ops are tried in one kernel. Those of a kernel that fails somewhere are tried again one by one, and only
    then something is said of them.
    """

    def __init__(self, device: Device, folder: Path, rung: Rung, deadline: Deadline) -> None:
        self._device = device
        self._folder = folder
        self._rung = rung
        self._deadline = deadline
        self._target = engine.target_declaration(device.target)
        declarations = list(engine.loaded().sources.declarations())
        self._ops = {d.name: d for d in declarations if isinstance(d, syntax.OpDeclaration)}
        self._table = OpTable.from_declarations(declarations)
        self._steps = lowering_steps(engine.pipeline("kernel"), engine.pipeline("program"))
        self._spellings = Spellings(engine.loaded().sources.files, self._target)
        self._refused = 0

    def run(self) -> None:
        """Tries all ops; what is wrong is added to the rung."""
        found = [_Case(one, one.build()) for one in values(self._table, self._target, _SIZE)]
        cases = [case for case in found if self._is_stored(case)]
        groups = self._grouped(cases)
        for first in range(0, len(groups), _BATCH):
            batch = groups[first : first + _BATCH]
            if self._deadline.over():
                left = sum(len(group.cases) for group in groups[first:])
                self._rung.notes.append(f"time is up: {left} of {len(cases)} were not tried")
                return
            self._rung.tried += sum(len(group.cases) for group in batch)
            again = self._try(batch, final=False)
            before = len(self._rung.findings)
            self._try([_Group([case]) for case in again], final=True)
            if again and len(self._rung.findings) == before:
                names = ", ".join(case.about for case in again)
                self._rung.found(names, "right one by one, but not several in one kernel")

    def _is_stored(self, case: _Case) -> bool:
        """Whether the target can keep everything that the op takes and gives in memory."""
        known = self._target.dtypes | set(self._target.types)
        return all(node.dtype in known for node in case.graph.toposort())

    def _grouped(self, cases: Sequence[_Case]) -> list[_Group]:
        most = max(1, min(_GROUP, engine.target(self._target.name).limits["arguments"] - 3))
        alike: dict[tuple[tuple[UOp, ...], bool], list[_Case]] = {}
        for case in cases:
            alike.setdefault((case.leaves, case.exact_sums), []).append(case)
        return [_Group(some[k : k + most]) for some in alike.values() for k in range(0, len(some), most)]

    def _try(self, groups: Sequence[_Group], final: bool) -> list[_Case]:
        """The cases that are to be tried again, one by one; `final`: each is alone, and what is wrong is said."""
        again: list[_Case] = []

        def fail(group: _Group, problem: str, hint: str) -> None:
            if final:
                self._rung.found(group.cases[0].about, problem, hint)
            else:
                again.extend(group.cases)

        ready = [group for group in groups if self._lower(group, fail)]
        self._build(ready, fail)
        for group in ready:
            if group.executable is not None:
                self._compare(group, group.executable, fail)
        return again

    # ---- by rules ----

    def _lower(self, group: _Group, fail: Fail) -> bool:
        """Whether the rules make a kernel of it."""
        graph, problem, op = group.graph, "", group.cases[0].graph.op
        compiles = not self._device.interprets
        try:
            if compiles:
                program = engine.run_all([graph], self._steps, self._target.name)[0]
                problem = left_over(self._table, self._target, op, program)
            if not problem:
                group.kernel = compile_kernels([graph], self._target.name, compiles)[0]
        except RulegradError as error:
            problem = error.problem
        if problem:
            fail(group, problem, self._spellings.hint_for(problem, op))
        return not problem

    # ---- by the device's compiler ----

    def _build(self, groups: Sequence[_Group], fail: Fail) -> None:
        """Builds all kernels at once; where that fails, halves, so that each kernel that is refused is found."""
        if not groups:
            return
        if self._refused >= _MOST_REFUSED:
            for group in groups:
                fail(group, "not built: too many kernels were refused before", "")
            return
        kernels = [group.kernel for group in groups if group.kernel is not None]
        try:
            executables = self._device.compile(kernels)
            if len(executables) != len(kernels):
                raise DeviceError(f"compile() gave {len(executables)} executables for {len(kernels)} kernels")
        except Exception as error:  # of a stranger's code, whatever it is
            if len(groups) > 1:
                half = len(groups) // 2
                self._build(groups[:half], fail)
                self._build(groups[half:], fail)
            else:
                self._refuse(groups[0], error, fail)
            return
        for group, executable in zip(groups, executables, strict=True):
            group.executable = executable

    def _refuse(self, group: _Group, error: Exception, fail: Fail) -> None:
        if len(group.cases) == 1:
            self._refused += 1
        problem, op = problem_of(error, self._folder), group.cases[0].graph.op
        number, line = quoted_line(problem, group.kernel.source if group.kernel is not None else "")
        rendered = self._spellings.of_line(line, op) if line else self._spellings.of(op)
        fail(group, problem, f"line {number} of its source: {line.strip()}; {rendered}" if line else rendered)

    # ---- by values ----

    def _compare(self, group: _Group, executable: Executable, fail: Fail) -> None:
        """Runs a kernel, and compares with the interpreter."""
        arrays = group.find_operands()
        results = [np.zeros(case.graph.shape, as_dtype(case.graph.dtype).numpy) for case in group.cases]
        try:
            self._run(executable, arrays, results)
        except Exception as error:  # of a stranger's code, whatever it is
            fail(group, problem_of(error, self._folder), self._spellings.of(group.cases[0].graph.op))
            return
        for case, found in zip(group.cases, results, strict=True):
            with np.errstate(all="ignore"):
                wanted = evaluate(case.graph, dict(zip(case.leaves, arrays, strict=True)))
            ulp = self._ops[case.name].ulp
            wrong = differs(found, wanted, case.graph.dtype, ulp, case.name in ("MAX", "MIN"))
            if wrong.any():
                told = first_difference(case.name, arrays, found.ravel(), wanted.ravel(), wrong.ravel())
                fail(group, told, self._spellings.of(case.graph.op))
                return

    def _run(self, executable: Executable, arrays: Sequence[Array], results: Sequence[Array]) -> None:
        handles = []
        try:
            for array in (results[0], *arrays, *results[1:]):
                handles.append(self._device.allocate(array.nbytes))
                self._device.copy_in(handles[-1], np.ascontiguousarray(array))
            executable(handles)
            places = [handles[0], *handles[1 + len(arrays) :]]
            for handle, result in zip(places, results, strict=True):
                self._device.copy_out(handle, result)
        finally:
            for handle in handles:
                self._device.free(handle)
