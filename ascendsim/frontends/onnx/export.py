"""A graph written back as an ONNX model.

The IR has ONNX's newest semantics, so nodes are written as they are. The operator set stamped on the model is
18 where all its operators exist in the same form (the newest that ATC takes), else the first version that has
what the graph uses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError, InputError, UnsupportedOperatorError
from ascendsim.frontends.onnx.types import ONNX_TYPES
from ascendsim.graph.ir import AttributeValue, Constant, Graph, Node, Tensor
from ascendsim.graph.verify import nodes_in, verify

USUAL_VERSION = 18  # of the operator set
ML_DOMAIN = "ai.onnx.ml"
# since then with other numbers under the same attributes, or other words for them
_NEW_MEANING = {"GroupNormalization": 21, "GridSample": 20}
_NEW_WORDS = {
    ("Pad", "mode", "wrap"): 19,
    ("Resize", "coordinate_transformation_mode", "half_pixel_symmetric"): 19,
}
MAX_BYTES = 2**31 - 1  # of a protobuf message


def export_onnx(graph: Graph, others: Collection[str] = (), version: int = USUAL_VERSION) -> bytes:
    """The graph as the bytes of an .onnx file, weights inside.

    Args:
        graph: To be written.
        others: Operators that ONNX does not define and that are written into its domain all the same, for
            readers that know them. ONNX's own check is left out then, which does not.
        version: Of the operator set, if all operators exist there in the same form.

    Raises:
        UnsupportedOperatorError: If it has operators that ONNX does not define (those of domain "ascend" that
            passes make), and they are not to be written.
        GraphError: If a weight has no values, or the graph breaks a rule of the IR or of ONNX.
        InputError: If the model would be larger than a protobuf message may be (2 GiB).
    """
    verify(graph)
    foreign = [
        (f"{n.domain}::{n.op_type}" if n.domain else n.op_type, n.name)
        for n in nodes_in(graph)
        if not _versions(n) and (n.domain or n.op_type not in others)
    ]
    if foreign:
        raise UnsupportedOperatorError(foreign)
    size = sum(tensor.logical_bytes for tensor in graph.constants)
    if size > MAX_BYTES:
        raise InputError(
            f"model {graph.name!r}",
            "must have less than 2 GiB of weights to be written as one file",
            f"{size} bytes",
        )
    opsets = [
        helper.make_opsetid(
            "", _opset((n for n in nodes_in(graph) if not n.domain and _versions(n)), version)
        )
    ]
    if any(node.domain == ML_DOMAIN for node in nodes_in(graph)):
        opsets.append(
            helper.make_opsetid(
                ML_DOMAIN, max(max(_versions(n)) for n in nodes_in(graph) if n.domain == ML_DOMAIN)
            )
        )
    model = helper.make_model(
        _graph(graph),
        opset_imports=opsets,
        producer_name="ascendsim",
        ir_version=helper.find_min_ir_version_for(opsets),
    )
    try:
        if not others:
            onnx.checker.check_model(model)
    except onnx.checker.ValidationError as error:
        raise GraphError(
            f"graph {graph.name!r}", f"is no valid ONNX model: {str(error).splitlines()[0]}"
        ) from None
    return bytes(model.SerializeToString(deterministic=True))


def _versions(node: Node) -> tuple[int, ...]:
    """Versions of the operator set in which the operator changed; empty if ONNX does not define it."""
    if node.domain not in ("", ML_DOMAIN):
        return ()
    return _TABLE.get((node.domain, node.op_type), ())


def _table() -> dict[tuple[str, str], tuple[int, ...]]:
    found: dict[tuple[str, str], set[int]] = {}
    for schema in defs.get_all_schemas_with_history():
        found.setdefault((schema.domain, schema.name), set()).add(schema.since_version)
    return {key: tuple(sorted(versions)) for key, versions in found.items()}


_TABLE = _table()


def _opset(nodes: Iterator[Node], usual: int) -> int:
    """The usual version, or the first later one that knows every operator with its attributes, ports and
    element types. Types that no version has count for nothing.
    """
    wanted = usual
    for node in nodes:
        if min(_versions(node)) > usual:
            wanted = max(wanted, min(_versions(node)))
        wanted = max(wanted, _NEW_MEANING.get(node.op_type, 0), *_of_words(node))
        versions = [wanted, *(version for version in _versions(node) if version > wanted)]
        known = [version for version in versions if _fits(node, version)]
        typed = [version for version in known if _has_types(node, version)]
        wanted = (typed or known or versions[-1:])[0]
    return wanted


def _of_words(node: Node) -> list[int]:
    return [
        since
        for (op, name, word), since in _NEW_WORDS.items()
        if node.op_type == op and node.attr(name, None) == word
    ]


def _fits(node: Node, version: int) -> bool:
    schema = defs.get_schema(node.op_type, version)
    return (
        set(node.attributes) <= set(schema.attributes)
        and node.input_count <= schema.max_input
        and len(_outputs(node)) <= schema.max_output
    )


def _has_types(node: Node, version: int) -> bool:
    """Whether the ports have the element types of the tensors; the last port may stand for many."""
    schema = defs.get_schema(node.op_type, version)
    return all(
        tensor is None or f"tensor({_type_name(tensor)})" in ports[min(index, len(ports) - 1)].types
        for ports, tensors in (
            (schema.inputs, node.inputs),
            (schema.outputs, node.outputs[: len(_outputs(node))]),
        )
        for index, tensor in enumerate(tensors)
    )


def _type_name(tensor: Tensor) -> str:
    """As ONNX's schemas have it: "float", "float16", "int8"."""
    dtype = tensor.origin_dtype or tensor.element_type
    return str(onnx.TensorProto.DataType.Name(ONNX_TYPES[dtype])).lower()


def _graph(graph: Graph) -> onnx.GraphProto:
    return helper.make_graph(
        [_node(node) for node in graph.topological()],
        graph.name or "graph",
        [_value(tensor) for tensor in graph.inputs],
        [_value(tensor) for tensor in graph.outputs],
        [
            _initializer(tensor.name, tensor.constant)
            for tensor in graph.constants
            if tensor.constant is not None
        ],
    )


def _value(tensor: Tensor) -> onnx.ValueInfoProto:
    dtype = tensor.origin_dtype or tensor.element_type
    return helper.make_tensor_value_info(tensor.name, ONNX_TYPES[dtype], tensor.shape)


def _initializer(name: str, constant: Constant) -> onnx.TensorProto:
    # ascontiguousarray would make scalars vectors
    return numpy_helper.from_array(np.asarray(constant.array(), order="C"), name)


def _outputs(node: Node) -> list[str]:
    """Names of outputs; those nobody reads are left out where ONNX lets them be."""
    graph = node.graph
    outer = graph.outputs if graph is not None else []
    names = [
        tensor.name if index == 0 or tensor.uses or tensor in outer else ""
        for index, tensor in enumerate(node.outputs)
    ]
    while names and not names[-1]:
        names.pop()
    return names


def _node(node: Node) -> onnx.NodeProto:
    inputs = ["" if tensor is None else tensor.name for tensor in node.inputs]
    while inputs and not inputs[-1]:
        inputs.pop()
    proto = helper.make_node(node.op_type, inputs, _outputs(node), name=node.name, domain=node.domain)
    proto.attribute.extend(_attribute(key, value) for key, value in node.attributes.items())
    return proto


def _attribute(name: str, value: AttributeValue) -> onnx.AttributeProto:
    if isinstance(value, DType):
        return helper.make_attribute(name, ONNX_TYPES[value])
    if isinstance(value, np.ndarray):
        return helper.make_attribute(name, numpy_helper.from_array(value))
    if isinstance(value, Graph):
        return helper.make_attribute(name, _graph(value))
    if isinstance(value, tuple) and value and isinstance(value[0], Graph):
        return helper.make_attribute(name, [_graph(item) for item in value])
    if isinstance(value, tuple) and not value:
        return helper.make_attribute(name, [], attr_type=onnx.AttributeProto.INTS)
    return helper.make_attribute(name, value)
