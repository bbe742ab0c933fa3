"""The functions of `torch.cuda`: whether a CUDA device can be used, how many there are, and how full their memory is.

A program that asks without a look at `is_available` goes on where there is none, as with PyTorch for processors.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from rulegrad.errors import DeviceError, OutOfMemoryError
from rulegrad.runtime import devices
from rulegrad.runtime.allocator import Allocator
from rulegrad.runtime.backends import backend
from rulegrad.runtime.device import Found
from rulegrad.support.torch_modules import modules_below
from rulegrad.tensor import generators
from rulegrad.tensor.device_names import named

__all__ = [
    "OutOfMemoryError", "current_device", "current_stream", "device_count", "empty_cache", "get_device_capability",
    "get_device_name", "get_device_properties", "get_rng_state", "get_rng_state_all", "init", "ipc_collect",
    "is_available", "is_bf16_supported", "is_initialized", "manual_seed", "manual_seed_all", "max_memory_allocated",
    "memory_allocated", "memory_reserved", "reset_peak_memory_stats", "set_rng_state", "set_rng_state_all",
    "synchronize",
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


class _TheStream(Stream):
    """The one order of all launches on a device."""

    def __init__(self, device: Any) -> None:
        self.device = named(_name(device))

    def synchronize(self) -> None:
        """Returns when the device has done all that was asked of it."""
        synchronize(self.device)

    def wait_stream(self, stream: Any) -> None:
        """Nothing: there is one order."""


def current_stream(device: Any = None) -> Stream:
    """The one order of all launches on a CUDA device, which can be waited for. Raises DeviceError where there is none.

    >>> current_stream().synchronize() if is_available() else None
    """
    _require(device, "current_stream")
    return _TheStream(device)


class DeviceProperties(NamedTuple):
    """What a CUDA device is, under PyTorch's names: memory in bytes, and the parts of the compute capability."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int


def get_device_properties(device: Any = None) -> DeviceProperties:
    """What a CUDA device is: name, compute capability, memory. Raises DeviceError where there is none.

    >>> get_device_properties().total_memory > 0 if is_available() else True
    True
    """
    found = _require(device, "get_device_properties")
    opened: Any = devices.get(_name(device))
    name, capability = _described(found)
    return DeviceProperties(name, *capability, opened.memory, opened.compute_units)


def get_device_name(device: Any = None) -> str:
    """The name of a CUDA device, such as "NVIDIA H200". Raises DeviceError where there is none.

    >>> len(get_device_name()) > 0 if is_available() else True
    True
    """
    return _described(_require(device, "get_device_name"))[0]


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability of a CUDA device, such as (9, 0). Raises DeviceError where there is none.

    >>> get_device_capability() >= (8, 0) if is_available() else True
    True
    """
    return _described(_require(device, "get_device_capability"))[1]


def _require(device: Any, operation: str) -> Found:
    """What is known of a CUDA device. Raises DeviceError where there is none of that number."""
    name = _name(device)
    report = devices.report(backend("cuda"))
    for found in report.discovery.devices:
        if report.name(found) == name:
            return found
    why = report.discovery.advice or f"there are {[*map(report.name, report.discovery.devices)]}"
    raise DeviceError(f"{operation}: there is no CUDA device {name!r}: {why}; ask cuda.is_available() first")


def _described(found: Found) -> tuple[str, tuple[int, int]]:
    """The name and the compute capability, which the backend's description of a device has."""
    name, _, digits = found.description.partition(", compute capability ")
    major, minor = map(int, digits.split("."))
    return name, (major, minor)


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
