"""The graph that GE makes for gears (MultiBatchClone): an index by the shape at hand, and a Case with one
copy of the network a gear.

    x (largest gear) ------------------------------+
    ascend_mbatch_shape_data -> MapIndex(table) -> Case( ascend_mbatch_batch_0 | ascend_mbatch_batch_1 | ... )
    -> outputs (largest gear)

Each copy is static and has shape arithmetic of its own; weights stay in the graph around it, once, and the
copies read them from there.
"""

from __future__ import annotations

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import CompileError
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.opset import OpSet
from ascendsim.passes.control_flow import reached_nodes
from ascendsim.passes.gears.settings import GearSettings
from ascendsim.passes.gears.specialise import with_input_shapes

SHAPE_DATA = "ascend_mbatch_shape_data"  # the extra input, GE's name
CASE = "ascend_mbatch_case"
BRANCH = "ascend_mbatch_batch_"


def clone_gears(graph: Graph, settings: GearSettings, opset: OpSet) -> Graph:
    """Builds the graph with gears.

    Args:
        graph: The user's graph with open dimensions; stays as it is.
        settings: The gears.
        opset: The operators.

    Raises:
        CompileError: If shapes inside the network depend on more than the gear.
        GraphError: If a shape rule is broken for a gear.
    """
    clones = [with_input_shapes(graph, opset, settings.shapes(graph, gear)) for gear in settings.gears]
    for gear, clone in zip(settings.gears, clones, strict=True):
        for node in reached_nodes(clone):
            if any(not tensor.is_static for tensor in node.outputs):
                raise CompileError(
                    f"node {node.name!r} ({node.op_type})",
                    f"has a shape that depends on data under gear {','.join(map(str, gear))}, so gears "
                    f"cannot be made",
                    remedy="compile the model with open shapes instead",
                )
    outer = Graph(graph.name, metadata=dict(graph.metadata))
    largest = [
        max((clone.inputs[port] for clone in clones), key=lambda t: t.elements)
        for port in range(len(graph.inputs))
    ]
    inputs = [outer.add_input(tensor.name, tensor.element_type, tensor.static_shape) for tensor in largest]
    for twin, tensor in zip(inputs, largest, strict=True):
        twin.origin_dtype = tensor.origin_dtype
    numbers = np.array(settings.gears, np.int32)
    actual = outer.add_input(outer.fresh(SHAPE_DATA), DType.INT32, (numbers.shape[1],))
    table = outer.add_constant(outer.fresh("ascend_mbatch_shape_table"), numbers.ravel())
    index = outer.add_node(
        "MapIndex", [actual, table], ["ascend_mbatch_index"], name="ascend_mbatch_map_index", domain="ascend"
    )
    index.output.dtype = index.output.origin_dtype = DType.INT32
    index.output.shape = ()
    shared = {id(tensor.constant): _weight(outer, tensor) for tensor in graph.constants}
    branches = tuple(_branch(clone, number, shared) for number, clone in enumerate(clones))
    for tensor in shared.values():
        if not tensor.uses:
            outer.remove_tensor(tensor)
    names = [outer.fresh(tensor.name) for tensor in graph.outputs]
    case = outer.add_node(
        "Case", [index.output, *inputs], names, name=CASE, domain="ascend", branches=branches, gears=1
    )
    for port, tensor in enumerate(case.outputs):
        best = max((clone.outputs[port] for clone in clones), key=lambda t: t.elements)
        tensor.dtype, tensor.origin_dtype, tensor.shape = best.dtype, best.origin_dtype, best.shape
    outer.outputs.extend(case.outputs)
    return outer


def _weight(outer: Graph, tensor: Tensor) -> Tensor:
    """A constant of the user's graph in the graph around the copies."""
    twin = Tensor(outer.fresh(tensor.name), tensor.dtype, tensor.shape, tensor.format, tensor.constant)
    twin.origin_dtype = tensor.origin_dtype
    return outer.add_tensor(twin)


def _branch(clone: Graph, number: int, shared: dict[int, Tensor]) -> Graph:
    """A copy of the network as a subgraph: tensors have the gear's mark, weights are read from the graph
    around it.
    """
    outside = {
        tensor: shared[id(tensor.constant)] for tensor in clone.constants if id(tensor.constant) in shared
    }
    branch = copy_graph(clone)
    branch.name = f"{BRANCH}{number}"
    for tensor, home in outside.items():
        twin = branch.tensors[tensor.name]
        if not any(twin is output for output in branch.outputs):
            branch.replace_uses(twin, home)
            branch.remove_tensor(twin)
    mark = f"_{branch.name}"
    for tensor in tuple(branch.tensors.values()):
        branch.rename_tensor(tensor, tensor.name + mark)
    return branch
