"""Timeline: the numbers behind it, what is drawn, and that no text overlaps another."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from ascendsim.core.errors import InputError
from ascendsim.plot import plot_roofline, plot_timeline, plot_top_operators, timeline
from ascendsim.plot.figures import shortened, text_width
from ascendsim.plot.lanes import COLOURED, coverage, share_lanes, stream_lanes
from ascendsim.plot.palette import KIND_COLOURS, ink_on
from ascendsim.profiling import KINDS, op_summary
from ascendsim.profiling.metrics import PIPE_NAMES
from ascendsim.profiling.phases import launch_ticks
from tests.support.gate import case
from tests.support.synthetic_run import synthetic_run


@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 40), st.integers(1, 8)), min_size=1, max_size=20),
    st.integers(1, 12),
    st.integers(-20, 60),
)
def test_coverage_is_the_sum_of_overlaps(slices, bins, first):
    starts = np.array([start for start, _, _ in slices], dtype=np.float64)
    ends = starts + np.array([length for _, length, _ in slices])
    heights = np.array([height / 8 for _, _, height in slices])
    edges = np.linspace(first, first + 90, bins + 1)
    expected = [
        sum(h * max(min(e, right) - max(s, left), 0) for s, e, h in zip(starts, ends, heights, strict=True))
        / (right - left)
        for left, right in pairwise(edges)
    ]
    assert coverage(starts, ends, heights, edges) == pytest.approx(expected, abs=1e-9)


def test_lanes_hold_every_task_and_the_shares_of_its_pipes():
    run = synthetic_run(60)
    lanes = {lane.name: lane for lane in [*stream_lanes(run, run.tasks), *share_lanes(run, run.tasks)]}
    assert list(lanes) == [
        "Stream 0",
        "Stream 1",
        "AI CPU",
        "Cube",
        "Vector",
        "Scalar",
        "MTE1 (L1 to L0)",
        "MTE2 (GM in)",
        "MTE3 (UB out)",
    ]
    assert len(lanes["Stream 0"]) + len(lanes["Stream 1"]) == 60
    assert len(lanes["AI CPU"]) == op_summary(run).column("Task Type").count("AI_CPU")
    cube = sum(record.busy.get("M", 0) for record in run.trace.tasks) / (2 * run.trace.end)
    assert lanes["Cube"].busy_share((0, run.trace.duration_us)) == pytest.approx(cube)
    assert {KINDS[kind] for kind in lanes["Cube"].kinds} == {"Convolution", "Matrix product"}


def test_the_head_of_a_bar_is_pale_while_nothing_runs_for_it():
    run = synthetic_run(5)
    stream = stream_lanes(run, run.tasks)[0]
    views = {view.id: view for view in run.tasks}
    for task, start, begun in zip(stream.tasks, stream.starts, stream.begun, strict=True):
        launched = min(launch_ticks(run, views[int(task)]), views[int(task)].duration)
        assert begun - start == pytest.approx(run.us(launched))
    assert all(lane.begun is None for lane in share_lanes(run, run.tasks))
    display = plot_timeline(run)
    assert "pale: launch and dispatch" in [t.get_text() for t in display.ax_.get_legend().get_texts()]


def test_long_names_of_models_do_not_leave_the_page():
    run = synthetic_run(5)
    run.graph.name = "a_very_long_name_of_a_model_" * 12
    for display in (plot_timeline(run), plot_roofline(run), plot_top_operators(run)):
        drawn = display.ax_.get_title(loc="left")
        assert "…" in drawn
        name, space, rest = display.title.partition(" ")
        head, _, tail = drawn.removesuffix(space + rest).partition("…")
        assert drawn.endswith(space + rest)
        assert name.startswith(head)
        assert name.endswith(tail)
        assert text_width(drawn, 11, display.figure_.dpi) <= display.ax_.get_window_extent().width


def test_a_zoom_counts_the_tasks_that_it_is_about():
    run = synthetic_run(60)
    names = [view.name for view in run.tasks[:3]]
    assert timeline(run, operators=names).title.endswith("3 of 60 tasks")


def test_split_chips_have_a_fixpipe_lane():
    assert "FixPipe (L0C out)" in [lane.name for lane in timeline(synthetic_run(12, split=True)).lanes]


def test_unit_follows_the_length_of_the_window():
    assert timeline(synthetic_run(10)).unit == "us"
    long = plot_timeline(synthetic_run(500))
    assert long.ax_.get_xlabel() == "time (ms)"
    assert long.ax_.get_xlim()[1] == pytest.approx(long.window[1] / 1000)


def overlaps(display):
    """Pairs of visible texts of a drawn figure whose boxes cross."""
    figure = display.figure_
    figure.draw_without_rendering()
    axes = display.ax_
    texts = [
        *axes.texts,
        *axes.get_xticklabels(),
        *axes.get_yticklabels(),
        axes.xaxis.label,
        axes.title,
        axes._left_title,
    ]
    texts += axes.get_legend().get_texts()
    boxes = [
        (text.get_text(), text.get_window_extent())
        for text in texts
        if text.get_visible() and text.get_text()
    ]
    found = []
    for number, (name, box) in enumerate(boxes):
        for other, second in boxes[number + 1 :]:
            width = min(box.x1, second.x1) - max(box.x0, second.x0)
            height = min(box.y1, second.y1) - max(box.y0, second.y0)
            if width > 1 and height > 1:
                found.append((name, other))
    return found


@pytest.mark.parametrize(
    ("count", "split"), [(1, False), case(5, True, quick=False), case(60, False, quick=False), (500, True)]
)
def test_texts_never_overlap(count, split):
    assert overlaps(plot_timeline(synthetic_run(count, split=split))) == []


def test_texts_never_overlap_when_zoomed_or_with_instructions():
    run = synthetic_run(60, instructions=True)
    assert overlaps(plot_timeline(run, operators="*conv_6")) == []
    assert overlaps(plot_timeline(run, level="instruction", window=(0, 300))) == []
    assert overlaps(plot_top_operators(run)) == []
    assert overlaps(plot_roofline(run)) == []


def test_names_stand_behind_the_pale_head_of_a_bar():
    """White on pale would be lost."""
    display = plot_timeline(synthetic_run(5))
    texts = {text.get_text().split("  ")[0]: text.get_position()[0] for text in display.ax_.texts}
    lanes = [lane for lane in display.lanes if lane.begun is not None]
    assert len(lanes) == 2
    for lane in lanes:
        for name, begun, end in zip(lane.labels, lane.begun, lane.ends, strict=True):
            assert texts[name.removeprefix("/")] == pytest.approx((begun + end) / 2)


def test_labels_appear_where_there_is_room():
    labels = {text.get_text() for text in plot_timeline(synthetic_run(5)).ax_.texts}
    assert any(label.startswith("layer0/conv_0  ") and label.endswith(" us") for label in labels)


def test_thousands_of_tasks_become_few_artists():
    crowded = plot_timeline(synthetic_run(2000)).ax_
    assert len(crowded.get_children()) < 200
    assert len(crowded.texts) < 40  # the busy shares, and next to no bar is wide enough for a name


def test_instructions_are_shown_if_all_tasks_have_them():
    run = synthetic_run(10, instructions=True)
    names = [lane.name for lane in timeline(run).lanes]
    assert "Core 0 Cube" in names
    assert "Cube" not in names
    assert "Cube" in [lane.name for lane in timeline(run, level="task").lanes]
    both = [lane.name for lane in timeline(run, cores=(0, 1)).lanes]
    assert {"Core 0 MTE2", "Core 1 MTE2"} <= set(both)
    some = replace(run, trace=replace(run.trace, instructions=run.trace.instructions[:20]))
    assert "Cube" in [lane.name for lane in timeline(some).lanes]


def test_zoom_by_window_and_by_operator():
    run = synthetic_run(60)
    assert plot_timeline(run, window=(100, 300)).ax_.get_xlim() == (100, 300)
    conv = next(view for view in run.tasks if view.name == "/layer0/conv_6")
    zoomed = timeline(run, operators="/layer0/conv_6")
    start, end = zoomed.window
    assert start < run.us(conv.record.start) < run.us(conv.record.end) < end
    assert end - start < 1.1 * run.us(conv.duration)
    assert zoomed.highlighted == {conv.id}


def test_lanes_can_be_chosen():
    run = synthetic_run(24)
    assert [lane.name for lane in timeline(run, lanes=["Stream *", "Cube"]).lanes] == [
        "Stream 0",
        "Stream 1",
        "Cube",
    ]
    with pytest.raises(InputError, match=r"lane 'Cubes' is not in this timeline; did you mean Cube\?"):
        plot_timeline(run, lanes="Cubes")


def test_wrong_arguments_are_explained():
    run = synthetic_run(6)
    with pytest.raises(InputError, match='option level must be "auto", "task" or "instruction"'):
        plot_timeline(run, level="fine")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="needs instructions recorded in the window"):
        plot_timeline(run, level="instruction")
    with pytest.raises(InputError, match="must have its start before its end"):
        plot_timeline(run, window=(3, 1))
    with pytest.raises(InputError, match=r"picture file 'a.gif' must end with .png, .svg or .pdf, not gif"):
        plot_timeline(run).save("a.gif")


def test_an_empty_run_gives_an_empty_picture(tmp_path):
    run = synthetic_run(0)
    for display in (plot_timeline(run), plot_top_operators(run), plot_roofline(run)):
        assert display.save(tmp_path / "empty.png").stat().st_size > 0


def test_given_axes_are_used():
    figure = Figure(figsize=(8, 5))
    ax = figure.add_subplot(2, 1, 2)
    display = plot_timeline(synthetic_run(20), ax, title="mine")
    assert (display.ax_, display.figure_) == (ax, figure)
    assert ax.get_title(loc="left") == "mine"


def test_equal_runs_give_equal_files(tmp_path):
    for kind, draw in (("png", plot_timeline), ("svg", plot_top_operators), ("pdf", plot_top_operators)):
        first, second = (
            draw(synthetic_run(2)).save(tmp_path / f"{number}.{kind}").read_bytes() for number in range(2)
        )
        assert first == second
    assert len(list(tmp_path.iterdir())) == 6


def test_data_behind_pictures():
    run = synthetic_run(36)
    table = timeline(run).to_table()
    stream = table.filter(lambda row: str(row["Lane"]).startswith("Stream"))
    assert sorted(stream.column("Task ID")) == list(range(36))
    top = plot_top_operators(run, 5)
    assert top.times_us == tuple(sorted(top.times_us, reverse=True))
    roof = plot_roofline(run)
    assert roof.ridge == pytest.approx(roof.peak_tflops * 1000 / 50)
    assert roof.intensity[0] == pytest.approx(2 * 4 * 28 * 28 * 32 * 32 * 9 / (2 * 4 * 32 * 28 * 28 * 2))
    assert np.all(roof.tflops <= roof.roof(roof.intensity))
    assert len(roof.to_table()) == len(roof.names) == sum(bool(record.macs) for record in run.trace.tasks)


def test_displays_show_themselves_in_notebooks():
    assert plot_timeline(synthetic_run(3))._repr_png_().startswith(b"\x89PNG")


def test_every_kind_has_a_colour_of_its_own_and_readable_ink():
    assert set(KIND_COLOURS) == set(COLOURED)
    for names in (KINDS, PIPE_NAMES.values()):
        assert len({KIND_COLOURS[name] for name in names}) == len(names)
    assert {ink_on(colour) for colour in KIND_COLOURS.values()} == {"black", "white"}


def test_shortened_text_fits_or_is_left_out():
    text = shortened("batch_normalisation_17", 8, 100, 70)
    head, tail = text.split("…")
    assert "batch_normalisation_17".startswith(head)
    assert "batch_normalisation_17".endswith(tail)
    assert len(tail) >= len(head)
    assert text_width(text, 8, 100) <= 70
    assert shortened("batch_normalisation_17", 8, 100, 20) == ""


def test_importing_plot_loads_no_matplotlib_and_drawing_never_pyplot():
    code = (
        "import sys, ascendsim.plot; sys.path.insert(0, '.');"
        "early = {'matplotlib', 'pandas', 'numba', 'onnx'} & {*sys.modules};"
        "from tests.support.synthetic_run import synthetic_run; "
        "ascendsim.plot.plot_timeline(synthetic_run(3)); "
        "sys.exit(' '.join(early | {'matplotlib.pyplot'} & {*sys.modules}) or 0)"
    )
    root = __file__.rsplit("/tests/", 1)[0]
    done = subprocess.run([sys.executable, "-c", code], timeout=60, cwd=root, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
