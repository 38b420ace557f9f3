"""Fusion as the user asks for it: levels, switches and passes of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from os import PathLike

from ascendsim.compiler.profile_options import without_effect
from ascendsim.core.errors import InputError, suggest
from ascendsim.graph.ir import Graph
from ascendsim.graph.scopes import clear_scopes
from ascendsim.lower import LowerOptions, scope_lowering
from ascendsim.opset import OpSet
from ascendsim.passes.fusion.catalogue import FAMILIES, Family, all_facts, find_fact
from ascendsim.passes.fusion.flow import Dump, fuse_graph
from ascendsim.passes.fusion.order import check_custom, in_order
from ascendsim.passes.fusion.report import FusionReport
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.fusion.rules import all_rules, plugin_rules
from ascendsim.passes.fusion.switches import Switches
from ascendsim.passes.ub import UbLimits, fuse_buffers, limits_of, ub_passes
from ascendsim.soc import SocSpec

BUFFER_OPTIMIZE = ("l2_optimize", "l1_optimize", "off_optimize")


class FusionLevel(IntEnum):
    """How much is fused; each level does what those below it do."""

    OFF = 0
    GRAPH = 1
    UB = 2
    ALL = 3

    @classmethod
    def of(cls, name: str) -> FusionLevel:
        """The level of a name: "off", "graph", "ub" or "all".

        Raises:
            InputError: If there is no such level.
        """
        names = fusion_levels()
        if name not in names:
            known = (*names, "graph-kernel")
            raise InputError(
                "option fusion", "must name a level or a flow", repr(name), suggest(str(name), known)
            )
        return cls[name.upper()]

    @property
    def graph(self) -> bool:
        """Whether operators are rewritten by algebra (graph fusion)."""
        return self >= FusionLevel.GRAPH

    @property
    def ub(self) -> bool:
        """Whether operators share a task and keep what is between them in the Unified Buffer (UB fusion)."""
        return self >= FusionLevel.UB

    @property
    def l1_and_l2(self) -> bool:
        """Whether tensors between tasks are placed in L1 or L2 (L1 and L2 fusion)."""
        return self >= FusionLevel.ALL


def fusion_levels() -> tuple[str, ...]:
    """Names of the levels, least first."""
    return tuple(level.name.lower() for level in FusionLevel)


@dataclass(frozen=True)
class FusionSettings:
    """Everything that steers fusion in one compilation.

    Attributes:
        level: How much is fused.
        switches: Which passes run.
        passes: Graph passes of installed packages and of the user, checked.
        buffer_optimize: ATC's option for L1 and L2 fusion.
        dump: Called with the name of a pass and the graph after each pass that changed it.
        options: Profile options that rules may ask for.
        given: Those that the user gave.
        cause: The option that chose the level, for messages: "fusion=" with the name of the level or of the
            flow that uses it, or "schedule=eager".
    """

    level: FusionLevel = FusionLevel.ALL
    switches: Switches = field(default_factory=Switches)
    passes: tuple[FusionRule, ...] = ()
    buffer_optimize: str = "l2_optimize"
    dump: Dump | None = None
    options: Mapping[str, object] = field(default_factory=dict)
    given: Mapping[str, object] = field(default_factory=dict)
    cause: str = "fusion=all"

    @classmethod
    def of(
        cls,
        fusion: str = "all",
        fusion_switch_file: str | PathLike[str] | None = None,
        passes: Sequence[FusionRule] = (),
        optimization_switch: str | None = None,
        oo_level: str = "O3",
        *,
        buffer_optimize: str = "l2_optimize",
        dump: Dump | None = None,
        cause: str | None = None,
    ) -> FusionSettings:
        """Checks the options of `compile`; `cause` as the attribute, `fusion` by default.

        Raises:
            InputError: If an option, the switch file or a pass breaks a rule.
        """
        level = FusionLevel.of(fusion)
        cause = cause or f"fusion={fusion}"
        brought = plugin_rules()
        given = [rule for rule in passes if not any(rule is each for each in brought)]
        custom = check_custom(given, (rule.name for rule in (*all_rules(), *brought)))
        if custom and not level.graph:
            raise InputError(
                "option passes",
                'needs fusion="graph" or more',
                repr(cause.partition("=")[2]),
                "leave out passes or choose a higher level",
            )
        if buffer_optimize not in BUFFER_OPTIMIZE:
            raise InputError(
                "option buffer_optimize",
                f"must be one of {', '.join(BUFFER_OPTIMIZE)}",
                repr(buffer_optimize),
            )
        switches = Switches.of(
            fusion_switch_file, optimization_switch, oo_level, (rule.name for rule in (*brought, *custom))
        )
        named = {
            "fusion_switch_file": fusion_switch_file is not None,
            "optimization_switch": bool(optimization_switch),
        }
        useless = [name for name, present in named.items() if present and not level.graph]
        if buffer_optimize != "l2_optimize" and not level.l1_and_l2:
            useless.append("buffer_optimize")
        warnings = tuple(f"option {name} has no effect with {cause}" for name in useless)
        return cls(
            level,
            replace(switches, warnings=(*switches.warnings, *warnings)),
            (*brought, *custom),
            buffer_optimize,
            dump,
            cause=cause,
        )

    def new_report(self) -> FusionReport:
        """An empty report that holds the warnings: of the switches, and about options that have no effect at
        this level.
        """
        useless = without_effect(self.given, self.level.name.lower(), fusion_levels(), self.cause)
        return FusionReport(warnings=[*self.switches.warnings, *useless])

    def fuse(
        self, graph: Graph, soc: SocSpec, opset: OpSet, report: FusionReport, *, second_round: bool = False
    ) -> None:
        """Graph fusion, in place, if the level asks for it.

        Args:
            graph: The user's graph; for the second round the device graph, with element types and formats.
            soc: The chip.
            opset: Operators.
            report: Receives what was done.
            second_round: Which of the two rounds.

        Raises:
            PassError: If a pass failed.
        """
        if self.level.graph:
            context = FusionContext(opset, soc.generation, soc.short_name, self.options)
            fuse_graph(
                graph,
                (*all_rules(), *self.passes),
                context,
                self.switches,
                report,
                self.dump,
                second_round=second_round,
            )

    def join_tasks(
        self, graph: Graph, soc: SocSpec, opset: OpSet, report: FusionReport, lowering: LowerOptions
    ) -> None:
        """UB fusion, in place, if the level asks for it.

        Args:
            graph: The device graph.
            soc: The chip.
            opset: Operators.
            report: Receives what was done.
            lowering: How the graph is lowered afterwards.
        """
        clear_scopes(graph)  # a device graph that is compiled again has some
        if self.level.ub:
            maker = scope_lowering(soc, opset, lowering)
            fuse_buffers(
                graph,
                opset,
                ub_limits(soc.short_name, self.options),
                maker,
                switches=self.switches,
                report=report,
                after=self.dump,
            )


@dataclass(frozen=True, slots=True)
class PassState:
    """One line of `ascendsim fusion list`.

    Attributes:
        name: Of the pass.
        kind: Its family and what CANN has it as: "graph built-in", "graph json-rule", "ub FE" ...
        state: "on", "off", or "-" for a pass of CANN that has no rule here.
        why: What decided that.
        matched, effected: Counts of a compilation; None without one.
        order: Place in the order of execution, from 1 on: graph passes, then UB passes; None where there is
            no rule here.
    """

    name: str
    kind: str
    state: str
    why: str
    matched: int | None = None
    effected: int | None = None
    order: int | None = None


def pass_states(
    settings: FusionSettings, report: FusionReport | None = None, everything: bool = False
) -> tuple[PassState, ...]:
    """Every pass, graph passes first, with its state and its counts in a compilation.

    Args:
        settings: Decide the states.
        report: Of a compilation with these settings, for the counts.
        everything: Whether to list passes of CANN too that have no rule here.
    """
    states = []
    running = built_passes(settings)
    places = {item: place for place, item in enumerate(_in_order(running), 1)}
    for family in FAMILIES:
        built = running[family]
        totals = report.totals(family) if report is not None else {}
        names = {fact.name for fact in all_facts(family)}.union(built) if everything else set(built)
        for name in sorted(names):
            matched, effected = (
                totals.get(name, (0, 0)) if report is not None and name in built else (None, None)
            )
            states.append(
                PassState(
                    name,
                    _kind(name, family),
                    *_state(settings, name, family, name in built),
                    matched,
                    effected,
                    places.get((family, name)),
                )
            )
    return tuple(states)


def _in_order(running: Mapping[Family, Sequence[str]]) -> list[tuple[Family, str]]:
    return [(family, name) for family in FAMILIES for name in running[family]]


def built_passes(settings: FusionSettings) -> dict[Family, tuple[str, ...]]:
    """Names of the passes that have a rule here, by family, in the order in which they run."""
    ub = ub_passes(ub_limits(None, settings.options), settings.switches)
    rules = in_order((*all_rules(), *settings.passes), settings.switches)
    return {"graph": tuple(rule.name for rule in rules), "ub": ub}


def ub_limits(soc: str | None, options: Mapping[str, object]) -> UbLimits:
    """The limits of UB fusion that profile options ask for.

    Args:
        soc: Short name of the chip, None if it is not known yet: then the limits with the most passes.
        options: Checked profile options.
    """
    profile = options.get("ub_limits", "chip")
    numbers = {
        "conv_elementwise": "ub_conv",
        "elementwise": "ub_elementwise",
        "reduce_all": "ub_reduce",
        "segment_all": "ub_segment",
        "automatic": "ub_automatic",
    }
    changes = {
        limit: value for limit, option in numbers.items() if isinstance(value := options.get(option), int)
    }
    if profile == "chip" and soc is None:
        profile = "documents"
    limits = limits_of(soc or "", None if profile == "chip" else str(profile), changes)
    return replace(limits, conv_one_input=options.get("ub_conv_inputs") == "one")


def _kind(name: str, family: Family) -> str:
    known = find_fact(name, family)
    return f"{family} {known.kind if known is not None else 'custom'}"


def _state(settings: FusionSettings, name: str, family: Family, built: bool) -> tuple[str, str]:
    if not built:
        return "-", "no rule here"
    if not (settings.level.graph if family == "graph" else settings.level.ub):
        return "off", f"--{settings.cause.replace('=', ' ')}"
    decision = settings.switches.decide(name, family)
    return decision.state, decision.why
