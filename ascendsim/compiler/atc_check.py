"""What the chip or ATC refuses of a model, before anything is compiled.

What the chip cannot do is an error. What only the converter does not take is a line of warning, since the
simulator runs it all the same; `compile(check="atc")` makes it an error too and lists everything at once.
"""

from __future__ import annotations

from collections.abc import Iterator

from ascendsim.compiler.cann_versions import newest_opset
from ascendsim.compiler.settings import Settings
from ascendsim.core.dtypes import DType
from ascendsim.core.refusals import ConversionError, Refusal, some
from ascendsim.graph.ir import Graph, Node
from ascendsim.passes.control_flow import control_flow_nodes, host_reasons, reached_nodes
from ascendsim.passes.fusion.catalogue import all_facts
from ascendsim.passes.gears.example import how_to_say_shapes

ATC = "atc"
_QUANTISING = frozenset(
    {"QuantizeLinear", "DequantizeLinear", "AscendQuant", "AscendDequant", "QLinearConv", "Quant", "Dequant"}
)
# generations whose chips CANN's page of ConvConcatFusionPass lists, and their pass for requantisation
_REQUANT = {"v100": "V100RequantFusionPass", "m200": "V200RequantFusionPass"}


def check_conversion(source: Graph, prepared: Graph, settings: Settings) -> list[str]:
    """Refuses what cannot be converted.

    Args:
        source: The user's graph.
        prepared: The same after the stages of `pipeline.PREPARATION`: what of it runs.
        settings: Of the compilation.

    Returns:
        Lines of warning.

    Raises:
        ConversionError: If the chip cannot run it, or ATC refuses it and the option `check` says "atc".
    """
    found = [*_by_chip(prepared, settings), *_by_converter(source, settings)]
    fatal = found if settings.options.check == ATC else [one for one in found if one.by_chip]
    if fatal:
        raise ConversionError(source.name, fatal)
    return [one.warning for one in found]


def _by_chip(graph: Graph, settings: Settings) -> Iterator[Refusal]:
    yield from _open_shapes(graph, settings)
    yield from _bfloat16(graph, settings)


def _by_converter(graph: Graph, settings: Settings) -> Iterator[Refusal]:
    yield from graph.metadata.get("atc", ())
    yield from _opset(graph, settings)
    yield from _framework(graph, settings)
    yield from _streams(graph, settings)
    yield from _needed_passes(graph, settings)


def _open_shapes(graph: Graph, settings: Settings) -> Iterator[Refusal]:
    """GE, `dnnengine_manager.cc`. A framework that calls operator by operator knows their shapes; gears are
    graphs of fixed shapes.
    """
    chip = settings.soc
    if chip.launch.open_shapes or settings.gears or settings.scheduling.mode == "eager":
        return
    reasons = host_reasons(graph)
    if reasons:
        rule = f"has no dynamic shapes, and {some(reasons, 2)}"
        remedy = "take the operator out of the network, or choose another chip"
        if not all(tensor.is_static for tensor in graph.inputs):
            remedy = (
                f"{how_to_say_shapes(graph, settings.opset)}; or use gears (dynamic_batch_size, "
                "dynamic_image_size, dynamic_dims)"
            )
        yield Refusal("EZ3002", f"chip {chip.name}", rule, remedy, by_chip=True)


def _bfloat16(graph: Graph, settings: Settings) -> Iterator[Refusal]:
    """CANN's lists of operators: bfloat16 begins with Atlas A2."""
    chip = settings.soc
    if chip.has_bfloat16:
        return
    using = [node for node in reached_nodes(graph) if _in_bfloat16(node)]
    if using:
        rule = f"has no bfloat16, which {some([f'{node.name} ({node.op_type})' for node in using])} use"
        remedy = (
            "export the model in float32 or float16, or choose a chip that has it (Ascend910B1 and later)"
        )
        yield Refusal("EZ3002", f"chip {chip.name}", rule, remedy, by_chip=True)


def _in_bfloat16(node: Node) -> bool:
    tensors = (*node.inputs, *node.outputs)
    return any(tensor is not None and tensor.dtype is DType.BFLOAT16 for tensor in tensors)


def _opset(graph: Graph, settings: Settings) -> Iterator[Refusal]:
    """ATC's pages of --framework and "ONNX operator specifications"."""
    opset, newest = graph.metadata.get("opset"), newest_opset(settings.options.cann)
    if graph.metadata.get("format") == "onnx" and isinstance(opset, int) and opset > newest:
        subject, rule = f"ONNX opset {opset}", f"has no parsers; the newest that ATC takes is {newest}"
        yield Refusal("E16002", subject, rule, f"export the model with opset {newest}")


def _framework(graph: Graph, settings: Settings) -> Iterator[Refusal]:
    """ATC's page of --framework: no Caffe on Atlas A2, A3 and Ascend 950."""
    if graph.metadata.get("format") == "caffe" and settings.soc.split_cores:
        subject, rule = "a model of Caffe", f"is not converted for {settings.soc.name}"
        yield Refusal("", subject, rule, "export it to ONNX")


def _streams(graph: Graph, settings: Settings) -> Iterator[Refusal]:
    """ATC's page of --enable_single_stream: not with Merge, Switch, Enter."""
    branches = [node.name for node in control_flow_nodes(graph)]
    if settings.options.enable_single_stream and branches:
        subject, rule = "option enable_single_stream", f"does not go with control flow ({some(branches)})"
        yield Refusal("", subject, rule, "leave it out")


def _needed_passes(graph: Graph, settings: Settings) -> Iterator[Refusal]:
    """CANN's reference of ConvConcatFusionPass: in quantised networks it must be on, or TransData has a type
    that it lacks. ATC's page of --fusion_switch_file: so must the pass for requantisation be where a
    convolution has as many groups as outputs.
    """
    requant = _REQUANT.get(settings.soc.generation)
    nodes = list(reached_nodes(graph))
    if requant is None or not settings.fusion.level.graph:
        return
    if not any(node.op_type in _QUANTISING for node in nodes):
        return
    needed = {}
    if any(node.op_type == "Concat" for node in nodes):
        needed["ConvConcatFusionPass"] = "concatenates"
    if any(node.op_type == "Conv" and _depthwise(node) for node in nodes):
        needed[requant] = "has depthwise convolutions"
    known = {fact.name for fact in all_facts("graph")}
    for name, why in needed.items():
        decision = settings.fusion.switches.decide(name)
        if name in known and not decision.on:
            rule = f"is off ({decision.why}) in a quantised network that {why}, which needs it"
            yield Refusal("", f"pass {name}", rule, "leave it on")


def _depthwise(node: Node) -> bool:
    groups = int(node.attr("group", 1))
    return groups > 1 and (node.output.shape or (0, 0))[1] == groups
