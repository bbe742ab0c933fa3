"""`torch.autograd.graph`: what PyTorch keeps for gradients. Here the compiler chooses what is computed again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rulegrad.errors import ConfigError
from rulegrad.tensor.autograd import Node

__all__ = ["Node", "save_on_cpu", "saved_tensors_hooks"]


@contextmanager
def save_on_cpu(pin_memory: bool = False, device_type: str = "cuda") -> Iterator[None]:
    """A block whose values stay where they are: `rulegrad.utils.checkpoint` keeps less.

    >>> with save_on_cpu():
    ...     pass
    """
    yield


class saved_tensors_hooks:  # noqa: N801
    """A block in which a program's functions would store what gradients need: it can be made, but not entered."""

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        raise ConfigError(
            "saved_tensors_hooks: what gradients need is not stored value by value, so no function sees it; "
            "rulegrad.utils.checkpoint keeps less"
        )

    def __exit__(self, *error: object) -> None:
        """Not reached."""
