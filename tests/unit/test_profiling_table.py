"""Table: msprof's CSV conventions, sorting, filtering, other forms."""

from __future__ import annotations

import csv
import io
import sys

import pytest

from ascendsim.core.errors import InputError
from ascendsim.core.table import QUOTED, TAB, Table

TABLE = Table(
    "sample",
    ("Name", "Start(us)", "Shapes", "Ratio"),
    (("b", 1.0, "1,3;4", 0.12345), ("a<b>", 20.5, "2", None), ("c", 3.25, "", 1)),
    {"Start(us)": TAB, "Shapes": QUOTED},
)


def test_csv_follows_msprof_conventions():
    assert TABLE.to_csv() == (
        'Name,Start(us),Shapes,Ratio\nb,1.000\t,"""1,3;4""",0.123\na<b>,20.500\t,"""2""",N/A\nc,3.250\t,'
        '"""""",1\n'
    )


def test_csv_reads_back_with_a_csv_reader():
    rows = list(csv.reader(io.StringIO(TABLE.to_csv())))
    assert [len(row) for row in rows] == [4, 4, 4, 4]
    assert rows[1][2] == '"1,3;4"'


def test_csv_file_is_whole_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("old")
    assert TABLE.to_csv(path) == path.read_text() == TABLE.to_csv()
    assert [p.name for p in tmp_path.iterdir()] == ["t.csv"]


def test_csv_into_a_missing_folder_is_an_error_and_leaves_nothing(tmp_path):
    with pytest.raises(InputError, match=r"absent.t\.csv.*No such file"):
        TABLE.to_csv(tmp_path / "absent" / "t.csv")
    assert list(tmp_path.iterdir()) == []


def test_sort_puts_missing_cells_last_and_is_stable():
    assert TABLE.sort("Ratio").column("Name") == ("b", "c", "a<b>")
    assert TABLE.sort("Ratio", descending=True).column("Name") == ("c", "b", "a<b>")
    assert TABLE.sort("Name").column("Name") == ("a<b>", "b", "c")


def test_top_and_filter():
    assert TABLE.top(1, "Start(us)").column("Name") == ("a<b>",)
    assert len(TABLE.top(0)) == 0
    assert TABLE.filter(Name="c").column("Start(us)") == (3.25,)
    assert TABLE.filter(lambda row: isinstance(row["Start(us)"], float) and row["Start(us)"] > 2).column(
        "Name"
    ) == ("a<b>", "c")
    with pytest.raises(InputError, match=r"number of rows must not be negative, not -1"):
        TABLE.top(-1)


def test_unknown_column_is_named_with_the_nearest():
    with pytest.raises(InputError, match=r"column 'Shape' is not in table sample; did you mean Shapes\?"):
        TABLE.column("Shape")


def test_html_is_escaped_and_long_tables_are_cut():
    assert "a&lt;b&gt;" in TABLE.to_html()
    assert "a<b>" not in TABLE._repr_html_()
    long = Table("long", ("n",), tuple((i,) for i in range(100)))
    assert long._repr_html_().count("<tr>") == 61
    assert "40 more rows" in long._repr_html_()


def test_dataframe_keeps_columns_and_missing_values():
    frame = TABLE.to_dataframe()
    assert list(frame.columns) == list(TABLE.columns)
    assert frame["Start(us)"].tolist() == [1.0, 20.5, 3.25]
    assert frame["Ratio"].isna().tolist() == [False, True, False]


def test_dataframe_without_pandas_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match=r"needs pandas.*ascendsim\[dataframe\]"):
        TABLE.to_dataframe()


def test_a_table_prints_itself() -> None:
    table = Table("times", ("Op", "Time(us)", "Note"), (("conv", 1.5, None), ("relu", 10.25, "slow")))
    assert str(table).splitlines() == [
        "Table('times', 2 rows x 3 columns)",
        "Op    Time(us)  Note",
        "----  --------  ----",
        "conv     1.500  N/A",
        "relu    10.250  slow",
    ]
    long = Table("long", ("i",), tuple((i,) for i in range(41)))
    assert str(long).splitlines()[-1] == "... 1 more rows; see .rows, .to_csv(path) or .to_text()"
    assert "... " not in long.to_text()
    assert str(Table("none", ("a", "b"), ())).splitlines()[1:] == ["a  b", "-  -"]


def test_wide_tables_go_on_below_and_every_piece_names_its_rows() -> None:
    columns = ("id", "name", *(f"column_{i:02}" for i in range(20)))
    table = Table("wide", columns, tuple((0, f"op{r}", *range(20)) for r in range(2)))
    text = table.to_text()
    pieces = text.strip().split("\n\n")
    assert max(map(len, text.splitlines())) <= 110
    assert len(pieces) == 3
    assert [piece.split()[0] for piece in pieces] == [
        "id",
        "name",
        "name",
    ]  # the ids are equal, the names not
    heads = [head for piece in pieces for head in piece.splitlines()[0].split()]
    assert [head for head in heads if head.startswith("column")] == list(columns[2:])


def test_rows_columns_and_slices_by_brackets() -> None:
    table = Table("t", ("a", "b"), ((1, "x"), (2, "y"), (3, "z")))
    assert table[0] == (1, "x")
    assert table[-1] == (3, "z")
    assert table[1:].rows == ((2, "y"), (3, "z"))
    assert table["b"] == ("x", "y", "z")
    with pytest.raises(InputError, match="row 3 is not in table t; it has 3 rows"):
        table[3]
    with pytest.raises(InputError, match="column 'c'"):
        table["c"]


FORMULAS = ("=1+2", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "=", "+x", "--")
PLAIN = ("-", "-3", "+4.5", "-1e-3", "-0.5%", "-1,234.5", "a=b", "", "+12.0 %", "/layer-1")


@pytest.mark.parametrize("text", FORMULAS)
def test_no_text_is_a_formula_in_a_spreadsheet(text: str) -> None:
    table = Table("t", (text, "b"), ((text, 1), ("plain", -2.5)))
    (head, _), (cell, _), (plain, number) = csv.reader(io.StringIO(table.to_csv(), newline=""))
    assert head == cell == (f"'{text}".replace("\r", "\n") if len(text) > 1 else text)
    assert (plain, number) == ("plain", "-2.500")


@pytest.mark.parametrize("text", PLAIN)
def test_numbers_and_plain_texts_stay_as_they_are(text: str) -> None:
    assert Table("t", ("a",), ((text,),)).to_csv() == "a\n" + csv_line(text)


def csv_line(text: str) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow([text])
    return buffer.getvalue()
