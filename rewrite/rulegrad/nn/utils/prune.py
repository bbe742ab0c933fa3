"""Pruning, as PyTorch's `nn.utils.prune`: parameters whose elements are zeros by a mask, which layers keep.

A pruned parameter `weight` is `weight_orig` times the buffer `weight_mask` before each call of its layer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from rulegrad.errors import ModuleError, ShapeError
from rulegrad.nn._hooks import Handle
from rulegrad.nn._module import Module
from rulegrad.nn.parameter import Parameter
from rulegrad.tensor.tensor import Tensor

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "PruningContainer",
    "RandomStructured", "RandomUnstructured", "custom_from_mask", "global_unstructured", "identity", "is_pruned",
    "l1_unstructured", "ln_structured", "random_structured", "random_unstructured", "remove",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


class BasePruningMethod(ABC):
    """The base: `compute_mask(t, default_mask)` says which elements stay. It is a hook of the module."""

    PRUNING_TYPE: ClassVar[str] = "unstructured"
    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:
        """The parameter by its mask, before a call of the module."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """1 for elements that stay, of those of `default_mask`."""

    def apply_mask(self, module: Module) -> Tensor:
        """The pruned parameter."""
        original = getattr(module, f"{self._tensor_name}_orig")
        pruned: Tensor = getattr(module, f"{self._tensor_name}_mask").cast(original.dtype) * original
        return pruned

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune a parameter: also one that is pruned already, of what its mask has left."""
        method: BasePruningMethod = cls(*args, **kwargs)
        method._tensor_name = name
        before = _method_of(module, name)
        original = getattr(module, name if before is None else f"{name}_orig")
        if importance_scores is not None and importance_scores.shape != original.shape:
            raise ShapeError(
                f"importance_scores: of shape {importance_scores.shape} for {original.shape}; use the same"
            )
        if before is None:
            mask = original.detach().ones_like()
        else:
            mask = getattr(module, f"{name}_mask")
            _take_out(module, before)
            method = PruningContainer.of(before, method)
        scores = original.detach() if importance_scores is None else importance_scores.detach()
        found = method.compute_mask(scores, mask).detach()
        if before is None:
            delattr(module, name)
            module.register_parameter(f"{name}_orig", original)
        module.register_buffer(f"{name}_mask", found.cast(original.dtype))
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """A tensor by a mask, without a module."""
        mask = t.ones_like() if default_mask is None else default_mask
        return t * self.compute_mask(t if importance_scores is None else importance_scores, mask)

    def remove(self, module: Module) -> None:
        """The pruned parameter is a parameter like others again. The hook stays, for who calls this by itself."""
        name = self._tensor_name
        weight, original = self.apply_mask(module), getattr(module, f"{name}_orig")
        original.data = weight.detach()
        delattr(module, name)
        delattr(module, f"{name}_orig")
        delattr(module, f"{name}_mask")
        setattr(module, name, original if isinstance(original, Parameter) else Parameter(original))


def _hooks(module: Module) -> Iterable[BasePruningMethod]:
    return [hook for hook in module._pre_hooks if isinstance(hook, BasePruningMethod)]


def _method_of(module: Module, name: str) -> BasePruningMethod | None:
    return next((hook for hook in _hooks(module) if hook._tensor_name == name), None)


def _take_out(module: Module, method: BasePruningMethod) -> None:
    Handle(module, method).remove()


class PruningContainer(BasePruningMethod):
    """Methods one after the other, of one parameter."""

    def __init__(self, *args: BasePruningMethod) -> None:
        self._methods: list[BasePruningMethod] = []
        for one in args:
            self.add_pruning_method(one)

    @classmethod
    def of(cls, before: BasePruningMethod, method: BasePruningMethod) -> PruningContainer:
        """The methods of before, and another one."""
        return cls(*(before._methods if isinstance(before, PruningContainer) else [before]), method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """One more. Raises ModuleError for one of another parameter."""
        if self._methods and method._tensor_name != self._tensor_name:
            raise ModuleError(f"prune: a method for {method._tensor_name} beside those for {self._tensor_name}")
        self._tensor_name = method._tensor_name
        self._methods.append(method)

    def __len__(self) -> int:
        return len(self._methods)

    def __iter__(self) -> Any:
        return iter(self._methods)

    def __getitem__(self, index: int) -> BasePruningMethod:
        return self._methods[index]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """1 for elements that the last method keeps, of those that the others have kept."""
        last = self._methods[-1]
        if last.PRUNING_TYPE == "unstructured":
            kept = (default_mask == 1).flatten().nonzero().flatten()
            part = last.compute_mask(t.flatten()[kept], default_mask.flatten()[kept])
            flat = default_mask.flatten().clone()
            flat[kept] = part.cast(flat.dtype)
            return flat.reshape(default_mask.shape)
        if last.PRUNING_TYPE == "structured":
            dim = last.dim  # type: ignore[attr-defined]
            others = tuple(axis for axis in range(t.ndim) if axis != dim % t.ndim)
            places = [slice(None)] * t.ndim
            places[dim] = (default_mask.sum(others) != 0).nonzero().flatten()
            found = default_mask.clone()
            index = tuple(places)
            found[index] = last.compute_mask(t[index], default_mask[index]).cast(found.dtype)
            return found
        return last.compute_mask(t, default_mask)


class Identity(BasePruningMethod):
    """All elements stay; the mask and the other name of the parameter are there."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask as it is."""
        return default_mask


def _count(amount: float, size: int) -> int:
    """How many of `size` are pruned: an int is a number of them, a float a share. Raises ModuleError."""
    is_share = isinstance(amount, float)
    if amount < 0 or (is_share and amount > 1) or (not is_share and amount > size):
        raise ModuleError(f"prune: amount={amount} of {size}; use a share from 0.0 to 1.0, or as many as there are")
    return round(amount * size) if is_share else int(amount)


class _Unstructured(BasePruningMethod):
    """Elements of the smallest scores are pruned."""

    def __init__(self, amount: float) -> None:
        self.amount = amount

    def _scores(self, t: Tensor) -> Tensor:
        return t.abs()

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask without these elements."""
        count = _count(self.amount, t.size)
        if not count:
            return default_mask
        places = self._scores(t).flatten().topk(count, largest=False).indices
        flat = default_mask.flatten().clone()
        flat[places] = 0
        return flat.reshape(default_mask.shape)


class L1Unstructured(_Unstructured):
    """The smallest elements are pruned: `amount` is their number, or as a float their share."""


class RandomUnstructured(_Unstructured):
    """Elements are pruned at random."""

    def _scores(self, t: Tensor) -> Tensor:
        return Tensor.rand(*t.shape, device=t.device)


class _Structured(BasePruningMethod):
    """Slices along an axis of the smallest scores are pruned."""

    PRUNING_TYPE: ClassVar[str] = "structured"
    amount: float
    dim: int

    def _scores(self, t: Tensor, others: tuple[int, ...]) -> Tensor:
        raise ModuleError(f"{type(self).__name__} has no _scores; define it")

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask without these slices."""
        count = _count(self.amount, t.shape[self.dim])
        if not count:
            return default_mask
        others = tuple(axis for axis in range(t.ndim) if axis != self.dim % t.ndim)
        places = self._scores(t, others).topk(count, largest=False).indices
        kept = Tensor.ones(t.shape[self.dim], device=t.device).cast(default_mask.dtype)
        kept[places] = 0
        shape = [1] * t.ndim
        shape[self.dim] = -1
        return default_mask * kept.reshape(*shape)


class LnStructured(_Structured):
    """Slices along an axis of the smallest norms are pruned."""

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        self.amount, self.n, self.dim = amount, n, dim

    def _scores(self, t: Tensor, others: tuple[int, ...]) -> Tensor:
        return t.norm(p=self.n, dim=others)


class RandomStructured(_Structured):
    """Slices along an axis are pruned at random."""

    def __init__(self, amount: float, dim: int = -1) -> None:
        self.amount, self.dim = amount, dim

    def _scores(self, t: Tensor, others: tuple[int, ...]) -> Tensor:
        return Tensor.rand(t.shape[self.dim], device=t.device)


class CustomFromMask(BasePruningMethod):
    """Elements are pruned by a mask that is given."""

    PRUNING_TYPE: ClassVar[str] = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """1 for elements that both masks keep."""
        return default_mask * self.mask.to(default_mask.device).cast(default_mask.dtype)


def identity(module: Module, name: str) -> Module:
    """`Identity` of a parameter; returns the module."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Elements of a parameter are pruned at random; returns the module."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Module, name: str, amount: float, importance_scores: Tensor | None = None) -> Module:
    """The smallest elements of a parameter are pruned, or those of the smallest scores; returns the module.

    >>> from rulegrad import nn
    >>> layer = nn.Linear(2, 1, bias=False)
    >>> layer.weight.data = Tensor([[3.0, -1.0]])
    >>> l1_unstructured(layer, "weight", 0.5).weight.tolist(), list(layer.state_dict())
    ([[3.0, -0.0]], ['weight_orig', 'weight_mask'])
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Slices of a parameter are pruned at random; returns the module."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: float, n: Any, dim: int, importance_scores: Tensor | None = None
) -> Module:
    """Slices of a parameter of the smallest norms are pruned; returns the module."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """A parameter is pruned by a mask; returns the module."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Sequence[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: Mapping[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prunes parameters of modules together: the elements of the smallest scores in all of them."""
    scores, masks = [], []
    for module, name in parameters:
        weight = getattr(module, name)
        scores.append((importance_scores or {}).get((module, name), weight).detach().flatten())
        masks.append(getattr(module, f"{name}_mask", weight.detach().ones_like()).flatten())
    container = PruningContainer()
    container._tensor_name = "temporary"
    method = pruning_method(**kwargs)
    method._tensor_name = "temporary"
    container.add_pruning_method(method)
    found = container.compute_mask(Tensor.cat(scores), Tensor.cat(masks))
    at = 0
    for module, name in parameters:
        weight = getattr(module, name)
        custom_from_mask(module, name, found[at : at + weight.size].reshape(weight.shape))
        at += weight.size


def remove(module: Module, name: str) -> Module:
    """Make pruning permanent, in a parameter like others; returns the module. Raises ModuleError where none is."""
    method = _method_of(module, name)
    if method is None:
        raise ModuleError(f"prune.remove: {name} of {type(module).__name__} is not pruned; prune it first")
    method.remove(module)
    _take_out(module, method)
    return module


def is_pruned(module: Module) -> bool:
    """Whether a parameter of the module, or of one in it, is pruned.

    >>> from rulegrad import nn
    >>> is_pruned(nn.Linear(2, 1)), is_pruned(nn.Sequential(identity(nn.Linear(2, 1), "weight")))
    (False, True)
    """
    return any(_hooks(one) for one in module.modules())
