"""How processes begin and end that are ours alone: without walking once more all that they have built."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import pytest

from ascendsim.sweep.pool import begin_sweeping
from ascendsim.validate.worker import start_worker

# functions registered before others are called after them
PROGRAM = """
import atexit, gc, sys
atexit.register(lambda: print(f"kept from the collector: {gc.get_freeze_count() > 10_000}"))
from ascendsim.cli.main import main
sys.argv = ["ascendsim", "--version"]
sys.exit(main(%s))
"""


@pytest.mark.parametrize(("arguments", "kept"), [("", True), ('["--version"]', False)])
def test_the_program_ends_at_once_and_a_caller_of_main_as_ever(arguments: str, kept: bool) -> None:
    command = [sys.executable, "-c", PROGRAM % arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == f"kept from the collector: {kept}"


def begin_noting(note: Path, begin: Callable[[], None]) -> None:
    """A worker's beginning that leaves a note at its end."""
    atexit.register(lambda: note.write_text(str(gc.get_freeze_count() > 10_000)))
    begin()


@pytest.mark.parametrize(
    "begin", [start_worker, partial(begin_sweeping, os.getpid())], ids=["validation", "sweep"]
)
def test_workers_leave_interrupts_to_their_parent_and_end_at_once(
    begin: Callable[[], None], tmp_path: Path
) -> None:
    note = tmp_path / "note"
    with ProcessPoolExecutor(
        1, get_context("spawn"), initializer=begin_noting, initargs=(note, begin)
    ) as pool:
        assert pool.submit(signal.getsignal, signal.SIGINT).result() is signal.SIG_IGN
    assert note.read_text() == "True"


def test_garbage_of_validation_is_left_to_the_end() -> None:
    with ProcessPoolExecutor(1, get_context("spawn"), initializer=start_worker) as pool:
        assert not pool.submit(gc.isenabled).result()
