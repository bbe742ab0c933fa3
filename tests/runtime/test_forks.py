"""Children made by fork while other threads are at work, and the end of a process that daemon threads still work in."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rulegrad
from rulegrad.support import forks
from rulegrad.support.paths import data_folder

has_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

HELD = """
import faulthandler, os, threading, weakref
from rulegrad import Tensor
from rulegrad.runtime import devices
from rulegrad.support import forks, diskcache

assert (Tensor([1.0], device="numpy") + 1).item() == 2
locks = [*forks._locks]
assert diskcache.shared()._lock in forks._held_over_a_fork and devices._lock in locks
taken, done = threading.Event(), threading.Event()

def hold():
    for lock in locks:
        lock.acquire()
    taken.set()
    done.wait()

threading.Thread(target=hold, daemon=True).start()
taken.wait()
child = os.fork()
if child == 0:
    faulthandler.dump_traceback_later(60, exit=True)
    result = (Tensor([1.0, 2.0], device="numpy") * 3).tolist()
    os._exit(0 if result == [3.0, 6.0] else 2)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
done.set()
assert code == 0, code
"""

COMPILING = """
import faulthandler, os, sys, threading
from rulegrad import Tensor

device, stop = sys.argv[1], False

def work():
    number = 0
    while not stop:  # another kernel each time
        number += 1
        x = Tensor([[0.5] * 4] * 4, device=device)
        (x * (number + 0.25) + number).sum().item()

threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
codes = []
for number in range(4):
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(60, exit=True)
        result = (Tensor([1.0, 1.0], device=device) * (number + 2.5)).tolist()
        os._exit(0 if result == [number + 2.5] * 2 else 2)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
stop = True
for thread in threads:
    thread.join()
assert codes == [0] * 4, codes
"""

IMPORTING = """
import faulthandler, os, sys, threading, time
import rulegrad
from rulegrad import Tensor

rulegrad.__path__.append(sys.argv[1])
thread = threading.Thread(target=lambda: __import__("rulegrad.slow_to_import"))
thread.start()
while "rulegrad.slow_to_import" not in sys.modules:
    time.sleep(0.01)
child = os.fork()
if child == 0:
    faulthandler.dump_traceback_later(20, exit=True)
    from rulegrad.slow_to_import import whole
    os._exit(0 if whole else 2)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
thread.join()
assert code == 0, code
"""

BETWEEN = IMPORTING.replace("child = ", "from rulegrad.support import forks\nforks._MOST_SECONDS_OF_OURS = 0\nchild = ")

DAEMON = """
import threading, time
from rulegrad import Tensor

started = threading.Event()

def work():
    number = 0
    while True:
        number += 1
        x = Tensor([[0.5] * 64] * 64, device="numpy")
        ((x @ x + number % 50).softmax(1) * 2).sum().item()
        started.set()

for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
started.wait()
time.sleep(0.3)
"""


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@has_fork
def test_a_child_has_locks_that_nobody_holds() -> None:
    done = run(HELD)
    assert done.returncode == 0, done.stderr


@has_fork
@pytest.mark.parametrize("device", ["numpy", "c"])
def test_a_fork_while_other_threads_compile(device: str) -> None:
    done = run(COMPILING, device)
    if "there is no device" in done.stderr:
        pytest.skip(f"the device {device} is not there")
    assert done.returncode == 0, done.stderr


@has_fork
@pytest.mark.parametrize("program", [IMPORTING, BETWEEN], ids=["waits", "does not wait"])
def test_a_fork_during_an_import_of_ours(program: str, tmp_path: Path) -> None:
    """However long it takes, as on a machine with much to do: the child could not import the module."""
    (tmp_path / "slow_to_import.py").write_text("import time\ntime.sleep(3)\nwhole = True\n", encoding="utf-8")
    done = run(program, str(tmp_path))
    assert done.returncode == 0, done.stderr


@has_fork
def test_a_fork_waits_for_what_must_be_whole() -> None:
    with forks.lock(waits=True) as taken:  # a thread may fork while it has such a lock itself
        assert taken
        child = os.fork()
        if child == 0:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0


def test_the_end_of_a_process_with_daemon_threads() -> None:
    """A thread that waits for the interpreter is ended by unwinding its stack, which the engine's cannot be."""
    for _ in range(3):
        done = run(DAEMON)
        assert done.returncode == 0, done.stderr


def test_nothing_in_programs_has_a_lock_that_a_fork_cannot_free() -> None:
    """`cached_property` has one for all objects until Python 3.12; `platform.processor` uses it, and runs a process."""
    package = Path(rulegrad.__file__).parent
    files = [*package.rglob("*.py"), *(data_folder("backends")).rglob("*.py")]
    found = [
        str(file)
        for file in files
        if "workbench" not in file.parts
        and re.search(r"import.*cached_property|platform\.processor", file.read_text(encoding="utf-8"))
    ]
    assert not found
