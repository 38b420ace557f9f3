"""The training step of ViT-B/16 as MindSpore's model zoo has it (research/cv/vit_base: modeling_ms.py,
net_config.py, train.py); needs torch.

Structure only: everything in float16 (amp_level O3) but for master weights and the loss, and for the scores
of attention, which a float32 number divides; q, k and v as products of their own; keys transposed by an
operator; no dropout, since its configuration keeps everything (its rates are probabilities to keep, and
1.0); momentum.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import ascendsim as asim
from ascendsim.training.optimizers import Momentum
from ascendsim.training.step import TrainingStep
from tests.support.vit_training import LayerNorm, Linear, Sizes

VIT_B_16 = Sizes(classes=10, patch=16, batch=32)
EPSILON = 1e-6


class Attention(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (Linear(sizes.width, sizes.width) for _ in range(4))
        self.heads = sizes.heads

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        query, key, value = (
            one(x).view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for one in (self.query, self.key, self.value)
        )
        scores = query @ key.transpose(-1, -2).contiguous()
        scores = (scores.float() / (width // self.heads) ** 0.5).half()
        y = F.softmax(scores, -1) @ value
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.attention_norm, self.ffn_norm = (LayerNorm(sizes.width, EPSILON) for _ in range(2))
        self.attention, inner = Attention(sizes), 4 * sizes.width
        self.fc1, self.fc2 = Linear(sizes.width, inner), Linear(inner, sizes.width)

    def forward(self, x: Tensor) -> Tensor:
        x = self.attention(self.attention_norm(x)) + x
        return self.fc2(F.gelu(self.fc1(self.ffn_norm(x)), approximate="tanh")) + x


class ViT(nn.Module):
    """Its result is the loss of a step."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        places = (sizes.image // sizes.patch) ** 2 + 1
        self.patches = nn.Conv2d(3, sizes.width, sizes.patch, sizes.patch)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, sizes.width))
        self.positions = nn.Parameter(torch.zeros(1, places, sizes.width))
        self.layers = nn.Sequential(*(Block(sizes) for _ in range(sizes.layers)))
        self.norm, self.head = LayerNorm(sizes.width, EPSILON), Linear(sizes.width, sizes.classes)

    def forward(self, images: Tensor, target: Tensor) -> Tensor:
        conv = self.patches
        x = F.conv2d(images.half(), conv.weight.half(), None, conv.stride)
        x = x + conv.bias.half().view(1, -1, 1, 1)
        x = x.flatten(2).transpose(1, 2)
        x = torch.cat((self.cls_token.half().expand(x.shape[0], -1, -1), x), 1)
        x = self.layers(x + self.positions.half())
        return F.cross_entropy(self.head(self.norm(x)[:, 0]).float(), target)


def vit_base_step(sizes: Sizes = VIT_B_16) -> TrainingStep:
    """The whole step."""
    with torch.device("meta"):
        network = ViT(sizes).train()
        images = torch.rand(sizes.batch, 3, sizes.image, sizes.image)
        target = torch.randint(0, sizes.classes, (sizes.batch,))
    momentum = Momentum(0.9, weight_decay=1e-4, applied=True)
    return asim.training_step(network, (images, target), optimizer=momentum)
