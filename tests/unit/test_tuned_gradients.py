"""Gradients of convolutions on Ascend910A, cut as the vendor tuned them."""

from __future__ import annotations

from dataclasses import replace
from math import gcd

import pytest

from ascendsim.lower.templates.cube import product_of
from ascendsim.lower.templates.filter_tiling import filter_tiling
from ascendsim.lower.templates.tiling import best_tilings, shares
from ascendsim.opset.work import CubeWork
from ascendsim.soc import load
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
