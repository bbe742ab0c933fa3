"""A cache on disk: bytes by key, in one SQLite file that several processes share.

What is in the cache can be made again, so nothing that goes wrong with it stops the program: a file that
cannot be read is started afresh, one that cannot be written is done without; either is said once.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rulegrad.support import forks
from rulegrad.support.messages import say
from rulegrad.support.paths import cache_folder, doubt

if TYPE_CHECKING:
    import sqlite3

T = TypeVar("T")

_SCHEMA = """
create table if not exists entries (
    kind text, key text, value blob, digest blob, used real, primary key (kind, key)
) without rowid
"""
_BUSY_SECONDS = 10.0
_TURN_POLL_SECONDS = 0.002
_MOST_SECONDS_OF_MAKING = 120.0
_FULL = 7 / 8  # of what may be kept is left when the oldest entries go
_MORE = 17 / 16  # times as many bytes are in use when entries are looked at again that were few enough
# Errors that say nothing against the contents of the file.
_NOT_DAMAGE = ("locked", "busy", "readonly", "unable to open", "disk is full", "disk i/o")


def file_stamp(path: Path) -> str:
    """A key that changes when a file does: its path, the time of its last change and its size.

    >>> file_stamp(Path("/nowhere/at/all"))
    '/nowhere/at/all:missing'
    """
    try:
        status = path.stat()
    except OSError:
        return f"{path}:missing"
    return f"{path}:{status.st_mtime_ns}:{status.st_size}"


class DiskCache:
    """Entries `(kind, key) -> bytes` in one file of the cache folder.

    >>> cache = DiskCache("example.sqlite")
    >>> cache.put("greeting", "en", b"hello")
    >>> cache.get("greeting", "en")
    b'hello'

    At most `most_bytes` are kept; the entries that have not been used for longest go first. Safe to use
    from several threads and processes.
    """

    def __init__(self, file_name: str, most_bytes: int = 256 << 20) -> None:
        self.file_name = file_name
        self.most_bytes = most_bytes
        self._lock = forks.lock(waits=True)
        self._connection: sqlite3.Connection | None = None
        self._opened_by: tuple[int, Path] | None = None
        self._off = False
        self._turns: dict[Path, int] = {}  # open files
        self._enough = 0  # bytes in use up to which entries are not looked at again

    @property
    def path(self) -> Path | None:
        """The file; None when the cache folder cannot be made."""
        folder = cache_folder()
        return folder / self.file_name if folder else None

    def get(self, kind: str, key: str) -> bytes | None:
        """The entry, or None when there is none (or it is damaged)."""
        row = self._attempt(lambda db: _read(db, kind, key), None)
        if row is None:
            return None
        value, digest = row
        return value if _digest(value) == digest else None

    def put(self, kind: str, key: str, value: bytes) -> None:
        """Keeps the entry, in place of an earlier one with this key."""
        self.put_all(kind, {key: value})

    def put_all(self, kind: str, entries: Mapping[str, bytes]) -> None:
        """Keeps several entries at once: writing each alone takes as long."""
        self._attempt(lambda db: self._write(db, kind, entries), None)

    @contextlib.contextmanager
    def making(self, kind: str, key: str) -> Iterator[None]:
        """Lets one process at a time make an entry: the others wait here, and find it when they look again.

        So ranks that start together compile each kernel once. Who dies over it lets the next one in, and nobody waits
        for more than two minutes. Where files cannot be locked, nobody waits.

        >>> cache = DiskCache("example.sqlite")
        >>> with cache.making("greeting", "de"):
        ...     cache.put("greeting", "de", b"hallo")
        """
        handle = self._file_of_turns(kind)
        if handle is None:
            yield
            return
        import fcntl  # late: not on Windows

        place = int.from_bytes(_digest(key.encode())[:4], "little") >> 1
        _take_turn(handle, place)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.lockf(handle, fcntl.LOCK_UN, 1, place)

    def _file_of_turns(self, kind: str) -> int | None:
        """A file of which each byte stands for entries of this kind; None where there are no locks.

        It stays open: a process that closes a file loses all its locks of it, those of other threads too.
        """
        folder = cache_folder()
        if sys.platform == "win32" or folder is None or self._off:
            return None
        path = folder / f"{self.file_name}.{kind.replace(' ', '-')}-turns"
        with self._lock:
            if path not in self._turns:
                try:
                    self._turns[path] = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
                except OSError:
                    return None
            return self._turns[path]

    def entries(self) -> list[tuple[str, str, int, float]]:
        """All entries: kind, key, size in bytes, and when it was last used (seconds since 1970)."""
        query = "select kind, key, length(value), used from entries order by used desc"
        return self._attempt(lambda db: db.execute(query).fetchall(), [])

    def clear(self) -> None:
        """Removes all entries."""
        self._attempt(lambda db: db.execute("delete from entries"), None)

    def close(self) -> None:
        """Closes the file; the next use opens it again."""
        with self._lock:
            # A connection that another process opened (before a fork) must not be touched here.
            if self._connection is not None and self._opened_by and self._opened_by[0] == os.getpid():
                self._connection.close()
            self._connection = None

    def _attempt(self, work: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        import sqlite3  # late: with what it imports it takes 2 ms, and many modules name their cache

        with self._lock:
            for attempt in (1, 2):
                try:
                    connection = self._open()
                    return work(connection) if connection else otherwise
                except UnicodeDecodeError as error:  # SQLite's message quotes what is damaged
                    self._rebuild(error, last=attempt == 2)
                except sqlite3.Error as error:
                    if any(text in str(error).lower() for text in _NOT_DAMAGE):
                        self._give_up(error)
                        return otherwise
                    self._rebuild(error, last=attempt == 2)
            return otherwise

    def _open(self) -> sqlite3.Connection | None:
        import sqlite3  # late: it takes 2 ms, and many modules name their cache

        path = self.path
        if path is None or self._off:
            return None
        if self._connection is None or self._opened_by != (os.getpid(), path):
            self.close()
            if path.is_symlink() or path.exists():
                problem = doubt(path)
                if problem:
                    raise sqlite3.OperationalError(f"unable to open it: {problem}")
            self._opened_by = (os.getpid(), path)
            self._connection = sqlite3.connect(
                path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._connection.execute("pragma synchronous = off")  # a lost entry costs a compilation
            self._connection.execute(_SCHEMA)
        return self._connection

    def _write(self, db: sqlite3.Connection, kind: str, entries: Mapping[str, bytes]) -> None:
        rows = [(kind, key, value, _digest(value), time.time()) for key, value in entries.items()]
        with _transaction(db):
            db.executemany("insert or replace into entries values (?, ?, ?, ?, ?)", rows)
        in_use = _bytes_in_use(db)
        if in_use > max(self.most_bytes, self._enough):
            self._enough = 0 if self._remove_oldest(db) else int(in_use * _MORE)

    def _remove_oldest(self, db: sqlite3.Connection) -> bool:
        """Makes room for more than one entry, as this looks at all of them; whether there was one too many."""
        query = "select kind, key, length(value) from entries order by used"
        entries: list[tuple[str, str, int]] = db.execute(query).fetchall()
        total = left = sum(size for _, _, size in entries)
        with _transaction(db):
            for kind, key, size in entries:
                if left <= self.most_bytes * _FULL:
                    break
                db.execute("delete from entries where kind = ? and key = ?", (kind, key))
                left -= size
        return left < total

    def _give_up(self, error: sqlite3.Error) -> None:
        """Full, read-only or locked: this use goes without the cache, and a lasting cause switches it off."""
        if "locked" in str(error) or "busy" in str(error):
            return
        self.close()
        self._off = True
        say(f"the cache {self.path} cannot be used ({error}); going on without it")

    def _rebuild(self, error: Exception, last: bool) -> None:
        path = self.path
        self.close()
        try:
            if path is not None:
                path.unlink(missing_ok=True)
                path.with_name(path.name + "-journal").unlink(missing_ok=True)
        except OSError:
            last = True
        if last:
            self._off = True
            say(f"the cache {path} cannot be used ({error}); going on without it")
        else:
            say(f"the cache {path} was damaged ({error}) and is started afresh")


_shared = DiskCache("cache.sqlite")


def shared() -> DiskCache:
    """The cache of this user: compiled programs, and which devices work."""
    return _shared


def _read(db: sqlite3.Connection, kind: str, key: str) -> tuple[bytes, bytes] | None:
    row: tuple[bytes, bytes, float] | None = db.execute(
        "select value, digest, used from entries where kind = ? and key = ?", (kind, key)
    ).fetchone()
    if row is None:
        return None
    now = time.time()
    if now - row[2] > 3600:  # writing at every read would make readers wait for each other
        db.execute("update entries set used = ? where kind = ? and key = ?", (now, kind, key))
    return row[:2]


@contextlib.contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    """All changes inside, or none."""
    try:
        db.execute("begin immediate")  # a signal may arrive as soon as it has begun
        yield
        db.execute("commit")
    except BaseException:
        if db.in_transaction:
            db.execute("rollback")
        raise


def _take_turn(handle: int, place: int) -> None:
    """Waits for the lock of a byte of a file. It is the process's: a child made by fork has it not."""
    import fcntl  # late: not on Windows

    until = time.monotonic() + _MOST_SECONDS_OF_MAKING
    while time.monotonic() < until:
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
            return
        except (BlockingIOError, PermissionError):  # another process has it
            time.sleep(_TURN_POLL_SECONDS)
        except OSError:  # a file system without locks
            return


def _bytes_in_use(db: sqlite3.Connection) -> int:
    """The pages of the file that hold something; known without reading them."""
    size, pages, free = (
        db.execute(f"pragma {name}").fetchone()[0] for name in ("page_size", "page_count", "freelist_count")
    )
    return int(size * (pages - free))


def _digest(value: bytes) -> bytes:
    import hashlib  # late: it takes 3 ms, and many modules name their cache

    return hashlib.blake2b(value, digest_size=16).digest()
