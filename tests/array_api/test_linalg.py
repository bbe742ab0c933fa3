"""The linear algebra extension: values, shapes, dtypes, names of results; decompositions multiply back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

FLOATS = ("float32", "float64")
COMPLEX = ("complex64", "complex128")
INEXACT = (*FLOATS, *COMPLEX)
REAL_OF = {"complex64": "float32", "complex128": "float64", "float32": "float32", "float64": "float64"}
COMPLEX_OF = {"float32": "complex64", "float64": "complex128", "complex64": "complex64", "complex128": "complex128"}
SHAPES: list[Any] = [(3, 3), (2, 3, 3), (1, 1), (0, 3, 3), (2, 0, 0)]


def general(shape: Any, dtype: str, seed: int = 1) -> Any:
    generator = np.random.default_rng(seed)
    values = generator.uniform(-2, 2, shape)
    return (values + 1j * generator.uniform(-2, 2, shape) if dtype in COMPLEX else values).astype(dtype)


def hermitian(shape: Any, dtype: str) -> Any:
    a = general(shape, dtype)
    return (a @ np.conj(a.mT) + 2 * np.eye(shape[-1])).astype(dtype)


def wide(shape: Any, dtype: str) -> float:
    """The tolerance of values that are computed with several roundings."""
    return 3e-3 if REAL_OF[dtype] == "float32" else 1e-9


@pytest.mark.parametrize("dtype", INEXACT)
@pytest.mark.parametrize("shape", SHAPES)
def test_of_square_matrices(lib: Any, xp: Any, dtype: str, shape: Any):
    a = hermitian(shape, dtype)
    x, near = lib.array(a), wide(shape, dtype)
    lib.same(xp.linalg.det(x), np.linalg.det(a), dtype, near * 10)
    lib.same(xp.linalg.inv(x), np.linalg.inv(a), dtype, near)
    sign, logarithm = np.linalg.slogdet(a)
    found = xp.linalg.slogdet(x)
    assert type(found)._fields == ("sign", "logabsdet")
    lib.same(found.sign, sign, dtype, near)
    lib.same(found.logabsdet, logarithm, REAL_OF[dtype], near)
    for power in (0, 1, 3, -2):
        lib.same(xp.linalg.matrix_power(x, power), np.linalg.matrix_power(a, power), dtype, near * 100)


@pytest.mark.parametrize("dtype", INEXACT)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky(lib: Any, xp: Any, dtype: str, shape: Any, upper: bool):
    a = hermitian(shape, dtype)
    found = xp.linalg.cholesky(lib.array(a), upper=upper)
    lib.same(found, np.linalg.cholesky(a, upper=upper), dtype, wide(shape, dtype))


@pytest.mark.parametrize("dtype", INEXACT)
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 3), (2, 3, 4), (0, 2, 3), (2, 0, 3), (3, 0)])
def test_qr(lib: Any, xp: Any, dtype: str, shape: Any):
    a = general(shape, dtype)
    for mode in ("reduced", "complete"):
        found = xp.linalg.qr(lib.array(a), mode=mode)
        assert type(found)._fields == ("Q", "R")
        q, r = (lib.values(part) for part in found)
        expected = np.linalg.qr(a, mode)  # type: ignore[call-overload]
        assert (q.shape, r.shape) == (expected.Q.shape, expected.R.shape)
        assert [lib.name_of(part.dtype) for part in found] == [dtype] * 2
        np.testing.assert_allclose(q @ r, a, atol=wide(shape, dtype))
        np.testing.assert_allclose(
            np.conj(q.mT) @ q,
            np.broadcast_to(np.eye(q.shape[-1]), (*shape[:-2], *[q.shape[-1]] * 2)),
            atol=wide(shape, dtype),
        )
        np.testing.assert_array_equal(np.tril(r, -1), 0)


@pytest.mark.parametrize("dtype", INEXACT)
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 3), (2, 3, 4), (0, 2, 3)])
def test_svd(lib: Any, xp: Any, dtype: str, shape: Any):
    a = general(shape, dtype)
    for full in (True, False):
        found = xp.linalg.svd(lib.array(a), full_matrices=full)
        assert type(found)._fields == ("U", "S", "Vh")
        expected = np.linalg.svd(a, full_matrices=full)
        assert [part.shape for part in found] == [part.shape for part in expected]
        assert [lib.name_of(part.dtype) for part in found] == [dtype, REAL_OF[dtype], dtype]
        u, s, vh = (lib.values(part) for part in found)
        count = s.shape[-1]
        back = u[..., :count] * s[..., None, :] @ vh[..., :count, :]
        np.testing.assert_allclose(back, a, atol=wide(shape, dtype))
    lib.same(xp.linalg.svdvals(lib.array(a)), np.linalg.svdvals(a), REAL_OF[dtype], wide(shape, dtype))


@pytest.mark.parametrize("dtype", INEXACT)
@pytest.mark.parametrize("shape", SHAPES)
def test_eigh(lib: Any, xp: Any, dtype: str, shape: Any):
    a = hermitian(shape, dtype)
    found = xp.linalg.eigh(lib.array(a))
    assert type(found)._fields == ("eigenvalues", "eigenvectors")
    assert [lib.name_of(part.dtype) for part in found] == [REAL_OF[dtype], dtype]
    w, v = (lib.values(part) for part in found)
    np.testing.assert_allclose(v * w[..., None, :] @ np.conj(v.mT), a, atol=wide(shape, dtype) * 10)
    lib.same(xp.linalg.eigvalsh(lib.array(a)), np.linalg.eigvalsh(a), REAL_OF[dtype], wide(shape, dtype))


@pytest.mark.parametrize("dtype", INEXACT)
def test_eigenvalues_of_general_matrices(lib: Any, xp: Any, dtype: str):
    """Of the revision after 2024.12."""
    a = general((2, 3, 3), dtype)
    found = xp.linalg.eig(lib.array(a).astype(lib.dtype(COMPLEX_OF[dtype])))
    w, v = (lib.values(part) for part in found)
    np.testing.assert_allclose(a @ v, v * w[..., None, :], atol=wide((), dtype))
    only = lib.values(xp.linalg.eigvals(lib.array(a).astype(lib.dtype(COMPLEX_OF[dtype]))))
    np.testing.assert_allclose(np.sort_complex(only), np.sort_complex(w), atol=wide((), dtype))


@pytest.mark.parametrize("dtype", INEXACT)
def test_solve(lib: Any, xp: Any, dtype: str):
    for left, right in (
        ((3, 3), (3,)),
        ((2, 3, 3), (3,)),
        ((3, 3), (3, 2)),
        ((2, 1, 3, 3), (4, 3, 2)),
        ((0, 3, 3), (3, 1)),
    ):
        a, b = hermitian(left, dtype), general(right, dtype)
        lib.same(xp.linalg.solve(lib.array(a), lib.array(b)), np.linalg.solve(a, b), dtype, wide((), dtype))


@pytest.mark.parametrize("dtype", INEXACT)
def test_pseudo_inverses_and_ranks(lib: Any, xp: Any, dtype: str):
    for shape in ((3, 3), (2, 4, 3), (3, 4)):
        a = general(shape, dtype)
        lib.same(xp.linalg.pinv(lib.array(a)), np.linalg.pinv(a), dtype, wide(shape, dtype) * 10)
        lib.same(xp.linalg.matrix_rank(lib.array(a)), np.linalg.matrix_rank(a), "int64")
    low = np.ones((4, 3), dtype)
    lib.same(xp.linalg.matrix_rank(lib.array(low)), np.asarray(1), "int64")
    scaled = np.diag([1.0, 0.1]).astype(dtype)
    assert int(xp.linalg.matrix_rank(lib.array(scaled), rtol=0.5)) == 1
    lib.same(xp.linalg.pinv(lib.array(scaled), rtol=0.5), np.diag([1.0, 0.0]), dtype, wide((), dtype))


@pytest.mark.parametrize("dtype", INEXACT)
@pytest.mark.parametrize("order", ["fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf])
def test_matrix_norm(lib: Any, xp: Any, dtype: str, order: Any):
    a = general((2, 3, 4), dtype)
    for keepdims in (False, True):
        expected = np.linalg.matrix_norm(a, ord=order, keepdims=keepdims)
        lib.same(
            xp.linalg.matrix_norm(lib.array(a), ord=order, keepdims=keepdims), expected, REAL_OF[dtype], wide((), dtype)
        )


@pytest.mark.parametrize("dtype", INEXACT)
@pytest.mark.parametrize("order", [0, 1, 2, 3, 2.5, -1, -2, np.inf, -np.inf])
def test_vector_norm(lib: Any, xp: Any, dtype: str, order: Any):
    a = general((2, 3, 4), dtype)
    for axis in (None, 0, -1, (0, 2)):
        for keepdims in (False, True):
            expected = np.linalg.vector_norm(a, axis=axis, ord=order, keepdims=keepdims)
            found = xp.linalg.vector_norm(lib.array(a), axis=axis, ord=order, keepdims=keepdims)
            lib.same(found, expected, REAL_OF[dtype], wide((), dtype))


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint16", *INEXACT])
@pytest.mark.parametrize("offset", [-4, -1, 0, 2, 5])
def test_diagonal_and_trace(lib: Any, xp: Any, dtype: str, offset: int):
    values = np.arange(24).reshape(2, 3, 4).astype(dtype)
    expected = np.linalg.diagonal(values, offset=offset)
    lib.exactly(xp.linalg.diagonal(lib.array(values), offset=offset), expected)
    summed = {"i": "int64", "u": "uint64"}.get(np.dtype(dtype).kind, dtype)
    lib.same(xp.linalg.trace(lib.array(values), offset=offset), expected.astype(summed).sum(-1), summed)
    lib.same(
        xp.linalg.trace(lib.array(values), offset=offset, dtype=xp.float64), expected.real.sum(-1), "float64"
    ) if dtype not in COMPLEX else None


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint16", *INEXACT])
def test_outer_and_cross(lib: Any, xp: Any, dtype: str):
    a, b = general((3,), dtype) * 3, general((4,), dtype, 2) * 3
    lib.same(xp.linalg.outer(lib.array(a), lib.array(b)), np.outer(a, b).astype(dtype), dtype)
    u, v = (general((2, 3), dtype) * 3).astype(dtype), (general((5, 1, 3), dtype, 2) * 3).astype(dtype)
    lib.same(xp.linalg.cross(lib.array(u), lib.array(v)), np.cross(u, v), dtype)
    w = (general((3, 2), dtype, 4) * 3).astype(dtype)
    lib.same(xp.linalg.cross(lib.array(w), lib.array(w[::-1]), axis=-2), np.cross(w, w[::-1], axis=0), dtype)
    with pytest.raises(ValueError):
        xp.linalg.cross(lib.array(b), lib.array(b))


def test_what_is_refused(xp: Any):
    for name in ("det", "inv", "cholesky", "eigh", "eigvalsh", "slogdet"):
        with pytest.raises(ValueError):
            getattr(xp.linalg, name)(xp.ones((2, 3)))
    with pytest.raises(ValueError):
        xp.linalg.inv(xp.ones((2, 2)))
    with pytest.raises(ValueError):
        xp.linalg.cholesky(-xp.eye(2))
