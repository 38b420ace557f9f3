"""Images as users give them: files, bytes, arrays of pixels."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Union

import numpy as np

from ascendsim.core.errors import InputError
from ascendsim.graph.ir import Array

if TYPE_CHECKING:
    from PIL.Image import Image

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp")
Images = Union[str, PathLike[str], bytes, Array, Sequence[Any]]
Made = TypeVar("Made")

JPEGD, SOFTWARE, NONE = "JPEGD", "software", "none"


@dataclass(frozen=True, slots=True)
class Picture:
    """One image.

    Attributes:
        name: Of its file, or a name with its number.
        source: Path, bytes of a file, or pixels.
        width, height: Pixels.
        decoder: "JPEGD" for what the hardware decodes, "software" for other files, "none" for pixels.
    """

    name: str
    source: Path | bytes | Array
    width: int
    height: int
    decoder: str

    @property
    def pixels(self) -> int:
        return self.width * self.height

    def opened(self, use: Callable[[Image], Made]) -> Made:
        """What a function makes of the image.

        Raises:
            InputError: If it cannot be read.
        """
        return _open(self.name, self.source, use)


def pictures(images: Images) -> tuple[Picture, ...]:
    """The images that a user gives, in order, with what their heads say.

    Args:
        images: A folder or a file; bytes of a file; an array of uint8 [height, width], [height, width, 3] or
            [images, height, width, 3]; or a sequence of these, one image each.

    Raises:
        InputError: If there is none, or one is no image.
    """
    if isinstance(images, (str, PathLike)):
        folder = Path(images)
        given: Sequence[Any] = in_folder(folder) if folder.is_dir() else [folder]
        if not given:
            rule = f"holds no image ({', '.join(ENDINGS)})"
            raise InputError(f"images: folder {str(folder)!r}", rule)
    elif isinstance(images, bytes) or (isinstance(images, np.ndarray) and images.ndim < 4):
        given = [images]
    else:
        given = list(images)
    if not given:
        raise InputError("option images", "must hold an image")
    return tuple(_picture(number, source) for number, source in enumerate(given))


def in_folder(folder: Path) -> list[Path]:
    """Image files of a folder, by name."""
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in ENDINGS)


def _picture(number: int, source: Any) -> Picture:
    if isinstance(source, (str, PathLike)):
        source = Path(source)
        name = source.name
    else:
        name = f"image {number}"
    if isinstance(source, np.ndarray):
        if source.dtype != np.uint8 or not (source.ndim == 2 or (source.ndim == 3 and source.shape[2] == 3)):
            form = f"{source.dtype}{list(source.shape)}"
            raise InputError(f"images: {name}", "must be uint8 [height, width] or [height, width, 3]", form)
        if not source.size:
            raise InputError(f"images: {name}", "must have pixels", f"{list(source.shape)}")
    elif not isinstance(source, (Path, bytes)):
        rule = "must be a path, bytes of a file, or an array of pixels"
        raise InputError(f"images: {name}", rule, type(source).__name__)
    width, height, decoder = _open(name, source, _head)
    return Picture(name, source, width, height, NONE if isinstance(source, np.ndarray) else decoder)


def _head(image: Image) -> tuple[int, int, str]:
    """Size, and who decodes: JPEGD takes baseline files of grey or YCbCr only."""
    baseline = image.format == "JPEG" and not image.info.get("progressive") and image.mode in ("L", "RGB")
    return *image.size, JPEGD if baseline else SOFTWARE


def _open(name: str, source: Path | bytes | Array, use: Callable[[Image], Made]) -> Made:
    from PIL import Image, UnidentifiedImageError

    subject = f"images: file {os.fspath(source)!r}" if isinstance(source, Path) else f"images: {name}"
    try:
        if isinstance(source, np.ndarray):
            return use(Image.fromarray(source))
        with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source) as image:
            return use(image)
    except FileNotFoundError:
        raise InputError(subject, "does not exist") from None
    except UnidentifiedImageError:
        raise InputError(subject, "cannot be read as an image", remedy="leave it out") from None
    except (OSError, Image.DecompressionBombError, ValueError, SyntaxError) as error:
        rule = f"cannot be read as an image ({error})"
        raise InputError(subject, rule, remedy="leave it out") from None
