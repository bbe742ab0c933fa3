"""Modules put together. A plain list or dict of layers as an attribute of a module works too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rulegrad.errors import ShapeError
from rulegrad.nn import _walking as walking
from rulegrad.nn._module import Module
from rulegrad.nn.parameter import Parameter
from rulegrad.tensor.tensor import Tensor

if TYPE_CHECKING:
    from typing_extensions import Self

LayerLike = Callable[..., Any]


class _Container(Module):
    """Base of the containers: the entries by name."""

    _entries: dict[str, Any]

    def __init__(self, entries: Mapping[str, Any]) -> None:
        self._entries = dict(entries)

    def _walked(self) -> Mapping[str, Any]:
        return {**super()._walked(), **self._entries}

    def _direct(self) -> Mapping[str, Any]:
        return {**super()._direct(), **self._entries}

    def _may_hold(self) -> dict[str, Any]:
        return {name: part for name, part in super()._may_hold().items() if name != "_entries"}

    def _kind_of(self, name: str, tensor: Tensor) -> walking.Kind:
        if name in self._entries:
            return "parameter" if isinstance(tensor, Parameter) else "plain"
        return super()._kind_of(name, tensor)

    def add_module(self, name: str, module: Any) -> None:
        """Add an entry.

        >>> from rulegrad import nn
        >>> model = nn.Sequential(); model.add_module("double", lambda x: x * 2)
        >>> model(Tensor([1, 2])).tolist()
        [2, 4]
        """
        self._entries[name] = module

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute. A module is an entry, as in PyTorch, and so is what takes the place of an entry."""
        entries = self.__dict__.get("_entries")
        if entries is not None and (name in entries or isinstance(value, Module)):
            entries[name] = value
        else:
            super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        if name in self.__dict__.get("_entries", {}):
            del self._entries[name]
        else:
            super().__delattr__(name)

    def __getattr__(self, name: str) -> Any:
        entries = self.__dict__.get("_entries", {})
        if name in entries:
            return entries[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __len__(self) -> int:
        return len(self._entries)


class _Listed(_Container):
    """Entries in order, named by their places."""

    def __init__(self, entries: Iterable[Any] = ()) -> None:
        super().__init__({str(place): entry for place, entry in enumerate(entries)})

    def append(self, entry: Any) -> Self:
        """Add an entry at the end. Returns the container.

        >>> from rulegrad import nn
        >>> layers = nn.ModuleList([nn.ReLU(), nn.Tanh()])
        >>> len(layers.append(nn.Sigmoid()))
        3
        """
        self._entries[str(len(self))] = entry
        return self

    def __iadd__(self, entries: Iterable[Any]) -> Self:
        return self.extend(entries)

    def extend(self, entries: Iterable[Any]) -> Self:
        """Add entries at the end. Returns the container.

        >>> from rulegrad import nn
        >>> layers = nn.ModuleList([nn.ReLU(), nn.Tanh()])
        >>> len(layers.extend([nn.Sigmoid(), nn.ReLU()]))
        4
        """
        for entry in list(entries):
            self.append(entry)
        return self

    def insert(self, index: int, entry: Any) -> None:
        """Add an entry before the one at `index`.

        >>> from rulegrad import nn
        >>> layers = nn.ModuleList([nn.ReLU(), nn.Tanh()])
        >>> layers.insert(1, nn.Sigmoid()); [type(layer).__name__ for layer in layers]
        ['ReLU', 'Sigmoid', 'Tanh']
        """
        entries = list(self._entries.values())
        entries.insert(index, entry)
        self._entries = {str(place): part for place, part in enumerate(entries)}

    def pop(self, index: int = -1) -> Any:
        """Take the entry at `index` out, and return it.

        >>> from rulegrad import nn
        >>> layers = nn.ModuleList([nn.ReLU(), nn.Tanh()])
        >>> type(layers.pop()).__name__, len(layers)
        ('Tanh', 1)
        """
        entry = self[index]
        del self[index]
        return entry

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._entries.values()))

    def __getitem__(self, index: Any) -> Any:
        """The entry at a place, or a container of those in a slice."""
        if isinstance(index, slice):
            return type(self)(list(self._entries.values())[index])
        return self._entries[self._name(index)]

    def __setitem__(self, index: int, entry: Any) -> None:
        self._entries[self._name(index)] = entry

    def __delitem__(self, index: int | slice) -> None:
        entries = list(self._entries.values())
        if isinstance(index, int):
            self._name(index)
        del entries[index]
        self._entries = {str(place): part for place, part in enumerate(entries)}

    def _name(self, index: int) -> str:
        names = list(self._entries)
        if not -len(names) <= index < len(names):
            raise IndexError(f"{type(self).__name__}: no entry {index}; there are {len(names)}")
        return names[index]


class Sequential(_Listed):
    """Layers (or functions of a tensor) one after the other: `Sequential(a, b)`, or a dict with their names.

    The tensors' names are PyTorch's: `0.weight`, `1.bias`, …

    >>> from rulegrad import Tensor, nn
    >>> model = nn.Sequential(nn.Linear(4, 3), Tensor.relu, nn.Linear(3, 2))
    >>> list(nn.state.get_state_dict(model))
    ['0.weight', '0.bias', '2.weight', '2.bias']
    """

    if TYPE_CHECKING:

        def __call__(self, x: Tensor) -> Tensor: ...

    def __init__(self, *layers: LayerLike | Mapping[str, LayerLike]) -> None:
        if len(layers) == 1 and isinstance(layers[0], Mapping):
            _Container.__init__(self, layers[0])
        else:
            super().__init__(layers)

    def forward(self, x: Any) -> Any:
        """The result of the last layer.

        >>> from rulegrad import nn
        >>> nn.Sequential(Tensor.abs, Tensor.sqrt).forward(Tensor([-4.0, 9.0])).tolist()
        [2.0, 3.0]
        """
        for layer in self:
            x = layer(x)
        return x

    def __add__(self, other: Sequential) -> Sequential:
        """The layers of both, one after the other."""
        return Sequential(*self, *other) if isinstance(other, Sequential) else NotImplemented

    def __getitem__(self, index: Any) -> Any:
        """The layer at a place, or a Sequential of those in a slice, which keep their names."""
        if isinstance(index, slice):
            return Sequential(dict(list(self._entries.items())[index]))
        return super().__getitem__(index)


class ModuleList(_Listed):
    """Modules in a list: `layers.0.weight`, `layers.1.weight`, …

    >>> from rulegrad import nn
    >>> layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))
    >>> len(layers), len(list(layers.parameters())), layers[-1].in_features
    (3, 6, 2)
    """


class ParameterList(_Listed):
    """Parameters in a list; tensors and arrays become parameters.

    >>> from rulegrad import Tensor, nn
    >>> [name for name, _ in nn.ParameterList([Tensor.ones(2), Tensor.zeros(3)]).named_parameters()]
    ['0', '1']
    """

    def __init__(self, values: Iterable[Any] = ()) -> None:
        super().__init__(map(_parameter, values))

    def append(self, value: Any) -> Self:
        """Add a parameter at the end. Returns the list.

        >>> from rulegrad import nn
        >>> weights = nn.ParameterList().append(Tensor([1.0, 2.0])); weights[0].requires_grad
        True
        """
        return super().append(_parameter(value))

    def __setitem__(self, index: int, value: Any) -> None:
        super().__setitem__(index, _parameter(value))


class _Named(_Container):
    """Entries by name, as in a dict."""

    def __init__(self, entries: Mapping[str, Any] | Iterable[tuple[str, Any]] | None = None) -> None:
        super().__init__({})
        if entries is not None:  # a class with an `update` of its own is not ready for it
            self.update(entries)

    def update(self, entries: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> None:
        """Add all entries of a dict, or pairs of names and entries.

        >>> from rulegrad import nn
        >>> kinds = nn.ModuleDict({"relu": nn.ReLU(), "tanh": nn.Tanh()})
        >>> kinds.update({"sigmoid": nn.Sigmoid()}); len(kinds)
        3
        """
        for name, entry in dict(entries).items():
            self[name] = entry

    def __getitem__(self, name: str) -> Any:
        return self._entries[name]

    def __setitem__(self, name: str, entry: Any) -> None:
        if not isinstance(name, str) or "." in name:
            raise ShapeError(f"{type(self).__name__}: the name {name!r}; use a text without a dot")
        self._entries[name] = entry

    def __delitem__(self, name: str) -> None:
        del self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._entries))

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def keys(self) -> Iterable[str]:
        """The names.

        >>> from rulegrad import nn
        >>> kinds = nn.ModuleDict({"relu": nn.ReLU(), "tanh": nn.Tanh()})
        >>> list(kinds.keys())
        ['relu', 'tanh']
        """
        return self._entries.keys()

    def values(self) -> Iterable[Any]:
        """The entries.

        >>> from rulegrad import nn
        >>> kinds = nn.ModuleDict({"relu": nn.ReLU(), "tanh": nn.Tanh()})
        >>> [type(layer).__name__ for layer in kinds.values()]
        ['ReLU', 'Tanh']
        """
        return self._entries.values()

    def items(self) -> Iterable[tuple[str, Any]]:
        """The names and the entries.

        >>> from rulegrad import nn
        >>> kinds = nn.ModuleDict({"relu": nn.ReLU(), "tanh": nn.Tanh()})
        >>> [(name, type(layer).__name__) for name, layer in kinds.items()]
        [('relu', 'ReLU'), ('tanh', 'Tanh')]
        """
        return self._entries.items()


class ModuleDict(_Named):
    """Modules by name: `heads.digit.weight`, …

    >>> from rulegrad import nn
    >>> heads = nn.ModuleDict({"digit": nn.Linear(2, 10), "parity": nn.Linear(2, 2, bias=False)})
    >>> list(heads.state_dict())
    ['digit.weight', 'digit.bias', 'parity.weight']
    """


class ParameterDict(_Named):
    """Parameters by name; tensors and arrays become parameters.

    >>> from rulegrad import nn
    >>> weights = nn.ParameterDict({"scale": Tensor([1.0, 2.0])})
    >>> [(name, weight.shape) for name, weight in weights.named_parameters()]
    [('scale', (2,))]
    """

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, _parameter(value))


def _parameter(value: Any) -> Any:
    """A parameter of a tensor, an array, or numbers; other entries, such as lists of parameters, stay what they are."""
    stays = isinstance(value, (Parameter, Module)) or value is None or callable(value) or isinstance(value, str)
    return value if stays else Parameter(value)
