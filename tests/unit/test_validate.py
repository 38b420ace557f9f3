"""Scoring against published measurements."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ascendsim import soc
from ascendsim.api.loading import load
from ascendsim.api.running import simulate
from ascendsim.cli.main import main
from ascendsim.core.errors import InputError
from ascendsim.validate import Point, Prediction, compare_models, measured_points, predictions, score, worst
from ascendsim.validate.models import call_us, compile_point, in_lines, next_in, of_points, structure
from ascendsim.validate.roofline import roofline_us
from ascendsim.validate.score import spearman


def _prediction(measured: float, predicted: float, name: str = "n") -> Prediction:
    return Prediction(Point("310", "Ascend310", name, "n.onnx", 1, measured, False), predicted)


def test_each_point_counts_once_and_untrusted_rows_do_not() -> None:
    points = measured_points()
    keys = [(point.group, point.model, point.batch) for point in points]
    assert len(set(keys)) == len(keys) > 150
    # the number of scored points that comes with the data
    counts = Counter(point.group for point in points)
    assert (counts["310"], counts["310P3"], counts["310P"]) == (89, 158, 62)
    assert all(point.throughput > 0 for point in points)


def test_score() -> None:
    value = score([_prediction(100, 110), _prediction(200, 160), _prediction(300, 300)])
    assert value.points == 3
    assert value.mape == pytest.approx(0.1)
    assert value.median == pytest.approx(0.1)
    assert value.bias == pytest.approx(-0.1 / 3)
    assert value.spearman == pytest.approx(1.0)


def test_rank_correlation_equals_scipy() -> None:
    from scipy import stats  # takes a second, in every process that collects tests

    random = np.random.default_rng(1)
    for _ in range(20):
        a, b = random.integers(0, 6, 12).tolist(), random.integers(0, 6, 12).tolist()
        assert spearman(a, b) == pytest.approx(stats.spearmanr(a, b).statistic)


def test_worst_first() -> None:
    found = worst([_prediction(100, 101, "a"), _prediction(100, 50, "b"), _prediction(100, 120, "c")], 2)
    assert [prediction.point.model for prediction in found] == ["b", "c"]


def test_roofline_by_hand(models_dir: Path) -> None:
    chip = soc.load("Ascend310")
    graph = load(models_dir / "lenet5.onnx")
    layers = sum(node.op_type in ("Conv", "Gemm") for node in graph.nodes)
    assert layers == 5
    # fixed time a layer, and hardly any work
    assert 8.0 * layers < roofline_us(graph, chip) < 8.0 * layers + 20


@pytest.mark.usefixtures("untimed_tiles")
def test_networks_are_simulated(models_dir: Path) -> None:
    points = [
        point for point in measured_points(["310"]) if point.model == "squeezenet1_1" and point.batch == 1
    ]
    outcome = compare_models(points, models_dir)
    assert len(outcome.simulated) == len(outcome.roofline) == len(points) == 1
    assert outcome.simulated[0].throughput > 0


@pytest.mark.usefixtures("untimed_tiles")
def test_the_call_of_a_model_counts_beside_the_device_time(models_dir: Path) -> None:
    point = replace(small_points(1)[0], soc="Ascend310P3")
    model = compile_point(point, models_dir)
    (own,) = compare_models([point], models_dir).simulated
    call = soc.load("Ascend310P3").launch.model_call_us
    assert call > 0
    assert 1e6 / own.throughput == pytest.approx(simulate(model).duration_us + call)
    assert call_us(replace(model.program, mode="host"), model.soc) == 0  # launches are in its time already


@pytest.mark.usefixtures("untimed_tiles")
def test_image_input_where_the_published_run_had_it(models_dir: Path) -> None:
    points = [
        point
        for point in measured_points(["310P3"])
        if point.model in ("resnet18", "resnet34") and point.batch == 1
    ]
    assert {point.model: point.aipp for point in points} == {"resnet18": True, "resnet34": False}
    (image,) = (point for point in points if point.aipp)
    pair = [image, replace(image, aipp=False)]
    published, other = (item.throughput for item in compare_models(pair, models_dir).simulated)
    assert published > other  # images are shorter than floats, and need no Cast and TransData


def test_unknown_chip(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "models", "--chips", "311"]) == 2
    assert "did you mean 310" in capsys.readouterr().err


def test_missing_structures(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["validate", "models", "--models", str(tmp_path)]) == 2
    assert "--models" in capsys.readouterr().err


def small_points(*batches: int) -> tuple[Point, ...]:
    return tuple(
        Point("310", "Ascend310", "lenet5", "lenet5.onnx", batch, 1000.0 * batch, False) for batch in batches
    )


def test_predictions_do_not_depend_on_the_number_of_processes(models_dir: Path) -> None:
    points = small_points(1, 4, 2)
    alone, together = (list(predictions(points, models_dir, processes=count)) for count in (1, 2))
    assert [own.point for own, _ in alone] == list(points)
    assert sorted(alone, key=str) == sorted(together, key=str)


def test_batches_of_a_network_stand_in_one_line() -> None:
    points = [
        replace(point, soc=chip, file=name)
        for chip in ("Ascend310P3", "Ascend310")
        for point in small_points(4, 1)
        for name in ("a", "b", "c")
    ]
    places = [[(point.soc, point.file, point.batch) for point in line] for line in in_lines(points, 2)]
    assert places == [
        [(chip, name, batch) for name in ("a", "b", "c") for batch in (1, 4)]
        for chip in ("Ascend310", "Ascend310P3")
    ]
    assert list(map(len, in_lines(points[:7], 3))) == [2, 2, 3]
    assert in_lines(points, 1) == [deque(points)]
    assert in_lines(small_points(1), 2) == [deque(small_points(1))]  # no process without work


def test_who_is_through_with_its_line_takes_the_last_of_the_longest() -> None:
    lines = [deque[Point](), deque(small_points(1)), deque(small_points(2, 4, 8))]
    taken = [next_in(lines, number) for number in (0, 2, 1, 1, 0)]
    assert [point and point.batch for point in taken] == [8, 2, 1, 4, None]


def _process(folder: Path, point: Point, _values: object) -> tuple[Point, int]:
    """The first point is done when the last one has been."""
    ended = folder / "ended"
    for _ in range(600 if point.batch == 1 else 0):
        if ended.exists():
            break
        time.sleep(0.05)
    if point.batch == 32:
        ended.touch()
    return point, os.getpid()


def test_a_process_that_is_free_takes_what_stands_in_another_line(tmp_path: Path) -> None:
    """One process waits at its first point until the other one has gone through all others."""
    found = list(of_points(partial(_process, tmp_path), small_points(1, 2, 4, 16, 8, 32), None, 2))
    batches = [point.batch for point, _ in found]
    assert sorted(batches) == [1, 2, 4, 8, 16, 32]
    assert batches[:3] == [8, 16, 32]
    processes = {point.batch: process for point, process in found}
    assert processes[8] == processes[16] == processes[32] == processes[4] != processes[1]


@pytest.mark.usefixtures("untimed_tiles")
def test_an_interrupt_prints_what_is_done(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    times = iter(range(3))

    def impatient(*arguments: Any, **options: Any) -> Any:
        if next(times) == 2:
            raise KeyboardInterrupt
        return simulate(*arguments, **options)

    monkeypatch.setattr("ascendsim.validate.measured_points", lambda _groups: small_points(1, 2, 4, 8))
    monkeypatch.setattr("ascendsim.validate.models.simulate", impatient)
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    table = tmp_path / "points.csv"
    assert main(["validate", "models", "--output", str(tmp_path / "new"), "--csv", str(table)]) == 130
    printed = capsys.readouterr()
    assert "chip 310, 2 of 4 points" in printed.out
    assert [line.split()[:2] for line in printed.out.splitlines() if line.startswith("lenet5")] == [
        ["lenet5", "1"],
        ["lenet5", "2"],
    ]
    assert printed.err == "ascendsim: interrupted: 2 of 4 points are done, and no picture is drawn\n"
    assert [line.split(",")[:3] for line in table.read_text().splitlines()[1:]] == [
        ["310", "lenet5", "1"],
        ["310", "lenet5", "2"],
    ]
    assert not list((tmp_path / "new").iterdir())


@pytest.mark.slow
def test_an_interrupt_of_the_process_group_ends_with_a_table(models_dir: Path) -> None:
    """As Ctrl-C in a terminal does: every process gets the signal, while a progress bar is on standard
    error."""
    terminal, inside = pty.openpty()
    command = [
        sys.executable,
        "-m",
        "ascendsim",
        "validate",
        "models",
        "--chips",
        "310",
        "--models",
        str(models_dir),
    ]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=inside, text=True, start_new_session=True
    )
    os.close(inside)
    seen = ""
    while not re.search(r"[1-9]\d*/\d+", seen):
        seen += os.read(terminal, 4096).decode()
    os.killpg(process.pid, signal.SIGINT)
    reader = threading.Thread(target=lambda: _drain(terminal), daemon=True)
    reader.start()
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 130
    assert re.search(r"chip 310, \d+ of \d+ points", out)
    assert "Traceback" not in out


def _drain(terminal: int) -> None:
    with contextlib.suppress(OSError):  # the other end is closed
        while os.read(terminal, 4096):
            pass


def test_a_folder_that_is_not_there_is_named_with_what_it_should_be(tmp_path: Path) -> None:
    """An installed package has no networks."""
    with pytest.raises(
        InputError, match="does not exist; they are no part of the package: run it in a clone"
    ):
        structure("resnet50.onnx", tmp_path / "none")
    with pytest.raises(InputError, match=r"network structure 'resnet50.onnx' is not in"):
        structure("resnet50.onnx", tmp_path)
