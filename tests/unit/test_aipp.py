"""AIPP: values against a plain loop, the passes that insert and join it, and its work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import InputError
from ascendsim.core.formats import Format
from ascendsim.frontends.aipp import parse_aipp_text
from ascendsim.graph.ir import Graph
from ascendsim.isa.instructions import Move
from ascendsim.isa.walk import static
from ascendsim.ops.image.aipp import convert
from ascendsim.passes.aipp import AippSettings, insert_aipp
from ascendsim.passes.l2 import find_batch

pytestmark = pytest.mark.usefixtures("untimed_tiles")

QUICK = {"tiling": "closed_form"}  # no tile is timed
_JPEG = (256, 0, 359, 256, -88, -183, 256, 454, 0)


def _settings(kind: str = "RGB888_U8", **changes: object) -> AippSettings:
    return AippSettings(kind, source=(6, 8), **changes)  # type: ignore[arg-type]


def _by_loop(settings: AippSettings, image: NDArray[np.uint8]) -> NDArray[np.float64]:
    """One image, pixel by pixel, in Python's own numbers."""
    top, left, height, width = settings.window
    result = np.zeros((settings.channels, height, width))
    for row in range(height):
        for column in range(width):
            y, x = top + row, left + column
            if settings.input_format == "RGB888_U8":
                pixel = [int(value) for value in image[y, x]]
            elif settings.input_format == "YUV400_U8":
                pixel = [int(image[y, x])]
            else:
                pair = image[settings.source[0] + y // 2, x // 2 * 2 : x // 2 * 2 + 2]
                pixel = [int(image[y, x]), int(pair[0]), int(pair[1])]
            if settings.swap:
                order = (2, 1, 0) if settings.input_format == "RGB888_U8" else (0, 2, 1)
                pixel = [pixel[number] for number in order]
            if settings.matrix:
                centred = [value - bias for value, bias in zip(pixel, settings.input_bias, strict=True)]
                rows = [settings.matrix[3 * r : 3 * r + 3] for r in range(3)]
                mixed = [sum(m * v for m, v in zip(weights, centred, strict=True)) >> 8 for weights in rows]
                pixel = [
                    min(255, max(0, value + bias))
                    for value, bias in zip(mixed, settings.output_bias, strict=True)
                ]
            for channel, value in enumerate(pixel):
                offset = settings.mean[channel] + settings.minimum[channel]
                result[channel, row, column] = (value - offset) * settings.scale[channel]
    above, before, below, behind = settings.border
    return np.pad(result, ((0, 0), (above, below), (before, behind)), constant_values=settings.border_value)


@pytest.mark.parametrize(
    "settings",
    [
        _settings(),
        _settings(swap=1, mean=(123, 117, 104), scale=(0.0171, 0.0175, 0.0174)),
        _settings(crop=(2, 4, 4, 2), minimum=(0.25, 0.5, 0.75)),
        _settings(border=(1, 2, 3, 0), border_value=-1.5),
        _settings(matrix=(76, 150, 30, -44, -85, 128, 128, -107, -21), output_bias=(0, 128, 128)),
        _settings("YUV420SP_U8"),
        _settings("YUV420SP_U8", swap=1, crop=(2, 2, 4, 4)),
        _settings("YUV420SP_U8", matrix=_JPEG, input_bias=(0, 128, 128), mean=(123, 116, 103)),
        _settings("YUV400_U8", mean=(10, 0, 0), scale=(0.5, 1.0, 1.0)),
    ],
    ids=lambda settings: (
        f"{settings.input_format}-{settings.swap}-{len(settings.matrix)}-{settings.crop}-{settings.border}"
    ),
)
def test_values_equal_the_formula(settings: AippSettings) -> None:
    images = np.random.default_rng(3).integers(0, 256, settings.raw_shape(2)).astype(np.uint8)
    result = convert(settings, images)
    expected = np.stack([_by_loop(settings, image) for image in images])
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6)


def test_known_colours() -> None:
    """JPEG's YUV of red, by the coefficients of the guide."""
    settings = AippSettings("YUV420SP_U8", source=(2, 2), matrix=_JPEG, input_bias=(0, 128, 128))
    red = np.array([[[76, 76], [76, 76], [85, 255]]], np.uint8)  # Y Y / Y Y / U V
    np.testing.assert_array_equal(convert(settings, red)[0, :, 0, 0], [254, 0, 0])


def _network(group: int = 1, readers: int = 1, kernel: int = 3) -> Graph:
    random = np.random.default_rng(1)
    b = asim.GraphBuilder("net")
    x = b.input("x", (2, 3, 16, 24))
    weights = random.standard_normal((6 // group * group, 3 // group, kernel, kernel)).astype(np.float32)
    y = b.op(
        "Conv",
        x,
        b.constant(weights, "w"),
        b.constant(random.standard_normal(len(weights)).astype(np.float32), "b"),
        group=group,
    )
    b.output(b.op("Relu", y), "y")
    if readers > 1:
        b.output(b.op("Sigmoid", x), "z")
    return b.build()


def _config(
    tmp_path: Path,
    text: str = "mean_chn_0: 100 var_reci_chn_0: 0.02 var_reci_chn_1: 0.01 var_reci_chn_2: 0.01",
) -> str:
    path = tmp_path / "aipp.cfg"
    path.write_text(f"aipp_op {{ aipp_mode: static input_format: RGB888_U8 {text} }}")
    return str(path)


def test_inserting_changes_the_input_only() -> None:
    graph = _network()
    insert_aipp(graph, parse_aipp_text("aipp_op { aipp_mode: static input_format: RGB888_U8 }"))
    (image,) = graph.inputs
    assert (image.name, image.dtype, image.shape) == ("x", DType.UINT8, (2, 16, 24, 3))
    assert [node.op_type for node in graph.topological()] == ["Aipp", "Conv", "Relu"]
    assert graph.nodes[0].output.shape == (2, 3, 16, 24)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("related_input_rank: 1", "must be below 1"),
        ("src_image_size_h: 20 src_image_size_w: 24", "must give 16x24"),
        (
            "src_image_size_h: 20 src_image_size_w: 24 crop: true crop_size_h: 16 crop_size_w: 24 "
            "load_start_pos_h: 8",
            "must lie in the 20x24",
        ),
    ],
)
def test_sizes_must_fit_the_model(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        insert_aipp(
            _network(), parse_aipp_text(f"aipp_op {{ aipp_mode: static input_format: RGB888_U8 {text} }}")
        )


def test_gears_may_set_the_batch_but_not_the_image(tmp_path: Path, models_dir: Path) -> None:
    def network(*shape: int) -> Graph:
        return asim.load(models_dir / "squeezenet1_1.onnx", weights="random", shapes={"input": shape})

    options: dict[str, Any] = {"soc": "Ascend310P3", "insert_op_conf": _config(tmp_path), "options": QUICK}
    geared = asim.compile(network(-1, 3, 96, 96), dynamic_batch_size=[1, 2], **options)
    images = asim.random_inputs(geared, shapes={"input": (2, 96, 96, 3)})
    assert images["input"].dtype == np.uint8
    static = asim.run(asim.compile(network(2, 3, 96, 96), **options), images)
    for name, output in asim.run(geared, images).outputs.items():
        np.testing.assert_array_equal(output, static.outputs[name])
    with pytest.raises(
        InputError, match="AIPP for input 'input' needs channels, height and width that are known"
    ):
        asim.compile(network(1, 3, -1, -1), dynamic_image_size="224,224;448,448", **options)


def test_what_takes_images_can_run_on_a_part_of_the_batch(tmp_path: Path) -> None:
    model = asim.compile(_network(), soc="Ascend310P3", insert_op_conf=_config(tmp_path))
    axis = find_batch(model.graph, model.opset)
    assert axis.batch == 2
    assert axis.nodes == {node.name for node in model.graph.nodes}


def test_channels_and_even_sizes_must_fit() -> None:
    with pytest.raises(
        InputError,
        match="gives 1 channels, the model takes 3; formats with 3 channels: RGB888_U8, YUV420SP_U8",
    ):
        insert_aipp(_network(), parse_aipp_text("aipp_op { aipp_mode: static input_format: YUV400_U8 }"))
    odd = "src_image_size_h: 17 src_image_size_w: 24 crop: true crop_size_h: 16 crop_size_w: 24"
    with pytest.raises(InputError, match="needs even sizes"):
        insert_aipp(
            _network(), parse_aipp_text(f"aipp_op {{ aipp_mode: static input_format: YUV420SP_U8 {odd} }}")
        )


def test_the_first_convolution_takes_the_image(tmp_path: Path) -> None:
    model = asim.compile(_network(), soc="Ascend310P3", insert_op_conf=_config(tmp_path))
    assert [node.op_type for node in model.graph.topological()] == ["AippConv", "Relu", "TransData", "Cast"]
    loads = [
        item
        for task in model.tasks_of("Conv")
        for group in task.groups
        for item, _ in static(group.block.body)
        if isinstance(item, Move) and item.kind == "aipp"
    ]
    assert loads
    assert all(load.dst.bytes > load.bytes for load in loads)  # three bytes a pixel become a block of 32
    read = sum(access.moved_bytes for access in model.tasks_of("Conv")[0].accesses if access.region == "x")
    assert 2 * 16 * 24 * 3 <= read < 2 * 16 * 24 * 3 * 2  # the image, with the rows that tiles share
    assert model.fusion.totals("ub")["TbeAippCommonFusionPass"] == (1, 1)
    assert [node.op_type for node in model.source.nodes] == ["Conv", "Relu"]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"group": 3}, "works in groups"),
        ({"readers": 2}, "read by others too"),
        ({"kernel": 1}, "without a window"),
    ],
)
def test_else_it_is_a_task_of_its_own(more: dict[str, int], reason: str, tmp_path: Path) -> None:
    model = asim.compile(_network(**more), soc="Ascend310", insert_op_conf=_config(tmp_path))
    (aipp,) = [node for node in model.graph.nodes if node.op_type == "Aipp"]
    assert len(model.tasks_of(aipp.name)) == 1
    assert aipp.output.format is Format.NC1HWC0
    (record,) = [record for record in model.fusion.records if record.name == "TbeAippCommonFusionPass"]
    assert reason in record.refusals[0].reason


def test_joined_and_single_give_the_same_values(tmp_path: Path) -> None:
    config = _config(tmp_path)
    images = {"x": np.random.default_rng(2).integers(0, 256, (2, 16, 24, 3)).astype(np.uint8)}
    results = [
        asim.run(
            asim.compile(_network(), soc="Ascend310", fusion=level, insert_op_conf=config), images
        ).outputs["y"]
        for level in ("off", "graph", "all")
    ]
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])
    plain = asim.compile(_network(), soc="Ascend310")
    scale, mean = (
        np.array([0.02, 0.01, 0.01], np.float32).reshape(3, 1, 1),
        np.array([100, 0, 0], np.float32).reshape(3, 1, 1),
    )
    floats = (images["x"].transpose(0, 3, 1, 2).astype(np.float32) - mean) * scale
    np.testing.assert_array_equal(asim.run(plain, {"x": floats}).outputs["y"], results[0])


def test_random_images_have_all_values(tmp_path: Path) -> None:
    model = asim.compile(_network(), soc="Ascend310", insert_op_conf=_config(tmp_path))
    image = asim.random_inputs(model)["x"]
    assert image.dtype == np.uint8
    assert image.max() > 200


def test_images_cost_less_than_float_inputs(tmp_path: Path, models_dir: Path) -> None:
    graph = asim.load(models_dir / "resnet18.onnx", batch=8)
    floats, images = (
        asim.simulate(asim.compile(graph, soc="Ascend310", insert_op_conf=given, options=QUICK))
        for given in (None, _config(tmp_path))
    )
    saved = 8 * 3 * 224 * 224 * (4 + 2)  # the Cast of the input, and its TransData to 16 channels
    assert images.duration_us < floats.duration_us - saved / 42e3  # at the chip's 42 GB/s
    moved = [
        sum(record.read_bytes.get("ddr", 0) for record in result.trace.tasks) for result in (floats, images)
    ]
    assert moved[1] < moved[0]
