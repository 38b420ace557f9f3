"""Which passes of the graph engine run: a list of names, and ATC's --oo_level, --oo_constant_folding,
--oo_dead_code_elimination.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ascendsim.core.errors import InputError, suggest

# What keeps a graph and its shapes in order; these run in any case.
ALWAYS = frozenset({"InferShapePass", "ConvertPotentialConstantToOfficialPass"})
FOLDING = frozenset(
    {"ConstantFoldingPass", "DimensionComputePass", "ReplaceWithEmptyConstPass", "InferValueRangePass"}
)
DEAD_EDGES = frozenset({"CondRemovePass", "SwitchDeadBranchElimination", "MergePass"})
# --oo_level=O1 keeps shape inference, folding and dead-edge removal, and with them what tidies up after
# these.
O1 = ALWAYS | FOLDING | DEAD_EDGES | {"InlinePartitionedCallPass", "PrunePass", "UnusedConstPass"}


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Which passes run.

    Attributes:
        chosen: Names of the only passes that may run (besides `ALWAYS`); None = all.
        off: Whether nothing runs at all, shape inference included.
        oo_level: "O1" or "O3" (ATC's option).
        constant_folding: ATC's --oo_constant_folding.
        dead_code_elimination: ATC's --oo_dead_code_elimination.
    """

    chosen: frozenset[str] | None = None
    oo_level: str = "O3"
    constant_folding: bool = True
    dead_code_elimination: bool = True
    off: bool = False

    @classmethod
    def of(
        cls,
        passes: bool | Sequence[str] | None,
        known: Iterable[str],
        oo_level: str = "O3",
        oo_constant_folding: bool = True,
        oo_dead_code_elimination: bool = True,
    ) -> EngineSettings:
        """Settings from options.

        Args:
            passes: None or True for all, False for nothing at all, or names.
            known: Names that there are.
            oo_level: "O1" or "O3".
            oo_constant_folding: Whether constants are folded.
            oo_dead_code_elimination: Whether branches that cannot be taken are removed.

        Raises:
            InputError: If a name is not known, or the level is another.
        """
        if oo_level not in ("O1", "O3"):
            raise InputError("option oo_level", "must be O1 or O3", repr(oo_level))
        chosen: frozenset[str] | None = None
        if passes is not None and not isinstance(passes, bool):
            names = tuple(known)
            for name in passes:
                if name not in names:
                    raise InputError(
                        f"pass {name!r}", "is no pass of the graph engine", remedy=suggest(name, names)
                    )
            chosen = frozenset(passes)
        return cls(chosen, oo_level, oo_constant_folding, oo_dead_code_elimination, off=passes is False)

    def runs(self, name: str) -> bool:
        """Whether a pass runs."""
        return self.why_not(name) == ""

    def why_not(self, name: str) -> str:
        """What keeps a pass from running; empty if nothing does."""
        if self.off:
            return "switched off"
        if self.oo_level == "O1" and name not in O1:
            return "--oo_level=O1"
        if not self.constant_folding and name in FOLDING:
            return "--oo_constant_folding=false"
        if not self.dead_code_elimination and name in DEAD_EDGES:
            return "--oo_dead_code_elimination=false"
        if self.chosen is not None and name not in self.chosen | ALWAYS:
            return "not chosen"
        return ""
