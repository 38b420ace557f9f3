"""The two stages of graph-kernel fusion: the tutorial's networks, limits, cycles, and where it pays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.composites import body_of, is_composite
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Graph
from ascendsim.graph.verify import verify
from ascendsim.models.seed_examples import net_basic_fuse, net_composite_fuse
from ascendsim.ops import default_opset
from ascendsim.opset import InferContext
from ascendsim.passes.graph_kernel import GraphKernelFlags, composites_in, fuse_marked, mark_graph
from ascendsim.passes.graph_kernel.groups import Groups, Mark, mark_of
from ascendsim.passes.graph_kernel.lists import operators
from ascendsim.passes.graph_kernel.outline import outline

OPSET = default_opset()
SOC = "Ascend910A"


def builder(dtype: DType = DType.FLOAT32) -> GraphBuilder:
    return GraphBuilder("net", infer=lambda node: OPSET.get(node).infer(InferContext(node)), dtype=dtype)


def fused(graph: Graph, flags: str | None = None, oracle: Callable[[Graph], float] | None = None) -> Graph:
    marked = copy_graph(graph)
    checked = GraphKernelFlags.of(OPSET, flags)
    mark_graph(marked, OPSET, checked)
    result, _ = fuse_marked(marked, OPSET, checked, oracle)
    verify(result)
    return result


def bodies(graph: Graph) -> list[list[str]]:
    return [[node.op_type for node in body_of(composite).topological()] for composite in composites_in(graph)]


def outside(graph: Graph) -> list[str]:
    return [node.op_type for node in graph.topological() if not is_composite(node)]


# --- the tutorial -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("net", "example"), [("basic", net_basic_fuse), ("composite", net_composite_fuse)])
def test_the_dumps_of_the_tutorial(
    net: str, example: Callable[[], Graph], tmp_path: Path, golden: Callable[[str, str], None]
) -> None:
    asim.compile(example(), soc=SOC, fusion="graph-kernel", save_graphs=tmp_path)
    names = ("6_validate", "hwopt_d_fuse_basic_opt_end_graph_0", "hwopt_d_composite_opt_end_graph_0")
    texts = [(tmp_path / f"{name}.dot").read_text() for name in names]
    golden(
        f"graph_kernel/net_{net}_fuse.dot",
        "".join(f"// {name}.dot\n{text}" for name, text in zip(names, texts, strict=True)),
    )


def test_true_saves_graphs_in_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MindSpore's `context.set_context(save_graphs=True)`; False and None write nothing."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for nothing in (False, None):
        asim.compile(net_basic_fuse(), soc=SOC, fusion="graph-kernel", save_graphs=nothing)
        assert list(tmp_path.rglob("*.dot")) == []
    asim.compile(net_basic_fuse(), soc=SOC, fusion="graph-kernel", save_graphs=True)
    asim.compile(net_basic_fuse(), soc=SOC, fusion="graph-kernel", save_graphs=tmp_path / "named")
    here, named = ({path.name: path.read_text() for path in Path(at).iterdir()} for at in (".", "../named"))
    assert here == named
    assert "6_validate.dot" in here


def test_net_basic_fuse_is_one_composite() -> None:
    model = asim.compile(
        net_basic_fuse(), soc=SOC, fusion="graph-kernel", precision_mode="must_keep_origin_dtype"
    )
    assert [node.name for node in model.graph.nodes] == ["Mul_TensorAdd_"]
    assert bodies(model.graph) == [["Mul", "Add"]]
    assert len(model.program.tasks) == 1


def test_pow_joins_in_the_composite_stage() -> None:
    only_basic = fused(net_composite_fuse(), "--disable_pass=composite")
    assert bodies(only_basic) == [["Mul", "Add"]]
    assert outside(only_basic) == ["Pow"]
    both = fused(net_composite_fuse())
    assert bodies(both) == [["Mul", "Add", "Pow"]]
    assert not outside(both)


@pytest.mark.parametrize("values", ["device", "float32"])
@pytest.mark.parametrize("mode", ["force_fp16", "must_keep_origin_dtype"])
def test_values_of_the_tutorial(mode: str, values: str) -> None:
    x = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
    results = [
        asim.run(
            asim.compile(net_composite_fuse(), soc=SOC, fusion=fusion, precision_mode=mode),
            {"x": x},
            values=values,
        ).outputs["y"]
        for fusion in ("off", "graph-kernel")
    ]
    assert np.array_equal(*results)
    if mode != "force_fp16" or values == "float32":
        line = x * np.float32(2) + np.float32(1)
        assert np.array_equal(results[1], line * line * line)


def test_one_task_reads_and_writes_once() -> None:
    graph = net_composite_fuse((512, 512))
    unfused, one = (
        asim.compile(graph, soc=SOC, fusion=f, precision_mode="must_keep_origin_dtype")
        for f in ("off", "graph-kernel")
    )
    size = 512 * 512 * 4
    written = [
        sum(a.moved_bytes for t in model.program.tasks for a in t.accesses if a.write)
        for model in (unfused, one)
    ]
    assert written == [3 * size, size]
    assert asim.simulate(one).duration_us < asim.simulate(unfused).duration_us / 2


# --- rules --------------------------------------------------------------------------------------------------


def test_lists_are_those_of_mindspore_0_7() -> None:
    assert operators("basic") == {"TensorAdd", "Mul", "Sub", "ExpandDims", "Cast"}
    assert operators("composite") - operators("basic") == {
        *("AddN", "Maximum", "Minimum", "Neg", "RealDiv", "Pow", "Sqrt", "Reciprocal", "LessEqual")
    }
    assert operators("reduce") == {"ReduceSum", "ReduceMean", "ReduceMin", "ReduceMax", "ReduceAll"}


def test_one_operator_stays_as_it_is() -> None:
    b = builder()
    b.output(b.op("Relu", b.op("Mul", b.input("x", (8,)), 2.0)), "y")
    assert outside(fused(b.build())) == ["Mul", "Relu"]


def test_a_composite_searches_its_inputs_and_its_users() -> None:
    b = builder()
    x = b.input("x", (8, 8))
    root = b.op("Sqrt", b.op("Max", x, 0.1))
    line = b.op("Sub", b.op("Mul", root, 2.0), 1.0)
    b.output(b.op("Tanh", b.op("Neg", line)), "y")
    assert bodies(fused(b.build())) == [["Max", "Sqrt", "Mul", "Sub", "Neg"]]


def test_a_node_that_would_close_a_cycle_stays_outside() -> None:
    b = builder()
    x = b.input("x", (8, 8))
    first = b.op("Mul", x, 2.0)
    detour = b.op("Tanh", first)  # no list has it
    second = b.op("Add", detour, 1.0)
    b.output(b.op("Sub", b.op("Mul", second, first), x), "y")
    graph = fused(b.build())
    assert bodies(graph) == [["Add", "Mul", "Sub"]]
    assert outside(graph) == ["Mul", "Tanh"]
    graph.topological()


def test_what_lies_between_is_taken_in_before_what_lies_behind() -> None:
    b = builder()
    x = b.input("x", (8, 8))
    first = b.op("Mul", x, 2.0)
    b.output(b.op("Sub", b.op("Add", first, 1.0), first), "y")
    assert bodies(fused(b.build())) == [["Mul", "Add", "Sub"]]


def chain_with_reductions(reductions: int, extra: int) -> Graph:
    """A marked composite {reductions, extra Abs} with Neg behind it."""
    b = builder()
    x = b.input("x", (8, 8))
    members = [x]
    for number in range(reductions):
        members.append(b.op("ReduceSum", members[-1], [number], name=f"member{number}"))
    for number in range(extra):
        members.append(b.op("Abs", members[-1], name=f"member{reductions + number}"))
    b.output(
        b.op(
            "Neg",
            b.op("Cast", b.op("Neg", members[-1], name="neg1"), to=DType.FLOAT16, name="cast"),
            name="neg2",
        ),
        "y",
    )
    graph = b.build()
    for node in graph.nodes:
        if node.name.startswith("member"):
            node.origin["graph_kernel"] = Mark(1, "Given")
    return graph


@pytest.mark.parametrize(
    ("reductions", "extra", "grows"),
    [(1, 2, True), (1, 3, True), (1, 4, False), (2, 0, False), (0, 5, True)],
    ids=["1 of 3 steps", "1 of 4 steps", "1 of 5 steps", "2 reductions", "no reduction"],
)
def test_composites_with_reductions_stop_growing(reductions: int, extra: int, grows: bool) -> None:
    graph = fused(chain_with_reductions(reductions, extra))
    assert ("Neg" in bodies(graph)[0]) is grows
    stitched = fused(chain_with_reductions(reductions, extra), "--enable_stitch_fusion=true")
    assert bodies(stitched)[0].count("Neg") == 2


def test_cast_joins_even_a_saturated_composite_once_kernels_are_selected() -> None:
    b = builder()
    x = b.input("x", (8, 8))
    total = b.op("ReduceSum", b.op("ReduceMax", x, [0], name="a"), [1], name="b")
    b.output(b.op("Neg", b.op("Cast", total, to=DType.FLOAT16)), "y")
    graph = b.build()
    for name in "ab":
        graph.node(name).origin["graph_kernel"] = Mark(1, "Given")
    assert bodies(fused(graph)) == [["ReduceMax", "ReduceSum", "Cast"]]


@pytest.mark.parametrize("name", ["LambNextMV", "LambNextMV_", "ApplyMomentum"])
def test_some_composites_never_grow(name: str) -> None:
    graph = chain_with_reductions(0, 3)
    for node in graph.nodes:
        if mark_of(node):
            node.origin["graph_kernel"] = Mark(1, name)
    assert bodies(fused(graph)) == [["Abs"] * 3]


def test_a_composite_does_not_absorb_another() -> None:
    graph = chain_with_reductions(0, 3)
    for name in ("neg1", "cast"):
        graph.node(name).origin["graph_kernel"] = Mark(2, "LambNextMV")
    assert sorted(map(len, bodies(fused(graph)))) == [2, 3]


def test_integers_of_64_bits_and_shapes_stay_outside() -> None:
    b = builder()
    x = b.input("x", (8,), DType.INT64)
    b.output(b.op("Add", b.op("Mul", x, x), x), "y")
    assert bodies(fused(b.build())) == []


def test_a_limit_on_the_operators_of_a_composite() -> None:
    assert bodies(fused(net_composite_fuse(), "--cluster_limit=2")) == [["Mul", "Add"]]


# --- what precision and layout put in between ---------------------------------------------------------------


def test_a_cast_between_members_becomes_one_and_other_nodes_part_them() -> None:
    for op, expected in (("Cast", [["Mul", "Cast", "Add"]]), ("Tanh", [])):
        b = builder()
        first = b.op("Mul", b.input("x", (8,)), 2.0, name="m")
        between = b.op("Cast", first, to=DType.FLOAT16) if op == "Cast" else b.op("Tanh", first)
        b.output(b.op("Add", between, 1.0, name="a"), "y")
        graph = b.build()
        for name in "ma":
            graph.node(name).origin["graph_kernel"] = Mark(1, "Mul_TensorAdd_")
        result, _ = fuse_marked(graph, OPSET, GraphKernelFlags.of(OPSET, "--disable_pass=basic,composite"))
        assert bodies(result) == expected


# --- where it pays ------------------------------------------------------------------------------------------


def test_a_composite_that_does_not_pay_is_given_up() -> None:
    asked: list[int] = []

    def slow_composites(graph: Graph) -> float:
        asked.append(len(graph))
        return 10.0 if any(is_composite(node) for node in graph.nodes) else 1.0

    marked = net_composite_fuse()
    mark_graph(marked, OPSET, GraphKernelFlags.of(OPSET))
    result, report = fuse_marked(marked, OPSET, GraphKernelFlags.of(OPSET), slow_composites)
    assert outside(result) == ["Mul", "Add", "Pow"]
    assert [(record.kept, record.parts_us, record.composite_us) for record in report.records] == [
        (False, 1.0, 10.0)
    ]
    assert asked == [3, 1]


def test_an_operator_that_is_better_whole_is_not_expanded() -> None:
    b = builder()
    x = b.input("x", (64, 128))
    b.output(b.op("Softmax", b.op("Add", b.op("Mul", x, 0.5), 1.0), axis=-1), "y")
    graph = b.build()

    def price(part: Graph) -> float:
        softmax = any("ReduceMax" in [n.op_type for n in body_of(c).nodes] for c in composites_in(part))
        return 9.0 if softmax else float(len(part))

    assert bodies(fused(graph)) == [["Mul", "Add"], ["ReduceMax", "Sub", "Exp", "ReduceSum", "Div"]]
    result = fused(graph, oracle=price)
    assert bodies(result) == [["Mul", "Add"]]
    assert outside(result) == ["Softmax"]


def cast_mul_square(flags: str | None = None, oracle: Callable[[Graph], float] | None = None) -> Graph:
    """A gradient as an update reads it: widened, scaled, and its square; fused on the device, where the Cast
    came from.
    """
    b = builder()
    x = b.input("x", (64, 128), DType.FLOAT16)
    scaled = b.op("Mul", b.op("Cast", x, to=DType.FLOAT32), 0.5)
    b.output(scaled, "scaled")
    b.output(b.op("Square", scaled, domain="ascend"), "square")
    return fuse_marked(b.build(), OPSET, GraphKernelFlags.of(OPSET, flags), oracle)[0]


def test_what_is_expanded_takes_its_neighbours_before_they_join_each_other() -> None:
    assert bodies(cast_mul_square()) == [["Cast", "Mul", "Mul"]]
    alone = cast_mul_square("--disable_expand_ops=Square")
    assert (bodies(alone), outside(alone)) == ([["Cast", "Mul"]], ["Square"])


@pytest.mark.parametrize("square_pays", [True, False])
def test_where_it_does_not_pay_neighbours_join_each_other_first(square_pays: bool) -> None:
    def price(part: Graph) -> float:
        sizes = [len(body_of(item).nodes) for item in composites_in(part)]
        if not sizes:
            return float(len(part))
        return {3: 9.0, 2: 1.0, 1: 0.5 if square_pays else 2.0}[sizes[0]]

    result = cast_mul_square(oracle=price)
    assert bodies(result) == [["Cast", "Mul"], *([["Mul"]] if square_pays else [])]
    assert outside(result) == ([] if square_pays else ["Square"])


def test_what_no_composite_takes_shares_tasks_as_without_them() -> None:
    """MindSpore's UB passes run for every graph, with MindSpore's limits."""
    b = builder()
    x = b.input("x", (256, 256))
    weight = b.constant(np.ones((256, 256), np.float32))
    b.output(b.op("Tanh", b.op("Add", b.op("Mul", x, x), 1.0)), "t")
    b.output(b.op("Relu", b.op("MatMul", x, weight)), "y")
    model = asim.compile(b.build(), soc=SOC, fusion="graph-kernel")
    assert bodies(model.graph)[0][-2:] == ["Mul", "Add"]
    effected = {record.name for record in model.fusion.records if record.family == "ub" and record.effected}
    assert effected == {"MatmulEltwiseFusionPass", "EltwiseFusionPass"}  # no pass of CANN's, Tbe...
    options = {"ub_limits": "documents"}
    others = asim.compile(b.build(), soc=SOC, fusion="graph-kernel", options=options).fusion
    assert any(record.name.startswith("Tbe") and record.effected for record in others.records)


def test_the_price_comes_from_the_simulated_chip_and_names_do_not_matter() -> None:
    from ascendsim.compiler.composites import structure

    first, second = net_composite_fuse(), net_composite_fuse()
    second.rename_tensor(second.inputs[0], "other")
    assert structure(first) == structure(second)
    assert structure(first) != structure(net_composite_fuse((4, 5)))
    model = asim.compile(first, soc=SOC, fusion="graph-kernel")
    assert model.graph_kernel is not None
    (record,) = model.graph_kernel.composites
    assert record.composite_us is not None
    assert record.parts_us is not None
    assert 0 < record.composite_us < record.parts_us
    assert asim.simulate(model).duration_us == pytest.approx(record.composite_us, rel=0.2)


# --- composites as nodes ------------------------------------------------------------------------------------


def test_outlining_keeps_names_order_and_large_constants_outside() -> None:
    b = builder()
    x = b.input("x", (4, 3))
    weight = b.constant(np.arange(3, dtype=np.float32), "w")
    y = b.op("Add", b.op("Mul", x, weight, name="m"), 1.0, name="a")
    b.output(b.op("Tanh", y, name="t"), "z")
    b.output(b.op("Abs", x, name="late"), "l")
    graph = b.build()
    graph.node("late").add_control(graph.node("m"))
    node = outline(graph, [graph.node("m"), graph.node("a")], "Mul_TensorAdd_")
    verify(graph)
    assert [item.name for item in graph.topological()] == ["Mul_TensorAdd_", "t", "late"]
    assert graph.node("late").control == (node,)
    assert [tensor.name for tensor in node.inputs if tensor] == ["x", "w"]
    assert node.origin["source_names"] == ("m", "a")
    assert sum(tensor.is_constant for tensor in graph.tensors.values()) == 1
    again = copy_graph(graph)
    verify(again)
    assert bodies(again) == [["Mul", "Add"]]


def test_groups_see_what_lies_between() -> None:
    graph = net_composite_fuse()
    groups = Groups(graph, OPSET)
    mul, add, power = (graph.node(name) for name in ("mul", "add", "pow"))
    assert groups.between([mul, power]) == {add}
    assert groups.between([mul, add]) == set()
