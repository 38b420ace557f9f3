"""Graphviz text of a graph, for pictures of small graphs and of neighbourhoods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.graph.text import dims


def to_dot(graph: Graph, constants: bool = False, colours: Mapping[str, str] | None = None) -> str:
    """Returns the graph in Graphviz' DOT language; the same graph gives the same text.

    Nodes are boxes with operator and name, inputs and outputs ellipses, edges carry element type and shape
    (one edge a use, so multiple edges show), control edges are dashed, subgraphs are clusters.

    Args:
        graph: Any graph.
        constants: Whether to draw constants (weights) too.
        colours: Fill colours of nodes by name, as Graphviz spells them.
    """
    lines = [
        "digraph " + _quoted(graph.name) + " {",
        '  node [shape=box, fontname="Helvetica"];',
        '  edge [fontname="Helvetica", fontsize=10];',
    ]
    names: dict[Tensor | Node, str] = {}
    lines.extend("  " + line for line in _body(graph, constants, names, "", colours or {}))
    lines.append("}")
    return "\n".join(lines) + "\n"


def _body(
    graph: Graph, constants: bool, names: dict[Tensor | Node, str], prefix: str, colours: Mapping[str, str]
) -> Iterator[str]:
    for given in graph.inputs:
        yield _declared(given, names, "ellipse", f"{given.name}\n{_type(given)}")
    if constants:
        for weight in graph.constants:
            yield _declared(weight, names, "note", f"{weight.name}\n{_type(weight)}")
    for node in graph.nodes:
        yield _declared(node, names, "box", f"{node.op_type}\n{node.name}", colours.get(node.name, ""))
    for node in graph.nodes:
        for key, subgraph in node.subgraphs:
            cluster = f"{prefix}g{len(names)}_"
            yield f"subgraph cluster_{cluster} {{"
            yield f"  label={_quoted(f'{key} of {node.name}')};"
            for line in _body(subgraph, constants, names, cluster, colours):
                yield "  " + line
            yield "}"
    for node in graph.nodes:
        for tensor in node.inputs:
            if tensor is None:
                continue
            source = names.get(tensor.producer or tensor)
            if source is not None:
                yield f"{source} -> {names[node]} [label={_quoted(_type(tensor))}];"
        for before in node.control:
            if before in names:
                yield f"{names[before]} -> {names[node]} [style=dashed];"
    for number, output in enumerate(graph.outputs):
        source = names.get(output.producer or output)
        end = f"{prefix}out{number}"
        yield f"{end} [shape=ellipse, label={_quoted(output.name)}];"
        if source is not None:
            yield f"{source} -> {end} [label={_quoted(_type(output))}];"


def _declared(
    item: Tensor | Node, names: dict[Tensor | Node, str], shape: str, label: str, colour: str = ""
) -> str:
    names[item] = f"n{len(names)}"
    filled = f", style=filled, fillcolor={_quoted(colour)}" if colour else ""
    return f"{names[item]} [shape={shape}, label={_quoted(label)}{filled}];"


def _type(tensor: Tensor) -> str:
    return f"{tensor.dtype.value if tensor.dtype else '?'}{dims(tensor.shape)}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "")
    return f'"{escaped}"'
