"""Recurrent layers: RNN, GRU, LSTM. A step of time is a part of the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rulegrad.onnx._graph import Call
from rulegrad.onnx._table import op
from rulegrad.tensor.tensor import Tensor

_ACTIVATIONS: dict[str, Callable[[Tensor, float, float], Tensor]] = {
    "affine": lambda x, a, b: x * a + b,
    "elu": lambda x, a, b: x.elu(a),
    "hardsigmoid": lambda x, a, b: (x * a + b).clip(0, 1),
    "leakyrelu": lambda x, a, b: x.leaky_relu(a),
    "relu": lambda x, a, b: x.relu(),
    "scaledtanh": lambda x, a, b: (x * b).tanh() * a,
    "sigmoid": lambda x, a, b: x.sigmoid(),
    "softplus": lambda x, a, b: x.softplus(),
    "softsign": lambda x, a, b: x.softsign(),
    "tanh": lambda x, a, b: x.tanh(),
    "thresholdedrelu": lambda x, a, b: (x > a).where(x, x.zeros_like()),
}
_ALPHA = {"elu": 1.0, "hardsigmoid": 0.2, "leakyrelu": 0.01, "affine": 1.0, "scaledtanh": 1.0, "thresholdedrelu": 1.0}
_BETA = {"hardsigmoid": 0.5, "scaledtanh": 1.0}

State = tuple[Tensor, ...]
Step = Callable[[Tensor, State], State]
Product = Callable[[Tensor, int], Tensor]
"""Values multiplied by the weights of the direction at a place."""


class Layer:
    """The common part of the three kinds of layers: attributes, directions, lengths."""

    def __init__(self, call: Call, defaults: list[str], options: dict[str, Any]) -> None:
        self.call, self.options = call, options
        direction = options["direction"]
        self.reversed = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}.get(direction)
        if self.reversed is None:
            raise call.error(f"direction={direction!r} is none of forward, reverse, bidirectional")
        names = [one.lower() for one in options["activations"] or defaults * len(self.reversed)]
        for name in names:
            if name not in _ACTIVATIONS:
                raise call.error(f"the activation {name!r} is none of {', '.join(_ACTIVATIONS)}")
        alphas, betas = list(options["activation_alpha"] or ()), list(options["activation_beta"] or ())
        self.activations: list[Callable[[Tensor], Tensor]] = []
        for name in names:
            a = alphas.pop(0) if name in _ALPHA and alphas else _ALPHA.get(name, 0.0)
            b = betas.pop(0) if name in (*_BETA, "affine") and betas else _BETA.get(name, 0.0)
            self.activations.append(self._activation(_ACTIVATIONS[name], a, b))
        self.each = len(defaults)

    def _activation(self, function: Callable[..., Tensor], a: float, b: float) -> Callable[[Tensor], Tensor]:
        return lambda x: function(self.clipped(x), a, b)

    def clipped(self, x: Tensor) -> Tensor:
        clip = self.options["clip"]
        return x if clip is None else x.clip(-clip, clip)

    def functions(self, place: int) -> list[Callable[[Tensor], Tensor]]:
        return self.activations[place * self.each : (place + 1) * self.each]

    def run(
        self, x: Tensor, lengths: Any, initial: list[Tensor | None], steps: Callable[[int], tuple[Any, Step]], size: int
    ) -> Any:
        """All directions over all steps: the outputs of each step, and the last state."""
        assert self.reversed is not None
        batch_first = bool(self.options["layout"])
        x = x.transpose(0, 1) if batch_first else x
        length, batch = x.shape[:2]
        outputs, last = [], []
        for place, backwards in enumerate(self.reversed):
            prepare, step = steps(place)
            ready = prepare(x)
            state = tuple(
                Tensor.zeros(batch, size, dtype=x.dtype, device=x.device)
                if one is None
                else (one[:, place] if batch_first else one[place])
                for one in initial
            )
            found: list[Any] = [None] * length
            for time in range(length)[::-1] if backwards else range(length):
                after = step(ready[time], state)
                found[time] = after[0]
                if lengths is not None and int(lengths.min()) < length:
                    alive = Tensor((time < lengths)[:, None], device=x.device)
                    found[time] = alive.where(after[0], after[0].zeros_like())
                    after = tuple(alive.where(new, old) for new, old in zip(after, state))
                state = after
            outputs.append(Tensor.stack(*found) if length > 1 else found[0].unsqueeze(0))
            last.append(state)
        # (time, direction, batch, size); with layout 1 (batch, time, direction, size)
        whole = outputs[0].unsqueeze(1) if len(outputs) == 1 else Tensor.stack(*outputs, axis=1)
        whole = whole.permute(2, 0, 1, 3) if batch_first else whole
        ends = []
        for parts in zip(*last):
            end = parts[0].unsqueeze(0) if len(parts) == 1 else Tensor.stack(*parts)
            ends.append(end.transpose(0, 1) if batch_first else end)
        return (whole, *ends)


def options_of(**given: Any) -> dict[str, Any]:
    return given


@op("RNN", host=(4,))
def rnn(
    call: Call, x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, lengths: Any = None,
    h: Tensor | None = None, *, activation_alpha: Any = None, activation_beta: Any = None, activations: Any = None,
    clip: float | None = None, direction: str, hidden_size: int | None = None, layout: int = 0,
) -> Any:  # fmt: skip
    options = options_of(
        activation_alpha=activation_alpha, activation_beta=activation_beta, activations=activations, clip=clip,
        direction=direction, layout=layout,
    )  # fmt: skip
    layer, size = Layer(call, ["Tanh"], options), r.shape[-1]

    def steps(place: int) -> tuple[Any, Step]:
        (f,), bias = layer.functions(place), _bias(b, place, size)

        def step(now: Tensor, state: State) -> State:
            return (f(now + state[0] @ r[place].T),)

        return lambda all_: _plus(all_ @ w[place].T, bias), step

    return layer.run(x, lengths, [h], steps, size)


@op("GRU", host=(4,))
def gru(
    call: Call, x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, lengths: Any = None,
    h: Tensor | None = None, *, activation_alpha: Any = None, activation_beta: Any = None, activations: Any = None,
    clip: float | None = None, direction: str, hidden_size: int | None = None, layout: int = 0,
    linear_before_reset: int = 0,
) -> Any:  # fmt: skip
    options = options_of(
        activation_alpha=activation_alpha, activation_beta=activation_beta, activations=activations, clip=clip,
        direction=direction, layout=layout,
    )  # fmt: skip
    layer, size = Layer(call, ["Sigmoid", "Tanh"], options), r.shape[-1]

    def steps(place: int) -> tuple[Any, Step]:
        f, g = layer.functions(place)
        gates, hidden = r[place][: 2 * size].T, r[place][2 * size :].T
        wb = None if b is None else b[place][: 3 * size]
        rb = None if b is None else b[place][3 * size :]

        def step(now: Tensor, state: State) -> State:
            before = state[0]
            both = f(_plus(now[:, : 2 * size] + before @ gates, None if rb is None else rb[: 2 * size]))
            update, reset = both[:, :size], both[:, size:]
            last = None if rb is None else rb[2 * size :]
            if linear_before_reset:
                new = g(now[:, 2 * size :] + reset * _plus(before @ hidden, last))
            else:
                new = g(_plus(now[:, 2 * size :] + (reset * before) @ hidden, last))
            return ((1 - update) * new + update * before,)

        return lambda all_: _plus(all_ @ w[place].T, wb), step

    return layer.run(x, lengths, [h], steps, size)


@op("LSTM", host=(4,))
def lstm(
    call: Call, x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, lengths: Any = None,
    h: Tensor | None = None, c: Tensor | None = None, p: Tensor | None = None, *, activation_alpha: Any = None,
    activation_beta: Any = None, activations: Any = None, clip: float | None = None, direction: str,
    hidden_size: int | None = None, input_forget: int = 0, layout: int = 0,
) -> Any:  # fmt: skip
    options = options_of(
        activation_alpha=activation_alpha, activation_beta=activation_beta, activations=activations, clip=clip,
        direction=direction, layout=layout,
    )  # fmt: skip

    def product(weights: Tensor) -> Product:
        return lambda x, place: x @ weights[place].T

    return lstm_layer(call, x, (product(w), product(r)), r.shape[-1], b, lengths, h, c, p, input_forget, options)


def lstm_layer(
    call: Call, x: Tensor, products: tuple[Product, Product], size: int, b: Tensor | None, lengths: Any,
    h: Tensor | None, c: Tensor | None, p: Tensor | None, input_forget: int, options: dict[str, Any],
) -> Any:  # fmt: skip
    """An LSTM, by its products of inputs and of states with the weights."""
    layer, (of_input, of_state) = Layer(call, ["Sigmoid", "Tanh", "Tanh"], options), products

    def steps(place: int) -> tuple[Any, Step]:
        f, g, last = layer.functions(place)
        bias = _bias(b, place, size)
        peep = [None] * 3 if p is None else [p[place][n * size : (n + 1) * size] for n in range(3)]

        def step(now: Tensor, state: State) -> State:
            hidden, cell = state
            gates = now + of_state(hidden, place)
            i, o, forget, new = (gates[:, n * size : (n + 1) * size] for n in range(4))
            i = f(_plus(i, None if peep[0] is None else peep[0] * cell))
            forget = 1 - i if input_forget else f(_plus(forget, None if peep[2] is None else peep[2] * cell))
            after = forget * cell + i * g(new)
            o = f(_plus(o, None if peep[1] is None else peep[1] * after))
            return o * last(after), after

        return lambda all_: _plus(of_input(all_, place), bias), step

    return layer.run(x, lengths, [h, c], steps, size)


def _bias(b: Tensor | None, place: int, size: int) -> Tensor | None:
    """The biases of the input and of the state, in one."""
    if b is None:
        return None
    half = b.shape[-1] // 2
    return b[place][:half] + b[place][half:]


def _plus(x: Tensor, more: Tensor | None) -> Tensor:
    return x if more is None else x + more
