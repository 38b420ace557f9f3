"""A graph-fusion rule: pattern, check with a reason for every refusal, rewrite.

One rule is one file under `rules/`. What CANN knows about it (family, stage, priority, default, whether it
may be switched off) stands in `data/passes.csv` under the same name, so the rule itself holds only what it
does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from ascendsim.graph.ir import AttributeValue, Graph, Node, Tensor
from ascendsim.opset import InferContext, OpSet
from ascendsim.passes.rewriting.pattern import Match, Op, Pattern, compiled
from ascendsim.passes.rewriting.search import find_matches, match_at


@dataclass(frozen=True, slots=True)
class FusionContext:
    """What a rule may ask.

    Attributes:
        opset: Operators, to infer the types of what a rewrite creates.
        generation: The chip's generation ("v100", "m200", "c220" ...).
        soc: The chip's short name ("Ascend310", "Ascend310P", "Ascend910" ...), as CANN's documents list it.
        options: Profile flags.
    """

    opset: OpSet
    generation: str
    soc: str
    options: Mapping[str, object] = field(default_factory=dict)

    def add(
        self,
        graph: Graph,
        op_type: str,
        inputs: Sequence[Tensor | None],
        outputs: int | Sequence[str | Tensor] = 1,
        *,
        name: str | None = None,
        like: Node | None = None,
        domain: str = "",
        **attributes: AttributeValue,
    ) -> Node:
        """Adds a node and infers the types of its outputs. `like` hands on the origin (framework, source
        names) of an older node.
        """
        node = graph.add_node(op_type, inputs, outputs, name=name, domain=domain, **attributes)
        if like is not None:
            node.origin.update(like.origin)
        self.opset.get(node).infer(InferContext(node))
        return node


class FusionRule:
    """Base of all graph-fusion rules.

    Subclasses set `name` (CANN's name) and `patterns` (CANN's pattern name -> pattern), and implement `check`
    and `rewrite`. A rule whose shape is no tree (any number of branches) overrides `find`.

    `stage` ("Top", "Main" or "Down") and `priority` (0..999, 1000..1999, 2000..2999) place a user's own pass;
    CANN's passes have theirs in the table. A user's pass with `second_round` runs on the device graph, when
    element types and formats are chosen and Cast and TransData stand.
    """

    name: ClassVar[str]
    patterns: ClassVar[Mapping[str, Op | Pattern]] = {}
    stage: str | None = None
    priority: int | None = None
    second_round: bool = False

    def find(self, graph: Graph, pattern: str) -> Iterator[Match]:
        """All matches of one pattern, in execution order."""
        return find_matches(graph, pattern, self.patterns[pattern])

    def needs(self, pattern: str) -> Iterable[Collection[str]]:
        """Sets of operator types; where a graph has none of a set, the pattern is not looked for. Nothing if
        `find` is overridden.
        """
        return compiled(self.patterns[pattern]).needs if type(self).find is FusionRule.find else ()

    def again(self, graph: Graph, match: Match) -> Match | None:
        """The match as it stands after earlier rewrites of the same pass, None if it is gone; goes with an
        override of `find`.
        """
        if match.root.graph is not graph:
            return None
        return match_at(match.root, match.pattern, self.patterns[match.pattern], graph.outputs)

    def check(self, match: Match, context: FusionContext) -> str | None:
        """None if the rewrite is legal, else why not ("the filter is not constant")."""
        raise NotImplementedError

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Replaces the match. The graph must stay valid, values must stay (within the rule's algebra), graph
        output names must stay.
        """
        raise NotImplementedError
