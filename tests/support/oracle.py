"""onnxruntime as the oracle for values: the same weights that the product uses, in the same model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
from numpy.typing import NDArray

from ascendsim.core.dtypes import DType
from ascendsim.frontends.onnx.weights import random_weight, roles

Array = NDArray[Any]


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
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(None, inputs), strict=True))
