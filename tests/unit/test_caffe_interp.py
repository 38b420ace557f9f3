"""Caffe's layer Interp against its formula, written down independently."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.errors import InputError


def loaded(tmp_path: Path, parameters: str, *dims: int, more: str = "", behind: str = "") -> Any:
    shape = " ".join(f"dim: {dim}" for dim in dims)
    path, second = tmp_path / "net.prototxt", 'bottom: "b"' if more else ""
    path.write_text(
        f'layer {{ name: "data" type: "Input" top: "data" input_param {{ shape {{ {shape} }} }} }}\n'
        f'{more}layer {{ name: "up" type: "Interp" bottom: "data" {second} top: "out" '
        f"interp_param {{ {parameters} }} }}\n{behind}"
    )
    return asim.load(path)


def by_hand(x: Any, height: int, width: int) -> Any:
    """Four neighbours a point, one point after the other."""
    made = np.zeros((*x.shape[:2], height, width))
    for row in range(height):
        for column in range(width):
            at = [
                k * (src - 1) / (dst - 1) if dst > 1 else 0.0
                for k, src, dst in ((row, x.shape[2], height), (column, x.shape[3], width))
            ]
            (top, left), (u, v) = [int(a) for a in at], [a - int(a) for a in at]
            below, right = min(top + 1, x.shape[2] - 1), min(left + 1, x.shape[3] - 1)
            made[:, :, row, column] = (1 - u) * ((1 - v) * x[:, :, top, left] + v * x[:, :, top, right])
            made[:, :, row, column] += u * ((1 - v) * x[:, :, below, left] + v * x[:, :, below, right])
    return made


@pytest.mark.parametrize(
    ("parameters", "shape"),
    [
        ("height: 13 width: 9", (13, 9)),
        ("zoom_factor: 2", (13, 11)),  # 7 + 6 * 1, 6 + 5 * 1
        ("shrink_factor: 3", (3, 2)),  # (7 - 1) / 3 + 1, (6 - 1) / 3 + 1
        ("shrink_factor: 2 zoom_factor: 3", (10, 7)),  # 4, 3, then 4 + 3 * 2, 3 + 2 * 2
        ("zoom_factor: 2 pad_beg: -1 pad_end: -2", (7, 5)),
        ("height: 8 width: 8 pad_beg: -2", (8, 8)),
        ("height: 1 width: 1", (1, 1)),
    ],
)
def test_values_are_the_formulas(tmp_path: Path, parameters: str, shape: tuple[int, int]) -> None:
    graph = loaded(tmp_path, parameters, 1, 3, 7, 6)
    assert graph.outputs[0].static_shape == (1, 3, *shape)
    x = np.random.default_rng(5).standard_normal((1, 3, 7, 6)).astype(np.float32)
    (y,) = asim.run(asim.compile(graph), {"data": x}, values="float32").outputs.values()
    begin = 2 if "pad_beg: -2" in parameters else 1 if "pad_beg" in parameters else 0
    end = 2 if "pad_end" in parameters else 0
    cut = x[:, :, begin : 7 - end, begin : 6 - end].astype(np.float64)
    np.testing.assert_allclose(y, by_hand(cut, *shape), atol=1e-6)


def test_a_second_blob_gives_the_size(tmp_path: Path) -> None:
    pooling = "pooling_param { kernel_size: 2 stride: 2 }"
    more = f'layer {{ name: "b" type: "Pooling" bottom: "data" top: "b" {pooling} }}\n'
    graph = loaded(tmp_path, "", 1, 3, 8, 6, more=more)
    assert graph.outputs[-1].static_shape == (1, 3, 4, 3)


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ("", "needs height and width, zoom_factor or shrink_factor"),
        ("height: 5", "must make a map of at least one point"),
        ("zoom_factor: 0", "zoom_factor >= 1"),
        ("zoom_factor: 2 pad_beg: 1", "pad_end <= 0"),
        ("zoom_factor: 2 pad_beg: -4 pad_end: -3", "cuts more"),
    ],
)
def test_what_it_cannot_be(tmp_path: Path, parameters: str, text: str) -> None:
    with pytest.raises(InputError, match=text):
        loaded(tmp_path, parameters, 1, 3, 7, 6)


def test_the_tuning_guides_sizes(tmp_path: Path) -> None:
    """20 ms for 175 -> 350, 1.6 ms for 176 -> 351, of a whole network: here with the Softmax over the 18
    channels with which a network that labels points ends.
    """
    head = 'layer { name: "p" type: "Softmax" bottom: "out" top: "p" }\n'

    def milliseconds(source: int, target: int, behind: str = head) -> float:
        graph = loaded(tmp_path, f"height: {target} width: {target}", 1, 18, source, source, behind=behind)
        return asim.simulate(asim.compile(graph, "Ascend310", release="ddk")).duration_us / 1e3

    assert milliseconds(175, 350) == pytest.approx(20, rel=0.25)
    assert milliseconds(176, 351) == pytest.approx(1.6, rel=0.25)
    alone = milliseconds(175, 350, ""), milliseconds(176, 351, "")
    assert alone == pytest.approx((18.9, 1.04), rel=0.02)  # docs/advise.md
