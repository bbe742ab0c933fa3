"""`torch.utils._pytree`: nested tuples, lists and dicts of anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rulegrad.tensor.trees import Rebuild


def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], Rebuild]:
    """The leaves in order, and what `tree_unflatten` makes such a tree of; None is a leaf.

    >>> leaves, outline = tree_flatten({"a": 1, "b": (2, [3])})
    >>> leaves, tree_unflatten([4, 5, 6], outline)
    ([1, 2, 3], {'a': 4, 'b': (5, [6])})
    """
    leaves: list[Any] = []
    return leaves, _outline(tree, is_leaf or (lambda item: False), leaves)


def tree_unflatten(leaves: Sequence[Any], treespec: Rebuild) -> Any:
    """The tree with these leaves."""
    return treespec(list(leaves))


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """The tree of the function's results for its leaves, and for those of other trees at the same places.

    >>> tree_map(lambda x, y: x + y, [1, (2,)], [10, (20,)])
    [11, (22,)]
    """
    leaves, outline = tree_flatten(tree, is_leaf)
    others = [tree_flatten(rest, is_leaf)[0] for rest in rests]
    return outline([func(*parts) for parts in zip(leaves, *others, strict=True)])


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves in order."""
    return tree_flatten(tree, is_leaf)[0]


#: Kinds of nodes beside tuples, lists and dicts: how to take one apart, and to make one of parts and the rest.
_kinds: dict[type, tuple[Callable[[Any], tuple[Any, Any]], Callable[[Any, Any], Any]]] = {}


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], tuple[Any, Any]],
    unflatten_fn: Callable[[Any, Any], Any],
    **more: Any,
) -> None:
    """From now on objects of this class are nodes: `flatten_fn` gives (parts, rest), `unflatten_fn(parts, rest)` one.

    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> register_pytree_node(Pair, lambda pair: ([pair.a, pair.b], None), lambda parts, rest: Pair(*parts))
    >>> tree_map(lambda x: x + 1, Pair(1, 2)).b
    3
    """
    _kinds[cls] = (flatten_fn, unflatten_fn)


_register_pytree_node = register_pytree_node


def _outline(item: Any, is_leaf: Callable[[Any], bool], leaves: list[Any]) -> Rebuild:
    if type(item) in _kinds and not is_leaf(item):
        take_apart, make = _kinds[type(item)]
        found_parts, rest = take_apart(item)
        inner = [_outline(part, is_leaf, leaves) for part in found_parts]
        return lambda found: make([part(found) for part in inner], rest)
    if isinstance(item, (dict, list, tuple)) and not is_leaf(item):
        kind: Any = type(item)
        if isinstance(item, dict):
            named = {key: _outline(part, is_leaf, leaves) for key, part in item.items()}
            return lambda found: {key: part(found) for key, part in named.items()}
        several = [_outline(part, is_leaf, leaves) for part in item]
        if hasattr(item, "_fields"):
            return lambda found: kind(*(part(found) for part in several))
        return lambda found: kind(part(found) for part in several)
    place = len(leaves)
    leaves.append(item)
    return lambda found: found[place]
