"""The dtypes of the standard, and the kinds they belong to. A dtype is its name, with facts (`rulegrad.dtypes`)."""

from __future__ import annotations

import builtins
from typing import Final

from rulegrad.errors import DtypeError
from rulegrad.ir.dtype import (
    DType,
    complex64,
    complex128,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from rulegrad.ir.dtype import bool_ as bool
from rulegrad.ir.limits import KINDS

__all__ = [
    "bool", "complex64", "complex128", "float32", "float64", "int8", "int16", "int32", "int64",
    "uint8", "uint16", "uint32", "uint64",
]  # fmt: skip

#: The dtypes that the standard names; tensors have more (float16, bfloat16, fp8).
BY_NAME: Final[dict[str, DType]] = {
    str(dtype): dtype
    for dtype in (
        bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float32, float64, complex64, complex128,
    )
}  # fmt: skip


def in_kind(dtype: DType, kind: str) -> builtins.bool:
    """Whether `dtype` is of the standard's kind of that name. Raises DtypeError for no such kind."""
    if kind not in KINDS:
        raise DtypeError(f"{kind!r} is not a kind of dtype; use one of {', '.join(map(repr, KINDS))}, or a dtype")
    return dtype.kind in KINDS[kind]
