"""HTML reports in a real browser without a network: what they show is what the trace says, and views answer
each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ascendsim.report import Report, make_report
from ascendsim.trace.records import InstructionRecord
from tests.support.browser import browser, opened
from tests.support.reported import EVIL, comparison, renamed, subject
from tests.support.synthetic_run import synthetic_run


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as running:
        yield running


def test_one_run_and_one_selection_through_all_views(chromium: Any, tmp_path: Path) -> None:
    run = synthetic_run(60, instructions=True)
    made = make_report("one run", [subject(run)]).save(tmp_path / "r.html")
    with opened(chromium, made.path) as page:
        rows = page.locator("#operators tbody tr[data-row]")
        assert rows.count() == 60
        lanes = page.evaluate("asimReport.data.runs[0].lanes.map(lane => lane.s.length)")
        assert page.evaluate("asimReport.timeline.spans") == sum(lanes)
        # longest first; a click on the head of the column turns that round
        views = sorted(run.tasks, key=lambda view: (-round(run.us(view.duration), 3), view.record.start))
        assert rows.locator("td:first-child").all_inner_texts() == [view.name for view in views]
        page.get_by_role("button", name="Time(us)", exact=True).first.click()
        longest = next(view for view in views if view.name == rows.last.locator("td").first.inner_text())
        assert longest.duration == views[0].duration
        # a click in the table moves the timeline there
        rows.last.click()
        start, end = page.evaluate("asimReport.timeline.view()")
        assert start < run.us(longest.record.start) < run.us(longest.record.end) < end < run.trace.duration_us
        assert longest.name in page.locator("#selection").inner_text()
        # the filter leaves the tasks of one type, and adds their times
        page.locator("#operators input[type=search]").fill("maxpool")
        pools = [view for view in run.tasks if view.op_type == "Pooling"]
        assert rows.count() == len(pools)
        assert f"{len(pools)} of 60" in page.locator("#operators .bar").inner_text()
        # the keys of the timeline: to the next task
        at = page.evaluate("asimReport.selected().op")
        page.locator("#timeline canvas").press("ArrowLeft")
        assert page.evaluate("asimReport.selected().op") == at - 1
        cube = [view for view in run.tasks if view.record.macs and view.moved("ddr")]
        assert page.evaluate("asimReport.roofline.points()") == len(cube)


def test_a_click_in_the_timeline_selects_in_the_table(chromium: Any, tmp_path: Path) -> None:
    run = synthetic_run(6, streams=1)
    made = make_report("clicks", [subject(run)]).save(tmp_path / "r.html")
    with opened(chromium, made.path) as page:
        canvas = page.locator("#timeline canvas")
        box = canvas.bounding_box()
        middle = run.us(run.tasks[2].record.start + run.tasks[2].duration // 2) / run.trace.duration_us
        canvas.click(position={"x": 190 + (box["width"] - 190) * middle, "y": 12})
        marked = page.locator("#operators tr.selected td").first
        assert marked.inner_text() == run.tasks[2].name


def test_a_comparison_shows_what_changed(chromium: Any, tmp_path: Path) -> None:
    shown = comparison()
    made = shown.report(tmp_path / "c.html")
    first, other = shown.results.values()
    with opened(chromium, made.path) as page:
        for table in ("byType", "byNode"):
            found = page.evaluate(f"asimReport.changes.{table}.sum()")
            assert found == pytest.approx(other.duration_us - first.duration_us, abs=2e-3)
        # all figures of the summary are to be seen, large ones with their thousands apart
        assert page.evaluate(
            "(box => box.scrollWidth <= box.clientWidth)(document.querySelector('#summary .scroll'))"
        )
        assert page.evaluate("[1234567.25, -1000, 999, null].map(grouped)") == [
            "1,234,567.3",
            "-1,000",
            "999",
            "N/A",
        ]
        fitted = """(g => [fitted(g, 60, "/a/Conv", "Conv"), fitted(g, 50, "/a/Conv", "Conv"),
            fitted(g, 40, "DepthwiseConv2D"), fitted(g, 24, "Conv")])(
            { measureText: text => ({ width: 8 * text.length }) })"""
        assert page.evaluate(fitted) == ["/a/Conv", "Conv", "D…v2D", ""]
        page.locator("#changes tr", has_text="conv + relu").click()
        assert page.evaluate("asimReport.selected().run") == 1
        assert page.locator("#operators select").input_value() == "1"
        assert page.locator("#operators tr.selected td").first.inner_text() == "conv+relu"
        lines = page.evaluate("asimReport.operators.csv()").split("\r\n")
        assert len(lines) == len(other.trace.tasks) + 2
        # search in the graph; Enter goes on
        page.locator("#graph input[type=search]").fill("relu")
        one = page.evaluate("asimReport.graph.at()")
        page.locator("#graph input[type=search]").press("Enter")
        assert "relu" in one
        assert "relu" in page.evaluate("asimReport.graph.at()")
        with page.expect_download() as caught:
            page.get_by_role("button", name="CSV").nth(0).click()
        assert Path(caught.value.path()).read_text(encoding="utf-8").startswith("Name,Type,Start(us)")


def test_evil_names_are_text(chromium: Any, tmp_path: Path) -> None:
    run = renamed(EVIL)
    made = make_report(run.graph.name, [subject(run, EVIL[0])]).save(tmp_path / "e.html")
    with opened(chromium, made.path) as page:
        assert page.locator("img").count() == 0
        assert page.title() == EVIL[0]
        texts = page.locator("#operators tbody tr[data-row] td:first-child").all_text_contents()
        assert EVIL[0] in texts
        assert EVIL[2] in texts


def test_the_frame_of_a_notebook_works(chromium: Any, tmp_path: Path) -> None:
    frame = make_report("frame", [subject(synthetic_run(5))])._repr_html_()
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html><meta charset=utf-8>{frame}", encoding="utf-8")
    page = chromium.new_context(offline=True).new_page()
    page.goto(path.as_uri())
    rows = page.frame_locator("iframe").locator("#operators tbody tr[data-row]")
    rows.first.wait_for()
    assert rows.count() == 5


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures_are_not_blank(scheme: str, chromium: Any, tmp_path: Path) -> None:
    made = comparison().report(tmp_path / "c.html")
    colours = """name => {
        const canvas = document.querySelector(`#${name} canvas`), seen = new Set();
        const cells = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        for (let i = 0; i < cells.length; i += 4) seen.add(cells.slice(i, i + 3).join());
        return seen.size;
    }"""
    with opened(chromium, made.path, color_scheme=scheme) as page:
        for view in ("timeline", "roofline", "memory", "graph"):
            assert page.evaluate(colours, view) > 5


def test_runs_of_nothing_open(chromium: Any, tmp_path: Path) -> None:
    made = make_report("nothing", [subject(synthetic_run(0))]).save(tmp_path / "n.html")
    with opened(chromium, made.path) as page:
        assert page.locator("#operators tbody tr[data-row]").count() == 0


@pytest.mark.slow
def test_two_hundred_thousand_spans(chromium: Any, tmp_path: Path) -> None:
    run = synthetic_run(40)
    task = run.tasks[0]
    step = (run.trace.end - task.record.start) // 200_000
    records = tuple(
        InstructionRecord(
            task.id, (0,), "V", "vadd", task.record.start + i * step, task.record.start + (i + 1) * step
        )
        for i in range(200_000)
    )
    run = replace(run, trace=replace(run.trace, instructions=records))
    made: Report = make_report("many", [subject(run)]).save(tmp_path / "m.html")
    with opened(chromium, made.path) as page:
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        assert page.evaluate("asimReport.timeline.spans") > 200_000
        for _ in range(20):
            page.evaluate("asimReport.timeline.zoom(0.8, 500)")
        (heap,) = (
            metric["value"]
            for metric in session.send("Performance.getMetrics")["metrics"]
            if metric["name"] == "JSHeapUsedSize"
        )
        assert heap < 100e6


def test_a_page_opens_on_the_last_run_and_cuts_no_table(chromium: Any, tmp_path: Path) -> None:
    shown = comparison()
    names = list(shown.results)
    made = shown.report(tmp_path / "c.html")
    with opened(chromium, made.path) as page:
        assert page.evaluate("asimReport.selected()") is None
        for view in ("operators", "roofline", "memory"):  # each says whose it is
            assert page.locator(f"#{view} h2 .run").inner_text() == names[-1]
        assert page.locator("#operators select").input_value() == str(len(names) - 1)
        assert page.locator("#graph select option:checked").inner_text() == f"device graph of {names[-1]}"
        page.evaluate("select(0, 0, 'test')")
        assert page.locator("#roofline h2 .run").inner_text() == names[0]
        # nobody asked the advisor: neither the view nor its link is there
        assert page.locator("#findings, nav a[href='#findings']").count() == 0
        assert "likely " in page.locator("#summary").inner_text()
    longest = "/encoder/layer.11/attention/self/query/" * 4
    run = renamed([f"{longest}MatMul_{index}" for index in range(len(EVIL))])
    made = make_report("one run", [subject(run)]).save(tmp_path / "r.html")
    with opened(chromium, made.path) as page:
        assert page.evaluate(
            "(box => box.scrollWidth <= box.clientWidth)(document.querySelector('#operators .scroll'))"
        )
        cells = page.locator("#operators tbody tr[data-row] td:first-child").all_inner_texts()
        assert {text[-8:] for text in cells} >= {f"MatMul_{index}" for index in range(3)}
        assert page.locator("#changes").count() == 0
        assert longest in page.evaluate("asimReport.operators.csv()")
