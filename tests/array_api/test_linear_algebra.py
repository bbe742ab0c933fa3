"""Linear algebra functions of the main namespace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

NUMERIC = (
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "complex64", "complex128",
)  # fmt: skip


def counted(shape: Any, dtype: str) -> Any:
    values = (np.arange(np.prod(shape, dtype=int)) % 7).reshape(shape)
    return (values * (1 + 0.5j) if dtype.startswith("complex") else values).astype(dtype)


@pytest.mark.parametrize("dtype", NUMERIC)
def test_matmul(lib: Any, xp: Any, dtype: str):
    for left, right in (((2, 3), (3, 4)), ((3,), (3, 2)), ((5, 2, 3), (3,)), ((5, 1, 2, 3), (2, 3, 2)), ((3,), (3,))):
        a, b = counted(left, dtype), counted(right, dtype)
        lib.same(xp.matmul(lib.array(a), lib.array(b)), np.matmul(a, b), dtype)
        lib.same(xp.linalg.matmul(lib.array(a), lib.array(b)), np.matmul(a, b), dtype)


@pytest.mark.parametrize(("left", "right"), [((2, 0), (0, 3)), ((0, 2), (2, 3)), ((0, 2, 2), (2, 2)), ((0,), (0,))])
def test_matmul_of_nothing(lib: Any, xp: Any, left: Any, right: Any):
    a, b = np.ones(left), np.ones(right)
    lib.exactly(xp.matmul(lib.array(a), lib.array(b)), np.asarray(np.matmul(a, b)))


def test_matmul_promotes(lib: Any, xp: Any):
    a, b = counted((2, 2), "int8"), counted((2, 2), "int16")
    lib.same(xp.matmul(lib.array(a), lib.array(b)), a @ b, "int16")


@pytest.mark.parametrize(("left", "right"), [((2, 3), (2, 3)), ((), (2, 2)), ((2,), ()), ((2, 2, 2), (3, 2, 2))])
def test_matrices_that_do_not_fit(xp: Any, left: Any, right: Any):
    with pytest.raises(ValueError):
        xp.matmul(xp.ones(left), xp.ones(right))


@pytest.mark.parametrize("shape", [(2, 3), (4, 2, 3), (2, 0)])
def test_matrix_transpose(lib: Any, xp: Any, shape: Any):
    values = counted(shape, "int64")
    lib.exactly(xp.matrix_transpose(lib.array(values)), values.mT)
    lib.exactly(xp.linalg.matrix_transpose(lib.array(values)), values.mT)


@pytest.mark.parametrize("dtype", NUMERIC)
@pytest.mark.parametrize("axes", [0, 1, 2, ([0, 1], [1, 0]), ([-1], [0]), ((1, 0), (0, 1))])
def test_tensordot(lib: Any, xp: Any, dtype: str, axes: Any):
    a, b = counted((3, 3), dtype), counted((3, 3, 2), dtype)
    expected = np.tensordot(a, b, axes).astype(dtype)
    lib.same(xp.tensordot(lib.array(a), lib.array(b), axes=axes), expected, dtype)
    lib.same(xp.linalg.tensordot(lib.array(a), lib.array(b), axes=axes), expected, dtype)


@pytest.mark.parametrize("dtype", NUMERIC)
def test_vecdot(lib: Any, xp: Any, dtype: str):
    a, b = counted((2, 3, 4), dtype), counted((3, 1), dtype)
    c = counted((3, 4), dtype)
    lib.same(xp.vecdot(lib.array(a), lib.array(c)), np.vecdot(a, c), dtype)
    lib.same(xp.linalg.vecdot(lib.array(a), lib.array(c)), np.vecdot(a, c), dtype)
    lib.same(xp.vecdot(lib.array(a), lib.array(b), axis=-2), np.vecdot(a, np.broadcast_to(b, (3, 4)), axis=-2), dtype)
    with pytest.raises(ValueError):
        xp.vecdot(lib.array(a), lib.array(counted((3,), dtype)))
