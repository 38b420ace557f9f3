"""Results that outlive the process: one SQLite file, one writer, one commit a row."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any

from ascendsim.core import plugins
from ascendsim.core.errors import InputError
from ascendsim.core.files import check_database
from ascendsim.core.version import __version__
from ascendsim.sweep.key import fingerprint
from ascendsim.sweep.space import Point

fcntl: Any = import_module("fcntl") if find_spec("fcntl") else None  # none on Windows: no lock there

SCHEMA = 2  # of form 1, rows have no sum: they are of older code, whose answers nobody asks for
_APPLICATION = 0x61736977  # "asiw": that a database is a store of sweeps, and nobody else's
_TABLE = """create table if not exists points (
    key text primary key, point text not null, state text not null, figures text not null,
    error text not null, seconds real not null, attempts integer not null, made_by text not null,
    sum text not null default '')"""
_NUMBER = re.compile(rb"[0-9]{1,20}")  # of a process, all that a lock holds
_COLUMNS = "key, state, figures, error, seconds"  # what an answer is, and what its sum is over
_MOST_LISTED = 10
_LOG = logging.getLogger("ascendsim")
DONE, FAILED = "done", "failed"


@dataclass(frozen=True)
class Answer:
    """What came of one point.

    Attributes:
        key: Of the point.
        state: "done" or "failed".
        figures: By column; empty if it failed.
        error: Why it failed.
        seconds: Wall time that it took.
        attempts: How often it was computed.
    """

    key: str
    state: str
    figures: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""
    seconds: float = 0.0
    attempts: int = 1


class Store:
    """Answers by key.

    Args:
        path: Database file; made if it is not there. None = in memory, gone with the process.

    Raises:
        InputError: If the path is a folder or a device, read-only, no database, one of something else or of a
            newer ascendsim, cannot be written, is damaged as a whole, or another process is writing to it.

    Attributes:
        path: As given.
        damaged: Numbers of the rows that are not what was written, by what SQLite calls them (rowid). They
            were taken out, and a line of the log says so: their points are computed again.
    """

    def __init__(self, path: str | PathLike[str] | None) -> None:
        self.path = None if path is None else Path(path)
        place = None if path is None else check_database(path)
        self._lock = None if place is None else _locked(place, self._subject)
        try:
            with self._told():
                self._database = sqlite3.connect(":memory:" if place is None else place)
                self._database.text_factory = lambda text: text.decode("utf-8", "replace")
                self._prepare()
                self.damaged = self._damaged()
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        said = {
            name: self._database.execute(f"pragma {name}").fetchone()[0]
            for name in ("application_id", "user_version")
        }
        tables = self._database.execute("select count(*) from sqlite_master").fetchone()[0]
        if tables and said["application_id"] != _APPLICATION:
            raise InputError(self._subject, "is a database of something else", remedy="choose another file")
        if said["user_version"] > SCHEMA:
            raise InputError(
                self._subject,
                f"has form {said['user_version']}",
                f"{SCHEMA} or older",
                "a newer ascendsim wrote it: use that one",
            )
        self._database.execute("pragma journal_mode = wal")
        self._database.execute("pragma synchronous = normal")
        with self._database:
            self._database.execute(_TABLE)
            if tables and said["user_version"] < SCHEMA:
                self._database.execute("alter table points add column sum text not null default ''")
            self._database.execute(f"pragma application_id = {_APPLICATION}")
            self._database.execute(f"pragma user_version = {SCHEMA}")

    def _damaged(self) -> tuple[int, ...]:
        """Takes out rows whose sum is not their own; says which."""
        rows = self._database.execute(f"select rowid, sum, {_COLUMNS} from points where sum != ''")
        found = tuple(number for number, told, *row in rows if told != _sum_of(row))
        if found:
            with self._database:
                self._database.executemany("delete from points where rowid = ?", [(one,) for one in found])
            more = ", ..." if len(found) > _MOST_LISTED else ""
            listed = ", ".join(map(str, found[:_MOST_LISTED])) + more
            what = "rows are damaged and their points" if len(found) > 1 else "row is damaged and its point"
            _LOG.warning("%s: %d %s computed again: %s", self._subject, len(found), what, listed)
        return found

    @property
    def _subject(self) -> str:
        return f"store {str(self.path)!r}"

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Says in the project's way what SQLite cannot do."""
        try:
            yield
        except sqlite3.OperationalError as error:
            where = "choose another place, or make room: what was done before is kept"
            raise InputError(self._subject, f"cannot be used ({error})", remedy=where) from None
        except sqlite3.Error as error:  # malformed, or of something else
            where = "choose another file: all points are computed again"
            raise InputError(self._subject, f"cannot be used ({error})", remedy=where) from None

    def get(self, key: str) -> Answer | None:
        """The answer to a point, None if there is none."""
        with self._told():
            row = self._database.execute(
                f"select sum, attempts, {_COLUMNS} from points where key = ?", (key,)
            ).fetchone()
        if row is None or row[0] != _sum_of(row[2:]) or row[2] != key:  # the file's index may be damaged
            return None
        _, attempts, _, state, figures, error, seconds = row
        return Answer(key, state, json.loads(figures), error, seconds, attempts)

    def put(self, point: Point, answer: Answer) -> Answer:
        """Keeps an answer, at once; returns it with the number of times that the point was computed."""
        figures = json.dumps(dict(answer.figures))
        row = (answer.key, answer.state, figures, answer.error, float(answer.seconds))
        with self._told(), self._database:
            self._database.execute(
                f"insert into points ({_COLUMNS}, point, attempts, made_by, sum) "
                "values (?, ?, ?, ?, ?, ?, 1, ?, ?) on conflict (key) do update set "
                "state = excluded.state, figures = excluded.figures, error = excluded.error, "
                "seconds = excluded.seconds, attempts = attempts + 1, made_by = excluded.made_by, "
                "sum = excluded.sum",
                (*row, json.dumps(point, sort_keys=True), _made_by(), _sum_of(row)),
            )
        return self.get(answer.key) or answer

    def close(self) -> None:
        """Gives the file free for other processes."""
        if hasattr(self, "_database"):
            self._database.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _made_by() -> str:
    """What computed a row: the versions of ascendsim and of its plugins, and their fingerprint."""
    versions = {"ascendsim": __version__, **plugins.versions()}
    return f"{', '.join(f'{name} {version}' for name, version in versions.items())} {fingerprint()[:12]}"


def _sum_of(row: Sequence[Any]) -> str:
    return hashlib.blake2b(repr(tuple(row)).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _locked(path: Path, subject: str) -> int | None:
    """A lock beside the file, which goes with the process however it ends; it holds the process's number.

    Raises:
        InputError: If there can be none, or another process has it.
    """
    if fcntl is None:
        return None
    handle = -1
    try:
        handle = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, 0o666)
        held = os.pread(handle, 21, 0)
        if held and not _NUMBER.fullmatch(held):
            rule = f"needs {str(path)!r}.lock for its lock, and a file of something else is there"
            raise InputError(subject, rule, remedy="choose another place")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = held.decode("ascii") or "unknown"
            raise InputError(
                subject, f"is being written by process {owner}", remedy="wait for it, or name another file"
            ) from None
        os.truncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
    except BaseException as error:
        if handle >= 0:
            os.close(handle)
        if not isinstance(error, OSError):
            raise
        raise InputError(
            subject, f"cannot be written ({error.strerror})", remedy="choose another place"
        ) from None
    return handle
