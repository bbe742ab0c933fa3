"""The functions of `torch.cuda`: whether a CUDA device can be used, how many there are, and how full their memory is.

A program that asks without a look at `is_available` goes on where there is none, as with PyTorch for processors.
"""

from __future__ import annotations

from typing import Any, Final

from rulegrad.errors import DeviceError, OutOfMemoryError
from rulegrad.runtime import devices
from rulegrad.runtime.allocator import Allocator
from rulegrad.support.torch_modules import modules_below
from rulegrad.tensor import generators

__all__ = [
    "OutOfMemoryError", "current_device", "device_count", "empty_cache", "get_rng_state", "get_rng_state_all",
    "init", "ipc_collect", "is_available", "is_bf16_supported", "is_initialized", "manual_seed",
    "manual_seed_all", "max_memory_allocated", "memory_allocated", "memory_reserved", "reset_peak_memory_stats",
    "set_rng_state", "set_rng_state_all", "synchronize",
]  # fmt: skip


__path__: list[str] = []  # `import rulegrad.cuda.amp` looks for it
#: Of PyTorch's streams and graphs: names for annotations, and bases of classes that nobody makes one of.
_LIKE_STREAM: Final = ("CUDAGraph", "Event", "ExternalStream", "MemPool", "StreamContext", "graph")
_module_below: Final = modules_below("cuda")


def __getattr__(name: str) -> Any:
    if name in _LIKE_STREAM:
        found = globals()[name] = type(name, (Stream,), {"__doc__": "For annotations, as `Stream`."})
        return found
    if name == "_initialized":  # a flag of PyTorch's module, which reversible layers and their random states ask
        return is_initialized()
    return _module_below(name)


def __dir__() -> list[str]:
    return __all__


def device_count() -> int:
    """The number of CUDA devices that can be used.

    >>> device_count() >= 0
    True
    """
    return devices.usable("cuda")


def is_available() -> bool:
    """Whether there is a CUDA device that can be used.

    >>> is_available() == (device_count() > 0)
    True
    """
    return device_count() > 0


is_initialized = is_bf16_supported = is_available


def init() -> None:
    """Nothing: a device is started by its first use.

    >>> init()
    """


ipc_collect = _lazy_init = init


def current_device() -> int:
    """0: tensors say which device they are on."""
    return 0


def manual_seed(seed: int) -> None:
    """Start the random numbers again at `seed` where there is a CUDA device: those of all devices are the same.

    >>> manual_seed(1)
    """
    if is_available():
        from rulegrad.tensor.generators import manual_seed as start_again  # late: few programs have such a device

        start_again(seed)


manual_seed_all = manual_seed


def synchronize(device: Any = None) -> None:
    """Returns when a CUDA device has done all that was asked of it; the first one unless another is named.

    >>> synchronize()
    """
    if is_available():
        devices.get(_name(device)).synchronize()


def empty_cache() -> None:
    """Give the memory that nobody uses back to the CUDA devices.

    >>> empty_cache()
    """
    for number in range(device_count()):
        devices.allocator(_name(number)).trim()


def memory_allocated(device: Any = None) -> int:
    """The bytes of a CUDA device that tensors have now; 0 where there is none.

    >>> memory_allocated() <= max_memory_allocated()
    True
    """
    found = _allocator(device)
    return 0 if found is None else found.in_use


def memory_reserved(device: Any = None) -> int:
    """The same with those that wait to be used again."""
    found = _allocator(device)
    return 0 if found is None else found.in_use + found.waiting


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that tensors had at one time, since the start or `reset_peak_memory_stats`."""
    found = _allocator(device)
    return 0 if found is None else found.most_in_use


def reset_peak_memory_stats(device: Any = None) -> None:
    """From now on the peak is counted anew."""
    found = _allocator(device)
    if found is not None:
        found.reset_peak()


class Stream:
    """For annotations: launches are in one order, so there are no streams, and none can be made.

    >>> import rulegrad
    >>> rulegrad.cuda.Stream()
    Traceback (most recent call last):
    ...
    rulegrad.errors.DeviceError: Stream: launches on a device are in the order of the program, ...
    """

    def __init__(self, *arguments: Any, **more: Any) -> None:
        raise DeviceError(
            f"{type(self).__name__}: launches on a device are in the order of the program, and those of a captured "
            "function (rulegrad.jit) are one program; leave it out"
        )


def _name(device: Any) -> str:
    name = "cuda" if device is None else f"cuda:{device}" if isinstance(device, int) else str(device)
    return devices.canonical(name)


def _allocator(device: Any) -> Allocator | None:
    return devices.allocator(_name(device)) if is_available() else None


def get_rng_state(device: Any = None) -> Any:
    """The state of the random numbers, which are those of all devices."""
    return generators.get_rng_state()


def set_rng_state(new_state: Any, device: Any = None) -> None:
    """Goes on from such a state."""
    generators.set_rng_state(new_state)


def get_rng_state_all() -> list[Any]:
    """A state for each CUDA device that can be used.

    >>> len(get_rng_state_all()) == device_count()
    True
    """
    return [get_rng_state() for _ in range(device_count())]


def set_rng_state_all(new_states: Any) -> None:
    """Goes on from such states: the first, as they are one."""
    for state in list(new_states)[:1]:
        set_rng_state(state)
