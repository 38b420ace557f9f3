"""A float network as it should be before it is quantised: constants folded, scales and normalisations of
channels in the convolutions' weights, so that no rounding comes between them.
"""

from __future__ import annotations

from ascendsim.core.errors import InputError
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Graph
from ascendsim.opset import OpSet
from ascendsim.passes.engine import EngineSettings, GraphEngine, pass_names
from ascendsim.passes.fusion.engine import run_rules
from ascendsim.passes.fusion.report import FusionReport
from ascendsim.passes.fusion.rule import FusionContext
from ascendsim.passes.fusion.rules.conv import conv_batchnorm, conv_bias, conv_scale
from ascendsim.passes.gears.example import how_to_say_shapes

# what these make is a Conv of ONNX again, on every chip
_RULES = (*conv_batchnorm.RULES, *conv_scale.RULES, *conv_bias.RULES)
QUANTISED = ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear")


def prepared(graph: Graph, opset: OpSet) -> Graph:
    """A copy of a graph, cleaned up and with what is linear behind a convolution folded into it.

    Raises:
        InputError: If it is quantised already, has control flow or open shapes.
    """
    for node in graph.nodes:
        if node.op_type in QUANTISED or node.op_type.startswith(("QLinear", "Ascend")):
            remedy = (
                "give the float model that it was made from; asim.thresholds (quantize --thresholds) reads T"
            )
            raise InputError(f"model {graph.name!r}", f"is quantised already ({node.op_type})", remedy=remedy)
        if node.subgraphs:
            rule = f"has control flow ({node.op_type}), which cannot be quantised"
            raise InputError(f"model {graph.name!r}", rule, remedy="quantise the parts around it")
    for tensor in graph.inputs:
        if not tensor.is_static:
            remedy = how_to_say_shapes(graph, opset)
            raise InputError(f"input {tensor.name!r}", "must have a static shape", tensor.shape, remedy)
    work = copy_graph(graph)
    engine = GraphEngine(opset, EngineSettings.of(None, pass_names(opset), "O3", True, True), None)
    engine.prepare(work)
    run_rules(work, _RULES, FusionContext(opset, "", ""), FusionReport())
    engine.finish(work)
    return work
