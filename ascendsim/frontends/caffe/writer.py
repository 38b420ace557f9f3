"""A network of Caffe on its way into an ONNX model: which layers run, what stands for a blob, weights.

A layer may write over the blob that it reads: the blob then stands for another tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ascendsim.core.errors import InputError

OPSET = 17
Dims = tuple[int, ...]
WriteLayer = Callable[["Writer", Any], None]
# layers that are for training or measure, and that a network for inference leaves out
_LEFT_OUT = (
    "Accuracy",
    "SoftmaxWithLoss",
    "EuclideanLoss",
    "HingeLoss",
    "Silence",
    "SigmoidCrossEntropyLoss",
)
_SAME = {
    "TanH": "Tanh",
    "Sigmoid": "Sigmoid",
    "AbsVal": "Abs",
    "BNLL": "Softplus",
    "Exp": "Exp",
    "Log": "Log",
}
_TEST = 1  # of Caffe's phases


class Writer:
    """One network on its way.

    Args:
        net: The parsed prototxt.
        blobs: Weights by layer; empty = weights without values.
        weight_file: What is missing then.
        subject: What messages call the network.
        kinds: Who writes a layer, by its type.
    """

    def __init__(
        self,
        net: Any,
        blobs: Mapping[str, Any],
        weight_file: str,
        subject: str,
        kinds: Mapping[str, WriteLayer],
    ) -> None:
        self.net, self.blobs, self.weight_file, self.subject = net, blobs, weight_file, subject
        self.kinds = kinds
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.names: dict[str, str] = {}  # blob -> the tensor that stands for it now
        self.shapes: dict[str, Dims] = {}  # by tensor
        self.read: set[str] = set()

    def model(self) -> onnx.ModelProto:
        """The network as an ONNX model.

        Raises:
            InputError: If a layer is not known, or breaks a rule.
        """
        self._net_inputs()
        for layer in self.net.layer:
            if self._runs(layer):
                self._layer(layer)
        ends = [name for name in self.shapes if name not in self.read and name in self._made()]
        if not ends:
            raise InputError(self.subject, "computes nothing", remedy="give a network with layers")
        outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, self.shapes[n]) for n in ends]
        graph = helper.make_graph(self.nodes, self.net.name or "caffe", self.inputs, outputs, self.constants)
        imports = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=imports, producer_name="caffe")

    def _made(self) -> set[str]:
        return {name for node in self.nodes for name in node.output}

    def _net_inputs(self) -> None:
        net = self.net
        sizes = [tuple(shape.dim) for shape in net.input_shape]
        sizes = sizes or [tuple(net.input_dim[at : at + 4]) for at in range(0, len(net.input_dim), 4)]
        if len(sizes) != len(net.input):
            raise InputError(self.subject, "needs one shape for each input", len(sizes))
        for name, dims in zip(net.input, sizes, strict=True):
            self._input(name, dims)

    def _input(self, name: str, dims: Sequence[int]) -> None:
        if not dims or any(dim < 1 for dim in dims):
            raise InputError(f"{self.subject}: input {name!r}", "needs positive dimensions", list(dims))
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, list(dims)))
        self.names[name], self.shapes[name] = name, tuple(int(dim) for dim in dims)

    def _runs(self, layer: Any) -> bool:
        """Whether a layer is part of the test phase."""
        rules = [rule.phase for rule in layer.include if rule.HasField("phase")]
        without = [rule.phase for rule in layer.exclude if rule.HasField("phase")]
        return (not rules or _TEST in rules) and _TEST not in without and layer.type not in _LEFT_OUT

    def _layer(self, layer: Any) -> None:
        if layer.type == "Input":
            for name, shape in zip(layer.top, layer.input_param.shape, strict=False):
                self._input(name, shape.dim)
            return
        if not layer.bottom:
            remedy = "replace it with an Input layer, as deploy.prototxt has it"
            raise InputError(f"layer {layer.name!r} ({layer.type})", "reads data of its own", remedy=remedy)
        write = self.kinds.get(layer.type)
        if write is None:
            known = ", ".join(sorted({*self.kinds, "Input"}))
            raise InputError(f"layer {layer.name!r}", f"must be one of {known}", layer.type)
        missing = [name for name in layer.bottom if name not in self.names]
        if missing:
            raise InputError(f"layer {layer.name!r}", "reads a blob that no layer makes", missing[0])
        write(self, layer)

    # what layers write with

    def with_channels(self, layer: Any, name: str) -> Dims:
        """The shape of a tensor with channels.

        Raises:
            InputError: If it has none.
        """
        dims = self.shapes[name]
        if len(dims) < 2:
            rule = "needs a blob with channels, its second axis"
            raise InputError(f"layer {layer.name!r} ({layer.type})", rule, f"shape {list(dims)}")
        return dims

    def maps(self, layer: Any, name: str) -> tuple[int, int, int, int]:
        """Images, channels, height and width of a tensor of feature maps.

        Raises:
            InputError: If it has other axes than these.
        """
        dims = self.shapes[name]
        if len(dims) != 4:
            rule = "works on two dimensions: it needs a blob with the axes N, C, H and W"
            raise InputError(f"layer {layer.name!r} ({layer.type})", rule, f"shape {list(dims)}")
        return dims[0], dims[1], dims[2], dims[3]

    def source(self, layer: Any, port: int = 0) -> str:
        """The tensor that a layer reads."""
        name = self.names[layer.bottom[port]]
        self.read.add(name)
        return name

    def fresh(self, layer: Any, port: int = 0) -> str:
        """The tensor that a layer makes, under the blob's name if that is free."""
        blob = layer.top[port] if port < len(layer.top) else layer.name
        return blob if blob not in self.shapes else f"{blob}_{layer.name}"

    def weight(self, layer: Any, number: int, dims: Dims) -> str:
        """A blob of a layer as a constant.

        Raises:
            InputError: If the caffemodel has it in another size.
        """
        name = f"{layer.name}.{number}"
        blobs = self.blobs.get(layer.name, ())
        if number < len(blobs):
            values = np.asarray(blobs[number].data or blobs[number].double_data, np.float32)
            if values.size != math.prod(dims):
                rule = f"needs {math.prod(dims)} numbers as blob {number}"
                raise InputError(
                    f"layer {layer.name!r}", rule, values.size, "give the caffemodel of this network"
                )
            self.constants.append(numpy_helper.from_array(values.reshape(dims), name))
            return name
        if self.blobs:
            raise InputError(f"layer {layer.name!r}", "has no weights in the caffemodel")
        proto = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=dims)
        proto.data_location = TensorProto.EXTERNAL
        proto.external_data.add(key="location", value=self.weight_file)
        self.constants.append(proto)
        return name

    def constant(self, layer: Any, what: str, values: Any) -> str:
        """A constant of the conversion."""
        name = f"{layer.name}.{what}"
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def emit(
        self, layer: Any, kind: str, inputs: Sequence[str], dims: Dims, step: str = "", **attributes: Any
    ) -> str:
        """Adds an operator; without a `step` it makes the layer's blob."""
        name = f"{layer.name}_{step}" if step else layer.name
        made = name if step else self.fresh(layer)
        self.nodes.append(helper.make_node(kind, list(inputs), [made], name=name, **attributes))
        self.shapes[made] = dims
        if step:
            self.read.add(made)
        else:
            self.names[layer.top[0] if layer.top else layer.name] = made
        return made
