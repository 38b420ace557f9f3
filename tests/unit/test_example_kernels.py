"""Kernels of examples/kernels: values on every chip that can run them, and no findings."""

import runpy
from pathlib import Path

import numpy as np
import pytest

import ascendsim as asim
from ascendsim import asc
from ascendsim.core.errors import InputError, KernelError

FOLDER = Path(__file__).parents[2] / "examples" / "kernels"
CHIPS = ["Ascend310", "Ascend310P3", "Ascend910A", "Ascend310B1", "Ascend910B1", "Ascend910_9391"]
NEW = CHIPS[3:]  # with instructions that older chips lack: brcb, copy
RUNS = {  # file, case: where it runs
    ("add", "queues"): CHIPS,
    ("add", "flags"): CHIPS,
    ("add", "tails"): CHIPS,
    ("gelu", "ragged"): CHIPS[1:],
    ("rows", "softmax_rows"): NEW,
    ("rows", "softmax_ragged"): NEW,
    ("rows", "layer_norm_ragged"): NEW,
    ("rows", "rms_norm_quantised"): NEW,
    ("reduce_256", "whole_twice"): CHIPS,
    ("reduce_256", "block_thrice"): ["Ascend310P3", *NEW],
    ("reduce_256", "block_then_whole"): ["Ascend310P3", *NEW],
    ("layouts", "transposed"): CHIPS,
    ("layouts", "fractals"): NEW,
}


def cases_of(file):
    return asc.cases(runpy.run_path(str(FOLDER / f"{file}.py"), run_name=f"kernels_{file}"))


@pytest.fixture(scope="module")
def cases():
    return {
        (file, name): case for file in {file for file, _ in RUNS} for name, case in cases_of(file).items()
    }


def test_every_case_is_listed(cases):
    assert set(cases) == set(RUNS)


# In the gate two chips in turn, one that has what the case needs
QUICK = {
    (key, soc)
    for place, (key, able) in enumerate(RUNS.items())
    for soc in (CHIPS[place % 6], able[place % len(able)])
}


@pytest.mark.parametrize(
    ("key", "soc"),
    [
        pytest.param(
            key, soc, id=f"{'.'.join(key)}-{soc}", marks=() if (key, soc) in QUICK else pytest.mark.slow
        )
        for key in RUNS
        for soc in CHIPS
    ],
)
def test_values(cases, key, soc):
    case = cases[key]()
    if soc not in RUNS[key]:
        with pytest.raises(KernelError, match=f"on {soc}"):
            asim.run_kernel(case.kernel, case.cores, *case.args, soc=soc)
        return
    result = asim.run_kernel(case.kernel, case.cores, *case.args, soc=soc)
    assert case.failures() == []
    assert result.findings == ()


def test_a_case_tells_where_values_differ_first():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    expected = x + np.float32([[0, 0, 0], [0, 0.5, 1]])
    kernel = asc.jit(lambda x: None)
    assert asc.Case(kernel, 1, (x,), {"x": expected}).failures() == [
        "x[1, 1] is 4.0 instead of 4.5, 2 of 6 differ"
    ]
    assert asc.Case(kernel, 1, (x,), {"x": expected}, atol=0.5).failures() == [
        "x[1, 2] is 5.0 instead of 6.0, 1 of 6 differ"
    ]
    assert asc.Case(kernel, 1, (x,), {"x": expected}, rtol=0.2).failures() == []
    assert asc.Case(kernel, 1, (x,), {"x": x[0]}).failures() == ["x has shape (2, 3) instead of (3,)"]


def test_values_that_are_no_numbers_are_equal_in_a_case():
    x = np.array([1, np.nan], np.float32)
    assert asc.Case(asc.jit(lambda x: None), 1, (x,), {"x": x.copy()}).failures() == []


def test_a_case_expects_something_of_parameters_only():
    with pytest.raises(InputError, match="expects something of a parameter.*not z; known are x"):
        asc.Case(asc.jit(lambda x: None), 1, (np.zeros(1),), {"z": np.zeros(1)})


def test_cases_of_a_file_are_its_functions_that_say_so():
    def one() -> asc.Case: ...

    def other() -> "asc.Case": ...

    def helper(size: int) -> asc.Case: ...

    def nothing(): ...

    assert set(asc.cases({"one": one, "other": other, "helper": helper, "nothing": nothing})) == {
        "one",
        "other",
    }
