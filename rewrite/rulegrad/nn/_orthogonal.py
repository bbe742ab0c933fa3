"""Matrices with orthonormal columns, or rows where these are fewer, as a map of a matrix without limits."""

from __future__ import annotations

from typing import Final, Literal

from rulegrad import linalg
from rulegrad.errors import ConfigError, DtypeError, ShapeError
from rulegrad.ir.limits import finfo
from rulegrad.nn._module import Module
from rulegrad.tensor.gradient_mode import no_grad
from rulegrad.tensor.tensor import Tensor

Map = Literal["matrix_exp", "cayley", "householder"]
MAPS: Final = ("matrix_exp", "cayley", "householder")


class Orthogonal(Module):
    """The orthogonal (of complex numbers unitary) matrix of a matrix, by one of `MAPS`.

    With `use_trivialization` it is multiplied by `base`, which is the value that was set last; so any can be set.
    """

    base: Tensor

    def __init__(self, weight: Tensor, orthogonal_map: Map, use_trivialization: bool = True) -> None:
        if weight.dtype.is_complex and orthogonal_map == "householder":
            raise DtypeError("orthogonal: householder is for real matrices; use matrix_exp or cayley")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        self.has_base = use_trivialization
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, weight: Tensor) -> Tensor:
        rows, columns = weight.shape[-2:]
        tall = weight.mT if rows < columns else weight
        found = _reflected(tall) if self.orthogonal_map == "householder" else _turned(tall, self.orthogonal_map)
        found = self.base @ found if self.has_base else found
        return found.mT if rows < columns else found

    @no_grad()
    def right_inverse(self, weight: Tensor) -> Tensor:
        """The matrix that the map makes `weight` of, or the orthogonal matrix next to it in its columns' order."""
        if weight.shape != self.shape:
            raise ShapeError(f"orthogonal: a weight of shape {weight.shape} in the place of one of {self.shape}")
        rows, columns = weight.shape[-2:]
        tall = weight.mT if rows < columns else weight
        if self.has_base:
            self.base = _completed(tall)
            # The diagonal -1 is the identity to the householder map, and nothing to the others.
            return -Tensor.eye(rows, columns, dtype=weight.dtype, device=weight.device).expand(self.shape)
        if self.orthogonal_map != "householder":
            raise ConfigError(
                f"orthogonal: what {self.orthogonal_map} makes a weight of cannot be found; leave out "
                "use_trivialization=False, or change parametrizations.NAME.original"
            )
        found = _reflections(tall)
        return found.mT if rows < columns else found


def _turned(tall: Tensor, by: Map) -> Tensor:
    """The first columns of what the exponential, or Cayley's map, makes of an antisymmetric matrix."""
    rows, columns = tall.shape[-2:]
    lower = tall.tril()
    if rows != columns:
        lower = lower.cat(lower.new_zeros(*lower.shape[:-1], rows - columns), axis=-1)
    turn = lower - lower.mH
    if by == "matrix_exp":
        found = turn.matrix_exp()
    else:
        one = Tensor.eye(rows, dtype=turn.dtype, device=turn.device)
        found = linalg.solve(one - turn * 0.5, one + turn * 0.5)
    return found[..., :columns]


def _reflected(tall: Tensor) -> Tensor:
    """The product of reflections by the columns below the diagonal, whose entries are signs that are not trained."""
    below = tall.tril(-1)
    factors = 2.0 / (1.0 + (below * below).sum(-2))
    signs = tall.detach().diagonal(dim1=-2, dim2=-1).int().cast(tall.dtype)
    return linalg.householder_product(below, factors) * signs.unsqueeze(-2)


def _reflections(tall: Tensor) -> Tensor:
    """The matrix that `_reflected` makes the orthogonal part of `tall` of."""
    found, factors = tall.geqrf()
    signs = found.diagonal(dim1=-2, dim2=-1).sign()
    # Where no reflection was needed its factor is 0, and here it is by the axis itself, which changes the sign.
    return found.diagonal_scatter((factors == 0.0).where(-signs, signs), dim1=-2, dim2=-1)


def _completed(tall: Tensor) -> Tensor:
    """A square orthogonal matrix whose first columns are those of `tall` where they are orthonormal."""
    rows, columns = tall.shape[-2:]
    if rows == columns:
        return tall.clone() if _is_orthogonal(tall) else _made_orthogonal(tall)
    rest = Tensor.randn(*tall.shape[:-1], rows - columns, dtype=tall.dtype, device=tall.device)
    return _made_orthogonal(tall.cat(rest, axis=-1))


def _is_orthogonal(square: Tensor) -> bool:
    rows = square.shape[-1]
    one = Tensor.eye(rows, dtype=square.dtype, device=square.device)
    return bool((square.mH @ square).allclose(one.expand(square.shape), atol=10.0 * rows * finfo(square.dtype).eps))


def _made_orthogonal(square: Tensor) -> Tensor:
    """Q of the decomposition QR in which R has a positive diagonal."""
    found, factors = square.geqrf()
    signs = found.diagonal(dim1=-2, dim2=-1).sgn()
    return linalg.householder_product(found, factors) * signs.unsqueeze(-2)
