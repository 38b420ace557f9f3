"""LSTM, GRU and RNN: all directions and layouts, sequence lengths, activations, peepholes, clipping.

Values: the input part of all steps is one product; each step adds the recurrent part. On the device the state
that feeds the Cube is float16 (rounded every step), products accumulate in float32, gates and the LSTM's cell
stay in float32 until the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ascendsim.graph.ir import Array, Dim, Node, Shape
from ascendsim.ops.linear.activations_recurrent import Activation, activation_steps, activations
from ascendsim.ops.shared.common import (
    as_float32,
    computing_type,
    finish,
    on_ai_cpu,
    own_type,
    rounded_within,
    runs_on_ai_core,
)
from ascendsim.ops.shared.cube import cube_type
from ascendsim.ops.shared.dims import need_shape
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.axes import WHOLE, AxisMap, Labels, by_labels
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.work import (
    WORKSPACE,
    CubeWork,
    LowerContext,
    NoTask,
    Ref,
    SequenceWork,
    Step,
    Stream,
    VectorWork,
    Work,
)

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
DEFAULT_ACTIVATIONS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}


def _directions(node: Node) -> tuple[bool, ...]:
    """One flag a direction: whether it runs backwards."""
    direction = node.attr("direction", "forward")
    table = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
    if direction not in table:
        raise InferContext(node).fail("needs direction forward, reverse or bidirectional", direction)
    return table[direction]


def _infer(context: InferContext) -> None:
    node = context.node
    gates, count = GATES[node.op_type], len(_directions(node))
    x, w, r = (context.shape(port) for port in range(3))
    for port, shape in enumerate((x, w, r)):
        if shape is not None and len(shape) != 3:
            raise context.fail(f"needs input {port} of rank 3", f"shape {shape}")
    hidden: Dim = node.attr("hidden_size")
    if r is not None and isinstance(r[2], int):
        if hidden is not None and hidden != r[2]:
            raise context.fail(f"needs hidden_size {r[2]} as its recurrent weight has it", hidden)
        hidden = r[2]
    if isinstance(hidden, int):
        for port, shape in ((1, w), (2, r)):
            if shape is not None and isinstance(shape[1], int) and shape[1] != gates * hidden:
                raise context.fail(f"needs {gates} x hidden_size {hidden} rows in input {port}", shape[1])
    if w is not None and isinstance(w[0], int) and w[0] != count:
        raise context.fail(f"needs weights for {count} direction(s)", w[0])
    if x is not None and w is not None and isinstance(x[2], int) and isinstance(w[2], int) and x[2] != w[2]:
        raise context.fail(f"needs inputs of {w[2]} features", x[2])
    batch_first = bool(node.attr("layout", 0))
    steps, batch = (None, None) if x is None else (x[1], x[0]) if batch_first else (x[0], x[1])
    dtype = context.dtype(0)
    context.set(0, dtype, (batch, steps, count, hidden) if batch_first else (steps, count, batch, hidden))
    state: Shape = (batch, count, hidden) if batch_first else (count, batch, hidden)
    for index in (1, 2):
        context.set(index, dtype, state)
    if isinstance(hidden, int):
        need_shape(context, 3, (count, 2 * gates * hidden))
        need_shape(context, 7, (count, 3 * hidden))
    need_shape(context, 4, (batch,))
    for port in (5, 6):
        need_shape(context, port, state)


@dataclass(frozen=True, slots=True)
class _Cell:
    """One direction's cell.

    Attributes:
        kind: Operator type.
        recurrent: R, (gates * hidden, hidden).
        bias: Bias of the recurrent part that must not be added to the input part (GRU with
            linear_before_reset), else zeros.
        peepholes: (3, hidden) for i, o, f, or None.
        functions: Activations in the operator's order.
        clip: Bound on the activations' inputs, or None.
        rounding: Brings the state to the precision in which the Cube reads it.
    """

    kind: str
    recurrent: Array
    bias: Array
    peepholes: Array | None
    functions: tuple[Activation, ...]
    clip: float | None
    rounding: Callable[[Array], Array]
    couples_forget: bool
    resets_after: bool

    def step(self, projected: Array, hidden: Array, memory: Array) -> tuple[Array, Array]:
        """New (hidden, memory) of one step; `projected` (batch, gates * hidden) is the input part with all
        biases.
        """
        if self.kind == "LSTM":
            return self._lstm(projected + hidden @ self.recurrent.T, memory)
        if self.kind == "GRU":
            return self._gru(projected, hidden), memory
        return self.rounding(self._apply(0, projected + hidden @ self.recurrent.T)), memory

    def _apply(self, index: int, values: Array) -> Array:
        bounded = values if self.clip is None else np.clip(values, -self.clip, self.clip)
        return self.functions[index](bounded)

    def _lstm(self, gates: Array, memory: Array) -> tuple[Array, Array]:
        i, o, f, c = np.split(gates, 4, axis=1)
        peep = self.peepholes
        if peep is not None:
            i, f = i + peep[0] * memory, f + peep[2] * memory
        entering = self._apply(0, i)
        kept = 1 - entering if self.couples_forget else self._apply(0, f)
        memory = kept * memory + entering * self._apply(1, c)
        if peep is not None:
            o = o + peep[1] * memory
        return self.rounding(self._apply(0, o) * self.functions[2](memory)), memory

    def _gru(self, projected: Array, hidden: Array) -> Array:
        size = hidden.shape[1]
        gates = projected[:, : 2 * size] + hidden @ self.recurrent[: 2 * size].T
        update, reset = self._apply(0, gates[:, :size]), self._apply(0, gates[:, size:])
        candidate = self.recurrent[2 * size :].T
        if self.resets_after:
            inner = reset * (hidden @ candidate + self.bias)
        else:
            inner = self.rounding(reset * hidden) @ candidate
        proposal = self._apply(1, projected[:, 2 * size :] + inner)
        return self.rounding((1 - update) * proposal + update * hidden)


def _run(
    cell: _Cell, projected: Array, hidden: Array, memory: Array, lengths: Array, backwards: bool
) -> tuple[Array, Array, Array]:
    """All steps of one direction: outputs (steps, batch, hidden), last hidden, last memory; zeros behind a
    sequence's end.
    """
    steps, batch = projected.shape[:2]
    result = np.zeros((steps, batch, hidden.shape[1]), hidden.dtype)
    ragged = bool((lengths != steps).any())
    for number in range(steps):
        at = steps - 1 - number if backwards else number
        new_hidden, new_memory = cell.step(projected[at], hidden, memory)
        if ragged:
            live = (at < lengths)[:, None]
            result[at] = np.where(live, new_hidden, 0)
            hidden, memory = np.where(live, new_hidden, hidden), np.where(live, new_memory, memory)
        else:
            result[at], hidden, memory = new_hidden, new_hidden, new_memory
    return result, hidden, memory


def _compute(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
    ports = [*inputs, *(None for _ in range(8 - len(inputs)))]
    kind, batch_first = node.op_type, bool(node.attr("layout", 0))
    x, w, r, b = (None if array is None else as_float32(array) for array in ports[:4])
    assert x is not None
    assert w is not None
    assert r is not None
    if batch_first:
        x = x.swapaxes(0, 1)
    steps, batch, features = x.shape
    hidden_size = r.shape[2]
    flags = _directions(node)
    lengths = np.full(batch, steps) if ports[4] is None else np.asarray(ports[4]).astype(np.int64)
    if lengths.shape != (batch,) or (lengths < 0).any() or (lengths > steps).any():
        raise InferContext(node).fail(f"needs {batch} sequence lengths from 0 to {steps}", lengths.tolist())

    def initial(array: Any) -> Array:
        if array is None:
            return np.zeros((len(flags), batch, hidden_size), x.dtype)
        values: Array = as_float32(array)
        return values.swapaxes(0, 1) if batch_first else values

    start_hidden, start_memory = initial(ports[5]), initial(ports[6] if kind == "LSTM" else None)
    peepholes = None if kind != "LSTM" or ports[7] is None else as_float32(ports[7])
    functions = activations(node, DEFAULT_ACTIVATIONS[kind], len(flags))
    clip = node.attr("clip")
    resets_after = bool(node.attr("linear_before_reset", 0)) and kind == "GRU"
    narrow = own_type(inputs[0], wanted) if inputs[0].dtype.itemsize == 2 else x.dtype
    rows = w.shape[1]
    finished = []
    for index, backwards in enumerate(flags):
        both = np.zeros(2 * rows, x.dtype) if b is None else b[index]
        bias, inner = both[:rows] + both[rows:], np.zeros(hidden_size, x.dtype)
        if resets_after:  # the recurrent bias of the candidate is reset together with the product
            bias = both[:rows] + np.concatenate([both[rows : rows + 2 * hidden_size], inner])
            inner = both[rows + 2 * hidden_size :]
        cell = _Cell(
            kind,
            r[index],
            inner,
            None if peepholes is None else peepholes[index].reshape(3, hidden_size),
            functions[index],
            None if clip is None else float(clip),
            lambda values: as_float32(rounded_within(values, narrow)),
            bool(node.attr("input_forget", 0)),
            resets_after,
        )
        projected = (x.reshape(steps * batch, features) @ w[index].T + bias).reshape(steps, batch, rows)
        finished.append(_run(cell, projected, start_hidden[index], start_memory[index], lengths, backwards))
    sequence = np.stack([item[0] for item in finished], axis=1)
    last = [np.stack([item[part] for item in finished]) for part in (1, 2)]
    if batch_first:
        sequence, last = sequence.transpose(2, 0, 1, 3), [array.swapaxes(0, 1) for array in last]
    return [
        finish(np.ascontiguousarray(array), dtype)
        for array, dtype in zip((sequence, *last), wanted, strict=False)
    ]


def _gate_steps(node: Node, context: LowerContext) -> tuple[Step, ...]:
    """Vector steps of one time step on (batch, hidden): both products added, gates, new state."""
    inside = computing_type(node.required(0).element_type, context)
    kind = node.op_type
    gates = GATES[kind]
    names = activations(node, DEFAULT_ACTIVATIONS[kind], len(_directions(node)))[0]
    steps = [Step("vadd", inside, count=2 * gates)]  # input part + recurrent part + bias
    if node.attr("clip") is not None:
        steps += [Step("vmins", inside, count=gates), Step("vmaxs", inside, count=gates)]
    if kind == "LSTM":
        couples = bool(node.attr("input_forget", 0))
        steps += activation_steps(names[0], inside) * (2 if couples else 3)
        steps += activation_steps(names[1], inside) + activation_steps(names[2], inside)
        steps += [Step("vmul", inside, count=3), Step("vadd", inside)]
        if node.input(7) is not None:
            steps += [Step("vmul", inside, count=3), Step("vadd", inside, count=3)]
    elif kind == "GRU":
        steps += activation_steps(names[0], inside) * 2 + activation_steps(names[1], inside)
        steps += [Step("vmul", inside, count=3), Step("vsub", inside), Step("vadd", inside, count=2)]
    else:
        steps += activation_steps(names[0], inside)
    return tuple(steps)


def _slice(ref: Ref, shape: tuple[int, ...], parts: int) -> Ref:
    """One of `parts` equal pieces of a tensor."""
    return Ref(ref.region, shape, ref.dtype, ref.format, max(1, ref.bytes // max(1, parts)), ref.constant)


def _lower(node: Node, context: LowerContext) -> Work:
    """Per step and direction: x_t W and h R on the Cube, then the gates on the Vector unit, as DynamicRNN and
    DynamicGRUV2 do.

    The pre-activations pass through workspace; cell state stays beside them.
    """
    x, weight, recurrent = (Ref.of(node.required(port)) for port in range(3))
    output = Ref.of(node.output)
    shape = node.required(0).static_shape
    steps, batch = (shape[1], shape[0]) if node.attr("layout", 0) else (shape[0], shape[1])
    count, rows, features = node.required(1).static_shape
    hidden = node.required(2).static_shape[2]
    if node.output.elements == 0:
        return NoTask()
    if not runs_on_ai_core(node):
        return on_ai_cpu(node, float(rows * (features + hidden) / max(1, hidden)))
    dtype = x.dtype
    scratch_bytes = batch * rows * dtype.itemsize
    from_input = Ref(WORKSPACE, (batch, rows), dtype, x.format, scratch_bytes)
    state = _slice(output, (batch, hidden), steps * count)

    def product(a: Ref, b: Ref, k: int) -> CubeWork:
        return CubeWork(
            m=batch, k=k, n=rows, a=a, b=b, out=from_input, transpose_b=True, dtype=cube_type(dtype)
        )

    memory = (Stream(Ref(WORKSPACE, (batch, hidden), dtype, x.format, batch * hidden * dtype.itemsize)),)
    gates = VectorWork(
        batch,
        hidden,
        _gate_steps(node, context),
        (
            *(
                Stream(Ref(WORKSPACE, (batch, hidden), dtype, x.format, batch * hidden * dtype.itemsize))
                for _ in range(2 * GATES[node.op_type])
            ),
            *memory,
        ),
        (Stream(state), *(memory if node.op_type == "LSTM" else ())),
    )
    return SequenceWork(
        (
            product(_slice(x, (batch, features), steps), _slice(weight, (rows, features), count), features),
            product(state, _slice(recurrent, (rows, hidden), count), hidden),
            gates,
        ),
        repeat=steps * count,
        workspace_bytes=2 * scratch_bytes + batch * hidden * dtype.itemsize,
    )


def _links(node: Node) -> AxisMap:
    """Sequences of a batch are independent; every step may need all steps, every hidden value all
    features.
    """
    first = bool(node.attr("layout", 0))
    states: Labels = ("n", "way", "h") if first else ("way", "n", "h")
    inputs: dict[int, Labels] = {
        0: ("n", "t", "x") if first else ("t", "n", "x"),
        1: ("way", "w", "x"),
        2: ("way", "w", "r"),
        3: ("way", "w"),
    }
    inputs |= {
        4: ("n",),
        5: ("n", "way", "r") if first else ("way", "n", "r"),
        6: ("n", "way", "r") if first else ("way", "n", "r"),
    }
    inputs |= dict.fromkeys((3, 7), ("way", "w"))
    return by_labels(
        node,
        inputs,
        {0: ("n", "t", "way", "h") if first else ("t", "way", "n", "h"), 1: states, 2: states},
        {"t": WHOLE},
    )


OPERATORS = tuple(
    OpDef(
        name,
        _infer,
        _compute,
        _lower,
        Layout.ND,
        cann,
        most_inputs=most,
        facts=Facts(_links, Kind.MATMUL, Precision.WHITE, operands=(1, 2)),
    )
    for name, cann, most in (("LSTM", "DynamicRNN", 8), ("GRU", "DynamicGRUV2", 6), ("RNN", "CommonRNN", 6))
)
