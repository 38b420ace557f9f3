"""The last value that a rule allows and the first that it refuses, paths and widths one by one, and small
look-ups of programs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ascendsim.core.errors import CompileError
from ascendsim.isa.checks import buffer_bytes, check_block, check_program
from ascendsim.isa.cost_model import whole_cycles
from ascendsim.isa.costs import core_megahertz, cost, pipes_of
from ascendsim.isa.instructions import (
    Affine,
    Allocation,
    Buffer,
    Flag,
    Img2Col,
    Instruction,
    Loop,
    Mmad,
    Move,
    Operand,
    Pipe,
    Scalar,
    SetFlag,
    Statement,
    Vector,
    WaitFlag,
)
from ascendsim.isa.listing import instruction_name, listing, moved_bytes, operand_text
from ascendsim.isa.program import (
    Access,
    Block,
    BlockGroup,
    CoreKind,
    Region,
    RenamedBlock,
    Task,
    TaskKind,
    owner_of,
)
from tests.support.toy_programs import copy_block, gm, program_of, task_of
from tests.support.toy_soc import TOY, toy

ALIGNED = {Buffer.L1: 32, Buffer.UB: 32, Buffer.L0A: 512, Buffer.L0B: 512, Buffer.L0C: 64, Buffer.BT: 64}
SPLIT = toy(
    buffers={"bias_table": 1024},
    split_cores=True,
    ports={
        "l0c_to_gm": 1,
        "l0c_to_l1": 1,
        "l1_to_bt": 1,
        "l1_to_ub": 1,
        "ub_to_l1": 1,
        "l0c_to_ub": 1,
        "ub_to_ub": 1,
    },
)


def accepted(
    *body: Statement,
    allocations: tuple[Allocation, ...] = (),
    core: CoreKind = CoreKind.AI,
    soc: Any = SPLIT,
    **more: Any,
) -> bool:
    try:
        check_block(Block(body, allocations, more.get("flags", ()), core), soc)
    except CompileError:
        return False
    return True


# -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("buffer", ALIGNED)
def test_allocations_start_at_whole_grains_of_their_buffer(buffer: Buffer) -> None:
    grain = ALIGNED[buffer]
    for offset in (0, grain // 2, grain - 1, grain, grain + 1, 2 * grain):
        assert accepted(allocations=(Allocation("a", buffer, offset, grain),)) is (offset % grain == 0)
    for size in (
        grain // 2,
        grain - 1,
        grain,
        grain + 1,
    ):  # one slot may have any size, slots in a row have whole grains
        assert accepted(allocations=(Allocation("a", buffer, 0, size),))
        assert accepted(allocations=(Allocation("a", buffer, 0, size, 2),)) is (size % grain == 0)


@pytest.mark.parametrize("buffer", ALIGNED)
def test_allocations_fill_a_buffer_to_its_last_byte(buffer: Buffer) -> None:
    size = buffer_bytes(SPLIT, buffer)
    assert (
        size
        == {
            Buffer.L1: 1 << 20,
            Buffer.UB: 1 << 18,
            Buffer.L0A: 1 << 16,
            Buffer.L0B: 1 << 16,
            Buffer.L0C: 1 << 18,
            Buffer.BT: 1 << 10,
        }[buffer]
    )
    grain = ALIGNED[buffer]
    assert accepted(allocations=(Allocation("a", buffer, 0, size),))
    assert not accepted(allocations=(Allocation("a", buffer, 0, size + 1),))
    assert accepted(
        allocations=(Allocation("a", buffer, 0, grain), Allocation("b", buffer, grain, size - grain))
    )
    assert not accepted(
        allocations=(Allocation("a", buffer, 0, grain + 1), Allocation("b", buffer, grain, size - grain))
    )
    assert not accepted(
        allocations=(Allocation("b", buffer, grain, size - grain), Allocation("a", buffer, 0, grain + 1))
    )


@pytest.mark.parametrize(
    ("offset", "size", "slots", "good"),
    [(0, 1, 1, True), (0, 0, 1, False), (0, 32, 0, False), (-32, 32, 1, False)],
)
def test_allocations_have_bytes(offset: int, size: int, slots: int, good: bool) -> None:
    assert accepted(allocations=(Allocation("a", Buffer.UB, offset, size, slots),)) is good


def test_buffers_that_a_chip_lacks_have_no_size() -> None:
    for buffer in (Buffer.BT, Buffer.GM):
        with pytest.raises(CompileError, match=f"buffer {buffer.value} does not exist on Toy"):
            buffer_bytes(TOY, buffer)


# ---------------------------------------------------------------------------------------------------------- i

PLACES = tuple(Allocation(buffer.value, buffer, 0, 1024) for buffer in ALIGNED)


def at(buffer: Buffer, size: int = 512, **more: Any) -> Operand:
    return Operand(buffer, "x" if buffer is Buffer.GM else buffer.value, size, **more)


WAYS = {
    Pipe.MTE1: "L1-L0A L1-L0B L1-UB L1-BT",
    Pipe.MTE2: "GM-L1 GM-UB",
    Pipe.MTE3: "UB-GM UB-L1",
    Pipe.FIX: "L0C-GM L0C-L1 L0C-UB",
    Pipe.V: "L0C-UB UB-UB",
    Pipe.M: "",
    Pipe.S: "",
}


@pytest.mark.parametrize("pipe", Pipe)
def test_each_unit_moves_data_on_its_own_paths_only(pipe: Pipe) -> None:
    ways = set(WAYS[pipe].split())
    for source in Buffer:
        for target in Buffer:
            move = Move(pipe, at(target), at(source), 1, 512)
            assert accepted(move, allocations=PLACES, soc=replace(SPLIT, split_cores=False)) is (
                f"{source.value}-{target.value}" in ways
            )


def mmad(
    m: int, k: int, n: int, dst: Buffer = Buffer.L0C, a: Buffer = Buffer.L0A, b: Buffer = Buffer.L0B
) -> Mmad:
    return Mmad(at(dst), at(a), at(b), m, k, n)


def vector(elements: int, calls: int, dst: Buffer = Buffer.UB, *sources: Buffer) -> Vector:
    return Vector("vadd", "float16", elements, at(dst), tuple(at(buffer) for buffer in sources), calls)


@pytest.mark.parametrize(
    ("instruction", "good"),
    [
        (mmad(1, 1, 1), True),
        (mmad(0, 1, 1), False),
        (mmad(1, 0, 1), False),
        (mmad(1, 1, 0), False),
        (mmad(1, 1, 1, dst=Buffer.UB), False),
        (mmad(1, 1, 1, a=Buffer.L0B), False),
        (mmad(1, 1, 1, b=Buffer.L0A), False),
        (vector(1, 1, Buffer.UB, Buffer.UB), True),
        (vector(1, 1, Buffer.L0C, Buffer.UB, Buffer.L0C), True),
        (vector(1, 1), True),
        (vector(0, 1), False),
        (vector(1, 0), False),
        (vector(1, 1, Buffer.L1), False),
        (vector(1, 1, Buffer.UB, Buffer.UB, Buffer.L1), False),
        (Move(Pipe.MTE2, at(Buffer.UB), at(Buffer.GM), 1, 1), True),
        (Move(Pipe.MTE2, at(Buffer.UB), at(Buffer.GM), 0, 1), False),
        (Move(Pipe.MTE2, at(Buffer.UB), at(Buffer.GM), 1, 0), False),
        (Move(Pipe.MTE2, at(Buffer.UB, 512), at(Buffer.GM), 2, 256), True),
        (Move(Pipe.MTE2, at(Buffer.UB, 512), at(Buffer.GM), 2, 257), False),  # more than it says it writes
        # strided rows in global memory may be longer
        (Move(Pipe.MTE3, at(Buffer.GM, 512), at(Buffer.UB), 2, 257), True),
        (Img2Col(at(Buffer.L0A), at(Buffer.L1), 512), True),
        (Img2Col(at(Buffer.L0B), at(Buffer.L1), 512), True),
        (Img2Col(at(Buffer.L0A), at(Buffer.UB), 512), False),
        (Img2Col(at(Buffer.L0C), at(Buffer.L1), 512), False),
        (Scalar(0), True),
    ],
)
def test_instructions_have_sizes_and_operands_where_their_unit_finds_them(
    instruction: Instruction, good: bool
) -> None:
    assert accepted(instruction, allocations=PLACES, soc=replace(SPLIT, split_cores=False)) is good


@pytest.mark.parametrize(
    ("offset", "step", "good"), [(32, 32, True), (16, 32, False), (32, 16, False), (0, 1, False)]
)
def test_operands_on_chip_are_reached_at_whole_blocks(offset: int, step: int, good: bool) -> None:
    place = Operand(Buffer.UB, "UB", 32, Affine(offset, (("i", step),)))
    assert (
        accepted(Loop("i", 2, (Vector("vadd", "float16", 16, place, (place,)),)), allocations=PLACES) is good
    )
    anywhere = gm("x", 32, Affine(offset, (("i", step),)))
    assert accepted(Loop("i", 2, (Move(Pipe.MTE2, at(Buffer.UB), anywhere, 1, 32),)), allocations=PLACES)


def test_slots_and_regions_may_not_name_a_loop_that_is_not_around() -> None:
    assert not accepted(
        Move(Pipe.MTE2, at(Buffer.UB, slot=Affine(0, (("i", 1),))), at(Buffer.GM), 1, 32), allocations=PLACES
    )
    assert not accepted(
        Move(Pipe.MTE2, at(Buffer.UB), at(Buffer.GM, offset=Affine(0, (("i", 1),))), 1, 32),
        allocations=PLACES,
    )
    inner, outer = Loop("i", 2, (Scalar(1),)), Loop("i", 2, (Scalar(1), Loop("j", 2, (Scalar(1),))))
    assert accepted(inner, outer)
    assert not accepted(Loop("i", 2, (inner,)))


def test_every_block_of_a_program_is_checked() -> None:
    good, bad = copy_block(2), replace(copy_block(2), flags=())
    sizes = {"x": 1 << 16, "y": 1 << 16}
    check_program(program_of(task_of((good, 1), (good, 2)), task_of((good, 1), id=1), regions=sizes), TOY)
    for tasks in ([task_of((good, 1), (bad, 1))], [task_of((good, 1)), task_of((bad, 1), id=1)]):
        with pytest.raises(CompileError, match="is not declared in its block"):
            check_program(program_of(*tasks, regions=sizes), TOY)


@pytest.mark.parametrize(
    ("initial", "limit", "good"), [(0, 0, True), (1, 1, True), (2, 1, False), (-1, 1, False)]
)
def test_flags_start_between_zero_and_their_limit(initial: int, limit: int, good: bool) -> None:
    assert accepted(flags=(Flag("f", Pipe.M, Pipe.V, initial, limit),)) is good


@pytest.mark.parametrize("core", CoreKind)
def test_flags_join_pipes_that_the_core_has(core: CoreKind) -> None:
    units = {
        CoreKind.AI: "S M V MTE1 MTE2 MTE3 FIX",
        CoreKind.CUBE: "S M MTE1 MTE2 MTE3 FIX",
        CoreKind.VECTOR: "S V MTE2 MTE3",
    }[core].split()
    assert {pipe.value for pipe in pipes_of(core)} == set(units)
    for source in Pipe:
        for target in Pipe:
            flags = (Flag("f", source, target),)
            assert accepted(flags=flags, core=core) is (source.value in units and target.value in units)
    for instruction in (SetFlag(Pipe.V, "f"), WaitFlag(Pipe.M, "f")):
        assert not accepted(instruction, flags=(Flag("f", Pipe.M, Pipe.V, 1),))


# ------------------------------------------------------------------------------------------------------------

WIDTHS: dict[str, float] = {
    "l1_to_l0a": 64,
    "l1_to_l0b": 128,
    "l1_to_ub": 32,
    "ub_to_l1": 8,
    "l0c_to_ub": 256,
    "ub_to_l0c": 512,
    "l0c_to_l1": 2,
    "l0c_to_gm": 4,
    "gm_to_l1": 1024,
    "gm_to_ub": 2048,
    "ub_to_gm": 4096,
    "ub_to_ub": 16,
    "l1_to_bt": 1,
}


@pytest.mark.parametrize("path", [name for name in WIDTHS if name != "ub_to_l0c"])
def test_each_path_has_its_own_width(path: str) -> None:
    source, target = (Buffer(name.upper()) for name in path.split("_to_"))
    (pipe,) = {pipe for pipe, ways in WAYS.items() if f"{source.value}-{target.value}" in ways.split()} - {
        Pipe.V if path == "l0c_to_ub" else Pipe.S
    }
    chip = toy(
        ports={**WIDTHS, "load2d_gap_cycles": 0},
        dma={"burst_cycles": 0},
        l2={"request_bytes": 32},
        dram={"transaction_bytes": 32},
    )
    move = Move(pipe, at(target, 65536), at(source, 65536), 1, 65536)
    price = cost(move, chip)
    if Buffer.GM in (source, target):
        assert price.link is not None
        assert (price.occupancy, price.link.port_bytes_per_cycle) == (0, WIDTHS[path])
    else:
        assert (price.occupancy, price.link) == (65536 / WIDTHS[path], None)
    assert (price.bytes, price.latency, price.issues, price.head) == (65536, 0, 1, 0)
    for gone in (None, 0):
        with pytest.raises(
            CompileError, match=f"path {source.value} -> {target.value} does not exist on Toy"
        ):
            cost(move, toy(ports={**WIDTHS, path: gone}))


@pytest.mark.parametrize(("op", "path"), [("l0c_to_ub", "l0c_to_ub"), ("broadcast_ub_to_cc", "ub_to_l0c")])
def test_the_vector_unit_reaches_l0c_at_the_width_of_the_path(op: str, path: str) -> None:
    work = Vector(op, "float32", 1024, at(Buffer.UB), (at(Buffer.L0C),), calls=3)
    price = cost(work, toy(ports=WIDTHS))
    assert (price.occupancy, price.issues, price.bytes) == (3 * 4096 / WIDTHS[path], 3, 3 * 4096)
    assert (price.latency, price.head) == (20, 13)
    with pytest.raises(CompileError, match="does not exist on Toy"):
        cost(work, toy(ports={**WIDTHS, path: None}))


def test_images_come_in_as_fast_as_their_blocks_leave_the_port() -> None:
    """AIPP: 3 bytes a pixel come in, a block of 32 B goes out, at 1024 B a cycle; other moves and smaller
    targets go by their own bytes."""
    chip = toy(ports=WIDTHS, dma={"burst_cycles": 0})
    for kind, target, width in (
        ("aipp", 32 * 1024, 1024 * 3 / 32),
        ("copy", 32 * 1024, 1024),
        ("aipp", 3 * 1024, 1024),
        ("aipp", 1024, 1024),
    ):
        link = cost(Move(Pipe.MTE2, at(Buffer.L1, target), at(Buffer.GM), 1, 3 * 1024, kind), chip).link
        assert link is not None
        assert link.port_bytes_per_cycle == pytest.approx(width)


def test_vector_cores_count_in_their_own_clock() -> None:
    chip = toy(frequency_mhz=1000, vector_frequency_mhz=500, issue={"instruction_start_ns": 40})
    assert [core_megahertz(chip, core) for core in (CoreKind.AI, CoreKind.CUBE, CoreKind.VECTOR)] == [
        1000,
        1000,
        500,
    ]
    work = Vector("vadd", "float16", 128, at(Buffer.UB), (at(Buffer.UB),))
    assert (cost(work, chip).occupancy, cost(work, chip, CoreKind.VECTOR).occupancy) == (40, 20)


def test_ragged_rows_hold_requests_unless_their_layout_changes_on_the_way() -> None:
    """Only the layout change of ragged rows is slower than any latency, and only where the chip has a rate
    for it."""
    base = {
        "dma": {"reads_hold_requests": True, "ragged_nd2nz_bytes_per_cycle": 16},
        "l2": {"line_bytes": 512},
    }
    for kind, burst, rate, holds in (
        ("nd2nz", 48, 16, False),
        ("nd2nz", 64, 16, True),
        ("copy", 48, 16, True),
        ("nd2nz", 48, None, True),
    ):
        chip = toy(**{**base, "dma": {**base["dma"], "ragged_nd2nz_bytes_per_cycle": rate}})
        link = cost(Move(Pipe.MTE2, at(Buffer.L1), at(Buffer.GM), 4, burst, kind, src_stride=4096), chip).link
        assert link is not None
        assert (link.request_bytes_per_cycle is not None) is holds
        slow = toy(dma={"reads_hold_requests": False})
        assert (
            other := cost(
                Move(Pipe.MTE2, at(Buffer.L1), at(Buffer.GM), 4, burst, kind, src_stride=4096), slow
            ).link
        ) is not None
        assert other.request_bytes_per_cycle is None


@pytest.mark.parametrize(
    ("burst", "ragged", "whole", "rate"),
    [(64, 16, None, 1024), (64, 16, 32, 32), (48, 16, 32, 16), (48, None, 32, 32)],
)
def test_a_change_of_layout_has_one_rate_for_whole_rows_and_one_for_ragged_ones(
    burst: int, ragged: float | None, whole: float | None, rate: float
) -> None:
    chip = toy(
        ports=WIDTHS,
        dma={"ragged_nd2nz_bytes_per_cycle": ragged, "nd2nz_bytes_per_cycle": whole, "ragged_efficiency": 1},
    )
    link = cost(Move(Pipe.MTE2, at(Buffer.L1), at(Buffer.GM), 4, burst, "nd2nz", src_stride=4096), chip).link
    assert link is not None
    assert link.l2_bytes / link.port_bytes_per_cycle == pytest.approx(4 * burst / rate)


@pytest.mark.parametrize(
    ("burst", "stride", "span"),
    [(64, 32, 4 * 64), (64, 64, 256), (64, 96, 3 * 96 + 64), (64, -96, 3 * 96 + 64), (64, 512, 256)],
)
def test_rows_that_overlap_count_each_and_neighbours_share_their_grain(
    burst: int, stride: int, span: int
) -> None:
    """Four rows; the memory takes 64 B at a time."""
    chip = toy(dram={"transaction_bytes": 64}, l2={"request_bytes": 64})
    link = cost(Move(Pipe.MTE2, at(Buffer.UB), at(Buffer.GM), 4, burst, src_stride=stride), chip).link
    assert link is not None
    assert link.dram_bytes == min(-(-span // 64) * 64, 4 * 64)


@pytest.mark.parametrize(
    ("cycles", "whole"), [(3, 3), (3.0000004, 3), (3.0000006, 4), (2.9999996, 3), (0, 0), (0.5, 1)]
)
def test_cycles_are_whole_but_for_the_last_bits(cycles: float, whole: int) -> None:
    assert whole_cycles(cycles) == whole


# ------------------------------------------------------------------------------------------------------------


def test_chains_of_aliases_lead_to_the_owner_and_may_end_at_a_slice() -> None:
    regions = {
        "whole": Region("whole", 0, 64, "activation"),
        "slice": Region("slice", 0, 32, "activation", alias_of="whole", cut=(0, 0)),
        "view": Region("view", 0, 32, "activation", alias_of="slice"),
        "flat": Region("flat", 0, 64, "activation", alias_of="whole"),
        "a": Region("a", 0, 1, "activation", alias_of="b"),
        "b": Region("b", 0, 1, "activation", alias_of="a"),
        "loose": Region("loose", 0, 1, "activation", alias_of="gone"),
    }
    owners = {
        "whole": "whole",
        "slice": "whole",
        "view": "whole",
        "flat": "whole",
        "loose": "gone",
        "unknown": "unknown",
    }
    keys = {**owners, "slice": "slice", "view": "slice"}
    assert {name: owner_of(regions, name) for name in owners} == owners
    assert {name: owner_of(regions, name, through_slices=False) for name in keys} == keys
    assert owner_of(regions, "a") in ("a", "b")  # ends all the same


def test_tasks_know_their_nodes_and_blocks() -> None:
    block = copy_block(1)
    plain = Task(3, "conv", TaskKind.AI_CORE, groups=(BlockGroup(block, 2), BlockGroup(block, 3)))
    assert (plain.nodes, plain.block_dim) == (("conv",), 5)
    assert replace(plain, fused=("a", "b"), groups=()).nodes == ("a", "b")
    assert replace(plain, groups=()).block_dim == 1
    assert Access("x", 1, 2, True) == Access("x", 1, 2, True)


def test_a_renamed_block_differs_in_names_of_regions_only() -> None:
    template = copy_block(3)
    renamed = RenamedBlock(template, {"x": "p"})
    written = str(listing(template)).replace("GM.x", "GM.p")
    assert listing(renamed) == written
    assert (renamed.template, template.template) == (template, template)
    assert [renamed.region(name) for name in ("x", "y")] == ["p", "y"]
    assert template.region("x") == "x"
    by_hand = Block(renamed.body, template.allocations, template.flags, template.core)
    assert renamed == by_hand
    assert hash(renamed) == hash(RenamedBlock(template, {"x": "p"}))
    assert renamed != template
    assert renamed != RenamedBlock(template, {"x": "q"})
    assert renamed != replace(by_hand, core=CoreKind.VECTOR)
    assert (renamed == 3) is False
    assert renamed.body is renamed.body


def test_texts_of_operands_and_sizes() -> None:
    assert operand_text(gm("x", 1), 2) == "GM.x"  # global memory has no slots
    assert operand_text(Operand(Buffer.UB, "u", 1, Affine(0, (("i", 1),)), Affine(3)), 2) == "UB.u[slot 3]+i"
    assert [str(Affine(*item)) for item in ((), (4,), (0, (("i", 1),)), (4, (("i", 1), ("j", -2))))] == [
        "0",
        "4",
        "i",
        "4 + i + -2*j",
    ]
    assert [
        moved_bytes(item)
        for item in (
            Move(Pipe.MTE2, at(Buffer.UB), at(Buffer.GM), 3, 32),
            Img2Col(at(Buffer.L0A), at(Buffer.L1), 512),
            Scalar(1),
        )
    ] == [
        96,
        512,
        0,
    ]
    assert instruction_name(vector(8, 1, Buffer.UB)) == "vadd 8 float16"
    assert instruction_name(Scalar(3, "addresses")) == "addresses"


def test_what_instructions_are_where_nothing_is_said() -> None:
    """One slot, no flags set, a contiguous aligned copy through L2, stride 1 on one row, one call, float16
    that adds up."""
    assert Allocation("a", Buffer.UB, 0, 32) == Allocation("a", Buffer.UB, 0, 32, slots=1)
    assert Flag("f", Pipe.M, Pipe.V) == Flag("f", Pipe.M, Pipe.V, initial=0, limit=16)
    one, two = at(Buffer.UB), at(Buffer.GM)
    assert Move(Pipe.MTE2, one, two, 1, 32) == Move(Pipe.MTE2, one, two, 1, 32, "copy", 0, 0, True, True)
    assert Img2Col(one, two, 512) == Img2Col(one, two, 512, stride_w=1, input_rows=1, pipe=Pipe.MTE1)
    assert Mmad(one, one, two, 1, 2, 3) == Mmad(one, one, two, 1, 2, 3, "float16", True, Pipe.M, ())
    assert Vector("vadd", "float16", 8, one, ()) == Vector(
        "vadd", "float16", 8, one, (), calls=1, bank_conflict=False, pipe=Pipe.V
    )
    assert (Scalar(3), SetFlag(Pipe.M, "f")) == (Scalar(3, "", Pipe.S), SetFlag(Pipe.M, "f", unit_flag=False))
    assert Operand(Buffer.UB, "u", 8) == Operand(Buffer.UB, "u", 8, Affine(0, ()), Affine(0, ()))
    block = copy_block(1)
    assert Block(block.body) == Block(block.body, (), (), CoreKind.AI)
    plain = Task(1, "t", TaskKind.AI_CORE)
    assert plain == Task(1, "t", TaskKind.AI_CORE, 0, (), (), (), 0.0, 0.0, (), decisions=0, read_backs=0)
    assert Region("r", 0, 8, "weight") == Region("r", 0, 8, "weight", None, 0, 0, None, None)
