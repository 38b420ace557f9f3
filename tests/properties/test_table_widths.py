"""Printed tables are at most as wide as their place, and lose no number, no sentence and no end of a name."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendsim import cli
from ascendsim.cli.common import PIPE_WIDTH, print_table
from ascendsim.cli.main import main
from ascendsim.core.text_table import middle_cut, plain_table

NAMES = st.text("abcXY/_.+0189", min_size=1, max_size=200)
WORDS = st.lists(st.text("abcdefg", min_size=1, max_size=12), min_size=1, max_size=40).map(" ".join)
NUMBERS = st.floats(-1e12, 1e12).map(lambda value: f"{value:,.2f}")
KINDS = st.lists(st.sampled_from(["name", "sentence", "number"]), min_size=1, max_size=18)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[list[str]], list[bool]]:
    """Heads, rows and which columns are numbers; names, sentences and numbers of any length, mixed."""
    kinds = draw(KINDS)
    heads = [
        draw(
            st.sampled_from(
                [
                    "Operator",
                    "Time(us)",
                    "Of peak(%)",
                    "x",
                    "DDR read(MB)",
                    "what it does, or why not",
                ]
            )
        )
        for _ in kinds
    ]
    cells = {"name": NAMES, "sentence": WORDS, "number": NUMBERS}
    rows = draw(st.lists(st.tuples(*(cells[kind] for kind in kinds)).map(list), max_size=5))
    return heads, rows, [kind == "number" for kind in kinds]


@settings(max_examples=150, deadline=None)
@given(tables())
def test_no_line_is_wider_than_a_pipe_shows(table: tuple[list[str], list[list[str]], list[bool]]) -> None:
    heads, rows, right = table
    lines = plain_table(heads, rows, right, width=PIPE_WIDTH).splitlines()
    assert max(len(line) for line in lines) <= PIPE_WIDTH
    words = set(" ".join(lines).split())
    for row in rows:
        for cell, number in zip(row, right, strict=True):
            assert not number or cell in words  # whole


@settings(max_examples=100, deadline=None)
@given(NAMES, st.integers(3, 60))
def test_a_cut_name_keeps_both_ends(name: str, room: int) -> None:
    cut = middle_cut(name, room)
    assert len(cut) == min(len(name), room)
    head, found, tail = cut.partition("…")
    assert name.startswith(head)
    assert name.endswith(tail)
    assert not found or len(tail) >= len(head)


def test_sentences_go_on_in_the_next_line_word_by_word() -> None:
    said = (
        "none of the levers brings a gain because nothing of the network is near any limit of the chip " * 2
    )
    rows = [("Conv", "12.5", said), ("Relu", "1", "fine")]
    lines = plain_table(("type", "us", "said"), rows, (False, True, False), width=60).splitlines()
    assert max(map(len, lines)) <= 60
    text = "\n".join(lines)
    assert [word for word in said.split() if word not in text] == []
    assert lines[-1].split() == ["Relu", "1", "fine"]


def test_a_table_of_too_many_numbers_comes_in_pieces_with_its_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    heads = ["Variant", *(f"figure{index}(us)" for index in range(20))]
    print_table(heads, [[name, *["1,234,567.8"] * 20] for name in ("off", "all")])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= PIPE_WIDTH
    assert (
        sum(line.startswith("off ") for line in lines) == sum(line.startswith("all ") for line in lines) > 1
    )
    assert sum(line.count("1,234,567.8") for line in lines) == 40


def test_what_fits_is_printed_as_it_is() -> None:
    assert plain_table(("a(us)",), [("1",)], (True,), width=5) == "a(us)\n-----\n    1\n"


def test_commands_have_one_way_to_print_a_table() -> None:
    """So what holds of `print_table` holds of every sub-command."""
    folder = Path(cli.__file__).parent
    other = ("table().to_text(", "plain_table(", "folded_table(", "ljust(", "rjust(")
    found = {
        (path.name, word)
        for path in folder.glob("*.py")
        for word in other
        if word in path.read_text(encoding="utf-8") and (path.name, word) != ("common.py", "plain_table(")
    }
    assert found == set()


LENET = Path(__file__).parents[1] / "data" / "models" / "lenet5.onnx"
COMMANDS = (
    f"run {LENET} --values off --soc_version Ascend310P3",
    f"compile {LENET} --soc_version Ascend310P3",
    f"compare {LENET} --values off --batch 1,2 --fusion off,graph,ub,all",
    f"fusion list {LENET} --all",
    f"optimize {LENET}",
    "soc show Ascend910B3",
    "soc list",
    "ops list",
    "ops show Resize",
    "passes list",
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command.split()[:2])[:20])
def test_what_a_pipe_gets_is_no_wider(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every line but sentences of their own, which say how sure a time is or why something is so."""
    assert main(command.split()) == 0
    lines = capsys.readouterr().out.splitlines()
    wide = [
        line for line in lines if len(line) > PIPE_WIDTH and not line.startswith(("likely", "outputs not"))
    ]
    assert wide == []
    assert len(lines) > 2
