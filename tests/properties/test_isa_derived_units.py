"""Instructions of the Cube, the vector unit and the scalar unit that are worked out from effects, against
counting by hand and element by element."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import CompileError
from ascendsim.isa.derived import Chip, bursts, instruction, pieces
from ascendsim.isa.effects import Box, Dims, Effect, full_mask, repeats, row
from ascendsim.isa.instructions import (
    Affine,
    Buffer,
    Img2Col,
    Instruction,
    Mmad,
    Move,
    Operand,
    Pipe,
    Scalar,
    Vector,
)
from ascendsim.lower.templates.effects import product
from tests.properties.test_isa_derived import addresses
from tests.support.toy_soc import TOY, toy

F16, F32, BF16, S8 = DType.FLOAT16, DType.FLOAT32, DType.BFLOAT16, DType.INT8


def place(box: Box) -> Operand:
    return Operand(box.buffer, box.name or f"at {box.offset.base}", box.bytes, box.offset)


def derived(effect: Effect, pipe: Pipe = Pipe.V, soc: Chip | None = None) -> Instruction:
    made = instruction(effect, pipe, place, soc or Chip(TOY))
    assert made.pipe is pipe
    assert getattr(made, "effect", None) is effect
    return made


def ub(dtype: DType, dims: Dims, at: int = 0) -> Box:
    return Box(Buffer.UB, "", dtype, dims, Affine(at))


# ---------------------------------------------------------------------------------------------------- boxes


def test_a_box_spans_the_bytes_that_it_names_and_knows_whether_there_are_gaps() -> None:
    random, whole = Random(3), [0, 0]
    for _ in range(200):
        dtype = random.choice((F16, F32, S8))
        dims: list[tuple[int, int]] = [(random.choice((1, 2, 4)), dtype.itemsize)]
        for _ in range(random.randint(0, 2)):
            count, step = dims[0]
            dims.insert(0, (random.choice((1, 2, 3)), count * step + random.choice((0, 0, 0, 32, -96))))
        box = Box(Buffer.UB, "", dtype, tuple(dims))
        found = addresses(box, 0)
        assert box.span == (min(found), max(found) + 1)
        assert box.bytes == len(found) == box.elements * dtype.itemsize
        gapless = found == list(range(len(found)))
        if box.whole:
            assert gapless
        elif gapless:  # steps of dimensions with one element alone say nothing
            assert any(count == 1 for count, _ in dims)
        whole[box.whole] += 1
    assert min(whole) > 40


def test_operands_go_to_their_places_results_first() -> None:
    effect = Effect(
        "select", writes=(ub(F16, row(8, F16)),), reads=(ub(S8, row(1, S8)), ub(F32, row(8, F32)))
    )
    moved = effect.at((Affine(64), Affine(32), Affine(512)))
    assert [box.offset.base for box in moved.boxes] == [64, 32, 512]
    assert [box.dtype for box in moved.writes] == [F16]
    assert [box.dtype for box in moved.reads] == [S8, F32]
    with pytest.raises(ValueError, match="zip"):
        effect.at((Affine(64), Affine(32)))


def test_parameters_of_an_effect_are_found_by_name() -> None:
    effect = Effect("mmad", parameters=(("k", 7), ("m", 0)))
    assert [
        effect.parameter("k"),
        effect.parameter("m", 5),
        effect.parameter("n"),
        effect.parameter("n", 5),
    ] == [
        7,
        0,
        0,
        5,
    ]


@pytest.mark.parametrize(
    ("lanes", "dtype"), [(64, F32), (40, F32), (128, F16), (100, F16), (3, F16), (16, S8)]
)
def test_repeats_hold_their_lanes_in_blocks(lanes: int, dtype: DType) -> None:
    """Two repeats, blocks one apart: the first bytes of both hold the lanes one after the other."""
    box = ub(dtype, repeats(2, 1, 8, dtype, lanes))
    found = addresses(box, 0)
    half = len(found) // 2
    assert found[half] == 8 * 32
    assert found[: lanes * dtype.itemsize] == list(range(lanes * dtype.itemsize))
    assert half - lanes * dtype.itemsize < 32  # no block too many
    assert full_mask(lanes).bit_count() == full_mask(lanes).bit_length() == lanes


# ------------------------------------------------------------------------------------------------ transfers


def test_pieces_are_as_long_as_the_bytes_are_without_gaps() -> None:
    random, several = Random(4), 0
    for _ in range(150):
        inner, middle, outer = (random.choice((1, 2, 3, 4)) for _ in range(3))
        gap, more = random.choice((0, 0, 64)), random.choice((0, 0, 128))
        step = inner * 2 + gap
        dims = ((outer, middle * step + more), (middle, step), (inner, 2))
        box = Box(Buffer.GM, "x", F16, dims)
        found = addresses(box, 0)
        starts = [byte for number, byte in enumerate(found) if number == 0 or found[number - 1] != byte - 1]
        even = {second - first for first, second in pairwise(starts)}
        if len(even) > 1:
            with pytest.raises(CompileError, match="takes pieces at equal distances"):
                pieces(box)
            continue
        count, length, apart = pieces(box)
        assert (count, length) == (len(starts), len(found) // len(starts))
        assert [number * apart for number in range(count)] == starts
        several += count > 1
    assert several > 40


@pytest.mark.parametrize(
    ("to", "of"), [((4, 32), (3, 32)), ((4, 32), (3, 64)), ((1, 64), (1, 32)), ((1, 32), (2, 32))]
)
def test_a_transfer_gives_what_it_takes(to: tuple[int, int], of: tuple[int, int]) -> None:
    target, source = (((count, 512), (size, 1)) for count, size in (to, of))
    effect = Effect(
        "copy",
        writes=(Box(Buffer.UB, "", DType.UINT8, target),),
        reads=(Box(Buffer.GM, "x", DType.UINT8, source),),
    )
    if to[0] * to[1] == of[0] * of[1]:
        assert bursts(effect)[0] == max(to[0], of[0])
        return
    with pytest.raises(
        CompileError, match=f"as many bytes as it gives, not {of[0] * of[1]} and {to[0] * to[1]}"
    ):
        bursts(effect)


@pytest.mark.parametrize(("to", "of"), [((4, 24), (3, 32)), ((3, 32), (4, 24))])
def test_pieces_of_one_side_are_parts_of_those_of_the_other(to: tuple[int, int], of: tuple[int, int]) -> None:
    target, source = (Box(Buffer.GM, "x", DType.UINT8, ((count, 512), (size, 1))) for count, size in (to, of))
    with pytest.raises(CompileError, match="not 96 and 96"):
        bursts(Effect("copy", writes=(target,), reads=(source,)))


def test_rows_that_are_padded_on_the_way_stay_apart() -> None:
    """Three rows of 20 B without a gap in global memory, 32 B apart in UB."""
    effect = Effect(
        "copy",
        writes=(ub(F16, ((3, 32), (16, 2))),),
        reads=(Box(Buffer.GM, "x", F16, ((3, 20), (10, 2))),),
        parameters=(("padded", 1),),
    )
    made = derived(effect, Pipe.MTE2)
    assert isinstance(made, Move)
    assert (made.bursts, made.burst_bytes, made.src_stride, made.dst_stride) == (3, 20, 20, 32)


@pytest.mark.parametrize("kind", ["copy", "nd2nz", "fixpipe"])
def test_transfers_know_their_way_through_l2_and_what_they_merge(kind: str) -> None:
    far = Box(Buffer.GM, "x", F32, ((1, 0), (4, 1024), (16, 4)))
    if kind == "fixpipe":
        for number, name in enumerate(("", "add", "max", "min")):
            numbers = (("atomic", number), ("m", 4), ("n", 16), ("rows", 1))
            made = derived(Effect(kind, writes=(far,), reads=(fractals(4, 1),), parameters=numbers), Pipe.FIX)
            assert isinstance(made, Move)
            assert (made.atomic, made.cached) == (name, True)
        return
    for uncached in (0, 1):
        near = Box(Buffer.L1, "", F32, ((1, 0), (2, 128), (4, 32), (8, 4)))
        near = ub(F32, row(64, F32)) if kind == "copy" else near
        effect = Effect(kind, writes=(near,), reads=(far,), parameters=(("uncached", uncached),))
        made = derived(effect, Pipe.MTE2)
        assert isinstance(made, Move)
        assert (made.cached, made.atomic) == (not uncached, "")
        assert (made.src.name, made.dst.buffer) == ("x", near.buffer)


# ------------------------------------------------------------------------------------------------- the Cube


def test_load3d_takes_as_long_as_its_widest_fractal_spans_rows() -> None:
    random, seen = Random(5), set()
    for _ in range(150):
        width, start, count = random.randint(1, 40), random.randint(0, 60), 16 * random.randint(1, 5)
        numbers = {
            "output_width": width,
            "m_start": start,
            "m_count": count,
            "stride_w": random.choice((1, 2)),
        }
        effect = Effect(
            "load3d",
            writes=(Box(Buffer.L0A, "to", F16, row(count * 16, F16)),),
            reads=(Box(Buffer.L1, "of", F16, row(999, F16)),),
            parameters=tuple(sorted(numbers.items())),
        )
        load = derived(effect, Pipe.MTE1)
        assert isinstance(load, Img2Col)
        spans = [
            len({place // width for place in range(at, at + 16)}) for at in range(start, start + count, 16)
        ]
        assert (load.input_rows, load.stride_w) == (max(spans), numbers["stride_w"])
        assert (load.bytes, load.dst.name, load.src.name) == (count * 32, "to", "of")
        seen.add(load.input_rows)
    assert {1, 2, 3, 4, 16} <= seen


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("dtype", "fresh"), [(F16, 0), (S8, 1)])
def test_mmad_has_its_operands_in_order(dtype: DType, fresh: int, bias: bool) -> None:
    boxes = [Box(buffer, buffer.value, dtype, row(256, dtype)) for buffer in (Buffer.L0A, Buffer.L0B)]
    table = [Box(Buffer.BT, "BT", F32, row(16, F32))] if bias else []
    numbers = (("fresh", fresh), ("k", 40), ("m", 7), ("n", 24))
    target = Box(Buffer.L0C, "L0C", F32, row(256, F32))
    made = derived(Effect("mmad", writes=(target,), reads=(*boxes, *table), parameters=numbers), Pipe.M)
    assert isinstance(made, Mmad)
    assert (made.m, made.k, made.n, made.dtype, made.accumulate) == (7, 40, 24, dtype.value, not fresh)
    assert [made.dst.name, made.a.name, made.b.name] == ["L0C", "L0A", "L0B"]
    assert (made.bias.name if made.bias else None) == ("BT" if bias else None)


@pytest.mark.parametrize(
    ("dtype", "depth", "sums"), [(F16, 16, F32), (F32, 8, F32), (S8, 32, DType.INT32), (BF16, 16, F32)]
)
def test_a_product_reads_whole_fractals_and_a_bias_a_column(dtype: DType, depth: int, sums: DType) -> None:
    """20 x 50 of k = 100: two by four blocks of 16 x 16 sums, and fractals of 512 B, 32 B of k wide."""
    effect = product(dtype, 20, 100, 50, False, True)
    deep = -(-100 // depth)
    assert [box.bytes for box in effect.boxes] == [2 * 4 * 1024, 2 * deep * 512, 4 * deep * 512, 50 * 4]
    assert [box.dtype for box in effect.boxes] == [sums, dtype, dtype, sums]
    assert [box.buffer for box in effect.boxes] == [Buffer.L0C, Buffer.L0A, Buffer.L0B, Buffer.BT]
    assert len(product(dtype, 20, 100, 50, True, False).reads) == 2


def fractals(rows: int, blocks: int, matrices: int = 1) -> Box:
    """Sums in L0C: blocks of 16 columns, rows of 64 B."""
    return Box(Buffer.L0C, "c", F32, ((matrices, 4096 * blocks), (blocks, 4096), (rows, 64), (16, 4)))


@pytest.mark.parametrize("buffer", [Buffer.GM, Buffer.L1])
@pytest.mark.parametrize(("dtype", "each"), [(F16, 16), (S8, 32), (F32, 8)])
@pytest.mark.parametrize(("rows", "columns"), [(5, 64), (1, 32), (16, 32)])
def test_fixpipe_stores_rows_and_blocks_of_columns_as_bursts(
    rows: int, columns: int, dtype: DType, each: int, buffer: Buffer
) -> None:
    size = dtype.itemsize
    source = fractals(rows, columns // 16)
    lines = Box(buffer, "y", dtype, ((1, 0), (rows, 1024), (columns, size)))
    blocks = Box(buffer, "y", dtype, ((1, 0), (columns // each, 1024), (rows, each * size), (each, size)))
    for target, in_rows, number in ((lines, 1, rows), (blocks, 0, columns // each)):
        numbers = (("m", rows), ("n", columns), ("rows", in_rows))
        made = derived(Effect("fixpipe", writes=(target,), reads=(source,), parameters=numbers), Pipe.FIX)
        assert isinstance(made, Move)
        assert (made.kind, made.src.bytes, made.bursts) == ("fixpipe", rows * columns * 4, number)
        step = made.dst_stride or made.burst_bytes
        stored = [
            byte for at in range(made.bursts) for byte in range(at * step, at * step + made.burst_bytes)
        ]
        assert stored == addresses(target, 0)
        assert made.bursts > 1 or not made.dst_stride
        assert made.aligned  # 1024 B are whole transactions


def test_fixpipe_takes_whole_fractals_of_every_matrix() -> None:
    """Its time goes by what it takes out of L0C: 20 columns are two fractals wide."""
    target = Box(Buffer.GM, "y", F16, ((3, 40 * 7), (7, 40), (20, 2)), Affine(0))
    numbers = (("m", 7), ("n", 20), ("rows", 1))
    made = derived(
        Effect("fixpipe", writes=(target,), reads=(fractals(7, 2, 3),), parameters=numbers), Pipe.FIX
    )
    assert isinstance(made, Move)
    assert made.src.bytes == 3 * 7 * 32 * 4
    assert (made.bursts, made.burst_bytes, made.dst_stride) == (21, 40, 40)
    assert not made.aligned


def test_rows_off_a_transaction_are_not_aligned_whichever_of_start_trip_and_step_is_to_blame() -> None:
    def aligned(offset: Affine, step: int, rows: int = 4) -> bool:
        target = Box(Buffer.GM, "y", F16, ((1, 7), (rows, step), (16, 2)), offset)
        numbers = (("m", rows), ("n", 16), ("rows", 1))
        source = fractals(rows, 1)
        made = derived(Effect("fixpipe", writes=(target,), reads=(source,), parameters=numbers), Pipe.FIX)
        assert isinstance(made, Move)
        return made.aligned

    assert aligned(Affine(512, (("i", 1024),)), 1536)
    assert not aligned(Affine(32, (("i", 1024),)), 1536)
    assert not aligned(Affine(512, (("i", 1024), ("j", 32))), 1536)
    assert not aligned(Affine(512), 544)
    assert aligned(Affine(512), 544, rows=1)


def test_the_vector_unit_of_coupled_cores_fetches_elements() -> None:
    numbers = (("m", 16), ("n", 32))
    effect = Effect(
        "fixpipe", "", "l0c_to_ub", (ub(F16, row(512, F16), 64),), (fractals(16, 2),), parameters=numbers
    )
    made = derived(effect)
    assert isinstance(made, Vector)
    assert (made.op, made.dtype, made.elements) == ("l0c_to_ub", "float32", 512)
    assert (made.dst.name, [source.name for source in made.srcs]) == ("at 64", ["c"])


# ---------------------------------------------------------------------------------------- vector and scalar


def in_repeats(dtype: DType, times: int, at: int = 0, stride: int = 1) -> Box:
    return ub(dtype, repeats(times, stride, 8 * stride, dtype, 256 // dtype.itemsize), at)


@pytest.mark.parametrize(
    ("kind", "boxes", "numbers", "dtype", "elements"),
    [
        ("vector", (in_repeats(F16, 3), in_repeats(F16, 3), in_repeats(F16, 3)), (), "float16", 384),
        # a repeat of 256 B of the widest operand
        ("cast", (in_repeats(F32, 5), in_repeats(F16, 5)), (), "float32", 320),
        ("cast", (in_repeats(F16, 5), in_repeats(F32, 5)), (), "float32", 320),
        # rows without repeats count their elements
        ("vector", (ub(F16, row(40, F16)), ub(F16, row(40, F16))), (), "float16", 40),
        # what an operand that is not there would have does not count
        ("vector", (ub(F16, row(40, F16)), ub(F32, row(0, F32))), (), "float16", 40),
        # bfloat16 costs as float16
        ("vector", (in_repeats(BF16, 2), in_repeats(BF16, 2)), (), "float16", 256),
        # reductions and comparisons go by what they read
        ("reduce", (ub(F32, row(1, F32)), in_repeats(F16, 4)), (), "float16", 512),
        ("compare", (ub(S8, ()), in_repeats(F16, 1), in_repeats(F32, 2)), (("by", 1),), "float32", 128),
        # or by what it says itself
        ("transpose", (in_repeats(F16, 1), in_repeats(F16, 1)), (("elements", 777),), "float16", 777),
    ],
)  # fmt: skip
def test_vector_instructions_go_by_their_widest_operand(
    kind: str, boxes: tuple[Box, ...], numbers: tuple[tuple[str, int], ...], dtype: str, elements: int
) -> None:
    effect = Effect(kind, "X", "vx", boxes[:1], boxes[1:], parameters=numbers)
    made = derived(effect)
    assert isinstance(made, Vector)
    assert (made.op, made.dtype, made.elements) == ("vx", dtype, elements)
    assert len(made.srcs) == len(boxes) - 1


@pytest.mark.parametrize(
    ("sources", "target", "turns", "both"),
    [
        ((in_repeats(F16, 1), in_repeats(F16, 1, 0x10000)), in_repeats(F16, 1, 0x20100), 1, False),
        ((in_repeats(F16, 1), in_repeats(F16, 1, 0x10100)), in_repeats(F16, 1, 0x20000), 0, False),
        # eight blocks two apart lie in eight of 16 groups, eight blocks four apart twice in four
        ((in_repeats(F16, 1, 0, 2),), in_repeats(F16, 1, 0x20000), 0, False),
        ((in_repeats(F16, 1, 0, 4),), in_repeats(F16, 1, 0x20000), 1, False),
        # 33 B without repeats are two blocks: the second one meets the first of the other source
        ((ub(S8, row(33, S8)), ub(S8, row(32, S8), 0x10020)), ub(S8, row(33, S8), 0x20200), 1, False),
        ((ub(S8, row(32, S8)), ub(S8, row(32, S8), 0x10020)), ub(S8, row(33, S8), 0x20200), 0, False),
        # a repeat has eight blocks, however long the row is
        ((ub(S8, row(4096, S8)), ub(S8, row(32, S8), 0x10100)), ub(S8, row(32, S8), 0x20400), 0, False),
        # what lies in other buffers has no bank
        ((in_repeats(F16, 1), Box(Buffer.L0C, "", F32, row(64, F32))), in_repeats(F16, 1, 0x20100), 0, False),
        # a result in the bank of a source that begins in another group
        ((in_repeats(F16, 1),), in_repeats(F16, 1, 0x20), 0, True),
        ((in_repeats(F16, 1),), in_repeats(F16, 1), 0, False),
    ],
)  # fmt: skip
def test_conflicts_of_a_repeat_follow_from_where_its_blocks_lie(
    sources: tuple[Box, ...], target: Box, turns: int, both: bool
) -> None:
    chip = Chip(toy(vector={"bank_groups": 16}))
    made = derived(Effect("vector", "ADD", "vadd", (target,), sources), soc=chip)
    assert isinstance(made, Vector)
    assert (made.bank_conflict, made.write_conflict) == (turns, both)


def test_the_scalar_unit_waits_for_what_lies_in_ub_alone() -> None:
    far, near = Box(Buffer.GM, "x", F32, row(1, F32)), ub(F32, row(1, F32), 96)
    chip = Chip(toy(issue={"scalar_element_cycles": 21}))
    for writes, reads, dsts, srcs in (
        ((near,), (far,), ["at 96"], []),
        ((far,), (near,), [], ["at 96"]),
        ((), (far,), [], []),
    ):
        made = derived(Effect("scalar", "SET", writes=writes, reads=reads), Pipe.S, chip)
        assert isinstance(made, Scalar)
        assert ([item.name for item in made.dsts], [item.name for item in made.srcs]) == (dsts, srcs)
        assert (made.cycles, made.what) == (21, "set")


def test_an_effect_of_an_unknown_kind_has_no_instruction() -> None:
    with pytest.raises(CompileError, match="effect of kind 'mmed' has no instruction; did you mean mmad?"):
        derived(Effect("mmed"))
