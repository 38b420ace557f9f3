"""Makes the files beside it with MindSpore 2.10.0 on a CPU: three small networks with seeded weights as MindIR, and
in outputs.npz what MindSpore computes for seeded inputs.

    pip install mindspore==2.10.0
    python tests/data/mindir/make.py
"""

# mypy: ignore-errors

from __future__ import annotations

from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

FOLDER = Path(__file__).resolve().parent
RNG = np.random.default_rng(5)


class LeNet(nn.Cell):
    """Convolutions with both paddings, a norm, dense layers."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 5, pad_mode="same")
        self.norm = nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 8, 5, pad_mode="valid", has_bias=True)
        self.pool, self.relu, self.flatten = nn.MaxPool2d(2, 2), nn.ReLU(), nn.Flatten()
        self.dense1, self.dense2, self.softmax = nn.Dense(200, 16), nn.Dense(16, 10), nn.Softmax()

    def construct(self, x):
        """Runs it."""
        x = self.pool(self.relu(self.norm(self.conv1(x))))
        x = self.flatten(self.pool(self.relu(self.conv2(x))))
        return self.softmax(self.dense2(self.relu(self.dense1(x))))


class Attention(nn.Cell):
    """A layer of a transformer with embedding and two outputs."""

    def __init__(self):
        super().__init__()
        self.embedding, self.norm = nn.Embedding(20, 16), nn.LayerNorm((16,))
        self.q, self.k, self.v = nn.Dense(16, 16), nn.Dense(16, 16), nn.Dense(16, 16)
        self.up, self.down = nn.Dense(16, 32), nn.Dense(32, 16)
        self.exact, self.gelu, self.dropout = nn.GELU(approximate=False), nn.GELU(), nn.Dropout(p=0.1)

    def heads(self, x):
        """Four heads of four."""
        return x.reshape(1, 8, 4, 4).transpose(0, 2, 1, 3)

    def construct(self, ids):
        """Runs it."""
        x = self.embedding(ids)
        scores = ops.matmul(self.heads(self.q(x)), self.heads(self.k(x)).swapaxes(-1, -2)) / 2.0
        mixed = ops.matmul(self.dropout(ops.softmax(scores, axis=-1)), self.heads(self.v(x)))
        x = self.norm(x + mixed.transpose(0, 2, 1, 3).reshape(1, 8, 16))
        x = x + self.down(self.exact(self.up(x))) + self.gelu(x)
        return x.mean(1), ops.tanh(x[:, 0])


class Layers(nn.Cell):
    """Other layers of networks of images, each in the form that is unlike ONNX's."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, stride=2)
        self.depthwise = nn.Conv2d(8, 8, 3, padding=(1, 0, 2, 1), pad_mode="pad", group=8, dilation=2)
        self.up = nn.Conv2dTranspose(8, 4, 3, stride=2, pad_mode="same")
        self.up_padded = nn.Conv2dTranspose(8, 2, 4, stride=2, padding=1, pad_mode="pad")
        self.average = nn.AvgPool2d(3, 2, pad_mode="same")
        self.padded = nn.AvgPool2d(3, 2, pad_mode="pad", padding=1, count_include_pad=False)
        self.most = nn.MaxPool2d(3, 2, pad_mode="pad", padding=1)
        self.groups, self.slopes = nn.GroupNorm(2, 8), nn.PReLU(8)
        self.swish, self.hard, self.silu, self.relu6 = nn.HSwish(), nn.HSigmoid(), nn.SiLU(), nn.ReLU6()
        self.elu, self.edge = nn.ELU(), nn.Pad(((0, 0), (0, 0), (1, 2), (0, 1)))

    def construct(self, x):
        """Runs it."""
        x = self.conv(x)
        y = self.depthwise(x)
        y = self.slopes(self.hard(self.swish(y)) - self.silu(y)) + self.relu6(y * 3) - self.elu(y)
        z = self.groups(self.average(x) + self.most(x) * 2.0 + self.padded(x) / ops.exp(-ops.abs(x.mean())))
        a, b = ops.split(z, 4, axis=1)
        joined = ops.cat((a, b, a), 1)[:, :8, 1:, ::2]
        up = self.up(z)
        near = ops.interpolate(up, size=(13, 13), mode="nearest")
        smooth = ops.interpolate(up, size=(13, 13), mode="bilinear", align_corners=False)
        return (
            y, joined, up, self.up_padded(z), near.mean((2, 3), keep_dims=True), smooth.max(axis=1),
            self.edge(smooth), ops.cast(ops.sqrt(ops.abs(smooth)), ms.float16),
        )  # fmt: skip


class Arithmetic(nn.Cell):
    """Elementwise operators, comparisons, movement."""

    def construct(self, x, y, n):
        """Runs it."""
        values, places = ops.max(x, axis=1)
        return (
            ops.maximum(x, y) + ops.minimum(x, 1.0), ops.pow(ops.abs(x), 2.0), ops.rsqrt(ops.square(x) + 1),
            ops.where(x > y, x, y), ops.select(n >= 3, x, y), x * n, ops.cast(x != y, ms.int32),
            ops.stack((x, y), 1), ops.tile(x, (2, 1)), ops.broadcast_to(x[:1], (4, 6)), x[-1, ::-2],
            ops.gather(x, Tensor(np.array([0, 2], np.int32)), 1), ops.log_softmax(x, 1), values, places,
            ops.floor(x) + ops.sin(x) - ops.neg(y), ops.bmm(ops.stack((x, y)), ops.stack((y, x)).swapaxes(1, 2)),
            ops.squeeze(ops.expand_dims(x, 1), 1), x.sum(1, keepdims=True), 2 - x, 1 / (ops.exp(y) + n),
        )  # fmt: skip


def seeded(net):
    """The network for inference, its weights drawn anew."""
    net.set_train(False)
    for parameter in net.get_parameters():
        values = RNG.standard_normal(parameter.shape) / max(1, np.prod(parameter.shape[1:])) ** 0.5
        positive = parameter.name.endswith(("variance", "gamma"))
        parameter.set_data(Tensor((np.abs(values) + 0.5 if positive else values).astype(np.float32)))
    return net


def floats(*dims):
    """A seeded input."""
    return RNG.standard_normal(dims).astype(np.float32)


def main():
    """Writes the files."""
    ms.set_context(mode=ms.GRAPH_MODE)
    held = {}
    cases = {
        "lenet": (LeNet(), [floats(1, 1, 28, 28)]),
        "attention": (Attention(), [RNG.integers(0, 20, (1, 8)).astype(np.int32)]),
        "layers": (Layers(), [floats(1, 3, 16, 16)]),
        "arithmetic": (
            Arithmetic(),
            [floats(4, 6), floats(4, 6), RNG.integers(0, 6, (4, 6)).astype(np.int32)],
        ),
    }
    for name, (net, inputs) in cases.items():
        tensors = [Tensor(item) for item in inputs]
        made = seeded(net)(*tensors)
        path = FOLDER / f"{name}.mindir"
        path.unlink(missing_ok=True)
        ms.export(net, *tensors, file_name=str(path), file_format="MINDIR")
        path.chmod(0o644)
        held.update({f"{name}.input{at}": item for at, item in enumerate(inputs)})
        made = made if isinstance(made, tuple) else (made,)
        held.update({f"{name}.output{at}": item.asnumpy() for at, item in enumerate(made)})
    np.savez_compressed(FOLDER / "outputs.npz", **held)


if __name__ == "__main__":
    main()
