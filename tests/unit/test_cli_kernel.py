"""`ascendsim kernel run` and `list`: cases of a file, what they print, how they end."""

from __future__ import annotations

import json
import re
import sys

import pytest

from ascendsim.cli.main import main

FILE = '''"""Kernels for tests."""

import numpy as np

import asc
import asc.runtime.config as config


@asc.jit
def scale(x: asc.GlobalAddress, z: asc.GlobalAddress, factor: float) -> None:
    a = asc.LocalTensor(x.dtype, asc.TPosition.VECCALC, 0, 512)
    source, target = asc.GlobalTensor(), asc.GlobalTensor()
    source.set_global_buffer(x)
    target.set_global_buffer(z)
    asc.data_copy(a, source, 64)
    asc.set_flag(asc.HardEvent.MTE2_V, 0)
    asc.wait_flag(asc.HardEvent.MTE2_V, 0)
    asc.muls(a, a, factor, 64)
    asc.set_flag(asc.HardEvent.V_MTE3, 0)
    asc.wait_flag(asc.HardEvent.V_MTE3, 0)
    asc.data_copy(target, a, z.array.size)


@asc.jit
def misspelt(x: asc.GlobalAddress) -> None:
    asc.DataCopy(x, x, 64)


@asc.jit
def failing(x: asc.GlobalAddress) -> None:
    asc.duplicate(asc.LocalTensor(asc.float32, asc.TPosition.VECCALC, 0, 8), 0.0, 8)
    raise IndexError("of mine")


def given(size: int = 64, factor: float = 2.0) -> asc.Case:
    x = np.arange(64, dtype=np.float32)
    z = np.zeros(size, np.float32)
    return asc.Case(scale, 1, (x, z, factor), {"z": np.resize(2 * x, size)}, rtol=1e-6)


def twice() -> asc.Case:
    """Twice 64 numbers.

    This is not listed.
    """
    return given()


def thrice() -> asc.Case:
    """Three times as much, where twice is expected."""
    return given(factor=3.0)


def longer() -> asc.Case:
    return given(128)


def unknown() -> asc.Case:
    return asc.Case(misspelt, 1, (np.zeros(64, np.float32),), {})


def broken() -> asc.Case:
    return asc.Case(failing, 1, (np.zeros(64, np.float32),), {})


def nothing() -> asc.Case:
    return None


def empty() -> asc.Case:
    return given(1 // 0)
'''


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A file of cases, named as the folder in which we are sees it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    (tmp_path / "kernels_of_mine.py").write_text(FILE)
    yield "kernels_of_mine.py"
    for name in set(sys.modules) - before:
        if "kernels_of_mine" in name:
            del sys.modules[name]


def test_a_case_prints_time_values_and_pipes(file, capsys):
    assert main(["kernel", "run", f"{file}::twice"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("twice: ")
    assert lines[0].endswith(" us on 1 core of Ascend910B1")
    assert lines[1] == "  values: z as expected (within rtol 1e-06, atol 0)"
    rows = [line.split() for line in lines[4:-2]]
    assert [row[0] for row in rows] == ["launch", "MTE2", "MTE3", "S", "V", "several", "waiting"]
    assert sum(float(row[-1]) for row in rows) == pytest.approx(100, abs=0.4)
    assert lines[-1].startswith("  likely interval: none, no measured kernel")
    assert "asc" not in sys.modules  # ours is called so for the file only


def test_the_chip_is_chosen(file, capsys):
    assert main(["kernel", "run", f"{file}::twice", "--soc", "Ascend310P3"]) == 0
    assert " of Ascend310P3\n" in capsys.readouterr().out


def test_a_case_that_cannot_run_stops_no_other(file, capsys):
    assert main(["kernel", "run", file]) == 2
    said = capsys.readouterr()
    heads = [line for line in said.out.splitlines() if line and line[0].isalpha() and ":" in line]
    assert [head.partition(":")[0] for head in heads] == [
        *("twice", "thrice", "longer", "unknown", "nothing", "empty"),  # broken has its traceback
    ]
    assert (
        "unknown: cannot run\n  error: kernels_of_mine.py:26: asc.DataCopy is spelt data_copy here"
        in said.out
    )
    assert "7 cases: cannot run: unknown, broken, nothing, empty\n" in said.err
    assert "2 of 7 cases: gives wrong values: thrice, longer\n" in said.err


def test_a_function_that_does_not_say_what_it_gives_is_named(tmp_path, capsys):
    path = tmp_path / "unsaid.py"
    path.write_text("import asc\n\ndef good():\n    pass\n\ndef helper(x):\n    pass\n")
    for name in ("", "::good"):
        assert main(["kernel", "run", f"{path}{name}"]) == 2
        said = capsys.readouterr().err
        assert "is no case: good lacks `-> asc.Case`; write `def good() -> asc.Case:`" in said


def test_the_timeline_is_what_its_name_says(file, tmp_path, capsys):
    assert main(["kernel", "run", f"{file}::twice", "--timeline", "t.png"]) == 0
    assert (tmp_path / "t.png").read_bytes().startswith(b"\x89PNG")
    for name in ("t.txt", "t", "png"):
        assert main(["kernel", "run", f"{file}::twice", "--timeline", name]) == 2
        assert (
            "must name a file that ends in one of .json, .json.gz, .png, .svg, .pdf"
            in capsys.readouterr().err
        )


def test_wrong_values_are_told_and_end_in_one(file, capsys):
    assert main(["kernel", "run", f"{file}::thrice"]) == 1
    assert "  wrong: z[1] is 3.0 instead of 2.0, 63 of 64 differ\n" in capsys.readouterr().out


def test_findings_stand_below_the_values(file, capsys):
    assert main(["kernel", "run", f"{file}::longer"]) == 1  # 64 numbers that nothing has written
    out = capsys.readouterr().out
    assert "  wrong: z[64] is nan instead of 0.0" in out
    assert "  finding: kernels_of_mine.py:21: asc.data_copy" in out


def test_advice_is_printed_and_no_failure(tmp_path, capsys):
    path = tmp_path / "slow.py"
    path.write_text(
        """import numpy as np

import asc


@asc.jit
def load(x: asc.GlobalAddress) -> None:
    a, source = asc.LocalTensor(x.dtype, asc.TPosition.VECCALC, 0, 4096), asc.GlobalTensor()
    source.set_global_buffer(x)
    for i in range(8):
        asc.data_copy(a, source[4096 * i :], 4096)
        asc.pipe_barrier(asc.PipeID.PIPE_ALL)


def case() -> asc.Case:
    return asc.Case(load, 1, (np.ones(8 * 4096, np.float32),), {})
"""
    )
    assert main(["kernel", "run", str(path)]) == 0
    out = capsys.readouterr().out
    assert "  advice: slow.py:12: asc.pipe_barrier holds all pipes" in out
    assert re.search(r"cycles lost: \d+; .* \(these cycles: \d+\.\d\d us, \d+\.\d % of the time\)", out)
    assert main(["kernel", "check", str(path)]) == 0
    assert "case on Ascend910B1: nothing found" in capsys.readouterr().out


def test_a_misspelt_name_is_one_line_with_its_place(file, capsys):
    assert main(["kernel", "run", f"{file}::unknown"]) == 2
    error = capsys.readouterr().err
    assert error == "ascendsim: error: kernels_of_mine.py:26: asc.DataCopy is spelt data_copy here\n"


def test_an_exception_of_the_kernel_keeps_its_traceback(file, capsys):
    assert main(["kernel", "run", f"{file}::broken"]) == 2
    error = capsys.readouterr().err
    assert 'kernels_of_mine.py", line 32, in failing' in error
    assert "on core 0 of kernel 'failing', after kernels_of_mine.py:31: asc.duplicate" in error


def test_the_timeline_has_every_pipe(file, tmp_path):
    assert main(["kernel", "run", f"{file}::twice", "--timeline", "t.json"]) == 0
    names = {event["name"] for event in json.loads((tmp_path / "t.json").read_text())["traceEvents"]}
    assert {"copy GM->UB 256 B", "vmuls 64 float32", "copy UB->GM 256 B"} <= names


def test_cases_are_listed_with_what_they_say(file, capsys):
    assert main(["kernel", "list", file]) == 0
    rows = [line.split(None, 1) for line in capsys.readouterr().out.splitlines()[2:]]
    assert ["kernels_of_mine.py::twice", "Twice 64 numbers."] in rows
    assert [row[0].partition("::")[2] for row in rows] == [
        *("twice", "thrice", "longer", "unknown", "broken", "nothing", "empty"),
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "none.py"], "kernel file 'none.py' does not exist"),
        (["run", "{file}::twise"], "case 'twise' of '{file}' does not exist; did you mean twice?"),
        (["run", "{file}::nothing"], "case 'nothing' must return an asc.Case, not NoneType"),
        (["run", "{file}::empty"], "case 'empty' fails at kernels_of_mine.py:71: ZeroDivisionError"),
        (["run", "{file}", "--timeline", "t.json"], "option --timeline goes with one case, not 7; write"),
        (["run", "{file}::twice", "--soc", "Ascend911"], "Ascend911"),
        (["run", "bare.py"], "kernel file 'bare.py' has no case; write `def case() -> asc.Case:`"),
        (["run", "raising.py"], "kernel file 'raising.py' cannot be run: NameError in line 2"),
        (["run", "other.py"], "cannot be run: ModuleNotFoundError in line 1: No module named 'asc.lib.host'"),
        (["run", "early.py"], "asc.LocalMemAllocator is not there yet; docs/kernels.md lists what is"),
        (["list"], "the following arguments are required: FILE.py"),
        (["chek"], "invalid choice: 'chek'"),
    ],
)
def test_bad_input_is_one_line(file, tmp_path, capsys, arguments, message):
    (tmp_path / "bare.py").write_text("import asc\n")
    (tmp_path / "raising.py").write_text("import asc\nnumber = other\n")
    (tmp_path / "other.py").write_text("import asc.lib.host\n")
    (tmp_path / "early.py").write_text("import asc\nmake = asc.LocalMemAllocator\n")
    assert main(["kernel", *(word.format(file=file) for word in arguments)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message.format(file=file) in error


CHECKED = '''"""Kernels to be checked."""

import numpy as np

import asc


@asc.jit
def double(x: asc.GlobalAddress, z: asc.GlobalAddress, wait: bool, hang: bool) -> None:
    a = asc.LocalTensor(x.dtype, asc.TPosition.VECCALC, 0, 64)
    source, target = asc.GlobalTensor(), asc.GlobalTensor()
    source.set_global_buffer(x)
    target.set_global_buffer(z)
    asc.data_copy(a, source, 64)
    if wait:
        asc.set_flag(asc.HardEvent.MTE2_V, 0)
    if wait or hang:
        asc.wait_flag(asc.HardEvent.MTE2_V, 0)
    asc.muls(a, a, 2.0, 64)
    asc.set_flag(asc.HardEvent.V_MTE3, 0)
    asc.wait_flag(asc.HardEvent.V_MTE3, 0)
    asc.data_copy(target, a, 64)


def given(wait: bool, hang: bool = False) -> asc.Case:
    x = np.arange(1, 65, dtype=np.float32)
    return asc.Case(double, 1, (x, np.zeros_like(x), wait, hang), {"z": 2 * x})


def good() -> asc.Case:
    return given(True)


def racing() -> asc.Case:
    return given(False)


def hanging() -> asc.Case:
    return given(False, True)
'''


@pytest.fixture
def checked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "checked.py").write_text(CHECKED)
    return "checked.py"


def test_check_finds_nothing_in_a_good_kernel(checked, capsys):
    chips = ["--soc", "Ascend910B1", "--soc", "Ascend310P3"]
    assert main(["kernel", "check", f"{checked}::good", *chips]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "good on Ascend910B1: nothing found in 18 orders",
        "good on Ascend310P3: nothing found in 18 orders",
    ]


def test_check_says_what_is_wrong_once_and_in_which_order_values_differ(checked, capsys):
    assert main(["kernel", "check", f"{checked}::racing", "--order", "late", "--order", "program"]) == 1
    head, first, *rest = capsys.readouterr().out.splitlines()
    assert head == "racing on Ascend910B1: 3 found in 2 orders"
    assert "checked.py:19: asc.muls (V) reads a (UB 0x0000..0x00ff), which asc.data_copy" in first
    assert any(line.startswith("  z[0] is ") and line.endswith("(order late)") for line in rest)


def test_check_names_what_hangs(checked, capsys):
    assert main(["kernel", "check", f"{checked}::hanging"]) == 1
    out = capsys.readouterr().out
    assert out.count("deadlock: on core 0 ") == 1
    assert "V waits at checked.py:18 for MTE2_V 0, which nothing sets any more; set it before" in out


def test_check_of_a_file_is_that_of_all_its_cases(checked, capsys):
    assert main(["kernel", "check", checked, "--order", "3"]) == 1
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines() if " found in " in line] == [
        "good",
        "racing",
        "hanging",
    ]


def test_orders_that_do_not_exist(checked, capsys):
    assert main(["kernel", "check", checked, "--order", "first"]) == 2
    assert "takes program, late or a seed" in capsys.readouterr().err
