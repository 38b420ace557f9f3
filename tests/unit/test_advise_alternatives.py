"""What `advise` tries beside the levers: batch, AIPP, float16 inputs, streams, int8."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.advise import advise
from ascendsim.cli.main import main
from ascendsim.frontends.onnx.export import export_onnx

pytestmark = pytest.mark.usefixtures("untimed_tiles")
KINDS = ["batch", "AIPP", "inputs", "streams", "int8"]


def network(batch: int = 1, values: bool = True) -> asim.Graph:
    """Two convolutions over an image."""
    rng = np.random.default_rng(0)
    b = asim.GraphBuilder("pictures")
    value = b.input("image", (batch, 3, 32, 32))
    for number, channels in enumerate((3, 32)):
        shape = (32, channels, 3, 3)
        weight = rng.standard_normal(shape).astype(np.float32)
        operand = b.constant(weight, f"w{number}") if values else b.weight(f"w{number}", shape)
        value = b.op("Relu", b.op("Conv", value, operand, pads=[1, 1, 1, 1]))
    b.output(b.op("GlobalAveragePool", value), "y")
    return b.build()


@cache
def advised() -> asim.Advice:
    return advise(network(), "Ascend310P3", at_batch=network)


def test_every_kind_is_tried_or_says_why_not() -> None:
    advice = advised()
    assert list(dict.fromkeys(one.kind for one in advice.others)) == KINDS
    assert all(one.time_us is not None or one.note for one in advice.others)
    assert all(one.time_us is not None for one in advice.others)  # of this network nothing is left out


def test_batches_are_runs_of_that_batch_and_count_by_samples() -> None:
    advice = advised()
    first = advice.others[0]
    alone = asim.simulate(asim.compile(network(4), "Ascend310P3"))
    assert (first.what, first.time_us) == ("batch 4", alone.duration_us)
    assert first.samples_per_s == pytest.approx(4e6 / alone.duration_us)
    assert first.speed_up == pytest.approx(4 * advice.duration_us / alone.duration_us)
    assert first.speed_up > 1


def test_float16_inputs_have_no_cast() -> None:
    advice = advised()
    (one,) = [one for one in advice.others if one.kind == "inputs"]
    assert one.time_us < advice.duration_us
    assert one.how == "--input_fp16_nodes=image"


def test_what_was_not_tried_says_why() -> None:
    b = asim.GraphBuilder("words")
    x = b.input("x", (16, 64))
    b.output(b.op("Relu", b.op("MatMul", x, b.weight("w", (64, 64)))), "y")
    found = {one.kind: one for one in advise(b.build(), multi_stream_parallel_mode="MainStream:2").others}
    assert list(found) == KINDS
    for kind, words in (
        ("batch", "load the file with batch="),
        ("AIPP", "no input looks like an image"),
        ("streams", "the option is given already"),
        ("int8", "weights have no values"),
    ):
        assert found[kind].time_us is None
        assert found[kind].note.startswith("not tried: ")
        assert words in found[kind].note


def test_the_file_for_aipp_is_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.onnx").write_bytes(export_onnx(network()))
    arguments = ["advise", str(tmp_path / "net.onnx"), "--soc_version", "Ascend310P3"]
    assert main([*arguments, "--output", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert "none of the levers" not in out
    assert all(kind in out for kind in ("batch 4", "AIPP", "streams", "int8"))
    with_file = asim.compile(network(), "Ascend310P3", insert_op_conf=tmp_path / "out" / "aipp.cfg")
    text = (tmp_path / "out" / "alternatives.csv").read_text(encoding="utf-8")
    row = next(line for line in text.splitlines() if line.startswith("AIPP"))
    assert f"{asim.simulate(with_file).duration_us:.3f}" in row
