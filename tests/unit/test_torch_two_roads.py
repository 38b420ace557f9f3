"""Gradients by both roads, PyTorch's joint graph and our reverse mode on the graph of its forward pass."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.ops import default_opset
from ascendsim.runtime.plain import evaluate_plain
from tests.support.torch_present import torch_or_skip

torch = torch_or_skip()

from torch import nn  # noqa: E402

from ascendsim.frontends.torch.joint import capture_step  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
# what both have as one operator
AGREED = {
    "Conv2DBackpropFilter",
    "Conv2DBackpropInput",
    "AvgPoolV2Grad",
    "GeluGrad",
    "LayerNormGrad",
    "ReluGrad",
    "ResizeBilinearV2Grad",
    "SoftmaxGrad",
    "TanhGrad",
}


class Network(nn.Module):
    """Layers of all kinds whose gradient is one operator of CANN's."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 4, 3, stride=2)
        self.query, self.norm, self.head = nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 3)

    def forward(self, x):
        x = nn.functional.interpolate(torch.relu(self.first(x)), size=(8, 10), mode="bilinear")
        x = nn.functional.avg_pool2d(torch.tanh(self.second(x)), 2).flatten(2).transpose(1, 2)
        x = torch.softmax(self.query(x) @ x.transpose(1, 2), -1) @ x
        return self.head(nn.functional.gelu(self.norm(x)))


def kinds(graph):
    return Counter(node.op_type for node in graph.nodes if node.op_type in AGREED)


def values(graph, feed):
    needed = {tensor.name for tensor in graph.inputs}
    return evaluate_plain(graph, default_opset(), {k: v for k, v in feed.items() if k in needed})


def test_both_roads_lead_to_the_same_gradients_by_the_same_operators():
    module, x, target = Network(), torch.randn(2, 2, 5, 6), torch.randn(2, 2, 3)
    theirs = capture_step(module, (x, target), opset=default_opset(), loss=nn.functional.mse_loss)
    ours = asim.training_step(asim.from_torch(module, (x,)), loss="mse", optimizer=None)
    assert kinds(ours.graph) == kinds(theirs.graph)
    assert set(kinds(ours.graph)) == AGREED
    feed = {name: constant.array() for name, constant in theirs.initial.items()}
    found = values(theirs.graph, {**feed, theirs.batch[0]: x.numpy(), theirs.batch[1]: target.numpy()})
    own = values(ours.graph, {**ours.initial(), "x": x.numpy(), "labels": target.numpy()})
    np.testing.assert_allclose(own["loss"], found["loss"], rtol=1e-6)
    assert len(ours.parameters) == len(list(module.parameters()))
    for name in ours.parameters:
        wanted = found[f"{name.removesuffix('.T')}.grad"]
        wanted = wanted.T if name.endswith(".T") else wanted
        np.testing.assert_allclose(own[f"{name}.grad"], wanted, rtol=1e-4, atol=1e-6, err_msg=name)
