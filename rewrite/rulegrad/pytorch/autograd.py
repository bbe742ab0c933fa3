"""`torch.autograd`: functions with a `backward` of their own, and gradients of given tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rulegrad import compile as compiling
from rulegrad.errors import GradientError, ShapeError
from rulegrad.ir import UOp
from rulegrad.ir.substitution import substituted
from rulegrad.tensor.autograd import gradient_tensor, leaf_gradients
from rulegrad.tensor.core import TensorCore
from rulegrad.tensor.gradient_mode import enable_grad, gradients_enabled, no_grad
from rulegrad.tensor.history import GradientPoint, History, join, own_node
from rulegrad.tensor.inplace import become
from rulegrad.tensor.tensor import Tensor

__all__ = [
    "Function",
    "FunctionCtx",
    "Variable",
    "backward",
    "enable_grad",
    "grad",
    "no_grad",
    "once_differentiable",
]

Variable = Tensor


class Context:
    """The data that `forward` leaves for `backward`: saved tensors, and any attributes."""

    needs_input_grad: tuple[bool, ...] = ()
    saved_tensors: tuple[Any, ...] = ()

    def __init__(self) -> None:
        self._constant: tuple[Any, ...] = ()
        self._dirty: tuple[Any, ...] = ()
        self._materializes = True

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors (or None) for `backward`, which finds them in `saved_tensors`."""
        self.saved_tensors = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """For programs of PyTorch, whose `jvp` reads them: tangents are computed from `backward` here."""

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Results that have no gradient."""
        self._constant = tensors

    def mark_dirty(self, *tensors: Any) -> None:
        """Arguments that `forward` changes in place and returns: they are results of the function from then on."""
        self._dirty = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether `backward` is given zeros for results that have no gradient, as by default, and not None."""
        self._materializes = value


FunctionCtx = Context


class Function:
    """The base of functions whose gradient is a method: `forward(ctx, *args)` and `backward(ctx, *gradients)`.

    `apply` calls `forward`, or `forward(*args)` and then `setup_context(ctx, inputs, output)` where the class has it.
    `backward` is called when gradients are asked for, with one for each result, and returns one for each argument of
    `forward`: a tensor of its shape, or None. It builds a graph as everything does, so it cannot ask for values.

    >>> from rulegrad import Tensor
    >>> class Sign(Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x.sign()
    ...     @staticmethod
    ...     def backward(ctx, gradient):
    ...         x, = ctx.saved_tensors
    ...         return gradient * (x.abs() < 1)
    >>> x = Tensor([-3.0, 0.5], requires_grad=True)
    >>> _ = Sign.apply(x).sum().backward(); x.grad.tolist()
    [0.0, 1.0]
    """

    setup_context: Any = None
    forward: Any
    backward: Any

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        """For programs of PyTorch, which may have one: tangents are computed from `backward` here."""
        raise GradientError("Function.jvp: tangents are computed from backward, so nothing calls it")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """The function's results, whose gradients are those of `backward`; there are GradientError and ShapeError."""
        context = Context()
        needs = tuple(isinstance(x, TensorCore) and x.requires_grad for x in args)
        context.needs_input_grad = needs
        before = [x._same() if need and not x.is_leaf else x for x, need in zip(args, needs, strict=True)]
        with no_grad():
            given = [x.detach() if need else x for x, need in zip(args, needs, strict=True)]
            result = cls.forward(*given) if cls.setup_context else cls.forward(context, *given)
            if cls.setup_context:
                cls.setup_context(context, tuple(given), result)
        context.saved_tensors = tuple(_original(x, given, args) for x in context.saved_tensors)
        if not (any(needs) and gradients_enabled()):
            return result
        results = result if isinstance(result, tuple) else (result,)
        found = [_tracked(cls, context, results, k, before) for k in range(len(results))]
        for k, one in enumerate(results):
            changed = next((x for x, y in zip(args, given, strict=True) if y is one), None)
            if changed is not None and any(one is other for other in context._dirty):
                found[k] = become(changed, found[k], f"{cls.__name__}.apply")
        return tuple(found) if isinstance(result, tuple) else found[0]


def _original(saved: Any, given: Sequence[Any], args: Sequence[Any]) -> Any:
    """An argument with its gradient, for second derivatives, where `forward` saved it."""
    return next((x for x, y in zip(args, given, strict=True) if saved is y), saved)


def _tracked(cls: type[Function], context: Context, results: Sequence[Any], place: int, args: Sequence[Any]) -> Any:
    """A result whose gradient goes on by `backward`."""
    result = results[place]
    if not isinstance(result, TensorCore) or not result.dtype.is_inexact:
        return result
    if any(result is constant for constant in context._constant):
        return result

    def pullback(value: Tensor, gradient: Tensor) -> list[tuple[Tensor, Tensor]]:
        absent = _zeros if context._materializes else _none
        gradients = [gradient if k == place else absent(other) for k, other in enumerate(results)]
        saved = context.saved_tensors
        context.saved_tensors = tuple(value if one is result else one for one in saved)  # for second derivatives
        try:
            found = cls.backward(context, *gradients)
        except AttributeError as error:  # which `getattr(x, "grad", None)` would take for a missing gradient
            raise GradientError(f"{cls.__name__}.backward: {error}") from error
        finally:
            context.saved_tensors = saved
        return _checked(cls.__name__, found if isinstance(found, tuple) else (found,), args)

    node = own_node(result.uop)
    point = GradientPoint(node, result._past(), pullback=pullback)
    new = result._new(node, join(result._past(), point), result._device)
    new._requires_grad = True
    return new


def _zeros(result: Any) -> Any:
    return result.detach().zeros_like() if isinstance(result, Tensor) else None


def _none(result: Any) -> None:
    """The gradient of a result that has none, where a function does not want zeros."""


def _checked(name: str, gradients: Sequence[Any], args: Sequence[Any]) -> list[tuple[Tensor, Tensor]]:
    """Each argument with its gradient. Raises GradientError for another number of gradients, ShapeError for others."""
    if len(gradients) > len(args) and all(gradient is None for gradient in gradients[len(args) :]):
        gradients = gradients[: len(args)]
    if len(gradients) != len(args):
        raise GradientError(
            f"{name}.backward gave {len(gradients)} gradients for {len(args)} arguments of forward; give one for each, "
            "and None where there is none"
        )
    found = []
    for x, gradient in zip(args, gradients, strict=True):
        if gradient is None or not isinstance(x, TensorCore) or not x.requires_grad:
            continue
        if gradient.shape != x.shape:
            gradient = gradient.sum_to_size(*x.shape)
        found.append((x, gradient.cast(x.dtype)))
    return found  # type: ignore[return-value]


def once_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """The `backward` as it is."""
    return function


def backward(
    tensors: Any, grad_tensors: Any = None, retain_graph: Any = None, create_graph: bool = False, inputs: Any = None
) -> None:
    """`Tensor.backward` of several tensors with these gradients.

    >>> from rulegrad import Tensor
    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> backward([x * 2, x.sum()], [Tensor([1.0, 0.0]), None]); x.grad.tolist()
    [3.0, 1.0]
    """
    roots = tensors if isinstance(tensors, (list, tuple)) else [tensors]
    given = grad_tensors if isinstance(grad_tensors, (list, tuple)) else [grad_tensors] * len(roots)
    leaves = inputs if inputs is None or isinstance(inputs, TensorCore) else tuple(inputs)
    for root, gradient in zip(roots, given, strict=True):
        root.backward(gradient, retain_graph, create_graph, leaves)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """The gradients of outputs by inputs: leaves, or results that the outputs were computed from.

    The outputs' own gradients are `grad_outputs`, 1 for outputs of one element. With `is_grads_batched` they have a
    first axis more, of several gradients, which the results have, too: a row of a Jacobian for each. With
    `create_graph` the gradients can be differentiated. only_inputs: PyTorch's; True alone. `rulegrad.grad` is another
    function: of a function. Raises GradientError for an input that the outputs do not depend on, unless `allow_unused`
    asks for None or `materialize_grads` for zeros.

    >>> from rulegrad import Tensor
    >>> x = Tensor([1.0, 3.0], requires_grad=True)
    >>> slope, = grad((x ** 3).sum(), x, create_graph=True)
    >>> slope.tolist(), grad(slope.sum(), x)[0].tolist()
    ([3.0, 27.0], [6.0, 18.0])
    """
    roots = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    wanted = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    given = list(grad_outputs) if isinstance(grad_outputs, (list, tuple)) else [grad_outputs] * len(roots)
    if not only_inputs:
        raise GradientError("autograd.grad: only_inputs=False is not supported; call backward for gradients of leaves")
    if is_grads_batched:
        rest = retain_graph, create_graph, only_inputs, allow_unused, False, materialize_grads
        rows = [grad(roots, wanted, row, *rest) for row in _rows(given)]
        return tuple([None if parts[0] is None else Tensor.stack(list(parts)) for parts in zip(*rows, strict=True)])
    names: dict[UOp, Any] = {}
    with enable_grad():
        root = _weighted(roots, given, names)
        found = [_with_values(part, names if create_graph else {}) for part in _gradients(root, wanted, create_graph)]
    results = []
    for x, part in zip(wanted, found, strict=True):
        if part is None and materialize_grads:
            part = x.detach().zeros_like()
        if part is None and not allow_unused:
            raise GradientError(
                "autograd.grad: an input is not among what the outputs were computed from; give allow_unused=True, or "
                "an input that they were computed from itself (a reshaped or realized copy is another tensor)"
            )
        results.append(part)
    return tuple(results)


def _rows(gradients: Sequence[Any]) -> list[list[Any]]:
    """Of batches of gradients each one: None is one of all outputs of one element."""
    extents = {gradient.shape[0] if gradient.ndim else 0 for gradient in gradients if gradient is not None}
    if len(extents) != 1 or 0 in extents:
        raise ShapeError("autograd.grad: is_grads_batched needs grad_outputs with a first axis of one extent, not 0")
    return [[None if one is None else one[k] for one in gradients] for k in range(extents.pop())]


def _weighted(roots: Sequence[Any], gradients: Sequence[Any], names: dict[UOp, Any]) -> Any:
    """One number whose gradient is that of all roots, each times its own.

    The roots' gradients are there by names, which are noted: the number has no gradient by them.
    """
    total = None
    for root, gradient in zip(roots, gradients, strict=True):
        if gradient is None and root.size != 1:
            raise ShapeError(f"autograd.grad: an output has the shape {root.shape}; give grad_outputs, or reduce it")
        if gradient is not None and gradient.shape != root.shape:
            raise ShapeError(f"autograd.grad: grad_outputs of shape {gradient.shape} for an output of {root.shape}")
        part = root.sum() if gradient is None else (root * _named(gradient, names).conj()).real.sum()
        total = part if total is None else total + part
    return total


def _named(gradient: Any, names: dict[UOp, Any]) -> Any:
    node = own_node(gradient.uop)
    names[node] = gradient
    return gradient._new(node, gradient._past(), gradient._device)


def _with_values(part: Any, names: Mapping[UOp, Any]) -> Any:
    """A gradient with the tensors themselves in the places of their names: it can be differentiated by them."""
    if part is None or not names:
        return part
    node = substituted(part.uop, {name: given.uop for name, given in names.items()})
    past = part._past()
    for given in names.values():
        past = join(past, given._past())
    return gradient_tensor(part, node, past, True)


def _gradients(root: Any, wanted: Sequence[Any], create_graph: bool) -> list[Any]:
    """The gradients of a number by leaves, and by results; None where it does not depend on one.

    Those of all leaves are found on one way back, on which the functions of a program are called once each.
    """
    start, past = root.full_like(1.0).uop, root._past()
    leaves = {id(x) for x in wanted if x._leaf}
    known: dict[int, tuple[UOp, History]] = {}
    if leaves:
        since = min(_first_point(x) for x in wanted if x._leaf)

        def is_wanted(point: GradientPoint) -> bool:
            return point.leaf is not None and id(point.leaf()) in leaves

        behind = leaf_gradients(root, start, past, is_wanted, since, create_graph)
        for leaf, uop, history in reversed(behind):
            known[id(leaf)] = uop, history
    results = [x for x in wanted if not x._leaf]
    parts = compiling.backward([root.uop], [start], [x.uop for x in results]) if results else []
    for x, part in zip(results, parts, strict=True):
        if part is not None:
            known[id(x)] = part, join(past, x._past())
    return [gradient_tensor(x, *known[id(x)], create_graph) if id(x) in known else None for x in wanted]


def _first_point(leaf: Any) -> int:
    """The number of the first point that has stood for a leaf: 0 where that is not known, as it was changed since.

    A function's `backward` asks for gradients by leaves that it makes itself, and what it is given depends on all that
    is behind the function: there is no need to go back there, and again for each function that does so.
    """
    point = leaf._history
    return point.number if type(point) is GradientPoint and not leaf._changes else 0
