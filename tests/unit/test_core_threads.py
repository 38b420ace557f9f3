"""How many threads NumPy's products use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ascendsim.core import threads
from ascendsim.core.threads import CHOICE, products_on


@pytest.fixture
def several(monkeypatch: pytest.MonkeyPatch) -> Iterator[threads.Library]:
    """The library with three threads, and nothing said by the user."""
    library = threads.library()
    if library is None:
        pytest.skip("NumPy has another library than OpenBLAS")
    monkeypatch.delenv(CHOICE, raising=False)
    before = library.tell()
    library.choose(3)
    yield library
    library.choose(before)


def test_products_use_so_many_threads_and_then_as_many_as_before(several: threads.Library) -> None:
    with products_on(2):
        assert several.tell() == 2
        with products_on(1):
            assert several.tell() == 1
        assert several.tell() == 2
    assert several.tell() == 3
    with pytest.raises(KeyError), products_on(1):
        raise KeyError
    assert several.tell() == 3


def test_there_are_never_more_threads_than_before(several: threads.Library) -> None:
    with products_on(8):
        assert several.tell() == 3


def test_what_the_user_says_counts(several: threads.Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "3")
    with products_on(1):
        assert several.tell() == 3
    monkeypatch.setenv(CHOICE, "")  # says nothing: the library takes all cores
    with products_on(1):
        assert several.tell() == 1
