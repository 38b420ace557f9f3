"""L1 and L2 fusion as `compile` does it: join convolutions through L1 if asked, cut the batch where that
pays, lower, place what fits.

software-managed L2 (Ascend310)   tensors are placed; batches are cut if the profile option `l2_batch` asks
L2 cache (all other chips)        what is resident is the cache's business; batches are cut if the option asks

By default the chip says whether batches are cut (`kernels.cut_batches`). The tuning guide of the Ascend 310
says that ResNet-50 at batch 8 runs in part as 4 x 2, but published throughput of later releases falls with
the batch just as it does without; that of the Ascend 310P3 does not (docs/fusion.md, "Smaller batches").
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from ascendsim.compiler.before import known_runs
from ascendsim.compiler.l1_fusion import L1Report, fuse_l1
from ascendsim.core.errors import CompileError
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Graph
from ascendsim.graph.scopes import units_in_order
from ascendsim.isa.program import Program
from ascendsim.lower import LowerOptions, lower_graph
from ascendsim.lower.batch_split import BatchSearch, Block
from ascendsim.lower.l2_placement import L2Plan, plan_l2, weights_of_steps, with_placement
from ascendsim.lower.task_cost import TaskPrice
from ascendsim.machine import run as run_machine
from ascendsim.opset import OpSet
from ascendsim.passes.l2 import (
    BLOCK,
    TWIN_OF,
    BatchAxis,
    BatchBlock,
    at_batch,
    cut_blocks,
    find_batch,
    is_plain,
    refusal,
    seed_edges,
)
from ascendsim.soc import SocSpec
from ascendsim.trace.records import Trace


@dataclass(frozen=True, slots=True)
class SplitBlock:
    """A block that runs in several passes.

    Attributes:
        nodes: Names before the cut, in execution order.
        batch, passes: Samples of a pass, and how many.
        estimated_us, whole_us: Time by the estimate that decided, and that of the whole batch at once.
    """

    nodes: tuple[str, ...]
    batch: int
    passes: int
    estimated_us: float
    whole_us: float


@dataclass(frozen=True, slots=True)
class BufferReport:
    """What L1 and L2 fusion did.

    Attributes:
        blocks: Cut into smaller batches.
        l2: What lies in L2; None on chips whose L2 is a cache.
        l1: Convolutions joined through L1, and why others were not.
        whole: Why batches run whole that would be cut if they were smaller; "" if that is not so.
    """

    blocks: tuple[SplitBlock, ...] = ()
    l2: L2Plan | None = None
    l1: L1Report = field(default_factory=L1Report)
    whole: str = ""

    @property
    def saved_bytes(self) -> int:
        """DDR bytes that L2 carries instead, over all tasks."""
        return self.l2.saved_bytes if self.l2 is not None else 0


@dataclass(frozen=True, slots=True)
class L2Options:
    """How far L2 fusion goes.

    Attributes:
        edges: "every" = every tensor between tasks that fits while it lives, as CANN's optimizer has it;
            "listed" = only the kinds that the tuning guide of the Ascend 310 lists: a reduction into a
            segment-wise operator, an AI Core operator into another engine, and what is inside of blocks with
            a cut batch.
        batch: "whole", or "split" = blocks are cut into smaller batches where that pays; "chip" = so they are
            in plain convolutional networks up to the chip's `kernels.cut_batches`.
    """

    edges: str = "every"
    batch: str = "chip"


def fuse_l1_and_l2(
    graph: Graph, soc: SocSpec, opset: OpSet, lowering: LowerOptions, buffer_optimize: str = "l2_optimize"
) -> tuple[Program, BufferReport]:
    """L1 and L2 fusion as profile options and ATC's option ask for them, and the lowered program.

    Args:
        graph: The device graph; changed in place.
        soc: The chip.
        opset: Operators.
        lowering: Its flags `l1_fusion`, `l2_edges`, `l2_batch` count.
        buffer_optimize: "l2_optimize", "l1_optimize" (no L2 fusion) or "off_optimize" (neither).
    """
    flags = lowering.flags
    pairs = L1Report()
    if flags.get("l1_fusion") and buffer_optimize != "off_optimize":
        pairs = fuse_l1(graph, soc, opset, lowering)
    if buffer_optimize != "l2_optimize":
        return lower_graph(graph, soc, opset, options=lowering), BufferReport(l1=pairs)
    options = L2Options(str(flags.get("l2_edges", "every")), str(flags.get("l2_batch", "chip")))
    fusion = L2Fusion(soc, opset, lowering, options)
    program = fusion.run(graph)
    return program, replace(fusion.report, l1=pairs)


@dataclass(slots=True)
class L2Fusion:
    """L2 fusion of one graph on one chip.

    Attributes:
        soc, opset, lowering, options: Of the compilation.
        report: What was done; filled by `run`.
    """

    soc: SocSpec
    opset: OpSet
    lowering: LowerOptions
    options: L2Options = field(default_factory=L2Options)
    report: BufferReport = field(default_factory=BufferReport)

    def run(self, graph: Graph) -> Program:
        """Cuts batches in the graph, in place, lowers it and places tensors.

        Raises:
            CompileError: If the graph cannot be lowered.
        """
        program = lower_graph(graph, self.soc, self.opset, options=self.lowering)
        capacity = self.soc.l2.size or 0
        if not capacity:
            return program
        blocks: tuple[SplitBlock, ...] = ()
        whole = self._left_whole(graph, program, capacity) if self.options.batch == "chip" else ""
        if self.options.batch == "split" or (self.options.batch == "chip" and self._chip_cuts(graph)):
            blocks = self._cut(graph, program, capacity)
            if blocks:
                program = lower_graph(graph, self.soc, self.opset, options=self.lowering)
        plan = self._plan(graph, program)
        self.report = BufferReport(blocks, plan, whole=whole)
        return program if plan is None else with_placement(program, plan)

    def _chip_cuts(self, graph: Graph) -> bool:
        """Whether the chip's compiler is seen to cut batches of such a graph."""
        most = self.soc.kernels.cut_batches
        return (
            most is not None and find_batch(graph, self.opset).batch <= most and is_plain(graph, self.opset)
        )

    def _left_whole(self, graph: Graph, program: Program, capacity: int) -> str:
        """Why a batch that L2 cannot hold runs whole where the chip's compiler cuts smaller ones; "" if it
        does not.
        """
        most = self.soc.kernels.cut_batches
        batch = find_batch(graph, self.opset).batch
        if most is None or batch <= most or _all_fit(program, capacity) or not is_plain(graph, self.opset):
            return ""
        return (
            f"batch {batch} runs whole: {self.soc.name} is seen to cut batches into smaller ones up to "
            f"{most} only (l2_batch=split cuts any)"
        )

    def _cut(self, graph: Graph, program: Program, capacity: int) -> tuple[SplitBlock, ...]:
        axis = find_batch(graph, self.opset)
        if axis.batch < 2 or _all_fit(program, capacity):
            return ()
        programs = {axis.batch: program, **self._smaller(graph, axis)}
        units = units_in_order(graph)
        none = {name for name, engine in program.info.engines.items() if engine == "none"}
        allowed = [all(node.name in axis.nodes for node in unit) for unit in units]

        def legal(first: int, end: int) -> bool:
            if not all(allowed[first:end]):
                return False
            return refusal(graph, axis, [node for unit in units[first:end] for node in unit], none) is None

        prices = (
            {size: self._prices(small) for size, small in programs.items()}
            if self.soc.l2.software_managed
            else None
        )
        search = BatchSearch(
            [[node.name for node in unit] for unit in units], programs, self.soc, capacity, legal, prices
        )
        found = search.run()
        names = {
            block: tuple(node.name for unit in units[block.first : block.end] for node in unit)
            for block in found
        }

        def blocks() -> list[BatchBlock]:
            return [BatchBlock(names[block], block.batch) for block in found]

        whole = self._run(self._finished(graph, program)).duration_us
        while found:
            trial = copy_graph(graph)
            cut_blocks(trial, axis, blocks())
            done = self._finished(trial, lower_graph(trial, self.soc, self.opset, options=self.lowering))
            if self._run(done).duration_us < whole:
                break
            found.remove(max(found, key=lambda block: block.seconds / block.whole_seconds))
        cut_blocks(graph, axis, blocks())
        return tuple(_reported(names[block], block, axis.batch) for block in found)

    def _run(self, program: Program) -> Trace:
        return run_machine(program, self.soc, known=known_runs(self.soc))

    def _finished(self, graph: Graph, program: Program) -> Program:
        """A program with tensors where L2 fusion puts them."""
        plan = self._plan(graph, program)
        return program if plan is None else with_placement(program, plan)

    def _plan(self, graph: Graph, program: Program) -> L2Plan | None:
        """What lies in L2; None if it is a cache."""
        if not self.soc.l2.software_managed:
            return None
        inner, weights = _inside_blocks(graph)
        candidates = (
            None
            if self.options.edges == "every"
            else inner | seed_edges(graph, self.opset, program.info.engines)
        )
        return plan_l2(
            program, self.soc.l2.size or 0, candidates, inner, (*weights, *weights_of_steps(program))
        )

    def _prices(self, program: Program) -> dict[int, TaskPrice]:
        """What the machine says that tasks take with everything in L2 (whatever its size), and with nothing
        there.
        """
        tensors = tuple(name for name, region in program.memory.regions.items() if region.alias_of is None)
        near = _durations(self._run(program.noting(l2_placed=tensors)))
        far = _durations(self._run(program))
        return {task: TaskPrice(near[task], far[task]) for task in near}

    def _smaller(self, graph: Graph, axis: BatchAxis) -> dict[int, Program]:
        """The graph lowered at every batch that divides the whole; those at which a task has no program are
        left out. Where closed forms price tasks, tiles are those of the closed form too.
        """
        programs = {}
        lowering = self.lowering if self.soc.l2.software_managed else replace(self.lowering, tilings=None)
        for batch in range(1, axis.batch):
            if axis.batch % batch == 0:
                try:
                    programs[batch] = lower_graph(
                        at_batch(graph, axis, batch), self.soc, self.opset, options=lowering
                    )
                except CompileError:  # a fused task may not pay at this size
                    continue
        return programs


def _durations(trace: Trace) -> dict[int, float]:
    """Seconds from the moment at which a task could start to its end, by task."""
    return {record.task: float((record.end - record.ready) * trace.tick_seconds) for record in trace.tasks}


def _reported(nodes: tuple[str, ...], block: Block, batch: int) -> SplitBlock:
    return SplitBlock(
        nodes, block.batch, batch // block.batch, block.seconds * 1e6, block.whole_seconds * 1e6
    )


def _all_fit(program: Program, capacity: int) -> bool:
    return not plan_l2(program, capacity).refused


def _inside_blocks(graph: Graph) -> tuple[frozenset[str], Collection[str]]:
    """Tensors between the nodes of passes, and the weights that the passes share. Parts of border tensors are
    not among them.
    """
    inner: list[str] = []
    weights: list[str] = []
    for node in graph.nodes:
        if TWIN_OF not in node.origin:
            continue
        for tensor in node.outputs:
            users = tensor.consumers
            if users and all(
                TWIN_OF in user.origin and user.origin[BLOCK] == node.origin[BLOCK] for user in users
            ):
                inner.append(tensor.name)
        weights += [tensor.name for tensor in node.inputs if tensor is not None and tensor.is_constant]
    return frozenset(inner), tuple(dict.fromkeys(weights))
