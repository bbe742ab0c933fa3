"""Activation checkpointing: parts of a model whose values are not kept for `backward`, which computes them again.

The function is called twice, for two graphs of the same value: the second computes it from arguments that are read
again once the gradient of the result has arrived. Gradients are those of the second
(`rules/schedule/checkpoints.rules`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from rulegrad.errors import ConfigError, ModuleError
from rulegrad.ir import UOp
from rulegrad.tensor import trees
from rulegrad.tensor.capturing import is_tracing
from rulegrad.tensor.gradient_mode import gradients_enabled, no_grad
from rulegrad.tensor.random import recorded_draws, repeated_draws
from rulegrad.tensor.tensor import Tensor


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    preserve_rng_state: bool = True,
    use_reentrant: bool | None = None,
    determinism_check: str = "default",
    debug: bool = False,
    **kwargs: Any,
) -> Any:
    """`function(*args, **kwargs)`, of whose values only the result is kept: `backward` computes the others again.

    What is kept are the tensors among the arguments, and the results: a tensor, or nested tuples, lists and dicts of
    tensors. The values in between are computed again when the gradients of the results have arrived, so of several
    functions in a row there are those of one at a time. Outside `rulegrad.jit` the arguments and results are computed
    at once. The function is called twice, here, and must compute the same in both calls; what it changes (running
    statistics) is changed twice. preserve_rng_state: random numbers, such as dropout's, are the same in both.
    use_reentrant, determinism_check, debug: PyTorch's, without a meaning here. Raises ModuleError for other results.

    >>> from rulegrad import Tensor, nn
    >>> layer, x = nn.Linear(3, 3), Tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    >>> loss = nn.utils.checkpoint(lambda x: layer(x).tanh(), x).sum().backward()
    >>> x.grad.shape, layer.weight.grad.shape
    ((1, 3), (3, 3))
    """
    if not gradients_enabled():
        return function(*args, **kwargs)
    given, rebuild = trees.flatten((args, kwargs))
    _compute(given)
    with no_grad(), recorded_draws() as draws:
        results, rebuild_results = trees.flatten(function(*args, **kwargs))
    if not results:
        raise ModuleError("checkpoint: the function must give tensors, alone or in tuples, lists and dicts")
    _compute(results)
    nodes = tuple(result.uop for result in results)
    later = [tensor._result(UOp("LATER", (tensor.uop, *nodes)), *results) for tensor in given]
    args, kwargs = rebuild(later)
    with repeated_draws(draws if preserve_rng_state else []):
        again, _ = trees.flatten(function(*args, **kwargs))
    return rebuild_results([_joined(first, second) for first, second in zip(results, again, strict=True)])


def _compute(tensors: Sequence[Any]) -> None:
    """Computes them now, unless they are part of a larger computation: a captured function, or one that is mapped."""
    if not is_tracing() and not any(tensor.uop.toposort("BATCHED") for tensor in tensors):
        Tensor.realize(*tensors)


def _joined(value: Any, again: Any) -> Any:
    """The value, with the gradient of the same value that is computed again."""
    return value._result(UOp("CHECKPOINT", (value.uop, again.uop)), again) if again.requires_grad else value


def checkpoint_sequential(
    functions: Sequence[Callable[[Any], Any]], segments: int, input: Any, use_reentrant: bool | None = None
) -> Any:
    """`input` through functions one after the other, in `segments` parts that are each a `checkpoint` but the last.

    Raises ConfigError for a number of segments that is not between 1 and the number of functions.

    >>> from rulegrad import Tensor, nn
    >>> layers = [nn.Linear(4, 4) for _ in range(6)]
    >>> nn.utils.checkpoint_sequential(layers, 3, Tensor.ones(2, 4)).shape
    (2, 4)
    """
    listed = list(functions)
    if not 1 <= segments <= len(listed):
        raise ConfigError(f"checkpoint_sequential: {segments} segments of {len(listed)} functions; use 1 to that many")
    size = math.ceil(len(listed) / segments)
    parts = [listed[begin : begin + size] for begin in range(0, len(listed), size)]
    for part in parts[:-1]:
        input = checkpoint(_composed(part), input)
    return _composed(parts[-1])(input)


def _composed(functions: Sequence[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def run(x: Any) -> Any:
        for function in functions:
            x = function(x)
        return x

    return run
