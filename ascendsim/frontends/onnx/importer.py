"""From a model proto to a graph in the newest operator forms, types and shapes inferred node by node on the
way.

Values are looked up through frames (a graph, a subgraph, or the body of a function), so that functions are
inlined by importing their body with other names. Nothing is folded for good here: known values stay aside
until `Inference.finish`, so that other input shapes can still be tried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError, UnsupportedTypeError
from ascendsim.frontends.onnx.amct import deployed, is_deployed
from ascendsim.frontends.onnx.attributes import read_attribute, with_values
from ascendsim.frontends.onnx.bodies import body_attributes, call_attributes, schema_body
from ascendsim.frontends.onnx.counting import nodes_after_inlining
from ascendsim.frontends.onnx.four_bits import narrow
from ascendsim.frontends.onnx.frames import Frame, constant_array, standard_domain, visible_names, without
from ascendsim.frontends.onnx.microsoft import translated
from ascendsim.frontends.onnx.order import execution_order
from ascendsim.frontends.onnx.schemas import held
from ascendsim.frontends.onnx.tensors import Absent, ExternalFiles, read_tensor
from ascendsim.frontends.onnx.types import value_type
from ascendsim.frontends.onnx.upgrade import Draft, upgrade
from ascendsim.graph.ir import Array, AttributeValue, Constant, Graph, Node, Shape, Tensor
from ascendsim.opset import OpSet
from ascendsim.passes.infer import Inference

MAX_NESTING = 32  # functions in functions, subgraphs in subgraphs
MAX_NODES = 1_000_000  # after inlining: small files can describe huge graphs by functions that call functions
_NAME_SCOPES = "pkg.torch.onnx.name_scopes"  # in a node's metadata: modules of the PyTorch program around it


class Importer:
    """Imports one model.

    Args:
        model: The proto; tensors stay in it until they are asked for.
        versions: Operator set versions by domain.
        opset: Decides what is expanded into a body, and infers shapes.
        folder: Of the model's file.
        absent: Makes constants for tensors whose file is missing.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        versions: Mapping[str, int],
        opset: OpSet,
        folder: Path | None,
        absent: Absent,
    ) -> None:
        self._model, self._versions, self._opset, self._files, self._absent = (
            model,
            versions,
            opset,
            None if folder is None else ExternalFiles(folder),
            absent,
        )
        self._functions = {
            (standard_domain(item.domain), item.name, item.overload): item for item in model.functions
        }
        self._deployed = any(is_deployed(node) for node in model.graph.node)
        self._inference = Inference(opset)
        self._reserved: set[str] = set()
        self._nodes = 0
        self._scopes: dict[str, str] = {}  # modules around nodes, as torch.onnx writes them

    def run(self) -> Graph:
        """Imports the model's graph. The result is raw: call `Inference.finish` on it."""
        proto = self._model.graph
        graph = Graph(proto.name or "graph")
        self._bounded(nodes_after_inlining(proto.node, self._functions))
        self._reserve(proto)
        self._graph(proto, Frame(graph, self._versions), f"graph {graph.name!r}")
        return graph

    def _reserve(self, proto: onnx.GraphProto) -> None:
        """Keeps made-up names off the names of the file."""
        self._reserved.update(name for node in proto.node for name in node.output)
        self._reserved.update(value.name for value in proto.input)
        self._reserved.update(tensor.name for tensor in proto.initializer)

    # graphs

    def _graph(self, proto: onnx.GraphProto, frame: Frame, subject: str) -> None:
        if frame.depth > MAX_NESTING:
            raise GraphError(
                subject, f"must not nest deeper than {MAX_NESTING} graphs", remedy="flatten the model"
            )
        if proto.sparse_initializer:
            name = proto.sparse_initializer[0].values.name
            raise UnsupportedTypeError(f"tensor {name!r}", "is sparse", remedy="store it as a dense tensor")
        frame.declared.update((value.name, value) for value in [*proto.value_info, *proto.output])
        for tensor in proto.initializer:
            self._define(
                frame, tensor.name, self._constant(tensor, self._unique(frame, tensor.name)), subject
            )
        constants = {tensor.name for tensor in proto.initializer}
        for value in proto.input:
            if value.name in constants:
                continue  # a weight that older files list as an input too
            dtype, shape = value_type(value, f"input {value.name!r}")
            if dtype is None and frame.outer is None:
                raise GraphError(
                    f"input {value.name!r}", "has no element type", remedy="export the model again"
                )
            tensor_ = Tensor(self._unique(frame, value.name), dtype, shape)
            self._define(frame, value.name, tensor_, subject)
            frame.graph.inputs.append(tensor_)
        self._body(execution_order(proto.node, subject), frame)
        for value in proto.output:
            frame.graph.outputs.append(self._output(value.name, frame, subject))

    def _output(self, name: str, frame: Frame, subject: str) -> Tensor:
        tensor = frame.values.get(name)
        if tensor is not None and frame.graph.tensors.get(tensor.name) is tensor:
            return tensor
        outer = frame.find(name)
        if outer is None:
            raise GraphError(
                f"output {name!r} of {subject}",
                "is made by no node",
                remedy="the file is damaged; export it again",
            )
        return self._emit(frame, "Identity", [outer], name)

    def _define(self, frame: Frame, name: str, tensor: Tensor, subject: str) -> None:
        if name in frame.values:
            raise GraphError(
                f"value {name!r} of {subject}",
                "must be defined once",
                remedy="the file is damaged; export it again",
            )
        frame.values[name] = frame.graph.add_tensor(tensor)

    def _constant(self, proto: onnx.TensorProto, name: str) -> Tensor:
        dtype, shape, constant = read_tensor(proto, self._files, self._absent, alone=False)
        return Tensor(name, dtype, shape, constant=constant)

    def _unique(self, frame: Frame, name: str, made_up: bool = False) -> str:
        """A tensor name that this graph and those around it do not have (the wanted one if it is free)."""
        graphs = [frame.graph]
        outer = frame.outer
        while outer is not None:
            graphs.append(outer.graph)
            outer = outer.outer
        stem, number = name, 0
        while any(name in graph.tensors for graph in graphs) or (made_up and name in self._reserved):
            number += 1
            name = f"{stem}_{number}"
        return name

    # nodes

    def _bounded(self, nodes: int) -> None:
        if nodes > MAX_NODES:
            subject, rule = f"model {self._model.graph.name!r}", f"must have at most {MAX_NODES} nodes"
            raise GraphError(subject, f"{rule} after inlining its functions", remedy="leave a part of it out")

    def _body(self, nodes: Sequence[onnx.NodeProto], frame: Frame) -> None:
        for proto in nodes:
            self._node(proto, frame)

    def _node(self, proto: onnx.NodeProto, frame: Frame) -> None:
        self._nodes += 1
        self._bounded(self._nodes)
        domain = standard_domain(proto.domain)
        stem = proto.name or next((name for name in proto.output if name), proto.op_type)
        name = frame.prefix + stem
        subject = f"node {name!r} ({proto.op_type})"
        if not domain and proto.op_type == "Constant":
            self._constant_node(proto, frame, subject)
            return
        inputs = [self._input(item, frame, subject) for item in proto.input]
        while inputs and inputs[-1] is None:
            inputs.pop()
        function = self._functions.get((domain, proto.op_type, proto.overload))
        attributes = [*proto.attribute] if frame.arguments is None else with_values(proto, frame.arguments)
        if function is not None:
            if len(inputs) > len(function.input):
                raise GraphError(
                    subject, f"takes at most the {len(function.input)} of its function as inputs", len(inputs)
                )
            call = {attribute.name: attribute for attribute in attributes}
            self._call(function, call, inputs, list(proto.output), frame=frame, name=name)
            return
        draft = Draft(
            proto.op_type, domain, name, inputs, list(proto.output), {}, frame.versions.get(domain, 1)
        )
        checks = held(draft, attributes, typed=not self._deployed)
        for attribute in attributes:
            if checks is not None and checks.left_out(attribute):
                continue
            value = read_attribute(
                attribute,
                proto,
                subject,
                lambda graph: self._subgraph(graph, frame, subject),
                lambda tensor: self._array(tensor, subject),
            )
            if value is not None:
                draft.attributes[attribute.name] = value
            if checks is not None:
                checks.value(attribute.name, value)
        if not domain:
            upgrade(draft, _Emitter(self, frame))
        deployed(draft)
        translated(draft, _Emitter(self, frame))
        narrow(draft, _Emitter(self, frame))
        for item in proto.metadata_props:
            if item.key == _NAME_SCOPES:
                self._scopes[name] = item.value
        self._place(draft, frame)

    def _place(self, draft: Draft, frame: Frame) -> None:
        """Adds an upgraded node, or the body of its schema if the operator itself is not known."""
        if self._opset.find(draft.op_type, draft.domain) is None and not any(
            isinstance(v, Graph) for v in draft.attributes.values()
        ):
            body = schema_body(draft, self._opset)
            if body is not None:
                self._call(
                    body,
                    call_attributes(draft.attributes),
                    draft.inputs,
                    draft.outputs,
                    frame=frame,
                    name=draft.name,
                    schema=(draft.domain, draft.op_type),
                )
                return
        outputs = [self._new_output(item, frame, draft) for item in draft.outputs]
        self._add(
            draft.op_type,
            draft.domain,
            draft.inputs,
            outputs,
            name=draft.name,
            attributes=draft.attributes,
            frame=frame,
            subject=draft.subject,
        )

    def _add(
        self,
        op_type: str,
        domain: str,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[Tensor],
        *,
        name: str,
        attributes: Mapping[str, AttributeValue],
        frame: Frame,
        subject: str,
    ) -> Node:
        node = frame.graph.add_node(op_type, inputs, outputs, name, domain)
        node.attributes.update(attributes)
        node.origin["framework"] = "onnx"
        node.origin["source_names"] = (name,)
        if name in self._scopes:
            node.origin["name_scopes"] = self._scopes[name]
        self._inference.visit(node)
        for tensor in node.outputs:
            if tensor.origin_dtype is None or tensor.shape is None:
                self._declare(tensor, frame, subject)
        return node

    def _declare(self, tensor: Tensor, frame: Frame, subject: str) -> None:
        """Fills what inference does not know with what the file declares."""
        value = frame.declared.get(tensor.name)
        if value is None:
            return
        try:
            dtype, shape = value_type(value, subject)
        except UnsupportedTypeError:
            return
        if tensor.origin_dtype is None:
            tensor.dtype = tensor.origin_dtype = dtype
        if tensor.shape is None and (
            tensor.producer is None or not self._opset.waits_for_values(tensor.producer)
        ):
            tensor.shape = shape

    def _input(self, name: str, frame: Frame, subject: str) -> Tensor | None:
        if not name:
            return None
        tensor = frame.find(name)
        if tensor is None:
            raise GraphError(
                subject, f"reads {name!r}, which nothing makes", remedy="the file is damaged; export it again"
            )
        return tensor

    def _new_output(self, name: str, frame: Frame, draft: Draft) -> Tensor:
        if not name:
            return frame.graph.add_tensor(Tensor(self._unique(frame, f"{draft.name}/unused", made_up=True)))
        wanted = frame.renamed.get(name, frame.prefix + name)
        tensor = Tensor(self._unique(frame, wanted, made_up=bool(frame.prefix) and name not in frame.renamed))
        self._define(frame, name, tensor, draft.subject)
        return tensor

    def _emit(
        self,
        frame: Frame,
        op_type: str,
        inputs: Sequence[Tensor | None],
        stem: str,
        attributes: Mapping[str, AttributeValue] | None = None,
        *,
        made_up: bool = True,
        domain: str = "",
    ) -> Tensor:
        """Adds a node of ours with one output, named `stem` (numbered if that is taken, or a name of the file
        and only made up here).
        """
        output = frame.graph.add_tensor(Tensor(self._unique(frame, stem, made_up)))
        return self._add(
            op_type,
            domain,
            inputs,
            [output],
            name=stem,
            attributes=attributes or {},
            frame=frame,
            subject=f"node {stem!r} ({op_type})",
        ).output

    def _constant_node(self, proto: onnx.NodeProto, frame: Frame, subject: str) -> None:
        """The forms of Constant: a tensor, a number, a list of numbers."""
        attributes = [*proto.attribute] if frame.arguments is None else with_values(proto, frame.arguments)
        if len(attributes) != 1 or len(proto.output) != 1:
            raise GraphError(
                subject, "must have one value and one output", len(attributes), "export the model again"
            )
        attribute, output = attributes[0], proto.output[0]
        wanted = self._unique(
            frame,
            frame.renamed.get(output, frame.prefix + output),
            made_up=bool(frame.prefix) and output not in frame.renamed,
        )
        if attribute.name == "value":
            tensor = self._constant(attribute.t, wanted)
        else:
            array = constant_array(attribute, subject)
            tensor = Tensor(wanted, DType.of(array.dtype), tuple(array.shape), constant=Constant(array))
        self._define(frame, output, tensor, subject)

    def _array(self, proto: onnx.TensorProto, subject: str) -> Array:
        _, _, constant = read_tensor(proto, self._files, self._absent)
        if not constant.available:
            raise GraphError(
                subject,
                f"has an attribute without values ({constant.absent_because})",
                remedy="give the weight file",
            )
        return constant.array()

    # subgraphs and functions

    def _subgraph(self, proto: onnx.GraphProto, frame: Frame, subject: str) -> Graph:
        graph = Graph(proto.name or "body")
        inner = Frame(
            graph,
            frame.versions,
            outer=frame,
            prefix=frame.prefix,
            arguments=frame.arguments,
            depth=frame.depth + 1,
        )
        self._graph(proto, inner, f"graph {graph.name!r} of {subject}")
        return graph

    def _call(
        self,
        function: onnx.FunctionProto,
        call: Mapping[str, onnx.AttributeProto],
        inputs: Sequence[Tensor | None],
        outputs: Sequence[str],
        *,
        frame: Frame,
        name: str,
        schema: tuple[str, str] | None = None,
    ) -> None:
        """Imports a function's body in place of a call."""
        subject = f"function {function.name!r} in node {name!r}"
        if frame.depth >= MAX_NESTING:
            raise GraphError(
                subject,
                f"must not nest deeper than {MAX_NESTING} functions",
                remedy="functions must not call themselves",
            )
        domain, op_type = schema or (standard_domain(function.domain), function.name)
        versions = {
            **frame.versions,
            **{standard_domain(item.domain): int(item.version) for item in function.opset_import},
        }
        arguments = body_attributes(function, call, domain, op_type)
        results = {
            inner: frame.renamed.get(outer, frame.prefix + outer)
            for inner, outer in zip(function.output, outputs, strict=False)
            if outer
        }
        inner = Frame(
            frame.graph,
            versions,
            outer=visible_names(frame),
            prefix=f"{name}/",
            renamed=results,
            arguments=arguments,
            depth=frame.depth + 1,
        )
        for index, parameter in enumerate(function.input):
            tensor = inputs[index] if index < len(inputs) else None
            if tensor is not None:
                inner.values[parameter] = tensor
        absent = {parameter for parameter in function.input if parameter not in inner.values}
        self._body([without(node, absent) for node in execution_order(function.node, subject)], inner)
        for result, outer in zip(function.output, outputs, strict=False):
            if not outer:
                continue
            made = inner.values.get(result)
            if made is None:
                raise GraphError(
                    subject,
                    f"does not make its output {result!r}",
                    remedy="the file is damaged; export it again",
                )
            if (
                result in function.input
            ):  # handed through unchanged: the caller's name needs a tensor of its own
                made = self._emit(
                    frame, "Identity", [made], frame.renamed.get(outer, frame.prefix + outer), made_up=False
                )
            if outer in frame.values:
                raise GraphError(
                    f"value {outer!r}", "must be defined once", remedy="the file is damaged; export it again"
                )
            frame.values[outer] = made


class _Emitter:
    """What upgrade rules see of the importer."""

    def __init__(self, importer: Importer, frame: Frame) -> None:
        self._importer, self._frame = importer, frame

    def constant(self, values: Array, stem: str) -> Tensor:
        return self.hold(Constant(values), DType.of(values.dtype), tuple(values.shape), stem)

    def hold(self, constant: Constant, dtype: DType, shape: tuple[int, ...], stem: str) -> Tensor:
        name = self._importer._unique(self._frame, stem, made_up=True)
        return self._frame.graph.add_tensor(Tensor(name, dtype, shape, constant=constant))

    def emit(
        self,
        op_type: str,
        inputs: list[Tensor | None],
        stem: str,
        domain: str = "",
        **attributes: AttributeValue,
    ) -> Tensor:
        return self._importer._emit(self._frame, op_type, inputs, stem, attributes, domain=domain)

    def give(self, output: str, tensor: Tensor) -> None:
        frame = self._frame
        name = frame.renamed.get(output, frame.prefix + output)
        made = self._importer._emit(frame, "Identity", [tensor], name, made_up=False)
        if output in frame.values:
            raise GraphError(
                f"value {output!r}", "must be defined once", remedy="the file is damaged; export it again"
            )
        frame.values[output] = made

    def declared(self, output: str) -> Shape | None:
        value = self._frame.declared.get(output)
        return None if value is None else value_type(value, f"value {output!r}")[1]
