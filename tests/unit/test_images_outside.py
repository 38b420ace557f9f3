"""Convolutions of more images than tilings were tuned for: each image takes all weights through L1 anew."""

from __future__ import annotations

import pytest

from ascendsim import GraphBuilder, compile, simulate
from ascendsim.core.dtypes import DType
from ascendsim.lower.templates.cube import product_of
from ascendsim.lower.templates.product import rates_of
from ascendsim.lower.templates.tiling import Tiling, candidates
from ascendsim.soc import load
from tests.support.lowering import convolution


def wide_us(batch: int, tuned: int) -> float:
    """Time of a convolution of 3 x 3 taps over images of 7 x 7 on Ascend310, with everything in DDR."""
    builder = GraphBuilder("wide", dtype=DType.FLOAT16)
    image = builder.op("Neg", builder.input("x", (batch, 512, 7, 7)))
    taps = builder.weight("w", (512, 512, 3, 3), dtype=DType.FLOAT16)
    made = builder.op("Conv", image, taps, pads=(1, 1, 1, 1))
    builder.output(builder.op("Relu", made))
    model = compile(
        builder.build(),
        soc="Ascend310",
        set={"kernels.tuned_batch": tuned},
        optimize=False,
        precision_mode="must_keep_origin_dtype",
        buffer_optimize="off_optimize",
    )
    (task,) = model.tasks_of(made.producer.name if made.producer is not None else "")
    trace = simulate(model).trace
    (record,) = (record for record in trace.tasks if record.task == task.id)
    return trace.us(record.end - record.start)


@pytest.mark.parametrize(("batch", "published_us"), [(8, 765.4), (16, 1533.7)])
def test_weights_of_each_image_pass_anew_as_in_published_times(batch: int, published_us: float) -> None:
    """Of the older package that Ascend310.toml names; a core reads 49 GB/s there, 46 here."""
    assert wide_us(batch, tuned=1) == pytest.approx(published_us, rel=0.15)


def test_up_to_the_tuned_batch_weights_pass_once() -> None:
    within, beyond = (wide_us(batch, tuned=8) for batch in (8, 9))
    assert wide_us(8, tuned=64) == within
    assert beyond > 2.5 * within
    assert wide_us(9, tuned=64) < 1.2 * within


@pytest.mark.parametrize("batch", [4, 5])
def test_no_tiling_goes_through_several_images_with_one_tile_of_many_columns(batch: int) -> None:
    soc = load("Ascend310", {"kernels.tuned_batch": 4})
    product = product_of(convolution(256, 7, 512, 3, 1, 1, batch), soc)
    assert product.images_outside == (batch > 4)

    def several(tiling: Tiling) -> bool:
        return tiling.hold == "b" and tiling.share_images > 1 and tiling.share_n > tiling.tile_n

    found = [several(tiling) for tiling in candidates(product, rates_of(soc, "float16"))]
    assert found
    assert any(found) == (batch <= 4)


def test_chips_without_such_a_batch_and_matrices_know_nothing_of_it() -> None:
    for chip, largest in (
        ("Ascend310", 32),
        ("Ascend310P3", 32),
        ("Ascend910A", None),
        ("Ascend910B1", None),
    ):
        soc = load(chip)
        assert soc.kernels.tuned_batch == largest
        assert product_of(convolution(16, 14, 16, 3, 1, 1, 256), soc).images_outside == (largest is not None)
