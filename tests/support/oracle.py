"""onnxruntime as the oracle for values: the same weights that the product uses, in the same model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx
from numpy.typing import NDArray

from ascendsim.core.dtypes import DType
from ascendsim.frontends.onnx.weights import random_weight, roles

if TYPE_CHECKING:
    import onnxruntime

Array = NDArray[Any]


def exact_options(network: onnx.ModelProto) -> onnxruntime.SessionOptions:
    """Options with which sums of products of uint8 by int8 are the same on every processor: x86 without VNNI
    adds pairs of them in 16 bits, which saturates. The option makes uint8 of int8 weights that are constants;
    for networks of int8 alone, whose sums are exact, it is not made.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    graph = network.graph
    kinds = {item.data_type for item in graph.initializer}
    kinds |= {item.type.tensor_type.elem_type for item in graph.input}
    unsigned = any(node.op_type == "DynamicQuantizeLinear" for node in graph.node)
    if onnx.TensorProto.INT8 in kinds and (unsigned or onnx.TensorProto.UINT8 in kinds):
        options.add_session_config_entry("session.x64quantprecision", "1")
    return options


def oracle_outputs(path: Path, inputs: dict[str, Array], seed: int = 0) -> dict[str, Array]:
    """Outputs of onnxruntime for a structure-only model whose absent weights are filled as
    `load(weights="random")` fills them.

    Args:
        path: The .onnx file.
        inputs: Arrays by input name; their shapes replace those of the file.
        seed: Of the weights.
    """
    import onnxruntime

    model = onnx.load(str(path), load_external_data=False)
    readers = roles(model.graph)
    for tensor in model.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            dtype = DType.of(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type))
            weight = random_weight(seed, tensor.name, dtype, tuple(tensor.dims), readers.get(tensor.name))
            tensor.CopyFrom(onnx.numpy_helper.from_array(weight, tensor.name))
    for value in model.graph.input:
        if value.name in inputs:
            for dim, size in zip(value.type.tensor_type.shape.dim, inputs[value.name].shape, strict=True):
                dim.dim_value = size
    del model.graph.value_info[:]
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), exact_options(model), providers=["CPUExecutionProvider"]
    )
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(None, inputs), strict=True))
