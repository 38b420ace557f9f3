"""Gradients of GRU and RNN: backpropagation through time.

RNN, h = f(x W^T + h' R^T + b) with f tanh or relu:    da = dh f'(h),    dh' = da R

GRU, h = (1 - z) n + z h' (primes: the step before), z and r = sigmoid(x W^T + h' R^T + b):

    da = dh (1 - z)(1 - n^2),    dz = dh (h' - n) z(1 - z)
    n = tanh(xn + r q), q = h' Rn^T + bn       dq = da r,  dr = da q r(1 - r),   dh' = dh z + [dz dr dq] R
    n = tanh(xn + (r h') Rn^T + bn)            ds = da Rn, dr = ds h' r(1 - r),  dh' = dh z + ds r + [dz dr] R

The first form of n is that of `linear_before_reset` (PyTorch's). The states are the forward operator's
result; gates are made again from them, for all steps at once. Only dh goes step by step; the gradients of x,
W, R and b are one product or sum over all steps.
"""

from __future__ import annotations

from dataclasses import dataclass

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


def _rnn(step: Backward) -> Grads:
    kinds = {str(kind).lower() for kind in step.node.attr("activations") or ("Tanh",)}
    if len(kinds) > 1 or not kinds <= {"tanh", "relu"}:
        step.refuse("is known for tanh and relu only", sorted(kinds))
    return by_direction(step, _rnn_direction, 1, {"clip": None, "layout": 0})


def _rnn_direction(step: Backward, way: Way) -> list[Tensor | None]:
    whole = hidden_of(step, way)
    if str((step.node.attr("activations") or ("Tanh",))[0]).lower() == "relu":
        slope = step.op("Cast", step.op("Greater", whole, step.constant(0, whole)), to=whole.dtype)
    else:
        slope = fall(step, whole)
    hidden, (dh,) = given_grads(step, way, 1)
    slopes, made = steps_of(step, slope), dict[int, Tensor]()
    for place in reversed(way.order):
        made[place] = step.op("Mul", arriving(step, hidden, dh, place, way.states[0]), slopes[place])
        dh = step.op("MatMul", made[place], way.r)
    rows = _flat(step, stacked(step, [made[place] for place in range(len(slopes))]))
    before = _flat(step, shifted(step, whole, way.states[0], way))
    return _results(step, way, rows, rows, weight_grad(step, rows, before) if step.needs(2) else None, dh)


def _gru(step: Backward) -> Grads:
    return by_direction(step, _gru_direction, 1, {"clip": None, "layout": 0, "activations": None})


@dataclass(frozen=True, slots=True)
class _Gru:
    """What all steps of a direction know before the walk back; rows are steps times batch.

    Attributes:
        before, reset: States that the steps find, and the gate on them.
        to_new, to_update: What dh is multiplied by for da and dz.
        keep: Update gate.
        to_reset: What da (or ds) is multiplied by for dr.
    """

    before: Tensor
    reset: Tensor
    to_new: Tensor
    to_update: Tensor
    keep: Tensor
    to_reset: Tensor


def _gru_direction(step: Backward, way: Way) -> list[Tensor | None]:
    size = way.r.static_shape[1]
    linear = bool(step.node.attr("linear_before_reset", 0))
    r_gates, r_new = step.ops("Split", 2, way.r, [2 * size, size], axis=0)
    seen = _gru_gates(step, way, r_gates, r_new, linear)
    hidden, (dh,) = given_grads(step, way, 1)
    shape = hidden_of(step, way).static_shape
    to_new, to_update, keep, to_reset, reset = (
        steps_of(step, step.reshaped(one, shape))
        for one in (seen.to_new, seen.to_update, seen.keep, seen.to_reset, seen.reset)
    )
    inside, beside = dict[int, Tensor](), dict[int, Tensor]()  # gates as x sees them, and as the state does
    for at in reversed(way.order):
        dh = arriving(step, hidden, dh, at, way.states[0])
        da, dz, kept = (step.op("Mul", dh, one[at]) for one in (to_new, to_update, keep))
        if linear:
            dr, dq = step.op("Mul", da, to_reset[at]), step.op("Mul", da, reset[at])
            beside[at] = step.op("Concat", dz, dr, dq, axis=2)
            dh = step.op("Add", kept, step.op("MatMul", beside[at], way.r))
        else:
            ds = step.op("MatMul", da, r_new)
            dr = step.op("Mul", ds, to_reset[at])
            gates = step.op("MatMul", step.op("Concat", dz, dr, axis=2), r_gates)
            dh = step.op("Add", step.op("Add", kept, step.op("Mul", ds, reset[at])), gates)
        inside[at] = step.op("Concat", dz, dr, da, axis=2)
    rows = _flat(step, stacked(step, [inside[at] for at in range(len(keep))]))
    if linear:
        rest = _flat(step, stacked(step, [beside[at] for at in range(len(keep))]))
        weights = weight_grad(step, rest, seen.before) if step.needs(2) else None
        return _results(step, way, rows, rest, weights, dh)
    weights = None
    if step.needs(2):
        dgates, dnew = step.ops("Split", 2, rows, [2 * size, size], axis=1)
        parts = (
            weight_grad(step, dgates, seen.before),
            weight_grad(step, dnew, step.op("Mul", seen.reset, seen.before)),
        )
        weights = step.op("Concat", *parts, axis=1)
    return _results(step, way, rows, rows, weights, dh)


def _gru_gates(step: Backward, way: Way, r_gates: Tensor, r_new: Tensor, linear: bool) -> _Gru:
    size = way.r.static_shape[1]
    before = _flat(step, shifted(step, hidden_of(step, way), way.states[0], way))
    given = step.op("Gemm", _flat(step, step.node.required(0)), way.w, transB=1)
    biases: list[Tensor] = []
    if way.bias is not None:
        own, *biases = step.ops("Split", 3, way.bias, [3 * size, 2 * size, size], axis=1)
        given = step.op("Add", given, own)
    from_x, xn = step.ops("Split", 2, given, [2 * size, size], axis=1)
    gates = step.op("Add", from_x, step.op("Gemm", before, r_gates, *biases[:1], transB=1))
    z, r = step.ops("Split", 2, step.op("Sigmoid", gates), [size] * 2, axis=1)
    read = before if linear else step.op("Mul", r, before)
    q = step.op("Gemm", read, r_new, *biases[1:], transB=1)
    n = step.op("Tanh", step.op("Add", xn, step.op("Mul", r, q) if linear else q))
    rest = step.op("Sub", step.constant(1, z), z)
    return _Gru(
        before,
        r,
        step.op("Mul", rest, fall(step, n)),
        step.op("Mul", step.op("Sub", before, n), bend(step, z)),
        z,
        step.op("Mul", q if linear else before, bend(step, r)),
    )


def _flat(step: Backward, tensor: Tensor) -> Tensor:
    """Steps times batch as rows."""
    length, batch, width = tensor.static_shape
    return step.reshaped(tensor, (length * batch, width))


def _results(
    step: Backward, way: Way, rows: Tensor, rest: Tensor, weights: Tensor | None, dh: Tensor | None
) -> list[Tensor | None]:
    """Gradients of x, W, R, b and h0, from those of the gates as x sees them and as the state does."""
    x = step.node.required(0)
    dx = step.reshaped(step.op("MatMul", rows, way.w), x.static_shape) if step.needs(0) else None
    dw = weight_grad(step, rows, _flat(step, x)) if step.needs(1) else None
    db = None
    if step.needs(3):
        sums = [step.op("ReduceSum", one, [0], keepdims=1) for one in (rows, rest)]
        db = step.op("Concat", *sums, axis=1)
    return [dx, dw, weights, db, dh if step.needs(5) else None]


RULES: dict[tuple[str, str], Rule] = {("", "GRU"): _gru, ("", "RNN"): _rnn}
