"""Functions of `torch` that tensors have no method for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rulegrad import linalg
from rulegrad.errors import DtypeError, ShapeError
from rulegrad.tensor.axes import extents, whole_number
from rulegrad.tensor.generators import fork_rng, get_rng_state, require_generator, set_rng_state
from rulegrad.tensor.operands import of_tensors
from rulegrad.tensor.outputs import taking_out
from rulegrad.tensor.tensor import Tensor


@taking_out
def chain_matmul(*matrices: Any) -> Tensor:
    """The product of matrices, with the fewest multiplications: `linalg.multi_dot`. Raises ShapeError.

    >>> import rulegrad
    >>> rulegrad.chain_matmul(Tensor([[1, 2]]), Tensor([[1], [1]]), Tensor([[2]])).tolist()
    [[6]]
    """
    given = list(matrices[0]) if len(matrices) == 1 and isinstance(matrices[0], (list, tuple)) else list(matrices)
    if any(matrix.ndim != 2 for matrix in given):
        raise ShapeError(f"chain_matmul: the shapes {[matrix.shape for matrix in given]}; give matrices")
    return given[0] if len(given) == 1 else linalg.multi_dot(given)


def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:  # noqa: N803  (PyTorch's name)
    """The powers N - 1, …, 1, 0 of the elements of a vector as columns, or from 0 on; as many as elements by default.

    `linalg.vander` has those from 0 on. Raises ShapeError.

    >>> import rulegrad
    >>> rulegrad.vander(Tensor([1, 2, 3]), N=2).tolist()
    [[1, 1], [2, 1], [3, 1]]
    """
    if x.ndim != 1:
        raise ShapeError(f"vander: the shape {x.shape}; give a vector")
    count = x.shape[0] if N is None else whole_number(N, "vander")
    if count < 1:
        return (x if x.dtype.is_inexact else x.long()).new_empty(x.shape[0], extents((count,), "vander")[0])
    powers = linalg.vander(x, N=count)
    return powers if increasing else powers.flip(-1)


def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """The coordinates, one tensor for each axis, of places in the flat form of a tensor of this shape.

    Places are not looked at: they have to lie in the shape. Raises DtypeError and ShapeError.

    >>> import rulegrad
    >>> [part.tolist() for part in rulegrad.unravel_index(Tensor([4, 1]), (3, 2))]
    [[2, 0], [0, 1]]
    """
    if not indices.dtype.is_integer:
        raise DtypeError(f"unravel_index: the indices are {indices.dtype}; cast them to an integer dtype")
    sizes = extents((shape,), "unravel_index")
    places = indices.long()
    return tuple(places // math.prod(sizes[k + 1 :]) % size for k, size in enumerate(sizes))


@of_tensors
def poisson(input: Tensor, generator: Any = None) -> Tensor:
    """Counts with these rates, of the dtype of the rates.

    >>> import rulegrad
    >>> rulegrad.poisson(Tensor([0.0, 0.0])).tolist()
    [0.0, 0.0]
    """
    from rulegrad.pytorch.distributions import Poisson  # late: few programs have use for distributions

    require_generator(generator, "poisson")
    if not input.dtype.is_float:
        raise DtypeError(f"poisson: the rates are {input.dtype}; cast them to a float dtype")
    counts = Poisson(input, validate_args=False)
    with fork_rng(enabled=generator is not None):  # the distribution draws from the default generator
        if generator is not None:
            set_rng_state(generator.get_state())
        found: Tensor = counts.sample()
        if generator is not None:
            generator.set_state(get_rng_state())
    return found


def clear_autocast_cache() -> None:
    """Nothing: equal casts are one node of the graph, so `autocast` has no cache.

    >>> import rulegrad
    >>> rulegrad.clear_autocast_cache()
    """
