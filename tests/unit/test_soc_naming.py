"""Names that are no chip's: boards, families, parts of names; and the one of another chip than most think."""

from __future__ import annotations

import warnings

import pytest

import ascendsim as asim
from ascendsim import soc
from ascendsim.cli.main import main
from ascendsim.core.errors import OptionWarning, SocError
from ascendsim.core.units import GIB
from ascendsim.soc.boards import Board, boards, boards_named, memory_that_holds, plain

A2 = ("Ascend910B1", "Ascend910B2", "Ascend910B2C", "Ascend910B3", "Ascend910B4", "Ascend910B4-1")
A3 = tuple(name for name in soc.names() if name.startswith("Ascend910_93"))


def said(name: str) -> str:
    with pytest.raises(SocError) as caught:
        soc.load(name)
    return str(caught.value)


@pytest.mark.parametrize("name", soc.names())
def test_every_chip_is_found_without_its_first_word_in_any_case(name: str) -> None:
    core = name.removeprefix("Ascend")
    for text in {core, core.lower(), name.lower(), f"Ascend {core}", f"ascend-{core.lower()}"}:
        if text == name:
            continue
        if plain(text) == "910b":  # which most people mean otherwise
            assert all(chip in said(text) for chip in (*A2, name))
        elif plain(text) != "91095":
            assert f"did you mean {name}?" in said(text)


@pytest.mark.parametrize("name", ["910B", "910b", "ascend910b", "A2", "Atlas A2"])
def test_the_second_generation_is_listed_whole(name: str) -> None:
    assert all(chip in said(name) for chip in A2)


@pytest.mark.parametrize("name", ["910C", "A3", "Atlas A3", "Ascend910_93"])
def test_the_third_generation_is_listed_whole(name: str) -> None:
    assert all(chip in said(name) for chip in A3)


def test_a_name_that_is_like_none_gets_all_of_them() -> None:
    assert all(name in said("H100") for name in soc.names())
    assert "did you mean" not in said("H100")


def test_a_wrong_number_never_leads_to_the_chip_that_most_people_do_not_mean() -> None:
    assert "Ascend910B1, Ascend910B2, Ascend910B3 or Ascend910B4?" in said("Ascend910B5")


@pytest.mark.parametrize("board", boards(), ids=lambda board: board.name)
def test_every_board_is_found_by_its_name_and_its_words(board: Board) -> None:
    assert board.chip in soc.names()
    assert board.source
    assert board.memory_gib
    for word in (board.name, board.name.lower().replace(" ", "-"), *board.words):
        assert board in boards_named(word)
        assert board.chip in said(word)
        assert f"dram.size={board.memory_gib[0]}GiB" in said(word)


def test_a_board_of_two_kinds_shows_both() -> None:
    text = said("Orange Pi AI Pro")
    assert "Ascend310B4" in text
    assert "Ascend310B1" in text


@pytest.mark.parametrize("chip", sorted({board.chip for board in boards()}))
def test_the_memory_that_is_named_holds_what_is_asked(chip: str) -> None:
    for gib in (1, 7, 23, 47, 48, 200):
        setting = memory_that_holds(chip, gib * GIB).split(" ")[0].removeprefix("dram.size=")
        spec = soc.load(chip, {"dram.size": setting})
        assert spec.dram.size is not None
        assert spec.dram.size >= gib * GIB


def test_the_first_generation_says_that_it_is_not_the_second(capsys: pytest.CaptureFixture[str]) -> None:
    builder = asim.GraphBuilder()
    builder.output(builder.op("Relu", builder.input("x", (4, 64))), "y")
    graph = builder.build()
    with pytest.warns(OptionWarning, match=r"first generation \(30 cores.*Ascend910B3, Ascend910B4"):
        asim.compile(graph, soc="Ascend910B")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("Ascend910A", *A2):
            asim.compile(graph, soc=name)
        asim.compile(graph, soc=soc.load("Ascend910B"))  # who loads it knows it
    assert main(["llm", "qwen3-8b", "--soc_version", "Ascend910B", "--dtype", "bf16"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert "warning: Ascend910B is a chip of the first generation" in lines[0]
    assert "has no bfloat16; choose dtype 'fp16'" in lines[-1]
    assert "Ascend910B3" in lines[-1]
