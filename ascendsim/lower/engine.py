"""Which engine runs a node, and the work that it asks for."""

from __future__ import annotations

from ascendsim.core.errors import FIXED_SHAPES, CompileError
from ascendsim.graph.ir import Graph, Node
from ascendsim.opset import OpSet
from ascendsim.opset.regions import AnyWork, refs_of, with_regions
from ascendsim.opset.work import (
    WORKSPACE,
    AiCpuWork,
    AttentionWork,
    FinishedProduct,
    LowerContext,
    NoTask,
    SequenceWork,
    StagedProduct,
    Work,
)

Scratching = SequenceWork | AttentionWork | StagedProduct | FinishedProduct  # has scratch regions


def check_static(graph: Graph) -> None:
    """Makes sure that every tensor has a static shape and a type.

    Raises:
        CompileError: Names the first tensor that has not.
    """
    for tensor in graph.tensors.values():
        if tensor.is_static and tensor.dtype is not None:
            continue
        if not (tensor.uses or tensor.producer is not None or tensor in graph.inputs):
            continue
        if not tensor.is_static:
            shape = "unknown rank" if tensor.shape is None else list(tensor.shape)
            inputs = ", ".join(t.name for t in graph.inputs if not t.is_static) or ", ".join(
                t.name for t in graph.inputs
            )
            raise CompileError(
                f"tensor {tensor.name!r}",
                "must have a static shape",
                shape,
                f"{FIXED_SHAPES} (inputs: {inputs})",
            )
        if tensor.dtype is None:
            raise CompileError(
                f"tensor {tensor.name!r}", "must have an element type", remedy="run shape inference first"
            )


def work_of(node: Node, opset: OpSet, context: LowerContext) -> Work:
    """The node's work.

    An operator without a `lower` function, and one that CANN runs on the AI CPU of this chip, is AI CPU work,
    unless it asks for nothing to run at all. Nodes whose results are empty run nothing.

    Raises:
        UnsupportedOperatorError: If the operator is not in the set.
    """
    if all(tensor.elements == 0 for tensor in node.outputs):
        return NoTask()
    definition = opset.get(node)
    on_cpu = opset.on_ai_cpu(node, context.aicpu_types)
    work = definition.work(node, context)
    if isinstance(work, NoTask):
        return work if _is_free(node, work) else AiCpuWork.of(node)
    if work is None or (on_cpu and not isinstance(work, AiCpuWork)):
        return AiCpuWork.of(node)
    return work


def _is_free(node: Node, work: NoTask) -> bool:
    """Whether all outputs that anybody reads are empty or share their memory with inputs."""
    named = {name for pair in work.aliases for name in pair} | {
        name for piece in work.slices for name in (piece.region, piece.whole)
    }
    return (
        all(tensor.name in named or tensor.elements == 0 or not tensor.uses for tensor in node.outputs)
        or node.input_count == 0
    )


def workspace_name(node: str) -> str:
    """Name of a node's scratch region."""
    return f"{node}/workspace"


def with_workspace(work: AnyWork, name: str) -> AnyWork:
    """The work with the scratch regions under names of their own."""
    return with_regions(
        work, lambda region: name + region[len(WORKSPACE) :] if region.startswith(WORKSPACE) else region
    )


def workspaces_of(work: Scratching, name: str) -> dict[str, int]:
    """Bytes of the scratch regions of work whose region is called `name`: the common one, and those of single
    tensors.
    """
    common = work.workspace_bytes if isinstance(work, SequenceWork) else 0
    found: dict[str, int] = {name: common} if common else {}
    for ref in refs_of(work):
        if ref.region.startswith(f"{name}/"):
            found[ref.region] = max(ref.bytes, found.get(ref.region, 0))
    return found
