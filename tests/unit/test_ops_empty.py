"""Empty tensors: an operator that is given none of the samples gives none of the results, or says what it
needs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import AscendSimError, GraphError
from tests.support.operator_cases import (
    Case,
    build,
    compute,
    few_cases_of,
    initials,
    ports_of_values,
    work_of,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.usefixtures("untimed_tiles"),
]


def without_samples(case: Case, alone: bool) -> Case | None:
    """The case with nothing along axis 0 of its first input, and (or not) of those that are as long."""
    first = case.inputs[0] if case.inputs else None
    if first is None or first.ndim == 0:
        return None
    fixed = ports_of_values(case)

    def cut(port: int, array: Any) -> Any:
        if array is None or port in fixed or array.ndim == 0:
            return array
        return array[:0] if port == 0 or (not alone and array.shape[0] == first.shape[0]) else array

    return replace(case, inputs=tuple(cut(port, array) for port, array in enumerate(case.inputs)))


@pytest.mark.parametrize("initial", initials())
def test_without_samples_there_are_results_of_the_shape_that_was_said_or_a_clear_error(initial: str) -> None:
    for case in few_cases_of(initial, 2):
        for empty in (without_samples(case, alone) for alone in (False, True)):
            if empty is None:
                continue
            with suppress(AscendSimError):  # what cannot be is refused; anything else is a fault
                node = build(empty)
                results = compute(node, empty.inputs)
                for tensor, result in zip(node.outputs, results, strict=True):
                    assert not tensor.is_static or result.shape == tensor.static_shape, case.name
                    tensor.shape = result.shape
                work_of(node, "Ascend310P3")


F32, I8 = np.float32, np.int8


def zeros(*shape: int, dtype: Any = F32) -> Any:
    return np.zeros(shape, dtype)


def run(op_type: str, *arrays: Any, domain: str = "", outputs: int = 1, **attributes: Any) -> list[Any]:
    """Results of one operator, whose first operand is an input: build, compile, run."""
    builder = asim.GraphBuilder()
    x = builder.input("x", arrays[0].shape, DType.of(arrays[0].dtype))
    others = [None if array is None else builder.constant(array) for array in arrays[1:]]
    made = builder.ops(op_type, x, *others, outputs=outputs, domain=domain, **attributes)
    for number, tensor in enumerate(made):
        builder.output(tensor, f"y{number}")
    model = asim.compile(builder.build(), soc="Ascend310P3")
    found = asim.run(model, {"x": arrays[0]}).outputs
    return [found[f"y{number}"] for number in range(outputs)]


EMPTY: dict[str, tuple[Callable[[], list[Any]], tuple[int, ...]]] = {
    "Conv": (lambda: run("Conv", zeros(0, 3, 8, 8), zeros(4, 3, 3, 3)), (0, 4, 6, 6)),
    "Conv without filters": (lambda: run("Conv", zeros(1, 3, 8, 8), zeros(0, 3, 3, 3)), (1, 0, 6, 6)),
    "GlobalMaxPool": (lambda: run("GlobalMaxPool", zeros(0, 3, 8, 8)), (0, 3, 1, 1)),
    "GlobalAveragePool": (lambda: run("GlobalAveragePool", zeros(0, 3, 8, 8)), (0, 3, 1, 1)),
    "MaxPool": (lambda: run("MaxPool", zeros(0, 3, 8, 8), kernel_shape=(2, 2)), (0, 3, 7, 7)),
    "Hardmax": (lambda: run("Hardmax", zeros(3, 0)), (3, 0)),
    "MatMulInteger": (lambda: run("MatMulInteger", zeros(0, 4, dtype=I8), zeros(4, 5, dtype=I8)), (0, 5)),
    "QGemm": (
        lambda: run(
            "QGemm",
            zeros(0, 4, dtype=I8), F32(1), I8(0), zeros(4, 5, dtype=I8), F32(1), I8(0),
            domain="com.microsoft",
        ),
        (0, 5),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EMPTY)
def test_a_network_gives_nothing_for_nothing(name: str) -> None:
    function, shape = EMPTY[name]
    assert function()[0].shape == shape


def test_channels_that_are_not_there_leave_the_bias() -> None:
    bias = np.array([1, 2, 3, 4], F32)
    (found,) = run("Conv", zeros(2, 0, 5, 5), zeros(4, 0, 3, 3), bias)
    np.testing.assert_array_equal(found, np.broadcast_to(bias[:, None, None], (2, 4, 3, 3)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: run("ArgMax", zeros(0, 3), axis=0),
            r"at least one element to search along axis 0, not shape",
        ),
        (lambda: run("GlobalMaxPool", zeros(2, 3, 0, 8)), "needs positions to pool over, not shape"),
        (
            lambda: run("GatherElements", zeros(0, 3), zeros(2, 3, dtype=np.int64), axis=1),
            r"needs indices of at most 0 places along axis 0, as its data have, not shape \[2, 3\]",
        ),
    ],
)
def test_what_needs_something_says_so_when_it_is_compiled(make: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        make()


@pytest.mark.parametrize(("heads", "name"), [((0, 2), "query"), ((2, 0), "key"), ((0, 0), "query")])
def test_rotation_needs_heads(heads: tuple[int, int], name: str) -> None:
    builder = asim.GraphBuilder()
    tensors = [builder.input(f"x{at}", (1, 8, count, 16)) for at, count in enumerate((*heads, 1, 1))]
    with pytest.raises(GraphError, match=f"needs at least one head in {name} .axis 2., not shape"):
        builder.ops("ApplyRotaryPosEmb", *tensors, outputs=2, domain="ascend")


# ------------------------------------------------------------------------------------- lengths of parameters

A, B = (np.arange(24).reshape(4, 6) % 9 - 4).astype(I8), (np.arange(30).reshape(6, 5) % 7 - 3).astype(I8)
IMAGE, FILTERS = zeros(1, 4, 5, 5, dtype=I8), zeros(4, 3, 2, 2, dtype=I8)
ONE, NONE = F32(1), I8(0)


def some(count: int, dtype: Any = I8) -> Any:
    return np.arange(1, count + 1).astype(dtype)


LENGTHS: list[tuple[str, tuple[Any, ...], str]] = [
    ("MatMulInteger", (A, B, some(3)), r"needs 1 or 4 values as input 2, one a row, not shape \[3\]"),
    ("MatMulInteger", (A, B, None, some(4)), r"needs 1 or 5 values as input 3, one a column"),
    ("MatMulInteger", (A, B, NONE, some(6)[:, None]), r"input 3, one a column, not shape \[6, 1\]"),
    ("MatMulInteger", (A[0], B, some(6)), r"needs one value for the whole tensor as input 2"),
    (
        "QLinearMatMul",
        (A, ONE, NONE, B, some(3, F32), some(3), ONE, NONE),
        "5 values as input 4, one a column",
    ),
    ("QLinearMatMul", (A, some(5, F32), some(5), B, ONE, NONE, ONE, NONE), "4 values as input 1, one a row"),
    (
        "QLinearMatMul",
        (A, ONE, NONE, B, ONE, NONE, some(5, F32), some(5)),
        "one value for the whole .* input 6",
    ),
    ("ascend::DequantMatMul", (A, B, NONE, some(4), ONE), "needs 1 or 5 values as input 3, one a column"),
    (
        "ascend::DequantMatMul",
        (A, B, NONE, NONE, some(3, F32)),
        "needs 1 or 5 values as input 4, one a column",
    ),
    ("ascend::DequantMatMul", (A, B, NONE, NONE, ONE, some(4, F32)), "5 values as input 5, one a column"),
    (
        "ascend::QuantConvTranspose",
        (IMAGE, ONE, NONE, FILTERS, some(2, F32), NONE, ONE, NONE),
        "needs 1 or 3 values as input 4, one a channel of the result",
    ),
    (
        "ascend::QuantConvTranspose",
        (IMAGE, ONE, some(4), FILTERS, ONE, NONE, ONE, NONE),
        "needs one value for the whole tensor as input 2",
    ),
    (
        "ascend::QuantConvTranspose",
        (IMAGE, ONE, NONE, FILTERS, ONE, some(4), ONE, NONE),
        "needs 1 or 3 values as input 5, one a channel of the result",
    ),
]


@pytest.mark.parametrize(("name", "arrays", "message"), LENGTHS)
def test_scales_and_zero_points_have_one_value_or_one_a_slice(
    name: str, arrays: tuple[Any, ...], message: str
) -> None:
    domain, _, op_type = name.rpartition("::")
    with pytest.raises(GraphError, match=rf"{op_type}.*{message}.*; "):
        run(op_type, *arrays, domain=domain)


@pytest.mark.parametrize("rows", [some(4), some(4)[:, None], some(1)])
@pytest.mark.parametrize("columns", [some(5), some(5)[None], NONE])
def test_zero_points_of_rows_and_columns(rows: Any, columns: Any) -> None:
    left = A.astype(int) - rows.reshape(-1, 1).astype(int)
    right = B.astype(int) - np.reshape(columns, (1, -1)).astype(int)
    np.testing.assert_array_equal(run("MatMulInteger", A, B, rows, columns)[0], left @ right)
