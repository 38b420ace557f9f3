"""The static pieces of a model with open shapes or control flow: compiled when their shapes come up, and
kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.isa.program import Program
from ascendsim.opset import OpSet
from ascendsim.runtime.control_flow import Value
from ascendsim.runtime.device_memory import DeviceMemory, Values
from ascendsim.runtime.growth import growing_nodes
from ascendsim.runtime.specialise import Lookup, Part, Plan, signature


class Compiled(Protocol):
    """A piece that was compiled."""

    @property
    def graph(self) -> Graph:
        """The device graph."""
        ...

    @property
    def program(self) -> Program:
        """Its program."""
        ...

    @property
    def float16(self) -> np.dtype[Any]:
        """The float16 in which it computes."""
        ...


@dataclass(eq=False, slots=True)
class Piece:
    """A static part of the graph, compiled.

    Attributes:
        compiled: Device graph and program.
        prefix: Of the names of its tasks: "loop/body/".
        memory: Device memory by kind of values, kept from one evaluation to the next.
    """

    compiled: Compiled
    prefix: str
    memory: dict[Values, DeviceMemory] = field(default_factory=dict)


@dataclass(slots=True)
class Pieces:
    """The plans and pieces of a model; they outlive its runs.

    Attributes:
        opset: The operators.
        compile_piece: Compiles a static graph without control flow; float32 outputs at these positions may
            stay float16 on the device, since they go to another piece.
        growing: Nodes that grow in the body of a loop, by body and what it starts with.
        casts: Plans that give an output of the model its type.
    """

    opset: OpSet
    compile_piece: Callable[[Graph, Sequence[int]], Compiled]
    parts: dict[tuple[str, frozenset[Node]], Part] = field(default_factory=dict)
    growing: dict[Hashable, frozenset[Node]] = field(default_factory=dict)
    compiled: dict[Plan, Piece] = field(default_factory=dict)
    casts: dict[tuple[str, tuple[int, ...]], Plan] = field(default_factory=dict)

    def part(self, graph: Graph, prefix: str, growing: frozenset[Node] = frozenset()) -> Part:
        """All of a graph, to be run under a prefix."""
        part = self.parts.get((prefix, growing))
        if part is None:
            part = self.parts[(prefix, growing)] = Part.whole(graph, prefix, growing)
        return part

    def growth(self, loop: Node, body: Graph, inputs: Sequence[Value], value_of: Lookup) -> frozenset[Node]:
        """What grows in the body of a loop that starts with these inputs."""
        if all(tensor.is_static for node in body.nodes for tensor in node.outputs):
            return frozenset()
        values = {**{t: value_of(t) for t in body.captured()}, **dict(zip(body.inputs, inputs, strict=True))}
        key = (body, *(signature(value, value.on_host) for value in values.values()))
        if key not in self.growing:
            self.growing[key] = growing_nodes(loop, body, values, self.opset)
        return self.growing[key]

    def piece(self, plan: Plan, prefix: str, ends: Collection[Tensor]) -> Piece:
        """The compiled piece of a plan; `ends` are outputs of the model."""
        piece = self.compiled.get(plan)
        if piece is None:
            assert plan.graph is not None
            inner = [number for number, tensor in enumerate(plan.outputs) if tensor not in ends]
            piece = self.compiled[plan] = Piece(self.compile_piece(plan.graph, inner), prefix)
        return piece

    def cast(self, tensor: Tensor, shape: tuple[int, ...]) -> Plan:
        """A piece that turns an output of the model from float16, as the device has it, into its type."""
        key = (tensor.name, shape)
        if key not in self.casts:
            graph = Graph(tensor.name)
            half = graph.add_input(graph.fresh(f"{tensor.name}_float16"), DType.FLOAT16, shape)
            result = graph.add_node("Identity", [half], [tensor.name], name=f"{tensor.name}_output").output
            half.origin_dtype = result.origin_dtype = tensor.origin_dtype
            result.dtype, result.shape = tensor.origin_dtype, shape
            graph.outputs.append(result)
            self.casts[key] = Plan(graph, (), (tensor,), {})
        return self.casts[key]
