"""Several nodes as one task: UB fusion's lowering.

A scope (graph/scopes.py) is a set of nodes that run as one task. What its nodes hand to each other stays in
the Unified Buffer:

    head on the Cube    the elementwise nodes behind it become epilogue steps of its program, on every tile on
                        its way out; sums over its rows are made there too
    vector work only    the programs of the nodes join to one (`ChainWork`), tile by tile
    a segment operator  with elementwise nodes around it (`fused_segment`)
    two convolutions    (L1 fusion) each with its epilogue; what the first one hands to the second stays in L1

A tensor that somebody outside the scope reads is still written once; all others get no memory and no Move.
What that saves is counted in bytes, from the programs of the single nodes and that of the scope.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from ascendsim.core.errors import AscendSimError, CompileError, Named, Subject
from ascendsim.core.formats import Format, align, c0
from ascendsim.graph.ir import Node, Tensor
from ascendsim.graph.scopes import FUSED_SEPARATOR, SECOND_STAGE, internal_tensors
from ascendsim.isa.program import Access
from ascendsim.lower.accesses import accesses_of
from ascendsim.lower.engine import work_of
from ascendsim.lower.fused_segment import is_segment_work, join_segment
from ascendsim.lower.templates.stage import Stage
from ascendsim.lower.templates.way_out import fixpipe_takes
from ascendsim.opset import OpSet
from ascendsim.opset.work import (
    ColumnSum,
    CubePair,
    CubeWork,
    LowerContext,
    MoveWork,
    Ref,
    ScalarWork,
    SequenceWork,
    SideOutput,
    Step,
    Stream,
    VectorWork,
    Work,
)
from ascendsim.soc.spec import SocSpec

ChainWork = Callable[[Sequence[Node], OpSet, LowerContext], VectorWork | None]


class StageMaker(Protocol):
    """What turns work into blocks (`program.Lowering`)."""

    def drafts(self, work: Work) -> list[Stage]:
        """One stage a task, with flags that order nothing: what it moves can be told from it."""
        ...

    def settled(self, work: Work, option: int | None, drafts: list[Stage]) -> list[Stage]:
        """The same without such flags, with a tiling that is settled: the given option, or the quickest on
        the machine if that is asked for.
        """
        ...


@dataclass(frozen=True, slots=True)
class FusedScope:
    """A scope that has a program.

    Attributes:
        nodes: In execution order.
        work: What they ask for together (by the tensors of the first such scope, if others are equal).
        stage: The program; a draft (`StageMaker`) until it is settled.
        accesses: What it does to global memory.
        internal: Tensors that live in the Unified Buffer only.
        saved_bytes: Moves of tensors made inside the scope that are gone: writes and reads of the single
            nodes less those that stay.
        operand_bytes: Bytes of all other tensors that the scope moves more than its nodes alone (tiles chosen
            with a view to the epilogue), or less if negative (two nodes read the same tensor).
    """

    nodes: tuple[Node, ...]
    work: CubeWork | CubePair | VectorWork | SequenceWork
    stage: Stage
    accesses: tuple[Access, ...]
    internal: tuple[Tensor, ...]
    saved_bytes: int
    operand_bytes: int

    @property
    def name(self) -> str:
        """Name of the task."""
        return scope_name(self.nodes)

    def without_graph(self) -> FusedScope:
        """The same without nodes and tensors, so that it keeps no graph alive."""
        return replace(self, nodes=(), internal=())


def scope_name(nodes: Iterable[Node]) -> str:
    """Name of a scope."""
    return FUSED_SEPARATOR.join(node.name for node in nodes)


def node_subject(node: Node) -> Subject:
    """A node as the subject of an error."""
    return Subject.of("node ", Named("node", node.name), f" ({node.op_type})")


class ScopeLowering:
    """Makes programs for scopes of one graph on one chip.

    Args:
        soc: The chip.
        opset: Operators.
        context: What operators may ask while they describe their work.
        maker: Turns work into blocks.
        chain: Joins the vector work of several nodes; None = scopes without a Cube operator have no program.
    """

    def __init__(
        self,
        soc: SocSpec,
        opset: OpSet,
        context: LowerContext,
        maker: StageMaker,
        chain: ChainWork | None = None,
    ) -> None:
        self._soc, self._opset, self._context, self._maker, self._chain = soc, opset, context, maker, chain
        self._alone: dict[str, tuple[Work, Counter[tuple[str, bool]], int]] = {}

    def lower(self, nodes: Sequence[Node]) -> FusedScope:
        """The program of a scope.

        Args:
            nodes: In execution order, all in one graph.

        Raises:
            CompileError: If there is none, or it would move more bytes than the nodes alone; the rule says
                why.
        """
        subject = Subject.of("scope ", Named("scope", scope_name(nodes)))
        moved_alone: Counter[tuple[str, bool]] = Counter()
        works = []
        for node in nodes:
            work, moved, cores = self._single(node)
            if _shared_sum(work, cores) and any(user in nodes for user in node.output.consumers):
                rule = "must be whole before anything works on it, which no kernel of many cores can tell"
                raise CompileError(
                    Subject.of("the sum of node ", Named("node", node.name)), rule, f"{cores} cores"
                )
            works.append(work)
            moved_alone.update(moved)
        internal = internal_tensors(nodes)
        try:
            work = self._joined(nodes, works, internal)
            fused = self._fused(nodes, work, internal, moved_alone)
            if fused.operand_bytes > 0 and isinstance(work, CubeWork):
                fused = min(
                    fused,
                    self._fused(nodes, replace(work, plain_tiling=True), internal, moved_alone),
                    key=_operand_bytes,
                )
        except CompileError:
            raise
        except AscendSimError as error:
            raise CompileError(str(subject), f"has no program: {error}") from error
        if fused.saved_bytes < fused.operand_bytes:
            more = f"{fused.operand_bytes - fused.saved_bytes} bytes more"
            raise CompileError(subject, "must not move more bytes than its nodes alone", more)
        return fused

    def settled(self, scope: FusedScope, option: int | None) -> FusedScope:
        """The scope with its tiling settled; see `StageMaker`. What it saves stays as it was counted when the
        nodes were joined.
        """
        (stage,) = self._maker.settled(scope.work, option, [scope.stage])
        return replace(scope, stage=stage, accesses=accesses_of(stage.groups, stage.sizes))

    def _fused(
        self,
        nodes: Sequence[Node],
        work: CubeWork | CubePair | VectorWork | SequenceWork,
        internal: tuple[Tensor, ...],
        alone: Counter[tuple[str, bool]],
    ) -> FusedScope:
        stages = self._maker.drafts(work)
        if len(stages) != 1:
            raise CompileError(
                Subject.of("work of node ", Named("node", nodes[0].name), " and others"),
                "must run as one task",
                f"{len(stages)} tasks",
            )
        accesses = accesses_of(stages[0].groups, stages[0].sizes)
        moved = _moved(accesses)
        made = {tensor.name for node in nodes for tensor in node.outputs}
        saved = sum(alone[key] - moved[key] for key in alone | moved if key[0] in made)
        operands = sum(moved[key] - alone[key] for key in alone | moved if key[0] not in made)
        return FusedScope(tuple(nodes), work, stages[0], accesses, internal, saved, operands)

    def _single(self, node: Node) -> tuple[Work, Counter[tuple[str, bool]], int]:
        """Work of a node by itself, the bytes that it moves, and the cores that it takes at most."""
        known = self._alone.get(node.name)
        if known is None:
            work = work_of(node, self._opset, self._context)
            if not isinstance(work, CubeWork | VectorWork) and not is_segment_work(work):
                what = {
                    MoveWork: "it rearranges data",
                    ScalarWork: "it runs on the scalar unit",
                    SequenceWork: "it has several parts",
                }
                rule = "must be one program of the Cube or the vector unit to share a task"
                raise CompileError(node_subject(node), rule, what.get(type(work), type(work).__name__))
            stages = self._maker.drafts(work)
            cores = max(sum(group.count for group in stage.groups) for stage in stages)
            known = self._alone[node.name] = work, moved_bytes(stages), cores
        return known

    def _joined(
        self, nodes: Sequence[Node], works: Sequence[Work], internal: Sequence[Tensor]
    ) -> CubeWork | CubePair | VectorWork | SequenceWork:
        if any(is_segment_work(work) for work in works):
            return join_segment(nodes, works, internal)
        cubes = [number for number, work in enumerate(works) if isinstance(work, CubeWork)]
        if len(cubes) == 2 and cubes[0] == 0 and nodes[cubes[1]].origin.get(SECOND_STAGE):
            return self._pair(nodes, works, internal, cubes[1])
        if cubes:
            if cubes != [0]:
                raise CompileError(
                    Subject.of("a fused task"),
                    "has one Cube operator, in front",
                    f"{len(cubes)} at positions {cubes}",
                )
            return join_epilogue(nodes, works, internal, self._soc)
        joined = self._chain(nodes, self._opset, self._context) if self._chain is not None else None
        if joined is None:
            raise CompileError(
                Subject.of("vector work"),
                "must join to one program",
                " and ".join(node.op_type for node in nodes),
            )
        return joined

    def _pair(
        self, nodes: Sequence[Node], works: Sequence[Work], internal: Sequence[Tensor], second: int
    ) -> CubePair:
        """Two convolutions, each with the elementwise work behind it."""
        handed = nodes[second].required(0)
        inside = [tensor for tensor in internal if tensor is not handed]
        first = join_epilogue(nodes[:second], works[:second], inside, self._soc)
        return CubePair(first, join_epilogue(nodes[second:], works[second:], inside, self._soc))


def _shared_sum(work: Work, cores: int) -> bool:
    """Whether cores add up parts of one row, which meet in global memory."""
    return isinstance(work, VectorWork) and work.reduces == "cols" and cores > work.rows


def _operand_bytes(scope: FusedScope) -> int:
    return scope.operand_bytes


def moved_bytes(stages: Iterable[Stage]) -> Counter[tuple[str, bool]]:
    """Bytes that programs move between global memory and the chip, by region and direction (True =
    written).
    """
    return _moved(access for stage in stages for access in accesses_of(stage.groups, stage.sizes))


def _moved(accesses: Iterable[Access]) -> Counter[tuple[str, bool]]:
    moved: Counter[tuple[str, bool]] = Counter()
    for access in accesses:
        moved[access.region, access.write] += access.moved_bytes
    return moved


# ------------------------------------------------------------------------------------------------------- Cube


def join_epilogue(
    nodes: Sequence[Node], works: Sequence[Work], internal: Sequence[Tensor], soc: SocSpec
) -> CubeWork:
    """Elementwise work behind Cube work as its epilogue.

    Args:
        nodes: The Cube's node first.
        works: Of the single nodes.
        internal: Tensors that need no memory; the last node's first output is none of them.
        soc: The chip; on split cores only what FIXPIPE does on the way has a program.

    Raises:
        CompileError: Says which node does not fit.
    """
    head = works[0]
    assert isinstance(head, CubeWork)
    hidden = {tensor.name for tensor in internal}
    rows, columns = _rows_and_columns(head)
    steps, inputs = list(head.epilogue), list(head.epilogue_inputs)
    sides: list[SideOutput] = [] if head.out.region in hidden else [SideOutput(head.out, len(steps))]
    made = {head.out.region: head.out}
    widened: set[str] = set()  # bytes made here that a reader before has brought to its computing type
    last = head.out
    sums: tuple[ColumnSum, ...] = ()
    for node, work in zip(nodes[1:], works[1:], strict=True):
        if sums:
            raise CompileError(
                node_subject(node),
                "must not follow sums over the Cube's result in one task",
            )
        if (
            isinstance(work, VectorWork)
            and work.reduces == "rows"
            and all(stream.over == "col" for stream in work.outputs)
        ):
            sums = _column_sums(node, work, last, columns)
            continue
        if (
            not isinstance(work, VectorWork)
            or work.reduces != "none"
            or work.gather_bytes
            or len(work.outputs) != 1
        ):
            raise CompileError(node_subject(node), "must be elementwise to run on the Cube's result")
        for stream in work.inputs:
            if stream.ref.region in made:
                if stream.over != "all":
                    raise CompileError(
                        node_subject(node),
                        "must not broadcast what the Cube made",
                        stream.over,
                    )
                continue
            if _serves_several(stream, head, inputs):
                stream = Stream(stream.ref)
            else:
                _check_operand(node, work, stream, head, (rows, columns))
            if stream not in inputs:
                inputs.append(stream)
        result = work.outputs[0].ref
        if (
            work.outputs[0].over != "all"
            or result.format is not head.out.format
            or result.shape != head.out.shape
        ):
            raise CompileError(node_subject(node), "must keep shape and format of the Cube's result")
        steps += _without_repeated_conversions(work, made, widened)
        made[result.region] = last = result
        if result.region not in hidden:
            sides.append(SideOutput(result, len(steps)))
    if soc.split_cores and (
        not fixpipe_takes(steps) or len(inputs) > len(head.epilogue_inputs) or sums or len(sides) != 1
    ):
        raise CompileError(
            Subject.of("a fused task on split cores"),
            "takes only what FIXPIPE does on its way: one ReLU",
            " and ".join(node.op_type for node in nodes[1:]),
            "cube and vector cores of this chip exchange data through global memory",
        )
    live = most_values(nodes)
    return replace(
        head,
        out=last,
        epilogue=tuple(steps),
        epilogue_inputs=tuple(inputs),
        epilogue_values=live,
        side_outputs=tuple(side for side in sides if side.ref is not last),
        sums=sums,
    )


def _without_repeated_conversions(
    work: VectorWork, made: Mapping[str, Ref], widened: set[str]
) -> tuple[Step, ...]:
    """Steps that begin with conversions of bytes, less those of what an earlier reader has converted."""
    first = work.steps[0]
    if first.op != "vconv":
        return work.steps
    regions = [stream.ref.region for stream in work.inputs]
    read = [name for name in regions if name in made and made[name].dtype.itemsize == 1]
    left = first.count - sum(region in widened for region in read)
    widened.update(read)
    return (*((replace(first, count=left),) if left > 0 else ()), *work.steps[1:])


def _column_sums(node: Node, work: VectorWork, result: Ref, columns: int) -> tuple[ColumnSum, ...]:
    """Sums over the rows of a Cube's result as parts of its way out.

    Raises:
        CompileError: If the node does anything else, or does it to another tensor.
    """
    subject = node_subject(node)
    if [stream.ref.region for stream in work.inputs] != [result.region] or work.cols != columns:
        raise CompileError(
            subject, "must add up the columns of what the Cube made", f"{work.cols} columns for {columns}"
        )
    sums: list[ColumnSum] = []
    steps: list[Step] = []
    for step in work.steps:
        if step.op == "vadd" and step.over == "all" and len(sums) < len(work.outputs):
            sums.append(ColumnSum(work.outputs[len(sums)].ref, tuple(steps), step))
            steps = []
        else:
            steps.append(step)
    if steps or len(sums) != len(work.outputs):
        raise CompileError(subject, "must be sums of each column to run on the Cube's result")
    return tuple(sums)


def _rows_and_columns(head: CubeWork) -> tuple[int, int]:
    """Rows and columns of the result as vector work walks over it: positions and channels."""
    total = head.out.bytes // head.out.dtype.itemsize
    if head.out.format is Format.NC1HWC0 and len(head.out.shape) == 4:
        columns = align(head.out.shape[1], c0(head.out.dtype))
    elif head.out.format is Format.FRACTAL_NZ:
        columns = align(head.out.shape[-1], c0(head.out.dtype))
    elif head.conv is None:
        columns = head.n
    else:
        columns = 1  # row-major maps: channels are rows
    return total // columns, columns


def _check_operand(
    node: Node, work: VectorWork, stream: Stream, head: CubeWork, size: tuple[int, int]
) -> None:
    """Whether a second operand can be brought next to a tile of the Cube's result.

    Raises:
        CompileError: If not.
    """
    subject = Subject.of("operand ", Named("tensor", stream.ref.region), " of ", *node_subject(node).parts)
    if stream.over == "all" and (
        stream.ref.format is not head.out.format or stream.ref.shape != head.out.shape
    ):
        raise CompileError(
            subject,
            f"must have format {head.out.format.value} and the shape of the Cube's result",
            stream.ref.format.value,
        )
    if stream.over == "col" and work.cols != size[1]:
        raise CompileError(
            subject,
            "must be full, one value or one value a channel",
            f"{work.cols} values for {size[1]} channels",
        )
    if stream.over == "row":
        raise CompileError(subject, "must be full, one value or one value a channel", "one value a position")


def _serves_several(stream: Stream, head: CubeWork, others: Sequence[Stream]) -> bool:
    """Whether each matrix of an operand goes with several products of a batch (a mask with all heads of its
    image), while `others`, if they do, go on or begin again after as many.
    """
    ref, out = stream.ref, head.out
    found = ref.matrices(out)
    if found is None or ref.shape == out.shape or ref.format is not out.format or ref.dtype is not out.dtype:
        return False
    if head.conv is not None or head.b_shared or ref.bits_of is not None:
        return False
    each, count = found
    periods = {other.ref.period(out) for other in others if other.over == "all"} - {None}
    return (each == 1 or count == 1 or each * count == head.batch) and periods <= {ref.period(out), None}


def most_values(nodes: Sequence[Node]) -> int:
    """How many tensors made in a scope are needed at once besides the one that a node writes (at least 1, the
    scratch tile).
    """
    own = set(nodes)
    position = {node: number for number, node in enumerate(nodes)}
    most = 1
    for number in range(1, len(nodes)):
        alive = 0
        for node in nodes[:number]:
            for tensor in node.outputs:
                readers = [position[consumer] for consumer in tensor.consumers if consumer in own]
                alive += any(reader >= number for reader in readers)
        most = max(most, alive)
    return most
