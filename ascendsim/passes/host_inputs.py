"""Inputs of a graph that are in the host's memory when it runs: each is copied to the device first.

So do scripts of PyTorch with the images of every step (`images.to("npu")`). Where the whole graph is launched
at once, the copies are its first tasks; a framework calls them like operators.
"""

from __future__ import annotations

from ascendsim.graph.carried import is_carried, is_trained
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.soc.spec import LaunchSpec

DEVICE, PINNED, PAGEABLE = "device", "pinned", "pageable"  # where inputs may lie
COPY, DOMAIN = "MemcpyAsync", "ascend"  # the operator


def copy_us(bytes: int, memory: str, launch: LaunchSpec) -> float:
    """Time of a copy in microseconds.

    Args:
        bytes: What is copied.
        memory: Where it lies: "pinned" memory the device reads by itself, "pageable" one the driver copies
            in pieces to memory that is.
        launch: Of the chip.
    """
    rate = launch.pinned_copy_gb_per_s if memory == PINNED else launch.pageable_copy_gb_per_s
    return bytes / (rate * 1e3)


def add_copy(graph: Graph, source: Tensor, made: str, memory: str, launch: LaunchSpec) -> Node:
    """Adds a MemcpyAsync of a tensor, behind all other nodes.

    Args:
        graph: Changed in place.
        source: What is copied.
        made: Name of the copy.
        memory: Of the host; for another than "pinned" the host waits.
        launch: Of the chip.
    """
    copy = graph.add_tensor(Tensor(graph.fresh(made), source.dtype, source.shape))
    copy.format = source.format
    return graph.add_node(
        COPY,
        [source],
        [copy],
        name=f"{source.name}_memcpy",
        domain=DOMAIN,
        known_us=copy_us(source.storage_bytes, memory, launch),
        host_waits=int(memory != PINNED),
    )


def copy_inputs(graph: Graph, memory: str, launch: LaunchSpec) -> list[Node]:
    """Puts a MemcpyAsync behind every input that somebody reads, but for what a training step carries on or
    gives gradients of, and single numbers, which go with the launch.

    Returns:
        The nodes, in the order of the inputs.
    """
    if memory == DEVICE:
        return []
    copies = []
    for given in list(graph.inputs):
        stays = given.elements <= 1 or is_carried(graph, given) or is_trained(graph, given)
        if stays or not (given.uses or given in graph.outputs):
            continue
        node = add_copy(graph, given, f"{given.name}_on_device", memory, launch)
        graph.replace_uses(given, node.output)
        node.set_input(0, given)
        copies.append(node)
    for node in reversed(copies):
        graph.place_before(node, graph.nodes[0])
    return copies
