"""How many parts one Split may have: nested Splits become one, and one with too many outputs becomes a tree.

    ZSplitVDFusionPassV2    Split -> Split of a part           =>  one Split                 (assumed: its
                                                                   pattern is not public)
    ZSplitVDFusionPass      Split of 100 parts, 63 at most     =>  Split of 2 -> Split of 63, Split of 37

The limit is that of `concat_tree.py`, whose operators are built alike. Values stay bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.fusion.rules.movement.concat_tree import most_tensors
from ascendsim.passes.rewriting.pattern import Match, Op
from ascendsim.passes.rewriting.replace import replace_outputs


class ZSplitVDFusionPass(FusionRule):
    """A Split with too many outputs becomes a tree."""

    name = "ZSplitVDFusionPass"
    patterns = {"SplitVDFusionPass": Op("Split", name="split")}

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Leaves those that the chip's operator takes."""
        split = match.root
        reason = _static_refusal(split)
        most = most_tensors(context, split.outputs)
        return reason or (None if len(split.outputs) > most else f"the operator takes {most} outputs")

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Cuts into groups first, groups into parts then, level by level."""
        split = match.root
        most, axis = most_tensors(context, split.outputs), _axis(split)
        sizes = [part.static_shape[axis] for part in split.outputs]
        replace_outputs(graph, split, _cut(graph, context, split, split.required(0), sizes, most))


class ZSplitVDFusionPassV2(FusionRule):
    """A Split of a part of a Split along the same axis joins it."""

    name = "ZSplitVDFusionPassV2"
    patterns = {"SplitVDFusionPassV2": Op("Split", name="split")}

    def find(self, graph: Graph, pattern: str) -> Iterator[Match]:
        """Splits of which a part is split again."""
        return (match for match in map(_nested_at, graph.topological()) if match is not None)

    def again(self, graph: Graph, match: Match) -> Match | None:
        """The match as it stands now."""
        return _nested_at(match.root) if match.root.graph is graph else None

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Refuses parts that are read as a whole too, other axes, and too many parts."""
        outer, inner = match.root, match.lists["inner"]
        for split in (outer, *inner):
            reason = _static_refusal(split)
            if reason is not None:
                return reason
        if any(_axis(split) != _axis(outer) for split in inner):
            return "the axes differ"
        graph = outer.graph
        for split in inner:
            part = split.required(0)
            if len(part.uses) != 1 or (graph is not None and any(part is output for output in graph.outputs)):
                return "a part has other readers"
        parts = _leaves(outer, inner)
        most = most_tensors(context, parts)
        return f"there would be more than {most} outputs" if len(parts) > most else None

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Cuts all parts at once."""
        outer, inner = match.root, match.lists["inner"]
        leaves = _leaves(outer, inner)
        sizes = [part.static_shape[_axis(outer)] for part in leaves]
        new = dict(zip(leaves, _split(graph, context, outer, outer.required(0), sizes), strict=True))
        for split in inner:
            replace_outputs(graph, split, [new[part] for part in split.outputs])
        if outer.graph is graph:  # else it went with its last reader
            replace_outputs(graph, outer, [new.get(part, part) for part in outer.outputs])


def _axis(split: Node) -> int:
    return int(split.attr("axis", 0)) % len(split.required(0).static_shape)


def _static_refusal(split: Node) -> str | None:
    if not all(tensor.is_static for tensor in (split.required(0), *split.outputs)):
        return "the sizes are not static"
    return "the split has no task" if split.attr("no_task", 0) else None


def _nested_at(root: Node) -> Match | None:
    if root.op_type != "Split":
        return None
    readers = [
        use.node
        for part in root.outputs
        for use in part.uses
        if use.index == 0 and use.node.op_type == "Split"
    ]
    inner = tuple(dict.fromkeys(readers))
    if not inner:
        return None
    return Match("SplitVDFusionPassV2", root, {"split": root}, {}, (root, *inner), {"inner": inner})


def _leaves(outer: Node, inner: Sequence[Node]) -> list[Tensor]:
    by_part = {split.required(0): split.outputs for split in inner}
    return [leaf for part in outer.outputs for leaf in by_part.get(part, [part])]


def _split(
    graph: Graph, context: FusionContext, like: Node, data: Tensor, sizes: Sequence[int]
) -> list[Tensor]:
    """A new Split along the axis of `like`; its outputs."""
    wanted = graph.add_constant(graph.fresh(f"{like.name}_sizes"), np.asarray(sizes, np.int64))
    made = context.add(
        graph, "Split", [data, wanted], len(sizes), name=f"{like.name}_part", like=like, axis=_axis(like)
    )
    return made.outputs


def _cut(
    graph: Graph, context: FusionContext, like: Node, data: Tensor, sizes: Sequence[int], most: int
) -> list[Tensor]:
    """Parts of `data`, by a tree of Splits with at most `most` outputs each."""
    if len(sizes) == 1:
        return [data]
    if len(sizes) <= most:
        return _split(graph, context, like, data, sizes)
    width = most
    while width * most < len(sizes):
        width *= most
    groups = [sizes[start : start + width] for start in range(0, len(sizes), width)]
    parts = _split(graph, context, like, data, [sum(group) for group in groups])
    return [
        leaf
        for part, group in zip(parts, groups, strict=True)
        for leaf in _cut(graph, context, like, part, group, most)
    ]


RULES = (ZSplitVDFusionPass(), ZSplitVDFusionPassV2())
