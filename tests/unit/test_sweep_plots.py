"""Pictures of sweeps show every point once, and mark those that no other beats."""

from __future__ import annotations

import pytest

from ascendsim.core.errors import InputError
from ascendsim.core.table import Table
from ascendsim.plot.pareto import plot_lines, plot_pareto
from ascendsim.plot.tornado import plot_tornado

COLUMNS = ("Row", "soc", "batch", "Time(us)", "Samples/s")
ROWS = ((0, "A", 1, 10.0, 100.0), (1, "A", 8, 40.0, 200.0), (2, "B", 1, 20.0, 50.0), (3, "B", 8, None, 900.0))


@pytest.fixture
def table() -> Table:
    return Table("sweep", COLUMNS, ROWS)


def test_dots_are_full_where_no_other_point_is_better(table: Table) -> None:
    picture = plot_pareto(table, ("Time(us)", "Samples/s"), "soc", {0, 1})
    assert (picture.x, picture.y) == (
        (10.0, 40.0, 20.0),
        (100.0, 200.0, 50.0),
    )  # a row without a figure is none
    assert picture.best == (True, True, False)
    (stairs,) = picture.ax_.lines
    assert stairs.get_xydata().tolist() == [[10, 100], [40, 200]]
    assert stairs.get_drawstyle() == "steps-post"
    drawn = [dots for dots in picture.ax_.collections if len(dots.get_offsets())]
    full = {dots.get_facecolors()[0].tolist() != [1, 1, 1, 1]: dots.get_offsets().tolist() for dots in drawn}
    assert full == {True: [[10, 100], [40, 200]], False: [[20, 50]]}
    legend = picture.ax_.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["no other beats these", "A", "B"]


def test_points_of_the_front_say_what_they_are(table: Table) -> None:
    def notes(best: set[int], beside: str) -> list[str]:
        picture = plot_pareto(table, ("Time(us)", "Samples/s"), "soc", best, beside=beside)
        assert picture.title.endswith("with their batch") == bool(picture.ax_.texts)
        return [text.get_text() for text in picture.ax_.texts]

    assert notes({0, 1}, "batch") == ["1", "8"]
    assert notes({2}, "batch") == ["1"]
    assert notes({0, 1}, "") == []
    assert notes(set(range(16)), "batch") == []  # too many to be told apart by text


def test_wide_figures_have_a_logarithmic_axis_with_plain_numbers() -> None:
    wide = Table("sweep", COLUMNS, ((0, "A", 1, 2.0, 900.0), (1, "A", 8, 7.0, 40000.0)))
    ax = plot_pareto(wide, ("Time(us)", "Samples/s"), "soc", {0}).ax_
    assert (ax.get_xscale(), ax.get_yscale()) == ("linear", "log")
    assert ax.yaxis.get_major_formatter()(20000, None) == "20,000"
    places = [place for place in ax.get_yticks() if 900 <= place <= 40000]
    assert places == [1000, 2000, 5000, 10000, 20000]


def test_a_figure_that_is_better_when_large_has_its_stairs_the_other_way(table: Table) -> None:
    picture = plot_pareto(table, ("Samples/s", "Time(us)"), "soc", {0, 1}, larger_x=True)
    assert picture.ax_.lines[0].get_drawstyle() == "steps-pre"


def test_lines_run_along_the_axis_in_its_order(table: Table) -> None:
    picture = plot_lines(table, "batch", "Samples/s", "soc")
    assert picture.lines == {"A": ((1, 8), (100.0, 200.0)), "B": ((1, 8), (50.0, 900.0))}
    assert [label.get_text() for label in picture.ax_.get_xticklabels()] == ["1", "8"]
    named = plot_lines(table, "soc", "Time(us)", "batch")
    assert named.lines == {"1": (("A", "B"), (10.0, 20.0)), "8": (("A",), (40.0,))}


def test_bars_of_a_tornado_end_where_the_times_do() -> None:
    bars = [("clock", False, 0.1, -0.05), ("latency", True, None, 0.002), ("size", False, 0.01, 0.03)]
    picture = plot_tornado(bars, "net on chip", "2 change nothing")
    ends = [round(patch.get_width(), 6) for patch in picture.ax_.patches]
    assert ends == [10, -5, 0.2, 3, 1]  # the shorter of two on one side lies on top
    assert [label.get_text() for label in picture.ax_.get_yticklabels()] == [
        "clock",
        "latency (assumed)",
        "size",
    ]
    notes = [text.get_text() for text in picture.ax_.texts]
    assert notes == ["+10.0", "-5.0", "+0.2", "+1.0 / +3.0"]


def test_pictures_are_files_in_known_forms(table: Table, tmp_path: object) -> None:
    with pytest.raises(InputError, match="must end with"):
        plot_pareto(table, ("Time(us)", "Samples/s"), "soc", set()).save(f"{tmp_path}/a.gif")


def test_a_picture_without_points_is_a_picture() -> None:
    assert plot_tornado([], "net on chip", "nothing was moved").ax_ is not None
    empty = Table("sweep", COLUMNS, ())
    assert plot_pareto(empty, ("Time(us)", "Samples/s"), "soc", set()).ax_ is not None
    assert plot_lines(empty, "batch", "Time(us)", None).ax_ is not None
