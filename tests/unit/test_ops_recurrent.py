"""LSTM, GRU and RNN against onnxruntime, the device's rounding of the state, errors, work descriptions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascendsim.core.errors import GraphError
from ascendsim.ops.linear.recurrent import GATES
from ascendsim.opset.work import CubeWork, SequenceWork, VectorWork
from tests.support.single_node import infer, lower, run, with_onnxruntime

STEPS, BATCH, FEATURES, HIDDEN = 5, 3, 4, 6
OUTPUTS = {"RNN": 2, "GRU": 2, "LSTM": 3}
VARIANTS: list[
    tuple[str, dict[str, Any], bool, bool]
] = [  # operator, attributes, sequence lengths, peepholes
    ("LSTM", {}, False, False),
    ("LSTM", {"direction": "bidirectional", "clip": 0.3}, True, True),
    ("LSTM", {"direction": "reverse", "input_forget": 1}, True, False),
    (
        "LSTM",
        {
            "activations": ("HardSigmoid", "Softsign", "Relu"),
            "activation_alpha": (0.3,),
            "activation_beta": (0.4,),
        },
        False,
        False,
    ),
    ("GRU", {}, False, False),
    ("GRU", {"direction": "bidirectional", "linear_before_reset": 1}, True, False),
    ("GRU", {"direction": "reverse", "clip": 0.2}, True, False),
    ("GRU", {"activations": ("Sigmoid", "LeakyRelu"), "activation_alpha": (0.2,)}, False, False),
    ("RNN", {}, False, False),
    ("RNN", {"direction": "bidirectional", "activations": ("Relu", "Tanh")}, True, False),
    (
        "RNN",
        {"activations": ("ScaledTanh",), "activation_alpha": (1.5,), "activation_beta": (0.5,)},
        False,
        False,
    ),
    ("RNN", {"activations": ("Elu",), "activation_alpha": (0.7,)}, False, False),
]


def operands(op: str, directions: int, lengths: bool, peepholes: bool) -> list[Any]:
    rng = np.random.default_rng(7)
    rows = GATES[op] * HIDDEN
    shapes = [
        (STEPS, BATCH, FEATURES),
        (directions, rows, FEATURES),
        (directions, rows, HIDDEN),
        (directions, 2 * rows),
    ]
    result: list[Any] = [(0.5 * rng.standard_normal(shape)).astype(np.float32) for shape in shapes]
    result.append(np.array([5, 2, 3], np.int32) if lengths else None)
    result.append((0.5 * rng.standard_normal((directions, BATCH, HIDDEN))).astype(np.float32))
    if op == "LSTM":
        result.append((0.5 * rng.standard_normal((directions, BATCH, HIDDEN))).astype(np.float32))
        result.append(
            (0.5 * rng.standard_normal((directions, 3 * HIDDEN))).astype(np.float32) if peepholes else None
        )
    return result


@pytest.mark.parametrize(("op", "attributes", "lengths", "peepholes"), VARIANTS)
def test_cells_equal_onnxruntime(op: str, attributes: dict[str, Any], lengths: bool, peepholes: bool) -> None:
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    inputs = operands(op, directions, lengths, peepholes)
    oracle = with_onnxruntime(op, inputs, OUTPUTS[op], hidden_size=HIDDEN, **attributes)
    for mine, other in zip(
        run(op, inputs, OUTPUTS[op], hidden_size=HIDDEN, **attributes), oracle, strict=True
    ):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
def test_batch_first_is_the_same_thing_transposed(op: str) -> None:
    inputs = operands(op, 2, True, False)
    plain = run(op, inputs, OUTPUTS[op], hidden_size=HIDDEN, direction="bidirectional")
    turned = [
        None if a is None else a.swapaxes(0, 1) if number in (0, 5, 6) else a
        for number, a in enumerate(inputs)
    ]
    other = run(op, turned, OUTPUTS[op], hidden_size=HIDDEN, direction="bidirectional", layout=1)
    np.testing.assert_array_equal(other[0], plain[0].transpose(2, 0, 1, 3))
    for mine, theirs in zip(other[1:], plain[1:], strict=True):
        np.testing.assert_array_equal(mine, theirs.swapaxes(0, 1))


def test_one_device_step_rounds_its_output_once() -> None:
    """A step of the simplest cell: float64 tanh of the exact sums, then float16."""
    inputs: list[Any] = [
        None if a is None else a.astype(np.float16) for a in operands("RNN", 1, False, False)
    ]
    x, w, r, b, _, h = inputs
    wide = [a.astype(np.float64) for a in (x, w, r, b, h)]
    exact = np.tanh(
        wide[0][0] @ wide[1][0].T + wide[4][0] @ wide[2][0].T + wide[3][0, :HIDDEN] + wide[3][0, HIDDEN:]
    )
    result = run("RNN", inputs, 2, hidden_size=HIDDEN)[0]
    assert result.dtype == np.float16
    rounded = exact.astype(np.float16)
    assert (np.abs(result[0, 0].astype(np.float64) - rounded) <= np.spacing(np.abs(rounded))).all()


def test_device_state_passes_through_float16() -> None:
    """Step by step with the previous float16 output as state gives the bits of one run over all steps."""
    inputs: list[Any] = [
        None if a is None else a.astype(np.float16) for a in operands("GRU", 1, False, False)
    ]
    whole = run("GRU", inputs, 2, hidden_size=HIDDEN)[0]
    state = inputs[5]
    for step in range(STEPS):
        state = run("GRU", [inputs[0][step : step + 1], *inputs[1:5], state], 2, hidden_size=HIDDEN)[1]
        np.testing.assert_array_equal(state[0], whole[step, 0])


def test_unknown_dimensions_stay_unknown() -> None:
    shapes: list[Any] = [("t", "n", 4), (1, 24, 4), (1, 24, 6)]
    assert infer("LSTM", shapes, outputs=3, hidden_size=6) == [("t", 1, "n", 6), (1, "n", 6), (1, "n", 6)]
    assert infer("GRU", [None, None, None], outputs=2, hidden_size=6) == [(None, 1, None, 6), (1, None, 6)]


@pytest.mark.parametrize(
    ("shapes", "attributes", "message"),
    [
        ([(5, 3, 4), (1, 20, 4), (1, 24, 6)], {}, "4 x hidden_size 6 rows in input 1, not 20"),
        ([(5, 3, 4), (2, 24, 4), (2, 24, 6)], {}, r"weights for 1 direction\(s\), not 2"),
        ([(5, 3, 3), (1, 24, 4), (1, 24, 6)], {}, "inputs of 4 features, not 3"),
        ([(5, 3, 4), (1, 24, 4), (1, 24, 6)], {"hidden_size": 7}, "needs hidden_size 6"),
        ([(5, 3, 4), (1, 24, 4), (1, 24, 6)], {"direction": "sideways"}, "forward, reverse or bidirectional"),
    ],
)
def test_misfits_are_named(shapes: list[Any], attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        infer("LSTM", shapes, **attributes)


def test_unknown_activations_and_lengths_are_named() -> None:
    inputs = operands("RNN", 1, False, False)
    with pytest.raises(GraphError, match="activations out of affine"):
        run("RNN", inputs, 2, hidden_size=HIDDEN, activations=("Swish",))
    inputs[4] = np.array([9, 1, 1], np.int32)
    with pytest.raises(GraphError, match="3 sequence lengths from 0 to 5"):
        run("RNN", inputs, 2, hidden_size=HIDDEN)


@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
def test_work_is_two_products_and_the_gates_for_every_step(op: str) -> None:
    inputs = [None if a is None else a.astype(np.float16) for a in operands(op, 2, False, False)]
    work = lower(op, inputs, OUTPUTS[op], hidden_size=HIDDEN, direction="bidirectional")
    assert isinstance(work, SequenceWork)
    assert work.repeat == 2 * STEPS
    first, second, gates = work.parts
    assert isinstance(first, CubeWork)
    assert isinstance(second, CubeWork)
    assert isinstance(gates, VectorWork)
    assert (first.m, first.k, first.n) == (BATCH, FEATURES, GATES[op] * HIDDEN)
    assert (second.m, second.k, second.n) == (BATCH, HIDDEN, GATES[op] * HIDDEN)
    assert gates.rows * gates.cols == BATCH * HIDDEN
