"""HTML reports as users make them: files, limits, notebooks, the command line, and what is refused."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

import ascendsim as asim
from ascendsim.cli.main import main
from ascendsim.core.errors import InputError, OptionWarning
from ascendsim.report import page
from ascendsim.report.page import make_report
from ascendsim.report.payload import unpacked
from tests.support.reported import comparison, subject
from tests.support.synthetic_run import synthetic_run

LENET = "tests/data/models/lenet5.onnx"


def data_of(path: Path) -> dict[str, object]:
    found = re.search(r'id="payload">([^<]*)<', path.read_text(encoding="utf-8"))
    assert found is not None
    data = unpacked(found[1])
    assert isinstance(data, dict)
    return data


def test_a_result_writes_one_page(tmp_path: Path) -> None:
    result = comparison().results["all"]
    made = result.report(tmp_path / "r.html")
    assert made.path == tmp_path / "r.html"
    assert made.path.read_text(encoding="utf-8") == made.html
    assert "<title>net on Ascend310P3</title>" in made.html
    data = data_of(made.path)
    assert [run["name"] for run in data["runs"]] == ["net"]  # type: ignore[attr-defined]
    memory = data["runs"][0]["memory"]  # type: ignore[index]
    assert memory["peak"] == result.memory.figures.peak
    assert memory["bound"] == result.memory.figures.lower_bound
    assert 0 < max(memory["live"]) <= memory["bound"]
    owners = {name for name, region in result.memory.regions.items() if region.alias_of is None}
    weights = {name for name, region in result.memory.regions.items() if region.kind == "weight"}
    assert set(memory["names"]) == owners - weights
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]


def test_a_page_loads_nothing() -> None:
    text = comparison().report().html
    assert "default-src 'none'" in text
    assert not re.search(r"(?:src|href)\s*=\s*[\"'](?!#)", text.split('id="payload"')[0])
    assert not re.search(r"https?://|@import|url\(", text)


def test_a_comparison_and_findings(tmp_path: Path) -> None:
    shown = comparison()
    advice = asim.advise(shown.results["all"].model.source, "Ascend310P3", trials=0)
    data = data_of(Path(str(shown.report(tmp_path / "c.html", findings=advice.table()).path)))
    assert [run["name"] for run in data["runs"]] == ["off", "all"]  # type: ignore[attr-defined]
    assert len(data["changes"]) == 1  # type: ignore[arg-type]
    assert data["findings"]["columns"][0] == "Lever"  # type: ignore[index]
    assert len(data["findings"]["rows"]) == len(advice.proposals)  # type: ignore[index]


def test_a_notebook_gets_a_frame() -> None:
    made = make_report('a "quoted" & <b>title</b>', [subject(synthetic_run(3))])
    frame = made._repr_html_()
    assert frame.startswith('<iframe sandbox="allow-scripts"')
    inner = re.search(r'srcdoc="([^"]*)"', frame)
    assert inner is not None
    assert html.unescape(inner[1]) == made.html
    assert "&lt;b&gt;title&lt;/b&gt;" in made.html


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("r.htm", "must end in .html"),
        ("none/r.html", r"cannot be written \(No such file or directory\)"),
        ("folder.html", r"cannot be written \(Is a directory\)"),
    ],
)
def test_paths_that_cannot_be(path: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(InputError, match=message):
        comparison().report(tmp_path / path)
    assert [item.name for item in tmp_path.iterdir()] == ["folder.html"]


def test_large_pages_warn_and_larger_ones_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [subject(synthetic_run(3))]
    size = len(make_report("t", runs).html)
    monkeypatch.setattr(page, "LARGE", size - 1)
    with pytest.warns(OptionWarning, match="record instructions of fewer operators"):
        make_report("t", runs)
    monkeypatch.setattr(page, "LARGEST", size - 1)
    with pytest.raises(InputError, match="would have 0 MB"):
        make_report("t", runs)


def test_a_wrong_window_is_refused() -> None:
    with pytest.raises(InputError, match="start before its end"):
        comparison().results["all"].report(window=(3.0, 2.0))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "r.html"
    common = [LENET, "--soc_version", "Ascend310P3", "--output", str(target)]
    assert main(["report", *common, "--fusion", "off,all", "--instructions", "/0/Conv"]) == 0
    assert f"wrote {target}" in capsys.readouterr().out
    data = data_of(target)
    assert [run["name"] for run in data["runs"]] == ["off", "all"]  # type: ignore[attr-defined]
    assert any(lane["name"] == "Core 0 Cube" for lane in data["runs"][1]["lanes"])  # type: ignore[index]
    assert main(["report", *common]) == 0
    assert len(data_of(target)["runs"]) == 1  # type: ignore[arg-type]


@pytest.mark.parametrize("command", ["report", "run", "compare"])
def test_a_wrong_ending_is_heard_before_any_work(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    option = "--output" if command == "report" else "--report"
    assert main([command, str(tmp_path / "missing.onnx"), option, str(tmp_path / "r.txt")]) == 2
    assert "must end in .html" in capsys.readouterr().err


def test_run_and_compare_write_pages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", LENET, "--values", "off", "--report", str(tmp_path / "a.html")]) == 0
    fusion = ["--fusion", "off,all", "--values", "off"]
    assert main(["compare", LENET, *fusion, "--report", str(tmp_path / "b.html")]) == 0
    assert [len(data_of(tmp_path / name)["runs"]) for name in ("a.html", "b.html")] == [1, 2]  # type: ignore[arg-type]
    assert main(["compare", LENET, "--ablate", "--report", str(tmp_path / "c.html")]) == 2
    assert "shows variants side by side" in capsys.readouterr().err
