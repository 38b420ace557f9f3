"""Graph-kernel fusion as the user asks for it: flags, dumps, and the price of a composite from the simulated
chip.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING

from ascendsim.compiler.options import GRAPH_KERNEL
from ascendsim.core.errors import InputError
from ascendsim.core.files import file_stem, make_folder, path_option, write_whole
from ascendsim.graph.dot import to_dot
from ascendsim.graph.ir import Array, Graph, Node, Tensor
from ascendsim.graph.text import to_text
from ascendsim.isa.program import Program
from ascendsim.lower import LowerOptions, lower_graph
from ascendsim.machine import run as run_machine
from ascendsim.opset import OpSet
from ascendsim.soc import SocSpec

if TYPE_CHECKING:  # loaded by those who use this flow only
    from ascendsim.passes.graph_kernel import CostOracle, Dump, GraphKernelFlags, GraphKernelReport
    from ascendsim.passes.graph_kernel.flags import Flags


@dataclass(frozen=True, slots=True)
class GraphKernelFlow:
    """Both rounds of graph-kernel fusion in one compilation.

    Attributes:
        flags: The user's flags, checked.
        dump: Receives every stage.
    """

    flags: GraphKernelFlags
    dump: Dump | None = None

    @classmethod
    def of(
        cls, fusion: str, flags: Flags, save_graphs: str | PathLike[str] | None, opset: OpSet
    ) -> GraphKernelFlow | None:
        """The flow, or None if `fusion` asks for another one.

        Raises:
            InputError: If flags are given for another flow, or are not valid.
        """
        if fusion != GRAPH_KERNEL:
            if flags is not None:
                raise InputError("option graph_kernel_flags", f'needs fusion="{GRAPH_KERNEL}"', repr(fusion))
            return None
        from ascendsim.passes.graph_kernel import GraphKernelFlags

        checked = GraphKernelFlags.of(opset, flags)
        return cls(checked, None if save_graphs is None else graph_saver(save_graphs, checked.dump_as_text))

    def graph_level(self, single_kernel: bool) -> str:
        """The level of fusion besides composites: MindSpore's UB passes run for every graph, whether or not
        composites are made. A composite file holds one kernel, which stays as it was generated.
        """
        return "off" if single_kernel else "ub"

    def saving(self, folder: str | PathLike[str]) -> GraphKernelFlow:
        """The same flow with its dumps in another folder."""
        return replace(self, dump=graph_saver(folder, self.flags.dump_as_text))

    def mark(self, graph: Graph, opset: OpSet) -> None:
        """Round 0, on the user's graph: marks nodes."""
        from ascendsim.passes.graph_kernel import mark_graph

        mark_graph(graph, opset, self.flags, self.dump)

    def fuse(
        self, graph: Graph, soc: SocSpec, opset: OpSet, lowering: LowerOptions
    ) -> tuple[Graph, GraphKernelReport]:
        """Round 1, on the device graph: returns the graph with composites."""
        from ascendsim.passes.graph_kernel import fuse_marked

        return fuse_marked(graph, opset, self.flags, cost_oracle(soc, opset, lowering), self.dump)


def graph_saver(folder: str | PathLike[str], as_text: bool = False) -> Callable[[str, Graph], None]:
    """Writes graphs as Graphviz files `<name>.dot`, and as `<name>.ir` text if asked to; makes the folder.

    Raises:
        InputError: If the folder cannot be made or written.
    """
    home = path_option("save_graphs", folder)

    def save(name: str, graph: Graph) -> None:
        make_folder(home)
        name = file_stem(name)
        write_whole(home / f"{name}.dot", to_dot(graph).encode())
        if as_text:
            write_whole(home / f"{name}.ir", to_text(graph).encode())

    return save


def cost_oracle(soc: SocSpec, opset: OpSet, lowering: LowerOptions) -> CostOracle:
    """What says how long a small device graph takes on a chip, alone on it, in microseconds; equal graphs are
    run once.
    """
    known: dict[str, float] = {}

    def price(graph: Graph) -> float:
        key = structure(graph)
        if key not in known:
            program: Program = lower_graph(graph, soc, opset, options=lowering)
            known[key] = run_machine(program, soc).duration_us if program.tasks else 0.0
        return known[key]

    return price


def structure(graph: Graph) -> str:
    """A text that is equal for graphs of equal operators, attributes, shapes, types and formats, whatever
    their names.
    """
    numbers: dict[Tensor, int] = {}
    lines: list[str] = []

    def tensor(item: Tensor | None) -> str:
        if item is None:
            return "-"
        if item not in numbers:
            numbers[item] = len(numbers)
            kind = item.dtype.value if item.dtype else "?"
            lines.append(f"{numbers[item]} {kind}{item.shape} {item.format.value}{_value(item)}")
        return str(numbers[item])

    def visit(node: Node) -> None:
        operands = ",".join(tensor(item) for item in node.inputs)
        results = ",".join(tensor(item) for item in node.outputs)
        attributes = [
            f"{key}={value!r}"
            for key, value in sorted(node.attributes.items())
            if not isinstance(value, (Graph, str))
        ]
        names = [
            f"{key}={value}"
            for key, value in sorted(node.attributes.items())
            if isinstance(value, str) and key != "graph_kernel"
        ]
        bodies = "".join(f"{{{structure(body)}}}" for _, body in node.subgraphs)
        lines.append(f"{node.domain}:{node.op_type} {operands} -> {results} {attributes}{names}{bodies}")

    for given in graph.inputs:
        tensor(given)
    for node in graph.topological():
        visit(node)
    lines.append("=> " + ",".join(tensor(item) for item in graph.outputs))
    return "\n".join(lines)


def _value(item: Tensor) -> str:
    """Values of a small constant: axes and exponents decide what an operator costs."""
    if item.constant is None or not item.constant.available or item.elements > 16:
        return ""
    array: Array = item.constant.array()
    return f" = {array.tolist()}"
