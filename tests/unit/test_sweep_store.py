"""The store keeps what was computed, once, for one writer, and says what is wrong with a file."""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from ascendsim.core.errors import InputError
from ascendsim.sweep.store import DONE, FAILED, Answer, Store


@pytest.fixture
def said() -> Iterator[list[str]]:
    """What is logged."""
    lines: list[str] = []
    handler, logger = logging.Handler(), logging.getLogger("ascendsim")
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    yield lines
    logger.removeHandler(handler)


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
        (newer, "has form 99, not 2 or older"),
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


def spoilt(path: Path, change: str) -> None:
    with sqlite3.connect(path) as database:
        database.execute(change)
    database.close()


@pytest.mark.parametrize(
    "change",
    [
        "figures = '{'",
        "figures = '{\"Time(us)\": 1.0}'",
        "figures = cast(x'ff00fe' as text)",
        "figures = x'7b7d'",
        "figures = 3",
        "state = 'nearly'",
        "state = 'failed'",
        "seconds = 'long'",
        "seconds = 99.5",
        "error = 'made up'",
        "key = 'k7'",
        "sum = 'x'",
    ],
)
def test_rows_that_are_not_what_was_written_are_computed_again(
    tmp_path: Path, change: str, said: list[str]
) -> None:
    answers = [Answer(f"k{number}", DONE, {"Time(us)": 0.1 * number}, "", 0.25) for number in range(4)]
    with Store(tmp_path / "s.db") as store:
        for answer in answers:
            store.put(POINT, answer)
    spoilt(tmp_path / "s.db", f"update points set {change} where key = 'k2'")
    with Store(tmp_path / "s.db") as store:
        assert store.damaged == (3,)
        assert [store.get(f"k{number}") for number in range(4)] == [*answers[:2], None, answers[3]]
        assert store.get("k7") is None
        assert store.put(POINT, answers[2]) == answers[2]
    assert len(said) == 1
    assert said[0].endswith("s.db': 1 row is damaged and its point computed again: 3")
    with Store(tmp_path / "s.db") as store:
        assert store.damaged == ()


@pytest.mark.parametrize("seed", range(24))
def test_a_damaged_file_never_answers_anything_else(tmp_path: Path, seed: int) -> None:
    """Accidents anywhere in the file: it is refused in one line, or what it answers is what was kept."""
    path, chance = tmp_path / "s.db", Random(seed)
    answers = {f"k{number}": Answer(f"k{number}", DONE, {"Time(us)": number / 7}) for number in range(60)}
    with Store(path) as store:
        for answer in answers.values():
            store.put(POINT, answer)
    content = bytearray(path.read_bytes())
    for _ in range(chance.choice((1, 8, 64))):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content[: chance.choice((len(content), len(content), chance.randrange(len(content))))])
    found: dict[str, Answer | None] = {}
    with suppress(InputError), Store(path) as store:
        found = {key: store.get(key) for key in answers}
    assert all(got is None or replace(got, attempts=1) == answers[key] for key, got in found.items())


def test_a_store_of_the_older_form_goes_on(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "s.db") as database:
        database.execute(
            "create table points (key text primary key, point text not null, state text not null, "
            "figures text not null, error text not null, seconds real not null, attempts integer not null, "
            "made_by text not null)"
        )
        database.execute("insert into points values ('old', '{}', 'done', '{}', '', 0.5, 1, 'ascendsim 0')")
        database.execute(f"pragma application_id = {0x61736977}")
        database.execute("pragma user_version = 1")
    database.close()
    with Store(tmp_path / "s.db") as store:
        assert (store.get("old"), store.damaged) == (None, ())
        store.put(POINT, Answer("k", DONE, {"a": 1}))
    with Store(tmp_path / "s.db") as store:
        assert store.get("k") == Answer("k", DONE, {"a": 1})


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.ENOTDIR, errno.ENOLCK])
@pytest.mark.parametrize("call", ["os.open", "os.pwrite", "os.truncate", "fcntl.flock"])
def test_a_named_store_that_cannot_be_written_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, call: str
) -> None:
    def failing(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(f"ascendsim.sweep.store.{call}", failing)
    with pytest.raises(InputError, match=rf"^store .*s.db' cannot be written \({os.strerror(number)}\); ch"):
        Store(tmp_path / "s.db")
