"""What the rules for strided writes and reads share: chains behind a convolution, and which tensors may be
slices of others.
"""

from __future__ import annotations

from collections.abc import Sequence

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.passes.fusion.rule import FusionContext

CHANNELS = 1  # axis
CONVOLUTIONS = frozenset({"Conv", "QuantConv", "QLinearConv"})
# in this order, each at most once
AFTER_CONVOLUTION = (
    "AscendDequant",
    "AscendRequant",
    "Relu",
    "LeakyRelu",
    "AscendQuant",
)
# channels of a C0 block; floats: 16, since float32 becomes float16 on the device
BLOCKS = {DType.INT8: 32, DType.UINT8: 32}


def convolution_chain(tensor: Tensor) -> tuple[Node, ...] | None:
    """The nodes from a tensor back to a convolution by way of `AFTER_CONVOLUTION`; None if it is no such
    chain.
    """
    nodes: list[Node] = []
    node, allowed = tensor.producer, len(AFTER_CONVOLUTION)
    while node is not None:
        nodes.append(node)
        if node.op_type in CONVOLUTIONS:
            return tuple(nodes)
        position = AFTER_CONVOLUTION.index(node.op_type) if node.op_type in AFTER_CONVOLUTION else allowed
        if position >= allowed:
            return None
        # no Relu before a LeakyRelu
        allowed = AFTER_CONVOLUTION.index("Relu") if node.op_type == "LeakyRelu" else position
        node = node.required(0).producer
    return None


def slice_refusal(whole: Tensor, parts: Sequence[Tensor], axis: int) -> str | None:
    """Why parts cannot be slices of a map along its channels, None if they can."""
    if not all(tensor.is_static for tensor in (whole, *parts)) or len(whole.static_shape) != 4:
        return "it is not a static one of planes"
    if axis % 4 != CHANNELS:
        return "it is not along the channels"
    block = BLOCKS.get(whole.element_type, 16)
    if any(part.static_shape[CHANNELS] % block for part in parts):
        return f"the channels of a part are no multiple of {block}"
    return None


def write_in_place(graph: Graph, concat: Node, context: FusionContext) -> None:
    """Lets the producers of a Concat's inputs write into its output: StridedWrite before each input, no task
    for the Concat.
    """
    channels, first = concat.output.static_shape[CHANNELS], 0
    for port, tensor in enumerate(concat.inputs):
        assert tensor is not None
        made = context.add(
            graph,
            "StridedWrite",
            [tensor],
            name=f"{concat.name}_write",
            like=tensor.producer,
            domain="ascend",
            axis=CHANNELS,
            stride=channels,
            first=first,
        )
        concat.set_input(port, made.output)
        first += tensor.static_shape[CHANNELS]
    concat.attributes["no_task"] = 1


def read_in_place(graph: Graph, split: Node, context: FusionContext) -> None:
    """Lets the readers of a Split's outputs read from its input: StridedRead behind each output, no task for
    the Split.
    """
    channels, first = split.required(0).static_shape[CHANNELS], 0
    for part in split.outputs:
        uses = part.uses
        made = context.add(
            graph,
            "StridedRead",
            [part],
            name=f"{split.name}_read",
            like=split,
            domain="ascend",
            axis=CHANNELS,
            stride=channels,
            first=first,
        )
        for use in uses:
            use.node.set_input(use.index, made.output)
        first += part.static_shape[CHANNELS]
    split.attributes["no_task"] = 1


def is_graph_output(tensor: Tensor, graph: Graph | None) -> bool:
    """Whether the user sees the tensor."""
    return graph is not None and any(tensor is output for output in graph.outputs)
