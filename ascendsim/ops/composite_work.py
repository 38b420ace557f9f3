"""The work of a composite: its body in as few phases as there are iteration spaces, all in one task.

Most bodies are one chain and so one phase: nothing but their inputs and outputs touches global memory. Reductions over different axes,
matrix products and transposes start phases of their own; what passes from phase to phase lies in the task's workspace.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from ascendsim.core.errors import GraphError
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.ops.fused_chain import chain_work
from ascendsim.ops.fused_program import renamed
from ascendsim.opset import OpSet
from ascendsim.opset.work import (
    WORKSPACE,
    AiCpuWork,
    CubeWork,
    LowerContext,
    MoveWork,
    NoTask,
    Ref,
    ScalarWork,
    SequenceWork,
    VectorWork,
    Work,
)

AnyWork = TypeVar("AnyWork")
Part = CubeWork | VectorWork | MoveWork | ScalarWork


def composite_work(body: Graph, outer: Mapping[Tensor, Ref], opset: OpSet, context: LowerContext) -> Work:
    """The work of a body.

    Args:
        body: Graph of the composite.
        outer: Global memory of its inputs and outputs.
        opset: Operators.
        context: The chip.

    Raises:
        GraphError: If an operator repeats work in a way that cannot be part of a composite; names it.
    """
    return _Phases(body, outer, opset, context).work()


class _Phases:
    """Deals the nodes of a body out to phases."""

    def __init__(self, body: Graph, outer: Mapping[Tensor, Ref], opset: OpSet, context: LowerContext) -> None:
        self.body, self.opset, self.context = body, opset, context
        self.renaming: dict[Tensor, tuple[Node, Tensor]] = {}
        for node in body.nodes:
            source = renamed(node)
            if source is not None:
                self.renaming[node.output] = (node, source)
        self.refs = dict(outer)
        for tensor in body.outputs:  # what later phases read of an output under its first name lies in the output
            self.refs.setdefault(self.root(tensor), outer[tensor])
        self.phases: list[list[Node]] = []
        self.home: dict[Tensor, int] = {}
        self.readers: dict[Tensor, set[Node]] = {}
        for node in body.nodes:
            for given in node.inputs:
                if given is not None and node.output not in self.renaming:
                    self.readers.setdefault(self.root(given), set()).add(node)

    def root(self, tensor: Tensor) -> Tensor:
        """The tensor whose elements a tensor has."""
        while tensor in self.renaming:
            tensor = self.renaming[tensor][1]
        return tensor

    def ref(self, tensor: Tensor) -> Ref:
        """Where a tensor lies: outside, or in the workspace."""
        known = self.refs.get(tensor)
        if known is not None:
            return known
        own = Ref.of(tensor)
        return own if tensor.is_constant else replace(own, region=WORKSPACE)

    def work(self) -> Work:
        """The whole."""
        whole = [node for node in self.body.topological() if node.output not in self.renaming]
        if whole and self.part(whole) is not None:
            self.phases = [whole]
        else:
            for node in whole:
                self.place(node)
        moved = [t for t in self.body.outputs if self.root(t).producer is None]
        if moved:
            self.phases.append([])  # outputs that are inputs under another name are copied
        works = [self.part(phase, copies=moved if not phase else ()) or self.single(phase[0]) for phase in self.phases]
        if any(isinstance(work, AiCpuWork) for work in works):
            return self.on_ai_cpu(works)
        parts: list[Part] = []
        for work, phase in zip(works, self.phases, strict=True):
            if isinstance(work, SequenceWork) and work.repeat == 1 and not work.workspace_bytes:
                parts.extend(work.parts)
            elif isinstance(work, (CubeWork, VectorWork, MoveWork, ScalarWork)):
                parts.append(work)
            elif not isinstance(work, NoTask):
                raise GraphError(f"node {phase[0].name!r} ({phase[0].op_type})", "cannot be part of a composite", remedy="leave it out")
        if len(parts) <= 1:
            return parts[0] if parts else NoTask()
        scratch = {self.root(t) for t in self.home if self.ref(self.root(t)).region == WORKSPACE and self.crosses(self.root(t))}
        return SequenceWork(tuple(parts), workspace_bytes=sum(tensor.storage_bytes for tensor in scratch))

    def place(self, node: Node) -> None:
        """Puts a node into the first phase that can take it, behind all that it reads."""
        inputs = [self.root(tensor) for tensor in node.inputs if tensor is not None]
        first = max((self.home[tensor] for tensor in inputs if tensor in self.home), default=0)
        for number in range(first, len(self.phases)):
            if self.part([*self.phases[number], node]) is not None:
                self.phases[number].append(node)
                break
        else:
            number = len(self.phases)
            self.phases.append([node])
        self.home.update(dict.fromkeys(node.outputs, number))

    def part(self, nodes: Sequence[Node], copies: Sequence[Tensor] = ()) -> VectorWork | CubeWork | None:
        """The nodes as one phase; None if they do not fit together."""
        if copies:
            return chain_work(self.with_names(nodes, copies), self.opset, self.context, outputs=copies, ref=self.ref, immediates=True)
        if len(nodes) > 1:
            head = self.lowered(nodes[0])
            if isinstance(head, CubeWork):
                return self.with_epilogue(head, nodes)
        written = self.written(nodes)
        return chain_work(self.with_names(nodes, written), self.opset, self.context, outputs=written, ref=self.ref, immediates=True)

    def with_epilogue(self, head: CubeWork, nodes: Sequence[Node]) -> CubeWork | None:
        """A Cube operator with elementwise ones behind it, on every tile on its way out."""
        product = nodes[0].output
        written = self.written(nodes)
        rest = self.with_names(nodes[1:], written)
        chain = chain_work(
            rest, self.opset, self.context, outputs=written, ref=lambda t: Ref.of(t) if t is product else self.ref(t), immediates=True
        )
        if chain is None or len(chain.outputs) != 1 or chain.reduces != "none" or product in written:
            return None
        if chain.rows * chain.cols != product.elements or any(stream.over not in ("all", "one") for stream in chain.inputs):
            return None
        others = tuple(stream for stream in chain.inputs if stream.ref.region != product.name)
        if len(others) == len(chain.inputs):
            return None
        out = replace(chain.outputs[0].ref, shape=head.out.shape, format=head.out.format)
        return replace(self.relocated(head, nodes[0]), out=out, epilogue=chain.steps, epilogue_inputs=others)

    def single(self, node: Node) -> Work:
        """A node that is a phase alone."""
        return self.relocated(self.lowered(node), node)

    def lowered(self, node: Node) -> Work:
        definition = self.opset.get(node)
        on_cpu = self.opset.cann_type(node) in self.context.aicpu_types
        work = definition.lower(node, self.context) if definition.lower is not None and not on_cpu else None
        if work is None:
            inputs = tuple(Ref.of(tensor) for tensor in node.inputs if tensor is not None)
            outputs = tuple(Ref.of(tensor) for tensor in node.outputs)
            return AiCpuWork(max((math.prod(ref.shape) for ref in inputs + outputs), default=0), 1.0, inputs, outputs)
        return work

    def relocated(self, work: AnyWork, node: Node) -> AnyWork:
        """The work with the memory of the body's tensors in place of their names."""
        tensors = {t.name: self.ref(self.root(t)).region for t in (*node.inputs, *node.outputs) if t is not None}
        moved: AnyWork = _renamed_regions(work, tensors)
        return moved

    def with_names(self, nodes: Sequence[Node], outputs: Sequence[Tensor]) -> list[Node]:
        """The nodes of a phase with the renaming nodes between, before and behind them."""
        needed: set[Node] = set()
        for tensor in [*(t for node in nodes for t in node.inputs if t is not None), *outputs]:
            while tensor in self.renaming:
                node, tensor = self.renaming[tensor]
                needed.add(node)
        chosen = {*nodes, *needed}
        return [node for node in self.body.topological() if node in chosen]

    def crosses(self, tensor: Tensor) -> bool:
        """Whether readers in other phases need a tensor."""
        return any(self.home.get(reader.output) != self.home.get(tensor) for reader in self.readers.get(tensor, ()))

    def written(self, nodes: Collection[Node]) -> list[Tensor]:
        """What a phase must store: outputs of the body, and what readers outside the phase need."""
        inside = set(nodes)
        made = {tensor for node in nodes for tensor in node.outputs}
        chosen: dict[str | Tensor, Tensor] = {}
        for tensor in self.body.outputs:
            if self.root(tensor) in made:
                chosen[self.ref(tensor).region] = tensor
        for tensor in made:
            if not self.readers.get(tensor, set()) <= inside:
                region = self.ref(tensor).region
                chosen.setdefault(tensor if region == WORKSPACE else region, tensor)
        order = {tensor: place for place, tensor in enumerate(self.body.tensors.values())}
        return sorted(chosen.values(), key=lambda tensor: order[tensor])

    def on_ai_cpu(self, works: Sequence[Work]) -> AiCpuWork:
        """A body with an operator that the AI Core lacks runs on the AI CPU as a whole."""
        elements = [tensor.elements for node in self.body.nodes for tensor in node.outputs if tensor not in self.renaming]
        given = [work for work in works if isinstance(work, AiCpuWork)]
        extra = sum(work.elements * (work.operations - 1.0) for work in given)
        total = max(1, sum(elements))
        inputs = tuple(self.refs[tensor] for tensor in self.body.inputs)
        outputs = tuple(self.refs[tensor] for tensor in self.body.outputs)
        return AiCpuWork(total, 1.0 + max(0.0, extra) / total, inputs, outputs)


def _renamed_regions(work: Any, regions: Mapping[str, str]) -> Any:
    """The work with other names of global memory."""
    if isinstance(work, Ref):
        return replace(work, region=regions.get(work.region, work.region))
    if isinstance(work, tuple):
        return tuple(_renamed_regions(item, regions) for item in work)
    if is_dataclass(work) and not isinstance(work, type):
        return replace(work, **{field.name: _renamed_regions(getattr(work, field.name), regions) for field in fields(work)})
    return work
