"""Functions that are traced once and replayed: `rulegrad.jit`."""

from rulegrad.capture.function import JitFunction, jit

__all__ = ["JitFunction", "jit"]

# Sources written for `torch.jit` ask whether they are compiled from text, and mark what should not be: nothing is.
vars(jit).update(
    is_scripting=lambda: False, is_tracing=lambda: False,
    **dict.fromkeys(("export", "ignore", "unused"), lambda function: function),
)  # fmt: skip
