"""The base line to beat: a plain roofline a layer.

Each convolution or matrix product takes the longer of its multiply-adds at 80 % of the Cube's peak (channels
padded to 16) and its bytes at the DRAM bandwidth, plus a fixed time a layer; everything else is free.
Figures: 45.6 GB/s and 8 us a layer on the Ascend 310, 204 GB/s and 2 us on the 310P3 (those with which this
base line was published beside the measurements); other chips take their own bandwidth and 2 us.
"""

from __future__ import annotations

import math

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format, align, storage_bytes
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.soc import SocSpec

CUBE_SHARE = 0.8
_FIGURES = {"Ascend310": (45.6, 8.0), "Ascend310P3": (204.0, 2.0)}  # GB/s, us a layer
_LAYERS = ("Conv", "ConvTranspose", "MatMul", "Gemm")


def roofline_us(graph: Graph, soc: SocSpec) -> float:
    """Microseconds of one execution by the base line.

    Args:
        graph: The user's graph, all shapes static.
        soc: The chip.
    """
    bandwidth, fixed = _FIGURES.get(soc.name, (soc.dram.read_gb_per_s, 2.0))
    total = 0.0
    for node in graph.nodes:
        if node.op_type in _LAYERS:
            compute = 2 * _padded_macs(node) / (CUBE_SHARE * soc.peak_fp16_tflops) / 1e6
            moved = sum(_bytes(tensor) for tensor in (*node.inputs, *node.outputs) if tensor is not None)
            total += max(compute, moved / bandwidth / 1e3) + fixed
    return total


def _bytes(tensor: Tensor) -> int:
    format = Format.NC1HWC0 if len(tensor.static_shape) == 4 and not tensor.is_constant else Format.ND
    return storage_bytes(tensor.static_shape, format, DType.FLOAT16)


def _padded_macs(node: Node) -> int:
    """Multiply-adds with the layer's input and output channels padded to 16 (a group's input channels
    too).
    """
    weight, out = node.required(1).static_shape, node.output.static_shape
    if node.op_type == "Conv":
        return (
            node.output.elements // out[1] * align(out[1], 16) * align(weight[1], 16) * math.prod(weight[2:])
        )
    if node.op_type == "ConvTranspose":
        source = node.required(0)
        return source.elements * (node.required(1).elements // weight[0])
    depth = node.required(0).static_shape[0 if node.op_type == "Gemm" and node.attr("transA", 0) else -1]
    return node.output.elements * depth
