"""SciPy on tensors, in its array API mode: calls whose results were wrong once, beside those of NumPy's arrays."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import rulegrad as rg

pytest.importorskip("scipy")

PROGRAM = """
import json
import numpy as np
from scipy import integrate, interpolate, signal
from rulegrad import Tensor

at = np.linspace(0.2, 2.0, 9)
wave = np.cos(np.arange(40.0) ** 1.5)
calls = {
    "PchipInterpolator": lambda a: interpolate.PchipInterpolator(a(at), a(at * at))(a(np.array([0.55, 1.05]))),
    "oaconvolve": lambda a: signal.oaconvolve(a(wave), a(wave[:9])),
    "tanhsinh": lambda a: integrate.tanhsinh(lambda x: x * x, a(np.array([0.0])), a(np.array([2.0]))).integral,
}
found = {}
for name, call in calls.items():
    given, expected = call(Tensor), call(lambda x: x)
    found[name] = [isinstance(given, Tensor), float(abs(np.asarray(given) - np.asarray(expected)).max())]
print(json.dumps(found))
"""


def test_calls_that_update_views_give_what_they_give_on_arrays() -> None:
    path = str(Path(rg.__file__).parents[1])
    environment = {**os.environ, "SCIPY_ARRAY_API": "1", "RULEGRAD_DEVICE": "numpy", "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    for name, (is_tensor, difference) in json.loads(done.stdout).items():
        assert is_tensor and difference < 1e-12, (name, difference)
