"""State that a function reaches without being given it: a walk over closure, globals, defaults, and objects in them.

A path is a list of steps from the function, or from an object among the arguments. A replay takes the steps again:
where one leads to another tensor or another number than in the trace, the function is traced again.
"""

from __future__ import annotations

import types
import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple

import numpy as np

from rulegrad._core import PathGuard
from rulegrad.ir import UOp
from rulegrad.runtime.buffer import Buffer
from rulegrad.tensor.capturing import Unchanging
from rulegrad.tensor.core import TensorCore

_MOST = 20_000  # objects that are looked into
_PLAIN: Final = (bool, int, float, str, type(None))
_OPAQUE: Final = (*_PLAIN, bytes, complex, np.ndarray, np.generic, types.BuiltinFunctionType, UOp, Buffer)
_GONE: Final = object()  # what a step leads to that can no longer be taken


class Step(NamedTuple):
    """From what another step leads to (none: a root) to one of its parts."""

    above: int
    take: Callable[[Any, Any], Any]
    key: Any
    name: str


def _cell(function: Any, place: int) -> Any:
    return function.__closure__[place].cell_contents


def _global(function: Any, name: str) -> Any:
    return function.__globals__[name]


def _default(function: Any, place: int) -> Any:
    return function.__defaults__[place]


def _keyword(function: Any, name: str) -> Any:
    return function.__kwdefaults__[name]


def _attribute(item: Any, name: str) -> Any:
    return item.__dict__[name]


def _slot(item: Any, name: str) -> Any:
    return getattr(item, name)


def _part(item: Any, key: Any) -> Any:
    return item[key]


def _root(roots: Any, place: int) -> Any:
    return roots[place]


#: All ways from an object to a part, in the order of the engine's numbers for them.
_WAYS: Final = (_root, _cell, _global, _default, _keyword, _attribute, _slot, _part)
#: The ways to a part that go by a name in the program's text.
_NAMING: Final = (_cell, _global, _attribute, _slot)
#: The ways to what a function names without saying of what.
_STARTING: Final = (_cell, _global, _default, _keyword)


def _is_compared(item: Any) -> bool:
    """Whether an object is compared by identity wherever it is: modules, optimizers, functions, unchanging ones."""
    return callable(item) or isinstance(item, Unchanging) or hasattr(type(item), "_walked")


class Walk:
    """All that can be reached from the roots: tensors, and the plain values that the code names."""

    def __init__(self, roots: Sequence[Any]) -> None:
        self.steps: list[Step] = []
        self.tensors: list[tuple[int, Any]] = []  # the step that leads to each, as often as it is found
        self.values: list[tuple[int, Any]] = []
        self.objects: list[tuple[int, Any]] = []  # functions, modules and other objects that are named
        self.joins: list[tuple[int, int]] = []  # a second way to an object, and the first
        self._seen: dict[int, int] = {}
        self._items: dict[int, Any] = {}  # what was looked into; so no address is used twice
        self._waiting: deque[tuple[int, Any]] = deque()
        for place, root in enumerate(roots):
            name = "" if isinstance(root, types.FunctionType) else type(root).__name__
            self._add(-1, _root, place, name, root)
        while self._waiting and len(self._seen) < _MOST:
            place, item = self._waiting.popleft()
            for take, key, name, part in _parts(item):
                self._add(place, take, key, name, part)
        self._keep_named()

    def _add(self, above: int, take: Any, key: Any, name: str, item: Any) -> None:
        if isinstance(item, TensorCore):
            self.tensors.append((self._step(above, take, key, name), item))
        elif isinstance(item, _PLAIN):
            if take in _NAMING:
                self.values.append((self._step(above, take, key, name), item))
        elif take in (*_NAMING, _part) and isinstance(item, (type, types.BuiltinFunctionType)):
            self.objects.append((self._step(above, take, key, name), item))
        elif not isinstance(item, _OPAQUE):
            place = self._step(above, take, key, name)
            if take in _NAMING or _is_compared(item):
                self.objects.append((place, item))
            if isinstance(item, Unchanging):
                return
            if id(item) in self._seen:
                self.joins.append((place, self._seen[id(item)]))
            else:
                self._seen[id(item)] = place
                self._items[place] = item
                self._waiting.append((place, item))

    def _step(self, above: int, take: Any, key: Any, name: str) -> int:
        self.steps.append(Step(above, take, key, name))
        return len(self.steps) - 1

    def _keep_named(self) -> None:
        """Of the values only those whose names the code has: that of the functions, and of the methods they name."""
        functions = [one for one in self._items.values() if isinstance(one, types.FunctionType)]
        names = frozenset(("forward", "__call__", "__getitem__", "__iter__", "__enter__", "__exit__"))
        names = names.union(*(names_in(function.__code__) for function in functions))
        waiting = [part for kind in {type(one) for one in self._items.values()} for part in _methods(kind)]
        while called := [its for name, its in waiting if name in names]:
            waiting = [(name, its) for name, its in waiting if name not in names]
            names = names.union(*called)
        self.values = [(place, value) for place, value in self.values if self._is_named(place, names)]
        self.objects = [
            (place, item) for place, item in self.objects if _is_compared(item) or self._is_named(place, names)
        ]

    def _is_named(self, place: int, names: Collection[str]) -> bool:
        step = self.steps[place]
        return step.take in (_cell, _global) or (step.take in _NAMING and step.key in names and step.key != "_training")

    def items(self) -> list[tuple[int, Any]]:
        """The objects that were looked into, each with the number of the step that leads to it."""
        return list(self._items.items())

    def item(self, place: int) -> Any:
        """The object that a step leads to, if it was looked into."""
        return self._items.get(place)

    def name(self, place: int) -> str:
        """`model.layers[0].weight`."""
        names: list[str] = []
        while place >= 0:
            names.append(self.steps[place].name)
            place = -1 if self.steps[place].take in _STARTING else self.steps[place].above
        return "".join(reversed(names)).lstrip(".")

    def found(self) -> dict[str, Any]:
        """The tensors by the names of their paths."""
        return {self.name(place): tensor for place, tensor in self.tensors}


def _parts(item: Any) -> Iterator[tuple[Any, Any, str, Any]]:
    """The parts of an object: for each how to take it, by which key, its name, and the part."""
    if isinstance(item, types.FunctionType):
        yield from _parts_of_function(item)
    elif isinstance(item, types.MethodType):
        yield _slot, "__self__", "", item.__self__
        yield _slot, "__func__", "", item.__func__
    elif isinstance(item, partial):
        for name in ("func", "args", "keywords"):
            yield _slot, name, f".{name}", getattr(item, name)
    elif hasattr(type(item), "reasons") and hasattr(item, "__wrapped__"):  # of `jit`
        yield _slot, "__wrapped__", "", item.__wrapped__
    elif isinstance(item, dict):
        for key, part in list(item.items()):
            yield _part, key, f"[{key!r}]", part
    elif isinstance(item, (list, tuple)):
        for place, part in enumerate(item):
            yield _part, place, f"[{place}]", part
    elif not isinstance(item, (type, types.ModuleType)):
        yield from _parts_of_object(item)


def _parts_of_function(function: types.FunctionType) -> Iterator[tuple[Any, Any, str, Any]]:
    code = function.__code__
    own = not (function.__globals__.get("__name__") or "").startswith("rulegrad.")
    for place, name in enumerate(code.co_freevars):
        try:
            yield _cell, place, name, _cell(function, place)
        except ValueError:  # nothing is in it yet
            continue
    for place, part in enumerate(function.__defaults__ or ()):
        yield _default, place, f"the default {place}", part
    for name, part in (function.__kwdefaults__ or {}).items():
        yield _keyword, name, name, part
    if "__wrapped__" in function.__dict__:
        yield _attribute, "__wrapped__", "", function.__dict__["__wrapped__"]
    if own:
        for name in sorted(names_in(code)):
            if name in function.__globals__ and name != function.__name__:
                yield _global, name, name, function.__globals__[name]


@lru_cache(maxsize=4096)
def names_in(code: types.CodeType) -> frozenset[str]:
    """The names that a code object uses, and the functions in it."""
    inner = [names_in(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return frozenset(code.co_names).union(*inner)


def _methods(kind: type) -> tuple[tuple[str, frozenset[str]], ...]:
    """The methods and properties of a class, with the names that they use."""
    found = []
    for owner in kind.__mro__:
        for name, part in owner.__dict__.items():
            function = part.fget if isinstance(part, property) else getattr(part, "__func__", part)
            if isinstance(function, types.FunctionType):
                found.append((name, names_in(function.__code__)))
    return tuple(found)


def _parts_of_object(item: Any) -> Iterator[tuple[Any, Any, str, Any]]:
    attributes = getattr(item, "__dict__", None)
    if isinstance(attributes, dict):
        for name, part in list(attributes.items()):
            yield _attribute, name, f".{name}", part
    for owner in type(item).__mro__:
        slots = owner.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if not name.startswith("__") and hasattr(item, name):
                yield _slot, name, f".{name}", getattr(item, name)


class Paths:
    """The steps to what a trace may have read, and what they led to."""

    def __init__(self, walk: Walk, wanted: set[int]) -> None:
        """Of a walk only what leads to the tensors with these ids, to plain values, and to objects."""
        targets = [(place, tensor) for place, tensor in walk.tensors if id(tensor) in wanted]
        used = _with_above(walk, [place for place, _ in (*targets, *walk.values, *walk.objects)])
        joins = [(other, first) for other, first in walk.joins if first in used]
        used = _with_above(walk, [*used, *(other for other, _ in joins)])
        new = {old: k for k, old in enumerate(sorted(used))}
        self._steps = [(new.get(walk.steps[old].above, -1), *walk.steps[old][1:3]) for old in sorted(used)]
        self._tensors = [(new[place], id(tensor), walk.name(place)) for place, tensor in targets]
        self._values = [(new[place], type(value), value, walk.name(place)) for place, value in walk.values]
        self._objects = [(new[place], _reference(item), walk.name(place)) for place, item in walk.objects]
        self._joins = [(new[other], new[first], walk.name(other)) for other, first in joins]
        containers = [(place, item) for place in used if _is_container(item := walk.item(place))]
        self._keys = [(new[place], _keys(item), walk.name(place)) for place, item in containers]

    def guard(self) -> PathGuard:
        """The same for the engine, which only says whether something has changed."""
        return PathGuard(
            [(above, _WAYS.index(take), key) for above, take, key in self._steps],
            [(place, number) for place, number, _ in self._tensors],
            [(place, kind, value) for place, kind, value, _ in self._values],
            [(place, reference) for place, reference, _ in self._objects],
            [(place, first) for place, first, _ in self._joins],
            [(place, keys) for place, keys, _ in self._keys],
        )

    def _present(self, roots: Sequence[Any]) -> list[Any]:
        """The values that the steps lead to, as far as they can be taken."""
        values: list[Any] = []
        for above, take, key in self._steps:
            try:
                values.append(take(roots if above < 0 else values[above], key))
            except _MISSING:
                values.append(_GONE)
        return values

    def change(self, roots: Sequence[Any]) -> str:
        """The first thing that is not as it was, as a sentence; "" where there is none."""
        values: list[Any] = []
        try:
            for above, take, key in self._steps:
                values.append(take(roots if above < 0 else values[above], key))
        except _MISSING:
            values = self._present(roots)
        for place, number, name in self._tensors:
            if id(values[place]) != number:
                return f"{name} is another object now"
        for place, kind, value, name in self._values:
            now = values[place]
            if type(now) is not kind or (now != value and not (now != now and value != value)):
                return f"{name} is {'gone' if now is _GONE else repr(now)} now, and was {value!r}"
        for place, reference, name in self._objects:
            if values[place] is not reference():
                return f"{name} is another object now"
        for place, first, name in self._joins:
            if values[place] is not values[first]:
                return f"{name} is another object now"
        for place, keys, name in self._keys:
            if not _is_container(values[place]) or _keys(values[place]) != keys:
                return f"{name} has other entries now"
        return ""


#: What a step raises that can no longer be taken.
_MISSING: Final = (KeyError, IndexError, AttributeError, TypeError, ValueError)


def _with_above(walk: Walk, places: Sequence[int]) -> set[int]:
    """The steps, and all that lead to them."""
    used: set[int] = set()
    for place in places:
        while place >= 0 and place not in used:
            used.add(place)
            place = walk.steps[place].above
    return used


def _reference(item: Any) -> Callable[[], Any]:
    """A weak reference where there can be one."""
    try:
        return weakref.ref(item)
    except TypeError:
        return lambda: item


def _is_container(item: Any) -> bool:
    return isinstance(item, (dict, list))


def _keys(item: Any) -> Any:
    return tuple(item) if isinstance(item, dict) else len(item)
