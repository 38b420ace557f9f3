"""Interrupts while kernels are compiled: the documented exit code, one line, no half files in the cache."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ascendsim_kernels import jit
from ascendsim_kernels.interrupts import Interrupts
from ascendsim_kernels.jit import kernel

ENDS = {signal.SIGINT: (130, "ascendsim: interrupted\n"), signal.SIGTERM: (143, "ascendsim: terminated\n")}


@pytest.fixture(autouse=True)
def _interrupted_as_in_a_terminal() -> Iterator[None]:
    """A shell's background jobs ignore SIGINT; tests of interrupts want what a terminal has."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


# a command that compiles one kernel and one that it calls; a signal comes in the middle of something
PROGRAM = """
import os, sys, time
from numba.core import caching, event
from ascendsim.cli import main as cli
from ascendsim_kernels.jit import kernel

SIGNAL, MOMENT = {number}, {moment!r}

def send():
    os.kill(os.getpid(), SIGNAL)
    time.sleep(0.05)  # so that threads have their turn

class Sends(event.Listener):
    def on_start(self, event):
        send()
    def on_end(self, event):
        pass

if MOMENT == "saving":
    opened = caching.IndexDataCacheFile._open_for_write
    def slow(self, path):
        made = opened(self, path)
        class Slow:
            def __enter__(self):
                file = made.__enter__()
                send()
                return file
            def __exit__(self, *error):
                return made.__exit__(*error)
        return Slow()
    caching.IndexDataCacheFile._open_for_write = slow

@kernel
def inner(x):
    return x * 2

@kernel
def outer(x):
    return inner(x) + 1

def work(arguments):
    if MOMENT == "work":
        send()
    elif MOMENT.startswith("numba:"):
        event.register(MOMENT, Sends())
    outer(1)
    print("went on")
    return 0

cli._dispatch = work
sys.exit(cli.main())
"""


@pytest.mark.parametrize("number", ENDS, ids=lambda number: number.name)
@pytest.mark.parametrize("moment", ["work", "numba:compile", "numba:run_pass", "numba:llvm_lock", "saving"])
def test_the_program_ends_with_its_code_in_one_line(
    moment: str, number: signal.Signals, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(number=int(number), moment=moment))
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, str(program)]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    said = [line for line in ended.stderr.splitlines(keepends=True) if "compiled when" not in line]
    assert (ended.returncode, "".join(said), ended.stdout) == (*ENDS[number], "")
    assert not [path for path in tmp_path.rglob("*") if ".tmp." in path.name]


def test_elsewhere_an_interrupt_waits_until_the_kernel_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from numba.core import event

    monkeypatch.setattr(jit, "cache_folder", lambda: tmp_path)  # what an earlier run compiled is elsewhere

    class Sends(event.Listener):  # type: ignore[misc]
        def on_start(self, event: event.Event) -> None:
            os.kill(os.getpid(), signal.SIGINT)

        def on_end(self, event: event.Event) -> None:
            pass

    def twice(x: int) -> int:
        return x * 2

    before = signal.getsignal(signal.SIGINT)
    compiled = kernel(twice)
    with event.install_listener("numba:run_pass", Sends()), pytest.raises(KeyboardInterrupt):
        compiled(2)
    assert signal.getsignal(signal.SIGINT) is before
    assert compiled(2) == 4
    assert compiled.signatures  # type: ignore[attr-defined]


def test_what_is_nested_ends_with_the_outermost() -> None:
    held = Interrupts()
    held.begin()
    held.begin()
    os.kill(os.getpid(), signal.SIGINT)
    held.end()
    with pytest.raises(KeyboardInterrupt):
        held.end()
    held.begin()
    held.end()  # nothing came since


def test_ignored_signals_stay_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        held = Interrupts()
        held.begin()
        os.kill(os.getpid(), signal.SIGINT)
        held.end()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.slow
def test_random_moments_of_a_first_run(tmp_path: Path, models_dir: Path) -> None:
    """A run with values on a machine without compiled kernels, stopped anywhere, and at last let through."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "ascendsim", "run", str(models_dir / "lenet5.onnx")]
    command += ["--soc_version", "Ascend310P3", "--weights", "random"]
    moments = random.Random(0)
    for _ in range(8):
        number = moments.choice([*ENDS])
        running = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment
        )
        time.sleep(moments.uniform(1.0, 12.0))
        running.send_signal(number)
        _, said = running.communicate(timeout=300)
        assert running.returncode in (0, ENDS[number][0])
        assert "Traceback" not in said
    assert subprocess.run(command, capture_output=True, env=environment, check=False).returncode == 0
    assert not [path for path in tmp_path.rglob("*") if ".tmp." in path.name]
