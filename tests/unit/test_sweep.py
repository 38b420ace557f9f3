"""A sweep gives what `compare` gives, keeps it, and no point stops another."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ascendsim as asim
from ascendsim.core.table import Table
from ascendsim.sweep import sweeping
from ascendsim.sweep.key import chip_digest, chip_of, key_of_point
from ascendsim.sweep.rows import Sweep, SweepRow
from ascendsim.sweep.store import DONE, FAILED, Answer
from ascendsim.sweep.work import Request, Source, answer
from tests.support.sweep_workers import tiny

LENET = Path(__file__).parents[1] / "data" / "models" / "lenet5.onnx"
# of 30 B wide UB nothing fits, which only this chip with this figure says: the point fails, not the sweep
SMALL = "32"


@pytest.fixture(scope="module")
def four() -> Sweep:
    return asim.sweep(LENET, batch=[1, 4], fusion=["off", "all"], workers=1)


def test_rows_equal_those_of_compare(four: Sweep) -> None:
    variants = {
        f"{batch} {fusion}": asim.compile(asim.load(LENET, batch=batch), "Ascend310", fusion=fusion)
        for batch in (1, 4)
        for fusion in ("off", "all")
    }
    theirs = asim.compare(variants).table()
    mine = four.table()
    own = [name for name in theirs.columns if name in mine.columns]
    assert {"Time(us)", "Likely to(us)", "Samples/s", "L2(MB)", "Tasks", "Launch(us)", "Weights(MiB)"} <= {
        *own
    }
    # compare gives variants that share their errors one interval; a row is of its point alone
    likely = [asim.simulate(model).duration_interval() for model in variants.values()]
    assert mine.column("Likely from(us)") == tuple([each.low_us for each in likely])
    assert mine.column("Likely to(us)") == tuple([each.high_us for each in likely])
    for name in (name for name in own if not name.startswith("Likely")):
        assert mine.column(name) == theirs.column(name), name
    assert mine.columns[:4] == ("Row", "soc", "batch", "fusion")
    assert [row[:4] for row in mine] == [
        (0, "Ascend310", 1, "off"),
        (1, "Ascend310", 1, "all"),
        (2, "Ascend310", 4, "off"),
        (3, "Ascend310", 4, "all"),
    ]


def test_a_row_again_in_full(four: Sweep) -> None:
    result = four.result(3)
    assert result.duration_us == four.table()[3][four.table().index("Time(us)")]
    assert result.op_summary()
    with pytest.raises(asim.InputError, match="must be a row from 0 to 3, not 4"):
        four.result(4)


def test_a_point_that_fails_stops_no_other(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    found = asim.sweep(tiny(), set={"buffers.ub": [SMALL, "256KiB"]}, store=store, workers=1)
    assert [row[1:3] for row in found.table()] == [("Ascend310", 256 << 10)]
    ((number, _, size, why),) = found.failed().rows
    assert (number, size) == (0, 32)
    assert "buffers.ub" in str(why)
    assert "1 of 2 points done, the first that failed" in repr(found)


def test_what_is_kept_is_not_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "s.db"
    first = asim.sweep(tiny(), batch=[1, 2], store=store, workers=1)
    asked: list[int] = []
    real = sweeping.answers
    monkeypatch.setattr(
        sweeping, "answers", lambda requests, *more: (asked.append(len(requests)), real(requests, *more))[1]
    )
    second = asim.sweep(tiny(), batch=[2, 3, 1], store=store, workers=1)
    assert asked == [1]
    assert second.table().column("Time(us)")[2] == first.table().column("Time(us)")[0]
    assert [row.answer.attempts for row in second.rows] == [1, 1, 1]


def test_a_failed_point_is_tried_again_only_if_asked(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"store": tmp_path / "s.db", "workers": 1, "batch": [1], "shapes": {"none": (1,)}}
    assert [row.answer.attempts for row in asim.sweep(tiny(), **asked).rows] == [1]
    assert [row.answer.attempts for row in asim.sweep(tiny(), **asked).rows] == [1]
    again = asim.sweep(tiny(), **asked, retry=True)
    assert [(row.answer.state, row.answer.attempts) for row in again.rows] == [(FAILED, 2)]


def test_keys_ask_for_all_that_counts_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def key(point: dict[str, Any], model: str = "a") -> str:
        full = {"model": "x", "soc": "Ascend310", **point}
        return key_of_point(full, model, chip_digest(chip_of(full)))

    base = key({"batch": 1, "fusion": "off"})
    assert key({"fusion": "off", "batch": 1}) == base
    assert key({"fusion": "off", "batch": 1, "model": "elsewhere/x"}) == base
    others = [key({"batch": 2, "fusion": "off"}), key({"batch": 1, "fusion": "off"}, "b"), key({"batch": 1})]
    others += [key({"batch": 1, "fusion": "off", "set": {"l2.size": 1 << 20}})]
    monkeypatch.setattr("ascendsim.core.plugins.fingerprint", lambda: "a plugin")
    others += [key({"batch": 1, "fusion": "off"})]
    monkeypatch.setattr("ascendsim.sweep.key._own_files", lambda: "other code")
    others += [key({"batch": 1, "fusion": "off"})]
    assert len({base, *others}) == 7


def test_a_change_of_a_chip_file_is_another_question(tmp_path: Path) -> None:
    chip = tmp_path / "mine.toml"
    text = 'name = "Mine"\nextends = "Ascend310"\n[dram]\nread_gb_per_s = { value = RATE, source = "x" }\n'
    times = []
    for rate in (20, 60):
        chip.write_text(text.replace("RATE", str(rate)))
        found = asim.sweep(tiny(), soc=[chip], store=tmp_path / "s.db", workers=1)
        times.append(found.table().column("Time(us)")[0])
    assert times[0] > times[1]  # type: ignore[operator]


def request(**more: Any) -> Request:
    point = {"model": "tiny", "soc": "Ascend310"}
    (source,) = sweeping.sources_of(tiny()).values()
    return replace(Request("k", point, source, chip_digest(chip_of(point)), sweeping.fingerprint()), **more)


def test_a_worker_says_why_it_has_no_figures(tmp_path: Path) -> None:
    assert answer(request()).state == DONE
    cases = {
        "must have the code of the process that asks": request(fingerprint="other"),
        "has other figures than when the sweep began": request(chip="other"),
        "cannot be read .*give its bytes": request(source=Source("x", "d", str(tmp_path / "gone.onnx"))),
        "has changed since the sweep began": request(source=Source("x", "other", str(LENET))),
        "took longer than 0.001 s": request(
            point={"model": "x", "soc": "Ascend310", "batch": 77}, time_limit=0.001
        ),
        "axis|shapes|input": request(point={"model": "x", "soc": "Ascend310", "shapes": {"none": [1]}}),
    }
    for message, asked in cases.items():
        found = answer(asked)
        assert (found.state, found.figures) == (FAILED, {})
        with pytest.raises(AssertionError, match=message):
            raise AssertionError(found.error)


def test_bytes_are_a_model_too(tmp_path: Path) -> None:
    file = tmp_path / "tiny.onnx"
    file.write_bytes(tiny())
    tables = [asim.sweep(model, batch=[1, 2], workers=1).table() for model in (tiny(), file)]
    assert tables[0] == tables[1]


def test_screening_runs_in_full_what_could_be_best(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def made_up(requests: Any, *_: object) -> Any:
        asked.append([request.point.get("options", {}).get("tiling", "verified") for request in requests])
        for each in requests:
            batch = each.point["batch"]
            figures = {
                "Samples/s": {1: 10, 2: 20, 3: 19.9, 4: 5}[batch],
                "Memory(MiB)": {1: 1, 2: 2, 3: 2.01, 4: 4}[batch],
            }
            yield Answer(each.key, DONE, {"Time(us)": 1.0, **figures})

    monkeypatch.setattr(sweeping, "answers", made_up)
    found = asim.sweep(tiny(), batch=[1, 2, 3, 4], screen=True, workers=1)
    assert asked == [["closed_form"] * 4, ["verified"] * 3]  # batch 4 is far behind, 3 within the margin
    assert found.table().column("tiling") == ("verified", "verified", "verified", "closed_form")
    assert found.pareto().column("batch") == (2, 1)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"batch": 1}, "sweep needs an axis, and each argument has one value"),
        ({"model": "none.onnx"}, r"model 'none.onnx' cannot be read \(No such file"),
        ({"model": []}, "must name at least one model"),
        ({"model": [tiny, tiny]}, "names .* twice"),
        ({"workers": 0}, "workers must be a positive whole number, not 0"),
        ({"time_limit": 0}, "time_limit must be above 0"),
        ({"soc": "Ascend31"}, "chip 'Ascend31' is unknown; did you mean Ascend310"),
        ({"set": {"dram.read_gb": 1}}, "did you mean dram.read_gb_per_s"),
        ({"tilling": 3}, "axis tilling does not exist"),
        ({"screen": True, "options": {"tiling": "closed_form"}}, "screen"),
    ],
)
def test_what_cannot_be_swept_is_told_before_any_work(asked: dict[str, Any], message: str) -> None:
    if asked.get("model") == [tiny, tiny]:
        asked = {"model": [tiny(), tiny()]}
    with pytest.raises(asim.AscendSimError, match=message):
        asim.sweep(**{"model": LENET, "batch": [1, 2], "workers": 1, **asked})


def test_a_graph_is_told_what_to_give_instead() -> None:
    with pytest.raises(asim.InputError, match="workers read the model themselves"):
        asim.sweep(asim.load(LENET))  # type: ignore[arg-type]


def test_a_chip_that_cannot_run_is_a_failed_row() -> None:
    chips = asim.chips()
    name = next(str(row["chip"]) for row in chips.records() if row["can be run"] == "no")
    found = asim.sweep(tiny(), soc=[name, "Ascend310"], workers=1)
    assert [row[1] for row in found.table()] == ["Ascend310"]
    assert "can be shown but not run" in str(found.failed()[0][-1])


def made(**figures: list[float]) -> Sweep:
    columns = list(figures)
    rows = []
    for place, values in enumerate(zip(*figures.values(), strict=True)):
        point = {"model": "m", "soc": "Ascend310", "batch": place + 1}
        rows.append(
            SweepRow(
                point, Answer(str(place), DONE, dict(zip(columns, values, strict=True))), Source("m", "d")
            )
        )
    return Sweep(tuple(rows), ("batch",))


def test_best_and_front_know_which_way_is_better() -> None:
    found = made(**{"Time(us)": [3, 1, 2], "Samples/s": [5, 7, 9], "Memory(MiB)": [1, 3, 2]})
    assert found.best("Time(us)")["Row"] == 1
    assert found.best("Samples/s")["Row"] == 2
    assert found.pareto("Time(us)", "Memory(MiB)").column("Row") == (1, 2, 0)
    assert found.pareto().column("Row") == (2, 0)
    with pytest.raises(asim.InputError, match="did you mean Time"):
        found.best("Time")
    assert found.pareto("Time(us)").column("Row") == (1,)


def test_a_line_needs_one_figure_at_each_place(four: Sweep) -> None:
    picture = four.plot_lines("batch", "Time(us)", by="fusion")
    times = four.table().column("Time(us)")
    assert picture.lines == {"off": ((1, 4), (times[0], times[2])), "all": ((1, 4), (times[1], times[3]))}
    assert four.plot_lines("batch").lines == picture.lines  # the only other axis that differs
    places = [("A", "off"), ("A", "ub"), ("B", "off"), ("B", "ub")]
    points = [{"model": "m", "batch": 1, "soc": soc, "fusion": fusion} for soc, fusion in places]
    rows = [SweepRow(one, Answer("", DONE, {"Time(us)": 1.0}), Source("m", "d")) for one in points]
    two = Sweep(tuple(rows), ("batch",))
    assert [*two.plot_lines("batch").lines] == ["A, off", "A, ub", "B, off", "B, ub"]
    with pytest.raises(
        asim.InputError, match="fusion differ too; draw a part of the sweep, or leave by= out"
    ):
        two.plot_lines("batch", by="soc")


def test_the_picture_of_the_front_has_samples_a_second_over_latency() -> None:
    found = made(**{"Time(us)": [3, 1, 2], "Samples/s": [5, 7, 9], "Memory(MiB)": [1, 3, 2]})
    assert found.plot_pareto().labels[:2] == ("Time(us)", "Samples/s")


def test_tables_leave_in_the_forms_that_others_read(four: Sweep, tmp_path: Path) -> None:
    assert four.to_csv(tmp_path / "a.csv").splitlines()[0].startswith("Row,soc,batch,fusion,Time(us)")
    frame = four.to_dataframe()
    assert list(frame["batch"]) == [1, 1, 4, 4]
    pytest.importorskip("pyarrow")
    import pandas as pd

    pd.testing.assert_frame_equal(pd.read_parquet(four.to_parquet(tmp_path / "a.parquet")), frame)


def test_a_report_shows_the_first_and_the_fastest(four: Sweep, tmp_path: Path) -> None:
    page = four.report(tmp_path / "r.html")
    assert page.path == tmp_path / "r.html"
    assert four.name_of(3) == "batch 4, fusion all"


def test_the_package_is_the_function() -> None:
    room = importlib.import_module("ascendsim.sweep")
    assert room is not asim.Sweep
    assert callable(room)
    assert room(tiny(), workers=1, batch=[1]).table().column("batch") == (1,)


def test_figures_are_plain_json(four: Sweep) -> None:
    figures = dict(four.rows[0].answer.figures)
    assert json.loads(json.dumps(figures)) == figures
    assert isinstance(four.table(), Table)


def test_progress_is_shown_to_those_who_want_it(capsys: pytest.CaptureFixture[str]) -> None:
    asim.sweep(LENET, batch=[1, 2], workers=1, progress=False)
    assert capsys.readouterr().err == ""
    asim.sweep(LENET, batch=[1, 2], workers=1)
    assert capsys.readouterr().err.splitlines() == ["sweep: 0 of 2 points", "sweep: 2 of 2 points"]
