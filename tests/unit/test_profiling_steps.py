"""Steps of recurrent layers: what one costs and what bounds it, against runs with other steps or barriers."""

from __future__ import annotations

import pytest

import ascendsim as asim
from ascendsim.core.errors import InputError
from tests.support.gate import in_turn


def simulated(
    soc: str, steps: int = 20, kind: str = "LSTM", overrides: dict[str, float] | None = None
) -> asim.Result:
    rows = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind] * 64
    builder = asim.GraphBuilder()
    x = builder.input("x", (steps, 4, 128))
    weights = builder.weight("w", (1, rows, 128)), builder.weight("r", (1, rows, 64))
    layer = builder.op(kind, builder.op("Relu", x), *weights, hidden_size=64, name="layer")
    builder.output(layer, "y")
    return asim.simulate(asim.compile(builder.build(), soc, set=overrides))


@pytest.mark.parametrize(
    ("kind", "soc"), in_turn(["LSTM", "GRU", "RNN"], ["Ascend310", "Ascend310P3", "Ascend910B1"])
)
def test_twenty_more_steps_cost_twenty_times_a_step(soc: str, kind: str) -> None:
    short, long = simulated(soc, 20, kind), simulated(soc, 40, kind)
    (row,) = short.steps("layer")
    table = short.steps()
    step, more = row[3], (_layer_us(long) - _layer_us(short)) / 20
    assert row[1:3] == ("layer", 20)
    assert len(table) == 1  # the Relu has none
    assert step == pytest.approx(more, rel=0.08)  # the first one begins with empty buffers
    parts = [row[table.columns.index(name)] for name in table.columns[4:-1]]
    assert min(parts) >= 0
    assert sum(parts) >= step * 0.999


def _layer_us(result: asim.Result) -> float:
    (record,) = (record for record in result.trace.tasks if record.name == "layer")
    return (record.end - record.start) * result.trace.tick_seconds * 1e6


def test_barriers_are_what_a_step_saves_without_them() -> None:
    """Product, product, gates: three times a step all cores wait."""
    with_them = simulated("Ascend910B1")
    without = simulated("Ascend910B1", overrides={"issue.barrier_ns": 0})
    (row,), (other,) = with_them.steps(), without.steps()
    at = with_them.steps().columns.index("Barriers(us)")
    assert row[at] == pytest.approx(3 * 1.2)
    assert row[3] - other[3] == pytest.approx(row[at], rel=0.05)
    assert other[at] == 0
    assert row[-1] == "Barriers"
    assert other[-1] != "Barriers"


def test_a_loop_of_loads_is_bound_by_them() -> None:
    (row,) = simulated("Ascend310").steps()
    assert row[-1] == "MTE2"


def test_what_has_no_steps_says_so() -> None:
    result = simulated("Ascend310P3")
    with pytest.raises(InputError, match="has no steps in one task"):
        result.steps("Relu")
    with pytest.raises(InputError, match="matches no task"):
        result.steps("nothing")
