"""Hooks of modules: of a call, before and after `forward`; of `backward`; and of `load_state_dict`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

#: Attributes of a module that hold no part of it.
HOOKS: Final = (
    "_hooks",
    "_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_load_hooks",
    "_loaded_hooks",
    "_state_hooks",
    "_state_pre_hooks",
)

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


class Hooked:
    """The hooks of a module, and the methods that add one."""

    _hooks: tuple[Callable[..., Any], ...] = ()
    _pre_hooks: tuple[Callable[..., Any], ...] = ()
    _backward_hooks: tuple[Callable[..., Any], ...] = ()
    _backward_pre_hooks: tuple[Callable[..., Any], ...] = ()
    _load_hooks: tuple[Callable[..., Any], ...] = ()
    _state_hooks: tuple[Callable[..., Any], ...] = ()
    _state_pre_hooks: tuple[Callable[..., Any], ...] = ()
    _loaded_hooks: tuple[Callable[..., Any], ...] = ()

    def _with_hook(self, name: str, hook: Callable[..., Any], prepend: bool = False, keywords: bool = False) -> Handle:
        added: Any = WithKeywords(hook) if keywords else hook
        others = getattr(self, name)
        setattr(self, name, (added, *others) if prepend else (*others, added))
        return Handle(self, added)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> Handle:
        """Call `hook(module, arguments, result)` after each forward; what it returns, unless None, is the result.

        prepend: before the hooks that are there. with_kwargs: call `hook(module, arguments, keywords, result)`.
        """
        return self._with_hook("_hooks", hook, prepend, with_kwargs)

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> Handle:
        """Call `hook(module, arguments)` before each forward; what it returns, unless None, are the arguments.

        prepend: before the hooks that are there. with_kwargs: call `hook(module, arguments, keywords)`; what it
        returns, unless None, are both.

        >>> from rulegrad import Tensor, nn
        >>> layer = nn.ReLU()
        >>> handle = layer.register_forward_pre_hook(lambda module, arguments: arguments[0] - 1)
        >>> layer(Tensor([0.5, 3.0])).tolist()
        [0.0, 2.0]
        """
        return self._with_hook("_pre_hooks", hook, prepend, with_kwargs)

    def register_full_backward_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call `hook(module, of_arguments, of_results)` in each `backward` through the module, with the gradients.

        Both are tuples, of positional arguments, with None where there is no gradient. What the hook returns, unless
        None, takes the place of the gradient of the only argument that has one; else there is a GradientError.

        >>> from rulegrad import Tensor, nn
        >>> layer, seen = nn.ReLU(), []
        >>> handle = layer.register_full_backward_hook(lambda module, inputs, outputs: seen.append(outputs[0].tolist()))
        >>> _ = (layer(Tensor([0.5, 3.0], requires_grad=True)) * 2).sum().backward()
        >>> seen
        [[2.0, 2.0]]
        """
        return self._with_hook("_backward_hooks", hook)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call `hook(module, gradients of the results)` before `backward` goes through the module.

        What it returns, unless None, takes their place.
        """
        return self._with_hook("_backward_pre_hooks", hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> Handle:
        """Before `load_state_dict`, of this module or of one that holds it, call a hook that may change the state.

        It is `hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)`, as
        in PyTorch; the last four, and the metadata, are empty. prefix: the path of the module, with a dot.

        >>> from rulegrad import Tensor, nn
        >>> layer = nn.Linear(1, 1, bias=False)
        >>> def renamed(module, state_dict, prefix, *rest):
        ...     state_dict[prefix + "weight"] = state_dict.pop(prefix + "kernel")
        >>> handle = layer.register_load_state_dict_pre_hook(renamed)
        >>> _ = nn.Sequential(layer).load_state_dict({"0.kernel": Tensor([[3.0]])}); layer.weight.item()
        3.0
        """
        return self._with_hook("_load_hooks", hook)

    def _register_load_state_dict_pre_hook(self, hook: Callable[..., Any], with_module: bool = False) -> Handle:
        """The same under PyTorch's older name, for a hook without the module unless `with_module`."""
        return self.register_load_state_dict_pre_hook(hook if with_module else lambda _, *rest: hook(*rest))

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> Handle:
        """After `load_state_dict`, of this module or of one that holds it, call `hook(module, incompatible_keys)`."""
        return self._with_hook("_loaded_hooks", hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> Handle:
        """Before `state_dict`, of this module or of one that holds it, call `hook(module, prefix, keep_vars)`.

        prefix: the path of the module, with a dot. Hooks of outer modules are called first.

        >>> from rulegrad import nn
        >>> layer = nn.Linear(1, 1)
        >>> handle = layer.register_state_dict_pre_hook(lambda module, prefix, keep_vars: print(prefix))
        >>> _ = nn.Sequential(layer).state_dict()
        0.
        """
        return self._with_hook("_state_pre_hooks", hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> Handle:
        """After `state_dict`, of this module or of one that holds it, call a hook that may change the state.

        It is `hook(module, state_dict, prefix, local_metadata)`, as in PyTorch; the metadata is empty. prefix: the path
        of the module, with a dot. Hooks of inner modules are called first; a dict that one returns is the state then.

        >>> from rulegrad import nn
        >>> layer = nn.Linear(1, 1)
        >>> handle = layer.register_state_dict_post_hook(lambda module, state, prefix, _: state.pop(prefix + "bias"))
        >>> list(nn.Sequential(layer).state_dict())
        ['0.weight']
        """
        return self._with_hook("_state_hooks", hook)

    _register_state_dict_hook = register_state_dict_post_hook
