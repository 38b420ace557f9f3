"""Dynamic AIPP: what is done to an image comes with every run, as bytes of an input that ATC adds (AippData).

The bytes are CANN's structures kAippDynamicPara, 64 bytes, and kAippDynamicBatchPara, 96 bytes for each image
of the batch (ATC guide, "Parameter structure for dynamic AIPP"). Minima and factors are float16 there, and
padding is zero.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace

import numpy as np

from ascendsim.core.errors import InputError
from ascendsim.graph.ir import Array
from ascendsim.passes.aipp.settings import AippSettings

AIPP_DATA = "ascend_dynamic_aipp_data"  # the extra input, GE's name
_WHOLE = struct.Struct("<B4b3x2i9h6x6B2x16x")  # format, switches and images; size; matrix; biases
_IMAGE = struct.Struct("<4b4x4i4i4i4h4e4e16x")  # switches; crop, resize, padding; mean, minimum, factor
_CODES = {"YUV420SP_U8": 1, "RGB888_U8": 3, "YUV400_U8": 4}  # aclAippInputFormat
_FORMATS = {code: name for name, code in _CODES.items()}


@dataclass(frozen=True, slots=True)
class DynamicAipp:
    """An input whose image is described when the model runs.

    Attributes:
        input_rank: Which input of the model.
        most_bytes: That the images of a batch have at most (max_src_image_size).
    """

    input_rank: int
    most_bytes: int


def data_bytes(batch: int) -> int:
    """Size of AippData.

    >>> data_bytes(1)
    160
    """
    return _WHOLE.size + batch * _IMAGE.size


def to_bytes(item: AippSettings, batch: int, subject: str) -> Array:
    """AippData that says what a static AIPP would do to each image of a batch.

    Raises:
        InputError: If the structure cannot say it.
    """
    if not item.source:
        raise InputError(
            subject, "needs src_image_size_w and src_image_size_h: the image's size comes with it"
        )
    if item.border_value:
        raise InputError(
            subject, "pads with 0 where AIPP is dynamic", item.border_value, "leave padding_value out"
        )
    top, left, height, width = item.window
    above, before, below, behind = item.border
    biases = (*item.output_bias, *item.input_bias)
    whole = _WHOLE.pack(
        _CODES[item.input_format], bool(item.matrix), item.swap, 0, batch, item.source[1], item.source[0],
        *(item.matrix or (0,) * 9), *biases,
    )  # fmt: skip
    limit = float(np.finfo(np.float16).max)
    for name, values in (("min_chn", item.minimum), ("var_reci_chn", item.scale)):
        if max(abs(value) for value in values) > limit:
            raise InputError(
                f"{subject}: {name}", f"must be at most {limit:g}, since it comes as float16", values
            )
    image = _IMAGE.pack(
        bool(item.crop), 0, any(item.border), 0, left, top, width, height, 0, 0, 0, 0,
        above, below, before, behind, *item.mean, 0, *item.minimum, 0.0, *item.scale, 1.0,
    )  # fmt: skip
    return np.frombuffer(whole + batch * image, np.uint8).copy()


def from_bytes(data: Array, batch: int, subject: str) -> AippSettings:
    """What AippData says.

    Raises:
        InputError: If it is no such structure, or says something that cannot be done here.
    """
    if data.dtype != np.uint8 or data.shape != (data_bytes(batch),):
        wanted = f"must be {data_bytes(batch)} bytes: 64, and 96 for each of {batch} images"
        raise InputError(subject, wanted, f"{data.dtype}{list(data.shape)}", "asim.aipp_data(...) makes them")
    content = data.tobytes()
    code, csc, swap, turn, count, width, height, *rest = _WHOLE.unpack_from(content)
    if code not in _FORMATS:
        known = ", ".join(f"{number} = {name}" for number, name in _FORMATS.items())
        raise InputError(f"{subject}: inputFormat", f"must be out of {known}", code)
    if count not in (1, batch):
        raise InputError(f"{subject}: batchNum", f"must be {batch}, as the model's batch", count)
    if min(width, height) < 2:
        raise InputError(f"{subject}: srcImageSize", "must be at least 2 x 2", f"{height}x{width}")
    images = {content[_WHOLE.size + number * _IMAGE.size :][: _IMAGE.size] for number in range(count)}
    if len(images) > 1:
        raise InputError(subject, "must be the same for all images of a batch", f"{len(images)} differ")
    crop, resize, padding, rotate, *numbers = _IMAGE.unpack(images.pop())
    for name, value in (("axSwapSwitch", turn), ("scfSwitch", resize), ("rotateSwitch", rotate)):
        if value:
            raise InputError(f"{subject}: {name}", "is not done by AIPP of these chips", value, "set it to 0")
    if padding not in (0, 1):
        raise InputError(f"{subject}: paddingSwitch", "must be 0 or 1 (a constant around the image)", padding)
    left, top, crop_width, crop_height = numbers[:4]
    above, below, before, behind = numbers[8:12]
    if min(left, top, above, below, before, behind) < 0 or (crop and min(crop_width, crop_height) < 1):
        raise InputError(subject, "must not have negative sizes or positions", numbers[:12])
    means, minima, factors = numbers[12:15], numbers[16:19], numbers[20:23]
    if not np.isfinite([*minima, *factors]).all():
        raise InputError(subject, "must have finite minima and factors", [*minima, *factors])
    return AippSettings(
        input_format=_FORMATS[code],
        source=(height, width),
        crop=(top, left, crop_height, crop_width) if crop else (),
        swap=int(bool(swap)),
        matrix=tuple(rest[:9]) if csc else (),
        output_bias=tuple(rest[9:12]),
        input_bias=tuple(rest[12:15]),
        mean=tuple(means),
        minimum=tuple(minima),
        scale=tuple(factors),
        border=(above, before, below, behind) if padding else (0, 0, 0, 0),
    )


def plain(channels: int, height: int, width: int) -> AippSettings:
    """What is assumed where no run has said anything: an image of the model's own size, as it is."""
    return replace(AippSettings("RGB888_U8" if channels == 3 else "YUV400_U8"), source=(height, width))
