"""The network structures in tests/data/models: the index describes exactly what is there."""

from __future__ import annotations

import csv
from math import prod
from pathlib import Path

import onnx
import pytest


def _index(models_dir: Path) -> dict[str, dict[str, str]]:
    with (models_dir / "INDEX.csv").open(encoding="utf-8", newline="") as file:
        return {row["file"]: row for row in csv.DictReader(file)}


def test_the_index_lists_every_file_with_its_size(models_dir: Path) -> None:
    sizes = {path.name: str(path.stat().st_size) for path in models_dir.glob("*.onnx")}
    assert len(sizes) == 41
    assert {name: row["bytes"] for name, row in _index(models_dir).items()} == sizes


def test_the_published_vit_b_16_is_vit_s_16_of_other_sizes(models_dir: Path) -> None:
    """The same operators in the same order, and twice the width."""
    small, base = (
        onnx.load(models_dir / name, load_external_data=False)
        for name in ("vit_s_16.onnx", "published/vit_b_16.onnx")
    )
    assert [node.op_type for node in small.graph.node] == [node.op_type for node in base.graph.node]
    parameters = sum(prod(tensor.dims) for tensor in base.graph.initializer if tensor.data_type == 1)
    assert parameters / 1e6 == pytest.approx(86.57, abs=0.1), "as the paper has it"


@pytest.mark.parametrize(
    "name", ["lenet5.onnx", "resnet18.onnx", "bert_tiny_s64_traced.onnx", "yolov5s.onnx"]
)
def test_the_index_counts_what_a_file_holds(models_dir: Path, name: str) -> None:
    model = onnx.load(models_dir / name, load_external_data=False)
    row = _index(models_dir)[name]
    counts: dict[str, int] = {}
    for node in model.graph.node:
        counts[node.op_type] = counts.get(node.op_type, 0) + 1
    assert counts == {op: int(count) for op, count in (part.split(":") for part in row["operators"].split())}
    assert sum(counts.values()) == int(row["nodes"])
    assert model.opset_import[0].version == int(row["opset"])
