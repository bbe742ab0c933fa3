"""Tensors of modules that are computed from others, which are trained in their place, by PyTorch's names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rulegrad.errors import ConfigError, DtypeError, ShapeError
from rulegrad.nn import _computed as computed
from rulegrad.nn._container import ModuleDict, ModuleList
from rulegrad.nn._module import Module
from rulegrad.nn.parameter import Parameter
from rulegrad.tensor.gradient_mode import no_grad
from rulegrad.tensor.tensor import Tensor

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "type_before_parametrizations",
]


def __dir__() -> list[str]:
    return __all__


#: What has been computed inside `cached`; None outside of it.
_kept: dict[tuple[int, str], tuple[Module, Any]] | None = None


class ParametrizationList(ModuleList):
    """The maps of a tensor, in order, and what the first one is given: `original`, or `original0`, `original1`, …

    >>> from rulegrad import nn
    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    >>> layer.parametrizations.weight.original0.shape
    (2, 1)
    """

    def __init__(self, maps: Sequence[Any], value: Tensor, kind: str = "parameter") -> None:
        super().__init__(maps)
        found = value
        with no_grad():
            for inner in reversed(maps):
                if hasattr(inner, "right_inverse"):
                    found = inner.right_inverse(found)
        self._is_one = isinstance(found, Tensor)
        if self._is_one:
            self._hold("original", _replaced(value, found), kind)
            return
        self._count = len(found)
        for place, part in enumerate(found):
            new = part.detach().clone()
            new.requires_grad = value.requires_grad and part.dtype.is_inexact
            self._hold(f"original{place}", new, kind)

    def _hold(self, name: str, tensor: Tensor, kind: str) -> None:
        if kind == "parameter":
            self.register_parameter(name, tensor)
            self.__dict__["_kinds"][name] = "parameter"
        else:
            self.register_buffer(name, tensor, persistent=kind == "buffer")

    def _originals(self) -> list[Tensor]:
        names = ["original"] if self._is_one else [f"original{place}" for place in range(self._count)]
        return [getattr(self, name) for name in names]

    def forward(self) -> Any:
        """The tensor that the maps make of the originals."""
        first, *others = self
        result = first(*self._originals())
        for inner in others:
            result = inner(result)
        return result

    def right_inverse(self, value: Tensor) -> None:
        """Change the originals, such that the maps make `value` of them. Raises ConfigError for maps that cannot say.

        >>> from rulegrad import Tensor, nn
        >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 1))
        >>> layer.weight = Tensor([[3.0, 4.0]]); layer.parametrizations.weight.original0.tolist()
        [[5.0]]
        """
        with no_grad():
            found: Any = value
            for inner in reversed(list(self)):
                if not hasattr(inner, "right_inverse"):
                    raise ConfigError(
                        f"{type(inner).__name__} has no right_inverse, which finds what it makes a value of; "
                        "define it, or change parametrizations.NAME.original"
                    )
                found = inner.right_inverse(found)
            for original, part in zip(self._originals(), [found] if self._is_one else found, strict=True):
                original.copy_(part)


def register_parametrization(module: Module, tensor_name: str, parametrization: Any, *, unsafe: bool = False) -> Module:
    """From now on the tensor is `parametrization(original)`, computed whenever it is read; `original` is trained.

    `parametrization` is a module. Its `right_inverse`, if it has one, says what `original` is at first, and what it
    becomes when the attribute is set; it may give several tensors, which are the arguments of `forward`. A tensor may
    have several parametrizations, one after the other. Returns the module. Raises ShapeError and DtypeError where the
    tensor would have another shape or dtype, unless `unsafe`.

    >>> from rulegrad import Tensor, nn
    >>> class Symmetric(nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).T
    >>> layer = nn.Linear(2, 2, bias=False)
    >>> layer = nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
    >>> bool((layer.weight == layer.weight.T).all()), list(layer.state_dict())
    (True, ['parametrizations.weight.original'])
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            value = getattr(module, tensor_name)
            _require_like(parametrization(value), value, parametrization)
        _lists(module)[tensor_name].append(parametrization)
        return module
    value = computed.require_tensor(module, tensor_name, "register_parametrization")
    kind = module.__dict__["_kinds"][tensor_name]
    maps = ParametrizationList([parametrization], value, kind)
    if not unsafe:
        with no_grad():
            _require_like(maps(), value, parametrization)
    delattr(module, tensor_name)
    if "parametrizations" not in module.__dict__:
        module.add_module("parametrizations", ModuleDict())
    _lists(module)[tensor_name] = maps
    computed.add(module, computed.Attribute(tensor_name, _read, _write))
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether the tensor, or any without a name, is parametrized.

    >>> from rulegrad import nn
    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    >>> nn.utils.parametrize.is_parametrized(layer, "weight"), nn.utils.parametrize.is_parametrized(layer, "bias")
    (True, False)
    """
    found = module.__dict__.get("parametrizations")
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """The tensor is a parameter again, with the value that it has, or else that of its original. Returns the module.

    Raises ConfigError where it is not parametrized, and for `leave_parametrized=False` where it has several originals.

    >>> from rulegrad import nn
    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    >>> list(nn.utils.parametrize.remove_parametrizations(layer, "weight").state_dict())
    ['bias', 'weight']
    """
    if not is_parametrized(module, tensor_name):
        raise ConfigError(f"remove_parametrizations: {tensor_name!r} of {type(module).__name__} is not parametrized")
    maps = _lists(module)[tensor_name]
    originals = maps._originals()
    if not leave_parametrized and len(originals) > 1:
        raise ConfigError(
            f"remove_parametrizations: {tensor_name!r} is computed from {len(originals)} tensors, and none of them "
            "can take its place; leave out leave_parametrized=False"
        )
    value = originals[0]
    if leave_parametrized:
        with no_grad():
            found = getattr(module, tensor_name).detach()
        if len(originals) == 1:
            value = _replaced(value, found)
        else:
            trained = any(original.requires_grad for original in originals)
            value = found.clone()
            value.requires_grad = trained
    kind = maps.__dict__["_kinds"]["original" if len(originals) == 1 else "original0"]
    del _lists(module)[tensor_name]
    computed.remove(module, tensor_name)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
    if kind == "parameter":
        module.register_parameter(tensor_name, value)
        module.__dict__["_kinds"][tensor_name] = "parameter"
    else:
        module.register_buffer(tensor_name, value, persistent=kind == "buffer")
    return module


def type_before_parametrizations(module: Module) -> type[Module]:
    """The class of the module before any of its tensors was parametrized.

    >>> from rulegrad import nn
    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    >>> nn.utils.parametrize.type_before_parametrizations(layer).__name__
    'Linear'
    """
    return computed.plain_class(module)


@contextmanager
def cached() -> Iterator[None]:
    """Inside, a parametrized tensor is computed when it is first read, and is the same one from then on.

    >>> from rulegrad import nn
    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    >>> with nn.utils.parametrize.cached():
    ...     layer.weight is layer.weight
    True
    """
    global _kept
    before = _kept
    _kept = {} if before is None else before
    try:
        yield
    finally:
        _kept = before


def _lists(module: Module) -> ModuleDict:
    found: ModuleDict = module.__dict__["parametrizations"]
    return found


def _read(module: Any, name: str) -> Any:
    if _kept is None:
        return module.parametrizations[name]()
    key = (id(module), name)
    if key not in _kept:
        _kept[key] = (module, module.parametrizations[name]())
    return _kept[key][1]


def _write(module: Any, name: str, value: Any) -> None:
    module.parametrizations[name].right_inverse(value)


def _replaced(old: Tensor, new: Tensor) -> Tensor:
    """`old` with the values of `new`, such that optimizers keep hold of it; another tensor where the shape differs."""
    if old is new:
        return old
    if old.shape != new.shape or old.dtype != new.dtype:
        return Parameter(new.detach().clone(), requires_grad=old.requires_grad)
    with no_grad():
        old.copy_(new)
    return old


def _require_like(found: Any, value: Tensor, parametrization: Any) -> None:
    name = type(parametrization).__name__
    if not isinstance(found, Tensor):
        raise DtypeError(f"register_parametrization: {name} gives a {type(found).__name__}, not a Tensor")
    if found.dtype != value.dtype:
        raise DtypeError(
            f"register_parametrization: {name} makes {found.dtype} of {value.dtype}; cast its result, or give "
            "unsafe=True"
        )
    if found.shape != value.shape:
        raise ShapeError(
            f"register_parametrization: {name} makes the shape {found.shape} of {value.shape}; give "
            "unsafe=True if it is meant"
        )
