"""Creation functions: arrays from numbers, from other arrays, and from memory."""

from __future__ import annotations

from typing import Any

from rulegrad.errors import DtypeError, ShapeError
from rulegrad.ir.dtype import as_dtype
from rulegrad.tensor import Tensor
from rulegrad.tensor.dlpack import from_memory
from rulegrad.tensor.storage import Scalar, default_complex, default_float

from .operands import Array, array, whole_shape

__all__ = [
    "arange", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like", "linspace", "meshgrid",
    "ones", "ones_like", "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip


def asarray(obj: Any, /, *, dtype: Any = None, device: str | None = None, copy: bool | None = None) -> Array:
    """An array with the values of `obj`: an array, a Python scalar, nested sequences, or memory that can be read.

    dtype: by default that of `obj`; Python floats give float32, ints int64. copy: True for a new array always, None
    when it is needed, False for never. Memory of others is shared where the device can use it as it is. Raises
    ValueError for `copy=False` when a copy is needed, ShapeError for ragged sequences, DtypeError, DeviceError.

    >>> from rulegrad import array_api as xp
    >>> xp.asarray([[1, 2], [3, 4]], dtype=xp.float64).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    wanted = None if dtype is None else as_dtype(dtype)
    if not isinstance(obj, Tensor):
        created: Array = from_memory(Tensor, obj, wanted, device, copy)
        return created
    values = obj if device is None else obj.to(device)
    if wanted is not None and values.dtype != wanted:
        values = values.cast(wanted)
    if values is obj:
        return values._result(values.uop) if copy else values
    if copy is False:
        raise ValueError(
            f"asarray: {obj.dtype} on {obj.device} cannot become {values.dtype} on {values.device} without a copy; "
            "leave out copy=False"
        )
    return values


def from_dlpack(x: object, /, *, device: str | None = None, copy: bool | None = None) -> Array:
    """An array with the values of another library's array, shared with it where that is possible.

    copy: True for a new array always, None when it is needed, False for never (BufferError then).

    >>> import numpy as np
    >>> from rulegrad import array_api as xp
    >>> xp.from_dlpack(np.array([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    return Tensor.from_dlpack(x, device=device, copy=copy)


# ---- constants ----


def full(shape: Any, fill_value: Scalar, *, dtype: Any = None, device: str | None = None) -> Array:
    """`fill_value` everywhere. dtype: by default that of the value: bool, int64, float32 or complex64.

    >>> from rulegrad import array_api as xp
    >>> xp.full((2, 2), 7).tolist()
    [[7, 7], [7, 7]]
    """
    return Tensor.full(whole_shape(shape), fill_value, dtype, device)


def zeros(shape: Any, *, dtype: Any = None, device: str | None = None) -> Array:
    """Zeros, of float32 by default.

    >>> from rulegrad import array_api as xp
    >>> xp.zeros(2).tolist()
    [0.0, 0.0]
    """
    return full(shape, 0, dtype=dtype or default_float(), device=device)


def ones(shape: Any, *, dtype: Any = None, device: str | None = None) -> Array:
    """Ones, of float32 by default.

    >>> from rulegrad import array_api as xp
    >>> xp.ones((1, 2), dtype=xp.int8).tolist()
    [[1, 1]]
    """
    return full(shape, 1, dtype=dtype or default_float(), device=device)


def empty(shape: Any, *, dtype: Any = None, device: str | None = None) -> Array:
    """An array whose values do not matter (they are zeros, which take no memory), of float32 by default.

    >>> from rulegrad import array_api as xp
    >>> xp.empty((3, 0)).shape
    (3, 0)
    """
    return zeros(shape, dtype=dtype, device=device)


def full_like(x: Array, /, fill_value: Scalar, *, dtype: Any = None, device: str | None = None) -> Array:
    """`fill_value` everywhere, with the shape of `x`, and its dtype and device unless others are named.

    >>> from rulegrad import array_api as xp
    >>> xp.full_like(xp.asarray([1, 2]), 5).tolist()
    [5, 5]
    """
    like = array(x, "full_like")
    return full(like.shape, fill_value, dtype=dtype or like.dtype, device=device or like._device or None)


def zeros_like(x: Array, /, *, dtype: Any = None, device: str | None = None) -> Array:
    """Zeros with the shape of `x`, and its dtype and device unless others are named.

    >>> from rulegrad import array_api as xp
    >>> xp.zeros_like(xp.asarray([1, 2])).tolist()
    [0, 0]
    """
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x: Array, /, *, dtype: Any = None, device: str | None = None) -> Array:
    """Ones with the shape of `x`, and its dtype and device unless others are named.

    >>> from rulegrad import array_api as xp
    >>> xp.ones_like(xp.asarray([1, 2])).tolist()
    [1, 1]
    """
    return full_like(x, 1, dtype=dtype, device=device)


def empty_like(x: Array, /, *, dtype: Any = None, device: str | None = None) -> Array:
    """An array whose values do not matter, with the shape of `x`, and its dtype and device unless others are named.

    >>> from rulegrad import array_api as xp
    >>> xp.empty_like(xp.asarray([1, 2])).shape
    (2,)
    """
    return zeros_like(x, dtype=dtype, device=device)


# ---- number ranges ----


def arange(
    start: int | float,
    /,
    stop: int | float | None = None,
    step: int | float = 1,
    *,
    dtype: Any = None,
    device: str | None = None,
) -> Array:
    """`start`, `start + step`, … before `stop` (from 0, with one argument). int64 for ints, else float32.

    Raises ShapeError for a step of 0.

    >>> from rulegrad import array_api as xp
    >>> xp.arange(5, 0, -2).tolist()
    [5, 3, 1]
    """
    return Tensor.arange(start, stop, step, dtype, device)


def linspace(
    start: int | float | complex,
    stop: int | float | complex,
    /,
    num: int,
    *,
    dtype: Any = None,
    device: str | None = None,
    endpoint: bool = True,
) -> Array:
    """`num` numbers at equal distances from `start` to `stop`, which is left out with `endpoint=False`.

    dtype: float32 by default, complex64 for complex ends. Raises ShapeError for num < 0, DtypeError for a dtype
    that is not of floating point.

    >>> from rulegrad import array_api as xp
    >>> xp.linspace(0, 1, 5).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    if num < 0:
        raise ShapeError(f"linspace: num is {num}; use 0 or more")
    is_complex = isinstance(start, complex) or isinstance(stop, complex)
    wanted = as_dtype(dtype) if dtype is not None else default_complex() if is_complex else default_float()
    if not (isinstance(start, complex) or isinstance(stop, complex)):
        values = Tensor.linspace(start, stop, num if endpoint else num + 1, wanted.real, device)
        return (values if endpoint else values[:num]).cast(wanted)
    if not wanted.is_complex:
        raise DtypeError(f"linspace: complex numbers do not fit {wanted}; use complex64 or complex128")
    part = as_dtype("float64")
    ends = complex(start), complex(stop)
    real = linspace(ends[0].real, ends[1].real, num, dtype=part, device=device, endpoint=endpoint)
    imaginary = linspace(ends[0].imag, ends[1].imag, num, dtype=part, device=device, endpoint=endpoint)
    unit: Any = 1j
    result: Array = (real + imaginary * unit).cast(wanted)
    return result


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: Any = None,
    device: str | None = None,
) -> Array:
    """Ones on the diagonal `k` (above the main one, or below for k < 0), zeros elsewhere; float32 by default.

    >>> from rulegrad import array_api as xp
    >>> xp.eye(2, 3, k=1, dtype=xp.int64).tolist()
    [[0, 1, 0], [0, 0, 1]]
    """
    columns = n_rows if n_cols is None else n_cols
    distance = Tensor.arange(columns, device=device) - Tensor.arange(n_rows, device=device).unsqueeze(1)
    return distance.equal(k).cast(dtype or default_float())


# ---- from arrays ----


def tril(x: Array, /, *, k: int = 0) -> Array:
    """The lower triangles of matrices (…, rows, columns): zeros above the diagonal `k`.

    >>> from rulegrad import array_api as xp
    >>> xp.tril(xp.ones((2, 2))).tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    return array(x, "tril").tril(k)


def triu(x: Array, /, *, k: int = 0) -> Array:
    """The upper triangles of matrices (…, rows, columns): zeros below the diagonal `k`.

    >>> from rulegrad import array_api as xp
    >>> xp.triu(xp.ones((2, 2))).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    return array(x, "triu").triu(k)


def meshgrid(*arrays: Array, indexing: str = "xy") -> tuple[Array, ...]:
    """The coordinates of a grid with the given numbers (vectors) along its axes: one array for each vector.

    indexing: "ij" for axes in the order of the vectors, "xy" for the first two exchanged. Raises ShapeError for
    arrays that are not vectors, DtypeError for different dtypes, ValueError for another `indexing`.

    >>> from rulegrad import array_api as xp
    >>> [grid.tolist() for grid in xp.meshgrid(xp.asarray([1, 2]), xp.asarray([3, 4]), indexing="ij")]
    [[[1, 1], [2, 2]], [[3, 4], [3, 4]]]
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing is {indexing!r}; use 'xy' or 'ij'")
    vectors = [array(one, "meshgrid") for one in arrays]
    if any(one.ndim > 1 for one in vectors):
        raise ShapeError(f"meshgrid: the shapes are {[one.shape for one in vectors]}; give arrays of one axis")
    if len({one.dtype for one in vectors}) > 1:
        raise DtypeError(f"meshgrid: the dtypes {[one.dtype for one in vectors]} differ; give arrays of one dtype")
    order: Any = indexing
    return tuple(Tensor.meshgrid(vectors, indexing=order)) if vectors else ()
