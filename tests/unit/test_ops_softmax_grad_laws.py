"""Gradients of softmax: values against derivatives that are written out, precision, and the work that they
ask for along every axis.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.core.formats import Format
from ascendsim.ops import default_opset
from ascendsim.opset.axes import Relation
from ascendsim.opset.work import AiCpuWork, LowerContext, NoTask, VectorWork
from tests.support.half import emulate, ulps
from tests.support.single_node import C220, make_node, run

SHAPE = (3, 4, 5, 2)
RNG = np.random.default_rng(3)
FACTOR = np.array([-1.5])
AXES = pytest.mark.parametrize("axis", [0, 1, 2, 3, -1])
TWO = ("ConfusionSoftmaxGrad", "SoftmaxGrad", "LogSoftmaxGrad")


def softmax(x: Any, axis: int) -> Any:
    powers = np.exp(x)
    return powers / powers.sum(axis, keepdims=True)


def jacobian(x: Any) -> Any:
    """Of softmax of a vector: p_i (1 - p_i) on the diagonal, -p_i p_j beside it."""
    p = softmax(x, 0)
    return np.array([[p[i] * ((i == j) - p[j]) for j in range(len(p))] for i in range(len(p))])


def written_out(name: str, grad: Any, x: Any) -> Any:
    """The gradient of a vector: the transposed derivatives times that of the result."""
    p = softmax(x, 0)
    match name:
        case "SoftmaxGrad":
            return jacobian(x).T @ grad
        case "SoftmaxGradExt":
            return jacobian(x).T @ grad * FACTOR[0]
        case "LogSoftmaxGrad":  # of log p: the derivatives of p over p
            return (jacobian(x) / p[:, None]).T @ grad
        case _:  # that of softmax without its last factor
            return jacobian(x).T @ grad / p


def inputs(name: str, grad: Any, x: Any, axis: int) -> list[Any]:
    """In CANN's order."""
    y = softmax(x, axis)
    return {
        "SoftmaxGrad": [y, grad],
        "SoftmaxGradExt": [grad, y, FACTOR.astype(x.dtype)],
        "LogSoftmaxGrad": [grad, np.log(y)],
        "ConfusionSoftmaxGrad": [grad, y],
    }[name]


def gradient(name: str, given: list[Any], axis: int) -> Any:
    return run(name, given, domain="ascend", axis=axis)[0]


@AXES
@pytest.mark.parametrize("name", [*TWO, "SoftmaxGradExt"])
def test_gradients_are_the_derivatives_times_that_of_the_result(name: str, axis: int) -> None:
    grad, x = RNG.standard_normal((2, *SHAPE))
    found = gradient(name, inputs(name, grad, x, axis), axis)
    rows, slopes = np.moveaxis(x, axis, -1), np.moveaxis(grad, axis, -1)
    wanted = np.empty_like(rows)
    for place in np.ndindex(rows.shape[:-1]):
        wanted[place] = written_out(name, slopes[place], rows[place])
    np.testing.assert_allclose(np.moveaxis(found, axis, -1), wanted, atol=1e-13)
    if axis == -1:
        np.testing.assert_array_equal(found, run(name, inputs(name, grad, x, axis), domain="ascend")[0])
    single = [array.astype(np.float32) for array in inputs(name, grad, x, axis)]
    near = gradient(name, single, axis)
    assert near.dtype == np.float32
    np.testing.assert_allclose(np.moveaxis(near, axis, -1), wanted, atol=2e-6)


@pytest.mark.parametrize("name", [*TWO, "SoftmaxGradExt"])
def test_halves_are_rounded_once(name: str) -> None:
    """A row of 3000: sums in float16 would be off by many steps."""
    grad, x = RNG.standard_normal((2, 2, 3000))
    given = [array.astype(np.float16) for array in inputs(name, grad, x, -1)]

    def formula(*wide: Any) -> Any:
        first, second = wide[:2]
        if name == "LogSoftmaxGrad":
            return first - first.sum(-1, keepdims=True) * np.exp(second)
        y, dy = (first, second) if name == "SoftmaxGrad" else (second, first)
        centred = dy - (y * dy).sum(-1, keepdims=True)
        return centred if name == "ConfusionSoftmaxGrad" else centred * y * (wide[2] if wide[2:] else 1)

    assert ulps(gradient(name, given, -1), emulate(formula, *given)).max() <= 1


@AXES
@pytest.mark.parametrize("name", ["SoftmaxGrad", "LogSoftmaxGrad", "ConfusionSoftmaxGrad"])
def test_float32_has_the_bits_of_the_formula_with_reduce_sum(name: str, axis: int) -> None:
    """So that a fused operator and the chain that it replaces agree to the bit."""
    grad, x = RNG.standard_normal((2, *SHAPE)).astype(np.float32)
    given = inputs(name, grad, x, axis)
    first, second = given
    y, dy = (first, second) if name == "SoftmaxGrad" else (second, first)
    summed = dy if name == "LogSoftmaxGrad" else dy * y
    total = run("ReduceSum", [summed, np.array([axis])], keepdims=1)[0]
    factor = {"LogSoftmaxGrad": np.exp(y), "SoftmaxGrad": y, "ConfusionSoftmaxGrad": np.float32(1)}[name]
    wanted = dy - total * factor if name == "LogSoftmaxGrad" else (dy - total) * factor
    np.testing.assert_array_equal(gradient(name, given, axis), wanted)


# ---- work


def lowered(name: str, *given: Any, format: Format = Format.ND, axis: int = -1, **chip: Any) -> Any:
    node = make_node(name, given, domain="ascend", known=False, axis=axis)
    for tensor in (*node.inputs[:2], node.output):
        assert tensor is not None
        tensor.format = format
    lower = default_opset().get(node).lower
    assert lower is not None
    return lower(node, LowerContext("c220", intrinsics={**C220, "vexp": ("float16", "float32")}, **chip))


def arrays(name: str, shape: tuple[int, ...], kind: Any) -> list[Any]:
    more = [np.ones(1, kind)] if name == "SoftmaxGradExt" else []
    return [np.ones(shape, kind), np.ones(shape, kind), *more]


STEPS = {
    "ConfusionSoftmaxGrad": (["vmul"], ["vsub"]),
    "SoftmaxGrad": (["vmul"], ["vsub", "vmul"]),
    "SoftmaxGradExt": (["vmul"], ["vsub", "vmul", "vmuls"]),
    "LogSoftmaxGrad": (["vexp"], ["vmul", "vsub"]),
}


@AXES
@pytest.mark.parametrize("kind", [np.float16, np.float32])
@pytest.mark.parametrize("name", list(STEPS))
def test_the_axis_that_is_summed_is_the_side_that_is_reduced(name: str, kind: Any, axis: int) -> None:
    """What lies behind it is a burst, unless nothing lies in front of it."""
    work = lowered(name, *arrays(name, SHAPE, kind), axis=axis)
    assert isinstance(work, VectorWork)
    axis %= len(SHAPE)
    length, behind = SHAPE[axis], math.prod(SHAPE[axis + 1 :])
    last = axis == len(SHAPE) - 1
    reduced, others = (work.cols, work.rows) if last else (work.rows, work.cols)
    assert (reduced, others) == (length, math.prod(SHAPE) // length)
    assert work.reduces == ("cols" if last else "rows")
    assert work.gather_bytes == (0 if last or axis == 0 else behind * np.dtype(kind).itemsize)
    assert work.sweeps == 2
    before, after = STEPS[name]
    wide = ["vconv"] if kind is np.float16 else []
    body = [*wide, *wide, *before, "vcadd" if last else "vadd", *after, *wide]
    assert [step.op for step in work.steps] == body
    assert {step.dtype for step in work.steps} == {DType.FLOAT32}
    sizes = [array.nbytes for array in arrays(name, SHAPE, kind)]
    assert [stream.ref.bytes for stream in work.inputs] == sizes
    assert [stream.ref.bytes for stream in work.outputs] == sizes[:1]
    assert [stream.over for stream in work.inputs] == ["all", "all", "one"][: len(sizes)]


def test_twice_the_rows_are_twice_the_bytes() -> None:
    once, twice = (lowered("SoftmaxGrad", *arrays("SoftmaxGrad", (n, 8), np.float16)) for n in (5, 10))
    assert (twice.rows, twice.cols) == (2 * once.rows, once.cols)
    assert twice.steps == once.steps
    for mine, other in zip((*once.inputs, *once.outputs), (*twice.inputs, *twice.outputs), strict=True):
        assert other.ref.bytes == 2 * mine.ref.bytes


@pytest.mark.parametrize("in_turn", [False, True])
def test_a_vector_unit_that_reads_no_single_numbers_spreads_the_sum_of_a_row(in_turn: bool) -> None:
    """Along the last axis only, behind the sum; not where rows go one by one, whose sum is in a register."""
    given = arrays("SoftmaxGrad", (6, 5), np.float32)
    chip = {"register_move_cycles": 1.0, "rows_in_turn": in_turn}
    work = lowered("SoftmaxGrad", *given, **chip)
    plain = lowered("SoftmaxGrad", *given)
    assert work.in_turn == in_turn
    assert not plain.in_turn
    names = [step.op for step in work.steps]
    if in_turn:
        assert names == ["vmul", "vcadd", "vsub", "vmul"]
    else:
        assert [step.op for step in plain.steps] == [*names[:2], *names[4:]]
        number, spread = work.steps[2:4]
        assert (number.over, spread.over, spread.run, spread.overruns) == ("row", "all", 5, True)
    across = lowered("SoftmaxGrad", *given, axis=0, **chip)
    assert [step.op for step in across.steps] == ["vmul", "vadd", "vsub", "vmul"]


def test_channels_are_the_last_axis_of_blocked_maps() -> None:
    given = arrays("SoftmaxGrad", (2, 32, 3, 5), np.float16)
    found = [lowered("SoftmaxGrad", *given, format=Format.NC1HWC0, axis=axis) for axis in range(4)]
    assert [(work.rows, work.cols) for work in found] == [(2, 480), (30, 32), (3, 320), (5, 192)]
    assert [work.gather_bytes for work in found] == [0, 0, 5 * 32 * 2, 32 * 2]


@pytest.mark.parametrize("name", list(STEPS))
def test_doubles_run_on_the_ai_cpu_and_nothing_costs_nothing(name: str) -> None:
    work = lowered(name, *arrays(name, (4, 5), np.float64))
    assert isinstance(work, AiCpuWork)
    assert (work.elements, work.operations) == (20, 1 + sum(map(len, STEPS[name])))
    assert isinstance(lowered(name, *arrays(name, (4, 0), np.float32)), NoTask)


@pytest.mark.parametrize("name", list(STEPS))
def test_rows_stay_in_fractals_that_they_fill(name: str) -> None:
    def fits(
        shape: tuple[int, ...], axis: int, format: Format = Format.FRACTAL_NZ, known: bool = False
    ) -> bool:
        given = arrays(name, shape, np.float16)
        node = make_node(name, given, domain="ascend", known=known, axis=axis)
        judge = default_opset().get(node).in_blocks
        assert judge is not None
        return judge(node, format)

    alone = name != "SoftmaxGradExt"  # its factor has no blocks
    assert fits((2, 32, 48), 2)
    assert fits((2, 32, 48), -1)
    assert not fits((2, 32, 48), 1)
    assert not fits((2, 32, 40), 2)
    assert not fits((2, 33, 48), 2)
    assert not fits((2, 32, 48), 2, Format.NC1HWC0)
    assert not fits((2, 32, 48), 2, known=True)
    assert alone or fits((32, 48), 1)


@pytest.mark.parametrize("name", list(STEPS))
def test_inputs_have_one_shape_and_the_factor_is_one_number(name: str) -> None:
    given = arrays(name, (4, 5), np.float32)
    for wrong in ((4, 1), (5, 4), (4, 5, 1)):
        with pytest.raises(GraphError, match="of one shape"):
            make_node(name, [given[0], np.ones(wrong, np.float32), *given[2:]], domain="ascend")
    with pytest.raises(GraphError, match="axis"):
        make_node(name, given, domain="ascend", axis=2)
    if name == "SoftmaxGradExt":
        make_node(name, [*given[:2], np.ones((1, 1), np.float32)], domain="ascend")
        with pytest.raises(GraphError, match="factor of one number"):
            make_node(name, [*given[:2], np.ones(5, np.float32)], domain="ascend")


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("name", list(STEPS))
def test_only_the_axis_that_is_summed_is_needed_whole(name: str, axis: int) -> None:
    """Along the others both inputs and the result may be cut alike; logarithms along all of them."""
    shape = (3, 4, 5)
    node = make_node(name, arrays(name, shape, np.float32), domain="ascend", known=False, axis=axis)
    said = default_opset().get(node).facts.axes(node)
    for port, at in np.ndindex(2, 3):
        link = said.link(port, at, 0)
        summed = at == axis % 3 and (name, port) != ("LogSoftmaxGrad", 1)
        assert link.relation is (Relation.WHOLE if summed else Relation.PARALLEL)
        assert summed or link.axis == at
