"""`import rulegrad`: what it offers, and what it costs."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import pydoc
import subprocess
import sys
from types import ModuleType

import pytest

import rulegrad
from rulegrad import Tensor, nn, optim, signal

HEAVY = ["pyopencl", "ml_dtypes", "networkx", "sklearn", "tqdm", "safetensors", "rulegrad.tensor", "rulegrad._core"]


def test_every_public_name_is_there():
    for name in rulegrad.__all__:
        assert getattr(rulegrad, name) is not None


def namespaces(module: ModuleType = rulegrad) -> list[str]:
    """The names of the modules that a user finds by completion, from `rulegrad` on."""
    parts = [part for name in module.__all__ if inspect.ismodule(part := getattr(module, name, None))]
    below = [name for part in parts if hasattr(part, "__all__") for name in namespaces(part)]
    return [module.__name__, *below]


@pytest.mark.parametrize("name", namespaces())
def test_completion_shows_public_names_only(name: str) -> None:
    """No module that implements a namespace is a name of it, nor what it imports."""
    module = importlib.import_module(name)
    shown = {one for one in dir(module) if not one.startswith("_")}
    assert shown == {one for one in module.__all__ if not one.startswith("_")}


@pytest.mark.parametrize("package", [nn, optim, signal])
def test_files_that_implement_a_namespace_have_private_names(package: ModuleType) -> None:
    """Unless the module is a public name: `from rulegrad.nn import _walking` promises nothing to anybody."""
    files = {module.name for module in pkgutil.iter_modules(package.__path__)}
    assert {name for name in files if not name.startswith("_")} <= set(package.__all__)


def test_packages_show_no_modules_of_their_implementation():
    assert dir(rulegrad.tensor) == ["Tensor", "no_grad"]


def test_methods_have_names_and_signatures():
    """Help and completion of methods are as if they were written in the class."""
    assert Tensor.exp.__qualname__ == Tensor.exp.__get__(Tensor(1.0)).__qualname__ == "Tensor.exp"
    assert Tensor.zeros.__qualname__ == "Tensor.zeros" and Tensor.__len__.__qualname__ == "Tensor.__len__"
    assert Tensor.add_.__qualname__ == "Tensor.add_" and Tensor.half.__qualname__ == "Tensor.half"
    assert list(inspect.signature(Tensor.clip_).parameters) == ["self", "min", "max"]
    assert list(inspect.signature(Tensor([1]).cumsum).parameters) == ["axis", "dtype", "dim"]
    assert pydoc.plain(pydoc.render_doc(Tensor.exp)).startswith(
        "Python Library Documentation: function exp in module rulegrad.tensor"
    )
    with pytest.raises(TypeError, match=r"Tensor\.exp\(\) takes 1 positional argument but 2 were given"):
        Tensor([1.0]).exp(2)


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
