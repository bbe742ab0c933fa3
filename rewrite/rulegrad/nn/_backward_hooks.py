"""Hooks of modules that `backward` calls: with the gradients of a call's results before, and of its arguments after."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from rulegrad.errors import GradientError
from rulegrad.tensor.gradient_mode import gradients_enabled
from rulegrad.tensor.hooks import watched
from rulegrad.tensor.tensor import Tensor

if TYPE_CHECKING:
    from rulegrad.nn._module import Module

    Gradients = tuple[Tensor | None, ...]


class HookedCall:
    """One call of a module with such hooks: it sees the gradients of results and arguments as they come."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._arguments: tuple[bool, ...] = ()  # whether each of them has a gradient
        self._of_arguments: dict[int, Tensor] = {}
        self._of_results: dict[int, Tensor] = {}
        self._results = 0

    def arguments(self, given: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments, each with a gradient a tensor of its own."""
        self._arguments = tuple(map(_has_gradient, given))
        return tuple(watched(x, partial(self._argument, k)) if self._arguments[k] else x for k, x in enumerate(given))

    def results(self, found: Any) -> Any:
        """The result, or those of a tuple or a list, likewise."""
        several = found if isinstance(found, (tuple, list)) else (found,)
        self._results = len(several)
        new = [watched(x, partial(self._result, k)) if _has_gradient(x) else x for k, x in enumerate(several)]
        return type(found)(new) if type(found) in (tuple, list) else new[0] if len(new) == 1 else found

    def _result(self, place: int, gradient: Tensor) -> Tensor | None:
        changed = None
        for hook in self._module._backward_pre_hooks:
            given = tuple(gradient if k == place else self._of_results.get(k) for k in range(self._results))
            wanted = hook(self._module, given)
            if wanted is not None:
                changed = gradient = wanted[place] if isinstance(wanted, tuple) else wanted
        self._of_results[place] = gradient
        if not any(self._arguments):  # nothing comes after
            self._call((None,) * len(self._arguments))
        return changed

    def _argument(self, place: int, gradient: Tensor) -> Tensor | None:
        self._of_arguments[place] = gradient
        if len(self._of_arguments) < sum(self._arguments):
            return None
        changed = self._call(tuple(self._of_arguments.get(k) for k in range(len(self._arguments))))
        self._of_arguments = {}
        return None if changed is None else changed[place]

    def _call(self, of_arguments: Gradients) -> Gradients | None:
        """Each hook with what the one before it has left. Raises GradientError for what it must not change."""
        of_results = tuple(self._of_results.get(k) for k in range(self._results))
        changed = None
        for hook in self._module._backward_hooks:
            wanted = hook(self._module, of_arguments, of_results)
            if wanted is None:
                continue
            if sum(self._arguments) != 1:
                raise GradientError(
                    f"{type(self._module).__name__}: a backward hook gave gradients for {sum(self._arguments)} "
                    "arguments; it may replace that of one only: use `register_hook` of each argument"
                )
            changed = of_arguments = wanted if isinstance(wanted, tuple) else (wanted,)
        return changed


def _has_gradient(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad and gradients_enabled()
