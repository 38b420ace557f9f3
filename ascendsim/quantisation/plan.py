"""What of a network can be int8: layers with weights, what lies between them, and tensors that share a scale.

Layers (Conv, ConvTranspose, Gemm, MatMul with constant weights) are what int8 is for. Other operators are
quantised only where all they read comes from int8 and all that reads them goes on in int8: elsewhere their
rounding would cost accuracy and gain nothing. What only moves or picks elements has one scale on both sides,
and so do the parts of a Concat, so that nothing is computed there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import InputError, suggest
from ascendsim.graph.ir import Graph, Node, Tensor

LAYERS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
MOVES = frozenset(
    [
        "MaxPool",
        "Reshape",
        "Transpose",
        "Flatten",
        "Squeeze",
        "Unsqueeze",
        "Slice",
        "Expand",
        "Tile",
        "DepthToSpace",
        "SpaceToDepth",
        "Identity",
        "Resize",
    ]
)
JOINS = frozenset(["Concat"])
OWN_SCALE = frozenset(
    ["Add", "Mul", "AveragePool", "GlobalAveragePool", "Sigmoid", "LeakyRelu", "Relu", "Clip"]
)
BOUNDS = frozenset(["Relu", "Clip"])
# operators whose further inputs say where or how much
_ONE_INPUT = frozenset(["Reshape", "Squeeze", "Unsqueeze", "Slice", "Expand", "Tile", "Clip", "Resize"])


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer that goes into int8.

    Attributes:
        name: Of its node.
        operator: Its type.
        data: The tensor that it multiplies.
        result: What it makes, Relu or Clip behind it included.
        axis: Of the weights, along which every slice has a scale; None for one scale.
        columns: Slices along it.
    """

    name: str
    operator: str
    data: str
    result: str
    axis: int | None
    columns: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What is quantised, by names.

    Attributes:
        layers: In order of execution.
        between: Other nodes that go into int8.
        groups: Tensors that are rounded to int8 -> the first tensor of those that share their scale.
        seen: Tensors whose values decide the scales.
        kept: Layers that stay in floating point -> why.
    """

    layers: tuple[Layer, ...]
    between: tuple[str, ...]
    groups: Mapping[str, str]
    seen: frozenset[str]
    kept: Mapping[str, str]


def plan_of(graph: Graph, skip: Sequence[str] = (), refusal: Callable[[Node], str] | None = None) -> Plan:
    """What of a graph goes into int8.

    Args:
        graph: Types and shapes known.
        skip: Nodes that stay in floating point: names, or patterns as shells have them.
        refusal: Says why the form has no such layer; empty if it has.

    Raises:
        InputError: If `skip` names nothing, or no layer is left.
    """
    left_out = _left_out(graph, skip)
    layers: dict[Node, Layer] = {}
    kept: dict[str, str] = {}
    order = graph.topological()
    for node in order:
        if node.domain or node.op_type not in LAYERS:
            continue
        why = "left out by skip" if node.name in left_out else _refusal(node)
        if not why and refusal is not None:
            why = refusal(node)
        if why:
            kept[node.name] = why
        else:
            layers[node] = _layer(graph, node)
    if not layers:
        rule = "has no layer that can be int8"
        reasons = "; ".join(f"{name}: {why}" for name, why in list(kept.items())[:3])
        raise InputError(f"model {graph.name!r}", rule, remedy=reasons or f"int8 is for {', '.join(LAYERS)}")
    between = _between(graph, order, layers, left_out)
    held = _rounded(layers, between)
    groups = _groups(graph, held, between)
    moved = {node.output.name for node in between if node.op_type in MOVES}
    return Plan(
        tuple(layers.values()), tuple(node.name for node in between), groups, frozenset(held - moved), kept
    )


def _left_out(graph: Graph, skip: Sequence[str]) -> set[str]:
    """Names of the nodes that `skip` means."""
    known: dict[str, list[str]] = {}
    for node in graph.nodes:
        for name in (node.name, *node.origin.get("source_names", ())):
            known.setdefault(name, []).append(node.name)
    found: set[str] = set()
    for pattern in skip:
        names = known.get(pattern) or [
            node for name, nodes in known.items() if fnmatchcase(name, pattern) for node in nodes
        ]
        if not names:
            raise InputError(f"option skip: {pattern!r}", "names no node", remedy=suggest(pattern, known))
        found.update(names)
    return found


def _refusal(node: Node) -> str:
    """Why a layer stays in floating point; empty if it need not."""
    data, weight = node.required(0), node.required(1)
    if data.is_constant or data.dtype is not DType.FLOAT32:
        return "its data are not float32"
    if not weight.is_constant or not weight.is_static:
        return "its weights are not constant"
    if node.op_type == "Gemm":
        factors = [float(node.attr(name, 1.0)) for name in ("alpha", "beta")]
        if factors != [1.0, 1.0]:
            return "it has factors"
    if node.op_type == "MatMul" and len(weight.static_shape) < 2:
        return "its weights are a vector"
    bias = node.input(2)
    if bias is not None and not bias.is_constant:
        return "its bias is not constant"
    return ""


def _layer(graph: Graph, node: Node) -> Layer:
    weight = node.required(1).static_shape
    axis: int | None = 0
    if node.op_type == "ConvTranspose":  # the second axis has the columns of one group only
        axis = 1 if int(node.attr("group", 1)) == 1 else None
    elif node.op_type == "Gemm":
        axis = 0 if node.attr("transB", 0) else 1
    elif node.op_type == "MatMul":
        axis = len(weight) - 1
    columns = 1 if axis is None else weight[axis]
    return Layer(node.name, node.op_type, node.required(0).name, result_of(graph, node).name, axis, columns)


def result_of(graph: Graph, node: Node) -> Tensor:
    """What an operator makes, a Relu or Clip behind it included, which becomes bounds of the integers."""
    result = node.output
    if result not in graph.outputs and len(result.uses) == 1:
        reader = result.uses[0].node
        bounds = [tensor for tensor in reader.inputs[1:] if tensor is not None]
        if reader.op_type in BOUNDS and not reader.domain and all(tensor.is_constant for tensor in bounds):
            return reader.output
    return result


def _data(node: Node) -> list[Tensor]:
    """The inputs of an operator that are its data."""
    count = 1 if node.op_type in _ONE_INPUT else node.input_count
    return [tensor for tensor in node.inputs[:count] if tensor is not None]


def _between(
    graph: Graph, order: Sequence[Node], layers: Mapping[Node, Layer], left_out: Collection[str]
) -> list[Node]:
    """Operators all of whose data are in int8 and all of whose readers go on in int8: what is left after
    those that break a rule have been taken away, until none does.
    """
    kinds = MOVES | JOINS | OWN_SCALE
    found = [
        node
        for node in order
        if node.op_type in kinds
        and not node.domain
        and node.name not in left_out
        and node.attr("mode", "nearest") in ("nearest", b"nearest")  # of Resize
        and all(tensor.dtype is DType.FLOAT32 for tensor in _data(node))
        and len([tensor for tensor in node.outputs if tensor.uses]) == 1
    ]
    while True:
        tails = {_tail(graph, node) for node in (*layers, *found)}
        inside = {*layers, *found}
        held = _made_of_bytes(graph, layers, [node for node in found if node not in tails])
        left = [node for node in found if node in tails or _is_between(graph, node, inside, held)]
        if len(left) == len(found):
            return [node for node in left if node not in tails]
        found = left


def _is_between(graph: Graph, node: Node, inside: Collection[Node], held: Collection[str]) -> bool:
    data = [tensor.name for tensor in _data(node) if not tensor.is_constant]
    result = result_of(graph, node)
    readers = result.consumers
    return (
        bool(data and readers)
        and result not in graph.outputs
        and all(name in held for name in data)
        and all(reader in inside for reader in readers)
    )


def _tail(graph: Graph, node: Node) -> Node | None:
    """The Relu or Clip that goes into an operator."""
    result = result_of(graph, node)
    return result.producer if result is not node.output else None


def _made_of_bytes(graph: Graph, layers: Mapping[Node, Layer], between: Sequence[Node]) -> set[str]:
    """Tensors that integers are multiplied from, or that come from integers."""
    ends = {name for layer in layers.values() for name in (layer.data, layer.result)}
    return ends | {result_of(graph, node).name for node in between}


def _rounded(layers: Mapping[Node, Layer], between: Sequence[Node]) -> set[str]:
    """Tensors that something in int8 reads; results that only floats read leave the Cube as floats."""
    inner = {tensor.name for node in between for tensor in _data(node) if not tensor.is_constant}
    return inner | {layer.data for layer in layers.values()}


def _groups(graph: Graph, held: set[str], between: Sequence[Node]) -> dict[str, str]:
    """Tensor -> the first of those that share its scale."""
    parent = {name: name for name in sorted(held)}

    def root(name: str) -> str:
        while parent[name] != name:
            name = parent[name]
        return name

    for node in between:
        if node.op_type in MOVES | JOINS:
            result = root(result_of(graph, node).name)
            for tensor in _data(node):
                if tensor.name in parent:
                    one, other = sorted((root(tensor.name), result))
                    parent[other] = result = one
    return {name: root(name) for name in parent}


def constants_between(graph: Graph, plan: Plan) -> Iterator[tuple[Node, int, Tensor]]:
    """Constant operands of operators between layers: node, input, tensor."""
    for name in plan.between:
        node = graph.node(name)
        for port, tensor in enumerate(_data(node)):
            if tensor.is_constant:
                yield node, port, tensor
