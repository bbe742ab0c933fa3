"""Random numbers that depend on a seed and a counter only, so they are the same on every device.

Each element is `THREEFRY(counter + place, seed)`: 64 random bits. The counter and the seed are in a small
buffer and not constants of the graph, so every training step has the same graph and is compiled once.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rulegrad.errors import DtypeError, RulegradError, ShapeError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import DType, as_dtype, float32, float64, int64, uint32
from rulegrad.runtime import devices
from rulegrad.tensor.axes import extents as _extents
from rulegrad.tensor.axes import is_list, whole_number
from rulegrad.tensor.capturing import each_call
from rulegrad.tensor.core import TensorCore
from rulegrad.tensor.creation import counted
from rulegrad.tensor.generators import Generator, default_generator, require_generator
from rulegrad.tensor.graph_functions import built_once
from rulegrad.tensor.mapping import apart
from rulegrad.tensor.operands import broadcast_shapes, number_of, result_dtype
from rulegrad.tensor.storage import default_float, device_name, fits, upload

if TYPE_CHECKING:
    from rulegrad.tensor.generators import Generator
    from rulegrad.tensor.tensor import Tensor


#: The mode inside a `with Tensor.train(mode):`, for `dropout` and for every module; None outside.


def manual_seed(seed: int = 0) -> None:
    """Start the random numbers again at `seed`; without this call they differ in each run, but not between its ranks.

    >>> Tensor.manual_seed(1)
    >>> x = Tensor.rand(4)
    >>> Tensor.manual_seed(1)
    >>> (Tensor.rand(4) == x).tolist()
    [True, True, True, True]
    """
    default_generator.manual_seed(seed)


class Draw:
    """Called, it reserves random numbers: how many were drawn before them, and the seed, as a tensor."""

    __slots__ = ("device", "numbers", "source")

    def __init__(self, numbers: int, device: str, source: Generator = default_generator) -> None:
        self.numbers, self.device, self.source = numbers, device, source

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Draw) and self._values == other._values

    def __hash__(self) -> int:
        return hash(self._values)

    @property
    def _values(self) -> tuple[int, str, Generator]:
        return self.numbers, self.device, self.source

    def __call__(self) -> Tensor:
        from rulegrad.tensor.tensor import Tensor  # late: Tensor is written with these functions

        buffer = upload(np.array(self.source.draw(self.numbers), dtype=np.uint64), self.device)
        return Tensor._new(buffer.uop, buffer, buffer.device)

    @property
    def saved(self) -> tuple[str, int, str] | None:
        """How a file names it: None where the numbers come from a generator of the user's."""
        return ("random", self.numbers, self.device) if self.source is default_generator else None


class _Draws(threading.local):
    """The draws of `recorded_draws` and `repeated_draws` in this thread."""

    recorded: list[tuple[Draw, Tensor]] | None = None
    repeated: list[tuple[Draw, Tensor]] = []  # noqa: RUF012


_draws: Final = _Draws()


@contextmanager
def recorded_draws() -> Iterator[list[tuple[Draw, Tensor]]]:
    """Collects the random numbers that are drawn inside, for `repeated_draws`."""
    before, _draws.recorded = _draws.recorded, []
    try:
        yield _draws.recorded
    finally:
        _draws.recorded = before


@contextmanager
def repeated_draws(draws: list[tuple[Draw, Tensor]]) -> Iterator[None]:
    """Inside, the same numbers are drawn again, and then others.

    >>> with recorded_draws() as draws:
    ...     x = Tensor.rand(2)
    >>> with repeated_draws(draws):
    ...     y = Tensor.rand(2)
    >>> (x == y).tolist()
    [True, True]
    """
    before, _draws.repeated = _draws.repeated, list(reversed(draws))
    try:
        yield
    finally:
        _draws.repeated = before


def _drawn(draw: Draw) -> Tensor:
    """Raises RulegradError where other numbers are asked for than were drawn before."""
    if _draws.repeated:
        first, state = _draws.repeated.pop()
        if first != draw:
            raise RulegradError(
                f"checkpoint: the function draws {first.numbers} random numbers on {first.device} in its first call "
                f"and {draw.numbers} on {draw.device} in its second; it must do the same in both"
            )
    else:
        state = each_call(draw)
    if _draws.recorded is not None:
        _draws.recorded.append((draw, state))
    return state


def _drawn_state(count: int, device: str | None, generator: Generator | None) -> tuple[Tensor, list[Tensor]]:
    """The state that `count` random numbers are made of, from the default generator unless another is given.

    The first number and the seed, and what is added to the number in mapped functions.
    """
    require_generator(generator, "random")
    where = device_name(device) or devices.default()
    drawn, offsets = apart(count, where)
    return _drawn(Draw(drawn, where, generator or default_generator)), offsets


def _random_bits(state: Tensor, offsets: tuple[Tensor, ...], count: int) -> Tensor:
    """`count` times 64 random bits, as uint64."""
    counters = counted(type(state), count, None, "random").cast("uint64") + state[0]
    for offset in offsets:
        counters = counters + offset
    key = state[1].expand(count)
    return counters._result(UOp("THREEFRY", (counters.uop, key.uop)), key)


def rand(
    cls: type[Tensor],
    *shape: Any,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
    generator: Generator | None = None,
) -> Tensor:
    """Uniform in [0, 1): multiples of 2**-24 for float32, both parts of a complex number. Bit-equal on every device.

    >>> from rulegrad import Tensor
    >>> Tensor.manual_seed(1)
    >>> Tensor.rand(2, 3).shape
    (2, 3)
    """
    extents = _extents(shape, "rand")
    if as_dtype(dtype or float32).is_complex:
        parts = cls.rand(2, *extents, dtype=as_dtype(dtype).real, device=device, generator=generator)
        return cls.complex(parts[0], parts[1]).requires_grad_(requires_grad)
    wanted = _float(dtype, "rand")
    state, offsets = _drawn_state(math.prod(extents), device, generator)
    new = _uniform_numbers(extents, wanted, state, *offsets)
    return new.requires_grad_() if requires_grad else new


@built_once
def _uniform_numbers(extents: tuple[int, ...], dtype: DType, state: Tensor, *offsets: Tensor) -> Tensor:
    return _unit(_random_bits(state, offsets, math.prod(extents)), dtype).reshape(extents)


def uniform(
    cls: type[Tensor],
    *shape: Any,
    low: float = 0.0,
    high: float = 1.0,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
    generator: Generator | None = None,
) -> Tensor:
    """Uniform in [low, high), up to rounding at the upper end. Bit-equal on every device, but for float64.

    >>> (Tensor.uniform(2, 2, low=3.0, high=4.0) >= 3.0).tolist()
    [[True, True], [True, True]]
    """
    extents = _extents(shape, "uniform")
    wanted = _float(dtype, "uniform")
    state, offsets = _drawn_state(math.prod(extents), device, generator)
    new = _numbers_between(low, high, extents, wanted, state, *offsets)
    return new.requires_grad_() if requires_grad else new


@built_once
def _numbers_between(
    low: float, high: float, extents: tuple[int, ...], dtype: DType, state: Tensor, *offsets: Tensor
) -> Tensor:
    bits = _random_bits(state, offsets, math.prod(extents))
    span = high - low
    steps = _unit(bits, dtype) * span if dtype == float64 else _scaled(bits, span)
    return (steps + low).cast(dtype).reshape(extents)


def randn(
    cls: type[Tensor],
    *shape: Any,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
    generator: Generator | None = None,
) -> Tensor:
    """Normal with mean 0 and variance 1, by Box and Muller. Equal on devices up to their log and cos. The parts of a
    complex number have the variance 1/2 each.

    >>> x = Tensor.randn(2, 3)
    >>> x.shape, x.dtype
    ((2, 3), DType('float32'))
    """
    extents = _extents(shape, "randn")
    if as_dtype(dtype or float32).is_complex:
        parts = cls.randn(2, *extents, dtype=as_dtype(dtype).real, device=device, generator=generator) * math.sqrt(0.5)
        return cls.complex(parts[0], parts[1]).requires_grad_(requires_grad)
    wanted = _float(dtype, "randn")
    state, offsets = _drawn_state(math.prod(extents), device, generator)
    new = _normal_numbers(extents, wanted, state, *offsets)
    return new.requires_grad_() if requires_grad else new


@built_once
def _normal_numbers(extents: tuple[int, ...], dtype: DType, state: Tensor, *offsets: Tensor) -> Tensor:
    exact = float64 if dtype == float64 else float32
    bits = _random_bits(state, offsets, math.prod(extents))
    # Independent halves of one draw: 32 bits each. 1 - u is in (0, 1], so its logarithm is finite.
    radius = (_unit(bits << 32, exact).sub(1.0, swapped=True).log() * -2.0).sqrt()
    angle = _unit(bits, exact) * (2.0 * math.pi)
    return (radius * angle.cos()).cast(dtype).reshape(extents)


def normal(
    cls: type[Tensor],
    *shape: Any,
    mean: Any = 0.0,
    std: Any = 1.0,
    size: Any = None,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
    generator: Generator | None = None,
) -> Tensor:
    """Normal with the given mean and standard deviation. Raises ShapeError for a negative deviation.

    PyTorch's order of arguments is accepted, too: `normal(mean, std, size)`. A mean and a deviation may be tensors,
    which are broadcast; they have the dtype and the shape of the result then.

    >>> Tensor.normal(3, mean=5.0, std=0.0).tolist()
    [5.0, 5.0, 5.0]
    >>> Tensor.normal(Tensor([1.0, 2.0]), 0.0).tolist(), Tensor.normal(1.0, 0.0, (2,)).tolist()
    ([1.0, 2.0], [1.0, 1.0])
    """
    listed = list(shape)
    if size is None and len(listed) == 3 and is_list(listed[2]):
        size = listed.pop()
    if size is not None or any(isinstance(value, (float, TensorCore)) for value in listed):
        if len(listed) > 2:
            raise ShapeError(f"normal: {len(listed)} numbers; give mean, std, and the shape as a tuple")
        mean, std = [*listed, *(mean, std)[len(listed) :]]
        shape = () if size is None else (size,)
    given = [value for value in (mean, std) if isinstance(value, TensorCore)]
    if not isinstance(std, TensorCore) and number_of(std, "normal")[0] < 0:
        raise ShapeError(f"normal: std={std} is negative; use a deviation of 0 or more")
    if given and not shape:
        shape = (broadcast_shapes("normal", *(value.shape for value in given)),)
        dtype = result_dtype(*given) if dtype is None else dtype
        device = given[0].device if device is None else device
    wanted = default_float() if dtype is None else dtype
    new: Tensor = cls.randn(*shape, dtype=wanted, device=device, generator=generator) * std + mean
    return new.requires_grad_() if requires_grad else new


def randint(
    cls: type[Tensor],
    *shape: Any,
    low: int = 0,
    high: int | None = None,
    size: Any = None,
    dtype: Any = int64,
    device: str | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Integers from `low` up to, not including, `high`: at most 2**32 different ones. Bit-equal everywhere.

    PyTorch's order of arguments is accepted, too: `randint(high, size)`, `randint(low, high, size)`. Raises
    ShapeError, and DtypeError for a dtype that does not hold the integers; floats may.

    >>> Tensor.manual_seed(1)
    >>> Tensor.randint(6, low=1, high=7).tolist(), Tensor.randint(5, 6, (2,)).tolist()
    ([4, 2, 4, 6, 6, 1], [5, 5])
    """
    if high is None or size is not None:
        low, high, shape = _torch_bounds(shape, low, high, size)
    extents = _extents(shape, "randint")
    wanted = as_dtype(int64 if dtype is None else dtype)
    first, count = (
        whole_number(low, "randint"),
        whole_number(high, "randint") - whole_number(low, "randint"),
    )
    if not 0 < count <= 1 << 32:
        raise ShapeError(f"randint: low={low} and high={high}; high must be above low by 1 to 2**32")
    if not _holds(wanted, first) or not _holds(wanted, first + count - 1):
        raise DtypeError(f"randint: {wanted} cannot hold the integers from {low} to {high - 1}")
    state, offsets = _drawn_state(math.prod(extents), device, generator)
    return _integers_from(first, count, extents, wanted, state, *offsets)


@built_once
def _integers_from(
    first: int, count: int, extents: tuple[int, ...], dtype: DType, state: Tensor, *offsets: Tensor
) -> Tensor:
    bits = _random_bits(state, offsets, math.prod(extents))
    # The high half of a product of 32 bits by 32 bits: no division, and exact in 64 bits.
    numbers = ((bits >> 32) * count) >> 32
    return (numbers.cast(int64) + first).cast(dtype).reshape(extents)


def randperm(cls: type[Tensor], count: int, device: str | None = None, *, generator: Generator | None = None) -> Tensor:
    """The numbers 0 … count - 1 in random order (int64), by counting; for up to a few thousand numbers.

    >>> Tensor.manual_seed(1)
    >>> Tensor.randperm(5).tolist()
    [2, 0, 1, 3, 4]
    """
    (number,) = _extents((whole_number(count, "randperm"),), "randperm")
    state, offsets = _drawn_state(number, device, generator)
    return _random_order(number, state, *offsets)


@built_once
def _random_order(count: int, state: Tensor, *offsets: Tensor) -> Tensor:
    places = counted(type(state), count, None, "randperm")
    draws = _random_bits(state, offsets, count)
    mine, others = draws.unsqueeze(1), draws.unsqueeze(0)
    # Equal draws are ordered by place, so every number comes up once.
    before = (others < mine) | ((others == mine) & (places.unsqueeze(0) < places.unsqueeze(1)))
    return before.sum(axis=1)


def dropout(self: Tensor, probability: float = 0.5, training: bool | None = None) -> Tensor:
    """Each element is zero with this probability, and the others are scaled up, while training.

    training: None for the state that `Tensor.train()` sets.

    >>> Tensor.manual_seed(1)
    >>> Tensor.ones(6).dropout(0.5, training=True).tolist()
    [2.0, 0.0, 2.0, 2.0, 2.0, 0.0]
    """
    if isinstance(probability, str) or not 0.0 <= probability <= 1.0:
        raise ShapeError(f"dropout: the probability is {probability!r}; use a number from 0 to 1")
    if not (self.training if training is None else training) or probability == 0.0:
        return self._same()
    if probability == 1.0:
        return self * 0.0
    kept = self.rand(self.shape, device=self._device or None) >= probability
    return kept.where(self * (1.0 / (1.0 - probability)), 0.0)


def _torch_bounds(numbers: tuple[Any, ...], low: Any, high: Any, size: Any) -> tuple[Any, Any, tuple[Any, ...]]:
    """The bounds and the shape of `randint(high, size)` and `randint(low, high, size)`."""
    given = numbers
    if size is None and given and is_list(given[-1]):
        given, size = given[:-1], given[-1]
    if high is None and len(given) in (1, 2):
        low, high = (low, *given) if len(given) == 1 else given
        given = ()
    if size is None or high is None or given:
        raise ShapeError(
            f"randint: {numbers} without high=; write randint(*shape, low=…, high=…), or PyTorch's randint(high, size)"
        )
    return low, high, (size,)


def _holds(dtype: DType, number: int) -> bool:
    """Whether a dtype has this integer, and all between it and 0."""
    if dtype.is_float:
        return abs(number) <= 1 << (dtype.mantissa + 1)
    return dtype.is_integer and fits(number, dtype)


def _float(dtype: Any, operation: str) -> DType:
    wanted = as_dtype(default_float() if dtype is None else dtype)
    if not wanted.is_float:
        raise DtypeError(f"{operation}: {wanted} is not a float dtype; use randint for integers")
    return wanted


def _scaled(bits: Tensor, span: float) -> Tensor:
    """Random bits (uint64) as float32 numbers from 0 to `span`, exactly: all that is rounded is `span` itself.

    A product that is rounded would differ where a device fuses it with the addition that follows.
    """
    fraction, exponent = math.frexp(np.float32(span))
    # span is digits * 2**(exponent - 24), and so are the results, with a random number below `digits`.
    digits = int(abs(fraction) * 2**24)
    numbers = ((bits >> 32) * digits) >> 32
    return numbers.cast(uint32).cast(float32) * math.copysign(2.0 ** (exponent - 24), span)


def _unit(bits: Tensor, dtype: DType) -> Tensor:
    """Random bits (uint64) as numbers in [0, 1) that the dtype holds exactly: its leading bits, scaled."""
    digits = dtype.mantissa + 1
    if dtype == float64:
        return (bits >> (64 - digits)).cast(dtype) * 2.0**-digits
    # Through 32 bits: the result is the same, and devices without 64-bit floats convert those.
    return ((bits >> 32).cast(uint32) >> (32 - digits)).cast(dtype) * 2.0**-digits


def rand_like(
    self: Tensor,
    dtype: Any = None,
    *,
    device: str | None = None,
    requires_grad: bool = False,
    memory_format: Any = None,
    generator: Generator | None = None,
) -> Tensor:
    """`rand` with the shape, dtype and device of this tensor.

    >>> Tensor.ones(2, 3).rand_like().shape
    (2, 3)
    """
    new = self.rand(self.shape, dtype=dtype or self.dtype, device=device or self.device, generator=generator)
    return new.requires_grad_() if requires_grad else new


def randn_like(
    self: Tensor,
    dtype: Any = None,
    *,
    device: str | None = None,
    requires_grad: bool = False,
    memory_format: Any = None,
    generator: Generator | None = None,
) -> Tensor:
    """`randn` with the shape, dtype and device of this tensor.

    >>> from rulegrad import Tensor
    >>> Tensor.ones(2, 3).randn_like().shape
    (2, 3)
    """
    new = self.randn(self.shape, dtype=dtype or self.dtype, device=device or self.device, generator=generator)
    return new.requires_grad_() if requires_grad else new


def randint_like(
    self: Tensor, low: int, high: int | None = None, dtype: Any = None, *, generator: Generator | None = None
) -> Tensor:
    """`randint` from `low` (0 with one number) up to `high`, with the shape, dtype and device of this tensor.

    Of a tensor of floats the integers are floats, too.

    >>> Tensor.ones(2, 3).randint_like(1).tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    low, high = (0, low) if high is None else (low, high)
    wanted = dtype or self.dtype
    return self.randint(self.shape, low=low, high=high, dtype=wanted, device=self.device, generator=generator)


def bernoulli(self: Tensor, p: float | None = None, *, generator: Generator | None = None) -> Tensor:
    """1 with the probability `p`, or without it the probability that the element says; else 0.

    >>> Tensor([0.0, 1.0]).bernoulli().tolist(), Tensor([0.0, 1.0]).bernoulli(1.0).tolist()
    ([0.0, 1.0], [1.0, 1.0])
    """
    return (self.rand(self.shape, device=self.device, generator=generator) < (self if p is None else p)).cast(
        self.dtype
    )
