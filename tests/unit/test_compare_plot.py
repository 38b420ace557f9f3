"""Timelines under each other: lanes of phases and of pipes, one time axis, no text over another."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.errors import InputError
from ascendsim.models.seed_examples import matmul_bias_relu
from ascendsim.plot.comparison import comparison_timelines
from ascendsim.plot.lanes import PHASES, joined, phase_lanes, phases_recorded
from tests.support.gate import slow
from tests.support.synthetic_run import synthetic_run
from tests.unit.test_plot_timeline import overlaps


@pytest.fixture(scope="module")
def few():
    models = {
        level: asim.compile(matmul_bias_relu(256, 256, 256), soc="Ascend910B1", fusion=level)
        for level in ("off", "all")
    }
    return asim.compare(models)


@pytest.fixture(scope="module")
def drawn(few):
    """The picture; tests look at it only."""
    return few.plot_timelines()


def test_variants_share_one_time_axis_as_long_as_the_longest(few, drawn):
    assert drawn.window == (0.0, max(result.duration_us for result in few.results.values()))
    assert drawn.ax_.get_xlim() == drawn.window
    assert [variant.end_us for variant in drawn.variants] == [
        result.duration_us for result in few.results.values()
    ]


def test_few_tasks_show_their_phases(drawn):
    variant = drawn.variants[0]
    assert [lane.name for lane in variant.lanes] == ["Stream 0", *PHASES]
    for lane in variant.lanes[1:]:
        assert {"MatMul", "Bias", "Relu"} == set(lane.labels) - {""}


def test_phases_of_a_removed_task_are_gone(drawn):
    before, after = (variant.lanes for variant in drawn.variants)
    for lane in before[1:]:
        assert "Bias" in lane.labels
    for lane in after[1:]:
        assert "Bias" not in lane.labels
        assert len(set(lane.tasks)) < 3


def test_phases_follow_the_record_of_each_task(few):
    run = asim.simulate(few.results["off"].model, instructions=True).profile
    emit, read, compute, write = phase_lanes(run)
    for view in run.tasks:
        ready, end = run.us(view.record.ready), run.us(view.record.end)
        spans = [
            (lane.starts[lane.tasks == view.id], lane.ends[lane.tasks == view.id])
            for lane in (emit, read, compute, write)
        ]
        assert spans[0][0].tolist() == [ready]
        assert spans[0][1][0] <= spans[1][0].min() + 1e-9  # nothing is read before the blocks run
        assert spans[1][0].min() < spans[2][0].min() < spans[3][1].max()
        assert all(ready <= starts.min() and ends.max() <= end + 1e-9 for starts, ends in spans)
        assert spans[2][0].min() == pytest.approx(run.us(view.record.first_compute))
        assert spans[2][1].max() == pytest.approx(run.us(view.record.last_compute))


def test_an_ai_cpu_task_emits_and_computes():
    run = synthetic_run(12, instructions=True)
    cpu = [view for view in run.tasks if not view.on_ai_core]
    assert cpu
    emit, read, compute, write = phase_lanes(run)
    for view in cpu:
        assert [int(np.sum(lane.tasks == view.id)) for lane in (emit, read, compute, write)] == [1, 0, 1, 0]
        assert compute.ends[compute.tasks == view.id][0] == pytest.approx(run.us(view.record.end))


def test_joined_intervals_are_disjoint_and_cover_the_same_ticks():
    random = np.random.default_rng(0)
    for _ in range(30):
        starts = random.integers(0, 60, 8)
        intervals = [
            (int(start), int(start + length))
            for start, length in zip(starts, random.integers(1, 12, 8), strict=True)
        ]
        union = joined(intervals)
        assert all(end < start for (_, end), (start, _) in pairwise(union))
        assert {tick for start, end in union for tick in range(start, end)} == {
            t for start, end in intervals for t in range(start, end)
        }


def test_many_tasks_show_pipes():
    display = comparison_timelines({"a": synthetic_run(60), "b": synthetic_run(40)})
    names = [lane.name for lane in display.variants[0].lanes]
    assert names == ["Stream 0", "Stream 1", "AI CPU", "Cube", "Vector", "MTE2 (GM in)", "MTE3 (UB out)"]


def test_phases_are_drawn_only_where_instructions_were_recorded():
    plain, recorded = synthetic_run(6), synthetic_run(6, instructions=True)
    assert not phases_recorded(plain)
    assert phases_recorded(recorded)
    auto = comparison_timelines({"a": recorded, "b": plain})
    assert "Cube" in [lane.name for lane in auto.variants[0].lanes]
    with pytest.raises(
        InputError, match=r"needs the instructions of variant 'b'; simulate with instructions=True"
    ):
        comparison_timelines({"a": recorded, "b": plain}, lanes="phases")
    with pytest.raises(InputError, match='option lanes must be "auto", "phases" or "pipes"'):
        comparison_timelines({"a": plain, "b": plain}, lanes="pipe")  # type: ignore[arg-type]


def test_facts_stand_behind_the_name(few, drawn):
    texts = {text.get_text() for text in drawn.ax_.texts}
    off, fused = few.figures
    assert "off" in texts
    assert any(
        text.startswith(f"{fused.duration_us:,.1f} us (-") and f"{fused.speed_up:.2f} x" in text
        for text in texts
    )
    assert any(f"{off.tasks} tasks" in text and " MB read" in text for text in texts)


def test_one_picture_has_one_unit():
    """A run of 12 ms beside one of 6: both in ms, as the axis is."""
    long, short = synthetic_run(200), synthetic_run(100)
    assert short.trace.duration_us < 10_000 < long.trace.duration_us
    shown = comparison_timelines({"long": long, "short": short}).plot()
    assert shown.ax_.get_xlabel() == "time (ms)"
    assert all(" us" not in variant.facts for variant in shown.variants)
    assert shown.variants[1].facts.startswith(f"{short.trace.duration_us / 1000:.2f} ms (-")
    near = comparison_timelines({"long": long, "short": short}, window=(0.0, 500.0))
    assert near.variants[0].facts.startswith(f"{long.trace.duration_us:,.1f} us")


@pytest.mark.parametrize("counts", [(5, 3), (60, 500), *slow((60, 50, 40, 30, 20))])
def test_texts_never_overlap(counts):
    runs = {f"variant {number}": synthetic_run(count) for number, count in enumerate(counts)}
    assert overlaps(comparison_timelines(runs).plot()) == []


def test_texts_never_overlap_with_phases(drawn):
    assert overlaps(drawn) == []


def test_background_ends_with_the_variant(few, drawn):
    ends = sorted({round(float(patch.get_width()), 6) for patch in drawn.ax_.patches})
    shortest = min(result.duration_us for result in few.results.values())
    assert ends == [round(shortest / drawn.window[1], 6), 1.0]


def test_equal_comparisons_give_equal_files(few, tmp_path):
    first = few.plot_timelines().save(tmp_path / "alone.png").read_bytes()
    assert few.save(tmp_path / "all")[1].read_bytes() == first
