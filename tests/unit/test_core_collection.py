"""The collector is paused inside, and afterwards as it was before."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from ascendsim.core.collection import paused_collection, without_collection
from ascendsim.machine.core import CoreRun
from tests.support.toy_machine import add, block, mmad, simulate


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    running = gc.isenabled()
    yield
    (gc.enable if running else gc.disable)()


@pytest.mark.parametrize("running", [True, False])
def test_state_comes_back(running: bool) -> None:
    (gc.enable if running else gc.disable)()
    with paused_collection():
        assert not gc.isenabled()
        with paused_collection():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled() is running


def test_state_comes_back_after_an_error() -> None:
    gc.enable()

    @without_collection
    def fail(text: str) -> bool:
        """Doc."""
        raise ValueError(text, gc.isenabled())

    with pytest.raises(ValueError, match="why") as caught:
        fail("why")
    assert caught.value.args == ("why", False)
    assert gc.isenabled()
    assert fail.__name__ == "fail"
    assert fail.__doc__ == "Doc."


def test_what_ran_on_the_machine_is_gone_without_the_collector() -> None:
    """A search for tilings runs hundreds of programs in one pause."""
    gc.collect(0)
    gc.disable()  # what is made from here on stays in the youngest generation
    kept = CoreRun.__new__(CoreRun)
    assert simulate(block(mmad(100), add(40))).end == 100
    assert [item for item in gc.get_objects(0) if type(item) is CoreRun] == [kept]
