"""The UB-fusion passes on small graphs: what they fuse, what they leave and why, switches, order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.passes.fusion.switch_file import SwitchFile
from ascendsim.passes.fusion.switches import Switches
from ascendsim.passes.ub import PROFILES, ub_passes
from ascendsim.passes.ub.legality import ScopeProgram, Scopes
from ascendsim.passes.ub.no_task import mark_no_task
from tests.support.fusing import build, random
from tests.support.ub import (
    MAP,
    ROWS,
    Fused,
    conv,
    elementwise,
    matmul,
    one_convolution,
    same_values,
    ub,
    vectors,
)


def test_convolution_and_relu() -> None:
    fused = ub(one_convolution("Relu"))
    assert fused.counts == {"TbeConvCommonRules0FusionPass": (1, 1)}
    assert fused.scopes == [("Conv", "Relu")]
    (scope,) = fused.report.scopes
    assert scope.saved_bytes == 2 * 32 * 12 * 12 * 2, "one write and one read of the map in float16"
    assert scope.operand_bytes == 0
    assert same_values(fused)


def test_convolution_with_sigmoid_gate() -> None:
    def body(b: GraphBuilder) -> Tensor:
        y = conv(b, b.input("x", MAP), 32)
        return b.op("Mul", b.op("Sigmoid", y), y)

    fused = ub(build(body))
    assert fused.counts == {"TbeConvSigmoidMulQuantFusionPass": (1, 1)}
    assert fused.report.scopes[0].saved_bytes == 5 * 32 * 12 * 12 * 2, "two writes, three reads"
    assert same_values(fused)


def test_convolution_with_residual() -> None:
    def body(b: GraphBuilder) -> Tensor:
        x = b.input("x", MAP)
        return b.op("Relu", b.op("Add", conv(b, x, 32), x))

    fused = ub(build(body))
    assert fused.counts == {"TbeConvDoubleInFusionPass": (1, 1)}
    assert fused.scopes == [("Conv", "Add", "Relu")]
    assert same_values(fused)


def test_convolution_relu_and_sum() -> None:
    def body(b: GraphBuilder) -> Tensor:
        x = b.input("x", MAP)
        return b.op("Add", b.op("Relu", conv(b, x, 32)), x)

    fused = ub(build(body))
    assert fused.counts == {"TbeConv2DEltwisePass": (1, 1)}
    assert same_values(fused)


def test_depthwise_convolution() -> None:
    fused = ub(one_convolution("Relu", groups=32))
    assert fused.counts == {"TbeDepthwiseConvElemwiseFusionPass": (1, 1)}
    assert same_values(fused)


def test_depthwise_convolution_and_its_gate() -> None:
    def body(b: GraphBuilder) -> Tensor:
        y = conv(b, b.input("x", MAP), 32, groups=32)
        return b.op("Mul", y, b.op("Sigmoid", y))

    fused = ub(build(body))
    assert fused.counts == {"TbeDepthwiseConvElemwiseFusionPass": (1, 1)}
    assert fused.scopes == [("Conv", "Sigmoid", "Mul")]
    assert same_values(fused)


def test_operator_with_readers_outside_is_stored_once() -> None:
    def body(b: GraphBuilder) -> list[Tensor]:
        y = b.op("Relu", conv(b, b.input("x", MAP), 32))
        return [b.op("Softmax", y, axis=1), b.op("Exp", y)]

    fused = ub(build(body), "Ascend310P3")
    assert fused.counts["TbeConvCommonRules2FusionPass"] == (1, 1)
    assert fused.scopes[0] == ("Conv", "Relu", "Exp")
    (task,) = fused.fused_tasks
    written = {access.region: access.moved_bytes for access in task.accesses if access.write}
    assert len(written) == 2
    assert set(written.values()) == {32 * 12 * 12 * 2}
    assert fused.report.scopes[0].saved_bytes == 3 * 32 * 12 * 12 * 2, (
        "the map between is written, but no longer read"
    )
    assert same_values(fused)


def test_transposed_convolution() -> None:
    fused = ub(
        build(
            lambda b: b.op(
                "Relu", b.op("ConvTranspose", b.input("x", MAP), random(32, 16, 2, 2), strides=(2, 2))
            )
        )
    )
    assert fused.counts == {"TbeDxElemwisePass": (1, 1)}
    assert same_values(fused)


def test_matrix_product_and_activation() -> None:
    fused = ub(build(lambda b: b.op("Tanh", matmul(b, b.input("x", ROWS, "float16"), 80))))
    assert fused.counts == {"TbeFullyconnectionElemwiseDequantFusionPass": (1, 1)}
    fused = ub(build(lambda b: b.op("Exp", matmul(b, b.input("x", ROWS, "float16"), 80))))
    assert fused.counts == {"ATbeMatmulElemwiseFusionPass": (1, 1)}, (
        "Exp is not on the list of the pass before"
    )
    assert same_values(fused)


def test_matrix_product_and_vector_a_column() -> None:
    fused = ub(build(lambda b: b.op("Add", matmul(b, b.input("x", ROWS, "float16"), 80), random(80))))
    assert fused.scopes == [("MatMul", "Add")]
    assert same_values(fused)


def test_batched_product_takes_two_operators() -> None:
    def body(b: GraphBuilder) -> Tensor:
        product = b.op("MatMul", b.input("x", (4, 32, 48)), b.input("y", (4, 48, 32)))
        return b.op("Exp", b.op("Abs", b.op("Neg", product)))

    fused = ub(build(body))
    assert fused.counts == {"TbeBatchMatmulElementWiseFusionPass": (1, 1)}
    assert fused.scopes == [("MatMul", "Neg", "Abs")]
    assert same_values(fused)


@pytest.mark.parametrize("chip", ["Ascend310P3", "Ascend910A"])
@pytest.mark.parametrize("behind", ["Gelu", "Relu"])
def test_what_shares_a_task_with_a_batched_product_and_its_bias(behind: str, chip: str) -> None:
    """Where the bias is an operator of its own there is room for one more, of few types."""

    def body(b: GraphBuilder) -> Tensor:
        x, weights, bias = b.input("x", (4, 32, 48), "float16"), random(48, 32), random(32)
        product = b.op("BatchMatMul", x, weights, bias, domain="ascend", adj_x1=0, adj_x2=0)
        return b.op(behind, product)

    fused = ub(build(body), chip)
    alone = chip == "Ascend310P3" and behind == "Gelu"
    assert fused.scopes == ([] if alone else [("BatchMatMul", behind)])
    assert any("Gelu has a task of its own" in reason for reason in fused.reasons) == alone
    assert same_values(fused)


def test_a_batched_product_without_bias_takes_gelu() -> None:
    fused = ub(
        build(lambda b: b.op("Gelu", b.op("MatMul", b.input("x", (4, 32, 48), "float16"), random(48, 32))))
    )
    assert fused.scopes == [("MatMul", "Gelu")]


def test_reduction_with_operators_on_both_sides() -> None:
    def body(b: GraphBuilder) -> Tensor:
        x = b.op("Abs", b.op("Exp", b.input("x", ROWS, "float16")))
        return b.op("Sqrt", b.op("ReduceMean", x, np.array([1])))

    fused = ub(build(body))
    assert fused.counts == {"TbeReduceElemwiseFusionPass": (1, 1)}
    assert fused.scopes == [("Exp", "Abs", "ReduceMean", "Sqrt")]
    assert same_values(fused)


def test_reductions_of_caffe_are_left() -> None:
    def graph(framework: str) -> Graph:
        made = build(lambda b: b.op("Sqrt", b.op("ReduceMean", b.input("x", ROWS, "float16"), np.array([1]))))
        for node in made.nodes:
            node.origin["framework"] = framework
        return made

    assert ub(graph("tensorflow")).counts == {"TbeReduceElemwiseFusionPass": (1, 1)}
    left = ub(graph("caffe"))
    assert left.scopes == []
    assert left.reasons == ["a reduction of Caffe cannot be fused (one of TensorFlow can)"]


def test_head_of_several_outputs() -> None:
    def body(b: GraphBuilder) -> list[Tensor]:
        y = b.op("Exp", b.input("x", ROWS, "float16"))
        return [b.op("Tanh", y), b.op("Softmax", y)]

    fused = ub(build(body))
    assert fused.counts["TbeMultiOutputFusionPass"] == (1, 1)
    assert same_values(fused)


def test_automatic_pass_takes_what_is_no_chain() -> None:
    def body(b: GraphBuilder) -> Tensor:
        x, y = b.input("x", ROWS, "float16"), b.input("y", ROWS, "float16")
        left, right = b.op("Exp", x), b.op("Abs", y)
        both = b.op("Add", left, right)
        return b.op("Add", b.op("Mul", both, left), b.op("Sub", both, right))

    switches = Switches(option={"TbeEltwiseFusionPass": False, "TbeMultiOutputFusionPass": False})
    fused = ub(build(body), switches=switches)
    assert fused.counts == {"AutomaticUbFusion": (1, 1)}
    assert len(fused.scopes[0]) >= 6
    assert same_values(fused)
    assert fused.report.switched_off == {
        "TbeEltwiseFusionPass": "--optimization_switch",
        "TbeMultiOutputFusionPass": "--optimization_switch",
        "TbeConvDequantSigmoidMulAddFusionPass": "off by default in CANN's configuration",
        "TbeCommonRules0FusionPass": "off by default in CANN's configuration",
    }
    assert ub(build(body), "Ascend310", switches=switches).scopes == [], (
        "the tuning guide of Ascend 310 knows no such pass"
    )


def test_automatic_pass_keeps_its_bounds() -> None:
    def body(b: GraphBuilder) -> list[Tensor]:
        y = b.op("Exp", b.input("x", ROWS, "float16"))
        return [b.op(op_type, y) for op_type in ("Abs", "Neg", "Sqrt", "Tanh", "Sigmoid", "Relu", "Floor")]

    switches = Switches(option={"TbeEltwiseFusionPass": False, "TbeMultiOutputFusionPass": False})
    assert ub(build(body), switches=switches).scopes == [], "seven readers"
    fused = ub(vectors(*["Abs", "Neg"] * 10), changes={"automatic": 6}, switches=switches)
    assert max(len(scope) for scope in fused.scopes) == 6
    assert same_values(fused)


def test_no_circle_through_a_node_outside() -> None:
    def body(b: GraphBuilder) -> Tensor:
        y = b.op("Exp", b.input("x", ROWS, "float16"))
        return b.op("Add", y, b.op("Softmax", y))

    fused = ub(build(body))
    assert fused.scopes == []
    assert any(reason.startswith("a node outside lies between its nodes") for reason in fused.reasons)


def test_split_along_the_outermost_axis_runs_no_task() -> None:
    def body(b: GraphBuilder, axis: int) -> list[Tensor]:
        x = b.op("Softmax", b.input("x", (4, 64), "float16"))
        return [
            b.op("Softmax", part)
            for part in b.ops(
                "Split", x, np.array([2, 2]) if axis == 0 else np.array([32, 32]), outputs=2, axis=axis
            )
        ]

    fused = ub(build(lambda b: body(b, 0)))
    assert fused.counts == {"FusionVirtualOpSetSwitch": (1, 1)}
    assert not fused.after.tasks_of("Split")
    assert same_values(fused)
    assert ub(build(lambda b: body(b, 1))).counts == {}, "columns of several rows do not lie in one piece"
    off = Switches(file=SwitchFile(switches={"ub": {"FusionVirtualOpSetSwitch": False}}))
    assert ub(build(lambda b: body(b, 0)), switches=off).counts == {}


def test_split_that_keeps_its_task() -> None:
    def graph(parts: tuple[int, int], width: int, inside: bool) -> Graph:
        def body(b: GraphBuilder) -> list[Tensor]:
            x = b.op("Softmax", b.input("x", (4, width), "float16"))
            cut = b.ops("Split", x, np.array(parts), outputs=2, axis=0)
            return [b.op("Softmax", part) if inside else part for part in cut]

        return build(body)

    assert ub(graph((3, 1), 64, True)).reasons == []
    assert ub(graph((3, 1), 64, False)).reasons == ["an output of the graph needs memory of its own"]
    assert ub(graph((3, 1), 5, True)).reasons == ["a part does not fill whole 32 B blocks"]


def test_split_of_channels_between_blocks_runs_no_task() -> None:
    def body(b: GraphBuilder) -> list[Tensor]:
        weights = np.random.default_rng(0).standard_normal((48, 16, 1, 1)).astype(np.float16)
        x = b.op("Conv", b.input("x", (1, 16, 8, 8), "float16"), b.constant(weights))
        return [b.op("Relu", part) for part in b.ops("Split", x, np.array([16, 32]), outputs=2, axis=1)]

    fused = ub(build(body))
    (split,) = [node for node in fused.after.graph.nodes if node.op_type == "Split"]
    assert split.required(0).format is Format.NC1HWC0
    assert not fused.after.tasks_of("Split")
    assert same_values(fused)


@pytest.mark.parametrize(
    ("format", "shape", "axis", "parts", "free"),
    [
        (Format.NC1HWC0, (4, 32, 2, 8), 0, (1, 3), True),
        (Format.NC1HWC0, (1, 48, 2, 8), 1, (16, 32), True),
        (Format.NC1HWC0, (1, 40, 2, 8), 1, (16, 24), True),  # the last part alone may end inside a block
        (Format.NC1HWC0, (1, 40, 2, 8), 1, (24, 16), False),
        (Format.FRACTAL_NZ, (4, 32, 16), 0, (1, 3), True),
        (Format.FRACTAL_NZ, (32, 16), 0, (16, 16), False),  # columns of blocks come first
        (Format.FRACTAL_NZ, (1, 32, 16), 1, (16, 16), False),
        (Format.ND, (1, 32, 16), 1, (8, 24), True),
        (Format.ND, (2, 32, 16), 1, (8, 24), None),  # not along the outermost axis
        (Format.ND, (2, 32, 16), -3, (1, 1), True),
    ],
)
def test_which_formats_store_parts_in_one_piece(
    format: Format, shape: tuple[int, ...], axis: int, parts: tuple[int, ...], free: bool | None
) -> None:
    graph = Graph()
    x = graph.add_node("Relu", [graph.add_input("x", DType.FLOAT16, shape)], ["made"]).output
    split = graph.add_node("Split", [x], 2, axis=axis)
    for tensor, size in zip(split.outputs, parts, strict=True):
        tensor.shape = tuple(size if place == axis % len(shape) else dim for place, dim in enumerate(shape))
    x.shape = shape
    for tensor in (x, *split.outputs):
        tensor.dtype, tensor.format = DType.FLOAT16, format
    for number, tensor in enumerate(split.outputs):
        graph.outputs.append(graph.add_node("Neg", [tensor], [f"y{number}"]).output)
    record = mark_no_task(graph)
    assert (record.matched, record.effected) == ((0, 0) if free is None else (1, int(free)))
    assert bool(split.attr("no_task", 0)) is bool(free)
    if free is False:
        assert [refusal.reason for refusal in record.refusals] == [
            f"its parts are no pieces of memory in {format.value}"
        ]


def test_split_cores_fuse_only_what_fixpipe_does() -> None:
    fused = ub(one_convolution("Relu"), "Ascend910B1")
    assert fused.scopes == [("Conv", "Relu")]
    assert same_values(fused)
    left = ub(one_convolution("Sigmoid"), "Ascend910B1")
    assert left.counts == {"TbeConvCommonRules0FusionPass": (1, 0)}
    assert "takes only what FIXPIPE does on its way" in left.reasons[0]


def test_switches() -> None:
    graph = one_convolution("Relu")
    off = Switches(file=SwitchFile(switches={"ub": {"ALL": False}}))
    assert ub(graph, switches=off).counts == {"TbeConvCommonRules0FusionPass": (1, 1)}, "forbidden to close"
    residual = build(lambda b: b.op("Relu", b.op("Add", conv(b, b.input("x", MAP), 32), b.input("y", MAP))))
    fused = ub(residual, switches=off)
    assert fused.scopes == []
    assert fused.report.switched_off["TbeConvDoubleInFusionPass"] == "ALL in the switch file"
    gate = Switches(option={"TbeConvDequantSigmoidMulAddFusionPass": True})

    def body(b: GraphBuilder) -> Tensor:
        x = b.input("x", MAP)
        y = conv(b, x, 32)
        return b.op("Add", b.op("Mul", b.op("Sigmoid", y), y), x)

    assert ub(build(body)).scopes == [("Conv", "Sigmoid", "Mul")]
    joined = ub(build(body), switches=gate)
    assert joined.scopes == [("Conv", "Sigmoid", "Mul", "Add")]
    assert same_values(joined)


def test_order_is_main_unlisted_down_and_automatic_last() -> None:
    names = ub_passes(PROFILES["documents"], Switches())
    assert names[0] == "TbeAippCommonFusionPass"  # what it makes is a convolution for all others
    assert names[1] == "TbeFullyconnectionElemwiseDequantFusionPass"  # Main, 4175
    assert (
        names.index("ATbeMatmulElemwiseFusionPass")
        < names.index("BNUpdateEltwiseFusionPass")
        < names.index("TbeConv2DEltwisePass")
    )
    assert (
        names.index("TbeConvSigmoidMulQuantFusionPass")
        < names.index("TbeConvCommonRules0FusionPass")
        < names.index("TbeEltwiseFusionPass")
    )
    assert names[-3:] == ("AutomaticUbFusion", "QuantisedUbFusion", "FusionVirtualOpSetSwitch")
    earlier = Switches(file=SwitchFile(priorities={"ub": {"TbeEltwiseFusionPass": 1}}))
    assert ub_passes(PROFILES["documents"], earlier)[1] == "TbeEltwiseFusionPass"


def test_mindspore_runs_its_own_passes_in_its_own_order() -> None:
    names = ub_passes(PROFILES["MindSpore"], Switches())
    assert names[:2] == ("Conv2DBackpropEltwiseEltwiseFusionPass", "Conv2DBackpropEltwiseFusionPass")
    assert names[-2:] == ("DepthwiseConvEltwiseFusionPass", "MatmulConfusionTranposeFusionPass")

    def body(b: GraphBuilder) -> list[Tensor]:
        x, v = b.input("x", MAP), b.input("v", ROWS, "float16")
        single = elementwise(b, conv(b, x, 32), "Relu", "Exp", "Abs", "Neg")
        double = b.op("Relu", b.op("Add", conv(b, x, 32), x))
        reduced = b.op("Sqrt", b.op("ReduceMean", elementwise(b, v, "Exp", "Abs"), np.array([1])))
        product = b.op("Tanh", matmul(b, v, 32))
        return [single, double, reduced, product]

    fused = ub(build(body), profile="MindSpore")
    assert fused.counts == {
        "ConvSingleInFusionPass": (1, 1),
        "ConvDoubleInFusionPass": (1, 1),
        "ReduceEltwiseFusionPass": (1, 1),
        "MatmulEltwiseFusionPass": (1, 1),
    }
    assert ("Conv", "Relu", "Exp", "Abs") in fused.scopes, "at most three elementwise operators"
    assert same_values(fused)


def test_mindspore_multi_output_has_four_nodes() -> None:
    def body(b: GraphBuilder) -> list[Tensor]:
        third = elementwise(b, b.input("x", ROWS, "float16"), "Exp", "Abs", "Neg")
        return [b.op("Tanh", third), b.op("Softmax", third)]

    fused = ub(build(body), profile="MindSpore")
    assert fused.counts == {"MultiOutputFusionPass": (1, 1)}
    assert fused.scopes == [("Exp", "Abs", "Neg", "Tanh")]
    assert same_values(fused)


def test_quantised_chain() -> None:
    def body(b: GraphBuilder) -> Tensor:
        y = b.op("Relu", b.input("x", ROWS, "float16"))
        return b.op("QuantizeLinear", y, np.array(0.05, np.float16), np.array(0, np.int8))

    fused = ub(build(body))
    assert fused.counts == {"TbeEltwiseQuantFusionPass": (1, 1)}
    assert same_values(fused)


@pytest.mark.parametrize("chip", ["Ascend310", "Ascend310P3", "Ascend910B1"])
def test_a_pooling_is_quantised_before_it_is_stored(chip: str) -> None:
    def body(b: GraphBuilder, pool: str) -> Tensor:
        y = b.op(pool, b.input("x", (2, 32, 14, 14), "float16"), kernel_shape=(3, 3), strides=(2, 2))
        return b.op("AscendQuant", y, domain="ascend", scale=16.0, offset=3.0)

    for pool in ("MaxPool", "AveragePool"):
        fused = ub(build(lambda b, pool=pool: body(b, pool)), chip)  # type: ignore[misc]
        assert fused.scopes == [(pool, "AscendQuant")]
        assert fused.counts["TbePool2dQuantFusionPass"] == (1, 1)
        assert same_values(fused)


@pytest.mark.parametrize(("columns", "joined"), [(1024, True), (1008, False)])
@pytest.mark.parametrize("scales", [1, 0])
def test_an_int8_product_is_scaled_on_its_way_out(columns: int, joined: bool, scales: int) -> None:
    """Where its columns fill the blocks of int8, the product keeps its format from the quantisation on."""

    def body(b: GraphBuilder) -> Tensor:
        x = b.op("AscendQuant", b.input("x", (40, 64), "float16"), domain="ascend", scale=16.0, offset=0.0)
        weight = np.random.default_rng(0).integers(-9, 9, (64, columns)).astype(np.int8)
        scale = random(scales or columns, positive=True) / 100
        return b.op(
            "AscendDequant",
            b.op("MatMulInteger", x, weight),
            scale.astype(np.float32),
            domain="ascend",
            dtype=DType.FLOAT16,
        )

    fused = ub(build(body), "Ascend310P3")
    assert fused.scopes == ([("MatMulInteger", "AscendDequant")] if joined else [])
    assert same_values(fused)


def test_operators_of_the_ai_cpu_are_left() -> None:
    fused: Fused = ub(build(lambda b: b.op("Abs", b.op("Neg", b.input("x", ROWS, "float64")))))
    assert fused.counts == {}


def test_scopes_of_an_earlier_compilation_do_not_matter() -> None:
    graph = one_convolution("Relu")
    for node in graph.nodes:
        node.origin["scope"] = 7
    assert ub(graph).scopes == [("Conv", "Relu")]
    model = asim.compile(graph, soc="Ascend310", fusion="ub")
    again = asim.compile(model.graph, soc="Ascend310", fusion="graph")
    assert all(len(task.nodes) == 1 for task in again.program.tasks)


def test_a_circle_through_a_scope_that_ends_behind_the_nodes() -> None:
    """What stands behind all nodes leads back to them if it runs together with something before them."""
    b = GraphBuilder()
    x = b.input("x", ROWS, "float16")
    early, first = b.op("Exp", x), b.op("Abs", x)
    last = b.op("Add", first, early)
    late = b.op("Neg", first)
    behind = b.op("Exp", late)
    for number, tensor in enumerate((last, behind)):
        b.output(tensor, f"y{number}")
    graph = b.build()
    makers = [tensor.producer for tensor in (early, first, last, late, behind)]
    nodes = [node for node in makers if node is not None]
    assert graph.topological() == nodes
    scopes = Scopes(graph, NoPrograms())
    assert scopes.circle([nodes[1], nodes[2]]) is None
    scopes.join([nodes[3], nodes[4]])
    assert scopes.circle([nodes[1], nodes[2]]) is None
    scopes.join([nodes[0], nodes[3], nodes[4]], 0)
    assert (
        scopes.circle([nodes[1], nodes[2]]) == f"a node outside lies between its nodes and {nodes[2].name!r}"
    )


class NoPrograms:
    """Takes every node, and makes no program."""

    def fusible(self, node: Node) -> bool:
        return True

    def lower(self, nodes: Sequence[Node]) -> ScopeProgram:
        raise AssertionError
