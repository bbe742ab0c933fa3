"""Every public name has a docstring with an example; tests/test_repository.py runs the examples."""

from __future__ import annotations

import doctest
import importlib
import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import rulegrad
from rulegrad import Tensor, UOp

MODULES = (
    "rulegrad",
    "rulegrad.array_api",
    "rulegrad.fft",
    "rulegrad.linalg",
    "rulegrad.masked",
    "rulegrad.nn",
    "rulegrad.nn.functional",
    "rulegrad.nn.utils",
    "rulegrad.nn.utils.parametrizations",
    "rulegrad.nn.utils.parametrize",
    "rulegrad.optim",
    "rulegrad.optim.lr_scheduler",
    "rulegrad.signal.windows",
    "rulegrad.special",
)


def public(owner: Any) -> Iterator[tuple[str, Any]]:
    """Functions, properties and classes; of a module those that it names in `__all__`."""
    if isinstance(owner, ModuleType):
        found = [(name, getattr(owner, name)) for name in owner.__all__]
    else:
        found = [(name, inspect.getattr_static(owner, name)) for name in dir(owner) if not name.startswith("_")]
    for name, value in found:
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        if isinstance(value, property):
            value = value.fget
        if inspect.isfunction(value) or inspect.isclass(value):
            yield name, value


def without_example(owner: Any) -> list[str]:
    """In-place forms name the function that they are made from; test_in_place.py runs each."""
    return [name for name, value in public(owner) if ">>> " not in (inspect.getdoc(value) or "") and not is_form(value)]


def is_form(value: Any) -> bool:
    of = getattr(value, "__wrapped__", None)
    return of is not None and value.__doc__.startswith(f"`{of.__name__}` in place: ")


@pytest.mark.parametrize("module", MODULES)
def test_modules(module: str) -> None:
    assert without_example(importlib.import_module(module)) == []


def test_tensors() -> None:
    assert len(dir(Tensor)) > 400 and rulegrad.Tensor is Tensor
    assert without_example(Tensor) == []


def test_the_example_of_nodes() -> None:
    """Its text is in the engine, where the search for examples does not look."""
    (example,) = doctest.DocTestFinder(recurse=False).find(UOp, "UOp", globs={"UOp": UOp})
    assert example.examples and doctest.DocTestRunner().run(example).failed == 0
