"""Task replay: which tasks are looked up, which are not, and that a key leaves nothing out that decides a
time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from enum import Enum
from typing import Any

import pytest

from ascendsim.core.errors import CompileError
from ascendsim.isa.instructions import (
    Affine,
    Barrier,
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
    Vector,
)
from ascendsim.isa.listing import instruction_name, moved_bytes
from ascendsim.isa.program import Access, Block, CoreKind, Program, Task, TaskKind
from ascendsim.machine import Statistics, run
from ascendsim.machine.block_key import block_key
from ascendsim.machine.clock import Clock
from ascendsim.machine.compiled import LoopEnd, compile_block
from ascendsim.machine.skipping_clock import Timeline
from ascendsim.soc.spec import SocSpec
from ascendsim.trace.records import Trace
from tests.support.random_blocks import work
from tests.support.random_programs import renamed
from tests.support.toy_programs import copy_block, gm, matmul_block, program_of, task_of
from tests.support.toy_soc import TOY, bare, toy

SUFFIXES = ("", "_1", "_2", "_3")
REGIONS = {name + suffix: 1 << 16 for suffix in SUFFIXES for name in ("a", "b", "c", "x", "y")}


def both(program: Program, soc: SocSpec = TOY, **options: Any) -> tuple[Trace, Statistics]:
    """The trace with replay, which must be the one without, and what was saved."""
    statistics = Statistics()
    trace = run(program, soc, statistics=statistics, **options)
    assert trace == run(program, soc, replay=False, fast_forward=False, **options)
    return trace, statistics


def layers(*tasks: Task) -> list[Task]:
    """Tasks four times over, each time with regions of their own."""
    return [
        renamed(task, len(tasks) * number, suffix) for number, suffix in enumerate(SUFFIXES) for task in tasks
    ]


def test_layers_on_other_regions_are_replayed() -> None:
    tasks = layers(task_of((matmul_block(2, 3), 3)), task_of((copy_block(9), 1), (copy_block(3), 1), id=1))
    trace, saved = both(program_of(*tasks, regions=REGIONS), instructions=True)
    assert (saved.simulated, saved.replayed) == (2, 6)
    assert {item.task for item in trace.instructions} == set(range(8))


def test_work_in_the_first_tick_of_all_is_work_in_the_replayed_tasks_too() -> None:
    """Nothing costs time before it on this chip, so it begins in tick 0, which is not the same as never."""
    trace, saved = both(
        program_of(*layers(task_of((Block((work(Pipe.V, 512),)), 1))), regions=REGIONS), bare()
    )
    assert saved.replayed == 3
    assert trace.tasks[0].first_compute == 0
    assert [task.first_compute - task.start for task in trace.tasks] == [0, 0, 0, 0]


def test_replayed_records_hold_skipped_periods_too() -> None:
    trace, saved = both(
        program_of(*layers(task_of((copy_block(300), 1))), regions=REGIONS), instructions={0, 3}, solo=False
    )
    assert saved.jumps == 2  # once for the tasks that are recorded, once for the others
    assert saved.replayed == 2
    assert [sum(item.task == number for item in trace.instructions) for number in range(4)] == [
        900,
        0,
        0,
        900,
    ]


def test_what_l2_holds_tells_tasks_apart() -> None:
    """The second task finds its input in L2, the third one too; the fourth reads what nobody has read."""
    first = task_of((copy_block(9), 1))
    tasks = [renamed(first, number, suffix) for number, suffix in enumerate(("", "", "", "_1"))]
    trace, saved = both(program_of(*tasks, regions=REGIONS))
    assert (saved.simulated, saved.replayed) == (2, 2)
    spans = [task.end - task.start for task in trace.tasks]
    assert spans[1] == spans[2] < spans[0] == spans[3]


def test_dirty_bytes_that_are_pushed_out_tell_tasks_apart() -> None:
    soc = toy(l2={"size": 3 << 15})
    tasks = layers(
        task_of((copy_block(16), 1), accesses=(Access("x", 1 << 16, 0, False), Access("y", 1 << 16, 0, True)))
    )
    _, saved = both(program_of(*tasks, regions=REGIONS), soc)
    assert saved.simulated == 2  # the first one evicts nothing
    assert saved.replayed == 2


def test_other_counts_and_blocks_are_other_tasks() -> None:
    tasks = [
        task_of((copy_block(size), count), id=number)
        for number, (size, count) in enumerate(((4, 1), (4, 2), (5, 1)))
    ]
    _, saved = both(program_of(*tasks, regions=REGIONS), toy(l2={"software_managed": True}))
    assert (saved.simulated, saved.replayed) == (3, 0)


def test_tasks_that_share_the_cores_are_simulated() -> None:
    tasks = [task_of((copy_block(20), 1), id=number, stream=number % 2) for number in range(6)]
    _, saved = both(program_of(*tasks, regions=REGIONS), toy(l2={"software_managed": True}))
    assert (saved.simulated, saved.replayed) == (6, 0)


def test_streams_that_wait_leave_replayed_tasks_without_appointments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only what waits, the two tasks beside it and the one after them have their (three) ticks set."""
    counted = Counter[str]()
    at = Timeline.at

    def count(self: Timeline, tick: int, action: Callable[[], None]) -> None:
        counted["at"] += 1
        at(self, tick, action)

    monkeypatch.setattr(Timeline, "at", count)
    tasks = layers(task_of((copy_block(20), 1)), task_of((copy_block(5), 2), id=1))
    alone, counts = program_of(*tasks, regions=REGIONS), []
    cpu = Task(8, "cpu", TaskKind.AI_CPU, stream=1, cpu_us=1, waits_for=(5,))
    late = task_of((copy_block(20), 1), id=9, stream=2, waits_for=(7, 8))
    for program in (alone, program_of(*tasks, cpu, late, regions=REGIONS)):
        trace = run(program, TOY)
        counts.append(counted.total())
        counted.clear()
        assert trace == run(program, TOY, replay=False)
        counted.clear()
    records = {record.task: record for record in trace.tasks}
    assert records[8].start >= records[5].end
    assert records[9].start >= max(records[7].end, records[8].end)
    assert counts[1] <= counts[0] + 3 * 4


def test_a_task_is_simulated_if_something_comes_before_its_end() -> None:
    soc = toy(l2={"software_managed": True}, ai_cpu={"dispatch_us": 0, "overhead_us": 0})
    tasks = [task_of((copy_block(60), 1), id=number) for number in range(4)]
    last = run(program_of(*tasks, regions=REGIONS), soc).tasks[-1]
    cpu = Task(4, "cpu", TaskKind.AI_CPU, stream=1, cpu_us=(last.start + last.end) / 2000)
    late = task_of((copy_block(60), 1), id=5, stream=1)
    _, saved = both(program_of(*tasks, cpu, late, regions=REGIONS), soc)
    # the last copy of the first stream and the one that comes meanwhile
    assert (saved.simulated, saved.replayed) == (3, 2)


def test_the_switch_turns_it_off() -> None:
    saved = Statistics()
    run(
        program_of(*layers(task_of((copy_block(9), 1))), regions=REGIONS), TOY, replay=False, statistics=saved
    )
    assert saved.replayed == 0


def test_progress_counts_replayed_tasks() -> None:
    seen: list[tuple[int, int]] = []
    run(
        program_of(*layers(task_of((copy_block(9), 1))), regions=REGIONS),
        TOY,
        progress=lambda *at: seen.append(at),
    )
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_keys_number_regions_in_the_order_of_their_first_use() -> None:
    block = copy_block(5)
    other = renamed(task_of((block, 1)), 0, "_1").groups[0].block
    assert block_key(block) == (block_key(other)[0], ("x", "y"))
    assert block_key(other)[1] == ("x_1", "y_1")
    same = Block((Move(Pipe.MTE2, UB, gm("x", 64), 1, 64), Move(Pipe.MTE3, gm("x", 64), UB, 1, 64)))
    two = Block((Move(Pipe.MTE2, UB, gm("x", 64), 1, 64), Move(Pipe.MTE3, gm("y", 64), UB, 1, 64)))
    assert block_key(same)[0] != block_key(two)[0]


def test_keys_know_which_transfers_come_back_to_the_same_bytes() -> None:
    def block(base: int, distance: int, step: int = 64) -> Block:
        loads = [
            Move(Pipe.MTE2, UB, gm("x", 64, Affine(at, (("i", step),))), 1, 64)
            for at in (base, base + distance)
        ]
        return Block((Loop("i", 3, tuple(loads)),))

    key, same = block_key(block(0, 0))[0], outcome(block(0, 0), TOY)
    # a slice of another tensor
    assert (block_key(block(512, 0))[0], outcome(block(512, 0), TOY)) == (key, same)
    for other in (block(0, 192), block(0, 0, step=128)):
        assert block_key(other)[0] != key
        assert outcome(other, TOY) != same


UB, UB2, L1 = Operand(Buffer.UB, "u", 64), Operand(Buffer.UB, "v", 64), Operand(Buffer.L1, "l", 512)
L0A, L0B, L0C = Operand(Buffer.L0A, "a", 512), Operand(Buffer.L0B, "b", 512), Operand(Buffer.L0C, "c", 1024)
SAMPLES: tuple[Instruction, ...] = (
    Move(Pipe.MTE2, UB, gm("x", 64, Affine(0, (("i", 64),))), 2, 32, src_stride=64, dst_stride=32),
    Move(Pipe.MTE3, gm("y", 64, Affine(64, (("i", 64), ("j", 128)))), UB, 1, 64, aligned=False),
    Move(Pipe.MTE1, L0A, L1, 1, 512, "load2d"),
    Move(Pipe.MTE2, replace(L1, bytes=4096), gm("x", 64, Affine(0, (("i", 64),))), 1, 64, "aipp"),
    Move(Pipe.FIX, gm("y", 512, Affine(0, (("i", 512),))), L0C, 1, 512, "fixpipe"),
    Img2Col(L0B, L1, 1024, 2, 3),
    Mmad(L0C, L0A, L0B, 16, 32, 48, fresh_at=("i",), bias=Operand(Buffer.BT, "t", 64)),
    Vector("vadd", "float16", 300, UB, (UB2, UB), calls=2),
    Vector("l0c_to_ub", "float32", 256, UB, (L0C,)),
    Scalar(7, "address", dsts=(UB,), srcs=(UB2,)),
    SetFlag(Pipe.M, "f"),
    Barrier(Pipe.V),
    Move(Pipe.MTE2, UB, gm("x", 64), 1, 64, cached=False),
    Move(Pipe.MTE2, L1, gm("x", 64), 2, 32, "aipp"),
)
FLAGS = (Flag("f", Pipe.M, Pipe.V, 0, 4), Flag("g", Pipe.M, Pipe.V, 1, 4))
OTHER_NAMES = {"f": "g", "float16": "float32", "float32": "float16", "vadd": "vmuls", "copy": "nd2nz"}


def variants(value: Any) -> Iterator[Any]:
    """Other values for a field: numbers, names, members of enumerations, operands with one field changed."""
    if value is None:
        yield 1
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, value + 16, 2 * value + 3)
    elif isinstance(value, str):
        yield from (OTHER_NAMES.get(value, value + "2"), "vexp")
    elif isinstance(value, Enum):
        yield from (other for other in type(value) if other is not value)
    elif isinstance(value, Affine):
        yield from (
            Affine(value.base + 32, value.terms),
            Affine(value.base, (("i", 0), ("j", 5))),
            Affine(value.base, (("k", 5),)),
        )
    elif isinstance(value, tuple):
        yield from (
            value[1:],
            (*value, *value[:1]),
            *((changed, *value[1:]) for changed in (variants(value[0]) if value else ())),
        )
    else:
        yield from (
            replace(value, **{field.name: other})
            for field in fields(value)
            for other in variants(getattr(value, field.name))
        )


def around(instruction: Instruction, flags: tuple[Flag, ...] = FLAGS, core: CoreKind = CoreKind.AI) -> Block:
    """A block with an instruction amid others on the same operands."""
    body = (instruction, Vector("vadd", "float16", 128, UB, (UB2,)))
    return Block((Loop("i", 3, (Loop("j", 2, (Loop("k", 2, body),)),)),), (), flags, core)


def outcome(block: Block, soc: SocSpec) -> object:
    """All that the machine uses of a compiled block, with regions by number; the error if it does not
    compile."""
    try:
        compiled = compile_block(block, soc, Clock.of(soc))
    except CompileError as error:
        return str(error)
    numbers = {name: str(number) for number, name in enumerate(compiled.regions)}
    steps = [
        step
        if isinstance(step, LoopEnd)
        else [
            (lane, issue, op[:-1], instruction_name(op[-1]), moved_bytes(op[-1]))
            for lane, issue, op in step
            if op
        ]
        for step in compiled.code
    ]
    demands = [(region, replace(demand, region="")) for region, demand in compiled.demands]
    derived = (
        compiled.lanes,
        compiled.depths,
        compiled.heads,
        compiled.flags,
        compiled.ends,
        compiled.scalar_sets,
        compiled.macs,
    )
    totals = (
        compiled.read_bytes,
        compiled.write_bytes,
        compiled.footprint.renamed(numbers),
        compiled.operands,
        compiled.trips,
    )
    return steps, demands, derived, totals, compiled.block.core


@pytest.mark.parametrize(
    "soc",
    [TOY, toy(generation="c220", ports={"l0c_to_gm": 64, "fixpipe_elements_per_cycle": 4})],
    ids=["v100", "c220"],
)
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: f"{type(sample).__name__}-{sample.pipe.value}")
def test_blocks_with_the_same_key_take_the_same_time(sample: Instruction, soc: SocSpec) -> None:
    key, expected = block_key(around(sample))[0], outcome(around(sample), soc)
    told_apart = 0
    for changed in variants(sample):
        same_key = block_key(around(changed))[0] == key
        told_apart += not same_key
        if same_key:
            assert outcome(around(changed), soc) == expected, changed
    assert told_apart >= len(fields(sample)) - (4 if hasattr(sample, "effect") else 3)


def test_keys_tell_flags_loops_and_cores_apart() -> None:
    block = around(SAMPLES[0])
    others = [replace(block, flags=(changed, FLAGS[1])) for changed in dict.fromkeys(variants(FLAGS[0]))]
    loop = block.body[0]
    assert isinstance(loop, Loop)
    others += [
        replace(block, body=(changed,))
        for changed in (replace(loop, trips=4), replace(loop, trips=0), replace(loop, body=loop.body * 2))
    ]
    others += [replace(block, core=CoreKind.VECTOR), replace(block, body=(*block.body, *block.body))]
    keys = [block_key(other)[0] for other in others]
    assert block_key(block)[0] not in keys
    assert len(set(keys)) == len(keys)


def test_the_end_of_a_loop_is_part_of_the_key() -> None:
    one, two = Scalar(1), Scalar(2)
    inside = Block((Loop("i", 3, (one, two)),))
    behind = Block((Loop("i", 3, (one,)), two))
    assert block_key(inside)[0] != block_key(behind)[0]
