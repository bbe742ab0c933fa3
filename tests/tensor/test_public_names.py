"""`import rulegrad`: what it offers, and what it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import rulegrad

HEAVY = ["pyopencl", "ml_dtypes", "networkx", "sklearn", "tqdm", "safetensors", "rulegrad.tensor", "rulegrad._core"]


def test_every_public_name_is_there():
    for name in rulegrad.__all__:
        assert getattr(rulegrad, name) is not None
    assert set(rulegrad.__all__) <= set(dir(rulegrad))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'tensors'"):
        rulegrad.tensors  # noqa: B018


def test_import_is_light():
    code = f"import sys, rulegrad; print([m for m in {HEAVY!r} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_config_is_the_object_whatever_is_imported_first():
    code = "from rulegrad.config import config; import rulegrad; print(rulegrad.config is config)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "True"
