"""How vector, movement and other work is shared among the cores of whole chips and cut into tiles, as text:
the blocks of a stage with their buffers and what their pipes are given to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import cycle
from random import Random

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import CompileError
from ascendsim.core.formats import Format
from ascendsim.isa.instructions import Img2Col, Loop, Mmad, Move, Scalar, SetFlag, Statement, Vector, WaitFlag
from ascendsim.isa.notes import without_notes
from ascendsim.isa.program import Block
from ascendsim.lower.templates.cube_pair import _band_heights, pair_options
from ascendsim.lower.templates.filter_grad import filter_stage
from ascendsim.lower.templates.filter_tiling import FilterProduct, FilterTiling, candidates, sharing_of_images
from ascendsim.lower.templates.movement import lower_movement, lower_scalar
from ascendsim.lower.templates.product import rates_of
from ascendsim.lower.templates.stage import Stage
from ascendsim.lower.templates.steps import Expansion
from ascendsim.lower.templates.vector import lower_vector
from ascendsim.opset.work import (
    Copy,
    CubePair,
    Maps,
    MoveWork,
    RowWindows,
    ScalarWork,
    Search,
    Step,
    Stream,
    VectorWork,
)
from ascendsim.soc import load
from tests.support import random_vectors
from tests.support.filter_work import filter_work
from tests.support.lowering import convolution, ref, statements
from tests.support.work_text import describe

CHIPS = (
    "Ascend310",
    "Ascend310P3",
    "Ascend910A",
    "Ascend910B1",
    "Ascend910B",
    "Ascend610Lite",
    "Ascend910B4",
)
HALF, FULL = DType.FLOAT16, DType.FLOAT32
WHOLE = 1 << 30  # a burst that never ends


def stage_text(stage: Stage) -> str:
    """Groups of equal blocks, one a line; of blocks with notes, how many instructions lack them."""
    lines = []
    for group in stage.groups:
        silent = len(list(without_notes(group.block.body))) if group.origins else 0
        note = f", {silent} silent" * bool(silent)
        lines.append(f"    {group.count} x {block_text(group.block)}{note}\n")
    return "".join(lines)


def block_text(block: Block) -> str:
    """Slots of each buffer, then the instructions of each pipe and how much they do (`_amount`)."""
    slots = [
        f"{one.name} {one.slots}x{one.slot_bytes}" if one.slots > 1 else f"{one.name} {one.slot_bytes}"
        for one in block.allocations
    ]
    count, much = Counter[str](), Counter[str]()
    for item, times in statements(block.body):
        if not isinstance(item, Loop | SetFlag | WaitFlag):
            count[item.pipe.value] += times
            much[item.pipe.value] += times * _amount(item)
    pipes = [f"{pipe} {count[pipe]}" + f"/{much[pipe]}" * bool(much[pipe]) for pipe in sorted(count)]
    return f"[{', '.join(slots)}] {', '.join(pipes)}"


def _amount(item: Statement) -> int:
    """Bytes of a transfer, elements of vector instructions, products of the Cube, cycles of scalars."""
    match item:
        case Move() | Img2Col():
            return item.bytes
        case Vector():
            return item.elements * item.calls
        case Mmad():
            return item.m * item.k * item.n
        case Scalar():
            return item.cycles
    return 0


def vector_works() -> Iterator[VectorWork]:
    """Drawn at random, with what kernels are told to do besides."""
    random = Random(21)
    for number in range(80):
        work = random_vectors.planes(random) if number % 8 == 7 else random_vectors.vector_work(random)
        if not work.planes:
            work = replace(
                work,
                cores=random.choice(("worthwhile", "worthwhile", "worthwhile", "shares", "all")),
                in_turn=random.random() < 0.25,
                own_tiling=random.random() < 0.25,
                overlaps=random.random() < 0.85,
                live_bytes=random.choice((0, 0, 0, 6, 12)),
                long_code=random.random() < 0.1,
            )
        yield work
    for split, images, blocks, size in (
        ("images", 5, 3, 14), ("images", 1, 40, 7), ("images or blocks", 4, 50, 28), ("sums", 3, 40, 14),
        ("images or blocks", 64, 4, 56), ("sums", 50, 4, 112), ("sums", 20, 5, 60), ("sums", 9, 2, 30),
        ("images", 40, 2, 90), ("images", 3, 7, 128), ("images or blocks", 2, 30, 100),
    ):  # fmt: skip
        x, y = (ref(name, (images, blocks * 16, size, size), Format.NC1HWC0) for name in "xy")
        rows, columns = images * size * size, blocks * 16
        maps = Maps(images, blocks, split)  # type: ignore[arg-type]
        if split == "sums":
            total = Stream(ref("t", (columns,), dtype=FULL), "col")
            steps = (Step("vconv", FULL), Step("vadd", FULL))
            yield VectorWork(rows, columns, steps, (Stream(x),), (total,), "rows", maps=maps)
            continue
        scale = Stream(ref("c", (columns,), dtype=FULL), "col")
        scaled = (Step("vrsqrt", FULL, "col"), Step("vmul"))[size % 4 == 0 :]
        yield VectorWork(rows, columns, scaled, (Stream(x), scale), (Stream(y),), maps=maps)
    for rows, columns in ((500, 768), (96, 12_000), (7, 200_000), (4000, 40)):  # rows that are normalised
        x, y = ref("x", (rows, columns)), ref("y", (rows, columns))
        scale, mean = Stream(ref("c", (columns,)), "col"), Stream(ref("t", (rows,), dtype=FULL), "row")
        folds = (Step("vcadd", FULL), Step("vsub", FULL), Step("vcmax", FULL), Step("vadds"), Step("vmul"))
        for outputs in ((Stream(y),), (Stream(y), mean)):
            for in_turn in (False, True):
                yield VectorWork(
                    rows, columns, folds, (Stream(x), scale), outputs, "cols", 3, in_turn=in_turn
                )
    for rows, columns in ((3, 100_000), (1, 400_000), (9, 60_000), (2, 700), (40, 9000)):  # few long rows
        x, y = ref("x", (rows, columns)), ref("y", (rows, columns))
        total = Stream(ref("t", (rows,), dtype=FULL), "row")
        for sweeps, outputs in ((1, (total,)), (3, (total,)), (1, (Stream(y), total)), (3, (Stream(y),))):
            yield VectorWork(
                rows,
                columns,
                (Step("vmuls"), Step("vcadd", FULL)),
                (Stream(x),),
                outputs,
                "cols",
                sweeps,
                in_turn=True,
            )
    for kind in (DType.INT32, DType.INT16, DType.INT8, DType.BFLOAT16, DType.UINT8):
        for op in ("vcadd", "vcmax", "vcmin"):
            x, y = ref("x", (60, 900), dtype=kind), ref("y", (60,), dtype=kind)
            yield VectorWork(60, 900, (Step(op, kind),), (Stream(x),), (Stream(y, "row"),), "cols")
    for channels, size in ((2064, 20), (4096, 7), (640, 60)):  # blocks of several widths
        x, y = (
            ref(name, (1, channels, size, size), Format.NC1HWC0, kind)
            for name, kind in (("x", DType.INT8), ("y", HALF))
        )
        rows = size * size
        yield VectorWork(rows, channels, (Step("vconv"), Step("vmuls")), (Stream(x),), (Stream(y),))
        yield VectorWork(rows, channels, (Step("vmuls"), Step("vconv")), (Stream(y),), (Stream(x),))
    for planes, high, kernel, stride, pad in ((12, 30, 3, 2, 1), (300, 14, 2, 2, 0), (3, 200, 5, 1, 2)):
        out = (high + 2 * pad - kernel) // stride + 1
        image, pooled = Stream(ref("x", (planes, high, high))), Stream(ref("y", (planes, out, out)))
        steps = (Step("vmax", run=out, count=kernel * kernel - 1), Step("vmuls"))
        windows = RowWindows(high, out, kernel, stride, pad)
        bytes = kernel * high * 2
        yield VectorWork(planes * out, out, steps, (image,), (pooled,), gather_bytes=bytes, windows=windows)
    for rows, columns in ((70_000, 3), (3, 70_000), (1, 1_000_000), (12_000, 768), (333, 1000)):
        whole, made = Stream(ref("x", (rows, columns))), Stream(ref("y", (rows, columns)))
        for run in (0, columns):
            steps = (Step("vadds"), Step("vmuls", count=3, run=run))
            yield VectorWork(rows, columns, steps, (whole,), (made,), pads_rows=rows > 1000)
    for outer, length, inner in ((40, 1000, 1), (3, 30_000, 1), (50, 20, 40), (2, 300, 900)):
        given = Stream(ref("x", (outer, length, inner)))
        places = ref("y", (outer, inner), dtype=DType.INT32)
        search = Search(outer, length, inner, 8192)
        steps = (Step("vmax", FULL), Step("vcmpv_eq", FULL, indexed=True))
        if inner == 1:
            row = Stream(places, "row")
            yield VectorWork(outer, length, steps, (given,), (row,), "cols", search=search)
        else:
            column = Stream(places, "col")
            yield VectorWork(outer * length, inner, steps, (given,), (column,), "rows", search=search)


def move_works() -> Iterator[MoveWork | ScalarWork]:
    """Drawn at random: copies of whole tensors and in bursts, turned, widened, by indices."""
    random = Random(22)
    for _ in range(70):
        copies = []
        for part in range(random.choice((1, 1, 1, 2, 3))):
            size = random.choice((random.randint(1, 3000), random.randint(3000, 3_000_000)))
            read, write = (
                random.choice((WHOLE, random.randint(2, 4000), 32 * random.randint(1, 200))) for _ in range(2)
            )
            kind = random.choice((HALF, HALF, FULL, DType.INT8))
            x, y = ref(f"x{part}", (size,), dtype=kind), ref(f"y{part}", (size,), dtype=kind)
            copies.append(Copy(x, y, 0 if part and random.random() < 0.3 else x.bytes, read, write, y.bytes))
        steps = random.choice(
            (
                (),
                (),
                (Step("vnchwconv"),),
                (Step("vnchwconv", run=128), Step("vconv", FULL)),
                (Step("vgather"),),
            )
        )
        yield MoveWork(
            tuple(copies),
            steps,
            random.choice((0, 0, 3)),
            random.choice(((), (ref("i", (random.randint(1, 30_000),), dtype=DType.INT32),))),
            in_turn=random.random() < 0.2,
            one_buffer=random.random() < 0.2,
            own_tiling=random.random() < 0.3,
            code_at_hand=random.random() < 0.3,
            pieces=random.choice((0, 0, 0, 5, 64)),
            most_cores=random.choice((0, 0, 7)),
        )
    for total, part in ((500, 300), (9000, 9000), (40_000, 70), (70, 70)):  # element by element
        x, y = ref("x", (total,)), ref("y", (part,))
        yield MoveWork((Copy(x, y, 2 * part, 2, 2),), one_by_one=True)
    for elements in (1, 63, 64, 1000, 2000, 30_000):
        yield ScalarWork(elements, 8, (ref("x", (elements,)),), (ref("y", (elements,)),))


def vectors(chip: str) -> str:
    """A table of vector work on a chip."""
    return _table(chip, [(work, partial(lower_vector, work)) for work in vector_works()])


def moves(chip: str) -> str:
    """A table of movement and scalar work on a chip."""
    return _table(
        chip,
        [
            (
                work,
                partial(lower_movement, work) if isinstance(work, MoveWork) else partial(lower_scalar, work),
            )
            for work in move_works()
        ],
    )


def filters() -> str:
    """A table of gradients of filters: the best tiling, what all are like, and the blocks of the best."""
    rows = []
    works = (  # images, channels, size, outputs, kernel, stride, pad, groups
        (16, 64, 28, 64, 3, 1, 1, 1), (1, 256, 14, 512, 1, 1, 0, 1), (2, 3, 64, 32, 7, 2, 3, 1),
        (30, 48, 7, 40, 3, 1, 1, 1), (5, 16, 30, 16, 5, 1, 2, 4), (3, 512, 7, 512, 1, 1, 0, 1),
        (8, 32, 40, 128, 2, 2, 0, 1), (7, 100, 9, 33, 3, 2, 1, 2),
    )  # fmt: skip
    for sizes in works:
        for chip in CHIPS[:5]:
            soc, work = load(chip), filter_work(*sizes)
            rates = rates_of(soc, work.dtype.value, True)
            found = list(candidates(FilterProduct.of(work), rates, sharing_of_images(work, soc)))
            cycles = [one.cycles for one in found]
            best = min(found, key=lambda one: one.cycles)
            rows.append(
                f"{chip}: {'/'.join(map(str, sizes))}\n    {_filter(best)}\n    all: {len(found)} to"
                f" {max(cycles):.1f} cycles, {sum(cycles) / len(cycles):.1f} on average\n"
                + stage_text(filter_stage(work, best, soc, Expansion(soc)))
            )
    return "".join(rows)


def _filter(one: FilterTiling) -> str:
    shares = "x".join(map(str, (one.groups, one.images, one.positions, one.m, one.blocks)))
    single = ", one accumulator" * (one.accumulators == 1)
    return (
        f"share {shares}, tile {one.tile_m}x{one.tile_blocks}, run {one.run}, step {one.step}{single}:"
        f" {one.cycles:.1f} cycles"
    )


def pairs() -> str:
    """A table of two convolutions in a task: heights of bands that are tried, and the best few of some."""
    rows = ["Heights that are tried by rows of a share:\n"]
    rows += [f"    {many}: {' '.join(map(str, _band_heights(many)))}\n" for many in (*range(1, 70), 100, 224)]
    works = (  # channels, size, middle, kernel, outputs, kernel, stride, images
        (64, 56, 64, 1, 64, 3, 1, 1), (16, 112, 32, 3, 16, 3, 2, 1), (64, 28, 128, 3, 64, 1, 1, 4),
        (3, 64, 16, 5, 24, 3, 1, 9),
    )  # fmt: skip
    for channels, size, middle, one, outputs, two, stride, images in works:
        first = convolution(channels, size, middle, one, 1, one // 2, images)
        then = convolution(middle, size, outputs, two, stride, two // 2, images)
        first = replace(first, out=replace(first.out, region="between"), epilogue=(Step("vrelu"),))
        then = replace(then, a=first.out, b=replace(then.b, region="w2"), bias=ref("bias2", (outputs,)))
        for chip in ("Ascend310", "Ascend310P3", "Ascend910A"):
            soc = load(chip)
            sizes = "/".join(map(str, (channels, size, middle, one, outputs, two, stride, images)))
            rows.append(f"{chip}: {sizes}\n")
            try:
                options = pair_options(CubePair(first, then), soc, Expansion(soc))
            except CompileError as error:
                rows.append(f"    {error}\n")
                continue
            rows += [f"    bands of {make.args[3]} rows\n" for make in options]  # type: ignore[attr-defined]
            rows.append(stage_text(options[0]()))
    return "".join(rows)


def _table(only: str, works: list[tuple[VectorWork | MoveWork | ScalarWork, object]]) -> str:
    rows = []
    for (work, lower), chip in zip(works, cycle(CHIPS), strict=False):
        if chip != only:
            continue
        soc = load(chip)
        given = (soc,) if isinstance(work, ScalarWork) else (soc, Expansion(soc, noted=True))
        try:
            found = stage_text(lower(*given))  # type: ignore[operator]
        except CompileError as error:
            found = f"    {error}\n"
        rows.append(f"{chip}: {describe(work)}{_more(work)}\n{found}")
    return "".join(rows)


def _more(work: VectorWork | MoveWork | ScalarWork) -> str:
    """What a description of work leaves out."""
    names = ("in_turn", "own_tiling", "code_at_hand", "long_code", "pads_rows", "one_buffer")
    words = [name for name in names if getattr(work, name, False)]
    words += [f"{name} {getattr(work, name)}" for name in ("pieces", "most_cores") if getattr(work, name, 0)]
    if isinstance(work, VectorWork) and work.maps is not None:
        words.append(f"maps {work.maps.images}x{work.maps.blocks} by {work.maps.split}")
    return "".join(f", {word}" for word in words)
