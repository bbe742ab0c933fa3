"""Between host data and buffers: Python lists, numbers and NumPy arrays in, buffers out."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from rulegrad.config import config
from rulegrad.errors import DtypeError, NumberRangeError, ShapeError
from rulegrad.ir.dtype import ALL, DType, as_dtype, complex64, complex128
from rulegrad.ir.limits import integer_bounds
from rulegrad.runtime.buffer import Buffer, Parts, as_bools
from rulegrad.runtime.devices import canonical
from rulegrad.tensor import capturing
from rulegrad.tensor.capsules import read

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rulegrad.tensor.core import TensorCore

    Array: TypeAlias = NDArray[Any]


def default_float() -> DType:
    """The dtype of `Tensor([1.5])`, `Tensor.zeros(3)` and the like when none is given: `config.default_dtype`."""
    return as_dtype(config.default_dtype)


def default_complex() -> DType:
    """The complex dtype of which both parts are the default float, or float32 where it is smaller."""
    return complex128 if config.default_dtype == "float64" else complex64


Scalar: TypeAlias = bool | int | float | complex
PYTHON_NUMBERS: Final = frozenset({bool, int, float, complex})
#: The names of the NumPy dtypes that tensors can have.
_NAMES: Final = frozenset(map(str, ALL))


def is_weak_scalar(value: object) -> bool:
    """Whether `value` is a Python number, which takes the dtype of what it meets: np.float64 and np.complex128 are."""
    # The first test is the usual case.
    return type(value) in PYTHON_NUMBERS or isinstance(value, (int, float, complex))


def scalar_dtype(value: Scalar) -> DType:
    """The dtype of a Python number alone: bool, int64 (uint64 where only that holds it), or the
    default float or complex dtype."""
    if isinstance(value, bool):
        return as_dtype("bool")
    if isinstance(value, int):
        return as_dtype("int64" if value < 1 << 63 else "uint64")
    return default_complex() if isinstance(value, complex) else default_float()


def host_array(data: Any, dtype: DType | None) -> Array:
    """`data` as a C-contiguous NumPy array of a dtype that tensors can have.

    An array keeps its dtype; lists of Python floats become the default float, of ints int64, unless
    `dtype` is given.
    Raises ShapeError for ragged lists and DtypeError for values that no dtype, or not `dtype`, can hold.
    """
    data = _without_gradient(data)
    had_dtype = hasattr(data, "dtype")
    if "numpy.ma" in sys.modules and np.ma.is_masked(data):  # it takes time to load, and else nothing is masked
        raise DtypeError("Tensor(data): a tensor has no masked values; give data.filled(value), or data.data")
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise ShapeError(f"Tensor(data): the nested lists have no common shape ({error})") from None
    if array.dtype.name not in _NAMES:
        raise DtypeError(_no_numbers(array))
    if not had_dtype and array.dtype.kind == "f":
        array = _exact(data, array)
        if dtype is not None and dtype.is_integer:
            _check_whole(array, dtype)
    if dtype is None:
        dtype = as_dtype(array.dtype)
        if dtype.is_inexact and not had_dtype:
            dtype = default_complex() if dtype.is_complex else default_float()
    if array.dtype.kind == "c" and not (dtype.is_complex or dtype == "bool"):
        raise DtypeError(f"Tensor(data): complex numbers cannot be {dtype}; give their .real or .imag")
    if dtype.is_integer and not had_dtype and array.size and array.dtype.kind in "iu":
        check_range(int(array.min()), dtype, "Tensor(data)")
        check_range(int(array.max()), dtype, "Tensor(data)")
    return np.ascontiguousarray(array.astype(dtype.numpy, copy=False)).reshape(array.shape)


def _without_gradient(data: Any) -> Any:
    """The values of a tensor of PyTorch, whose `__array__` refuses gradients, other devices, and bfloat16."""
    if type(data).__module__.partition(".")[0] != "torch" or not hasattr(data, "detach"):
        return data
    return read(data.detach().cpu().resolve_conj().resolve_neg(), None, None)


def _no_numbers(array: Array) -> str:
    """Why `array` is nothing that a tensor can hold."""
    if array.dtype.kind != "O":
        return f"Tensor(data): values of type {array.dtype} cannot be in a tensor; give numbers or bools"
    for value in array.flat:
        if isinstance(value, int):
            low, high = integer_bounds(as_dtype("uint64"))
            if not low <= value <= high:
                return f"Tensor(data): the number {value:.3e} does not fit any integer dtype; give floats"
        elif not isinstance(value, (float, complex)):
            kind = type(value).__name__
            return f"Tensor(data): a {kind} cannot be in a tensor; give numbers or bools (an iterator as a list)"
    return "Tensor(data): an array of Python objects; use data.astype with a dtype of numbers first"


def _check_whole(array: Array, dtype: DType) -> None:
    """Raises DtypeError when a float of a list is not a number, or not one that an integer dtype can hold."""
    strange = array[~np.isfinite(array)]
    if strange.size:
        raise DtypeError(f"Tensor(data): {strange.flat[0]} is not a value of {dtype}; use a float dtype")
    if array.size:
        check_range(int(array.min()), dtype, "Tensor(data)")
        check_range(int(array.max()), dtype, "Tensor(data)")


def _exact(data: Any, array: Array) -> Array:
    """Lists of Python ints beyond int64, which NumPy reads as floats, as uint64; any other array as it is."""
    if not (array >= 2.0**63).any():
        return array
    numbers = np.asarray(data, object)
    if not all(isinstance(number, int) for number in numbers.flat):
        return array
    check_range(min(numbers.flat), as_dtype("uint64"), "Tensor(data)")
    check_range(max(numbers.flat), as_dtype("uint64"), "Tensor(data)")
    return np.asarray(data, np.uint64)


def fits(value: int, dtype: DType) -> bool:
    """Whether an integer dtype can hold the Python int `value`."""
    low, high = integer_bounds(dtype)
    return low <= value <= high


def check_range(value: int, dtype: DType, operation: str) -> None:
    """Raises DtypeError when an integer dtype cannot hold the Python int `value`."""
    if not fits(value, dtype):
        low, high = integer_bounds(dtype)
        raise NumberRangeError(
            f"{operation}: the number {value} does not fit {dtype} ({low} to {high}); cast to a wider dtype first"
        )


def device_name(device: str | None) -> str:
    """The full name of a device, such as opencl:0 for opencl; "" for None. Raises DeviceError."""
    return "" if device is None or device == "" else canonical(device)


def filled_like(tensor: TensorCore, value: Scalar, dtype: Any) -> Buffer:
    """A new buffer of this dtype where a tensor is, full of a value; in parts on a mesh, where the tensor is.

    >>> from rulegrad import Tensor
    >>> filled_like(Tensor([[1, 2]], device="numpy"), 0.5, "float32").numpy()
    array([[0.5, 0.5]], dtype=float32)
    """
    parts = parts_of(tensor)
    if parts is None:
        return upload(np.full(tensor.shape, value, as_dtype(dtype).numpy), tensor.device)
    buffer = Buffer(parts.shape, dtype, tensor.device, parts)
    buffer.fill_parts(value)
    return uploaded(buffer)


def upload_like(tensor: TensorCore, array: Array) -> Buffer:
    """A new buffer with the values of an array of a tensor's shape, where the tensor is; in parts, where it is.

    >>> from rulegrad import Tensor
    >>> upload_like(Tensor([1, 2], device="numpy"), np.array([0.5, 2.0])).numpy()
    array([0.5, 2. ])
    """
    parts = parts_of(tensor)
    return upload(array, tensor.device) if parts is None else upload_in_parts(array, parts, tensor.device)


def upload_in_parts(array: Array, parts: Parts, device: str) -> Buffer:
    """A new buffer in parts with the values of an array, of which each device gets its part.

    >>> upload_in_parts(np.array([0.5, 2.0]), Parts((2,), (2,), (0,)), "numpy*2").parts
    Parts(shape=(2,), mesh=(2,), placement=(0,))
    """
    from rulegrad.communication.meshes import upload_parts  # late: few programs have tensors on a mesh

    return uploaded(upload_parts(as_bools(array) if array.dtype == bool else array, parts, device))


def is_mesh_there(mesh: tuple[int, ...], device: str) -> bool:
    """Whether a device has as many parts, or the program as many ranks, as a mesh has places.

    >>> is_mesh_there((2, 2), "numpy*4"), is_mesh_there((2, 2), "numpy")
    (True, False)
    """
    from rulegrad.communication.meshes import world_of  # late: few programs have tensors on a mesh

    return world_of(device).size == math.prod(mesh)


def uploaded(buffer: Buffer) -> Buffer:
    """The buffer, which was made of values on the host: in a trace it is a constant.

    >>> uploaded(Buffer((2,), "float32", "numpy")).shape
    (2,)
    """
    if capturing.current.trace is not None:
        capturing.current.trace.uploaded(buffer.id)
    return buffer


def parts_of(tensor: TensorCore) -> Parts | None:
    """How a tensor that is in a buffer lies on a mesh; None where each device has all of it, or it is not computed.

    >>> from rulegrad import Tensor
    >>> parts_of(Tensor([1, 2], device="numpy"))
    """
    node = tensor._uop
    return Buffer.of(node).parts if node.op == "BUFFER" else None


def upload(array: Array, device: str) -> Buffer:
    """A new buffer on `device` ("" for the default device) with the values of `array`."""
    buffer = Buffer(array.shape, as_dtype(array.dtype), device or None)
    buffer.copy_in(as_bools(array) if array.dtype == bool else array)
    return uploaded(buffer)
