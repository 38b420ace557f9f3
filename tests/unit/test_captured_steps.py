"""Captured training steps: what is kept is what is captured, and what is no such file is refused."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

import ascendsim as asim
from ascendsim.core.errors import GraphError, InputError
from ascendsim.graph.text import to_text
from ascendsim.graph.verify import verify
from ascendsim.validate import captured_steps, training
from ascendsim.validate.captured_steps import pack_step, read_step
from ascendsim.validate.training import SUNK, Loop, run_step, training_points

# what a sample is; weights and their state: two moments and powers of BERT's, one moment of the other's
STEPS = {
    "published/bert_base_s128_step.txt.gz": ((128,), 620),
    "published/vit_b_16_step.txt.gz": ((3, 224, 224), 400),
}


def test_every_captured_step_is_there_for_its_batch(models_dir: Path) -> None:
    steps = {point.loop.step: point for point in training_points() if point.loop.step}
    assert set(steps) == set(STEPS)
    for name, (sample, kept) in STEPS.items():
        graph = read_step(models_dir / name)
        verify(graph)
        assert graph.tensors["input_0"].shape == (steps[name].batch, *sample)
        names = {tensor.name for tensor in graph.outputs}
        assert not any(name.endswith(".grad") for name in names)
        assert sum(name.endswith(".updated") for name in names) == kept


@pytest.mark.slow
@pytest.mark.parametrize("name", STEPS)
def test_the_file_is_what_is_captured(models_dir: Path, name: str) -> None:
    pytest.importorskip("torch")
    from scripts import make_captured_steps

    captured = make_captured_steps.STEPS[name.removeprefix("published/")]()
    assert gzip.decompress((models_dir / name).read_bytes()).decode() == to_text(captured)


def _small(models_dir: Path) -> asim.TrainingStep:
    graph = asim.load(models_dir / "lenet5.onnx", batch=16)
    return asim.training_step(graph, loss="cross_entropy", optimizer="momentum")


@pytest.mark.usefixtures("untimed_tiles")
def test_a_captured_step_takes_the_place_of_a_made_one(
    models_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lenet5.onnx").write_bytes((models_dir / "lenet5.onnx").read_bytes())
    (tmp_path / "own.txt.gz").write_bytes(pack_step(_small(models_dir).graph))
    monkeypatch.setattr(captured_steps, "OPTIONS", {})
    monkeypatch.setattr(training, "OPTIONS", {"precision_mode": "allow_mix_precision"})
    own, _ = run_step(tmp_path / "lenet5.onnx", 16, "Ascend910A", Loop(step="own.txt.gz"))
    made, _ = run_step(tmp_path / "lenet5.onnx", 16, "Ascend910A", SUNK)
    assert own.duration_us > made.duration_us  # it hands out its gradients


def test_files_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(content: bytes, match: str) -> None:
        path = tmp_path / "step.txt.gz"
        path.write_bytes(content)
        with pytest.raises((InputError, GraphError), match=match):
            read_step(path)

    refused(b"graph", "packed by gzip")
    refused(gzip.compress(b"graph")[:-4], "packed by gzip")
    refused(gzip.compress(b"\xff"), "UTF-8")
    refused(gzip.compress(b"graph x {"), "text")
    monkeypatch.setattr(captured_steps, "MOST_BYTES", 100)
    refused(gzip.compress(b"x" * 101), "at most 100 bytes")
