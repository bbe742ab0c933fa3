"""Nodes and dtypes as Python sees them."""

from __future__ import annotations

from rulegrad._core import UOp, load_table_with, name_dtypes
from rulegrad.engine import install_op_table
from rulegrad.ir.dtype import EVERY
from rulegrad.ir.text import format_uop, parse_uop, repr_uop

load_table_with(install_op_table)
name_dtypes(EVERY)
UOp.__str__ = format_uop  # type: ignore[method-assign, assignment]
UOp.__repr__ = repr_uop  # type: ignore[method-assign, assignment]
UOp.parse = staticmethod(parse_uop)  # type: ignore[method-assign]

__all__ = ["UOp"]
