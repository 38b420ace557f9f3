"""Operator replacement: the parts of a layer normalisation as CANN's pass knows them.

a = Sub(x, mean(x)); b = Sub(x, mean(x)); Div(b, Sqrt(mean(Mul(a, a)) + e))
becomes d = Sub(x, mean(x)); Div(d, Sqrt(mean(Pow(d, 2)) + e))

LayerNormONNXFusionPass looks for one difference and for Pow; exporters and optimisers that write it otherwise
leave eight small kernels where one would do. READMEs of BERT do so (fix_onnx.py).
"""

from __future__ import annotations

import numpy as np

from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.passes.levers.lever import Lever, LeverContext, Relation, Site
from ascendsim.passes.rewriting.outputs import is_output
from ascendsim.passes.rewriting.replace import insert_after


class LayerNormPattern(Lever):
    """Restores the pattern of a layer normalisation."""

    name = "layer-norm-pattern"
    title = "write layer normalisations as the fusion pass looks for them"

    def sites(self, graph: Graph, context: LeverContext) -> tuple[Site, ...]:
        """Every variance whose square is a product."""
        return tuple(
            Site(
                (node.name,),
                "LayerNormONNXFusionPass looks for one difference, squared by Pow",
                Relation.EXACT,
            )
            for node in graph.topological()
            if _is_square(node) and not is_output(graph, node.output)
        )

    def rewrite(self, graph: Graph, site: Site, context: LeverContext) -> None:
        """Squares by Pow, and lets other differences of the same tensors be one."""
        node = graph.node(site.node)
        difference = node.required(0)
        two = graph.add_constant(graph.fresh(f"{node.name}_two"), np.array(2, difference.element_type.numpy))
        insert_after(node.output, context.add(graph, "Pow", difference, two, stem=f"{node.name}_pow"))
        for other in _same(difference):
            insert_after(other.output, difference)


def _is_square(node: Node) -> bool:
    """Whether a node squares x - mean(x) for the mean of it."""
    if node.op_type != "Mul" or node.domain:
        return False
    one, other = node.required(0), node.required(1)
    if one is not other and (one.producer is None or other.producer not in _same(one)):
        return False
    readers = node.output.consumers
    return _is_centred(one) and bool(readers) and all(reader.op_type == "ReduceMean" for reader in readers)


def _is_centred(tensor: Tensor) -> bool:
    made = tensor.producer
    if made is None or made.op_type != "Sub" or made.domain:
        return False
    mean = made.required(1).producer
    return mean is not None and mean.op_type == "ReduceMean" and mean.required(0) is made.required(0)


def _same(tensor: Tensor) -> list[Node]:
    """Other differences of the same two tensors, or of means that are the same."""
    made = tensor.producer
    assert made is not None
    x, mean = made.required(0), made.required(1).producer
    return [
        reader
        for reader in x.consumers
        if reader is not made
        and _is_centred(reader.output)
        and reader.required(0) is x
        and _equal(reader.required(1).producer, mean)
        and not is_output(reader.graph, reader.output)
    ]


def _equal(one: Node | None, other: Node | None) -> bool:
    if one is other:
        return True
    if one is None or other is None or one.attributes != other.attributes:
        return False
    axes = [node.input(1) for node in (one, other)]
    known = [None if t is None or t.constant is None else t.constant.array().tolist() for t in axes]
    return known[0] == known[1] and (axes[0] is None) == (axes[1] is None)
