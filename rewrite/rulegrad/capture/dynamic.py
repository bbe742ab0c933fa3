"""`jit(function, dynamic=…)`: a captured function that one trace serves for all sizes of axes and for all integers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

from rulegrad.capture.captured import Captured
from rulegrad.capture.function import JitFunction, are_in_buffers, mode
from rulegrad.capture.general import GeneralCapture, Looks, between, shown
from rulegrad.capture.outcome import Outcome
from rulegrad.capture.paths import Walk
from rulegrad.capture.tracing import Trace
from rulegrad.capture.variables import LEAST, Declared, Parameters, Slot, Variable, values_by_name
from rulegrad.compile.sharding import is_on_mesh
from rulegrad.compile.varying.explanations import explained
from rulegrad.compile.varying.formulas import MOST_VARIABLES, NAMES, Formula, value_of
from rulegrad.compile.varying.pairs import DifferentError
from rulegrad.engine import watching
from rulegrad.errors import CaptureError, RulegradError
from rulegrad.runtime.buffer import Buffer
from rulegrad.tensor import capturing
from rulegrad.tensor.history import GradientPoint
from rulegrad.tensor.trees import flatten, structure

P = ParamSpec("P")
R = TypeVar("R")

_LARGE: Final = 4096  # what varies without a declaration does so up to this at least
_MOST_SEEN: Final = 4  # calls of one structure that others are compared with


class DynamicFunction(JitFunction[P, R]):
    """A captured function whose arguments vary in size."""

    def __init__(self, function: Callable[P, R], dynamic: Mapping[str, Declared] | bool) -> None:
        super().__init__(function)
        self._parameters = Parameters(function, dynamic)
        self._general: OrderedDict[Hashable, list[GeneralCapture]] = OrderedDict()
        self._seen: OrderedDict[Hashable, list[tuple[int, ...]]] = OrderedDict()
        self._call: tuple[Any, list[Slot], list[int]] | None = None  # the one that is being traced

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if capturing.is_tracing() or watching.watchers:  # part of another, or looked at pass by pass
            return self._function(*args, **kwargs)
        tensors: list[Any] = []
        objects: list[Any] = []
        named = tuple(sorted(kwargs.items())) if kwargs else ()
        inputs = structure(args, tensors, objects), structure(named, tensors, objects) if named else ()
        like, slots, values = self._parameters.split(*inputs)
        if self._parameters.declares:
            values_by_name(slots, values)
        if not are_in_buffers(tensors):
            return self._function(*args, **kwargs)
        roots = (self._function, *objects)
        with self._lock:
            now = mode()
            exact, general = (*inputs, *now), (like, *now)
            why = ""
            for one in self._captured.get(exact, ()):
                why = one.obstacle(tensors, roots)
                if not why:
                    result: R = one.replay(tensors)
                    return result
            for several in self._general.get(general, ()):
                sizes = several.sizes(_free(values))
                why = why if sizes is None else several.obstacle(tensors, roots)
                if sizes is not None and not why:
                    result = several.at(sizes).replay(tensors)
                    return result
            self._call = general, slots, values
            try:
                traced: R = self._trace(args, kwargs, exact, tensors, roots, why or self._novelty(exact))
            finally:
                self._call = None
            return traced

    def save(self, path: str | Path) -> None:
        """Raises CaptureError: captures for all sizes stay in their process."""
        raise CaptureError(f"save: {self._name} has captures for all sizes, which cannot be saved; leave out dynamic")

    # ---- traces ----

    def _capture(
        self, outcome: Outcome, walk: Walk, same: Sequence[int], args: Any, kwargs: Any
    ) -> Captured | GeneralCapture:
        """The capture to keep of a trace: for all sizes where there can be one, else for these."""
        assert self._call is not None
        general, slots, values = self._call
        if is_on_mesh([graph for _, graphs in outcome.parts().values() for graph in graphs]):
            self._reasons[-1] += "; for these sizes only, as tensors are in parts on a mesh"
            return outcome.captured(walk, same)
        outcome.trace.put_back(all_of_them=True)
        try:
            for variables, formulas, sizes in self._possible(general, slots, values):
                looks = Looks(variables, sizes, self._parameters.declares)

                def look(point: tuple[int, ...], told: str, formulas: Sequence[Formula] = formulas) -> Outcome:
                    return self._looked_at(outcome, args, kwargs, [value_of(one, point) for one in formulas], told)

                try:
                    looks.look(look)
                except DifferentError as error:
                    if self._parameters.declares:
                        raise shown(error, looks, self._name) from None
                    self._reasons[-1] += f"; for these sizes only, as {error}"
                    continue
                try:
                    looks.add(sizes, outcome)
                    return GeneralCapture(looks, formulas, lambda find: outcome.captured(walk, same, find))
                except DifferentError as error:  # one size of them, at which something vanishes
                    self._reasons[-1] += f"; for these sizes only, as {error}"
        finally:
            capturing.current.trace = outcome.trace
        seen = self._seen.setdefault(general, [])
        seen.append(tuple(values))
        del seen[:-_MOST_SEEN]
        return outcome.captured(walk, same)

    def _possible(
        self, key: Hashable, slots: list[Slot], values: list[int]
    ) -> Iterator[tuple[list[Variable], list[Formula], tuple[int, ...]]]:
        """Choices of variables, with the arguments' numbers as formulas of them, and their values in this call."""
        if self._parameters.declares:
            found = values_by_name(slots, values)
            named = {one: value for one, value in found.items() if value >= LEAST}
            variables = list(named)
            if variables and all(len(between(one)) > 1 for one in variables):
                numbers = {one: number for number, one in enumerate(variables)}
                formulas: list[Formula] = [
                    (((numbers[slot.variable],), 1),) for slot in _freed(slots, values) if slot.variable
                ]
                yield variables, formulas, tuple(named.values())
            return
        for other in reversed(self._seen.get(key, ())):
            pairs = list(zip(_free(other), _free(values), strict=True))
            varying = [pair for pair in dict.fromkeys(pairs) if pair[0] != pair[1]]
            by_variable, by_pair, _ = explained(varying)
            if by_variable and len(by_variable) <= MOST_VARIABLES:
                variables = [
                    Variable(name, LEAST, max(_LARGE, 8 * max(pair)))
                    for name, pair in zip(NAMES, by_variable, strict=False)
                ]
                fixed: list[Formula] = [by_pair[m, n] if m != n else (((), m),) for m, n in pairs]
                yield variables, fixed, tuple(n for _, n in by_variable)

    def _looked_at(self, first: Outcome, args: Any, kwargs: Any, numbers: Sequence[int], told: str) -> Outcome:
        """The outcome of the function for other numbers in its arguments. Raises DifferentError where it fails."""
        assert self._call is not None
        if min(numbers, default=0) < 0:  # a formula that the sizes of two calls had by chance
            raise DifferentError(f"at {told} a size of an argument is negative")
        free = _freed(*self._call[1:])
        tensors = [
            _resized(tensor, {s.axis: n for s, n in zip(free, numbers, strict=True) if s.tensor == place})
            for place, tensor in enumerate(first.arguments)
        ]
        given = {s.argument: n for s, n in zip(free, numbers, strict=True) if s.tensor < 0}
        args, kwargs = self._at_sizes(args, kwargs, given, dict(zip(map(id, first.arguments), tensors, strict=True)))
        trace = Trace(tensors, first.trace)
        capturing.current.trace = None
        try:
            with trace:
                box = [self._function(*args, **kwargs)]
            with trace.waiting():
                outcome = Outcome(trace, box, tensors)
                problem = outcome.problem or ("tensors are held outside" if outcome.survivors() else "")
        except (RulegradError, IndexError, ValueError) as error:
            raise DifferentError(f"at {told} it raises {type(error).__name__}: {error}") from error
        finally:
            trace.put_back(all_of_them=True)
        if problem:
            raise DifferentError(f"at {told} {problem}")
        return outcome

    @staticmethod
    def _at_sizes(args: Any, kwargs: Any, given: Mapping[int | str, int], tensors: Mapping[int, Any]) -> Any:
        """The arguments with other integers, by position or name, and with tensors in the place of others."""
        args = [given.get(place, item) for place, item in enumerate(args)]
        kwargs = {name: given.get(name, item) for name, item in kwargs.items()}
        leaves, rebuild = flatten((args, kwargs))
        return rebuild([tensors[id(leaf)] for leaf in leaves])

    def _novelty(self, key: Any) -> str:
        if self._general and not self._captured:
            return "sizes, or a structure of the arguments, that no capture is for"
        return super()._novelty(key)

    def _keep(self, key: Hashable, one: Any, objects: Sequence[Any]) -> None:
        if not isinstance(one, GeneralCapture):
            super()._keep(key, one, objects)
            return
        assert self._call is not None
        self._keep_in(self._general, self._call[0], one, objects)


def _resized(tensor: Any, sizes: Mapping[int, int]) -> Any:
    """A tensor like an argument with other sizes, and without values."""
    if not sizes:
        return tensor
    shape = tuple(sizes.get(axis, size) for axis, size in enumerate(tensor.shape))
    buffer = Buffer(shape, tensor.dtype, tensor.device)
    new = type(tensor)._new(buffer.uop, buffer, buffer.device)
    if tensor._leaf:
        new.requires_grad = True
    elif tensor._requires_grad:
        new._history, new._requires_grad = GradientPoint(buffer.uop, buffer), True
    return new


def _free(values: Sequence[int]) -> list[int]:
    """The numbers that vary."""
    return [value for value in values if value >= LEAST]


def _freed(slots: Sequence[Slot], values: Sequence[int]) -> list[Slot]:
    return [slot for slot, value in zip(slots, values, strict=True) if value >= LEAST]
