"""Which formats operators want, and how a tensor gets from one format to another."""

from __future__ import annotations

import math

from ascendsim.core.formats import Format, c0, storage_shape
from ascendsim.graph.ir import Node, Tensor
from ascendsim.opset import Layout, OpDef

BLOCKED = (Format.NC1HWC0, Format.FRACTAL_NZ)


def storable(tensor: Tensor, format: Format) -> bool:
    """Whether the tensor has a rank that the format takes, and elements."""
    if not tensor.is_static or tensor.shape is None or tensor.dtype is None or 0 in tensor.shape:
        return False
    rank = len(tensor.shape)
    return (
        rank == 4
        if format in (Format.NC1HWC0, Format.FRACTAL_Z)
        else rank >= 2
        if format is Format.FRACTAL_NZ
        else True
    )


def same_bytes(tensor: Tensor, before: Format, after: Format) -> bool:
    """Whether both formats store the tensor's bytes in the same order without padding (1x1 maps, one column
    of blocks).
    """
    if before is after:
        return True
    return _is_plain(tensor, before) and _is_plain(tensor, after)


def _is_plain(tensor: Tensor, format: Format) -> bool:
    if format is Format.FRACTAL_Z:
        return False
    if format not in BLOCKED:
        return True
    shape, dtype = tensor.static_shape, tensor.element_type
    if math.prod(storage_shape(shape, format, dtype)) != math.prod(shape):
        return False
    if format is Format.NC1HWC0:
        return shape[2] * shape[3] == 1
    return shape[-1] == c0(dtype)


def wished(node: Node, definition: OpDef, port: int, matmul: Format) -> Format | None:
    """The format that an operator wants at an input port: None = any (FOLLOW), ND where nothing special
    applies.

    Args:
        node: The node.
        definition: Its operator.
        port: Input port.
        matmul: Format of matrix operands on this chip.
    """
    tensor = node.required(port)
    if definition.layout is Layout.FEATURE:
        if port in definition.facts.maps and storable(tensor, Format.NC1HWC0) and not tensor.is_constant:
            return Format.NC1HWC0
        return Format.ND
    if definition.layout is Layout.FOLLOW:
        return None
    return matmul if port in definition.facts.operands and storable(tensor, matmul) else Format.ND


def weight_format(node: Node, definition: OpDef, port: int, matmul: Format) -> Format:
    """The format of a constant operand, into which it is converted before the run."""
    tensor = node.required(port)
    if port not in definition.facts.operands:
        return Format.ND
    if definition.layout is Layout.FEATURE:
        return (
            Format.FRACTAL_Z
            if port != definition.facts.operands[0] and storable(tensor, Format.FRACTAL_Z)
            else Format.ND
        )
    return matmul if storable(tensor, matmul) else Format.ND


def follows_in(node: Node, definition: OpDef, format: Format) -> bool:
    """Whether a FOLLOW operator can work in a blocked format.

    Its own rule decides if it has one. Else all inputs that are not constant must be as large as the output
    or (a map against one value a channel) blocked alike; constants must broadcast along whole blocks:
    scalars, one value a channel, one a column.
    """
    outputs = [tensor for tensor in node.outputs if tensor.uses or tensor is node.output]
    data = [tensor for tensor in node.inputs if tensor is not None and not tensor.is_constant]
    if not data or not all(storable(tensor, format) for tensor in data):
        return False
    if definition.in_blocks is not None:
        return definition.in_blocks(node, format)
    if not all(storable(tensor, format) for tensor in outputs):
        return False
    if len({tensor.element_type.itemsize for tensor in (*outputs, *data)}) != 1:
        return False  # another element size has other blocks
    shape = node.output.static_shape
    return all(_broadcasts(tensor, shape, format) for tensor in node.inputs if tensor is not None)


def _broadcasts(tensor: Tensor, shape: tuple[int, ...], format: Format) -> bool:
    """Whether an input of an elementwise operator fits an output of this shape block by block."""
    own = tensor.static_shape
    if own == shape or tensor.elements == 1:
        return True
    padded = (1,) * (len(shape) - len(own)) + own
    if not tensor.is_constant and len(own) != len(shape):
        return False
    if format is Format.NC1HWC0:
        return (
            padded[1] in (1, shape[1])
            and (padded[1] == shape[1] or tensor.elements == 1)
            and padded[0] in (1, shape[0])
            and padded[2:] in ((1, 1), shape[2:])
        )
    if tensor.is_constant:
        return padded[-1] == shape[-1] and all(d == 1 for d in padded[:-1])
    return padded[-2:] == shape[-2:]
