"""GroupQueryAttention and MultiHeadAttention of onnxruntime: values are its own, steps take one kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascendsim.core.errors import GraphError
from ascendsim.frontends.onnx import load_onnx
from ascendsim.ops import default_opset
from tests.support.evaluate import evaluate

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

BATCH, HEADS, SHARED, SIZE = 2, 4, 2, 16
RNG = np.random.default_rng(5)


def _some(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def _model(op_type: str, given: dict[int, Any], outputs: dict[str, Any], **attributes: Any) -> Any:
    names = [f"in{port}" if port in given else "" for port in range(max(given) + 1)]
    node = onnx.helper.make_node(op_type, names, list(outputs), domain="com.microsoft", **attributes)
    values = [
        onnx.helper.make_tensor_value_info(
            f"in{port}", onnx.helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
        )
        for port, value in given.items()
    ]
    kind = onnx.TensorProto.FLOAT
    made = [onnx.helper.make_tensor_value_info(name, kind, shape) for name, shape in outputs.items()]
    graph = onnx.helper.make_graph([node], "one", values, made)
    domains = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("com.microsoft", 1)]
    return onnx.helper.make_model(graph, opset_imports=domains, ir_version=9)


def _compared(
    op_type: str, given: dict[int, Any], outputs: dict[str, Any], tokens: int | None = None, **attributes: Any
) -> list[str]:
    """Asserts that values are onnxruntime's (of caches so many tokens); gives the operators that stand for
    the node."""
    proto = _model(op_type, given, outputs, **attributes)
    feeds = {f"in{port}": value for port, value in given.items()}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    wanted = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    ).run(None, feeds)
    graph = load_onnx(proto, opset=default_opset())
    assert [tensor.name for tensor in graph.outputs] == list(outputs)
    found = evaluate(graph, default_opset(), feeds)
    for array, own in zip(wanted, found, strict=True):
        own, array = (one[:, :, :tokens] if one.ndim == 4 else one for one in (own, array))
        np.testing.assert_allclose(own, array, rtol=1e-4, atol=1e-5)
    return [node.op_type for node in graph.nodes]


def _angles(length: int) -> tuple[Any, Any]:
    at = np.arange(length)[:, None] / 10000 ** (np.arange(0, SIZE, 2) / SIZE)
    return np.cos(at).astype(np.float32), np.sin(at).astype(np.float32)


def _grouped(queries: int, past: int, total: int | None = None, packed: bool = False) -> dict[int, Any]:
    """Inputs of a step; a cache of a length, and the total one if the cache has room for more."""
    whole = past + queries if total is None else total
    wide = HEADS * SIZE + 2 * SHARED * SIZE
    given: dict[int, Any] = {5: np.full(BATCH, whole - 1, np.int32), 6: np.array([whole], np.int32)}
    if packed:
        given[0] = _some(BATCH, queries, wide)
    else:
        given[0] = _some(BATCH, queries, HEADS * SIZE)
        given |= {port: _some(BATCH, queries, SHARED * SIZE) for port in (1, 2)}
    given |= {port: _some(BATCH, SHARED, past, SIZE) for port in (3, 4)}
    return dict(sorted(given.items()))


def _outputs(queries: int, cache: int) -> dict[str, Any]:
    kept = (BATCH, SHARED, cache, SIZE)
    return {"y": (BATCH, queries, HEADS * SIZE), "key": kept, "value": kept}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("queries", "past"), [(1, 9), (7, 0)])
@pytest.mark.parametrize("rotary", [None, 0, 1])
def test_grouped_queries_and_a_cache_that_grows(
    queries: int, past: int, packed: bool, rotary: int | None
) -> None:
    given, options = _grouped(queries, past, packed=packed), {"num_heads": HEADS, "kv_num_heads": SHARED}
    if rotary is not None:
        given[7], given[8] = _angles(20)
        options |= {"do_rotary": 1, "rotary_interleaved": rotary}
    kinds = _compared("GroupQueryAttention", given, _outputs(queries, past + queries), **options)
    assert kinds.count("FusedInferAttentionScore") == 1
    assert kinds.count("Concat") == (2 if past else 0)
    assert kinds.count("RotaryEmbedding") == (0 if rotary is None else 2)
    assert not {"MatMul", "Softmax"} & set(kinds)


@pytest.mark.parametrize("window", [-1, 4])
def test_a_window_and_a_cache_that_keeps_its_size(window: int) -> None:
    """Twelve of sixteen places are taken with the new token (onnxruntime clears those behind)."""
    given = _grouped(1, 16, total=12)
    options = {"num_heads": HEADS, "kv_num_heads": SHARED, "local_window_size": window}
    kinds = _compared("GroupQueryAttention", given, _outputs(1, 16), tokens=12, **options)
    assert kinds.count("TensorScatter") == 2
    if window > 0:
        kinds = _compared("GroupQueryAttention", _grouped(7, 0), _outputs(7, 7), **options)
        assert "TensorScatter" not in kinds


@pytest.mark.parametrize(("queries", "past"), [(1, 9), (7, 0)])
def test_scores_that_are_bounded(queries: int, past: int) -> None:
    options = {"num_heads": HEADS, "kv_num_heads": SHARED, "softcap": 0.7}
    _compared("GroupQueryAttention", _grouped(queries, past), _outputs(queries, past + queries), **options)


def test_numbers_that_are_added_to_scores() -> None:
    given = _grouped(1, 9) | {10: _some(BATCH, 1, 1, 10)}
    _compared("GroupQueryAttention", given, _outputs(1, 10), num_heads=HEADS, kv_num_heads=SHARED, scale=0.3)


@pytest.mark.parametrize(
    ("more", "options"),
    [
        ({}, {}),
        ({3: _some(3 * HEADS * SIZE)}, {"scale": 0.3}),
        ({4: np.array([[1] * 6 + [0] * 3, [1] * 9], np.int32)}, {}),
        ({5: _some(BATCH, HEADS, 5, 9)}, {}),
        ({5: _some(1, 1, 5, 9)}, {}),
    ],
)
def test_many_heads(more: dict[int, Any], options: dict[str, Any]) -> None:
    wide = HEADS * SIZE
    given = {0: _some(BATCH, 5, wide), 1: _some(BATCH, 9, wide), 2: _some(BATCH, 9, wide)} | more
    kinds = _compared("MultiHeadAttention", given, {"y": (BATCH, 5, wide)}, num_heads=HEADS, **options)
    assert kinds.count("FusedInferAttentionScore") == 1
    assert not {"MatMul", "Softmax"} & set(kinds)


def test_many_heads_with_a_cache_see_what_was_before() -> None:
    wide = HEADS * SIZE
    given = {port: _some(BATCH, 3, wide) for port in range(3)}
    given |= {port: _some(BATCH, HEADS, 6, SIZE) for port in (6, 7)}
    kept = (BATCH, HEADS, 9, SIZE)
    outputs = {"y": (BATCH, 3, wide), "key": kept, "value": kept}
    _compared("MultiHeadAttention", given, outputs, num_heads=HEADS, unidirectional=1)


@pytest.mark.parametrize(
    ("op_type", "given", "options", "message"),
    [
        ("GroupQueryAttention", _grouped(1, 9), {"softcap": -2.0}, "needs a softcap of 0 or more"),
        ("GroupQueryAttention", _grouped(1, 9), {"smooth_softmax": 1}, "has no form with smooth_softmax"),
        ("GroupQueryAttention", _grouped(1, 9), {"num_heads": 0}, "needs num_heads of 1 or more"),
        ("GroupQueryAttention", {**_grouped(1, 9), 0: _some(BATCH, 1, 50)}, {}, "that 4 heads share"),
        ("MultiHeadAttention", {0: _some(BATCH, 5, 64)}, {}, "queries, keys and values apart"),
        (
            "MultiHeadAttention",
            {**{port: _some(BATCH, 5, 64) for port in range(3)}, 4: np.ones((BATCH, 5, 5), np.int32)},
            {},
            "takes a key_padding_mask of rank 1 or 2",
        ),
    ],
)
def test_what_has_no_form_is_refused(op_type: str, given: Any, options: Any, message: str) -> None:
    more = {"num_heads": HEADS} | ({"kv_num_heads": SHARED} if op_type[0] == "G" else {}) | options
    with pytest.raises(GraphError, match=message):
        load_onnx(_model(op_type, given, {"y": None}, **more), opset=default_opset())


@pytest.mark.parametrize(("past", "total", "kept"), [(16, 12, True), (9, 10, False)])
def test_a_constant_total_says_whether_a_cache_keeps_its_size(past: int, total: int, kept: bool) -> None:
    given = _grouped(1, past, total=total)
    proto = _model("GroupQueryAttention", given, dict.fromkeys(("y", "key", "value")), num_heads=HEADS)
    proto.graph.node[0].attribute.append(onnx.helper.make_attribute("kv_num_heads", SHARED))
    inputs = [value for value in proto.graph.input if value.name != "in6"]
    del proto.graph.input[:]
    proto.graph.input.extend(inputs)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(given[6], "in6"))
    graph = load_onnx(proto, opset=default_opset())
    kinds = {node.op_type for node in graph.nodes}
    assert ("TensorScatter" in kinds, "Concat" in kinds) == (kept, not kept)
    assert graph.outputs[1].shape == (BATCH, SHARED, past if kept else total, SIZE)
