"""One operator on its own: inferred, computed and compared, without a model around it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph, Node, Shape
from ascendsim.ops import default_opset
from ascendsim.opset import InferContext
from ascendsim.opset.work import LowerContext, Work
from tests.support.oracle import exact_options

Array = NDArray[Any]
V100 = {
    "vnchwconv": ("int8", "float16"),
    "vcmax": ("float16",),
    "vbitsort": ("float16",),
    "vmrgsort4": ("float16",),
    "vadd": ("float16", "float32"),
}
C220 = {
    **V100,
    "vnchwconv": ("int8", "float16", "float32"),
    "vgather": ("float16", "float32"),
    "vreducev2": ("float16", "float32"),
}


def make_node(
    op_type: str,
    inputs: Sequence[Any],
    outputs: int = 1,
    domain: str = "",
    known: bool = True,
    **attributes: Any,
) -> Node:
    """A node whose inputs are constants (or, with known=False, graph inputs of the same shapes), with
    inferred outputs."""
    graph = Graph()
    tensors = []
    for number, value in enumerate(inputs):
        if value is None:
            tensors.append(None)
            continue
        array = np.asarray(value)
        name = f"input{number}"
        tensors.append(
            graph.add_constant(name, array)
            if known
            else graph.add_input(name, DType.of(array.dtype), array.shape)
        )
    node = graph.add_node(
        op_type, tensors, [f"output{number}" for number in range(outputs)], domain=domain, **attributes
    )
    default_opset().get(node).infer(InferContext(node))
    return node


def run(
    op_type: str, inputs: Sequence[Any], outputs: int = 1, domain: str = "", **attributes: Any
) -> list[Array]:
    """Values of one operator; asserts that types and known dimensions are what the shape rule said and that
    inputs stay as they were."""
    node = make_node(op_type, inputs, outputs, domain, **attributes)
    arrays = [None if value is None else np.asarray(value) for value in inputs]
    before = [None if array is None else array.copy() for array in arrays]
    results = list(
        default_opset()
        .get(node)
        .compute(node, arrays, [tensor.element_type.numpy for tensor in node.outputs])
    )
    for tensor, result in zip(node.outputs, results, strict=True):
        assert result.dtype == tensor.element_type.numpy
        assert tensor.shape is not None
        assert all(dim in (None, size) for dim, size in zip(tensor.shape, result.shape, strict=True))
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)
    return results


def infer(
    op_type: str,
    shapes: Sequence[Shape | None],
    constants: dict[int, Any] | None = None,
    outputs: int = 1,
    **attributes: Any,
) -> list[Shape | None]:
    """Output shapes for float32 inputs of given shapes (with symbols and unknown dimensions) and some
    constant inputs."""
    graph = Graph()
    constants = constants or {}
    tensors = [
        graph.add_constant(f"input{number}", np.asarray(constants[number], np.int64))
        if number in constants
        else _input(graph, f"input{number}", shape)
        for number, shape in enumerate(shapes)
    ]
    node = graph.add_node(op_type, tensors, [f"output{number}" for number in range(outputs)], **attributes)
    default_opset().get(node).infer(InferContext(node))
    return [tensor.shape for tensor in node.outputs]


def _input(graph: Graph, name: str, shape: Shape | None) -> Any:
    tensor = graph.add_input(name, DType.FLOAT32, ())
    tensor.shape = shape
    return tensor


def lower(
    op_type: str,
    inputs: Sequence[Any],
    outputs: int = 1,
    domain: str = "",
    generation: str = "v100",
    **attributes: Any,
) -> Work:
    """The work of one operator on constants, on a chip with the instructions of v100 or c220."""
    node = make_node(op_type, inputs, outputs, domain, **attributes)
    definition = default_opset().get(node)
    assert definition.lower is not None
    return definition.lower(node, LowerContext(generation, intrinsics=V100 if generation == "v100" else C220))


def with_onnxruntime(
    op_type: str,
    inputs: Sequence[Any],
    outputs: int = 1,
    opset: int = 18,
    weights: Collection[int] = (),
    **attributes: Any,
) -> list[Array]:
    """The same operator in onnxruntime; inputs with these numbers are constants of the model."""
    import onnx
    import onnxruntime

    names = ["" if value is None else f"input{number}" for number, value in enumerate(inputs)]
    results = [f"output{number}" for number in range(outputs)]
    node = onnx.helper.make_node(op_type, names, results, **attributes)
    arrays = {name: np.asarray(value) for name, value in zip(names, inputs, strict=True) if name}
    constants = {f"input{number}" for number in weights}
    values = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in arrays.items()
        if name not in constants
    ]
    outs = [onnx.helper.make_empty_tensor_value_info(name) for name in results]
    held = [onnx.numpy_helper.from_array(arrays.pop(name), name) for name in sorted(constants)]
    graph = onnx.helper.make_graph([node], "one", values, outs, held)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=9)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), exact_options(model), providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, arrays))
