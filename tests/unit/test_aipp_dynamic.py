"""Dynamic AIPP: each run says in bytes what is done to its image; all else is as with static AIPP."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ascendsim as asim
from ascendsim.compiler.dynamic_aipp import DynamicAippModel
from ascendsim.core.errors import InputError
from ascendsim.frontends.aipp import parse_aipp_text
from ascendsim.graph.ir import Graph
from ascendsim.passes.aipp.dynamic import AIPP_DATA, from_bytes, to_bytes
from tests.unit.test_aipp import _network as network

# what float16 holds exactly, since minima and factors come in it
RGB = """aipp_op { aipp_mode: static input_format: RGB888_U8 src_image_size_h: 20 src_image_size_w: 30
    crop: true load_start_pos_h: 3 load_start_pos_w: 2 crop_size_h: 15 crop_size_w: 22 rbuv_swap_switch: true
    padding: true top_padding_size: 1 left_padding_size: 2 mean_chn_0: 100 mean_chn_2: 7 min_chn_1: 0.25
    var_reci_chn_0: 0.5 var_reci_chn_1: 0.015625 }"""
YUV = """aipp_op { aipp_mode: static input_format: YUV420SP_U8 src_image_size_h: 16 src_image_size_w: 24
    csc_switch: true matrix_r0c0: 256 matrix_r0c1: 0 matrix_r0c2: 359 matrix_r1c0: 256 matrix_r1c1: -88
    matrix_r1c2: -183 matrix_r2c0: 256 matrix_r2c1: 454 matrix_r2c2: 0
    input_bias_1: 128 input_bias_2: 128 }"""


def written(tmp_path: Path, text: str, name: str = "aipp.cfg") -> str:
    (tmp_path / name).write_text(text)
    return str(tmp_path / name)


def dynamic(
    tmp_path: Path, more: str = "max_src_image_size: 4000", graph: Graph | None = None
) -> asim.CompiledModel:
    path = written(tmp_path, f"aipp_op {{ aipp_mode: dynamic {more} }}", "dynamic.cfg")
    return asim.compile(graph or network(), "Ascend310", insert_op_conf=path)


def images(*shape: int) -> NDArray[np.uint8]:
    return np.random.default_rng(5).integers(0, 256, (2, *shape)).astype(np.uint8)


@pytest.mark.parametrize(("text", "shape"), [(RGB, (20, 30, 3)), (YUV, (24, 24))])
def test_a_run_is_what_static_aipp_gives(tmp_path: Path, text: str, shape: tuple[int, ...]) -> None:
    static = asim.compile(network(), "Ascend310", insert_op_conf=written(tmp_path, text))
    wanted = asim.run(static, {"x": images(*shape)})
    got = asim.run(dynamic(tmp_path), {"x": images(*shape), AIPP_DATA: asim.aipp_data(text, batch=2)})
    assert got.duration_us == wanted.duration_us
    for name, value in wanted.outputs.items():
        np.testing.assert_array_equal(got.outputs[name], value)


def test_one_model_takes_images_of_any_size(tmp_path: Path) -> None:
    model = dynamic(tmp_path)
    for text, shape in ((RGB, (20, 30, 3)), (YUV, (24, 24)), (RGB, (20, 30, 3))):
        data = asim.aipp_data(text, batch=2)
        assert asim.run(model, {"x": images(*shape), AIPP_DATA: data}).outputs["y"].shape == (2, 6, 14, 22)
    assert isinstance(model, DynamicAippModel)
    assert len(model.compiled) == 3  # these two, and images as the network has them
    plain = asim.run(model, {"x": images(16, 24, 3)})
    assert asim.simulate(model).duration_us == plain.duration_us
    assert asim.random_inputs(model).keys() == {"x"}


def test_the_bytes_are_canns_structure() -> None:
    """Offsets by the fields of kAippDynamicPara and kAippDynamicBatchPara, counted by hand."""
    data = asim.aipp_data(RGB, batch=2).tobytes()
    assert len(data) == 64 + 2 * 96
    assert data[:5] == bytes([3, 0, 1, 0, 2])  # format, csc, swap, ax swap, images
    assert struct.unpack_from("<2i", data, 8) == (30, 20)
    assert data[64:160] == data[160:]
    assert data[64:68] == bytes([1, 0, 1, 0])  # crop, resize, padding, rotation
    assert struct.unpack_from("<4i", data, 72) == (2, 3, 22, 15)
    assert struct.unpack_from("<4i", data, 104) == (1, 0, 2, 0)  # top, bottom, left, right
    assert struct.unpack_from("<4h4e4e", data, 120) == (100, 0, 7, 0, 0, 0.25, 0, 0, 0.5, 0.015625, 1, 1)
    csc = asim.aipp_data(YUV).tobytes()
    assert csc[:5] == bytes([1, 1, 0, 0, 1])
    assert struct.unpack_from("<9h", csc, 16) == (256, 0, 359, 256, -88, -183, 256, 454, 0)
    assert csc[40:46] == bytes([0, 0, 0, 0, 128, 128])  # output, input


@pytest.mark.parametrize("text", [RGB, YUV])
def test_bytes_come_back_as_they_were(text: str) -> None:
    assert (from_bytes(asim.aipp_data(text, 3), 3, "AippData"),) == parse_aipp_text(text)


def changed(place: int, value: int, batch: int = 2) -> NDArray[np.uint8]:
    data = asim.aipp_data(RGB, batch)
    data[place] = value
    return data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.zeros(160, np.uint8), r"AippData|must have shape \[256\]"),
        (changed(0, 2), "inputFormat must be out of 1 = YUV420SP_U8, 3 = RGB888_U8, 4 = YUV400_U8, not 2"),
        (changed(4, 5), "batchNum must be 2, as the model's batch, not 5"),
        (changed(64, 0), "must be the same for all images of a batch, not 2 differ"),
        (changed(65, 1), "must be the same for all"),
        (changed(3, 1), "axSwapSwitch is not done by AIPP of these chips"),
        (changed(8, 60), "describes images of at most max_src_image_size = 4000 bytes, not 7200"),
    ],
)
def test_what_the_bytes_must_not_say(tmp_path: Path, data: NDArray[np.uint8], message: str) -> None:
    with pytest.raises(InputError, match=message):
        asim.run(dynamic(tmp_path), {"x": images(20, 30, 3), AIPP_DATA: data})


def test_the_image_has_the_size_that_the_bytes_say(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"input 'x' must be of shape \[2, 20, 30, 3\], as 'ascend_dynamic"):
        asim.run(dynamic(tmp_path), {"x": images(16, 24, 3), AIPP_DATA: asim.aipp_data(RGB, 2)})
    too_small = RGB.replace("crop_size_h: 15", "crop_size_h: 14")
    with pytest.raises(InputError, match="must give 16x24 as the model takes it, not 15x24"):
        asim.run(dynamic(tmp_path), {"x": images(20, 30, 3), AIPP_DATA: asim.aipp_data(too_small, 2)})


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("", "max_src_image_size must be given where AIPP is dynamic"),
        ("max_src_image_size: 0", "must be a whole number in"),
        ("max_src_image_size: 9 crop: true", "crop comes with each run where AIPP is dynamic"),
        ("max_src_image_size: 9 support_rotation: true", "support_rotation is not done"),
        ("max_src_image_size: 9 related_input_rank: 4", "must be below 1, the number of inputs, not 4"),
    ],
)
def test_refused_blocks(tmp_path: Path, more: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        dynamic(tmp_path, more)


def test_what_the_structure_cannot_say() -> None:
    with pytest.raises(InputError, match="pads with 0 where AIPP is dynamic, not 3"):
        asim.aipp_data(RGB.replace("padding: true", "padding: true padding_value: 3"))
    with pytest.raises(InputError, match="needs src_image_size_w and src_image_size_h"):
        asim.aipp_data("aipp_op { aipp_mode: static input_format: RGB888_U8 }")
    with pytest.raises(InputError, match="must have one block with aipp_mode: static"):
        asim.aipp_data("aipp_op { aipp_mode: dynamic max_src_image_size: 9 }")


def test_gears_are_refused(tmp_path: Path) -> None:
    b = asim.GraphBuilder("open")
    b.output(b.op("Relu", b.input("x", (None, 3, 8, 8))), "y")
    path = written(tmp_path, "aipp_op { aipp_mode: dynamic max_src_image_size: 999 }")
    with pytest.raises(InputError, match="aipp_mode dynamic does not go with gears"):
        asim.compile(b.build(), "Ascend310", insert_op_conf=path, dynamic_batch_size="1,2")


def written_at(place: int, form: str, *values: Any) -> NDArray[np.uint8]:
    """AippData of one image with some numbers at a place."""
    data = bytearray(asim.aipp_data(RGB, 1).tobytes())
    struct.pack_into(form, data, place, *values)
    return np.frombuffer(bytes(data), np.uint8)


@pytest.mark.parametrize(
    ("place", "form", "values", "message"),
    [
        (8, "<2i", (1, 20), "srcImageSize must be at least 2 x 2, not 20x1"),
        (8, "<2i", (30, 1), "srcImageSize must be at least 2 x 2, not 1x30"),
        (66, "<b", (2,), r"paddingSwitch must be 0 or 1 \(a constant around the image\), not 2"),
        (65, "<b", (1,), "scfSwitch is not done by AIPP of these chips"),
        (67, "<b", (1,), "rotateSwitch is not done by AIPP of these chips"),
        (72, "<i", (-1,), "must not have negative sizes or positions"),
        (76, "<i", (-1,), "must not have negative sizes or positions"),
        (80, "<2i", (0, 15), "must not have negative sizes or positions"),
        (80, "<2i", (22, 0), "must not have negative sizes or positions"),
        (104, "<i", (-1,), "must not have negative sizes or positions"),
        (108, "<i", (-1,), "must not have negative sizes or positions"),
        (112, "<i", (-1,), "must not have negative sizes or positions"),
        (116, "<i", (-1,), "must not have negative sizes or positions"),
        (128, "<e", (np.nan,), "must have finite minima and factors"),
        (136, "<e", (np.inf,), "must have finite minima and factors"),
    ],
)
def test_numbers_that_the_bytes_must_not_hold(place: int, form: str, values: Any, message: str) -> None:
    with pytest.raises(InputError, match=f"AippData:? ?.*{message}"):
        from_bytes(written_at(place, form, *values), 1, "AippData")


def test_numbers_at_their_limits() -> None:
    assert from_bytes(written_at(8, "<2i", 2, 2), 1, "AippData").source == (2, 2)
    assert from_bytes(written_at(104, "<4i", 0, 0, 0, 0), 1, "AippData").border == (0, 0, 0, 0)
    assert from_bytes(written_at(80, "<2i", 1, 1), 1, "AippData").crop[2:] == (1, 1)
    unset = bytearray(written_at(80, "<2i", 0, 0).tobytes())
    unset[64] = 0
    assert from_bytes(np.frombuffer(bytes(unset), np.uint8), 1, "AippData").crop == ()
    padded = bytearray(asim.aipp_data(RGB, 1).tobytes())
    padded[66] = 0
    assert from_bytes(np.frombuffer(bytes(padded), np.uint8), 1, "AippData").border == (0, 0, 0, 0)


@pytest.mark.parametrize(
    "wrong", [lambda data: data.view(np.int8), lambda data: data[:-1], lambda data: data[None]]
)
def test_the_bytes_are_one_row_of_their_length(wrong: Any) -> None:
    with pytest.raises(InputError, match=r"must be 160 bytes: 64, and 96 for each of 1 images.*aipp_data"):
        from_bytes(wrong(asim.aipp_data(RGB, 1)), 1, "AippData")


def test_one_image_may_stand_for_the_batch() -> None:
    one = asim.aipp_data(RGB, 2)
    one[4] = 1
    assert from_bytes(one, 2, "AippData") == from_bytes(asim.aipp_data(RGB, 2), 2, "AippData")


@pytest.mark.parametrize(("batch", "fits"), [(0, False), (1, True), (127, True), (128, False)])
def test_batches_of_up_to_127_images(batch: int, fits: bool) -> None:
    if fits:
        assert len(asim.aipp_data(RGB, batch)) == 64 + 96 * batch
        return
    with pytest.raises(InputError, match=f"option batch must be from 1 to 127, not {batch}"):
        asim.aipp_data(RGB, batch)


def test_images_are_described_one_at_a_time() -> None:
    with pytest.raises(InputError, match="must have one block with aipp_mode: static, not 2 blocks"):
        asim.aipp_data(RGB + RGB.replace("aipp_op {", "aipp_op { related_input_rank: 1 "))


@pytest.mark.parametrize(("value", "fits"), [(65504, True), (65536, False)])
def test_what_comes_as_float16_must_fit(value: int, fits: bool) -> None:
    settings = parse_aipp_text(RGB)[0]
    for name in ("minimum", "scale"):
        item = replace(settings, **{name: (float(-value), 0.0, 0.0)})  # type: ignore[arg-type, type-var]
        if fits:
            assert getattr(from_bytes(to_bytes(item, 1, "s"), 1, "s"), name)[0] == -value
        else:
            with pytest.raises(InputError, match="must be at most 65504, since it comes as float16"):
                to_bytes(item, 1, "s")
