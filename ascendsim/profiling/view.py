"""What every report starts from: a run whose records, tasks and graph nodes are joined.

A `TaskRecord` knows a task id; the `Program` knows the task of that id; the task knows the names of the nodes
that it runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from ascendsim.core.errors import SimulationError
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.graph.samples import batch_of
from ascendsim.isa.program import CoreKind, Program, Task, TaskKind
from ascendsim.opset import OpSet
from ascendsim.opset.facts import Kind
from ascendsim.soc.spec import SocSpec
from ascendsim.trace.records import TaskRecord, Trace

NOT_KNOWN = "N/A"


@dataclass(frozen=True, slots=True)
class Part:
    """What a task did on one kind of cores.

    Attributes:
        blocks: On these cores.
        ticks: For which they held their cores, summed over blocks.
        busy: Busy ticks by pipe, summed over blocks.
    """

    blocks: int
    ticks: int
    busy: Mapping[str, int]

    def ratio(self, pipe: str) -> float:
        """Busy ticks of a pipe / ticks that the blocks held their cores, 0 without blocks."""
        return self.busy.get(pipe, 0) / self.ticks if self.ticks else 0.0


@dataclass(frozen=True, slots=True)
class TaskView:
    """One task of a run with all that is known about it.

    Attributes:
        record: When it ran and what it did.
        task: Its program.
        nodes: The graph nodes it runs, in order; empty if the graph has none of that name.
        op_type: CANN operator type of its first node; "N/A" if it has no node.
        kinds: What each node is for.
    """

    record: TaskRecord
    task: Task
    nodes: tuple[Node, ...]
    op_type: str
    kinds: tuple[Kind, ...] = ()

    @property
    def id(self) -> int:
        return self.task.id

    @property
    def name(self) -> str:
        return self.task.name

    @property
    def on_ai_core(self) -> bool:
        """Whether it ran on the cores (False: on the AI CPU, on DVPP, on the links between devices ...)."""
        return self.task.kind.on_cores

    @property
    def on_ai_cpu(self) -> bool:
        return self.task.kind is TaskKind.AI_CPU

    @property
    def is_communication(self) -> bool:
        """Whether it is a collective of several devices."""
        return self.task.kind is TaskKind.COMMUNICATION

    @property
    def for_images(self) -> bool:
        """Whether it prepares images, on DVPP or the Ctrl CPU."""
        return self.task.kind.for_images

    @property
    def duration(self) -> int:
        """Ticks from dispatch to the end of the last block."""
        return self.record.end - self.record.start

    @property
    def vector_blocks(self) -> int:
        """Blocks that ran on vector cores of their own."""
        return sum(group.count for group in self.task.groups if group.block.core is CoreKind.VECTOR)

    def busy(self, pipe: str) -> int:
        """Busy ticks of a pipe, summed over blocks."""
        return self.record.busy.get(pipe, 0)

    @property
    def on_vector(self) -> Part:
        """What it did on vector cores."""
        return Part(self.vector_blocks, self.record.vector_ticks, self.record.vector_busy)

    @property
    def beside_vector(self) -> Part:
        """What it did on cube cores, or on cores that have both units."""
        record, vector = self.record, self.on_vector
        busy = {pipe: ticks - vector.busy.get(pipe, 0) for pipe, ticks in record.busy.items()}
        return Part(record.blocks - vector.blocks, record.block_ticks - vector.ticks, busy)

    def ratio(self, pipe: str) -> float:
        """Busy ticks of a pipe / ticks that blocks held their cores (msprof's x_ratio), on the kind of cores
        where that is more; 0 without blocks.
        """
        return max(self.beside_vector.ratio(pipe), self.on_vector.ratio(pipe))

    def moved(self, level: str) -> int:
        """Bytes read and written at a memory level ("ddr" or "l2")."""
        return self.record.read_bytes.get(level, 0) + self.record.write_bytes.get(level, 0)

    def inputs(self) -> tuple[Tensor, ...]:
        """Tensors that the task reads from outside itself, by node and port, each once; not those that fusion
        has made attributes.
        """
        own = set(self.nodes)
        tensors = (
            tensor
            for node in self.nodes
            for port, tensor in enumerate(node.inputs)
            if tensor is not None
            and tensor.producer not in own
            and port not in node.origin.get("attribute_ports", ())
        )
        return tuple(dict.fromkeys(tensors)) if len(self.nodes) > 1 else tuple(tensors)

    def outputs(self) -> tuple[Tensor, ...]:
        """Tensors that leave the task: made by its last node, read outside it, or outputs of the graph."""
        own = set(self.nodes)
        made = [tensor for node in self.nodes for tensor in node.outputs]
        last = self.nodes[-1] if self.nodes else None
        results = {
            id(tensor) for node in self.nodes if node.graph is not None for tensor in node.graph.outputs
        }
        return tuple(
            t
            for t in made
            if t.producer is last or id(t) in results or any(consumer not in own for consumer in t.consumers)
        )


@dataclass(frozen=True)
class ProfiledRun:
    """A finished run and what it was a run of.

    Attributes:
        graph: The device graph.
        program: What ran.
        trace: What happened when.
        soc: The chip.
        opset: Operators, which know their names in CANN's tools and what they are for.
    """

    graph: Graph
    program: Program
    trace: Trace
    soc: SocSpec
    opset: OpSet

    def __repr__(self) -> str:
        return f"ProfiledRun({self.graph.name!r} on {self.soc.name}, {self.trace!r})"

    def cann_type(self, node: Node) -> str:
        """Operator type of a node as CANN's tools print it."""
        return self.opset.cann_type(node)

    @cached_property
    def tasks(self) -> tuple[TaskView, ...]:
        """Every task that ran, by start time (ties by task id).

        Raises:
            SimulationError: If the trace has a record of a task that the program does not have.
        """
        tasks = {task.id: task for task in self.program.tasks}
        nodes = {node.name: node for node in _all_nodes(self.graph)}
        views = []
        for record in sorted(self.trace.tasks, key=lambda r: (r.start, r.task)):
            if record.task not in tasks:
                raise SimulationError(
                    f"trace record of task {record.task}",
                    "has no task in the program",
                    remedy="profile a trace with its own program",
                )
            task = tasks[record.task]
            joined = tuple(nodes[name] for name in task.nodes if name in nodes)
            kinds = tuple([self.opset.get(node).facts.kind for node in joined])
            op_type = self.cann_type(joined[0]) if joined else NOT_KNOWN
            if (task.kind is TaskKind.COMMUNICATION and not joined) or task.kind.for_images:
                op_type = task.name.rpartition("_")[
                    0
                ]  # they run no operator and bear what they do in their names
            views.append(TaskView(record, task, joined, op_type, kinds))
        return tuple(views)

    def us(self, ticks: int) -> float:
        """Microseconds of a number of ticks."""
        return self.trace.us(ticks)

    def ns(self, ticks: int) -> int:
        """Whole nanoseconds of a number of ticks, rounded to nearest (half up), so order is kept."""
        scaled = ticks * self.trace.tick_seconds * 2_000_000_000 + 1
        return int(scaled // 2)

    def cycles(self, ticks: int, mhz: int | None = None) -> int:
        """Clock cycles of a number of ticks, rounded up; of the AI Core clock unless a frequency is given."""
        if mhz is None or mhz == self.soc.frequency_mhz:
            return -(-ticks // self.trace.core_ticks)
        exact = ticks * self.trace.tick_seconds * mhz * 1_000_000
        return -(-exact.numerator // exact.denominator)

    def mean_block_us(self, view: TaskView, ticks: int, part: Part | None = None) -> float:
        """Time on one core of something summed over blocks, of a task or of a part of it: ticks / blocks *
        rounds, in us.

        This is msprof's aicore_time formula, (task_cyc / freq) / block_num * ROUNDS.
        """
        blocks = view.record.blocks if part is None else part.blocks
        return self.us(ticks) / max(blocks, 1) * max(view.record.rounds, 1)

    @property
    def batch(self) -> int:
        """Samples of all that ran: first dimension of the first graph input with a static shape (1 if there
        is none), times the runs of the network.
        """
        return batch_of(self.graph) * self.program.info.runs


def covered(views: Iterable[TaskView]) -> int:
    """Ticks in which at least one of some tasks was dispatched; they come by start time."""
    total, reached = 0, 0
    for view in views:
        start = max(view.record.start, reached)
        total += max(view.record.end - start, 0)
        reached = max(reached, view.record.end)
    return total


def _all_nodes(graph: Graph) -> Iterator[Node]:
    for node in graph.nodes:
        yield node
        for _, subgraph in node.subgraphs:
            yield from _all_nodes(subgraph)
