"""What a user may have meant by the name of a chip that is none, or is another chip than he thinks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from itertools import takewhile
from typing import TYPE_CHECKING

from ascendsim.core.errors import edits
from ascendsim.soc.boards import boards_named, plain

if TYPE_CHECKING:
    from ascendsim.soc.spec import SocSpec

FIRST_910B = "Ascend910B"  # 30 cores of the first generation; people call the second generation so
# What a family is called -> how the names of its chips begin
FAMILIES: Mapping[str, str] = {
    "910b": FIRST_910B,
    "a2": FIRST_910B,
    "910c": "Ascend910_93",
    "91093": "Ascend910_93",
    "a3": "Ascend910_93",
    "a5": "Ascend910_95",
    "950": "Ascend910_95",
    "91095": "Ascend910_95",
}
_ALIKE = 0.6  # of difflib: how like a name must be to be suggested


def remedy(name: str, known: Iterable[str]) -> str:
    """What to write in place of a chip's name that does not exist.

    Args:
        name: As given.
        known: Names and aliases of chips.
    """
    chips = sorted(known)
    wanted = plain(name)
    same = [chip for chip in chips if plain(chip) == wanted]
    if wanted in FAMILIES:
        return _family(wanted, chips)
    if same:
        return f"did you mean {same[0]}?"
    if boards := boards_named(name):
        found = "; ".join(board.described() for board in boards)
        size = boards[0].memory_gib[0]
        return f"{found}: choose the chip, its memory is set with dram.size={size}GiB"
    if near := _near(wanted, chips):
        return f"did you mean {_either(near)}?"
    return f"known are {', '.join(chips)}"


def second_generation(chips: Iterable[str]) -> list[str]:
    """Names of the chips that people call 910B."""
    return [chip for chip in chips if chip.startswith(FIRST_910B) and chip != FIRST_910B]


def misunderstood(spec: SocSpec, chips: Iterable[str]) -> str:
    """What is to be said to somebody who chose a chip by a name that most people use for another; "" if there
    is nothing.

    Args:
        spec: What was chosen.
        chips: Names of all chips.
    """
    if spec.name != FIRST_910B:
        return ""
    return (
        f"{FIRST_910B} is a chip of the first generation ({spec.ai_cores} cores, no bfloat16); cards of the "
        f"second, Atlas A2, that are called 910B have {_either(second_generation(chips))}"
    )


def _near(wanted: str, chips: list[str]) -> list[str]:
    """The chips whose names differ by the fewest letters, of these the ones that begin most alike."""
    cores = {chip: plain(chip) for chip in chips}
    alike = set(get_close_matches(wanted, cores.values(), n=len(chips), cutoff=_ALIKE))
    ranks = {
        chip: (edits(wanted, core), -_alike(wanted, core)) for chip, core in cores.items() if core in alike
    }
    near = [chip for chip, rank in ranks.items() if rank == min(ranks.values())]
    return [chip for chip in near if chip != FIRST_910B] or near


def _alike(one: str, other: str) -> int:
    """Letters from the first on that two words have in common."""
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return sum(1 for _ in pairs)


def _family(word: str, chips: list[str]) -> str:
    begin = FAMILIES[word]
    if begin != FIRST_910B:
        return f"did you mean {_either([chip for chip in chips if chip.startswith(begin)])}?"
    first = f" (Atlas A2), or {FIRST_910B} of the first generation" if word == "910b" else ""
    return f"did you mean {_either(second_generation(chips))}{first}?"


def _either(names: list[str]) -> str:
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))
