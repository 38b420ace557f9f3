"""Folders of images as data: read, brought to the size of the input, scaled as the network was trained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ascendsim.core.errors import InputError
from ascendsim.graph.ir import Array, Graph

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp")
# of 0 to 255, what torchvision trains with: 0.485, 0.456, 0.406 and 0.229, 0.224, 0.225 of 1
IMAGENET_MEAN, IMAGENET_STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)


def image_batches(graph: Graph, folder: Path, mean: Sequence[float], std: Sequence[float]) -> Iterator[Array]:
    """Batches of images, in order of their names; images of a last batch that is not full are left out.

    Args:
        graph: With one input [batch, channels, height, width] of 1 or 3 channels.
        folder: With .png, .jpg or .bmp files.
        mean: Taken off each channel, in units of 0 to 255; one number stands for all.
        std: What each channel is divided by then.

    Raises:
        InputError: If the input is no image, there are not enough images, or one cannot be read.
    """
    shapes = [tensor.static_shape for tensor in graph.inputs]
    if len(shapes) != 1 or len(shapes[0]) != 4 or shapes[0][1] not in (1, 3):
        rule = "must have one input [batch, 1 or 3 channels, height, width] to read images"
        raise InputError(f"model {graph.name!r}", rule, shapes, "give an .npz file")
    batch, channels, height, width = shapes[0]
    shift, factor = (_numbers(name, given, channels) for name, given in (("mean", mean), ("std", std)))
    if not (factor > 0).all():
        raise InputError("option std", "must be above 0", tuple(std), "it is what values are divided by")
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() in ENDINGS)
    if len(files) < batch:
        rule = f"must hold at least {batch} images ({', '.join(ENDINGS)})"
        raise InputError(f"folder {str(folder)!r}", rule, len(files), "add images, or load with batch=1")
    for at in range(0, len(files) - batch + 1, batch):
        read = [_image(path, channels, height, width) for path in files[at : at + batch]]
        yield ((np.stack(read) - shift) / factor).astype(np.float32)


def _numbers(name: str, given: Sequence[float], channels: int) -> Array:
    """One number a channel, in a form that broadcasts over [batch, channel, height, width]."""
    if len(given) not in (1, channels):
        rule = f"must have one number, or one for each of {channels} channels"
        raise InputError(f"option {name}", rule, len(given))
    return np.broadcast_to(np.array(given, np.float64), (channels,)).reshape(1, -1, 1, 1)


def _image(path: Path, channels: int, height: int, width: int) -> Array:
    """Pixels as [channel, row, column], 0 to 255."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            wanted = image.convert("RGB" if channels == 3 else "L")
            pixels = np.asarray(wanted.resize((width, height), Image.Resampling.BILINEAR))
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError, ValueError) as error:
        rule = f"cannot be read as an image ({error})"
        raise InputError(f"file {str(path)!r}", rule, remedy="leave it out") from None
    return pixels.reshape(height, width, channels).transpose(2, 0, 1)
