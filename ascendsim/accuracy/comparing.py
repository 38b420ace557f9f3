"""`accuracy`: a device run beside the model in float32, tensor by tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np

from ascendsim.accuracy.dumps import Golden, read_golden
from ascendsim.accuracy.metrics import measures
from ascendsim.accuracy.report import Accuracy, Row
from ascendsim.api.compiling import compile
from ascendsim.api.running import random_inputs
from ascendsim.compiler.dynamic import DynamicModel
from ascendsim.compiler.dynamic_inputs import shapes_of_arrays, shapes_only
from ascendsim.compiler.model import CompiledModel
from ascendsim.core.arguments import checked
from ascendsim.core.errors import InputError, suggest
from ascendsim.core.threads import fixed_threads
from ascendsim.graph.ir import Array, Graph, Node, Tensor
from ascendsim.isa.program import owner_of
from ascendsim.machine import run as run_machine
from ascendsim.ops import opset_with
from ascendsim.opset import OpDef, OpSet
from ascendsim.passes.gears import with_input_shapes
from ascendsim.runtime import checked_inputs, evaluate
from ascendsim.runtime.device_memory import DeviceMemory
from ascendsim.runtime.numerics import Numerics
from ascendsim.runtime.plain import evaluate_plain
from ascendsim.runtime.watch import Watch
from ascendsim.soc import SocSpec


def closed(graph: Graph, inputs: Mapping[str, Any], operators: Sequence[OpDef] = ()) -> Graph:
    """The graph with the shapes of the arrays in place of open ones; the graph itself if it has none.

    Raises:
        InputError: If an array does not fit, or none says the shape of an input that is open.
    """
    if all(tensor.is_static for tensor in graph.inputs):
        return graph
    known = [tensor.name for tensor in graph.inputs]
    for name in inputs:
        if name not in known:
            raise InputError(f"input {name!r}", "is not an input of the model", remedy=suggest(name, known))
    opset = opset_with(operators)
    shapes = shapes_of_arrays(graph, {name: np.asarray(array) for name, array in inputs.items()})
    return with_input_shapes(
        graph, opset, {name: value.shape for name, value in shapes_only(graph, opset, shapes).items()}
    )


@fixed_threads()
@checked(
    graph="asim.load and asim.GraphBuilder make one",
    inputs='pass {"input": array}, or None for seeded ones',
    golden='pass a folder of .npy files or {"tensor": array}',
)
def accuracy(
    graph: Graph,
    inputs: Mapping[str, Any] | None = None,
    soc: str | PathLike[str] | SocSpec = "Ascend310",
    *,
    golden: str | PathLike[str] | Mapping[str, Any] | None = None,
    **settings: Any,
) -> Accuracy:
    """Compares what a chip computes with the model in float32, or with a dump of your own, tensor by tensor.

    Args:
        graph: From `load` or `GraphBuilder`, without control flow. The arrays say what shapes it leaves open.
        inputs: Arrays by input name; seeded random ones by default.
        soc: The chip.
        golden: What to compare with: a folder of .npy files or arrays by name, of tensors or operators of the
            model. By default the model's own operators, computed one by one in its own types.
        **settings: Further arguments of `compile`.

    Raises:
        InputError: If the model has open shapes or control flow, an input does not fit, or the dump knows no
            tensor of the model.
        GraphError: If a weight has no values.
    """
    graph = closed(graph, inputs or {}, settings.get("operators", ()))
    model = compile(graph, soc, **settings)
    if type(model) is not CompiledModel:
        why = "has gears, open shapes or control flow" if isinstance(model, DynamicModel) else "is no model"
        raise InputError(f"model {graph.name!r}", f"{why}", remedy="take the parts around them")
    given = random_inputs(model) if inputs is None else inputs
    arrays = checked_inputs(model.graph, {name: np.asarray(array) for name, array in given.items()})
    trace = run_machine(model.program, model.soc)
    recorder = _Recorder(model)
    watch = Watch(model.opset)
    order = [record.task for record in trace.tasks]
    outputs = evaluate(
        model.graph, model.program, model.opset, order, arrays, values="device", memory=recorder, watch=watch
    )
    watch.end(outputs, model.graph.tensors)
    rows = _Rows(model, recorder, watch.report())
    reference = evaluate_reference(model.source, model.opset, arrays, golden, rows.see)
    return Accuracy(model, arrays, tuple(rows.found), watch.report(), outputs, reference, trace.duration_us)


def evaluate_reference(
    graph: Graph, opset: OpSet, inputs: Mapping[str, Array], golden: Golden, see: Any
) -> dict[str, Array]:
    """Golden arrays of all tensors, one after the other, to `see`; returns those of the outputs."""
    if golden is None:
        return evaluate_plain(graph, opset, inputs, see=see)
    arrays = read_golden(golden, graph)
    outputs = {}
    for node in graph.topological():
        for tensor in node.outputs:
            array = arrays[tensor]() if tensor in arrays else None
            see(tensor, array)
            if array is not None and tensor in graph.outputs:
                outputs[tensor.name] = array
    return outputs


class _Recorder(DeviceMemory):
    """Device memory that keeps a copy of everything that is written."""

    def __init__(self, model: CompiledModel) -> None:
        super().__init__(model.graph, model.program.memory, "device", model.float16)
        self.written: dict[str, Array] = {}
        self._ends = set(model.graph.outputs)

    def write(self, tensor: Tensor, array: Array) -> None:
        """As in device memory."""
        super().write(tensor, array)
        if tensor in self._ends or (tensor.producer is not None and "inserted" not in tensor.producer.origin):
            self.written[tensor.name] = array.copy()


class _Rows:
    """Rows of the comparison, made as golden arrays come.

    A device operator that stands for several of the model gives what the last one of them gave; the tensors
    between them do not exist.
    """

    def __init__(self, model: CompiledModel, recorder: _Recorder, numerics: Numerics) -> None:
        self._model, self._written = model, recorder.written
        self._regions = model.program.memory.regions
        self._bad = {source for item in numerics.overflows for source in (item.name, *item.sources)}
        self._tasks = {name: task.nodes for task in model.program.tasks for name in task.nodes}
        self._homes: dict[str, Node] = {}
        self._twins: dict[Tensor, Tensor] = {}
        place = {node.name: number for number, node in enumerate(model.source.topological())}
        for node in model.graph.topological():
            if "inserted" in node.origin:
                continue
            names = [name for name in node.origin.get("source_names", (node.name,)) if name in place]
            self._homes.update(dict.fromkeys(names, node))
            if names:
                last = model.source.node(max(names, key=place.__getitem__))
                self._twins.update(zip(last.outputs, node.outputs, strict=False))
        self.found: list[Row] = []

    def see(self, tensor: Tensor, golden: Array | None) -> None:
        """A tensor of the model has its golden array."""
        producer = tensor.producer
        if producer is None or golden is None:
            return
        home, why = self._homes.get(producer.name), ""
        mine = None if tensor not in self._twins else self._array(self._twins[tensor])
        ends = any(tensor is output for output in self._model.source.outputs)
        if mine is None and ends:
            mine = self._written.get(tensor.name)
        if mine is None:
            why = self._why(home)
        elif mine.shape != golden.shape:
            if mine.size != golden.size or mine.shape[-1:] != golden.shape[-1:]:
                why, mine = f"its shape is {list(mine.shape)} there", None
            else:
                mine = mine.reshape(golden.shape)
        over = "NaN" if mine is None else "NO"
        if producer.name in self._bad or (mine is not None and not _all_finite(mine)):
            over = "YES"
        self.found.append(
            Row(
                mine_name="*" if home is None else home.name,
                mine_type="*" if mine is None else mine.dtype.name,
                golden_name=producer.name,
                golden_type=golden.dtype.name,
                tensor=tensor.name,
                index=f"{producer.name}:output:{tensor.index}",
                shape=golden.shape,
                overflow=over,
                measures={} if mine is None else measures(mine, golden),
                why=why,
                is_output=ends,
            )
        )

    def _array(self, tensor: Tensor) -> Array | None:
        """What the device has in a tensor, or in that whose memory it shares under another shape."""
        if tensor.name in self._written:
            return self._written[tensor.name]
        region = self._regions.get(tensor.name)
        if region is None or region.cut is not None:
            return None
        array = self._written.get(owner_of(self._regions, tensor.name))
        return None if array is None or array.size != tensor.elements else array.reshape(tensor.static_shape)

    def _why(self, home: Node | None) -> str:
        if home is None:
            return "the operator is gone: folded or removed"
        members = self._tasks.get(home.name, (home.name,))
        if len(members) < 3:
            return f"fused into {'+'.join(members)}"
        return f"fused into {members[0]}+...+{members[-1]}, {len(members)} operators"


def _all_finite(array: Array) -> bool:
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())
