"""The AI CPU table."""

from __future__ import annotations

import pytest

from ascendsim.core.errors import SocError
from ascendsim.ops import default_opset
from ascendsim.ops.shared.aicpu import aicpu_types, constant_forms
from ascendsim.soc import load, names


def types_of(chip: str) -> frozenset[str]:
    return aicpu_types(load(chip).kernels.ai_cpu_table)


@pytest.mark.parametrize(
    ("chip", "count"),
    [("Ascend310", 621), ("Ascend310P3", 580), ("Ascend910", 577), ("Ascend910B1", 565), ("Ascend310B", 586)],
)
def test_sizes_of_the_table(chip: str, count: int) -> None:
    assert len(types_of(chip)) == count


def test_single_entries() -> None:
    assert "TopK" in types_of("Ascend310")
    assert "IsInf" in types_of("Ascend910")
    assert "IsInf" not in types_of("Ascend910B1")
    assert constant_forms()["ReduceSum"] == "ReduceSumD"


@pytest.mark.parametrize(
    ("chip", "wanted"),
    [("Ascend910_9391", "ascend910b"), ("Ascend610", "ascend310p"), ("SD3403", "ascend310b")],
)
def test_chips_beside_the_table(chip: str, wanted: str) -> None:
    assert load(chip).kernels.ai_cpu_table == wanted


@pytest.mark.parametrize("chip", names())
def test_every_chip_has_a_column(chip: str) -> None:
    assert types_of(chip)


def test_a_column_that_the_table_lacks_is_refused() -> None:
    with pytest.raises(SocError, match="must name a column .*'ascend310q'; did you mean"):
        aicpu_types("ascend310q")


def test_what_networks_live_on_is_not_sent_to_the_ai_cpu() -> None:
    common = (
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
    for chip in ("Ascend310", "Ascend310P", "Ascend910", "Ascend910B1"):
        for name in common:
            definition = opset.find(name)
            assert definition is not None
            assert (definition.cann or name) not in types_of(chip)
