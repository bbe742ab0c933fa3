"""Traces: every rule that fires while something is compiled, to be read as text, as JSON or in a browser.

>>> import rulegrad as rg
>>> with rg.trace() as t:
...     _ = rg.rewrite(UOp.const(2, "int32") + 3, "symbolic")
>>> print(t.text())
1 pass, 1 firing, 0 kernels
<BLANKLINE>
passes
  symbolic       1 firing, 3 -> 1 node, ... ms
    #1 algebra.fold_binary  rules/kernel/algebra.rules:...
        fold_binary[f: Binary]: n@f(_:const, _:const) -> {eval(f, dtype(n), srcs(n))}
      - %0 = CONST[value=2]:int32()
      - %1 = CONST[value=3]:int32()
      - %2 = ADD:int32(2, 3)
      + %3 = CONST[value=5]:int32()
      %2 -> 5
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from rulegrad.workbench.tracing.document import FORMAT, VERSION, Selection
from rulegrad.workbench.tracing.recorder import Trace

if TYPE_CHECKING:
    from rulegrad.tensor.tensor import Tensor


@overload
def trace() -> Trace: ...


@overload
def trace(input: Tensor) -> Tensor: ...


def trace(input: Any = None) -> Any:
    """A trace to use with `with`: it has what any thread compiles inside the block, even if it was compiled before.

    Of a matrix, PyTorch's function of this name: the sum of its diagonal.

    >>> with rg.trace() as t:
    ...     _ = rg.rewrite(UOp.const(2, "int32") + 3, "symbolic")
    >>> print(t.text().splitlines()[0])
    1 pass, 1 firing, 0 kernels
    """
    return Trace() if input is None else input.trace()


__all__ = ["FORMAT", "VERSION", "Selection", "Trace", "trace"]
