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
        made = graph.add_tensor(Tensor(graph.fresh(f"{given.name}_on_device"), given.dtype, given.shape))
        made.format = given.format
        graph.replace_uses(given, made)
        node = graph.add_node(
            COPY,
            [given],
            [made],
            name=f"{given.name}_memcpy",
            domain=DOMAIN,
            known_us=copy_us(given.storage_bytes, memory, launch),
            host_waits=int(memory != PINNED),
        )
        copies.append(node)
    for node in reversed(copies):
        graph.place_before(node, graph.nodes[0])
    return copies
