"""Nested tuples, lists and dicts of tensors, as arguments and results of functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rulegrad.tensor.core import TensorCore

Rebuild = Callable[[Sequence[Any]], Any]


def flatten(tree: Any) -> tuple[list[Any], Rebuild]:
    """The tensors of a tree in order, and a function that puts others in their places. What is no tensor stays.

    >>> from rulegrad import Tensor
    >>> leaves, rebuild = flatten({"a": Tensor([1]), "b": (Tensor([2]), "text")})
    >>> len(leaves), rebuild(["first", "second"])
    (2, {'a': 'first', 'b': ('second', 'text')})
    """
    leaves: list[Any] = []

    def outline(item: Any) -> Rebuild:
        if isinstance(item, TensorCore):
            place = len(leaves)
            leaves.append(item)
            return lambda found: found[place]
        if isinstance(item, dict):
            parts = {key: outline(part) for key, part in item.items()}
            return lambda found: {key: part(found) for key, part in parts.items()}
        if isinstance(item, (list, tuple)):
            several = [outline(part) for part in item]
            kind: Any = type(item)
            if hasattr(item, "_fields"):  # a named tuple takes its parts one by one
                return lambda found: kind(*(part(found) for part in several))
            return lambda found: kind(part(found) for part in several)
        return lambda found: item

    rebuild = outline(tree)
    return leaves, rebuild


def change(tree: Any, function: Callable[[Any], Any]) -> Any:
    """The tree with `function` of each of its tensors in the tensor's place."""
    leaves, rebuild = flatten(tree)
    return rebuild([function(leaf) for leaf in leaves])
