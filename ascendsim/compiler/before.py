"""What compilations and runs of a process have lowered and timed, for those that follow.

Networks share layers, and batches that are cut share those of smaller batches. How a unit is lowered follows
from its key, the chip, the operators and the options of the lowering (`lower.unit_key`), so what one
compilation has lowered serves all others that agree in these.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from ascendsim.core.keys import forget_oldest, key_of
from ascendsim.lower import KnownUnits
from ascendsim.lower.tiling_search import TilingSearch
from ascendsim.machine import Known
from ascendsim.opset import OpSet
from ascendsim.soc import SocSpec

MOST_KINDS = 4  # of compilations that are remembered; sweeps over figures of a chip go through many
MOST_UNITS = 500  # nodes, scopes or settled scopes; some 50 kB each
_known: dict[Hashable, _Kind] = {}
_plain: dict[Hashable, KnownUnits] = {}
_runs: dict[Hashable, Known] = {}


@dataclass(slots=True)
class _Kind:
    """Units of one chip, opset and set of options.

    Attributes:
        drafts: Whose scopes and engines hold however tilings are picked.
        picked: By what picks tilings.
    """

    drafts: KnownUnits = field(default_factory=KnownUnits)
    picked: dict[TilingSearch | None, KnownUnits] = field(default_factory=dict)

    def units(self, tilings: TilingSearch | None) -> KnownUnits:
        """The units whose tilings are picked in this way."""
        if tilings not in self.picked:
            forget_oldest(self.picked, 1)
            self.picked[tilings] = KnownUnits(scopes=self.drafts.scopes, engines=self.drafts.engines)
        units = self.picked[tilings]
        units.make_room(MOST_UNITS)
        return units


@dataclass(frozen=True, slots=True)
class UnitsBefore:
    """Finds what was lowered before as a compilation lowers.

    Attributes:
        soc, opset, aicpu_types, flags: As `LowerOptions` has them.
    """

    soc: SocSpec
    opset: OpSet
    aicpu_types: frozenset[str]
    flags: Mapping[str, object]

    def __call__(self, tilings: TilingSearch | None) -> KnownUnits:
        """The units whose tilings are picked in this way."""
        key = (self.soc.figures, self.opset, self.aicpu_types, key_of(self.flags))
        kind = _known.pop(key, None)
        if kind is None:
            kind = _Kind()
            forget_oldest(_known, MOST_KINDS - 1)
        _known[key] = kind  # the last one that was used comes last
        units = kind.units(tilings)
        units.plain, units.versioned = self._plain_units(tilings), _versioned(self.opset)
        return units

    def _plain_units(self, tilings: TilingSearch | None) -> KnownUnits:
        choices = None if tilings is None else tilings.tilings
        key = (self.soc.task_figures, self.opset, self.aicpu_types, key_of(self.flags), choices)
        units = _plain.pop(key, None)
        if units is None:
            units = KnownUnits()
            forget_oldest(_plain, MOST_KINDS - 1)
        _plain[key] = units
        units.make_room(MOST_UNITS)
        return units


@lru_cache(maxsize=MOST_KINDS)
def _versioned(opset: OpSet) -> frozenset[str]:
    return frozenset(one.name for one in opset if one.facts.versioned)


def forget() -> None:
    """Begins anew: for who has changed the code of a running process."""
    _known.clear()
    _plain.clear()
    _runs.clear()


def known_runs(soc: SocSpec) -> Known:
    """What runs of this process have worked out for tasks of a chip."""
    figures = soc.task_figures
    known = _runs.pop(figures, None)
    if known is None:
        known = Known()
        forget_oldest(_runs, MOST_KINDS - 1)
    _runs[figures] = known
    return known
