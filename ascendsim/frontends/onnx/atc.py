"""What ATC's ONNX parser refuses of a file that is a valid ONNX model.

Source: GE, parser/parser/onnx/onnx_parser.cc and parser/common/pre_checker.cc; CANN's list of error codes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import onnx

from ascendsim.core.refusals import Refusal, some
from ascendsim.frontends.onnx.frames import standard_domain

# types that the parser does not look up by domain and version
_WITHOUT_DOMAIN = frozenset({"Constant"})


def refusals_of(model: onnx.ModelProto, name: str) -> tuple[Refusal, ...]:
    """Why ATC does not take a file; empty if its parser does.

    Args:
        model: The file, read.
        name: What messages call it.
    """
    return (
        *_domains(model, f"model {name!r}"),
        *_ends(model.graph, f"model {name!r}"),
        *_functions(model, f"model {name!r}"),
        *(found for graph in _graphs(model.graph) for found in _names(graph)),
    )


def _domains(model: onnx.ModelProto, subject: str) -> Iterator[Refusal]:
    """Up to July 2026 an operator without a domain is an error as soon as the file has two domains."""
    versions: dict[str, list[int]] = {}
    for item in model.opset_import:
        versions.setdefault(item.domain, []).append(int(item.version))
    listed = ", ".join(
        f"{domain or 'ai.onnx'} {version}" for domain, found in versions.items() for version in found
    )
    if len(versions) > 1 and any(
        not node.domain and node.op_type not in _WITHOUT_DOMAIN
        for graph in _graphs(model.graph)
        for node in graph.node
    ):
        rule = f"has {len(versions)} opset domains in opset_import ({listed}), where one is allowed"
        yield Refusal("E16005", subject, rule, "keep one entry of opset_import and no domain on the nodes")
    for domain, found in versions.items():
        if len(found) > 1:
            rule = f"gives domain {domain or 'ai.onnx'} {len(found)} opset versions ({listed})"
            remedy = "keep one entry of opset_import: ATC takes the last one, or none at all"
            yield Refusal("E16005", subject, rule, remedy)


def _ends(graph: onnx.GraphProto, subject: str) -> Iterator[Refusal]:
    for kind, ends in (("input", graph.input), ("output", graph.output)):
        if not ends:
            yield Refusal("E16001", subject, f"has no {kind}", f"give the graph an {kind}")


def _functions(model: onnx.ModelProto, subject: str) -> Iterator[Refusal]:
    defined = {(standard_domain(item.domain), item.name) for item in model.functions}
    calls = [
        node.op_type
        for graph in _graphs(model.graph)
        for node in graph.node
        if (standard_domain(node.domain), node.op_type) in defined
    ]
    if calls:
        rule = f"calls functions of its own, which have no parser: {some(sorted(set(calls)))}"
        yield Refusal("E16002", subject, rule, "inline them (onnx.inliner.inline_local_functions)")


def _names(graph: onnx.GraphProto) -> Iterator[Refusal]:
    counts = Counter(node.name for node in graph.node if node.name)
    repeated = [name for name, count in counts.items() if count > 1]
    if repeated:
        subject, rule = f"graph {graph.name!r}", f"has several nodes of one name: {some(repeated)}"
        yield Refusal("E13009", subject, rule, "give every node a name of its own")


def _graphs(graph: onnx.GraphProto, depth: int = 0) -> Iterator[onnx.GraphProto]:
    """A graph and those inside it."""
    yield graph
    if depth > 32:
        return
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _graphs(inner, depth + 1)
