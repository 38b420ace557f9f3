"""Every layer of Caffe by itself against what Caffe's catalogue of layers says of it, in numpy; the shape
that a layer announces to the next one is that of what it makes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.errors import InputError
from ascendsim.ops import default_opset
from tests.support.caffe_nets import Net
from tests.support.evaluate import evaluate
from tests.support.fusing import random
from tests.unit.test_frontend_caffe import written

Array = Any
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Layer:
    """One layer.

    Attributes:
        kind: Its type.
        text: Its parameters.
        given: Shapes of what it reads.
        wanted: What it makes of that and of its own blobs; several results as a list.
        blobs: Shapes of its own blobs.
    """

    kind: str
    text: str
    given: Sequence[Shape]
    wanted: Callable[..., Array | list[Array]]
    blobs: Sequence[Shape] = ()


def pairs(
    size: int, kernel: int, stride: int, pad: int, dilation: int, out: int
) -> list[tuple[int, int, int]]:
    """Place of the result, place in the kernel and place of the input, where they meet."""
    return [
        (o, k, i)
        for o in range(out)
        for k in range(kernel)
        if 0 <= (i := o * stride - pad + k * dilation) < size
    ]


def correlated(x: Array, w: Array, groups: int, by: Sequence[tuple[int, int, int]]) -> Array:
    """A convolution as Caffe defines it; `by` has stride, padding and dilation of height and of width."""
    n, _, *sides = x.shape
    m, k = w.shape[0], w.shape[2:]
    outs = [(s + 2 * p - d * (e - 1) - 1) // t + 1 for s, e, (t, p, d) in zip(sides, k, by, strict=True)]
    made = np.zeros((n, m, *outs))
    rows, columns = (
        pairs(s, e, *step, o) for s, e, step, o in zip(sides, k, by, outs, strict=True)
    )  # fmt: skip
    for group in range(groups):
        own = slice(group * m // groups, (group + 1) * m // groups)
        part = x[:, group * w.shape[1] : (group + 1) * w.shape[1]]
        for o, a, i in rows:
            for q, b, j in columns:
                made[:, own, o, q] += part[:, :, i, j] @ w[own, :, a, b].T
    return made


def spread(x: Array, w: Array, by: Sequence[tuple[int, int, int]]) -> Array:
    """A deconvolution: the transpose of the map that a convolution of these weights is."""
    sides, k = x.shape[2:], w.shape[2:]
    outs = [t * (s - 1) + d * (e - 1) + 1 - 2 * p for s, e, (t, p, d) in zip(sides, k, by, strict=True)]
    made = np.zeros((x.shape[0], w.shape[1], *outs))
    rows, columns = (pairs(o, e, *step, s) for s, e, step, o in zip(sides, k, by, outs, strict=True))
    for o, a, i in rows:
        for q, b, j in columns:
            made[:, :, i, j] += x[:, :, o, q] @ w[:, :, a, b]
    return made


def largest(x: Array, kernel: Sequence[int], stride: Sequence[int], outs: Sequence[int]) -> Array:
    """Max pooling without padding; what lies beyond the end counts for nothing."""
    rows, columns = (
        [slice(o * s, o * s + k) for o in range(out)] for k, s, out in zip(kernel, stride, outs, strict=True)
    )
    return np.array([[x[:, :, a, b].max((2, 3)) for b in columns] for a in rows]).transpose(2, 3, 0, 1)


def across(x: Array) -> Array:
    """Squares summed over three channels."""
    squares = np.pad(x**2, ((0, 0), (1, 1), (0, 0), (0, 0)))
    return squares[:, :-2] + squares[:, 1:-1] + squares[:, 2:]


def column(values: Array) -> Array:
    return values.reshape(-1, 1, 1)


MAP, WIDE, ROWS = (2, 4, 3, 3), (1, 4, 7, 9), (2, 3, 4)
EVEN, ODD = ((2, 1, 1), (1, 2, 2)), ((2, 1, 1), (3, 0, 2))
STEPS = "kernel_h: 3 kernel_w: 2 stride_h: 2 stride_w: 1 pad_h: 1 pad_w: 2"
LAYERS = {
    "elu": Layer("ELU", "elu_param { alpha: 0.5 }", [MAP], lambda x: np.where(x > 0, x, 0.5 * np.expm1(x))),
    "lrn": Layer(
        "LRN",
        "lrn_param { local_size: 3 alpha: 0.3 beta: 0.6 k: 2 }",
        [MAP],
        lambda x: x / (2 + 0.1 * across(x)) ** 0.6,
    ),
    "relu": Layer("ReLU", "", [MAP], lambda x: np.maximum(x, 0)),
    "leaky": Layer("ReLU", "relu_param { negative_slope: 0.25 }", [MAP], lambda x: np.where(x < 0, x / 4, x)),
    "prelu": Layer("PReLU", "", [MAP], lambda x, a: np.where(x < 0, x * column(a), x), [(4,)]),
    "prelu rows": Layer("PReLU", "", [(2, 4)], lambda x, a: np.where(x < 0, x * a, x), [(4,)]),
    "prelu shared": Layer(
        "PReLU", "prelu_param { channel_shared: true }", [MAP], lambda x, a: np.where(x < 0, x * a, x), [(1,)]
    ),
    "tanh": Layer("TanH", "", [MAP], np.tanh),
    "sigmoid": Layer("Sigmoid", "", [MAP], lambda x: 1 / (1 + np.exp(-x))),
    "abs": Layer("AbsVal", "", [MAP], np.abs),
    "bnll": Layer("BNLL", "", [MAP], lambda x: np.log1p(np.exp(x))),
    "exp": Layer("Exp", "", [MAP], np.exp),
    "norm": Layer(
        "BatchNorm",
        "batch_norm_param { eps: 0.01 }",
        [MAP],
        lambda x, m, v: (x - column(m)) / np.sqrt(column(v) + 0.01),
        [(4,), (4,)],
    ),
    "scale": Layer("Scale", "", [MAP], lambda x, g: x * column(g), [(4,)]),
    "scale from the front": Layer(
        "Scale",
        "scale_param { axis: 0 num_axes: 2 bias_term: true }",
        [MAP],
        lambda x, g, b: x * g[:, :, None, None] + b[:, :, None, None],
        [(2, 4), (2, 4)],
    ),
    "scale to the end": Layer(
        "Scale", "scale_param { axis: -2 num_axes: -1 }", [MAP], lambda x, g: x * g, [(3, 3)]
    ),
    "scale by a blob": Layer(
        "Scale", "scale_param { axis: 1 }", [MAP, (4, 3)], lambda x, g: x * g[:, :, None]
    ),
    "scale by a blob and a bias": Layer(
        "Scale",
        "scale_param { axis: 0 bias_term: true }",
        [MAP, (2, 4)],
        lambda x, g, b: x * g[:, :, None, None] + b[:, :, None, None],
        [(2, 4)],
    ),
    "bias": Layer("Bias", "", [MAP], lambda x, b: x + column(b), [(4,)]),
    "bias by a blob": Layer("Bias", "bias_param { axis: 2 }", [MAP, (3,)], lambda x, b: x + b[:, None]),
    "product": Layer("Eltwise", "eltwise_param { operation: PROD }", [MAP] * 3, lambda x, y, z: x * y * z),
    "sum": Layer("Eltwise", "", [MAP] * 3, lambda x, y, z: x + y + z),
    "weighted sum": Layer(
        "Eltwise",
        "eltwise_param { coeff: 2 coeff: 1 coeff: -3 }",
        [MAP] * 3,
        lambda x, y, z: 2 * x + y - 3 * z,
    ),
    "largest": Layer(
        "Eltwise", "eltwise_param { operation: MAX }", [MAP] * 3, lambda *x: np.maximum.reduce(x)
    ),
    "concat": Layer("Concat", "", [MAP, (2, 1, 3, 3)], lambda *x: np.concatenate(x, 1)),
    "concat of old": Layer(
        "Concat", "concat_param { concat_dim: 2 }", [MAP, (2, 4, 1, 3)], lambda *x: np.concatenate(x, 2)
    ),
    "concat from behind": Layer(
        "Concat", "concat_param { axis: -1 }", [MAP, (2, 4, 3, 2)], lambda *x: np.concatenate(x, 3)
    ),
    "slice": Layer("Slice", "", [(2, 6, 2)], lambda x: np.split(x, 3, 1)),
    "slice of old": Layer("Slice", "slice_param { slice_dim: 0 }", [(4, 6)], lambda x: np.split(x, 2, 0)),
    "slice at points": Layer(
        "Slice",
        "slice_param { axis: -1 slice_point: 1 slice_point: 4 }",
        [(2, 3, 9)],
        lambda x: np.split(x, [1, 4], 2),
    ),
    "softmax": Layer("Softmax", "", [MAP], lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True)),
    "softmax from behind": Layer(
        "Softmax",
        "softmax_param { axis: -1 }",
        [MAP],
        lambda x: np.exp(x) / np.exp(x).sum(3, keepdims=True),
    ),
    "flatten": Layer("Flatten", "", [MAP], lambda x: x.reshape(2, 36)),
    "flatten the middle": Layer(
        "Flatten", "flatten_param { axis: 1 end_axis: 2 }", [MAP], lambda x: x.reshape(2, 12, 3)
    ),
    "flatten the front": Layer(
        "Flatten", "flatten_param { axis: 0 end_axis: -2 }", [MAP], lambda x: x.reshape(24, 3)
    ),
    "reshape": Layer(
        "Reshape", "reshape_param { shape { dim: 0 dim: -1 dim: 6 } }", [MAP], lambda x: x.reshape(2, 6, 6)
    ),
    "power of nothing": Layer("Power", "", [MAP], lambda x: x),
    "power": Layer("Power", "power_param { power: 2 }", [MAP], lambda x: x**2),
    "power of a shift": Layer(
        "Power", "power_param { power: 2 shift: 0.5 }", [MAP], lambda x: (x + 0.5) ** 2
    ),
    "power of a scale": Layer("Power", "power_param { scale: -3 }", [MAP], lambda x: -3 * x),
    "scale and shift": Layer("Power", "power_param { shift: 1 scale: 3 }", [MAP], lambda x: 3 * x + 1),
    "total": Layer("Reduction", "reduction_param { axis: 1 }", [MAP], lambda x: x.sum((1, 2, 3))),
    "twice the total": Layer(
        "Reduction", "reduction_param { axis: -1 coeff: 2 }", [MAP], lambda x: 2 * x.sum(3)
    ),
    "total of magnitudes": Layer(
        "Reduction",
        "reduction_param { operation: ASUM axis: 2 }",
        [MAP],
        lambda x: np.abs(x).sum((2, 3)),
    ),
    "half the mean": Layer(
        "Reduction",
        "reduction_param { operation: MEAN axis: 1 coeff: 0.5 }",
        [MAP],
        lambda x: x.mean((1, 2, 3)) / 2,
    ),
    "permute": Layer(
        "Permute", "permute_param { order: 0 order: 3 }", [MAP], lambda x: x.transpose(0, 3, 1, 2)
    ),
    "dense": Layer(
        "InnerProduct",
        "inner_product_param { num_output: 5 bias_term: false }",
        [ROWS],
        lambda x, w: x.reshape(2, 12) @ w.T,
        [(5, 12)],
    ),
    "dense rows": Layer(
        "InnerProduct",
        "inner_product_param { num_output: 5 axis: -1 transpose: true }",
        [ROWS],
        lambda x, w, b: x @ w + b,
        [(4, 5), (5,)],
    ),
    "conv": Layer(
        "Convolution",
        f"convolution_param {{ num_output: 6 group: 2 {STEPS} dilation: 1 dilation: 2 }}",
        [WIDE],
        lambda x, w, b: correlated(x, w, 2, EVEN) + column(b),
        [(6, 2, 3, 2), (6,)],
    ),
    "conv with repeated numbers": Layer(
        "Convolution",
        "convolution_param { num_output: 3 bias_term: false kernel_size: 2 kernel_size: 3 stride: 2 stride: 3"
        " pad: 1 pad: 0 dilation: 1 dilation: 2 }",
        [WIDE],
        lambda x, w: correlated(x, w, 1, ODD),
        [(3, 4, 2, 3)],
    ),
    "deconv": Layer(
        "Deconvolution",
        f"convolution_param {{ num_output: 3 bias_term: false {STEPS} dilation: 1 dilation: 2 }}",
        [WIDE],
        lambda x, w: spread(x, w, EVEN),
        [(4, 3, 3, 2)],
    ),
    "max pool": Layer(
        "Pooling",
        "pooling_param { pool: MAX kernel_h: 3 kernel_w: 2 stride_h: 3 stride_w: 2 }",
        [(1, 2, 7, 9)],
        lambda x: largest(x, (3, 2), (3, 2), (3, 5)),
    ),
    "max pool down": Layer(
        "Pooling",
        "pooling_param { pool: MAX kernel_size: 3 stride: 2 round_mode: FLOOR }",
        [(1, 2, 6, 8)],
        lambda x: largest(x, (3, 3), (2, 2), (2, 3)),
    ),
    "max of all": Layer(
        "Pooling",
        "pooling_param { pool: MAX global_pooling: true }",
        [MAP],
        lambda x: x.max((2, 3), keepdims=True),
    ),
    "mean of all": Layer(
        "Pooling",
        "pooling_param { pool: AVE global_pooling: true }",
        [MAP],
        lambda x: x.mean((2, 3), keepdims=True),
    ),
    "split": Layer("Split", "", [MAP], lambda x: [x, x]),
    "dropout": Layer("Dropout", "", [MAP], lambda x: x),
}


def loaded(folder: Path, layer: Layer, results: Sequence[Shape], blobs: Sequence[Array]) -> asim.Graph:
    """A network of the layer; behind each result a Reshape to the shape that the layer has announced."""
    net = Net("one", *layer.given[0])
    names = ["data", *(f"in{number}" for number in range(1, len(layer.given)))]
    for name, shape in zip(names[1:], layer.given[1:], strict=True):
        dims = " ".join(f"dim: {dim}" for dim in shape)
        net.lines.append(f'input: "{name}" input_shape {{ {dims} }}')
    read = " ".join(f'bottom: "{name}"' for name in names)
    tops = " ".join(f'top: "made{number}"' for number in range(len(results)))
    net.lines.append(f'layer {{ name: "layer" type: "{layer.kind}" {read} {tops} {layer.text} }}')
    for number, shape in enumerate(results):
        kept = " ".join("dim: 0" for _ in shape)
        net.add("Reshape", f"end{number}", f"reshape_param {{ shape {{ {kept} }} }}", bottom=f"made{number}")
    path = written(folder, "\n".join(net.lines), {"layer": list(blobs)} if blobs else {"unused": [[1.0]]})
    return asim.load(path, weight=path.with_suffix(".caffemodel"))


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_makes_what_caffe_says_in_the_shape_that_it_says(tmp_path: Path, name: str) -> None:
    layer = LAYERS[name]
    inputs = [random(*shape, seed=number) for number, shape in enumerate(layer.given)]
    blobs = [
        random(*shape, seed=9 + number, positive=layer.kind == "BatchNorm")
        for number, shape in enumerate(layer.blobs)
    ]
    made = layer.wanted(*(array.astype(np.float64) for array in (*inputs, *blobs)))
    wanted = made if isinstance(made, list) else [made]
    graph = loaded(tmp_path, layer, [array.shape for array in wanted], blobs)
    given = dict(zip([tensor.name for tensor in graph.inputs], inputs, strict=True))
    results = evaluate(graph, default_opset(), given)
    for result, array in zip(results, wanted, strict=True):
        assert result.shape == array.shape
        np.testing.assert_allclose(result, array, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(("factor", "share"), [(4.0, 0.25), (0.0, 0.0), (1.0, 1.0)])
def test_statistics_are_sums_over_a_factor(tmp_path: Path, factor: float, share: float) -> None:
    """Of a factor of zero Caffe makes zeros."""
    layer = LAYERS["norm"]
    mean, variance, x = random(4), random(4, positive=True, seed=1), random(*MAP, seed=2)
    graph = loaded(tmp_path, layer, [MAP], [mean, variance, [factor]])
    (result,) = evaluate(graph, default_opset(), {"data": x})
    wanted = layer.wanted(x.astype(np.float64), mean * share, variance * share)
    np.testing.assert_allclose(result, wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("kind", "text", "given", "tops", "message"),
    [
        ("Pooling", "pooling_param { pool: STOCHASTIC kernel_size: 2 }", [MAP], 1, "must pool MAX or AVE"),
        ("Pooling", "", [MAP], 1, "needs a kernel_size"),
        ("LRN", "lrn_param { norm_region: WITHIN_CHANNEL }", [MAP], 1, "ACROSS_CHANNELS"),
        ("Eltwise", "", [MAP], 1, "two or more blobs"),
        ("Eltwise", "", [MAP, (2, 4, 3, 1)], 1, "two or more blobs of one shape"),
        ("Eltwise", "eltwise_param { coeff: 2 }", [MAP, MAP], 1, "needs a coeff for each blob, not 1"),
        ("Reshape", "reshape_param { shape { dim: 5 } }", [MAP], 1, "must keep 72 elements"),
        ("Reshape", "reshape_param { axis: 1 shape { dim: -1 } }", [MAP], 1, "must reshape all axes"),
        ("Permute", "permute_param { order: 0 order: 0 }", [MAP], 1, "must order the axes"),
        ("Convolution", "convolution_param { num_output: 2 }", [MAP], 1, "has no valid num_output"),
        ("Convolution", "convolution_param { num_output: 3 kernel_size: 1 group: 2 }", [MAP], 1, "no valid"),
        ("Convolution", "convolution_param { num_output: 3 kernel_size: 1 group: 3 }", [MAP], 1, "no valid"),
        ("Convolution", "convolution_param { num_output: 2 kernel_h: 1 }", [MAP], 1, "no valid"),
        ("Convolution", "convolution_param { num_output: 0 kernel_size: 1 }", [MAP], 1, "no valid"),
        ("Convolution", "convolution_param { num_output: 2 kernel_size: 1 group: 0 }", [MAP], 1, "no valid"),
        ("Convolution", "convolution_param { num_output: 2 kernel_size: 4 }", [MAP], 1, "larger than its in"),
        (
            "Convolution",
            "convolution_param { num_output: 2 kernel_size: 1 kernel_size: 1 kernel_size: 1 }",
            [MAP],
            1,
            "one or two numbers as kernel_size",
        ),
        ("Slice", "slice_param { slice_point: 1 slice_point: 2 }", [MAP], 1, "needs 0 rising slice_point"),
        ("Slice", "slice_param { slice_point: 4 }", [MAP], 2, "needs 1 rising slice_point"),
    ],
)
def test_what_a_layer_cannot_be_is_said(
    tmp_path: Path, kind: str, text: str, given: Sequence[Shape], tops: int, message: str
) -> None:
    blobs = [np.zeros((2, 4, 4, 4)), np.zeros(2)] if kind == "Convolution" else []
    with pytest.raises(InputError, match=message):
        loaded(tmp_path, Layer(kind, text, given, math.prod), [MAP] * tops, blobs)


@pytest.mark.parametrize("rank", range(1, 7))
def test_every_layer_takes_a_blob_of_any_rank_or_says_what_it_needs(tmp_path: Path, rank: int) -> None:
    taken = set()
    for layer in LAYERS.values():
        shape = (2, 4, 5, 6, 3, 2)[:rank]
        tops = [f"given{number}" for number in range(len(layer.given))]
        lines = [
            f'layer {{ name: "{top}" type: "Input" top: "{top}" input_param {{ shape {{ '
            + " ".join(f"dim: {dim}" for dim in shape)
            + " } } }"
            for top in tops
        ]
        read = " ".join(f'bottom: "{top}"' for top in tops)
        lines.append(f'layer {{ name: "it" type: "{layer.kind}" {read} top: "made" {layer.text} }}')
        with suppress(asim.AscendSimError):
            asim.load(written(tmp_path, "\n".join(lines)), weights="random")
            taken.add(layer.kind)
    assert "ReLU" in taken
    assert ("Convolution" in taken) is (rank == 4)
