"""NumPy's own functions on tensors: `np.add(array, tensor)`, `np.sum(tensor)`, `np.concatenate([tensor])`.

NumPy asks its arguments first (NEP 13 and NEP 18). A function that tensors have gives a tensor, so the device and the
gradients are kept; the tables below say which argument is which. Any other function is computed by NumPy from the
values, and gives NumPy arrays; that is an error for a tensor with a gradient, which would be lost without a word, and
for functions that would change a copy.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rulegrad.errors import DtypeError, GradientError, ShapeError
from rulegrad.tensor import fft, special
from rulegrad.tensor.axes import one_axis
from rulegrad.tensor.core import TensorCore
from rulegrad.tensor.inplace import become
from rulegrad.tensor.movement import squeeze_ones
from rulegrad.tensor.numpy_nan_functions import NAN_FUNCTIONS
from rulegrad.tensor.operands import as_tensor, result_dtype
from rulegrad.tensor.storage import is_weak_scalar
from rulegrad.tensor.transcendental import as_floating

if TYPE_CHECKING:
    from rulegrad.tensor.tensor import Tensor


#: NumPy's elementwise functions whose method has another name; the others have the same.
_METHODS: Final = {
    "conjugate": "conj",
    "degrees": "rad2deg",
    "divmod": "__divmod__",
    "fabs": "abs",
    "invert": "bitwise_not",
    "left_shift": "lshift",
    "radians": "deg2rad",
    "right_shift": "rshift",
    "rint": "round",
}
#: `np.add.reduce` and the like.
_REDUCTIONS: Final = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
    "logical_and": "all",
    "logical_or": "any",
}
_ACCUMULATIONS: Final = {"add": "cumsum", "multiply": "cumprod"}
#: Those that give the places too.
_EXTREMES: Final = {"maximum": "cummax", "minimum": "cummin"}

_AXES = {"axis": "axis", "keepdims": "keepdims"}
_TYPED = _AXES | {"dtype": "dtype"}
#: For each function of NumPy the method, and the method's names of the function's arguments after the first.
_FUNCTIONS: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "all": ("all", _AXES),
    "amax": ("max", _AXES),
    "amin": ("min", _AXES),
    "any": ("any", _AXES),
    "argmax": ("argmax", _AXES),
    "argmin": ("argmin", _AXES),
    "argsort": ("argsort", {"axis": "axis"}),
    "argwhere": ("argwhere", {}),
    "around": ("round", {"decimals": "decimals"}),
    "array_split": ("array_split", {"indices_or_sections": "indices_or_sections", "axis": "axis"}),
    "bincount": ("bincount", {"weights": "weights", "minlength": "minlength"}),
    "broadcast_to": ("broadcast_to", {"shape": ""}),
    "clip": ("clip", {"a_min": "min", "a_max": "max", "min": "min", "max": "max"}),
    "copy": ("clone", {}),
    "count_nonzero": ("count_nonzero", _AXES),
    "cross": ("cross", {"b": "other", "axis": "dim"}),
    "cumprod": ("cumprod", {"axis": "axis", "dtype": "dtype"}),
    "cumsum": ("cumsum", {"axis": "axis", "dtype": "dtype"}),
    "diag": ("diag", {"k": "diagonal"}),
    "diagonal": ("diagonal", {"offset": "offset", "axis1": "dim1", "axis2": "dim2"}),
    "diff": ("diff", {"n": "n", "axis": "axis"}),
    "expand_dims": ("expand_dims", {"axis": "axis"}),
    "flip": ("flip", {"axis": ""}),
    "full_like": ("full_like", {"fill_value": "fill_value", "dtype": "dtype"}),
    "imag": ("imag", {}),
    "inner": ("inner", {"b": "other"}),
    "isclose": ("isclose", {"b": "other", "rtol": "rtol", "atol": "atol", "equal_nan": "equal_nan"}),
    "kron": ("kron", {"b": "other"}),
    "max": ("max", _AXES),
    "mean": ("mean", _TYPED),
    "median": ("median", _AXES),
    "min": ("min", _AXES),
    "moveaxis": ("moveaxis", {"source": "source", "destination": "destination"}),
    "nan_to_num": ("nan_to_num", {}),
    "nanmean": ("nanmean", _TYPED),
    "nanmedian": ("nanmedian", _AXES),
    "nansum": ("nansum", _TYPED),
    "ones_like": ("ones_like", {"dtype": "dtype"}),
    "outer": ("outer", {"b": "other"}),
    "prod": ("prod", _TYPED),
    "quantile": ("quantile", {"q": "q", **_AXES}),
    "ravel": ("flatten", {}),
    "real": ("real", {}),
    "repeat": ("repeat_interleave", {"repeats": "repeats", "axis": "axis"}),
    "reshape": ("reshape", {"shape": ""}),
    "roll": ("roll", {"shift": "shift", "axis": "axis"}),
    "rot90": ("rot90", {"k": "k", "axes": "axes"}),
    "round": ("round", {"decimals": "decimals"}),
    "searchsorted": ("searchsorted", {"v": "values", "side": "side"}),
    "sinc": ("sinc", {}),
    "sort": ("sort", {"axis": "axis"}),
    "std": ("std", {**_AXES, "ddof": "correction", "correction": "correction"}),
    "sum": ("sum", _TYPED),
    "swapaxes": ("swapaxes", {"axis1": "", "axis2": ""}),
    "take": ("take", {"indices": "index", "axis": "axis"}),
    "take_along_axis": ("take_along_axis", {"indices": "index", "axis": "axis"}),
    "tensordot": ("tensordot", {"b": "other", "axes": "axes"}),
    "tile": ("tile", {"reps": ""}),
    "trace": ("trace", {"offset": "offset", "axis1": "dim1", "axis2": "dim2"}),
    "transpose": ("transpose", {"axes": ""}),
    "tril": ("tril", {"k": ""}),
    "triu": ("triu", {"k": ""}),
    "var": ("var", {**_AXES, "ddof": "correction", "correction": "correction"}),
    "vdot": ("vdot", {"b": "other"}),
    "zeros_like": ("zeros_like", {"dtype": "dtype"}),
}
#: Those of several tensors: the method, and whether it takes an axis.
_TOGETHER: Final = {
    "broadcast_arrays": ("broadcast_tensors", False),
    "column_stack": ("column_stack", False),
    "concat": ("concat", True),
    "concatenate": ("concat", True),
    "dstack": ("dstack", False),
    "hstack": ("hstack", False),
    "stack": ("stack", True),
    "vstack": ("vstack", False),
}
#: NumPy's parameters where `inspect` does not know them.
_PARAMETERS: Final = {
    "bincount": ("x", "weights", "minlength"),
    "inner": ("a", "b"),
    "vdot": ("a", "b"),
}
#: Functions that change their first argument, and what to do instead.
_CHANGING: Final = {
    "copyto": "x.copy_(…)",
    "fill_diagonal": "x[i, i] = …",
    "place": "x[mask] = …",
    "put": "x[…] = …",
    "put_along_axis": "x.put_along_axis(…), which gives a new tensor",
    "putmask": "x[mask] = …",
}


def array_ufunc(self: Tensor, ufunc: Any, method: str, *inputs: Any, out: Any = (), **options: Any) -> Any:
    """`np.add(array, tensor)` and other elementwise functions of NumPy: a tensor.

    `array += tensor` and `out=array` write the array. Raises DtypeError for a function that tensors do not have.
    """
    if any(isinstance(target, np.ndarray) for target in out):
        return getattr(ufunc, method)(*_on_host(inputs), out=out, **_on_host(options))
    like = next((x for x in (*inputs, *out) if isinstance(x, TensorCore)), self)
    dtype = options.pop("dtype", None)
    name = f"np.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
    if options and method not in ("reduce", "accumulate"):
        raise DtypeError(f"{name}: {', '.join(options)} is not for tensors; give .numpy() of them, or leave it out")
    if method == "__call__" and dtype is None and _is_scipys(ufunc):
        result = getattr(special, ufunc.__name__)(*inputs)
    else:
        # A function of this name that is not NumPy's own may mean something else.
        own = ufunc.__name__ if _is_numpys(ufunc) else ""
        result = _elementwise(name, own, method, like, inputs, dtype, options)
    if not out:
        return result
    return become(out[0], result, f"{name}(out=)")


def array_function(self: Tensor, function: Any, types: Any, arguments: Any, options: Any) -> Any:
    """`np.sum(tensor)` and other functions of NumPy: a tensor where tensors have them, else NumPy's own result.

    Raises GradientError where NumPy would lose a gradient, DtypeError for functions that change their argument.
    """
    if not all(issubclass(kind, (np.ndarray, TensorCore)) for kind in types):
        return NotImplemented
    name = function.__name__
    if isinstance(target := options.get("out"), TensorCore):
        rest = {key: value for key, value in options.items() if key != "out"}
        changed: Any = target
        return become(changed, as_tensor(changed, function(*arguments, **rest), f"np.{name}"), f"np.{name}(out=)")
    if getattr(np.fft, name, None) is function:
        found = _of_spectra(function, arguments, options)
    else:
        found = _of_tensors(function, arguments, options) if _is_numpys(function) else NotImplemented
    if found is not NotImplemented:
        return found
    if name in _CHANGING and arguments and isinstance(arguments[0], TensorCore):
        raise DtypeError(f"np.{name}: a tensor is changed by {_CHANGING[name]}, and not by NumPy")
    result = function(*_on_host(arguments), **_on_host(options))
    if _has_floats(result) and any(tensor.requires_grad for tensor in _tensors((arguments, options))):
        raise GradientError(
            f"np.{name}: NumPy computes this from the values, and the gradient would be lost; use tensor.detach(), "
            "or a function of tensors"
        )
    return result


def _is_numpys(function: Any) -> bool:
    """Whether it is the function of this name in `np` itself: `np.linalg` has others of the same names."""
    return getattr(np, function.__name__, None) is function


def _is_scipys(function: Any) -> bool:
    """Whether it is the function of this name in `scipy.special`, which tensors have."""
    scipy = sys.modules.get("scipy.special")
    name = function.__name__
    return scipy is not None and getattr(scipy, name, None) is function and name in special.__all__


def _on_host(value: Any) -> Any:
    """Tensors as NumPy arrays, in tuples, lists and dicts too."""
    if isinstance(value, TensorCore):
        return np.asarray(value)
    if type(value) in (tuple, list):
        return type(value)(map(_on_host, value))
    if type(value) is dict:
        return {key: _on_host(part) for key, part in value.items()}
    return value


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, TensorCore):
        yield value
    elif type(value) in (tuple, list, dict):
        for part in value.values() if type(value) is dict else value:
            yield from _tensors(part)


def _has_floats(result: Any) -> bool:
    if isinstance(result, (tuple, list)):
        return any(map(_has_floats, result))
    return isinstance(result, (np.ndarray, np.generic)) and result.dtype.kind in "fc"


# ---- elementwise functions ----


def _elementwise(
    name: str, function: str, method: str, like: Any, inputs: tuple[Any, ...], dtype: Any, options: dict[str, Any]
) -> Any:
    first, *rest = inputs
    if method == "reduce" and function in _REDUCTIONS and options.keys() <= {"axis", "keepdims"}:
        axis = options.pop("axis", 0)
        typed = {} if dtype is None else {"dtype": dtype}
        return getattr(first, _REDUCTIONS[function])(axis, **options, **typed)
    if method == "accumulate" and function in _ACCUMULATIONS and options.keys() <= {"axis"}:
        return getattr(first, _ACCUMULATIONS[function])(options.get("axis", 0), dtype)
    if method == "accumulate" and function in _EXTREMES and options.keys() <= {"axis"} and dtype is None:
        return getattr(first, _EXTREMES[function])(options.get("axis", 0))[0]
    if function == "modf" and method == "__call__" and dtype is None:
        whole = as_floating(first).trunc()
        return whole.isinf().where(0.0, first - whole).copysign(first), whole
    known = _METHODS.get(function, function)
    if not hasattr(like, known) or method not in ("__call__", "outer"):
        raise DtypeError(f"{name}: tensors have no such function; give .numpy() of them to compute it on the host")
    if dtype is not None:
        inputs = tuple(as_tensor(like, np.asarray(x) if is_weak_scalar(x) else x, name).cast(dtype) for x in inputs)
        first, *rest = inputs
    if method == "outer":
        first, second = (as_tensor(like, np.asarray(x) if is_weak_scalar(x) else x, name) for x in inputs)
        return getattr(first.reshape(first.shape + (1,) * second.ndim), known)(second)
    if is_weak_scalar(first):
        # As weak as it is beside a tensor: a scalar of the tensor's own dtype where that can hold it.
        first = like.full((), first, dtype=result_dtype(like, first), device=like._device or None)
    return getattr(as_tensor(like, first, name), known)(*rest)


# ---- other functions ----


def _of_tensors(function: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """The result of tensors' own functions for one of NumPy's; NotImplemented where they take no such arguments."""
    name = function.__name__
    if name in NAN_FUNCTIONS:
        given = _bound(function, arguments, options)
        return NotImplemented if given is None else _of_numbers(name, {k: v for k, v in given.items() if v is not None})
    if name in _SPECIAL:
        return _SPECIAL[name](*arguments, **options)
    if name in _TOGETHER:
        return _together(name, arguments, options)
    if name not in _FUNCTIONS:
        return NotImplemented
    method, names = _FUNCTIONS[name]
    given = _bound(function, arguments, options)
    if given is None:
        return NotImplemented
    first, *rest = given.items()
    if not isinstance(first[1], TensorCore) and not hasattr(first[1], "__array__"):
        return NotImplemented
    positional, named = [], {}
    for key, value in rest:
        if key == "out" and isinstance(value, TensorCore):
            raise DtypeError(f"np.{name}: give out=… by name")
        if key not in names:
            if value is None:  # `out`, `dtype` and the like, when they are not given
                continue
            return NotImplemented
        if names[key]:
            named[names[key]] = value
        elif value is not None:
            positional.append(value)
    like = next(x for x in (*arguments, *options.values()) if isinstance(x, TensorCore))
    found = getattr(as_tensor(like, first[1], f"np.{name}"), method)
    result = found(*positional, **named) if callable(found) else found
    return result[0] if name == "sort" else result


def _of_spectra(function: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """A function of `np.fft`; NotImplemented where the transforms of tensors do not take these arguments."""
    given = _bound(function, arguments, options)
    if given is None or given.pop("out", None) is not None:
        return NotImplemented
    x = given.pop("x" if "x" in given else "a")
    return getattr(fft, function.__name__)(x, **given) if isinstance(x, TensorCore) else NotImplemented


def _of_numbers(name: str, given: dict[str, Any]) -> Any:
    """A function of NumPy that leaves nan out; NotImplemented where it does not take these arguments."""
    function = NAN_FUNCTIONS[name]
    if not isinstance(given.get("a"), TensorCore) or not given.keys() <= set(_parameters(function)):
        return NotImplemented
    return function(**given)


def _bound(function: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any] | None:
    """The arguments by NumPy's names."""
    names = _parameters(function)
    if len(arguments) > len(names):
        return None
    return dict(zip(names, arguments)) | options


@cache
def _parameters(function: Any) -> tuple[str, ...]:
    try:
        return tuple(inspect.signature(function).parameters)
    except ValueError:
        return _PARAMETERS.get(function.__name__, ())


def _together(name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    method, has_axis = _TOGETHER[name]
    tensors, *more = arguments if name != "broadcast_arrays" else (arguments,)
    if len(more) > has_axis or options.keys() - ({"axis"} if has_axis else set()):
        return NotImplemented
    like = next((x for x in tensors if isinstance(x, TensorCore)), None)
    if like is None:
        return NotImplemented
    axis = {"axis": more[0]} if more else options
    parts = [as_tensor(like, np.asarray(x) if is_weak_scalar(x) else x, f"np.{name}") for x in tensors]
    return getattr(type(like), method)(parts, **axis)


def _where(condition: Any, *values: Any) -> Any:
    """`np.where`, where the truth of a number is that it is not 0."""
    if len(values) != 2:
        return NotImplemented if values else condition.nonzero(as_tuple=True)
    like = next(x for x in (condition, *values) if isinstance(x, TensorCore))
    chosen = as_tensor(like, np.asarray(condition), "np.where") if not isinstance(condition, TensorCore) else condition
    return chosen.cast("bool").where(*values)  # type: ignore[attr-defined]


def _dot(a: Any, b: Any) -> Any:
    """`np.dot`, which for more than two axes is not `matmul`."""
    like: Any = a if isinstance(a, TensorCore) else b
    first, second = (as_tensor(like, np.asarray(x) if is_weak_scalar(x) else x, "np.dot") for x in (a, b))
    if not first.ndim or not second.ndim:
        return first * second
    return first.dot(second) if second.ndim < 3 else first.tensordot(second, ([-1], [-2]))


def _size(a: Any, axis: int | None = None) -> int:
    return int(a.size) if axis is None else int(a.shape[axis])


def _array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    return bool(np.array_equal(_on_host(a1), _on_host(a2), equal_nan=equal_nan))


def _allclose(a: Any, b: Any, **options: Any) -> bool:
    return bool(np.allclose(_on_host(a), _on_host(b), **options))


def _einsum(*operands: Any, **options: Any) -> Any:
    if options or not operands or not isinstance(operands[0], str):
        return NotImplemented
    like: Any = next(x for x in operands if isinstance(x, TensorCore))
    return type(like).einsum(*operands)


def _split(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    parts = indices_or_sections
    if not isinstance(ary, TensorCore):
        return NotImplemented
    k = one_axis(axis, ary.ndim, "np.split")
    if isinstance(parts, int) and (parts < 1 or ary.shape[k] % parts):
        raise ShapeError(f"np.split: {parts} equal parts of axis {k} of the shape {ary.shape}; use np.array_split")
    return ary.tensor_split(parts, k)  # type: ignore[attr-defined]


_SPECIAL: Final[dict[str, Callable[..., Any]]] = {
    "allclose": _allclose,
    "array_equal": _array_equal,
    "dot": _dot,
    "einsum": _einsum,
    "ndim": lambda a: a.ndim,
    "nonzero": lambda a: a.nonzero(as_tuple=True),
    "shape": lambda a: a.shape,
    "size": _size,
    "split": _split,
    "squeeze": squeeze_ones,
    "where": _where,
}
