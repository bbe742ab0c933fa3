"""Functions that are traced once and replayed: `rulegrad.jit`."""

from rulegrad.capture.function import JitFunction, jit

__all__ = ["JitFunction", "jit"]
