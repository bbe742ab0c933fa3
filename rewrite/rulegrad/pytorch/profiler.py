"""`torch.profiler` and `torch.autograd.profiler`: PyTorch's names of profiles, each of which is `rulegrad.profile`."""

from __future__ import annotations

import enum
import gzip
import json
import os
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ContextDecorator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rulegrad.errors import ConfigError
from rulegrad.pytorch.profiler_events import EventList, averages, events_of
from rulegrad.runtime.profile import Profile, span

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "EventList", "ProfilerAction", "ProfilerActivity", "emit_nvtx", "kineto_available", "profile", "record_function",
    "schedule", "supported_activities", "tensorboard_trace_handler",
]  # fmt: skip


class ProfilerActivity(enum.Enum):
    """Where work is done that PyTorch records. Here a profile has all of it."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(enum.Enum):
    """The action of a profile in a step: nothing, nothing yet, record, or record and hand over what it has."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


_RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def supported_activities() -> set[ProfilerActivity]:
    """The activities that a profile records: those of processors and of CUDA.

    >>> ProfilerActivity.CPU in supported_activities()
    True
    """
    return {ProfilerActivity.CPU, ProfilerActivity.CUDA}


def kineto_available() -> bool:
    """Whether profiles have kernels: always."""
    return True


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """The actions of a profile by step: after `skip_first` steps turns of `wait`, `warmup` and `active` ones.

    repeat: how many turns, 0 for all. skip_first_wait: other than 0 leaves `wait` of the first turn out.

    >>> [schedule(wait=1, warmup=1, active=2, repeat=1)(step).name for step in range(5)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active < 1:
        raise ConfigError("schedule: wait, warmup, repeat and skip_first are at least 0, and active at least 1")
    turn = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        step -= skip_first - (wait if skip_first_wait else 0)
        if step < 0 or (skip_first_wait and step < wait) or (repeat and step >= repeat * turn):
            return ProfilerAction.NONE
        place = step % turn
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < turn - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def _default_schedule_fn(_: int) -> ProfilerAction:
    """Records always."""
    return ProfilerAction.RECORD


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """A function for `on_trace_ready`: writes each timeline to a file of its own in a directory.

    >>> import pathlib, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with profile(on_trace_ready=tensorboard_trace_handler(folder, "w")):
    ...     pass
    >>> [file.suffixes[-2:] for file in pathlib.Path(folder).iterdir()]
    [['.trace', '.json']]
    """

    def write(found: profile) -> None:
        Path(dir_name).mkdir(parents=True, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json{'.gz' if use_gzip else ''}"
        found.export_chrome_trace(os.path.join(dir_name, name))

    return write


class record_function(ContextDecorator):  # noqa: N801  (PyTorch's name)
    """A block, or a function, that profiles show under a name.

    >>> with profile() as p:
    ...     with record_function("my work"):
    ...         pass
    >>> [one.key for one in p.key_averages()]
    ['my work']
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args
        self._spans: list[AbstractContextManager[None]] = []  # several while a decorated function calls itself

    def __enter__(self) -> Self:
        self._spans.append(span(self.name, "block"))
        self._spans[-1].__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._spans.pop().__exit__(*error)


class profile:  # noqa: N801  (PyTorch's name)
    """A profile under PyTorch's name: of all that is computed in the block, or in the steps that a schedule names.

    activities, record_shapes, profile_memory, with_flops and with_modules are taken and change nothing: kernels, their
    operations and memory are there always. with_stack: whether calls of Python functions are in the timeline.
    enabled: False records nothing. Raises OSError where a file cannot be written.

    >>> with profile(activities=[ProfilerActivity.CPU]) as p:
    ...     _ = (Tensor([1.0, 2.0]) * 3).realize()
    >>> [one.count for one in p.key_averages() if one.is_kernel]
    [1]
    """

    def __init__(
        self,
        enabled: Any = True,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        with_stack: bool = False,
        **options: Any,
    ) -> None:
        _check_options(options)
        self.activities = set(activities) if activities else supported_activities()
        self.schedule = schedule or _default_schedule_fn
        self.on_trace_ready = on_trace_ready
        self.with_stack = with_stack
        self.step_num = 0
        self.current_action = ProfilerAction.NONE
        #: The profile that is active, or the last one that was.
        self.profiler: Profile | None = None
        self._enabled = bool(enabled)
        self._scheduled = schedule is not None
        self._is_active = False
        self._metadata: dict[str, Any] = {}
        self._step: record_function | None = None

    def start(self) -> None:
        """Begins with the schedule's first step."""
        if self._enabled:
            self._go_to(self.schedule(self.step_num))

    def stop(self) -> None:
        """Ends; what was being recorded is handed over."""
        self._end_step()
        if self._is_active:
            self._end()
            self._hand_over()
        self.current_action = ProfilerAction.NONE

    def step(self) -> None:
        """The next step of the schedule begins."""
        self._end_step()
        before = self.current_action
        self.step_num += 1
        action = self.schedule(self.step_num) if self._enabled else ProfilerAction.NONE
        if self._is_active and (before is ProfilerAction.RECORD_AND_SAVE or action not in _RECORDING):
            self._end()
            self._hand_over()
        self._go_to(action)

    def _go_to(self, action: ProfilerAction) -> None:
        self.current_action = action
        if action in _RECORDING and not self._is_active:
            self.profiler = Profile(python=self.with_stack)
            self.profiler.__enter__()
            self._is_active = True
        if self._is_active and self._scheduled:
            self._step = record_function(f"ProfilerStep#{self.step_num}")
            self._step.__enter__()

    def _end_step(self) -> None:
        if self._step is not None:
            self._step.__exit__(None, None, None)
            self._step = None

    def _end(self) -> None:
        if self.profiler is not None:
            self.profiler.__exit__()
        self._is_active = False

    def _hand_over(self) -> None:
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _found(self) -> Profile:
        """The profile that was recorded last. Raises ConfigError before anything was."""
        if self.profiler is None:
            raise ConfigError("profile: nothing was recorded yet; ask after the block, or after a step that records")
        return self.profiler

    def events(self) -> EventList:
        """The events, in the order of their beginning."""
        return events_of(self._found().spans())

    @property
    def function_events(self) -> EventList:
        """The events: `events()`."""
        return self.events()

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, **_: Any) -> EventList:
        """The events, all of one name together. Its `table(sort_by=…, row_limit=…)` is for people."""
        return averages(self.events())

    def table(self, sort_by: str | None = None, row_limit: int = 100, **_: Any) -> str:
        """`key_averages().table()`."""
        return self.key_averages().table(sort_by, row_limit)

    def total_average(self) -> Any:
        """All together, under the name `Total`."""
        return self.events().total_average()

    def export_chrome_trace(self, path: str) -> None:
        """Writes the timeline, which Perfetto and Chrome's `about:tracing` open; packed where the name ends in .gz."""
        self._found().save(path)
        if not self._metadata and not str(path).endswith(".gz"):
            return
        text = Path(path).read_text("utf-8")
        if self._metadata:
            text = json.dumps({**json.loads(text), **self._metadata})
        if str(path).endswith(".gz"):
            Path(path).write_bytes(gzip.compress(text.encode()))
        else:
            Path(path).write_text(text, "utf-8")

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Writes the lines of the program with the time in kernels, as flamegraph.pl and speedscope read them."""
        Path(path).write_text(self._found().collapsed() + "\n", "utf-8")

    def add_metadata(self, key: str, value: str) -> None:
        """A text that the timeline's file has under `key`."""
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """A value in JSON that the timeline's file has under `key`."""
        self._metadata[key] = json.loads(value)


#: Options of PyTorch's two classes that change nothing here.
_NAMES = """
acc_events custom_trace_id_callback execution_trace_observer experimental_config post_processing_timeout_s
profile_memory record_shapes use_cpu use_cuda use_device use_kineto with_flops with_modules
"""
_OPTIONS = frozenset(_NAMES.split())


def _check_options(options: dict[str, Any]) -> None:
    if unknown := sorted(set(options) - _OPTIONS):
        raise ConfigError(f"profile: no option is called {', '.join(unknown)}; there are {', '.join(sorted(_OPTIONS))}")


class emit_nvtx:  # noqa: N801  (PyTorch's name)
    """Marks for NVIDIA's profilers: it can be made, but not entered. Raises ConfigError."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled

    def __enter__(self) -> Self:
        if self.enabled:
            raise ConfigError("emit_nvtx: no marks are written; rulegrad.profile(path) writes a timeline of its own")
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is to be ended."""
