"""`CompiledModel`: what `compile` gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from ascendsim.compiler.buffers import BufferReport
from ascendsim.compiler.capacity import Capacity
from ascendsim.compiler.memory_report import MemoryReport
from ascendsim.compiler.naming import tasks_named
from ascendsim.compiler.options import CompileOptions
from ascendsim.core.arguments import checked
from ascendsim.core.errors import InputError
from ascendsim.graph.ir import Graph
from ascendsim.graph.samples import batch_of
from ascendsim.isa.listing import listing
from ascendsim.isa.program import Program, Task
from ascendsim.lower import LowerOptions
from ascendsim.opset import OpSet
from ascendsim.passes.engine import EngineReport
from ascendsim.passes.fusion.report import FusionReport
from ascendsim.soc import SocSpec
from ascendsim.soc.arithmetic import float16_of
from ascendsim.trace.records import Trace

if TYPE_CHECKING:
    from ascendsim.passes.graph_kernel import GraphKernelReport


@dataclass(frozen=True, slots=True)
class CompiledModel:
    """A graph compiled for a chip.

    Attributes:
        graph: The device graph: precision and formats assigned, Cast and TransData nodes in place.
        program: Tasks and memory plan.
        soc: The chip, overrides applied.
        opset: Operators that the graph was compiled with.
        source: The graph as the user gave it.
        options: What was asked for.
        fusion: What fusion matched and changed, and which passes were off.
        graph_kernel: The composites of graph-kernel fusion and their price; None in other flows.
        buffers: What L1 and L2 fusion did: convolutions joined through L1, tensors in L2, blocks cut into
            smaller batches.
        optimized: What the graph engine did.
        lowering: How the device graph was lowered.
        planned: Whether `program` is the whole of it, with a memory plan of its own: not so where pieces
            follow when shapes are known.
        timed: By the machine's shortcuts what `run` has timed: values change no time, so further runs need no
            machine.
    """

    graph: Graph
    program: Program
    soc: SocSpec
    opset: OpSet
    source: Graph
    options: CompileOptions = field(default_factory=CompileOptions)
    fusion: FusionReport = field(default_factory=FusionReport)
    graph_kernel: GraphKernelReport | None = None
    buffers: BufferReport = field(default_factory=BufferReport)
    optimized: EngineReport = field(default_factory=EngineReport)
    lowering: LowerOptions = field(default_factory=LowerOptions)
    planned: bool = True
    timed: dict[frozenset[str], Trace] = field(default_factory=dict, init=False, compare=False, repr=False)

    @checked()
    def tasks_of(self, node: str) -> tuple[Task, ...]:
        """The tasks that run a node, a fused operator, a scope or what matches a shell pattern; see
        `compiler.naming.tasks_named`.

        Raises:
            GraphError: If nothing has that name (suggests the nearest one).
        """
        return tasks_named(self.graph, self.program, node)

    @property
    def float16(self) -> np.dtype[Any]:
        """The float16 in which it computes, which may saturate (`soc.arithmetic`)."""
        return float16_of(self.soc)

    @property
    def memory(self) -> MemoryReport:
        """Where everything lies in device memory, against the largest live set and other planners.

        Raises:
            InputError: If the model has open shapes or control flow.
        """
        if not self.planned:
            raise InputError(
                f"model {self.source.name!r}",
                "has no report on memory",
                remedy="compile it with fixed shapes and without control flow; see program.memory",
            )
        return MemoryReport.of(self.source.name, self.graph, self.program)

    @property
    def capacity(self) -> Capacity:
        """What the model needs of the chip's memory, and at which batch it would fit."""
        return Capacity.of(self.program, self.soc, batch_of(self.graph))

    @checked()
    def listing(self, node: str) -> str:
        """The block programs of a node (any name that `tasks_of` takes), to be read by a person."""
        tasks = self.tasks_of(node)
        if not tasks:
            return f"node {node} runs no task: its output is its input's memory under another shape\n"
        parts = []
        for task in tasks:
            parts.append(f"task {task.id} {task.name} ({task.kind.value}, {task.block_dim} blocks)\n")
            if not task.groups:
                parts.append(f"  {task.cpu_us:.3f} us of the AI CPU\n")
            for number, group in enumerate(task.groups):
                parts.append(
                    f"block group {number}: {group.count} x {group.block.core.value}\n{listing(group.block)}"
                )
        return "".join(parts)

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.fusion.table().to_html()}"

    def __repr__(self) -> str:
        return f"CompiledModel({self.source.name!r}, soc={self.soc.name}, {len(self.program.tasks)} tasks)"
