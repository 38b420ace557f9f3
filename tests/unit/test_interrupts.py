"""Interrupts are heard wherever they come."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from ascendsim.cli.main import main
from ascendsim.core.interrupts import interrupts_heard
from ascendsim.core.progress import shown_progress
from ascendsim.sweep.runner import answer
from tests.unit.test_validate import small_points


class Finalized:
    """Cannot pass on what is raised while it ends, as no finalizer can."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)


def end_one() -> None:
    end = Finalized()
    del end


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_one_that_a_finalizer_loses_is_heard_later() -> None:
    with interrupts_heard() as check:
        check()
        end_one()
        with pytest.raises(KeyboardInterrupt):
            check()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_whatever_shows_its_progress_hears_it() -> None:
    with shown_progress("search") as show:
        show(1, 3)
        end_one()
        with pytest.raises(KeyboardInterrupt):
            show(2, 3)


def test_one_that_comes_elsewhere_is_raised_there_and_the_handler_is_given_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), interrupts_heard():
        os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_process_that_ignores_them_goes_on_doing_so() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupts_heard() as check:
            os.kill(os.getpid(), signal.SIGINT)
            check()
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_leave_the_handler_alone() -> None:
    before, seen = signal.getsignal(signal.SIGINT), []

    def work() -> None:
        with interrupts_heard() as check:
            check()
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


@pytest.mark.usefixtures("untimed_tiles")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_validation_stops_at_one_that_was_lost(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from ascendsim.api.running import simulate

    def interrupted(*arguments: Any, **options: Any) -> Any:
        end_one()
        return simulate(*arguments, **options)

    monkeypatch.setattr("ascendsim.validate.measured_points", lambda _groups: small_points(1, 2, 4))
    monkeypatch.setattr("ascendsim.validate.models.simulate", interrupted)
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    assert main(["validate", "models"]) == 130
    assert "interrupted: 1 of 3 points are done" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_sweep_stops_at_one_that_was_lost(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, models_dir: Path
) -> None:
    def interrupted(*arguments: Any) -> Any:
        end_one()
        return answer(*arguments)

    monkeypatch.setattr("ascendsim.sweep.runner.answer", interrupted)
    model, store = str(models_dir / "lenet5.onnx"), tmp_path / "sweep.db"
    command = ["sweep", model, "--soc_version", "Ascend310", "--batch", "1,2,4", "--store", str(store)]
    assert main([*command, "--workers", "1"]) == 130
    assert f"interrupted after 1 of 3 points; {store} has them" in capsys.readouterr().err
    with sqlite3.connect(store) as database:
        assert database.execute("select count(*) from points where state = 'done'").fetchone() == (1,)
