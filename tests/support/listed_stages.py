"""Small works of the templates that make whole stages: teams of cube and vector cores, gradients of filters,
strips of maps, sequences, searches; their programs are golden files (`tests/golden/lower`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format
from ascendsim.graph.ir import Graph
from ascendsim.lower.engine import work_of
from ascendsim.lower.program import Lowering
from ascendsim.lower.templates.cube import cube_stage, product_of
from ascendsim.lower.templates.filter_grad import filter_stage
from ascendsim.lower.templates.filter_tiling import FilterTiling
from ascendsim.lower.templates.finished import lower_finished
from ascendsim.lower.templates.stage import Stage
from ascendsim.lower.templates.steps import Expansion
from ascendsim.lower.templates.tiling import Tiling
from ascendsim.ops import default_opset
from ascendsim.opset.work import (
    Copy,
    FinishedProduct,
    LowerContext,
    Maps,
    MoveWork,
    RawImage,
    SequenceWork,
    Step,
    Stream,
    VectorWork,
    Work,
    WorkChoice,
)
from ascendsim.soc import SocSpec, load
from tests.support.filter_work import filter_work
from tests.support.lowering import convolution, matmul, ref

HALF, FULL, INT8, INT32 = DType.FLOAT16, DType.FLOAT32, DType.INT8, DType.INT32
WHOLE = 1 << 30  # a burst that never ends


def cores(chip: str, count: int) -> SocSpec:
    """A chip with so many AI Cores."""
    own = load(chip)
    each = own.vector_cores // own.ai_cores if own.split_cores else 0
    return load(chip, {"ai_cores": count} | ({"vector_cores": count * each} if each else {}))


def asked(graph: Graph, soc: SocSpec) -> Work:
    """What the operator of a graph's last node asks of the chip; of several ways the first."""
    work = work_of(graph.nodes[-1], default_opset(), LowerContext.of(soc))
    return work.ways[0] if isinstance(work, WorkChoice) else work


def lowered(graph: Graph, soc: SocSpec) -> list[Stage]:
    return Lowering(soc).stages(asked(graph, soc))


def attention() -> list[Stage]:
    """Three heads of 40 queries that share 1100 keys, of which the last query sees all and the first one 39
    less: a block of 1024 keys, and one of 76 with a mask, whose sums are joined to those before."""
    b = asim.GraphBuilder()
    q = b.input("q", (1, 3, 40, 80), DType.BFLOAT16)
    k, v = (b.input(name, (1, 1, 1100, 80), DType.BFLOAT16) for name in "kv")
    mask = b.input("mask", (2048, 2048), DType.BOOL)
    numbers = {"scale_value": 0.1, "head_num": 3, "input_layout": "BNSD", "sparse_mode": 3}
    given = (q, k, v, None, None, None, mask)
    made = b.ops("FlashAttentionScore", *given, outputs=4, domain="ascend", **numbers)
    for place in (0, 1, 3):
        b.output(made[place], f"y{place}")
    return lowered(b.build(), cores("Ascend910B1", 1))


def attention_of_floats() -> list[Stage]:
    """A head of 200 queries in float32: sums come in pieces of fewer rows than scores."""
    b = asim.GraphBuilder()
    q, k, v = (b.input(name, (1, 1, size, 80), FULL) for name, size in (("q", 200), ("k", 90), ("v", 90)))
    numbers = {"scale_value": 0.1, "head_num": 1, "input_layout": "BNSD"}
    made = b.ops("FlashAttentionScore", q, k, v, outputs=4, domain="ascend", **numbers)
    for place in (0, 1, 3):
        b.output(made[place], f"y{place}")
    return lowered(b.build(), cores("Ascend910B1", 1))


def attention_gradient() -> list[Stage]:
    """Sums of gradients are cleared first and converted last, by all vector cores; a mask of dropout in
    bits."""
    b = asim.GraphBuilder()
    q, dy, out = (b.input(name, (1, 1, 70, 40), HALF) for name in ("q", "dy", "out"))
    k, v = (b.input(name, (1, 1, 200, 40), HALF) for name in "kv")
    rows = [b.input(name, (1, 1, 70, 8), FULL) for name in ("maxima", "sums")]
    drop = b.input("drop", (70 * 200 // 8,), DType.UINT8)
    numbers = {"scale_value": 0.1, "head_num": 1, "input_layout": "BNSD", "keep_prob": 0.9}
    given = (q, k, v, dy, None, drop, None, None, *rows, None, out)
    made = b.ops("FlashAttentionScoreGrad", *given, outputs=4, domain="ascend", **numbers)
    for place in range(3):
        b.output(made[place], f"y{place}")
    return lowered(b.build(), cores("Ascend910B1", 1))


def decoding() -> list[Stage]:
    """One query, four heads to a key, of which a part lies in tensors of its own (rotated positions); 610 of
    700 keys are there."""
    b = asim.GraphBuilder()
    q = b.input("q", (1, 4, 1, 64), HALF)
    k, v = (b.input(name, (1, 1, 700, 64), HALF) for name in "kv")
    given = [q, k, v, *[None] * 23]
    given[6] = b.constant(np.array([610], np.int64))
    given[24], given[25] = b.input("qr", (1, 4, 1, 16), HALF), b.input("kr", (1, 1, 700, 16), HALF)
    numbers = {"num_heads": 4, "num_key_value_heads": 1, "input_layout": "BNSD", "scale": 0.1}
    made = b.ops("FusedInferAttentionScore", *given, outputs=2, domain="ascend", **numbers)
    b.output(made[0], "y")
    return lowered(b.build(), cores("Ascend910B1", 1))


def weights_of_four_bits() -> list[Stage]:
    """Weights of 4 bits with scales of groups of 128, stored column by column, which vector cores make beside
    the product."""
    b = asim.GraphBuilder()
    x, s = b.input("x", (5, 640), HALF), b.constant(np.ones((96, 5), np.float16), "s")
    w = b.weight("w", (96, 80), dtype=INT32)
    more = {"antiquant_group_size": 128, "transpose_weight": 1}
    b.output(b.op("WeightQuantBatchMatmulV2", x, w, s, domain="ascend", **more), "y")
    return lowered(b.build(), cores("Ascend910B1", 2))


def weights_of_eight_bits() -> list[Stage]:
    """Weights of 8 bits in rows of k, a scale and an offset a column; two widths of shares."""
    b = asim.GraphBuilder()
    x, w = b.input("x", (40, 200), HALF), b.weight("w", (200, 624), dtype=INT8)
    s, o = (b.constant(np.ones(624, np.float16), name) for name in ("s", "o"))
    b.output(b.op("WeightQuantBatchMatmulV2", x, w, s, o, domain="ascend"), "y")
    return lowered(b.build(), cores("Ascend910B1", 3))


def _finished(batch: int, m: int, k: int, n: int, soc: SocSpec) -> FinishedProduct:
    b = asim.GraphBuilder()
    stack = (batch,) if batch > 1 else ()
    x, w = b.input("x", (*stack, m, k), INT8), b.weight("w", (*stack, k, n), dtype=INT8)
    scale, rows = b.constant(np.ones(n, np.float32), "s"), b.input("t", (m,), FULL)
    b.output(b.op("QuantBatchMatmulV3", x, w, scale, None, None, rows, domain="ascend", dtype=HALF), "y")
    work = asked(b.build(), soc)
    assert isinstance(work, FinishedProduct)
    return work


def finished_by_columns() -> list[Stage]:
    """A is held: vector cores finish tiles of 48 rows, columns inside."""
    soc = cores("Ascend910B1", 1)
    tiling = Tiling(1, 1, 80, 100, 48, 64, 4, 2, "a", 2, 0.0, 48)
    return [lower_finished(_finished(1, 80, 128, 100, soc), tiling, soc, Expansion(soc))]


def finished_by_rows() -> list[Stage]:
    """Two products whose operands stream: rows inside, the last tile has one."""
    soc = cores("Ascend910B1", 1)
    tiling = Tiling(2, 1, 33, 72, 32, 32, 2, 1, "", 1, 0.0, 32)
    return [lower_finished(_finished(2, 33, 64, 72, soc), tiling, soc, Expansion(soc))]


def gradient_of_a_filter() -> list[Stage]:
    """3 x 3 with padding, two images a core: runs of three output rows, tiles of rows and of columns."""
    soc, work = load("Ascend310P3"), filter_work(3, 40, 10, 40, 3, 1, 1, 1)
    tiling = FilterTiling(1, 2, 100, 40, 27, 32, 9, 30, 1, 2, 0.0)
    return [filter_stage(work, tiling, soc, Expansion(soc))]


def gradient_of_a_matrix() -> list[Stage]:
    """1 x 1 on a split chip, in groups; cores have parts of the positions, whose results are added up."""
    soc, work = load("Ascend910B1"), filter_work(1, 48, 14, 32, 1, 1, 0, 2)
    tiling = FilterTiling(2, 1, 112, 32, 3, 32, 2, 64, 2, 1, 0.0)
    return [filter_stage(work, tiling, soc, Expansion(soc))]


def gradient_of_many_images() -> list[Stage]:
    """All positions of an image at once, so that those of the next one run ahead; every second row."""
    soc, work = load("Ascend910A"), filter_work(5, 16, 9, 20, 3, 2, 1, 1)
    tiling = FilterTiling(1, 5, 25, 20, 9, 32, 9, 25, 2, 2, 0.0)
    return [filter_stage(work, tiling, soc, Expansion(soc))]


def strips() -> list[Stage]:
    """Columns of a wide map in strips of 48, the last one narrower: tiles of whole strip rows, B is held."""
    soc, work = load("Ascend310"), convolution(32, 100, 40, 3, pad=1)
    tiling = Tiling(1, 2, 2400, 40, 144, 48, 18, 6, "b", 2, 0.0, 288, columns=48)
    stage = cube_stage(work, product_of(work, soc), replace(tiling, share_m=4800), soc, Expansion(soc))
    return [stage]


def strips_of_images() -> list[Stage]:
    """Images that AIPP converts on their way into L1, 68 pixels of rows of 80: strips of 16 columns, the last
    one of two."""
    soc, plain = load("Ascend310"), convolution(3, 68, 16, 3, stride=2, images=2)
    image = RawImage(row_bytes=240, used_bytes=204, first_byte=36, image_bytes=70 * 240)
    work = replace(plain, a=ref("x", (2, 70, 80, 3), dtype=DType.UINT8), image=image)
    tiling = Tiling(1, 3, 33 * 16, 16, 176, 16, 9, 3, "", 2, 0.0, 176, columns=16)
    return [cube_stage(work, product_of(work, soc), tiling, soc, Expansion(soc))]


def strips_by_taps() -> list[Stage]:
    """A kernel row of 4 taps, of which two come into L1 at a time; columns that no tap needs stay out."""
    soc, work = load("Ascend910A"), convolution(16, 64, 16, 4, stride=3)
    tiling = Tiling(1, 1, 336, 16, 32, 16, 2, 2, "", 2, 0.0, 32, columns=16)
    return [cube_stage(work, product_of(work, soc), tiling, soc, Expansion(soc))]


def _parts(soc: SocSpec) -> tuple[Work, ...]:
    product = matmul(40, 64, 256, soc)
    c, y = Stream(product.out), Stream(replace(product.out, region="y"))
    return product, VectorWork(1, 40 * 256, (Step("vadds"), Step("vrelu")), (c,), (y,))


def repeated() -> list[Stage]:
    """A product and vector work on its result, three times: all pipes wait at the end of a part."""
    soc = cores("Ascend310P3", 2)
    return Lowering(soc).stages(SequenceWork(_parts(soc), 3))  # type: ignore[arg-type]


def repeated_apart() -> list[Stage]:
    """The same on cores of two kinds, which wait for one another after each part."""
    soc = cores("Ascend910B1", 2)
    return Lowering(soc).stages(SequenceWork(_parts(soc), 3))  # type: ignore[arg-type]


def in_turn_apart() -> list[Stage]:
    """Once on cores of two kinds: a task each; two parts on vector cores are one."""
    soc = cores("Ascend910B1", 2)
    product, vector = _parts(soc)
    return Lowering(soc).stages(SequenceWork((product, vector, vector), 1))  # type: ignore[arg-type]


def teams_in_turn() -> list[Stage]:
    """Two products that vector cores finish, one of more columns than the other: a team goes on by itself."""
    soc = cores("Ascend910B1", 2)
    parts = (_finished(1, 32, 64, 48, soc), _finished(1, 32, 64, 16, soc))
    return Lowering(soc).stages(SequenceWork(parts, 1))


def places_of_rows() -> list[Stage]:
    """The largest of each of 20 rows, which come in pieces."""
    soc = cores("Ascend910B1", 2)
    b = asim.GraphBuilder()
    b.output(b.op("ArgMax", b.input("x", (20, 30_000), FULL), axis=1, keepdims=0), "y")
    return lowered(b.build(), soc)


def places_of_columns() -> list[Stage]:
    """The largest of each column: a row is compared with the best so far."""
    soc = cores("Ascend910B1", 2)
    b = asim.GraphBuilder()
    b.output(b.op("ArgMax", b.input("x", (3, 20, 130), FULL), axis=1, keepdims=0), "y")
    return lowered(b.build(), soc)


def maps_of_images() -> list[Stage]:
    """A factor a channel times a map, by images: as many planes at a time as UB holds."""
    soc = cores("Ascend910B", 2)
    x, y = (Stream(ref(name, (3, 48, 30, 30), Format.NC1HWC0)) for name in "xy")
    steps = (Step("vconv", FULL), Step("vmul", FULL), Step("vconv", HALF))
    factor = Stream(ref("f", (48,), dtype=FULL), "col")
    work = VectorWork(2700, 48, steps, (x, factor), (y,), maps=Maps(3, 3, "images"))
    return Lowering(soc).stages(work)


def sums_of_maps() -> list[Stage]:
    """Sums a channel, by channel blocks: an even part of a plane at a time."""
    soc = cores("Ascend910B", 2)
    x, y = Stream(ref("x", (2, 48, 100, 100), Format.NC1HWC0)), Stream(ref("y", (48,), dtype=FULL), "col")
    steps = (Step("vconv", FULL), Step("vadd", FULL))
    work = VectorWork(20_000, 48, steps, (x,), (y,), "rows", maps=Maps(2, 3, "sums"))
    return Lowering(soc).stages(work)


def moved_in_turn() -> list[Stage]:
    """A slice whose kernel starts all cores and has one buffer."""
    soc = cores("Ascend910B1", 2)
    x, y = ref("x", (3000,)), ref("y", (2000,))
    return Lowering(soc).stages(MoveWork((Copy(x, y, 4000, 96, WHOLE),), in_turn=True))


def moved_by_elements() -> list[Stage]:
    """Pieces of 96 bytes whose addresses are worked out, by three cores whose kernel is for open shapes; what
    is between them is turned by instructions of 128 elements."""
    soc = cores("Ascend910B1", 2)
    x, y, i = ref("x", (9000,)), ref("y", (9000,)), ref("i", (700,), dtype=INT32)
    steps = (Step("vnchwconv", run=128),)
    copy = Copy(x, y, 18_000, 96, 640)
    return Lowering(soc).stages(MoveWork((copy,), steps, 3, (i,), own_tiling=True, pieces=3))


def moved_one_by_one() -> list[Stage]:
    """Every element by instructions of its own."""
    soc = cores("Ascend910A", 2)
    return Lowering(soc).stages(
        MoveWork((Copy(ref("x", (500,)), ref("y", (300,)), 600, 2, 2),), one_by_one=True)
    )


CASES: Sequence[Callable[[], list[Stage]]] = (
    attention,
    attention_of_floats,
    attention_gradient,
    decoding,
    weights_of_four_bits,
    weights_of_eight_bits,
    finished_by_columns,
    finished_by_rows,
    gradient_of_a_filter,
    gradient_of_a_matrix,
    gradient_of_many_images,
    strips,
    strips_of_images,
    strips_by_taps,
    repeated,
    repeated_apart,
    in_turn_apart,
    teams_in_turn,
    places_of_rows,
    places_of_columns,
    maps_of_images,
    sums_of_maps,
    moved_in_turn,
    moved_by_elements,
    moved_one_by_one,
)
