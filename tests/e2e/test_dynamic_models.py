"""Real networks with control flow and open shapes: silero-vad with its If, PP-OCR with gears; values equal
onnxruntime's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray

import ascendsim as asim
from tests.support.packages import file_of

SOC = "Ascend310P3"
VOICE = ("silero_vad.onnx", "silero_vad_half.onnx", "silero_vad_op18_ifless.onnx", "silero_vad_16k_op15.onnx")

pytestmark = pytest.mark.usefixtures("untimed_tiles")


def _reference(path: Path, inputs: dict[str, NDArray[Any]]) -> list[NDArray[Any]]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return list(
        onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, inputs)
    )


def _check(result: asim.Result, wanted: list[NDArray[Any]], share: float) -> None:
    for name, reference in zip(result.outputs, wanted, strict=True):
        assert result.outputs[name].shape == reference.shape
        assert np.abs(result.outputs[name] - reference).max() <= share * max(
            float(np.abs(reference).max()), 1e-3
        )


def _voice(path: Path, rate: int) -> dict[str, NDArray[Any]]:
    """A chunk of 32 ms with the 4 ms before it, as the package feeds them: a tone in noise."""
    samples = 576 if rate == 16000 else 288
    noise = np.random.default_rng(1).standard_normal((1, samples)) * 0.05
    sound = (np.sin(np.arange(samples) * 2 * np.pi * 220 / rate) * 0.5 + noise).astype(np.float32)
    inputs = {"input": sound, "state": np.zeros((2, 1, 128), np.float32), "sr": np.array(rate, np.int64)}
    names = {
        item.name
        for item in onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).get_inputs()
    }
    return {name: array for name, array in inputs.items() if name in names}


def _page(height: int, width: int) -> NDArray[Any]:
    """Dark strokes in lines on white, values in -1..1: something like print."""
    y, x = np.mgrid[0:height, 0:width]
    strokes = (y % 32 > 8) & (y % 32 < 20) & (x % 7 < 3) & (x > 12) & (x < width - 12)
    return np.broadcast_to(np.where(strokes, -1, 1), (1, 3, height, width)).astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("name", VOICE)
def test_silero_vad(name: str) -> None:
    path = file_of("silero_vad", f"data/{name}")
    model = asim.compile(asim.load(path), soc=SOC)
    assert isinstance(model, asim.DynamicModel)
    for rate in (16000, 8000) if "16k" not in name else (16000,):
        inputs = _voice(path, rate)
        wanted = _reference(path, inputs)
        exact = asim.run(model, inputs, values="float32")
        _check(exact, wanted, 1e-4)
        device = asim.run(model, inputs)
        _check(device, wanted, 2e-2)
        assert exact.duration_us == device.duration_us
        assert device.schedule == "host"
        assert "has the open shape" in device.schedule_reasons[0]


def test_silero_vad_takes_the_branch_of_its_rate() -> None:
    """The outer If asks the sample rate: the host reads the condition back; with static shapes the device
    decides."""
    path = file_of("silero_vad", "data/silero_vad.onnx")
    model = asim.compile(asim.load(path), soc=SOC)
    for rate, branch in ((8000, "else_branch"), (16000, "then_branch")):
        result = asim.run(model, _voice(path, rate))
        heads = {
            name.split("/")[1]
            for name in (record.name for record in result.trace.tasks)
            if name.startswith("If_0/")
        }
        assert heads == {branch}
        assert sum(task.read_backs for task in result.model.program.tasks) == 1
    static = asim.compile(asim.load(path, shapes={"input": (1, 576), "state": (2, 1, 128)}), soc=SOC)
    inputs = _voice(path, 16000)
    sunk = asim.run(static, inputs, values="float32")
    _check(sunk, _reference(path, inputs), 1e-4)
    assert (sunk.schedule, sunk.schedule_reasons) == ("sink", ())
    assert sum(task.decisions for task in sunk.model.program.tasks) == 1
    assert sunk.duration_us < result.duration_us / 2


@pytest.mark.slow
def test_pp_ocr_detection_with_gears() -> None:
    """Height and width from a list: sunk as a static model is, several times faster than open shapes at these
    sizes."""
    path = file_of("rapidocr_onnxruntime", "models/ch_PP-OCRv4_det_infer.onnx")
    graph = asim.load(path, shapes={"x": (1, 3, -1, -1)})
    model = asim.compile(graph, soc=SOC, dynamic_image_size="96,160;160,160")
    assert isinstance(model, asim.GearedModel)
    open_model = asim.compile(graph, soc=SOC)
    for height, width in model.gears:
        inputs = {"x": _page(height, width)}
        result = asim.run(model, inputs, values="float32")
        assert result.outputs["sigmoid_0.tmp_0"].max() > 0.1  # it sees lines
        _check(result, _reference(path, inputs), 1e-4)
        assert result.schedule == "sink"
        static = asim.simulate(asim.compile(asim.load(path, shapes={"x": (1, 3, height, width)}), soc=SOC))
        host = asim.simulate(open_model, shapes={"x": (1, 3, height, width)})
        assert static.duration_us < result.duration_us < static.duration_us * 1.05
        assert host.duration_us > 2 * result.duration_us
        assert host.schedule_reasons[0].startswith("input 'x' has the open shape [1, 3, -1, -1]")
    with pytest.raises(
        asim.InputError, match=r"must be those of a gear \(96,160;160,160\), not x: \[1, 3, 128, 128\]"
    ):
        asim.simulate(model, shapes={"x": (1, 3, 128, 128)})


@pytest.mark.slow
def test_pp_ocr_recognition_with_gears() -> None:
    """A network with attention, over two widths; its shape arithmetic is folded gear by gear."""
    path = file_of("rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx")
    graph = asim.load(path, shapes={"x": (1, 3, 48, -1)})
    model = asim.compile(graph, soc=SOC, dynamic_dims=[(64,), (128,)])
    assert isinstance(model, asim.GearedModel)
    inputs = asim.random_inputs(model, shapes={"x": (1, 3, 48, 64)})
    _check(asim.run(model, inputs, values="float32"), _reference(path, inputs), 1e-3)
    alone = [
        asim.compile(asim.load(path, shapes={"x": (1, 3, 48, width)}), soc=SOC).program.memory
        for (width,) in model.gears
    ]
    assert model.weight_bytes < 1.05 * max(memory.weight_bytes for memory in alone)
    assert model.arena_bytes < 1.05 * max(memory.peak_bytes for memory in alone)
