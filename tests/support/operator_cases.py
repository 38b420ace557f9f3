"""Nodes of every operator, with values: those of ONNX's conformance cases, and hand-made ones
(`own_cases`) beyond them.

Laws that hold for all operators run over them, so a new operator is under them as soon as a case of it
exists, and a test says so where there is none.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, get_args

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import UnsupportedOperatorError, UnsupportedTypeError
from ascendsim.core.formats import Format
from ascendsim.frontends.onnx import load_onnx
from ascendsim.graph.ir import Graph, Node, Shape, Tensor
from ascendsim.ops import default_opset
from ascendsim.opset import InferContext, Layout
from ascendsim.opset.work import LowerContext, Work
from ascendsim.passes.layout.formats import follows_in, storable, weight_format, wished
from ascendsim.soc import load
from tests.support.node_suite import all_cases, case_array

Array = Any
CHIPS = ("Ascend310", "Ascend310P3", "Ascend910B1")  # v100 without float32 exponentials, m200, c220


@dataclass(frozen=True, eq=False)
class Case:
    """One operator with attributes and input arrays (None for inputs that are left out); equal to itself
    alone."""

    name: str
    op_type: str
    inputs: tuple[Array | None, ...]
    outputs: int = 1
    domain: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def operator(self) -> str:
        """Domain and name."""
        return f"{self.domain}::{self.op_type}" if self.domain else self.op_type

    @property
    def form(self) -> tuple[Any, ...]:
        """What the case looks like but for its values."""
        arrays = tuple(None if array is None else (array.shape, str(array.dtype)) for array in self.inputs)
        return (
            self.operator,
            str(sorted(self.attributes.items(), key=lambda item: item[0])),
            arrays,
            self.outputs,
        )


@cache
def onnx_cases() -> tuple[Case, ...]:
    """ONNX's conformance cases of one operator that is supported, one of each form."""
    found: dict[tuple[Any, ...], Case] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in all_cases():
            if (
                len(case.model.graph.node) != 1
                or "_expanded" in case.name
                or case.model.graph.node[0].op_type in _FUNCTIONS
            ):
                continue
            try:
                graph = load_onnx(case.model, fold=False, opset=default_opset())
            except (UnsupportedOperatorError, UnsupportedTypeError):
                continue
            nodes = graph.topological()
            if len(nodes) != 1 or any(isinstance(value, Graph) for value in nodes[0].attributes.values()):
                continue
            given = {
                tensor: case_array(item)
                for tensor, item in zip(graph.inputs, case.data_sets[0][0], strict=False)
            }
            made = _case(case.name.removeprefix("test_"), nodes[0], given)
            found.setdefault(made.form, made)
    return tuple(found.values())


# expanded, or made of subgraphs
_FUNCTIONS = (
    "Attention",
    "FlexAttention",
    "CausalConvWithState",
    "If",
    "Loop",
    "Scan",
)


def _case(name: str, node: Node, given: Mapping[Tensor, Array]) -> Case:
    def array(tensor: Tensor | None) -> Array | None:
        if tensor is None:
            return None
        return np.asarray(given[tensor]) if tensor in given else tensor.constant.array()  # type: ignore[union-attr]

    return Case(
        name,
        node.op_type,
        tuple(map(array, node.inputs)),
        len(node.outputs),
        node.domain,
        dict(node.attributes),
    )


@cache
def all_operator_cases() -> tuple[Case, ...]:
    """ONNX's and our own."""
    from tests.support.own_cases import edge_cases, own_cases

    return own_cases() + onnx_cases() + edge_cases()


def initials() -> list[str]:
    """First letters of all operators: laws and tables are cut by them, so that a test of a few operators is
    quick.
    """
    return sorted({item.name[0].upper() for item in default_opset()})


@cache
def cases_of(initial: str) -> tuple[Case, ...]:
    """All cases of operators with this first letter."""
    return tuple(case for case in all_operator_cases() if case.op_type[0].upper() == initial)


@cache
def few_cases_of(initial: str, most: int = 4) -> tuple[Case, ...]:
    """`few_cases` of operators with this first letter."""
    return tuple(case for case in few_cases(most) if case.op_type[0].upper() == initial)


@cache
def few_cases(most: int = 4) -> tuple[Case, ...]:
    """Up to so many cases of every operator, evenly spread over all of its."""
    by_operator: dict[str, list[Case]] = {}
    for case in all_operator_cases():
        by_operator.setdefault(case.operator, []).append(case)
    return tuple(case for cases in by_operator.values() for case in cases[:: -(-len(cases) // most)])


def build(
    case: Case, known: Iterable[int] | None = None, shapes: Mapping[int, Shape | None] | None = None
) -> Node:
    """A node of a case with inferred outputs.

    Args:
        case: The operator and its inputs.
        known: Ports whose values are constants; None: all of them.
        shapes: Shapes (with symbols or unknown dimensions) that inputs have instead of those of their arrays;
            those are no constants.
    """
    graph, tensors = Graph(), []
    for port, array in enumerate(case.inputs):
        name = f"in{port}"
        if array is None:
            tensors.append(None)
        elif (known is None or port in known) and port not in (shapes or {}):
            tensors.append(graph.add_constant(name, array))
        else:
            tensors.append(graph.add_input(name, DType.of(array.dtype), array.shape))
            if shapes is not None and port in shapes:
                tensors[-1].shape = shapes[port]
    names = [f"out{number}" for number in range(case.outputs)]
    node = graph.add_node(case.op_type, tensors, names, domain=case.domain, **case.attributes)
    for tensor in node.outputs:
        graph.outputs.append(tensor)
    if case.operator == "ascend::Aipp":
        node.output.origin_dtype = node.output.dtype = DType.FLOAT16
    default_opset().get(node).infer(InferContext(node))
    return node


@cache
def ports_of_values(case: Case) -> tuple[int, ...]:
    """Input ports whose values decide the shape of a result."""
    node = build(case)
    context = InferContext(node)
    default_opset().get(node).infer(context)
    return tuple(
        sorted(port for port in context.asked if port < len(case.inputs) and case.inputs[port] is not None)
    )


def computed(case: Case) -> list[Array]:
    """The results of a case in the model's own types."""
    return compute(build(case), case.inputs)


def compute(node: Node, inputs: Sequence[Array | None]) -> list[Array]:
    """The results of a node on arrays, in the types that its outputs have in the user's model."""
    wanted = [(tensor.origin_dtype or tensor.element_type).numpy for tensor in node.outputs]
    with np.errstate(all="ignore"):
        return [np.asarray(array) for array in default_opset().get(node).compute(node, inputs, wanted)]


def settled(case: Case, known: Iterable[int] | None = None) -> Node:
    """As `build`, with the output shapes that the values have where the shape rule cannot tell (as the
    runtime does it)."""
    node = build(case, known)
    if not all(tensor.is_static for tensor in node.outputs):
        for tensor, array in zip(node.outputs, computed(case), strict=True):
            tensor.shape = array.shape
    return node


def as_type(node: Node, dtype: DType) -> bool:
    """Gives float32 tensors of a node another type on the device; whether there are any."""
    singles = [
        tensor
        for tensor in (*node.inputs, *node.outputs)
        if tensor is not None and tensor.dtype is DType.FLOAT32
    ]
    for tensor in singles:
        tensor.dtype = dtype
    return bool(singles)


def blocked(case: Case) -> Node | None:
    """A node of a case in float16 and in the blocked format that the layout pass would choose for it; None if
    it stays row-major."""
    first = case.inputs[0] if case.inputs else None
    if first is None:
        return None
    data = {
        port
        for port, array in enumerate(case.inputs)
        if array is not None and (port == 0 or array.shape == first.shape)
    }
    node = settled(case, [port for port in range(len(case.inputs)) if port not in data])
    as_type(node, DType.FLOAT16)
    definition = default_opset().get(node)
    ends = [*(tensor for port, tensor in enumerate(node.inputs) if port in data), *node.outputs]
    for format in (Format.NC1HWC0, Format.FRACTAL_NZ):
        if definition.layout is Layout.FOLLOW:
            taken = format if follows_in(node, definition, format) else None
        else:
            taken = wished(node, definition, 0, Format.FRACTAL_NZ)
        if taken is not format:
            continue
        for port, tensor in enumerate(node.inputs):
            if tensor is not None and tensor.is_constant:
                tensor.format = weight_format(node, definition, port, Format.FRACTAL_NZ)
        for tensor in ends:
            if tensor is not None and storable(tensor, format):
                tensor.format = format
        return node
    return None


@cache
def context_of(chip: str) -> LowerContext:
    """What operators may ask of a chip."""
    soc = load(chip)
    return LowerContext.of(soc)


def work_of(node: Node, chip: str) -> Work | None:
    """The work of a node on a chip; None where the operator has no rule of its own."""
    lower = default_opset().get(node).lower
    if lower is None:
        return None
    work = lower(node, context_of(chip))
    assert isinstance(work, get_args(Work)), f"{node.op_type} gives {work}"
    return work
