"""Facts about a tensor under PyTorch's names: numel, dim, is_floating_point, type."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rulegrad.ir.dtype import as_dtype
from rulegrad.support.torch_names import TYPED
from rulegrad.tensor.axes import one_axis

if TYPE_CHECKING:
    from rulegrad.tensor.tensor import Tensor


def is_complex(self: Tensor) -> bool:
    """Whether the dtype is one of complex numbers.

    >>> Tensor([1j]).is_complex(), Tensor([1.0]).is_complex()
    (True, False)
    """
    return self.dtype.is_complex


def is_signed(self: Tensor) -> bool:
    """Whether the dtype has negative numbers.

    >>> Tensor([1]).is_signed(), Tensor([1], dtype="uint8").is_signed()
    (True, False)
    """
    return self.dtype.kind not in ("bool", "uint")


def is_nonzero(self: Tensor) -> bool:
    """Whether the only element is not 0. Raises ShapeError for another number of elements.

    >>> Tensor([2]).is_nonzero(), Tensor(0.0).is_nonzero()
    (True, False)
    """
    return bool(self)


def ndimension(self: Tensor) -> int:
    """The number of axes.

    >>> Tensor([[1, 2]]).ndimension()
    2
    """
    return self.ndim


def numel(self: Tensor) -> int:
    """The number of elements.

    >>> Tensor([[1, 2, 3]]).numel()
    3
    """
    return int(self.size)


def dim(self: Tensor) -> int:
    """The number of axes.

    >>> Tensor([[1, 2, 3]]).dim()
    2
    """
    return self.ndim


def element_size(self: Tensor) -> int:
    """The bytes of one element.

    >>> Tensor([0.5]).element_size()
    4
    """
    return self.itemsize


def is_floating_point(self: Tensor) -> bool:
    """Whether the dtype is one of floats.

    >>> Tensor([0.5]).is_floating_point(), Tensor([1]).is_floating_point()
    (True, False)
    """
    return self.dtype.is_float


def is_on_cuda(self: Tensor) -> bool:
    """Whether the device is a CUDA device.

    >>> Tensor([1], device="numpy").is_cuda
    False
    """
    return self.device.type == "cuda"


def is_never(self: Tensor) -> bool:
    """False: tensors of this kind are PyTorch's alone.

    >>> Tensor([1]).is_sparse
    False
    """
    return False


def is_contiguous(self: Tensor, memory_format: Any = None) -> bool:
    """Always True: the memory of a tensor is in C order whenever anyone can see it, whatever `memory_format` says.

    >>> Tensor([[1, 2]]).T.is_contiguous()
    True
    """
    return True


def stride(self: Tensor, dim: int | None = None) -> Any:
    """How many elements apart neighbours along each axis are, or along one: in C order, as `is_contiguous` says.

    >>> Tensor([[1, 2, 3], [4, 5, 6]]).stride(), Tensor([[1, 2, 3], [4, 5, 6]]).stride(-1)
    ((3, 1), 1)
    """
    strides = tuple(math.prod(self.shape[k + 1 :]) for k in range(self.ndim))
    return strides if dim is None else strides[one_axis(dim, self.ndim, "stride")]


def storage_offset(self: Tensor) -> int:
    """0: elements are numbered from the tensor's own first one.

    >>> Tensor([1, 2, 3])[1:].storage_offset()
    0
    """
    return 0


def type(self: Tensor, dtype: Any = None) -> Any:
    """The values as another dtype; without one, the name of this tensor's. PyTorch's classes of a dtype name it, too.

    >>> Tensor([0.5]).type(), Tensor([2.5]).type("int32").tolist()
    ('float32', [2])
    """
    if dtype is None:
        return str(self.dtype)
    if isinstance(dtype, str):
        dtype = TYPED.get(dtype.removeprefix("torch.").removeprefix("cuda."), dtype)
    return self if as_dtype(dtype) == self.dtype else self.cast(as_dtype(dtype))


def type_as(self: Tensor, other: Tensor) -> Tensor:
    """The values in the dtype of `other`.

    >>> Tensor([2.5]).type_as(Tensor([1])).tolist()
    [2]
    """
    return self if other.dtype == self.dtype else self.cast(other.dtype)


def layout(self: Tensor) -> str:
    """How the elements lie: `strided`, always.

    >>> Tensor([1.0]).layout
    'strided'
    """
    return "strided"


def version(self: Tensor) -> int:
    """How often the tensor was changed in place.

    >>> Tensor([1.0]).add_(1)._version
    1
    """
    return self._changes


def is_no_mark(self: Tensor) -> bool:
    """False: values are computed where PyTorch marks a tensor as negative or conjugate.

    >>> Tensor([1j]).conj().is_conj()
    False
    """
    return False


def is_shared(self: Tensor) -> bool:
    """False: no tensor's memory is that of other processes, too.

    >>> Tensor([1.0]).is_shared()
    False
    """
    return False


def is_inference(self: Tensor) -> bool:
    """False: what is made inside of `inference_mode` is like what is made inside of `no_grad`.

    >>> Tensor([1.0]).is_inference()
    False
    """
    return False
