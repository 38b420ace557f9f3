"""How sure a predicted duration is: quantiles of errors, whom they count, and what they hold of families that
they did not see."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_hex

import ascendsim as asim
from ascendsim.api.network_kind import KINDS
from ascendsim.cli.main import main
from ascendsim.core.errors import InputError
from ascendsim.opset.facts import Kind
from ascendsim.plot.comparison import comparison_timelines
from ascendsim.plot.frame import time_scale
from ascendsim.plot.palette import SURE
from ascendsim.profiling import interval
from ascendsim.profiling.interval import (
    FEWEST,
    OPERATOR,
    SAME_KIND,
    UNMEASURED,
    MeasuredError,
    interval_of,
    measured_errors,
    quantile,
    ratios,
    rows_for,
)
from ascendsim.soc import names
from ascendsim.validate import known_errors, measured_points
from ascendsim.validate.known_errors import coverages
from tests.support.synthetic_run import synthetic_run


def _rows(**errors: float) -> tuple[MeasuredError, ...]:
    """A network an error, of the kind that its name begins with."""
    return tuple(
        MeasuredError("C", False, name.partition("_")[0], name, error) for name, error in errors.items()
    )


def _many(count: int, error: float = 0.0, kind: str = "a") -> tuple[MeasuredError, ...]:
    return tuple(MeasuredError("C", False, kind, f"{kind}{i}", error) for i in range(count))


def test_quantiles_of_equal_weights_are_those_of_hazen() -> None:
    values = np.random.default_rng(2).normal(size=17)
    weighted = [(float(value), 0.5) for value in values]
    for level in (0.0, 0.1, 0.37, 0.5, 0.9, 1.0):
        assert quantile(weighted, level) == pytest.approx(np.quantile(values, level, method="hazen"))


def test_a_weight_counts_as_so_many_values() -> None:
    doubled = quantile([(1.0, 1.0), (2.0, 2.0), (5.0, 1.0)], 0.5)
    assert doubled == pytest.approx(2.0)
    assert quantile([(0.0, 1.0), (1.0, 3.0)], 0.9) == 1.0
    assert quantile([(0.0, 3.0), (1.0, 1.0)], 0.1) == 0.0


def test_a_network_counts_once_however_many_batches_of_it_were_measured() -> None:
    others = _many(9)
    once = (*others, MeasuredError("C", False, "b", "b", 1.0))
    often = (*others, *[MeasuredError("C", False, "b", "b", 1.0) for batch in range(1, 40)])
    assert ratios(often, "x", 0.5) == pytest.approx(ratios(once, "x", 0.5), abs=0.01)
    assert ratios(often, "x", 0.5) == pytest.approx((1.0, 1.0))


def test_networks_of_the_same_kind_count_most_but_not_alone() -> None:
    rows = (*_many(12, 0.0, "a"), *_many(3, 0.7, "b"))
    assert SAME_KIND > 1
    low, high = ratios(rows, "b", 0.5)
    assert ratios(rows, "a", 0.5) == pytest.approx((1.0, 1.0))
    assert high == pytest.approx(math.exp(0.7))
    assert low == pytest.approx(1.0)


def test_few_networks_widen_an_interval() -> None:
    def width(count: int) -> float:
        errors = {f"n{i}": float(error) for i, error in enumerate(np.linspace(-1, 1, count))}
        low, high = ratios(_rows(**errors), "x", 0.8)
        return math.log(high / low)

    assert width(400) == pytest.approx(1.6, abs=0.02)  # 80 % of the range
    assert width(20) == pytest.approx(1.6 * 21 / 20 * 20 / 19, abs=0.01)  # (n + 1) / n, between n - 1 steps
    assert width(10) > width(20) > width(400)


def test_the_interval_is_of_measured_over_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulator that is always twice too fast has real durations at twice what it says."""
    monkeypatch.setattr(interval, "measured_errors", lambda: _many(FEWEST, math.log(2)))
    found = interval_of(100.0, "C", "a")
    assert (found.low_us, found.high_us) == pytest.approx((200.0, 200.0))
    assert (found.known, found.alike, found.measured) == (FEWEST, FEWEST, True)
    other = interval_of(100.0, "C", "b")
    assert not other.measured
    assert "no measurement of this kind of network (b) on C exists" in other.note
    assert "factor of 2.0" in other.note


@pytest.mark.parametrize(
    ("rows", "unlike", "said"),
    [
        (FEWEST - 1, "", f"only {FEWEST - 1} networks were measured on C"),
        (0, "", "no measurement of networks on C exists"),
        (FEWEST, "training steps", "no measurement of training steps on C exists"),
    ],
)
def test_what_was_not_measured_is_within_a_factor_of_two(
    rows: int, unlike: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interval, "measured_errors", lambda: _many(rows))
    found = interval_of(100.0, "C", "a", unlike=unlike)
    assert (found.low_us, found.high_us) == pytest.approx((50.0, 200.0))
    assert found.note == f"{said}: expect a factor of 2"
    assert not found.measured
    narrow = interval_of(100.0, "C", "a", 0.5, unlike=unlike)
    assert found.low_us < narrow.low_us < 100 < narrow.high_us < found.high_us


@pytest.mark.parametrize("share", [0.0, 0.95, 80.0, math.nan])
def test_a_share_that_no_data_support_is_refused(share: float) -> None:
    with pytest.raises(InputError, match="share of an interval must be from 0.1 to 0.9"):
        interval_of(100.0, "Ascend310", "plain CNN", share)


def test_the_table_is_of_published_points_and_known_kinds() -> None:
    errors = measured_errors()
    networks = [row for row in errors if not row.kind.startswith(OPERATOR)]
    assert {(row.soc, row.name) for row in networks} <= {(p.soc, p.model) for p in measured_points()}
    assert {row.kind for row in networks} <= set(KINDS)
    assert {row.kind for row in errors} - set(KINDS) <= {OPERATOR + kind.value for kind in Kind}
    assert {row.soc for row in errors} <= set(names())
    kinds = {row.name: row.kind for row in networks}
    assert all(kinds[row.name] == row.kind for row in networks)  # whatever the batch and the chip


def test_intervals_hold_80_percent_of_the_points_of_families_left_out() -> None:
    """Every kind of network in turn is predicted from the others on its chip."""
    found = [one for one in coverages(0.8) if not one.operators]
    assert {one.soc for one in found} >= {"Ascend310", "Ascend310P3"}
    points = sum(one.points for one in found)
    assert points > 100
    assert 0.75 <= sum(one.held * one.points for one in found) / points <= 0.9
    assert all(one.width < 2.5 for one in found)  # a factor of 2 to both sides would hold them too
    half = [one for one in coverages(0.5) if not one.operators]
    assert sum(one.held * one.points for one in half) < 0.65 * points


def test_intervals_hold_80_percent_of_types_of_operators_left_out() -> None:
    found = [one for one in coverages(0.8) if one.operators]
    assert {one.soc for one in found} >= {"Ascend910A", "Ascend910B1"}
    points = sum(one.points for one in found)
    assert 0.75 <= sum(one.held * one.points for one in found) / points <= 0.9


def test_a_kind_that_is_left_out_is_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors of one kind that differ from all others lie outside, the others inside."""
    rows = (*_many(12, 0.0, "a"), *_many(12, 0.0, "b"), *_many(2, 0.7, "c"))
    monkeypatch.setattr(interval, "measured_errors", lambda: rows)
    monkeypatch.setattr(known_errors, "measured_errors", lambda: rows)
    (found,) = coverages(0.8)
    assert (found.known, found.points) == (26, 26)
    assert found.held == pytest.approx(24 / 26)


@pytest.mark.usefixtures("untimed_tiles")
def test_the_interval_of_a_result(models_dir: Path) -> None:
    graph = asim.load(models_dir / "squeezenet1_1.onnx", shapes={"input": (1, 3, 64, 64)})
    result = asim.simulate(asim.compile(graph, "Ascend310P3"))
    found = result.duration_interval()
    assert found.kind == "multi-branch CNN"
    assert found.alike > 1
    assert found.low_us < found.high_us < 2.5 * result.duration_us
    half = result.duration_interval(0.5)
    assert found.low_us <= half.low_us < half.high_us <= found.high_us
    assert str(found) in result._repr_html_()
    plain = asim.load(models_dir / "lenet5.onnx")
    for options, said in (
        ({"fusion": "off"}, "fusion 'off'"),
        ({"schedule": "host"}, "schedule 'host'"),
        ({"set": {"dram.read_gb_per_s": "100"}}, "changed figures"),
    ):
        other = asim.simulate(asim.compile(plain, "Ascend310P3", **options))
        assert said in other.duration_interval().note
    before = asim.simulate(asim.compile(plain, "Ascend310P3", cann="5.1.RC1")).duration_interval()
    assert before.known == len({row.name for row in rows_for("Ascend310P3", older=True)}) != found.known
    far = asim.compare({"here": result, "there": asim.compile(plain, "Ascend910B1")})
    row = far.table().records()[1]
    assert row["Likely from(us)"] == pytest.approx(far.figures[1].duration_us / 2)
    assert "expect a factor of 2" in far.results["there"].duration_interval().note


@pytest.mark.usefixtures("untimed_tiles")
def test_variants_share_what_their_errors_have_in_common(
    models_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = asim.load(models_dir / "lenet5.onnx")
    models = {
        level: asim.compile(graph, "Ascend310P3", fusion=level) for level in ("off", "graph", "ub", "all")
    }
    models["host"] = asim.compile(
        graph, "Ascend310P3", schedule="host"
    )  # its launches have errors of their own
    models["far"] = asim.compile(graph, "Ascend910A")
    found = asim.compare(models)
    factors = {
        f.name: (f.likely.low_us / f.duration_us, f.likely.high_us / f.duration_us) for f in found.figures
    }
    for level in ("off", "graph", "ub"):
        assert factors[level] == pytest.approx(factors["all"])
    assert factors["host"] == pytest.approx((1 / UNMEASURED, UNMEASURED)) != factors["all"]
    assert factors["far"] != pytest.approx(factors["all"])
    alone = found.results["all"].duration_interval()
    assert factors["all"] == pytest.approx(
        (alone.low_us / alone.high_us * factors["all"][1], factors["all"][1])
    )
    times = {f.name: f.duration_us for f in found.figures}
    ends = {f.name: (f.likely.low_us, f.likely.high_us) for f in found.figures}
    assert all(
        ends[a] == ends[b] for a in ends for b in ends if times[a] == times[b] and {a, b} <= {"ub", "all"}
    )
    command = ["compare", str(models_dir / "lenet5.onnx"), "--values", "off", "--soc_version", "Ascend310P3"]
    assert main([*command, "--fusion", "off,graph,ub,all"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if line.lower().startswith("likely")]
    assert f"all {str(alone).removeprefix('likely ')}" in line
    # nothing was compared, so nothing says so in rows of dashes
    assert not [line for line in lines if line.startswith(("Largest difference", "Of range"))]


def test_a_single_operator_is_like_operators_that_were_measured() -> None:
    builder = asim.GraphBuilder()
    builder.output(builder.op("Relu", builder.input("x", (1024, 1024))), "y")
    graph = builder.build()
    model = asim.compile(graph, "Ascend910B1")  # one task: Cast, Relu, Cast
    found = asim.simulate(model).duration_interval()
    assert found.kind == "operator: Elementwise"
    assert found.alike > 1
    assert "types of operators on Ascend910B1" in found.note
    nowhere = asim.simulate(asim.compile(graph, "Ascend310P3")).duration_interval()
    assert nowhere.note == "no measurement of types of operators on Ascend310P3 exists: expect a factor of 2"
    convolutions = asim.simulate(asim.compile(graph, "Ascend310")).duration_interval()
    assert convolutions.note == "only one type of operator was measured on Ascend310: expect a factor of 2"


def test_a_picture_shows_how_sure_each_end_is(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = {"known": synthetic_run(60), "unknown": synthetic_run(40)}
    ends = {name: run.trace.duration_us for name, run in runs.items()}
    monkeypatch.setattr(interval, "measured_errors", lambda: _many(FEWEST, math.log(1.5)))
    likely = {
        "known": interval_of(ends["known"], "C", "a"),
        "unknown": interval_of(ends["unknown"], "elsewhere", "a", 0.9),
    }
    display = comparison_timelines(runs, likely=likely).plot()
    assert display.window[1] == pytest.approx(1.5 * ends["known"])  # an assumption gets no bar
    light = [found for found in display.ax_.collections if to_hex(found.get_facecolor()[0]) == SURE]
    bars = [found.get_paths()[0].get_extents() for found in light]
    scale = time_scale(display.window)
    assert [bar.x0 / scale for bar in bars] == pytest.approx([likely["known"].low_us])
    assert [bar.x1 / scale for bar in bars] == pytest.approx([likely["known"].high_us])
    assert comparison_timelines(runs).window[1] == pytest.approx(max(ends.values()))


def test_a_run_prints_how_sure_it_is(models_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["run", str(models_dir / "lenet5.onnx"), "--values", "off", "--soc_version", "Ascend310"]
    assert main(command) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("likely")]
    assert "80%: errors of" in line
    assert "(plain CNN)" in line
