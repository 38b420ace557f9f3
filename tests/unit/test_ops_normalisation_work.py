"""Work of the normalisations against hand counts: rows, columns, bytes, and how many instructions run on each
element, each row and each channel.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format
from ascendsim.graph.ir import Graph
from ascendsim.ops import default_opset
from ascendsim.ops.normalise.normalisation_work import channel_split, maps_of, rows_apart, summing_type
from ascendsim.opset import InferContext
from ascendsim.opset.work import AiCpuWork, LowerContext, NoTask, VectorWork
from ascendsim.passes.graph_kernel.expanders import expand
from tests.support.single_node import C220, make_node

HALF, FULL = np.float16, np.float32
WIDE = {**C220, "vexp": ("float16", "float32")}
SHAPE = (2, 6, 4, 5)

# From a row to its normalised elements: subtract the mean, square, multiply by 1 / root; and once a row:
# two means, epsilon, root, reciprocal
CENTRED = {("vsub", "all"): 1, ("vmul", "all"): 2, ("vcadd", "all"): 2}
CENTRED |= {("vmuls", "row"): 2, ("vadds", "row"): 1, ("vsqrt", "row"): 1, ("vrec", "row"): 1}
PLAIN = {("vmul", "all"): 2, ("vcadd", "all"): 1}
PLAIN |= {("vmuls", "row"): 1, ("vadds", "row"): 1, ("vsqrt", "row"): 1, ("vrec", "row"): 1}


def ones(*shape: int, kind: Any = FULL) -> Any:
    return np.ones(shape, kind)


def lowered(
    name: str, *given: Any, format: Format = Format.ND, outputs: int = 1, domain: str = "", **attributes: Any
) -> Any:
    chip = {key: attributes.pop(key) for key in ("rows_in_turn",) if key in attributes}
    node = make_node(name, given, outputs, domain, known=False, **attributes)
    node.required(0).format = node.output.format = format
    lower = default_opset().get(node).lower
    assert lower is not None
    return lower(node, LowerContext("c220", intrinsics=WIDE, **chip))


def counts(work: VectorWork) -> Counter[tuple[str, str]]:
    """How often an instruction runs on each element, or each row or channel."""
    found: Counter[tuple[str, str]] = Counter()
    for step in work.steps:
        found[step.op, step.over] += step.count
    return found


def more(known: dict[tuple[str, str], int], *names: str) -> dict[tuple[str, str], int]:
    """These counts and some more instructions on every element."""
    return dict(Counter(known) + Counter((name, "all") for name in names))


def check_bytes(work: Any, given: list[Any], results: list[int]) -> None:
    """All that is read and written, each once."""
    assert isinstance(work, VectorWork)
    assert [stream.ref.bytes for stream in work.inputs] == [array.nbytes for array in given]
    assert [stream.ref.bytes for stream in work.outputs] == results


# ---- one value a channel


@pytest.mark.parametrize("shape", [SHAPE, (2, 6, 7), (2, 6, 3, 4, 5)])
def test_a_channel_is_a_row_of_the_plane_or_a_column_of_blocks(shape: tuple[int, ...]) -> None:
    tensor = Graph().add_input("x", DType.FLOAT16, shape)
    assert channel_split(tensor) == (shape[0] * 6, math.prod(shape[2:]), "row")
    assert maps_of(tensor, "sums") is None
    tensor.format = Format.NC1HWC0
    if len(shape) == 4:
        assert channel_split(tensor) == (2 * 4 * 5, 16, "col")
        found = maps_of(tensor, "sums")
        assert found is not None
        assert (found.images, found.blocks, found.split) == (2, 1, "sums")
    flat = Graph().add_input("x", DType.FLOAT16, (3, 6))
    assert channel_split(flat) == (3, 6, "col")


def test_blocks_of_maps_are_counted_by_their_type() -> None:
    for dtype, block in ((DType.FLOAT16, 16), (DType.INT8, 32)):
        tensor = Graph().add_input("x", dtype, (3, 40, 2, 5))
        tensor.format = Format.NC1HWC0
        found = maps_of(tensor, "images")
        assert found is not None
        assert (found.images, found.blocks) == (3, -(-40 // block))
        assert channel_split(tensor)[:2] == (30, found.blocks * block)
        tensor.shape = (0, 40, 2, 5)
        assert maps_of(tensor, "images") is None


def test_sums_over_a_batch_are_float32_wherever_the_chip_adds_it() -> None:
    with_full = LowerContext("c220", intrinsics={"vadd": ("float16", "float32")})
    without = LowerContext("v100", intrinsics={"vadd": ("float16",)})
    assert summing_type(DType.FLOAT16, with_full) is DType.FLOAT32
    assert summing_type(DType.FLOAT16, without) is DType.FLOAT16


FACTOR = (
    "vadds",
    "vsqrt",
    "vdiv",
    "vmul",
    "vsub",
)  # of a channel: epsilon, root, scale / root, mean of it, offset


@pytest.mark.parametrize("training", [0, 1])
@pytest.mark.parametrize(("shape", "over"), [(SHAPE, "row"), ((12, 6), "col")])
def test_batch_normalisation(shape: tuple[int, ...], over: str, training: int) -> None:
    """A factor and an offset a channel, a product and a sum an element; in training two sums more, of x and
    of its square."""
    given = [ones(*shape), *[ones(6)] * 4]
    outputs = 3 if training else 1
    work = lowered("BatchNormalization", *given, outputs=outputs, training_mode=training)
    check_bytes(work, given, [given[0].nbytes, 24, 24][:outputs])
    adds = "vadd" if over == "col" else "vcadd"
    wanted = {(name, over): 1 for name in FACTOR} | {("vmul", "all"): 1, ("vadd", "all"): 1}
    assert counts(work) == (more(wanted, adds, adds, "vmul") if training else wanted)
    assert [stream.over for stream in work.inputs] == ["all", *[over] * 4]
    assert [stream.over for stream in work.outputs] == ["all", over, over][:outputs]
    reduces = {"row": "cols", "col": "rows"}[over]
    assert (work.reduces, work.sweeps) == ((reduces, 2) if training else ("none", 1))


# ---- one value a row


@pytest.mark.parametrize("axis", [1, 2, 3, -1, -2])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("kind", [HALF, FULL])
def test_layer_normalisation(kind: Any, biased: bool, axis: int) -> None:
    inner = SHAPE[axis:]
    given = [ones(*SHAPE, kind=kind), *[ones(*inner, kind=kind)] * (1 + biased)]
    work = lowered("LayerNormalization", *given, axis=axis)
    check_bytes(work, given, [given[0].nbytes])
    assert (work.rows, work.cols) == (240 // math.prod(inner), math.prod(inner))
    tail = ["vmul", "vadd"][: 1 + biased] + ["vconv"] * (2 if kind is HALF else 0)
    assert counts(work) == more(CENTRED, *tail)
    assert {step.dtype for step in work.steps} == {DType.FLOAT32}
    assert [stream.over for stream in work.inputs] == ["all", *["col"] * (1 + biased)]
    assert (work.reduces, work.sweeps, work.in_turn) == ("cols", 3, False)
    assert work.cores != "shares"  # that is the kernel of root mean squares
    assert lowered("LayerNormalization", *given, axis=axis, rows_in_turn=True).in_turn


def test_mean_and_deviation_are_a_number_a_row() -> None:
    given = [ones(2, 3, 8), ones(8), ones(8)]
    work = lowered("LayerNormalization", *given, outputs=3)
    check_bytes(work, given, [given[0].nbytes, 24, 24])
    assert [stream.over for stream in work.outputs] == ["all", "row", "row"]
    single = lowered("LayerNormalization", given[0], ones(1))
    assert [stream.over for stream in single.inputs] == ["all", "one"]


@pytest.mark.parametrize("cols", [8, 12, 1999, 2000, 2001, 4096])
@pytest.mark.parametrize("kind", [HALF, FULL])
@pytest.mark.parametrize("name", ["RMSNormalization", "RmsNorm"])
def test_long_rows_of_root_mean_squares_go_one_by_one(name: str, kind: Any, cols: int) -> None:
    """With a number in a register for the reciprocal; short ones are padded where they fill no blocks."""
    given = [ones(6, cols, kind=kind), ones(cols, kind=kind)]
    domain = "ascend" if name == "RmsNorm" else ""
    work = lowered(name, *given, domain=domain)
    long = cols > 2000
    assert rows_apart(cols) == long
    assert (work.rows, work.cols, work.cores, work.in_turn, work.overlaps) == (6, cols, "shares", long, long)
    assert work.pads_rows == (not long and cols * np.dtype(kind).itemsize % 32 != 0)
    wanted = more(PLAIN, "vmul", *["vconv"] * (2 if kind is HALF else 0))
    if long:
        wanted = more(wanted, "vmuls")
        wanted["vmul", "all"] -= 1
    assert counts(work) == wanted
    turned = lowered(name, *given, domain=domain, rows_in_turn=True)
    assert turned.in_turn
    assert turned.overlaps
    assert not turned.pads_rows


@pytest.mark.parametrize("groups", [1, 2, 3, 6])
def test_a_row_is_a_group_of_channels(groups: int) -> None:
    given = [ones(*SHAPE), ones(6), ones(6)]
    work = lowered("GroupNormalization", *given, num_groups=groups)
    check_bytes(work, given, [given[0].nbytes])
    assert (work.rows, work.cols) == (2 * groups, 240 // (2 * groups))
    assert counts(work) == more(CENTRED, "vmul", "vadd")
    assert [stream.over for stream in work.inputs] == ["all", "row", "row"]
    if groups == 6:
        each = lowered("InstanceNormalization", *given)
        assert (each.rows, each.cols, each.steps) == (work.rows, work.cols, work.steps)


@pytest.mark.parametrize(
    ("axes", "rows", "run"),
    [((0, 2, 3), 6, 20), ((2, 3), 12, 0), ((1, 2, 3), 2, 0), ((3,), 48, 0), ((0, 1), 20, 1), ((1, 3), 8, 5)],
)
def test_mean_and_variance_over_some_axes_gather_what_is_not_in_one_piece(
    axes: tuple[int, ...], rows: int, run: int
) -> None:
    """A piece is what the last axes hold together, if all of them are normalised."""
    for kind in (HALF, FULL):
        given = ones(*SHAPE, kind=kind)
        work = lowered("MeanVarianceNormalization", given, axes=axes)
        check_bytes(work, [given], [given.nbytes])
        assert (work.rows, work.cols) == (rows, 240 // rows)
        assert work.gather_bytes == run * given.itemsize
        assert counts(work) == more(CENTRED, *["vconv"] * (2 if kind is HALF else 0))
        assert (work.reduces, work.sweeps) == ("cols", 3)


# ---- the others


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_local_response_adds_the_squares_of_its_channels(size: int) -> None:
    """One sum less than there are channels; the power is e^(-beta ln(..))."""
    work = lowered("LRN", ones(*SHAPE), size=size)
    names = ["vmul", *["vadd"] * max(1, size - 1), "vmuls", "vadds", "vln", "vmuls", "vexp", "vmul"]
    assert counts(work) == more({}, *names)
    assert work.rows * work.cols == 240


@pytest.mark.parametrize(("order", "first"), [(1, "vabs"), (2, "vmul")])
def test_the_norm_of_a_row_divides_it(order: int, first: str) -> None:
    last = lowered("LpNormalization", ones(*SHAPE), p=order)
    assert counts(last) == more({}, first, "vcadd", "vdiv")
    assert (last.rows, last.cols, last.reduces, last.sweeps) == (48, 5, "cols", 2)
    across = lowered("LpNormalization", ones(*SHAPE), p=order, axis=0)
    assert counts(across) == more({}, first, "vadd", "vdiv")
    assert (across.rows, across.cols, across.reduces) == (2, 120, "rows")


ALL: list[tuple[str, list[tuple[int, ...]], dict[str, Any]]] = [
    ("BatchNormalization", [(6,)] * 4, {}),
    ("LayerNormalization", [(5,), (5,)], {}),
    ("RMSNormalization", [(5,)], {}),
    ("GroupNormalization", [(6,), (6,)], {"num_groups": 2}),
    ("InstanceNormalization", [(6,), (6,)], {}),
    ("MeanVarianceNormalization", [], {}),
]


@pytest.mark.parametrize(("name", "beside", "attributes"), ALL)
def test_twice_the_images_are_twice_the_bytes_and_doubles_run_on_the_ai_cpu(
    name: str, beside: list[tuple[int, ...]], attributes: dict[str, Any]
) -> None:
    def work(images: int, kind: Any = FULL) -> Any:
        given = [ones(images, *SHAPE[1:], kind=kind), *(ones(*shape, kind=kind) for shape in beside)]
        return lowered(name, *given, **attributes)

    once, twice = work(2), work(4)
    assert twice.rows * twice.cols == 2 * once.rows * once.cols
    assert twice.inputs[0].ref.bytes == 2 * once.inputs[0].ref.bytes
    assert twice.outputs[0].ref.bytes == 2 * once.outputs[0].ref.bytes
    assert [s.ref.bytes for s in twice.inputs[1:]] == [s.ref.bytes for s in once.inputs[1:]]
    assert twice.steps == once.steps
    double = work(2, np.float64)
    assert isinstance(double, AiCpuWork)
    assert (double.elements, double.operations) == (240, 8)
    assert isinstance(work(0), NoTask)


@pytest.mark.parametrize("port", [None, 0, 1, 2])
def test_layer_normalisation_is_written_out_unless_its_mean_or_deviation_is_read(port: int | None) -> None:
    """The formula that takes its place makes neither."""
    graph = Graph()
    inputs = [graph.add_input(name, DType.FLOAT32, shape) for name, shape in (("x", (4, 8)), ("s", (8,)))]
    node = graph.add_node("LayerNormalization", inputs, ["y", "mean", "deviation"])
    opset = default_opset()
    opset.get(node).infer(InferContext(node))
    if port is not None:
        reader = graph.add_node("Relu", [node.outputs[port]], ["z"])
        opset.get(reader).infer(InferContext(reader))
    assert (expand(graph, node, opset) is not None) == (port in (None, 0))
