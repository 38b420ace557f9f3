"""What an input takes of an image, and images in that form.

Pillow stands in for the hardware: decoding, bilinear resizing and conversion of colours are Pillow's to the
bit, not DVPP's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import ONE_BY_ONE, InputError
from ascendsim.graph.ir import Array, Graph, Tensor
from ascendsim.images.pictures import Picture, in_folder, pictures
from ascendsim.passes.aipp import AippSettings

if TYPE_CHECKING:
    from PIL.Image import Image

Fit = Literal["stretch", "crop"]
PLANES = "planes"  # floating point, a plane a channel: no AIPP takes the image itself
# of 0 to 255, what torchvision trains with: 0.485, 0.456, 0.406 and 0.229, 0.224, 0.225 of 1
IMAGENET_MEAN, IMAGENET_STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
_MODES = {"RGB888_U8": "RGB", "YUV420SP_U8": "YCbCr", "YUV400_U8": "L"}  # Pillow's, by form


@dataclass(frozen=True, slots=True)
class ImageForm:
    """An input that takes images.

    Attributes:
        name: Of the input.
        form: As AIPP calls it ("RGB888_U8", "YUV420SP_U8", "YUV400_U8"), or `PLANES`.
        batch, channels, height, width: Images of one execution, and the size of each.
        dtype: Of the array that is handed over.
    """

    name: str
    form: str
    batch: int
    channels: int
    height: int
    width: int
    dtype: DType

    @classmethod
    def of(cls, graph: Graph, given: Collection[str] = ()) -> ImageForm:
        """The input of a graph that takes images.

        Args:
            graph: As the user made it, or as it was compiled.
            given: Inputs that have their values.

        Raises:
            InputError: If not one input is left over, or it takes no image.
        """
        left = [tensor for tensor in graph.inputs if tensor.name not in given]
        if len(left) == 1 and (found := _form(left[0])) is not None:
            return found
        rule = "must have one input [batch, 1 or 3 channels, height, width] or one of AIPP to take images"
        shapes = ", ".join(f"{tensor.name} {list(tensor.shape or ())}" for tensor in left) or "none is left"
        raise InputError(f"model {graph.name!r}", rule, shapes, "give its inputs as arrays")

    @staticmethod
    def fits(tensor: Tensor) -> bool:
        """Whether an input takes images."""
        return _form(tensor) is not None

    def array(
        self, batch: Sequence[Picture], mean: Sequence[float], std: Sequence[float], fit: Fit = "stretch"
    ) -> Array:
        """Images as the input takes them.

        Args:
            batch: As many as one execution takes.
            mean: Taken off each channel, in units of 0 to 255; one number stands for all. Both only where no
                AIPP normalises the image.
            std: What each channel is divided by then.
            fit: "stretch" changes proportions; "crop" cuts the middle out, in the proportions of the input.

        Raises:
            InputError: If an image cannot be read, or mean and std do not fit the channels.
        """
        images = [picture.opened(lambda image: self._pixels(image, fit)) for picture in batch]
        stacked = np.stack(images)
        if self.form != PLANES:
            return stacked
        shift, factor = self.scaling(mean, std)
        return ((stacked.transpose(0, 3, 1, 2) - shift) / factor).astype(self.dtype.numpy)

    def scaling(self, mean: Sequence[float], std: Sequence[float]) -> tuple[Array, Array]:
        """What is taken off and what is divided by, in a form that broadcasts over a batch.

        Raises:
            InputError: If they do not fit the channels, or a divisor is not above 0.
        """
        shift, factor = (_numbers(key, given, self.channels) for key, given in (("mean", mean), ("std", std)))
        if not (factor > 0).all():
            raise InputError("option std", "must be above 0", tuple(std), "it is what values are divided by")
        return shift, factor

    def _pixels(self, image: Image, fit: Fit) -> Array:
        """One image: rows, columns and channels, or rows and columns of bytes."""
        from PIL import Image

        mode = _MODES.get(self.form) or ("RGB" if self.channels == 3 else "L")
        box = _middle(image.size, self.width / self.height) if fit == "crop" else None
        size = (self.width, self.height)
        fitted = image.convert(mode).resize(size, Image.Resampling.BILINEAR, box=box)
        if self.form != "YUV420SP_U8":
            pixels = np.asarray(fitted)
            return pixels if self.form == "YUV400_U8" else pixels.reshape(*pixels.shape[:2], self.channels)
        y, *colours = fitted.split()
        half = (self.width // 2, self.height // 2)
        pairs = np.stack([np.asarray(plane.resize(half, Image.Resampling.BOX)) for plane in colours], axis=-1)
        return np.concatenate([np.asarray(y), pairs.reshape(half[1], self.width)])


def _form(tensor: Tensor) -> ImageForm | None:
    shape, dtype = tensor.static_shape if tensor.is_static else (), tensor.origin_dtype or tensor.dtype
    aipp = [node for node in tensor.consumers if node.op_type in ("Aipp", "AippConv")]
    if aipp:
        form = AippSettings.of(aipp[0]).input_format
        rows = shape[1] * 2 // 3 if form == "YUV420SP_U8" else shape[1]
        channels = 1 if form == "YUV400_U8" else 3
        return ImageForm(tensor.name, form, shape[0], channels, rows, shape[2], DType.UINT8)
    if len(shape) == 4 and shape[1] in (1, 3) and dtype is not None and dtype.is_float:
        return ImageForm(tensor.name, PLANES, *shape, dtype)
    return None


def _middle(size: tuple[int, int], ratio: float) -> tuple[float, float, float, float]:
    """The largest box in the middle of an image whose width is `ratio` times its height."""
    width, height = size
    wide, high = min(width, height * ratio), min(height, width / ratio)
    return (width - wide) / 2, (height - high) / 2, (width + wide) / 2, (height + high) / 2


def _numbers(name: str, given: Sequence[float], channels: int) -> Array:
    """One number a channel, in a form that broadcasts over [batch, channel, height, width]."""
    if len(given) not in (1, channels):
        rule = f"must have one number, or one for each of {channels} channels"
        raise InputError(f"option {name}", rule, len(given), "give mean and std as the network was trained")
    return np.broadcast_to(np.array(given, np.float64), (channels,)).reshape(1, -1, 1, 1)


def image_batches(graph: Graph, folder: Path, mean: Sequence[float], std: Sequence[float]) -> Iterator[Array]:
    """Batches of a folder's images, in order of their names; those of a last batch that is not full are left
    out.

    Args:
        graph: With one input that takes images.
        folder: With .png, .jpg or .bmp files.
        mean, std: As in `ImageForm.array`.

    Raises:
        InputError: If the input takes no image, there are not enough images, or one cannot be read.
    """
    form = ImageForm.of(graph)
    form.scaling(mean, std)  # before files are read
    found = in_folder(folder)
    if len(found) < form.batch:
        rule = f"must hold at least {form.batch} images"
        raise InputError(f"folder {str(folder)!r}", rule, len(found), f"add images; {ONE_BY_ONE}")
    for at in range(0, len(found) - form.batch + 1, form.batch):
        yield form.array(pictures(found[at : at + form.batch]), mean, std)
