"""Keeps on disk which tilings were the quickest, so that a process does not time what one before it has.

To time the best few tilings on the machine is half of a compilation. What wins depends on nothing but the
work, the figures of the chip and the code, and of these three the store makes its names: a folder for each
state of the code, in it a file for each chip, in that a line for each piece of work. Lines are only ever
added, each in one write, so that processes may share a store. Whatever cannot be read or written is as if it
were not there, and so is a line whose sum, over these names and the choice, is not its own: a store saves
time, no result depends on it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
from collections.abc import Hashable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

from ascendsim.core.keys import stable_digest

VARIABLE = "ASCENDSIM_CACHE"
MOST_LINES = 20_000  # of a chip; at most 54 bytes each
MOST_CHIPS = 200  # of a state of the code: sweeps over figures make a chip each
MOST_STATES = 4  # of the code; the ones that were used last stay
_LINE = re.compile(r"([0-9a-f]{32}) ([0-9]{1,3}) ([0-9a-f]{16})")
_STATE = re.compile(r"[0-9a-f]{32}")
_LOG = logging.getLogger("ascendsim")


def cache_folder() -> Path | None:
    """Where caches go: the folder that ASCENDSIM_CACHE names, else `ascendsim` below XDG_CACHE_HOME or
    `~/.cache`; None if the variable is "off".
    """
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return None if chosen == "off" else Path(chosen)
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # a user without a home
        return None
    return base / "ascendsim"


class TilingStore:
    """What is known of one chip.

    Args:
        folder: For tilings, `tilings` below `cache_folder()`.
        chip: Figures of the chip.
        code: State of the code; None = `state_of_code()`.

    Attributes:
        dropped: Lines of the file that are not what was written: what they held is found anew.
    """

    def __init__(self, folder: Path, chip: Hashable, code: str | None = None) -> None:
        self._folder = folder / (code or state_of_code())
        self._file = self._folder / f"{stable_digest(chip)}.txt"
        self._broken = False  # the last line has no end
        self.dropped = 0
        self._known = dict(self._lines())
        self._open = True
        if self.dropped:
            _told(f"{self.dropped} damaged lines of {self._file} are left out, their tilings found anew")

    def get(self, work: Hashable) -> int | None:
        """The choice for work; None if it is not known."""
        return self._known.get(_name_of(work))

    def put(self, work: Hashable, choice: int) -> None:
        """Keeps a choice, as long as there is room for it."""
        name = _name_of(work)
        if not name or name in self._known or not self._open or len(self._known) >= MOST_LINES:
            return
        try:
            self._open = self._file.is_file() or (not self._file.exists() and self._has_room())
            if self._open:
                with self._file.open("a", encoding="ascii") as file:
                    file.write(f"{chr(10) * self._broken}{name} {choice} {self._sum(name, choice)}\n")
                self._broken = False
        except OSError as error:
            self._open = False
            _told(f"choices of tilings are not kept: {self._folder} cannot be written ({error.strerror})")
        self._known[name] = choice

    def _lines(self) -> Iterator[tuple[str, int]]:
        try:
            if not self._file.is_file():  # a pipe would never end
                return
            with self._file.open(encoding="ascii", errors="replace", newline="\n") as file:
                text = file.read(2 * MOST_LINES * 54)
        except OSError:
            return
        self._broken = not text.endswith("\n") and bool(text)  # half a line is what a full disk leaves
        for line in filter(None, text.split("\n")):
            found = _LINE.fullmatch(line)
            if found and found[3] == self._sum(found[1], int(found[2])):
                yield found[1], int(found[2])
            else:
                self.dropped += 1

    def _sum(self, name: str, choice: int) -> str:
        content = f"{self._folder.name} {self._file.name} {name} {choice}"
        return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()

    def _has_room(self) -> bool:
        """Makes the folder of this state of the code, removes those that were not used for longest, and says
        whether there is room for one more chip.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        states = [one for one in self._folder.parent.iterdir() if _STATE.fullmatch(one.name)]
        for old in sorted(states, key=lambda one: one.stat().st_mtime, reverse=True)[MOST_STATES:]:
            if old != self._folder:
                shutil.rmtree(old, ignore_errors=True)
        return sum(1 for _ in self._folder.iterdir()) < MOST_CHIPS


@cache
def _told(what: str) -> None:
    """Says something once."""
    _LOG.warning("%s", what)


def _name_of(work: Hashable) -> str:
    """A name that lasts; empty where work holds what has none (types of a plugin)."""
    try:
        return stable_digest(work)
    except TypeError:
        return ""


@cache
def state_of_code() -> str:
    """Changes when a source file of the package does: names, sizes and times of all of them, as numba tells
    whether what it has compiled still holds.
    """
    found = hashlib.blake2b(digest_size=16)
    for package in ("ascendsim", "ascendsim_kernels"):
        folder = Path(str(import_module(package).__file__)).parent
        for path in sorted(folder.rglob("*.py")):
            about = path.stat()
            found.update(f"{path}|{about.st_size}|{about.st_mtime_ns}\n".encode())
    return found.hexdigest()
