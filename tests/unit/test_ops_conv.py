"""Conv and ConvTranspose: values against onnxruntime and a float64 emulation, shape rules, errors, work
descriptions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from ascendsim.core.errors import GraphError
from ascendsim.ops import default_opset
from ascendsim.ops.shared.cube import enlarged_groups
from ascendsim.opset.work import AiCpuWork, CubeWork
from tests.support.rounding import assert_device_rounding, assert_near_oracle
from tests.support.single_node import infer, lower, make_node, run, with_onnxruntime

CONVOLUTIONS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 9, 11), (5, 3, 3, 3), {"pads": (1, 1, 1, 1), "strides": (2, 2)}),
    ((1, 4, 7, 8), (6, 4, 1, 1), {}),
    ((1, 4, 7, 8), (6, 4, 1, 1), {"strides": (2, 3)}),
    ((2, 6, 8, 8), (4, 3, 3, 2), {"group": 2, "pads": (0, 1, 2, 1)}),
    ((1, 8, 10, 9), (8, 1, 3, 3), {"group": 8, "pads": (1, 1, 1, 1)}),
    (
        (1, 4, 10, 9),
        (12, 1, 5, 3),
        {"group": 4, "strides": (2, 2), "dilations": (1, 2), "pads": (2, 2, 2, 2)},
    ),
    ((1, 3, 12, 12), (2, 3, 3, 3), {"dilations": (2, 3)}),
    ((1, 3, 10, 7), (2, 3, 4, 4), {"auto_pad": "SAME_UPPER", "strides": (3, 2)}),
    ((1, 3, 10, 7), (2, 3, 4, 4), {"auto_pad": "SAME_LOWER", "strides": (3, 2)}),
    ((1, 3, 10, 7), (2, 3, 4, 4), {"auto_pad": "VALID"}),
    ((2, 5, 17), (4, 5, 3), {"pads": (2, 1), "strides": (2,)}),
    ((1, 2, 5, 6, 7), (3, 2, 2, 3, 3), {"pads": (1, 0, 1, 0, 1, 1), "strides": (1, 2, 1)}),
    ((1, 2, 3, 3), (2, 2, 3, 3), {"pads": (6, 6, 6, 6)}),  # windows that see nothing but padding
]
TRANSPOSED: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((1, 3, 4, 5), (3, 2, 3, 3), {"strides": (2, 2), "pads": (1, 1, 1, 1), "output_padding": (1, 1)}),
    ((2, 4, 5, 5), (4, 3, 2, 2), {"strides": (2, 2)}),
    ((1, 4, 4, 4), (4, 2, 3, 3), {"group": 2, "dilations": (2, 1)}),
    ((1, 2, 4, 4), (2, 2, 3, 3), {"strides": (3, 2), "output_shape": (10, 9)}),
    ((1, 2, 4, 4), (2, 2, 3, 3), {"strides": (2, 2), "auto_pad": "SAME_UPPER"}),
    ((1, 2, 4, 4), (2, 2, 3, 3), {"strides": (2, 2), "auto_pad": "SAME_LOWER"}),
    ((1, 3, 6), (3, 2, 4), {"strides": (3,), "pads": (2, 1)}),
    ((1, 2, 3, 3, 3), (2, 2, 2, 3, 2), {"strides": (2, 1, 2)}),
]


def operands(
    image: tuple[int, ...], weight: tuple[int, ...], outputs: int, dtype: Any = np.float32
) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    return [rng.standard_normal(shape).astype(dtype) for shape in (image, weight, (outputs,))]


@pytest.mark.parametrize(("image", "weight", "attributes"), CONVOLUTIONS)
def test_convolution_equals_onnxruntime(
    image: tuple[int, ...], weight: tuple[int, ...], attributes: dict[str, Any]
) -> None:
    inputs = operands(image, weight, weight[0])
    assert_near_oracle(
        run("Conv", inputs, **attributes)[0], with_onnxruntime("Conv", inputs, **attributes)[0]
    )


@pytest.mark.parametrize(("image", "weight", "attributes"), TRANSPOSED)
def test_transposed_convolution_equals_onnxruntime(
    image: tuple[int, ...], weight: tuple[int, ...], attributes: dict[str, Any]
) -> None:
    inputs = operands(image, weight, weight[1] * attributes.get("group", 1))
    oracle = with_onnxruntime("ConvTranspose", inputs, **attributes)[0]
    assert_near_oracle(run("ConvTranspose", inputs, **attributes)[0], oracle)


@pytest.mark.parametrize(("image", "weight", "attributes"), CONVOLUTIONS)
def test_convolution_on_the_device_rounds_once(
    image: tuple[int, ...], weight: tuple[int, ...], attributes: dict[str, Any]
) -> None:
    halves = operands(image, weight, weight[0], np.float16)
    doubles = [array.astype(np.float64) for array in halves]
    exact = run("Conv", doubles, **attributes)[0]
    magnitude = run("Conv", [np.abs(array) for array in doubles], **attributes)[0]
    assert_device_rounding(run("Conv", halves, **attributes)[0], exact, magnitude, math.prod(weight[1:]) + 1)


@pytest.mark.parametrize(("image", "weight", "attributes"), TRANSPOSED)
def test_transposed_convolution_on_the_device_rounds_once(
    image: tuple[int, ...], weight: tuple[int, ...], attributes: dict[str, Any]
) -> None:
    halves = operands(image, weight, weight[1] * attributes.get("group", 1), np.float16)
    doubles = [array.astype(np.float64) for array in halves]
    exact = run("ConvTranspose", doubles, **attributes)[0]
    magnitude = run("ConvTranspose", [np.abs(array) for array in doubles], **attributes)[0]
    terms = weight[0] * math.prod(weight[2:]) + 1
    assert_device_rounding(run("ConvTranspose", halves, **attributes)[0], exact, magnitude, terms)


def test_blocks_of_unfolded_input_join_without_a_seam(monkeypatch: pytest.MonkeyPatch) -> None:
    from ascendsim_kernels import unfold

    inputs = operands((1, 3, 20, 20), (4, 3, 3, 3), 4)
    whole = run("Conv", inputs, pads=(1, 1, 1, 1))[0]
    # three output rows a block, two in the last
    monkeypatch.setattr(unfold, "COLUMN_BYTES", 3 * 9 * 20 * 4 * 3)
    assert_near_oracle(run("Conv", inputs, pads=(1, 1, 1, 1))[0], whole, 1e-6)


def test_transposed_convolution_is_the_adjoint_of_convolution() -> None:
    rng = np.random.default_rng(1)
    image, weight = rng.standard_normal((1, 4, 9, 9)), rng.standard_normal((6, 2, 3, 3))
    attributes: dict[str, Any] = {"group": 2, "strides": (2, 2), "pads": (1, 2, 1, 2), "dilations": (1, 2)}
    forward = run("Conv", [image, weight], **attributes)[0]
    other = rng.standard_normal(forward.shape)
    backward = run("ConvTranspose", [other, weight], **attributes)[0]
    assert backward.shape == image.shape
    np.testing.assert_allclose(np.vdot(forward, other), np.vdot(image, backward), rtol=1e-10)


def test_unknown_dimensions_stay_unknown() -> None:
    assert infer("Conv", [("n", 3, None, 8), (5, 3, 3, 3)], pads=(1, 1, 1, 1)) == [("n", 5, None, 8)]
    assert infer("Conv", [("n", 3, 8, 8), None], kernel_shape=(3, 3)) == [("n", None, 6, 6)]
    assert infer("Conv", [None, (5, 3, 3, 3)]) == [None]
    assert infer("ConvTranspose", [("n", 3, "h", 4), (3, 2, 2, 2)], strides=(2, 2)) == [("n", 2, None, 8)]


@pytest.mark.parametrize(
    ("op", "shapes", "attributes", "message"),
    [
        ("Conv", [(1, 3, 8, 8), (4, 2, 3, 3)], {}, r"needs 2 x 1 input channels .*not 3"),
        ("Conv", [(1, 4, 8, 8), (3, 2, 3, 3)], {"group": 2}, r"multiple of group 2, not 3"),
        ("Conv", [(1, 3, 2, 8), (4, 3, 3, 3)], {}, r"padded input of at least 3 along spatial axis 0, not 2"),
        ("Conv", [(1, 3, 8, 8), (4, 3, 3)], {}, r"equal rank, not 4 and 3"),
        ("Conv", [(1, 3, 8, 8), (4, 3, 3, 3)], {"strides": (0, 1)}, r"numbers >= 1 in strides"),
        ("Conv", [(1, 3, 8, 8), (4, 3, 3, 3)], {"pads": (1, 1)}, r"4 numbers in pads"),
        ("Conv", [(1, 3, 8, 8), (4, 3, 3, 3), (5,)], {}, r"bias of shape \(4,\)"),
        ("Conv", [(1, 3, 8, 8), (4, 3, 3, 3)], {"kernel_shape": (5, 5)}, r"kernel_shape \(3, 3\)"),
        ("Conv", [(1, 3, 8, 8), (4, 3, 3, 3)], {"group": 0}, r"positive group"),
        ("ConvTranspose", [(1, 3, 8, 8), (4, 3, 3, 3)], {}, r"needs 4 input channels .*not 3"),
        (
            "ConvTranspose",
            [(1, 3, 2, 2), (3, 3, 1, 1)],
            {"pads": (2, 2, 2, 2)},
            r"pads smaller than the output",
        ),
    ],
)
def test_misfits_are_named(op: str, shapes: list[Any], attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        infer(op, shapes, **attributes)


def half(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float16)


def test_work_of_a_convolution() -> None:
    work = lower(
        "Conv", [half(2, 3, 224, 224), half(64, 3, 7, 7), half(64)], strides=(2, 2), pads=(3, 3, 3, 3)
    )
    assert isinstance(work, CubeWork)
    assert (work.m, work.k, work.n, work.batch) == (2 * 112 * 112, 7 * 7 * 3, 64, 1)
    assert work.useful_macs == 2 * 112 * 112 * 147 * 64
    assert work.bias is not None
    assert work.conv is not None
    assert (work.conv.height, work.conv.out_w, work.conv.stride_h, work.conv.pads) == (
        224,
        112,
        2,
        (3, 3, 3, 3),
    )


@pytest.mark.parametrize(("channels", "groups"), [(32, 32), (144, 144), (120, 5), (64, 2), (40, 40)])
def test_packed_groups_hold_every_useful_product(channels: int, groups: int) -> None:
    work = lower(
        "Conv",
        [half(1, channels, 8, 8), half(channels, channels // groups, 3, 3)],
        group=groups,
        pads=(1, 1, 1, 1),
    )
    assert isinstance(work, CubeWork)
    packed = enlarged_groups(groups, channels // groups, channels // groups, 16)
    assert work.batch == -(-groups // packed)
    assert work.k == 9 * packed * channels // groups
    assert work.useful_macs == 64 * 9 * channels * channels // groups
    assert work.useful_macs <= work.batch * work.m * work.k * work.n <= work.useful_macs * packed * 2


def test_depthwise_groups_fill_one_block_of_channels() -> None:
    work = lower("Conv", [half(1, 64, 8, 8), half(64, 1, 3, 3)], group=64)
    assert isinstance(work, CubeWork)
    assert (work.batch, work.n, work.k) == (4, 16, 9 * 16)


def test_volumes_and_signals_are_seen_as_images() -> None:
    signal = lower("Conv", [half(1, 4, 100), half(8, 4, 3)])
    assert isinstance(signal, CubeWork)
    assert signal.conv is not None
    assert (signal.conv.height, signal.conv.kernel_h, signal.conv.width, signal.conv.out_w) == (1, 1, 100, 98)
    volume = lower("Conv", [half(1, 4, 6, 8, 8), half(8, 4, 3, 3, 3)])
    assert isinstance(volume, CubeWork)
    assert volume.conv is not None
    assert (volume.conv.kernel_d, volume.conv.batch, volume.m, volume.k) == (3, 4, 4 * 36, 27 * 4)


@pytest.mark.parametrize(("image", "weight", "attributes"), TRANSPOSED)
def test_transposed_work_is_a_dense_convolution_over_the_expanded_input(
    image: tuple[int, ...], weight: tuple[int, ...], attributes: dict[str, Any]
) -> None:
    work = lower("ConvTranspose", [half(*image), half(*weight)], **attributes)
    assert isinstance(work, CubeWork)
    assert work.conv is not None
    geometry = work.conv
    for size, out, kernel, dilation, before, after in (
        (
            geometry.height,
            geometry.out_h,
            geometry.kernel_h,
            geometry.dilation_h,
            geometry.pads[0],
            geometry.pads[2],
        ),
        (
            geometry.width,
            geometry.out_w,
            geometry.kernel_w,
            geometry.dilation_w,
            geometry.pads[1],
            geometry.pads[3],
        ),
    ):
        assert size + before + after - dilation * (kernel - 1) == out
    assert work.useful_macs == math.prod(image) * math.prod(weight[1:])


def test_types_without_cube_instructions_go_to_the_ai_cpu() -> None:
    assert isinstance(lower("Conv", [np.zeros((1, 1, 4, 4)), np.zeros((1, 1, 3, 3))]), AiCpuWork)


def test_operator_types_follow_the_node() -> None:
    opset = default_opset()
    assert opset.cann_type(make_node("Conv", [half(1, 4, 8, 8), half(4, 4, 3, 3)])) == "Conv2D"
    assert (
        opset.cann_type(make_node("Conv", [half(1, 4, 8, 8), half(4, 1, 3, 3)], group=4)) == "DepthwiseConv2D"
    )
    assert opset.cann_type(make_node("Conv", [half(1, 4, 8, 8, 8), half(4, 4, 3, 3, 3)])) == "Conv3D"
