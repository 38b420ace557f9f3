"""Layout trick: tokens padded to a multiple of 16, so that they fill fractals from layer to layer.

x[b, 197, c] -> LayerNormalization -> ... -> Softmax(scores[b, h, 197, 197]) -> ...
becomes x -> Pad -> [b, 208, c] -> LayerNormalization -> ... -> Softmax(scores[b, h, 208, 208] + mask) -> ...

FRACTAL_NZ flows through operators that normalise rows if 16 divides tokens; else these are row-major kernels
that take the rows one by one, with TransData around them. The mask lets added tokens weigh nothing (their
powers underflow to zero), so the first 197 rows stay as they are; who wants these only is given a Slice. What
reads or adds up tokens otherwise ends the padded part. READMEs of ViT on 310P do so (opt_vit.py).
"""

from __future__ import annotations

import numpy as np

from ascendsim.core.formats import FRACTAL_ROWS, align
from ascendsim.graph.ir import Array, Constant, Graph, Node, Tensor
from ascendsim.opset import OpSet
from ascendsim.passes.levers.lever import Lever, LeverContext, Relation, Site
from ascendsim.passes.levers.padded_axes import PaddedPart, padded_part
from ascendsim.passes.rewriting.outputs import hand_out, twin_of

_TOKENS = 1  # axis of [batch, tokens, channels]
_NOTHING = -1e4  # added to a score; e^-1e4 is 0 in every type, and float16 holds it


class PadTokens(Lever):
    """Pads tokens of transformers."""

    name = "pad-tokens"
    title = "pad tokens to a multiple of 16"

    def sites(self, graph: Graph, context: LeverContext) -> tuple[Site, ...]:
        """Every tensor of tokens that a LayerNormalization reads and that no other site pads."""
        found, seen = [], set[Tensor]()
        for node in graph.topological():
            tokens = node.input(0)
            if tokens is None or tokens in seen or not _ragged(node):
                continue
            part = _part(graph, tokens, context.opset)
            seen.update(part.sizes)
            count = tokens.static_shape[_TOKENS]
            reason = f"{count} tokens do not fill fractals; {part.sizes[tokens][_TOKENS]} do"
            names = (node.name, *(other.name for other in part.nodes if other is not node))
            found.append(Site(names, reason, Relation.EXACT))
        return tuple(found)

    def rewrite(self, graph: Graph, site: Site, context: LeverContext) -> None:
        """Pads the tokens of one site, and all that is made of them."""
        tokens = graph.node(site.node).required(0)
        part = _part(graph, tokens, context.opset)
        before = {tensor: tensor.static_shape for tensor in part.sizes}
        wide = _padded(graph, tokens, part.sizes[tokens], context)
        for tensor, sizes in part.sizes.items():
            if tensor is not tokens:
                tensor.shape = tuple([sizes.get(a, size) for a, size in enumerate(tensor.static_shape)])
        for node, port, axis, size in part.constants:
            _widen(graph, node, port, axis, size)
        for node in part.reshapes:
            told = context.opset.get(node).facts.shape_port
            assert told is not None
            shape = np.array(node.output.static_shape, np.int64)
            node.set_input(told, graph.add_constant(graph.fresh(f"{node.name}_shape"), shape))
        for node, axis in part.masked:
            _mask(graph, node, axis, before[node.required(0)][axis], context)
        for use in tokens.uses:
            if use.node in part.nodes:
                use.node.set_input(use.index, wide)
        narrow: dict[Tensor, Tensor] = {tokens: tokens}
        for node, port in part.leaks:
            tensor = node.required(port)
            if tensor not in narrow:
                narrow[tensor] = _narrowed(graph, tensor, before[tensor], context)
            node.set_input(port, narrow[tensor])
        for tensor in dict.fromkeys(graph.outputs):
            if tensor in part.sizes and tensor is not tokens:
                hand_out(graph, tensor, _narrowed(graph, tensor, before[tensor], context), "padded")


def _ragged(node: Node) -> bool:
    """Whether a node normalises tokens that do not fill fractals."""
    if node.op_type != "LayerNormalization" or node.domain or not node.required(0).is_static:
        return False
    shape = node.required(0).static_shape
    last = int(node.attr("axis", -1)) % len(shape) == len(shape) - 1
    return len(shape) == 3 and last and shape[_TOKENS] > FRACTAL_ROWS and shape[_TOKENS] % FRACTAL_ROWS != 0


def _part(graph: Graph, tokens: Tensor, opset: OpSet) -> PaddedPart:
    return padded_part(graph, tokens, _TOKENS, align(tokens.static_shape[_TOKENS], FRACTAL_ROWS), opset)


def _padded(graph: Graph, tensor: Tensor, sizes: dict[int, int], context: LeverContext) -> Tensor:
    shape = tensor.static_shape
    ends = [sizes.get(axis, size) - size for axis, size in enumerate(shape)]
    pads = np.array([0] * len(shape) + ends, np.int64)
    return context.add(
        graph, "Pad", tensor, graph.add_constant(graph.fresh(f"{tensor.name}_pads"), pads), stem="pad_tokens"
    )


def _narrowed(graph: Graph, tensor: Tensor, shape: tuple[int, ...], context: LeverContext) -> Tensor:
    """The part of a padded tensor that was there before."""
    axes = [axis for axis, size in enumerate(shape) if tensor.static_shape[axis] != size]
    values = {"starts": [0] * len(axes), "ends": [shape[axis] for axis in axes], "axes": axes}
    ports = [
        graph.add_constant(graph.fresh(f"{tensor.name}_{key}"), np.array(value, np.int64))
        for key, value in values.items()
    ]
    return context.add(graph, "Slice", tensor, *ports, stem=f"{tensor.name}_tokens")


def _mask(graph: Graph, node: Node, axis: int, length: int, context: LeverContext) -> None:
    """Takes what was added behind `length` scores out of the sums of a Softmax."""
    scores = node.required(0)
    shape = scores.static_shape
    values = np.zeros([1] * axis + [shape[axis]] + [1] * (len(shape) - axis - 1), scores.element_type.numpy)
    values[(slice(None),) * axis + (slice(length, None),)] = _NOTHING
    mask = graph.add_constant(graph.fresh(f"{node.name}_mask"), values)
    node.set_input(0, context.add(graph, "Add", scores, mask, stem=f"{node.name}_masked"))


def _widen(graph: Graph, node: Node, port: int, axis: int, size: int) -> None:
    """Replaces a constant by one with zeros behind it."""
    old = node.required(port)
    assert old.constant is not None
    before, shape = old.constant, list(old.static_shape)
    shape[axis] = size

    def make() -> Array:
        values = before.array()
        result = np.zeros(shape, values.dtype)
        result[(slice(None),) * axis + (slice(values.shape[axis]),)] = values
        return result

    constant = Constant(loader=make) if before.available else Constant(absent_because=before.absent_because)
    node.set_input(port, twin_of(graph, old, f"{old.name}_wide", shape=tuple(shape), constant=constant))
