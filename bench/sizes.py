"""Lines of each backend: rules, runtime, and text for the device's compiler, beside tinygrad's.

    python bench/sizes.py

Lines that are empty or only a comment or docstring do not count. Of tinygrad: its renderer's class for the same device
(without what all C-like languages share), and `runtime/ops_NAME.py` (without the generated bindings). Needs tinygrad to
be installed; its code is only read.
"""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

from rulegrad.support.paths import data_folder

#: backend: tinygrad's renderer (file and class) and runtime for the same device
PEERS: dict[str, tuple[str, str, str]] = {
    "opencl": ("renderer/cstyle.py", "OpenCLRenderer", "runtime/ops_cl.py"),
    "c": ("renderer/cstyle.py", "ClangRenderer", "runtime/ops_cpu.py"),
    "cuda": ("renderer/cstyle.py", "CUDARenderer", "runtime/ops_cuda.py"),
    "metal": ("renderer/cstyle.py", "MetalRenderer", "runtime/ops_metal.py"),
    "webgpu": ("renderer/wgsl.py", "WGSLRenderer", "runtime/ops_webgpu.py"),
}


def lines_of(text: str, is_python: bool) -> int:
    """Lines that say something: no blank ones, comments, and docstrings."""
    skipped: set[int] = set()
    if is_python:
        for node in ast.walk(ast.parse(text)):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                skipped.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(
        bool(line.strip()) and not line.lstrip().startswith(("#", "//")) for n, line in lines if n not in skipped
    )


def ours(folder: Path) -> tuple[int, int, int]:
    """Lines of rules, of Python, and of text for the device's compiler."""
    counts = {".rules": 0, ".py": 0, "": 0}
    for path in folder.iterdir():
        if path.is_file():
            kind = path.suffix if path.suffix in counts else ""
            counts[kind] += lines_of(path.read_text(encoding="utf-8"), kind == ".py")
    return counts[".rules"], counts[".py"], counts[""]


def peer(root: Path, file: str, name: str, runtime: str) -> tuple[int, int]:
    """Lines of tinygrad's renderer class and of its runtime."""
    text = (root / file).read_text(encoding="utf-8")
    (found,) = (n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.ClassDef) and n.name == name)
    body = "\n".join(text.splitlines()[found.lineno - 1 : found.end_lineno])
    return lines_of(body, True), lines_of((root / runtime).read_text(encoding="utf-8"), True)


def main() -> None:
    """Prints one table."""
    spec = importlib.util.find_spec("tinygrad")
    root = Path(spec.origin).parent if spec is not None and spec.origin is not None else None
    print("| backend | rules | runtime | device text | tinygrad: renderer | runtime |")
    print("|---|---|---|---|---|---|")
    for folder in sorted(path for path in data_folder("backends").iterdir() if (path / "device.py").is_file()):
        row = [str(count) for count in ours(folder)]
        if folder.name in PEERS and root is not None:
            row += [str(count) for count in peer(root, *PEERS[folder.name])]
        else:
            row += ["", ""]
        print(f"| {folder.name} | {' | '.join(row)} |")


if __name__ == "__main__":
    main()
