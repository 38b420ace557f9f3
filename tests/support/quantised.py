"""Small quantised networks in ONNX's forms, and what onnxruntime makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from ascendsim.graph.ir import Graph
from tests.support.onnx_models import model, node, value
from tests.support.oracle import exact_options


class Qdq:
    """A network in QDQ form while it is written: every method adds nodes and gives the name of a tensor.

    Args:
        dtype: Of activations.
        seed: Of the weights.
    """

    def __init__(self, dtype: Any = np.int8, seed: int = 0) -> None:
        self.dtype, self.random = np.dtype(dtype), np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Any] = {}
        self.inputs: list[onnx.ValueInfoProto] = []
        self._count = 0

    def name(self) -> str:
        """A name that is free."""
        self._count += 1
        return f"t{self._count}"

    def constant(self, array: Any) -> str:
        """An initialiser."""
        name = self.name()
        self.constants[name] = np.asarray(array)
        return name

    def input(self, *shape: int) -> str:
        """A float input of the network."""
        name = f"x{len(self.inputs)}"
        self.inputs.append(value(name, shape))
        return name

    def op(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """A float operator."""
        name = self.name()
        self.nodes.append(node(op_type, " ".join(inputs), name, **attributes))
        return name

    def pair(self, x: str, scale: float = 0.03, zero: int = 3, dtype: Any = None) -> str:
        """QuantizeLinear and DequantizeLinear."""
        step = self.constant(np.float32(scale))
        point = self.constant(np.asarray(zero, dtype or self.dtype))
        bytes_ = self.op("QuantizeLinear", x, step, point)
        return self.op("DequantizeLinear", bytes_, step, point)

    def weight(self, *shape: int, axis: int = 0, dtype: Any = np.int8, zero: int = 0) -> tuple[str, Any]:
        """Constant integers with a scale for every slice of an axis; gives the scales as well."""
        limits = np.iinfo(dtype)
        integers = self.random.integers(limits.min + 8, limits.max - 8, shape).astype(dtype)
        scales = (self.random.random(shape[axis]) * 0.002 + 0.001).astype(np.float32)
        zeros = np.full(shape[axis], zero, dtype)
        held = [self.constant(array) for array in (integers, scales, zeros)]
        return self.op("DequantizeLinear", *held, axis=axis), scales

    def bias(self, scales: Any, scale: float = 0.03) -> str:
        """Constant int32 in units of the sums."""
        step = (scales * np.float32(scale)).astype(np.float32)
        integers = self.random.integers(-3000, 3000, scales.shape).astype(np.int32)
        zeros = np.zeros(scales.shape, np.int32)
        return self.op(
            "DequantizeLinear", *[self.constant(array) for array in (integers, step, zeros)], axis=0
        )

    def conv(self, x: str, shape: Sequence[int], scale: float = 0.03, **attributes: Any) -> str:
        """A convolution of a quantised tensor of that scale, with a bias."""
        weight, scales = self.weight(*shape)
        return self.op("Conv", x, weight, self.bias(scales, scale), **attributes)

    def model(self, *outputs: str) -> onnx.ModelProto:
        """The network."""
        made = model(self.nodes, self.inputs, outputs, self.constants, opset=17)
        for tensor in made.graph.output:
            tensor.type.Clear()
        made.ir_version = 9
        return made


def feed(network: onnx.ModelProto, seed: int = 0) -> dict[str, Any]:
    """Seeded inputs."""
    random = np.random.default_rng(seed)
    return {
        item.name: random.standard_normal([dim.dim_value for dim in item.type.tensor_type.shape.dim]).astype(
            np.float32
        )
        for item in network.graph.input
    }


def with_bytes(network: onnx.ModelProto) -> onnx.ModelProto:
    """The network with every tensor of bytes that a node makes as a further output."""
    shown = onnx.ModelProto()
    shown.CopyFrom(network)
    inferred = onnx.shape_inference.infer_shapes(network)
    kinds = {item.name: item.type.tensor_type.elem_type for item in inferred.graph.value_info}
    made = [
        item.output[0]
        for item in network.graph.node
        if item.op_type == "QuantizeLinear"
        or item.domain == "com.microsoft"
        or item.op_type.startswith("QLinear")
        or kinds.get(item.output[0]) in (TensorProto.INT8, TensorProto.UINT8)
    ]
    outputs = {item.name for item in network.graph.output}
    shown.graph.output.extend(onnx.ValueInfoProto(name=name) for name in made if name not in outputs)
    return shown


def by_onnxruntime(
    network: onnx.ModelProto, arrays: dict[str, Any], optimised: bool = True
) -> dict[str, Any]:
    """Outputs by name; not `optimised`, pairs stay pairs around float operators."""
    import onnxruntime

    options = exact_options(network)
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        network.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [item.name for item in session.get_outputs()]
    return dict(zip(names, session.run(names, arrays), strict=True))


def quantised_by_onnxruntime(
    network: onnx.ModelProto, folder: Path, form: str, unsigned: bool = False, keep: bool = False
) -> onnx.ModelProto:
    """What quantize_static makes of a float network, calibrated with seeded data.

    Args:
        network: With values.
        folder: For its files.
        form: "QDQ" or "QOperator".
        unsigned: Activations in uint8 in place of int8.
        keep: Whether Relu and Clip stay operators and do not go up in the range of bytes.
    """
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self.left = [feed(network, seed) for seed in (1, 2)]

        def get_next(self) -> dict[str, Any] | None:
            return self.left.pop() if self.left else None

    given, made = folder / "float.onnx", folder / f"{form}.onnx"
    onnx.save(network, given)
    quantize_static(
        given,
        made,
        Reader(),
        quant_format=QuantFormat[form],
        activation_type=QuantType.QUInt8 if unsigned else QuantType.QInt8,
        weight_type=QuantType.QInt8,
        per_channel=form == "QDQ",
        extra_options={"QDQKeepRemovableActivations": keep},
    )
    return onnx.load(made)


def float_network(channels: int = 8, size: int = 12) -> onnx.ModelProto:
    """A residual network in float: convolutions, pooling, a sum, an average, a layer behind."""
    random = np.random.default_rng(7)

    def weights(*shape: int) -> Any:
        return (random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)

    square = (channels, channels, 3, 3)
    constants = {"w0": weights(channels, 3, 3, 3), "w1": weights(*square), "b1": weights(channels, 1)[:, 0]}
    constants |= {"w2": weights(*square), "w3": weights(10, channels), "b3": weights(10, 1)[:, 0]}
    nodes = [
        node("Conv", "x w0", "c0", pads=[1, 1, 1, 1], name="conv0"),
        node("Relu", "c0", "r0", name="relu0"),
        node("MaxPool", "r0", "p0", kernel_shape=[2, 2], strides=[2, 2], name="pool"),
        node("Conv", "p0 w1 b1", "c1", pads=[1, 1, 1, 1], name="conv1"),
        node("Relu", "c1", "r1", name="relu1"),
        node("Conv", "r1 w2", "c2", pads=[1, 1, 1, 1], name="conv2"),
        node("Add", "c2 p0", "a", name="add"),
        node("Relu", "a", "r2", name="relu2"),
        node("GlobalAveragePool", "r2", "g", name="mean"),
        node("Flatten", "g", "f", name="flatten"),
        node("Gemm", "f w3 b3", "y", transB=1, name="head"),
    ]
    made = model(nodes, [value("x", (1, 3, size, size))], [], constants, opset=17)
    made.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 10)))
    made.ir_version = 9
    return made


def louder(graph: Graph, first: str, second: str, channel: int, factor: float) -> None:
    """Makes a channel between two layers larger and the weights that read it smaller, in place: the same
    function, bit for bit if the factor is a power of two.
    """
    reader = graph.node(second).required(1).static_shape
    places = reader[1] // graph.node(first).required(1).static_shape[0]  # of a channel that was flattened
    reads = np.s_[:, channel * places : (channel + 1) * places]
    for name, port, part, by in (
        (first, 1, channel, factor),
        (first, 2, channel, factor),
        (second, 1, reads, 1 / factor),
    ):
        node = graph.node(name)
        held = None if node.input(port) is None else node.required(port).constant
        if held is not None:
            array = held.array().copy()
            array[part] *= by
            node.set_input(port, graph.add_constant(graph.fresh("louder"), array))
