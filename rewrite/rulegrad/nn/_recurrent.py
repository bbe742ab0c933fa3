"""Recurrent layers and their cells. Names, order of the gates, shapes and first values are PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from rulegrad.errors import ConfigError, ShapeError
from rulegrad.nn import init
from rulegrad.nn._arguments import require_probability, require_sizes
from rulegrad.nn._module import Described
from rulegrad.nn._packed import PackedSequence, steps_of
from rulegrad.nn._steps import kept, linked, split
from rulegrad.tensor.graph_functions import built_once
from rulegrad.tensor.tensor import Tensor

#: The state of one layer: one tensor, or the two of an LSTM.
State = tuple[Tensor, ...]


class _Weights(NamedTuple):
    """The matrix by which a step multiplies its state."""

    hidden: Tensor
    bias: Tensor | None
    projection: Tensor | None = None

    def linked(self) -> _Weights:
        """The same for one more step."""
        return _Weights(*(None if tensor is None else linked(tensor) for tensor in self))  # type: ignore[arg-type]


def _step(cell: str, inputs: Tensor, state: State, weights: _Weights) -> State:
    """One step of a cell; `inputs` is already multiplied by the weights, with their bias."""
    hidden = state[0].linear(weights.hidden, weights.bias)
    if cell == "GRU":
        size = hidden.shape[-1] // 3
        parts, own = inputs.split(size, -1), kept(hidden).split(size, -1)
        reset, update = (parts[0] + own[0]).sigmoid(), (parts[1] + own[1]).sigmoid()
        new = (parts[2] + reset * own[2]).tanh()
        return (new + update * (state[0] - new),)
    total = kept(inputs + hidden)
    if cell == "LSTM":
        enter, forget, value, leave = total.split(total.shape[-1] // 4, -1)
        memory = forget.sigmoid() * state[1] + enter.sigmoid() * value.tanh()
        result = leave.sigmoid() * memory.tanh()
        return (result if weights.projection is None else result.linear(weights.projection)), memory
    return (total.relu() if cell == "relu" else total.tanh(),)


_GATES = {"LSTM": 4, "GRU": 3, "tanh": 1, "relu": 1}


class RNNBase(Described):
    """Base of RNN, LSTM and GRU: layers over layers, in one direction or both.

    >>> from rulegrad import nn
    >>> isinstance(nn.LSTM(2, 3), nn.RNNBase)
    True
    """

    _cell: str

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        name = type(self).__name__
        require_sizes(name, 1, input_size=input_size, hidden_size=hidden_size, num_layers=num_layers)
        require_probability(name, dropout=dropout)
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout, self.bidirectional = bias, batch_first, dropout, bidirectional
        self.proj_size = proj_size
        bound, rows = init.inverse_root(hidden_size), _GATES[self._cell] * hidden_size
        for layer in range(num_layers):
            inputs = input_size if layer == 0 else self._out * (2 if bidirectional else 1)
            shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, inputs), "weight_hh": (rows, self._out)}
            shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)} if bias else {}
            shapes |= {"weight_hr": (proj_size, hidden_size)} if proj_size else {}
            for suffix in self._suffixes(layer):
                for name, shape in shapes.items():
                    setattr(self, f"{name}_{suffix}", init.bounded(shape, bound, device, dtype))
        init.settle(self, RNNBase)

    def reset_parameters(self) -> None:
        """Draw the first values of the parameters anew."""
        init.redraw(self, init.inverse_root(self.hidden_size))

    def flatten_parameters(self) -> None:
        """Nothing: PyTorch moves the weights together in the memory of a GPU here."""

    @property
    def _out(self) -> int:
        """The size of what a direction gives."""
        return self.proj_size or self.hidden_size

    def _suffixes(self, layer: int) -> list[str]:
        return [f"l{layer}", f"l{layer}_reverse"] if self.bidirectional else [f"l{layer}"]

    def _packed(self, x: PackedSequence, states: State | None) -> tuple[PackedSequence, State]:
        """The same of sequences of different lengths: each has its own last state, or first one of the way back."""
        order, back, alive = x.sorted_indices, x.unsorted_indices, x.alive()
        if states is not None and order is not None:
            states = tuple(state[:, order.to(state.device)] for state in states)
        sequence = x.padded()
        result, last = self._sequence(sequence, states, Tensor(alive[..., None], device=sequence.device))
        if back is not None:
            last = tuple(state[:, back.to(state.device)] for state in last)
        return x._replace(data=steps_of(result, alive)), last

    def _run(self, x: Tensor, states: State | None) -> tuple[Any, State]:
        """The outputs of the last layer, and the last states of all layers and directions."""
        if isinstance(x, PackedSequence):
            return self._packed(x, states)
        name = type(self).__name__
        if x.ndim not in (2, 3) or x.shape[-1] != self.input_size:
            raise ShapeError(f"{name}: the shape {x.shape}; it needs (length, batch, {self.input_size}), or no batch")
        if x.ndim == 2:
            grown = None if states is None else tuple(s.unsqueeze(1) for s in states)
            axis = 0 if self.batch_first else 1
            result, last = self._run(x.unsqueeze(axis), grown)
            return result.squeeze(axis), tuple(s.squeeze(1) for s in last)
        result, last = self._sequence(x.transpose(0, 1) if self.batch_first else x, states)
        return (result.transpose(0, 1) if self.batch_first else result), last

    def _sequence(self, sequence: Tensor, states: State | None, alive: Tensor | None = None) -> tuple[Tensor, State]:
        first = self._first_states(sequence, states)
        ends: list[State] = []
        for layer in range(self.num_layers):
            results = []
            for suffix in self._suffixes(layer):
                steps, end = self._direction(sequence, suffix, tuple(s[len(ends)] for s in first), alive)
                results.append(steps)
                ends.append(end)
            sequence = results[0] if len(results) == 1 else results[0].cat(results[1], axis=-1)
            if layer < self.num_layers - 1:
                sequence = sequence.dropout(self.dropout, self.training)
        last = tuple(Tensor.stack([end[k] for end in ends]) for k in range(len(ends[0])))
        return sequence, last

    def _first_states(self, sequence: Tensor, states: State | None) -> State:
        count = self.num_layers * (2 if self.bidirectional else 1)
        sizes = (self._out, self.hidden_size) if self._cell == "LSTM" else (self._out,)
        shapes = [(count, sequence.shape[1], size) for size in sizes]
        if states is None:
            return tuple(Tensor.zeros(shape, dtype=sequence.dtype, device=sequence.device) for shape in shapes)
        if [state.shape for state in states] != shapes:
            given, needed = (", ".join(map(str, those)) for those in ([s.shape for s in states], shapes))
            raise ShapeError(f"{type(self).__name__}: states of shape {given}; they need {needed}")
        return states

    def _direction(self, sequence: Tensor, suffix: str, state: State, alive: Tensor | None) -> tuple[Tensor, State]:
        own = vars(self)
        into = own[f"weight_ih_{suffix}"], own.get(f"bias_ih_{suffix}")
        onwards = tuple(own.get(f"{name}_{suffix}") for name in ("weight_hh", "bias_hh", "weight_hr"))
        steps, *end = _steps(self._cell, suffix.endswith("_reverse"), sequence, state, into, onwards, alive)
        return steps, tuple(end)


@built_once
def _steps(
    cell: str,
    backwards: bool,
    sequence: Tensor,
    state: State,
    into: tuple[Any, ...],
    onwards: tuple[Any, ...],
    alive: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """The outputs of all steps, and the state after the last one; alive: which sequences have each of the steps."""
    weights = _Weights(*onwards)
    parts = split(sequence.linear(*into))
    steps = []
    for t in reversed(range(len(parts))) if backwards else range(len(parts)):
        weights = weights.linked()
        new = _step(cell, parts[t], state, weights)
        if alive is not None:
            new = tuple(alive[t].where(*pair) for pair in zip(new, state, strict=True))
        state = tuple(kept(tensor) for tensor in new)
        steps.append(linked(state[0]))
    return (Tensor.stack(steps[::-1] if backwards else steps), *state)


class RNN(RNNBase):
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
        dtype: Any = None,
    ) -> None:
        self._cell, self.nonlinearity = _nonlinearity(nonlinearity, "RNN"), nonlinearity
        sizes = (input_size, hidden_size, num_layers)
        super().__init__(*sizes, bias, batch_first, dropout, bidirectional, 0, device, dtype)

    def forward(self, x: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:
        outputs, last = self._run(x, None if hx is None else (hx,))
        return outputs, last[0]


class GRU(RNNBase):
    """Gated recurrent units (Cho et al. 2014), with the gates in the order reset, update, new; otherwise as `RNN`.

    >>> from rulegrad import nn
    >>> outputs, last = nn.GRU(3, 4, num_layers=2, bidirectional=True)(Tensor.ones(5, 2, 3))
    >>> outputs.shape, last.shape
    ((5, 2, 8), (4, 2, 4))
    """

    __call__: Callable[..., tuple[Tensor, Tensor]]
    _cell = "GRU"

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
        dtype: Any = None,
    ) -> None:
        sizes = (input_size, hidden_size, num_layers)
        super().__init__(*sizes, bias, batch_first, dropout, bidirectional, 0, device, dtype)

    def forward(self, x: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:
        outputs, last = self._run(x, None if hx is None else (hx,))
        return outputs, last[0]


class LSTM(RNNBase):
    """Long short-term memory (Hochreiter and Schmidhuber 1997), gates in the order input, forget, cell, output.

    The states are pairs (hidden, cell); otherwise as `RNN`. With `proj_size` the hidden states are multiplied by
    weight_hr_l0, …, of shape (proj_size, hidden_size), and outputs have that size (Sak, Senior and Beaufays 2014).
    Raises ConfigError for a projection that is not smaller.

    >>> from rulegrad import Tensor, nn
    >>> outputs, (hidden, cell) = nn.LSTM(3, 4, proj_size=2)(Tensor.ones(5, 2, 3))
    >>> outputs.shape, hidden.shape, cell.shape
    ((5, 2, 2), (1, 2, 2), (1, 2, 4))
    """

    __call__: Callable[..., tuple[Tensor, tuple[Tensor, Tensor]]]
    _cell = "LSTM"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        require_sizes("LSTM", 1, hidden_size=hidden_size)
        require_sizes("LSTM", proj_size=proj_size)
        if not proj_size < hidden_size:
            raise ConfigError(f"LSTM: proj_size={proj_size}; use a size below hidden_size={hidden_size}, 0 for none")
        sizes = (input_size, hidden_size, num_layers)
        super().__init__(*sizes, bias, batch_first, dropout, bidirectional, proj_size, device, dtype)

    def forward(self, x: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        outputs, last = self._run(x, hx)
        return outputs, (last[0], last[1])


class RNNCellBase(Described):
    """Base of the cells: the weights of one step.

    >>> from rulegrad import nn
    >>> isinstance(nn.GRUCell(2, 3), nn.RNNCellBase)
    True
    """

    _cell: str

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        require_sizes(type(self).__name__, input_size=input_size, hidden_size=hidden_size)
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        bound, rows = init.inverse_root(hidden_size), _GATES[self._cell] * hidden_size
        self.weight_ih = init.bounded((rows, input_size), bound, device, dtype)
        self.weight_hh = init.bounded((rows, hidden_size), bound, device, dtype)
        self.bias_ih = init.bounded((rows,), bound, device, dtype) if bias else None
        self.bias_hh = init.bounded((rows,), bound, device, dtype) if bias else None
        init.settle(self, RNNCellBase)

    def reset_parameters(self) -> None:
        """Draw the first values of the parameters anew."""
        init.redraw(self, init.inverse_root(self.hidden_size))

    def _next(self, x: Tensor, state: State | None) -> State:
        if x.ndim not in (1, 2) or x.shape[-1] != self.input_size:
            raise ShapeError(
                f"{type(self).__name__}: the shape {x.shape}; it needs (batch, {self.input_size}), or no batch"
            )
        if state is None:
            zeros = Tensor.zeros(*x.shape[:-1], self.hidden_size, dtype=x.dtype, device=x.device)
            state = (zeros, zeros)
        inputs = x.linear(self.weight_ih, self.bias_ih)
        return _step(self._cell, inputs, state, _Weights(self.weight_hh, self.bias_hh))


class RNNCell(RNNCellBase):
    """One step of `RNN`: from (batch, input_size) and (batch, hidden_size) to the next (batch, hidden_size).

    >>> from rulegrad import nn
    >>> nn.RNNCell(3, 4)(Tensor.ones(2, 3), Tensor.zeros(2, 4)).shape
    (2, 4)
    """

    __call__: Callable[..., Tensor]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: Literal["tanh", "relu"] = "tanh",
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        self._cell, self.nonlinearity = _nonlinearity(nonlinearity, "RNNCell"), nonlinearity
        super().__init__(input_size, hidden_size, bias, device, dtype)

    def forward(self, x: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._next(x, None if hx is None else (hx,))[0]


class GRUCell(RNNCellBase):
    """One step of `GRU`.

    >>> from rulegrad import nn
    >>> nn.GRUCell(3, 4)(Tensor.ones(2, 3), Tensor.zeros(2, 4)).shape
    (2, 4)
    """

    __call__: Callable[..., Tensor]
    _cell = "GRU"

    def forward(self, x: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._next(x, None if hx is None else (hx,))[0]


class LSTMCell(RNNCellBase):
    """One step of `LSTM`; the state is a pair (hidden, cell).

    >>> from rulegrad import nn
    >>> hidden, cell = nn.LSTMCell(3, 4)(Tensor.ones(2, 3))
    >>> hidden.shape, cell.shape
    ((2, 4), (2, 4))
    """

    __call__: Callable[..., tuple[Tensor, Tensor]]
    _cell = "LSTM"

    def forward(self, x: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        state = self._next(x, hx)
        return state[0], state[1]


def _nonlinearity(name: str, layer: str) -> str:
    if name not in ("tanh", "relu"):
        raise ConfigError(f"{layer}: unknown nonlinearity {name!r}; use tanh or relu")
    return name
