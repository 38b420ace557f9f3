"""Values of the device that the host reads in the middle of a graph: each is copied to it, and it waits.

So do scripts of PyTorch with the loss of every step (`loss.item()`), and a loss scaler with its flag of
overflow: nothing is launched until the device has come so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Union

from ascendsim.core.errors import InputError, suggest
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.passes.host_inputs import PAGEABLE, add_copy
from ascendsim.soc.spec import LaunchSpec

CHANGES = frozenset({"Cast", "TransData"})  # of a tensor's type and format
Names = Union[str, Sequence[str]]  # "loss,overflow" or ["loss", "overflow"]


def names_of(names: Names) -> tuple[str, ...]:
    """The tensors that are read."""
    parts = names.split(",") if isinstance(names, str) else list(names)
    return tuple(part.strip() for part in parts if part.strip())


def read_tensors(graph: Graph, names: Names, launch: LaunchSpec) -> list[Node]:
    """Puts a MemcpyAsync that the host waits for behind whatever makes a tensor.

    Args:
        graph: Changed in place.
        names: Tensors that nodes make.
        launch: Of the chip.

    Returns:
        The copies, in the order of the names.

    Raises:
        InputError: If no node makes a tensor of that name.
    """
    return [_read(graph, _made(graph, name), launch) for name in names_of(names)]


def _made(graph: Graph, name: str) -> Tensor:
    tensor = graph.tensors.get(name)
    if tensor is None or tensor.producer is None:
        made = [other.name for other in graph.tensors.values() if other.producer is not None]
        remedy = suggest(name, made) or "name an output of the graph, which keeps its name"
        raise InputError(
            "option host_reads", "must name a tensor that the compiled graph makes", name, remedy
        )
    return tensor


def _read(graph: Graph, tensor: Tensor, launch: LaunchSpec) -> Node:
    node = add_copy(graph, tensor, f"{tensor.name}_on_host", PAGEABLE, launch)
    # Changes of type and format were put in late and stand at the end of the list.
    moved, maker = [node], tensor.producer
    while maker is not None and maker.op_type in CHANGES:
        moved.append(maker)
        maker = maker.required(0).producer
    order = [one for one in graph.nodes if one not in moved]
    at = 0 if maker is None else order.index(maker) + 1
    if at < len(order):
        for one in reversed(moved):
            graph.place_before(one, order[at])
    return node
