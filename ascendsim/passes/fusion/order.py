"""The order in which graph-fusion passes run: groups, and within a group ascending priority.

Priorities come from the switch file, else from the user's pass, else from CANN's configuration. Within a
group the order is Top, Main, unlisted, Down: `Down` is moved behind everything by +10000, and what has no
priority gets 6000 + n (user's pass), 7000 + n (user's rule), 8000 + n (CANN's pass) or 9000 + n (CANN's
rule). n is a pass's place in the alphabet, and a rule's place among the rules, those of the most nodes first
(so that LambUpdateWithLr sees the bounds of its ratio before ClipByValue takes them). Source:
hicann/ge@ffdcbc9f, fusion_priority_manager, fusion_config_parser and fusion_rule_manager, which does not say
what comes first of rules with equally many nodes: here it is the alphabet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache, lru_cache

from ascendsim.core.errors import InputError
from ascendsim.passes.fusion.catalogue import PassFact, find_fact
from ascendsim.passes.fusion.rule import FusionRule
from ascendsim.passes.fusion.switch_file import BUILT_IN_RANGES, CUSTOM_RANGES, check_priority
from ascendsim.passes.fusion.switches import Switches

DOWN_OFFSET = 10000
# 7000 is for JSON rules of users, which have no form here
CUSTOM_PASS, BUILT_IN_PASS, BUILT_IN_RULE = (6000, 8000, 9000)


class Phase(IntEnum):
    """Groups of passes, in the order of execution; the names in `data/passes.csv` are the lower-case ones
    with dashes.
    """

    PREPARE = 0
    AFTER_MULTI_DIMS = 1
    BEFORE_QUANT = 2
    TF_MERGE_SUB = 3
    QUANT = 4
    ISA = 5
    DELETE_NO_CONST_FOLDING = 6
    MAIN = 7
    BEFORE_TRANSNODE = 8
    AFTER_OP_JUDGE = 9
    SECOND_ROUND = 10
    AFTER_OPTIMIZE_STAGE1 = 11

    @property
    def second_round(self) -> bool:
        """Whether the group runs on the device graph, after element types and formats are chosen and Cast and
        TransData stand.
        """
        return self >= Phase.AFTER_OP_JUDGE

    @property
    def label(self) -> str:
        """The name in the table."""
        return self.name.lower().replace("_", "-")

    @classmethod
    def of(cls, label: str) -> Phase:
        """The group of a table entry; the empty one is the main list."""
        return cls[label.upper().replace("-", "_")] if label else cls.MAIN


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pass stands in the order; places compare by group, priority and name."""

    phase: Phase
    priority: int
    name: str

    @property
    def key(self) -> tuple[int, int, str]:
        """What places are sorted by."""
        return (self.phase, self.priority, self.name)


def phase_of(rule: FusionRule) -> Phase:
    """The group of a rule: from CANN's table, for a user's pass the main list or the second round."""
    known = _known_phase(rule.name)
    if known is not None:
        return known
    return Phase.SECOND_ROUND if rule.second_round else Phase.MAIN


@cache  # every compilation asks for the phases of all passes, several times
def _known_phase(name: str) -> Phase | None:
    known = find_fact(name, "graph")
    return None if known is None else Phase.of(known.phase)


def places(rules: Sequence[FusionRule], switches: Switches) -> dict[str, Place]:
    """The place of every rule by name.

    Args:
        rules: CANN's and the user's.
        switches: May give priorities.
    """
    unlisted: dict[int, list[str]] = {}
    by_name = {rule.name: rule for rule in rules}
    listed: dict[str, int] = {}
    for rule in rules:
        known = find_fact(rule.name, "graph")
        priority = _listed_priority(rule, known, switches)
        if priority is None:
            unlisted.setdefault(_base(known), []).append(rule.name)
        else:
            listed[rule.name] = priority + DOWN_OFFSET if _is_down(priority) else priority
    for base, names in unlisted.items():
        by_size = base == BUILT_IN_RULE
        ordered = sorted(names, key=lambda name: (-_nodes(by_name[name]) if by_size else 0, name))
        listed.update((name, base + number) for number, name in enumerate(ordered))
    return {rule.name: Place(phase_of(rule), listed[rule.name], rule.name) for rule in rules}


def in_order(rules: Sequence[FusionRule], switches: Switches) -> tuple[FusionRule, ...]:
    """Rules in the order in which they run."""
    if switches.file.priorities or any(find_fact(rule.name, "graph") is None for rule in rules):
        return _sorted(rules, switches)
    return _usual_order(tuple(rules))


@lru_cache(maxsize=4)  # CANN's own as CANN has them: every compilation asks for their order, twice
def _usual_order(rules: tuple[FusionRule, ...]) -> tuple[FusionRule, ...]:
    return _sorted(rules, Switches())


def _sorted(rules: Sequence[FusionRule], switches: Switches) -> tuple[FusionRule, ...]:
    at = places(rules, switches)
    return tuple(sorted(rules, key=lambda rule: at[rule.name].key))


def check_custom(passes: Iterable[object], taken: Iterable[str]) -> tuple[FusionRule, ...]:
    """Checks passes that a user brings.

    Args:
        passes: Instances of `FusionRule` subclasses.
        taken: Names that exist already.

    Returns:
        The passes.

    Raises:
        InputError: If one is no pass, has no name, no patterns or a name that is taken, or a stage or
            priority outside CANN's ranges.
    """
    used = {*taken, "ALL"}  # ALL stands for every pass in a switch file
    checked: list[FusionRule] = []
    for item in passes:
        if not isinstance(item, FusionRule):
            what = item.__name__ if isinstance(item, type) else type(item).__name__
            remedy = (
                f"write {what}() with parentheses" if isinstance(item, type) else "derive it from FusionRule"
            )
            raise InputError("option passes", "takes instances of FusionRule subclasses", what, remedy)
        name = getattr(item, "name", None)
        if not isinstance(name, str) or not name.isidentifier():
            raise InputError(
                f"pass {type(item).__name__}", "needs a `name` of letters, digits and underscores", repr(name)
            )
        if name in used or find_fact(name) is not None:
            raise InputError(f"pass {name!r}", "has a name that is taken", remedy="choose another name")
        used.add(name)
        if not (isinstance(item.patterns, Mapping) and item.patterns):
            raise InputError(
                f"pass {name!r}", "needs `patterns`, a mapping of names to patterns", repr(item.patterns)
            )
        if (item.stage is None) != (item.priority is None):
            raise InputError(
                f"pass {name!r}",
                "needs both `stage` and `priority`, or neither",
                remedy="without both it runs behind Main, by name",
            )
        if item.stage is not None and item.priority is not None:
            check_priority(item.stage, item.priority, CUSTOM_RANGES, f"pass {name!r}")
        checked.append(item)
    return tuple(checked)


def _listed_priority(rule: FusionRule, known: PassFact | None, switches: Switches) -> int | None:
    from_file = switches.priority(rule.name)
    if from_file is not None:
        return from_file
    return rule.priority if known is None else known.priority


def _is_down(priority: int) -> bool:
    return any(low <= priority < high for low, high in (CUSTOM_RANGES["Down"], BUILT_IN_RANGES["Down"]))


def _nodes(rule: FusionRule) -> int:
    """How many nodes a rule replaces."""
    return max(sum(1 for _ in rule.needs(pattern)) for pattern in rule.patterns)


def _base(known: PassFact | None) -> int:
    if known is None:
        return CUSTOM_PASS
    return BUILT_IN_RULE if known.is_rule else BUILT_IN_PASS
