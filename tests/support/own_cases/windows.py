"""Convolutions, poolings and other windows."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from tests.support.own_cases.making import Cases, ints, some


def add_windows(cases: Cases) -> None:
    def conv(x: tuple[int, ...], w: tuple[int, ...], bias: bool = True, **attributes: Any) -> None:
        cases.add("Conv", some(*x), some(*w), some(w[0]) if bias else None, **attributes)

    conv((2, 20, 9, 11), (33, 20, 3, 5), strides=(2, 1), pads=(1, 2, 0, 1), dilations=(1, 2))
    conv((1, 24, 8, 7), (36, 6, 3, 2), bias=False, group=4, strides=(1, 2))
    conv((2, 24, 8, 7), (48, 1, 3, 3), group=24, auto_pad="SAME_UPPER", strides=(2, 2))
    conv((2, 5, 13), (7, 5, 4), strides=(3,), pads=(2, 1))
    conv((1, 4, 5, 6, 7), (6, 2, 2, 3, 1), group=2, strides=(1, 2, 1), pads=(1, 0, 0, 0, 1, 0))
    conv((2, 16, 5, 6), (32, 16, 1, 1), activation="relu")
    conv((1, 16, 6, 5), (8, 16, 3, 2), auto_pad="SAME_LOWER")
    for group in (1, 2):
        shape = (6, 4 // group, 3, 2)
        cases.add(
            "ConvTranspose",
            some(2, 6, 5, 4),
            some(*shape),
            some(4),
            group=group,
            strides=(2, 3),
            pads=(1, 0, 0, 1),
        )
    cases.add(
        "ConvTranspose", some(1, 3, 7), some(3, 2, 4), None, strides=(2,), dilations=(2,), output_padding=(1,)
    )
    cases.add("ConvTranspose", some(1, 3, 3, 4, 5), some(3, 2, 2, 1, 3), None, strides=(2, 1, 1))
    cases.add("ConvTranspose", some(1, 2, 4, 5), some(2, 3, 1, 2), None, pads=(1, 1, 1, 0))
    cases.add(
        "ConvTranspose", some(1, 2, 4, 5), some(2, 3, 3, 3), None, auto_pad="SAME_UPPER", strides=(3, 2)
    )
    cases.add("ConvTranspose", some(1, 2, 4, 5), some(2, 3, 3, 3), None, output_shape=(9, 14), strides=(2, 3))
    for name in ("MaxPool", "AveragePool", "LpPool"):
        pooled = some(2, 20, 9, 11, positive=True)
        more: dict[str, Any] = {"p": 3} if name == "LpPool" else {}
        cases.add(name, pooled, kernel_shape=(3, 2), strides=(2, 1), pads=(1, 0, 0, 1), **more)
        cases.add(name, pooled, kernel_shape=(3, 2), strides=(1, 1), **more)
        cases.add(name, pooled, kernel_shape=(2, 3), strides=(2, 2), auto_pad="SAME_LOWER", **more)
        cases.add(name, pooled, kernel_shape=(4, 4), strides=(3, 3), ceil_mode=1, dilations=(1, 2), **more)
        cases.add(name, some(2, 3, 13, positive=True), kernel_shape=(4,), strides=(3,), **more)
        cases.add(name, some(1, 2, 4, 5, 6, positive=True), kernel_shape=(2, 3, 2), strides=(1, 2, 2), **more)
    cases.add("MaxPool", some(2, 20, 9, 11), outputs=2, kernel_shape=(3, 2), strides=(2, 1))
    cases.add("AveragePool", some(2, 20, 9, 11), kernel_shape=(3, 2), pads=(1, 0, 0, 1), count_include_pad=1)
    for order in (1, 2, 3):
        cases.add("LpPool", some(2, 20, 9, 11), kernel_shape=(3, 2), p=order)
        cases.add("GlobalLpPool", some(2, 20, 3, 5), p=order)
    for name in ("GlobalMaxPool", "GlobalAveragePool"):
        for shape in ((2, 20, 3, 5), (2, 3, 7), (2, 3, 2, 3, 4)):
            cases.add(name, some(*shape))
    rois = np.array([[0, 0, 0, 6, 4], [1, 2, 1, 9, 7], [1, 3, 3, 3, 3]], np.float32)
    cases.add("MaxRoiPool", some(2, 5, 9, 11), rois, pooled_shape=(2, 3), spatial_scale=0.75)
    for mode, sampling in (("avg", 2), ("max", 0), ("avg", 3)):
        cases.add(
            "RoiAlign",
            some(2, 5, 9, 11),
            rois[:, 1:],
            rois[:, 0].astype(np.int64),
            mode=mode,
            sampling_ratio=sampling,
            output_height=2,
        )
    x, w = some(1, 4, 6, 7), some(6, 2, 3, 2)
    offset, mask = some(1, 2 * 6 * 2, 4, 6), some(1, 2 * 6, 4, 6, positive=True)
    cases.add("DeformConv", x, w, offset, some(6), mask, group=2, offset_group=2)
    cases.add("Resize", some(2, 20, 3, 5), None, np.array([1, 1, 2, 3], np.float32))
    for mode, scales in product(
        ("nearest", "linear", "cubic"), ((1, 1, 2, 2.5), (1, 1, 0.5, 1), (2, 1, 1, 1))
    ):
        cases.add("Resize", some(2, 20, 4, 5), None, np.array(scales, np.float32), mode=mode)
    for mode, size in product(("linear", "cubic"), ((2, 20, 7, 9), (2, 20, 8, 5))):
        cases.add(
            "Resize",
            some(2, 20, 4, 5),
            None,
            None,
            ints(*size),
            mode=mode,
            coordinate_transformation_mode="align_corners",
        )
    cases.add(
        "Resize", some(2, 20, 9, 8), None, np.array([1, 1, 0.4, 0.5], np.float32), mode="linear", antialias=1
    )
    cases.add("Resize", some(2, 3, 9), None, np.array([1, 2, 1], np.float32))
    for mode in ("linear", "cubic", "nearest"):
        cases.add("GridSample", some(2, 3, 5, 7), some(2, 4, 6, 2), mode=mode)
    cases.add("GridSample", some(2, 3, 5, 7, 4), some(2, 4, 6, 2, 3), mode="linear")
    cases.add(
        "MaxUnpool",
        some(1, 2, 2, 3),
        np.arange(12).reshape(1, 2, 2, 3) * 3,
        kernel_shape=(2, 2),
        strides=(2, 2),
    )
