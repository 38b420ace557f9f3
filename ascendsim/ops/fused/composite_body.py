"""The body of a composite as work: sets of its nodes as phases of one task, with what passes between phases
in workspace.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.ops.fused.chain import COPIES, chain_work
from ascendsim.ops.fused.chain_space import REDUCTIONS
from ascendsim.ops.fused.program import renamed
from ascendsim.opset import OpSet
from ascendsim.opset.regions import with_regions
from ascendsim.opset.work import AiCpuWork, CubeWork, LowerContext, Ref, VectorWork, Work, workspace_of


class Body:
    """A body with its tensors' places in global memory.

    Args:
        graph: Of the composite.
        outer: Global memory of its inputs and outputs.
        opset: Operators.
        context: The chip.
    """

    def __init__(
        self, graph: Graph, outer: Mapping[Tensor, Ref], opset: OpSet, context: LowerContext
    ) -> None:
        self.graph, self.opset, self.context = graph, opset, context
        self.order = graph.topological()
        self.renaming: dict[Tensor, tuple[Node, Tensor]] = {}
        for node in self.order:
            source = renamed(node)
            if source is not None:
                self.renaming[node.output] = (node, source)
        self.nodes = [node for node in self.order if node.output not in self.renaming]  # those that compute
        self.refs = dict(outer)
        for tensor in graph.outputs:  # what is read of an output under its first name lies in the output
            self.refs.setdefault(self.root(tensor), outer[tensor])
        self.copied = [tensor for tensor in graph.outputs if self.root(tensor).producer is None]
        self.readers: dict[Tensor, set[Node]] = {}
        for node in self.nodes:
            for tensor in self.reads(node):
                self.readers.setdefault(tensor, set()).add(node)
        self._works: dict[Node, Work] = {}
        self._chains: dict[tuple[tuple[Node, ...], tuple[Tensor, ...]], VectorWork | CubeWork | None] = {}

    def root(self, tensor: Tensor) -> Tensor:
        """The tensor whose elements a tensor has."""
        while tensor in self.renaming:
            tensor = self.renaming[tensor][1]
        return tensor

    def reads(self, node: Node) -> list[Tensor]:
        """What a node reads, under its first name."""
        return [self.root(tensor) for tensor in node.inputs if tensor is not None]

    def ref(self, tensor: Tensor) -> Ref:
        """Where a tensor lies: outside, or in a workspace of its own."""
        known = self.refs.get(tensor)
        if known is not None:
            return known
        own = Ref.of(tensor)
        return own if tensor.is_constant else replace(own, region=workspace_of(tensor.name))

    def bytes(self, tensor: Tensor) -> int:
        """Bytes of a tensor in memory."""
        return self.ref(tensor).bytes

    def is_elementwise(self, node: Node) -> bool:
        """Whether every element of the result follows from single elements of what the node reads."""
        if (node.domain, node.op_type) in COPIES:
            return True
        work = self.lowered(node)
        return (
            isinstance(work, VectorWork)
            and work.reduces == "none"
            and not work.gather_bytes
            and node.op_type not in REDUCTIONS
        )

    def reduces(self, node: Node) -> bool:
        """Whether a node folds or normalises."""
        work = self.lowered(node)
        return isinstance(work, VectorWork) and work.reduces != "none"

    def lowered(self, node: Node) -> Work:
        """The node's own work."""
        if node not in self._works:
            definition = self.opset.get(node)
            on_cpu = self.opset.on_ai_cpu(node, self.context.aicpu_types)
            work = None if on_cpu else definition.work(node, self.context)
            self._works[node] = work or AiCpuWork.of(node)
        return self._works[node]

    def single(self, node: Node) -> Work:
        """A node that is a phase alone: its own work, constants of one element in the instructions."""
        tensors = {
            t.name: self.ref(self.root(t)).region for t in (*node.inputs, *node.outputs) if t is not None
        }
        work = with_regions(self.lowered(node), lambda name: tensors.get(name, name))
        if isinstance(work, VectorWork):
            numbers = {
                t.name
                for t in node.inputs
                if t is not None and t.constant is not None and t.constant.available and t.elements == 1
            }
            kept = tuple(
                stream for stream in work.inputs if stream.over != "one" or stream.ref.region not in numbers
            )
            return replace(work, inputs=kept)
        return work

    def joined(self, nodes: Sequence[Node], written: Sequence[Tensor]) -> VectorWork | CubeWork | None:
        """Nodes as one phase that stores some tensors; None if they do not fit together."""
        key = tuple(nodes), tuple(written)
        if key not in self._chains:
            head = self.lowered(nodes[0]) if len(nodes) > 1 else None
            self._chains[key] = (
                self._with_epilogue(head, nodes, written)
                if isinstance(head, CubeWork)
                else self._chain(nodes, written)
            )
        return self._chains[key]

    def copies(self) -> VectorWork | None:
        """Outputs that are inputs under another name."""
        return self._chain((), self.copied)

    def _chain(self, nodes: Sequence[Node], written: Sequence[Tensor]) -> VectorWork | None:
        return chain_work(
            self._with_names(nodes, written),
            self.opset,
            self.context,
            outputs=written,
            ref=self.ref,
            immediates=True,
        )

    def _with_epilogue(
        self, head: CubeWork, nodes: Sequence[Node], written: Sequence[Tensor]
    ) -> CubeWork | None:
        """A Cube operator with elementwise ones behind it, on every tile on its way out."""
        product = nodes[0].output
        rest = self._with_names(nodes[1:], written)
        chain = chain_work(
            rest,
            self.opset,
            self.context,
            outputs=written,
            ref=lambda t: Ref.of(t) if t is product else self.ref(t),
            immediates=True,
        )
        if chain is None or len(chain.outputs) != 1 or chain.reduces != "none" or product in written:
            return None
        if chain.rows * chain.cols != product.elements or any(
            stream.over not in ("all", "one") for stream in chain.inputs
        ):
            return None
        others = tuple(stream for stream in chain.inputs if stream.ref.region != product.name)
        if len(others) == len(chain.inputs):
            return None
        out = replace(chain.outputs[0].ref, shape=head.out.shape, format=head.out.format)
        moved = self.single(nodes[0])
        assert isinstance(moved, CubeWork)
        return replace(moved, out=out, epilogue=chain.steps, epilogue_inputs=others)

    def _with_names(self, nodes: Sequence[Node], outputs: Sequence[Tensor]) -> list[Node]:
        """The nodes of a phase with the renaming nodes between, before and behind them."""
        needed: set[Node] = set()
        for tensor in [*(t for node in nodes for t in node.inputs if t is not None), *outputs]:
            while tensor in self.renaming:
                node, tensor = self.renaming[tensor]
                needed.add(node)
        chosen = {*nodes, *needed}
        return [node for node in self.order if node in chosen]

    def stored(self, made: Collection[Tensor], wanted: Collection[Tensor]) -> list[Tensor]:
        """What a phase stores: outputs of the body among the tensors that it makes, and those that are wanted
        by others.
        """
        chosen: dict[str, Tensor] = {}
        for tensor in self.graph.outputs:
            if self.root(tensor) in made:
                chosen[self.ref(tensor).region] = tensor
        for tensor in wanted:
            chosen.setdefault(self.ref(tensor).region, tensor)
        order = {tensor: place for place, tensor in enumerate(self.graph.tensors.values())}
        return sorted(chosen.values(), key=lambda tensor: order[tensor])
