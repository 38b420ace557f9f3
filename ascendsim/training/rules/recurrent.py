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
from dataclasses import dataclass

from ascendsim.graph.ir import Tensor
from ascendsim.training.backward import Backward, Rule

Grads = Sequence["Tensor | None"]
_REFUSED = {"clip": None, "input_forget": 0, "layout": 0, "activations": None}


@dataclass(frozen=True, slots=True)
class _Way:
    """One direction: its slices of all inputs, and the order of its steps."""

    number: int
    order: Sequence[int]
    w: Tensor
    r: Tensor
    bias: Tensor | None
    h0: Tensor
    c0: Tensor


def _lstm(step: Backward) -> Grads:
    node = step.node
    for name, usual in _REFUSED.items():
        if node.attr(name, usual) != usual:
            step.refuse(f"is known without {name} only", node.attr(name))
    if node.input(4) is not None or node.input(7) is not None:
        step.refuse("is known without sequence lengths and peepholes only")
    ways = [_way(step, number) for number in range(node.required(1).static_shape[0])]
    parts = [_direction(step, way) for way in ways]
    dx = [part[0] for part in parts if part[0] is not None]
    first = None if not dx else dx[0] if len(dx) == 1 else step.op("Add", *dx)
    joined: list[Tensor | None] = [first]
    for port in range(1, 6):
        pieces = [piece for part in parts if (piece := part[port]) is not None]
        joined.append(
            None if not pieces else pieces[0] if len(pieces) == 1 else step.op("Concat", *pieces, axis=0)
        )
    _, w, r, b, h0, c0 = joined
    return first, w, r, b, None, h0, c0


def _way(step: Backward, number: int) -> _Way:
    node = step.node
    length, batch, _ = node.required(0).static_shape
    r = node.required(2)
    backwards = node.attr("direction", "forward") == "reverse" or number == 1
    order = range(length - 1, -1, -1) if backwards else range(length)

    def own(port: int) -> Tensor | None:
        tensor = node.input(port)
        return None if tensor is None else _cut(step, tensor, 0, number)

    zeros = [own(port) or step.full((1, batch, r.static_shape[2]), 0.0, r) for port in (5, 6)]
    w, recurrent = own(1), own(2)
    assert w is not None
    assert recurrent is not None
    plain = [step.reshaped(tensor, tensor.static_shape[1:]) for tensor in (w, recurrent)]
    return _Way(number, order, plain[0], plain[1], own(3), zeros[0], zeros[1])


def _cut(step: Backward, tensor: Tensor, axis: int, place: int) -> Tensor:
    """One slice, with its axis; the tensor itself if it has no other."""
    if tensor.static_shape[axis] == 1:
        return tensor
    return step.op("Slice", tensor, [place], [place + 1], [axis])


def _steps(step: Backward, tensor: Tensor) -> list[Tensor]:
    length = tensor.static_shape[0]
    return [tensor] if length == 1 else step.ops("Split", length, tensor, [1] * length, axis=0)


def _stacked(step: Backward, parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else step.op("Concat", *parts, axis=0)


def _shifted(step: Backward, whole: Tensor, first: Tensor, way: _Way) -> Tensor:
    """What each step finds: the result of the step before it."""
    length = whole.static_shape[0]
    if length == 1:
        return first
    if way.order[0] == 0:
        return step.op("Concat", first, step.op("Slice", whole, [0], [length - 1], [0]), axis=0)
    return step.op("Concat", step.op("Slice", whole, [1], [length], [0]), first, axis=0)


def _direction(step: Backward, way: _Way) -> list[Tensor | None]:
    """Gradients of x, W, R, b, h0 and c0; those of the weights with their axis of directions."""
    x = step.node.required(0)
    length, batch, width = x.static_shape
    size = way.r.static_shape[1]
    flat, rows = step.reshaped(x, (length * batch, width)), (length * batch, size)
    hidden = step.reshaped(_cut(step, step.node.outputs[0], 1, way.number), (length, batch, size))
    before = step.reshaped(_shifted(step, hidden, way.h0, way), rows)
    i, o, f, g = _gates(step, way, flat, before, (length, batch, size))
    cells = _cells(step, way, f, step.op("Mul", i, g))
    shaped = step.op("Tanh", cells)
    earlier = _shifted(step, cells, way.c0, way)
    slopes = (
        step.op("Mul", g, _bend(step, i)),
        step.op("Mul", shaped, _bend(step, o)),
        step.op("Mul", earlier, _bend(step, f)),
        step.op("Mul", i, _fall(step, g)),
    )
    made, dh, dc = _through_time(step, way, slopes, step.op("Mul", o, _fall(step, shaped)), f)
    dz = step.reshaped(made, (length * batch, 4 * size))
    result: list[Tensor | None] = [None] * 6
    if step.needs(0):
        result[0] = step.reshaped(step.op("MatMul", dz, way.w), x.static_shape)
    for port, other in ((1, flat), (2, before)):
        if step.needs(port):
            product = step.op("Gemm", dz, other, transA=1)
            result[port] = step.reshaped(product, (1, *product.static_shape))
    if step.needs(3):
        total = step.op("ReduceSum", dz, [0], keepdims=1)
        result[3] = step.op("Concat", total, total, axis=1)
    result[4] = dh if step.needs(5) else None
    result[5] = dc if step.needs(6) else None
    return result


def _gates(step: Backward, way: _Way, flat: Tensor, before: Tensor, shape: Sequence[int]) -> list[Tensor]:
    size = shape[-1]
    z = step.op("Add", step.op("Gemm", flat, way.w, transB=1), step.op("Gemm", before, way.r, transB=1))
    if way.bias is not None:
        halves = step.ops("Split", 2, way.bias, [4 * size] * 2, axis=1)
        z = step.op("Add", z, step.op("Add", *halves))
    parts = step.ops("Split", 4, z, [size] * 4, axis=1)
    kinds = ("Sigmoid", "Sigmoid", "Sigmoid", "Tanh")
    return [step.reshaped(step.op(kind, part), shape) for kind, part in zip(kinds, parts, strict=True)]


def _bend(step: Backward, gate: Tensor) -> Tensor:
    """S (1 - s)."""
    return step.op("Mul", gate, step.op("Sub", step.constant(1, gate), gate))


def _fall(step: Backward, gate: Tensor) -> Tensor:
    """1 - t^2."""
    return step.op("Sub", step.constant(1, gate), step.op("Mul", gate, gate))


def _cells(step: Backward, way: _Way, f: Tensor, added: Tensor) -> Tensor:
    keeps, adds, cell = _steps(step, f), _steps(step, added), way.c0
    made: dict[int, Tensor] = {}
    for place in way.order:
        cell = made[place] = step.op("Add", step.op("Mul", keeps[place], cell), adds[place])
    return _stacked(step, [made[place] for place in range(len(keeps))])


def _through_time(
    step: Backward, way: _Way, slopes: Sequence[Tensor], to_cell: Tensor, f: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Dz of all steps, and the gradients of the first states."""
    length, batch, size = f.static_shape
    given = step.grad_of(0)
    if given is None:
        hidden = None
    else:
        hidden = _steps(step, step.reshaped(_cut(step, given, 1, way.number), (length, batch, size)))
    last = [
        None if (end := step.grad_of(port)) is None else _cut(step, end, 0, way.number) for port in (1, 2)
    ]
    by_gate = [_steps(step, slope) for slope in slopes]
    cells, keeps = _steps(step, to_cell), _steps(step, f)
    dh, dc = last
    made: dict[int, Tensor] = {}
    for place in reversed(way.order):
        if hidden is not None:
            dh = hidden[place] if dh is None else step.op("Add", hidden[place], dh)
        if dh is None:
            dh = step.full((1, batch, size), 0.0, f)
        through = step.op("Mul", dh, cells[place])
        dc = through if dc is None else step.op("Add", through, dc)
        sources = (dc, dh, dc, dc)
        parts = [step.op("Mul", source, gate[place]) for source, gate in zip(sources, by_gate, strict=True)]
        made[place] = step.op("Concat", *parts, axis=2)
        dh = step.op("MatMul", made[place], way.r)
        dc = step.op("Mul", dc, keeps[place])
    assert dh is not None
    assert dc is not None
    return _stacked(step, [made[place] for place in range(length)]), dh, dc


RULES: dict[tuple[str, str], Rule] = {("", "LSTM"): _lstm}
