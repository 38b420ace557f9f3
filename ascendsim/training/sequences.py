"""What gradients of recurrent layers share: directions, steps of a sequence, and the frame around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ascendsim.graph.ir import Tensor
from ascendsim.training.backward import Backward

Grads = Sequence["Tensor | None"]


@dataclass(frozen=True, slots=True)
class Way:
    """One direction: its slices of all inputs, and the order of its steps.

    Attributes:
        number: Of the direction.
        order: Of the steps.
        w, r: Weights of what comes in and of the state, gates one below the other.
        bias: Both biases, one behind the other.
        states: The first ones.
    """

    number: int
    order: Sequence[int]
    w: Tensor
    r: Tensor
    bias: Tensor | None
    states: tuple[Tensor, ...]


Direction = Callable[[Backward, Way], list["Tensor | None"]]


def by_direction(step: Backward, direction: Direction, states: int, refused: Mapping[str, Any]) -> Grads:
    """Gradients of all inputs.

    Args:
        step: A recurrent layer's.
        direction: Gives those of x, W, R, b and of the first states, the weights' with their axis of
            directions.
        states: How many there are.
        refused: Attributes that must have these values.
    """
    node = step.node
    for name, usual in refused.items():
        if node.attr(name, usual) != usual:
            step.refuse(f"is known without {name} only", node.attr(name))
    if node.input(4) is not None or node.input(7) is not None:
        step.refuse("is known without sequence lengths and peepholes only")
    ways = [_way(step, number, states) for number in range(node.required(1).static_shape[0])]
    first, *others = zip(*[direction(step, way) for way in ways], strict=True)
    dx = [part for part in first if part is not None]
    found = [None if not dx else dx[0] if len(dx) == 1 else step.op("Add", *dx)]
    for parts in others:
        known = [part for part in parts if part is not None]
        found.append(None if not known else stacked(step, known))
    return [*found[:4], None, *found[4:]]


def _way(step: Backward, number: int, states: int) -> Way:
    node = step.node
    length, batch, _ = node.required(0).static_shape
    r = node.required(2)
    backwards = node.attr("direction", "forward") == "reverse" or number == 1
    order = range(length - 1, -1, -1) if backwards else range(length)

    def own(port: int) -> Tensor | None:
        tensor = node.input(port)
        return None if tensor is None else cut(step, tensor, 0, number)

    first = [own(5 + port) or step.full((1, batch, r.static_shape[2]), 0.0, r) for port in range(states)]
    plain = [step.reshaped(tensor, tensor.static_shape[1:]) for tensor in (own(1), own(2)) if tensor]
    return Way(number, order, plain[0], plain[1], own(3), tuple(first))


def cut(step: Backward, tensor: Tensor, axis: int, place: int) -> Tensor:
    """One slice, with its axis; the tensor itself if it has no other."""
    if tensor.static_shape[axis] == 1:
        return tensor
    return step.op("Slice", tensor, [place], [place + 1], [axis])


def steps_of(step: Backward, tensor: Tensor) -> list[Tensor]:
    """A sequence as its steps, each with the axis of steps."""
    length = tensor.static_shape[0]
    return [tensor] if length == 1 else step.ops("Split", length, tensor, [1] * length, axis=0)


def stacked(step: Backward, parts: Sequence[Tensor]) -> Tensor:
    """Steps as a sequence."""
    return parts[0] if len(parts) == 1 else step.op("Concat", *parts, axis=0)


def shifted(step: Backward, whole: Tensor, first: Tensor, way: Way) -> Tensor:
    """What each step finds: the result of the step before it."""
    length = whole.static_shape[0]
    if length == 1:
        return first
    if way.order[0] == 0:
        return step.op("Concat", first, step.op("Slice", whole, [0], [length - 1], [0]), axis=0)
    return step.op("Concat", step.op("Slice", whole, [1], [length], [0]), first, axis=0)


def hidden_of(step: Backward, way: Way) -> Tensor:
    """The states that a direction has gone through, (steps, batch, size)."""
    length, batch, _ = step.node.required(0).static_shape
    cut_out = cut(step, step.node.outputs[0], 1, way.number)
    return step.reshaped(cut_out, (length, batch, way.r.static_shape[1]))


def given_grads(step: Backward, way: Way, last: int) -> tuple[list[Tensor] | None, list[Tensor | None]]:
    """Gradients that arrive at a direction: by step, and those of its `last` states."""
    length, batch, _ = step.node.required(0).static_shape
    shape = (length, batch, way.r.static_shape[1])
    given = step.grad_of(0)
    hidden = None if given is None else steps_of(step, step.reshaped(cut(step, given, 1, way.number), shape))
    ends = [step.grad_of(port) for port in range(1, 1 + last)]
    return hidden, [None if end is None else cut(step, end, 0, way.number) for end in ends]


def arriving(
    step: Backward, hidden: list[Tensor] | None, dh: Tensor | None, place: int, like: Tensor
) -> Tensor:
    """Gradient of a step's state: what its readers give and what comes back through time."""
    if hidden is not None:
        return hidden[place] if dh is None else step.op("Add", hidden[place], dh)
    return step.full(like.static_shape, 0.0, like) if dh is None else dh


def bend(step: Backward, gate: Tensor) -> Tensor:
    """S (1 - s)."""
    return step.op("Mul", gate, step.op("Sub", step.constant(1, gate), gate))


def fall(step: Backward, gate: Tensor) -> Tensor:
    """1 - t^2."""
    return step.op("Sub", step.constant(1, gate), step.op("Mul", gate, gate))


def weight_grad(step: Backward, dz: Tensor, other: Tensor) -> Tensor:
    """Of a product's weights, with the axis of directions."""
    product = step.op("Gemm", dz, other, transA=1)
    return step.reshaped(product, (1, *product.static_shape))
