"""What the advisor says: slow operators, proposals with their simulated gain, and the graph after taking
them.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ascendsim.advise.alternatives import Alternative, table_of
from ascendsim.advise.formats import no_transdata
from ascendsim.core.arguments import checked
from ascendsim.core.errors import InputError, suggest
from ascendsim.core.table import Row, Table
from ascendsim.graph.ir import Graph
from ascendsim.passes.levers import LEVERS, LeverContext, Relation, Site, apply_lever


@dataclass(frozen=True, slots=True)
class Proposal:
    """One change of the model that makes it faster.

    Attributes:
        lever: Its name.
        title: One line.
        sites: Where it is pulled.
        before_us, after_us: Device time of the model as it is, and with this change alone.
        settings: Arguments of `compile` that belong to it.
    """

    lever: str
    title: str
    sites: tuple[Site, ...]
    before_us: float
    after_us: float
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def gain_us(self) -> float:
        """Time saved."""
        return self.before_us - self.after_us

    @property
    def speedup(self) -> float:
        """Before / after."""
        return self.before_us / self.after_us if self.after_us else float("inf")

    @property
    def nodes(self) -> tuple[str, ...]:
        """The operators concerned."""
        return tuple(dict.fromkeys(name for site in self.sites for name in site.nodes))

    @property
    def relation(self) -> Relation:
        """What becomes of the values: the furthest from exact of all sites."""
        order = list(Relation)
        return max((site.relation for site in self.sites if site.relation is not None), key=order.index)

    @property
    def reason(self) -> str:
        """Why it pays, at its first site, and at how many more."""
        more = f" (and {len(self.sites) - 1} more)" if len(self.sites) > 1 else ""
        return f"{self.sites[0].reason}{more}"


@dataclass(frozen=True)
class Advice:
    """What the advisor found in a model.

    Attributes:
        graph: The user's graph.
        soc: Name of the chip.
        duration_us: Device time of the model as it is.
        operators: Slow operator types and what the rules say of them.
        statistic: Op Statistic with the names of operators and the ids of their tasks.
        metrics: AI Core Metrics; an id of `statistic` that its column Task lacks ran on the AI CPU.
        proposals: Changes that pay, most gain first.
        declined: Rows (lever, operator, why not): changes that cannot be done or do not pay.
        context: What the levers were asked with.
        options: Profile options that the user compiles with.
        transdata: What forces TransData, one row a cause, most time first.
        others: Batch, AIPP, float16 inputs, streams and int8: what they bring, or why they were not tried.
    """

    graph: Graph
    soc: str
    duration_us: float
    operators: Table
    statistic: Table
    metrics: Table
    proposals: tuple[Proposal, ...]
    declined: tuple[tuple[str, str, str], ...]
    context: LeverContext = field(repr=False)
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    transdata: Table = field(default_factory=no_transdata, repr=False)
    others: tuple[Alternative, ...] = ()

    def table(self) -> Table:
        """One row a proposal, most gain first."""
        rows: tuple[Row, ...] = tuple(
            (
                p.lever,
                len(p.sites),
                p.sites[0].node,
                p.reason,
                p.before_us,
                p.after_us,
                p.gain_us,
                p.speedup,
                p.relation.value,
            )
            for p in self.proposals
        )
        columns = (
            "Lever",
            "Sites",
            "Operator",
            "Reason",
            "Before(us)",
            "After(us)",
            "Gain(us)",
            "Speed-up",
            "Values",
        )
        return Table("advice", columns, rows)

    def alternatives(self) -> Table:
        """One row for batch, AIPP, float16 inputs, streams and int8 each: latency and throughput, how to do
        it, or why it was not tried.
        """
        return table_of(self.others)

    def declined_table(self) -> Table:
        """One row a change that cannot be done or does not pay."""
        return Table("declined", ("Lever", "Operator", "Why not"), self.declined)

    @checked()
    def apply(self, *levers: str) -> Graph:
        """The graph with proposals taken; the graph that was given stays as it is.

        Args:
            levers: Names of proposals; all whose values are exact if none is named.

        Raises:
            InputError: If nothing of that name is proposed.
        """
        chosen = self._chosen(levers)
        graph = self.graph
        for lever in LEVERS:
            if lever.name in chosen:
                graph = apply_lever(
                    graph, lever, self.context, {site.node for site in chosen[lever.name].sites}
                ).graph
        return graph

    @checked()
    def settings(self, *levers: str) -> dict[str, Any]:
        """Arguments of `compile` that go with the graph of `apply(*levers)`, in place of those of the same
        name.

        Raises:
            InputError: If nothing of that name is proposed.
        """
        chosen: dict[str, Any] = {}
        for proposal in self._chosen(levers).values():
            chosen = joined_settings(chosen, proposal.settings, self.options)
        return chosen

    def _chosen(self, levers: Sequence[str]) -> dict[str, Proposal]:
        proposed = {proposal.lever: proposal for proposal in self.proposals}
        for name in levers:
            if name not in proposed:
                raise InputError(
                    f"lever {name!r}", "is not proposed for this model", remedy=_remedy(name, proposed)
                )
        exact = tuple(name for name, proposal in proposed.items() if proposal.relation is Relation.EXACT)
        return {name: proposed[name] for name in levers or exact}

    def _repr_html_(self) -> str:
        head = f"<p>{html.escape(self.graph.name)} on {html.escape(self.soc)}: {self.duration_us:,.1f} us</p>"
        return (
            f"{head}{self.table().to_html()}<details><summary>slow "
            f"operators</summary>{self.operators.to_html()}</details>"
        )

    def __repr__(self) -> str:
        return (
            f"Advice({self.graph.name!r} on {self.soc}: {self.duration_us:.1f} us, {len(self.proposals)} "
            f"proposals)"
        )


def joined_settings(
    settings: Mapping[str, Any], more: Mapping[str, Any], options: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Arguments of `compile`, the later ones instead of the earlier; profile options one by one, on top of
    those of the user.

    >>> joined_settings({"options": {"aicpu_pow": True}}, {"options": {"format_reach": 1}})
    {'options': {'aicpu_pow': True, 'format_reach': 1}}
    """
    joined = {**settings, **more}
    if "options" in more:
        joined["options"] = {**(options or {}), **(settings.get("options") or {}), **more["options"]}
    return joined


def _remedy(name: str, proposed: dict[str, Proposal]) -> str:
    known = {lever.name for lever in LEVERS}
    if name in known:
        return f"it finds no place or does not pay; proposed are {', '.join(proposed) or 'none'}"
    return suggest(name, known)
