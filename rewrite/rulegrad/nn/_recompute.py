"""Activation checkpointing: parts of a model whose values are not kept for `backward`, which computes them again."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from rulegrad.errors import ConfigError, RulegradError
from rulegrad.runtime.buffer import Buffer
from rulegrad.tensor import trees
from rulegrad.tensor.autocasting import autocast, autocast_dtype
from rulegrad.tensor.autograd import leaf_gradients
from rulegrad.tensor.capturing import is_tracing
from rulegrad.tensor.generators import get_rng_state, set_rng_state
from rulegrad.tensor.gradient_mode import enable_grad, gradients_enabled, no_grad
from rulegrad.tensor.history import GradientPoint
from rulegrad.tensor.tensor import Tensor


def checkpoint(function: Callable[..., Any], *args: Any, preserve_rng_state: bool = True, **kwargs: Any) -> Any:
    """`function(*args, **kwargs)`, of whose values only the result is kept: `backward` calls the function again.

    Its arguments and its result (a tensor, or a tuple or list of tensors) are computed at once, and so are the
    gradients of all that it reads when `backward` comes to it: of the values in between there are only those of one
    function at a time. preserve_rng_state: random numbers, such as dropout's, are the same in the second call; the
    mode of `autocast` and of training is too. The function must compute the same in both. Of several results each
    calls it again. Inside `rulegrad.jit`, where all is one computation whose values the compiler places, it is a plain
    call. There are no second derivatives. Raises RulegradError for other results.

    >>> from rulegrad import Tensor, nn
    >>> layer, x = nn.Linear(3, 3), Tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    >>> loss = nn.utils.checkpoint(lambda x: layer(x).tanh(), x).sum().backward()
    >>> x.grad.shape, layer.weight.grad.shape
    ((1, 3), (3, 3))
    """
    if not gradients_enabled() or is_tracing():
        return function(*args, **kwargs)
    given, rebuild = trees.flatten((args, kwargs))
    Tensor.realize(*given)
    again = _Again(function, given, rebuild, preserve_rng_state)
    with no_grad():
        value = function(*args, **kwargs)
    results = list(value) if isinstance(value, (tuple, list)) else [value]
    if not all(isinstance(result, Tensor) for result in results):
        raise RulegradError("checkpoint: the function must give a tensor, or a tuple or list of tensors")
    Tensor.realize(*results)
    tracked = [again.tracked(result, place) for place, result in enumerate(results)]
    return type(value)(tracked) if isinstance(value, (tuple, list)) else tracked[0]


def checkpoint_sequential(functions: Sequence[Callable[[Any], Any]], segments: int, input: Any) -> Any:
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


class _Again:
    """A call that can be made again, in the circumstances of the first."""

    def __init__(
        self, function: Callable[..., Any], given: list[Any], rebuild: trees.Rebuild, same_random: bool
    ) -> None:
        self._function, self._rebuild = function, rebuild
        self._given = [_as_now(tensor) for tensor in given]
        self._random = get_rng_state() if same_random else None
        self._low, self._training = autocast_dtype(), Tensor.training

    def tracked(self, result: Any, place: int) -> Any:
        """The result, whose gradients come from calling the function again."""
        buffer = Buffer.of(result.uop)
        new = result._new(buffer.uop, buffer, result._device)
        new._history = GradientPoint(buffer.uop, buffer, pullback=lambda _, slope: self._gradients(place, slope))
        new._requires_grad = True
        return new

    def _gradients(self, place: int, slope: Any) -> list[tuple[Any, Any]]:
        """What the function reads that has a gradient, with that: computed, so that nothing else is kept."""
        start = slope._new(slope.uop, slope._past(), slope._device)
        Tensor.realize(start)
        leaves = [_leaf(tensor) for tensor in self._given]
        value = self._call(leaves)
        result = value[place] if isinstance(value, (tuple, list)) else value
        if not result.requires_grad:
            return []
        found = leaf_gradients(result, start.uop, (result._past(), start._past()))
        owners = {id(leaf): tensor for leaf, tensor in zip(leaves, self._given)}
        parts = [(owners.get(id(leaf), leaf), leaf._new(uop, history, leaf._device)) for leaf, uop, history in found]
        computed: list[Any] = [part for _, part in parts]
        Tensor.realize(*computed)
        return parts

    def _call(self, leaves: list[Any]) -> Any:
        args, kwargs = self._rebuild(leaves)
        now = get_rng_state()
        if self._random is not None:
            set_rng_state(self._random)
        try:
            with enable_grad(), autocast(dtype=self._low, enabled=self._low is not None), _training(self._training):
                return self._function(*args, **kwargs)
        finally:
            if self._random is not None:
                set_rng_state(now)


def _as_now(tensor: Any) -> Any:
    """The tensor as it is now, which may be changed in place before the second call."""
    same = tensor._new(tensor.uop, tensor._past(), tensor._device)
    same._requires_grad = tensor.requires_grad
    return same


def _leaf(tensor: Any) -> Any:
    """A leaf on the same memory, at which gradients of the second call end."""
    if not tensor.requires_grad:
        return tensor
    buffer = Buffer.of(tensor.uop).alias()
    return tensor._new(buffer.uop, buffer, tensor._device).requires_grad_()


def _training(mode: bool | None) -> Any:
    return Tensor.train(mode)  # type: ignore[arg-type]  # None: as each module says
