"""The step of a vision transformer as MindSpore's model zoo trains it (ViT-B with patches of 32 x 32); needs
torch.

Read off its profile (`ascendsim/validate/data/training_profiles.csv`): half precision but for master weights,
sums around the layers, the scaled query and the loss; q, k and v as products of their own; dropout behind
each projection, none on the attention's probabilities; whole layers left out by chance (`Residual`); AdamW
written out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import ascendsim as asim
from ascendsim.graph.ir import Tensor as GraphTensor
from ascendsim.training.backward import ASCEND, Pen
from ascendsim.training.optimizers import AdamW, Scalars
from ascendsim.training.step import TrainingStep


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of a network and its images.

    Attributes:
        layers, width, heads, classes: Of the network.
        image, patch: Pixels along a side.
        batch: Images.
        dropout, drop_path: Probabilities that a number, that a layer is left out.
    """

    layers: int = 12
    width: int = 768
    heads: int = 12
    classes: int = 1001
    image: int = 224
    patch: int = 32
    batch: int = 64
    dropout: float = 0.1
    drop_path: float = 0.1


SMALL = Sizes(layers=2, width=64, heads=4, classes=11, image=32, patch=8, batch=2)

# how the published step was compiled: its own casts, and MindSpore's UB fusion in place of CANN's
OPTIONS: dict[str, Any] = {
    "fusion": "all",
    "precision_mode": "must_keep_origin_dtype",
    "options": {"ub_limits": "MindSpore"},
}


@dataclass(frozen=True, slots=True)
class ZooAdamW(AdamW):
    """AdamW as the zoo writes it: moments are divided by their corrections weight by weight, so that no rule
    of CANN makes one operator of an update; vectors do not decay; the loss scale comes out first. Results are
    assigned to the parameters, as MindSpore does with whatever no kernel has written in place.
    """

    loss_scale: float = 1024.0
    name: ClassVar[str] = "adamw"

    def scalars(self, pen: Pen, rate: GraphTensor, powers: Sequence[GraphTensor]) -> Scalars:
        """What all weights share."""
        first, second = (pen.op("Sub", 1.0, power) for power in powers)
        return {**self._constants(pen), "rate": rate, "first": first, "second": second}

    def update(
        self,
        pen: Pen,
        weight: GraphTensor,
        grad: GraphTensor,
        state: Sequence[GraphTensor],
        scalars: Scalars,
    ) -> tuple[GraphTensor, ...]:
        """The new weight, then its new state."""
        s = scalars
        grad = pen.op("Mul", grad, 1 / self.loss_scale)
        squares = pen.op("Mul", s["Mul3"], pen.op("Mul", grad, grad))
        first = pen.op("Add", pen.op("Mul", s["Mul0"], state[0]), pen.op("Mul", s["Mul1"], grad))
        second = pen.op("Add", pen.op("Mul", s["Mul2"], state[1]), squares)
        root = pen.op("Sqrt", pen.op("Div", second, s["second"]))
        ratio = pen.op("Div", pen.op("Div", first, s["first"]), pen.op("Add", root, self.epsilon))
        if len(weight.static_shape) > 1:
            ratio = pen.op("Add", pen.op("Mul", weight, self.weight_decay), ratio)
        new = pen.op("Sub", weight, pen.op("Mul", s["rate"], ratio))
        pairs = zip((weight, *state), (new, first, second), strict=True)
        return tuple([pen.op("Assign", before, after, domain=ASCEND) for before, after in pairs])


class Linear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight.half(), self.bias.half())


class LayerNorm(nn.LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x.half(), self.normalized_shape, self.weight.half(), self.bias.half(), self.eps)


class Attention(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.to_q, self.to_k, self.to_v, self.to_out = (Linear(sizes.width, sizes.width) for _ in range(4))
        self.heads, self.dropout = sizes.heads, nn.Dropout(sizes.dropout)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        query, key, value = (
            one(x).view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for one in (self.to_q, self.to_k, self.to_v)
        )
        query = (query.float() * (width // self.heads) ** -0.5).half()
        y = F.softmax(query @ key.transpose(-1, -2), -1) @ value
        return self.dropout(self.to_out(y.transpose(1, 2).reshape(batch, length, width)))


class FeedForward(nn.Sequential):
    def __init__(self, sizes: Sizes) -> None:
        inner = 4 * sizes.width
        super().__init__(
            Linear(sizes.width, inner),
            nn.GELU(approximate="tanh"),
            nn.Dropout(sizes.dropout),
            Linear(inner, sizes.width),
            nn.Dropout(sizes.dropout),
        )


class Residual(nn.Module):
    """A normalised layer, now and then left out of the sum."""

    def __init__(self, layer: nn.Module, sizes: Sizes) -> None:
        super().__init__()
        self.norm, self.layer, self.keep = LayerNorm(sizes.width), layer, 1 - sizes.drop_path

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(self.norm(x))
        kept = torch.empty(x.shape[0], 1, 1, device=x.device).bernoulli_(self.keep)
        return x.float() + (y / self.keep).float() * kept


class ViT(nn.Module):
    """Its result is the scaled loss of a step."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.patch, places = sizes.patch, (sizes.image // sizes.patch) ** 2 + 1
        self.patch_to_embedding = Linear(3 * sizes.patch**2, sizes.width)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, sizes.width))
        self.pos_embedding = nn.Parameter(torch.zeros(1, places, sizes.width))
        self.dropout = nn.Dropout(sizes.dropout)
        self.layers = nn.Sequential(
            *(Residual(kind(sizes), sizes) for _ in range(sizes.layers) for kind in (Attention, FeedForward))
        )
        self.norm, self.head = LayerNorm(sizes.width), Linear(sizes.width, sizes.classes)

    def forward(self, images: Tensor, target: Tensor) -> Tensor:
        (batch, channels, size, _), patch = images.shape, self.patch
        side = size // patch
        x = images.half().view(batch, channels, side, patch, side, patch).permute(0, 2, 4, 1, 3, 5)
        x = self.patch_to_embedding(x.reshape(batch, side * side, channels * patch * patch))
        x = torch.cat((self.cls_token.half().expand(batch, -1, -1), x), 1)
        x = self.layers(self.dropout(x + self.pos_embedding.half()))
        scores = self.head(self.norm(x)[:, 0]).float()
        return F.cross_entropy(scores, target) * ZooAdamW().loss_scale


def vit_step(sizes: Sizes, device: str = "meta") -> TrainingStep:
    """The whole step; on the meta device without memory."""
    with torch.device(device):
        network = ViT(sizes).train()
        images = torch.rand(sizes.batch, 3, sizes.image, sizes.image)
        target = torch.rand(sizes.batch, sizes.classes)  # smoothed and mixed labels
    return asim.training_step(network, (images, target), optimizer=ZooAdamW(weight_decay=0.05))
