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
from rulegrad.support import diskcache
from rulegrad.support.diskcache import DiskCache
from rulegrad.support.paths import cache_folder


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


def test_damage_that_a_message_quotes(folder: Path) -> None:
    cache = DiskCache("a.sqlite")
    cache.put("kind", "key", b"value")
    cache.close()
    contents = (folder / "a.sqlite").read_bytes()
    damaged = contents.replace(b"entriesentries", b"\xdcntries\xdcntries").replace(b"CREATE TABLE", b"CREATE TABL)")
    assert contents.count(b"entriesentries") == 1 and damaged != contents
    (folder / "a.sqlite").write_bytes(damaged)
    other = DiskCache("a.sqlite")
    assert other.get("kind", "key") in (None, b"value")
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
    cache = DiskCache("a.sqlite", most_bytes=25_000)
    for key in ("a", "b"):
        cache.put("kind", key, bytes(10_000))
    assert cache.get("kind", "a") is not None  # now b has not been used for longest
    cache.put("kind", "c", bytes(10_000))
    assert {key for _, key, _, _ in cache.entries()} == {"a", "c"}


def test_a_file_that_is_larger_than_its_entries_is_not_looked_through_at_each_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[None] = []
    remove = DiskCache._remove_oldest
    monkeypatch.setattr(DiskCache, "_remove_oldest", lambda *arguments: looked.append(remove(*arguments)))
    cache = DiskCache("a.sqlite", most_bytes=3 << 10)  # a file of two pages has more
    cache.put_all("kind", {str(k): bytes(100) for k in range(10)})
    for k in range(10):
        cache.put("kind", str(k), bytes(100))
    assert len(looked) == 1 and len(cache.entries()) == 10


def test_several_processes(folder: Path) -> None:
    code = (
        "import sys\n"
        "from rulegrad.support.diskcache import DiskCache\n"
        "cache = DiskCache('a.sqlite')\n"
        "for k in range(50):\n"
        "    cache.put('kind', f'{sys.argv[1]} {k}', bytes(2000))\n"
        "    assert cache.get('kind', f'{sys.argv[1]} {k}') == bytes(2000)\n"
    )
    environment = {**os.environ, "RULEGRAD_CACHE": str(folder)}
    running = [subprocess.Popen([sys.executable, "-c", code, str(n)], env=environment) for n in range(3)]
    assert [process.wait() for process in running] == [0, 0, 0]
    assert len(DiskCache("a.sqlite").entries()) == 150


# ---- a cache that another user could have filled ----

only_posix = pytest.mark.skipif(sys.platform == "win32", reason="folders of a Windows profile are the user's")


@only_posix
def test_the_folder_is_made_for_this_user_alone(tmp_path: Path) -> None:
    with config(cache=tmp_path / "new" / "cache"):
        assert DiskCache("a.sqlite").path is not None
        assert (tmp_path / "new" / "cache").stat().st_mode & 0o777 == 0o700
    (tmp_path / "open").mkdir(mode=0o755)
    with config(cache=tmp_path / "open"):  # one that others can read is closed
        assert cache_folder() is not None and (tmp_path / "open").stat().st_mode & 0o777 == 0o700


@only_posix
@pytest.mark.parametrize("kind", ["writable", "link", "another's", "link to a file", "another's file"])
def test_what_others_may_have_written_is_not_used(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real, folder = tmp_path / "real", tmp_path / f"cache of {kind}"
    with config(cache=real):
        DiskCache("a.sqlite").put("kind", "key", b"planted")
    if kind == "link":
        folder.symlink_to(real)
    elif kind == "link to a file":
        folder.mkdir(mode=0o700)
        (folder / "a.sqlite").symlink_to(real / "a.sqlite")
    else:
        real.rename(folder)
    if kind == "writable":
        folder.chmod(0o770)
    elif kind.startswith("another's"):
        owner = os.geteuid() + (kind == "another's")
        monkeypatch.setattr("os.geteuid", lambda: owner)
    if kind == "another's file":
        status = (folder / "a.sqlite").lstat
        monkeypatch.setattr(Path, "lstat", lambda self: _of_another(status()) if self.suffix else os.lstat(self))
    with config(cache=folder):
        cache = DiskCache("a.sqlite")
        assert cache.get("kind", "key") is None
        cache.put("kind", "key", b"mine")  # goes nowhere
        assert cache.get("kind", "key") is None
        DiskCache("a.sqlite").get("kind", "key")
    said = capsys.readouterr().err
    reason = {"writable": "other users may write into it", "link": "is a link", "another's": "belongs to another user"}
    assert reason[kind.removesuffix(" to a file").removesuffix(" file")] in said
    if "file" not in kind:
        assert said.count("is not used") == 1 and "RULEGRAD_CACHE" in said


def _of_another(status: os.stat_result) -> os.stat_result:
    return os.stat_result((*status[:4], status.st_uid + 1, *status[5:10]))


@only_posix
def test_without_a_cache_everything_works(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    code = "from rulegrad import Tensor\nfor d in ('numpy', 'c'): print((Tensor([1.0], device=d) + 1).item())"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "RULEGRAD_CACHE": str(tmp_path / "link")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.split() == ["2.0", "2.0"] and done.stderr.count("is a link") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


MAKING = """\
import sys, time
from rulegrad.support.diskcache import DiskCache
cache = DiskCache("a.sqlite")
with cache.making("kind", "key"):
    if cache.get("kind", "key") is None:
        print("makes it", flush=True)
        if sys.argv[1] == "dies":
            time.sleep(60)
        time.sleep(0.2)
        cache.put("kind", "key", b"made")
"""


def making(folder: Path, how: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "RULEGRAD_CACHE": str(folder)}
    return subprocess.Popen([sys.executable, "-c", MAKING, how], env=environment, stdout=subprocess.PIPE, text=True)


@pytest.mark.skipif(sys.platform == "win32", reason="files are not locked there")
def test_one_process_at_a_time_makes_an_entry(folder: Path) -> None:
    """And the next one, where it is killed."""
    first = making(folder, "dies")
    assert first.stdout is not None and first.stdout.readline() == "makes it\n"
    others = [making(folder, "makes") for _ in range(3)]
    first.kill()
    first.wait()
    assert sorted(other.communicate(timeout=60)[0] for other in others) == ["", "", "makes it\n"]
    assert DiskCache("a.sqlite").get("kind", "key") == b"made"


def test_nobody_waits_for_ever(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor for an entry of another kind, which who makes this one may need."""
    monkeypatch.setattr(diskcache, "_MOST_SECONDS_OF_MAKING", 0.1)
    first = making(folder, "dies")
    assert first.stdout is not None and first.stdout.readline() == "makes it\n"
    ran = []
    for kind in ("kind", "other"):
        with DiskCache("a.sqlite").making(kind, "key"):
            ran.append(kind)
    first.kill()
    first.communicate()
    assert ran == ["kind", "other"]
