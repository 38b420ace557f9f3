"""Names in letters that the font does not have make pictures without a word of warning."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import ascendsim as asim


@pytest.fixture(scope="module")
def result() -> asim.Result:
    builder = asim.GraphBuilder("中文网络")
    x = builder.input("输入", (4, 8))
    for number in range(3):
        x = builder.op("Relu", builder.op("MatMul", x, np.eye(8, dtype=np.float32), name=f"乘{number}"))
    builder.output(x, "输出")
    return asim.simulate(asim.compile(builder.build()))


def test_no_letter_is_warned_of(result: asim.Result, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for ending in ("png", "svg", "pdf"):
            result.plot_timeline().save(tmp_path / f"层.{ending}")
        result.plot_timeline()._repr_png_()
        result.plot_roofline().save(tmp_path / "roofline.png")
        result.model.memory.plot().save(tmp_path / "memory.png")
        asim.compare({"一": result, "二": result}).save(tmp_path)
    assert len(list(tmp_path.glob("*.png"))) == 4
