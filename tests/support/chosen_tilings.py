"""What the searches for tilings choose, as text: one work on one chip in a few lines, with the cycles that
the closed form predicts and the tilings that come near."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from random import Random

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import CompileError
from ascendsim.core.formats import Format
from ascendsim.lower.templates.cube import cube_options, product_of
from ascendsim.lower.templates.least import least_cycles, least_of_moves, least_of_tiles, loading_cycles
from ascendsim.lower.templates.product import Product, rates_of
from ascendsim.lower.templates.share_tiles import HOLDS
from ascendsim.lower.templates.steps import Expansion
from ascendsim.lower.templates.tiling import Tiling
from ascendsim.lower.templates.tiling import candidates as tilings_of
from ascendsim.lower.templates.traffic import traffic_of
from ascendsim.opset.work import ConvGeometry, CubeWork
from ascendsim.soc import SocSpec, load
from tests.support import random_cubes
from tests.support.chosen_shares import stage_text
from tests.support.lowering import convolution, ref

MOST = 400  # tilings of a work that are all looked at
SMALL = {"buffers.l1": 96 << 10}  # so that panels do not fit and kernel rows come in parts


CHIPS = (
    "Ascend310",
    "Ascend310P3",
    "Ascend910A",
    "Ascend910B1",
    "Ascend610Lite",
    "Ascend910B4",
    "Ascend910B",
    "Ascend310B1",
)


def chips() -> Iterator[SocSpec]:
    """Over and over: every generation and number of cores, now and then with a small L1 or a larger L0."""
    while True:
        for changes in ({}, {}, SMALL, {}, {"buffers.l0a": 128 << 10, "issue.queue_depth.M": 16}):
            for name in CHIPS:
                yield load(name, changes if name != "Ascend310B1" else {})


def chosen(work: CubeWork, soc: SocSpec) -> str:
    """The best few tilings, and what all candidates are like."""
    options = cube_options(work, soc, Expansion(soc, noted=True))
    tilings = [make.args[2] for make in options]  # type: ignore[attr-defined]
    best = tilings[0]
    lines = [f"    {tiling_line(best)}"]
    others = [f"{_short(one, best)} {one.cycles:.1f}" for one in tilings[1:]]
    if others:
        lines.append(f"    near: {', '.join(others)}")
    product = product_of(work, soc)
    lines.append(f"    all: {of_all(product, soc)}")
    if not best.columns:
        lines.append(f"    {of_memory(product, soc, best)}")
    try:
        lines.append(stage_text(options[0]()).rstrip())
    except CompileError as error:  # what its epilogue reads does not fit beside the tile
        lines.append(f"    {error}")
    return "\n".join(lines)


def tiling_line(one: Tiling) -> str:
    """A tiling in words."""
    parts = "x".join(map(str, (one.share_batch, one.share_images, one.share_m, one.share_n)))
    held = f"holds {one.hold}" if one.hold else "streams"
    band = f", bands of {one.band_m}" if one.band_m != one.tile_m else ""
    strips = f", strips of {one.columns}" if one.columns else ""
    single = "" if one.accumulators == 2 else ", one accumulator"
    return (
        f"share {parts}, tile {one.tile_m}x{one.tile_n}, k {one.chunk_k} by {one.step_k}, {held}{band}"
        f"{strips}{single}: {one.cycles:.1f} cycles"
    )


def _short(one: Tiling, best: Tiling) -> str:
    """What is different of a tiling that comes near."""
    shares = (one.share_batch, one.share_images, one.share_m, one.share_n)
    same = shares == (best.share_batch, best.share_images, best.share_m, best.share_n)
    text = "" if same else "/".join(map(str, shares)) + " "
    text += f"{one.tile_m}x{one.tile_n}x{one.chunk_k}/{one.step_k}{one.hold}"
    return text + (f"|{one.columns}" if one.columns else "")


def of_all(product: Product, soc: SocSpec) -> str:
    """How many tilings fit, and their cycles: what the search tries, whatever it takes in the end."""
    rates = rates_of(soc, product.dtype, product.conv is not None)
    cycles, held, bands = list[float](), Counter[str](), 0
    for tiling, _ in zip(tilings_of(product, rates), range(MOST), strict=False):
        cycles.append(tiling.cycles)
        held[tiling.hold] += 1
        bands += tiling.band_m != tiling.tile_m
    if not cycles:
        return "none but the smallest tiles"
    holding = ", ".join(f"{held[name]} hold {name}" for name in ("a", "b") if held[name])
    average = sum(cycles) / len(cycles)
    text = f"{len(cycles)} of {min(cycles):.1f} to {max(cycles):.1f} cycles, {average:.1f} on average"
    return "; ".join(filter(None, (text, holding, f"{bands} in bands" if bands else "")))


def of_memory(product: Product, soc: SocSpec, one: Tiling) -> str:
    """Bounds by which a search would leave a tiling out, and what it moves where nothing or all is in L2."""
    rates = rates_of(soc, product.dtype, product.conv is not None)
    share = one.share_batch, one.share_images, one.share_m, one.share_n
    tile = one.tile_m, one.tile_n
    tiles = least_of_tiles(product, rates, share, tile, one.accumulators)
    bounds = [
        least_cycles(product, rates, share),
        loading_cycles(product, rates, share, *tile),
        tiles,
        *(least_of_moves(product, rates, share, tile, hold, tiles - rates.latency) for hold in HOLDS),
    ]
    t = traffic_of(product, rates, share, tile, one.chunk_k, one.hold, one.band_m)
    ends = "; ".join(" ".join(f"{number:.6g}" for number in end) for end in (t.far, t.near))
    moved = f"{t.a_tile:.0f} {t.b_tile:.0f} by {t.cores}, {t.writing:.1f} out, {t.in_l2:.4f} of"
    return f"at least {' '.join(f'{bound:.1f}' for bound in bounds)}; moves {moved} {ends}"


def products(chip: str) -> str:
    """A table of matrix products of all kinds on a chip."""
    return _table(item for item in _products() if item[2].name == chip)


def maps(chip: str) -> str:
    """A table of convolutions of all kinds on a chip."""
    return _table(item for item in _maps() if item[2].name == chip)


def special_maps() -> str:
    """A table of convolutions with rules of their own: few colours, strides beyond the filter, long rows."""
    return _table(_special_maps())


def _products() -> Iterator[tuple[str, CubeWork, SocSpec]]:
    random, soc_of = Random(11), chips()
    for _ in range(80):
        soc = next(soc_of)
        plain = random_cubes.matmul(random, soc, random.choice((64, 700, 4000)))
        if random.random() < 0.15 and soc.cube.block_cycles("int8", False):
            plain = in_bytes(plain)
        if random.random() < 0.2:
            plain = replace(plain, b=replace(plain.b, constant=True))
        yield named(random_cubes.with_epilogue(random, plain, soc), soc)


def in_bytes(work: CubeWork) -> CubeWork:
    """The product of bytes into 32 bits."""
    kinds = {"a": DType.INT8, "b": DType.INT8, "out": DType.INT32}
    changed = {
        name: ref(one.region, one.shape, one.format, kind)
        for name, kind in kinds.items()
        if (one := getattr(work, name))
    }
    return replace(work, dtype=DType.INT8, bias=None, **changed)  # type: ignore[arg-type]


def _special_maps() -> Iterator[tuple[str, CubeWork, SocSpec]]:
    soc_of = chips()
    listed = [
        convolution(3, 64, 32, 7, 2, 3),
        convolution(64, 28, 64, 1, images=5),
        convolution(32, 40, 40, 1, 3),
        convolution(256, 14, 96, 3, 1, 1, 2),
        convolution(16, 96, 24, 5, 1, 2),
        convolution(512, 7, 512, 3, 1, 1, 3),
        wide(48, 3, 900, 32, 3),
        wide(16, 1, 5000, 16, 9),
        wide(96, 6, 300, 64, 3),
        wide(200, 2, 700, 16, 5),
    ]
    for work in listed:
        for _ in range(3):
            yield named(work, next(soc_of))
        next(soc_of)


def _maps() -> Iterator[tuple[str, CubeWork, SocSpec]]:
    random, soc_of = Random(12), chips()
    for _ in range(50):
        soc = next(soc_of)
        plain = random_cubes.convolution(random, 200)
        if random.random() < 0.2:
            channels = plain.n * plain.batch
            shape = (plain.out.shape[0], channels, *plain.out.shape[2:])
            plain = replace(plain, out=ref("c", shape, Format.NCHW))
        yield named(random_cubes.with_epilogue(random, plain, soc), soc)


def wide(channels: int, height: int, width: int, outputs: int, kernel: int) -> CubeWork:
    """A convolution over maps of few long rows."""
    high = min(height, kernel)
    geometry = ConvGeometry(
        2, channels, height, width, high, kernel, 1, 1, 1, 1, (high // 2, kernel // 2) * 2,
        height + 2 * (high // 2) - high + 1, width + 2 * (kernel // 2) - kernel + 1,
    )  # fmt: skip
    size = (geometry.out_h, geometry.out_w)
    return CubeWork(
        m=2 * size[0] * size[1],
        k=high * kernel * channels,
        n=outputs,
        a=ref("x", (2, channels, height, width), Format.NC1HWC0),
        b=ref("w", (outputs, channels, high, kernel), Format.FRACTAL_Z),
        out=ref("y", (2, outputs, *size), Format.NC1HWC0),
        conv=geometry,
        bias=ref("bias", (outputs,)),
    )


def named(work: CubeWork, soc: SocSpec) -> tuple[str, CubeWork, SocSpec]:
    """The work with a name that says all that the search knows of it."""
    conv = work.conv
    if conv is None:
        size = f"{work.m}x{work.k}x{work.n}"
        turned = "a" * work.transpose_a + "b" * work.transpose_b
        shared = "a" * work.a_shared + "b" * work.b_shared
        more = [turned and f"{turned} turned", shared and f"{shared} shared"]
    else:
        size = f"{conv.batch}x{conv.channels}x{conv.height}x{conv.width}"
        size += f" by {work.n}x{conv.kernel_h}x{conv.kernel_w}"
        more = [
            f"stride {conv.stride_h}" * (conv.stride_h > 1),
            f"dilation {conv.dilation_h}" * (conv.dilation_h > 1),
            f"pads {'/'.join(map(str, conv.pads))}" * any(conv.pads),
            "result in rows" * (work.out.format is Format.NCHW),
        ]
    more += [
        f"{work.batch} of them" * (work.batch > 1),
        work.dtype.value * (work.dtype is not DType.FLOAT16),
        "weights" * work.b.constant,
        "bias" * (work.bias is not None),
        "+".join(step.op for step in work.epilogue),
        f"reads {'+'.join(one.over for one in work.epilogue_inputs)}" * bool(work.epilogue_inputs),
        "stores a value on the way" * bool(work.side_outputs),
        "sums" * bool(work.sums),
    ]
    return ", ".join([size, *filter(None, more)]), work, soc


def chip_name(soc: SocSpec) -> str:
    """With what is not as the chip has it."""
    plain = load(soc.name)
    changed = [
        f"{name} {getattr(soc.buffers, name) >> 10} KiB"
        for name in ("l1", "l0a")
        if getattr(soc.buffers, name) != getattr(plain.buffers, name)
    ]
    return " with ".join([soc.name, *([", ".join(changed)] if changed else [])])


def _table(works: Iterable[tuple[str, CubeWork, SocSpec]]) -> str:
    """What is chosen for each work."""
    rows = []
    for name, work, soc in works:
        try:
            found = chosen(work, soc)
        except CompileError as error:
            found = f"    {error}"
        rows.append(f"{chip_name(soc)}: {name}\n{found}\n")
    return "".join(rows)
