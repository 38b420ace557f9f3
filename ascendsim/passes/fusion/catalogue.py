"""What CANN knows about its fusion passes, from `data/passes.csv` and `data/ub_fusion.csv` (their heads name
the sources).
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal, cast

from ascendsim.core.errors import InputError, suggest

Family = Literal["graph", "ub"]
FAMILIES: tuple[Family, ...] = ("graph", "ub")
Switchable = Literal["yes", "risky", "no", "flag"]


@dataclass(frozen=True, slots=True)
class PassFact:
    """One pass of CANN or MindSpore.

    Attributes:
        name: As switch files and logs spell it.
        family: "graph" or "ub".
        kind: Graph passes: "built-in", "built-in (FE)", "json-rule", "second-round" ...; UB passes: "FE",
            "MindSpore", "advisor list".
        tier: 1 matters most, 3 least.
        seed: Whether CANN's introduction to fusion names it.
        default: Whether it is on if nobody says otherwise.
        switchable: "yes" by switch file, "risky" only by `--optimization_switch`, "no" forbidden to close,
            "flag" all or none (MindSpore).
        phase: Name of the group it runs in (`order.Phase`); empty for the one sorted list in the middle.
        stage: "Top", "Main", "Down", or empty if CANN's configuration does not list it.
        priority: Within its stage, None if not listed.
        soc: Chips, in the words of the source; empty if no source states them.
        pattern: Short text, for reading only.
        order: Position in MindSpore's list, None elsewhere.
    """

    name: str
    family: Family
    kind: str
    tier: int
    seed: bool
    default: bool
    switchable: Switchable
    phase: str
    stage: str
    priority: int | None
    soc: str
    pattern: str
    order: int | None = None

    @property
    def is_rule(self) -> bool:
        """Whether CANN has it as a JSON rule and not as a pass written in C++."""
        return self.kind == "json-rule"


@cache
def all_facts(family: Family | None = None) -> tuple[PassFact, ...]:
    """Every known pass by name, graph passes first; only those of one family if it is given.

    A name may come twice: as a pass of CANN and of MindSpore, or in both families.
    """
    if family is None:
        return tuple(fact for item in FAMILIES for fact in all_facts(item))
    name = "passes.csv" if family == "graph" else "ub_fusion.csv"
    text = files("ascendsim.passes.fusion").joinpath("data", name).read_text(encoding="utf-8")
    return tuple(
        _fact(row) for row in csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    )


def find_fact(name: str, family: Family | None = None) -> PassFact | None:
    """The pass of a name, None if CANN has none. CANN's own comes before MindSpore's, graph passes before UB
    passes.
    """
    return _index(family).get(name)


def fact(name: str, family: Family | None = None) -> PassFact:
    """Like `find_fact`, for a name that must exist.

    Raises:
        InputError: If there is no such pass (suggests the nearest name).

    >>> fact("SoftmaxFusionPass").switchable
    'yes'
    """
    found = find_fact(name, family)
    if found is None:
        raise InputError(f"fusion pass {name!r}", "is not known", remedy=suggest(name, _index(family)))
    return found


@cache
def _index(family: Family | None) -> dict[str, PassFact]:
    by_name: dict[str, PassFact] = {}
    for item in sorted(all_facts(family), key=lambda item: item.kind == "MindSpore"):
        by_name.setdefault(item.name, item)
    return by_name


def _fact(row: dict[str, str]) -> PassFact:
    return PassFact(
        name=row["name"],
        family=cast(Family, row["family"]),
        kind=row["kind"],
        tier=int(row["tier"]),
        seed=row["seed"] == "yes",
        default=row["default"] == "on",
        switchable=cast(Switchable, row["switchable"]),
        phase=row.get("phase", ""),
        stage=row["stage"],
        priority=_number(row["priority"]),
        soc=row["soc"],
        pattern=row["pattern"],
        order=_number(row.get("order", "")),
    )


def _number(text: str) -> int | None:
    return int(text) if text else None
