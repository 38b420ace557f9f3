"""Images in front of a network: what the network takes, whatever form it has and whoever decoded it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.compiler.model import CompiledModel
from ascendsim.core.errors import InputError
from ascendsim.graph.ir import Array
from tests.support.pictures import file_of, folder_of, smooth

FULL_RANGE = """aipp_op {
    aipp_mode: static input_format: YUV420SP_U8 csc_switch: true
    matrix_r0c0: 256 matrix_r0c1: 0 matrix_r0c2: 359
    matrix_r1c0: 256 matrix_r1c1: -88 matrix_r1c2: -183
    matrix_r2c0: 256 matrix_r2c1: 454 matrix_r2c2: 0
    input_bias_0: 0 input_bias_1: 128 input_bias_2: 128
}"""
RGB = "aipp_op { aipp_mode: static input_format: RGB888_U8 }"
GREY = "aipp_op { aipp_mode: static input_format: YUV400_U8 }"


def network(batch: int, height: int, width: int, channels: int = 3, aipp: str = "", path: Path | None = None):  # type: ignore[no-untyped-def]
    """One that gives back what it takes, since no pixel is negative."""
    builder = asim.GraphBuilder()
    x = builder.input("x", (batch, channels, height, width))
    builder.output(builder.op("Relu", x), "y")
    if not aipp:
        return asim.compile(builder.build(), "Ascend310")
    assert path is not None
    (path / "aipp.cfg").write_text(aipp)
    return asim.compile(builder.build(), "Ascend310", insert_op_conf=path / "aipp.cfg")


def taken(model: CompiledModel, images: object, **options: object) -> Array:
    """What the network takes of images."""
    options = {"mean": (0,), "std": (1,), **options}
    return asim.run(model, images=images, **options).outputs["y"]  # type: ignore[arg-type]


def test_files_bytes_and_pixels_are_the_same_image(tmp_path: Path) -> None:
    pixels = [smooth(12, 16, seed) for seed in range(4)]
    folder = folder_of(tmp_path / "images", 4, 12, 16, "PNG")
    model = network(2, 12, 16)
    expected = np.stack(pixels).transpose(0, 3, 1, 2)
    forms = (
        str(folder),
        folder,
        sorted(folder.iterdir()),
        [file_of(one) for one in pixels],
        pixels,
        np.stack(pixels),
    )
    for images in forms:
        np.testing.assert_array_equal(taken(model, images), expected)


def test_each_batch_has_its_own_images_in_their_order() -> None:
    pixels = [smooth(8, 8, seed) for seed in range(6)]
    model = network(2, 8, 8)
    together = asim.run(model, images=pixels)
    assert together.outputs["y"].shape == (6, 3, 8, 8)
    for at in (0, 2, 4):
        alone = asim.run(model, images=pixels[at : at + 2]).outputs["y"]
        np.testing.assert_array_equal(together.outputs["y"][at : at + 2], alone)


def test_mean_and_deviation_are_those_of_the_channels() -> None:
    pixels = smooth(8, 8)
    found = taken(network(1, 8, 8), [pixels], mean=(10, 20, 30), std=(2, 4, 5))
    for channel, (mean, std) in enumerate(((10, 2), (20, 4), (30, 5))):
        expected = np.maximum((pixels[:, :, channel].astype(np.float64) - mean) / std, 0)
        np.testing.assert_allclose(found[0, channel], expected, rtol=1e-3)


def test_cropping_takes_the_middle_and_stretching_all() -> None:
    pixels = np.zeros((10, 40, 3), np.uint8)
    pixels[:, 15:25] = 200  # the middle square, of the height of the image
    model = network(1, 10, 10)
    assert (taken(model, [pixels], fit="crop") == 200).all()
    assert taken(model, [pixels]).mean() < 100
    upright = taken(model, [pixels.transpose(1, 0, 2)], fit="crop")
    assert (upright == 200).all()


def test_a_network_with_one_channel_takes_grey() -> None:
    grey = smooth(8, 8)[:, :, 0]
    np.testing.assert_array_equal(taken(network(1, 8, 8, channels=1), [grey])[0, 0], grey)
    colour = np.zeros((8, 8, 3), np.uint8)
    colour[..., 1] = 100
    assert np.abs(taken(network(1, 8, 8, channels=1), [colour]) - 58.7).max() < 1  # of BT.601's luma


def test_aipp_takes_the_bytes_that_dvpp_gives(tmp_path: Path) -> None:
    pixels = [smooth(16, 24, seed) for seed in range(2)]
    expected = np.stack(pixels).transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(taken(network(2, 16, 24, aipp=RGB, path=tmp_path), pixels), expected)
    # through YUV420SP, with AIPP's way back; a plane of Y that is read as colours would be far off
    yuv = taken(network(2, 16, 24, aipp=FULL_RANGE, path=tmp_path), pixels)
    assert np.abs(yuv - expected).max() <= 5
    grey = [one[:, :, 0] for one in pixels]
    found = taken(network(2, 16, 24, channels=1, aipp=GREY, path=tmp_path), grey)
    np.testing.assert_array_equal(found[:, 0], np.stack(grey))


def test_other_inputs_are_given_as_arrays() -> None:
    builder = asim.GraphBuilder()
    x, scale = builder.input("x", (1, 3, 8, 8)), builder.input("scale", (1,))
    builder.output(builder.op("Mul", x, scale), "y")
    model = asim.compile(builder.build(), "Ascend310")
    pixels = smooth(8, 8)
    half = asim.run(
        model, {"scale": np.array([0.5], np.float32)}, images=[pixels], mean=(0,), std=(1,)
    ).outputs["y"]
    np.testing.assert_array_equal(half[0], pixels.transpose(2, 0, 1) / 2)
    assert asim.simulate(model, images=[pixels]).duration_us > 0
    with pytest.raises(InputError, match=r"must have one input .* x \[1, 3, 8, 8\], scale \[1\]"):
        asim.run(model, images=[pixels])


def test_outputs_without_a_batch_are_not_joined() -> None:
    builder = asim.GraphBuilder()
    x = builder.input("x", (1, 3, 8, 8))
    builder.output(builder.op("ReduceMean", x, np.array([0, 1]), keepdims=0), "y")
    model = asim.compile(builder.build(), "Ascend310")
    assert taken(model, [smooth(8, 8)]).shape == (8, 8)
    with pytest.raises(InputError, match="output 'y' must begin with the batch of 1"):
        taken(model, [smooth(8, 8)] * 2)
