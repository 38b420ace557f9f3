"""Graphs that differ from a given one in a single thing, for tests of what a rewrite asks before it acts.

From a graph on which a rewrite acts follow those on which it just does not, or still does: one more reader,
one more output, a control edge, another type, attribute, constant or size, a constant that is no constant.
Whatever a rewrite then does, values must stay and an order that a control edge asks for must stay; what it
does is written down by `sorted_outcomes` for a person to read.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import AscendSimError
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Array, Constant, Graph, Node, Tensor
from ascendsim.graph.verify import verify
from ascendsim.ops import default_opset
from ascendsim.passes.infer import Inference
from tests.support.evaluate import Known, evaluate

Edit = Callable[[Graph], object]
GUARD = "guard"  # a node that has nothing to do with the others but an order in time
MOST_ELEMENTS = 1 << 20
MOST_ALIKE = 3  # nodes, inputs or constants of a graph of which a change is tried, if it has more of a kind
FLOATS_ONLY = frozenset({"BatchNormalization", "BNInference"})
ONE_TYPE = frozenset(
    {
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Max",
        "Min",
        "Sum",
        "MatMul",
        "Gemm",
        "Conv",
        "Concat",
        "ReluGrad",
        "BatchNormGrad",
    }
)
TYPES = (DType.FLOAT32, DType.FLOAT16, DType.FLOAT64, DType.INT32, DType.INT64, DType.INT8, DType.BOOL)
OTHER_TYPES = {
    DType.FLOAT32: (DType.FLOAT16, DType.FLOAT64, DType.INT32),
    DType.FLOAT16: (DType.FLOAT32,),
    DType.INT64: (DType.INT32,),
}
# Attributes that the operators of a graph may have besides those that they do have
FURTHER: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "Conv": {
        "group": (2, 4),
        "strides": ((2, 2), (1, 2)),
        "dilations": ((2, 2), (2, 1)),
        "activation": ("Relu",),
        "auto_pad": ("SAME_UPPER",),
    },
    "QuantConv": {"group": (2,), "strides": ((2, 2),), "dilations": ((2, 2),), "offset_x": (3,)},
    "ConvTranspose": {"group": (2,), "strides": ((2, 2),)},
    "BatchMatMul": {"adj_x1": (1,), "adj_x2": (1,)},
    "Gemm": {"transA": (1,), "transB": (1,), "alpha": (1.0, 2.0), "beta": (1.0, 2.0)},
    "Concat": {"axis": (0, 1, -1), "no_task": (1,)},
    "Split": {"axis": (0, 1, -1), "no_task": (1,)},
    "BatchNormalization": {"training_mode": (1,), "epsilon": (1e-2,)},
    "BNInference": {"epsilon": (1e-2,)},
    "AveragePool": {
        "ceil_mode": (1,),
        "count_include_pad": (1,),
        "dilations": ((2, 2),),
        "strides": ((2, 2),),
        "auto_pad": ("SAME_UPPER",),
    },
    "MaxPool": {
        "ceil_mode": (1,),
        "dilations": ((2, 2),),
        "storage_order": (1,),
        "pads": ((1, 1, 1, 1), (0, 1, 0, 0)),
        "auto_pad": ("SAME_UPPER",),
    },
    "Pad": {"mode": ("reflect", "edge")},
    "ReduceMean": {"keepdims": (0,), "noop_with_empty_axes": (1,)},
    "ReduceSum": {"keepdims": (0,), "noop_with_empty_axes": (1,)},
    "Softmax": {"axis": (0, 1)},
    "Transpose": {"perm": ()},
    "Reshape": {"allowzero": (1,)},
    "HardSigmoid": {"alpha": (0.2,), "beta": (0.6,)},
}


def near_misses(
    graph: Graph,
    edits: Callable[[Graph], Iterator[tuple[str, Edit]]] | None = None,
    known: Known | None = None,
) -> Iterator[tuple[str, Graph]]:
    """The graph itself and its neighbours, each with what is different; those that the operators' rules do
    not allow are left out.

    Args:
        graph: Not changed.
        edits: What is tried; by default everything.
        known: Results of operators, for whoever computes values of the graphs too.
    """
    seen: Counter[str] = Counter()
    known = known or Known()
    for label, edit in [("as it is", lambda copy: None), *(edits or all_edits)(graph)]:
        copy = copy_graph(graph)
        try:
            edit(copy)
            _infer_again(copy)
            verify(copy)
        except AscendSimError:
            continue
        if can_run(copy, known):
            seen[label] += 1
            yield (label if seen[label] == 1 else f"{label} ({seen[label]})"), copy


def has_values(graph: Graph) -> bool:
    """Whether shapes and constants are known, so that the graph can be evaluated, which does not know of dead
    values."""
    if any((node.domain, node.op_type) == ("ascend", "Merge") for node in graph.nodes):
        return False
    known = all(tensor.constant.available for tensor in graph.constants if tensor.constant is not None)
    return known and all(tensor.is_static for tensor in graph.inputs)


def can_run(graph: Graph, known: Known) -> bool:
    """Whether operators get what they can compute with; rules of inference ask less than some of them."""
    for node in graph.nodes:
        if (
            node.op_type in ONE_TYPE
            and len({tensor.dtype for tensor in node.inputs if tensor is not None}) > 1
        ):
            return False
        if node.op_type in FLOATS_ONLY and not all(
            tensor is None or tensor.element_type.is_float for tensor in node.inputs
        ):
            return False
    if not has_values(graph):
        return True
    inputs = {tensor.name: _zeros(tensor, known) for tensor in graph.inputs}
    try:
        with np.errstate(all="ignore"):
            results = evaluate(graph, default_opset(), inputs, known)
    except Exception:
        return False
    return all(
        tensor.shape == result.shape
        for tensor, result in zip(graph.outputs, results, strict=True)
        if tensor.is_static
    )


def _zeros(tensor: Tensor, known: Known) -> Array:
    shape, dtype = tensor.static_shape, tensor.element_type.numpy
    (zeros,) = known.arrays((shape, dtype), lambda: [np.zeros(shape, dtype)])
    return zeros


def sorted_outcomes(outcomes: Iterable[tuple[str, str]]) -> str:
    """What was changed, by what came of it, in the order in which these first came."""
    groups: dict[str, list[str]] = {}
    for label, outcome in outcomes:
        groups.setdefault(outcome, []).append(label)
    text = ""
    for outcome, labels in groups.items():
        text += (
            f"{outcome}\n"
            + textwrap.fill("; ".join(labels), 118, initial_indent="  ", subsequent_indent="  ")
            + "\n"
        )
    return text


def operators_changed(before: Graph, after: Graph) -> str:
    """Which operators went and which came."""
    old, new = (Counter(node.op_type for node in graph.nodes) for graph in (before, after))
    gone = [f"-{name}" for name in sorted((old - new).elements())]
    made = [f"+{name}" for name in sorted((new - old).elements())]
    return " ".join([*gone, *made]) or "the same operators"


def control_edges(graph: Graph) -> str:
    """All control edges in words."""
    edges = [
        f"{node.op_type if node.name != GUARD else GUARD} waits for "
        + ", ".join(before.op_type if before.name != GUARD else GUARD for before in node.control)
        for node in graph.nodes
        if node.control
    ]
    return "; ".join(sorted(edges))


def order_is_kept(before: Graph, after: Graph, taken: Collection[str] = ()) -> bool:
    """Whether what made an output before or after the guard still does.

    Args:
        before, after: The graph without and with a rewrite.
        taken: Names of the nodes in whose place others stand; a node beside them that waits for the guard may
            go, as dead nodes do.
    """
    if GUARD not in before._node_names:
        return True
    held = {node.name for node in before.nodes if before.node(GUARD) in node.control}
    dead = {name for name in held if name not in taken and name not in after._node_names}
    for name in (tensor.name for tensor in before.outputs):
        for one, other in ((GUARD, name), (name, GUARD)):
            if (
                _comes_before(before, one, other)
                and not _comes_before(after, one, other)
                and not (dead and one == GUARD)
            ):
                return False
    return True


def _comes_before(graph: Graph, one: str, other: str) -> bool:
    first, last = (
        graph.node(GUARD) if name == GUARD else graph.tensors[name].producer for name in (one, other)
    )
    stack, seen = [last], {last}
    while stack:
        node = stack.pop()
        if node is None or node.graph is not graph:
            continue
        for item in graph.predecessors(node):
            if item is first:
                return True
            if item not in seen:
                seen.add(item)
                stack.append(item)
    return False


def _infer_again(graph: Graph) -> None:
    inference, opset = Inference(default_opset()), default_opset()
    for node in graph.topological():
        inference.apply_rule(node, opset.get(node))
    if any(tensor.is_static and tensor.elements > MOST_ELEMENTS for tensor in graph.tensors.values()):
        raise AscendSimError("graph", "is too large")


def _some(items: Iterable[Any], kind: Callable[[Any], Any]) -> list[Any]:
    """The items, of those that are alike the first ones and the last one."""
    groups: dict[Any, list[Any]] = {}
    for item in items:
        groups.setdefault(kind(item), []).append(item)
    chosen = {item for group in groups.values() for item in (*group[: MOST_ALIKE - 1], *group[-1:])}
    return [item for group in groups.values() for item in group if item in chosen]


def all_edits(graph: Graph) -> Iterator[tuple[str, Edit]]:
    """Everything."""
    nodes, inputs, constants = _chosen(graph)
    yield from structure_edits(graph)
    for kind in (DType.FLOAT16, DType.FLOAT64, DType.INT32, DType.INT8):
        yield f"all floats are {kind.value}", lambda copy, kind=kind: _all_floats(copy, kind)
    for tensor in (*inputs, *constants):
        yield from _types(tensor)
    for node in nodes:
        yield from _attributes(node)
        yield from _ports(node)
    for tensor in constants:
        yield from _constants(tensor)
    yield from size_edits(graph)


def port_edits(graph: Graph) -> Iterator[tuple[str, Edit]]:
    """Operands that are left out, change places or are the same."""
    for node in _chosen(graph)[0]:
        yield from _ports(node)


def attribute_edits(graph: Graph) -> Iterator[tuple[str, Edit]]:
    """Other values of attributes, and those that are left out."""
    for node in _chosen(graph)[0]:
        yield from _attributes(node)


def structure_edits(graph: Graph) -> Iterator[tuple[str, Edit]]:
    """Readers, outputs and control edges."""
    for node in _chosen(graph)[0]:
        yield from _readers(node)
    yield from _orders(graph)


def _chosen(graph: Graph) -> tuple[list[Node], list[Tensor], list[Tensor]]:
    """Nodes, inputs and constants of which changes are tried."""
    nodes = _some(graph.nodes, lambda node: (node.op_type, len(node.outputs)))
    inputs = _some(graph.inputs, lambda tensor: (tensor.dtype, tensor.shape))
    return nodes, inputs, _some(graph.constants, lambda tensor: (tensor.dtype, tensor.shape))


def _readers(node: Node) -> Iterator[tuple[str, Edit]]:
    for tensor in _some(node.outputs, lambda tensor: tensor.shape):
        index = tensor.index
        what = node.name if len(node.outputs) == 1 else f"{node.name}:{index}"
        if tensor.uses:
            yield (
                f"{what} is an output",
                lambda copy, name=tensor.name: copy.outputs.append(copy.tensors[name]),
            )
        yield f"{what} has one more reader", lambda copy, name=tensor.name: _read(copy, copy.tensors[name])


def _read(graph: Graph, tensor: Tensor) -> None:
    graph.outputs.append(graph.add_node("Identity", [tensor], ["read_too"], name="reader").output)


def _orders(graph: Graph) -> Iterator[tuple[str, Edit]]:
    def guard(copy: Graph, first: str | None, second: str | None) -> None:
        node = copy.add_node(
            "Identity", [copy.add_input("free", DType.FLOAT32, (1,))], ["guarded"], name=GUARD
        )
        copy.outputs.append(node.output)
        if first is not None:
            node.add_control(copy.node(first))
        if second is not None:
            copy.node(second).add_control(node)

    names = [node.name for node in _some(graph.topological(), lambda node: (node.op_type, len(node.outputs)))]
    for name in names:
        yield f"{name} waits", lambda copy, name=name: guard(copy, None, name)
        yield f"{name} is waited for", lambda copy, name=name: guard(copy, name, None)
    for first, second in pairwise(names):
        yield (
            f"{second} waits for what waits for {first}",
            lambda copy, first=first, second=second: guard(copy, first, second),
        )


def _all_floats(graph: Graph, kind: DType) -> None:
    found = [tensor for tensor in (*graph.inputs, *graph.constants) if tensor.dtype is DType.FLOAT32]
    if not found:
        raise AscendSimError("graph", "has no floats")
    for tensor in found:
        _set_type(tensor, kind)


def _set_type(tensor: Tensor, kind: DType) -> None:
    tensor.dtype = tensor.origin_dtype = kind
    if tensor.constant is not None and tensor.constant.available:
        tensor.constant = Constant(tensor.constant.array().astype(kind.numpy))


def _types(tensor: Tensor) -> Iterator[tuple[str, Edit]]:
    assert tensor.dtype is not None
    for kind in OTHER_TYPES.get(tensor.dtype, ()):
        yield (
            f"{tensor.name} is {kind.value}",
            lambda copy, kind=kind: _set_type(copy.tensors[tensor.name], kind),
        )


def _attributes(node: Node) -> Iterator[tuple[str, Edit]]:
    for key, value in node.attributes.items():
        if isinstance(value, (Graph, np.ndarray)) or (
            isinstance(value, tuple) and value and isinstance(value[0], Graph)
        ):
            continue
        yield f"{node.name} without {key}", lambda copy, key=key: copy.node(node.name).attributes.pop(key)
        for other in _other_values(value):
            yield _set_attribute(node, key, other)
    for key, values in FURTHER.get(node.op_type, {}).items():
        for other in values:
            if node.attr(key) != other and other not in _other_values(node.attr(key)):
                yield _set_attribute(node, key, other)


def _set_attribute(node: Node, key: str, value: Any) -> tuple[str, Edit]:
    shown = value.value if isinstance(value, DType) else f"{value:.7g}" if isinstance(value, float) else value
    return f"{node.name} {key} = {shown}", lambda copy: copy.node(node.name).attributes.update({key: value})


def _other_values(value: Any) -> list[Any]:
    if isinstance(value, DType):
        return [kind for kind in TYPES if kind is not value]
    if isinstance(value, int):
        return [value - 1, value + 1]
    if isinstance(value, float):
        return [value + 1, value * 1.01, value * (1 + 1e-5)]
    if isinstance(value, tuple) and value and isinstance(value[0], int):
        return [(*value[:place], item + 1, *value[place + 1 :]) for place, item in enumerate(value)] + [
            value[::-1]
        ] * (value != value[::-1])
    return []


def _ports(node: Node) -> Iterator[tuple[str, Edit]]:
    name = node.name
    for port in range(1, min(node.input_count, 8)):
        if node.input(port) is not None:
            yield (
                f"{name} without input {port}",
                lambda copy, port=port: copy.node(name).set_input(port, None),
            )
    if node.input_count > 1 and node.input(1) is not None and node.input(0) is not node.input(1):
        yield f"{name} with operands swapped", lambda copy: _swap(copy.node(name))
        yield (
            f"{name} with one operand twice",
            lambda copy: copy.node(name).set_input(1, copy.node(name).input(0)),
        )


def _swap(node: Node) -> None:
    left, right = node.input(0), node.input(1)
    node.set_input(0, right)
    node.set_input(1, left)


def _constants(tensor: Tensor) -> Iterator[tuple[str, Edit]]:
    name, constant = tensor.name, tensor.constant
    assert constant is not None
    yield f"{name} is no constant", lambda copy: _free(copy, copy.tensors[name])
    yield (
        f"{name} has no values",
        lambda copy: setattr(copy.tensors[name], "constant", Constant(absent_because="built without values")),
    )
    yield f"{name} is read elsewhere", lambda copy: _read(copy, copy.tensors[name])
    for what, array in _other_arrays(constant.array()):
        yield f"{name} {what}", lambda copy, array=array: _set_array(copy.tensors[name], array)


def _free(graph: Graph, tensor: Tensor) -> None:
    tensor.constant = None
    graph.inputs.append(tensor)


def _set_array(tensor: Tensor, array: Array) -> None:
    tensor.constant, tensor.shape = Constant(array), array.shape


def _other_arrays(array: Array) -> Iterator[tuple[str, Array]]:
    if array.dtype.kind == "f":
        changes = (1, 1e-2, 1e-3, 1e-5) if array.size == 1 else (1,)
        for change in changes:
            yield f"times 1 + {change:g}", array * array.dtype.type(1 + change)
        if array.size == 1:
            yield "negative", -array
    elif array.dtype.kind == "i" and array.size <= 8:
        for index in range(array.size):
            for change in (-1, 1):
                other = array.copy()
                other.reshape(-1)[index] += change
                yield f"[{index}] {change:+}", other
    if array.dtype.kind == "f" and array.ndim <= 4:
        yield "with one axis more", array[None]
        if array.ndim == 1 and array.size > 1:
            yield "is one number", array[:1].reshape(())
        if array.ndim == 0:
            yield "as a map", array.reshape(1, 1, 1, 1)
        if array.ndim > 1 and array.shape[0] == 1:
            yield "with one axis less", array[0]


def size_edits(graph: Graph) -> Iterator[tuple[str, Edit]]:
    """Dimensions that are one smaller, one larger or twice as large, and open ones."""
    sizes = {
        dim for tensor in (*graph.inputs, *graph.constants) for dim in tensor.static_shape if 1 < dim <= 4096
    }
    for size in sorted(sizes):
        for other in (size - 1, size + 1, 2 * size):
            yield f"{size} -> {other}", partial(_resize, size=size, other=other)
    for tensor in _chosen(graph)[1]:
        for axis, size in enumerate(tensor.static_shape):
            yield (
                f"{tensor.name} axis {axis}: {size} -> {size + 1}",
                partial(_dim, name=tensor.name, axis=axis, size=size + 1),
            )
            yield f"{tensor.name} axis {axis} is open", partial(_dim, name=tensor.name, axis=axis, size=None)
        yield (
            f"the rank of {tensor.name} is open",
            lambda copy, name=tensor.name: setattr(copy.tensors[name], "shape", None),
        )


def _dim(graph: Graph, name: str, axis: int, size: int | None) -> None:
    tensor = graph.tensors[name]
    tensor.shape = (*tensor.static_shape[:axis], size, *tensor.static_shape[axis + 1 :])


def _resize(graph: Graph, size: int, other: int) -> None:
    """Lets every dimension of one size have another one: of inputs, of constants, and in shapes that are
    constants themselves."""
    for tensor in graph.inputs:
        tensor.shape = tuple(other if dim == size else dim for dim in tensor.static_shape)
    for tensor in graph.constants:
        assert tensor.constant is not None
        array = tensor.constant.array()
        if array.dtype == np.int64 and array.ndim == 1:
            array = np.where(array == size, other, array)
        if size in array.shape:
            array = np.resize(array, tuple(other if dim == size else dim for dim in array.shape))
        _set_array(tensor, array)
