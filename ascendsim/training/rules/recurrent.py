"""Gradient of LSTM: backpropagation through time.

With z = x W^T + h' R^T + b by gate (i, o, f, g) and step, c = f c' + i g, h = o tanh(c) (primes: the step
before):

    dh = dy + dz" R,    dc = dh o (1 - tanh(c)^2) + dc" f"       (double primes: the step behind)
    dz = dc g i(1 - i),    dh tanh(c) o(1 - o),    dc c' f(1 - f),    dc i (1 - g^2)

The hidden states are the forward operator's result; gates are made again from them, for all steps at once.
Only c, dh and dc go step by step; the gradients of x, W, R and b are one product or sum over all steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from ascendsim.graph.ir import Tensor
from ascendsim.training.backward import Backward, Rule
from ascendsim.training.sequences import (
    Grads,
    Way,
    arriving,
    bend,
    by_direction,
    fall,
    given_grads,
    hidden_of,
    shifted,
    stacked,
    steps_of,
    weight_grad,
)

_REFUSED = {"clip": None, "input_forget": 0, "layout": 0, "activations": None}


def _lstm(step: Backward) -> Grads:
    return by_direction(step, _direction, 2, _REFUSED)


def _direction(step: Backward, way: Way) -> list[Tensor | None]:
    """Gradients of x, W, R, b, h0 and c0; those of the weights with their axis of directions."""
    x = step.node.required(0)
    length, batch, width = x.static_shape
    size = way.r.static_shape[1]
    flat, rows = step.reshaped(x, (length * batch, width)), (length * batch, size)
    before = step.reshaped(shifted(step, hidden_of(step, way), way.states[0], way), rows)
    i, o, f, g = _gates(step, way, flat, before, (length, batch, size))
    cells = _cells(step, way, f, step.op("Mul", i, g))
    shaped = step.op("Tanh", cells)
    earlier = shifted(step, cells, way.states[1], way)
    slopes = (
        step.op("Mul", g, bend(step, i)),
        step.op("Mul", shaped, bend(step, o)),
        step.op("Mul", earlier, bend(step, f)),
        step.op("Mul", i, fall(step, g)),
    )
    made, dh, dc = _through_time(step, way, slopes, step.op("Mul", o, fall(step, shaped)), f)
    dz = step.reshaped(made, (length * batch, 4 * size))
    result: list[Tensor | None] = [None] * 6
    if step.needs(0):
        result[0] = step.reshaped(step.op("MatMul", dz, way.w), x.static_shape)
    for port, other in ((1, flat), (2, before)):
        if step.needs(port):
            result[port] = weight_grad(step, dz, other)
    if step.needs(3):
        total = step.op("ReduceSum", dz, [0], keepdims=1)
        result[3] = step.op("Concat", total, total, axis=1)
    result[4] = dh if step.needs(5) else None
    result[5] = dc if step.needs(6) else None
    return result


def _gates(step: Backward, way: Way, flat: Tensor, before: Tensor, shape: Sequence[int]) -> list[Tensor]:
    size = shape[-1]
    z = step.op("Add", step.op("Gemm", flat, way.w, transB=1), step.op("Gemm", before, way.r, transB=1))
    if way.bias is not None:
        halves = step.ops("Split", 2, way.bias, [4 * size] * 2, axis=1)
        z = step.op("Add", z, step.op("Add", *halves))
    parts = step.ops("Split", 4, z, [size] * 4, axis=1)
    kinds = ("Sigmoid", "Sigmoid", "Sigmoid", "Tanh")
    return [step.reshaped(step.op(kind, part), shape) for kind, part in zip(kinds, parts, strict=True)]


def _cells(step: Backward, way: Way, f: Tensor, added: Tensor) -> Tensor:
    keeps, adds, cell = steps_of(step, f), steps_of(step, added), way.states[1]
    made: dict[int, Tensor] = {}
    for place in way.order:
        cell = made[place] = step.op("Add", step.op("Mul", keeps[place], cell), adds[place])
    return stacked(step, [made[place] for place in range(len(keeps))])


def _through_time(
    step: Backward, way: Way, slopes: Sequence[Tensor], to_cell: Tensor, f: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Dz of all steps, and the gradients of the first states."""
    hidden, (dh, dc) = given_grads(step, way, 2)
    by_gate = [steps_of(step, slope) for slope in slopes]
    cells, keeps = steps_of(step, to_cell), steps_of(step, f)
    made: dict[int, Tensor] = {}
    for place in reversed(way.order):
        dh = arriving(step, hidden, dh, place, way.states[0])
        through = step.op("Mul", dh, cells[place])
        dc = through if dc is None else step.op("Add", through, dc)
        sources = (dc, dh, dc, dc)
        parts = [step.op("Mul", source, gate[place]) for source, gate in zip(sources, by_gate, strict=True)]
        made[place] = step.op("Concat", *parts, axis=2)
        dh = step.op("MatMul", made[place], way.r)
        dc = step.op("Mul", dc, keeps[place])
    assert dh is not None
    assert dc is not None
    return stacked(step, [made[place] for place in range(len(keeps))]), dh, dc


RULES: dict[tuple[str, str], Rule] = {("", "LSTM"): _lstm}
