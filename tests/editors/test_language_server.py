"""The language server, from end to end: a process, spoken to over its standard input and output."""

from __future__ import annotations

import itertools
import json
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rulegrad.support.paths import data_folder

pytest.importorskip("pygls")

TEXT = """\
# a user's rules
ruleset mine:
    # x * 1 == x
    mul_one: x * 1 -> x
        test x:float32 * 1 -> x
    halves: where(_, x, _) -> double(ADD(x, x))
        after mul_one
        if vmin(x) > 0
        test on opencl fails i:int32 + 1
def double(x) = x * 2
pass use_mine rewrite children_first: mine + algebra
pass numbered collect:
    fact place(b) number: b@BUFFER()
    named: b@BUFFER() -> BUFFER[..b, id=place(b)]()
        test BUFFER[id=7, shape=(), dtype=int32]() -> BUFFER[id=0, shape=(), dtype=int32]()
pipeline all:
    use_mine
def steps_on(p) = steps {split i0 by 8; unroll {p}.inner}
"""


class Editor:
    """A client of the language server: requests, notifications, and the last problems of each document."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rulegrad", "language-server", "--stdio"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.messages: queue.Queue[dict[str, Any]] = queue.Queue()
        self.numbers = itertools.count(1)
        self.versions = itertools.count(1)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        out = self.process.stdout
        assert out is not None
        while True:
            length = 0
            while (line := out.readline()) not in (b"\r\n", b""):
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            if not length:
                self.messages.put({})
                return
            self.messages.put(json.loads(out.read(length)))

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def message(self) -> dict[str, Any]:
        """The next one from the server."""
        found = self.messages.get(timeout=120)
        assert found, f"the server ended: {self.process.stderr and self.process.stderr.read().decode()}"
        return found

    def ask(self, method: str, **given: Any) -> Any:
        number = next(self.numbers)
        self._send({"id": number, "method": method, "params": given or None})
        while True:
            message = self.message()
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]

    def tell(self, method: str, **given: Any) -> None:
        self._send({"method": method, "params": given})

    def problems(self, uri: str, version: int) -> list[dict[str, Any]]:
        """The server's problems for a version of a document."""
        while True:
            message = self.message()
            given = message.get("params", {})
            if "diagnostics" in given and (given["uri"], given.get("version")) == (uri, version):
                return given["diagnostics"]

    def open(self, uri: str, text: str) -> list[dict[str, Any]]:
        version = next(self.versions)
        document = {"uri": uri, "languageId": "rulegrad", "version": version, "text": text}
        self.tell("textDocument/didOpen", textDocument=document)
        return self.problems(uri, version)

    def close(self, uri: str) -> None:
        """Closes a document; its problems go."""
        self.tell("textDocument/didClose", textDocument={"uri": uri})
        while True:
            given = self.message().get("params", {})
            if given.get("uri") == uri and given.get("diagnostics") == []:
                return

    def type(self, uri: str, line: int, start: int, end: int, text: str) -> list[dict[str, Any]]:
        """Replaces a piece of a line."""
        at = {"start": {"line": line, "character": start}, "end": {"line": line, "character": end}}
        version = next(self.versions)
        document = {"uri": uri, "version": version}
        self.tell("textDocument/didChange", textDocument=document, contentChanges=[{"range": at, "text": text}])
        return self.problems(uri, version)

    def hover(self, uri: str, text: str, word: str, which: int = 0) -> str:
        found = self.ask("textDocument/hover", textDocument={"uri": uri}, position=position_of(text, word, which))
        return found["contents"]["value"] if found else ""

    def definition(self, uri: str, text: str, word: str, which: int = 0) -> list[tuple[str, int]]:
        place = position_of(text, word, which)
        found = self.ask("textDocument/definition", textDocument={"uri": uri}, position=place)
        return [(Path(one["uri"]).name, one["range"]["start"]["line"]) for one in found]


def position_of(text: str, word: str, which: int = 0) -> dict[str, int]:
    """The `which`-th place of a word."""
    offset = -1
    for _ in range(which + 1):
        offset = text.index(word, offset + 1)
    before = text[:offset]
    return {"line": before.count("\n"), "character": offset - (before.rfind("\n") + 1)}


@pytest.fixture(scope="module")
def editor() -> Iterator[Editor]:
    one = Editor()
    answer = one.ask("initialize", processId=None, rootUri=None, capabilities={})
    assert answer["capabilities"]["hoverProvider"] and answer["capabilities"]["documentFormattingProvider"]
    one.tell("initialized")
    yield one
    one.ask("shutdown")
    one.tell("exit")
    assert one.process.wait(timeout=60) == 0


@pytest.fixture
def uri(editor: Editor, tmp_path: Path) -> Iterator[str]:
    """An open document with TEXT, without problems."""
    name = (tmp_path / "mine.rules").as_uri()
    assert editor.open(name, TEXT) == []
    yield name
    editor.close(name)


def test_problems_while_typing(editor: Editor, uri: str) -> None:
    line = TEXT.split("\n").index("    mul_one: x * 1 -> x")
    (found,) = editor.type(uri, line, 22, 23, "y")
    assert found["code"] == "unbound-name" and found["severity"] == 1 and found["source"] == "rulegrad"
    assert found["range"] == {"start": {"line": line, "character": 22}, "end": {"line": line, "character": 23}}
    (found,) = editor.type(uri, line, 13, 23, "x *")
    assert found["code"] == "expected"
    assert editor.type(uri, line, 13, 16, "x * 1 -> x") == []


def test_half_typed_text_is_no_end(editor: Editor, uri: str) -> None:
    """Every beginning of the text, typed in one go after the other."""
    end = {"line": TEXT.count("\n"), "character": 0}
    for length in range(0, len(TEXT), 13):
        whole = {"start": {"line": 0, "character": 0}, "end": end}
        document = {"uri": uri, "version": next(editor.versions)}
        change = {"range": whole, "text": TEXT[:length] + "(" * (length % 2)}
        editor.tell("textDocument/didChange", textDocument=document, contentChanges=[change])
        end = {"line": change["text"].count("\n") + 1, "character": 0}
        place = {"line": change["text"].count("\n"), "character": 0}
        for question in ("hover", "definition", "completion"):
            editor.ask(f"textDocument/{question}", textDocument={"uri": uri}, position=place)
        for question in ("documentSymbol", "formatting"):
            options = {"options": {"tabSize": 4, "insertSpaces": True}} if question == "formatting" else {}
            editor.ask(f"textDocument/{question}", textDocument={"uri": uri}, **options)


def test_hover(editor: Editor, uri: str) -> None:
    op = editor.hover(uri, TEXT, "ADD")
    assert "op ADD(a: T, b: T) -> T where T: Scalar" in op and "written `+`" in op and "eval      a + b" in op
    assert "`float32`" in op and "`Associative`" in op and "rules/ops/ops.rules:" in op
    assert "op WHERE(condition: bool, a: T, b: T)" in editor.hover(uri, TEXT, "where")
    assert "lower end of the interval" in editor.hover(uri, TEXT, "vmin")
    assert "def double(x) = x * 2" in editor.hover(uri, TEXT, "double")
    rule = editor.hover(uri, TEXT, "mul_one", 1)
    assert "x * 1 == x" in rule and "test x:float32 * 1 -> x" in rule and "rule mine.mul_one" in rule
    assert "kind float" in editor.hover(uri, TEXT, "float32")
    assert "2 rules" in editor.hover(uri, TEXT, "mine +")
    assert editor.hover(uri, TEXT, "user's") == ""
    assert "op SPLIT[loop: tuple" in editor.hover(uri, TEXT, "split i0")
    assert "op UNROLL[loop: tuple" in editor.hover(uri, TEXT, "unroll {p}")


def test_definition(editor: Editor, uri: str) -> None:
    ops = (data_folder("rules") / "ops" / "ops.rules").read_text(encoding="utf-8").split("\n")
    add = next(k for k, line in enumerate(ops) if line.startswith("op ADD("))
    assert editor.definition(uri, TEXT, "ADD") == [("ops.rules", add)]
    assert editor.definition(uri, TEXT, "mul_one", 1) == [("mine.rules", 3)]
    assert editor.definition(uri, TEXT, "double") == [("mine.rules", 9)]
    assert editor.definition(uri, TEXT, "mine +") == [("mine.rules", 1)]
    assert editor.definition(uri, TEXT, "algebra")[0][0] == "algebra.rules"
    assert editor.definition(uri, TEXT, "use_mine", 1) == [("mine.rules", 10)]
    assert editor.definition(uri, TEXT, "place(b)]") == [("mine.rules", 12)]
    assert editor.definition(uri, TEXT, "opencl")[0][0] == "opencl.rules"
    assert editor.definition(uri, TEXT, "x * 1 ->") == []


def test_completion(editor: Editor, uri: str) -> None:
    def words(word: str, which: int = 0) -> dict[str, str]:
        place = position_of(TEXT, word, which)
        found = editor.ask("textDocument/completion", textDocument={"uri": uri}, position=place)
        return {one["label"]: one["detail"] for one in found}

    assert words("split i0")["split"] == "split {loop} by {by} tail {tail}"
    assert {"split", "reorder"} <= words("unroll {p}").keys()
    in_rule = words("ADD")
    assert in_rule["ADD"].startswith("op ADD(") and "double" in in_rule and in_rule["vmin"].startswith("vmin(x): ")
    assert "place" in words("place(b)]") and "place" not in in_rule
    # of other files, what they export
    assert "extent_of" in in_rule and "unnamed" not in in_rule
    assert {"test", "if", "after"} <= words("test on").keys()
    assert {"opencl", "webgpu"} <= words("opencl").keys() and "ADD" not in words("opencl")
    assert "ruleset" in words("ruleset mine") and "test" not in words("ruleset mine")
    assert {"mine", "algebra"} <= words("algebra").keys() and "ADD" not in words("algebra")
    assert {"use_mine", "symbolic"} <= words("use_mine", 1).keys() and "mine" not in words("use_mine", 1)


RECORDS = """\
# values with named parts
record pair(first, second)
table units(T: dtype, lanes: int):
    float32 8
def swapped(p) = pair(..p, first=p.second, second=p.first)
"""


def test_records(editor: Editor, tmp_path: Path) -> None:
    uri = (tmp_path / "records.rules").as_uri()
    editor.open(uri, RECORDS)
    found = editor.ask("textDocument/completion", textDocument={"uri": uri}, position=position_of(RECORDS, "second,"))
    words = {one["label"]: one["detail"] for one in found}
    assert words["first"] == "record pair" and words["lanes"] == "table units: int" and words["bits"] == "of a dtype"
    assert words["axes"].endswith(": ints") and "swapped" not in words and "vmin" not in words
    assert "record pair(first, second)" in editor.hover(uri, RECORDS, "pair", 1)
    assert editor.definition(uri, RECORDS, "pair", 1) == [("records.rules", 1)]


FIRST = """\
export def triple(x) = x * 3
def double(x) = x * 2
"""
SECOND = """\
# rules that take a name from a file beside this one
use ./first: triple
ruleset second:
    three: x + 1 -> triple(x)
    two: x + 2 -> double(x)
"""


def test_names_of_other_files(editor: Editor, tmp_path: Path) -> None:
    """Definition, hover and completion follow `use`: the file that it names is meant, and private names stay private."""
    first, other, second = ((tmp_path / name).as_uri() for name in ("first.rules", "other.rules", "second.rules"))
    editor.open(other, FIRST)
    editor.open(first, FIRST)
    assert "missing-use" in [one["code"] for one in editor.open(second, SECOND)]
    for which in range(2):
        assert editor.definition(second, SECOND, "triple", which) == [("first.rules", 0)]
    assert "def triple(x) = x * 3" in editor.hover(second, SECOND, "triple", 1)
    assert editor.definition(second, SECOND, "double") == []
    assert editor.hover(second, SECOND, "double") == ""

    def words(word: str) -> list[str]:
        place = position_of(SECOND, word)
        found = editor.ask("textDocument/completion", textDocument={"uri": second}, position=place)
        return [one["label"] for one in found]

    assert "triple" in words("double(x)") and "double" not in words("double(x)")
    assert words("triple\n") == ["triple"]
    assert {"kernel/ranges", "loops/lanes"} <= set(words("./first"))
    for uri in (second, first, other):
        editor.close(uri)


def test_outline(editor: Editor, uri: str) -> None:
    found = editor.ask("textDocument/documentSymbol", textDocument={"uri": uri})
    assert [(one["name"], one["detail"]) for one in found] == [
        ("mine", "ruleset"), ("double", "def"), ("use_mine", "pass"), ("numbered", "pass"), ("all", "pipeline"),
        ("steps_on", "def"),
    ]  # fmt: skip
    assert [child["name"] for child in found[0]["children"]] == ["mul_one", "halves"]
    assert [child["name"] for child in found[3]["children"]] == ["place", "named"]
    assert found[0]["range"] == {"start": {"line": 1, "character": 0}, "end": {"line": 8, "character": 40}}


def test_formatting(editor: Editor, uri: str) -> None:
    options = {"tabSize": 4, "insertSpaces": True}
    assert editor.ask("textDocument/formatting", textDocument={"uri": uri}, options=options) == []
    editor.type(uri, 3, 13, 18, "x*1")
    (edit,) = editor.ask("textDocument/formatting", textDocument={"uri": uri}, options=options)
    assert edit["newText"] == TEXT


def test_our_own_files(editor: Editor) -> None:
    path = data_folder("rules") / "kernel" / "where.rules"
    text = path.read_text(encoding="utf-8")
    assert [one for one in editor.open(path.as_uri(), text) if one["severity"] == 1] == []
    assert "ruleset where_simplification" in editor.hover(path.as_uri(), text, "where_simplification")
    editor.close(path.as_uri())
