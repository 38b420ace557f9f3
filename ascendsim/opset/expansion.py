"""The language in which an operator is written out in basic ones, so that a composite can take them in and
grow around them.

Before: y = Softmax(x)
After:  m = ReduceMax(x); e = Exp(Sub(x, m)); y = RealDiv(e, ReduceSum(e))

float16 is widened to float32 where the operator itself computes in float32 (sums, exponentials), with one
rounding at the end, as MindSpore's expanders do on Ascend. This is done on the device graph; reductions only
of row-major tensors, since a blocked format reorders the axes that they fold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format
from ascendsim.graph.ir import AttributeValue, Graph, Node, Tensor


class Writer:
    """Writes basic nodes for one node.

    Args:
        graph: Changed in place.
        infer: Gives a node's outputs their types and shapes.
        node: What is written out.

    Attributes:
        made: What was written, in order.
    """

    def __init__(self, graph: Graph, infer: Callable[[Node], None], node: Node) -> None:
        self.graph, self.node = graph, node
        self.made: list[Node] = []
        self._infer = infer

    def op(
        self,
        op_type: str,
        *inputs: Tensor | float | Sequence[int],
        domain: str = "",
        **attributes: AttributeValue,
    ) -> Tensor:
        """Adds a node; a number becomes a constant of the first operand's type, a list of integers a constant
        of axes or sizes.
        """
        like = next(item for item in inputs if isinstance(item, Tensor))
        tensors = [item if isinstance(item, Tensor) else self._constant(item, like) for item in inputs]
        name = self.graph.fresh(f"{self.node.name}/{op_type}")
        node = self.graph.add_node(op_type, tensors, 1, name=name, domain=domain, **attributes)
        self._infer(node)
        result = node.output
        to = attributes.get("to")
        if isinstance(to, DType):
            result.dtype, result.origin_dtype = (
                to,
                like.origin_dtype if like.origin_dtype is DType.FLOAT32 else to,
            )
        else:
            result.dtype = like.dtype
        if result.shape == like.shape:
            result.format = like.format
        self.made.append(node)
        return result

    def _constant(self, value: float | Sequence[int], like: Tensor) -> Tensor:
        if isinstance(value, (int, float)):
            wide = like.origin_dtype or like.element_type
            shape = (1,) if like.static_shape else ()  # a scalar stays one
            array = np.asarray(value, wide.numpy).reshape(shape)
            tensor = self.graph.add_constant(self.graph.fresh(f"{self.node.name}/number"), array)
            tensor.dtype, tensor.origin_dtype = like.dtype, wide
            return tensor
        return self.graph.add_constant(
            self.graph.fresh(f"{self.node.name}/axes"), np.asarray(value, np.int64)
        )

    def wide(self, tensor: Tensor) -> Tensor:
        """The tensor in float32."""
        return self.op("Cast", tensor, to=DType.FLOAT32) if tensor.element_type is DType.FLOAT16 else tensor

    def like_output(self, tensor: Tensor) -> Tensor:
        """The tensor in the type of the node's output."""
        target = self.node.output.element_type
        return self.op("Cast", tensor, to=target) if tensor.element_type is not target else tensor

    def __call__(self, index: int) -> Tensor:
        """An input of the node."""
        return self.node.required(index)

    def axis(self, default: int = -1) -> int | None:
        """The node's axis, if its operand is row-major."""
        source = self(0)
        if source.format not in (Format.ND, Format.NCHW):
            return None
        return int(self.node.attr("axis", default)) % len(source.static_shape)

    def folded_axes(self) -> list[int] | None:
        """Axes of a reduction, if they are known and the operand is row-major."""
        source, given = self(0), self.node.input(1)
        if source.format not in (Format.ND, Format.NCHW):
            return None
        rank = len(source.static_shape)
        if given is None:
            return list(range(rank)) if not self.node.attr("noop_with_empty_axes", 0) else None
        if given.constant is None or not given.constant.available or given.elements == 0:
            return None
        return [int(axis) % rank for axis in given.constant.array().ravel()]


Expand = Callable[[Writer], "Tensor | None"]  # the new result; None where the node cannot be written out
