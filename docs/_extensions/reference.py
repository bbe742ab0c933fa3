"""The reference: pages in `docs/reference`, written before each build from the package and the op table.

Run as a program, it writes the table of limits in `docs/adding-an-accelerator.md` again.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "reference"

# Modules of functions and classes that users import, with the title of their page.
MODULES = {
    "nn": ("rulegrad.nn", "Networks"),
    "functional": ("rulegrad.nn.functional", "Functions of networks"),
    "init": ("rulegrad.nn.init", "First values of weights"),
    "optim": ("rulegrad.optim", "Optimizers"),
    "amp": ("rulegrad.amp", "Mixed precision"),
    "training": ("rulegrad.training", "Around a training step"),
    "communication": ("rulegrad.communication", "Communication between ranks"),
    "distributed": ("rulegrad.distributed", "Tensors and modules on many devices"),
    "data": ("rulegrad.data", "Data sets and loaders"),
    "linalg": ("rulegrad.linalg", "Linear algebra"),
    "errors": ("rulegrad.errors", "Errors"),
}


def write_pages(app: Any) -> None:
    FOLDER.mkdir(exist_ok=True)
    pages = {"tensor": tensor_page(), "rulegrad": functions_page(), "ops": ops_page(), "builtins": builtins_page()}
    pages["limits"] = limits_page()
    pages.update({name: module_page(*what) for name, what in MODULES.items()})
    for name, text in pages.items():
        path = FOLDER / f"{name}.rst"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def title(text: str, underline: str = "=") -> str:
    return f"{text}\n{underline * len(text)}\n\n"


def tensor_page() -> str:
    """The methods of Tensor, by the module that their functions are written in."""
    from rulegrad import Tensor

    parts = [title("Tensor"), ".. autoclass:: rulegrad.Tensor\n   :no-members:\n\n"]
    families: dict[str, dict[str, Any]] = {}
    for owner in reversed(Tensor.__mro__[:-1]):
        for name, row in vars(owner).items():
            if is_public(name) and is_documented(row):
                function = getattr(row, "__func__", getattr(row, "fget", row))
                families.setdefault(function.__module__, {})[name] = row
    for module, rows in families.items():
        summary = (importlib.import_module(module).__doc__ or module).splitlines()[0].rstrip(".")
        parts.append(title(escaped(summary.replace("`", "")), "-"))
        for name, row in rows.items():
            kind = "autoattribute" if isinstance(row, property) else "automethod"
            parts.append(f".. {kind}:: rulegrad.Tensor.{name}\n\n")
    return "".join(parts)


def functions_page() -> str:
    """The functions of the package beside Tensor."""
    return module_page("rulegrad", "The package")


def module_page(module: str, heading: str) -> str:
    """The functions and classes that a module offers."""
    found = importlib.import_module(module)
    parts = [title(heading), f".. automodule:: {module}\n   :no-members:\n\n"]
    others = [] if module != "rulegrad" else [importlib.import_module(other) for other, _ in MODULES.values()]
    for name in sorted(dir(found), key=str.lower):
        value = getattr(found, name)
        if not is_public(name) or not is_documented(value) or name == "Tensor":
            continue
        if any(vars(other).get(name) is value for other in others):
            continue  # it is on that module's page
        if (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__.startswith("rulegrad"):
            kind = "autoclass" if inspect.isclass(value) else "autofunction"
            parts.append(f".. {kind}:: {module}.{name}\n\n")
    return "".join(parts)


def ops_page() -> str:
    """The ops of the graph, as the op table describes them."""
    from rulegrad.lang.optable import OpTable
    from rulegrad.lang.parser import parse_file
    from rulegrad.support.paths import data_folder

    file = data_folder("rules") / "ops" / "ops.rules"
    declarations = parse_file(file.read_text(encoding="utf-8"), file.name).declarations
    lines = [title("Ops"), "The ops of the graph that the rules know, from ``rules/ops/ops.rules``.\n\n"]
    lines.append(".. list-table::\n   :header-rows: 1\n\n   * - op\n     - sources\n     - what it is\n")
    for op in OpTable.from_declarations(declarations).ops.values():
        lines.append(
            f"   * - ``{op.name}``\n     - {op.describe_sources()}\n     - {escaped(op.declaration.doc or '')}\n"
        )
    return "".join(lines)


def declared(kind: type) -> list[Any]:
    """The declarations of a kind in our rule files, in their order."""
    from rulegrad import engine

    return [d for d in engine.loaded().sources.declarations() if isinstance(d, kind)]


def limit_rows() -> list[tuple[str, ...]]:
    """The limits that rules ask targets for: name, type, default, unit and meaning, in Markdown."""
    from rulegrad.lang import syntax

    head = ("limit", "type", "default", "unit", "meaning")
    rows = [(f"`{d.name}`", d.type, f"{d.default}", d.unit, d.doc) for d in declared(syntax.Limit)]
    return [head, *rows]


def flag_rows() -> list[tuple[str, ...]]:
    from rulegrad.lang import syntax

    return [("flag", "meaning"), *((f"`{d.name}`", d.doc) for d in declared(syntax.Flag))]


def limits_page() -> str:
    """The page of what targets may say of their devices, as `rules/ops/limits.rules` declares it."""
    parts = [title("Limits of targets"), "What targets may say of their devices, from ``rules/ops/limits.rules``.\n\n"]
    for head, *rows in (limit_rows(), flag_rows()):
        parts.append(".. list-table::\n   :header-rows: 1\n\n")
        for row in (head, *rows):
            parts += [f"   {'*' if not k else ' '} - {escaped(cell)}\n" for k, cell in enumerate(row)]
        parts.append("\n")
    return "".join(parts)


def with_limits(page: str) -> str:
    """A page in Markdown with the limits and flags between its two marks."""
    begin, end = "<!-- limits -->\n", "<!-- end of limits -->"
    tables = []
    for head, *rows in (limit_rows(), flag_rows()):
        lines = [head, ("---",) * len(head), *rows]
        tables.append("".join(f"| {' | '.join(line)} |\n" for line in lines))
    before, _, rest = page.partition(begin)
    return before + begin + "\n" + "\n".join(tables) + "\n" + end + rest.partition(end)[2]


def builtins_page() -> str:
    """The built-in functions of the rule language."""
    from rulegrad.lang.builtins import BUILTINS

    lines = [title("Built-in functions"), "What guards and templates of rules can call.\n\n"]
    lines.append(".. list-table::\n   :header-rows: 1\n\n   * - function\n     - what it gives\n")
    lines += [f"   * - ``{builtin.signature}``\n     - {escaped(builtin.doc)}\n" for builtin in BUILTINS.values()]
    return "".join(lines)


def is_public(name: str) -> bool:
    return not name.startswith("_")


def is_documented(value: Any) -> bool:
    return bool(inspect.getdoc(getattr(value, "__func__", value)))


# ---- docstrings ----


def escaped(text: str) -> str:
    """A line of Markdown as reStructuredText: code in backticks, everything else as it is."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(f"`{part}`" if k % 2 else re.sub(r"([\\*|_])", r"\\\1", part) for k, part in enumerate(parts))


def converted(lines: list[str]) -> list[str]:
    found, in_example = [], False
    for line in lines:
        starts = line.lstrip().startswith(">>>")
        if starts and not in_example and found and found[-1].strip():
            found.append("")
        in_example = starts or (in_example and bool(line.strip()))
        found.append(line if in_example else escaped(line))
    return found


def docstring(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = converted(lines)


def setup(app: Any) -> dict[str, bool]:
    app.connect("builder-inited", write_pages)
    app.connect("autodoc-process-docstring", docstring)
    return {"parallel_read_safe": True}


if __name__ == "__main__":
    accelerators = FOLDER.parent / "adding-an-accelerator.md"
    accelerators.write_text(with_limits(accelerators.read_text(encoding="utf-8")), encoding="utf-8")
