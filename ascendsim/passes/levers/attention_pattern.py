"""Operator replacement: attention as CANN's passes for it look for it.

Softmax(Div(MatMul(q, Transpose(k, (0, 2, 3, 1))), s) + mask[b, 1, 1, t])
becomes Softmax(Mul(MatMul(q, Transpose(Transpose(k, (0, 2, 1, 3)), (0, 1, 3, 2))), 1 / s)
                + Expand(mask, (b, 1, t, t)))

MulAddFusionPass takes multiplications that have "bert" in their name, and ZAttentionScoreFusionPass a
FusedMulAdd whose mask has all rows, between products whose keys lie as its values do: BatchMatMulFusionPass
lets the product turn them. READMEs of BERT do so (fix_onnx.py), and msit's surgeon for every transformer
(KnowledgeBigKernel).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.passes.levers.lever import Lever, LeverContext, Relation, Site
from ascendsim.passes.rewriting.outputs import is_output
from ascendsim.passes.rewriting.replace import insert_after

_TURNED, _HEADS, _SWAPPED = (0, 2, 3, 1), (0, 2, 1, 3), (0, 1, 3, 2)
_NAME = "bert"  # what MulAddFusionPass looks for in the name of a multiplication


@dataclass(frozen=True, slots=True)
class _Found:
    """Attention in front of a Softmax: the sum with the mask at `port`, the scaled product, its keys."""

    add: Node
    port: int
    scale: Node
    factor: Tensor
    keys: Node | None


class AttentionPattern(Lever):
    """Restores the pattern of an attention's scores."""

    name = "attention-pattern"
    title = "write attention as the fusion passes look for it"

    def sites(self, graph: Graph, context: LeverContext) -> tuple[Site, ...]:
        """Every Softmax over scaled products and a mask that is written otherwise."""
        found = []
        for node in graph.topological():
            one = _found(graph, node)
            if one is None or not _differs(one):
                continue
            reason = (
                "ZAttentionScoreFusionPass looks for keys as values lie, Mul by name and a mask of all rows"
            )
            names = (node.name, one.add.name, one.scale.name)
            found.append(Site(names, reason, Relation.EXACT))
        return tuple(found)

    def rewrite(self, graph: Graph, site: Site, context: LeverContext) -> None:
        """Turns keys in two steps, scales by a Mul of that name and gives the mask all its rows."""
        one = _found(graph, graph.node(site.node))
        assert one is not None
        if one.keys is not None:
            heads = context.add(
                graph, "Transpose", one.keys.required(0), stem=f"{one.keys.name}_heads", perm=_HEADS
            )
            turned = context.add(graph, "Transpose", heads, stem=f"{one.keys.name}_after", perm=_SWAPPED)
            insert_after(one.keys.output, turned)
        if one.scale.op_type != "Mul" or _NAME not in one.scale.name:
            assert one.factor.constant is not None
            value = one.factor.constant.array().astype(np.float64)
            value = value if one.scale.op_type == "Mul" else 1 / value
            data = next(tensor for tensor in one.scale.inputs if tensor is not one.factor)
            factor = graph.add_constant(
                graph.fresh(f"{one.scale.name}_factor"), value.astype(one.factor.element_type.numpy)
            )
            scaled = context.add(graph, "Mul", data, factor, stem=f"{_NAME}_Mul_before_{one.add.name}")
            insert_after(one.scale.output, scaled)
        mask = one.add.required(one.port)
        wanted = _rows(one)
        if mask.static_shape != wanted:
            shape = graph.add_constant(graph.fresh(f"{mask.name}_rows"), np.array(wanted, np.int64))
            expanded = context.add(graph, "Expand", mask, shape, stem=f"Expand_before_{one.add.name}")
            one.add.set_input(one.port, expanded)


def _found(graph: Graph, softmax: Node) -> _Found | None:
    if softmax.op_type != "Softmax" or softmax.domain or not softmax.required(0).is_static:
        return None
    shape = softmax.required(0).static_shape
    add = softmax.required(0).producer
    if len(shape) != 4 or int(softmax.attr("axis", -1)) % 4 != 3 or add is None or add.op_type != "Add":
        return None
    for port in (0, 1):
        scale, mask = add.required(1 - port).producer, add.required(port)
        if scale is None or scale.op_type not in ("Mul", "Div") or not mask.is_static:
            continue
        product, factor = _scaled(scale)
        if product is None or factor is None or is_output(graph, scale.output):
            continue
        if len(mask.static_shape) == 4 and mask.static_shape[:2] == (shape[0], 1):
            return _Found(add, port, scale, factor, _turned_keys(graph, product))
    return None


def _scaled(scale: Node) -> tuple[Node | None, Tensor | None]:
    """The product that is scaled, for this alone, and by which one number."""
    ports = ((0, 1), (1, 0)) if scale.op_type == "Mul" else ((0, 1),)
    for data, factor in ports:
        made, number = scale.required(data).producer, scale.required(factor)
        if made is not None and made.op_type == "MatMul" and len(made.output.uses) == 1:
            known = number.constant is not None and number.constant.available and number.elements == 1
            return (made, number) if known and number.element_type.is_float else (None, None)
    return None, None


def _turned_keys(graph: Graph, product: Node) -> Node | None:
    """The transpose that splits heads and turns keys at once, if there is one for this product alone."""
    made = product.required(1).producer
    if made is None or made.op_type != "Transpose" or tuple(made.attr("perm", ())) != _TURNED:
        return None
    return made if len(made.output.uses) == 1 and not is_output(graph, made.output) else None


def _rows(one: _Found) -> tuple[int, ...]:
    scores = one.add.output.static_shape
    return (scores[0], 1, *scores[2:])


def _differs(one: _Found) -> bool:
    named = one.scale.op_type == "Mul" and _NAME in one.scale.name
    return one.keys is not None or not named or one.add.required(one.port).static_shape != _rows(one)
