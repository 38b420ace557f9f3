"""Tables as plain text: aligned columns, numbers right, wide tables in several pieces one below the other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

WIDTH = 110  # characters of a line, of the project's own files too: fits two windows side by side
MOST_ROWS = 40
_NUMBER = re.compile(r"[-+]?[\d,]*\.?\d+([eE][-+]?\d+)?\s?%?")


def is_numeric(texts: Iterable[str]) -> bool:
    """Whether all cells of a column that say anything are numbers.

    >>> is_numeric(["1,024", "", "-3.5 %"]), is_numeric(["1", "conv"]), is_numeric([""])
    (True, False, False)
    """
    filled = [text for text in texts if text not in ("", "-", "N/A")]
    return bool(filled) and all(_NUMBER.fullmatch(text) for text in filled)


def plain_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool], title: str = ""
) -> str:
    """The table as plain text.

    >>> print(plain_table(("name", "us"), [("conv", "1.5"), ("relu", "10.2")], (False, True)), end="")
    name    us
    ----  ----
    conv   1.5
    relu  10.2
    """
    widths = [max(len(text) for text in column) for column in zip(columns, *rows, strict=True)]
    rule = ["-" * width for width in widths]
    lines = [title] if title else []
    for row in (columns, rule, *rows):
        padded = [
            text.rjust(width) if number else text.ljust(width)
            for text, width, number in zip(row, widths, right, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines) + "\n"


def folded_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Sequence[bool],
    width: int = WIDTH,
) -> str:
    """The table as plain text no wider than a number of characters, if single columns are not.

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
    widths = [max(len(text) for text in column) for column in zip(columns, *rows, strict=True)]
    distinct = [len({row[index] for row in rows}) == len(rows) for index in range(len(columns))]
    key = next((index for index, number in enumerate(right) if not number and distinct[index]), 0)
    pieces: list[list[int]] = [[]]
    for index in range(len(columns)):
        piece = [*pieces[-1], index]
        if pieces[-1] not in ([], [key]) and sum(widths[one] + 2 for one in piece) - 2 > width:
            piece = [index] if index == key else [key, index]
            pieces.append(piece)
        else:
            pieces[-1] = piece
    return "\n".join(
        plain_table(
            [columns[index] for index in piece],
            [[row[index] for index in piece] for row in rows],
            [right[index] for index in piece],
        )
        for piece in pieces
    )
