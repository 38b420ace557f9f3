"""UB fusion of a device graph: which passes run, in which order, and what becomes of each match.

A match that patterns and legality allow gets a program (it is compiled, as CANN has it): matched counts all
of these, effected those that have one. The others stay single operators and the reason is kept. Nodes keep
their place in the graph; a scope is a number in `origin`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from ascendsim.core.errors import CompileError
from ascendsim.graph.ir import Graph, Node
from ascendsim.opset import OpSet
from ascendsim.opset.facts import OpPattern
from ascendsim.opset.patterns import pattern_of
from ascendsim.passes.aipp.join import NAME as AIPP
from ascendsim.passes.aipp.join import join_aipp
from ascendsim.passes.fusion.catalogue import PassFact, all_facts
from ascendsim.passes.fusion.order import BUILT_IN_PASS, DOWN_OFFSET
from ascendsim.passes.fusion.report import FusedScopeRecord, FusionReport
from ascendsim.passes.fusion.switch_file import BUILT_IN_RANGES, CUSTOM_RANGES
from ascendsim.passes.fusion.switches import Switches
from ascendsim.passes.rewriting.pattern import Match, Pattern
from ascendsim.passes.rewriting.report import PatternRecord
from ascendsim.passes.rewriting.runner import RefusedError, rewrite_found
from ascendsim.passes.rewriting.search import match_at
from ascendsim.passes.ub.automatic import NAME as AUTOMATIC
from ascendsim.passes.ub.automatic import fuse_automatically
from ascendsim.passes.ub.cann_passes import UbPass, cann_passes
from ascendsim.passes.ub.fixpipe import NAME as FIXPIPE
from ascendsim.passes.ub.fixpipe import join_fixpipe
from ascendsim.passes.ub.legality import ScopeMaker, Scopes
from ascendsim.passes.ub.limits import UbLimits
from ascendsim.passes.ub.mindspore_passes import mindspore_passes
from ascendsim.passes.ub.no_task import NAME as NO_TASK
from ascendsim.passes.ub.no_task import mark_no_task
from ascendsim.passes.ub.pattern import UbPattern
from ascendsim.passes.ub.quantised import NAME as QUANTISED
from ascendsim.passes.ub.quantised import join_quantised_neighbours

CONVOLUTIONS = (OpPattern.CONVOLUTION, OpPattern.DEPTHWISE, OpPattern.CONV_BACKPROP)
AfterPass = Callable[[str, Graph], None]


def ub_passes(limits: UbLimits, switches: Switches) -> tuple[str, ...]:
    """Names of all passes with a rule here, in the order in which they run; AIPP's first, since the others
    start from what it makes.
    """
    if limits.mindspore:
        return tuple(item.name for item in _mindspore(limits))
    names = [item.name for item in _cann(limits, switches)]
    return (AIPP, *names, FIXPIPE, *([AUTOMATIC] if limits.automatic else []), QUANTISED, NO_TASK)


def fuse_buffers(
    graph: Graph,
    opset: OpSet,
    limits: UbLimits,
    maker: ScopeMaker,
    *,
    switches: Switches,
    report: FusionReport,
    after: AfterPass | None = None,
) -> None:
    """Finds scopes and notes them in `Node.origin`.

    Args:
        graph: The device graph; formats and element types are chosen.
        opset: Operators.
        limits: How much goes into one task, and whose passes run.
        maker: Makes programs for scopes.
        switches: Decide which passes run.
        report: Receives the records, the scopes, and the passes that are off.
        after: Called with the name of a pass and the graph after each pass that changed something.
    """
    if not limits.mindspore and _on(AIPP, switches, report):
        _note(join_aipp(graph), graph, report, after)
    kind = cache(lambda node: pattern_of(node, opset))
    scopes = Scopes(graph, maker)
    by_kind: dict[OpPattern, list[Node]] = {}
    for node in scopes.order:
        by_kind.setdefault(kind(node), []).append(node)
    run = _Run(graph, scopes, kind, by_kind, report, limits)
    for item in _mindspore(limits) if limits.mindspore else _cann(limits, switches):
        if _on(item.name, switches, report) and run.run(item) and after is not None:
            after(item.name, graph)
    if limits.mindspore:
        return
    if _on(FIXPIPE, switches, report):
        _note(join_fixpipe(graph), graph, report, after)
    if limits.automatic and _on(AUTOMATIC, switches, report):
        record, made = fuse_automatically(scopes, kind, limits, len(scopes.members))
        if record.matched:
            report.records.append(record)
            report.scopes.extend(made)
        if made and after is not None:
            after(AUTOMATIC, graph)
    if _on(QUANTISED, switches, report):
        record, made = join_quantised_neighbours(scopes, kind)
        _note(record, graph, report, after)
        grown = {scope.number for scope in made}
        report.scopes[:] = [scope for scope in report.scopes if scope.number not in grown] + made
    if _on(NO_TASK, switches, report):
        _note(mark_no_task(graph), graph, report, after)


def _note(record: PatternRecord, graph: Graph, report: FusionReport, after: AfterPass | None) -> None:
    if record.matched:
        report.records.append(record)
    if record.effected and after is not None:
        after(record.name, graph)


@dataclass(frozen=True, slots=True)
class _Run:
    """One run over one graph."""

    graph: Graph
    scopes: Scopes
    kind: Callable[[Node], OpPattern]
    by_kind: Mapping[OpPattern, list[Node]]  # in execution order
    report: FusionReport
    limits: UbLimits

    def run(self, item: UbPass) -> int:
        """All patterns of a pass; returns how many scopes it made."""
        made = 0
        for pattern in item.patterns:
            wanted = pattern.compiled(self.kind, self.scopes.free, self.by_kind)
            if wanted is None:
                continue
            record = self._pattern(item, pattern, wanted)
            made += record.effected
            if record.matched or record.refusals:
                self.report.records.append(record)
        return made

    def _heads(self, pattern: UbPattern) -> list[Node]:
        """Nodes of the classes with which a pattern can start, in execution order."""
        kinds = dict.fromkeys(pattern.parts[0].kinds)
        found = [node for kind in kinds for node in self.by_kind.get(kind, ())]
        return sorted(found, key=self.scopes.order.__getitem__)

    def _of_several_inputs(self, nodes: Sequence[Node]) -> str | None:
        """Why operators behind a convolution must not join it where only those of one input may."""
        if not self.limits.conv_one_input or not any(self.kind(node) in CONVOLUTIONS for node in nodes):
            return None
        for node in nodes:
            if self.kind(node) not in (OpPattern.ELEMWISE, OpPattern.BROADCAST):
                continue
            given = [item for item in node.inputs if item is not None and item.constant is None]
            if len(given) != 1 or len(node.outputs) != 1:
                return (
                    f"behind a convolution {node.op_type} {node.name!r} has {len(given)} inputs and "
                    f"{len(node.outputs)} outputs, ub_conv_inputs=one allows one of each"
                )
        return None

    def _pattern(self, item: UbPass, pattern: UbPattern, wanted: Pattern) -> PatternRecord:
        record, outputs = PatternRecord("ub", item.name, pattern.name), set(self.graph.outputs)

        def legal() -> Iterator[Match]:
            for node in self._heads(pattern):
                match = match_at(node, pattern.name, wanted, outputs)
                if match is None:
                    continue
                match = replace(match, all_nodes=self.scopes.sorted(match.all_nodes))
                reason = (
                    item.refusal(match.all_nodes)
                    or self._of_several_inputs(match.all_nodes)
                    or self.scopes.circle(match.all_nodes)
                )
                if reason is None:
                    yield match
                else:
                    record.refuse(node.name, reason)

        def join(match: Match) -> None:
            try:
                program = self.scopes.maker.lower(match.all_nodes)
            except CompileError as error:
                raise RefusedError(str(error)) from error
            number, names = self.scopes.join(match.all_nodes), match.names
            saved = FusedScopeRecord(number, item.name, names, program.saved_bytes, program.operand_bytes)
            self.report.scopes.append(saved)

        return rewrite_found(record, legal(), lambda match: None, join)


def _on(name: str, switches: Switches, report: FusionReport) -> bool:
    decision = switches.decide(name, "ub")
    if not decision.on:
        report.switched_off[name] = decision.why
    return decision.on


@cache
def _facts(kind: str) -> dict[str, PassFact]:
    return {fact.name: fact for fact in all_facts("ub") if fact.kind == kind}


def _mindspore(limits: UbLimits) -> tuple[UbPass, ...]:
    """MindSpore's passes in its own order."""
    facts = _facts("MindSpore")
    return tuple(sorted(mindspore_passes(limits), key=lambda item: facts[item.name].order or 0))


def _cann(limits: UbLimits, switches: Switches) -> tuple[UbPass, ...]:
    """CANN's passes by priority: Main, unlisted by name, Down."""
    items = cann_passes(limits)
    facts = _facts("FE")
    listed = {item.name: _listed(item.name, facts, switches) for item in items}
    unlisted = sorted(name for name, priority in listed.items() if priority is None)
    place = {
        name: priority if priority is not None else BUILT_IN_PASS + unlisted.index(name)
        for name, priority in listed.items()
    }
    return tuple(sorted(items, key=lambda item: (place[item.name], item.name)))


def _listed(name: str, facts: dict[str, PassFact], switches: Switches) -> int | None:
    from_file = switches.priority(name, "ub")
    priority = from_file if from_file is not None else facts[name].priority
    if priority is None:
        return None
    down: Sequence[tuple[int, int]] = (CUSTOM_RANGES["Down"], BUILT_IN_RANGES["Down"])
    return priority + DOWN_OFFSET if any(low <= priority < high for low, high in down) else priority
