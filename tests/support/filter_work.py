"""Gradients of filters on square maps."""

from __future__ import annotations

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format
from ascendsim.opset.work import ConvGeometry, FilterWork
from tests.support.lowering import ref


def filter_work(images: int, channels: int, size: int, outputs: int, kernel: int, *more: int) -> FilterWork:
    """The work; `more` is stride, padding and groups."""
    stride, pad, groups = more
    out = (size + 2 * pad - kernel) // stride + 1
    conv = ConvGeometry(
        images, channels, size, size, kernel, kernel, stride, stride, 1, 1, (pad,) * 4, out, out
    )
    return FilterWork(
        outputs,
        kernel * kernel * channels,
        conv,
        ref("dy", (images, outputs * groups, out, out), Format.NC1HWC0),
        ref("x", (images, channels * groups, size, size), Format.NC1HWC0),
        ref("dw", (outputs * groups, channels, kernel, kernel), Format.FRACTAL_Z, DType.FLOAT32),
        groups,
    )
