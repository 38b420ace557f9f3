"""The store keeps what was computed, once, for one writer, and says what is wrong with a file."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from ascendsim.core.errors import InputError
from ascendsim.sweep.store import DONE, FAILED, Answer, Store

POINT = {"model": "m", "soc": "Ascend310"}


def test_what_was_kept_comes_back_to_the_bit(tmp_path: Path) -> None:
    answer = Answer("k", DONE, {"Time(us)": 0.1 + 0.2, "Likely from(us)": None, "Notes": "a; b"}, "", 1.5)
    with Store(tmp_path / "s.db") as store:
        assert store.get("k") is None
        store.put(POINT, answer)
    with Store(tmp_path / "s.db") as store:
        assert store.get("k") == answer


def test_attempts_are_counted_and_the_last_answer_stays(tmp_path: Path) -> None:
    with Store(tmp_path / "s.db") as store:
        store.put(POINT, Answer("k", FAILED, {}, "why"))
        assert store.put(POINT, Answer("k", DONE, {"a": 1})) == Answer("k", DONE, {"a": 1}, attempts=2)


def test_an_answer_is_there_for_others_at_once(tmp_path: Path) -> None:
    with Store(tmp_path / "s.db") as store:
        store.put(POINT, Answer("k", DONE))
        reader = sqlite3.connect(f"file:{tmp_path / 's.db'}?mode=ro", uri=True)
        rows = reader.execute("select key, state, attempts, made_by from points").fetchall()
        reader.close()
    assert rows[0][:3] == ("k", DONE, 1)
    assert rows[0][3].startswith("ascendsim ")


def test_a_second_writer_is_told_who_writes(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with Store(path), pytest.raises(InputError, match=f"is being written by process {os.getpid()}"):
        Store(path)
    Store(path).close()


@pytest.mark.slow
def test_a_writer_that_was_killed_leaves_no_lock(tmp_path: Path) -> None:
    program = (
        "import os, sys; from ascendsim.sweep.store import Store; Store(sys.argv[1]); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", program, tmp_path / "s.db"], check=False, timeout=60)
    assert done.returncode == -9
    Store(tmp_path / "s.db").close()


def foreign(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("create table other (a)")
    database.close()


def newer(path: Path) -> None:
    Store(path).close()
    with sqlite3.connect(path) as database:
        database.execute("pragma user_version = 99")
    database.close()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (Path.mkdir, "Is a directory"),
        (lambda path: path.write_bytes(b"no database at all" * 99), "cannot be used .*not a database"),
        (foreign, "is a database of something else"),
        (newer, "has form 99, not 1 or older"),
    ],
)
def test_a_file_that_is_no_store_is_refused_and_left_alone(
    tmp_path: Path, spoil: object, message: str
) -> None:
    path = tmp_path / "s.db"
    spoil(path)  # type: ignore[operator]
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(InputError, match=message):
        Store(path)
    assert (path.read_bytes() if path.is_file() else None) == before


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot be written \(No such file or directory\)"):
        Store(tmp_path / "none" / "s.db")
    with pytest.raises(InputError, match="NUL"):
        Store("a\0b")


def test_a_full_disk_loses_nothing_that_was_kept(tmp_path: Path) -> None:
    with Store(tmp_path / "s.db") as store:
        store.put(POINT, Answer("k", DONE, {"a": 1}))
        pages = store._database.execute("pragma page_count").fetchone()[0]
        store._database.execute(f"pragma max_page_count = {pages}")  # SQLite's way to be out of room
        large = Answer("large", DONE, {"a": "x" * 100_000})
        with pytest.raises(InputError, match=r"full.*what was done before is kept"):
            store.put(POINT, large)
    with Store(tmp_path / "s.db") as store:
        assert store.get("k") == Answer("k", DONE, {"a": 1})
