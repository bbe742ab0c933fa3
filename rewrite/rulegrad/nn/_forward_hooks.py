"""Hooks of modules that a call itself calls: with the arguments before `forward`, and with the result behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

#: Attributes of a module that hold no part of it.
HOOKS: Final = ("_hooks", "_pre_hooks", "_backward_hooks", "_backward_pre_hooks", "_load_hooks", "_loaded_hooks")

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class Handle:
    """The handle that `register_forward_hook` and the like return."""

    def __init__(self, module: Any, hook: Callable[..., Any]) -> None:
        self._module, self._hook = module, hook

    def remove(self) -> None:
        """The hook is no longer called."""
        for name in HOOKS:
            left = tuple(hook for hook in getattr(self._module, name) if hook is not self._hook)
            setattr(self._module, name, left)


class WithKeywords:
    """A hook that sees the keyword arguments, too."""

    def __init__(self, hook: Callable[..., Any]) -> None:
        self.hook = hook


def before(module: Any, arguments: tuple[Any, ...], more: dict[str, Any]) -> Arguments:
    """The arguments as the hooks before `forward` leave them."""
    for hook in module._pre_hooks:
        if isinstance(hook, WithKeywords):
            both = hook.hook(module, arguments, more)
            arguments, more = (arguments, more) if both is None else both
            continue
        given = hook(module, arguments)
        arguments = arguments if given is None else given if isinstance(given, tuple) else (given,)
    return arguments, more


def after(module: Any, arguments: tuple[Any, ...], more: dict[str, Any], result: Any) -> Any:
    """The result as the hooks behind `forward` leave it."""
    for hook in module._hooks:
        if isinstance(hook, WithKeywords):
            changed = hook.hook(module, arguments, more, result)
        else:
            changed = hook(module, arguments, result)
        result = result if changed is None else changed
    return result
