"""Writes the ONNX model of a MindIR graph, node by node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx
from onnx import TensorProto, helper

from ascendsim.core.errors import InputError, UnsupportedOperatorError
from ascendsim.frontends.mindir.values import Dims, Ref, array, decoded, form, result_form

OPSET = 21
_REFERENCE = "REF::"  # in front of the name of a primitive, or of a closure that is called
_CALL = "call"  # of a sub-graph
_CONTROL = (_CALL, "Switch", "SwitchLayer", "Partial", "If", "While", "Scan", "ForiLoop")
# what orders side effects, or packs values; nothing of it is computed
_TUPLES, _ITEMS, _FIRST, _NOTHING = (
    ("MakeTuple", "MakeList"),
    ("TupleGetItem", "ListGetItem"),
    ("Load", "Depend"),
    ("UpdateState",),
)
_STRUCTURE = (*_TUPLES, *_ITEMS, *_FIRST, *_NOTHING, "Constant")


class Call:
    """A node that computes something, and what the functions that write it need.

    Attributes:
        kind: MindSpore's name of the primitive.
        name: Of the node in the ONNX model.
        inputs: Tensors, constants or tuples of them.
        result: The forms of what it makes.
    """

    def __init__(
        self, writer: Writer, kind: str, name: str, inputs: Sequence[Any], attributes: Mapping[str, Any]
    ) -> None:
        self._writer, self._attributes = writer, attributes
        self.kind, self.name, self.inputs = kind, name, inputs
        self.result: Any = None

    def wrong(self, rule: str, value: Any = None) -> InputError:
        """An error of this node."""
        return InputError(f"node {self.name!r} ({self.kind})", rule, value)

    # constants: newer files have them as inputs, older ones as attributes of the primitive

    def value(self, port: int, name: str, default: Any = None) -> Any:
        """A constant by its place among the inputs, else by its name."""
        if 0 <= port < len(self.inputs):
            held = self.inputs[port]
            if isinstance(held, Ref):
                raise self.wrong(f"needs a constant as {name}", held.name)
            return held
        return self._attributes.get(name, default)

    def integers(self, port: int, name: str, default: Any = None) -> Dims:
        """A constant that is an integer or a tuple of them."""
        found = self.value(port, name, default)
        found = found if isinstance(found, tuple) else (found,)
        if not all(isinstance(item, int) for item in found):
            raise self.wrong(f"needs integers as {name}", str(found))
        return tuple(int(item) for item in found)

    def integer(self, port: int, name: str, default: Any = None) -> int:
        """A constant that is one integer, or a tuple of one."""
        found = self.integers(port, name, default)
        if len(found) != 1:
            raise self.wrong(f"needs one integer as {name}", list(found))
        return found[0]

    def number(self, port: int, name: str, default: Any = None) -> float:
        """A constant that is a number."""
        found = self.value(port, name, default)
        if not isinstance(found, (int, float)):
            raise self.wrong(f"needs a number as {name}", str(found))
        return float(found)

    # tensors

    def ref(self, port: int) -> Ref:
        """The tensor at an input."""
        found = self.inputs[port] if port < len(self.inputs) else None
        if not isinstance(found, Ref):
            raise self.wrong(f"needs a tensor as input {port}")
        return found

    def refs(self, port: int) -> list[Ref]:
        """The tensors of a tuple at an input."""
        found = self.inputs[port] if port < len(self.inputs) else None
        if not isinstance(found, tuple) or not found or not all(isinstance(item, Ref) for item in found):
            raise self.wrong(f"needs tensors as input {port}")
        return list(found)

    def tensor(self, port: int, dtype: int | None = None) -> str:
        """The name of a tensor at an input, in a type if one is given; numbers become constants."""
        found = self.inputs[port] if port < len(self.inputs) else None
        if isinstance(found, (int, float)):
            return self.scalar(found, dtype or TensorProto.FLOAT)
        ref = self.ref(port)
        if dtype in (None, ref.dtype):
            return ref.name
        return self.step("Cast", [ref.name], to=dtype)

    def scalar(self, value: float, dtype: int) -> str:
        """A constant of the conversion without dimensions."""
        name = self._writer.unique(f"{self.name}.c")
        try:
            held = helper.make_tensor(name, dtype, (), [value if dtype in _FLOATS else int(value)])
        except (OverflowError, ValueError):
            raise self.wrong("has a number that its type cannot hold", value) from None
        return self._writer.hold(held)

    def list(self, values: Sequence[int]) -> str:
        """A constant of the conversion: shapes, axes."""
        name = self._writer.unique(f"{self.name}.c")
        return self._writer.hold(helper.make_tensor(name, TensorProto.INT64, (len(values),), list(values)))

    @property
    def form(self) -> Ref:
        """The form of its (first) tensor."""
        first = self.result[0] if isinstance(self.result, tuple) and self.result else self.result
        if not isinstance(first, Ref):
            raise self.wrong("does not say what it makes")
        return first

    def step(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Adds an operator on the way; returns the name of its result."""
        name = self._writer.unique(f"{self.name}_{kind}")
        return self._writer.add(kind, inputs, name, (name,), attributes)[0]

    def emit(self, kind: str, inputs: Sequence[str], **attributes: Any) -> Ref:
        """Adds the operator that makes the node's (first) tensor."""
        (made,) = self._writer.add(kind, inputs, self.name, (self.name,), attributes)
        return Ref(made, self.form.dims, self.form.dtype)

    def emit_many(self, kind: str, inputs: Sequence[str], **attributes: Any) -> tuple[Ref, ...]:
        """Adds an operator that makes all of the node's tensors."""
        if not isinstance(self.result, tuple) or not all(isinstance(item, Ref) for item in self.result):
            raise self.wrong("does not say what it makes")
        names = [self._writer.unique(f"{self.name}:{number}") for number in range(len(self.result))]
        self._writer.add(kind, inputs, self.name, names, attributes)
        return tuple(Ref(name, ref.dims, ref.dtype) for name, ref in zip(names, self.result, strict=True))


WriteCall = Callable[[Call], Any]
_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16)


class Writer:
    """One network on its way.

    Args:
        model: The parsed file.
        subject: What messages call it.
        kinds: Who writes a primitive, by its name.
    """

    def __init__(self, model: Any, subject: str, kinds: Mapping[str, WriteCall]) -> None:
        self.proto, self.subject, self.kinds = model.graph, subject, kinds
        self.primitives = {item.name: item for item in model.primitives}
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.values: dict[str, Any] = {}  # by MindIR's names
        self.names: set[str] = set()
        self._ends: set[str] = set()  # names of outputs

    def model(self) -> onnx.ModelProto:
        """The network as an ONNX model.

        Raises:
            InputError: If a node breaks a rule.
            UnsupportedOperatorError: If primitives are not known.
        """
        graph = self.proto
        self._refuse_control_flow()
        missing = [
            (f"mindspore::{kind}", node.domain or node.name)
            for node in graph.node
            if (kind := self._kind(node)) not in self.kinds and kind not in _STRUCTURE
        ]
        if missing:
            raise UnsupportedOperatorError(missing)
        inputs = [self._input(value) for value in graph.input]
        for proto in graph.parameter:
            name = self.unique(proto.ref_key or _short(proto.name))
            held = array(proto, name, f"{self.subject}: parameter {name!r}")
            self.hold(held)
            self.values[proto.name] = Ref(name, tuple(held.dims), held.data_type)
        for node in graph.node:
            self._node(node)
        outputs = [self._output(ref) for value in graph.output for ref in self._tensors(value.name)]
        if not outputs:
            raise InputError(self.subject, "computes nothing", remedy="give a network with an output")
        made = helper.make_graph(self.nodes, _short(graph.name) or "mindir", inputs, outputs, self.constants)
        imports = [helper.make_opsetid("", OPSET)]
        return helper.make_model(made, opset_imports=imports, producer_name="mindspore", ir_version=10)

    def _refuse_control_flow(self) -> None:
        for node in self.proto.node:
            kind = self._kind(node)
            if kind in _CONTROL:
                raise InputError(
                    f"node {_cell(node)!r} ({kind})",
                    "is control flow (if, while, or a call of a sub-graph), which is not read from MindIR",
                    remedy='export the part that runs by itself, or the network with file_format="ONNX"',
                )

    # what calls write with

    def unique(self, wanted: str) -> str:
        """A name that is still free."""
        name, number = wanted, 1
        while name in self.names:
            name, number = f"{wanted}_{number}", number + 1
        self.names.add(name)
        return name

    def hold(self, proto: onnx.TensorProto) -> str:
        """Adds a constant."""
        self.constants.append(proto)
        return proto.name

    def add(
        self, kind: str, inputs: Sequence[str], name: str, outputs: Sequence[str], more: Mapping[str, Any]
    ) -> list[str]:
        """Adds a node."""
        self.nodes.append(helper.make_node(kind, list(inputs), list(outputs), name=name, **more))
        return list(outputs)

    def _kind(self, node: Any) -> str:
        if not node.op_type.startswith(_REFERENCE):
            return str(node.op_type)
        primitive = self.primitives.get(node.op_type.removeprefix(_REFERENCE))
        return primitive.op_type if primitive is not None else _CALL

    def _input(self, value: Any) -> onnx.ValueInfoProto:
        name = self.unique(_short(value.name))
        subject = f"{self.subject}: input {name!r}"
        if len(value.tensor) != 1 or value.HasField("attr_info"):
            raise InputError(subject, "must be a tensor", remedy="export the network with tensors as inputs")
        ref = form(value.tensor[0], name, subject)
        self.values[value.name] = ref
        if -2 in ref.dims:
            raise InputError(subject, "has an open rank", remedy="export the network with its ranks")
        return helper.make_tensor_value_info(name, ref.dtype, [d if d >= 0 else None for d in ref.dims])

    def _node(self, node: Any) -> None:
        kind, name = self._kind(node), _cell(node)
        subject = f"node {name!r} ({kind})"
        if len(node.output) != 1:
            raise InputError(subject, "must have one output", len(node.output))
        missing = [source for source in node.input if source not in self.values]
        if missing:
            raise InputError(subject, "reads what no node before it makes", missing[0])
        inputs = [self.values[source] for source in node.input]
        self.values[node.output[0]] = self._made(node, kind, name, inputs)

    def _made(self, node: Any, kind: str, name: str, inputs: list[Any]) -> Any:
        if kind == "Constant":
            return self._constant(node)
        if kind in _TUPLES:
            return tuple(inputs)
        if kind in _FIRST:
            return inputs[0] if inputs else None
        if kind in _NOTHING:
            return None
        if kind in _ITEMS:
            held, place = inputs if len(inputs) == 2 else (None, None)
            if not isinstance(held, tuple) or not isinstance(place, int) or not 0 <= place < len(held):
                raise InputError(f"node {name!r} ({kind})", "reads an item that nothing makes", str(place))
            return held[place]
        primitive = self.primitives.get(node.op_type.removeprefix(_REFERENCE))
        own = (*(primitive.attribute if primitive is not None else ()), *node.attribute)
        attributes = {item.name: decoded(item, name) for item in own if item.name != "shape"}
        call = Call(self, kind, self.unique(name), inputs, attributes)
        for item in node.attribute:
            if item.name == "shape":
                call.result = result_form(item, f"node {name!r} ({kind})")
        return self.kinds[kind](call)

    def _constant(self, node: Any) -> Any:
        name = node.output[0]
        held = [item for item in node.attribute if item.name == "value"]
        if len(held) != 1:
            remedy = "export it again with MindSpore 2"
            raise InputError(f"constant {name!r}", "has no value, or one of an older form", remedy=remedy)
        value = decoded(held[0], f"constant {name!r}")
        if not isinstance(value, onnx.TensorProto):
            return value
        value.name = self.unique(_short(name))
        self.hold(value)
        return Ref(value.name, tuple(value.dims), value.data_type)

    def _tensors(self, name: str) -> list[Ref]:
        """The tensors of an output, which may be a tuple of tuples."""
        waiting, found = [self.values.get(name)], []
        while waiting:
            value = waiting.pop(0)
            if isinstance(value, tuple):
                waiting[:0] = value
            elif isinstance(value, Ref):
                found.append(value)
            else:
                raise InputError(self.subject, "has an output that is no tensor", _short(name))
        return found

    def _output(self, ref: Ref) -> onnx.ValueInfoProto:
        """An output of the model; what is an input, a constant or another output too gets its own name."""
        name = ref.name
        if name in self._ends or not any(name in node.output for node in self.nodes):
            name = self.unique(f"{name}_output")
            self.add("Identity", [ref.name], name, (name,), {})
        self._ends.add(name)
        return helper.make_tensor_value_info(name, ref.dtype, [d if d >= 0 else None for d in ref.dims])


def _short(name: str) -> str:
    """A name without the graph in front of it, unless nothing is left then.

    >>> [_short(name) for name in ("graph:x", "x", "x:")]
    ['x', 'x', 'x:']
    """
    return name.rpartition(":")[2] or name


def _cell(node: Any) -> str:
    """The cell that a node is from, as MindSpore's profiler names it, else the name of its value."""
    return str(node.domain.removeprefix("Default/") or node.name)
