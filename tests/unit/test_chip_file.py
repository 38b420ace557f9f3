"""A chip written as a file: it loads as the chip that it was, and is where one's own begins."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import ascendsim as asim
from ascendsim import soc
from ascendsim.cli.main import main
from ascendsim.core.errors import SocError
from ascendsim.soc.schema import schema


@pytest.mark.parametrize("name", soc.names())
def test_every_chip_comes_back_from_its_file(name: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    assert main(["soc", "show", name, "--toml", "--output", str(path)]) == 0
    assert soc.load(path) == soc.load(name)


def test_what_it_prints_is_what_it_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.toml"
    assert main(["soc", "show", "Ascend910B3", "--toml"]) == 0
    printed = capsys.readouterr().out
    assert main(["soc", "show", "Ascend910B3", "--toml", "--output", str(path)]) == 0
    assert capsys.readouterr().out == f"wrote {path}\n"
    assert path.read_text(encoding="utf-8") == printed


def test_changes_are_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    changes = ["--set", "l2.size=32MiB", "--set", "ai_cores=3"]
    assert main(["soc", "show", "Ascend310P3", *changes, "--toml", "--output", str(path)]) == 0
    mine, theirs = soc.load(path), soc.load("Ascend310P3")
    assert (mine.l2.size, mine.ai_cores) == (32 << 20, 3)
    assert mine.dram == theirs.dram


def test_figures_keep_what_is_said_of_them() -> None:
    document = tomllib.loads(soc.chip_file(soc.load("Ascend310P3")))
    assert document["name"] == "Ascend310P3"
    assert document["split_cores"] is False
    assert document["dram"]["read_gb_per_s"]["fitted_on"] == ["networks on 310P3 and 310P, batch 1, 8, 32"]
    assert document["dram"]["reserved"]["assumed"] is True
    assert document["l2"]["size"] == {
        "value": 16777216,
        "source": "CANN 8.1.RC1 platform_config/Ascend310P3.ini: l2_size",
    }
    # a clock that follows another one is not pinned
    assert "vector_frequency_mhz" not in tomllib.loads(soc.chip_file(soc.load("Ascend310")))


def test_a_changed_figure_is_all_that_a_chip_of_ones_own_needs(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    text = soc.chip_file(soc.load("Ascend310P3")).replace('name = "Ascend310P3"', 'name = "Mine"')
    path.write_text(text.replace("ai_cores = { value = 8,", "ai_cores = { value = 16,"), encoding="utf-8")
    builder = asim.GraphBuilder()
    x = builder.input("x", (2048, 2048))
    builder.output(builder.op("MatMul", x, builder.weight("w", (2048, 2048))), "y")
    graph = builder.build()
    mine, theirs = (asim.simulate(asim.compile(graph, chip)) for chip in (path, "Ascend310P3"))
    assert mine.model.soc.name == "Mine"
    assert mine.duration_us < theirs.duration_us


@pytest.mark.parametrize("word", ["base", "Base", "parent", "inherits", "based_on", "extend", "soc"])
def test_other_words_for_the_chip_that_it_builds_on(word: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f'name = "Mine"\n{word} = "Ascend310P3"\n', encoding="utf-8")
    with pytest.raises(SocError, match=rf"key {word} does not exist; did you mean extends\?"):
        soc.load(path)


def test_a_key_that_is_like_no_other_is_told_all_that_there_are(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('name = "Mine"\nextends = "Ascend310P3"\nzzzzzzz = 4\n', encoding="utf-8")
    with pytest.raises(SocError, match="known are ") as refused:
        soc.load(path)
    listed = str(refused.value).partition("known are ")[2].split(", ")
    assert listed == ["extends", *dict.fromkeys(key.partition(".")[0] for key in schema())]
    path.write_text('name = "Mine"\nextends = "Ascend310P3"\n[l2]\nqqqqq = 4\n', encoding="utf-8")
    with pytest.raises(SocError, match="known are ") as refused:
        soc.load(path)
    listed = str(refused.value).partition("known are ")[2].split(", ")
    assert listed == [key for key in schema() if key.startswith("l2.")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--output", "mine.toml"], "option --output goes with --toml, not 'mine.toml'"),
        (["--toml", "--output", "mine.txt"], "option --output must end in .toml, not 'mine.txt'"),
    ],
)
def test_a_file_that_is_none(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["soc", "show", "Ascend310", *options]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
