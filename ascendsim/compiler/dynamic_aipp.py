"""Models with dynamic AIPP: each run says in a further input what is done to its image.

For each description a model with that static AIPP is compiled once and kept, so times and values are those of
static AIPP. What a run reads of the description itself (160 bytes) costs no time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from ascendsim.compiler.dynamic import DynamicModel
from ascendsim.compiler.dynamic_inputs import input_values, shapes_only
from ascendsim.compiler.model import CompiledModel
from ascendsim.core.arguments import checked
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import InputError
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Array, Graph
from ascendsim.isa.program import MemoryPlan, Program
from ascendsim.passes.aipp import AippSettings
from ascendsim.passes.aipp.dynamic import AIPP_DATA, DynamicAipp, data_bytes, from_bytes, plain, to_bytes
from ascendsim.runtime import evaluate
from ascendsim.runtime.control_flow import Value
from ascendsim.runtime.host_run import Choices
from ascendsim.runtime.watch import Watch

CompileStatic = Callable[[tuple[AippSettings, ...]], CompiledModel]


@dataclass(frozen=True, slots=True)
class DynamicAippModel(DynamicModel):
    """A model whose images are described when it runs.

    `graph` has its inputs: images as bytes, and "ascend_dynamic_aipp_data" (with a number behind it if
    several inputs have dynamic AIPP); without that one an image of the network's own size is assumed.

    Attributes:
        images: By name of the image's input.
        names: Of AippData, by name of the image's input.
        settings: Of the other AIPP operators.
        compile: Compiles the network with static AIPP operators.
        compiled: What was compiled, by description.
    """

    images: Mapping[str, DynamicAipp] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    settings: tuple[AippSettings, ...] = ()
    compile: CompileStatic | None = None
    compiled: dict[tuple[AippSettings, ...], CompiledModel] = field(default_factory=dict, compare=False)

    @checked()
    def execute(
        self,
        inputs: Mapping[str, Value],
        values: Literal["device", "float32"] | None,
        choices: Choices,
        progress: Callable[[int, int], None] | None = None,
        watch: Watch | None = None,
    ) -> tuple[CompiledModel, dict[str, Array] | None]:
        """Runs the model of static AIPP that the inputs describe."""
        described = tuple(self._described(name, inputs[data].array) for name, data in self.names.items())
        model = self._compiled(described)
        given = {name: value for name, value in inputs.items() if name not in self.names.values()}
        if isinstance(model, DynamicModel):
            return model.execute(given, values, choices, progress, watch)
        arrays = {name: value.array for name, value in given.items() if value.array is not None}
        if values is None or len(arrays) < len(given):
            return model, None
        order = [task.id for task in model.program.tasks]
        found = evaluate(
            model.graph,
            model.program,
            model.opset,
            order,
            arrays,
            values=values,
            half=model.float16,
            progress=progress,
            watch=watch,
        )
        return model, found

    @checked()
    def values_of(self, inputs: Mapping[str, Any]) -> dict[str, Value]:
        """The user's arrays; images have the shape that AippData describes."""
        described = {
            data: inputs[data] if data in inputs else to_bytes(self._plain(name), self._batch(name), data)
            for name, data in self.names.items()
        }
        found = input_values(self.graph, {**inputs, **described})
        for name, data in self.names.items():
            item = self._described(name, found[data].array)
            wanted = item.raw_shape(self._batch(name))
            if found[name].shape != wanted:
                rule = f"must be of shape {list(wanted)}, as {data!r} describes it"
                raise InputError(f"input {name!r}", rule, list(found[name].shape))
        return found

    @checked()
    def shapes_of(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, Value]:
        """Inputs without values, images of the network's own size."""
        own = {name: self._plain(name) for name in self.names}
        sizes = {name: item.raw_shape(self._batch(name)) for name, item in own.items()}
        found = shapes_only(self.graph, self.opset, {**sizes, **shapes})
        for name, data in self.names.items():
            if found[name].shape != sizes[name]:
                remedy = f"give {data!r} and the image as inputs of a run"
                raise InputError(f"option shapes: input {name!r}", "is what AippData says", remedy=remedy)
            array = to_bytes(own[name], self._batch(name), data)
            found[data] = Value(array.dtype, array.shape, array)
        return found

    def __repr__(self) -> str:
        return f"DynamicAippModel({self.source.name!r}, soc={self.soc.name}, inputs={list(self.names)})"

    def _described(self, name: str, data: Array | None) -> AippSettings:
        entry = self.images[name]
        assert data is not None
        subject = f"input {self.names[name]!r}"
        item = replace(from_bytes(data, self._batch(name), subject), input_rank=entry.input_rank)
        size = int(np.prod(item.raw_shape(self._batch(name))))
        if size > entry.most_bytes:
            raise InputError(
                subject, f"describes images of at most max_src_image_size = {entry.most_bytes} bytes", size
            )
        return item

    def _compiled(self, described: tuple[AippSettings, ...]) -> CompiledModel:
        if described not in self.compiled:
            assert self.compile is not None
            self.compiled[described] = self.compile((*self.settings, *described))
        return self.compiled[described]

    def _batch(self, name: str) -> int:
        return int(self._network_shape(name)[0])

    def _plain(self, name: str) -> AippSettings:
        return plain(*self._network_shape(name)[1:])

    def _network_shape(self, name: str) -> tuple[int, ...]:
        return self.source.inputs[self.images[name].input_rank].static_shape


def dynamic_aipp_model(
    graph: Graph,
    entries: Sequence[DynamicAipp],
    static: Sequence[AippSettings],
    compile_static: CompileStatic,
) -> DynamicAippModel:
    """The model of a graph some of whose images are described by each run.

    Args:
        graph: The user's.
        entries: The inputs.
        static: AIPP operators of other inputs.
        compile_static: Compiles the graph with static AIPP operators alone.

    Raises:
        InputError: If an input is no image of known size.
    """
    inputs = Graph(graph.name, metadata=dict(graph.metadata))
    by_rank = {entry.input_rank: entry for entry in entries}
    if len(by_rank) < len(entries):
        raise InputError("AIPP: related_input_rank", "must name each input once")
    for rank in by_rank:
        if rank >= len(graph.inputs):
            raise InputError(
                "AIPP: related_input_rank", f"must be below {len(graph.inputs)}, the number of inputs", rank
            )
    names: dict[str, str] = {}
    for rank, tensor in enumerate(graph.inputs):
        if rank not in by_rank:
            inputs.add_input(tensor.name, tensor.origin_dtype or tensor.element_type, tensor.shape)
            continue
        if not tensor.is_static or len(tensor.static_shape) != 4 or tensor.static_shape[1] not in (1, 3):
            rule = "needs an input [N, 1 or 3, H, W] of known size for dynamic AIPP"
            raise InputError(f"AIPP for input {tensor.name!r}", rule, repr(tensor))
        inputs.add_input(tensor.name, DType.UINT8, None)
        names[tensor.name] = AIPP_DATA if len(entries) == 1 else f"{AIPP_DATA}_{len(names)}"
    for name, data in names.items():
        batch = graph.tensors[name].static_shape[0]
        inputs.add_input(data, DType.UINT8, (data_bytes(batch),))
    described = tuple(
        replace(plain(*tensor.static_shape[1:]), input_rank=rank)
        for rank, tensor in enumerate(graph.inputs)
        if rank in by_rank
    )
    first = compile_static((*static, *described))  # what cannot be compiled is said now
    return DynamicAippModel(
        inputs,
        Program((), MemoryPlan({}, 0, 0), first.program.mode),
        first.soc,
        first.opset,
        copy_graph(graph),
        first.options,
        first.fusion,
        planned=False,
        images={graph.inputs[rank].name: entry for rank, entry in by_rank.items()},
        names=names,
        settings=tuple(static),
        compile=compile_static,
        compiled={described: first},
    )
