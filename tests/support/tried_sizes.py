"""Sizes that searches for tilings try along an axis, as text: by its length, and by what a chip has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields

from ascendsim.core.errors import CompileError
from ascendsim.lower.templates.cube import product_of
from ascendsim.lower.templates.even_tiling import cores_of_columns, cores_of_images, divisors
from ascendsim.lower.templates.filter_tiling import FilterProduct, _column_tiles, _cut, _runs
from ascendsim.lower.templates.product import rates_of
from ascendsim.lower.templates.score import lookahead
from ascendsim.lower.templates.sharing import even_bursts
from ascendsim.lower.templates.strips import Strip, row_parts, strip_of
from ascendsim.lower.templates.tile_sizes import run_sizes, tile_sizes
from ascendsim.lower.templates.tiling import (
    block_counts,
    chunk_units,
    queue_depths,
)
from ascendsim.lower.templates.width_tiles import image_share, whole_images
from ascendsim.opset.work import ConvGeometry, CubeWork
from ascendsim.soc import load
from tests.support.filter_work import filter_work
from tests.support.lowering import convolution, matmul

LENGTHS = (
    1,
    15,
    16,
    17,
    31,
    33,
    48,
    100,
    129,
    200,
    256,
    300,
    500,
    511,
    512,
    784,
    1000,
    1025,
    3136,
    5000,
    12_544,
)


def sizes() -> str:
    """The table."""
    soc = load("Ascend310P3")
    lines: list[str] = []

    def section(title: str, rows: Iterable[tuple[object, Sequence[object] | object]]) -> None:
        lines.append(f"{title}:")
        for name, found in rows:
            listed = found if isinstance(found, list | tuple) else (found,)
            lines.append(f"    {name}: {' '.join(map(str, listed))}")

    for most, smallest, grain in (
        (64, 2, 16),
        (64, 1, 16),
        (20, 2, 16),
        (7, 2, 16),
        (64, 2, 32),
        (20, 4, 32),
        (1, 2, 16),
    ):
        title = f"Tiles of at most {most} and at least {smallest} blocks, multiples of {grain}"
        section(title, [(length, tile_sizes(length, most, smallest, grain)) for length in LENGTHS])
    geometries = {
        name: geometry(work)
        for name, work in {
            "3x3 of 56": convolution(64, 56, 64, 3, 1, 1), "7x7 of 224": convolution(3, 224, 64, 7, 2, 3),
            "1x1 of 28": convolution(64, 28, 64, 1), "1x1 of 28 by 2": convolution(64, 28, 64, 1, 2),
            "5x5 of 14": convolution(20, 14, 64, 5, 1, 2), "3x3 of 7": convolution(512, 7, 64, 3, 1, 1),
        }.items()
    }  # fmt: skip
    geometries["strips of 48"] = strip_of(geometry(convolution(32, 100, 40, 3, 1, 1)), 48)
    geometries["strips of 16, two rows"] = strip_of(wide(2, 100), 16)
    geometries["strips of 64, one row"] = strip_of(wide(1, 300), 64)
    for most, smallest in ((64, 2), (16, 2), (64, 1)):
        section(
            f"Runs of positions, at most {most} and at least {smallest} blocks",
            [
                (name, run_sizes(one, one.out_h * one.out_w, most, smallest))
                for name, one in geometries.items()
            ],
        )
    section(
        "Blocks of k that chunks are made of", [(name, chunk_units(one)) for name, one in geometries.items()]
    )
    section("Parts of a row of the filter", [(name, row_parts(one)) for name, one in geometries.items()])
    section("of matrices", [("", chunk_units(None))])
    section(
        "Depths of queues", [(depth, queue_depths(depth)) for depth in (1, 7, 8, 15, 16, 17, 31, 32, 48, 100)]
    )
    section(
        "How far they let run ahead", [(depth, lookahead(depth)) for depth in (1, 5, 6, 8, 9, 12, 16, 32, 48)]
    )
    section(
        "Numbers of cores",
        [(cores, block_counts(cores)) for cores in (1, 2, 3, 8, 10, 20, 24, 30, 32, 40, 48)],
    )
    section("Divisors up to 20", [(number, divisors(number, 20)) for number in (1, 7, 12, 48, 97, 100)])
    for cores in (24, 30, 32):
        section(
            f"Of {cores} cores, by images of a convolution",
            [
                (images, cores_of_images(product_of(convolution(32, 14, 32, 3, 1, 1, images), soc), cores))
                for images in (1, 11, 12, 14, 15, 16, 17, 29, 30, 31, 32, 33, 64)
            ],
        )
        section(
            f"Of {cores} cores, by rows and columns of a product",
            [
                ((rows, columns), cores_of_columns(product_of(matmul(rows, 64, columns, soc), soc), cores))
                for rows in (1, 256, 257)
                for columns in (16, 128, 336, 1000, 4096, 4112)
            ],
        )
    section("Parts of an axis, multiples of 16", [(length, _cut(length, 16)) for length in LENGTHS])
    section("of 9", [(length, _cut(length, 9)) for length in (1, 9, 18, 36, 45, 72, 144, 288)])
    filters = {
        name: FilterProduct.of(filter_work(*numbers))
        for name, numbers in {
            "3x3 of 64 channels": (2, 64, 28, 64, 3, 1, 1, 1), "1x1 of 256": (1, 256, 14, 64, 1, 1, 0, 1),
            "7x7 of 3": (2, 3, 64, 32, 7, 2, 3, 1), "2x2 of 40": (3, 40, 31, 24, 2, 1, 0, 1),
        }.items()
    }  # fmt: skip
    for name, one in filters.items():
        section(
            f"Columns of a filter's gradient, {name}",
            [(many, _column_tiles(one, many)) for many in range(1, one.blocks + 1)],
        )
        lengths = (one.positions, one.conv.out_w * 3, one.conv.out_w, 100)
        section(f"Runs of it, {name}", [(length, _runs(one, length)) for length in lengths])
    section(
        "Equal bursts",
        [
            ((length, burst), even_bursts(length, burst))
            for length in (1, 97, 1000, 1001, 4096)
            for burst in (10, 100, 960)
        ],
    )
    for strip in geometries.values():
        if not isinstance(strip, Strip):
            continue
        section(
            f"Strips of a core, {strip.batch} of {strip.out_w} columns",
            [
                (share, (whole_images(strip, share), *image_share(strip, share)))
                for share in range(1, strip.batch + 1)
            ],
        )
    for chip in (
        "Ascend310",
        "Ascend310P3",
        "Ascend910A",
        "Ascend910B1",
        "Ascend910B",
        "Ascend910B4",
        "Ascend310B1",
    ):
        own = load(chip)
        for kind, convolves in (("float16", False), ("float32", False), ("float32", True), ("int8", False)):
            try:
                rates = rates_of(own, kind, convolves)
            except CompileError as error:
                lines.append(f"{chip} {kind}: {error}")
                continue
            figures = [f"{item.name} {_figure(getattr(rates, item.name))}" for item in fields(rates)]
            lines.append(f"{chip} {kind}{' of convolutions' * convolves}: {', '.join(figures)}")
    return "\n".join([*lines, ""])


def _figure(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def geometry(work: CubeWork) -> ConvGeometry:
    assert work.conv is not None
    return work.conv


def wide(height: int, width: int) -> ConvGeometry:
    """Maps of few long rows, three images."""
    return ConvGeometry(
        3, 16, height, width, height, 3, 1, 1, 1, 1, (height // 2, 1, height // 2, 1), height, width
    )
