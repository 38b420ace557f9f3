"""A table as reports return it: named columns, plain cells, and msprof's conventions when it becomes CSV."""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Union

from ascendsim.core.arguments import checked
from ascendsim.core.errors import InputError, suggest
from ascendsim.core.files import write_whole
from ascendsim.core.text_table import MOST_ROWS, folded_table

if TYPE_CHECKING:
    import pandas as pd

Cell = Union[str, int, float, None]
Row = tuple[Cell, ...]

# style of a time stamp column: msprof ends such cells with a TAB so that spreadsheets do not round them
TAB = "tab"
QUOTED = "quoted"  # style of a shape column: msprof puts quotation marks inside the cell
# style of a column whose floats span many orders of magnitude: three significant digits instead of three
# decimals
GENERAL = "general"
_FORMULA = re.compile(r"[=+\-@\t\n].", re.DOTALL)
_NUMBER = re.compile(r"[+-]?(?:[0-9][0-9,]*\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*%?")


@dataclass(frozen=True)
class Table:
    """Columns and rows. Cells are strings, integers, floats, or None where msprof prints N/A.

    Attributes:
        name: What it is ("op_summary").
        columns: Column titles, with units.
        rows: Cells by row, as many as there are columns.
        styles: Column title -> `TAB` or `QUOTED`, which affect CSV only, or `GENERAL`.
    """

    name: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    styles: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, key: int | slice | str) -> Any:
        """A row by its position, a shorter table by a slice, the cells of a column by its title.

        Raises:
            InputError: If there is no such row or column.
        """
        if isinstance(key, str):
            return self.column(key)
        if isinstance(key, slice):
            return replace(self, rows=self.rows[key])
        if not -len(self) <= key < len(self):
            raise InputError(f"row {key}", f"is not in table {self.name}", remedy=f"it has {len(self)} rows")
        return self.rows[key]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    @checked()
    def index(self, column: str) -> int:
        """Position of a column.

        Raises:
            InputError: If there is no such column (suggests the nearest one).
        """
        if column not in self.columns:
            raise InputError(
                f"column {column!r}", f"is not in table {self.name}", remedy=suggest(column, self.columns)
            )
        return self.columns.index(column)

    @checked()
    def column(self, column: str) -> tuple[Cell, ...]:
        """All cells of a column."""
        index = self.index(column)
        return tuple(row[index] for row in self.rows)

    def records(self) -> list[dict[str, Cell]]:
        """Rows as dictionaries."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    @checked()
    def sort(self, column: str, descending: bool = False) -> Table:
        """The table ordered by a column; missing cells come last, equal cells keep their order."""
        index = self.index(column)
        present = [row for row in self.rows if row[index] is not None]
        missing = [row for row in self.rows if row[index] is None]
        text = any(isinstance(row[index], str) for row in present)

        def key(row: Row) -> Any:
            return str(row[index]) if text else row[index]

        return replace(self, rows=(*sorted(present, key=key, reverse=descending), *missing))

    @checked()
    def top(self, count: int, column: str | None = None) -> Table:
        """The first `count` rows, or those with the largest values of a column."""
        if count < 0:
            raise InputError("the number of rows", "must not be negative", count)
        ordered = self if column is None else self.sort(column, descending=True)
        return replace(self, rows=ordered.rows[:count])

    @checked()
    def filter(self, predicate: Callable[[dict[str, Cell]], bool] | None = None, /, **equal: Cell) -> Table:
        """The rows for which a function of the row (as a dictionary) is true and the named columns have the
        given values.
        """
        wanted = {self.index(column): value for column, value in equal.items()}
        rows = []
        for row in self.rows:
            if any(row[index] != value for index, value in wanted.items()):
                continue
            if predicate is None or predicate(dict(zip(self.columns, row, strict=True))):
                rows.append(row)
        return replace(self, rows=tuple(rows))

    @checked()
    def to_csv(self, path: str | PathLike[str] | None = None) -> str:
        """The table as CSV in msprof's conventions: three decimals, N/A for missing cells, TAB after time
        stamps, quoted shapes. Texts that a spreadsheet would take for a formula (they begin with =, +, -, @,
        a tab or a line break and are no number) have an apostrophe before them.

        Args:
            path: File to write as well (whole or not at all).

        Returns:
            The text.

        Raises:
            InputError: If the file cannot be written.
        """
        styles = [self.styles.get(column) for column in self.columns]
        text = csv_text(
            self.columns,
            ([_csv_cell(cell, style) for cell, style in zip(row, styles, strict=True)] for row in self.rows),
        )
        if path is not None:
            write_whole(path, text.encode())
        return text

    def to_dataframe(self) -> pd.DataFrame:
        """The table as a pandas data frame; missing cells are NaN or None.

        Raises:
            InputError: If pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError:
            raise InputError(
                "to_dataframe()",
                "needs pandas, which is not installed",
                remedy='install it with pip install "ascendsim[dataframe]"',
            ) from None
        return pd.DataFrame.from_records([list(row) for row in self.rows], columns=list(self.columns))

    def to_html(self) -> str:
        """The table as a self-contained, escaped HTML fragment."""
        head = "".join(f"<th>{html.escape(column)}</th>" for column in self.columns)
        styles = [self.styles.get(column) for column in self.columns]
        cells = [
            [_html_cell(cell, style) for cell, style in zip(row, styles, strict=True)] for row in self.rows
        ]
        body = "".join(f"<tr>{''.join(row)}</tr>" for row in cells)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def _repr_html_(self) -> str:
        shown = self.top(60)
        more = (
            f"<p>{len(self) - 60} more rows; see .rows, .to_csv(path) or .to_dataframe()</p>"
            if len(self) > 60
            else ""
        )
        return shown.to_html() + more

    @checked()
    def to_text(self, most_rows: int | None = None) -> str:
        """The table as aligned text; columns that do not fit into a line follow below.

        Args:
            most_rows: Rows that are shown, None for all; the last line says how many are not.
        """
        if most_rows is not None and most_rows < 0:
            raise InputError("argument most_rows", "must not be negative", most_rows)
        shown = self if most_rows is None else self.top(most_rows)
        styles = [self.styles.get(column) for column in self.columns]
        numbers = [
            all(cell is None or isinstance(cell, int | float) for cell in cells)
            for cells in zip(*self.rows, strict=True)
        ] or [False] * len(self.columns)
        text = folded_table(
            self.columns,
            [[cell_text(cell, style) for cell, style in zip(row, styles, strict=True)] for row in shown.rows],
            numbers,
        )
        left = len(self) - len(shown)
        return text + (f"... {left} more rows; see .rows, .to_csv(path) or .to_text()\n" if left else "")

    def __repr__(self) -> str:
        head = f"Table({self.name!r}, {len(self.rows)} rows x {len(self.columns)} columns)"
        return f"{head}\n{self.to_text(MOST_ROWS)}".rstrip() if self.columns else head


def cell_text(cell: Cell, style: str | None = None) -> str:
    """A cell as people read it: floats with three decimals (or three significant digits, `GENERAL`), N/A for
    a missing one.

    >>> cell_text(1.23456), cell_text(7), cell_text(None), cell_text(1.23456e-7, GENERAL)
    ('1.235', '7', 'N/A', '1.23e-07')
    """
    if cell is None:
        return "N/A"
    if isinstance(cell, float):
        return f"{cell:.3g}" if style == GENERAL else f"{cell:.3f}"
    return str(cell)


def csv_text(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Heads and cells as CSV, none of which a spreadsheet computes: who made a model has named its nodes."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerows(map(_no_formula, row) for row in (columns, *rows))
    return buffer.getvalue()


def _csv_cell(cell: Cell, style: str | None) -> str:
    text = cell_text(cell, style)
    if cell is None or style not in (TAB, QUOTED):
        return text
    return f"{text}\t" if style == TAB else f'"{text}"'


def _no_formula(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n")  # which versions of Python do not quote alike
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def _html_cell(cell: Cell, style: str | None) -> str:
    if isinstance(cell, (int, float)):
        return f'<td style="text-align:right">{cell_text(cell, style)}</td>'
    return f'<td style="text-align:left">{html.escape(cell_text(cell))}</td>'
