"""`torch.func`: transformations of functions under PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

from rulegrad.errors import ModuleError
from rulegrad.nn._module import Module
from rulegrad.tensor.functional import grad, hessian, jacobian, jvp, value_and_grad, vjp
from rulegrad.tensor.mapping import vmap
from rulegrad.tensor.tensor import Tensor

__all__ = [
    "functional_call", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "stack_module_state", "vjp",
    "vmap",
]  # fmt: skip


def jacrev(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    has_aux: bool = False,
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """`rulegrad.jacobian`, by one argument, or a tuple of those by several.

    has_aux: `func` returns (tensor, anything), and so does the new function: (Jacobian matrix, anything). chunk_size:
    for programs of PyTorch; all rows are computed together.

    >>> from rulegrad import Tensor
    >>> jacrev(lambda x: x * x, chunk_size=1)(Tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """

    @wraps(func)
    def matrices(*arguments: Any, **options: Any) -> Any:
        def first(*given: Any, **more: Any) -> Any:
            return func(*given, **more)[0] if has_aux else func(*given, **more)

        numbers = (argnums,) if isinstance(argnums, int) else argnums
        found = tuple(jacobian(first, k)(*arguments, **options) for k in numbers)
        result = found[0] if isinstance(argnums, int) else found
        return (result, func(*arguments, **options)[1]) if has_aux else result

    return matrices


def jacfwd(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """`jacrev`: there is one way to compute the matrix.

    >>> from rulegrad import Tensor
    >>> jacfwd(lambda x, y: x * y, argnums=(0, 1))(Tensor([2.0]), Tensor([3.0]))[1].tolist()
    [[2.0]]
    """
    return jacrev(func, argnums, has_aux, chunk_size=chunk_size)


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The parameters, and the buffers, of modules of one class by path, each stacked along a new first axis.

    `vmap` of a `functional_call` computes all modules together then. Parameters are leaves of their own, which require
    a gradient where they do. Raises ModuleError for modules of different classes or modes, or of none.

    >>> from rulegrad import Tensor, nn
    >>> layers = [nn.Linear(2, 3) for _ in range(4)]
    >>> parameters, buffers = stack_module_state(layers)
    >>> vmap(lambda held, x: functional_call(layers[0], held, x), (0, None))(parameters, Tensor.ones(5, 2)).shape
    (4, 5, 3)
    """
    listed = list(models)
    if len({(type(model), model.training) for model in listed}) != 1:
        raise ModuleError("stack_module_state: give one or more modules, of one class and in one mode")
    parameters = _stacked([dict(model.named_parameters()) for model in listed])
    return parameters, _stacked([dict(model.named_buffers()) for model in listed])


def _stacked(held: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    found = {}
    for path in held[0]:
        parts = [tensors[path] for tensors in held]
        if len({part.requires_grad for part in parts}) != 1:
            raise ModuleError(f"stack_module_state: {path} requires a gradient in some modules, and not in others")
        found[path] = Tensor.stack([part.detach() for part in parts]).requires_grad_(parts[0].requires_grad)
    return found


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
