"""Real networks with their real weights, from packages that ship them: values equal onnxruntime's."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray

import ascendsim as asim
from tests.support.packages import file_of

MODELS = {
    "detector": ("ddddocr", "common_det.onnx", {"images": (1, 3, 416, 416)}),  # YOLOX-like, 279 nodes
    "text": ("ddddocr", "common.onnx", {"input1": (1, 1, 64, 224)}),  # convolution and LSTM
    # convolution and attention, dynamic width
    "recogniser": ("rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 320)}),
    # 566 nodes
    "direction": (
        "rapidocr_onnxruntime",
        "models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        {"x": (1, 3, 48, 192)},
    ),
}


def _picture(shape: tuple[int, ...]) -> NDArray[Any]:
    """A smooth picture with some edges, values in -1..1: closer to a photograph than noise is."""
    batch, channels, height, width = shape
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    waves = [np.sin(x / (7 + 3 * c)) * np.cos(y / (5 + 2 * c)) for c in range(channels)]
    picture = np.stack([np.where((x // 16 + y // 16) % 2 == 0, wave, -wave) for wave in waves])
    return np.broadcast_to(picture, (batch, *picture.shape)).astype(np.float32).copy()


@pytest.mark.parametrize("name", MODELS)
def test_values_equal_onnxruntime(name: str) -> None:
    package, file, shapes = MODELS[name]
    path = file_of(package, file)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    inputs = {key: _picture(shape) for key, shape in shapes.items()}
    expected = dict(
        zip([output.name for output in session.get_outputs()], session.run(None, inputs), strict=True)
    )
    model = asim.compile(asim.load(path, shapes=shapes), soc="Ascend310P3")
    exact = asim.run(model, inputs, values="float32")
    device = asim.run(model, inputs)
    assert exact.duration_us == device.duration_us > 0
    for key, reference in expected.items():
        spread = float(np.ptp(reference)) or 1.0
        assert np.abs(exact.outputs[key] - reference).max() <= 1e-4 * spread
        a, b = device.outputs[key].astype(np.float64).ravel(), reference.astype(np.float64).ravel()
        assert a @ b / np.linalg.norm(a) / np.linalg.norm(b) >= 0.999
