"""The collector is paused inside, and afterwards as it was before."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from ascendsim.core.collection import paused_collection, without_collection


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
