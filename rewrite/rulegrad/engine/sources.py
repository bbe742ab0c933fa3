"""The rule files in force, and their text: ours, those of devices, measured numbers, those of users."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

from rulegrad import _core
from rulegrad.config import config
from rulegrad.engine import measured
from rulegrad.errors import RuleError
from rulegrad.support.installed import BACKENDS, RULES, installed
from rulegrad.support.paths import data_folder

if TYPE_CHECKING:
    from rulegrad.lang import syntax

loaded_files: list[Path] = []  # by load_rules, in the order in which they were loaded
allowed_files: set[Path] = set()  # of the loaded ones, those whose externs may run
target_files: list[Path] = []  # of backends outside the distribution


def our_files() -> list[Path]:
    """Ours, the op table first; then the targets'."""
    ours = sorted(_rule_files(data_folder("rules")), key=lambda name: (not name.endswith(f"{os.sep}ops.rules"), name))
    return [*map(Path, ours), *sorted(map(Path, _rule_files(data_folder("backends"))))]


def _rule_files(folder: Path) -> Iterator[str]:
    """All below a folder; each start looks, and Path.rglob takes five times as long."""
    for inside, _, names in os.walk(folder):
        yield from (os.path.join(inside, name) for name in names if name.endswith(".rules"))


def user_files() -> list[Path]:
    """Those of backends outside the distribution, of installed packages, that RULEGRAD_RULES names, that were loaded.

    Each once. They may extend ours: a backend's file too.
    """
    packages = [path.resolve() for found in installed(RULES) for path in found.paths]
    return list(dict.fromkeys((*targets_with_ops(), *target_files, *packages, *config.rules, *loaded_files)))


def is_of_user(location: str) -> bool:
    """Whether a rule, of which this is the file and line, is one of a user's files; a device's are not."""
    devices = {*targets_with_ops(), *target_files}
    return location.rpartition(":")[0] in {shown(path) for path in user_files() if path not in devices}


def files_of_code() -> set[Path]:
    """The rule files whose externs may run code: those that come with code, and those that were loaded so."""
    packages = {path.resolve() for found in installed(RULES) for path in found.paths}
    return {*our_files(), *targets_with_ops(), *target_files, *packages, *allowed_files}


@cache
def targets_with_ops() -> tuple[Path, ...]:
    """The target files that declare ops or dtypes, of the backends that RULEGRAD_BACKENDS and packages name.

    Ops are in force before the first node is made: so these files are read at once, others when a device is opened.
    """
    places = [Path(place).expanduser() for place in config.backends]
    places += [path for found in installed(BACKENDS) for path in found.paths]
    inside = [[place] if (place / "device.py").is_file() else _parents(place) for place in places]
    files = [target_file(folder) for folders in inside for folder in folders]
    return tuple(dict.fromkeys(path for path in files if path.is_file() and declares_ops(path)))


def _parents(place: Path) -> list[Path]:
    return sorted(path.parent for path in place.glob("*/device.py"))


def target_file(folder: Path) -> Path:
    """The rule file of a backend's folder."""
    folder = folder.resolve()
    return folder / f"{folder.name}.rules"


def declares_ops(path: Path) -> bool:
    """Whether a rule file adds to the op table."""
    try:
        return re.search(r"^(op|dtype) ", path.read_text(encoding="utf-8"), re.MULTILINE) is not None
    except (OSError, UnicodeDecodeError):
        return False


def shown(path: Path) -> str:
    """How messages call a file: relative to the folder that holds `rules`, or in full."""
    text = str(path)
    for base in _bases():
        if text.startswith(base):
            return text[len(base) :].replace(os.sep, "/")
    return text


@cache
def _bases() -> tuple[str, ...]:
    return tuple(f"{data_folder(name).parent}{os.sep}" for name in ("rules", "backends"))


class Sources:
    """The text of all rule files, and what follows from it; measured: the files of measured numbers.

    Files that are not read yet may stand for texts: with a warm cache those of the distribution never are.
    """

    __slots__ = ("_content_key", "_files", "_key", "_text_key", "_texts", "measured", "user")

    def __init__(
        self, texts: Sequence[tuple[str, str | Path]], user: frozenset[str], measured: frozenset[str] = frozenset()
    ) -> None:
        self._texts = list(texts)
        self.user = user
        self.measured = measured
        self._files: list[syntax.File] | None = None
        self._key = self._text_key = self._content_key = ""

    @property
    def texts(self) -> list[tuple[str, str]]:
        """The files, as messages call them, and their texts. Raises RuleError for one that cannot be read."""
        for number, (name, text) in enumerate(self._texts):
            if isinstance(text, Path):
                self._texts[number] = (name, read_text(text))
        return cast("list[tuple[str, str]]", self._texts)

    @property
    def key(self) -> str:
        """Changes when a text does, or the compiler; of a file that is not read, when it was written or replaced."""
        if not self._key:
            found = [(name, _stamp(text) if isinstance(text, Path) else text) for name, text in self._texts]
            self._key = _digest(_engine_version(), *(f"{name}\0{name in self.user}\0{text}" for name, text in found))
        return self._key

    @property
    def content_key(self) -> str:
        """Changes when the content of a file does, or of the compiler: wherever and whenever they were written."""
        if not self._content_key:
            texts = (f"{name}\0{name in self.user}\0{text}" for name, text in self.texts)
            self._content_key = _digest(compiler_key(), *texts)
        return self._content_key

    def is_ours(self, path: str) -> bool:
        """Whether a file comes with rulegrad."""
        return path not in self.user and path not in self.measured

    def ours_alone(self) -> Sources:
        """The same without the files of users and the numbers that were measured."""
        return Sources([(path, text) for path, text in self.texts if self.is_ours(path)], frozenset())

    @property
    def text_key(self) -> str:
        """Changes when a rule does: of the text alone, so that it is the same on other machines."""
        if not self._text_key:
            found = [(path, text) for path, text in self.texts if path not in self.measured]
            self._text_key = _digest(*(f"{path if path not in self.user else 'user'}\0{text}" for path, text in found))[
                :16
            ]
        return self._text_key

    @property
    def files(self) -> list[syntax.File]:
        """The checked syntax trees; measured numbers and user files are merged into ours, and edits made.

        Raises RuleError.
        """
        if self._files is None:
            from rulegrad.engine import compiling  # late: with a warm cache rules are not parsed, and it takes 0.1 s

            self._files = compiling.checked_files(self)
        return self._files

    def declarations(self) -> Iterator[syntax.Declaration]:
        """Everything that the files declare."""
        return (d for file in self.files for d in file.declarations)


def our_sources() -> Sources:
    """Our files alone."""
    return Sources([(shown(path), path) for path in our_files()], frozenset())


def read_sources() -> Sources:
    """The files as they are now. Raises RuleError for one that cannot be read."""
    numbers, ours = measured.files(), our_files()
    users = [path for path in user_files() if path not in ours]  # who names one of ours, adds nothing
    others = dict.fromkeys((*numbers, *users))
    texts: list[tuple[str, str | Path]] = [(shown(path), path) for path in ours]
    texts += [(shown(path), read_text(path)) for path in others]
    return Sources(texts, frozenset(map(shown, users)), frozenset(map(shown, numbers)))


def read_text(path: Path) -> str:
    """The text of a rule file. Raises RuleError where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise RuleError(not_utf8(path, error)) from None
    except OSError as error:
        raise RuleError(f"the rule file {path} cannot be read: {error}") from None


def not_utf8(path: Path, error: UnicodeDecodeError) -> str:
    """The place of the first byte of a file that is not UTF-8, and what to do.

    >>> try:
    ...     b"one\\ncaf\\xe9".decode()
    ... except UnicodeDecodeError as error:
    ...     print(not_utf8(Path("a.rules"), error))
    a.rules:2:4: the byte 0xe9 is not UTF-8 (unexpected end of data); save the file as UTF-8
    """
    before = error.object[: error.start]
    line = before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace")
    place = f"{path}:{before.count(bytes([10])) + 1}:{len(line) + 1}"
    return f"{place}: the byte 0x{error.object[error.start]:02x} is not UTF-8 ({error.reason}); save the file as UTF-8"


def _stamp(path: Path) -> str:
    """A stamp that changes when a file is written or another one takes its place, however soon."""
    try:
        found = path.stat()
    except OSError as error:
        raise RuleError(f"the rule file {path} cannot be read: {error}") from None
    return f"{path}\0{found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"


def without_measured(sources: Sources) -> Sources:
    """The same without the numbers that were measured."""
    return Sources([(path, text) for path, text in sources.texts if path not in sources.measured], sources.user)


@cache
def _engine_version() -> str:
    """Changes when the compiler is written, or the instruction set is another."""
    stamps = [(path.name, path.stat().st_mtime_ns, path.stat().st_size) for path in _compiler_files()]
    return repr((_instructions(), stamps))


@cache
def compiler_key() -> str:
    """Changes when the content of the compiler does, or the instruction set."""
    files = (f"{path.name}\0{path.read_text(encoding='utf-8')}" for path in _compiler_files())
    return _digest(repr(_instructions()), *files)


def _digest(*texts: str) -> str:
    import hashlib  # late: it takes 3 ms, and an import of rulegrad needs no rules

    h = hashlib.sha256()
    for text in texts:
        h.update(text.encode())
        h.update(b"\0")
    return h.hexdigest()


def _compiler_files() -> list[Path]:
    """The two packages by which compiled rules, and what is kept of them, are made."""
    here = Path(__file__).parent
    return [*sorted(here.glob("*.py")), *sorted((here.parent / "lang").rglob("*.py"))]


def _instructions() -> tuple[object, ...]:
    """The engine's opcodes, operators and limits that compiled rules are made for."""
    return _core.OPCODES, _core.BINARY_OPERATORS, _core.UNARY_OPERATORS, _core.MOST_PARAMETERS
