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


def _outline(item: Any, is_leaf: Callable[[Any], bool], leaves: list[Any]) -> Rebuild:
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
