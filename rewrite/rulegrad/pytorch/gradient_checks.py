"""`torch.autograd.gradcheck`: gradients compared with differences of the function's values, element by element."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rulegrad.errors import ConfigError, GradientError
from rulegrad.pytorch.autograd import grad
from rulegrad.tensor.tensor import Tensor

__all__ = ["gradcheck", "gradgradcheck"]

Function = Callable[..., Any]


def gradcheck(
    func: Function,
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    **others: Any,
) -> bool:
    """Whether the gradients of a function are those of its values, by the inputs that require a gradient.

    Each element of such an input, which should be float64 or complex128, is moved by `eps` to both sides, and the
    slopes compared with the gradients up to `atol` and `rtol`. With raise_exception a difference is a GradientError,
    else False. The other options of PyTorch change nothing. Raises ConfigError where no input requires a gradient.

    >>> from rulegrad import Tensor
    >>> x = Tensor([0.5, 2.0], dtype="float64", requires_grad=True)
    >>> gradcheck(lambda x: x.exp() * x, x)
    True
    """
    given = _several(inputs)
    places = [k for k, x in enumerate(given) if isinstance(x, Tensor) and x.requires_grad]
    if not places:
        raise ConfigError("gradcheck: no input requires a gradient; give tensors with requires_grad=True")
    if any(given[k].dtype not in ("float64", "complex128") for k in places):
        warnings.warn("gradcheck: an input is not float64 or complex128, which differences need", stacklevel=2)
    outputs = _differentiable(func(*given))
    for place in places:
        for number, found in enumerate(_slopes(func, given, place, eps)):
            wanted = _rows(outputs[number], given[place])
            if not np.allclose(wanted, found, rtol, atol):
                if raise_exception:
                    raise GradientError(
                        f"gradcheck: the gradient of output {number} by input {place} is not that of the values, which "
                        f"differ by\n{found}\nfor each element, where the gradient is\n{wanted}"
                    )
                return False
    return True


def gradgradcheck(
    func: Function,
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    **others: Any,
) -> bool:
    """`gradcheck` of the gradients, by the inputs and by the gradients of the results: random ones unless given.

    >>> from rulegrad import Tensor
    >>> x = Tensor([0.5, 2.0], dtype="float64", requires_grad=True)
    >>> gradgradcheck(lambda x: x.exp() * x, x)
    True
    """
    given = _several(inputs)
    if grad_outputs is None:
        weights = [y.detach().randn_like().requires_grad_() for y in _differentiable(func(*given))]
    else:
        weights = [weight.detach().requires_grad_() for weight in _several(grad_outputs)]

    def gradients(*arguments: Any) -> tuple[Any, ...]:
        points = arguments[: len(given)]
        wanted = [x for x in points if isinstance(x, Tensor) and x.requires_grad]
        results, ways = _differentiable(func(*points)), arguments[len(given) :]
        return grad(results, wanted, ways, create_graph=True, materialize_grads=True, allow_unused=True)

    return gradcheck(
        gradients, (*given, *weights), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception, **others
    )


def _several(inputs: Any) -> list[Any]:
    return list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]


def _differentiable(outputs: Any) -> list[Tensor]:
    return [y for y in _several(outputs) if isinstance(y, Tensor) and y.dtype.is_inexact]


def _rows(output: Tensor, x: Tensor) -> NDArray[Any]:
    """The gradients of the parts of each element of a result, as rows of the parts of the gradient by `x`."""
    rows = []
    for number in range(output.numel()):
        for unit in (1, 1j) if output.dtype.is_complex else (1,):
            way = np.zeros(output.numel(), output.dtype.numpy)
            way[number] = unit
            given = Tensor(way.reshape(output.shape), device=output.device)
            (row,) = grad(output, x, given, materialize_grads=True, allow_unused=True)
            rows.append(_parts(row.numpy()))
    return np.array(rows).reshape(len(rows), -1)


def _slopes(func: Function, given: Sequence[Any], place: int, eps: float) -> list[NDArray[Any]]:
    """For each result what `_rows` should be: differences of its parts, for each part of an input."""
    x = given[place]
    values = x.detach().numpy()
    columns = []
    for number in range(values.size):
        for unit in (1, 1j) if x.dtype.is_complex else (1,):
            ends = []
            for way in (eps, -eps):
                moved = values.copy()
                moved.reshape(-1)[number] += way * unit
                point = Tensor(moved, x.dtype, x.device, requires_grad=True)
                results = _differentiable(func(*given[:place], point, *given[place + 1 :]))
                ends.append([_parts(y.detach().numpy()) for y in results])
            columns.append([(above - below) / (2 * eps) for above, below in zip(*ends, strict=True)])
    return [np.stack(column, -1) for column in zip(*columns, strict=True)]


def _parts(array: NDArray[Any]) -> NDArray[Any]:
    """The elements in a row, those of complex numbers as pairs."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(flat.real.dtype)
