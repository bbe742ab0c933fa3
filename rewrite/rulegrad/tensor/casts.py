"""Conversions between dtypes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rulegrad.errors import DtypeError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import as_dtype
from rulegrad.tensor.core import TensorCore
from rulegrad.tensor.operands import require_castable

if TYPE_CHECKING:
    from typing_extensions import Self


class Casts(TensorCore):
    """`cast`, `bitcast`, and a short name for each of the usual dtypes."""

    # A class of its own: inside it `int`, `float` and `bool` are methods, also for annotations.
    __slots__ = ()

    def cast(self, dtype: Any) -> Self:
        """The values converted to `dtype`: floats to integers truncate, integers wrap, bool is `x != 0`.

        Raises DtypeError for complex numbers that are to become real: take `.real` or `.imag`.

        >>> from rulegrad import Tensor
        >>> Tensor([1.7, -1.7]).cast("int32").tolist()
        [1, -1]
        """
        wanted = as_dtype(dtype)
        require_castable(self.dtype, wanted)
        return self._same() if wanted == self.dtype else self._result(UOp("CAST", (self.uop,), wanted))

    def astype(self, dtype: Any) -> Self:
        """NumPy's name of `cast`.

        >>> Tensor([1.5, -1.5]).astype("int32").tolist()
        [1, -1]
        """
        return self.cast(dtype)

    def bitcast(self, dtype: Any) -> Self:
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

    def bool(self) -> Self:
        """`cast("bool")`

        >>> Tensor([0.0, 0.5]).bool().tolist()
        [False, True]
        """
        return self.cast("bool")

    def int(self) -> Self:
        """`cast("int32")`

        >>> Tensor([1.5, -1.5]).int().tolist()
        [1, -1]
        """
        return self.cast("int32")

    def long(self) -> Self:
        """`cast("int64")`

        >>> Tensor([1.5, -1.5]).long().dtype
        DType('int64')
        """
        return self.cast("int64")

    def half(self) -> Self:
        """`cast("float16")`

        >>> Tensor([1, 2]).half().dtype
        DType('float16')
        """
        return self.cast("float16")

    def bfloat16(self) -> Self:
        """`cast("bfloat16")`

        >>> Tensor([1, 2]).bfloat16().dtype
        DType('bfloat16')
        """
        return self.cast("bfloat16")

    def float(self) -> Self:
        """`cast("float32")`

        >>> Tensor([1, 2]).float().tolist()
        [1.0, 2.0]
        """
        return self.cast("float32")

    def double(self) -> Self:
        """`cast("float64")`

        >>> Tensor([1, 2]).double().dtype
        DType('float64')
        """
        return self.cast("float64")
