"""PyTorch's names in `torch`, so that a model's source runs when `import torch` becomes `import rulegrad as torch`.

`rulegrad.cat` is `Tensor.cat`, `rulegrad.float32` is a dtype, `rulegrad.device` names a device. `rulegrad` looks here
for a name that it does not have itself.
"""

from __future__ import annotations

import functools
import inspect
import math
import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from rulegrad import cuda
from rulegrad._core import Size
from rulegrad.array_api import from_dlpack
from rulegrad.capture import ScriptModule
from rulegrad.errors import DtypeError, OutOfMemoryError, ShapeError
from rulegrad.ir import dtype as dtypes
from rulegrad.ir.limits import FloatInfo, finfo, iinfo
from rulegrad.nn import functional
from rulegrad.pytorch import absent, defaults, library, lists, more_functions, reductions, sparse, threads, windows
from rulegrad.pytorch.futures import Future
from rulegrad.pytorch.gradient_modes import inference_mode
from rulegrad.support.torch_names import (
    COPIES,
    FUNCTIONAL,
    IN_PLACE,
    MAKING,
    METHODS,
    MORE_FUNCTIONS,
    REDUCTIONS,
    RENAMED,
    SEEDS,
    SHORT_DTYPES,
    THREADS,
    TYPED,
    WINDOWS,
    is_foreach,
)
from rulegrad.tensor import generators
from rulegrad.tensor.autocasting import autocast_dtype
from rulegrad.tensor.device_names import device
from rulegrad.tensor.gradient_mode import gradients_enabled, set_grad_enabled
from rulegrad.tensor.operands import result_dtype
from rulegrad.tensor.outputs import put
from rulegrad.tensor.printing import set_printoptions
from rulegrad.tensor.storage import default_float
from rulegrad.tensor.tensor import Tensor


def as_tensor(data: Any, dtype: Any = None, device: str | None = None) -> Tensor:
    """`data` itself if it is such a tensor, otherwise a tensor of its values. It shares memory with nothing else."""
    if isinstance(data, Tensor):
        return data.to(device or data.device, data.dtype if dtype is None else dtype)
    return Tensor(data, dtype, device)


def from_numpy(array: Any) -> Tensor:
    """A tensor of the values of an array. They are copied: later changes of the array do not reach the tensor."""
    return Tensor(array)


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether products are computed in fewer bits: whether this is inside of `autocast`."""
    return autocast_dtype() is not None


def get_autocast_dtype(device_type: str | None = None) -> dtypes.DType:
    """The dtype of products inside of `autocast`; bfloat16 outside."""
    return autocast_dtype() or dtypes.bfloat16


def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """A tensor of the numbers in a buffer's bytes, which are copied."""
    array = np.frombuffer(buffer, dtypes.as_dtype(dtype).numpy, count, offset)
    return Tensor(array, dtype, requires_grad=requires_grad)


def typename(value: Any) -> str:
    """The name of a value's type, with its module."""
    return f"{type(value).__module__}.{type(value).__qualname__}"


def is_tensor(value: Any) -> bool:
    """Whether `value` is a Tensor."""
    return isinstance(value, Tensor)


def meshgrid(*tensors: Any, indexing: Any = "ij") -> list[Tensor]:
    """`Tensor.meshgrid`, by default in the order of the tensors.

    >>> import rulegrad
    >>> [part.tolist() for part in rulegrad.meshgrid(Tensor([1, 2]), Tensor([3, 4]))]
    [[[1, 1], [2, 2]], [[3, 4], [3, 4]]]
    """
    return Tensor.meshgrid(*tensors, indexing=indexing)


def power(base: Any, exponent: Any) -> Any:
    """`base ** exponent`, where one of the two may be a number.

    >>> import rulegrad
    >>> rulegrad.pow(2, Tensor([1, 3])).tolist()
    [2, 8]
    """
    return Tensor.pow(base, exponent) if isinstance(base, Tensor) else base**exponent


def check(condition: Any, message: str) -> None:
    """`torch._assert`: raises AssertionError with the message unless the condition holds."""
    if not condition:
        raise AssertionError(message)


def check_all(condition: Any, message: str = "_assert_async: a condition does not hold") -> None:
    """`torch._assert_async`: raises RuntimeError unless all elements are true; the values are waited for."""
    if not bool(condition.all()):
        raise RuntimeError(message)


def _making(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that makes a tensor, as a function with the arguments that PyTorch's have in common."""
    takes_dtype = "dtype" in inspect.signature(method).parameters

    @functools.wraps(method)
    def function(*arguments: Any, dtype: Any = None, requires_grad: bool = False, out: Any = None, **more: Any) -> Any:
        if out is not None:
            return put(function(*arguments, dtype=dtype, **more), out)
        given = {key: value for key, value in more.items() if key not in _FOR_MEMORY}
        if dtype is None:
            new = method(*arguments, **given)
        else:
            new = method(*arguments, dtype=dtype, **given) if takes_dtype else method(*arguments, **given).cast(dtype)
        return new.requires_grad_() if requires_grad else new

    return function


def _finfo(dtype: Any = None) -> FloatInfo:
    """The limits of a dtype of floats, by default of the default one. Raises DtypeError."""
    return finfo(default_float() if dtype is None else dtype)


#: Methods whose first operand PyTorch's functions take as a number, too.
_OF_NUMBERS: Final = {
    "add", "sub", "subtract", "mul", "multiply", "div", "divide", "true_divide", "floor_divide", "remainder", "pow",
    "float_power", "xlogy", "bitwise_and", "bitwise_or", "bitwise_xor", "lshift", "rshift",
}  # fmt: skip


def _of_a_tensor(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method as a function, which says so when it is not given a tensor. A tensor `out` takes the result.

    Of those of two operands that PyTorch takes a number for, the first may be one, with a tensor behind it.
    """

    @functools.wraps(method)
    def function(*arguments: Any, out: Any = None, **more: Any) -> Any:
        if out is not None:
            return put(function(*arguments, **more), out)
        if arguments and isinstance(arguments[0], (bool, int, float, complex)):
            other = arguments[1] if len(arguments) > 1 else more.get("other")
            if isinstance(other, Tensor) and method.__name__ in _OF_NUMBERS:
                first = Tensor.full((), arguments[0], dtype=result_dtype(other, arguments[0]), device=other.device)
                return method(first, *arguments[1:], **more)
            kind, given = type(arguments[0]).__name__, arguments[0]
            raise DtypeError(f"{method.__name__}: the first argument is a {kind}, not a Tensor; give Tensor({given!r})")
        more.pop("layout", None)  # that is C order
        if not arguments and "input" in more:  # PyTorch's name of the first argument
            return method(more.pop("input"), **more)
        return method(*arguments, **more)

    return function


def _copying(name: str) -> Callable[..., Any]:
    """`view_copy` and the like: what the method without `_copy` gives, as tensors of their own."""
    method = _of_a_tensor(getattr(Tensor, "clone" if name == "alias" else name))

    def function(input: Tensor, *arguments: Any, out: Any = None, **more: Any) -> Any:
        found = method(input, *arguments, **more)
        copies = [one.clone() for one in found] if isinstance(found, (tuple, list)) else found.clone()
        return copies if out is None else put(copies, out)

    function.__name__ = function.__qualname__ = f"{name}_copy"
    return function


def _part(name: str) -> Callable[[Tensor], Tensor]:
    """A property of tensors as a function: `torch.real(x)`."""

    def function(input: Tensor) -> Tensor:
        part: Tensor = getattr(input, name)
        return part

    function.__name__ = function.__qualname__ = name
    return function


class _Typed(type):
    """The class of PyTorch's classes of one dtype: a tensor is an instance where it has the dtype."""

    dtype: str

    def __instancecheck__(cls, item: Any) -> bool:
        return isinstance(item, Tensor) and item.dtype == cls.dtype

    def __call__(cls, *values: Any) -> Tensor:
        if all(isinstance(value, int) for value in values):
            return Tensor.empty(*values or (0,), dtype=cls.dtype)
        if len(values) != 1:
            raise ShapeError(f"{values} are neither sizes, which are ints, nor one list, array or tensor of values")
        return Tensor(values[0], cls.dtype)


def _typed(name: str) -> Any:
    text = f"A tensor of {TYPED[name]} with these values; ints are sizes, of a tensor whose values are set later."
    return _Typed(name, (), {"dtype": TYPED[name], "__doc__": text})


def _nothing(*_: Any, **__: Any) -> None:
    """A switch of PyTorch that changes nothing here."""


def _matmul_precision() -> str:
    """ "highest": float32 is multiplied as float32."""
    return "highest"


def _is_off(*_: Any, **__: Any) -> bool:
    """False: there is no such mode here."""
    return False


#: Names that are those of a module.
_OF_MODULES: Final[tuple[tuple[frozenset[str], Any], ...]] = (
    (REDUCTIONS, reductions), (WINDOWS, windows), (FUNCTIONAL, functional), (MORE_FUNCTIONS, more_functions),
    (SEEDS, generators), (THREADS, threads),
)  # fmt: skip
#: Switches that are off.
_OFF: Final = ("is_deterministic_algorithms_warn_only_enabled", "is_inference_mode_enabled", "is_warn_always_enabled")
#: Arguments that say where and how PyTorch keeps the elements: here that is in C order.
_FOR_MEMORY: Final = ("layout", "memory_format", "names", "pin_memory")

_VALUES: Final[dict[str, Any]] = {
    "Event": cuda.Event, "Size": Size, "Stream": cuda.Stream,
    "sparse_coo_tensor": sparse.sparse_coo_tensor,
    "ops": library.ops, "torch": sys.modules["rulegrad"],
    "dtype": dtypes.DType, "finfo": _finfo, "iinfo": iinfo, "inference_mode": inference_mode,
    "e": math.e, "inf": math.inf, "nan": math.nan, "newaxis": None, "pi": math.pi,
    "is_grad_enabled": gradients_enabled, "pow": power, "_assert": check,
    "_assert_async": check_all, **absent.CLASSES, "ScriptModule": ScriptModule,
    **absent.DTYPES,
    "meshgrid": meshgrid, "set_grad_enabled": set_grad_enabled, "asarray": as_tensor, "from_dlpack": from_dlpack,
    "get_autocast_gpu_dtype": get_autocast_dtype, "is_autocast_cpu_enabled": is_autocast_enabled,
    **{name: name for name in ("channels_last", "channels_last_3d", "contiguous_format", "preserve_format", "strided")},
    **{name: name for name in ("sparse_bsc", "sparse_bsr", "sparse_coo", "sparse_csc", "sparse_csr")},
    "layout": str, "memory_format": str,
    "OutOfMemoryError": OutOfMemoryError, "DeviceObjType": str, "Future": Future,
    "get_float32_matmul_precision": _matmul_precision,
    **dict.fromkeys(("set_float32_matmul_precision", "set_warn_always", "use_deterministic_algorithms"), _nothing),
    **dict.fromkeys(("are_deterministic_algorithms_enabled", *_OFF), _is_off),
    **{one.__name__: one for one in (frombuffer, get_autocast_dtype, is_autocast_enabled, set_printoptions, typename)},
    **{one.__name__: one for one in (defaults.get_default_device, defaults.set_default_device)},
    **{one.__name__: one for one in (defaults.get_default_dtype, defaults.set_default_dtype)},
    "set_default_tensor_type": defaults.set_default_tensor_type,
    **{one.__name__: one for one in (device, as_tensor, from_numpy, is_tensor)},
    **{name: _typed(name) for name in TYPED},
    **{str(dtype): dtype for dtype in dtypes.ALL},
    **{name: dtypes.as_dtype(full) for name, full in SHORT_DTYPES.items()},
}  # fmt: skip


def find(name: str) -> Any:
    """The value of a name of `torch`. Raises AttributeError.

    >>> find("cat")([Tensor([1]), Tensor([2])]).tolist(), find("long") == "int64"
    ([1, 2], True)
    >>> find("sin")(0.5)
    Traceback (most recent call last):
    rulegrad.errors.DtypeError: sin: the first argument is a float, not a Tensor; give Tensor(0.5)
    """
    if is_foreach(name):
        return lists.function_of_lists(name)
    for names, module in _OF_MODULES:
        if name in names:
            return getattr(module, name)
    if name in COPIES:
        return _copying(name.removesuffix("_copy"))
    name = RENAMED.get(name, name)
    if name in MAKING:
        return _making(getattr(Tensor, name))
    if name in METHODS or name in IN_PLACE:
        found = inspect.getattr_static(Tensor, name)
        if isinstance(found, property):
            return _part(name)
        is_method = inspect.isfunction(found)
        return _of_a_tensor(getattr(Tensor, name)) if is_method else getattr(Tensor, name)
    if name in _VALUES:
        return _VALUES[name]
    raise AttributeError(f"module 'rulegrad' has no attribute {name!r}")
