"""What is known of a captured graph besides the graph: for reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from ascendsim.frontends.torch.source import line_of
from ascendsim.graph.ir import Graph, Node

_OPTIMIZERS = "/torch/optim/"
_JUMP = "generic_jump"  # what Dynamo calls an `if` or `while` of a tensor


@dataclass(frozen=True, slots=True)
class CallNote:
    """One captured call.

    Attributes:
        operator: As PyTorch prints it, "aten.add.Tensor".
        inputs, outputs: Types and shapes, "float32[2, 3]".
        made: Operator types that it became; empty for views, None if it runs in PyTorch.
        nodes: Their names.
        line: The user's line.
    """

    operator: str
    inputs: str
    outputs: str
    made: tuple[str, ...] | None
    nodes: tuple[str, ...] = ()
    line: str = ""


@dataclass(frozen=True, slots=True)
class Break:
    """A graph break.

    Attributes:
        reason: Why Dynamo could not go on.
        line: The user's line, 'net.py:12, print(x)'.
    """

    reason: str
    line: str


@dataclass(frozen=True, slots=True)
class Captured:
    """A graph that is to be compiled.

    Attributes:
        kind: "forward", "backward", "inference" or "optimizer".
        graph: Static.
        calls: What it was made of.
    """

    kind: str
    graph: Graph
    calls: Sequence[CallNote] = ()


def call_note(node: Any, made: Iterable[Node] | None) -> CallNote:
    """The note of a captured call and of what it became."""
    inputs = [getattr(one, "meta", {}).get("val") for one in node.all_input_nodes]
    return CallNote(
        str(node.target),
        ", ".join(_text(value) for value in inputs),
        _text(node.meta.get("val")),
        None if made is None else tuple([one.op_type for one in made]),
        () if made is None else tuple([one.name for one in made]),
        line_of(node),
    )


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(_text(one) for one in value)
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{str(value.dtype).removeprefix('torch.')}[{', '.join(map(str, value.shape))}]"
    return str(value)


def break_behind(module: Any) -> Break | None:
    """The graph break that ended a region of Dynamo's; None where the function simply returned."""
    reason = getattr(module, "compile_subgraph_reason", None)
    if reason is None or not reason.graph_break:
        return None
    text = str(reason.reason).strip().partition("\n")[0]
    if text.startswith(_JUMP):
        text = "a branch that depends on the values of a tensor"
    if not reason.user_stack:
        return Break(text, "an unknown line")
    frame = reason.user_stack[-1]
    line = f"{PurePath(frame.filename).name}:{frame.lineno}"
    return Break(text, f"{line}, {frame.line.strip()}" if frame.line else line)


def is_optimizer(module: Any) -> bool:
    """Whether a region of Dynamo's is a step of one of PyTorch's optimizers."""
    calls = (node for node in module.graph.nodes if node.op in ("call_function", "call_method"))
    traces = [trace for node in calls if (trace := node.meta.get("stack_trace"))]
    return bool(traces) and all(_OPTIMIZERS in trace for trace in traces)
