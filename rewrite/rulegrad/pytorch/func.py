"""`torch.func`: transformations of functions under PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any

from rulegrad.errors import ModuleError
from rulegrad.nn._module import Module
from rulegrad.tensor.functional import grad, hessian, jacobian, jvp, value_and_grad, vjp
from rulegrad.tensor.mapping import vmap

__all__ = ["functional_call", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "vjp", "vmap"]

jacrev = jacfwd = jacobian


def grad_and_value(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The function that gives (gradient, value), the other way round than `rulegrad.value_and_grad`.

    >>> from rulegrad import Tensor
    >>> [part.item() for part in grad_and_value(lambda x: x * x)(Tensor(3.0))]
    [6.0, 9.0]
    """
    with_value = value_and_grad(func, argnums, has_aux)

    @wraps(func)
    def both(*arguments: Any, **options: Any) -> Any:
        value, gradient = with_value(*arguments, **options)
        return gradient, value

    return both


def functional_call(
    module: Module, parameter_and_buffer_dicts: Any, args: Any = None, kwargs: Mapping[str, Any] | None = None
) -> Any:
    """The module's result with these tensors in the places of its parameters and buffers, by their paths.

    >>> from rulegrad import Tensor, nn
    >>> layer = nn.Linear(1, 1, bias=False)
    >>> functional_call(layer, {"weight": Tensor([[3.0]])}, (Tensor([[2.0]]),)).tolist()
    [[6.0]]
    """
    given = parameter_and_buffer_dicts
    dicts = given if isinstance(given, (list, tuple)) else [given]
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    with _replaced(module, {path: tensor for one in dicts for path, tensor in one.items()}):
        return module(*arguments, **(kwargs or {}))


@contextmanager
def _replaced(module: Module, tensors: Mapping[str, Any]) -> Iterator[None]:
    """A block in which a module has other tensors at these paths."""
    before = [(*_place(module, path), tensor) for path, tensor in tensors.items()]
    held = [parts[name] for parts, name, _ in before]
    try:
        for parts, name, tensor in before:
            parts[name] = tensor
        yield
    finally:
        for (parts, name, _), tensor in zip(before, held, strict=True):
            parts[name] = tensor


def _place(module: Module, path: str) -> tuple[Any, Any]:
    """The container of a path's tensor, and the name or number under which it is there."""
    parts: Any = module
    *above, last = path.split(".")
    for name in above:
        held = _parts(parts)
        parts = held[_key(held, name, path)]
    held = _parts(parts)
    return held, _key(held, last, path)


def _parts(item: Any) -> Any:
    if isinstance(item, (list, dict)):
        return item
    held = vars(item)
    return held.get("_entries", held)


def _key(parts: Any, name: str, path: str) -> Any:
    key = int(name) if isinstance(parts, list) and name.isdecimal() else name
    if key not in (range(len(parts)) if isinstance(parts, list) else parts):
        raise ModuleError(f"functional_call: the module has no {path}; the paths are those of named_parameters()")
    return key
