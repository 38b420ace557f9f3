"""`graph_kernel_flags`, and the expanders that they switch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import InputError
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.composites import body_of
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.models.seed_examples import net_basic_fuse
from ascendsim.ops import default_opset
from ascendsim.ops.shared.common import elementwise_lower, same_as, with_numpy
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.structure import ELEMENTWISE
from ascendsim.passes.graph_kernel import GraphKernelFlags, composites_in, fuse_marked
from ascendsim.passes.graph_kernel.expanders import expandable
from ascendsim.passes.graph_kernel.lists import EXPANDER_RELEASE, RELEASE, operators
from tests.support.evaluate import evaluate

OPSET = default_opset()


def test_levels() -> None:
    assert GraphKernelFlags.of(OPSET, "--opt_level=0").stages == ()
    assert GraphKernelFlags.of(OPSET, "--opt_level=1").stages == ("basic", "composite")
    assert GraphKernelFlags.of(OPSET).stages == ("expander", "basic", "composite")
    assert not GraphKernelFlags.of(OPSET).stitch
    assert GraphKernelFlags.of(OPSET, {"opt_level": 3}).stitch
    assert GraphKernelFlags.of(OPSET, "--opt_level=1 --enable_pass=expander --disable_pass=basic").stages == (
        "expander",
        "composite",
    )


def test_lists_change() -> None:
    default = GraphKernelFlags.of(OPSET)
    assert {"Softmax", "GeLU", "LayerNorm"} <= default.expand
    assert "ReduceMean" not in default.expand  # only MindSpore's GPU list has it
    assert GraphKernelFlags.of(OPSET, "--enable_expand_ops=ReduceMean").expand == default.expand | {
        "ReduceMean"
    }
    assert GraphKernelFlags.of(OPSET, "--enable_expand_ops_only=Softmax,GeLU").expand == {"Softmax", "GeLU"}
    assert GraphKernelFlags.of(OPSET, {"disable_expand_ops": ["Softmax"]}).expand == default.expand - {
        "Softmax"
    }
    assert GraphKernelFlags.of(OPSET, "--enable_cluster_ops=Tanh").basic == default.basic | {"Tanh"}
    assert GraphKernelFlags.of(OPSET, "--disable_cluster_ops=Pow").composite == default.composite - {"Pow"}
    assert GraphKernelFlags.of(OPSET, "--enable_cluster_ops_only=Mul").composite == {"Mul"}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--opt_lvl=2", "'opt_lvl' is no flag; did you mean opt_level"),
        ("--opt_level=4", "must be 0, 1, 2 or 3, not 4"),
        ("--opt_level=high", "must be a whole number"),
        ("opt_level=2", "must be words --flag=value"),
        ("--opt_level=1 --opt_level=2", "each flag once"),
        ("--disable_expand_ops=Sofmax", "operator 'Sofmax' is not known to expand_ops; did you mean Softmax"),
        ("--enable_cluster_ops=Conv2D", "is not known to cluster_ops"),
        (
            "--disable_pass=basics",
            "must be one of expander, basic, composite, not 'basics'; did you mean basic",
        ),
        ("--cluster_limit=0", "must be a positive number"),
        ("--dump_as_text=maybe", "must be true or false"),
        ({"enable_expand_ops": 5}, "must be names joined by commas"),
        (5, "must be text or a mapping, not int"),
    ],
)
def test_errors(flags: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        GraphKernelFlags.of(OPSET, flags)


def test_flags_need_the_flow_and_known_ones_without_effect_are_told() -> None:
    with pytest.raises(InputError, match="graph_kernel_flags needs fusion=\"graph-kernel\", not 'all'"):
        asim.compile(net_basic_fuse(), graph_kernel_flags="--opt_level=1")
    model = asim.compile(
        net_basic_fuse(), fusion="graph-kernel", graph_kernel_flags="--enable_parallel_fusion=true"
    )
    assert model.graph_kernel is not None
    assert model.graph_kernel.warnings == ["graph_kernel_flags: enable_parallel_fusion has no effect here"]


def test_level_0_fuses_nothing_and_text_dumps_are_written(tmp_path: Any) -> None:
    model = asim.compile(net_basic_fuse(), fusion="graph-kernel", graph_kernel_flags="--opt_level=0")
    assert not list(composites_in(model.graph))
    asim.compile(
        net_basic_fuse(),
        fusion="graph-kernel",
        graph_kernel_flags="--dump_as_text=true",
        save_graphs=tmp_path / "dumps",
    )
    text = (tmp_path / "dumps" / "hwopt_d_fuse_basic_opt_end_graph_0.ir").read_text()
    assert "Mul_TensorAdd_" in text


# --- expanders ----------------------------------------------------------------------------------------------

Maker = Callable[[GraphBuilder, Tensor], Tensor]
VECTOR = np.linspace(0.5, 1.5, 96, dtype=np.float32)
CASES: dict[str, Maker] = {
    "Softmax": lambda b, x: b.op("Softmax", x, axis=-1),
    "LogSoftmax": lambda b, x: b.op("LogSoftmax", x, axis=1),
    "SoftmaxGradExt": lambda b, x: b.op("SoftmaxGrad", b.op("Softmax", x, axis=-1), x, domain="ascend"),
    "LayerNorm": lambda b, x: b.op("LayerNormalization", x, b.constant(VECTOR), b.constant(VECTOR), axis=-1),
    "GeLU": lambda b, x: b.op("Gelu", x),
    "Sigmoid": lambda b, x: b.op("Sigmoid", x),
    "ReLU": lambda b, x: b.op("Relu", x),
    "Square": lambda b, x: b.op("Square", x, domain="ascend"),
    "FusedMulAdd": lambda b, x: b.op("FusedMulAdd", x, x, x, domain="ascend"),
    "AddN": lambda b, x: b.op("Sum", x, x, x),
    "ReduceMean": lambda b, x: b.op("ReduceMean", x, [1]),
    "SquareSumV1": lambda b, x: b.op("ReduceSumSquare", x, [0, 2], keepdims=0),
}


def example(name: str, dtype: DType) -> Graph:
    b = GraphBuilder(name, infer=lambda node: OPSET.get(node).infer(InferContext(node)))
    x = b.input("x", (3, 20, 96))
    y = CASES[name](b, x)
    b.output(y, "y")
    graph = b.build()
    if dtype is DType.FLOAT16:
        for tensor in graph.tensors.values():
            if tensor.dtype is DType.FLOAT32:
                tensor.dtype = dtype
    return graph


def test_every_expander_has_a_case() -> None:
    assert set(CASES) == expandable(OPSET)


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.FLOAT16], ids=["float32", "float16"])
@pytest.mark.parametrize("name", CASES)
def test_expanded_values_are_those_of_the_operator(name: str, dtype: DType) -> None:
    graph = example(name, dtype)
    result, _ = fuse_marked(
        graph,
        OPSET,
        GraphKernelFlags.of(OPSET, f"--enable_expand_ops_only={name} --disable_pass=basic,composite"),
    )
    (composite,) = composites_in(result)
    assert composite.name.startswith(name)
    assert len(body_of(composite).nodes) >= 1
    x = np.random.default_rng(1).standard_normal((3, 20, 96)).astype(np.float32)
    if dtype is DType.FLOAT32:
        before, after = (evaluate(g, OPSET, {"x": x})[0] for g in (graph, result))
        assert np.max(np.abs(before - after)) <= 1e-5 * np.max(np.abs(before))
        return
    before, after = (device_values(g, x.astype(np.float16)) for g in (graph, result))
    assert after.dtype == np.float16
    assert np.max(np.abs(before.astype(np.float64) - after)) <= 2 * np.finfo(np.float16).eps * float(
        np.max(np.abs(before))
    )


def device_values(graph: Graph, x: np.ndarray) -> np.ndarray:
    values = {graph.inputs[0]: x}
    values |= {
        t: t.constant.array().astype(t.element_type.numpy) for t in graph.constants if t.constant is not None
    }
    for node in graph.topological():
        given = [None if t is None else values[t] for t in node.inputs]
        results = OPSET.get(node).compute(node, given, [t.element_type.numpy for t in node.outputs])
        values.update(zip(node.outputs, results, strict=False))
    return values[graph.outputs[0]]


def test_a_node_in_blocks_is_not_expanded_along_its_axis() -> None:
    from ascendsim.core.formats import Format

    graph = example("Softmax", DType.FLOAT16)
    for tensor in graph.tensors.values():
        tensor.format = Format.FRACTAL_NZ
    result, _ = fuse_marked(graph, OPSET, GraphKernelFlags.of(OPSET))
    assert [node.op_type for node in result.nodes] == ["Softmax"]


# On MindSpore's lists, and no operator of this simulator
NOT_HERE = {
    "ReduceAll",
    "InplaceAssign",
    "AssignAdd",
    "Add",  # from v1.3 on; the two stages are of v0.7, where it is TensorAdd
}


def test_operators_go_by_the_names_of_mindspores_lists() -> None:
    listed = {name for kind in ("basic", "composite", "reduce") for name in operators(kind, RELEASE)}
    listed |= {name for kind in ("cluster", "expander") for name in operators(kind, EXPANDER_RELEASE)}
    known = set()
    for definition in OPSET:
        node = Node(definition.name, "n", definition.domain)
        for port in range(2):  # MindSpore's Maximum takes two
            node.set_input(port, Tensor(f"input_{port}"))
        known.add(OPSET.mindspore_type(node))
    assert listed - known == NOT_HERE


def test_an_operator_of_ones_own_brings_its_formula() -> None:
    def cube(node: Node, x: Any) -> Any:
        return x * x * x

    own = OpDef(
        "Cube",
        domain="my.ops",
        infer=same_as(0),
        compute=with_numpy(cube),
        lower=elementwise_lower([("vmul", 2)]),
        layout=Layout.FOLLOW,
        mindspore="CubeOp",
        expand=lambda w: w.op("Mul", w.op("Mul", w(0), w(0)), w(0)),
        facts=ELEMENTWISE,
    )
    b = asim.GraphBuilder(operators=[own])
    x = b.input("x", (16, 96))
    b.output(b.op("Add", b.op("Cube", x, domain="my.ops"), x), "y")
    flags = "--enable_expand_ops=CubeOp"
    model = asim.compile(
        b.build(), "Ascend910A", fusion="graph-kernel", graph_kernel_flags=flags, operators=[own]
    )
    inside = [node.op_type for item in composites_in(model.graph) for node in body_of(item).topological()]
    assert [op_type for op_type in inside if op_type != "Cast"] == ["Mul", "Mul", "Add"]
    with pytest.raises(InputError, match="'CubeOp'.* is not known to expand_ops"):
        asim.compile(net_basic_fuse(), "Ascend910A", fusion="graph-kernel", graph_kernel_flags=flags)
