"""GraphKernel: several operators as one, held as a subgraph (MindSpore's composite operator).

Attributes of the node: `body`, the subgraph, whose inputs and outputs are those of the node in order;
`graph_kernel`, its name as MindSpore prints it ("Mul_TensorAdd_"). Constants of one element lie in the body
and are part of the instructions, larger ones are inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ascendsim.graph.composites import DOMAIN, GRAPH_KERNEL, NAME, body_of
from ascendsim.graph.ir import Array, Node, Tensor
from ascendsim.ops.fused.bounded import run_bounded
from ascendsim.ops.fused.composite_work import composite_work
from ascendsim.ops.shared.common import settled
from ascendsim.ops.shared.magnitudes import Magnitudes
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.structure import opaque
from ascendsim.opset.work import LowerContext, Ref, Work


def _infer(context: InferContext) -> None:
    for index, tensor in enumerate(body_of(context.node).outputs):
        if tensor.origin_dtype is not None:
            context.set(index, tensor.origin_dtype, tensor.shape)


def _compute_body(
    node: Node,
    inputs: Sequence[Any],
    dtype_of: Callable[[Tensor], np.dtype[Any]],
    place_of: Callable[[Tensor], Array | None],
    seen: dict[Node, Magnitudes] | None,
) -> Sequence[Any]:
    from ascendsim.ops import default_opset

    body = body_of(node)
    arrays: dict[Tensor, Array] = dict(zip(body.inputs, inputs, strict=True))
    with np.errstate(all="ignore"):
        arrays.update(
            (tensor, settled(tensor.constant.array().astype(dtype_of(tensor)), dtype_of(tensor)))
            for tensor in body.constants
            if tensor.constant is not None
        )
    outside = dict(zip(body.outputs, node.outputs, strict=True))
    results = run_bounded(
        body.topological(),
        arrays,
        default_opset(),
        dtype_of,
        body.outputs,
        place_of=lambda tensor: place_of(outside[tensor]),
        seen=seen,
    )
    return [results[tensor] for tensor in body.outputs]


def _compute(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
    """Values where nobody says which types the run has: the device's if an array has one that differs from
    the model's.
    """
    ends = [*zip(node.inputs, inputs, strict=True), *zip(node.outputs, wanted, strict=True)]
    device = all(
        tensor is None
        or array is None
        or np.dtype(getattr(array, "dtype", array)) == tensor.element_type.numpy
        for tensor, array in ends
    )

    def dtype_of(tensor: Tensor) -> np.dtype[Any]:
        return (tensor.element_type if device else tensor.origin_dtype or tensor.element_type).numpy

    return _compute_body(node, inputs, dtype_of, lambda _tensor: None, None)


def _lower(node: Node, context: LowerContext) -> Work:
    from ascendsim.ops import default_opset

    body = body_of(node)
    outer = {
        inner: Ref.of(tensor)
        for inner, tensor in zip(body.inputs, node.inputs, strict=True)
        if tensor is not None
    }
    outer.update((inner, Ref.of(tensor)) for inner, tensor in zip(body.outputs, node.outputs, strict=True))
    return composite_work(body, outer, default_opset(), context)


def _name(node: Node) -> str:
    return str(node.attr(NAME, GRAPH_KERNEL))


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        GRAPH_KERNEL,
        _infer,
        _compute,
        _lower,
        Layout.ND,
        domain=DOMAIN,
        foldable=False,
        cann_of=_name,
        mindspore=_name,
        compute_body=_compute_body,
        most_inputs=None,
        facts=Facts(opaque(), Kind.OTHER, Precision.GRAY),
    ),
)
