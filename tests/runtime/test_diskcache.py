"""The cache on disk: entries, damage, several processes, limits."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rulegrad.config import config
from rulegrad.runtime import diskcache
from rulegrad.runtime.diskcache import DiskCache


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with config(cache=tmp_path / "cache"):
        yield tmp_path / "cache"


def test_entries(folder: Path) -> None:
    cache = DiskCache("a.sqlite")
    assert cache.get("kind", "key") is None
    cache.put("kind", "key", b"one")
    cache.put("other", "key", b"\0two")
    assert cache.get("kind", "key") == b"one"
    cache.put("kind", "key", b"three")
    assert DiskCache("a.sqlite").get("kind", "key") == b"three"
    assert DiskCache("a.sqlite").get("other", "key") == b"\0two"
    assert sorted((kind, key, size) for kind, key, size, _ in cache.entries()) == [
        ("kind", "key", 5),
        ("other", "key", 4),
    ]
    cache.clear()
    assert cache.entries() == [] and cache.get("kind", "key") is None


def test_the_folder_is_followed(folder: Path, tmp_path: Path) -> None:
    cache = DiskCache("a.sqlite")
    cache.put("kind", "key", b"here")
    with config(cache=tmp_path / "elsewhere"):
        assert cache.get("kind", "key") is None
        cache.put("kind", "key", b"there")
    assert cache.get("kind", "key") == b"here"


@pytest.mark.parametrize("damage", [b"not a database at all, " * 10, b"SQLite format 3\0" + bytes(range(256)) * 30])
def test_a_damaged_file_is_started_afresh(folder: Path, damage: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    folder.mkdir()
    (folder / "a.sqlite").write_bytes(damage)
    cache = DiskCache("a.sqlite")
    cache.put("kind", "key", b"value")
    assert cache.get("kind", "key") == b"value"
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1 and "was damaged" in lines[0] and "started afresh" in lines[0]


def test_damage_while_it_is_open(folder: Path) -> None:
    cache = DiskCache("a.sqlite")
    for k in range(100):
        cache.put("kind", str(k), os.urandom(1000))
    contents = bytearray((folder / "a.sqlite").read_bytes())
    contents[200:] = os.urandom(len(contents) - 200)
    (folder / "a.sqlite").write_bytes(contents)
    other = DiskCache("a.sqlite")
    for k in range(100):
        other.get("kind", str(k))
    other.put("kind", "new", b"value")
    assert other.get("kind", "new") == b"value"


def test_a_value_that_has_changed_on_disk_is_no_entry(folder: Path) -> None:
    cache = DiskCache("a.sqlite")
    cache.put("kind", "key", b"value")
    cache.close()
    with sqlite3.connect(folder / "a.sqlite") as database:
        database.execute("update entries set value = ?", (b"wrong",))
    database.close()
    assert cache.get("kind", "key") is None


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with config(cache=tmp_path / "file" / "cache"):
        cache = DiskCache("a.sqlite")
        cache.put("kind", "key", b"value")
        assert cache.path is None and cache.get("kind", "key") is None


def test_a_file_that_cannot_be_opened(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "a.sqlite").mkdir(parents=True)
    cache = DiskCache("a.sqlite")
    cache.put("kind", "key", b"value")
    assert cache.get("kind", "key") is None
    assert capfd.readouterr().err.count("going on without it") == 1


def test_the_oldest_entries_go_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(10_000, 1_000_000, 10_000))
    monkeypatch.setattr(diskcache.time, "time", lambda: float(next(clock)))
    cache = DiskCache("a.sqlite", most_bytes=250)
    for key in ("a", "b"):
        cache.put("kind", key, bytes(100))
    assert cache.get("kind", "a") is not None  # now b has not been used for longest
    cache.put("kind", "c", bytes(100))
    assert {key for _, key, _, _ in cache.entries()} == {"a", "c"}


def test_several_processes(folder: Path) -> None:
    code = (
        "import sys\n"
        "from rulegrad.runtime.diskcache import DiskCache\n"
        "cache = DiskCache('a.sqlite')\n"
        "for k in range(50):\n"
        "    cache.put('kind', f'{sys.argv[1]} {k}', bytes(2000))\n"
        "    assert cache.get('kind', f'{sys.argv[1]} {k}') == bytes(2000)\n"
    )
    environment = {**os.environ, "RULEGRAD_CACHE": str(folder)}
    running = [subprocess.Popen([sys.executable, "-c", code, str(n)], env=environment) for n in range(3)]
    assert [process.wait() for process in running] == [0, 0, 0]
    assert len(DiskCache("a.sqlite").entries()) == 150
