"""Numbers that vary from call to call of a captured function: sizes of axes, and integers among the arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from rulegrad.errors import CaptureError
from rulegrad.support.locations import user_line

#: What is declared of a parameter: variables by axis, or that of an integer.
Declared: TypeAlias = "Mapping[int, Variable] | Variable"

LEAST: Final = 2  # sizes 0 and 1 are part of what is captured: graphs have other ops there


@dataclass(frozen=True)
class Variable:
    """A number that varies between two bounds, both included, in calls of a function that `jit` captures.

    name: what errors call it; everything that is declared by one name has the same value in a call. least, most: whole
    numbers from 0. Raises CaptureError for other bounds.

    >>> t = rg.Variable("t", 1, 1024)
    >>> mean = rg.jit(lambda x: x.mean(0), dynamic={"x": {0: t}})
    >>> [mean(Tensor.arange(size).float()).item() for size in (3, 5, 9, 100)], len(mean.reasons())
    ([1.0, 2.0, 4.0, 49.5], 1)
    """

    name: str
    least: int
    most: int

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise CaptureError(f"Variable: the name is {self.name!r}; give a text such as 't'")
        if any(type(bound) is not int for bound in (self.least, self.most)) or not 0 <= self.least <= self.most:
            raise CaptureError(
                f"Variable {self.name!r}: the bounds are {self.least!r} and {self.most!r}; give two whole numbers from "
                "0, the smaller one first"
            )

    def check(self, value: int, where: str) -> None:
        """Raises CaptureError for a value that is outside of the bounds."""
        if not self.least <= value <= self.most:
            side, bound = ("above", self.most) if value > self.most else ("below", self.least)
            advice = "larger" if value > self.most else "smaller"
            raise CaptureError(
                f"jit: {self.name} = {value}, {where}, is {side} its bound {bound}{user_line()}; declare a {advice} "
                "bound, or pass a size within the bounds"
            )


class Slot(NamedTuple):
    """A number of a call that may vary: the size of a tensor's axis, or an argument."""

    argument: int | str  # its position, or its name where it is given by name
    name: str  # of the parameter
    tensor: int  # the tensor's number among all; -1 for an argument that is a number itself
    axis: int
    variable: Variable | None  # None where nothing is declared

    @property
    def where(self) -> str:
        """For messages."""
        return f"`{self.name}`" if self.tensor < 0 else f"axis {self.axis} of `{self.name}`"


class Parameters:
    """The variables that are declared for a function's parameters; where none are, all sizes and integers vary."""

    def __init__(self, function: Callable[..., Any], dynamic: Mapping[str, Declared] | bool) -> None:
        """Raises CaptureError for something other than declarations, and for parameters that the function lacks."""
        self.declares = isinstance(dynamic, Mapping)
        self._names: list[str] = []
        self._declared: dict[str, Declared] = {}
        if not isinstance(dynamic, Mapping):
            if dynamic is not True:
                raise CaptureError(
                    f"jit: dynamic is {dynamic!r}; give bounds such as {{'x': {{1: Variable('t', 1, 1024)}}}}, or True"
                )
            return
        parameters = inspect.signature(function).parameters
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        self._names = [name for name, parameter in parameters.items() if parameter.kind in positional]
        takes_any = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())
        for name, declared in dynamic.items():
            if name not in parameters and not takes_any:
                raise CaptureError(
                    f"jit: dynamic names the parameter {name!r}, and the function has {', '.join(parameters) or 'none'}"
                )
            self._declared[name] = declared
        self._check()

    def _check(self) -> None:
        known: dict[str, Variable] = {}
        for name, declared in self._declared.items():
            variables = declared.values() if isinstance(declared, Mapping) else [declared]
            axes = list(declared) if isinstance(declared, Mapping) else []
            if not all(isinstance(one, Variable) for one in variables) or not all(type(axis) is int for axis in axes):
                raise CaptureError(
                    f"jit: dynamic[{name!r}] is {declared!r}; give {{axis: Variable(...)}} for tensors, Variable(...) "
                    "for an integer"
                )
            for one in variables:
                if known.setdefault(one.name, one) != one:
                    raise CaptureError(f"jit: dynamic has two bounds for {one.name!r}: {known[one.name]} and {one}")

    def split(self, positional: Any, named: Any) -> tuple[Any, list[Slot], list[int]]:
        """The structure of arguments without what varies, the numbers that may, and their values.

        A number below LEAST does not vary. Raises CaptureError for one that is out of its bounds.
        """
        slots: list[Slot] = []
        values: list[int] = []
        masked = [
            self._masked(place, self._names[place] if place < len(self._names) else "", part, slots, values)
            for place, part in enumerate(positional[1:])
        ]
        of_names = [
            (name, self._masked(name, name, part, slots, values)) for _, (_, name), part in (named or ((),))[1:]
        ]
        return (tuple(masked), tuple(of_names)), slots, values

    def _masked(self, argument: int | str, name: str, part: Any, slots: list[Slot], values: list[int]) -> Any:
        declared = self._declared.get(name)
        if declared is None and self.declares:
            return part
        slot = Slot(argument, name or f"argument {argument}", -1, 0, None)
        if isinstance(part, tuple) and part[0] is int and not isinstance(declared, Mapping):
            return (int,) if _varies(part[1], slot._replace(variable=declared), slots, values) else part
        return _hidden(part, slot, declared, slots, values)


def _hidden(part: Any, slot: Slot, declared: Declared | None, slots: list[Slot], values: list[int]) -> Any:
    """A part of a structure without the sizes that vary."""
    if not isinstance(part, tuple):
        return part
    if len(part) == 6 and type(part[0]) is int:  # a tensor
        shape = list(part[1])
        for axis, variable in _axes(part, slot.name, declared):
            if _varies(shape[axis], slot._replace(tensor=part[0], axis=axis, variable=variable), slots, values):
                shape[axis] = None
        return (part[0], tuple(shape), *part[2:])
    return (part[0], *[_hidden(one, slot, declared, slots, values) for one in part[1:]])


def _axes(part: Any, name: str, declared: Declared | None) -> Iterator[tuple[int, Variable | None]]:
    """The axes of a tensor that vary."""
    rank = len(part[1])
    if declared is None:
        yield from ((axis, None) for axis in range(rank))
    elif isinstance(declared, Mapping):
        for axis, variable in declared.items():
            if not -rank <= axis < rank:
                raise CaptureError(
                    f"jit: dynamic declares axis {axis} of `{name}`, and a tensor of it has shape "
                    f"{part[1]}{user_line()}"
                )
            yield axis % rank, variable


def _varies(value: int, slot: Slot, slots: list[Slot], values: list[int]) -> bool:
    """Notes a number. False for one that is part of what is captured."""
    if slot.variable is not None:
        slot.variable.check(value, slot.where)
    slots.append(slot)
    values.append(value)
    return value >= LEAST


def values_by_name(slots: Sequence[Slot], values: Sequence[int]) -> dict[Variable, int]:
    """The values of declared variables. Raises CaptureError where one has several."""
    found: dict[Variable, tuple[int, Slot]] = {}
    for slot, value in zip(slots, values, strict=True):
        assert slot.variable is not None
        first, where = found.setdefault(slot.variable, (value, slot))
        if first != value:
            raise CaptureError(
                f"jit: {slot.variable.name} is {first} along {where.where} and {value} along {slot.where}"
                f"{user_line()}; sizes that are declared by one name have one value"
            )
    return {variable: value for variable, (value, _) in found.items()}
