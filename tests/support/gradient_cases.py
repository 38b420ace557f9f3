"""Cases of gradients and other operators that only training has."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.support.own_cases import Cases, some


def add_training(cases: Cases) -> None:
    """Those of this file."""
    for write in (_convolutions, _pooling, _normalisations, _language):
        write(cases)


def _language(cases: Cases) -> None:
    """What steps of language models have by CANN's own prototypes."""
    for shape, dim in (((3, 20, 8), -1), ((4, 6, 5), 0), ((2, 34, 3), 1)):
        halves = [size // 2 if axis == dim % 3 else size for axis, size in enumerate(shape)]
        cases.ascend("SwiGlu", some(*shape), dim=dim)
        cases.ascend("SwiGluGrad", some(*halves, seed=1), some(*shape), dim=dim)
    cases.ascend("SwiGlu", some(3, 8))
    cases.ascend("SwiGluGrad", some(3, 4, seed=1), some(3, 8))
    for angles, mode in (((3, 1, 1, 6), 0), ((1, 2, 1, 6), 1), ((3, 2, 5, 6), 1), ((1, 1, 1, 6), 0)):
        x, cosine, sine = some(3, 2, 5, 6), some(*angles, seed=1), some(*angles, seed=2)
        dy = some(3, 2, 5, 6, seed=3)
        cases.ascend("RotaryPositionEmbedding", x, cosine, sine, mode=mode)
        cases.ascend("RotaryPositionEmbeddingGrad", dy, cosine, sine, x, outputs=3, mode=mode)
    cases.ascend("RotaryPositionEmbedding", x, cosine, sine)
    cases.ascend("RotaryPositionEmbeddingGrad", dy, cosine, sine)
    norms: list[dict[str, Any]] = [{}, {"axes": (1,), "keepdim": 1}, {"axes": (-1, 0), "p": 1.0}]
    norms += [{"axes": (2,), "p": p} for p in (0.0, 3.0, float("inf"), float("-inf"))]
    for numbers in norms:
        cases.ascend("LpNormV2", some(5, 20, 7), **numbers)


def _convolutions(cases: Cases) -> None:
    def both(
        x: tuple[int, ...], w: tuple[int, ...], out: tuple[int, ...], prefix: str = "", **attributes: Any
    ) -> None:
        dy = some(x[0], w[0], *out)
        cases.ascend(f"{prefix}Conv2DBackpropInput", some(*w), dy, input_size=x, **attributes)
        cases.ascend(f"{prefix}Conv2DBackpropFilter", some(*x), dy, filter_size=w, **attributes)

    both((2, 20, 9, 11), (33, 20, 3, 5), (4, 6), strides=(2, 1), pads=(1, 2, 0, 1), dilations=(1, 2))
    both((3, 18, 7, 6), (34, 18, 1, 1), (7, 6))
    both((2, 18, 7, 6), (34, 18, 1, 1), (4, 3), strides=(2, 2))
    both((1, 24, 8, 7), (36, 6, 3, 2), (6, 3), groups=4, strides=(1, 2))
    both((2, 5, 8, 7), (3, 5, 3, 3), (4, 4), auto_pad="SAME_UPPER", strides=(2, 2))
    both((2, 24, 8, 7), (48, 1, 3, 3), (4, 4), "Depthwise", pads=(1, 1, 1, 1), strides=(2, 2))
    both((1, 19, 5, 6), (19, 1, 2, 3), (4, 4), "Depthwise")
    for x, w, out, more in (
        ((2, 18, 5, 6, 4), (34, 18, 3, 3, 2), (3, 6, 4), {"pads": (1, 1, 0, 1, 1, 1), "strides": (2, 1, 1)}),
        ((1, 4, 3, 4, 5), (6, 2, 2, 2, 2), (2, 3, 4), {"groups": 2}),
    ):
        dy = some(x[0], w[0], *out)
        cases.ascend("Conv3DBackpropInput", some(*w), dy, input_size=x, **more)
        cases.ascend("Conv3DBackpropFilter", some(*x), dy, filter_size=w, **more)


def _pooling(cases: Cases) -> None:
    windows: list[tuple[tuple[int, ...], tuple[int, int], dict[str, Any]]] = [
        ((2, 20, 9, 11), (5, 10), {"kernel_shape": (3, 2), "strides": (2, 1), "pads": (1, 0, 1, 0)}),
        ((2, 3, 8, 6), (4, 2), {"kernel_shape": (2, 3), "strides": (2, 3)}),
        ((1, 5, 7, 7), (3, 3), {"kernel_shape": (4, 4), "strides": (2, 2), "auto_pad": "SAME_LOWER"}),
        ((1, 16, 5, 6), (3, 5), {"kernel_shape": (3, 2)}),
    ]
    for x, out, attributes in windows:
        data = some(*x)
        if attributes.get("auto_pad"):
            out = (4, 4)
        words = -(-out[0] * out[1] // 16) + 1
        kernel = attributes["kernel_shape"]
        mask = np.random.default_rng(0).integers(0, 1 << 16, (*x[:2], kernel[0] * kernel[1], words))
        for version in ("", "V1"):
            cases.ascend(f"MaxPoolWithArgmax{version}", data, outputs=2, **attributes)
            cases.ascend(
                f"MaxPoolGradWithArgmax{version}",
                data,
                some(*x[:2], *out, seed=1),
                mask.astype(np.uint16),
                **attributes,
            )
        cases.ascend("AvgPoolV2Grad", some(*x[:2], *out), orig_input_shape=x, **attributes)
    cases.ascend(
        "AvgPoolV2Grad",
        some(2, 3, 5, 4),
        orig_input_shape=(-1, 3, 9, 7),
        kernel_shape=(3, 3),
        strides=(2, 2),
        pads=(1, 1, 1, 1),
        count_include_pad=1,
    )
    resizing: list[tuple[tuple[int, int], tuple[int, int], dict[str, Any]]] = [
        ((3, 4), (6, 8), {}),
        ((9, 5), (4, 7), {"coordinate_transformation_mode": "asymmetric"}),
        ((4, 5), (7, 11), {"scales": (1.8, 2.3)}),
        ((4, 3), (9, 5), {"coordinate_transformation_mode": "align_corners"}),
    ]
    for sizes, made, more in resizing:
        for kind in ("NearestNeighbor", "Bilinear"):
            rule = {"nearest_mode": "floor"} if kind == "NearestNeighbor" and len(more) == 1 else {}
            dy, x = some(2, 20, *made), (-1, 20, *sizes)
            cases.ascend(f"Resize{kind}V2Grad", dy, orig_input_shape=x, **more, **rule)
    for sizes, made in (((7, 5), (1, 1)), ((9, 8), (4, 3)), ((3, 4), (5, 7))):
        cases.ascend("AdaptiveAvgPool2dGrad", some(2, 20, *made), orig_input_shape=(2, 20, *sizes))


def _normalisations(cases: Cases) -> None:
    for shape in ((2, 20, 3, 5), (3, 24), (2, 16, 7)):
        channels = [some(shape[1], seed=number, positive=True) for number in range(6)]
        x, dy = some(*shape), some(*shape, seed=1)
        cases.ascend("BNInferGrad", dy, *channels[:2])
        cases.ascend("BNInferGrad", dy, *channels[:2], epsilon=1e-2)
        sums = some(shape[1], seed=7), some(shape[1], seed=8, positive=True) * np.float32(30)
        cases.ascend("BNTrainingUpdate", x, *sums, *channels[:4], outputs=5)
        cases.ascend("BNTrainingUpdate", x, *sums, *channels[:4], outputs=5, epsilon=1e-2, momentum=0.7)
        cases.ascend("BiasAddGrad", dy)
        cases.ascend("BiasAddGrad", dy, data_format="NCHW")
        mean, rstd = some(shape[0], 4), some(shape[0], 4, positive=True)
        outputs: dict[str, Any] = {"outputs": 3, "num_groups": 4}
        cases.ascend("GroupNormGrad", dy, mean, rstd, x, channels[0], **outputs)
    for shape, gamma, rstd_shape in (((3, 5, 7), (7,), (3, 5, 1)), ((3, 5, 24), (5, 24), (3,))):
        x, dy = some(*shape), some(*shape, seed=1)
        rstd = some(*rstd_shape, positive=True)
        cases.ascend("RmsNormGrad", dy, x, rstd, some(*gamma), outputs=2)
        cases.ascend("RmsNorm", x, some(*gamma), outputs=2)
