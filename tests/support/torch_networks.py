"""Small networks of the structure of well-known ones, with seeded weights; needs torch."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

WORDS = 53


class LeNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.avg_pool2d(F.relu(self.conv2(x)), 2)
        x = torch.tanh(self.fc1(torch.flatten(x, 1)))
        return self.fc3(torch.sigmoid(self.fc2(x)))


class Residual(nn.Module):
    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(outer), nn.BatchNorm2d(outer)
        self.conv2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        y += self.downsample(x)
        return self.relu(y)


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True)
        )
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.layer1, self.layer2 = Residual(8, 8, 1), Residual(8, 16, 2)
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer2(self.layer1(self.pool(self.stem(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class Inverted(nn.Module):
    """Depthwise between two pointwise convolutions, with squeeze and excitation."""

    def __init__(self, channels: int, wide: int) -> None:
        super().__init__()
        self.expand = nn.Sequential(
            nn.Conv2d(channels, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6()
        )
        self.depthwise = nn.Conv2d(wide, wide, 3, 1, 1, groups=wide, bias=False)
        self.norm, self.act = nn.BatchNorm2d(wide), nn.Hardswish(inplace=True)
        self.squeeze, self.excite = nn.Conv2d(wide, 8, 1), nn.Conv2d(8, wide, 1)
        self.project = nn.Sequential(nn.Conv2d(wide, channels, 1, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x: Tensor) -> Tensor:
        y = self.act(self.norm(self.depthwise(self.expand(x))))
        gate = F.hardsigmoid(self.excite(F.silu(self.squeeze(F.adaptive_avg_pool2d(y, 1)))))
        return x + self.project(y * gate)


class MobileNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU6(inplace=True)
        )
        self.blocks = nn.Sequential(Inverted(8, 24), Inverted(8, 32))
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(8, 10))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(x)).mean([2, 3]))


class SelfAttention(nn.Module):
    def __init__(self, width: int, heads: int, causal: bool = False) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.heads, self.causal = heads, causal

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        batch, length, width = x.shape
        parts = (
            one(x).view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for one in (self.query, self.key, self.value)
        )
        y = F.scaled_dot_product_attention(*parts, attn_mask=mask, is_causal=self.causal)
        return y.transpose(1, 2).reshape(batch, length, width)


class Encoder(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention, self.output = SelfAttention(width, heads), nn.Linear(width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.norm1(x + self.dropout(self.output(self.attention(x, mask))))
        return self.norm2(x + self.dropout(self.down(F.gelu(self.up(x)))))


class Bert(nn.Module):
    """Words, positions and a mask of what is padding; scores of words by the tied table."""

    def __init__(self, width: int = 32, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(WORDS, width, padding_idx=0), nn.Embedding(16, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.layer = nn.ModuleList(Encoder(width, heads) for _ in range(layers))
        self.decoder = nn.Linear(width, WORDS)
        self.decoder.weight = self.words.weight

    def forward(self, ids: Tensor) -> Tensor:
        x = self.norm(self.words(ids) + self.positions(torch.arange(ids.shape[1])))
        mask = (ids != 0)[:, None, None, :]
        for layer in self.layer:
            x = layer(x, mask)
        return self.decoder(x)


class GptBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.c_fc, self.c_out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads
        self.register_buffer("bias", torch.tril(torch.ones(16, 16, dtype=torch.bool))[None, None])

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.c_attn(self.ln_1(x)).split(width, dim=2)
        q, k, v = (one.view(batch, length, self.heads, -1).permute(0, 2, 1, 3) for one in parts)
        scores = q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)
        scores = scores.masked_fill(~self.bias[:, :, :length, :length], torch.finfo(x.dtype).min)
        y = (F.softmax(scores, -1) @ v).transpose(1, 2).contiguous().view(batch, length, width)
        x = x + self.c_proj(y)
        return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(WORDS, width), nn.Embedding(16, width)
        self.h = nn.Sequential(GptBlock(width, heads), GptBlock(width, heads))
        self.ln_f, self.lm_head = nn.LayerNorm(width), nn.Linear(width, WORDS, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        places = torch.arange(0, ids.shape[1]).unsqueeze(0)
        return self.lm_head(self.ln_f(self.h(self.wte(ids) + self.wpe(places))))


class RmsNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class Llama(nn.Module):
    """One block: root mean squares, rotary positions, two query heads a key, a gated product."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(WORDS, width)
        self.input_layernorm, self.post_layernorm, self.norm = (RmsNorm(width) for _ in range(3))
        size = width // heads
        self.q_proj, self.o_proj = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.k_proj, self.v_proj = (nn.Linear(width, width // 2, bias=False) for _ in range(2))
        self.gate_proj, self.up_proj = (nn.Linear(width, 3 * width, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(3 * width, width, bias=False)
        self.lm_head = nn.Linear(width, WORDS, bias=False)
        self.heads = heads
        self.register_buffer("inv_freq", 1.0 / 10000 ** (torch.arange(0, size, 2).float() / size))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed_tokens(ids)
        batch, length, width = x.shape
        angles = torch.arange(length)[:, None].float() * self.inv_freq[None, :]
        angles = torch.cat((angles, angles), dim=-1)
        cos, sin = angles.cos(), angles.sin()
        y = self.input_layernorm(x)
        q = self._turned(self.q_proj(y).view(batch, length, self.heads, -1).transpose(1, 2), cos, sin)
        k = self._turned(self.k_proj(y).view(batch, length, self.heads // 2, -1).transpose(1, 2), cos, sin)
        v = self.v_proj(y).view(batch, length, self.heads // 2, -1).transpose(1, 2)
        k, v = (
            one[:, :, None].expand(-1, -1, 2, -1, -1).reshape(batch, self.heads, length, -1) for one in (k, v)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o_proj(y.transpose(1, 2).reshape(batch, length, width))
        y = self.post_layernorm(x)
        x = x + self.down_proj(F.silu(self.gate_proj(y)) * self.up_proj(y))
        return self.lm_head(self.norm(x))

    @staticmethod
    def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        half = x.shape[-1] // 2
        return x * cos + torch.cat((-x[..., half:], x[..., :half]), dim=-1) * sin


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Dropout(0.25), nn.Linear(24, 10))


def _image(channels: int, size: int) -> Callable[[], Tensor]:
    return lambda: torch.randn(2, channels, size, size)


def _ids() -> Tensor:
    ids = torch.randint(1, WORDS, (2, 8))
    ids[1, 5:] = 0
    return ids


NETWORKS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Tensor]]] = {
    "mlp": (mlp, lambda: torch.randn(4, 12)),
    "lenet": (LeNet, _image(1, 28)),
    "resnet": (ResNet, _image(3, 32)),
    "mobilenet": (MobileNet, _image(3, 16)),
    "bert": (Bert, _ids),
    "gpt": (Gpt, _ids),
    "llama": (Llama, _ids),
}

# Of those that are made alike (convolutions, attention) the gate has one.
IN_TURN = [
    name if name in ("mlp", "resnet", "llama") else pytest.param(name, marks=pytest.mark.slow)
    for name in NETWORKS
]


def network(name: str) -> tuple[nn.Module, Tensor]:
    """A network with seeded weights and statistics that are not those of a fresh one, and an input."""
    torch.manual_seed(7)
    make, example = NETWORKS[name]
    module = make()
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            nn.init.uniform_(part.running_mean, -0.5, 0.5)
            nn.init.uniform_(part.running_var, 0.5, 1.5)
            nn.init.uniform_(part.weight, 0.5, 1.5)
    return module, example()
