"""Parts of one task meet in L2 as tasks do: what one writes the next one finds there, as far as it fits."""

from __future__ import annotations

from itertools import pairwise

import pytest

from ascendsim.isa.footprint import footprint
from ascendsim.lower.program import Lowering
from ascendsim.machine import run
from ascendsim.opset.work import SequenceWork, Step, Stream, VectorWork
from ascendsim.soc import SocSpec, load
from tests.support.lowering import program_of, ref


def steps(*names: str, elements: int) -> tuple[VectorWork, ...]:
    """Elementwise parts that hand one tensor to the next."""
    refs = [ref(name, (elements,)) for name in names]
    return tuple(
        VectorWork(1, elements, (Step("vadds"),), (Stream(x),), (Stream(y),)) for x, y in pairwise(refs)
    )


def ddr_bytes(soc: SocSpec, *works: VectorWork | SequenceWork) -> tuple[int, int]:
    """Bytes read from and written to DRAM by all tasks."""
    lowering = Lowering(soc)
    trace = run(program_of([stage for work in works for stage in lowering.stages(work)]), soc)
    return sum(task.read_bytes["ddr"] for task in trace.tasks), sum(
        task.write_bytes["ddr"] for task in trace.tasks
    )


@pytest.mark.parametrize("chip", ["Ascend310", "Ascend310P3", "Ascend910A"])
@pytest.mark.parametrize("share", [0.1, 0.3, 0.45, 0.6, 0.9, 1.5])
def test_parts_of_a_task_cost_dram_what_tasks_cost_it(chip: str, share: float) -> None:
    soc = load(chip)
    size = soc.l2.size or 0
    works = steps("x", "h", "g", "x2", "y", elements=int(size * share) // 2 // 4096 * 4096)
    joined, apart = ddr_bytes(soc, SequenceWork(works)), ddr_bytes(soc, *works)
    assert joined == pytest.approx(apart, rel=1e-4, abs=8)


def test_what_a_part_has_written_needs_no_dram() -> None:
    soc = load("Ascend910A")
    works = steps("x", "h", "y", elements=1 << 20)
    assert ddr_bytes(soc, SequenceWork(works))[0] == 2 << 20  # x alone


def test_parts_in_a_loop_are_no_phases() -> None:
    (stage,) = Lowering(load("Ascend910A")).stages(
        SequenceWork(steps("x", "h", "y", elements=1 << 16), repeat=4)
    )
    assert {stream.phase for stream in footprint(stage.groups[0].block).streams} == {0}


def test_cores_without_a_part_count_phases_as_the_others_do() -> None:
    """The second part is small and runs on one core; what the third part reads was written by the first
    one."""
    soc = load("Ascend910A")
    wide, again = steps("x", "h", elements=1 << 20)[0], steps("h", "y", elements=1 << 20)[0]
    small = steps("a", "b", elements=64)[0]
    (stage,) = Lowering(soc).stages(SequenceWork((wide, small, again)))
    assert [{stream.phase for stream in footprint(group.block).streams} for group in stage.groups] == [
        {0, 1, 2},
        {0, 2},
    ]
    assert ddr_bytes(soc, SequenceWork((wide, small, again)))[0] == (2 << 20) + 128


@pytest.mark.parametrize("share", [0.1, 0.8, 1.4])
def test_a_tensor_of_which_a_part_reads_half_counts_half_for_it(share: float) -> None:
    """As for a task that reads half, before one that reads all."""
    soc = load("Ascend910A")
    elements = int((soc.l2.size or 0) * share) // 4 // 4096 * 4096
    (half,), (whole,) = steps("x", "h", elements=elements), steps("x", "y", elements=2 * elements)
    joined, apart = ddr_bytes(soc, SequenceWork((half, whole))), ddr_bytes(soc, half, whole)
    assert joined == pytest.approx(apart, rel=1e-4, abs=8)


@pytest.mark.parametrize("share", [0.05, 0.2, 0.35, 0.7])
def test_what_l2_cannot_hold_at_the_end_has_gone_to_dram(share: float) -> None:
    """Each byte once, whether it went straight there or was pushed out by what came later."""
    soc = load("Ascend310P3")
    size = soc.l2.size or 0
    elements = int(size * share) // 2 // 4096 * 4096
    works = steps(*(f"t{number}" for number in range(12)), elements=elements)
    written = 11 * 2 * elements
    out = ddr_bytes(soc, *works)[1]
    assert max(0, written - size) <= out <= written
    assert (out > 0) == (12 * 2 * elements > size)
