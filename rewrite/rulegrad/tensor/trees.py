"""Nested tuples, lists, dicts and dataclasses of tensors, as arguments and results of functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from rulegrad import _core
from rulegrad.errors import CaptureError
from rulegrad.tensor.core import TensorCore

Rebuild = Callable[[Sequence[Any]], Any]

_LARGE = 1 << 16  # bytes of an array that is not a constant of a program any more


def flatten(tree: Any, wanted: type = TensorCore) -> tuple[list[Any], Rebuild]:
    """The tensors of a tree in order, and a function that puts others in their places. Other values stay.

    wanted: a class whose objects are looked for in the place of tensors.

    >>> from rulegrad import Tensor
    >>> leaves, rebuild = flatten({"a": Tensor([1]), "b": (Tensor([2]), "text")})
    >>> len(leaves), rebuild(["first", "second"])
    (2, {'a': 'first', 'b': ('second', 'text')})
    """
    leaves: list[Any] = []
    return leaves, _outline(tree, wanted, leaves)


def _outline(item: Any, wanted: type, leaves: list[Any]) -> Rebuild:
    """Adds the leaves of a part of a tree. A function of its own: one inside `flatten` would hold itself, and them."""
    if isinstance(item, wanted):
        place = len(leaves)
        leaves.append(item)
        return lambda found: found[place]
    if isinstance(item, dict):
        parts = {key: _outline(part, wanted, leaves) for key, part in item.items()}
        make = _maker_of_dicts(item)
        return lambda found: make({key: part(found) for key, part in parts.items()})
    if isinstance(item, (list, tuple)):
        several = [_outline(part, wanted, leaves) for part in item]
        kind: Any = type(item)
        if hasattr(item, "_fields"):  # a named tuple takes its parts one by one
            return lambda found: kind(*(part(found) for part in several))
        return lambda found: kind(part(found) for part in several)
    if dataclasses.is_dataclass(item) and not isinstance(item, type):
        values = {field.name: _outline(getattr(item, field.name), wanted, leaves) for field in dataclasses.fields(item)}
        return _maker_of_dataclass(type(item), values)
    return lambda found: item


def _maker_of_dicts(item: Any) -> Callable[[dict[Any, Any]], Any]:
    """From the parts of a dict to one of its kind; the dict itself is not kept."""
    kind: Any = type(item)
    if kind is dict:
        return lambda parts: parts
    factory = getattr(item, "default_factory", None)
    return kind if factory is None else lambda parts: kind(factory, parts)


def _maker_of_dataclass(kind: type, parts: dict[str, Rebuild]) -> Rebuild:
    """Makes dataclasses without `__init__`: its checks were made once."""

    def rebuild(found: Sequence[Any]) -> Any:
        new: Any = object.__new__(kind)
        for name, part in parts.items():
            object.__setattr__(new, name, part(found))
        return new

    return rebuild


def change(tree: Any, function: Callable[[Any], Any]) -> Any:
    """The tree with `function` of each of its tensors in the tensor's place."""
    leaves, rebuild = flatten(tree)
    return rebuild([function(leaf) for leaf in leaves])


def structure(tree: Any, tensors: list[Any], objects: list[Any]) -> Hashable:
    """A key that is equal for trees that one computation serves: containers, shapes and dtypes, other values.

    The tensors are added to `tensors`, each once, so the structure says which places hold the same; objects that are
    told apart by identity (modules, functions) are added to `objects`. Raises CaptureError for a value that is neither.

    >>> x, found = Tensor([1.0]), []
    >>> structure([x, 2], found, []) == structure([Tensor([5.0]), 2], [], [])
    True
    >>> structure([x, x], [], []) == structure([x, Tensor([1.0])], [], [])
    False
    """
    return _core.structure(tree, tensors, objects, _unusual)


_PLAIN = frozenset((int, float, bool, str, bytes, complex, type(None)))


def _unusual(tree: Any, tensors: list[Any], objects: list[Any]) -> Hashable:
    kind = type(tree)
    if isinstance(tree, (list, tuple)):
        return (kind, *[structure(part, tensors, objects) for part in tree])
    if isinstance(tree, dict):
        return (kind, *[(key, structure(part, tensors, objects)) for key, part in tree.items()])
    if isinstance(tree, slice):
        return (slice, *[structure(part, tensors, objects) for part in (tree.start, tree.stop, tree.step)])
    if isinstance(tree, np.ndarray):
        if tree.nbytes > _LARGE or tree.dtype.hasobject:
            raise CaptureError(
                f"jit: an argument is an array of {tree.dtype} with {tree.nbytes} bytes, which would be a constant of "
                "the captured function; pass a tensor"
            )
        return (kind, tree.shape, str(tree.dtype), tree.tobytes())
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        fields = dataclasses.fields(tree)
        return (kind, *[structure(getattr(tree, field.name), tensors, objects) for field in fields])
    if getattr(kind, "__hash__", None) is object.__hash__ or callable(tree):
        objects.append(tree)
        return ("object", id(tree))
    try:
        hash(tree)
    except TypeError:
        raise CaptureError(
            f"jit: an argument of type {kind.__name__} is neither a tensor nor hashable; pass tensors, numbers, texts, "
            "or nested tuples, lists, dicts and dataclasses of them"
        ) from None
    return (kind, tree)


def difference(old: Any, new: Any) -> str:
    """The first thing that two structures differ in, as a sentence; "" where they are the same.

    >>> first, second = (structure(item, [], []) for item in ([Tensor([1.0]), 2], [Tensor([1.0]), 3]))
    >>> difference(first, second)
    'an argument is 3, and was 2'
    """
    if old == new:
        return ""
    if not (isinstance(old, tuple) and isinstance(new, tuple)):  # a number is the place of a tensor that was met before
        places = isinstance(old, int) or isinstance(new, int)
        return "other arguments are the same tensor" if places else f"an argument is {new!r}, and was {old!r}"
    shown = [_described(part) for part in (new, old)]
    if all(shown):
        return f"an argument is {shown[0]}, and was {shown[1]}"
    if old[0] != new[0] or len(old) != len(new):
        return "the arguments have another structure"
    if old[0] == "object" or old[0] is np.ndarray:
        return "an argument is another object, or an array with other values"
    return next((found for pair in zip(old[1:], new[1:]) if (found := difference(*pair))), "")


def _described(part: Any) -> str:
    """The tensor or the plain value that a part of a structure stands for; "" for other parts."""
    if len(part) == 6 and isinstance(part[0], int):
        _, shape, dtype, device, requires_grad, _ = part
        return f"a tensor of {dtype} {shape} on {device}{', with a gradient' if requires_grad else ''}"
    if part[0] in _PLAIN:
        return str(part[1]) if part[0] in (float, complex) else repr(part[1])
    return ""
