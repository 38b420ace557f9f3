"""Inputs for real networks: pictures, pages and sounds, closer to what they were trained on than noise is."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def picture(shape: tuple[int, ...]) -> NDArray[Any]:
    """A smooth picture with some edges, [batch, channels, height, width], values in -1..1."""
    batch, channels, height, width = shape
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    waves = [np.sin(x / (7 + 3 * c)) * np.cos(y / (5 + 2 * c)) for c in range(channels)]
    drawn = np.stack([np.where((x // 16 + y // 16) % 2 == 0, wave, -wave) for wave in waves])
    return np.broadcast_to(drawn, (batch, *drawn.shape)).astype(np.float32).copy()


def page(shape: tuple[int, ...]) -> NDArray[Any]:
    """A white page (1) with lines of black strokes (-1), [batch, channels, height, width]: text to a
    detector."""
    rng = np.random.default_rng(1)
    height, width = shape[-2:]
    drawn = np.ones((height, width), np.float32)
    for top in range(20, height - 30, 48):
        for left in range(20, width - 30, 14):
            for stroke in rng.integers(0, 16, 3):
                if stroke < 8:
                    drawn[top : top + 18, left + stroke : left + stroke + 3] = -1
                else:
                    drawn[top + stroke : top + stroke + 3, left : left + 10] = -1
    return np.broadcast_to(drawn, shape).copy()


def sound(samples: int) -> NDArray[Any]:
    """[1, samples] of a hum and noise, sampled at 16 kHz, values in -1..1."""
    hum = np.sin(np.arange(samples) / 16000 * 2 * np.pi * 150)
    noise = np.random.default_rng(0).normal(size=samples)
    return (0.3 * hum + 0.05 * noise)[None].astype(np.float32)


def features(frames: int) -> NDArray[Any]:
    """[1, frames, 96] of the size that openwakeword's embedding network gives; the seed is one for which no
    wake word's probability lies in the tail of its sigmoid, where onnxruntime's own is rough."""
    return np.random.default_rng(47).normal(0, 6, (1, frames, 96)).astype(np.float32)
