"""`torch.utils._pytree`: nested tuples, lists and dicts of anything."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rulegrad.errors import ShapeError

PyTree = Any


class NodeDef(NamedTuple):
    """A kind of nodes: how to take one apart, and to make one of parts and the rest."""

    type: Any
    flatten_fn: Callable[[Any], tuple[list[Any], Any]]
    unflatten_fn: Callable[[Any, Any], Any]


class TreeSpec:
    """A tree without its leaves: the kind of the node, what is left of it without its parts, and theirs.

    >>> tree_flatten([1, (2, 3)])[1].num_leaves
    3
    """

    def __init__(self, type: Any, context: Any, children_specs: Sequence[TreeSpec]) -> None:
        self.type, self.context, self.children_specs = type, context, list(children_specs)
        self.num_leaves: int = sum(child.num_leaves for child in self.children_specs)

    def is_leaf(self) -> bool:
        """Whether it is a leaf."""
        return False

    def unflatten(self, leaves: Sequence[Any]) -> Any:
        """The tree with these leaves. Raises ShapeError for another number of them."""
        if len(leaves) != self.num_leaves:
            raise ShapeError(f"tree_unflatten: {len(leaves)} leaves for a tree of {self.num_leaves}; give as many")
        parts, at = [], 0
        for child in self.children_specs:
            parts.append(child.unflatten(leaves[at : at + child.num_leaves]))
            at += child.num_leaves
        return SUPPORTED_NODES[self.type].unflatten_fn(parts, self.context)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeSpec):
            return NotImplemented
        mine, others = ((one.type, one.context, one.children_specs) for one in (self, other))
        return mine == others

    __hash__ = object.__hash__


class LeafSpec(TreeSpec):
    """The place of a leaf."""

    def __init__(self) -> None:
        super().__init__(None, None, [])
        self.num_leaves = 1

    def is_leaf(self) -> bool:
        """True."""
        return True

    def unflatten(self, leaves: Sequence[Any]) -> Any:
        """The leaf."""
        (leaf,) = leaves
        return leaf


def _get_node_type(tree: Any) -> Any:
    """The kind of a node: its class, and `namedtuple` for all of these."""
    return namedtuple if isinstance(tree, tuple) and hasattr(tree, "_fields") else type(tree)


def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """The leaves in order, and what `tree_unflatten` makes such a tree of; None is a leaf.

    >>> leaves, outline = tree_flatten({"a": 1, "b": (2, [3])})
    >>> leaves, tree_unflatten([4, 5, 6], outline)
    ([1, 2, 3], {'a': 4, 'b': (5, [6])})
    """
    kind = _get_node_type(tree)
    if kind not in SUPPORTED_NODES or (is_leaf is not None and is_leaf(tree)):
        return [tree], LeafSpec()
    parts, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    leaves: list[Any] = []
    children = []
    for part in parts:
        found, child = tree_flatten(part, is_leaf)
        leaves += found
        children.append(child)
    return leaves, TreeSpec(kind, context, children)


def tree_unflatten(leaves: Sequence[Any], treespec: TreeSpec) -> Any:
    """The tree with these leaves."""
    return treespec.unflatten(list(leaves))


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """The tree without its leaves."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """The tree of the function's results for its leaves, and for those of other trees at the same places.

    >>> tree_map(lambda x, y: x + y, [1, (2,)], [10, (20,)])
    [11, (22,)]
    """
    leaves, outline = tree_flatten(tree, is_leaf)
    others = [tree_flatten(rest, is_leaf)[0] for rest in rests]
    return outline.unflatten([func(*parts) for parts in zip(leaves, *others, strict=True)])


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


def _namedtuple_flatten(tree: Any) -> tuple[list[Any], Any]:
    return list(tree), type(tree)


def _namedtuple_unflatten(parts: Any, kind: Any) -> Any:
    return kind(*parts)


#: Kinds of nodes, by class.
SUPPORTED_NODES: dict[Any, NodeDef] = {
    tuple: NodeDef(tuple, lambda tree: (list(tree), None), lambda parts, _: tuple(parts)),
    list: NodeDef(list, lambda tree: (list(tree), None), lambda parts, _: list(parts)),
    dict: NodeDef(dict, _dict_flatten, _dict_unflatten),
    OrderedDict: NodeDef(OrderedDict, _dict_flatten, lambda parts, keys: OrderedDict(zip(keys, parts, strict=True))),
    namedtuple: NodeDef(namedtuple, _namedtuple_flatten, _namedtuple_unflatten),
    deque: NodeDef(deque, lambda tree: (list(tree), tree.maxlen), deque),
    defaultdict: NodeDef(
        defaultdict,
        lambda tree: (list(tree.values()), (tree.default_factory, list(tree))),
        lambda parts, rest: defaultdict(rest[0], zip(rest[1], parts, strict=True)),
    ),
}


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
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn)


_register_pytree_node = register_pytree_node
