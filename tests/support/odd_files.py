"""ONNX files that are wrong, or odd, in a place or two: a structured fuzzer.

Seeds are the cases of ONNX's backend suite whose operators are supported and whose tensors are small, so
every operator with a case is among them. A file is a seed with one to three changes: element types, ranks,
empty and open dimensions, missing and further inputs, outputs that are left out, attributes out of range or
of another type, odd values, initialisers instead of inputs, other operator sets, operators before and
behind. Number and seed give the same file everywhere.
"""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper
from onnx.backend.test.case.test_case import TestCase

import ascendsim as asim
from tests.support.node_suite import all_cases, case_array, operators_of

Array = Any
MOST_ELEMENTS = 2000  # of all inputs of a seed
TYPES = ("float32", "float16", "float64", "int64", "int32", "int8", "uint8", "uint16", "bool")
# that onnxruntime takes
NEWEST_IR, NEWEST_OPSET = 10, 26
INTEGERS = (-1, 0, 1, 2, 3, 7, -2, -7, 99, 1 << 31, -(1 << 31), (1 << 63) - 1, -(1 << 63))
FLOATS = (0.0, -1.0, 1.0, 0.5, 1e30, float("inf"), float("-inf"), float("nan"))
OPSETS = (7, 9, 10, 11, 12, 13, 14, 16, 17, 18, 20, 21, 23)


@dataclass(eq=False)
class OddFile:
    """A model with arrays for its inputs.

    Attributes:
        name: Seed, and what was changed.
        model: The file.
        inputs: Arrays by the name of an input.
        place: Of the operator that the file is about, among the nodes.
    """

    name: str
    model: onnx.ModelProto
    inputs: dict[str, Array]
    place: int = 0

    @property
    def node(self) -> onnx.NodeProto:
        """The operator that the file is about."""
        return self.model.graph.node[self.place]


@cache
def seeds() -> dict[str, tuple[TestCase, ...]]:
    """Cases of one operator with small dense arrays, by operator."""
    found: dict[str, list[TestCase]] = {}
    for case in all_cases():
        operators = operators_of(case.model)
        dense = case.data_sets and not any(isinstance(item, list) for item in case.data_sets[0][0])
        if len(operators) != 1 or not dense or "_expanded" in case.name:
            continue
        shapes = [getattr(item, "dims", np.shape(item)) for item in case.data_sets[0][0]]
        if sum(map(math.prod, shapes)) <= MOST_ELEMENTS:
            found.setdefault(operators[0], []).append(case)
    return {name: tuple(items) for name, items in sorted(found.items())}


@cache
def loads(name: str) -> bool:
    """Whether a case of this name is one of a supported operator and of supported types."""
    case = next(case for case in all_cases() if case.name == name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            asim.load(case.model)
    except asim.AscendSimError:
        return False
    return True


def odd_file(number: int, seed: int = 0) -> OddFile:
    """The file of a number; operators take turns."""
    rng = random.Random(f"{seed}/{number}")
    case = _seed(rng, number)
    arrays = [case_array(item) for item in case.data_sets[0][0]]
    names = [value.name for value in case.model.graph.input]
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    model.ir_version = min(model.ir_version, NEWEST_IR)
    for item in model.opset_import:
        if not item.domain:
            item.version = min(item.version, NEWEST_OPSET)
    made = OddFile(case.name.removeprefix("test_"), model, dict(zip(names, arrays, strict=False)))
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3))):
        change = rng.choice(CHANGES)
        change(made, rng)
        made.name += f", {change.__name__}"
    return made


def _seed(rng: random.Random, number: int) -> TestCase:
    operators = list(seeds())
    while True:
        cases = list(seeds()[operators[number % len(operators)]])
        rng.shuffle(cases)
        for case in cases:
            if loads(case.name):
                return case
        number += 1  # no case of this operator is supported


# ---- changes of inputs


def _some_input(file: OddFile, rng: random.Random) -> str | None:
    return rng.choice(sorted(file.inputs)) if file.inputs else None


def _replace(file: OddFile, name: str, array: Array) -> None:
    """Gives an input (or initialiser) other values, and the file its new type and shape."""
    file.inputs[name] = array
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    for value in file.model.graph.input:
        if value.name == name:
            value.CopyFrom(helper.make_tensor_value_info(name, kind, array.shape))


def _cast(array: Array, kind: str) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(array).astype(kind)


def other_type(file: OddFile, rng: random.Random) -> None:
    """One input has another element type; the outputs are not declared."""
    name = _some_input(file, rng)
    if name is not None:
        _replace(file, name, _cast(file.inputs[name], rng.choice(TYPES)))
        _undeclare(file)


def one_type(file: OddFile, rng: random.Random) -> None:
    """All inputs of the first one's type have another type together."""
    name = _some_input(file, rng)
    if name is not None:
        old, kind = file.inputs[name].dtype, rng.choice(TYPES)
        for other in list(file.inputs):
            if file.inputs[other].dtype == old:
                _replace(file, other, _cast(file.inputs[other], kind))
        _undeclare(file)


def other_rank(file: OddFile, rng: random.Random) -> None:
    """One input has an axis more or less, or is a scalar."""
    name = _some_input(file, rng)
    if name is None:
        return
    array = file.inputs[name]
    forms = [array[None], array[..., None], array.reshape(-1)]
    if array.ndim:
        forms += [array[0] if len(array) else array, array.reshape(-1)[:1].reshape(())] if array.size else []
    _replace(file, name, np.asarray(rng.choice(forms)))
    _undeclare(file)


def empty_axis(file: OddFile, rng: random.Random) -> None:
    """Nothing along one axis, of one input or of all whose axis is as long."""
    name = _some_input(file, rng)
    if name is None or not file.inputs[name].ndim:
        return
    axis = rng.randrange(file.inputs[name].ndim)
    size = file.inputs[name].shape[axis]
    together = rng.random() < 0.5
    for other in list(file.inputs):
        array = file.inputs[other]
        if other == name or (together and array.ndim > axis and array.shape[axis] == size):
            _replace(file, other, np.take(array, [], axis))
    _undeclare(file)


def other_size(file: OddFile, rng: random.Random) -> None:
    """One axis of one input is longer, shorter or 1."""
    name = _some_input(file, rng)
    if name is None or not file.inputs[name].ndim:
        return
    array = file.inputs[name]
    axis = rng.randrange(array.ndim)
    shape = list(array.shape)
    shape[axis] = rng.choice((1, 2, shape[axis] + 1, max(0, shape[axis] - 1), 2 * shape[axis]))
    _replace(file, name, np.resize(array, shape))
    _undeclare(file)


def odd_values(file: OddFile, rng: random.Random) -> None:
    """Some values of one input are zero, negative, huge, infinite or no numbers."""
    name = _some_input(file, rng)
    if name is None or not file.inputs[name].size or file.inputs[name].dtype.kind not in "fiu":
        return
    array = np.array(file.inputs[name])
    value: Any
    if array.dtype.kind == "f":
        value = rng.choice(FLOATS)
    else:
        limits = np.iinfo(array.dtype)
        value = min(max(rng.choice(INTEGERS), limits.min), limits.max)
    with np.errstate(all="ignore"):
        array.reshape(-1)[rng.randrange(array.size)] = value
    _replace(file, name, array)


def as_initializer(file: OddFile, rng: random.Random) -> None:
    """One input becomes a constant of the file."""
    name = _some_input(file, rng)
    if name is None or file.inputs[name].dtype.kind == "O":
        return
    graph = file.model.graph
    graph.initializer.append(numpy_helper.from_array(np.array(file.inputs.pop(name)), name))
    if rng.random() < 0.8:  # else a weight that older files list as an input too
        kept = [value for value in graph.input if value.name != name]
        del graph.input[:]
        graph.input.extend(kept)


def open_axis(file: OddFile, rng: random.Random) -> None:
    """One dimension of an input, or all of them, has a name for a size."""
    name = _some_input(file, rng)
    for value in file.model.graph.input:
        dims = value.type.tensor_type.shape.dim
        if value.name == name and dims:
            for place in range(len(dims)) if rng.random() < 0.5 else [rng.randrange(len(dims))]:
                dims[place].dim_param = f"n{place}"
            _undeclare(file)


def no_input(file: OddFile, rng: random.Random) -> None:
    """An input of the operator is left out."""
    node = file.node
    if node.input:
        place = rng.randrange(len(node.input))
        if place == len(node.input) - 1:
            del node.input[place]
        else:
            node.input[place] = ""
        _undeclare(file)


def more_inputs(file: OddFile, rng: random.Random) -> None:
    """An input of the operator once more at its end, or in place of another."""
    node = file.node
    names = [name for name in node.input if name]
    if names and rng.random() < 0.5:
        node.input.append(rng.choice(names))
    elif names:
        node.input[rng.randrange(len(node.input))] = rng.choice(names)
    _undeclare(file)


# ---- changes of outputs


def _undeclare(file: OddFile) -> None:
    """Leaves types and shapes of outputs open, as they may be others now."""
    for value in file.model.graph.output:
        value.ClearField("type")
    del file.model.graph.value_info[:]


def fewer_outputs(file: OddFile, rng: random.Random) -> None:
    """An output of the operator is left out, or not made."""
    node, graph = file.node, file.model.graph
    if len(node.output) < 2:
        return
    place = rng.randrange(len(node.output))
    name = node.output[place]
    kept = [value for value in graph.output if value.name != name]
    if not kept:
        return
    node.output[place] = ""
    if place == len(node.output) - 1 and rng.random() < 0.5:
        del node.output[place]
    del graph.output[:]
    graph.output.extend(kept)


def more_outputs(file: OddFile, rng: random.Random) -> None:
    """One more output than there was, nameless or wanted."""
    if rng.random() < 0.5:
        file.node.output.append("")
        return
    file.node.output.append("more")
    file.model.graph.output.append(onnx.ValueInfoProto(name="more"))


# ---- changes of attributes


def _attribute(file: OddFile, rng: random.Random) -> AttributeProto | None:
    """One of the node's attributes, or one that its schema has besides."""
    node = file.node
    own = [item for item in node.attribute if item.type not in (AttributeProto.GRAPH, AttributeProto.GRAPHS)]
    if own and rng.random() < 0.6:
        return rng.choice(own)
    try:
        schema = onnx.defs.get_schema(node.op_type, domain=node.domain)
    except onnx.defs.SchemaError:
        return None
    kinds = {1: 1.0, 2: 0, 3: "", 6: [1.0], 7: [0]}
    absent = sorted(
        name
        for name, item in schema.attributes.items()
        if int(item.type) in kinds and all(name != other.name for other in own)
    )
    if not absent:
        return rng.choice(own) if own else None
    name = rng.choice(absent)
    node.attribute.append(helper.make_attribute(name, kinds[int(schema.attributes[name].type)]))
    return node.attribute[-1]


def other_attribute(file: OddFile, rng: random.Random) -> None:
    """An attribute has a value out of range, or another length."""
    item = _attribute(file, rng)
    if item is None:
        return
    if item.type == AttributeProto.INT:
        item.i = rng.choice(INTEGERS)
    elif item.type == AttributeProto.FLOAT:
        item.f = rng.choice(FLOATS)
    elif item.type == AttributeProto.STRING:
        item.s = rng.choice((b"", b"nonsense", item.s.upper(), b"\xff"))
    elif item.type == AttributeProto.INTS:
        _list(item.ints, rng, INTEGERS)
    elif item.type == AttributeProto.FLOATS:
        _list(item.floats, rng, FLOATS)


def _list(held: Any, rng: random.Random, values: tuple[Any, ...]) -> None:
    choice = rng.randrange(4)
    if choice == 0 and held:
        del held[-1]
    elif choice == 1:
        held.append(rng.choice(values))
    elif choice == 2:
        del held[:]
    elif held:
        held[rng.randrange(len(held))] = rng.choice(values)


def attribute_kind(file: OddFile, rng: random.Random) -> None:
    """An attribute has another type."""
    item = _attribute(file, rng)
    if item is not None:
        item.CopyFrom(helper.make_attribute(item.name, rng.choice((1, 1.5, "text", [1], [0.5], ["a"]))))


def no_attribute(file: OddFile, rng: random.Random) -> None:
    """An attribute is gone."""
    if file.node.attribute:
        del file.node.attribute[rng.randrange(len(file.node.attribute))]


def unknown_attribute(file: OddFile, rng: random.Random) -> None:
    """An attribute that the operator does not have."""
    file.node.attribute.append(helper.make_attribute(rng.choice(("axis", "axes", "odd", "mode")), 1))


# ---- changes of the graph


def other_opset(file: OddFile, rng: random.Random) -> None:
    """Another version of the operator set."""
    for item in file.model.opset_import:
        if item.domain == "":
            item.version = rng.choice(OPSETS)


def behind(file: OddFile, rng: random.Random) -> None:
    """An operator that works on an output."""
    graph = file.model.graph
    value = graph.output[rng.randrange(len(graph.output))]
    op_type = rng.choice(("Relu", "Identity", "Neg", "Shape", "Add", "Mul", "Cast", "Flatten"))
    inputs = [value.name] * (1 + (op_type in ("Add", "Mul")))
    extra = {"to": TensorProto.FLOAT} if op_type == "Cast" else {}
    graph.node.append(helper.make_node(op_type, inputs, ["behind"], **extra))
    graph.output.append(onnx.ValueInfoProto(name="behind"))
    _undeclare(file)


def in_front(file: OddFile, rng: random.Random) -> None:
    """An operator between an input and the node: its values are no constants then."""
    name = _some_input(file, rng)
    places = [place for place, item in enumerate(file.node.input) if item == name]
    if not places:
        return
    made = helper.make_node(rng.choice(("Identity", "Neg", "Abs")), [name], [f"{name}_made"])
    file.node.input[rng.choice(places)] = made.output[0]
    nodes = [made, *file.model.graph.node]
    del file.model.graph.node[:]
    file.model.graph.node.extend(nodes)
    file.place += 1


CHANGES: tuple[Callable[[OddFile, random.Random], None], ...] = (
    other_type, other_type, one_type, other_rank, other_rank, empty_axis, empty_axis, other_size, other_size,
    odd_values, odd_values, as_initializer, open_axis, no_input, no_input, more_inputs, fewer_outputs,
    more_outputs, other_attribute, other_attribute, other_attribute, attribute_kind, no_attribute,
    unknown_attribute, other_opset, behind, in_front,
)  # fmt: skip
