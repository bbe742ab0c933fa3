"""Values of live tensors that are stored with the results computed from them: the pass `materialize_live` decides."""

from __future__ import annotations

from collections.abc import Sequence

from rulegrad import engine
from rulegrad._core import signature
from rulegrad.compile import kernels
from rulegrad.engine import watching
from rulegrad.ir import UOp
from rulegrad.runtime import devices

_decided: dict[tuple[bytes, tuple[bool, ...], str], tuple[bool, ...]] = {}  # by signature, for a target
kernels._also_forget.append(_decided.clear)


def decide(named: Sequence[UOp], device: str, if_small: Sequence[bool] = ()) -> tuple[bool, ...]:
    """Whether each of these nodes is kept, on a device. What is named below them has a NAMED around it.

    if_small: of each, whether it is kept wherever it has few elements.

    >>> x = Tensor([[1.0] * 64] * 64, device="numpy")
    >>> decide([(x @ x + 1).uop, (x + 1).uop], "numpy")
    (True, False)
    """
    target = devices.target_of(device)
    small = tuple(if_small) or (False,) * len(named)
    key, _ = signature(named)
    found = None if watching.watchers else _decided.get((key, small, target))
    if found is None:
        graph = UOp(
            "SINK", tuple(UOp("NAMED", (uop,), if_small=is_so) for uop, is_so in zip(named, small, strict=True))
        )
        with watching.part("schedule"):
            graph, _ = engine.run(graph, "materialize_live", target)
        found = _decided[key, small, target] = tuple(kept.op == "MATERIALIZE" for kept in graph.src)
    return found
