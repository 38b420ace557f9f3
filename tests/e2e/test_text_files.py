"""Text files that users name and that are no text, no JSON or not there are refused in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.cli.search import read_space
from ascendsim.core.errors import AscendSimError, InputError
from ascendsim.llm import architecture, poisson
from ascendsim.llm.requests import workload
from ascendsim.passes.fusion.result_file import read_result
from ascendsim.passes.fusion.switch_file import read_switch_file
from ascendsim.soc import load
from ascendsim.validate import read_rows

READERS: dict[str, Callable[[Path], Any]] = {
    "requests": workload,
    "config": architecture,
    "chip": lambda path: load(path.with_suffix(".toml")),
    "space": lambda path: read_space(str(path)),
    "switch": read_switch_file,
    "fusion_result": read_result,
    "measurements": lambda path: read_rows(path, Path()),
}
CONTENTS = {
    "latin": '{"prompt_len": 3, "name": "ä"}\n'.encode("latin-1"),
    "utf-16": '{"prompt_len": 3}'.encode("utf-16"),
    "noise": bytes(range(256)),
    "deep": b"[" * 200_000,
    "deep table": b"a = " + b"[" * 100_000,
    "deep objects": b'{"a":' * 200_000,
    "empty": b"",
    "nul": b"\0" * 100,
    "number": b"3",
    "half": b'{"prompt_len": 3, "out',
}


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("name", READERS)
def test_what_is_no_text_is_refused_in_one_line(name: str, content: str, tmp_path: Path) -> None:
    for ending in ("json", "toml"):
        (tmp_path / f"given.{ending}").write_bytes(CONTENTS[content])
    with pytest.raises(AscendSimError) as caught:
        READERS[name](tmp_path / "given.json")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("name", READERS)
def test_what_is_no_file_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "folder.toml").mkdir()
    for path in (tmp_path / "none.json", tmp_path / "folder.json", tmp_path / "a\0b.json"):
        with pytest.raises(AscendSimError) as caught:
            READERS[name](path)
        assert "\n" not in str(caught.value)


def test_the_line_that_is_no_utf_8_is_named(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_bytes(b'{"prompt_len": 3, "output_len": 4}\n\n{"\xe4": 1}')
    with pytest.raises(InputError, match=r"must be UTF-8 text \(line 3 is not\); save it as UTF-8"):
        workload(tmp_path / "r.jsonl")


def test_a_mark_of_byte_order_is_no_part_of_the_text(tmp_path: Path) -> None:
    rows = [{"prompt_len": 3, "output_len": 4}, {"prompt_len": 5, "output_len": 6}]
    (tmp_path / "r.json").write_text(json.dumps(rows), encoding="utf-8-sig")
    assert list(workload(tmp_path / "r.json").prompt) == [3, 5]


@pytest.mark.parametrize("span", [[], (), [3, 2], [1, 2, 3], 0, -1, [0, 5], 10**30, [1, 10**30], [5, -5]])
@pytest.mark.parametrize("name", ["prompt", "output"])
def test_lengths_that_cannot_be_drawn(name: str, span: Any) -> None:
    given = {"prompt": 8, "output": 8, name: span}
    with pytest.raises(InputError, match=f"(option|argument) {name} must be"):
        poisson(1.0, 4, **given)


@pytest.mark.parametrize("span", [8, [8], (8, 8), np.int64(8), [8, 9]])
def test_lengths_that_can_be_drawn(span: Any) -> None:
    assert set(poisson(1.0, 4, span, 8).prompt) <= {8, 9}


@pytest.mark.parametrize("seed", [-1, -(2**70), 2**32, 2**70])
def test_seeds_that_seed_nothing(seed: int) -> None:
    builder = asim.GraphBuilder()
    builder.output(builder.op("Relu", builder.input("x", (2, 2))), "y")
    model = asim.compile(builder.build())
    for call in (
        lambda: asim.random_inputs(model, seed),
        lambda: poisson(1.0, 2, 3, 4, seed=seed),
        lambda: asim.llm.model("qwen2-0.5b", seed=seed),
        lambda: asim.search("x.onnx", {"batch": [1, 2]}, trials=1, seed=seed),
    ):
        with pytest.raises(InputError, match="option seed must be from 0 to 4294967295"):
            call()


@pytest.mark.parametrize(
    "given", [np.array("s"), np.array(3), np.array(["s"]), np.array([1.5]), np.zeros((2, 2)), np.array(None)]
)
def test_an_array_is_a_sequence_of_what_it_holds(given: Any) -> None:
    builder = asim.GraphBuilder()
    builder.output(builder.op("Relu", builder.input("x", (2, 2))), "y")
    graph = builder.build()
    asim.compile(graph, operators=[])
    for call in (
        lambda: asim.compile(graph, operators=given),
        lambda: asim.optimize(graph, operators=given),
        lambda: asim.GraphBuilder(operators=given),
    ):
        with pytest.raises(InputError, match="(option|argument) operators must be a sequence of OpDef"):
            call()
