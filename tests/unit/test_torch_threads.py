"""How many threads NumPy's products use."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ascendsim.torch import threads
from ascendsim.torch.threads import CHOICE, products_on
from tests.support.torch_present import torch_or_skip

torch_or_skip()


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], int]]:
    """Tells how many; three at first, and nothing said by the user."""
    found = threads.libraries()
    if found is None or not found.info():
        pytest.skip("threadpoolctl is absent, or NumPy has another library than OpenBLAS")
    monkeypatch.delenv(CHOICE, raising=False)
    with found.limit(limits=3):
        yield lambda: max(each["num_threads"] for each in found.info())


def test_products_use_so_many_threads_and_then_as_many_as_before(used: Callable[[], int]) -> None:
    with products_on(2):
        assert used() == 2
        with products_on(1):
            assert used() == 1
        assert used() == 2
    assert used() == 3
    with pytest.raises(KeyError), products_on(1):
        raise KeyError
    assert used() == 3


def test_there_are_never_more_threads_than_before(used: Callable[[], int]) -> None:
    with products_on(8):
        assert used() == 3


def test_what_the_user_says_counts(used: Callable[[], int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "3")
    with products_on(1):
        assert used() == 3
    monkeypatch.setenv(CHOICE, "")  # says nothing: the library takes all cores
    with products_on(1):
        assert used() == 1


def test_without_the_library_that_knows_nothing_changes(
    used: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "libraries", lambda: None)
    with products_on(1):
        assert used() == 3
