"""onnxruntime's dynamic quantisation as one product a layer.

    ConvInteger | MatMulInteger -> Cast to float32 -> Mul by a scale      =>      DequantConv | DequantMatMul

The sums of integers reach far beyond float16, in which the Cast would give them out; the unit that stores
them multiplies by the scale as it does so. Whatever fusion is asked for, this is done: it decides what the
values are. A scale that is itself a product (the step of the data, found in the run, times that of the
weights) goes in as its two factors, as CANN's QuantBatchMatmulV3 has them; other products are marked to be
computed in float32.
"""

from __future__ import annotations

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.passes.rewriting.removal import remove_dead_from
from ascendsim.passes.rewriting.replace import replace_root

WIDE = "float32"  # key in Node.origin: the node computes in float32 whatever the mode
_PRODUCTS = {"ConvInteger": ("DequantConv", 1), "MatMulInteger": ("DequantMatMul", -1)}


def join_integer_products(graph: Graph) -> int:
    """Rewrites all such chains; gives their number.

    Args:
        graph: Changed in place; types and shapes known as far as they can be.
    """
    found = 0
    for node in graph.nodes:
        if node.domain or node.op_type not in _PRODUCTS:
            continue
        name, axis = _PRODUCTS[node.op_type]
        cast = _only_reader(graph, node.output)
        scaled = None if cast is None or not _to_float32(cast) else _only_reader(graph, cast.output)
        if cast is None or scaled is None or scaled.domain or scaled.op_type != "Mul":
            continue
        scale = next(tensor for tensor in scaled.inputs if tensor is not cast.output)
        if scale is None or not _fits(scale, node.output, axis):
            continue
        _join(graph, (node, cast, scaled), scale, name)
        found += 1
    return found


def _only_reader(graph: Graph, tensor: Tensor) -> Node | None:
    """The node that reads a tensor, if it is the only one that does, once."""
    if len(tensor.uses) != 1 or any(tensor is output for output in graph.outputs):
        return None
    return tensor.uses[0].node


def _to_float32(node: Node) -> bool:
    return not node.domain and node.op_type == "Cast" and node.attr("to") is DType.FLOAT32


def _fits(scale: Tensor, sums: Tensor, axis: int) -> bool:
    """Whether it is one number in float32, or one a channel or column."""
    shape, full = scale.shape, sums.shape
    if scale.dtype is not DType.FLOAT32 or shape is None or full is None or len(shape) > len(full):
        return False
    padded = (1,) * (len(full) - len(shape)) + tuple(shape)
    place = axis % len(full) if full else 0
    return all(size == 1 or (at == place and size == full[at]) for at, size in enumerate(padded))


def _join(graph: Graph, chain: tuple[Node, Node, Node], scale: Tensor, name: str) -> None:
    node, _cast, scaled = chain
    given = [*node.inputs, *(None,) * (4 - len(node.inputs))]
    scales = _factors(scale)
    made = graph.add_node(
        name, [*given, *scales], 1, name=graph.fresh(f"{node.name}_{name}"), domain="ascend"
    )
    made.attributes.update(node.attributes)
    made.origin.update(node.origin)
    sources = [source for item in chain for source in item.origin.get("source_names", (item.name,))]
    made.origin["source_names"] = tuple(dict.fromkeys(sources))
    result, old = made.output, scaled.output
    result.dtype, result.origin_dtype, result.shape, result.format = (
        old.dtype,
        old.origin_dtype,
        old.shape,
        old.format,
    )
    replace_root(graph, scaled, result)
    if scale.producer is None or scale.producer.op_type != "Mul":
        return
    scale.producer.origin[WIDE] = True
    if len(scales) > 1:
        remove_dead_from(scale.producer)


def _factors(scale: Tensor) -> tuple[Tensor, ...]:
    """One number of the run and the constants that it multiplies; a scale of another kind as it is."""
    maker = scale.producer
    if maker is None or maker.domain or maker.op_type != "Mul":
        return (scale,)
    held = [tensor for tensor in maker.inputs if tensor is not None and tensor.is_constant]
    others = [tensor for tensor in maker.inputs if tensor is not None and not tensor.is_constant]
    if len(held) != 1 or len(others) != 1 or others[0].shape not in ((), (1,)):
        return (scale,)
    return others[0], held[0]
