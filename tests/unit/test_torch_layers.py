"""Layers that PyTorch takes apart or gives to libraries of the host: calls, with gradients as eager's."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.ops import default_opset
from tests.support.gate import every, slow
from tests.support.torch_present import torch_or_skip

torch = torch_or_skip()

from torch import nn  # noqa: E402

from ascendsim.frontends.torch.joint import capture_step  # noqa: E402
from tests.support.torch_compare import differences  # noqa: E402

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("untimed_tiles")]


class Resizing(nn.Module):
    """A convolution whose result is resized."""

    def __init__(self, **options):
        super().__init__()
        self.conv, self.options = nn.Conv2d(3, 4, 3), options

    def forward(self, x):
        return nn.functional.interpolate(self.conv(x), **self.options)


class Volumes(nn.Module):
    """Convolutions of volumes, one of them transposed."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv3d(3, 4, (3, 2, 3), padding=1, stride=(2, 1, 2), groups=1)
        self.back = nn.ConvTranspose3d(4, 4, 2, stride=2, groups=2)

    def forward(self, x):
        return self.back(torch.tanh(self.conv(x)))


class Recurrent(nn.Module):
    """What comes out at every step, and the last states."""

    def __init__(self, kind, **options):
        super().__init__()
        self.layer = getattr(nn, kind)(3, 4, **options)

    def forward(self, x):
        result, states = self.layer(x)
        return torch.cat([result.flatten(), *(one.flatten() for one in states)])


class Loss(nn.Module):
    """Weighs all elements of a result differently."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        result = self.module(x).flatten()
        return (result * torch.linspace(0.5, 1.5, result.numel())).square().mean()


RESIZING = {
    "nearest": {"scale_factor": 2.0},
    "nearest sizes": {"size": (5, 11)},
    "nearest rounded": {"scale_factor": (1.3, 2.7)},
    "nearest-exact": {"size": (10, 4)},
    "bilinear": {"scale_factor": 1.7, "mode": "bilinear"},
    "bilinear sizes": {"size": (5, 11), "mode": "bilinear"},
    "bilinear corners": {"size": (12, 3), "mode": "bilinear", "align_corners": True},
}
MODULES = {
    **{name: lambda name=name: Resizing(**{"mode": name.split()[0], **RESIZING[name]}) for name in RESIZING},
    "volumes": Volumes,
    "RNN": lambda: Recurrent("RNN", nonlinearity="relu"),
    "GRU": lambda: Recurrent("GRU", bidirectional=True),
    "LSTM": lambda: Recurrent("LSTM", num_layers=2),
}


def example(name):
    rng = torch.Generator().manual_seed(1)
    shapes = {"volumes": (2, 3, 5, 4, 6), "RNN": (4, 2, 3), "GRU": (4, 2, 3), "LSTM": (4, 2, 3)}
    return torch.randn(shapes.get(name, (2, 3, 12, 9)), generator=rng)


@cache
def captured(name):
    """A loss behind a layer, and its step."""
    torch.manual_seed(0)
    module = Loss(MODULES[name]())
    return module, capture_step(module, (example(name),), opset=default_opset())


@pytest.mark.parametrize(
    "name",
    [*every(3, RESIZING), "volumes", "RNN", *slow("GRU", "LSTM")],  # all that others do not
)
def test_gradients_are_those_of_eager_mode(name):
    module, step = captured(name)
    found = differences(step, module, (example(name),))
    assert found.missing == []
    assert found.exact < 1e-6
    assert found.loss < 1e-5
    assert found.worst < 1


@pytest.mark.parametrize("name", RESIZING)
def test_resizing_is_one_operator_each_way(name):
    _, step = captured(name)
    kinds = [node.op_type for node in step.graph.nodes if "esize" in node.op_type]
    assert kinds == ["Resize", f"Resize{'Bilinear' if 'bilinear' in name else 'NearestNeighbor'}V2Grad"]
    assert not any(node.op_type.startswith(("Gather", "Scatter")) for node in step.graph.nodes)


@pytest.mark.parametrize(
    "name",
    [
        "nearest rounded",
        "bilinear corners",
        *slow("GRU", "LSTM"),
    ],
)
def test_inference_keeps_them_whole_too(name):
    module = MODULES[name]().eval()
    graph = asim.from_torch(module, (example(name),))
    result = asim.run(asim.compile(graph), {"x": example(name).numpy()}, values="float32")
    (found,) = result.outputs.values()
    with torch.no_grad():
        np.testing.assert_allclose(found, module(example(name)).numpy(), rtol=1e-5, atol=1e-5)


def test_pytorch_has_its_own_way_back():
    """What a capture takes away is there again behind it."""
    before = {
        name: dict(getattr(torch.ops.aten, name).vec.py_kernels)
        for name in ("upsample_nearest2d", "upsample_bilinear2d")
    }
    enabled = torch.backends.mkldnn.enabled
    capture_step(Loss(MODULES["nearest"]()), (example("nearest"),), opset=default_opset())
    assert before == {name: dict(getattr(torch.ops.aten, name).vec.py_kernels) for name in before}
    assert all(before.values())
    assert torch.backends.mkldnn.enabled == enabled
