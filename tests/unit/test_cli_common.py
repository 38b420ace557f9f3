"""Helpers of the command line: tables, whole files, options in ATC's form."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from ascendsim.cli.common import SOC_OPTIONS, parse_input_shape, parse_settings, print_table
from ascendsim.cli.main import COMMANDS, main
from ascendsim.core.errors import InputError
from ascendsim.frontends.onnx.export import export_onnx
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Tensor
from tests.support.fusing import build


def test_the_package_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "ascendsim", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("ascendsim ")


def test_plain_table_aligns_numbers_right(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("op", "time", "share"), [("conv[1]", 1.5, "60 %"), ("relu", 10, "-")], title="top")
    assert capsys.readouterr().out.splitlines() == [
        "top",
        "op       time  share",
        "-------  ----  -----",
        "conv[1]   1.5   60 %",
        "relu       10      -",
    ]


def test_table_without_rows(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("a", "b"), [])
    assert capsys.readouterr().out == "a  b\n-  -\n"


def test_terminal_table_shows_cells_as_they_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    print_table(("name", "n"), [("[bold]x[/bold]", 1)])
    assert "[bold]x[/bold]" in capsys.readouterr().out


def test_a_narrow_terminal_cuts_names_in_the_middle_and_keeps_numbers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "40")
    name = "/layer4/layer4.0/conv2/Conv+/layer4/layer4.0/relu_1/Relu"
    print_table(("Operator", "Time(us)", "DDR(GB/s)"), [(name, "12,345.67", 36.56)])
    lines = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    assert any("12,345.67" in line and "36.56" in line for line in lines)
    (cut,) = [line.split()[0] for line in lines if "…" in line]  # one line a row
    head, tail = cut.split("…")
    assert name.startswith(head)
    assert name.endswith(tail)
    assert len(tail) >= len(head) >= 4
    assert max(len(line) for line in lines) <= 40


def test_a_wide_terminal_shows_names_whole_and_sentences_are_never_cut(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    name, said = (
        "/layer4/layer4.0/conv2/Conv",
        "memory bound: MTE2 is busier than Cube and Vector; mte2 bound",
    )
    for width, whole in ((120, True), (50, False)):
        monkeypatch.setenv("COLUMNS", str(width))
        print_table(("Operator", "Time(us)", "Findings"), [(name, "12.5", said)])
        printed = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
        assert (name in printed) is whole
        words = printed.split()
        assert [word for word in said.split() if word not in words] == []
        assert max(len(line) for line in printed.splitlines()) <= width


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("a:1,3,224,224;b:1,128", {"a": (1, 3, 224, 224), "b": (1, 128)}),
        (" a : 1 , 2 ; ", {"a": (1, 2)}),
        ("input:0:1,2", {"input:0": (1, 2)}),
        ("s:", {"s": ()}),
        ("", {}),
        (None, {}),
    ],
)
def test_input_shapes(text: str | None, shapes: dict[str, tuple[int, ...]]) -> None:
    assert parse_input_shape(text) == shapes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2,3", "must have the form name:dim,dim;name:dim, not '1,2,3'"),
        (":1,2", "must have the form"),
        ("a:1,0", "must give input 'a' whole positive dimensions, or -1 for open ones, not '0'"),
        ("a:1,-2", "must give input 'a' whole positive dimensions, or -1 for open ones, not '-2'"),
        ("a:1,,2", "must give input 'a' whole positive dimensions, or -1 for open ones, not ''"),
        ("a:1x3", "must give input 'a' whole positive dimensions, or -1 for open ones, not '1x3'"),
        ("a:99999999999999999999", "must give input 'a' whole positive dimensions"),
        ("a:²", "must give input 'a' whole positive dimensions"),
        ("a:1;a:2", "names input 'a' twice"),
        ("a:" + ",".join(["1"] * 33), "gives input 'a' more than 32 dimensions"),
    ],
)
def test_wrong_input_shapes(text: str, message: str) -> None:
    with pytest.raises(InputError, match=f"^option --input_shape {message}"):
        parse_input_shape(text)


def test_settings() -> None:
    assert parse_settings(["a.b=1", " c = x=y "]) == {"a.b": "1", "c": "x=y"}
    assert parse_settings(None) == {}
    with pytest.raises(InputError, match="option --set names a twice"):
        parse_settings(["a=1", "a=2"])


@pytest.mark.parametrize("setting", ["a", "=1", "a=", ""])
def test_wrong_settings(setting: str) -> None:
    with pytest.raises(InputError, match="option --set must have the form key=value"):
        parse_settings([setting])


def test_run_prints_types_before_operators(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def body(b: GraphBuilder) -> Tensor:
        y = b.op("Softmax", b.op("MatMul", b.input("x", (64, 64)), np.ones((64, 64), np.float32)))
        return b.op("ReduceSum", b.op("Transpose", y), np.array([0]))

    path = tmp_path / "small.onnx"
    path.write_bytes(export_onnx(build(body)))
    assert main(["run", str(path), "--values", "off", "--fusion", "off", "--top", "2"]) == 0
    printed = capsys.readouterr().out
    types = [line.split() for line in printed[: printed.index("Operator")].splitlines()]
    (first,) = [number for number, words in enumerate(types) if words[:2] == ["OP", "Type"]]
    times = [float(words[3]) for words in types[first + 2 : first + 4]]
    assert times == sorted(times, reverse=True)
    assert re.search(r"^\d more types: \d+\.\d % of the time$", printed, re.MULTILINE)


def _parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _parsers(inner)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_chip_has_the_name_of_atc_and_that_of_python_in_every_command(name: str) -> None:
    command = import_module(f"ascendsim.cli.{name}")
    parser = argparse.ArgumentParser()
    command.configure(parser)
    for each in _parsers(parser):
        chips = [action for action in each._actions if {*SOC_OPTIONS} & {*action.option_strings}]
        assert all(tuple(action.option_strings) == SOC_OPTIONS for action in chips)
        assert [action.dest for action in chips] in ([], ["soc_version"])


def test_commands_that_run_something_take_a_chip() -> None:
    with_chip = set()
    for name in COMMANDS:
        parser = argparse.ArgumentParser()
        import_module(f"ascendsim.cli.{name}").configure(parser)
        if any("--soc" in each._option_string_actions for each in _parsers(parser)):
            with_chip.add(name)
    others = {"optimize", "passes", "validate", "report", "soc", "ops", "plugins", "torch"}
    assert with_chip >= set(COMMANDS) - others
