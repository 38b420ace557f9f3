"""Parameter change: sizes at which Resize (Caffe's Interp) has a vector form.

Resize (linear, align_corners) from [1,18,175,175] to [1,18,350,350] -> from [1,18,176,176] to [1,18,351,351].

With aligned corners point i of the output lies at i * (src - 1) / (dst - 1). Only if (dst - 1) / (src - 1) is
an integer along both axes do the same weights and address steps come back every few points, so that the
vector unit can be used; otherwise the scalar unit computes four addresses for every point. The nearest larger
sizes are used, so that nothing is lost; values at the points change a little.
"""

from __future__ import annotations

import numpy as np

from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.passes.levers.lever import Lever, LeverContext, Relation, Site
from ascendsim.passes.rewriting.replace import insert_after


def regular(source: int, target: int) -> bool:
    """Whether one axis has the vector form: unchanged, or (target - 1) / (source - 1) integral.

    >>> regular(176, 351), regular(175, 350)
    (True, False)
    """
    return source == target or (source > 1 and (target - 1) % (source - 1) == 0)


def nearest_sizes(source: int, target: int) -> tuple[int, int] | None:
    """The smallest sizes, not below the given ones, that are regular at the nearest whole ratio; None if
    there are none (shrinking).

    >>> nearest_sizes(175, 350), nearest_sizes(20, 39), nearest_sizes(64, 20)
    ((176, 351), (20, 39), None)
    """
    if regular(source, target):
        return source, target
    if source < 2 or target < source:
        return None
    ratio = max(1, round((target - 1) / (source - 1)))
    grown = max(source, -(-(target - 1) // ratio) + 1)
    return grown, ratio * (grown - 1) + 1


class ResizeSizes(Lever):
    """Changes the sizes of Resize so that the vector form exists."""

    name = "resize-sizes"
    title = "sizes with integral (dst-1)/(src-1) for Resize"

    def sites(self, graph: Graph, context: LeverContext) -> tuple[Site, ...]:
        """Every linear or cubic Resize with aligned corners whose ratio is not integral."""
        return tuple(site for node in graph.topological() for site in self._site(node))

    def rewrite(self, graph: Graph, site: Site, context: LeverContext) -> None:
        """Grows the map before the Resize (the graph input itself, or by repeating its border); other
        operators get the result cut.
        """
        node = graph.node(site.node)
        source, result = node.required(0), node.output
        before, after = source.static_shape, result.static_shape
        sizes = [nearest_sizes(a, b) for a, b in zip(before[2:], after[2:], strict=True)]
        grown = (*before[:2], *(pair[0] for pair in sizes if pair is not None))
        made = (*after[:2], *(pair[1] for pair in sizes if pair is not None))
        if source in graph.inputs and len(source.uses) == 1:
            source.shape = grown
        elif grown != before:
            node.set_input(0, _padded(graph, source, grown, node.name, context))
        _set_sizes(graph, node, made)
        result.shape = made
        if result.uses and made != after:
            insert_after(result, _cut(graph, result, after, node.name, context))

    def _site(self, node: Node) -> tuple[Site, ...]:
        if node.op_type != "Resize" or node.domain or node.attr("mode", "nearest") == "nearest":
            return ()
        if node.attr("coordinate_transformation_mode", "half_pixel") != "align_corners":
            return ()
        before, after = node.required(0), node.output
        if not before.is_static or not after.is_static or len(before.static_shape) != 4:
            return ()
        pairs = list(zip(before.static_shape[2:], after.static_shape[2:], strict=True))
        if all(regular(a, b) for a, b in pairs):
            return ()
        fractions = " and ".join(f"{b - 1}/{a - 1}" for a, b in dict.fromkeys(pairs) if not regular(a, b))
        proposals = [nearest_sizes(a, b) for a, b in pairs]
        if any(pair is None for pair in proposals) or before.static_shape[:2] != after.static_shape[:2]:
            return (
                Site((node.name,), f"{fractions} is not integral, and no larger size is (the map shrinks)"),
            )
        sizes = ", ".join(
            f"{a}->{b} becomes {p[0]}->{p[1]}"
            for (a, b), p in dict(zip(pairs, proposals, strict=True)).items()
            if p
        )
        reason = (
            f"{fractions} is not integral: the scalar unit computes every point; {sizes} has a vector form"
        )
        return (Site((node.name,), reason, Relation.RETRAIN),)


def _padded(graph: Graph, source: Tensor, grown: tuple[int, ...], stem: str, context: LeverContext) -> Tensor:
    more = [b - a for a, b in zip(source.static_shape, grown, strict=True)]
    pads = graph.add_constant(graph.fresh(f"{stem}_pads"), np.array([0] * len(more) + more, np.int64))
    return context.add(graph, "Pad", source, pads, stem=f"{stem}_grow", mode="edge")


def _cut(graph: Graph, result: Tensor, wanted: tuple[int, ...], stem: str, context: LeverContext) -> Tensor:
    axes = [axis for axis, (a, b) in enumerate(zip(result.static_shape, wanted, strict=True)) if a != b]
    arrays = ([0] * len(axes), [wanted[axis] for axis in axes], axes)
    names = ("starts", "ends", "axes")
    ports = [
        graph.add_constant(graph.fresh(f"{stem}_{name}"), np.array(values, np.int64))
        for name, values in zip(names, arrays, strict=True)
    ]
    return context.add(graph, "Slice", result, *ports, stem=f"{stem}_cut")


def _set_sizes(graph: Graph, node: Node, made: tuple[int, ...]) -> None:
    """States the output by sizes of all axes instead of scales."""
    for name in ("axes", "keep_aspect_ratio_policy"):
        node.attributes.pop(name, None)
    sizes = graph.add_constant(graph.fresh(f"{node.name}_sizes"), np.array(made, np.int64))
    node.set_input(1, None)
    node.set_input(2, None)
    node.set_input(3, sizes)
