"""Which fusion passes run: switch file, `--optimization_switch`, `--oo_level` and CANN's defaults.

The order of decisions for one pass is that of the graph engine (hicann/ge, fusion_config_parser.cc):

    0  a chip's white list lacks a built-in pass         off
    1  --optimization_switch "Name:on|off"               as it says
    2  name in ExceptionalPassOfO1Level                  on
    3  --optimization_switch "forbidden_close_pass:..."  as it says, for passes that are forbidden to close
                                                         (ATC sets it on)
    4  --oo_level=O1                                     off
    5  forbidden to close                                on
    6  no licence                                        off
    7  switch maps: exact name, else ALL                 as they say
    8  single-operator scene                             on only for passes marked so
    9  else                                              on

A switch map is made from the old-form file, then the JSON file, then CANN's own configuration, and the first
entry of a name wins. Hence `ALL: on` in a file does not turn on a pass that CANN's configuration lists as
off, since that exact entry is found first. Environment variables are never read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Literal

from ascendsim.core.errors import InputError, suggest
from ascendsim.core.files import path_option
from ascendsim.passes.fusion.catalogue import FAMILIES, Family, all_facts, find_fact
from ascendsim.passes.fusion.switch_file import ALL, SwitchFile, read_switch_file

FORBIDDEN = "forbidden_close_pass"
CLOSED = ("no", "risky")  # what no switch file closes
OO_LEVELS = ("O1", "O3")


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a pass runs, and why.

    Attributes:
        on: Whether it runs.
        step: Number of the deciding step in this module's docstring.
        why: The reason in words.
    """

    on: bool
    step: int
    why: str

    @property
    def state(self) -> Literal["on", "off"]:
        """The state as switch files spell it."""
        return "on" if self.on else "off"


@dataclass(frozen=True)
class Switches:
    """All switches of one compilation.

    Attributes:
        file: What the switch file says.
        option: Names of `--optimization_switch`, with their values.
        oo_level: "O1" or "O3".
        white_list: Built-in passes that the chip may run; None if it has no such list.
        unlicensed: Passes that the licence does not cover (there is no licence here: none).
        single_operator: Passes that run in the single-operator scene; None outside it.
        warnings: What the user should know: unknown names, with suggestions; passes that a file cannot close.
    """

    file: SwitchFile = field(default_factory=SwitchFile)
    option: Mapping[str, bool] = field(default_factory=dict)
    oo_level: str = "O3"
    white_list: frozenset[str] | None = None
    unlicensed: frozenset[str] = frozenset()
    single_operator: frozenset[str] | None = None
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        fusion_switch_file: str | PathLike[str] | None = None,
        optimization_switch: str | None = None,
        oo_level: str = "O3",
        custom: Iterable[str] = (),
    ) -> Switches:
        """Switches from ATC's options.

        Args:
            fusion_switch_file: Path of a switch file.
            optimization_switch: "PassA:on;PassB:off".
            oo_level: "O3" (everything) or "O1" (only what CANN needs to work).
            custom: Names of the user's own passes, which are no unknown names.

        Raises:
            InputError: If the file or an option breaks a rule.
        """
        if oo_level not in OO_LEVELS:
            raise InputError("option oo_level", "must be O1 or O3", repr(oo_level))
        file = (
            SwitchFile()
            if fusion_switch_file is None
            else read_switch_file(path_option("fusion_switch_file", fusion_switch_file))
        )
        option = parse_optimization_switch(optimization_switch)
        known = frozenset(custom)
        closed = _kept_on(file, option)
        warnings = (
            *_unknown_in_file(file, known),
            *closed,
            *_unknown(option, "option --optimization_switch", None, known | {FORBIDDEN}),
        )
        return cls(file, option, oo_level, warnings=warnings)

    def decide(self, name: str, family: Family = "graph") -> Decision:
        """Whether a pass runs; names that CANN does not have are the user's own passes."""
        known = find_fact(name, family)
        closed = known is not None and known.switchable in CLOSED
        if self.white_list is not None and known is not None and name not in self.white_list:
            return Decision(False, 0, "not on the chip's list of supported passes")
        if name in self.option:
            return Decision(self.option[name], 1, "--optimization_switch")
        if name in self.file.exceptional:
            return Decision(True, 2, "ExceptionalPassOfO1Level in the switch file")
        if closed and (FORBIDDEN in self.option or self.oo_level == "O1"):
            # ATC itself adds "forbidden_close_pass:on", so at O1 what CANN needs to work stays on.
            on = self.option.get(FORBIDDEN, True)
            return Decision(on, 3, f"forbidden to close, {FORBIDDEN}:{'on' if on else 'off'}")
        if self.oo_level == "O1":
            return Decision(False, 4, "--oo_level=O1")
        if closed:
            assert known is not None
            return Decision(
                True,
                5,
                "forbidden to close" if known.switchable == "no" else "closed only by --optimization_switch",
            )
        if name in self.unlicensed:
            return Decision(False, 6, "not covered by the licence")
        by_map = self._by_map(name, family)
        if by_map is not None:
            return by_map
        if self.single_operator is not None:
            return Decision(name in self.single_operator, 8, "single-operator scene")
        return Decision(True, 9, "default")

    def priority(self, name: str, family: Family = "graph") -> int | None:
        """The priority that the switch file gives a pass, None if it gives none."""
        return self.file.priorities.get(family, {}).get(name)

    def _by_map(self, name: str, family: Family) -> Decision | None:
        switches = self.file.switches.get(family, {})
        if name in switches:
            return Decision(switches[name], 7, "switch file")
        known = find_fact(name, family)
        if known is not None and not known.default:
            return Decision(False, 7, "off by default in CANN's configuration")
        if ALL in switches:
            return Decision(switches[ALL], 7, "ALL in the switch file")
        return None


def parse_optimization_switch(text: str | None) -> dict[str, bool]:
    """Reads `--optimization_switch`: "PassA:on;PassB:off".

    Raises:
        InputError: If the form is wrong, a value is neither on nor off, a name comes twice, or the name is
            ALL.

    >>> parse_optimization_switch("SoftmaxFusionPass:off; PoolingFusionPass:on")
    {'SoftmaxFusionPass': False, 'PoolingFusionPass': True}
    """
    switches: dict[str, bool] = {}
    subject = "option --optimization_switch"
    for part in filter(None, (part.strip() for part in (text or "").split(";"))):
        name, colon, value = (piece.strip() for piece in part.partition(":"))
        if not (name and colon):
            raise InputError(subject, 'must have the form "PassA:on;PassB:off"', repr(part))
        if value not in ("on", "off"):
            raise InputError(f"{subject}: {name}", 'must be exactly "on" or "off"', repr(value))
        if name == ALL:
            raise InputError(
                subject, "takes names of passes only", ALL, "use a switch file, --fusion_switch_file, for ALL"
            )
        if name in switches:
            raise InputError(subject, f"names pass {name!r} twice", remedy="keep one")
        switches[name] = value == "on"
    return switches


def _unknown_in_file(file: SwitchFile, custom: frozenset[str]) -> Iterable[str]:
    subject = "fusion switch file"
    known = custom | {ALL}
    if file.old:  # its lines do not say which family they mean
        yield from _unknown(file.switches["graph"], subject, None, known)
        return
    for family in FAMILIES:
        names = dict.fromkeys([*file.switches.get(family, {}), *file.priorities.get(family, {})])
        yield from _unknown(names, subject, family, known)
    yield from _unknown(sorted(file.exceptional), subject, None, custom)


def _kept_on(file: SwitchFile, option: Mapping[str, bool]) -> Iterable[str]:
    for family in FAMILIES:
        for name, on in file.switches.get(family, {}).items():
            known = find_fact(name, family)
            if known is not None and known.switchable in CLOSED and not on and name not in option:
                yield (
                    f"fusion switch file: pass {name!r} stays on, files cannot close it; use "
                    f"--optimization_switch {name}:off"
                )


def _unknown(
    names: Iterable[str], subject: str, family: Family | None, known: frozenset[str]
) -> Iterable[str]:
    for name in names:
        if name in known or find_fact(name, family) is not None:
            continue
        other = find_fact(name)
        if other is not None:
            section = "GraphFusion" if other.family == "graph" else "UBFusion"
            yield f"{subject}: pass {name!r} has no effect here; it belongs under {section}"
        else:
            remedy = suggest(name, {fact.name for fact in all_facts(family)} | (known - {ALL, FORBIDDEN}))
            more = f"; {remedy}" if remedy.startswith("did you mean") else ""
            yield f"{subject}: no fusion pass has the name {name!r}{more}"
