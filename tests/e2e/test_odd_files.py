"""Files that are wrong or odd in a place or two: what onnxruntime runs agrees or is declined in a line, no
file ends in anything but a clear error, and nearly nothing that is refused there is taken here."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.support.odd_files import CHANGES, odd_file, seeds
from tests.support.odd_verdicts import ACCEPTED, AGREES, DECLINED, FAULTS, REFUSED, Verdict, verdicts

FILES, SHARDS = 2000, 8

pytestmark = pytest.mark.usefixtures("untimed_tiles")


def _check(found: list[Verdict]) -> None:
    faults = [str(item) for item in found if item.kind in FAULTS]
    assert not faults, "\n".join(faults)
    counts = Counter(item.kind for item in found)
    assert counts[AGREES] > len(found) // 4, counts  # else the files are too odd to tell anything
    assert counts[REFUSED] > len(found) // 8, counts
    taken = [str(item) for item in found if item.kind == ACCEPTED]
    assert len(taken) <= len(found) // 50, "\n".join(taken)
    declined = [str(item) for item in found if item.kind == DECLINED]
    assert len(declined) <= len(found) // 20 + 1, "\n".join(declined)


def test_odd_files_of_a_third_of_all_operators() -> None:
    """One of every third operator."""
    _check(list(verdicts(range(0, len(seeds()), 3))))


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
def test_odd_files_of_all_operators(shard: int) -> None:
    share = FILES // SHARDS
    _check(list(verdicts(range(shard * share, (shard + 1) * share), seed=3)))


def test_files_are_the_same_on_every_run_and_others_by_number_and_seed() -> None:
    one, again, other = odd_file(5), odd_file(5), odd_file(5, seed=1)
    assert one.model.SerializeToString() == again.model.SerializeToString()
    assert one.model.SerializeToString() != other.model.SerializeToString()


def test_every_change_changes_a_file() -> None:
    """Each of them some file, so that none is there for nothing."""
    made = set()
    for number in range(0, len(seeds()), 4):
        for change in dict.fromkeys(CHANGES):
            file = odd_file(number)
            before = (
                file.model.SerializeToString(),
                {name: item.tobytes() for name, item in file.inputs.items()},
            )
            change(file, random.Random(number))
            after = (
                file.model.SerializeToString(),
                {name: item.tobytes() for name, item in file.inputs.items()},
            )
            if before != after:
                made.add(change)
        if made == set(CHANGES):
            return
    assert {change.__name__ for change in set(CHANGES) - made} == set()
