"""Recurrent layers and their cells. Names, order of the gates, shapes and first values are PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from rulegrad.errors import ConfigError, ShapeError
from rulegrad.nn import init
from rulegrad.nn.module import Described
from rulegrad.tensor.tensor import Tensor

#: The state of one layer: one tensor, or the two of an LSTM.
State = tuple[Tensor, ...]


def _step(kind: str, inputs: Tensor, state: State, weight: Tensor, bias: Tensor | None) -> State:
    """One step of a cell; `inputs` is already multiplied by the weights, with their bias."""
    hidden = state[0].linear(weight, bias)
    if kind == "GRU":
        size = hidden.shape[-1] // 3
        parts, own = inputs.split(size, -1), hidden.split(size, -1)
        reset, update = (parts[0] + own[0]).sigmoid(), (parts[1] + own[1]).sigmoid()
        new = (parts[2] + reset * own[2]).tanh()
        return (new + update * (state[0] - new),)
    total = inputs + hidden
    if kind == "LSTM":
        enter, forget, value, leave = total.split(total.shape[-1] // 4, -1)
        memory = forget.sigmoid() * state[1] + enter.sigmoid() * value.tanh()
        return leave.sigmoid() * memory.tanh(), memory
    return (total.relu() if kind == "relu" else total.tanh(),)


_GATES = {"LSTM": 4, "GRU": 3, "tanh": 1, "relu": 1}


class _Recurrent(Described):
    """What RNN, LSTM and GRU share: layers over layers, in one direction or both."""

    _kind: str

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: str | None = None,
        dtype: Any = "float32",
    ) -> None:
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout, self.bidirectional = bias, batch_first, dropout, bidirectional
        bound, rows = init.inverse_root(hidden_size), _GATES[self._kind] * hidden_size
        for layer in range(num_layers):
            inputs = input_size if layer == 0 else hidden_size * (2 if bidirectional else 1)
            for suffix in self._suffixes(layer):
                setattr(self, f"weight_ih_{suffix}", init.bounded((rows, inputs), bound, device, dtype))
                setattr(self, f"weight_hh_{suffix}", init.bounded((rows, hidden_size), bound, device, dtype))
                if bias:
                    setattr(self, f"bias_ih_{suffix}", init.bounded((rows,), bound, device, dtype))
                    setattr(self, f"bias_hh_{suffix}", init.bounded((rows,), bound, device, dtype))

    def _suffixes(self, layer: int) -> list[str]:
        return [f"l{layer}", f"l{layer}_reverse"] if self.bidirectional else [f"l{layer}"]

    def _run(self, x: Tensor, states: State | None) -> tuple[Tensor, State]:
        """The outputs of the last layer, and the last states of all layers and directions."""
        name = type(self).__name__
        if x.ndim not in (2, 3) or x.shape[-1] != self.input_size:
            raise ShapeError(f"{name}: the shape {x.shape}; it needs (length, batch, {self.input_size}), or no batch")
        if x.ndim == 2:
            grown = None if states is None else tuple(s.unsqueeze(1) for s in states)
            axis = 0 if self.batch_first else 1
            result, last = self._run(x.unsqueeze(axis), grown)
            return result.squeeze(axis), tuple(s.squeeze(1) for s in last)
        sequence = x.transpose(0, 1) if self.batch_first else x
        first = self._first_states(sequence, states)
        ends: list[State] = []
        for layer in range(self.num_layers):
            results = []
            for suffix in self._suffixes(layer):
                steps, end = self._direction(sequence, suffix, tuple(s[len(ends)] for s in first))
                results.append(steps)
                ends.append(end)
            sequence = results[0] if len(results) == 1 else results[0].cat(results[1], axis=-1)
            if layer < self.num_layers - 1:
                sequence = sequence.dropout(self.dropout, self.training)
        last = tuple(Tensor.stack([end[k] for end in ends]) for k in range(len(ends[0])))
        return (sequence.transpose(0, 1) if self.batch_first else sequence), last

    def _first_states(self, sequence: Tensor, states: State | None) -> State:
        count = self.num_layers * (2 if self.bidirectional else 1)
        shape = (count, sequence.shape[1], self.hidden_size)
        if states is None:
            zeros = Tensor.zeros(shape, dtype=sequence.dtype, device=sequence.device)
            return (zeros, zeros) if self._kind == "LSTM" else (zeros,)
        if any(state.shape != shape for state in states):
            shapes = ", ".join(str(state.shape) for state in states)
            raise ShapeError(f"{type(self).__name__}: states of shape {shapes}; they need {shape}")
        return states

    def _direction(self, sequence: Tensor, suffix: str, state: State) -> tuple[Tensor, State]:
        weights = vars(self)
        inputs = sequence.linear(weights[f"weight_ih_{suffix}"], weights.get(f"bias_ih_{suffix}"))
        places = range(sequence.shape[0])
        backwards = suffix.endswith("_reverse")
        steps = []
        for place in reversed(places) if backwards else places:
            hidden_weights = (weights[f"weight_hh_{suffix}"], weights.get(f"bias_hh_{suffix}"))
            state = _step(self._kind, inputs[place], state, *hidden_weights)
            # Kept in memory, or each step would compute all those before it again.
            state = tuple(part.contiguous() for part in state)
            steps.append(state[0])
        return Tensor.stack(steps[::-1] if backwards else steps), state


class RNN(_Recurrent):
    """`tanh(x @ weight_ih.T + bias_ih + h @ weight_hh.T + bias_hh)` along a sequence, or relu instead of tanh.

    Input (length, batch, input_size), or (batch, length, input_size) with `batch_first`, or without a batch. Returns
    the outputs of the last layer and the last states (layers * directions, batch, hidden_size). The loop over the
    sequence is unrolled. Tensors: weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, …, with `_reverse` for the other
    direction.

    >>> from rulegrad import Tensor, nn
    >>> outputs, last = nn.RNN(3, 4)(Tensor.ones(5, 2, 3))
    >>> outputs.shape, last.shape
    ((5, 2, 4), (1, 2, 4))
    """

    __call__: Callable[..., tuple[Tensor, Tensor]]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: Literal["tanh", "relu"] = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: str | None = None,
        dtype: Any = "float32",
    ) -> None:
        self._kind = _nonlinearity(nonlinearity, "RNN")
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device, dtype)

    def forward(self, x: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:
        outputs, last = self._run(x, None if hx is None else (hx,))
        return outputs, last[0]


class GRU(_Recurrent):
    """Gated recurrent units (Cho et al. 2014), with the gates in the order reset, update, new; otherwise as `RNN`."""

    __call__: Callable[..., tuple[Tensor, Tensor]]
    _kind = "GRU"

    def forward(self, x: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:
        outputs, last = self._run(x, None if hx is None else (hx,))
        return outputs, last[0]


class LSTM(_Recurrent):
    """Long short-term memory (Hochreiter and Schmidhuber 1997), gates in the order input, forget, cell, output.

    The states are pairs (hidden, cell); otherwise as `RNN`.
    """

    __call__: Callable[..., tuple[Tensor, tuple[Tensor, Tensor]]]
    _kind = "LSTM"

    def forward(self, x: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        outputs, last = self._run(x, hx)
        return outputs, (last[0], last[1])


class _Cell(Described):
    """What the cells share: the weights of one step."""

    _kind: str

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: str | None = None,
        dtype: Any = "float32",
    ) -> None:
        self.input_size, self.hidden_size = input_size, hidden_size
        bound, rows = init.inverse_root(hidden_size), _GATES[self._kind] * hidden_size
        self.weight_ih = init.bounded((rows, input_size), bound, device, dtype)
        self.weight_hh = init.bounded((rows, hidden_size), bound, device, dtype)
        self.bias_ih = init.bounded((rows,), bound, device, dtype) if bias else None
        self.bias_hh = init.bounded((rows,), bound, device, dtype) if bias else None

    def _next(self, x: Tensor, state: State | None) -> State:
        if x.ndim not in (1, 2) or x.shape[-1] != self.input_size:
            raise ShapeError(
                f"{type(self).__name__}: the shape {x.shape}; it needs (batch, {self.input_size}), or no batch"
            )
        if state is None:
            zeros = Tensor.zeros(*x.shape[:-1], self.hidden_size, dtype=x.dtype, device=x.device)
            state = (zeros, zeros)
        return _step(self._kind, x.linear(self.weight_ih, self.bias_ih), state, self.weight_hh, self.bias_hh)


class RNNCell(_Cell):
    """One step of `RNN`: from (batch, input_size) and (batch, hidden_size) to the next (batch, hidden_size)."""

    __call__: Callable[..., Tensor]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: Literal["tanh", "relu"] = "tanh",
        device: str | None = None,
        dtype: Any = "float32",
    ) -> None:
        self._kind = _nonlinearity(nonlinearity, "RNNCell")
        super().__init__(input_size, hidden_size, bias, device, dtype)

    def forward(self, x: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._next(x, None if hx is None else (hx,))[0]


class GRUCell(_Cell):
    """One step of `GRU`."""

    __call__: Callable[..., Tensor]
    _kind = "GRU"

    def forward(self, x: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._next(x, None if hx is None else (hx,))[0]


class LSTMCell(_Cell):
    """One step of `LSTM`; the state is a pair (hidden, cell)."""

    __call__: Callable[..., tuple[Tensor, Tensor]]
    _kind = "LSTM"

    def forward(self, x: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        state = self._next(x, hx)
        return state[0], state[1]


def _nonlinearity(name: str, layer: str) -> str:
    if name not in ("tanh", "relu"):
        raise ConfigError(f"{layer}: unknown nonlinearity {name!r}; use tanh or relu")
    return name
