"""Conversions between dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rulegrad.errors import DtypeError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import as_dtype
from rulegrad.tensor.operands import require_castable

if TYPE_CHECKING:
    from rulegrad.tensor.tensor import Tensor


def cast(self: Tensor, dtype: Any) -> Tensor:
    """The values converted to `dtype`: floats to integers truncate, integers wrap, bool is `x != 0`.

    Raises DtypeError for complex numbers that are to become real: take `.real` or `.imag`.

    >>> from rulegrad import Tensor
    >>> Tensor([1.7, -1.7]).cast("int32").tolist()
    [1, -1]
    """
    wanted = as_dtype(dtype)
    require_castable(self.dtype, wanted)
    return self._same() if wanted == self.dtype else self._result(UOp("CAST", (self.uop,), wanted))


def bitcast(self: Tensor, dtype: Any) -> Tensor:
    """The same bits as another dtype of the same size. Raises DtypeError for another size.

    >>> Tensor([1.0]).bitcast("int32").tolist()
    [1065353216]
    """
    wanted = as_dtype(dtype)
    if wanted.is_complex or self.dtype.is_complex:
        raise DtypeError(f"bitcast: {self.dtype} as {wanted}: a complex number is two floats; take .real and .imag")
    if wanted.bits != self.dtype.bits:
        raise DtypeError(
            f"bitcast: {self.dtype} has {self.dtype.bits} bits and {wanted} has {wanted.bits}; "
            "use cast to convert values"
        )
    return self._shared() if wanted == self.dtype else self._viewed("BITCAST", wanted)


def conversion(dtype: str, name: str) -> Callable[[Tensor], Tensor]:
    """The function that casts a tensor to one dtype."""

    def convert(self: Tensor) -> Tensor:
        return self if self.dtype == dtype else self.cast(dtype)

    convert.__name__ = name
    convert.__doc__ = f"""`cast("{dtype}")`

    >>> Tensor([0, 1]).{name}().dtype
    DType('{dtype}')
    """
    return convert
