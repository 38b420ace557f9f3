"""Transfers that are worked out from effects, against the bytes that the effects name one by one."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product
from random import Random

from ascendsim.core.dtypes import DType
from ascendsim.isa.derived import Chip, instruction
from ascendsim.isa.effects import Box, Dims, Effect
from ascendsim.isa.instructions import Affine, Buffer, Move, Operand, Pipe, Vector
from tests.support.toy_soc import TOY, toy

TRANSACTION = 512
TRIPS = range(3)  # of the loop that moves the boxes


def addresses(box: Box, trip: int) -> list[int]:
    """Every byte of a box, element by element in order."""
    first = box.offset.at({"i": trip})
    places = (
        first + sum(number * step for number, (_, step) in zip(numbers, box.dims, strict=True))
        for numbers in product(*(range(count) for count, _ in box.dims))
    )
    return [byte for place in places for byte in range(place, place + box.dtype.itemsize)]


def bursts(move: Move, operand: Operand, stride: int, trip: int) -> list[int]:
    """Every byte on one side of a transfer, burst by burst."""
    first = operand.offset.at({"i": trip})
    starts = [first + number * (stride or move.burst_bytes) for number in range(move.bursts)]
    return [byte for start in starts for byte in range(start, start + move.burst_bytes)]


def derived(effect: Effect) -> Move:
    def place(box: Box) -> Operand:
        return Operand(box.buffer, box.name or "held", box.bytes, box.offset)

    made = instruction(effect, Pipe.MTE2, place, Chip(TOY))
    assert isinstance(made, Move)
    assert made.bursts > 1 or not made.src_stride
    assert made.bursts > 1 or not made.dst_stride
    return made


def somewhere(random: Random) -> Affine:
    """On a boundary of transactions in every trip, or not."""
    grain = random.choice((32, TRANSACTION, TRANSACTION))
    return Affine(
        random.randint(0, 3) * grain, (("i", random.randint(0, 3) * random.choice((32, TRANSACTION))),)
    )


def rows(random: Random, dtype: DType) -> tuple[int, int, list[Dims]]:
    """Numbers of rows and of elements in them, and ways in which these may lie."""
    number, length = random.choice((1, 2, 3, 4)), random.choice((16, 32, 256))
    size = dtype.itemsize
    apart = length * size + random.choice((32, TRANSACTION))
    ways: list[Dims] = [
        ((number, apart), (length, size)),
        ((number, length * size), (length, size)),
        ((number * length, size),),
        ((1, 7 * TRANSACTION), (number, TRANSACTION * 2), (length, size)),
    ]
    return number, length, ways


def on_boundaries(box: Box) -> bool:
    """Whether each stretch of bytes without gaps begins on a boundary of transactions, in every trip."""
    for trip in TRIPS:
        found = addresses(box, trip)
        starts = [byte for before, byte in pairwise([-9, *found]) if byte != before + 1]
        if any(start % TRANSACTION for start in starts):
            return False
    return True


def test_a_copy_carries_the_bytes_that_its_effect_names_in_their_order() -> None:
    random, aligned = Random(8), [0, 0]
    for _ in range(150):
        dtype = random.choice((DType.FLOAT16, DType.FLOAT32, DType.INT8))
        _, _, ways = rows(random, dtype)
        outside = Box(Buffer.GM, "x", dtype, random.choice(ways), somewhere(random))
        inside = Box(Buffer.UB, "", dtype, random.choice(ways), somewhere(random))
        inward = random.random() < 0.5
        effect = Effect(
            "copy", writes=(inside if inward else outside,), reads=(outside if inward else inside,)
        )
        move = derived(effect)
        for trip in TRIPS:
            assert bursts(move, move.src, move.src_stride, trip) == addresses(effect.reads[0], trip)
            assert bursts(move, move.dst, move.dst_stride, trip) == addresses(effect.writes[0], trip)
        assert move.aligned == on_boundaries(outside), effect
        aligned[move.aligned] += 1
    assert min(aligned) > 25


def test_rows_and_fractals_come_as_bursts_of_their_own() -> None:
    random, aligned = Random(9), [0, 0]
    for _ in range(150):
        buffer = random.choice((Buffer.GM, Buffer.L1))
        number = random.choice((1, 2, 5))
        step = random.choice((TRANSACTION, 2 * TRANSACTION, TRANSACTION + 32 * 16))
        source = Box(buffer, "x", DType.FLOAT16, ((number, step), (256, 2)), somewhere(random))
        target = Box(Buffer.L0A, "", DType.FLOAT16, ((number, TRANSACTION), (256, 2)))
        load = derived(Effect("load2d", writes=(target,), reads=(source,)))
        assert (load.bursts, load.burst_bytes) == (number, 512)
        assert load.kind == ("load2d" if buffer is Buffer.L1 else "copy")
        count, length, apart = random.choice((1, 3)), random.choice((16, 64)), random.choice((200, 512, 1024))
        lines = Box(buffer, "x", DType.FLOAT16, ((1, 0), (count, apart), (length, 2)), source.offset)
        nz = derived(Effect("nd2nz", writes=(replace(target, buffer=Buffer.L1),), reads=(lines,)))
        assert (nz.bursts, nz.burst_bytes) == (count, 2 * length)
        for move, box in ((load, source), (nz, lines)):
            for trip in TRIPS:
                assert bursts(move, move.src, move.src_stride, trip) == addresses(box, trip)
            assert move.aligned == (buffer is not Buffer.GM or on_boundaries(box))
            aligned[move.aligned] += 1
        assert bursts(load, load.dst, load.dst_stride, 0) == addresses(target, 0)
    assert min(aligned) > 25


def test_a_chip_without_banks_has_no_conflicts() -> None:
    """Sources in the same bank group, and a result in that of a source."""
    row = ((1, 256), (8, 32), (16, 2))
    boxes = [Box(Buffer.UB, "", DType.FLOAT16, row, Affine(at)) for at in (0x8100, 0, 0x10000)]
    effect = Effect("vector", "ADD", "vadd", tuple(boxes[:1]), tuple(boxes[1:]))
    for groups, turns in ((None, 0), (16, 1)):
        chip = Chip(toy(vector={"bank_groups": groups}))
        made = instruction(effect, Pipe.V, lambda box: Operand(box.buffer, "u", box.bytes), chip)
        assert isinstance(made, Vector)
        assert (made.bank_conflict, made.write_conflict) == (turns, False)
