"""Sweeps in real processes: the same rows wherever they work, and nothing lost or done twice whoever dies."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

import pytest

import ascendsim as asim
from ascendsim.sweep import runner
from ascendsim.sweep.pool import Processes
from ascendsim.sweep.runner import DIED, answers
from ascendsim.sweep.store import FAILED
from tests.support import sweep_workers
from tests.support.scaling_known import KNOWN_MORE, MORE, Step, reason_of
from tests.support.sources import ROOT
from tests.support.sweep_workers import SCRIPT, SEARCH

LENET = ROOT / "tests" / "data" / "models" / "lenet5.onnx"
POINTS = 24  # of SCRIPT


def children(pid: int) -> list[int]:
    """Numbers of the processes below one."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # gone meanwhile
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found += [int(stat.parent.name), *children(int(stat.parent.name))]
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def start(store: Path, workers: int = 2) -> subprocess.Popen[bytes]:
    script = store.with_name("script.py")
    script.write_text(SCRIPT)
    return subprocess.Popen([sys.executable, script, LENET, store, str(workers)], stderr=subprocess.PIPE)


def states(store: Path) -> list[tuple[str, int]]:
    database = sqlite3.connect(store)
    rows = database.execute("select state, attempts from points").fetchall()
    assert database.execute("pragma integrity_check").fetchone() == ("ok",)
    database.close()
    return rows


def count(store: Path) -> int:
    try:
        return len(states(store))
    except sqlite3.Error:  # not made yet
        return 0


def until(done: object, seconds: float = 300.0) -> None:
    end = time.monotonic() + seconds
    while not done():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.05)


def _under_way(store: Path, pid: int, target: int) -> bool:
    return count(store) >= target and len(children(pid)) >= 2


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_a_killed_sweep_goes_on_and_leaves_no_process(tmp_path: Path) -> None:
    store, moments = tmp_path / "s.db", random.Random(5)
    for kill in range(5):
        sweep = start(store)
        target = 4 * kill + moments.randint(1, 4)
        # what the one before had done may reach the target before the workers of this one are there
        until(partial(_under_way, store, sweep.pid, target))
        below = children(sweep.pid)
        sweep.kill()
        sweep.communicate()
        until(lambda below=below: not any(map(alive, below)), 15)  # type: ignore[misc]
        assert len(below) >= 2
    assert 0 < count(store) < POINTS
    last = start(store)
    last.communicate(timeout=300)
    assert last.returncode == 0
    assert states(store) == [("done", 1)] * POINTS


@pytest.mark.slow
def test_a_killed_search_asks_the_same_and_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    script, store = tmp_path / "script.py", tmp_path / "s.db"
    script.write_text(SEARCH)
    first = subprocess.Popen([sys.executable, script, LENET, store])
    until(lambda: count(store) >= 9)
    first.kill()
    first.wait()
    kept = count(store)
    assert 9 <= kept < 24
    space = {"batch": {"low": 1, "high": 6}, "set": {"dram.read_gb_per_s": {"low": 20, "high": 80}}}
    resumed = asim.search(LENET, space, trials=24, store=store, workers=1)
    assert {row.answer.attempts for row in resumed.rows} == {1}
    assert count(store) == len(resumed)
    assert resumed.table() == asim.search(LENET, space, trials=24, workers=1).table()


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_done(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "ascendsim",
        "sweep",
        LENET,
        "--batch",
        ",".join(map(str, range(1, 200))),
    ]
    store = tmp_path / "s.db"
    sweep = subprocess.Popen(
        [*command, "--store", store, "--workers", "2"], stderr=subprocess.PIPE, text=True
    )
    until(lambda: count(store) >= 3)
    below = children(sweep.pid)
    for pid in (sweep.pid, *below):  # a terminal sends it to all
        os.kill(pid, signal.SIGINT)
    _, said = sweep.communicate(timeout=60)
    assert sweep.returncode == 130
    assert "Traceback" not in said
    assert f"{store} has them, the same command goes on" in said
    until(lambda: not any(map(alive, below)), 15)
    assert 3 <= count(store) < 199


@pytest.mark.slow
def test_a_point_that_kills_its_worker_is_the_only_one_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    monkeypatch.setattr(runner, "answer_elsewhere", sweep_workers.mortal)
    asked = [sweep_workers.request(str(batch), batch, str(log)) for batch in range(1, 21)]
    found = {each.key: each for each in answers(asked, 2)}
    assert {key: each.error for key, each in found.items() if each.state == FAILED} == {
        "13": DIED,
        "7": "ValueError: seven",
    }
    assert len(found) == 20
    asked_of = Counter(line.split()[0] for line in log.read_text().splitlines())
    assert asked_of["13"] == 2
    assert all(times <= 2 for times in asked_of.values())


ROWS = """
import json, sys
import ascendsim as asim
from concurrent.futures import Executor
def rows(**where):
    found = asim.sweep({model!r}, batch=[1, 2, 3], soc=["Ascend310", "Ascend910B1"], **where)
    assert not len(found.failed()), found
    print(json.dumps(found.table().rows))
"""
LOKY = "from loky import get_reusable_executor\nrows(executor=lambda: get_reusable_executor(2))"
DASK = """
if __name__ == "__main__":
    from distributed import Client, LocalCluster
    with LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as cluster:
        with Client(cluster) as client:
            rows(executor=client.get_executor(pure=False))
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["2 workers", "1 process", "fork server", "loky", "dask"])
def test_rows_are_the_same_wherever_they_are_computed(way: str, tmp_path: Path) -> None:
    here = asim.sweep(LENET, batch=[1, 2, 3], soc=["Ascend310", "Ascend910B1"], workers=1).table().rows
    if way in ("loky", "dask"):
        pytest.importorskip("loky" if way == "loky" else "distributed")
        script = tmp_path / "script.py"
        script.write_text(ROWS.format(model=str(LENET)) + (LOKY if way == "loky" else DASK))
        done = subprocess.run(
            [sys.executable, script], capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == 0, done.stderr[-2000:]
        there = tuple(tuple(row) for row in json.loads(done.stdout.splitlines()[-1]))
    elif way == "2 workers":
        there = asim.sweep(LENET, batch=[1, 2, 3], soc=["Ascend310", "Ascend910B1"], workers=2).table().rows
    else:
        method = "spawn" if way == "1 process" else "forkserver"
        with ProcessPoolExecutor(1, mp_context=get_context(method)) as pool:
            there = (
                asim.sweep(LENET, batch=[1, 2, 3], soc=["Ascend310", "Ascend910B1"], executor=pool)
                .table()
                .rows
            )
    assert there == here


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads its size in /proc")
def test_a_worker_stays_small() -> None:
    """By VmHWM: getrusage counts what started the process, which is the larger the more tests ran before."""
    program = f"""
import re
from pathlib import Path
import ascendsim as asim
seen = []
def size(done, total):
    seen.append(int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024)
rates = list(range(20, 40))
asim.sweep({str(LENET)!r}, batch=list(range(1, 11)), set={{"dram.read_gb_per_s": rates}}, workers=1,
           progress=size)
print(seen[20], seen[-1])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=600
    )
    early, last = map(float, done.stdout.split())
    assert last < 250, f"{last} MB after 200 points"  # 210 of them compiled code and what loads it
    assert last < 1.2 * early


@pytest.mark.slow
def test_a_pool_of_processes_works_ends_and_does_not_run_the_script_again(tmp_path: Path) -> None:
    pool = Processes(1)
    try:
        name = pool.executor.submit(sweep_workers.main_file).result(timeout=60)
    finally:
        pool.close()
    assert name is None  # a worker that had run pytest's own script would have its file


@pytest.mark.slow
def test_more_bandwidth_makes_no_network_slower() -> None:
    """Over all networks; the steps that cost something are those that `scaling_known` explains."""
    models = sorted((ROOT / "tests" / "data" / "models").glob("*.onnx"))
    found = asim.sweep(models, soc="Ascend310", set={"dram.read_gb_per_s": [30, 42, 60]}, workers=2)
    assert not len(found.failed())
    assert len(found) == 3 * len(models)
    slower = []
    rows = found.table().records()
    for before, after in pairwise(rows):
        if before["model"] == after["model"]:
            rates = (str(before["dram.read_gb_per_s"]), str(after["dram.read_gb_per_s"]))
            times = (float(str(before["Time(us)"])), float(str(after["Time(us)"])))
            step = Step(f"{Path(str(before['model'])).stem} on Ascend310", "bandwidth", *rates, *times)
            why = reason_of(step, KNOWN_MORE)
            if step.ratio > (MORE if why is None else max(MORE, why.at_most)):
                slower.append(str(step))
    assert slower == []
