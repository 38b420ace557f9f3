"""What each figure of a chip does to a time: moved one at a time, to where it says, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ascendsim as asim
from ascendsim import soc
from ascendsim.cli.main import main
from ascendsim.sweep import Sensitivity, sensing
from ascendsim.sweep.figures import movable, single
from ascendsim.sweep.rows import SweepRow
from ascendsim.sweep.store import DONE, FAILED, Answer
from ascendsim.sweep.work import Source
from tests.support.sweep_workers import tiny

LENET = Path(__file__).parents[1] / "data" / "models" / "lenet5.onnx"
BASE = {"dram.read_gb_per_s": 45.6, "frequency_mhz": 680, "dram.transaction_bytes": 512}


def made_up(points: list[dict[str, Any]]) -> list[SweepRow]:
    """A chip whose time is 100 us x (45.6 / read) x (680 / clock), less 0.1 us by byte of a transaction above
    512; it refuses clocks above 800.
    """
    rows = []
    for point in points:
        figures = {**BASE, **point.get("set", {})}
        time = 100 * (45.6 / figures["dram.read_gb_per_s"]) * (680 / figures["frequency_mhz"])
        time -= 0.1 * max(figures["dram.transaction_bytes"] - 512, 0)
        fast = figures["frequency_mhz"] > 800
        answer = Answer("k", FAILED, {}, "too fast") if fast else Answer("k", DONE, {"Time(us)": time})
        rows.append(SweepRow(point, answer, Source("m", "d")))
    return rows


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Sensitivity:
    monkeypatch.setattr(sensing.Asking, "rows", lambda self, points, progress=None: made_up(points))
    return asim.sensitivity(LENET, keys=[*BASE, "dram.write_gb_per_s"], low=0.5)


def test_each_figure_has_its_own_times(found: Sensitivity) -> None:
    rows = {row["Figure"]: row for row in found.table().records()}
    assert list(rows)[:2] == ["dram.read_gb_per_s", "frequency_mhz"]  # the largest change first
    read = rows["dram.read_gb_per_s"]
    assert (read["Low"], read["High"], read["Assumed"]) == (22.8, 57.0, "no")
    assert (read["Time at low(us)"], read["Time at high(us)"]) == (200.0, pytest.approx(80.0))
    assert (read["Change at low(%)"], read["Change at high(%)"]) == (100.0, pytest.approx(-20.0))
    assert read["Elasticity"] == pytest.approx(-1.0)
    assert rows["dram.write_gb_per_s"]["Elasticity"] == 0
    size = rows["dram.transaction_bytes"]
    assert (size["Low"], size["High"], size["Assumed"]) == (256, 640, "yes")


def test_a_value_that_the_chip_refuses_is_a_row_with_its_reason(found: Sensitivity) -> None:
    (clock,) = found.table().filter(Figure="frequency_mhz").records()
    assert (clock["High"], clock["Time at high(us)"], clock["Notes"]) == (
        850,
        None,
        "left out at 850: too fast",
    )
    assert clock["Elasticity"] == pytest.approx(-1.0)  # of the side that there is


def test_the_band_is_one_by_one_and_all_together(found: Sensitivity) -> None:
    every = found.band("all")
    assert (every.low_us, every.high_us) == (pytest.approx(80), 200)
    assert every.together_high_us == 400  # half the bandwidth and half the clock
    assert every.together_low_us == pytest.approx(80 - 12.8)
    assumed = found.band()
    assert assumed.keys == ("dram.transaction_bytes",)
    assert (assumed.low_us, assumed.high_us, assumed.together_high_us) == (pytest.approx(87.2), 100, 100)
    assert found.band(["frequency_mhz"]).together_high_us == 200
    with pytest.raises(asim.InputError, match="'cube' was not moved"):
        found.band(["cube"])


def test_the_tornado_shows_what_moves(found: Sensitivity) -> None:
    picture = found.plot()
    assert [bar[0] for bar in picture.bars] == [
        "dram.read_gb_per_s",
        "frequency_mhz",
        "dram.transaction_bytes",
    ]
    assert picture.bars[0][2:] == (pytest.approx(1.0), pytest.approx(-0.2))
    assert picture.bars[2][1] is True
    assert "3 of 4 figures change the time" in picture.ax_.get_xlabel()


def test_values_of_ones_own_move_what_no_factor_can(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(
        sensing.Asking, "rows", lambda self, points, progress=None: (asked.extend(points), made_up(points))[1]
    )
    found = asim.sensitivity(LENET, values={"ai_cores": [3, 1], "cube.m0": [8]})
    assert [point.get("set") for point in asked] == [None, {"ai_cores": 1}, {"ai_cores": 3}, {"cube.m0": 8}]
    (cores,) = found.table().filter(Figure="ai_cores").records()
    assert (cores["Low"], cores["High"]) == (1, 3)


def test_what_is_left_out_has_its_reason() -> None:
    moved, left = movable(soc.load("Ascend310"), None)
    names, reasons = {each.name for each in moved}, dict(left)
    assert {
        "dram.read_gb_per_s",
        "vector.cycles_per_repeat.*",
        "cube.cycles_per_block.*",
        "buffers.ub",
    } <= names
    assert reasons["ai_cores"] == reasons["cube.m0"] == reasons["issue.queue_depth.*"]
    assert "give values of your own" in reasons["vector.repeat_bytes"]
    assert reasons["vector_frequency_mhz"] == "follows frequency_mhz"
    assert reasons["cube.unit_flag"] == "is a switch"
    assert reasons["l2.read_latency_cycles"] == "is 0"
    assert reasons["dvpp.vpc_fps_1080p"] == "matters to images only"
    assert not names & reasons.keys()


def test_assumed_figures_alone_can_be_asked_for() -> None:
    spec = soc.load("Ascend310")
    moved, _ = movable(spec, "assumed")
    assert {key for each in moved for key in each.figures} & spec.assumed
    assert "dram.read_gb_per_s" not in {each.name for each in moved}
    every, _ = movable(spec, None)
    assert {each.name for each in moved} == {each.name for each in every if each.assumed}


def test_keys_may_be_the_first_part_of_names() -> None:
    spec = soc.load("Ascend310")
    assert {each.name.partition(".")[0] for each in movable(spec, "dram")[0]} == {"dram"}
    assert [each.name for each in movable(spec, ["vector.cycles_per_repeat"])[0]] == [
        "vector.cycles_per_repeat.*"
    ]
    assert [each.name for each in movable(spec, ["vector.cycles_per_repeat.vadd"])[0]] == [
        "vector.cycles_per_repeat.vadd"
    ]
    with pytest.raises(asim.InputError, match="did you mean dram.read_gb_per_s"):
        movable(spec, ["dram.read_gb"])
    with pytest.raises(asim.InputError, match=r"did you mean dram\?"):
        movable(spec, ["dramm"])
    with pytest.raises(asim.InputError, match="is no number of Ascend310"):
        single(spec, "name")


def test_a_factor_moves_whole_numbers_by_one_at_least_and_buffers_by_whole_blocks() -> None:
    spec = soc.load("Ascend310")
    assert single(spec, "vector.minimum_cycles").scaled(0.9) == {"vector.minimum_cycles": 2}
    assert single(spec, "vector.minimum_cycles").scaled(1.1) == {"vector.minimum_cycles": 4}
    (size,) = single(spec, "buffers.l1").scaled(0.77).values()
    assert size % 32 == 0
    assert size == pytest.approx(0.77 * spec.buffers.l1, rel=1e-4)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"low": 1.1}, "must be factors below and above 1"),
        ({"high": float("inf")}, "must be factors below and above 1, not 0.8 and inf"),
        ({"keys": []}, "argument keys must name at least one figure"),
        ({"values": {"ai_cores": [1, float("nan")]}}, "values of ai_cores must be finite numbers, not nan"),
        ({"values": {"ai_cores": [3, 3]}}, "values of ai_cores name 3 twice"),
        ({"keys": ["nonsense"]}, "figure nonsense is no number of Ascend310"),
        ({"values": {"ai_cores": [1, 2, 3]}}, "values of ai_cores must be one or two"),
        ({"batch": 3, "shapes": {"none": (1,)}}, "does not run on Ascend310"),
        ({"precision_mode": ["force_fp16", "force_fp32"]}, "2 points"),
    ],
)
def test_mistakes_are_told(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(asim.AscendSimError, match=message):
        asim.sensitivity(tiny(), **{"keys": ["dram.read_gb_per_s"], "workers": 1, **asked})


def test_the_command_shows_moves_and_band(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, out = tmp_path / "tiny.onnx", tmp_path / "out"
    model.write_bytes(tiny())
    command = [
        "sensitivity",
        str(model),
        "--keys",
        "dram.read_gb_per_s,dram.transaction_bytes",
        "--workers",
        "1",
    ]
    page = tmp_path / "r.html"
    assert main([*command, "--values", "ai_cores=0,1", "--output", str(out), "--report", str(page)]) == 0
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    said = capsys.readouterr().out
    assert "ai_cores: left out at 0: override: key ai_cores must be a finite number above 0, not 0" in said
    assert "dram.read_gb_per_s" in said
    assert "assumed: 1 figures" in said
    assert {path.name for path in out.iterdir()} == {"sensitivity.csv", "skipped.csv", "tornado.png"}


def test_times_are_those_of_the_changed_chip() -> None:
    found = asim.sensitivity(tiny(), keys=["dram.read_gb_per_s"], workers=1)
    slow = asim.simulate(asim.compile(asim.load(tiny()), "Ascend310", set={"dram.read_gb_per_s": 0.8 * 45.6}))
    assert found.probes[0].low.time_us == slow.duration_us


def test_morris_sees_what_hangs_together(found: Sensitivity) -> None:
    pytest.importorskip("SALib")
    # the clock stays where the chip takes it; bandwidth and clock multiply, the transaction only adds
    rows = {
        row["Figure"]: row
        for row in found.morris(6, ["dram.read_gb_per_s", "dram.transaction_bytes"]).records()
    }
    read, size = rows["dram.read_gb_per_s"], rows["dram.transaction_bytes"]
    # from 21 to 52.5 GB/s the time falls from 200 to 80 us: over the whole span 120, less from place to place
    assert 60 < read["mu*(us)"] < 300  # type: ignore[operator]
    assert read["mu(us)"] == -read["mu*(us)"]  # type: ignore[operator]
    assert 0 < size["mu*(us)"] <= 12.8 * 1.5  # type: ignore[operator]
    assert found.morris(6, ["dram.read_gb_per_s", "dram.transaction_bytes"]).records() == list(rows.values())
    with pytest.raises(asim.InputError, match="'frequency_mhz' was not moved to both sides"):
        found.morris(4, ["frequency_mhz"])
    with pytest.raises(asim.InputError, match="at least 2"):
        found.morris(1)
    with pytest.raises(asim.InputError, match="figures must name at least one"):
        found.morris(4, [])
    with pytest.raises(asim.InputError, match="seed must be from 0 to 4294967295, not -1"):
        found.morris(4, seed=-1)
