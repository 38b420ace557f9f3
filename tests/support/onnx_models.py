"""Small ONNX models for tests, in few words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ascendsim.graph.ir import Graph
from ascendsim.ops import default_opset
from tests.support.evaluate import evaluate


def node(op_type: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    """A node; names are separated by blanks, `_` is an input that is left out."""
    return helper.make_node(
        op_type, ["" if name == "_" else name for name in inputs.split()], outputs.split(), **attributes
    )


def value(name: str, shape: Sequence[Any] | None, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[str],
    constants: dict[str, Any] | None = None,
    opset: int = 20,
    functions: Sequence[onnx.FunctionProto] = (),
    domains: Sequence[tuple[str, int]] = (),
) -> onnx.ModelProto:
    """A model; `constants` become initialisers."""
    initialisers = [
        numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()
    ]
    graph = helper.make_graph(nodes, "test", inputs, [value(name, None) for name in outputs], initialisers)
    imports = [
        helper.make_opsetid("", opset),
        *(helper.make_opsetid(domain, version) for domain, version in domains),
    ]
    return helper.make_model(
        graph, opset_imports=imports, functions=functions, producer_name="tests", producer_version="1"
    )


def run(graph: Graph, *arrays: Any) -> list[Any]:
    """Outputs of a loaded graph for inputs in order."""
    return evaluate(
        graph,
        default_opset(),
        {tensor.name: array for tensor, array in zip(graph.inputs, arrays, strict=True)},
    )
