"""Tensors that the next step of an optimiser computes along with the parameters, or after it.

Running statistics and the norms of gradients share their graphs with the step. Computed in the same call they cost
little; computed by themselves they would compute the whole forward pass again.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Final

from rulegrad._core import are_above, holders_of_graphs
from rulegrad.ir import UOp
from rulegrad.runtime import source_lines
from rulegrad.tensor.core import TensorCore
from rulegrad.tensor.history import is_transformed, without_points
from rulegrad.tensor.realize import needs_buffer, realize_all

_SMALL: Final = 4096  # elements
_MOST: Final = 64  # tensors: more of them are data, say, and no metrics
#: By id, and only as long as somebody else holds them.
_waiting: weakref.WeakValueDictionary[int, TensorCore] = weakref.WeakValueDictionary()


def add(tensor: TensorCore) -> None:
    """Compute `tensor` in the next step."""
    _waiting[id(tensor)] = tensor


def take(device: str) -> list[TensorCore]:
    """The tensors that wait on this device; from now on they no longer do."""
    taken = [tensor for tensor in _waiting.values() if tensor.device == device]
    for tensor in taken:
        del _waiting[id(tensor)]
    return [tensor for tensor in taken if needs_buffer(tensor)]


def parts_of_losses(graphs: Sequence[UOp], device: str) -> list[TensorCore]:
    """Scalars that wait, and that `backward` went through on its way from the roots of these graphs.

    Such as a loss before it was scaled, or one of several: if somebody keeps one, or its `detach()`, it would keep the
    parameters as they were.
    """
    if not graphs:
        return []
    tensors = [one for one in holders_of_graphs() if isinstance(one, TensorCore) and _is_part(one, device)]
    if len(tensors) > _MOST:
        return []
    whole = UOp("SINK", tuple(graphs))
    return [tensor for tensor in tensors if are_above([whole], [tensor._uop])[0]]


def _is_part(tensor: TensorCore, device: str) -> bool:
    if not tensor._requires_grad or tensor._leaf or tensor._view is not None or tensor._device != device:
        return False
    return tensor._uop.size.numel() == 1 and not is_transformed(tensor._uop)


def compute_small(device: str) -> None:
    """Compute the small tensors without a gradient that wait on this device, such as the sum of all losses.

    One that nobody reads would keep what it is computed from: the outputs of each step, or the parameters as they were.
    """
    if source_lines.anybody_traces():
        return
    waiting = [one for one in holders_of_graphs() if isinstance(one, TensorCore) and _is_small(one, device)]
    if len(waiting) <= _MOST:
        realize_all(waiting)


def _is_small(tensor: TensorCore, device: str) -> bool:
    """No gradient, which the next step forgets; none that lies in parts: other processes would have to do the same."""
    if tensor._view is not None or tensor._leaf or tensor._requires_grad or tensor._gradient_of:
        return False
    if tensor._device != device:
        return False
    if not 0 < tensor._uop.size.numel() <= _SMALL or is_transformed(tensor._uop):
        return False
    buffers = without_points(tensor._history)
    return bool(buffers) and all(buffer.parts is None for buffer in buffers)


def settle(tensor: TensorCore) -> None:
    """Compute `tensor` now if it waits, so that updates of updates do not make the graph grow."""
    if id(tensor) in _waiting:
        del _waiting[id(tensor)]
        realize_all([tensor])


def replace_gradient(parameter: TensorCore, before: TensorCore, after: TensorCore) -> None:
    """Give the parameter another gradient, which still says what `backward` was called on."""
    after._gradient_of = before._gradient_of
    parameter.grad = after
