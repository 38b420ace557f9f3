"""Element types that a kernel of the AI Core lacks: our whole table, and the one that msprof-analyze has."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.ops import default_opset
from ascendsim.ops.shared.aicpu import JUDGED, ai_cpu_rules, aicpu_types
from ascendsim.soc import load
from tests.support.gate import in_one

CHIPS = ("Ascend310", "Ascend310P3", "Ascend310B1", "Ascend910A", "Ascend910B1", "Ascend910_9391")
# msprof's names -> ours; complex numbers are none of the IR's
MSPROF = {"float": "float32", "dt_bf16": "bfloat16", "complex64": "", "complex128": ""}
# ONNX operators by CANN's name, with what they take
OPERATORS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "Abs": ("Abs", 1, {}),
    "Add": ("Add", 2, {}),
    "Cast": ("Cast", 1, {"to": DType.FLOAT32}),
    "Equal": ("Equal", 2, {}),
    "Greater": ("Greater", 2, {}),
    "GreaterEqual": ("GreaterOrEqual", 2, {}),
    "Less": ("Less", 2, {}),
    "LessEqual": ("LessOrEqual", 2, {}),
    "Maximum": ("Max", 2, {}),
    "Minimum": ("Min", 2, {}),
    "Mul": ("Mul", 2, {}),
    "Neg": ("Neg", 1, {}),
    "Sub": ("Sub", 2, {}),
}


def engines(op: str, dtype: str, chip: str) -> set[str]:
    name, inputs, attributes = OPERATORS[op]
    builder = asim.GraphBuilder(infer=default_opset().infer)  # CANN's operators have types that ONNX's lack
    given = [builder.input(f"x{number}", (4, 64), dtype) for number in range(inputs)]
    builder.output(builder.op(name, *given, **attributes), "y")
    model = asim.compile(builder.build(), soc=chip, precision_mode="must_keep_origin_dtype", fusion="off")
    return {task.kind.value for task in model.program.tasks}


@in_one("chip", CHIPS)
def test_every_type_that_a_kernel_lacks_goes_to_the_ai_cpu(chip: str) -> None:
    rules = ai_cpu_rules(load(chip).kernels.ai_cpu_table)
    for op in OPERATORS:
        for dtype in JUDGED:
            if f"{op}:{dtype}" in rules:
                assert engines(op, dtype, chip) == {"AI_CPU"}, (op, dtype)
        assert "AI_CPU" not in engines(op, "float16", chip), op


def test_types_that_kernels_have_stay_on_the_ai_core() -> None:
    for op, dtype in (
        ("Mul", "int32"),
        ("Equal", "int8"),
        ("Cast", "uint8"),
        ("Cast", "bool"),
        ("Less", "uint8"),
    ):
        for chip in CHIPS[1:]:
            assert "AI_CPU" not in engines(op, dtype, chip), (op, dtype, chip)


def test_rows_are_of_operators_that_exist_and_come_after_whole_types() -> None:
    known = {definition.cann or definition.name for definition in default_opset()}
    for column in ("ascend310", "ascend310p", "ascend910", "ascend910b", "ascend310b"):
        typed = {rule.partition(":")[0] for rule in ai_cpu_rules(column) - aicpu_types(column)}
        assert typed <= known
        assert not any(":" in name for name in aicpu_types(column))


def msprof_rules() -> list[dict[str, Any]]:
    found = importlib.util.find_spec("msprof_analyze")
    if found is None or not found.submodule_search_locations:
        pytest.skip("needs msprof-analyze")
    path = Path(next(iter(found.submodule_search_locations))) / "advisor/rules/en/aicpu_rules.yaml"
    text = path.read_text(encoding="utf-8")
    rules = pytest.importorskip("yaml").safe_load(text)["CommonChecker"]
    return [rule["DataTypeChecker"] for rule in rules if "8.0.RC1" in rule["DataTypeChecker"]["cann_version"]]


def test_what_msprof_analyze_says_of_types_holds_operator_by_operator() -> None:
    """Types that its newest rules do not list run on the AI CPU: of the operators that they name, and of all
    others that compute."""
    names = {op.lower(): op for op in OPERATORS}
    spoken = 0
    for rule in msprof_rules():
        wanted = (
            set(names) - set(rule.get("ignore_type", ())) if "__ALL__" in rule["op_type"] else rule["op_type"]
        )
        listed = {MSPROF.get(name, name) for name in rule["input"]}
        for name in sorted(set(wanted) & set(names)):
            for dtype in DType:
                if dtype.value not in listed and dtype.value != "float16":
                    spoken += 1
                    for chip in ("Ascend310P3", "Ascend910B1"):
                        assert engines(names[name], dtype.value, chip) == {"AI_CPU"}, (name, dtype, chip)
    assert spoken > 30


def test_a_result_whose_type_an_attribute_says_counts_too() -> None:
    for wanted, engine in ((DType.INT16, "AI_CPU"), (DType.INT8, "AI_CPU"), (DType.INT32, "AI_CORE")):
        builder = asim.GraphBuilder()
        builder.output(builder.op("Cast", builder.input("x", (4, 64), "float32"), to=wanted), "y")
        model = asim.compile(builder.build(), soc="Ascend310P3", precision_mode="must_keep_origin_dtype")
        assert {task.kind.value for task in model.program.tasks} == {engine}


def test_what_lies_on_the_ai_cpu_is_fused_with_nothing_and_keeps_its_values() -> None:
    builder = asim.GraphBuilder()
    x = builder.input("x", (4, 64), "int16")
    builder.output(builder.op("Add", builder.op("Mul", x, x), x), "y")
    model = asim.compile(builder.build(), soc="Ascend910B1")
    assert [task.kind.value for task in model.program.tasks] == ["AI_CPU", "AI_CPU"]
    values = np.arange(256, dtype=np.int16).reshape(4, 64) % 90
    np.testing.assert_array_equal(asim.run(model, {"x": values}).outputs["y"], values * values + values)
