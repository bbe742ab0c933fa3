"""Names of bench/torch_names.py whose results are not compared value by value, and how they are; names that move."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

# Random numbers: rulegrad's numbers are not PyTorch's.
RANDOM = {
    "bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial", "normal", "rand_like", "randint",
    "randint_like", "randn", "randn_like", "uniform", "nn.functional.alpha_dropout", "nn.functional.dropout",
    "nn.functional.dropout2d", "nn.functional.dropout3d", "nn.functional.feature_alpha_dropout", "nn.functional.rrelu",
    "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d",
}  # fmt: skip

# Functions whose method takes its arguments in another order, under the name of which PyTorch calls them an alias.
ELSEWHERE = {"torch.polygamma": "torch.special.polygamma"}

# Sums of many products, after which PyTorch's own rounding is more than its tolerance.
SUMS = {
    "nn.functional.conv_transpose3d", "nn.functional.multi_head_attention_forward",
    "nn.functional.scaled_dot_product_attention",
}  # fmt: skip

# Memory whose contents nobody has written yet.
UNDEFINED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}

Compare = Callable[[Sequence[Any], Sequence[Any], Any], "str | None"]


# ---- factors that are not unique, and values whose errors come from the largest one ----


def apart(what: str, one: Any, other: Any) -> str | None:
    """In which way two arrays are not the same, up to errors in float32 that are counted from the largest value."""
    one, other = np.asarray(one), np.asarray(other)
    if one.shape != other.shape or one.dtype != other.dtype:
        return f"{what}: {one.dtype}{one.shape} instead of {other.dtype}{other.shape}"
    error, size = (float(abs(x).max(initial=0)) for x in (one - other, other))
    return None if error <= 2e-5 * max(size, 1) else f"{what}: errors up to {error:.2g}, values up to {size:.2g}"


def orthonormal(what: str, columns: Any) -> str | None:
    columns = np.asarray(columns)
    product = columns.conj().swapaxes(-1, -2) @ columns
    unit = np.broadcast_to(np.eye(columns.shape[-1], dtype=columns.dtype), product.shape)
    return apart(f"{what}^H {what}", product, unit)


def first(*differences: str | None) -> str | None:
    return next((what for what in differences if what is not None), None)


def shapes(found: Sequence[Any], expected: Sequence[Any]) -> str | None:
    one, other = ([f"{np.asarray(x).dtype}{np.asarray(x).shape}" for x in xs] for xs in (found, expected))
    return None if one == other else f"{one} instead of {other}"


def values(found: Sequence[Any], expected: Sequence[Any], call: Any) -> str | None:
    return first(*(apart(f"result {k}", *pair) for k, pair in enumerate(zip(found, expected, strict=True))))


def of_svd(found: Sequence[Any], expected: Sequence[Any], call: Any) -> str | None:
    """U diag(S) V^H is the same, S is, and U and V are orthonormal; V itself where PyTorch returns that."""
    if (what := shapes(found, expected)) is not None:
        return what
    adjoint = call.name.startswith("torch.linalg.")
    if not call.kwargs.get("compute_uv", True):
        return values(found, expected, call)

    def parts(factors: Sequence[Any]) -> tuple[Any, Any, Any, Any]:
        u, s, v = map(np.asarray, factors)
        v = v.conj().swapaxes(-1, -2) if adjoint else v
        count = s.shape[-1]
        whole = (u[..., :count] * s[..., None, :]) @ v[..., :count].conj().swapaxes(-1, -2)
        return u, s, v, whole

    u, s, v, whole = parts(found)
    _, wanted_s, _, wanted = parts(expected)
    return first(apart("S", s, wanted_s), apart("U S V^H", whole, wanted), orthonormal("U", u), orthonormal("V", v))


def of_low_rank(found: Sequence[Any], expected: Sequence[Any], call: Any) -> str | None:
    """Singular values and vectors that are as near to the matrix as PyTorch's; both are of random projections."""
    if (what := shapes(found, expected)) is not None:
        return what
    matrix = call.args[0].numpy()
    if call.kwargs.get("center"):
        matrix = matrix - matrix.mean(-2, keepdims=True)
    if (less := call.kwargs.get("M")) is not None:
        matrix = matrix - less.numpy()

    def distance(factors: Sequence[Any]) -> float:
        u, s, v = map(np.asarray, factors)
        return float(np.sqrt(np.square(matrix - (u * s[..., None, :]) @ v.swapaxes(-1, -2)).sum()))

    mine, theirs = distance(found), distance(expected)
    near = mine <= 1.1 * theirs + 2e-5 * max(1, float(np.sqrt(np.square(matrix).sum())))
    return first(
        None if near else f"U S V^H is {mine:.3g} from the matrix, PyTorch's {theirs:.3g}",
        orthonormal("U", found[0]),
        orthonormal("V", found[2]),
    )


def of_eigh(found: Sequence[Any], expected: Sequence[Any], call: Any) -> str | None:
    """The eigenvalues are the same, V is orthonormal, and V diag(w) V^H the same."""
    if (what := shapes(found, expected)) is not None:
        return what

    def whole(factors: Sequence[Any]) -> Any:
        w, v = map(np.asarray, factors)
        return (v * w[..., None, :]) @ v.conj().swapaxes(-1, -2)

    return first(
        apart("values", found[0], expected[0]),
        apart("V w V^H", whole(found), whole(expected)),
        orthonormal("V", found[1]),
    )


def of_eig(found: Sequence[Any], expected: Sequence[Any], call: Any) -> str | None:
    """The eigenvalues are the same in some order, and A V = V diag(w) for columns of length 1."""
    if (what := shapes(found, expected)) is not None:
        return what
    w, v = map(np.asarray, found)
    a = call.args[0].numpy()
    ordered = [np.sort_complex(np.asarray(x).round(4)) for x in (w, expected[0])]
    length = np.sqrt((abs(v) ** 2).sum(-2))
    return first(
        apart("values", *ordered),
        apart("A V", (a @ v).astype(v.dtype), v * w[..., None, :]),
        apart("lengths", length, np.ones_like(length)),
    )


FACTORS: dict[str, Compare] = {
    "addbmm": values,
    "linalg.eig": of_eig,
    "linalg.eigh": of_eigh,
    "linalg.svd": of_svd,
    "matrix_exp": values,
    "pca_lowrank": of_low_rank,
    "svd": of_svd,
    "svd_lowrank": of_low_rank,
}
