"""Re-rolled streams: expanded they are the recording, and they take as long as the flat ones."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from ascendsim import asc
from ascendsim.asc.launch import bind, record
from ascendsim.asc.recorder import Context, Forms, Recorder
from ascendsim.isa.forms import Form, Site
from ascendsim.isa.instructions import Pipe
from ascendsim.isa.program import BlockGroup, CoreKind, MemoryPlan, Program, Task, TaskKind
from ascendsim.machine import run as run_machine
from ascendsim.soc import load
from ascendsim.tile.blocks import block_of
from ascendsim.tile.reroll import Leaf, Repeat, Roller, expand
from tests.support.asc_kernels import softmax
from tests.support.gate import in_one


class Plain(Form):
    """A form with a number of addresses and scalars."""

    def __init__(self, number: int, addresses: int, scalars: int = 0) -> None:
        super().__init__(number, None, Pipe.V, Site("k.py", 1, "k", "x"))
        self.addresses, self.width = addresses, addresses + scalars


FORMS = [Plain(number, number % 4, number % 2) for number in range(6)]


def stream(random: Random, depth: int = 0) -> list[tuple[int, list[int]]]:
    """Rows of random nests of loops; some addresses do not move regularly."""
    rows: list[tuple[int, list[int]]] = []
    for _ in range(random.randint(1, 4)):
        if depth < 3 and random.random() < 0.5:
            body, trips = stream(random, depth + 1), random.randint(1, 6)
            steps = [[random.choice([0, 0, 32, 512, -64]) for _ in values] for _, values in body]
            odd = random.random() < 0.2
            for trip in range(trips):
                for (form, values), step in zip(body, steps, strict=True):
                    jump = random.randrange(0, 999) if odd else 0
                    rows.append((form, [v + trip * s + jump for v, s in zip(values, step, strict=True)]))
        else:
            form = random.randrange(len(FORMS))
            rows.append((form, [random.randrange(0, 4096, 32) for _ in range(FORMS[form].addresses)]))
    return rows


def rolled(rows: list[tuple[int, list[int]]], random: Random, cut: int | None = None) -> Roller:
    """A roller that got the rows in pieces, with random scalars."""
    roller = Roller(FORMS)
    for start in range(0, len(rows), cut or len(rows)):
        part = rows[start : start + (cut or len(rows))]
        values = [
            value
            for form, addresses in part
            for value in [*addresses, *(random.randrange(1 << 40) for _ in range(form % 2))]
        ]
        roller.add(np.array([form for form, _ in part], np.int32), np.array(values, np.int64))
    return roller


@in_one("seed", range(60))
def test_expansion_is_the_recording(seed: int) -> None:
    random = Random(seed)
    rows = stream(random)
    for cut in (None, 7):
        found = list(expand(rolled(rows, random, cut).tree()))
        assert found == [(form, tuple(values)) for form, values in rows]


def test_nests_become_nests() -> None:
    rows = [
        (form, [1000 * i + 32 * j + 7 * number for number in range(FORMS[form].addresses)])
        for i in range(20)
        for part in ([(0, 0)], [(form, j) for j in range(9) for form in (3, 2)], [(5, 0)])
        for form, j in part
    ]
    (loop,) = rolled(rows, Random(0)).tree()
    assert isinstance(loop, Repeat)
    assert loop.trips == 20
    first, inner, last = loop.body
    assert isinstance(inner, Repeat)
    assert (inner.trips, len(inner.body)) == (9, 2)
    assert isinstance(first, Leaf)
    assert isinstance(last, Leaf)
    assert last.steps == ((1000,) * FORMS[5].addresses,)


def test_alternating_slots_become_a_loop_over_pairs() -> None:
    rows = [(3, [512 * (i % 2), 64 * i, 8 * i]) for i in range(40)]
    (loop,) = rolled(rows, Random(0)).tree()
    assert isinstance(loop, Repeat)
    assert (loop.trips, len(loop.body)) == (20, 2)


def test_scalars_do_not_keep_loops_apart_and_are_kept_in_order() -> None:
    roller = Roller(FORMS)
    numbers = np.array([5, 3, 8, 1, 9, 2], np.int64)
    values = np.stack([np.arange(6) * 32, numbers], 1).reshape(-1)
    roller.add(np.full(6, 1, np.int32), values)
    assert roller.items == 1
    np.testing.assert_array_equal(np.concatenate(roller.scalars), numbers)


def test_long_streams_stay_small() -> None:
    rows = [(2, [32 * (i % 7), 64 * i]) for i in range(200_000)]
    roller = rolled(rows, Random(0), 50_000)
    assert roller.items < 10


# --- the machine ------------------------------------------------------------------------------------------


@asc.jit
def scaled(x: asc.GlobalAddress, z: asc.GlobalAddress, tiles: int, tile: int, steps: int) -> None:
    """Two slots by hand, with flags; the number of vector instructions changes from tile to tile."""
    x_gm, z_gm = asc.GlobalTensor(), asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    z_gm.set_global_buffer(z)
    slots = [asc.LocalTensor(x.dtype, asc.TPosition.VECCALC, 4 * tile * slot, tile) for slot in range(2)]
    for slot in range(2):
        asc.set_flag(asc.HardEvent.MTE3_MTE2, slot)
    for i in range(tiles):
        slot, here = slots[i % 2], i % 2
        asc.wait_flag(asc.HardEvent.MTE3_MTE2, here)
        asc.data_copy(slot, x_gm[i * tile :], tile)
        asc.set_flag(asc.HardEvent.MTE2_V, here)
        asc.wait_flag(asc.HardEvent.MTE2_V, here)
        for _ in range(1 + i % steps):
            asc.muls(slot, slot, 2.0, tile)
        asc.pipe_barrier(asc.PipeID.PIPE_V)
        asc.set_flag(asc.HardEvent.V_MTE3, here)
        asc.wait_flag(asc.HardEvent.V_MTE3, here)
        asc.data_copy(z_gm[i * tile :], slot, tile)
        asc.set_flag(asc.HardEvent.MTE3_MTE2, here)
    for slot in range(2):
        asc.wait_flag(asc.HardEvent.MTE3_MTE2, slot)


def ticks(kernel: asc.Kernel, args: list[object]) -> tuple[list[int], int]:
    """Ticks of a kernel on one core: re-rolled, and row by row; and its statements re-rolled."""
    soc, forms = load("Ascend910B1"), Forms()
    given, arrays = bind(kernel, args)
    rollers = [Roller(forms.listed), Roller(forms.listed, longest=0)]

    def sink(rows: np.ndarray, values: np.ndarray) -> None:
        for roller in rollers:
            roller.add(rows, values)

    record(kernel, given, Recorder(Context(soc, 1, forms, 1 << 20), 0, sink, lambda *_: 0))
    ends = []
    for roller in rollers:
        block = block_of(roller.tree(), forms.listed, soc, CoreKind.VECTOR)
        task = Task(0, "kernel", TaskKind.AI_VECTOR_CORE, groups=(BlockGroup(block, 1),))
        plan = MemoryPlan.in_a_row({one.region.name: one.array.nbytes for one in arrays}, "input")
        ends.append(run_machine(Program((task,), plan), soc).end)
    assert rollers[1].items == sum(1 for _ in expand(rollers[0].tree()))
    return ends, rollers[0].items


@pytest.mark.parametrize(("tiles", "tile", "steps"), [(40, 512, 1), (41, 64, 3), (24, 2048, 2)])
def test_rolled_and_flat_streams_take_equal_times(tiles: int, tile: int, steps: int) -> None:
    x, z = np.zeros(tiles * tile, np.float32), np.zeros(tiles * tile, np.float32)
    (rolled_end, flat_end), items = ticks(scaled, [x, z, tiles, tile, steps])
    assert rolled_end == flat_end
    assert items < 70


def test_softmax_takes_equal_times_rolled_and_flat() -> None:
    x, y = np.zeros((12, 1024), np.float32), np.zeros((12, 1024), np.float32)
    (rolled_end, flat_end), _ = ticks(softmax, [x, y, 12, 1024])
    assert rolled_end == flat_end
