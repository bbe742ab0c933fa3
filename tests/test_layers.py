"""The order of the packages, which docs/architecture.md says: no package imports upwards, and no two import each other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "rewrite" / "rulegrad"

# Imports against the order, with the reason.
UPWARDS = {
    (
        "compile.checking",
        "workbench",
    ): "the setting CHECK and errors of schedules load what looks into graphs; the only seam",
    ("tensor.dlpack", "array_api"): "the array API's standard asks an array for its namespace",
}

NAMES = ("_core", "__version__")  # of rulegrad itself, which everybody may use


class Import(NamedTuple):
    """An import statement: the module that has it, what it names, where, and how."""

    module: str  # without `rulegrad.`
    target: str  # in full
    line: int
    in_function: bool
    for_types: bool
    reason: bool  # whether a comment `late:` says why it is in a function


def parts_of(name: str) -> list[str]:
    return name.split(".")


@cache
def modules() -> dict[str, Path]:
    """The files of the package by their names; "" is `rulegrad` itself."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = list(path.relative_to(PACKAGE).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports() -> tuple[Import, ...]:
    return tuple(found for name, path in modules().items() for found in imports_of(name, path))


def imports_of(name: str, path: Path) -> Iterator[Import]:
    """The imports of a file, those in functions and for types too."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()

    def visit(node: ast.AST, in_function: bool, for_types: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.Import, ast.ImportFrom)):
                said = has_reason(lines, child.lineno - 1)
                for target in targets_of(child, name, path):
                    yield Import(name, target, child.lineno, in_function, for_types, said)
            elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                yield from visit(child, True, for_types)
            else:
                types = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
                yield from visit(child, in_function, for_types or types)

    yield from visit(ast.parse(text), False, False)


def has_reason(lines: list[str], at: int) -> bool:
    """Whether the line, or a comment above it and the imports between, says why it is late."""
    if "# late: " in lines[at]:
        return True
    while lines[at - 1].strip().startswith(("from ", "import ")):
        at -= 1
    return lines[at - 1].strip().startswith("# late: ")


def targets_of(node: ast.Import | ast.ImportFrom, name: str, path: Path) -> Iterator[str]:
    """The modules that a statement imports: the one that `from` names, else the one that has the name."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    base = node.module or ""
    if node.level:
        folder = parts_of(f"rulegrad.{name}")[: None if path.stem == "__init__" else -1]
        base = ".".join([*folder[: len(folder) - node.level + 1], *filter(None, [node.module])])
    for alias in node.names:
        full = f"{base}.{alias.name}"
        short = full.removeprefix("rulegrad.")
        yield full if short in modules() or short in NAMES else base


def package_of(name: str) -> str:
    """The part of the package that a module belongs to: `engine`, or `errors`."""
    return parts_of(name)[0]


def inside(found: Import) -> str | None:
    """The module or name of rulegrad that is imported, without `rulegrad.`; None for other libraries."""
    if parts_of(found.target)[0] != "rulegrad":
        return None
    return found.target.removeprefix("rulegrad").removeprefix(".")


@cache
def ranks() -> dict[str, int]:
    """The layer of each package, by the line of docs/architecture.md."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if line.startswith("`errors`") and " < " in line)
    layers = [re.findall(r"`(\w+)`", part) for part in line.split(" < ")]
    return {name: rank for rank, names in enumerate(layers) for name in names}


def test_every_package_has_a_place_in_the_order() -> None:
    there = {package_of(name) for name in modules()} - {"", "__main__"}
    assert there == set(ranks())


def test_no_package_imports_upwards() -> None:
    wrong, used = [], set()
    for found in imports():
        target = inside(found)
        if target is None or target in NAMES or found.module in ("", "__main__"):
            continue
        allowed = (found.module, package_of(target))
        if ranks().get(package_of(target), len(ranks())) > ranks()[package_of(found.module)]:
            used.add(allowed)
            if allowed not in UPWARDS:
                wrong.append(f"{found.module}:{found.line} imports {found.target}")
    assert not wrong, "\n".join(wrong)
    assert used == set(UPWARDS), "an exception is not needed any more"


def test_no_two_packages_import_each_other() -> None:
    """Nor do two parts of the workbench."""
    edges = set()
    for found in imports():
        target = inside(found)
        if target is None or target in NAMES or (found.module, package_of(target)) in UPWARDS:
            continue
        depth = 2 if package_of(found.module) == package_of(target) == "workbench" else 1
        ends = [".".join(parts_of(name)[:depth]) for name in (found.module, target)]
        if ends[0] != ends[1] and "workbench" not in ends[:1]:
            edges.add((ends[0], ends[1]))
    both = sorted((a, b) for a, b in edges if a < b and (b, a) in edges)
    assert not both


def test_backends_use_the_runtime() -> None:
    """And what it stands on; the `numpy` backend, which interprets kernels, the interpreter of their graphs too."""
    below = {"errors", "config", "support", "runtime", "backends"}  # and their own files
    for path in (ROOT / "backends").rglob("*.py"):
        allowed = below | ({"ir", "interpreter"} if path.parent.name == "numpy" else set())
        found = imports_of(f"backends.{path.parent.name}.{path.stem}", path)
        used = {package_of(target) for one in found if (target := inside(one)) is not None}
        assert used <= allowed, path


def test_imports_in_functions_have_a_reason() -> None:
    """Only what is loaded late on purpose: optional libraries, what few programs need, and what two modules need of each other."""
    wrong = [f"{f.module}:{f.line} {f.target}" for f in imports() if f.in_function and not f.reason]
    assert not wrong, "these imports belong to the top, or a comment `# late:` says why not:\n" + "\n".join(wrong)
