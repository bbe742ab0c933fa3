"""Launches by the engine, which calls the driver's functions by their addresses: no Python for each kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from rulegrad.errors import DeviceError
from rulegrad.runtime.device import CudaQueue, Replay
from rulegrad.support.forks import ForkGuard

from .driver import call, cuda, failure

if TYPE_CHECKING:
    from .device import Executable
    from .tensor_maps import TensorMaps

#: The functions that a queue calls, in its order; the last is for kernels that copy boxes. By the name of
#: cuGraphInstantiate drivers give the function of CUDA 11, which has five arguments: only cuda.h makes another of it.
_FUNCTIONS = (
    "cuCtxSetCurrent", "cuLaunchKernel", "cuStreamBeginCapture", "cuStreamEndCapture", "cuGraphInstantiateWithFlags",
    "cuGraphLaunch", "cuGraphExecDestroy", "cuGraphDestroy", "cuTensorMapEncodeTiled",
)  # fmt: skip
_SINCE = 12000  # the version of CUDA in which they have these arguments


def address(function: str) -> int:
    """Where a function of the driver is; 0 where it has none of the name."""
    found, _ = call("cuGetProcAddress", function.encode(), _SINCE, 0)
    return int(found or 0)


def queue(context: Any, stream: Any, fork: ForkGuard) -> CudaQueue:
    """The queue of a device's stream. The device's context is current. Raises DeviceError."""
    addresses = [address(function) for function in _FUNCTIONS]
    missing = [name for name, found in zip(_FUNCTIONS[:-1], addresses[:-1], strict=True) if not found]
    if missing:
        raise DeviceError(f"this driver has no {', '.join(missing)}: install a newer one, of CUDA 12 at least")
    capturing = call("cuStreamCreate", cuda().CUstream_flags.CU_STREAM_NON_BLOCKING)

    def failed(status: int, function: str, kept: tuple[str, Any, TensorMaps] | None) -> NoReturn:
        if status < 0:
            fork.check()
            raise DeviceError("CUDA cannot be used in a child made by fork: start it by another way, such as spawn")
        # not a name here, which would keep the error, and with it the buffers of the launch
        raise _error(status, function, kept)

    return CudaQueue(addresses, int(context), int(stream), int(capturing), failed)


def _error(status: int, function: str, kept: tuple[str, Any, TensorMaps] | None) -> DeviceError:
    """The error of a function of the driver, for a kernel whose description, module and maps are `kept`."""
    try:
        found = failure(function, cuda().CUresult(status))
    except ValueError:  # a newer driver's
        found = failure(function, status)
    if kept is None:
        return found
    if function == "cuTensorMapEncodeTiled":
        return type(found)(
            f"{kept[0]} cannot copy boxes {kept[2].boxes} ({found}): "
            "with the target's limit box_lines 0 threads copy it"
        )
    return type(found)(f"{kept[0]} cannot run: {found}")


def program(
    queue: CudaQueue, launches: Sequence[tuple[Executable, Sequence[int]]], bound: int, offsets: Sequence[int]
) -> Replay:
    """Launches on numbered buffers as one program."""
    return Replay(queue, [(one.kernel, numbers) for one, numbers in launches], bound, offsets)
