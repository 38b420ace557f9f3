"""Tasks on the AI CPU: their times against published ones, and the bytes that they move."""

from __future__ import annotations

import numpy as np
import pytest

import ascendsim as asim
from ascendsim import soc
from ascendsim.api.result import Result

# CumSum of int64 on a die of 910C, how many and us on the device (FlagGems-vllm pull request 818)
MEASURED = (
    (18, 40),
    (288, 34),
    (1, 31),
    (2, 30),
    (17, 31),
    (19, 31),
    (32, 31),
    (36, 31),
    (96, 31),
    (576, 32),
)
FIRST = ("Ascend310", "Ascend910A", "Ascend910B", "Ascend910ProA", "Ascend910ProB", "Ascend910PremiumA")


def cumulative(count: int, chip: str) -> Result:
    builder = asim.GraphBuilder()
    axis = builder.constant(np.int64(0), "axis")
    builder.output(builder.op("CumSum", builder.input("x", (count,), "int64"), axis), "y")
    return asim.simulate(asim.compile(builder.build(), soc=chip))


@pytest.mark.parametrize(("count", "us"), MEASURED)
def test_sums_of_wide_integers_take_what_was_measured(count: int, us: float) -> None:
    (task,) = cumulative(count, "Ascend910_9391").profile.tasks
    assert task.record.kind == "AI_CPU"
    assert cumulative(count, "Ascend910_9391").trace.us(task.duration) == pytest.approx(us, rel=0.25)


@pytest.mark.parametrize("name", soc.names())
def test_a_figure_of_another_generation_is_marked(name: str) -> None:
    spec = soc.load(name)
    whole = spec.ai_cpu.dispatch_us + spec.ai_cpu.overhead_us
    if spec.generation == "c220":
        assert whole == pytest.approx(np.median([us for _, us in MEASURED]))
        return
    assert whole == pytest.approx(222, rel=0.01)  # profiles of Ascend910A
    marked = {"ai_cpu.dispatch_us", "ai_cpu.overhead_us"} & spec.assumed
    assert len(marked) == (0 if name in FIRST else 2)


def with_a_power_between(chip: str, fusion: str) -> Result:
    builder = asim.GraphBuilder()
    before = builder.op("Exp", builder.input("x", (1, 16, 64, 196)), name="exp")
    power = builder.op("Pow", before, 3.0, name="pow")
    builder.output(builder.op("Relu", power, name="relu"), "y")
    options = {"aicpu_pow": True}
    return asim.simulate(asim.compile(builder.build(), soc=chip, fusion=fusion, options=options))


@pytest.mark.parametrize("chip", ["Ascend310", "Ascend310P3", "Ascend910A", "Ascend910B1", "Ascend310B1"])
@pytest.mark.parametrize("fusion", ["off", "ub", "all"])
def test_every_byte_of_every_tensor_is_moved_by_who_reads_and_who_writes_it(chip: str, fusion: str) -> None:
    result = with_a_power_between(chip, fusion)
    power = next(record for record in result.trace.tasks if record.kind == "AI_CPU")
    task = next(task for task in result.model.program.tasks if task.id == power.task)
    read = sum(access.moved_bytes for access in task.accesses if not access.write)
    written = sum(access.moved_bytes for access in task.accesses if access.write)
    assert read > written > 0  # the exponent too
    assert sum(power.read_bytes.values()) == read
    assert sum(power.write_bytes.values()) == written
    assert power.write_bytes["ddr"] == written  # results of the AI CPU stay in DDR


def test_l2_fusion_saves_the_write_of_the_ai_core_and_the_read_of_the_ai_cpu() -> None:
    plain, fused = (with_a_power_between("Ascend310", fusion) for fusion in ("ub", "all"))
    size = 2 * 16 * 64 * 196

    def ddr(result: Result) -> int:
        return sum(
            task.read_bytes.get("ddr", 0) + task.write_bytes.get("ddr", 0) for task in result.trace.tasks
        )

    assert ddr(plain) - ddr(fused) == 2 * size
    assert fused.model.buffers.l2.saved_bytes == 2 * size


def test_the_ai_cpu_reads_from_a_cache_what_it_holds_and_leaves_it_as_it_was() -> None:
    result = with_a_power_between("Ascend910A", "all")
    size = 2 * 16 * 64 * 196
    _, power, relu = result.trace.tasks
    assert power.read_bytes["l2"] == size
    assert power.read_bytes["ddr"] == 2  # the exponent
    assert relu.read_bytes["ddr"] == size  # what the AI CPU wrote is not in L2
