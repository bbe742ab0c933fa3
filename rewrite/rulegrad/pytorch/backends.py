"""`torch.backends`: switches of PyTorch's libraries, which may be set and change nothing."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

enabled = False
benchmark = False
deterministic = False
allow_tf32 = False


def is_available() -> bool:
    """False: no such library is used."""
    return False


def is_built() -> bool:
    """False: no such library is used."""
    return False


@contextmanager
def flags(**switches: Any) -> Iterator[None]:
    """A block for which switches are set, which changes nothing."""
    yield


@contextmanager
def sdp_kernel(*names: Any, **switches: Any) -> Iterator[None]:
    """A block in which attention may use some kernels of PyTorch; here the compiler chooses."""
    yield
