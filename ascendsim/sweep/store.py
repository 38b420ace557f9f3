"""Results that outlive the process: one SQLite file, one writer, one commit a row."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Iterator, Mapping
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

SCHEMA = 1
_APPLICATION = 0x61736977  # "asiw": that a database is a store of sweeps, and nobody else's
_TABLE = """create table if not exists points (
    key text primary key, point text not null, state text not null, figures text not null,
    error text not null, seconds real not null, attempts integer not null, made_by text not null)"""
_NUMBER = re.compile(rb"[0-9]{1,20}")  # of a process, all that a lock holds
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
            newer ascendsim, cannot be written, or another process is writing to it.
    """

    def __init__(self, path: str | PathLike[str] | None) -> None:
        self.path = None if path is None else check_database(path)
        self._lock = None if self.path is None else _locked(self.path)
        try:
            with self._told():
                self._database = sqlite3.connect(":memory:" if self.path is None else self.path)
                self._prepare()
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
            self._database.execute(f"pragma application_id = {_APPLICATION}")
            self._database.execute(f"pragma user_version = {SCHEMA}")

    @property
    def _subject(self) -> str:
        return f"store {str(self.path)!r}"

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Says in the project's way what SQLite cannot do."""
        try:
            yield
        except sqlite3.Error as error:
            where = "choose another place, or make room: what was done before is kept"
            raise InputError(self._subject, f"cannot be used ({error})", remedy=where) from None

    def get(self, key: str) -> Answer | None:
        """The answer to a point, None if there is none."""
        with self._told():
            row = self._database.execute(
                "select key, state, figures, error, seconds, attempts from points where key = ?", (key,)
            ).fetchone()
        if row is None:
            return None
        found, state, figures, error, seconds, attempts = row
        return Answer(found, state, json.loads(figures), error, seconds, attempts)

    def put(self, point: Point, answer: Answer) -> Answer:
        """Keeps an answer, at once; returns it with the number of times that the point was computed."""
        with self._told(), self._database:
            self._database.execute(
                "insert into points values (?, ?, ?, ?, ?, ?, 1, ?) on conflict (key) do update set "
                "state = excluded.state, figures = excluded.figures, error = excluded.error, "
                "seconds = excluded.seconds, attempts = attempts + 1, made_by = excluded.made_by",
                (
                    answer.key,
                    json.dumps(point, sort_keys=True),
                    answer.state,
                    json.dumps(dict(answer.figures)),
                    answer.error,
                    answer.seconds,
                    _made_by(),
                ),
            )
        kept = self.get(answer.key)
        assert kept is not None
        return kept

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


def _locked(path: Path) -> int | None:
    """A lock beside the file, which goes with the process however it ends; it holds the process's number.

    Raises:
        InputError: If there can be none, or another process has it.
    """
    subject = f"store {str(path)!r}"
    if fcntl is None:
        return None
    try:
        handle = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, 0o666)
        held = os.pread(handle, 21, 0)
    except OSError as error:
        raise InputError(
            subject, f"cannot be written ({error.strerror})", remedy="choose another place"
        ) from None
    if held and not _NUMBER.fullmatch(held):
        os.close(handle)
        raise InputError(
            f"file {f'{path}.lock'!r}",
            "lies where the lock of a store would be",
            remedy="choose another place",
        )
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        owner = held.decode("ascii") or "unknown"
        os.close(handle)
        raise InputError(
            subject, f"is being written by process {owner}", remedy="wait for it, or name another file"
        ) from None
    os.truncate(handle, 0)
    os.pwrite(handle, str(os.getpid()).encode(), 0)
    return handle
