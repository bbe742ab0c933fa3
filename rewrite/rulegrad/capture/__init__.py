"""Functions that are traced once and replayed: `rulegrad.jit`."""

from typing import Any, Final

from rulegrad.capture.function import JitFunction, jit

__all__ = ["JitFunction", "jit"]


def _marked(function: Any = None, *arguments: Any, **more: Any) -> Any:
    """A mark, with or without a call of its own: the function as it is."""
    return function if callable(function) else lambda function: function


class ScriptModule:
    """A module that PyTorch has compiled from its text: nothing is one."""


class ScriptFunction:
    """A function that PyTorch has compiled from its text: nothing is one."""


class TracerWarning(Warning):
    """The category of the warnings of PyTorch's tracer; nothing here issues one."""


# Sources written for `torch.jit` ask whether they are compiled from text, mark what should be or not, and annotate for
# it: functions stay as they are.
vars(jit).update(
    is_scripting=lambda: False, is_tracing=lambda: False, Final=Final, annotate=lambda kind, value: value,
    ScriptModule=ScriptModule, RecursiveScriptModule=ScriptModule, ScriptFunction=ScriptFunction,
    TracerWarning=TracerWarning, Attribute=lambda value, type: value, trace=lambda func, *arguments, **more: func,
    isinstance=isinstance, script=lambda obj, *arguments, **more: obj,
    **dict.fromkeys(
        (
            "_overload", "_overload_method", "_script_if_tracing", "export", "ignore", "interface", "script_if_tracing",
            "unused",
        ),
        _marked,
    ),
)  # fmt: skip
