"""What a process finds out about tilings is there for the next one, and nothing else comes of it."""

from __future__ import annotations

import errno
import logging
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from enum import Enum
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import IO, Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.api.saving_manifest import program_hash
from ascendsim.compiler import tiling_store, tilings
from ascendsim.compiler.tiling_store import TilingStore, cache_folder, state_of_code
from ascendsim.core.keys import key_of, stable_digest
from ascendsim.lower.tiling_search import Choices, TilingSearch, anonymous
from ascendsim.soc import load
from tests.support.lowering import matmul

SOC = load("Ascend310P3")
LENET = Path(__file__).parents[1] / "data" / "models" / "lenet5.onnx"


@pytest.fixture
def said() -> Iterator[list[str]]:
    """What is logged."""
    lines: list[str] = []
    handler, logger = logging.Handler(), logging.getLogger("ascendsim")
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    tiling_store._told.cache_clear()
    yield lines
    logger.removeHandler(handler)


def stored(folder: Path) -> list[str]:
    return [line for file in sorted(folder.rglob("*.txt")) for line in file.read_text().splitlines()]


def test_what_one_process_has_timed_the_next_one_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASCENDSIM_CACHE", str(tmp_path))
    timed = []
    timer = tilings.timer_of

    def counting(soc: asim.SocSpec) -> object:
        ticks = timer(soc)
        return lambda stage, weights: timed.append(stage) or ticks(stage, weights)  # type: ignore[func-returns-value]

    monkeypatch.setattr(tilings, "timer_of", counting)

    def compiled(batch: int) -> tuple[str, int]:
        monkeypatch.setattr(tilings, "_searches", {})  # as in a new process
        monkeypatch.setattr(tilings, "_tilings", {})
        timed.clear()
        return program_hash(asim.compile(asim.load(LENET, batch=batch), SOC).program), len(timed)

    (first, found), (second, again) = compiled(8), compiled(8)
    assert (first == second, found > 10, again) == (True, True, 0)
    assert len(stored(tmp_path)) < found  # a line a choice, not one a candidate
    assert compiled(16)[1] > 0  # other work


def test_a_chip_with_other_figures_has_a_file_of_its_own(tmp_path: Path) -> None:
    work = key_of(matmul(64, 64, 64, SOC))
    TilingStore(tmp_path, SOC.figures).put(work, 3)
    assert TilingStore(tmp_path, load("Ascend310P3").figures).get(work) == 3
    assert TilingStore(tmp_path, load("Ascend310P3", {"l2.size": "8MiB"}).figures).get(work) is None


def test_other_code_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    TilingStore(tmp_path, (), "a" * 32).put("work", 1)
    assert TilingStore(tmp_path, (), "b" * 32).get("work") is None
    source = tmp_path / "ascendsim"
    source.mkdir()
    (source / "__init__.py").write_text("")
    (source / "machine.py").write_text("LATENCY = 1\n")

    module = type(sys)("ascendsim")
    module.__file__ = str(source / "__init__.py")
    monkeypatch.setattr(tiling_store, "import_module", lambda name: module)
    before = state_of_code.__wrapped__()
    assert state_of_code.__wrapped__() == before
    (source / "machine.py").write_text("LATENCY = 12\n")
    assert state_of_code.__wrapped__() != before
    (source / "more.py").write_text("")
    with_more = state_of_code.__wrapped__()
    os.utime(source / "more.py", ns=(1, 1))
    assert state_of_code.__wrapped__() not in (before, with_more)


def test_a_choice_that_the_work_does_not_have_is_found_anew(tmp_path: Path) -> None:
    work = matmul(64, 64, 64, SOC)
    store = TilingStore(tmp_path, ())
    store.put(anonymous(work), 2)
    options = [lambda: None] * 2
    search = TilingSearch(lambda stage, weights: 1, tilings=Choices(store))
    assert search.choose(work, options) == 0  # type: ignore[arg-type]
    search = TilingSearch(lambda stage, weights: 1, tilings=Choices(store))
    assert search.choose(work, options * 2) == 2  # type: ignore[arg-type]


def kept(folder: Path, chip: str = "", choices: Mapping[str, int] | None = None) -> Path:
    """The file of a store that has some choices."""
    store = TilingStore(folder, chip, "a" * 32)
    for work, choice in (CHOICES if choices is None else choices).items():
        store.put(work, choice)
    return folder / ("a" * 32) / f"{stable_digest(chip)}.txt"


CHOICES = {f"work {number}": number * 7 % 60 for number in range(40)}


def damaged(content: bytes, chance: Random) -> bytes:
    """A file after an accident, or in the hands of somebody who edits it."""
    lines = content.splitlines(keepends=True)
    kind = chance.randrange(8)
    if kind == 0:  # flipped bits
        changed = bytearray(content)
        for _ in range(chance.randint(1, 20)):
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        return bytes(changed)
    if kind == 1:  # the disk was full
        return content[: chance.randrange(len(content))]
    if kind == 2:  # the one choice for all
        return re.sub(rb"(?m)^(\w+) \d+", rb"\1 1", content)
    if kind == 3:  # sums of other lines
        ends = [line.split()[2] for line in lines]
        chance.shuffle(ends)
        return b"".join(
            b" ".join((*line.split()[:2], end)) + b"\n" for line, end in zip(lines, ends, strict=True)
        )
    if kind == 4:  # a block of zeros
        start = chance.randrange(len(content))
        return content[:start] + bytes(len(content[start : start + 512])) + content[start + 512 :]
    if kind == 5:
        return chance.randbytes(2000)
    if kind == 6:  # no ends of lines
        return content.replace(b"\n", chance.choice((b"", b"\r", b"\n\n")))
    chance.shuffle(lines)
    return b"".join(lines + lines[:3])


@pytest.mark.parametrize("seed", range(64))
def test_a_damaged_file_never_says_anything_else(tmp_path: Path, seed: int) -> None:
    file = kept(tmp_path)
    file.write_bytes(damaged(file.read_bytes(), Random(seed)))
    store = TilingStore(tmp_path, "", "a" * 32)
    lost = [work for work, choice in CHOICES.items() if store.get(work) != choice]
    assert all(store.get(work) is None for work in lost)
    for work in lost:
        store.put(work, CHOICES[work])
    again = TilingStore(tmp_path, "", "a" * 32)
    assert {work: again.get(work) for work in CHOICES} == CHOICES


def test_lines_of_another_chip_or_state_of_the_code_are_left_out(tmp_path: Path) -> None:
    content = kept(tmp_path, "other chip", {"work": 3}).read_bytes()
    kept(tmp_path, "", {"different": 1}).write_bytes(content)
    assert TilingStore(tmp_path, "", "a" * 32).get("work") is None
    later = tmp_path / ("b" * 32)
    later.mkdir()
    (later / f"{stable_digest('other chip')}.txt").write_bytes(content)
    store = TilingStore(tmp_path, "other chip", "b" * 32)
    assert (store.get("work"), store.dropped) == (None, 1)


def test_damaged_lines_are_counted_and_said_in_one_line(tmp_path: Path, said: list[str]) -> None:
    file = kept(tmp_path)
    content = file.read_text().splitlines()
    file.write_text("\n".join([*content[:5], *(line[:-1] for line in content[5:])]) + "\n")
    assert TilingStore(tmp_path, "", "a" * 32).dropped == 35
    assert said == [f"35 damaged lines of {file} are left out, their tilings found anew"]


@pytest.mark.parametrize("tamper", ["choices", "bits", "nothing"])
def test_no_time_depends_on_what_the_cache_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tamper: str
) -> None:
    monkeypatch.setenv("ASCENDSIM_CACHE", str(tmp_path))

    def compiled() -> str:
        monkeypatch.setattr(tilings, "_searches", {})  # as in a new process
        monkeypatch.setattr(tilings, "_tilings", {})
        return program_hash(asim.compile(asim.load(LENET, batch=8), SOC).program)

    first = compiled()
    for file in tmp_path.rglob("*.txt"):
        content = file.read_bytes()
        if tamper == "choices":
            content = re.sub(rb"(?m)^(\w+) \d+", rb"\1 1", content)
        elif tamper == "bits":
            content = bytes(byte ^ (place % 97 == 5) for place, byte in enumerate(content))
        file.write_bytes(content)
    assert compiled() == first


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT, errno.EIO])
def test_a_cache_that_takes_no_more_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str], number: int
) -> None:
    usual = Path.open

    def failing(self: Path, *args: Any, **options: Any) -> IO[Any]:
        if tmp_path in self.parents and args and args[0] == "a":
            raise OSError(number, os.strerror(number))
        return usual(self, *args, **options)

    monkeypatch.setattr(Path, "open", failing)
    store = TilingStore(tmp_path, ())
    for work in range(3):
        store.put(work, work)
    assert store.get(0) == 0  # in this process
    assert len(said) == 1
    assert os.strerror(number) in said[0]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes of Unix")
def test_what_is_no_file_is_neither_read_nor_written(tmp_path: Path) -> None:
    file = kept(tmp_path)
    file.unlink()
    os.mkfifo(file)
    store = TilingStore(tmp_path, "", "a" * 32)
    store.put("work", 1)
    assert (store.get("work"), stat.S_ISFIFO(file.stat().st_mode)) == (1, True)


def test_where_nothing_can_be_written_nothing_fails(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    store = TilingStore(blocked, ())
    store.put("work", 1)
    assert store.get("work") == 1  # in this process
    assert TilingStore(blocked, ()).get("work") is None


def test_the_store_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiling_store, "MOST_LINES", 3)
    monkeypatch.setattr(tiling_store, "MOST_CHIPS", 2)
    monkeypatch.setattr(tiling_store, "MOST_STATES", 2)
    store = TilingStore(tmp_path, (), "a" * 32)
    for number in range(5):
        store.put(f"work {number}", number)
    assert len(stored(tmp_path)) == 3
    for chip in range(4):
        TilingStore(tmp_path, chip, "b" * 32).put("work", 0)
    assert len(list((tmp_path / ("b" * 32)).iterdir())) == 2
    os.utime(tmp_path / ("a" * 32), ns=(1, 1))  # the oldest
    TilingStore(tmp_path, (), "c" * 32).put("work", 0)
    assert sorted(one.name[0] for one in tmp_path.iterdir()) == ["b", "c"]


def test_work_that_has_no_lasting_name_is_not_kept(tmp_path: Path) -> None:
    store = TilingStore(tmp_path, ())
    store.put((1, object()), 1)
    assert (store.get((1, object())), stored(tmp_path)) == (None, [])


def test_one_line_is_kept_of_equal_work(tmp_path: Path) -> None:
    store = TilingStore(tmp_path, ())
    store.put("work", 1)
    store.put("work", 1)
    assert len(stored(tmp_path)) == 1


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"ASCENDSIM_CACHE": "/somewhere"}, "/somewhere"),
        ({"ASCENDSIM_CACHE": "off"}, None),
        ({"XDG_CACHE_HOME": "/caches"}, "/caches/ascendsim"),
        ({"HOME": "/me"}, "/me/.cache/ascendsim"),
    ],
)
def test_where_caches_go(
    variables: dict[str, str], folder: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ASCENDSIM_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == (None if folder is None else Path(folder))


class Colour(Enum):
    RED, BLUE = 1, 2


def test_digests_are_the_same_in_every_process_and_differ_for_different_keys() -> None:
    plain = [1, 1.0, True, "1", b"1", None, 0.0, -0.0, np.float32(1), np.ones(2), np.ones((2, 1)), "a,b"]
    named = [Fraction(1, 2), Fraction(1, 3), Colour.RED, Colour.BLUE, int, float]
    nested = [(1,), ((1,),), (1, 2), (2, 1), {"a": 1}, {"a": 2}, {"b": 1}, {"a": 1, "b": 2}, ("a", "b")]
    values = [*plain, *named, *nested]
    digests = [stable_digest(key_of(value)) for value in values]
    assert len(set(digests)) == len(values)
    program = (
        "from ascendsim.core.keys import key_of, stable_digest\n"
        "print(stable_digest(key_of({name: len(name) for name in 'one three fifteen twenty'.split()})))"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            text=True,
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(seen) == 1
    with pytest.raises(TypeError, match="object has no name that lasts"):
        stable_digest((1, object()))
