"""Tables as plain text: aligned columns, numbers right, wide tables in several pieces one below the other.

A table that is wider than its place is fitted first: names lose their middle, since head and tail tell them
apart, sentences go on in the next line, numbers stay whole, and their units stand below their names.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence

WIDTH = 110  # characters of a line, of the project's own files too: fits two windows side by side
MOST_ROWS = 40
GAP = 2  # between columns
_LEAST_NAME = 8  # letters of a name, however narrow the place
_LEAST_KEY = 24  # letters of the name that stands in front of each piece of a table in pieces
_SENTENCE = 20  # letters of a line in a column of sentences where names need room
_NUMBER = re.compile(r"[-+]?[\d,]*\.?\d+([eE][-+]?\d+)?\s?%?")


def is_numeric(texts: Iterable[str]) -> bool:
    """Whether all cells of a column that say anything are numbers.

    >>> is_numeric(["1,024", "", "-3.5 %"]), is_numeric(["1", "conv"]), is_numeric([""])
    (True, False, False)
    """
    filled = [text for text in texts if text not in ("", "-", "N/A")]
    return bool(filled) and all(_NUMBER.fullmatch(text) for text in filled)


def plain_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Sequence[bool],
    title: str = "",
    width: int | None = None,
) -> str:
    """The table as plain text.

    Args:
        columns: Heads.
        rows: One cell a column.
        right: Which columns stand right: those of numbers.
        title: A line above the table.
        width: Most characters of a line: a wider table is fitted, and comes in pieces if its numbers alone
            are wider. None = any.

    >>> print(plain_table(("name", "us"), [("conv", "1.5"), ("relu", "10.2")], (False, True)), end="")
    name    us
    ----  ----
    conv   1.5
    relu  10.2
    >>> row = ("/layer4/layer4.1/conv2/Conv", "48.5")
    >>> print(plain_table(("name", "time(us)"), [row], (False, True), width=18), end="")
                  time
    name          (us)
    ------------  ----
    /lay…v2/Conv  48.5
    """
    if width is None or _line(_widths(columns, rows)) <= width:
        return _aligned(columns, rows, right, title)
    heads = stacked_heads(columns, right)
    rooms = cell_rooms(heads, rows, right, width)
    # the name in front tells the rows apart: of eight letters nobody knows it
    if _line(rooms) > width or (not right[0] and rooms[0] < min(_widths(heads, rows)[0], _LEAST_KEY)):
        least = [
            size if number else max(min(size, _LEAST_KEY), head)
            for size, head, number in zip(_widths(heads, rows), _widths(heads, ()), right, strict=True)
        ]
        pieces = _pieces(least, rows, right, width)
        if len(pieces) > 1:
            parts = [plain_table(*_piece(columns, rows, right, piece), width=width) for piece in pieces]
            return (f"{title}\n" if title else "") + "\n".join(parts)
    return _aligned(heads, fitted_rows(rows, rooms), right, title)


def folded_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Sequence[bool],
    width: int = WIDTH,
) -> str:
    """The table as plain text no wider than a number of characters, if single columns are not, with all cells
    whole.

    What does not fit follows below, each piece with the column in front that tells the rows apart: the first
    one of texts of which no two are equal.

    >>> rows, right = [("conv", "1", "2")], (False, True, True)
    >>> print(folded_table(("op", "read", "write"), rows, right, width=12), end="")
    op    read
    ----  ----
    conv     1
    <BLANKLINE>
    op    write
    ----  -----
    conv      2
    """
    pieces = _pieces(_widths(columns, rows), rows, right, width)
    return "\n".join(_aligned(*_piece(columns, rows, right, piece)) for piece in pieces)


def middle_cut(text: str, room: int) -> str:
    """A text of at most `room` letters, without its middle if it is longer; the tail says more than the head.

    >>> middle_cut("/layer4/layer4.0/conv2/Conv", 16), middle_cut("/conv1/Conv", 16)
    ('/layer…onv2/Conv', '/conv1/Conv')
    """
    if len(text) <= room:
        return text
    if room < 2:
        return text[len(text) - max(room, 0) :]
    head = (room - 1) * 2 // 5
    return f"{text[:head]}…{text[len(text) - (room - 1 - head) :]}"


def stacked_heads(columns: Sequence[str], right: Sequence[bool]) -> list[str]:
    """Heads with the unit of numbers below the name, so that narrow columns leave room for text."""
    return [
        column.replace("(", "\n(") if number and not column.startswith("(") else column
        for column, number in zip(columns, right, strict=True)
    ]


def cell_rooms(
    heads: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool], width: int
) -> list[int]:
    """Letters that a line in each column may have: names share what numbers and a quarter of the line for
    each column of sentences leave, down to `_LEAST_NAME`; sentences share the rest, down to `_SENTENCE`. A
    column of sentences that are mostly one word, a name, has room for it, up to a third of the line.

    Args:
        heads: Heads, with line breaks.
        rows: One cell a column.
        right: Columns of numbers.
        width: Letters of a whole line.
    """
    whole = _widths(heads, rows)
    texts = [index for index, number in enumerate(right) if not number]
    sentences = [
        index for index in texts if whole[index] > _SENTENCE and any(" " in row[index] for row in rows)
    ]
    names = [index for index in texts if index not in sentences]
    left = width - _line(whole) + sum(whole[index] for index in texts)
    head = _widths(heads, ())  # heads stay whole
    least = sum(min(whole[index], max(_SENTENCE, width // 4, head[index])) for index in sentences)
    rooms = list(whole)
    word = {index: _name_room(rows, index, width) for index in sentences}
    needed = [max(_SENTENCE, head[index], word[index]) for index in sentences]
    needed += [min(whole[index], max(_LEAST_NAME, head[index])) for index in names]
    if sum(needed) > left:
        word = {}
    for columns, floor, kept in ((names, _LEAST_NAME, least), (sentences, _SENTENCE, 0)):
        for index in columns:
            rooms[index] = min(whole[index], max(floor, head[index], word.get(index, 0)))
            left -= rooms[index]
        for done, index in enumerate(sorted(columns, key=lambda index: whole[index])):
            more = max(0, (left - kept) // (len(columns) - done))
            more = min(more, whole[index] - rooms[index])
            rooms[index] += more
            left -= more
    return rooms


def _name_room(rows: Sequence[Sequence[str]], index: int, width: int) -> int:
    """Letters that the names of a column want; 0 if it holds sentences."""
    words = [row[index].split() for row in rows]
    if 2 * sum(len(each) < 2 for each in words) <= len(words):
        return 0
    return min(width // 3, max((len(word) for each in words for word in each), default=0))


def fitted_rows(rows: Sequence[Sequence[str]], rooms: Sequence[int]) -> list[list[str]]:
    """Cells that fit into rooms: names by `middle_cut`, sentences with line breaks."""
    spaced = [any(" " in row[index] for row in rows) for index in range(len(rooms))]
    return [
        [
            cell
            if len(cell) <= room
            else "\n".join(textwrap.wrap(cell, room, break_on_hyphens=False))
            if sentence and room >= _SENTENCE
            else middle_cut(cell, room)
            for cell, room, sentence in zip(row, rooms, spaced, strict=True)
        ]
        for row in rows
    ]


def _widths(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """Letters of the longest line of each column."""
    return [
        max(len(line) for text in column for line in text.split("\n"))
        for column in zip(columns, *rows, strict=True)
    ]


def _line(widths: Sequence[int]) -> int:
    """Letters of a line of columns."""
    return sum(widths) + GAP * (len(widths) - 1)


def _aligned(
    columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool], title: str = ""
) -> str:
    """Columns as wide as what they hold; cells may have several lines, heads end at the rule below them."""
    widths = _widths(columns, rows)
    lines = [title] if title else []

    def add(row: Sequence[str], ends_below: bool = False) -> None:
        cells = [text.split("\n") for text in row]
        height = max((len(cell) for cell in cells), default=1)
        for cell in cells:
            blank = [""] * (height - len(cell))
            cell[:] = [*blank, *cell] if ends_below else [*cell, *blank]
        for parts in zip(*cells, strict=True):
            padded = [
                text.rjust(width) if number else text.ljust(width)
                for text, width, number in zip(parts, widths, right, strict=True)
            ]
            lines.append((" " * GAP).join(padded).rstrip())

    add(columns, ends_below=True)
    add(["-" * width for width in widths])
    for row in rows:
        add(row)
    return "\n".join(lines) + "\n"


def _pieces(
    widths: Sequence[int], rows: Sequence[Sequence[str]], right: Sequence[bool], width: int
) -> list[list[int]]:
    """Columns of each piece of a table, the one that tells rows apart in front."""
    distinct = [len({row[index] for row in rows}) == len(rows) for index in range(len(widths))]
    key = next((index for index, number in enumerate(right) if not number and distinct[index]), 0)
    pieces: list[list[int]] = [[]]
    for index in range(len(widths)):
        piece = [*pieces[-1], index]
        if pieces[-1] not in ([], [key]) and _line([widths[one] for one in piece]) > width:
            piece = [index] if index == key else [key, index]
            pieces.append(piece)
        else:
            pieces[-1] = piece
    return pieces


def _piece(
    columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool], piece: Sequence[int]
) -> tuple[list[str], list[list[str]], list[bool]]:
    """Some columns of a table."""
    return (
        [columns[index] for index in piece],
        [[row[index] for index in piece] for row in rows],
        [right[index] for index in piece],
    )
