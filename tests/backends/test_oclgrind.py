"""Kernels for OpenCL under Oclgrind, a simulator that reports accesses out of bounds and data races.

Each test runs a program of its own under it, at small sizes, and looks at what it reports. OCLGRIND names its driver, where it
is at none of the usual places.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PLACES = (
    Path("/usr/lib/oclgrind/liboclgrind-rt-icd.so"),  # Debian's package oclgrind
    Path("/usr/lib64/oclgrind/liboclgrind-rt-icd.so"),
    Path("/usr/local/lib/liboclgrind-rt-icd.so"),
)
DRIVER = next((place for place in (Path(os.environ.get("OCLGRIND", "")), *PLACES) if place.is_file()), None)
pytestmark = pytest.mark.skipif(DRIVER is None, reason="Oclgrind is not installed: apt-get install oclgrind")

BY_HAND = """
import numpy as np
from rulegrad.ir import UOp
from rulegrad.runtime import devices
from rulegrad.runtime.kernel import Kernel
device = devices.get("opencl:0")
source = "__kernel void wrong(__global int* out, __global const int* in) {{ int i = get_global_id(0); {body} }}"
kernel = Kernel("wrong", UOp("SINK", ()), source, (8,), (), 2)
handles = [device.allocate(32), device.allocate(32)]
device.copy_in(handles[1], np.zeros(8, np.int32))
device.compile([kernel])[0](handles, wait=True)
"""
PROGRAMS = """
import sys
import numpy as np
from rulegrad.workbench.conformance import programs
from rulegrad.runtime import devices
assert devices.kind_of("opencl:0") == "simulator", "this is not Oclgrind"
wanted = {programs}
for name, program in wanted:
    found = programs.results(program, "opencl:0")
    for mine, theirs in zip(found, programs.results(program, "numpy"), strict=True):
        assert np.allclose(mine.astype(np.complex128), theirs.astype(np.complex128), 1e-2, 1e-2, equal_nan=True), name
print(len(wanted))
"""


def reported(code: str, tmp_path: Path) -> tuple[str, str]:
    """Oclgrind's report of a program, and the program's output."""
    log = tmp_path / "oclgrind.log"
    environment = {
        **os.environ,
        "OCL_ICD_VENDORS": str(DRIVER),
        "OCLGRIND_LOG": str(log),
        "OCLGRIND_DATA_RACES": "1",
        # optimized code may have functions of LLVM that Oclgrind does not know
        "OCLGRIND_BUILD_OPTIONS": "-cl-opt-disable",
        "RULEGRAD_CACHE": str(Path(os.environ["RULEGRAD_CACHE"]) / "oclgrind"),  # for programs built with that option
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return (log.read_text(errors="replace") if log.exists() else ""), done.stdout


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("out[i + 1] = in[i];", "Invalid write"),
        ("out[i] = in[i + 1];", "Invalid read"),
        ("out[0] = i;", "race"),
    ],
)
def test_mistakes_are_reported(body: str, says: str, tmp_path: Path) -> None:
    log, _ = reported(BY_HAND.format(body=body), tmp_path)
    assert says in log


@pytest.mark.parametrize(
    "programs",
    [
        "[p for p in programs.suite() if p[0] != 'large']",
        "[p for p in programs.adding('float32') if '70001' not in p[0]]",
        "[p for p in programs.reducing('float32') if '5000' not in p[0]]",
        "[p for p in programs.multiplying(['float32', 'float16']) if '64' not in p[0]]",
    ],
    ids=["suite", "add", "reduce", "matmul"],
)
def test_nothing_is_reported(programs: str, tmp_path: Path) -> None:
    log, printed = reported(PROGRAMS.format(programs=programs), tmp_path)
    assert log == ""
    assert int(printed.split()[-1]) > 5
