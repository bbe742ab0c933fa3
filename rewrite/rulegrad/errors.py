"""The errors that rulegrad raises. Every one says what is wrong, where, and what to do."""

from __future__ import annotations

from typing import Any


class RulegradError(Exception):
    """Base of all errors that rulegrad raises on purpose."""

    @property
    def problem(self) -> str:
        """What is wrong, without what a running program is told besides: how to look further."""
        return str(self).partition("\n    look further: ")[0]


class RuleError(RulegradError):
    """Rule text that cannot be used; `diagnostics` lists each problem with its place."""

    def __init__(self, message: str, diagnostics: tuple[Any, ...] = ()) -> None:
        super().__init__(message)
        self.diagnostics = diagnostics


class GraphError(RulegradError, ValueError):
    """A node that the op table forbids: wrong sources, attributes, dtype or shape."""


class RewriteError(RulegradError):
    """Rewriting did not end, or a rule changed what it must keep."""


class ShapeError(RulegradError, ValueError):
    """Shapes that do not fit together."""


class DtypeError(RulegradError, TypeError):
    """A dtype that the operation does not take."""


class GradientError(RulegradError, RuntimeError):
    """A gradient that does not exist, or a change of a tensor whose gradient is wanted."""


class DeviceError(RulegradError, RuntimeError):
    """A device that is missing, failed, or ran out of memory."""


class OutOfMemoryError(DeviceError, MemoryError):
    """A device has not enough memory; the message has a table of what it is used for, with the user's lines."""


class FileError(RulegradError, OSError):
    """A file that is missing, damaged, or of a format that is not read."""


class ConfigError(RulegradError, ValueError):
    """A setting with an unknown name or a value that it cannot take."""
