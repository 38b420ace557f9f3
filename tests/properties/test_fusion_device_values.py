"""How far fused device values may be from unfused ones: 2 ulp of the result and n units of rounding of the
terms it sums.

A convolution with its normalisation is out = sum(s w x) + t with s = scale / sqrt(variance + epsilon), t =
bias - mean s. In float16, unit of rounding u = 2^-11, the two ways differ in what they round:

unfused: w (1 u), the convolution's result (at most 1 u of the sum), s (1 u), (conv - mean) s (1 u), the
result (half an ulp);
fused:   s w (1 u), t (1 u), the result (half an ulp).

So with S = sum|s w||x| + |mean s| + |bias| each way is within N_UNFUSED and N_FUSED units of S from the exact
sum, apart from the last rounding; n is their sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ascendsim as asim
from ascendsim.graph.ir import Graph
from tests.support.fusing import build
from tests.support.gate import examples

UNIT = 2.0**-11
N_UNFUSED, N_FUSED = 4, 2
N = N_UNFUSED + N_FUSED


@st.composite
def convolutions(draw: st.DrawFn) -> dict[str, Any]:
    """Sizes and magnitudes of a convolution and its normalisation."""
    return {
        "channels": draw(st.integers(1, 40)),
        "kernels": draw(st.integers(1, 40)),
        "size": draw(st.integers(3, 12)),
        "kernel": draw(st.sampled_from([1, 3])),
        "stride": draw(st.sampled_from([1, 2])),
        "spread": draw(st.sampled_from([0.1, 1.0, 8.0])),
        "seed": draw(st.integers(0, 2**16)),
    }


def graph_of(case: dict[str, Any]) -> tuple[Graph, dict[str, np.ndarray]]:
    """Conv and BatchNormalization, and their constants by name."""
    generator = np.random.default_rng(case["seed"])
    shape = (case["kernels"], case["channels"], case["kernel"], case["kernel"])
    constants = {
        "w": generator.standard_normal(shape) / np.sqrt(np.prod(shape[1:])),
        "scale": generator.standard_normal(case["kernels"]) * case["spread"],
        "bias": generator.standard_normal(case["kernels"]),
        "mean": generator.standard_normal(case["kernels"]),
        "variance": generator.random(case["kernels"]) + 0.25,
    }
    constants = {name: array.astype(np.float32) for name, array in constants.items()}

    def body(b: Any) -> Any:
        x = b.input("x", (1, case["channels"], case["size"], case["size"]))
        pad = case["kernel"] // 2
        y = b.op("Conv", x, b.constant(constants["w"], "w"), pads=(pad,) * 4, strides=(case["stride"],) * 2)
        rest = [b.constant(constants[name], name) for name in ("scale", "bias", "mean", "variance")]
        return b.op("BatchNormalization", y, *rest, epsilon=1e-5)

    return build(body), constants


def convolve(x: np.ndarray, w: np.ndarray, stride: int) -> np.ndarray:
    """Convolution in float64, (1, C, H, W) with (K, C, k, k), padded by k // 2."""
    kernel = w.shape[2]
    padded = np.pad(x, ((0, 0), (0, 0), (kernel // 2,) * 2, (kernel // 2,) * 2))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), axis=(2, 3))[
        :, :, ::stride, ::stride
    ]
    result: np.ndarray = np.einsum("nchwij,kcij->nkhw", windows, w)
    return result


@pytest.mark.parametrize("soc", ["Ascend310", pytest.param("Ascend910B1", marks=pytest.mark.slow)])
@given(case=convolutions())
@examples(0.5)
def test_folded_normalisation_stays_within_its_rounding_bound(soc: str, case: dict[str, Any]) -> None:
    graph, constants = graph_of(case)
    models = [asim.compile(graph, soc=soc, fusion=level) for level in ("off", "graph")]
    assert len(models[1].program.tasks) < len(models[0].program.tasks)
    inputs = asim.random_inputs(models[0])
    off, fused = (np.asarray(asim.run(model, inputs).outputs["out0"], np.float64) for model in models)

    wide = {name: array.astype(np.float64) for name, array in constants.items()}
    factor = np.abs(wide["scale"]) / np.sqrt(wide["variance"] + 1e-5)
    terms = factor[:, None, None, None] * np.abs(wide["w"])
    shift = np.abs(wide["mean"]) * factor + np.abs(wide["bias"])
    sums = convolve(np.abs(inputs["x"]).astype(np.float64), terms, case["stride"]) + shift[:, None, None]
    ulp = np.spacing(np.maximum(np.abs(off), np.abs(fused)).astype(np.float16)).astype(np.float64)
    assert np.all(np.abs(off - fused) <= 2 * ulp + N * UNIT * sums)
