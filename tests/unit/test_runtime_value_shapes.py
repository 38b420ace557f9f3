"""Shapes that depend on values are those of the values that the device has, whatever the chip and precision
mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from tests.support.onnx_models import model, node, value

CHIPS = ("Ascend310P3", "Ascend910A", "Ascend910B1")
NEAR = np.array([[1, 1.0001, 2], [1e-8, 0, 1.0002]], np.float32)  # float16 has 1, 1, 2, 0, 0, 1


def places(x: Any) -> list[Any]:
    return [np.stack(np.nonzero(x)).astype(np.int64)]


def distinct(x: Any) -> list[Any]:
    values, first, back, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    return [values.astype(np.float32), first, back.reshape(-1), counts]


NETWORKS: dict[str, tuple[list[Any], list[str], Any]] = {
    "NonZero": ([node("NonZero", "x", "y")], ["y"], places),
    "NonZero behind Relu": ([node("Relu", "x", "t"), node("NonZero", "t", "y")], ["y"], places),
    "NonZero and Cast": ([node("NonZero", "x", "t"), node("Cast", "t", "y", to=6)], ["y"], places),
    "Unique": ([node("Unique", "x", "a b c d")], ["a", "b", "c", "d"], distinct),
    "Unique and what follows": (
        [node("Unique", "x", "t"), node("Neg", "t", "y")],
        ["y"],
        lambda x: [-distinct(x)[0]],
    ),
}


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("mode", ["force_fp16", "must_keep_origin_dtype"])
@pytest.mark.parametrize("name", NETWORKS)
def test_shapes_are_those_of_the_values_in_the_type_of_the_device(name: str, mode: str, chip: str) -> None:
    nodes, outputs, wanted = NETWORKS[name]
    graph = asim.load(model(nodes, [value("x", NEAR.shape)], outputs))
    compiled = asim.compile(graph, soc=chip, precision_mode=mode)
    half = NEAR.astype(np.float16) if mode == "force_fp16" else NEAR
    for values, data in (("device", half), ("float32", NEAR), ("device", half)):
        result = asim.run(compiled, {"x": NEAR}, values=values)  # type: ignore[arg-type]
        assert result.outputs is not None
        for output, array in zip(outputs, wanted(data), strict=True):
            np.testing.assert_allclose(result.outputs[output], array, rtol=1e-3)
        assert result.duration_us > 0


def test_many_values_are_no_other_case() -> None:
    """What is too large to be folded or held twice."""
    data = np.full(5_000_000, 1e-8, np.float32)
    data[::3] = 1
    graph = asim.load(model([node("NonZero", "x", "y")], [value("x", data.shape)], ["y"]))
    compiled = asim.compile(graph, soc="Ascend310P3")
    for values, count in (("device", len(data[::3])), ("float32", data.size)):
        outputs = asim.run(compiled, {"x": data}, values=values).outputs  # type: ignore[arg-type]
        assert outputs is not None
        assert outputs["y"].shape == (1, count)
