"""A compiled graph at another batch, and blocks of a graph cut into smaller batches.

    before   x[8] -> conv -> relu -> y[8]
    after    x[8] -> Split (no task) -> x0[2] -> conv_l2split0 -> relu_l2split0 -> y0[2] --+
                                        x1[2] -> conv_l2split1 -> relu_l2split1 -> y1[2] --+-> Concat -> y[8]
                                        ...

All nodes of one pass run before those of the next, so what is between them needs room for one small batch
only. Parts of x and y are slices of their memory: Split and Concat along the outermost axis move nothing.
Names end as in CANN ("_l2split0": FE, l2_fusion_comm.cc).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ascendsim.core.errors import CompileError
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.graph.scopes import SCOPE, next_scope
from ascendsim.passes.l2.sample_axis import BatchAxis, can_be_cut
from ascendsim.passes.rewriting.replace import replacing

SUFFIX = "_l2split"
BLOCK = "l2_block"  # key in Node.origin: number of the block that a node was cut with
TWIN_OF = "l2_split_of"  # key in Node.origin: name of the node that a node of a pass was made from


@dataclass(frozen=True, slots=True)
class BatchBlock:
    """Nodes that run in several passes.

    Attributes:
        nodes: Names in execution order.
        batch: Samples of one pass.
    """

    nodes: tuple[str, ...]
    batch: int


def at_batch(graph: Graph, axis: BatchAxis, batch: int) -> Graph:
    """A copy of a compiled graph in which everything that runs on a part of the batch has `batch` samples.

    Other nodes keep their shapes: the copy tells what tasks cost, its values mean nothing.
    """
    small = copy_graph(graph)
    for node in small.nodes:
        if node.name in axis.nodes:
            _fit_shape_input(small, node, axis, batch)
    for name in axis.factors:
        tensor = small.tensors[name]
        tensor.shape = axis.rows(tensor, batch)
    return small


def block_border(graph: Graph, axis: BatchAxis, nodes: Sequence[Node]) -> tuple[list[Tensor], list[Tensor]]:
    """Tensors with the batch that a block reads from outside, and those that somebody outside reads."""
    inside = set(nodes)
    outputs = {id(tensor) for tensor in graph.outputs}
    read = [
        tensor
        for node in nodes
        for tensor in node.inputs
        if tensor is not None and tensor.producer not in inside
    ]
    taken = [tensor for tensor in dict.fromkeys(read) if tensor.name in axis.factors]
    made = [tensor for node in nodes for tensor in node.outputs]
    given = [
        tensor
        for tensor in made
        if id(tensor) in outputs or any(consumer not in inside for consumer in tensor.consumers)
    ]
    return taken, given


def refusal(
    graph: Graph, axis: BatchAxis, nodes: Sequence[Node], no_task: Collection[str] = ()
) -> str | None:
    """Why nodes cannot run in passes as one block; None if they can.

    Args:
        graph: The compiled graph.
        axis: Of the graph.
        nodes: A run of nodes in execution order.
        no_task: Names of nodes without a task: their outputs are other names of memory and cannot be slices
            of something else.
    """
    for node in nodes:
        if node.name not in axis.nodes:
            return f"{node.name!r} ({node.op_type}) cannot run on a part of the batch"
    taken, given = block_border(graph, axis, nodes)
    for tensor in (*taken, *given):
        if not can_be_cut(tensor):
            return f"{tensor.name!r} cannot be cut into batches in format {tensor.format.value}"
    for tensor in given:
        if tensor.producer is not None and tensor.producer.name in no_task:
            return f"{tensor.name!r} has no memory of its own"
    inside = set(nodes)
    for tensor in taken:
        if any(user in inside and _holds_inputs(user, no_task) for user in tensor.consumers):
            return f"{tensor.name!r} lies in the memory of another tensor already"
    return None


def _holds_inputs(node: Node, no_task: Collection[str]) -> bool:
    """Whether what a node reads lies in the memory of its result."""
    return node.op_type == "StridedWrite" or (node.op_type == "Concat" and node.name in no_task)


def cut_blocks(graph: Graph, axis: BatchAxis, blocks: Sequence[BatchBlock]) -> None:
    """Cuts blocks into smaller batches, in place.

    Args:
        graph: The compiled graph.
        axis: Of the graph.
        blocks: Without common nodes; each a run of nodes in execution order.

    Raises:
        CompileError: If a node cannot run on a part of the batch, a tensor on a block's border cannot be cut,
            or the batch of a pass does not divide the whole.
    """
    order: list[Node] = graph.topological()
    scopes = next_scope(graph)
    replaced: dict[Node, list[Node]] = {}
    for number, block in enumerate(blocks):
        nodes = [graph.node(name) for name in block.nodes]
        cutter = _Cutter(graph, axis, block, nodes, number, scopes)
        first, *others = nodes
        with replacing(graph, nodes, sources=False):
            replaced[first] = cutter.run()
            for node in reversed(nodes):
                graph.remove_node(node)
        replaced.update((node, []) for node in others)
        scopes += len({node.origin[SCOPE] for node in nodes if SCOPE in node.origin}) * (
            axis.batch // block.batch
        )
    graph.reorder([new for node in order for new in replaced.get(node, [node])])


class _Cutter:
    """Cuts one block."""

    def __init__(
        self, graph: Graph, axis: BatchAxis, block: BatchBlock, nodes: list[Node], number: int, scopes: int
    ) -> None:
        self.graph, self.axis, self.block, self.nodes, self.number, self.scopes = (
            graph,
            axis,
            block,
            nodes,
            number,
            scopes,
        )
        self._check()
        self.passes = axis.batch // block.batch

    def _check(self) -> None:
        if not 1 <= self.block.batch < self.axis.batch or self.axis.batch % self.block.batch:
            raise CompileError(
                "batch of a pass", f"must divide {self.axis.batch} and be smaller", self.block.batch
            )
        reason = refusal(self.graph, self.axis, self.nodes)
        if reason is not None:
            raise CompileError(f"block of node {self.nodes[0].name!r}", f"cannot be cut: {reason}")

    def run(self) -> list[Node]:
        """Makes Split nodes, the nodes of all passes, and Concat nodes, in the order of execution."""
        taken, given = block_border(self.graph, self.axis, self.nodes)
        made: list[Node] = []
        parts: dict[Tensor, list[Tensor]] = {}
        for tensor in taken:
            names = [self.graph.fresh(f"{tensor.name}{SUFFIX}{number}") for number in range(self.passes)]
            split = self.graph.add_node(
                "Split", [tensor], names, name=self.graph.fresh(f"{tensor.name}{SUFFIX}")
            )
            split.attributes.update({"axis": 0, "num_outputs": self.passes, "no_task": 1})
            for part in split.outputs:
                self._like(part, tensor)
            parts[tensor] = list(split.outputs)
            made.append(split)
        groups = {
            scope: place
            for place, scope in enumerate(
                dict.fromkeys(n.origin[SCOPE] for n in self.nodes if SCOPE in n.origin)
            )
        }
        copies: list[dict[Tensor, Tensor]] = []
        for number in range(self.passes):
            twins = {tensor: outputs[number] for tensor, outputs in parts.items()}
            made += [self._twin(node, twins, number, groups) for node in self.nodes]
            copies.append(twins)
        made += [self._joined(tensor, [twins[tensor] for twins in copies]) for tensor in given]
        for split in made:
            split.origin.setdefault(BLOCK, self.number)
        return made

    def _twin(self, node: Node, twins: dict[Tensor, Tensor], number: int, groups: Mapping[int, int]) -> Node:
        inputs = [None if tensor is None else twins.get(tensor, tensor) for tensor in node.inputs]
        names = [self.graph.fresh(f"{tensor.name}{SUFFIX}{number}") for tensor in node.outputs]
        name = self.graph.fresh(f"{node.name}{SUFFIX}{number}")
        twin = self.graph.add_node(node.op_type, inputs, names, name=name, domain=node.domain)
        twin.attributes.update(node.attributes)
        twin.origin.update({**node.origin, TWIN_OF: node.name})
        if SCOPE in node.origin:
            twin.origin[SCOPE] = self.scopes + number * len(groups) + groups[node.origin[SCOPE]]
        for tensor, copy in zip(node.outputs, twin.outputs, strict=True):
            self._like(copy, tensor)
            twins[tensor] = copy
        _fit_shape_input(self.graph, twin, self.axis, self.block.batch, node)
        return twin

    def _joined(self, tensor: Tensor, parts: list[Tensor]) -> Node:
        """A Concat that makes a tensor of its parts; the node that made it gets a stand-in that nobody
        reads.
        """
        maker = tensor.producer
        assert maker is not None
        stand_in = self.graph.add_tensor(
            Tensor(self.graph.fresh(f"{tensor.name}_unsplit"), tensor.dtype, tensor.shape, tensor.format)
        )
        maker.outputs[tensor.index] = stand_in
        stand_in.producer, stand_in.index = maker, tensor.index
        for use in tensor.uses:
            if use.node in self.nodes:
                use.node.set_input(use.index, stand_in)
        tensor.producer = None
        concat = self.graph.add_node(
            "Concat", parts, [tensor], name=self.graph.fresh(f"{tensor.name}{SUFFIX}")
        )
        concat.attributes.update({"axis": 0, "no_task": 1})
        return concat

    def _like(self, part: Tensor, whole: Tensor) -> None:
        part.dtype, part.origin_dtype, part.format = whole.dtype, whole.origin_dtype, whole.format
        part.shape = self.axis.rows(whole, self.block.batch)


def _fit_shape_input(
    graph: Graph, node: Node, axis: BatchAxis, batch: int, original: Node | None = None
) -> None:
    """Gives a node that is told the shape of its result that of a smaller batch."""
    whole = original or node
    port = axis.shape_ports.get(whole.name)
    if port is None:
        return
    rows = axis.rows(whole.output, batch)
    wanted = np.asarray([rows[int(at)] for at in node.attr("axes") or range(len(rows))], np.int64)
    node.set_input(port, graph.add_constant(graph.fresh(f"{node.name}_shape"), wanted))
