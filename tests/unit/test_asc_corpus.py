"""A corpus of seeded bugs: each is found with its kind and its line, and its mended twin has nothing."""

import inspect
from pathlib import Path

import numpy as np
import pytest

import ascendsim as asim
from tests.support.asc_bugs import BUGS
from tests.support.gate import every


def run(item, wrong, **options):
    return ran(item, wrong, **options)[0]


def ran(item, wrong, **options):
    """The result, and what the arrays hold then."""
    arrays = [np.arange(1024, dtype=np.float32) + 10_000 * number for number in range(3)]
    result = asim.run_kernel(item.kernel, item.cores, wrong, *arrays, **dict(item.options), **options)
    return result, np.stack(arrays)


def findings(item):
    try:
        return list(run(item, True).findings), ""
    except asim.KernelError as error:
        return list(getattr(error, "findings", ())), str(error)


@pytest.mark.parametrize("item", BUGS, ids=lambda item: item.kernel.name)
def test_a_seeded_bug_is_found_with_its_kind_and_line(item):
    lines, first = inspect.getsourcelines(item.kernel.function)
    file = Path(inspect.getsourcefile(item.kernel.function)).name
    marked = [first + number for number, text in enumerate(lines) if text.rstrip().endswith("# BUG")]
    found, error = findings(item)
    if item.kind == "error":
        assert item.text in error
        assert error.startswith(f"{file}:{marked[0]}: ")
        return
    right = [one for one in found if one.kind == item.kind]
    assert right, [str(one) for one in found]
    if marked:
        here = f"{file}:{marked[0]}: "
        right = [one for one in right if here in one.where + one.other]
    assert any(item.text in str(one) for one in right), [str(one) for one in found]
    assert {one.kind for one in found} == {item.kind}


@pytest.mark.parametrize("item", BUGS, ids=lambda item: item.kernel.name)
def test_its_mended_twin_has_nothing(item):
    assert run(item, False).findings == ()
    assert run(item, False, order="late").findings == ()


# One pipe takes its instructions in their order in every replay, and the scalar unit waits for what it reads.
IN_ORDER = {
    "stores_that_overlap",
    "loads_that_overlap",
    "vector_reads_what_the_vector_unit_writes",
    "vector_writes_what_the_vector_unit_reads",
    "scalar_reads_too_early",
    "vector_reads_what_the_scalar_unit_writes",
}
RACES = [item for item in BUGS if item.kind in ("race", "cores") and item.kernel.name not in IN_ORDER]


@pytest.mark.parametrize("item", every(6, RACES), ids=lambda item: item.kernel.name)
def test_an_order_shows_other_values_of_a_race_and_shows_them_again(item):
    in_order = ran(item, True)[1]
    other = [
        order
        for order in ("late", *range(16))
        if not np.array_equal(ran(item, True, order=order)[1], in_order)
    ]
    assert other
    first, again = (ran(item, True, order=other[0])[1] for _ in range(2))
    np.testing.assert_array_equal(first, again)
    mended = ran(item, False)[1]
    for order in other:  # it is the fault that shows, not the order
        np.testing.assert_array_equal(ran(item, False, order=order)[1], mended)


def test_the_corpus_is_large_enough():
    assert len(RACES) >= 20
    assert len(BUGS) >= 60
    kinds = [item.kind for item in BUGS]
    assert min(kinds.count(kind) for kind in set(kinds)) >= 2
