"""docs/kernels.md says what is so: its kernel and case run, its names exist, its table of errors is told."""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import ascendsim as asim
from ascendsim import asc
from ascendsim.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "kernels.md").read_text()
CODE = [textwrap.dedent(block) for block in re.findall(r"(?:^(?: {4}.*)?\n)+", PAGE, re.MULTILINE)]
KERNEL = next(block for block in CODE if "@asc.jit" in block)
CASE = next(block for block in CODE if "-> asc.Case" in block)
COMMANDS = [line for block in CODE for line in block.splitlines() if line.startswith("ascendsim kernel")]


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """The page's file, in the folder in which we are."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    (tmp_path / "mine.py").write_text(f"{KERNEL}\n\n{CASE}")
    yield tmp_path
    for name in set(sys.modules) - before:
        if name == "mine":
            del sys.modules[name]


def test_its_kernel_runs():
    names: dict = {}
    exec(KERNEL, names)
    np.testing.assert_array_equal(names["z"], 2 * np.arange(8 * 4096, dtype=np.float32))
    assert names["result"].findings == ()


def test_its_commands_run(mine, capsys):
    assert len(COMMANDS) >= 4
    for line in COMMANDS:
        if "setup-triton" in line:  # fetches hundreds of megabytes
            continue
        assert main(line.partition("#")[0].split()[1:]) == 0, line
    out = capsys.readouterr().out
    assert "mine.py::doubled  Twice 32,768 numbers." in out
    assert "doubled: " in out
    assert "of Ascend910B3" in out
    assert (mine / "t.json").stat().st_size > 1000


def test_every_name_of_its_tables_is_there():
    rows = [
        row.split("|")[2]
        for row in re.findall(r"^\| (?:memory|transfers|lane|across|order|system).*", PAGE, re.M)
    ]
    names = [name for row in rows for name in re.findall(r"\b(?:[A-Z]\w+|[a-z]+(?:_\w+)*\*?)", row)]
    found = [name for name in names if hasattr(asc, name)]
    assert len(found) >= 60
    assert [name for name in names if "_" in name and "*" not in name and not hasattr(asc, name)] == [
        *("get_value", "set_value"),  # of tensors
    ]


def double(*args, cores=1, soc="Ascend910B1", **options):
    names: dict = {}
    exec(KERNEL, names)
    return asim.run_kernel(names["double"], cores, *args, soc=soc, **options)


def numbers(dtype=np.float32, size=1024):
    return np.arange(size).astype(dtype)


def frozen():
    array = numbers()
    array.flags.writeable = False
    return array


@asc.jit
def spread(x):
    tensor = asc.LocalTensor(asc.float32, asc.TPosition.VECCALC, 0, 64)
    asc.brcb(tensor, tensor, 1, asc.BrcbRepeatParams())


@asc.jit
def launching(x):
    names: dict = {}
    exec(KERNEL, names)
    names["double"][1](x, x, 1024, 1024)


WRONG = {
    "a misspelt name": lambda: asc.data_coppy,
    "a name of C++": lambda: asc.DataCopy,
    "a name of pyasc that is not there": lambda: asc.mrg_sort4,
    "an array of a type that the chip lacks": lambda: double(numbers(np.float64), numbers(), 1024, 1024),
    "an array with gaps": lambda: double(numbers()[::2], numbers(), 512, 512),
    "an array that is read-only": lambda: double(frozen(), numbers(), 1024, 1024),
    "no cores": lambda: double(numbers(), numbers(), 1024, 1024, cores=0),
    "an instruction or path that the chip lacks": lambda: asim.run_kernel(
        spread, 1, numbers(), soc="Ascend910A"
    ),
    "more than 20 million calls": lambda: double(
        *(numbers(size=65536 * 4), numbers(size=65536 * 4)), 65536 * 4, 8, limit=20_000, values=False
    ),
    "a launch inside of a kernel": lambda: asim.run_kernel(launching, 1, numbers()),
    "a call outside of one": lambda: asc.pipe_barrier(asc.PipeID.PIPE_V),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_its_table_of_errors(wrong):
    (said,) = [row[1] for row in re.findall(r"^\| (.+?) \| (.+) \|$", PAGE, re.M) if row[0] == wrong]
    with pytest.raises(asim.InputError) as caught:
        WRONG[wrong]()
    told = str(caught.value)
    assert "\n" not in told
    said = said.replace("\\", "")  # without it Markdown would read kernel[8](...) as a link
    assert said.replace("at most 20000000", "at most 20000") in told


def test_all_rows_are_tried():
    table = PAGE.partition("| wrong | answer |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| (.+?) \| ", table, re.M)) == set(WRONG)
