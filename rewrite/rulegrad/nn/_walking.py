"""Finding the tensors and the modules of a model: over attributes, lists, tuples and dicts, each under its path.

A module says itself which of its tensors are parameters and which are buffers. Of an object that is not a module every
tensor counts: as a parameter where it requires a gradient, else as a buffer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any, Literal, NamedTuple

from rulegrad.nn.parameter import Parameter
from rulegrad.tensor.tensor import Tensor

#: "temporary": a buffer that is not part of the state; "plain": an attribute like any other; "module" is none of a
#: tensor.
Kind = Literal["parameter", "buffer", "temporary", "plain", "module"]
_ORDER = {"parameter": 0, "buffer": 1, "temporary": 1}


class Walked:
    """An object that says what the walk is to see of it: nothing, unless a subclass says more."""

    def _walked(self) -> Mapping[str, Any]:
        """The parts that may hold tensors, by name."""
        return {}

    def _direct(self) -> Mapping[str, Any]:
        """Those of them that it holds without a list or a dict between."""
        return self._walked()

    def _kind_of(self, name: str, tensor: Tensor) -> Kind:
        """The kind of the tensor of this name."""
        return "plain"


class Found(NamedTuple):
    """A tensor under its path: `layers.0.weight`."""

    path: str
    tensor: Tensor
    kind: Kind


def tensors(item: Any, path: str = "", above: tuple[Any, ...] = ()) -> Iterator[Found]:
    """Every tensor, as often as it is held. Of a module the parameters come first, then buffers, then other parts."""
    if isinstance(item, Tensor):
        yield Found(path, item, _kind_of(item, path, above))
        return
    if _is_seen(item, above):
        return
    parts = list(_parts(item))
    if isinstance(item, Walked):
        parts.sort(key=lambda part: _ORDER.get(item._kind_of(*part), 2) if isinstance(part[1], Tensor) else 2)
    for name, part in parts:
        yield from tensors(part, _joined(path, name), (*above, item))


def modules(item: Any, path: str = "", above: tuple[Any, ...] = ()) -> Iterator[tuple[str, Walked]]:
    """The modules that are met first on the way down from `item`, by their paths; `item` itself is not among them."""
    if isinstance(item, Tensor) or _is_seen(item, above):
        return
    for name, part in _parts(item):
        if isinstance(part, Walked):
            if not _is_seen(part, (*above, item)):
                yield _joined(path, name), part
        else:
            yield from modules(part, _joined(path, name), (*above, item))


def keep_apart(parts: dict[str, Any], several: list[str]) -> None:
    """Take out of a module's lists and dicts, of these names, what it holds under a name of its own.

    In the others of them only tensors, modules, lists and dicts are parts: nobody looks into other objects there.
    """
    held: set[int] | None = None
    for name in several:
        entries = _entries(parts[name])
        if not any(isinstance(entry, _LOOKED_INTO) for entry in entries.values()):
            del parts[name]
            continue
        held = _held(part for key, part in parts.items() if key not in several) if held is None else held
        parts[name] = {
            key: entry for key, entry in entries.items() if id(entry) not in held and isinstance(entry, _LOOKED_INTO)
        }


_LOOKED_INTO = (Walked, Tensor, list, tuple, Mapping)


def _entries(item: Any) -> dict[str, Any]:
    if isinstance(item, Mapping):
        return {str(key): part for key, part in item.items()}
    return {str(place): part for place, part in enumerate(item)}


def _held(parts: Iterable[Any]) -> set[int]:
    """The numbers of modules and tensors that these are, and that are in these modules."""
    found: set[int] = set()
    waiting = [part for part in parts if isinstance(part, (Walked, Tensor))]
    while waiting:
        part = waiting.pop()
        if id(part) not in found:
            found.add(id(part))
            if isinstance(part, Walked):
                waiting += [inner for inner in part._direct().values() if isinstance(inner, (Walked, Tensor))]
    return found


def _is_seen(item: Any, above: tuple[Any, ...]) -> bool:
    return isinstance(item, (type, ModuleType, FunctionType)) or any(item is other for other in above)


def _parts(item: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(item, Walked):
        return iter(item._walked().items())
    if isinstance(item, Mapping):
        return ((str(key), part) for key, part in item.items())
    if isinstance(item, (list, tuple)):
        return ((str(place), part) for place, part in enumerate(item))
    return iter(getattr(item, "__dict__", {}).items())


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _kind_of(tensor: Tensor, path: str, above: tuple[Any, ...]) -> Kind:
    """The kind of a tensor for its holder; in lists and dicts to the object that holds these."""
    if above and isinstance(above[-1], Walked):
        return above[-1]._kind_of(path.rpartition(".")[2], tensor)
    if isinstance(tensor, Parameter):
        return "parameter"
    holders = [item for item in above if not isinstance(item, (Mapping, list, tuple))]
    return "plain" if holders and isinstance(holders[-1], Walked) else "buffer"
