"""Networks in the form in which AMCT deploys them, made from what onnxruntime's quantiser writes (QDQ)."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

LAYERS = ("Conv", "Gemm")


def packed(scales: Any) -> Any:
    """Scales as AMCT stores them: float32 bits in the low half of a uint64."""
    return np.atleast_1d(np.asarray(scales, np.float32)).view(np.uint32).astype(np.uint64)


def deployed(network: onnx.ModelProto) -> onnx.ModelProto:
    """Convolutions and fully connected layers between AscendQuant and AscendDequant, all else in float."""
    held = {item.name: numpy_helper.to_array(item) for item in network.graph.initializer}
    makers = {name: node for node in network.graph.node for name in node.output}
    nodes: list[onnx.NodeProto] = []
    constants: dict[str, Any] = {}
    quants: dict[str, str] = {}

    def source(name: str) -> str:
        """The float tensor behind a pair, or the name itself."""
        node = makers.get(name)
        if node is None or node.op_type != "DequantizeLinear":
            return name
        before = makers.get(node.input[0])
        assert before is not None, "only weights are constants"
        return source(before.input[0])

    def quant(name: str) -> tuple[str, float]:
        pair = makers[name]
        scale, zero = (held[pair.input[port]] for port in (1, 2))
        key = source(name)
        if key not in quants:
            quants[key] = f"{key}.quant"
            nodes.append(
                helper.make_node(
                    "AscendQuant", [key], [quants[key]], name=quants[key],
                    scale=float(1 / scale), offset=float(zero), dst_type="INT8",
                )
            )  # fmt: skip
        return quants[key], float(scale)

    for node in network.graph.node:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            continue
        if node.op_type not in LAYERS:
            made = onnx.NodeProto()
            made.CopyFrom(node)
            made.input[:] = [name if name in held else source(name) for name in node.input]
            constants |= {name: held[name] for name in node.input if name in held}
            nodes.append(made)
            continue
        x, step = quant(node.input[0])
        weight, *biases = (makers[name] for name in node.input[1:])
        constants |= {item.input[0]: held[item.input[0]] for item in (weight, *biases)}
        constants[f"{node.name}.deq"] = packed(held[weight.input[1]].reshape(-1) * np.float32(step))
        made = onnx.NodeProto()
        made.CopyFrom(node)
        made.input[:] = [x, *(item.input[0] for item in (weight, *biases))]
        made.output[:] = [f"{node.name}.sums"]
        nodes.append(made)
        floats = [f"{node.name}.sums", f"{node.name}.deq"]
        nodes.append(
            helper.make_node("AscendDequant", floats, [node.output[0]], name=f"{node.name}.dequant", dtype=0)
        )
    outputs = []
    for item in network.graph.output:
        value = onnx.ValueInfoProto()
        value.CopyFrom(item)
        value.name = source(item.name)
        outputs.append(value)
    graph = helper.make_graph(
        nodes, "deployed", network.graph.input, outputs,
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )  # fmt: skip
    made_model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made_model.ir_version = 9
    return made_model
