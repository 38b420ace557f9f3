"""Collectives: their times against figures that were published, and their operators."""

from __future__ import annotations

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.errors import GraphError, InputError
from ascendsim.soc.links import collective_us


# HCCL 8.5 on A3: devices, kind, bytes, us in a benchmark
@pytest.mark.parametrize(
    ("devices", "kind", "size", "us"),
    [
        (16, "HcomAllGather", 74_000, 12.5),
        (16, "HcomAllGather", 1_300_000, 176.7),
        (16, "HcomAllGather", 5_000_000, 435.1),
        (16, "HcomAllGather", 21_400_000, 1628.0),
        (16, "HcomReduceScatter", 1_300_000, 216.3),
        (16, "HcomReduceScatter", 8_800_000, 808.5),
        (16, "HcomReduceScatter", 40_000_000, 3664.6),
        (16, "HcomAllReduce", 160_000, 12.0),
        (8, "HcomAllGather", 1_000, 5.4),
        (8, "HcomAllGather", 596_000, 155.3),
        (8, "HcomAllGather", 3_500_000, 166.9),
        (8, "HcomReduceScatter", 14_000, 6.1),
    ],
)
def test_figures_of_collectives_come_out(devices: int, kind: str, size: int, us: float) -> None:
    found = collective_us("Ascend910_93", kind, devices, size, in_network=False)
    assert found == pytest.approx(us, rel=0.1)


def test_lcal_reduces_4_mi_halves_in_100_us() -> None:
    assert collective_us("Ascend910B", "HcomAllReduce", 8, 2 << 22) == pytest.approx(100, rel=0.2)


def test_groups_between_those_with_figures() -> None:
    times = [collective_us("Ascend910_93", "HcomAllReduce", count, 80_000) for count in (2, 4, 8, 12, 16)]
    assert times == sorted(times)
    assert collective_us("Ascend910_93", "HcomAllReduce", 1, 80_000) == 0


def test_a_network_waits_longer_than_a_benchmark() -> None:
    quiet, busy = (
        collective_us("Ascend910_93", "HcomAllReduce", 16, 160_000, in_network=one) for one in (0, 1)
    )
    assert busy - quiet == pytest.approx(7.7)


def test_bad_groups() -> None:
    with pytest.raises(InputError, match="must be from 1 to 16, not 17"):
        collective_us("Ascend910B", "HcomAllReduce", 17, 1)
    with pytest.raises(
        InputError,
        match="has no figures of its links; choose one of Ascend310P, Ascend910, Ascend910B, Ascend910_93",
    ):
        collective_us("Ascend310", "HcomAllReduce", 2, 1)


def collective(kind: str, shape: tuple[int, ...], devices: int) -> asim.Graph:
    builder = asim.GraphBuilder("net")
    x = builder.op("Relu", builder.input("x", shape))
    y = builder.op(kind, x, domain="ascend", rank_size=devices, known_us=25.0)
    builder.output(builder.op("Relu", y), "y")
    return builder.build()


@pytest.mark.parametrize(
    ("kind", "rows"),
    [("HcomAllReduce", 8), ("HcomAllGather", 32), ("HcomReduceScatter", 2), ("HcomAllToAll", 8)],
)
def test_a_collective_is_a_task_of_its_own(kind: str, rows: int) -> None:
    graph = collective(kind, (8, 64), 4)
    assert graph.outputs[0].shape == (rows, 64)
    result = asim.simulate(asim.compile(graph, "Ascend910B3"))
    first, middle, last = result.profile.tasks
    assert (middle.op_type, middle.is_communication) == (kind, True)
    assert result.trace.us(middle.duration) == pytest.approx(25, abs=1)
    assert first.record.end <= middle.record.start
    assert middle.record.end <= last.record.start


def test_equal_collectives_keep_their_times() -> None:
    builder = asim.GraphBuilder("net")
    x = builder.input("x", (8, 64))
    for us in (20.0, 20.0, 50.0):
        x = builder.op("HcomAllReduce", builder.op("Relu", x), domain="ascend", rank_size=2, known_us=us)
    builder.output(x, "y")
    tasks = asim.compile(builder.build(), "Ascend910B3").program.tasks
    assert [task.known_us for task in tasks if task.known_us] == [20, 20, 50]


def test_one_device_has_values_and_no_task() -> None:
    model = asim.compile(collective("HcomAllGather", (8, 64), 1), "Ascend910B3")
    x = np.linspace(-1, 1, 512, dtype=np.float32).reshape(8, 64)
    assert not [task for task in model.program.tasks if task.known_us]
    np.testing.assert_allclose(asim.run(model, {"x": x}).outputs["y"], np.maximum(x, 0), atol=1e-3)


def test_what_others_hold_is_not_known() -> None:
    model = asim.compile(collective("HcomAllReduce", (8, 64), 2), "Ascend910B3")
    with pytest.raises(InputError, match="needs what all 2 devices hold"):
        asim.run(model, asim.random_inputs(model))
    with pytest.raises(GraphError, match="that 3 devices share evenly, not 8"):
        collective("HcomReduceScatter", (8, 64), 3)
