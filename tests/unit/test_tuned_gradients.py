"""Gradients of convolutions on Ascend910A, cut as the vendor tuned them, and how rows of them are read."""

from __future__ import annotations

from dataclasses import replace
from math import gcd

import pytest

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Node
from ascendsim.lower.templates.cube import product_of
from ascendsim.lower.templates.filter_tiling import (
    FilterProduct,
    candidates,
    filter_tiling,
    sharing_of_images,
)
from ascendsim.lower.templates.product import rates_of
from ascendsim.lower.templates.tiling import best_tilings, shares
from ascendsim.opset.work import CubeWork
from ascendsim.soc import load
from ascendsim.validate.operators_bench import Bench
from ascendsim.validate.operators_cube import depthwise_filter_gradient
from ascendsim.validate.operators_rows import Operand, OperatorRow
from tests.support.filter_work import filter_work
from tests.support.lowering import convolution

SOC = load("Ascend910A")


def gradient(images: int, kernel: int, size: int = 14, spread: int = 1) -> CubeWork:
    """The gradient of a map; `spread` is the stride of its convolution."""
    work = convolution(64, spread * size, 128, kernel, 1, kernel // 2, images)
    given = replace(work.a, shape=(images, 64, size, size))
    return replace(work, a=given, transposed=True)


def test_only_gradients_of_maps_with_one_tap_or_a_stride_begin_with_the_images() -> None:
    assert product_of(gradient(32, 1), SOC).images_first
    assert product_of(gradient(32, 3, spread=2), SOC).images_first
    assert not product_of(gradient(32, 3), SOC).images_first
    assert not product_of(replace(gradient(32, 1), transposed=False), SOC).images_first
    assert not product_of(gradient(32, 1), load("Ascend910B")).images_first


@pytest.mark.parametrize("cores", [1, 24, 30, 32])
def test_every_gradient_has_a_share(cores: int) -> None:
    soc = load("Ascend910A", {"ai_cores": cores})
    for images in (1, 5, 12, 30, 33, 64):
        for work in (
            gradient(images, 1),
            gradient(images, 3, spread=2),
            replace(gradient(images, 1), batch=8),
        ):
            assert best_tilings(product_of(work, soc), soc)


@pytest.mark.parametrize("images", [1, 6, 16, 32, 48, 256])
def test_as_many_cores_share_the_images_as_divide_both(images: int) -> None:
    product = product_of(gradient(images, 1), SOC)
    taken = {share[1] for share in shares(product, 32)}
    assert taken == {images // gcd(images, 32)}
    assert {tiling.share_images for tiling in best_tilings(product, SOC)} == taken


def test_other_products_try_other_numbers_of_images() -> None:
    product = product_of(gradient(32, 3), SOC)
    assert len({share[1] for share in shares(product, 32)}) > 2


def test_large_filters_of_small_maps_are_not_added_up_by_every_core() -> None:
    """512 x 512 x 3 x 3 of 32 images: 46.6 us as tuned on 910A; whole filters of 32 cores are 300 MB."""
    work = filter_work(32, 512, 14, 512, 3, 2, 1, 1)
    tuned, first = (
        filter_tiling(work, SOC),
        filter_tiling(work, load("Ascend910A", {"kernels.tuned_gradients": False})),
    )
    assert first.images == 1
    assert tuned.images > 4
    assert 32 % tuned.images == 0
    assert 2 * tuned.cycles < first.cycles


def test_cores_share_whole_images_evenly() -> None:
    for images in (6, 15, 48):
        tiling = filter_tiling(filter_work(images, 64, 28, 64, 3, 1, 1, 1), SOC)
        assert images % tiling.images == 0


@pytest.mark.parametrize("chip", ["Ascend910A", "Ascend910B"])
@pytest.mark.parametrize(("images", "groups", "own"), [(32, 9, 1), (5, 30, 1), (1, 42, 2), (16, 100, 4)])
def test_a_core_has_whole_blocks_of_channels_of_filters_of_one_channel(
    chip: str, images: int, groups: int, own: int
) -> None:
    """Of all images and positions; 42 blocks on 32 cores are two a core, as in tilings of 910A (21 cores)."""
    soc = load(chip)
    work = replace(filter_work(images, 16, 28, 16, 3, 1, 1, groups), depthwise=True)
    product = FilterProduct.of(work)
    found = list(candidates(product, rates_of(soc, "float16", True), sharing_of_images(work, soc)))
    shares = {(one.groups, one.images, one.positions, one.m, one.blocks) for one in found}
    assert shares == {(own, images, 28 * 28, 16, 9)}


def test_other_filters_and_other_chips_share_images_too() -> None:
    """One block of channels: with the rule a single core would do it all."""
    work = filter_work(32, 16, 28, 16, 3, 1, 1, 1)
    assert filter_tiling(replace(work, depthwise=True), SOC).images == 32
    assert filter_tiling(work, SOC).images < 32
    assert filter_tiling(replace(work, depthwise=True), load("Ascend310")).images == 16


def read(image: str, filters: str, result: str) -> list[Node]:
    """Operators of a row's graph that are gradients."""
    maps = tuple(
        Operand(tuple(map(int, shape.split(","))), DType.FLOAT16, "NC1HWC0") for shape in (image, result)
    )
    made = Operand(tuple(map(int, filters.split(","))), DType.FLOAT32, "FRACTAL_Z")
    row = OperatorRow(
        "rows.csv",
        2,
        "910A-tuned",
        "DepthwiseConv2DBackpropFilter",
        "dw",
        False,
        "",
        maps,
        (made,),
        0,
        9.0,
        True,
        False,
    )
    graph = depthwise_filter_gradient(row, Bench(row)).graph
    return [node for node in graph.nodes if node.op_type == "DepthwiseConv2DBackpropFilter"]


@pytest.mark.parametrize(
    ("image", "filters", "result", "wanted"),
    [
        ("4,1,28,28,16", "9,1,16,16", "4,1,14,14,16", (3, 2, (1, 1, 1, 1))),
        ("4,1,28,28,16", "16,1,16,16", "4,1,28,28,16", (4, 1, (1, 1, 2, 2))),
        ("4,1,28,28,16", "9,1,16,16", "4,1,28,28,16", (3, 1, (1, 1, 1, 1))),
        ("4,1,7,7,16", "49,1,16,16", "4,1,1,1,16", (7, 1, (0, 0, 0, 0))),  # any stride would do
        ("4,1,10,10,16", "25,1,16,16", "4,1,3,3,16", (5, 3, (1, 1, 1, 1))),
        ("4,1,7,7,16", "1,1,16,16", "4,1,3,3,16", (1, 3, (0, 0, 0, 0))),  # by its size 2, which cannot be
        ("4,1,5,5,16", "9,1,16,16", "4,1,1,1,16", (3, 3, (0, 0, 0, 0))),  # 1 cannot be
    ],
)
def test_windows_of_rows(
    image: str, filters: str, result: str, wanted: tuple[int, int, tuple[int, ...]]
) -> None:
    (node,) = read(image, filters, result)
    kernel, stride, pads = wanted
    assert node.attr("filter_size") == (16, 1, kernel, kernel)
    assert tuple(node.attr("strides")) == (stride, stride)
    assert tuple(node.attr("pads")) == pads


def test_rows_that_no_window_explains_are_refused() -> None:
    with pytest.raises(ValueError, match="no window of 3 x 3 makes"):
        read("4,1,28,28,16", "9,1,16,16", "4,1,28,14,16")
