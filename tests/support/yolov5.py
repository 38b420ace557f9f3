"""YOLOv5s with its batch normalisation, for training steps; needs torch.

Layers and channels are those of the published release 5.0 (depth 0.33, width 0.5; slices in front, spatial
pyramid pooling), which the model zoo of MindSpore follows. What assigns targets to boxes is left out: the
loss is the mean square of the three maps.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def conv(inner: int, outer: int, size: int = 1, stride: int = 1) -> nn.Sequential:
    layer = nn.Conv2d(inner, outer, size, stride, size // 2, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outer, eps=1e-3, momentum=0.03), nn.SiLU())


class Bottleneck(nn.Module):
    def __init__(self, channels: int, adds: bool) -> None:
        super().__init__()
        self.inner, self.outer, self.adds = conv(channels, channels), conv(channels, channels, 3), adds

    def forward(self, x: Tensor) -> Tensor:
        y = self.outer(self.inner(x))
        return x + y if self.adds else y


class C3(nn.Module):
    """Half of the channels goes through the bottlenecks, the other half past them."""

    def __init__(self, inner: int, outer: int, depth: int = 1, adds: bool = True) -> None:
        super().__init__()
        half = outer // 2
        self.through, self.past = conv(inner, half), conv(inner, half)
        self.layers = nn.Sequential(*(Bottleneck(half, adds) for _ in range(depth)))
        self.join = conv(2 * half, outer)

    def forward(self, x: Tensor) -> Tensor:
        return self.join(torch.cat((self.layers(self.through(x)), self.past(x)), 1))


class Pyramid(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.inner, self.outer = conv(channels, channels // 2), conv(2 * channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        x = self.inner(x)
        return self.outer(torch.cat([x, *(F.max_pool2d(x, size, 1, size // 2) for size in (5, 9, 13))], 1))


class Yolov5s(nn.Module):
    """Its result is the loss."""

    def __init__(self, classes: int = 80) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv(12, 32, 3), conv(32, 64, 3, 2), C3(64, 64), conv(64, 128, 3, 2))
        self.third = C3(128, 128, 3)
        self.fourth = nn.Sequential(conv(128, 256, 3, 2), C3(256, 256, 3))
        self.fifth = nn.Sequential(conv(256, 512, 3, 2), Pyramid(512), C3(512, 512, adds=False))
        self.top, self.up4 = conv(512, 256), C3(512, 256, adds=False)
        self.middle, self.up3 = conv(256, 128), C3(256, 128, adds=False)
        self.down4, self.out4 = conv(128, 128, 3, 2), C3(256, 256, adds=False)
        self.down5, self.out5 = conv(256, 256, 3, 2), C3(512, 512, adds=False)
        self.heads = nn.ModuleList(nn.Conv2d(width, 3 * (5 + classes), 1) for width in (128, 256, 512))

    def forward(self, images: Tensor) -> Tensor:
        slices = [images[..., top::2, left::2] for left in (0, 1) for top in (0, 1)]
        third = self.third(self.stem(torch.cat(slices, 1)))
        fourth = self.fourth(third)
        top = self.top(self.fifth(fourth))
        middle = self.middle(self.up4(torch.cat((F.interpolate(top, scale_factor=2.0), fourth), 1)))
        maps = [self.up3(torch.cat((F.interpolate(middle, scale_factor=2.0), third), 1))]
        maps.append(self.out4(torch.cat((self.down4(maps[0]), middle), 1)))
        maps.append(self.out5(torch.cat((self.down5(maps[1]), top), 1)))
        return sum(((head(x) ** 2).mean() for head, x in zip(self.heads, maps, strict=True)), torch.zeros(()))
