"""The errors that rulegrad raises. Every one says what is wrong, where, and what to do."""

from __future__ import annotations

from typing import Any


class RulegradError(Exception):
    """Base of all errors that rulegrad raises on purpose.

    >>> issubclass(rg.errors.ShapeError, rg.errors.RulegradError)
    True
    """

    @property
    def problem(self) -> str:
        """What is wrong, without what a running program is told besides: how to look further.

        >>> try:
        ...     Tensor([1, 2]).reshape(3)
        ... except rg.errors.RulegradError as error:
        ...     print(error.problem)
        reshape: a tensor of shape (2,) has 2 elements and does not fit (3,)
        """
        return str(self).partition("\n    look further: ")[0]


class RuleError(RulegradError):
    """Rule text that cannot be used; `diagnostics` lists each problem with its place.

    >>> rg.load_rules("missing.rules")
    Traceback (most recent call last):
        ...
    rulegrad.errors.RuleError: the rule file ...missing.rules does not exist
    """

    def __init__(self, message: str, diagnostics: tuple[Any, ...] = ()) -> None:
        super().__init__(message)
        self.diagnostics = diagnostics


class GraphError(RulegradError, ValueError):
    """A node that the op table forbids: wrong sources, attributes, dtype or shape.

    >>> UOp("ADD", (UOp.const(1, "int32"),))
    Traceback (most recent call last):
        ...
    rulegrad.errors.GraphError: ADD: expected 2 sources, got 1
    """


class RewriteError(RulegradError):
    """Rewriting did not end, or a rule changed what it must keep.

    >>> rg.rewrite(UOp.const(2, "int32"), "no_such_pass")
    Traceback (most recent call last):
        ...
    rulegrad.errors.RewriteError: no pass is called no_such_pass
    """


class ShapeError(RulegradError, ValueError, RuntimeError):
    """Shapes that do not fit together: NumPy's ValueError, and PyTorch's RuntimeError.

    >>> Tensor([1, 2]) + Tensor([1, 2, 3])
    Traceback (most recent call last):
        ...
    rulegrad.errors.ShapeError: add: the shapes (2,) and (3,) do not broadcast: axis -1 has 2 and 3...
    """


class DtypeError(RulegradError, TypeError, RuntimeError):
    """A dtype that the operation does not take: NumPy's TypeError, and PyTorch's RuntimeError.

    >>> Tensor([1.0]) & Tensor([1.0])
    Traceback (most recent call last):
        ...
    rulegrad.errors.DtypeError: bitwise_and: the operands promote to float32, which has no bits to...
    """


class NumberRangeError(DtypeError, OverflowError):
    """A Python number that a dtype cannot hold.

    >>> Tensor([1], dtype="int8") + 300
    Traceback (most recent call last):
        ...
    rulegrad.errors.NumberRangeError: add: the number 300 does not fit int8 (-128 to 127); cast to a wider dtype first
    """


class GradientError(RulegradError, RuntimeError):
    """A gradient that does not exist, or a change of a tensor whose gradient is wanted.

    >>> Tensor([1.0]).backward()
    Traceback (most recent call last):
        ...
    rulegrad.errors.GradientError: backward: this tensor depends on no tensor with requires_grad=True...
    """


class AliasError(RulegradError, RuntimeError, ValueError):
    """An update of a view that cannot be one of its base: several of its elements are one place of the base.

    >>> view = Tensor([1.0]).expand(3)
    >>> view += 1
    Traceback (most recent call last):
        ...
    rulegrad.errors.AliasError: +=: this tensor cannot be changed in place, for several of its elements are...
    """


class DeviceError(RulegradError, RuntimeError):
    """A device that is missing, failed, or ran out of memory.

    >>> Tensor([1.0], device="abacus")
    Traceback (most recent call last):
        ...
    rulegrad.errors.DeviceError: there is no device 'abacus'...
    """


class OutOfMemoryError(DeviceError, MemoryError):
    """A device has not enough memory; the message has a table of what it is used for, with the user's lines.

    >>> issubclass(rg.errors.OutOfMemoryError, MemoryError)
    True
    """


class FileError(RulegradError, OSError):
    """A file that is missing, damaged, or of a format that is not read.

    >>> rg.load("missing.safetensors")
    Traceback (most recent call last):
        ...
    rulegrad.errors.FileMissingError: missing.safetensors cannot be read: there is no such file
    """


class FileMissingError(FileError, FileNotFoundError):
    """A file that does not exist.

    >>> issubclass(rg.errors.FileMissingError, FileNotFoundError)
    True
    """


class ConfigError(RulegradError, ValueError):
    """A setting with an unknown name or a value that it cannot take.

    >>> Tensor([[[1.0]]]).interpolate(2, mode="cubist")
    Traceback (most recent call last):
        ...
    rulegrad.errors.ConfigError: interpolate: mode='cubist'...
    """
