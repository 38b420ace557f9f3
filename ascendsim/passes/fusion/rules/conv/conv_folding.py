"""What the rules around convolutions share: which convolution a node is, values per channel, and folding them
into filter and bias.

    (conv(x, w) + b) * f + s  =  conv(x, w * f) + (b * f + s)        f, s: one value an output channel

Folding is computed in float64 and rounded once, to the type of the filter. It is lazy: the folded constants
compute their values when they are first asked for, and have none if their sources have none, so that networks
without weights are rewritten too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Constant, Graph, Node, Tensor
from ascendsim.passes.fusion.rule import FusionRule
from ascendsim.passes.rewriting.pattern import Match
from ascendsim.passes.rewriting.removal import drop_constants
from ascendsim.passes.rewriting.replace import replace_root

PLANE_CONVOLUTIONS = frozenset({"Conv2D", "DepthwiseConv2D"})
ALL_CONVOLUTIONS = PLANE_CONVOLUTIONS | {"Conv3D"}

# float64 arrays of the sources -> float64 array of one value an output channel
PerChannel = Callable[..., Array]


def conv_kind(conv: Node) -> str:
    """CANN's operator type of a Conv node: Conv3D for volumes, DepthwiseConv2D if every group has one input
    channel, else Conv2D.
    """
    shape, filters = conv.required(0).shape, conv.required(1).shape
    if shape is not None and len(shape) == 5:
        return "Conv3D"
    depthwise = int(conv.attr("group", 1)) > 1 and filters is not None and filters[1] == 1
    return "DepthwiseConv2D" if depthwise else "Conv2D"


class ConvRule(FusionRule):
    """A rule whose pattern holds a convolution under the name `conv`, of the kinds (CANN's operator types)
    that `kinds` lists.
    """

    kinds: Collection[str] = ALL_CONVOLUTIONS

    def find(self, graph: Graph, pattern: str) -> Iterator[Match]:
        """Matches whose convolution is of a kind that the rule takes."""
        return (
            match for match in super().find(graph, pattern) if conv_kind(match.nodes["conv"]) in self.kinds
        )


def lazy_constant(
    graph: Graph,
    name: str,
    dtype: DType,
    shape: tuple[int, ...],
    sources: Sequence[Tensor],
    values: Callable[..., Array],
) -> Tensor:
    """Adds a constant that is computed from others when it is asked for.

    Args:
        graph: Receives the constant.
        name: Wished; numbered if it is taken.
        dtype: Type of the values, to which the result is rounded once.
        shape: Shape of the values.
        sources: Constants; if one has no values, neither has the new one.
        values: Their arrays -> the values.
    """
    held = [source.constant for source in sources if source.constant is not None]
    absent = next((constant.absent_because for constant in held if not constant.available), None)
    if absent is not None:
        constant = Constant(absent_because=absent)
    else:

        def load() -> Array:
            with np.errstate(
                all="ignore"
            ):  # what overflows on the way is infinite, as it would be in the graph
                return np.ascontiguousarray(
                    np.asarray(values(*[item.array() for item in held])).reshape(shape).astype(dtype.numpy)
                )

        constant = Constant(loader=load)
    return graph.add_tensor(Tensor(graph.fresh(name), dtype, shape, constant=constant))


def is_per_channel(tensor: Tensor, channels: int, rank: int) -> bool:
    """Whether a constant that meets a map of `rank` axes by broadcasting holds one value in all, or one a
    channel (axis 1).
    """
    padded = (1,) * (rank - len(tensor.static_shape)) + tensor.static_shape
    return padded == (1,) * rank or padded == (1, channels, *(1,) * (rank - 2))


def channel_refusal(tensor: Tensor, conv: Node, what: str) -> str | None:
    """Why a constant cannot be folded into a convolution, None if it can."""
    if not tensor.is_constant:
        return f"the {what} is not constant"
    if conv.output.shape is None or not isinstance(conv.output.shape[1], int):
        return "the channels of the convolution are not known"
    return (
        None
        if is_per_channel(tensor, conv.output.shape[1], len(conv.output.shape))
        else f"the {what} is not one value a channel"
    )


def conv_refusal(conv: Node) -> str | None:
    """Why nothing can be folded into a convolution: its operands must be constant floats, its result read
    once and left as it is.
    """
    filters, bias = conv.required(1), conv.input(2)
    if not filters.is_constant:
        return "the filter is not constant"
    if bias is not None and not bias.is_constant:
        return "the bias is not constant"
    if not (filters.element_type.is_float and filters.is_static):
        return "the filter is no static array of floats"
    if conv.attr("activation"):
        return "the convolution ends in an activation"
    return reader_refusal(conv)


def reader_refusal(node: Node) -> str | None:
    """Why a node cannot be joined with its reader: another one, or the user, sees its result."""
    graph = node.graph
    if len(node.output.uses) != 1 or (
        graph is not None and any(tensor is node.output for tensor in graph.outputs)
    ):
        return "the result of the convolution has other readers"
    return None


def other_input(node: Node, tensor: Tensor) -> Tensor:
    """The operand of a node of two inputs that is not `tensor`."""
    return node.required(1) if node.required(0) is tensor else node.required(0)


def fold_into(
    graph: Graph,
    conv: Node,
    root: Node,
    sources: Sequence[Tensor],
    factor: PerChannel | None,
    shift: PerChannel | None,
) -> None:
    """Folds a factor and a summand of each channel into a convolution, which then stands for `root` as well.

    Args:
        graph: The graph.
        conv: The convolution; its operands are constants.
        root: The last of the nodes whose work moves into it.
        sources: The constants that factor and summand are made of.
        factor: Their float64 arrays -> factors by output channel (or one for all); None = 1.
        shift: Their float64 arrays -> summands; None = 0.
    """
    filters, bias = conv.required(1), conv.input(2)
    dtype, channels = filters.element_type, filters.static_shape[0]
    wide = _in_float64(channels)

    if factor is not None:
        scale = factor

        def new_filters(*arrays: Array) -> Array:
            weights, *others = arrays
            by_channel = wide(scale(*map(_float64, others))).reshape(-1, *(1,) * (weights.ndim - 1))
            return np.asarray(_float64(weights) * by_channel)

        conv.set_input(
            1,
            lazy_constant(
                graph, f"{filters.name}_folded", dtype, filters.static_shape, [filters, *sources], new_filters
            ),
        )
    if bias is not None or shift is not None:
        old = [] if bias is None else [bias]

        def new_bias(*arrays: Array) -> Array:
            others = [_float64(array) for array in arrays[len(old) :]]
            total = np.zeros(channels) if bias is None else _float64(arrays[0])
            if factor is not None:
                total = total * wide(factor(*others))
            return np.asarray(total if shift is None else total + wide(shift(*others)))

        name = f"{conv.name}_bias" if bias is None else f"{bias.name}_folded"
        conv.set_input(2, lazy_constant(graph, name, dtype, (channels,), [*old, *sources], new_bias))
    replace_root(graph, root, conv.output)
    drop_constants(graph, (filters, bias, *sources))


def _float64(array: Array) -> Array:
    return np.asarray(array).astype(np.float64)


def _in_float64(channels: int) -> Callable[[Array], Array]:
    return lambda array: np.broadcast_to(np.asarray(array, np.float64).ravel(), (channels,))
