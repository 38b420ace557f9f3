"""Normalisation operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.core.formats import Format
from ascendsim.ops import default_opset
from ascendsim.opset.work import AiCpuWork, LowerContext, VectorWork, Work
from tests.support.half import emulate, ulps
from tests.support.single_node import infer, make_node, run, with_onnxruntime

GENERATOR = np.random.default_rng(7)
X = GENERATOR.standard_normal((2, 6, 4, 5)).astype(np.float32)
SCALE, BIAS, MEAN = GENERATOR.standard_normal((3, 6)).astype(np.float32)
VARIANCE = GENERATOR.random(6).astype(np.float32) + 0.5


def batch_norm(x: Any, scale: Any, bias: Any, mean: Any, variance: Any) -> Any:
    along = (-1,) + (1,) * (x.ndim - 2)
    scale, bias, mean, variance = (v.reshape(along) for v in (scale, bias, mean, variance))
    return (x - mean) / np.sqrt(variance + 1e-5) * scale + bias


@pytest.mark.parametrize("shape", [(2, 6, 4, 5), (3, 6), (2, 6, 7)])
def test_batch_norm(shape: tuple[int, ...]) -> None:
    x = GENERATOR.standard_normal(shape)
    inputs = [x, SCALE, BIAS, MEAN, VARIANCE]
    for dtype, tolerance in ((np.float64, 1e-12), (np.float32, 2e-6)):
        typed = [array.astype(dtype) for array in inputs]
        wanted = batch_norm(*(array.astype(np.float64) for array in typed))
        np.testing.assert_allclose(
            run("BatchNormalization", typed)[0], wanted, rtol=tolerance, atol=tolerance
        )
    halves = [array.astype(np.float16) for array in inputs]
    assert ulps(run("BatchNormalization", halves)[0], emulate(batch_norm, *halves)).max() <= 1


def test_batch_norm_in_training_mode() -> None:
    found = run(
        "BatchNormalization", [X, SCALE, BIAS, MEAN, VARIANCE], outputs=3, training_mode=1, momentum=0.75
    )
    mean, variance = X.mean(axis=(0, 2, 3)), X.var(axis=(0, 2, 3))
    np.testing.assert_allclose(found[0], batch_norm(X, SCALE, BIAS, mean, variance), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[1], 0.75 * MEAN + 0.25 * mean, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(found[2], 0.75 * VARIANCE + 0.25 * variance, rtol=1e-5)


def test_running_values_keep_the_type_of_the_statistics() -> None:
    halves = [array.astype(np.float16) for array in (X, SCALE, BIAS)]
    found = run("BatchNormalization", [*halves, MEAN, VARIANCE], outputs=3, training_mode=1)
    assert [array.dtype for array in found] == [np.float16, np.float32, np.float32]


@pytest.mark.parametrize("axis", [-1, 1, 2])
def test_layer_norm_agrees_with_onnxruntime(axis: int) -> None:
    scale, bias = GENERATOR.standard_normal((2, *X.shape[axis:])).astype(np.float32)
    found = run("LayerNormalization", [X, scale, bias], outputs=3, axis=axis)
    for ours, theirs in zip(
        found, with_onnxruntime("LayerNormalization", [X, scale, bias], outputs=3, axis=axis), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        run("LayerNormalization", [X, scale], axis=axis)[0] + bias, found[0], rtol=1e-5, atol=1e-6
    )


def layer_norm(x: Any, scale: Any, bias: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale + bias


def test_layer_and_rms_norm_float16_round_once() -> None:
    x, (scale, bias) = X.astype(np.float16), GENERATOR.standard_normal((2, 5)).astype(np.float16)
    assert (
        ulps(run("LayerNormalization", [x, scale, bias])[0], emulate(layer_norm, x, scale, bias)).max() <= 1
    )
    found = run("RMSNormalization", [x, scale])[0]
    assert (
        ulps(
            found,
            emulate(lambda v, s: v / np.sqrt(np.square(v).mean(-1, keepdims=True) + 1e-5) * s, x, scale),
        ).max()
        <= 1
    )


def test_layer_norm_scale_may_broadcast() -> None:
    scale, bias = (
        GENERATOR.standard_normal((4, 1)).astype(np.float32),
        GENERATOR.standard_normal(5).astype(np.float32),
    )
    plain = run("LayerNormalization", [X, np.ones((4, 5), np.float32)], axis=2)[0]
    np.testing.assert_allclose(
        run("LayerNormalization", [X, scale, bias], axis=2)[0], plain * scale + bias, rtol=1e-5, atol=1e-6
    )


def instance_norm(x: Any, scale: Any, bias: Any) -> Any:
    plain = (x - x.mean((2, 3), keepdims=True)) / np.sqrt(x.var((2, 3), keepdims=True) + 1e-5)
    return plain * scale.reshape(-1, 1, 1) + bias.reshape(-1, 1, 1)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_instance_and_group_norm(dtype: Any) -> None:
    x, scale, bias = X.astype(dtype), SCALE.astype(dtype), BIAS.astype(dtype)
    np.testing.assert_allclose(
        run("InstanceNormalization", [x, scale, bias])[0], instance_norm(x, scale, bias), rtol=1e-5, atol=1e-5
    )
    one_a_group = run("GroupNormalization", [x, scale, bias], num_groups=6)[0]
    np.testing.assert_allclose(one_a_group, instance_norm(x, scale, bias), rtol=1e-5, atol=1e-5)
    flat = x.reshape(2, 2, -1)
    plain = ((flat - flat.mean(-1, keepdims=True)) / np.sqrt(flat.var(-1, keepdims=True) + 1e-5)).reshape(
        x.shape
    )
    wanted = plain * scale.reshape(-1, 1, 1) + bias.reshape(-1, 1, 1)
    np.testing.assert_allclose(
        run("GroupNormalization", [x, scale, bias], num_groups=2)[0], wanted, rtol=1e-5, atol=1e-5
    )


def test_instance_norm_float16_rounds_once() -> None:
    halves = [array.astype(np.float16) for array in (X, SCALE, BIAS)]
    assert ulps(run("InstanceNormalization", halves)[0], emulate(instance_norm, *halves)).max() <= 1


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_local_response(size: int) -> None:
    attributes: dict[str, Any] = {"size": size, "alpha": 0.2, "beta": 0.5, "bias": 2.0}
    found = run("LRN", [X], **attributes)[0]
    if size % 2:
        np.testing.assert_allclose(found, with_onnxruntime("LRN", [X], **attributes)[0], rtol=1e-5)

    def reference(x: Any) -> Any:
        channels = x.shape[1]
        windows = [
            range(max(0, c - (size - 1) // 2), min(channels, c + size // 2 + 1)) for c in range(channels)
        ]
        total = np.stack([sum(np.square(x[:, k]) for k in window) for window in windows], axis=1)
        return x / np.sqrt(2 + 0.2 / size * total)

    np.testing.assert_allclose(found, reference(X), rtol=1e-5)
    half = X.astype(np.float16)
    assert ulps(run("LRN", [half], **attributes)[0], emulate(reference, half)).max() <= 1


def test_lp_norm_and_mean_variance() -> None:
    half = X.astype(np.float16)
    assert (
        ulps(
            run("LpNormalization", [half], axis=1, p=1)[0],
            emulate(lambda v: v / np.abs(v).sum(1, keepdims=True), half),
        ).max()
        <= 1
    )
    assert (
        ulps(
            run("LpNormalization", [half])[0],
            emulate(lambda v: v / np.linalg.norm(v, axis=-1, keepdims=True), half),
        ).max()
        <= 1
    )
    np.testing.assert_array_equal(
        run("LpNormalization", [np.zeros((2, 3), np.float32)])[0], np.zeros((2, 3), np.float32)
    )
    axes = (0, 2, 3)
    wanted = emulate(lambda v: (v - v.mean(axes, keepdims=True)) / (v.std(axes, keepdims=True) + 1e-9), half)
    assert ulps(run("MeanVarianceNormalization", [half])[0], wanted).max() <= 1


def test_shapes_and_errors() -> None:
    assert infer("LayerNormalization", [("n", 7, 8), (8,), (8,)], outputs=3, axis=-1) == [
        ("n", 7, 8),
        ("n", 7, 1),
        ("n", 7, 1),
    ]
    assert infer("BatchNormalization", [("n", 3, None)] + [(3,)] * 4) == [("n", 3, None)]
    with pytest.raises(GraphError, match="num_groups that divides 6 channels"):
        infer("GroupNormalization", [(1, 6, 2), (6,), (6,)], num_groups=4)
    with pytest.raises(GraphError, match="p of 1 or 2"):
        infer("LpNormalization", [(2, 3)], p=3)


def _lowered(name: str, inputs: list[Any], format: Format = Format.ND, **attributes: Any) -> Work:
    node = make_node(name, inputs, known=False, **attributes)
    node.required(0).format = node.output.format = format
    definition = default_opset().get(node)
    assert definition.lower is not None
    return definition.lower(node, LowerContext(intrinsics={"vexp": ("float16", "float32")}))


def test_batch_norm_lowering() -> None:
    halves = [array.astype(np.float16) for array in (X, SCALE, BIAS, MEAN, VARIANCE)]
    plain = _lowered("BatchNormalization", halves)
    assert isinstance(plain, VectorWork)
    assert (plain.rows, plain.cols, [s.over for s in plain.inputs]) == (
        12,
        20,
        ["all", "row", "row", "row", "row"],
    )
    blocked = _lowered("BatchNormalization", halves, Format.NC1HWC0)
    assert isinstance(blocked, VectorWork)
    assert (blocked.rows, blocked.cols, [s.over for s in blocked.inputs]) == (
        40,
        16,
        ["all", "col", "col", "col", "col"],
    )
    assert [step.op for step in blocked.steps if step.over == "all"] == ["vmul", "vadd"]
    assert isinstance(
        _lowered("BatchNormalization", [array.astype(np.float64) for array in halves]), AiCpuWork
    )


def test_row_norm_lowering() -> None:
    half = X.astype(np.float16)
    layer = _lowered("LayerNormalization", [half, np.ones(5, np.float16), np.ones(5, np.float16)])
    assert isinstance(layer, VectorWork)
    assert (layer.rows, layer.cols, layer.reduces, layer.sweeps) == (48, 5, "cols", 3)
    assert [stream.over for stream in layer.inputs] == ["all", "col", "col"]
    assert [step.op for step in layer.steps].count("vcadd") == 2
    assert {step.dtype for step in layer.steps} == {DType.FLOAT32}
    rms = _lowered("RMSNormalization", [half, np.ones(5, np.float16)])
    assert isinstance(rms, VectorWork)
    assert [step.op for step in rms.steps].count("vcadd") == 1
    group = _lowered(
        "GroupNormalization", [half, np.ones(6, np.float16), np.ones(6, np.float16)], num_groups=2
    )
    assert isinstance(group, VectorWork)
    assert (group.rows, group.cols) == (4, 60)
    spread = _lowered("MeanVarianceNormalization", [half])
    assert isinstance(spread, VectorWork)
    assert (spread.rows, spread.cols, spread.gather_bytes) == (6, 40, 40)
