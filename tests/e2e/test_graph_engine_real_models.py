"""The graph engine on real networks with their real weights, open shapes and control flow: values stay, a
second run changes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.graph.text import to_text
from ascendsim.graph.verify import nodes_in
from ascendsim.ops import default_opset
from tests.support.evaluate import evaluate
from tests.support.packages import file_of

OCR = "rapidocr_onnxruntime"
VOICE = ("silero_vad", "data/silero_vad.onnx")


def voice(samples: int, rate: int) -> dict[str, Any]:
    wave = np.sin(np.arange(samples, dtype=np.float32) / 7)[None]
    return {"input": wave, "state": np.zeros((2, 1, 128), np.float32), "sr": np.array(rate, np.int64)}


def picture(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


CASES: dict[
    str, tuple[str, str, list[dict[str, Any]], int]
] = {  # package, file, inputs, most nodes that may be left
    "voice, two rates": (*VOICE, [voice(512, 16000), voice(256, 8000)], 170),
    "text direction": (
        OCR,
        "models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        [{"x": picture(1, 3, 48, 192)}],
        240,
    ),
    "text, two widths": (
        OCR,
        "models/ch_PP-OCRv4_rec_infer.onnx",
        [{"x": picture(1, 3, 48, width)} for width in (96, 160)],
        425,
    ),
    "letters": ("ddddocr", "common.onnx", [{"input1": picture(1, 1, 64, 96)}], 70),
}


@pytest.mark.parametrize("name", CASES)
def test_open_shapes_and_branches(name: str) -> None:
    package, file, inputs, most = CASES[name]
    graph = asim.load(file_of(package, file), fold=False)
    result = asim.optimize(graph)
    assert result.after.nodes <= most
    assert sum(1 for _ in nodes_in(result.graph)) == result.after.nodes
    for arrays in inputs:
        expected, got = (evaluate(item, default_opset(), arrays) for item in (graph, result.graph))
        for old, new in zip(expected, got, strict=True):
            assert old.dtype == new.dtype
            assert np.array_equal(old, new, equal_nan=True)
    assert to_text(asim.optimize(result.graph).graph) == to_text(result.graph)


def test_a_known_sampling_rate_leaves_no_branch() -> None:
    """With sound and rate fixed, every If of the network is decided while it is optimised."""
    graph = asim.load(file_of(*VOICE), shapes={"input": (1, 512), "state": (2, 1, 128)}, fold=False)
    rate = graph.inputs[[tensor.name for tensor in graph.inputs].index("sr")]
    fixed = graph.add_constant("rate", np.array(16000, np.int64))
    graph.replace_uses(rate, fixed)
    result = asim.optimize(graph)
    assert not [node for node in nodes_in(result.graph) if node.op_type in ("If", "PartitionedCall")]
    arrays = voice(512, 16000)
    for old, new in zip(
        *(evaluate(item, default_opset(), arrays) for item in (graph, result.graph)), strict=True
    ):
        assert np.array_equal(old, new)
    model = asim.compile(graph)
    assert "DynamicModel" not in repr(model)
    assert asim.simulate(model).duration_us > 0
