"""onnxruntime's own operators of language models, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import ascendsim as asim
from ascendsim.core.errors import AscendSimError
from ascendsim.frontends.onnx import load_onnx
from ascendsim.ops import default_opset
from tests.support.evaluate import evaluate

NAMES = "xyzuv"


def some(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def model(op_type: str, inputs: list[Any], outputs: list[str], domain: str, **attributes: Any) -> Any:
    names = [name if value is not None else "" for name, value in zip(NAMES, inputs, strict=False)]
    node = onnx.helper.make_node(op_type, names, outputs, domain=domain, **attributes)
    values = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
        )
        for name, value in zip(NAMES, inputs, strict=False)
        if value is not None
    ]
    outs = [onnx.helper.make_empty_tensor_value_info(name) for name in outputs if name]
    graph = onnx.helper.make_graph([node], "one", values, outs)
    domains = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("com.microsoft", 1)]
    return onnx.helper.make_model(graph, opset_imports=domains, ir_version=9)


def compared(
    op_type: str,
    *inputs: Any,
    outputs: tuple[str, ...] = ("out",),
    domain: str = "com.microsoft",
    **attributes: Any,
) -> list[str]:
    """Asserts that values are onnxruntime's; gives the operators that stand for the node."""
    proto = model(op_type, list(inputs), list(outputs), domain, **attributes)
    given = {name: value for name, value in zip(NAMES, inputs, strict=False) if value is not None}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    wanted = session.run(None, given)
    graph = load_onnx(proto, opset=default_opset())
    found = evaluate(graph, default_opset(), given)
    for tensor, made, array in zip(graph.outputs, found, wanted, strict=True):
        assert tensor.shape == array.shape
        np.testing.assert_allclose(made, array, rtol=2e-5, atol=2e-6)
    return [node.op_type for node in graph.topological()]


def test_the_older_name_of_root_mean_square_normalisation() -> None:
    x, scale = some(2, 3, 20), some(20, seed=1)
    name = "SimplifiedLayerNormalization"
    assert compared(name, x, scale, domain="", epsilon=1e-3) == ["RMSNormalization"]
    assert compared(name, x, scale, domain="", axis=-1) == ["RMSNormalization"]


def test_a_residual_sum_and_its_norm_are_one_kernel() -> None:
    name = "SkipSimplifiedLayerNormalization"
    x, skip, scale, bias = some(2, 3, 20), some(2, 3, 20, seed=1), some(20, seed=2), some(20, seed=3)
    assert compared(name, x, skip, scale) == ["AddRmsNorm"]
    both = {"outputs": ("out", "", "", "sum"), "epsilon": 1e-3}
    assert compared(name, x, skip, scale, **both) == ["AddRmsNorm"]
    assert compared(name, x, skip, scale, bias, **both) == ["Add", "AddRmsNorm"]
    assert compared(name, x, skip[:1], scale, **both) == ["Expand", "AddRmsNorm"]


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("flat", [True, False])
def test_rotary_embedding_by_position(flat: bool, interleaved: int) -> None:
    x = some(2, 3, 32) if flat else some(2, 4, 3, 8)
    caches = some(9, 4, seed=1), some(9, 4, seed=2)
    places = np.array([[0, 5, 8], [1, 2, 2]], np.int64)
    name = "RotaryEmbedding"
    assert compared(name, x, places, *caches, interleaved=interleaved) == ["RotaryEmbedding"]
    first = np.array([4], np.int64)
    assert compared(name, x, first, *caches, interleaved=interleaved)[-1] == "RotaryEmbedding"


def test_a_file_for_onnxruntime_runs_on_the_chip() -> None:
    x, skip, scale = some(2, 3, 64), some(2, 3, 64, seed=1), some(64, seed=2)
    proto = model("SkipSimplifiedLayerNormalization", [x, skip, scale], ["out"], "com.microsoft")
    graph = load_onnx(proto, opset=default_opset())
    result = asim.run(
        asim.compile(graph, soc="Ascend910B1"), dict(zip(NAMES, (x, skip, scale), strict=False))
    )
    total = (x + skip).astype(np.float64)
    wanted = total / np.sqrt((total**2).mean(-1, keepdims=True)) * scale
    np.testing.assert_allclose(result.outputs["out"], wanted, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(
    ("op_type", "inputs", "outputs", "attributes", "text"),
    [
        (
            "SkipSimplifiedLayerNormalization",
            [some(2, 3, 8)] * 2 + [some(8)],
            ["a", "", "b"],
            {},
            "output 2 has a name",
        ),
        (
            "RotaryEmbedding",
            [some(2, 3, 10), np.zeros(1, np.int64), some(9, 4), some(9, 4)],
            ["a"],
            {},
            "needs num_heads",
        ),
        (
            "RotaryEmbedding",
            [some(2, 2, 3, 8), np.zeros(1, np.int64), some(9, 4), some(9, 4)],
            ["a"],
            {"scale": 2.0},
            "not scaled",
        ),
    ],
)
def test_what_cannot_be_said_otherwise_is_refused(
    op_type: str, inputs: list[Any], outputs: list[str], attributes: dict[str, Any], text: str
) -> None:
    with pytest.raises(AscendSimError, match=text):
        load_onnx(model(op_type, inputs, outputs, "com.microsoft", **attributes), opset=default_opset())
