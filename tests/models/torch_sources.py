"""Packages of models that are written for PyTorch, as they are and with `rulegrad` in the place of `torch`.

A package's modules are made of its installed source files; its own `__init__` files, which import much else, are not run.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

IMPORTS = [
    (r"^( *)import torch$", r"\1import rulegrad as torch"),
    (r"^( *)import torch\.", r"\1import rulegrad."),
    (r"^( *)from torch([ .])", r"\1from rulegrad\2"),
]


def folder_of(package: str, command: str) -> Path:
    """The folder of an installed package, of which nothing is imported; the test is skipped where there is none."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        pytest.skip(command)
    return Path(found.submodule_search_locations[0])


def with_rulegrad(text: str) -> str:
    """The source with its imports of `torch` changed, and nothing else."""
    for pattern, replacement in IMPORTS:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return text


class Package(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules of a folder under a name of its own, so that a package can be there twice."""

    def __init__(self, name: str, folder: Path, uses_rulegrad: bool, stand_ins: dict[str, dict[str, Any]]) -> None:
        self.name, self.folder, self.uses_rulegrad = name, folder, uses_rulegrad
        self.original, self.stand_ins = folder.name, stand_ins

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a module of this package."""
        if fullname.partition(".")[0] != self.name:
            return None
        is_package = fullname == self.name or self.file(fullname, "").is_dir()
        return importlib.machinery.ModuleSpec(fullname, self, is_package=is_package)

    def file(self, fullname: str, suffix: str = ".py") -> Path:
        """Where the source of a module is."""
        return self.folder.joinpath(*fullname.split(".")[1:]).with_suffix(suffix)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """The usual empty module."""

    def exec_module(self, module: ModuleType) -> None:
        """Fills a module by its source, or by what stands in for it."""
        inner = module.__name__.partition(".")[2]
        stand_in = self.stand_ins.get(inner)
        if stand_in is not None:
            vars(module).update(stand_in)
        elif not hasattr(module, "__path__"):
            file = self.file(module.__name__)
            text = re.sub(rf"^from {self.original}\b", f"from {self.name}", file.read_text("utf-8"), flags=re.M)
            text = re.sub(rf"^import {self.original}$", f"import {self.name} as {self.original}", text, flags=re.M)
            module.__file__ = str(file)
            text = with_rulegrad(text) if self.uses_rulegrad else text
            exec(compile(text, file, "exec"), vars(module))


def imported(monkeypatch: pytest.MonkeyPatch, package: Package, module: str) -> ModuleType:
    """A module of the package; nothing of it is left after the test, and of others all that was imported with it."""
    monkeypatch.setattr(sys, "meta_path", [package, *sys.meta_path])
    before = set(sys.modules)
    found = importlib.import_module(f"{package.name}.{module}")
    for name in set(sys.modules) - before:
        if name.partition(".")[0] == package.name:
            monkeypatch.setitem(sys.modules, name, sys.modules.pop(name))  # the test takes it out at its end
    return found
