"""Boards that people own, and what chips and how much memory they have: `data/boards.csv`.

A chip has one name whatever board it is on, as for ATC; the memory is the board's (`--set dram.size=48GiB`).
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from ascendsim.core.units import GIB
from ascendsim.soc.figures import DATA

_LEAST = 3  # letters that a part of a board's name must have to stand for it


@dataclass(frozen=True, slots=True)
class Board:
    """A card, module or server.

    Attributes:
        name: As the vendor calls it.
        words: What else it is looked up by, as `plain` writes it.
        chip: Its chip, as `--soc_version` takes it.
        chips: How many.
        memory_gib: Of one chip, in the order in which people have them.
        source: Of all that.
        assumed: Whether some of it is.
    """

    name: str
    words: tuple[str, ...]
    chip: str
    chips: int
    memory_gib: tuple[int, ...]
    source: str
    assumed: bool

    def described(self) -> str:
        """Name, number of chips and memory, for one line of text.

        >>> boards_named("Atlas 300I Duo")[0].described()
        'Atlas 300I Duo has 2 x Ascend310P3 with 48 or 24 GiB each'
        """
        sizes = " or ".join(map(str, self.memory_gib))
        count, each = (f"{self.chips} x ", " each") if self.chips > 1 else ("", "")
        return f"{self.name} has {count}{self.chip} with {sizes} GiB{each}"


def plain(name: str) -> str:
    """Letters and digits of a name without those that say little.

    >>> plain("Huawei Atlas 300I-Duo"), plain("Ascend910_9391")
    ('300iduo', '9109391')
    """
    text = "".join(letter for letter in name.lower() if letter.isalnum())
    for word in ("huawei", "atlas", "ascend"):
        text = text.replace(word, "")
    return text


@cache
def boards() -> tuple[Board, ...]:
    """All that are known, in the order of the table."""
    with (DATA / "boards.csv").open(encoding="utf-8", newline="") as file:
        return tuple(_read(row) for row in csv.DictReader(file))


def boards_named(name: str) -> tuple[Board, ...]:
    """Boards that a name may mean: those of that name, else those whose name begins so or is part of it."""
    wanted = plain(name)
    exact = tuple(board for board in boards() if wanted in board.words)
    if exact or len(wanted) < _LEAST:
        return exact
    begin = tuple(board for board in boards() if any(word.startswith(wanted) for word in board.words))
    if begin:
        return begin
    inside = {word: board for board in boards() for word in board.words if word in wanted}
    return (inside[max(inside, key=len)],) if inside else ()


def memory_that_holds(chip: str, size: int) -> str:
    """The setting of a chip's memory that holds so many bytes, and the boards that have it: "dram.size=48GiB
    (Atlas 300V Pro, Atlas 300I Duo)"; without boards where none has enough.

    Args:
        chip: Its name.
        size: Bytes, with those that the system keeps.
    """
    fits = [(gib, board.name) for board in boards() if board.chip == chip for gib in board.memory_gib]
    enough = [gib for gib, _ in fits if gib * GIB >= size]
    if not enough:
        return f"dram.size={-(-size // GIB)}GiB"
    names = dict.fromkeys(name for gib, name in fits if gib == min(enough))
    return f"dram.size={min(enough)}GiB ({', '.join(names)})"


def _read(row: dict[str, str]) -> Board:
    words: Iterator[str] = (word for word in row["words"].split("|") if word)
    sizes = tuple(int(size) for size in row["memory_gib"].split())
    all_words = tuple(dict.fromkeys((plain(row["board"]), *words)))
    return Board(
        row["board"],
        all_words,
        row["chip"],
        int(row["chips"]),
        sizes,
        row["source"],
        row["assumed"] == "yes",
    )
