"""Dequantise and quantise again in one step, and scales in the form of the chip's registers (ISA V200: 310P).

    V200RequantFusionPass      AscendDequant [-> Relu] -> AscendQuant                 =>  AscendRequant
                               Concat(AscendDequant [-> Relu], ...) -> AscendQuant    =>
                                   Concat(AscendRequant, ...)
    V200NotRequantFusionPass   AscendDequant [-> Relu], no AscendQuant behind it      =>  AscendDequant with a
                               prepared scale [and Relu]

    sat(round(max(acc * deq, 0) * scale + offset))  =  sat(round(max(acc * (deq * scale), 0) + offset))
                                                       scale > 0

An int8 tensor goes to memory instead of a float16 one. The product of the scales is rounded to float32, so a
result may differ by one unit where it lies between two. Scales are packed by the host (RequantHostCpuOpV2):
float32 bits in the low half of a uint64.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Graph, Node, Tensor
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.fusion.rules.conv.conv_folding import lazy_constant
from ascendsim.passes.fusion.rules.movement.strided_chains import is_graph_output
from ascendsim.passes.rewriting.pattern import Any, Match, Op
from ascendsim.passes.rewriting.removal import drop_constants
from ascendsim.passes.rewriting.replace import replace_root

ISA_V200 = frozenset({"m200"})
# CANN runs both passes on ISA V200 and V210, the latter that of the chip that became the 910B (inferred); the
# log of its introduction has V200NotRequantFusionPass on a chip with FIXPIPE. The other one is left out.
WITH_PREPARED_SCALES = ISA_V200 | {"c220"}
CONCAT_PATTERN = "requantConcatPattern"


class V200RequantFusionPass(FusionRule):
    """AscendDequant and AscendQuant become AscendRequant."""

    name = "V200RequantFusionPass"
    patterns = {
        "requantPassPattern1": Op(
            "AscendQuant", Op("AscendDequant", Any("acc"), Any("deq"), name="dequant"), name="quant"
        ),
        "requantPassPattern2": Op(
            "AscendQuant",
            Op("Relu", Op("AscendDequant", Any("acc"), Any("deq"), name="dequant"), name="relu"),
            name="quant",
        ),
        CONCAT_PATTERN: Op("AscendQuant", Op("Concat", name="concat"), name="quant"),
    }

    def find(self, graph: Graph, pattern: str) -> Iterator[Match]:
        """Matches; of Concats those whose inputs are all dequantised."""
        for match in super().find(graph, pattern):
            found = _with_chains(match)
            if found is not None:
                yield found

    def again(self, graph: Graph, match: Match) -> Match | None:
        """The match as it stands now."""
        found = super().again(graph, match)
        return None if found is None else _with_chains(found)

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Refuses other chips, scales that are not known, and results that others read."""
        if context.generation not in ISA_V200:
            return "the chip has no such requantisation (ISA V200)"
        for dequant, _, last in _chains(match):
            if not dequant.required(1).is_constant or not dequant.required(1).is_static:
                return "a scale is not constant"
            nodes = [dequant, *([last] if last is not dequant else [])]
            if any(len(node.output.uses) != 1 or is_graph_output(node.output, node.graph) for node in nodes):
                return "a dequantised tensor has other readers"
        return None

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Multiplies the scales and puts one AscendRequant in the place of each chain."""
        quant = match.root
        made = {
            last.output: _requant(graph, context, dequant, relu, quant)
            for dequant, relu, last in _chains(match)
        }
        if match.pattern == CONCAT_PATTERN:
            concat = match.nodes["concat"]
            inputs = [made[tensor] for tensor in concat.inputs if tensor is not None]
            joined = context.add(
                graph,
                "Concat",
                inputs,
                name=f"{concat.name}_requant",
                like=concat,
                axis=int(concat.attr("axis", 0)),
            )
            replace_root(graph, quant, joined.output)
        else:
            replace_root(graph, quant, next(iter(made.values())))


class V200NotRequantFusionPass(FusionRule):
    """AscendDequant that stays takes its scale as the chip's registers hold it, and a Relu behind it."""

    name = "V200NotRequantFusionPass"
    patterns = {
        "notRequantPassPattern1": Op("AscendDequant", Any("acc"), Any("deq"), name="dequant"),
        "notRequantPassPattern2": Op(
            "Relu", Op("AscendDequant", Any("acc"), Any("deq"), name="dequant"), name="relu"
        ),
    }

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Refuses other chips, what is prepared already, and what V200RequantFusionPass is for."""
        if context.generation not in WITH_PREPARED_SCALES:
            return "the chip has no such dequantisation (ISA V200, V210)"
        dequant, scale = match.nodes["dequant"], match.tensors["deq"]
        if any(reader.op_type == "AscendQuant" for reader in match.root.output.consumers):
            return "the result is quantised again"
        if match.pattern == "notRequantPassPattern2":
            return None
        if not scale.is_constant or not scale.is_static:
            return "the scale is not constant"
        return "the scale is prepared already" if dequant.required(1).dtype is DType.UINT64 else None

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Prepares the scale, or takes the Relu in."""
        dequant = match.nodes["dequant"]
        if match.pattern == "notRequantPassPattern2":
            dequant.attributes["relu_flag"] = 1
            replace_root(graph, match.root, dequant.output)
            return
        scale = match.tensors["deq"]
        dequant.set_input(1, packed(graph, scale, 1.0))
        drop_constants(graph, (scale,))


def packed(graph: Graph, scale: Tensor, factor: float) -> Tensor:
    """A scale times a factor as uint64 registers."""

    def values(array: Array) -> Array:
        floats = (
            array.astype(np.uint32).view(np.float32) if array.dtype == np.uint64 else array.astype(np.float32)
        )
        return np.asarray(
            (floats.astype(np.float64) * factor).astype(np.float32).view(np.uint32).astype(np.uint64)
        )

    return lazy_constant(graph, f"{scale.name}_prepared", DType.UINT64, scale.static_shape, [scale], values)


def _requant(graph: Graph, context: FusionContext, dequant: Node, relu: bool, quant: Node) -> Tensor:
    scale = packed(graph, dequant.required(1), float(quant.attr("scale", 1.0)))
    flag = int(relu or bool(dequant.attr("relu_flag", 0)))
    made = context.add(
        graph,
        "AscendRequant",
        [dequant.required(0), scale],
        name=f"{dequant.name}_requant",
        like=dequant,
        domain="ascend",
        offset=float(quant.attr("offset", 0.0)),
        relu_flag=flag,
        dtype=quant.output.element_type,
    )
    return made.output


def _chains(match: Match) -> list[tuple[Node, bool, Node]]:
    """(AscendDequant, whether a Relu follows, last node of the chain) for every chain of a match."""
    if match.pattern != CONCAT_PATTERN:
        return [
            (match.nodes["dequant"], "relu" in match.nodes, match.nodes.get("relu", match.nodes["dequant"]))
        ]
    chains = []
    for last in match.lists["lasts"]:
        dequant = last if last.op_type == "AscendDequant" else last.required(0).producer
        assert dequant is not None
        chains.append((dequant, last is not dequant, last))
    return chains


def _with_chains(match: Match) -> Match | None:
    """A match of the Concat pattern with the last nodes before the Concat; None if one is no
    dequantisation.
    """
    if match.pattern != CONCAT_PATTERN:
        return match
    lasts, others = [], []
    for tensor in match.nodes["concat"].inputs:
        last = None if tensor is None else tensor.producer
        dequant = last.required(0).producer if last is not None and last.op_type == "Relu" else last
        if last is None or dequant is None or dequant.op_type != "AscendDequant":
            return None
        lasts.append(last)
        others += [last] if last is dequant else [last, dequant]
    return Match(
        match.pattern,
        match.root,
        match.nodes,
        match.tensors,
        (*match.all_nodes, *dict.fromkeys(others)),
        {"lasts": tuple(lasts)},
    )


RULES = (V200RequantFusionPass(), V200NotRequantFusionPass())
