"""Where compiled kernels are kept, on machines whose usual folders cannot be written too."""

from __future__ import annotations

import errno
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ascendsim_kernels import checked_cache, jit


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(jit.tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    jit.cache_folder.cache_clear()
    yield
    jit.cache_folder.cache_clear()


@pytest.fixture
def said() -> Iterator[list[str]]:
    """What is logged."""
    lines: list[str] = []
    handler, logger = logging.Handler(), logging.getLogger("ascendsim")
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    yield lines
    logger.removeHandler(handler)


def test_the_first_use_on_a_machine_is_announced(tmp_path: Path, said: list[str]) -> None:
    folder = jit.cache_folder()
    jit.cache_folder.cache_clear()
    assert jit.cache_folder() == folder
    assert folder is not None
    assert folder.parent == tmp_path / "cache" / "ascendsim"
    assert said == ["kernels are compiled when they are first used on this machine: about 15 s, once"]


def test_a_temporary_folder_of_ones_own_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    blocked = tmp_path / "file"
    blocked.touch()  # no folder can be made below a file, whoever the user is
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    folder = jit.cache_folder()
    assert folder is not None
    assert folder.parent.parent == tmp_path / "tmp"
    assert folder.parent.stat().st_mode & 0o077 == 0
    assert f"{blocked}/ascendsim cannot be written" in "".join(said)


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="modes of folders mean nothing here")
def test_a_folder_that_others_can_write_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    shared = tmp_path / "tmp" / f"ascendsim-{os.getuid()}"
    shared.mkdir()
    shared.chmod(0o777)
    assert jit.cache_folder() is None
    assert "kernels are compiled in every run" in "".join(said)


def difference(a: float, b: float) -> float:
    return a - b


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*difference*") if path.is_file())


def test_compiled_kernels_are_kept(tmp_path: Path) -> None:
    assert jit.kernel(difference)(5.0, 3.0) == 2.0
    assert [path.suffix for path in files(tmp_path)] == [".nbc", ".nbi"]
    again = jit.kernel(difference)
    assert again(5.0, 3.0) == 2.0
    assert sum(again.stats.cache_hits.values()) == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("which", [".nbc", ".nbi"])
@pytest.mark.parametrize("accident", ["a bit", "half", "nothing left", "another file"])
def test_damaged_kernels_are_compiled_anew(
    tmp_path: Path, said: list[str], which: str, accident: str
) -> None:
    jit.kernel(difference)(5.0, 3.0)
    (path,) = (path for path in files(tmp_path) if path.suffix == which)
    content = path.read_bytes()
    if accident == "a bit":
        content = content[:-40] + bytes([content[-40] ^ 4]) + content[-39:]
    elif accident == "another file":

        def total(a: float, b: float) -> float:
            return a + b

        jit.kernel(total)(5.0, 3.0)
        (other,) = (path for path in tmp_path.rglob("*total*") if path.suffix == which)
        content = other.read_bytes()
    else:
        content = content[: len(content) // 2] if accident == "half" else b""
    path.write_bytes(content)
    again = jit.kernel(difference)
    assert again(5.0, 3.0) == 2.0
    assert sum(again.stats.cache_hits.values()) == 0  # type: ignore[attr-defined]
    assert f"compiled kernels in {path} are damaged and made anew" in said
    healed = jit.kernel(difference)
    assert healed(5.0, 3.0) == 2.0
    assert sum(healed.stats.cache_hits.values()) == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.ENOTDIR])
def test_a_full_disk_stops_no_kernel_and_is_said_once(
    monkeypatch: pytest.MonkeyPatch, said: list[str], number: int
) -> None:
    def failing(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    checked_cache._told.cache_clear()
    ready = jit.kernel(difference)
    monkeypatch.setattr(checked_cache._CheckedFile, "_open_for_write", failing)
    assert ready(5.0, 3.0) == 2.0
    assert ready(5, 3) == 2  # another signature
    told = [line for line in said if "are not kept" in line]
    assert len(told) == 1
    assert os.strerror(number) in told[0]


def test_environments_share_what_is_compiled(tmp_path: Path) -> None:
    """The same source at another place, as in a second environment, finds what the first one has compiled;
    another source under the same names does not."""
    program = (
        "import sys; from pathlib import Path; from ascendsim_kernels.jit import kernel\n"
        "sys.path.insert(0, sys.argv[1]); from shared import add\n"
        "print(add(2, 3), sum(add.stats.cache_hits.values()))\n"
    )
    source = "from ascendsim_kernels.jit import kernel\n@kernel\ndef add(a, b):\n    return a {} b\n"
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment.pop("NUMBA_CACHE_DIR", None)
    said = []
    for name, sign in (("first", "+"), ("second", "+"), ("third", "-"), ("first", "+")):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "shared.py").write_text(source.format(sign), encoding="utf-8")
        command = [sys.executable, "-c", program, str(tmp_path / name)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        said.append(done.stdout.strip())
    assert said == ["5 0", "5 1", "-1 0", "5 1"]


def test_kernels_run_where_nothing_can_be_written(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    program = (
        "import tempfile; tempfile.gettempdir = lambda: '/proc/nowhere'\n"
        "from ascendsim_kernels.jit import kernel, cache_folder\n"
        "assert cache_folder() is None\n"
        "@kernel\n"
        "def add(a, b):\n"
        "    return a + b\n"
        "print(add(2, 3))\n"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(blocked)}
    environment.pop("NUMBA_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "5"), done.stderr
