"""How many tensors one Concat may join: nested Concats become one, and one with too many inputs becomes a
tree.

    ZConcatv2dFusionPass    Concat(Concat(a, b), c)            =>  Concat(a, b, c)
    ZConcatDFusionPass, ZConcatExt2FusionPass
                            Concat(t0 ... t99), 63 at most     =>  Concat(Concat(t0 ... t62), Concat(t63 ...
                                                                   t99))

The first of the two takes ONNX's Concat, which is ConcatD for CANN, the other one any. The limit is that of
CANN's operators, whose programs hold one address an input. Values stay bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.rewriting.pattern import Match, Op
from ascendsim.passes.rewriting.replace import replace_root

# Inputs of one operator (CANN fusion reference 8.1, ConcatV2 rules): 63 with static shapes, 48 with dynamic
# ones, 21 on 310P (m200).
MOST_STATIC, MOST_DYNAMIC, MOST_M200 = 63, 48, 21


def most_tensors(context: FusionContext, tensors: Sequence[Tensor]) -> int:
    """How many tensors one Concat or Split of the chip takes."""
    if context.generation == "m200":
        return MOST_M200
    return MOST_STATIC if all(tensor.is_static for tensor in tensors) else MOST_DYNAMIC


class ZConcatv2dFusionPass(FusionRule):
    """Nested Concats along one axis become one."""

    name = "ZConcatv2dFusionPass"
    patterns = {"Concatv2dFusionPass": Op("Concat", name="concat")}

    def find(self, graph: Graph, pattern: str) -> Iterator[Match]:
        """Concats of which an input is a Concat."""
        return (match for match in map(_nested_at, graph.topological()) if match is not None)

    def again(self, graph: Graph, match: Match) -> Match | None:
        """The match as it stands now."""
        return _nested_at(match.root) if match.root.graph is graph else None

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Refuses inner Concats that others read or that run along another axis, and results that are too
        long.
        """
        root, inner = match.root, match.lists["inner"]
        if any(node.attr("no_task", 0) for node in (root, *inner)):
            return "a concatenation has no task"
        if root.output.shape is None:
            return "the rank is not known"
        rank = len(root.output.shape)
        if len({int(node.attr("axis", 0)) % rank for node in (root, *inner)}) > 1:
            return "the axes differ"
        graph = root.graph
        if any(
            node.output.consumers != (root,)
            or (graph is not None and any(t is node.output for t in graph.outputs))
            for node in inner
        ):
            return "an inner result has other readers"
        tensors = _flattened(root, inner)
        most = most_tensors(context, tensors)
        return f"there would be more than {most} inputs" if len(tensors) > most else None

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Joins all inputs in one Concat."""
        root = match.root
        axis = int(root.attr("axis", 0))
        made = context.add(
            graph,
            "Concat",
            _flattened(root, match.lists["inner"]),
            name=f"{root.name}_flat",
            like=root,
            axis=axis,
        )
        replace_root(graph, root, made.output)


class ZConcatExt2FusionPass(FusionRule):
    """A Concat with too many inputs becomes a tree."""

    name = "ZConcatExt2FusionPass"
    patterns = {"ConcatExt2FusionPass": Op("Concat", name="concat")}

    def find(self, graph: Graph, pattern: str) -> Iterator[Match]:
        """Concats with more inputs than any chip's operator takes in some form."""
        return (match for match in super().find(graph, pattern) if match.root.input_count > MOST_M200)

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Leaves those that the chip's operator takes, and those whose inputs are written in place."""
        if match.root.attr("no_task", 0):
            return "the concatenation has no task"
        tensors = [tensor for tensor in match.root.inputs if tensor is not None]
        most = most_tensors(context, tensors)
        return None if len(tensors) > most else f"the operator takes {most} inputs"

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Joins as many inputs at a time as the operator takes, until one result is left."""
        root = match.root
        tensors = [tensor for tensor in root.inputs if tensor is not None]
        most, axis = most_tensors(context, tensors), int(root.attr("axis", 0))
        while len(tensors) > 1:
            groups = [tensors[start : start + most] for start in range(0, len(tensors), most)]
            tensors = [
                group[0]
                if len(group) == 1
                else context.add(
                    graph, "Concat", group, name=f"{root.name}_tree", like=root, axis=axis
                ).output
                for group in groups
            ]
        replace_root(graph, root, tensors[0])


class ZConcatDFusionPass(ZConcatExt2FusionPass):
    """The same for the Concats of ONNX files."""

    name = "ZConcatDFusionPass"
    patterns = {"ConcatDFusionPass": Op("Concat", name="concat")}

    def find(self, graph: Graph, pattern: str) -> Iterator[Match]:
        """All Concats of ONNX."""
        return (
            match
            for match in FusionRule.find(self, graph, pattern)
            if match.root.origin.get("framework") == "onnx"
        )


def _nested_at(root: Node) -> Match | None:
    if root.op_type != "Concat":
        return None
    producers = [tensor.producer for tensor in root.inputs if tensor is not None]
    inner = tuple(dict.fromkeys(node for node in producers if node is not None and node.op_type == "Concat"))
    if not inner:
        return None
    return Match("Concatv2dFusionPass", root, {"concat": root}, {}, (root, *inner), {"inner": inner})


def _flattened(root: Node, inner: Sequence[Node]) -> list[Tensor]:
    """Inputs of the joined Concat in order; an inner result that comes twice is spelled out twice."""
    tensors: list[Tensor] = []
    for tensor in root.inputs:
        if tensor is None:
            continue
        nested = tensor.producer if tensor.producer in inner else None
        tensors += [tensor] if nested is None else [item for item in nested.inputs if item is not None]
    return tensors


RULES = (ZConcatv2dFusionPass(), ZConcatExt2FusionPass(), ZConcatDFusionPass())
