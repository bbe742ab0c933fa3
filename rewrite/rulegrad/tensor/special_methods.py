"""The methods by which Python and NumPy find their operations on tensors: `a + b`, `len(a)`, `a[0]`, `np.sin(a)`."""

from __future__ import annotations

from rulegrad.tensor import (
    advanced,
    arithmetic,
    bitwise,
    dlpack,
    elementwise,
    indexing,
    numpy_functions,
    products,
    protocols,
    values,
)
from rulegrad.tensor.core import TensorCore
from rulegrad.tensor.inplace import in_place
from rulegrad.tensor.operators import forward, is_different, is_equal, operators
from rulegrad.tensor.table import attribute


class SpecialMethods(TensorCore):
    """The special methods of `Tensor`, by their functions.

    They are apart from the table of `Tensor`, whose rows people call by name: these Python and NumPy call.
    """

    __slots__ = ()

    # Python's operators
    __add__, __radd__, __iadd__ = operators(elementwise.add, "__radd__", "+=")
    __sub__, __rsub__, __isub__ = operators(elementwise.sub, "__rsub__", "-=")
    __mul__, __rmul__, __imul__ = operators(elementwise.mul, "__rmul__", "*=")
    __truediv__, __rtruediv__, __itruediv__ = operators(elementwise.div, "__rtruediv__", "/=")
    __floordiv__, __rfloordiv__, __ifloordiv__ = operators(elementwise.floor_divide, "__rfloordiv__", "//=")
    __mod__, __rmod__, __imod__ = operators(elementwise.remainder, "__rmod__", "%=")
    __pow__, __rpow__, __ipow__ = operators(elementwise.pow, "__rpow__", "**=")
    __and__, __rand__, __iand__ = operators(bitwise.bitwise_and, "__rand__", "&=")
    __or__, __ror__, __ior__ = operators(bitwise.bitwise_or, "__ror__", "|=")
    __xor__, __rxor__, __ixor__ = operators(bitwise.bitwise_xor, "__rxor__", "^=")
    __lshift__, __rlshift__, __ilshift__ = operators(bitwise.lshift, "__rlshift__", "<<=")
    __rshift__, __rrshift__, __irshift__ = operators(bitwise.rshift, "__rrshift__", ">>=")
    __rdiv__ = __rtruediv__  # PyTorch's
    __matmul__, __imatmul__ = forward(products.matmul, "__rmatmul__"), in_place(products.matmul, "@=")
    __rmatmul__ = products.reflected_matmul
    __lt__ = forward(elementwise.less, "__gt__")
    __le__ = forward(elementwise.less_equal, "__ge__")
    __gt__ = forward(elementwise.greater, "__lt__")
    __ge__ = forward(elementwise.greater_equal, "__le__")
    __eq__, __ne__ = is_equal, is_different  # type: ignore[assignment]
    # `==` is elementwise, so a tensor as a key is the tensor itself, not its values.
    __hash__ = object.__hash__
    __neg__, __pos__, __invert__, __abs__ = elementwise.neg, TensorCore._same, bitwise.bitwise_not, arithmetic.abs

    # Python's and NumPy's protocols
    __array__ = values.as_array
    __float__ = values.as_float
    __int__ = values.as_int
    __bool__ = values.truth
    __index__ = values.as_index
    __repr__ = values.text
    __len__ = indexing.length
    __iter__ = indexing.iterate
    __getitem__ = advanced.get_item
    __setitem__ = advanced.set_item
    __array_interface__ = attribute(protocols.array_interface)
    __reduce__ = protocols.pickled
    __copy__ = protocols.shallow_copy
    __deepcopy__ = protocols.deep_copy
    __format__ = protocols.formatted
    _repr_html_ = protocols.html
    __contains__ = protocols.contains
    __round__ = protocols.rounded_to
    __divmod__ = protocols.quotient_and_remainder
    __rdivmod__ = protocols.reflected_quotient_and_remainder
    __array_namespace__ = dlpack.array_namespace
    __complex__ = dlpack.as_complex
    __dlpack_device__ = dlpack.dlpack_device
    __dlpack__ = dlpack.dlpack_capsule
    __array_ufunc__ = numpy_functions.array_ufunc
    __array_function__ = numpy_functions.array_function
    __bytes__ = protocols.tobytes
