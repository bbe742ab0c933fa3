"""Derivatives of functions: grad, vjp, jvp, jacobian, hessian.

They differentiate the graph that a function builds (`rules/tensor/gradient.rules`), so they compose with each other,
with `vmap` and with `backward`. An argument becomes a node of its own (ARGUMENT), for two equal graphs are one node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from rulegrad.errors import DtypeError, ShapeError
from rulegrad.ir import UOp
from rulegrad.tensor.autograd import leaf_gradients
from rulegrad.tensor.constants import filled
from rulegrad.tensor.core import TensorCore
from rulegrad.tensor.gradient_mode import enable_grad, gradients_enabled
from rulegrad.tensor.history import GradientPoint, argument_numbers, gradient_points, join
from rulegrad.tensor.mapping import vmap
from rulegrad.tensor.tensor import Tensor
from rulegrad.tensor.trees import Rebuild, change, flatten

Function = Callable[..., Any]
Positions = int | Sequence[int]


def grad(function: Function, argnums: Positions = 0, has_aux: bool = False) -> Function:
    """The function that gives the gradient of `function`, whose result is a float scalar.

    The gradient of a complex x + i y is that by x plus i times that by y, as in PyTorch.
    argnums: the position of the argument that is differentiated, or several (then the gradients are a tuple). An
    argument may be a tensor or nested tuples, lists and dicts of tensors; its gradient has the same form. has_aux:
    `function` returns (scalar, anything), and so does the new function: (gradient, anything).
    Raises ShapeError for a result that is not a scalar, DtypeError for one, or for arguments, that are not floats.

    >>> from rulegrad import Tensor, grad
    >>> grad(lambda x: (x * x).sum())(Tensor([1.0, 2.0])).tolist()
    [2.0, 4.0]
    >>> grad(grad(lambda x: x ** 3))(Tensor(2.0)).item()
    12.0
    """
    with_value = value_and_grad(function, argnums, has_aux)

    @wraps(function)
    def gradient(*arguments: Any, **options: Any) -> Any:
        value, gradients = with_value(*arguments, **options)
        return (gradients, value[1]) if has_aux else gradients

    return gradient


def value_and_grad(function: Function, argnums: Positions = 0, has_aux: bool = False) -> Function:
    """The function that gives `function`'s result and its gradient, as `grad` gives it.

    >>> from rulegrad import Tensor, value_and_grad
    >>> value, gradient = value_and_grad(lambda x: (x * x).sum())(Tensor([1.0, 2.0]))
    >>> value.item(), gradient.tolist()
    (5.0, [2.0, 4.0])
    """
    several = not isinstance(argnums, int)
    positions: tuple[int, ...] = tuple(argnums) if not isinstance(argnums, int) else (argnums,)

    @wraps(function)
    def with_gradient(*arguments: Any, **options: Any) -> Any:
        wanted = [range(len(arguments))[position] for position in positions]

        of_wanted, chosen = _restricted(function, wanted, arguments, options)
        value, pulled = _pullback("grad", of_wanted, chosen, has_aux)
        scalar = value[0] if has_aux else value
        if not isinstance(scalar, TensorCore) or scalar.size != 1:
            shape = scalar.shape if isinstance(scalar, TensorCore) else type(scalar).__name__
            raise ShapeError(f"grad: the function's result must be one number, not {shape}; reduce it, or use vjp")
        if not scalar.dtype.is_float:
            raise DtypeError(f"grad: the function's result is {scalar.dtype}; take .real or .abs(), or use vjp")
        gradients = pulled(_ones(scalar))
        return value, gradients if several else gradients[0]

    return with_gradient


def vjp(function: Function, *primals: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """`function(*primals)`, and the function from gradients of the result to gradients of the primals.

    The result may be a tensor or nested tuples, lists and dicts of tensors; the gradients given must have its form,
    shapes and dtypes. A primal that the result does not depend on has gradient zero.

    >>> from rulegrad import Tensor, vjp
    >>> y, pullback = vjp(lambda a, b: a * b, Tensor([1.0, 2.0]), Tensor([3.0, 4.0]))
    >>> [g.tolist() for g in pullback(Tensor([1.0, 10.0]))]
    [[3.0, 40.0], [1.0, 20.0]]
    """
    return _pullback("vjp", function, primals)


def jvp(function: Function, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """`function(*primals)`, and its derivative in the direction of `tangents`, which have the primals' form.

    The derivative is that of the vector-Jacobian product, which is linear in the vector, with respect to the vector.

    >>> from rulegrad import Tensor, jvp
    >>> y, direction = jvp(lambda x: x * x, [Tensor([1.0, 2.0])], [Tensor([1.0, 0.5])])
    >>> direction.tolist()
    [2.0, 2.0]
    """
    value, pulled = _pullback("jvp", function, primals)
    results, rebuild = flatten(value)
    directions = flatten(list(tangents))[0]
    starts = flatten(list(primals))[0]
    _check_same("jvp", "a tangent", directions, starts)
    with enable_grad():
        vectors = [_argument(_ones(result)) for result in results]
        gradients = flatten(pulled(rebuild(vectors)))[0]
        products = [(gradient.conj() * way).real.sum() for gradient, way in zip(gradients, directions, strict=True)]
        total = products[0]
        for product in products[1:]:
            total = total + product
        return value, rebuild(_complete(_gradients(total, _ones(total), vectors), vectors))


def jacobian(function: Function, argnums: int = 0) -> Function:
    """The function that gives the Jacobian matrix of `function`, of shape (*result's shape, *argument's shape).

    >>> from rulegrad import Tensor, jacobian
    >>> jacobian(lambda x: x * x)(Tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """

    @wraps(function)
    def matrix(*arguments: Any, **options: Any) -> Any:
        of_one, chosen = _restricted(function, [argnums], arguments, options)
        value, pulled = _pullback("jacobian", of_one, chosen)
        if not isinstance(value, TensorCore):
            raise ShapeError("jacobian: the function's result must be one tensor; use vjp for several")
        if value.dtype.is_complex:
            raise DtypeError(f"jacobian: the function's result is {value.dtype}; take .real and .imag, or use vjp")
        basis = Tensor.eye(value.size, dtype=value.dtype, device=value._device or None)
        rows = vmap(lambda row: pulled(row.reshape(value.shape))[0])(basis)
        return change(rows, lambda part: part.reshape(*value.shape, *part.shape[1:]))

    return matrix


def hessian(function: Function, argnums: int = 0) -> Function:
    """The function that gives the matrix of second derivatives of `function`, whose result is a scalar.

    >>> from rulegrad import Tensor, hessian
    >>> hessian(lambda x: (x * x * x).sum())(Tensor([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    return jacobian(grad(function, argnums), argnums)


def _restricted(
    function: Function, positions: Sequence[int], arguments: Sequence[Any], options: dict[str, Any]
) -> tuple[Function, list[Any]]:
    """The function of some of its arguments, the others as they are; and those arguments."""

    def of_chosen(*chosen: Any) -> Any:
        every = list(arguments)
        for position, argument in zip(positions, chosen, strict=True):
            every[position] = argument
        return function(*every, **options)

    return of_chosen, [arguments[position] for position in positions]


def _pullback(
    name: str, function: Function, primals: Sequence[Any], has_aux: bool = False
) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """The value and pullback, as `vjp` gives them; with `has_aux` only the first of two results is differentiated."""
    tensors, rebuild = flatten(list(primals))
    for tensor in tensors:
        if not tensor.dtype.is_inexact:
            raise DtypeError(f"{name}: an argument of dtype {tensor.dtype} has no gradient; cast it to a float first")
    with enable_grad():
        arguments = [_argument(tensor) for tensor in tensors]
        value = function(*rebuild(arguments))
    results, _ = flatten(value[0] if has_aux else value)
    for result in results:
        if not result.dtype.is_inexact:
            raise DtypeError(f"{name}: a result of dtype {result.dtype} has no gradient; cast it to a float first")
    is_own = _one_of(arguments)

    def outside(result: Any) -> Any:
        """The result as others see it: it has a gradient where tensors other than the arguments have one."""
        seen = result._new(result.uop, result._past(), result._device)
        seen._requires_grad = result._requires_grad and gradients_enabled() and _is_tracked(result._past(), is_own)
        return seen

    def pulled(gradients: Any) -> tuple[Any, ...]:
        given, _ = flatten(gradients)
        _check_same(name, "a gradient", given, results)
        sums: list[Any] = [None] * len(arguments)
        for result, gradient in zip(results, given, strict=True):
            for k, part in enumerate(_gradients(result, gradient, arguments)):
                if part is not None:
                    sums[k] = part if sums[k] is None else sums[k] + part
        found: Rebuild = rebuild
        return tuple(found(_complete(sums, arguments)))

    return change(value, outside), pulled


def _argument(tensor: Any) -> Any:
    """The tensor as an argument that is differentiated: the same values, under a name of their own."""
    node = UOp("ARGUMENT", (tensor.uop,), id=next(argument_numbers))
    argument = tensor._new(node, None, tensor._device)
    point = GradientPoint(node, None, leaf=argument)
    argument._history = join(tensor._past(), point)
    argument._requires_grad = True
    return argument


def _gradients(root: Any, gradient: Any, arguments: Sequence[Any]) -> list[Any]:
    """The gradients of root with respect to the arguments; None where root does not depend on one."""
    is_own = _one_of(arguments)
    if not root._requires_grad:
        return [None] * len(arguments)
    history = join(root._past(), gradient._past())
    found: dict[int, Any] = {}
    for leaf, node, behind in leaf_gradients(root, gradient.uop, history, is_own):
        new = root._new(node, behind, root._device)
        new._requires_grad = gradients_enabled() and _is_tracked(behind, is_own)
        found[id(leaf)] = new
    return [found.get(id(argument)) for argument in arguments]


def _one_of(arguments: Sequence[Any]) -> Callable[[GradientPoint], bool]:
    own = {id(argument) for argument in arguments}
    return lambda point: point.leaf is not None and id(point.leaf()) in own


def _is_tracked(history: Any, is_own: Callable[[GradientPoint], bool]) -> bool:
    """Whether gradients flow through it to a tensor that is still there, other than one's own arguments."""
    return any(
        point.goes_on or (point.leaf is not None and point.leaf() is not None and not is_own(point))
        for point in gradient_points(history)
    )


def _ones(like: Any) -> Any:
    return like._new(filled(like.shape, 1.0, like.dtype), None, like._device)


def _complete(parts: Sequence[Any], likes: Sequence[Any]) -> list[Any]:
    """The gradients, with zeros in the place of None."""
    return [
        like._new(filled(like.shape, 0.0, like.dtype), None, like._device) if part is None else part
        for part, like in zip(parts, likes, strict=True)
    ]


def _check_same(name: str, what: str, given: Sequence[TensorCore], wanted: Sequence[TensorCore]) -> None:
    """The tensors have the shapes and dtypes of others. Raises ShapeError and DtypeError."""
    if len(given) != len(wanted):
        raise ShapeError(f"{name}: {len(given)} tensors were given, and {len(wanted)} are needed")
    for x, y in zip(given, wanted, strict=True):
        if x.shape != y.shape:
            raise ShapeError(f"{name}: {what} of shape {x.shape} for a tensor of shape {y.shape}")
        if x.dtype != y.dtype:
            raise DtypeError(f"{name}: {what} of {x.dtype} for a tensor of {y.dtype}; cast it first")
