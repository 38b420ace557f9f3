"""Images and detection."""

from __future__ import annotations

import numpy as np

from ascendsim.passes.aipp.settings import AippSettings
from tests.support.own_cases.making import Cases, some


def add_images(cases: Cases) -> None:
    plain = {"mean": (10, 20, 30), "minimum": (1.0, 2.0, 3.0), "scale": (0.5, 0.25, 0.125)}
    yuv = {"matrix": (256, 0, 359, 256, -88, -183, 256, 454, 0), "input_bias": (0, 128, 128)}
    for settings in (
        AippSettings("RGB888_U8", source=(10, 12), crop=(1, 2, 6, 8), swap=1, **plain),
        AippSettings(
            "YUV420SP_U8",
            source=(10, 12),
            crop=(2, 2, 6, 8),
            border=(1, 2, 3, 4),
            border_value=5.0,
            **yuv,
            **plain,
        ),
        AippSettings("YUV400_U8", source=(10, 12), **plain),
    ):
        images = some(2, *settings.raw_shape(2)[1:], dtype=np.uint8) * 20
        cases.ascend("Aipp", images, **settings.attributes())
        weight = some(7, settings.channels, 3, 2)
        cases.ascend(
            "AippConv",
            images,
            weight,
            some(7),
            strides=(2, 1),
            pads=(1, 0, 0, 1),
            activation="relu",
            **settings.attributes(),
        )
