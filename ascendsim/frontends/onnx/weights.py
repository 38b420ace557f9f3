"""Seeded values for weights whose file is missing.

By role: scales and variances of normalisations lie in 0.9..1.1, other vectors in -0.1..0.1, matrices and
filters are normal with variance 1/fan-in, which keeps deep residual networks far below the largest float16. A
tensor's values depend on the seed, its name, its shape and its role alone, so the order in which they are
asked for does not matter.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator

import numpy as np
import onnx

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array

Role = tuple[onnx.NodeProto, int]  # the first node that reads a tensor, and at which input


def roles(graph: onnx.GraphProto) -> dict[str, Role]:
    """The first reader of each value by name, subgraphs included."""
    found: dict[str, Role] = {}
    for node in _nodes(graph):
        for index, name in enumerate(node.input):
            found.setdefault(name, (node, index))
    return found


def random_weight(seed: int, name: str, dtype: DType, shape: tuple[int, ...], role: Role | None) -> Array:
    """Values for one tensor, of its type and shape."""
    digest = hashlib.sha256(f"{seed}|{name}|{shape}".encode()).digest()
    generator = np.random.default_rng(np.frombuffer(digest, np.uint32))
    if dtype is DType.BOOL:
        return generator.integers(0, 2, shape).astype(bool)
    if dtype.is_integer:
        limits = np.iinfo(dtype.numpy)
        return np.asarray(generator.integers(limits.min, limits.max, shape, dtype=dtype.numpy, endpoint=True))
    node, position = role if role is not None else (onnx.NodeProto(), 0)
    if node.op_type.endswith("Normalization") and (
        position == 1 or (node.op_type == "BatchNormalization" and position == 4)
    ):
        return generator.uniform(0.9, 1.1, shape).astype(dtype.numpy)
    if len(shape) < 2:
        return generator.uniform(-0.1, 0.1, shape).astype(dtype.numpy)
    values = generator.standard_normal(shape, np.float32)
    values /= np.float32(math.sqrt(max(1, fan_in(node, shape))))
    return values.astype(dtype.numpy, copy=False)


def fan_in(node: onnx.NodeProto, shape: tuple[int, ...]) -> int:
    """How many products one output element of the reading node sums, for a weight of this shape."""
    if node.op_type in ("Conv", "ConvInteger"):
        return math.prod(shape[1:])
    if node.op_type in ("LSTM", "GRU", "RNN"):
        return shape[-1]
    if node.op_type == "Gemm":
        return shape[-1] if any(a.name == "transB" and a.i for a in node.attribute) else shape[0]
    if node.op_type == "ConvTranspose":
        return shape[0]
    if node.op_type == "Gather":
        return 1
    return shape[-2]


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in [attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else attribute.graphs:
                yield from _nodes(inner)
