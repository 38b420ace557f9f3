"""`quantize`: a float network becomes one in int8, by what its tensors hold while it runs over data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ascendsim.api.quantize_result import QuantizedLayer, QuantizeResult
from ascendsim.api.quantize_runs import Noise, compare_values
from ascendsim.compiler.pipeline import check_operators
from ascendsim.core.arguments import checked
from ascendsim.core.threads import fixed_threads
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Graph
from ascendsim.ops import opset_with
from ascendsim.opset import OpDef
from ascendsim.quantisation.ascend import insert_ascend, refusal
from ascendsim.quantisation.calibrate import Calibrator
from ascendsim.quantisation.data import batches
from ascendsim.quantisation.pairs import Calibration, insert_pairs, layer_weights
from ascendsim.quantisation.plan import Layer, Plan, plan_of
from ascendsim.quantisation.prepare import prepared
from ascendsim.quantisation.thresholds import PERCENTILE, Method, check_method
from ascendsim.runtime.plain import evaluate_plain

Form = Literal["qdq", "ascend"]
COMPARED = 8  # batches that are kept to compare values with float32


@fixed_threads()
@checked(
    graph="asim.load and asim.GraphBuilder make one",
    skip='write skip=["conv1", "/head/*"]',
    operators="write operators=[MY_OPERATOR]",
)
def quantize(
    graph: Graph,
    data: Any,
    *,
    activation: Method = "kl",
    percentile: float = PERCENTILE,
    weights: Literal["max", "max-per-tensor"] = "max",
    skip: Sequence[str] = (),
    form: Form = "qdq",
    operators: Sequence[OpDef] = (),
) -> QuantizeResult:
    """Quantises a float network to int8 after training.

    The network runs over the data in float32, and every tensor that is to be rounded gets a threshold T by
    its histogram: beyond T it saturates. Weights do not saturate. Memory does not grow with the data.

    Args:
        graph: From `load` or `GraphBuilder`, of fixed shapes and without control flow; stays as it is.
        data: What the network sees in use: arrays by input name (of one input also the array alone) with any
            number of batches along the first axis, the path of an .npz file of such arrays, or something that
            yields such arrays batch by batch.
        activation: How T is chosen: "kl" (least divergence of the distributions), "mse" (least squared
            error), "max" (nothing is clipped) or "percentile".
        percentile: Share of the elements in percent that "percentile" does not clip.
        weights: "max": the largest weight of each output channel becomes 127; "max-per-tensor": that of all.
        skip: Nodes that stay in floating point: names, or patterns as shells have them.
        form: "qdq" writes pairs of QuantizeLinear and DequantizeLinear (onnxruntime), "ascend" CANN's
            own operators AscendQuant and AscendDequant around layers of integers.
        operators: Operators of your own, the same as for `load`.

    Raises:
        InputError: If the data do not fit the model or are not finite, a tensor is zero for all of them, or
            an option is not valid.
        GraphError: If a weight has no values.
        UnsupportedOperatorError: Lists all operators that are not known.
    """
    check_method(activation, percentile)
    opset = opset_with(operators)
    check_operators(graph, opset)
    source = prepared(graph, opset)
    plan = plan_of(source, tuple(skip), None if form == "qdq" else refusal)
    calibrator, kept, count = Calibrator(plan), [], 0
    for batch in batches(source, data):
        if count < COMPARED:
            kept.append(batch)
        count += 1
        for tensor in source.inputs:
            calibrator.see(tensor, batch[tensor.name])
        evaluate_plain(source, opset, batch, see=calibrator.see)
    found = calibrator.result(activation, percentile)
    per_channel = weights == "max"
    made = copy_graph(source)
    if form == "qdq":
        insert_pairs(made, opset, plan, found, per_channel)
    else:
        insert_ascend(made, opset, plan, found, per_channel)
    noise = compare_values(source, made, opset, kept, {layer.result for layer in plan.layers})
    layers = tuple(_row(source, plan, layer, found, noise, per_channel) for layer in plan.layers)
    return QuantizeResult(
        graph=made,
        source=source,
        plan=plan,
        layers=layers,
        snr_db=noise.outputs,
        activation=activation,
        form=form,
        batches=count,
        _found=found,
        _data=tuple(kept),
        _opset=opset,
        _per_channel=per_channel,
    )


def _row(
    graph: Graph, plan: Plan, layer: Layer, found: Calibration, noise: Noise, per_channel: bool
) -> QuantizedLayer:
    """What is known of a layer."""
    data = found[plan.groups[layer.data]]
    steps = layer_weights(graph, layer, data.scale, per_channel).scale
    return QuantizedLayer(
        layer.name,
        layer.operator,
        layer.data,
        data.threshold,
        data.clipped,
        data.scale,
        (float(steps.min()), float(steps.max())),
        noise.of(layer.result),
    )
