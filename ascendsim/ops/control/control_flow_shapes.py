"""Shapes through subgraphs: branches merge, loops go round until the shapes stand still.

A shape rule of an operator with subgraphs gives them their input shapes, has them inferred
(`InferContext.infer_body`) and reads their output shapes. Branches: another rank gives an unknown rank (GE's
-2, here None), another dimension an unknown dimension (GE's -1). Loops, by loop variable, as GE does for
While (shape_refiner.cc, UpdateParentNodeForWhile):

    body output against input    what happens                      inferred again
    another element type         error                             -
    equal                        done                              no
    another rank                 unknown rank                      only if that changes what the body was
                                                                   inferred with
    another dimension            that dimension unknown            if the dimension was known before

Every round makes at least one dimension or rank unknown, so the rounds end.
"""

from __future__ import annotations

from collections.abc import Sequence

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import AscendSimError
from ascendsim.graph.branches import IMPOSSIBLE, ROUNDS
from ascendsim.graph.constants import shape_text
from ascendsim.graph.ir import Dim, Graph, Shape, Tensor
from ascendsim.ops.shared.dims import wrapped_axis
from ascendsim.opset import InferContext


def merge_shapes(first: Shape | None, second: Shape | None) -> Shape | None:
    """What is sure of a shape that is one of two.

    >>> merge_shapes((4, 8), (5, 8)), merge_shapes((4,), (4, 1))
    ((None, 8), None)
    """
    if first is None or second is None or len(first) != len(second):
        return None
    return tuple(a if a == b else None for a, b in zip(first, second, strict=True))


def larger_shape(first: Shape | None, second: Shape | None) -> Shape | None:
    """The larger of two static shapes by elements (gears: one of them runs, memory holds any); else what is
    sure of both.
    """
    if first is None or second is None:
        return None
    sizes = []
    for shape in (first, second):
        elements = 1
        for dim in shape:
            if not isinstance(dim, int):
                return merge_shapes(first, second)
            elements *= dim
        sizes.append(elements)
    return second if sizes[1] > sizes[0] else first


def infer_branches(
    ctx: InferContext, branches: Sequence[Graph], arguments: Sequence[Tensor | None], largest: bool = False
) -> None:
    """Output types of a node that runs one of some subgraphs.

    A branch that breaks a shape rule with these inputs is not for them: the others decide. It is an error
    when it is taken all the same, and here if it is the only one. Its graph's metadata says why
    (`graph.branches.IMPOSSIBLE`).

    Args:
        ctx: Of the node.
        branches: The subgraphs that may run.
        arguments: What the subgraphs get, by port; empty if they only look around.
        largest: Whether outputs take the largest shape of all branches instead of what all have in common
            (gears).
    """
    count = len(ctx.node.outputs)
    found: list[tuple[DType, Shape | None] | None] = [None] * count
    failures: list[AscendSimError] = []
    for branch in branches:
        _bind(ctx, branch, arguments, "branch")
        branch.metadata.pop(IMPOSSIBLE, None)
        try:
            ctx.infer_body(branch)
        except AscendSimError as error:  # a branch for inputs of other shapes, which these inputs cannot take
            branch.metadata[IMPOSSIBLE] = str(error)
            failures.append(error)
            if len(failures) == len(branches):
                raise
            continue
        _expect(ctx, "outputs", branch, len(branch.outputs), count)
        for index, tensor in enumerate(branch.outputs):
            if tensor.origin_dtype is None:
                continue
            before = found[index]
            if before is None:
                found[index] = (tensor.origin_dtype, tensor.shape)
                continue
            if before[0] is not tensor.origin_dtype:
                raise ctx.fail(
                    f"needs one type for output {index} in all branches",
                    f"{before[0].value} and {tensor.origin_dtype.value}",
                )
            merge = larger_shape if largest else merge_shapes
            found[index] = (before[0], merge(before[1], tensor.shape))
    for index, item in enumerate(found):
        if item is not None:
            ctx.set(index, *item)


def infer_while(ctx: InferContext) -> None:
    """ascend::While: as many outputs as inputs, of the shapes at which the body stands still."""
    cond, body = (ctx.node.attr(name) for name in ("cond", "body"))
    if not isinstance(cond, Graph) or not isinstance(body, Graph):
        raise ctx.fail("needs subgraphs in attributes cond and body")
    count = ctx.node.input_count
    _expect(ctx, "outputs", body, len(body.outputs), count)
    if len(ctx.node.outputs) != count:
        raise ctx.fail(f"needs as many outputs as inputs, {count}", len(ctx.node.outputs))
    _bind(ctx, body, ctx.node.inputs, "body")
    _settle(ctx, body, body.inputs, body.outputs)
    _bind(ctx, cond, body.inputs, "condition")
    ctx.infer_body(cond)
    _expect(ctx, "outputs", cond, len(cond.outputs), 1)
    _hand_over(ctx, body.inputs)


def infer_loop(ctx: InferContext) -> None:
    """ONNX Loop: inputs M, cond, variables; body inputs iteration, cond, variables; body outputs cond,
    variables, scan outputs.
    """
    body = _body(ctx)
    variables = max(0, ctx.node.input_count - 2)
    _expect(ctx, "inputs", body, len(body.inputs), 2 + variables)
    if len(body.outputs) < 1 + variables or len(ctx.node.outputs) > len(body.outputs) - 1:
        raise ctx.fail(
            f"needs a body with a condition, {variables} variables and its scan outputs",
            f"{len(body.outputs)} outputs",
        )
    for tensor, dtype in zip(body.inputs, (DType.INT64, DType.BOOL), strict=False):
        tensor.dtype = tensor.origin_dtype = dtype
        # older exporters declare one element instead of a scalar
        tensor.shape = tensor.shape if tensor.shape == (1,) else ()
    _assign(ctx, body.inputs[2:], ctx.node.inputs[2:])
    _settle(ctx, body, body.inputs[2:], body.outputs[1 : 1 + variables])
    if body.outputs[0].origin_dtype not in (None, DType.BOOL):
        raise ctx.fail("needs a body whose first output is a bool", body.outputs[0].origin_dtype)
    _hand_over(ctx, body.inputs[2:])
    trips = _known_trips(ctx, body)
    for index, tensor in enumerate(body.outputs[1 + variables :], variables):
        if tensor.origin_dtype is not None:
            ctx.set(index, tensor.origin_dtype, None if tensor.shape is None else (trips, *tensor.shape))


def _known_trips(ctx: InferContext, body: Graph) -> Dim:
    """The number of iterations if it does not depend on values: M is known, and nothing ends the loop
    before.
    """
    trips, cond = ctx.value(0), ctx.value(1) if ctx.has(1) else None
    if trips is None or (ctx.has(1) and cond is None):
        return None
    if cond is not None and not cond.item():
        return 0
    return max(0, int(trips.item())) if goes_on(body) else None


def goes_on(body: Graph) -> bool:
    """Whether the body of an ONNX Loop never ends the loop by itself: it hands its condition through, or says
    true.
    """
    result = body.outputs[0]
    while (
        result.producer is not None
        and result.producer.op_type in ("Identity", "Cast")
        and not result.is_constant
    ):
        source = result.producer.required(0)
        if source is body.inputs[1]:
            return True
        result = source
    if result is body.inputs[1]:
        return True
    return result.constant is not None and result.constant.available and bool(result.constant.array().all())


def infer_scan(ctx: InferContext) -> None:
    """ONNX Scan (version 9 and newer): states go round, scanned inputs are cut along an axis, results stacked
    along one.
    """
    body, slices = _body(ctx), int(ctx.node.attr("num_scan_inputs", 0))
    states = ctx.node.input_count - slices
    if slices < 1 or states < 0:
        raise ctx.fail("needs num_scan_inputs from 1 to the number of inputs", slices)
    _expect(ctx, "inputs", body, len(body.inputs), states + slices)
    if len(ctx.node.outputs) > len(body.outputs) or len(body.outputs) < states:
        raise ctx.fail(
            f"needs a body with {states} states and its scan outputs", f"{len(body.outputs)} outputs"
        )
    _assign(ctx, body.inputs[:states], ctx.node.inputs[:states])
    length: Dim = None
    for number in range(slices):
        data, piece = ctx.tensor(states + number), body.inputs[states + number]
        piece.dtype = piece.origin_dtype = data.origin_dtype
        if data.shape is None:
            piece.shape = None
            continue
        axis = scan_axis(ctx, "scan_input_axes", number, len(data.shape))
        dim = data.shape[axis]
        if isinstance(length, int) and isinstance(dim, int) and dim != length:
            raise ctx.fail("needs one length for all scanned inputs", f"{length} and {dim}")
        length = dim if not isinstance(length, int) else length
        piece.shape = tuple(size for place, size in enumerate(data.shape) if place != axis)
    _settle(ctx, body, body.inputs[:states], body.outputs[:states])
    _hand_over(ctx, body.inputs[:states])
    for number, tensor in enumerate(body.outputs[states:]):
        if tensor.origin_dtype is None:
            continue
        shape = tensor.shape
        if shape is not None:
            axis = scan_axis(ctx, "scan_output_axes", number, len(shape) + 1)
            shape = (*shape[:axis], length, *shape[axis:])
        ctx.set(states + number, tensor.origin_dtype, shape)


def scan_axis(ctx: InferContext, name: str, number: int, rank: int) -> int:
    """The axis along which scan input or output `number` is cut or stacked, counted from the front."""
    axes = ctx.node.attr(name, ())
    return wrapped_axis(ctx, int(axes[number]) if number < len(axes) else 0, rank)


def _body(ctx: InferContext) -> Graph:
    body = ctx.node.attr("body")
    if not isinstance(body, Graph):
        raise ctx.fail("needs a subgraph in attribute body")
    return body


def _expect(ctx: InferContext, what: str, body: Graph, actual: int, wanted: int) -> None:
    if actual != wanted:
        raise ctx.fail(f"needs a subgraph with {wanted} {what}", f"{actual} in graph {body.name!r}")


def _bind(ctx: InferContext, body: Graph, arguments: Sequence[Tensor | None], what: str) -> None:
    _expect(ctx, f"inputs as its {what}", body, len(body.inputs), len(arguments))
    if not ctx.node.attr(
        "gears", 0
    ):  # gears were made with static shapes of their own; the node's inputs have those of the largest
        _assign(ctx, body.inputs, arguments)


def _assign(ctx: InferContext, inner: Sequence[Tensor], outer: Sequence[Tensor | None]) -> None:
    for tensor, source in zip(inner, outer, strict=True):
        if source is None:
            raise ctx.fail(f"needs a value for {tensor.name!r} of its subgraph")
        tensor.dtype, tensor.origin_dtype, tensor.shape = source.dtype, source.origin_dtype, source.shape


def _settle(ctx: InferContext, body: Graph, variables: Sequence[Tensor], results: Sequence[Tensor]) -> None:
    """Infers a body until its variables come out with the shapes with which they went in.

    What a round opens, and which node of the body does it, is kept in the body's metadata
    (`graph.branches.ROUNDS`): one text a round, empty in the last one.
    """
    rounds: list[str] = []
    again = True
    while again:
        ctx.infer_body(body)
        again, opened = False, []
        for variable, result in zip(variables, results, strict=True):
            if result.origin_dtype is None:
                continue
            if variable.origin_dtype is not result.origin_dtype:
                wanted = variable.origin_dtype.value if variable.origin_dtype else "unknown"
                raise ctx.fail(
                    f"needs a body that keeps the type of loop variable {variable.name!r} ({wanted})",
                    result.origin_dtype.value,
                    "cast it",
                )
            sure = merge_shapes(variable.shape, result.shape)
            if sure != variable.shape:
                again = True
                opened.append(_opening(variable, result, sure))
            variable.shape = sure
        rounds.append("; ".join(opened))
    body.metadata[ROUNDS] = tuple(rounds)


def _opening(variable: Tensor, result: Tensor, sure: Shape | None) -> str:
    """Which node of a body gives a loop variable another shape."""
    went, came = shape_text(variable.shape), shape_text(result.shape)
    source = _changing(result)
    maker = (
        f"variable {source.name!r} is handed on"
        if source.producer is None
        else f"node {source.producer.name!r} ({source.producer.op_type})"
    )
    return f"{maker} makes {variable.name!r} {came} of {went}, so {shape_text(sure)}"


def _changing(result: Tensor) -> Tensor:
    """Where a shape comes from: back through the nodes that have it as an input already."""
    while result.producer is not None:
        same = [t for t in result.producer.inputs if t is not None and t.shape == result.shape]
        if not same or same[0].constant is not None:
            return result
        result = same[0]
    return result


def _hand_over(ctx: InferContext, variables: Sequence[Tensor]) -> None:
    for index, tensor in enumerate(variables):
        if tensor.origin_dtype is not None:
            ctx.set(index, tensor.origin_dtype, tensor.shape)
