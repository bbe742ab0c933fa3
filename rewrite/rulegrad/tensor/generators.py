"""Generators of random numbers: a seed, and how many numbers were drawn since it was set. Both can be read and set.

>>> state = get_rng_state()
>>> x = Tensor.rand(2)
>>> set_rng_state(state)
>>> (Tensor.rand(2) == x).tolist()
[True, True]
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rulegrad.communication.current import shared_seed
from rulegrad.errors import DtypeError
from rulegrad.support import forks
from rulegrad.tensor.axes import whole_number
from rulegrad.tensor.device_names import named

if TYPE_CHECKING:
    from typing_extensions import Self

    from rulegrad.tensor.tensor import Tensor

_BITS: Final = (1 << 64) - 1


def require_generator(generator: Any, operation: str) -> None:
    """Raises DtypeError for what is neither a generator nor None, which stands for the default one."""
    if generator is not None and not isinstance(generator, Generator):
        raise DtypeError(f"{operation}: generator is a {type(generator).__name__}; give a rulegrad.Generator")


class Generator:
    """A source of random numbers of its own, for the argument `generator` of `Tensor.rand` and the like.

    >>> first, second = rg.Generator().manual_seed(7), rg.Generator().manual_seed(7)
    >>> (Tensor.rand(3, generator=first) == Tensor.rand(3, generator=second)).tolist()
    [True, True, True]
    """

    def __init__(self, device: str | None = None) -> None:
        """device: PyTorch's; the numbers are the same on each."""
        self.device = named(device or "cpu")
        self._lock = forks.lock(waits=True)
        self._seed = int.from_bytes(os.urandom(8), "little")
        self._drawn = 0
        self._is_untouched = True

    def start_with_ranks(self) -> None:
        """Start at the seed that all ranks share, where there are some and no other was set, nor a number drawn."""
        shared = shared_seed()
        with self._lock:
            if shared is not None and self._is_untouched and not self._drawn:
                self._seed = shared

    def manual_seed(self, seed: int) -> Self:
        """Start again at `seed`. Raises ShapeError for a seed that is not an integer.

        >>> rg.Generator().manual_seed(3).initial_seed()
        3
        """
        number = whole_number(seed, "manual_seed") & _BITS
        with self._lock:
            self._seed, self._drawn, self._is_untouched = number, 0, False
        return self

    def seed(self) -> int:
        """Start again at a seed that nobody knows, which is returned.

        >>> generator = rg.Generator()
        >>> generator.seed() == generator.initial_seed()
        True
        """
        return self.manual_seed(int.from_bytes(os.urandom(8), "little")).initial_seed()

    def initial_seed(self) -> int:
        """The seed that the numbers started at.

        >>> rg.Generator().manual_seed(5).initial_seed()
        5
        """
        return self._seed

    def get_state(self) -> Tensor:
        """The state, as two numbers of uint64 on the host: the seed, and how many numbers were drawn.

        >>> rg.Generator().manual_seed(5).get_state().tolist()
        [5, 0]
        """
        from rulegrad.tensor.tensor import Tensor  # late: Tensor draws from generators

        with self._lock:
            values = np.array([self._seed, self._drawn], np.uint64)
        return Tensor(values, device="numpy")

    def set_state(self, state: Tensor) -> Self:
        """Go on from a state of `get_state`. Raises DtypeError for anything else.

        >>> generator = rg.Generator()
        >>> state = generator.get_state()
        >>> x = Tensor.rand(2, generator=generator)
        >>> (Tensor.rand(2, generator=generator.set_state(state)) == x).tolist()
        [True, True]
        """
        values = np.asarray(state)
        if values.shape != (2,) or values.dtype != np.uint64:
            raise DtypeError(
                f"set_state: a state is two numbers of uint64, not {values.dtype} of shape {values.shape}; give what "
                "get_state gave"
            )
        with self._lock:
            self._seed, self._drawn = map(int, values)
            self._is_untouched = False
        return self

    def draw(self, count: int) -> tuple[int, int]:
        """Reserve `count` numbers: how many were drawn before them, and the seed."""
        with self._lock:
            first = self._drawn
            self._drawn = (self._drawn + count) & _BITS
            return first, self._seed


#: What numbers are drawn from where no generator is named.
default_generator: Final = Generator()
default_generator.start_with_ranks()


def manual_seed(seed: int) -> Generator:
    """Start the random numbers again at `seed`; the generator that they come from. `Tensor.manual_seed` does the same.

    >>> rg.manual_seed(1).initial_seed()
    1
    """
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Start the random numbers again at a seed that nobody knows, which is returned.

    >>> seed() == initial_seed()
    True
    """
    return default_generator.seed()


def initial_seed() -> int:
    """The seed that the random numbers started at.

    >>> _ = rg.manual_seed(5)
    >>> initial_seed()
    5
    """
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The state of the random numbers, to be put into a checkpoint or given to `set_rng_state`.

    >>> _ = rg.manual_seed(1)
    >>> rg.get_rng_state().tolist()
    [1, 0]
    """
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Go on with the random numbers from a state of `get_rng_state`. Raises DtypeError for anything else.

    >>> _ = rg.manual_seed(1)
    >>> state = rg.get_rng_state()
    >>> x = Tensor.rand(2)
    >>> rg.set_rng_state(state)
    >>> (Tensor.rand(2) == x).tolist()
    [True, True]
    """
    default_generator.set_state(new_state)


@contextmanager
def fork_rng(devices: Any = None, enabled: bool = True) -> Iterator[None]:
    """Numbers that are drawn inside the block leave those after it as they would have been without it.

    devices: for programs of PyTorch; the numbers are the same on every device. With `enabled=False` it does nothing.

    >>> _ = rg.manual_seed(1)
    >>> with rg.fork_rng():
    ...     _ = Tensor.rand(100)
    >>> rg.get_rng_state().tolist()
    [1, 0]
    """
    del devices
    state = get_rng_state()
    try:
        yield
    finally:
        if enabled:
            set_rng_state(state)
