"""Random Cube work: matmuls and convolutions with all that may hang on them, with tilings of every kind, on
chips with one core."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import TypeVar

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import CompileError
from ascendsim.core.formats import Format, align
from ascendsim.isa.program import Block
from ascendsim.lower.templates.cube import cube_stage, product_of
from ascendsim.lower.templates.product import Product, rates_of
from ascendsim.lower.templates.steps import Expansion
from ascendsim.lower.templates.tiling import Tiling, as_strips, candidates
from ascendsim.lower.templates.width_tiles import strip_views
from ascendsim.opset.work import ColumnSum, ConvGeometry, CubeWork, SideOutput, Step, Stream
from ascendsim.soc import SocSpec, load
from tests.support.lowering import ref

T = TypeVar("T")

CHIPS = ("Ascend310", "Ascend310P3", "Ascend910A", "Ascend910B1")
FULL, NARROW = DType.FLOAT32, DType.FLOAT16


@dataclass(frozen=True)
class CubeProgram:
    """Work, one of its tilings, and the program of the one core of a chip, whose share is everything."""

    soc: SocSpec
    work: CubeWork
    tiling: Tiling
    block: Block
    sizes: dict[str, int]

    @property
    def product(self) -> Product:
        return product_of(self.work, self.soc)

    def __str__(self) -> str:
        work = replace(self.work, epilogue_inputs=(), sums=(), side_outputs=())
        return f"{self.soc.name}: {work}, {self.tiling}"


@cache
def cube_programs(count: int = 80) -> tuple[CubeProgram, ...]:
    """Programs of random work; always the same."""
    random, found = Random(1), list[CubeProgram]()
    while len(found) < count:
        chip = CHIPS[len(found) % len(CHIPS)]
        soc = load(chip, {"ai_cores": 1} | ({"vector_cores": 1} if load(chip).split_cores else {}))
        plain = matmul(random, soc) if random.random() < 0.5 else convolution(random)
        work = with_epilogue(random, plain, soc)
        tiling = random.choice(list(candidates(product_of(work, soc), rates_of(soc, work.dtype.value), 1)))
        try:
            stage = cube_stage(work, product_of(work, soc), tiling, soc, Expansion(soc))
        except CompileError as error:
            if "UB" not in str(error):  # the operands of the epilogue do not fit beside so large a tile
                raise
            continue
        (group,) = stage.groups
        found.append(CubeProgram(soc, work, tiling, group.block, dict(stage.sizes)))
    return tuple(found)


@cache
def strip_programs(count: int = 60) -> tuple[CubeProgram, ...]:
    """Programs of random convolutions in tile form; always the same. Half of the chips have a small L1, so
    that kernel rows come in parts."""
    random, found = Random(4), list[CubeProgram]()
    while len(found) < count:
        chip = CHIPS[len(found) % len(CHIPS)]
        few = {"ai_cores": 1, "buffers.l1": random.choice((24 << 10, 1 << 20))}
        soc = load(chip, few | ({"vector_cores": 1} if load(chip).split_cores else {}))
        plain = convolution(random, 40)
        if random.random() < 0.3:  # a result that is stored row by row
            channels, row_major = plain.n * plain.batch, random.choice((NARROW, FULL))
            shape = (plain.out.shape[0], channels, *plain.out.shape[2:])
            plain = replace(plain, out=ref("c", shape, Format.NCHW, row_major))
        work = with_epilogue(random, plain, soc)
        product, rates = product_of(work, soc), rates_of(soc, work.dtype.value)
        every = [
            as_strips(view, tiling, rates)
            for view in strip_views(product, rates)
            for tiling in candidates(view, rates, 1)
        ]
        if not every:  # a matrix already
            continue
        tiling = random.choice(every)
        try:
            stage = cube_stage(work, product, tiling, soc, Expansion(soc))
        except CompileError as error:
            if "UB" not in str(error):
                raise
            continue
        (group,) = stage.groups
        found.append(CubeProgram(soc, work, tiling, group.block, dict(stage.sizes)))
    return tuple(found)


def matmul(random: Random, soc: SocSpec, most: int = 400) -> CubeWork:
    """A matmul: batched or not, of operands that lie either way, with bias or not."""
    m, k, n = (random.choice((random.randint(1, 40), random.randint(1, most))) for _ in "mkn")
    batch = random.choice((1, 1, 2, 3))
    transpose_a, transpose_b = flip(random), flip(random)
    shared = random.choice(("", "a", "b")) if batch > 1 else ""
    format = Format.ND if soc.split_cores else Format.FRACTAL_NZ
    shapes = {"a": (k, m) if transpose_a else (m, k), "b": (n, k) if transpose_b else (k, n), "c": (m, n)}
    a, b, c = (
        ref(name, (batch, *shape) if batch > 1 and name != shared else shape, format)
        for name, shape in shapes.items()
    )
    columns = n if batch == 1 or shared == "b" else n * batch
    bias = ref("bias", (columns,), dtype=random.choice((NARROW, FULL))) if flip(random) else None
    turned = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    return CubeWork(
        m, k, n, a, b, c, batch=batch, bias=bias, a_shared=shared == "a", b_shared=shared == "b", **turned
    )


def convolution(random: Random, most: int = 100) -> CubeWork:
    """A convolution, maybe of several groups, over maps that need not be square."""
    kernels = random.choice(((1, 1), (random.randint(1, 5), random.randint(1, 5))))
    stride, dilation = random.randint(1, 3), random.choice((1, 1, 2))
    spans = [(kernel - 1) * dilation + 1 for kernel in kernels]
    up, left = (random.randint(0, (span - 1) // 2) for span in spans)
    height, width = (random.randint(max(span, 2), 40) for span in spans)
    channels, outputs, images = random.randint(1, most), random.randint(1, most), random.randint(1, 2)
    groups = random.choice((1, 1, 1, 3))
    outputs = outputs if groups == 1 else align(outputs, 16)  # so that groups begin at whole blocks
    out_h, out_w = (height + 2 * up - spans[0]) // stride + 1, (width + 2 * left - spans[1]) // stride + 1
    padded = align(channels, 16)
    pads = (up, left, up, left)
    geometry = ConvGeometry(
        images, channels, height, width, *kernels, stride, stride, dilation, dilation, pads, out_h, out_w
    )
    weights = ref("b", (outputs, padded, *kernels), Format.FRACTAL_Z)
    return CubeWork(
        m=images * out_h * out_w,
        k=kernels[0] * kernels[1] * channels,
        n=outputs,
        a=ref("a", (images, padded * groups, height, width), Format.NC1HWC0),
        b=replace(weights, bytes=weights.bytes * groups),
        out=ref("c", (images, align(outputs, 16) * groups, out_h, out_w), Format.NC1HWC0),
        batch=groups,
        conv=geometry,
        bias=ref("bias", (outputs * groups,)) if flip(random) else None,
    )


def with_epilogue(random: Random, work: CubeWork, soc: SocSpec) -> CubeWork:
    """The work with steps on its way out: operands of every kind, values that are stored on the way, sums
    over the rows."""
    if soc.split_cores or work.batch > 1:
        return replace(work, epilogue=(Step("vrelu"),)) if flip(random) else work
    every = (Step("vadd"), Step("vmul"), Step("vrelu"), Step("vexp", FULL))
    steps = tuple(some(random, every, random.randint(0, 4)))
    rows = work.m if work.conv is None else work.m // work.conv.batch
    kinds = {
        "all": replace(work.out, region="e_all"),
        "col": ref("e_col", (work.n,)),
        "one": ref("e_one", (1,)),
        "row": ref("e_row", (rows,)),
    }
    overs = random.sample(sorted(kinds), random.randint(0, 2)) if steps else []
    inputs = tuple(Stream(kinds[over], over) for over in overs)  # type: ignore[arg-type]
    after = random.randint(0, len(steps))
    sides = (
        (SideOutput(replace(work.out, region="side"), after),) if after < len(steps) and flip(random) else ()
    )
    total = ref("total", (work.n,), dtype=FULL)
    sums = (ColumnSum(total, (Step("vconv", FULL),), Step("vadd", FULL)),) if flip(random) else ()
    values = random.randint(1, 2)
    return replace(
        work, epilogue=steps, epilogue_inputs=inputs, side_outputs=sides, sums=sums, epilogue_values=values
    )


def flip(random: Random) -> bool:
    """True or false."""
    return random.random() < 0.5


def some(random: Random, of: Sequence[T], count: int) -> list[T]:
    """So many of some things, each as often as it comes."""
    return [random.choice(of) for _ in range(count)]
