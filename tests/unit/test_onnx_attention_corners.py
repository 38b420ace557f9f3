"""onnxruntime's attention operators with inputs, outputs and attributes that are seldom given, against the
original; what they cannot be is said.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascendsim.core.errors import GraphError
from ascendsim.frontends.onnx import load_onnx
from ascendsim.ops import default_opset
from tests.unit.test_onnx_microsoft_attention import (
    BATCH,
    HEADS,
    SHARED,
    SIZE,
    _angles,
    _compared,
    _grouped,
    _model,
    _outputs,
    _some,
)

WIDE = HEADS * SIZE
Q, KV = (BATCH, 5, WIDE), (BATCH, 9, WIDE)


def three(**more: Any) -> dict[int, Any]:
    given = {0: _some(*Q), 1: _some(*KV), 2: _some(*KV)}
    return given | {int(port[2:]): value for port, value in more.items()}


@pytest.mark.parametrize(
    ("shape", "expands"), [((1, HEADS, 5, 9), 0), ((1, 1, 5, 9), 1), ((BATCH, 1, 5, 9), 1)]
)
def test_numbers_for_all_heads_are_spread(shape: tuple[int, ...], expands: int) -> None:
    kinds = _compared("MultiHeadAttention", three(in5=_some(*shape)), {"y": Q}, num_heads=HEADS)
    assert kinds.count("Expand") == expands
    assert "Transpose" not in kinds  # heads stay behind tokens where nobody asks for keys and values


@pytest.mark.parametrize("names", [("y", "key"), ("y", "key", "value")])
def test_keys_and_values_of_a_step_may_be_asked_for(names: tuple[str, ...]) -> None:
    kept = (BATCH, HEADS, 9, SIZE)
    if len(names) == 3:
        outputs = dict(zip(names, (Q, kept, kept), strict=True))
        kinds = _compared("MultiHeadAttention", three(), outputs, num_heads=HEADS)
    else:
        proto = _model(
            "MultiHeadAttention", three(), dict(zip(names, (Q, kept), strict=True)), num_heads=HEADS
        )
        graph = load_onnx(proto, opset=default_opset())
        assert [tensor.shape for tensor in graph.outputs] == [Q, kept]
        kinds = [node.op_type for node in graph.nodes]
    assert kinds.count("Transpose") == 3  # queries, keys and values by heads, and nothing more
    assert kinds.count("FusedInferAttentionScore") == 1


def test_a_value_alone_may_be_asked_for() -> None:
    proto = _model("MultiHeadAttention", three(), {"y": Q, "value": (BATCH, HEADS, 9, SIZE)}, num_heads=HEADS)
    proto.graph.node[0].output[:] = ["y", "", "value"]
    graph = load_onnx(proto, opset=default_opset())
    assert [tensor.name for tensor in graph.outputs] == ["y", "value"]
    assert graph.outputs[1].shape == (BATCH, HEADS, 9, SIZE)


@pytest.mark.parametrize("scale", [0.0, 0.3])
def test_a_scale_of_zero_is_the_usual_one(scale: float) -> None:
    _compared("MultiHeadAttention", three(), {"y": Q}, num_heads=HEADS, scale=scale)
    grouped = _grouped(1, 9)
    _compared(
        "GroupQueryAttention", grouped, _outputs(1, 10), num_heads=HEADS, kv_num_heads=SHARED, scale=scale
    )


def test_one_way_attention_of_a_whole_prompt() -> None:
    given = {port: _some(*Q) for port in range(3)}
    _compared("MultiHeadAttention", given, {"y": Q}, num_heads=HEADS, unidirectional=1)


@pytest.mark.parametrize("past", [0, 9])
def test_places_may_be_given(past: int) -> None:
    queries = 7 if past == 0 else 1
    given = _grouped(queries, past)
    given[7], given[8] = _angles(20)
    places = np.arange(queries, dtype=np.int64) + past + 2
    given[9] = np.broadcast_to(places, (BATCH, queries)).copy()
    options = {"num_heads": HEADS, "kv_num_heads": SHARED, "do_rotary": 1}
    proto = _model("GroupQueryAttention", given, _outputs(queries, past + queries), **options)
    graph = load_onnx(proto, opset=default_opset())
    for node in graph.nodes:
        if node.op_type == "RotaryEmbedding":
            assert node.required(3).name == "in9"


def test_heads_that_are_not_shared() -> None:
    """kv_num_heads that are left out or 0 are all heads."""
    given = {0: _some(BATCH, 3, WIDE), 1: _some(BATCH, 3, WIDE), 2: _some(BATCH, 3, WIDE)}
    given |= {5: np.full(BATCH, 2, np.int32), 6: np.array([3], np.int32)}
    kept = (BATCH, HEADS, 3, SIZE)
    outputs = {"y": (BATCH, 3, WIDE), "key": kept, "value": kept}
    proto = _model("GroupQueryAttention", given, outputs, num_heads=HEADS, kv_num_heads=0)
    graph = load_onnx(proto, opset=default_opset())
    (node,) = (item for item in graph.nodes if item.op_type == "FusedInferAttentionScore")
    assert node.attr("num_key_value_heads") == HEADS
    assert node.attr("input_layout") == "BSH"


PADDING = np.ones((BATCH, 9), np.int32)


@pytest.mark.parametrize(
    ("op_type", "given", "options", "message"),
    [
        (
            "MultiHeadAttention",
            three(in4=PADDING),
            {"unidirectional": 1},
            "both key_padding_mask and unidirectional",
        ),
        ("MultiHeadAttention", three(in8=np.zeros(1, np.int32)), {}, "has no form with a cache of beams"),
        (
            "MultiHeadAttention",
            {0: _some(*Q), 1: _some(*KV)},
            {},
            "queries, keys and values apart; export it unpacked",
        ),
        ("MultiHeadAttention", three(), {"num_heads": 7}, "needs a last axis that 7 heads share"),
        (
            "MultiHeadAttention",
            {
                0: _some(*Q),
                1: _some(BATCH, HEADS, 9, SIZE),
                2: _some(BATCH, HEADS, 9, SIZE),
                3: _some(3 * WIDE),
            },
            {},
            "needs inputs of rank 3 and known width with a bias",
        ),
        ("GroupQueryAttention", _grouped(1, 9) | {11: _some(HEADS)}, {}, "has no form with head_sink"),
    ],
)
def test_what_has_no_form_is_said(op_type: str, given: Any, options: Any, message: str) -> None:
    more = {"num_heads": HEADS} | ({"kv_num_heads": SHARED} if op_type[0] == "G" else {}) | options
    with pytest.raises(GraphError, match=message):
        load_onnx(_model(op_type, given, {"y": None}, **more), opset=default_opset())


def test_biases_that_are_open_cannot_be_spread() -> None:
    proto = _model("MultiHeadAttention", three(in5=_some(1, 1, 5, 9)), {"y": None}, num_heads=HEADS)
    for value in proto.graph.input:
        if value.name == "in5":
            value.type.tensor_type.shape.dim[3].dim_param = "n"
    with pytest.raises(GraphError, match="needs an attention_bias of known shape"):
        load_onnx(proto, opset=default_opset())


def test_keys_by_heads_are_taken_as_they_are() -> None:
    """Cross attention: keys and values of an encoder come by heads already."""
    given = {0: _some(*Q), 1: _some(BATCH, HEADS, 9, SIZE), 2: _some(BATCH, HEADS, 9, SIZE)}
    kinds = _compared("MultiHeadAttention", given, {"y": Q}, num_heads=HEADS)
    assert kinds.count("Transpose") == 1
