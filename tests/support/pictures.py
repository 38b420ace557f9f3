"""Images for tests: smooth ones, and files of them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Pixels = NDArray[np.uint8]


def smooth(height: int, width: int, seed: int = 0) -> Pixels:
    """Colours that change slowly, so that little is lost where colours have half the pixels."""
    start, down, right = np.random.default_rng(seed).integers(20, 80, (3, 3))
    y, x = np.mgrid[0 : 1 : height * 1j, 0 : 1 : width * 1j]
    return np.round(start + y[..., None] * down + x[..., None] * right).astype(np.uint8)


def file_of(pixels: Pixels, kind: str = "PNG", **options: Any) -> bytes:
    """The bytes of an image file."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind, **options)
    return buffer.getvalue()


def folder_of(path: Path, count: int, height: int, width: int, kind: str = "JPEG", **options: Any) -> Path:
    """A folder with that many different images."""
    path.mkdir(exist_ok=True)
    for number in range(count):
        name = f"{number:02}.{'jpg' if kind == 'JPEG' else kind.lower()}"
        (path / name).write_bytes(file_of(smooth(height, width, number), kind, **options))
    return path
