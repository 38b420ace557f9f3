"""The tools behind tests/properties/test_scaling.py: what is run, what is kept, and the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import scaling
from tests.support.scaling import CHIPS, Times, every_change, ladder, more_of
from tests.support.scaling_page import page

BASE = 100.0


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Times instead of runs: the first is BASE, each one more microsecond; the list of those handed out."""
    handed: list[float] = []

    def duration_us(_graph: object, _soc: object) -> float:
        handed.append(BASE + len(handed))
        return handed[-1]

    monkeypatch.setattr(scaling, "duration_us", duration_us)
    return handed


def test_the_chip_as_it_is_stands_in_every_ladder_and_runs_once(runs: list[float]) -> None:
    times = Times()
    for resource in ("cores", "UB", "queues"):
        assert () in ladder("Ascend310P3", resource)
        list(more_of("lenet5", "Ascend310P3", resource, times=times))
    assert len(runs) == 5 + 3 + 4 - 2


def test_only_split_cores_have_vector_cores_of_their_own() -> None:
    assert not ladder("Ascend310P3", "vector cores")
    (half, _, twice) = ladder("Ascend910B1", "vector cores")
    assert [dict(half), dict(twice)] == [{"vector_cores": 24}, {"vector_cores": 96}]


def test_times_are_kept_in_a_folder(runs: list[float], tmp_path: Path) -> None:
    changes = (("ai_cores", 4), ("l2.read_bytes_per_cycle_per_core", 57.5))
    first = Times(tmp_path)
    assert [first.us("lenet5", "Ascend310P3"), first.us("lenet5", "Ascend310P3", changes)] == runs
    again = Times(tmp_path)
    assert again.us("lenet5", "Ascend310P3", changes) == BASE + 1
    assert again.us("lenet5", "Ascend310P3") == BASE
    assert not again.has("lenet5", "Ascend310P3", (("ai_cores", 5),))
    assert not again.has("lenet5", "Ascend310", changes)
    assert len(runs) == 2


def test_a_step_is_seen_from_the_best_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    given = iter([50.0, 40.0, 44.0, 41.0, 30.0])
    monkeypatch.setattr(scaling, "duration_us", lambda _graph, _soc: next(given))
    steps = list(more_of("lenet5", "Ascend310P3", "cores", times=Times()))
    assert [(step.before, step.after) for step in steps] == [("2", "4"), ("4", "8"), ("4", "16"), ("4", "32")]
    assert [step.ratio for step in steps] == [0.8, 1.1, 1.025, 0.75]


def test_the_page_counts_steps_and_says_why(tmp_path: Path) -> None:
    """25 steps that are alike, but for one of a known reason and one of none."""
    times = Times(tmp_path)
    for name, odd in (
        ("lenet5", {}),
        ("resnet18", {"ai_cores=32": 104.0}),
        ("vgg16", {"buffers.l0c=524288": 103.0}),
    ):
        lines = []
        for changes in every_change("Ascend310P3"):
            text = " ".join(f"{figure}={value}" for figure, value in changes)
            lines.append(f"{odd.get(text, BASE)},{text}\n")
        (tmp_path / f"{name}_Ascend310P3.csv").write_text("".join(lines))
    (tmp_path / "alexnet_Ascend310P3.csv").write_text("".join(lines[1:2]))
    text = page(times, ("alexnet", "lenet5", "resnet18", "vgg16"), CHIPS)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert rows[2:6] == [
        "| alexnet | - | - | - | - |",
        "| lenet5 | - | 0 of 25 | - | - |",
        "| resnet18 | - | 1 of 25, +4.0% | - | - |",
        "| vgg16 | - | 1 of 25, +3.0% | - | - |",
    ]
    assert "Together 3 networks on chips, 75 steps, 2 of them slower." in text
    blocks, unknown = text.index("1. CANN's elementwise kernels"), text.index("2. no reason is known.")
    assert blocks < text.index("| Ascend310P3 | cores | 1 | +4.0% | resnet18 |") < unknown
    assert unknown < text.index("| Ascend310P3 | L0C | 1 | +3.0% | vgg16 |")


def test_the_page_names_what_was_run_in_part_or_earlier(tmp_path: Path) -> None:
    """lenet5: cores today, all earlier; alexnet: cores; resnet18: all but UB; vgg16: all, now and earlier."""
    now, before = tmp_path / "now", tmp_path / "before"
    cores = [*ladder("Ascend310P3", "cores")]
    for folder, name, run, odd in (
        (now, "lenet5", cores, 105.0),
        (before, "lenet5", every_change("Ascend310P3"), 103.0),
        (now, "alexnet", cores, 104.0),
        (now, "resnet18", [item for item in every_change("Ascend310P3") if "ub" not in str(item)], BASE),
        (now, "vgg16", every_change("Ascend310P3"), BASE),
        (before, "vgg16", every_change("Ascend310P3"), 103.0),
    ):
        folder.mkdir(exist_ok=True)
        texts = [" ".join(f"{figure}={value}" for figure, value in changes) for changes in run]
        lines = [f"{odd if text == 'ai_cores=32' else BASE},{text}\n" for text in texts]
        (folder / f"{name}_Ascend310P3.csv").write_text("".join(lines))
    names = ("alexnet", "lenet5", "resnet18", "vgg16")
    text = page(Times(now), names, ("Ascend310P3",), earlier=Times(before))
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert rows[2:6] == [
        "| alexnet | 1 of 4, +4.0% (cores) |",
        "| lenet5 | 1 of 25, +3.0% † |",
        "| resnet18 | 0 of 23 (not UB) |",
        "| vgg16 | 0 of 25 |",
    ]
    assert "† = run with an earlier state" in text
    assert "Together 3 networks on chips, 52 steps, 1 of them slower." in text
    assert "†" not in page(Times(now), names, ("Ascend310P3",))
