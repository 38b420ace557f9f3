"""Layout trick: products of [b, x, y] by a matrix as products of [b x, y].

MatMul(x[b, t, k], w[k, n]) -> Add(bias) -> Gelu
becomes Reshape(x, [b t, k]) -> MatMul -> Add(bias) -> Gelu -> Reshape([b, t, n])

A batch of products pads the rows of each to 16; one product pads them once. READMEs of transformers do so
(opt_vit.py). Elementwise operators that read nothing else stay with their product.
"""

from __future__ import annotations

import math

import numpy as np

from ascendsim.core.formats import FRACTAL_ROWS
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.opset import OpSet
from ascendsim.opset.facts import Kind
from ascendsim.passes.levers.lever import Lever, LeverContext, Relation, Site
from ascendsim.passes.rewriting.outputs import is_output
from ascendsim.passes.rewriting.replace import insert_after


class FlatRows(Lever):
    """Folds the axes in front of a product's rows into them."""

    name = "flat-rows"
    title = "fold [b, x, y] into [b x, y] in front of products by a matrix"

    def sites(self, graph: Graph, context: LeverContext) -> tuple[Site, ...]:
        """Every product of several ragged batches by a constant matrix."""
        return tuple(
            Site((node.name,), _reason(node), Relation.EXACT)
            for node in graph.topological()
            if _is_product(node) and not is_output(graph, _last(node, context.opset).output)
        )

    def rewrite(self, graph: Graph, site: Site, context: LeverContext) -> None:
        """Folds one product, and what works on its result alone."""
        node = graph.node(site.node)
        last = _last(node, context.opset)
        shape, given = last.output.static_shape, node.required(0)
        rows = math.prod(shape[:-1])
        node.set_input(0, _reshaped(graph, given, (rows, given.static_shape[-1]), context))
        inside = node
        while True:
            inside.output.shape = (rows, inside.output.static_shape[-1])
            if inside is last:
                break
            (inside,) = inside.output.consumers
        insert_after(last.output, _reshaped(graph, last.output, shape, context))


def _is_product(node: Node) -> bool:
    if node.op_type != "MatMul" or node.domain:
        return False
    left, right = node.required(0), node.required(1)
    if not left.is_static or not right.is_constant or len(right.static_shape) != 2:
        return False
    shape = left.static_shape
    return len(shape) > 2 and math.prod(shape[:-2]) > 1 and shape[-2] % FRACTAL_ROWS != 0


def _reason(node: Node) -> str:
    shape = node.required(0).static_shape
    return f"{math.prod(shape[:-2])} products of {shape[-2]} rows are padded to 16 rows one by one"


def _last(node: Node, opset: OpSet) -> Node:
    """The last of the elementwise operators that stay with a product."""
    while len(node.output.uses) == 1 and not is_output(node.graph, node.output):
        (reader,) = node.output.consumers
        others = [tensor for tensor in reader.inputs if tensor is not None and tensor is not node.output]
        alone = all(tensor.is_constant and len(tensor.static_shape) < 2 for tensor in others)
        if opset.get(reader).facts.kind is not Kind.ELEMENTWISE or not alone:
            break
        if reader.output.shape != node.output.shape:
            break
        node = reader
    return node


def _reshaped(graph: Graph, tensor: Tensor, shape: tuple[int, ...], context: LeverContext) -> Tensor:
    wanted = graph.add_constant(graph.fresh(f"{tensor.name}_shape"), np.asarray(shape, np.int64))
    return context.add(graph, "Reshape", tensor, wanted, stem=f"{tensor.name}_rows")
