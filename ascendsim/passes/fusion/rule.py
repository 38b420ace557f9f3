"""A graph-fusion rule: pattern, check with a reason for every refusal, rewrite.

One rule is one file under `rules/`. What CANN knows about it (family, stage, priority, default, whether it
may be switched off) stands in `data/passes.csv` under the same name, so the rule itself holds only what it
does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from ascendsim.core.errors import GraphError
from ascendsim.graph.ir import AttributeValue, Graph, Node, Tensor
from ascendsim.opset import InferContext, OpSet
from ascendsim.passes.fusion.pattern import Match, Op, find_matches, match_at, operator_types


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
    patterns: ClassVar[Mapping[str, Op]] = {}
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
        return operator_types(self.patterns[pattern]) if type(self).find is FusionRule.find else ()

    def again(self, graph: Graph, match: Match) -> Match | None:
        """The match as it stands after earlier rewrites of the same pass, None if it is gone; goes with an
        override of `find`.
        """
        if match.root.graph is not graph:
            return None
        return match_at(
            match.root, match.pattern, self.patterns[match.pattern], {id(tensor) for tensor in graph.outputs}
        )

    def check(self, match: Match, context: FusionContext) -> str | None:
        """None if the rewrite is legal, else why not ("the filter is not constant")."""
        raise NotImplementedError

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Replaces the match. The graph must stay valid, values must stay (within the rule's algebra), graph
        output names must stay.
        """
        raise NotImplementedError


def replace_root(graph: Graph, root: Node, new: Tensor) -> None:
    """Lets `new` stand for the first output of a match's last node and removes what became dead. Graph
    outputs keep their names.

    If that output is a graph output, its name moves to `new`; where `new` has a name of its own to keep (a
    graph input, another graph output, a constant), an Identity takes the place of the root.

    Raises:
        GraphError: If shapes or types are known and differ: readers of the old tensor could not read the new
            one.
    """
    old = root.outputs[0]
    if old.shape is not None and new.shape is not None and old.shape != new.shape:
        raise GraphError(
            f"tensor {new.name!r}",
            f"must have shape {list(old.shape)} to stand for {old.name!r}",
            list(new.shape),
        )
    if old.dtype is not None and new.dtype is not None and old.dtype is not new.dtype:
        raise GraphError(
            f"tensor {new.name!r}", f"must have type {old.dtype} to stand for {old.name!r}", new.dtype
        )
    name = old.name
    was_output = any(tensor is old for tensor in graph.outputs)
    if was_output and (
        new.producer is None
        or new.producer.graph is not graph
        or any(tensor is new for tensor in graph.outputs)
    ):
        copy = graph.add_node("Identity", [new], name=f"{root.name}_identity")
        copy.output.dtype, copy.output.origin_dtype = old.dtype, old.origin_dtype
        copy.output.shape, copy.output.format = old.shape, old.format
        graph.replace_uses(old, new, outputs_too=False)
        new = copy.output
    graph.replace_uses(old, new)
    remove_dead_from(graph, root)
    if was_output:
        if graph.tensors.get(name) is old:  # the root lives on for its other outputs
            graph.rename_tensor(old, graph.fresh(f"{name}_unused"))
        graph.rename_tensor(new, name)


def remove_dead_from(graph: Graph, node: Node) -> None:
    """Removes a node nobody reads or waits for any more, then its producers and constants as far as they are
    dead too.
    """
    stack = [node]
    while stack:
        item = stack.pop()
        if (
            item.graph is None
            or item.followers
            or any(t.uses or any(t is o for o in graph.outputs) for t in item.outputs)
        ):
            continue
        sources = [t for t in item.inputs if t is not None]
        graph.remove_node(item)
        for tensor in dict.fromkeys(sources):
            if tensor.uses or any(tensor is o for o in graph.outputs):
                continue
            if tensor.producer is not None:
                stack.append(tensor.producer)
            elif tensor.is_constant:
                graph.remove_tensor(tensor)
