"""`torch.backends`: switches of PyTorch's libraries, which may be set and change nothing."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

enabled = False
benchmark = False
deterministic = False
allow_tf32 = False
benchmark_limit = 10
fp32_precision = engine = strategy = "none"
supported_engines = ["none"]
#: Of products, convolutions and recurrent layers: switches below those of a library.
matmul, conv, rnn = (
    SimpleNamespace(
        allow_tf32=False,
        allow_fp16_accumulation=False,
        allow_fp16_reduced_precision_reduction=False,
        allow_bf16_reduced_precision_reduction=False,
        fp32_precision="none",
    )
    for _ in range(3)
)


def is_available() -> bool:
    """False: no such library is used."""
    return False


def is_built() -> bool:
    """False: no such library is used."""
    return False


def version() -> None:
    """None: no such library is used.

    >>> version()
    """


def is_acceptable(tensor: Any) -> bool:
    """False: no such library is used."""
    return False


def enable_flash_sdp(enabled: bool) -> None:
    """Nothing: the compiler chooses the kernels of attention.

    >>> enable_flash_sdp(False)
    """


enable_math_sdp = enable_mem_efficient_sdp = enable_cudnn_sdp = set_fastpath_enabled = enable_flash_sdp


def flash_sdp_enabled() -> bool:
    """True: the compiler chooses the kernels of attention, and none is forbidden.

    >>> flash_sdp_enabled()
    True
    """
    return True


math_sdp_enabled = mem_efficient_sdp_enabled = cudnn_sdp_enabled = get_fastpath_enabled = flash_sdp_enabled
is_flash_attention_available = is_available


def preferred_linalg_library(backend: Any = None) -> None:
    """Nothing: functions of matrices are rulegrad's own, or LAPACK's on the host."""


@contextmanager
def flags(**switches: Any) -> Iterator[None]:
    """A block for which switches are set, which changes nothing."""
    yield


@contextmanager
def sdp_kernel(*names: Any, **switches: Any) -> Iterator[None]:
    """A block in which attention may use some kernels of PyTorch; here the compiler chooses."""
    yield
