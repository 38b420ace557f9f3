"""The files of CONTRIBUTING.md's recipes, and a model that uses their operator."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"`(\w+\.(?:py|toml))`:\n\n```\w+\n(.*?)```", re.DOTALL)
FILES = dict(BLOCK.findall((ROOT / "CONTRIBUTING.md").read_text()))


def model_file(batch: int = 1) -> onnx.ModelProto:
    """Conv -> Isru -> Relu -> Isru -> MaxPool, the operator in a domain of its own."""
    weight = np.random.default_rng(0).normal(size=(32, 16, 3, 3)).astype(np.float32) / 12
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("Isru", ["c"], ["s"], "first", domain="my.ops"),
        helper.make_node("Relu", ["s"], ["r"], "relu"),
        helper.make_node("Isru", ["r"], ["t"], "second", domain="my.ops", alpha=4.0),
        helper.make_node("MaxPool", ["t"], ["y"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
    ]
    ends = (
        helper.make_tensor_value_info("x", TensorProto.FLOAT, (batch, 16, 56, 56)),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, (batch, 32, 28, 28)),
    )
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], [numpy_helper.from_array(weight, "w")])
    versions = [helper.make_opsetid("", 18), helper.make_opsetid("my.ops", 1)]
    return helper.make_model(graph, opset_imports=versions)
