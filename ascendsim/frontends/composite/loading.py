"""`load_composite`: a composite file becomes a graph."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ascendsim.core.errors import GraphError, InputError, UnsupportedOperatorError, suggest
from ascendsim.frontends.composite.operators import Translator
from ascendsim.frontends.composite.reading import (
    CompositeRecord,
    OperatorRecord,
    Source,
    TensorRecord,
    read_composite,
)
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Dim, Graph, Node, Tensor
from ascendsim.opset import InferContext, OpSet
from ascendsim.passes.rewriting.removal import remove_dead

MAX_ELEMENTS = 1 << 40


def load_composite(
    source: Source, *, opset: OpSet, shapes: Mapping[str, Sequence[int]] | None = None
) -> Graph:
    """Reads a composite file into a graph, one operator after the other.

    Shapes are those of the file: a tensor in FRACTAL_NZ has its stored, tiled shape. Inputs that the kernel
    overwrites (Assign, InplaceAssign) get a graph output with their new value, `<name>_updated` where the
    file has no output for it.

    Args:
        source: Path of an .info or .json file, its bytes, or the parsed object.
        opset: Operators.
        shapes: Static shapes by input name, for dynamic files.

    Returns:
        A verified graph; `metadata` holds "format" ("composite"), "composite" (the kernel's name) and the
        file's header.

    Raises:
        InputError: If the file cannot be read or breaks the schema, or a shape is missing, unknown or does
            not fit.
        UnsupportedOperatorError: Lists all operators without a translation.
        GraphError: If a rule of an operator is broken: a name used before its definition, defined twice,
            shapes that do not fit.
    """
    record = read_composite(source)
    return _Importer(record, opset, shapes or {}).run()


class _Importer:
    """State of one import."""

    def __init__(self, record: CompositeRecord, opset: OpSet, shapes: Mapping[str, Sequence[int]]) -> None:
        self.record, self.opset, self.shapes = record, opset, shapes
        self.builder = GraphBuilder(record.name, infer=self._infer)
        self.translate = Translator(self.builder)
        self.tensors: dict[str, Tensor] = {}

    def _infer(self, node: Node) -> None:
        self.opset.get(node).infer(InferContext(node))
        for tensor in node.outputs:
            if not tensor.is_static or tensor.elements > MAX_ELEMENTS:
                raise GraphError(
                    f"node {node.name!r} ({node.op_type})",
                    f"must give a static shape of at most {MAX_ELEMENTS} elements",
                    tensor.shape,
                )

    def run(self) -> Graph:
        """The graph."""
        unknown = [
            (f"AKG {one.name}", one.outputs[0].name)
            for one in self.record.operators
            if not self.translate.knows(one.name)
        ]
        if unknown:
            raise UnsupportedOperatorError(unknown)
        self._inputs()
        for operator in self.record.operators:
            self._operator(operator)
        self._outputs()
        graph = self.builder.graph
        remove_dead(graph)
        for tensor in list(graph.constants):
            if not tensor.uses and all(tensor is not output for output in graph.outputs):
                graph.remove_tensor(tensor)
        graph.metadata.update(format="composite", composite=self.record.name, header=dict(self.record.header))
        return self.builder.build()

    def _inputs(self) -> None:
        names = {tensor.name for tensor in self.record.inputs}
        for name in self.shapes:
            if name not in names:
                raise InputError(
                    f"option shapes: {name!r}",
                    "is not an input of the composite",
                    remedy=suggest(name, names),
                )
        for tensor in self.record.inputs:
            if tensor.name in self.tensors:
                continue  # some files list an input twice
            self.tensors[tensor.name] = self.builder.input(tensor.name, self._bound(tensor), tensor.dtype)

    def _bound(self, tensor: TensorRecord) -> tuple[int, ...]:
        """The static shape of an input."""
        given = self.shapes.get(tensor.name)
        if given is None:
            if any(not isinstance(dim, int) for dim in tensor.shape):
                raise InputError(
                    f"input {tensor.name!r}",
                    "has a dynamic shape",
                    _dims(tensor.shape),
                    f'say it: --input_shape {tensor.name}:DIMS, in Python shapes={{"{tensor.name}": (...)}}',
                )
            return tensor.shape  # type: ignore[return-value]
        bound = tuple(int(dim) for dim in given)
        fits = len(bound) == len(tensor.shape) and all(dim > 0 for dim in bound)
        if not fits or any(
            isinstance(old, int) and old != new for old, new in zip(tensor.shape, bound, strict=True)
        ):
            raise InputError(
                f"option shapes: {tensor.name!r}", f"must fit {_dims(tensor.shape)} of the file", list(bound)
            )
        return bound

    def _operator(self, operator: OperatorRecord) -> None:
        inputs = [self._operand(operator, record) for record in operator.inputs]
        declared = operator.outputs[0]
        if len(operator.outputs) > 1:
            raise GraphError(
                f"operator {operator.name} of {declared.name!r}",
                "must have one output",
                len(operator.outputs),
            )
        if declared.name in self.tensors:
            raise GraphError(
                f"tensor {declared.name!r}",
                "must be defined once",
                remedy="composite files are in single assignment form",
            )
        try:
            result = self.translate.result(operator, inputs)
        except (TypeError, ValueError, KeyError, IndexError) as error:
            raise GraphError(
                f"operator {operator.name} of {declared.name!r}",
                f"is malformed: {type(error).__name__}: {error}",
            ) from error
        result = self._in_shape(result, declared)
        if result.origin_dtype is not declared.dtype:
            kind = result.origin_dtype.value if result.origin_dtype else "unknown"
            raise GraphError(
                f"tensor {declared.name!r}", f"must be of type {declared.dtype.value} as the file says", kind
            )
        if result.producer is None or result in self.tensors.values():
            result = self.builder.op("Identity", result)
        self.builder.graph.rename_tensor(result, declared.name)
        self.tensors[declared.name] = result

    def _operand(self, operator: OperatorRecord, record: TensorRecord) -> Tensor:
        if record.value is not None:
            return self._constant(record)
        try:
            tensor = self.tensors[record.name]
        except KeyError:
            raise GraphError(
                f"tensor {record.name!r}",
                f"is used by {operator.name} before it is defined, and is no input",
                remedy=suggest(record.name, self.tensors),
            ) from None
        return self._in_shape(tensor, record)

    def _in_shape(self, tensor: Tensor, record: TensorRecord) -> Tensor:
        """The tensor in the shape that a record gives it: the same elements, or the file is wrong."""
        own = tensor.static_shape
        wanted = record.shape
        if len(own) == len(wanted) and all(
            not isinstance(dim, int) or dim == size for dim, size in zip(wanted, own, strict=True)
        ):
            return tensor
        if all(isinstance(dim, int) for dim in wanted) and math.prod(wanted) == math.prod(own):  # type: ignore[arg-type]
            return self.translate.reshaped(tensor, wanted)
        raise GraphError(
            f"tensor {record.name!r}", f"must have shape {_dims(wanted)} as the file says", list(own)
        )

    def _constant(self, record: TensorRecord) -> Tensor:
        held = self.tensors.get(record.name)
        if held is not None and held.is_constant:
            return self._in_shape(held, record)
        if held is not None:
            raise GraphError(
                f"tensor {record.name!r}", "must be defined once, it is a constant and a computed value"
            )
        array = np.asarray(record.value).astype(record.dtype.numpy)
        shape = tuple(dim if isinstance(dim, int) else -1 for dim in record.shape)
        if -1 in shape or array.size not in (1, math.prod(shape)):
            raise GraphError(
                f"constant {record.name!r}",
                f"must have as many values as its shape {_dims(record.shape)}",
                array.size,
            )
        if array.size == 1:
            array = np.full(shape, array.reshape(-1)[0], record.dtype.numpy)
        tensor = self.builder.graph.add_constant(record.name, array.reshape(shape))
        self.tensors[record.name] = tensor
        return tensor

    def _outputs(self) -> None:
        for record in self.record.outputs:
            tensor = self.tensors.get(record.name)
            if tensor is None:
                raise GraphError(
                    f"output {record.name!r}",
                    "is not defined by any operator",
                    remedy=suggest(record.name, self.tensors),
                )
            if all(tensor is not output for output in self.builder.graph.outputs):
                self.builder.output(tensor)
        for new in self.translate.updated:
            assert new.producer is not None
            name = self.builder.graph.fresh(f"{new.producer.required(0).name}_updated")
            self.builder.output(new, name)


def _dims(shape: Sequence[Dim]) -> str:
    return "[" + ", ".join("-1" if dim is None else str(dim) for dim in shape) + "]"
