"""The AI CPU table."""

from __future__ import annotations

import pytest

from ascendsim.ops import default_opset
from ascendsim.ops.shared.aicpu import aicpu_types, column, constant_forms


@pytest.mark.parametrize(
    ("chip", "count"),
    [("Ascend310", 621), ("Ascend310P3", 580), ("Ascend910", 577), ("Ascend910B1", 565), ("Ascend310B", 586)],
)
def test_sizes_of_the_table(chip: str, count: int) -> None:
    assert len(aicpu_types(chip)) == count


def test_single_entries() -> None:
    assert "TopK" in aicpu_types("Ascend310")
    assert "IsInf" in aicpu_types("Ascend910")
    assert "IsInf" not in aicpu_types("Ascend910B")
    assert constant_forms()["ReduceSum"] == "ReduceSumD"


@pytest.mark.parametrize(
    ("chip", "wanted"),
    [("Ascend910_9391", "ascend910b"), ("Ascend610", "ascend310p"), ("SD3403", "ascend310b")],
)
def test_chips_beside_the_table(chip: str, wanted: str) -> None:
    assert column(chip) == wanted


def test_what_networks_live_on_is_not_sent_to_the_ai_cpu() -> None:
    names = (
        "Relu",
        "Add",
        "Mul",
        "Sigmoid",
        "Softmax",
        "LayerNormalization",
        "BatchNormalization",
        "ReduceMean",
        "Cast",
        "Clip",
        "Where",
    )
    opset = default_opset()
    for chip in ("Ascend310", "Ascend310P", "Ascend910", "Ascend910B"):
        for name in names:
            definition = opset.find(name)
            assert definition is not None
            assert (definition.cann or name) not in aicpu_types(chip)
