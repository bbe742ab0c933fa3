"""`torch.utils._pytree`: nested tuples, lists and dicts of anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

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


def tree_map_only(kind: type | tuple[type, ...], func: Callable[[Any], Any], tree: Any) -> Any:
    """The tree with the function's results in the places of leaves of a kind.

    >>> tree_map_only(int, lambda x: -x, [1, ("a", 2)])
    [-1, ('a', -2)]
    """
    return tree_map(lambda leaf: func(leaf) if isinstance(leaf, kind) else leaf, tree)


def tree_any(predicate: Callable[[Any], bool], tree: Any) -> bool:
    """Whether it is true of a leaf."""
    return any(map(predicate, tree_leaves(tree)))


def tree_all(predicate: Callable[[Any], bool], tree: Any) -> bool:
    """Whether it is true of all leaves."""
    return all(map(predicate, tree_leaves(tree)))


def _dict_flatten(tree: dict[Any, Any]) -> tuple[list[Any], list[Any]]:
    """A dict's values, and its keys: for classes of a program's own that are dicts."""
    return list(tree.values()), list(tree)


class MappingKey(NamedTuple):
    """The place of a leaf in a dict."""

    key: Any


def _dict_flatten_with_keys(tree: dict[Any, Any]) -> tuple[list[tuple[MappingKey, Any]], list[Any]]:
    """A dict's values with their places, and its keys."""
    return [(MappingKey(key), value) for key, value in tree.items()], list(tree)


def _dict_unflatten(values: Sequence[Any], keys: Sequence[Any]) -> dict[Any, Any]:
    """The dict of these.

    >>> _dict_unflatten(*_dict_flatten({"a": 1}))
    {'a': 1}
    """
    return dict(zip(keys, values, strict=True))


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
