"""Tensors that the next step of an optimiser computes along with the parameters.

Running statistics and the norms of gradients share their graphs with the step. Computed in the same call they cost
little; computed by themselves they would compute the whole forward pass again.
"""

from __future__ import annotations

import weakref

from rulegrad.tensor.core import TensorCore
from rulegrad.tensor.realize import needs_buffer, realize_all

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


def settle(tensor: TensorCore) -> None:
    """Compute `tensor` now if it waits, so that updates of updates do not make the graph grow."""
    if id(tensor) in _waiting:
        del _waiting[id(tensor)]
        realize_all([tensor])


def replace_gradient(parameter: TensorCore, before: TensorCore, after: TensorCore) -> None:
    """Give the parameter another gradient, which still says what `backward` was called on."""
    after._gradient_of = before._gradient_of
    parameter.grad = after
