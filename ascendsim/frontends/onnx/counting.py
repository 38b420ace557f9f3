"""How many nodes a model has once its functions are inlined, before a single one is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx

from ascendsim.frontends.onnx.frames import standard_domain

Functions = Mapping[tuple[str, str, str], onnx.FunctionProto]


def nodes_after_inlining(nodes: Iterable[onnx.NodeProto], functions: Functions) -> int:
    """Nodes of a graph and its subgraphs, each call of a function with those of its body.

    A function counts once however often it is called, so a small file that describes a huge graph is told in
    no time; one that calls itself has the calls inside it left out.
    """
    known: dict[tuple[str, str, str], int] = {}

    def count(inner: Iterable[onnx.NodeProto]) -> int:
        total = 0
        for node in inner:
            total += 1
            key = (standard_domain(node.domain), node.op_type, node.overload)
            if key in functions:
                if key not in known:
                    known[key] = 0
                    known[key] = count(functions[key].node)
                total += known[key]
            for attribute in node.attribute:
                for graph in (attribute.g, *attribute.graphs):
                    total += count(graph.node)
        return total

    return count(nodes)
