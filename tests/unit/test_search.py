"""A search asks what it is told to, the same every time, and goes on where it was stopped."""

from __future__ import annotations

import builtins
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import ascendsim as asim
from ascendsim.cli.main import main
from ascendsim.sweep import searching
from ascendsim.sweep.ranges import Choice, Range, dimensions
from ascendsim.sweep.rows import Sweep, SweepRow
from ascendsim.sweep.store import DONE, FAILED, Answer
from ascendsim.sweep.work import FIGURES, NOTES, Source
from tests.support.sweep_workers import tiny

pytest.importorskip("optuna")
LENET = Path(__file__).parents[1] / "data" / "models" / "lenet5.onnx"
WIDE = {"batch": {"low": 1, "high": 64}, "set": {"dram": {"read_gb_per_s": {"low": 20, "high": 80}}}}


class Stopped(Exception):
    """The process was killed."""


class Model:
    """Rows of a made-up model that is quickest at batch 40 and 50 GB/s; a batch above 60 does not run.

    Args:
        questions: Rows after which it stops.
    """

    def __init__(self, questions: float = float("inf")) -> None:
        self.left, self.asked = questions, []  # type: ignore[var-annotated]

    def rows(self, points: list[dict[str, Any]], progress: object = None) -> list[SweepRow]:
        found = []
        for point in points:
            if self.left <= 0:
                raise Stopped
            self.left -= 1
            batch, rate = point["batch"], point["set"]["dram.read_gb_per_s"]
            self.asked.append((batch, rate))
            time = 100 + (batch - 40) ** 2 + (rate - 50) ** 2
            figures = dict.fromkeys(FIGURES, 1.0) | {"Time(us)": time, "Samples/s": batch / time, NOTES: ""}
            answer = Answer("", FAILED, {}, "too much") if batch > 60 else Answer("", DONE, figures)
            found.append(SweepRow(point, answer, Source("m", "d")))
        return found


def search(monkeypatch: pytest.MonkeyPatch, model: Model, **asked: Any) -> Sweep:
    monkeypatch.setattr(searching.Asking, "rows", lambda self, *more: model.rows(*more))
    return asim.search(LENET, **{"space": WIDE, "trials": 60, **asked})


def test_it_comes_near_to_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    found = search(monkeypatch, Model())
    best = found.best("Time(us)")
    assert best["Time(us)"] < 140  # 1 % of the space; the best of 60 random points is below it once in three
    assert found.pareto().column("Row") == (best["Row"],)
    assert len(found.failed()) >= 1  # a point that does not run is no reason to stop


def test_a_seed_gives_one_sequence_whatever_was_asked_before(monkeypatch: pytest.MonkeyPatch) -> None:
    first, again, other = Model(), Model(), Model()
    search(monkeypatch, first, trials=24)
    search(monkeypatch, again, trials=24)
    search(monkeypatch, other, trials=24, seed=1)
    assert first.asked == again.asked
    assert first.asked != other.asked


def test_questions_come_as_many_at_a_time_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    model = Model()
    monkeypatch.setattr(
        searching.Asking, "rows", lambda self, points, *_: (sizes.append(len(points)), model.rows(points))[1]
    )
    told: list[tuple[int, int]] = []
    asim.search(LENET, WIDE, trials=10, at_a_time=4, progress=lambda *at: told.append(at))
    assert sizes == [4, 4, 2]
    assert told == [(4, 10), (8, 10), (10, 10)]


def test_a_search_of_few_points_counts_these(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the questions, of which it asks some twice and never as many as trials."""
    told: list[tuple[int, int]] = []
    space = {"batch": [1, 2], "set": {"dram": {"read_gb_per_s": [40, 50]}}}
    search(monkeypatch, Model(), space=space, trials=50, progress=lambda *at: told.append(at))
    assert told[-1] == (4, 4)
    assert {total for _, total in told} == {4}


def test_several_goals_and_functions_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def price(row: Mapping[str, Any]) -> float:
        return float(row["dram.read_gb_per_s"] * 3 + row["batch"])

    found = search(monkeypatch, Model(), minimize=("Time(us)", price), maximize="Samples/s", trials=20)
    assert found.goals == ("Time(us)", "price", "Samples/s")
    for row in found.table().records():
        assert row["price"] == row["dram.read_gb_per_s"] * 3 + row["batch"]  # type: ignore[operator]
    assert len(found.pareto()) > 1
    assert found.best("price")["price"] == min(found.table().column("price"))  # type: ignore[type-var]


def test_a_small_space_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    space = {"batch": [1, 2, 4], "set": {"dram.read_gb_per_s": [40, 50]}}
    found = search(monkeypatch, Model(), space=space, trials=200)
    assert len(found) == 6


def test_a_stopped_search_goes_on_with_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed after 3 of 5 questions: the second run computes 2, and asks what one that ran through asks."""
    computed: list[str] = []
    real = searching.Asking._computed
    budget = [3]

    def computing(self: Any, requests: Any) -> Any:
        for each in real(self, requests):
            computed.append(each.key)
            yield each
            budget[0] -= 1
            if not budget[0]:
                raise Stopped

    monkeypatch.setattr(searching.Asking, "_computed", computing)
    space = {"batch": [1, 2], "set": {"dram.read_gb_per_s": {"low": 20, "high": 80}}}
    asked: dict[str, Any] = {"trials": 5, "workers": 1, "at_a_time": 2}
    with pytest.raises(Stopped):
        asim.search(tiny(), space, store=tmp_path / "s.db", **asked)
    budget[0] = -1
    resumed = asim.search(tiny(), space, store=tmp_path / "s.db", **asked)
    assert len(computed) == len(set(computed)) == len(resumed)
    through = asim.search(tiny(), space, **asked)
    assert through.table() == resumed.table()


def test_spaces_have_lists_ranges_and_single_values() -> None:
    found = dimensions(
        {
            "soc": ["Ascend310", "Ascend910A"],
            "fusion": "all",
            "set": {
                "l2.size": {"low": "1MiB", "high": "4MiB", "step": "1MiB"},
                "dram": {"read_gb_per_s": {"low": 1, "high": 2.5}},
            },
        }
    )
    assert found == (
        Choice("soc", ("Ascend310", "Ascend910A")),
        Choice("fusion", ("all",)),
        Range("set.l2.size", 1 << 20, 4 << 20, 1 << 20, False),
        Range("set.dram.read_gb_per_s", 1.0, 2.5, None, False),
    )
    assert [each.size for each in found] == [2, 1, 4, float("inf")]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"space": {}}, "must have something to choose"),
        ({"space": {"batch": 4}}, "must have something to choose"),
        ({"space": {"batch": []}}, "axis batch is empty"),
        ({"space": {"batch": [1, 1]}}, "axis batch names 1 twice"),
        ({"space": {"bach": [1, 2]}}, "did you mean batch"),
        ({"space": {"batch": {"low": 4, "high": 1}}}, "must have low below high"),
        ({"space": {"batch": {"low": 1, "hihg": 4}}}, "range batch: hihg does not exist; did you mean high"),
        ({"space": {"batch": {"low": 1}}}, "must have low and high"),
        ({"space": {"batch": {"low": 1, "high": 9, "step": 2, "log": True}}}, "only without step"),
        ({"space": {"soc": {"low": "a", "high": "b"}}}, "has no order"),
        (
            {"space": {"set": {"l2": {"siez": {"low": 1, "high": 2}}}}},
            "l2.siez does not exist; did you mean l2.size",
        ),
        ({"minimize": "Time"}, r"did you mean Time\(us\)"),
        ({"minimize": ()}, "must name at least one goal"),
        ({"minimize": "Samples/s"}, 'write maximize="Samples/s"'),
        ({"minimize": ("Time(us)", "Time(us)")}, "name a goal twice"),
        ({"minimize": lambda row: float("nan")}, "goal '<lambda>' must be a finite number, not nan"),
        ({"minimize": lambda row: "cheap"}, "must be a finite number, not 'cheap'"),
        ({"trials": 0}, "trials must be a positive whole number"),
        ({"at_a_time": 0}, "at_a_time must be a positive whole number"),
        ({"batch": 8}, "option batch is in the space too"),
        ({"seed": -1}, "option seed must be from 0 to 4294967295, not -1"),
    ],
)
def test_mistakes_are_told(monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], message: str) -> None:
    with pytest.raises(asim.AscendSimError, match=message):
        search(monkeypatch, Model(), **asked)


def test_without_optuna_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *more: Any) -> Any:
        if name.partition(".")[0] == "optuna":
            raise ImportError(name)
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(asim.InputError, match=r'pip install "ascendsim\[sweep\]"'):
        search(monkeypatch, Model())


def test_the_command_reads_a_space_from_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Model()
    monkeypatch.setattr(searching.Asking, "rows", lambda self, *more: model.rows(*more))
    space = tmp_path / "space.toml"
    space.write_text("batch = [4, 8, 16]\n[set]\ndram.read_gb_per_s = { low = 20, high = 80, step = 20 }\n")
    command = ["search", str(LENET), "--space", str(space), "--trials", "40", "--maximize", "Samples/s"]
    assert main([*command, "--minimize", "dram.read_gb_per_s", "--output", str(tmp_path)]) == 0
    said = capsys.readouterr()
    points = re.search(r"^(\d+) points, 0 failed; no other is better than$", said.out, re.MULTILINE)
    assert points is not None
    assert 8 <= int(points[1]) <= 12
    assert (tmp_path / "pareto.csv").is_file()
    assert (tmp_path / "search.csv").is_file()
    space.write_text("batch = [4")
    assert main(command) == 2
    assert "is not valid TOML" in capsys.readouterr().err
    (tmp_path / "empty.toml").write_text("# nothing yet\n")
    assert main(["search", str(LENET), "--space", str(tmp_path / "empty.toml")]) == 2
    assert "empty.toml' is empty; write axes, for example batch = [1, 8]" in capsys.readouterr().err
