"""`torch.autograd.functional`: derivatives of a function at given tensors, with the results in PyTorch's forms.

`strict`, `vectorize` and the like are taken, and change nothing: an input that does not count has zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rulegrad.pytorch.autograd import grad
from rulegrad.tensor import functional
from rulegrad.tensor.gradient_mode import enable_grad

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Function = Callable[..., Any]


def vjp(func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """`func(*inputs)`, and the vector v times the Jacobian matrix: a tensor, or one for each of several inputs.

    >>> from rulegrad import Tensor
    >>> value, product = vjp(lambda x: x * x, Tensor([1.0, 3.0]), Tensor([1.0, 10.0]))
    >>> value.tolist(), product.tolist()
    ([1.0, 9.0], [2.0, 60.0])
    """
    given = _points(inputs, create_graph)
    with enable_grad():
        value = func(*given)
        products = grad(value, given, v, create_graph=create_graph, materialize_grads=True, allow_unused=True)
    return _left(value, create_graph), _like(inputs, products)


def jvp(func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """`func(*inputs)`, and the Jacobian matrix times the vector v, which has the form of the inputs.

    >>> from rulegrad import Tensor
    >>> value, product = jvp(lambda x: x * x, Tensor([1.0, 3.0]), Tensor([1.0, 10.0]))
    >>> product.tolist()
    [2.0, 60.0]
    """
    given = _points(inputs, create_graph)
    ways = [x.ones_like() for x in given] if v is None else _several(v)
    value, product = functional.jvp(func, given, ways)
    return _left(value, create_graph), _left(product, create_graph)


def jacobian(
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian matrix at the inputs, (*result's shape, *input's shape); one for each of several inputs and results.

    >>> from rulegrad import Tensor
    >>> jacobian(lambda x, y: x * y, (Tensor([1.0, 2.0]), Tensor(3.0)))[1].tolist()
    [1.0, 2.0]
    """
    given = _points(inputs, create_graph)

    def matrices(one: Function) -> Any:
        parts = [functional.jacobian(one, k)(*given) for k in range(len(given))]
        return _like(inputs, [_left(part, create_graph) for part in parts])

    value = func(*given)
    if not isinstance(value, tuple):
        return matrices(func)
    return tuple(matrices(lambda *x, k=k: func(*x)[k]) for k in range(len(value)))


def hessian(
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The matrix of second derivatives of a function whose result is one number; a tuple of tuples of several inputs.

    >>> from rulegrad import Tensor
    >>> hessian(lambda x: (x * x * x).sum(), Tensor([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    given = _points(inputs, create_graph)
    rows = []
    for k in range(len(given)):
        slope = functional.grad(func, k)
        rows.append(
            _like(inputs, [_left(functional.jacobian(slope, n)(*given), create_graph) for n in range(len(given))])
        )
    return _like(inputs, rows)


def vhp(func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """`func(*inputs)`, one number, and the vector v times the matrix of its second derivatives.

    >>> from rulegrad import Tensor
    >>> vhp(lambda x: (x * x * x).sum(), Tensor([1.0, 2.0]), Tensor([1.0, 10.0]))[1].tolist()
    [6.0, 120.0]
    """
    given = _points(inputs, True)
    with enable_grad():
        value = func(*given)
        slopes = grad(value, given, create_graph=True, materialize_grads=True, allow_unused=True)
        pairs = zip(slopes, [x.ones_like() for x in given] if v is None else _several(v), strict=True)
        total: Any = sum((slope * way).sum() for slope, way in pairs)
        products = grad(total, given, create_graph=create_graph, materialize_grads=True, allow_unused=True)
    return _left(value, create_graph), _like(inputs, products)


#: The matrix of second derivatives is symmetric.
hvp = vhp


def _several(inputs: Any) -> list[Any]:
    return list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]


def _points(inputs: Any, connected: bool) -> list[Any]:
    """The inputs as tensors that gradients go to; those whose own gradients are wanted stay what they are."""
    return [x if connected and x.requires_grad else x.detach().clone().requires_grad_() for x in _several(inputs)]


def _like(inputs: Any, parts: Any) -> Any:
    return tuple(parts) if isinstance(inputs, (list, tuple)) else parts[0]


def _left(value: Any, connected: bool) -> Any:
    """A result without its gradient, unless that is wanted."""
    if connected:
        return value
    return tuple(map(_plain, value)) if isinstance(value, (list, tuple)) else _plain(value)


def _plain(value: Any) -> Any:
    return value.detach() if hasattr(value, "detach") else value
