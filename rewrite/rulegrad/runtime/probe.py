"""The devices of a backend and which work; drivers that may end the process are tried in a child.

The answer is kept on disk under the backend's fingerprint, so that a normal start runs no child.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rulegrad.errors import DeviceError, RulegradError
from rulegrad.runtime.backends import Backend
from rulegrad.runtime.device import Discovery, Found
from rulegrad.support.diskcache import shared

_TIMEOUT_SECONDS = 120
_MARK = "rulegrad-probe "
_FORMAT = 1  # of what is kept on disk


def discover(backend: Backend, fresh: bool = False) -> Discovery:
    """The backend's devices; one that does not work has its `problem` set.

    With `fresh`, devices are tried again even if the answer is known. Raises DeviceError when the
    backend's `device.py` cannot be loaded.
    """
    module = backend.module
    fingerprint = module.fingerprint() if hasattr(module, "fingerprint") else None
    if fingerprint is None:
        discovery: Discovery = module.discover()
        return discovery
    key = f"{_FORMAT}|{backend.folder}|{sys.prefix}|{fingerprint}"
    kept = None if fresh else shared().get("discovery", key)
    if kept is not None:
        return _from_json(json.loads(kept))
    with shared().making("discovery", key):  # ranks that start together try a device once
        kept = None if fresh else shared().get("discovery", key)
        if kept is not None:
            return _from_json(json.loads(kept))
        if getattr(module, "ENDS_NO_PROCESS", False):
            discovery, is_settled = _discover_here(module), True
        else:
            discovery, is_settled = _discover_in_children(backend.folder)
        if is_settled:
            shared().put("discovery", key, json.dumps(_as_json(discovery)).encode())
        return discovery


def _discover_here(module: Any) -> Discovery:
    """Tries the devices in this process."""
    discovery: Discovery = module.discover()
    devices = tuple(found._replace(problem=_problem(module, found.number)) for found in discovery.devices)
    return discovery._replace(devices=devices)


def _problem(module: Any, number: int) -> str:
    """Why a device cannot be used; empty where it can."""
    try:
        module.self_test(number)
    except DeviceError as error:
        return str(error)
    return ""


@dataclass
class _Report:
    """The output of a child before it ended."""

    discovery: Discovery | None = None
    problems: dict[int, str] = field(default_factory=dict)  # "" for a device that works
    trying: int | None = None
    end: str = ""  # why it ended early
    is_settled: bool = True  # not where an error of ours ended it, of rule files or settings: others need not have it
    is_late: bool = False  # it was given up on a busy machine, where a driver that works may be as slow


def _discover_in_children(folder: Path) -> tuple[Discovery, bool]:
    """Tries the devices one by one; where that ends the child, another goes on with the next device.

    With whether that is so in each program on this machine.
    """
    problems: dict[int, str] = {}
    is_settled = True
    while True:
        report = _run_child(folder, skip=sorted(problems))
        problems.update(report.problems)
        is_settled = is_settled and report.is_settled and not report.is_late
        if report.discovery is None:
            return Discovery((), (), f"listing the devices failed: {report.end}"), is_settled
        if report.trying is None or report.trying in problems or not report.is_settled:
            found = report.discovery.devices
            devices = tuple(f._replace(problem=problems.get(f.number, report.end)) for f in found)
            return report.discovery._replace(devices=devices), is_settled
        problems[report.trying] = report.end


def _run_child(folder: Path, skip: list[int]) -> _Report:
    code = "from rulegrad.runtime.probe import child; child()"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, "-c", code, str(folder), json.dumps(skip)]
    report = _Report()
    import subprocess  # late: few programs probe a driver

    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", env=environment,
            timeout=_TIMEOUT_SECONDS, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired as late:
        output = late.stdout.decode(errors="replace") if isinstance(late.stdout, bytes) else late.stdout or ""
        report.is_late = _is_busy()
        report.end = f"the test did not end within {_TIMEOUT_SECONDS} seconds"
        if report.is_late:
            report.end += ", on a machine that is busy; the next program tries again"
    except OSError as error:
        output, report.end = "", f"the test process could not be started ({error})"
    else:
        output = done.stdout
        if done.returncode:
            report.end = f"the test process ended with {status(done.returncode)}{_reason(done.stderr)}"
    for line in output.splitlines():
        if line.startswith(_MARK):
            _take(report, json.loads(line[len(_MARK) :]))
    return report


def _is_busy() -> bool:
    """Whether more programs want to run than there are processors."""
    try:
        return os.getloadavg()[0] > (os.cpu_count() or 1)
    except (OSError, AttributeError):  # not on Windows
        return False


def _take(report: _Report, message: dict[str, Any]) -> None:
    if "discovery" in message:
        report.discovery = _from_json(message["discovery"])
    elif "error" in message:
        report.end, report.is_settled = message["error"], False
    elif "trying" in message:
        report.trying = message["trying"]
    else:
        report.problems[message["number"]] = message["problem"]


def status(code: int) -> str:
    """`SIGABRT`, or `exit status 3`."""
    if code < 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(-code).name
    return f"exit status {code}"


def _reason(stderr: str) -> str:
    """The first line that speaks of an error, else the last one."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    chosen = next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "")
    return f": {chosen[:200]}" if chosen else ""


def _as_json(discovery: Discovery) -> dict[str, Any]:
    return {**discovery._asdict(), "devices": [found._asdict() for found in discovery.devices]}


def _from_json(value: dict[str, Any]) -> Discovery:
    devices = tuple(Found(**found) for found in value["devices"])
    return Discovery(devices, tuple(value["looked"]), value["advice"])


def child() -> None:
    """The child process: says what it finds as it goes, a line of JSON each."""
    try:
        _try_devices(Path(sys.argv[1]), json.loads(sys.argv[2]))
    except RulegradError as error:
        _tell({"error": str(error)})


def _try_devices(folder: Path, skip: list[int]) -> None:
    with contextlib.suppress(ImportError):
        import resource  # late: not on Windows

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    module = Backend(folder).module
    discovery: Discovery = module.discover()
    _tell({"discovery": _as_json(discovery)})
    for found in discovery.devices:
        if found.number in skip:
            continue
        _tell({"trying": found.number})
        _tell({"number": found.number, "problem": _problem(module, found.number)})


def _tell(message: dict[str, Any]) -> None:
    print(_MARK + json.dumps(message), flush=True)
