"""Names of `torch` that sources ask about, and that no value here has: its tracer's sizes, dtypes of other devices."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Final

from rulegrad.tensor.addresses import UntypedStorage

__all__ = [
    "AbsentDtype", "FakeTensor", "PyTorchFileReader", "SymBool", "SymFloat", "SymInt", "TensorType", "TypedStorage",
    "UntypedStorage", "get_proxy_mode", "is_fake", "unset_fake_temporarily",
]  # fmt: skip


class SymInt:
    """A size that PyTorch's tracer does not know: nothing is one, so `isinstance(n, SymInt)` is False."""


class SymFloat:
    """A number that PyTorch's tracer does not know: nothing is one."""


class SymBool:
    """A truth that PyTorch's tracer does not know: nothing is one."""


class TensorType:
    """The type of a tensor to PyTorch's script compiler: nothing is one."""


class PyTorchFileReader:
    """The reader of PyTorch's files there: nothing is one; `rulegrad.load` reads them."""


class TypedStorage:
    """Memory of PyTorch with a dtype: nothing is one."""


class FakeTensor:
    """A tensor of PyTorch's tracer, with a shape and without values: nothing is one."""


def is_fake(x: Any) -> bool:
    """False: every tensor has values.

    >>> is_fake(0)
    False
    """
    return False


def unset_fake_temporarily() -> Any:
    """A block in which tensors have values, as everywhere."""
    return nullcontext()


def get_proxy_mode() -> None:
    """None: PyTorch's tracer is not at work."""


class AbsentDtype:
    """A dtype of PyTorch that no tensor has here: it equals no other, and a tensor of it is a DtypeError.

    >>> from rulegrad import Tensor, complex32
    >>> Tensor([1.0]).dtype in (complex32,)
    False
    """

    is_floating_point = False
    is_complex = False

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"torch.{self._name}"


#: Classes by their names in `torch`.
CLASSES: Final[dict[str, type]] = {
    one.__name__: one
    for one in (PyTorchFileReader, SymBool, SymFloat, SymInt, TensorType, TypedStorage, UntypedStorage)
}
#: By name. `chalf` is `complex32`.
DTYPES: Final = {
    name: AbsentDtype(name) for name in ("complex32", "float8_e4m3fnuz", "float8_e5m2fnuz", "qint32", "qint8", "quint8")
}
