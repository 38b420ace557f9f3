"""Ways to cut a composite into phases: each is complete, reads only what is there, and the quickest is taken
and kept."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import ascendsim as asim
from ascendsim.core.errors import CompileError
from ascendsim.graph.composites import body_of
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.isa.program import TaskKind
from ascendsim.lower.engine import work_of
from ascendsim.lower.program import Lowering, LowerOptions, lower_graph
from ascendsim.lower.templates.stage import Stage
from ascendsim.lower.tiling_search import TILING, TilingSearch
from ascendsim.ops import default_opset
from ascendsim.ops.fused.composite_body import Body
from ascendsim.ops.fused.composite_plans import Plan, independent, plans_of, stores
from ascendsim.ops.fused.composite_work import shared_scratch
from ascendsim.opset.work import LowerContext, Ref, SequenceWork, Stream, VectorWork, WorkChoice
from ascendsim.soc import load
from tests.support.gate import case
from tests.support.lowering import matmul, ref
from tests.support.random_composites import FAMILIES, CompositeWriter, random_composite

CONTEXT = LowerContext()
SCALE = 1 << 14


def composite(record: object, soc: str = "Ascend910A", **options: object) -> asim.CompiledModel:
    graph = asim.load(json.dumps(record).encode())
    return asim.compile(
        graph, soc=soc, fusion="graph-kernel", precision_mode="must_keep_origin_dtype", **options
    )  # type: ignore[arg-type]


def body_graph(record: object) -> tuple[Node, Graph]:
    (node,) = composite(record, options={"tiling": "closed_form"}).graph.nodes
    return node, body_of(node)


def body(record: object) -> Body:
    node, graph = body_graph(record)
    outer = {
        inner: Ref.of(tensor)
        for inner, tensor in zip(graph.inputs, node.inputs, strict=True)
        if tensor is not None
    }
    outer.update((inner, Ref.of(tensor)) for inner, tensor in zip(graph.outputs, node.outputs, strict=True))
    return Body(graph, outer, default_opset(), CONTEXT)


DRAWN = [
    case(family, seed, quick=seed < 1)
    for family in FAMILIES
    for seed in range(4)
    if family != "reshape_and_add"
]


def regions(body: Body, plan: Plan) -> dict[Tensor, str]:
    """Where a plan keeps each tensor that it stores."""
    names = shared_scratch(body, plan)
    return {
        body.root(tensor): names.get(body.ref(tensor).region, body.ref(tensor).region)
        for number in range(len(plan))
        for tensor in stores(body, plan, number)
    }


@pytest.mark.parametrize(("family", "seed"), DRAWN)
def test_every_phase_finds_what_it_reads_where_it_was_stored(family: str, seed: int) -> None:
    a_body = body(random_composite(family, seed, SCALE))
    for plan in plans_of(a_body):
        assert {node for phase in plan for node in phase} == set(a_body.nodes)
        places = regions(a_body, plan)
        memory: dict[str, Tensor] = {a_body.ref(tensor).region: tensor for tensor in a_body.graph.inputs}
        for number, phase in enumerate(plan):
            made: set[Tensor] = set()
            for node in phase:
                for tensor in a_body.reads(node):
                    if not tensor.is_constant and tensor not in made:
                        assert memory[places.get(tensor, a_body.ref(tensor).region)] is tensor
                made.update(node.outputs)
            for tensor in map(a_body.root, stores(a_body, plan, number)):
                assert tensor in made
                memory[places[tensor]] = tensor
        for tensor in a_body.graph.outputs:
            root = a_body.root(tensor)
            assert memory[places.get(root, a_body.ref(root).region)] is root


def test_a_node_is_repeated_where_its_operands_are_smaller_than_its_result() -> None:
    """The casts of float16 come again behind the sum, which costs half of storing and loading what they
    make."""
    w = CompositeWriter()
    x = w.cast(w.input((64, 128), "float16"), "float32")
    mean = w.op("Mul", w.reduce("ReduceSum", x, (0,)), 1 / 64)
    w.output(w.op("Sub", x, mean))
    a_body = body(w.file())
    cast = a_body.nodes[0]
    plans = plans_of(a_body)
    assert any(
        sum(cast in phase for phase in plan) == 2 and not stores_between(a_body, plan, cast) for plan in plans
    )


def stores_between(a_body: Body, plan: Plan, node: Node) -> bool:
    return any(
        tensor is node.output for number in range(len(plan)) for tensor in stores(a_body, plan, number)
    )


def test_parts_without_a_tensor_in_common_can_run_apart() -> None:
    w = CompositeWriter()
    for _ in range(3):
        w.output(w.op("Abs", w.op("Add", w.input((1000,)), 1.0)))
    a_body = body(w.file())
    assert [len(group) for group in independent(a_body)] == [2, 2, 2]
    assert tuple(map(tuple, independent(a_body))) in plans_of(a_body)


def test_a_kernel_may_use_scratch_again_that_nobody_reads_any_more() -> None:
    w = CompositeWriter()
    x = w.input((64, 128))
    for perm in ((1, 0),) * 5:
        x = w.transpose(x, perm)
    w.output(x)
    a_body = body(w.file())
    (plan,) = plans_of(a_body)
    assert len(plan) == 5
    assert len(set(regions(a_body, plan).values())) == 3  # two that take turns, and the output


# --- choice -------------------------------------------------------------------------------------------------


def test_the_quickest_way_is_taken_and_a_saved_model_keeps_it(tmp_path: Path) -> None:
    record = random_composite("norm_gradient", 3)
    node, _ = body_graph(record)
    soc = load("Ascend910A")
    work = work_of(node, default_opset(), LowerContext.of(soc))
    assert isinstance(work, WorkChoice)
    model = composite(record)
    times = [asim.simulate(composite_with(model, way)).duration_us for way in range(len(work.ways))]
    assert times.index(min(times)) == model.program.info.tilings[model.program.tasks[0].name]
    assert asim.simulate(model).duration_us == min(times)
    assert max(times) > 2 * min(times)
    asim.save(model, tmp_path / "model.asim")
    again = asim.load_compiled(tmp_path / "model.asim")
    assert again.program.tasks == model.program.tasks


def composite_with(model: asim.CompiledModel, way: int) -> asim.CompiledModel:
    """The model with another way."""
    graph = copy_graph(model.graph)
    graph.nodes[0].origin[TILING] = way
    return replace(
        model,
        graph=graph,
        program=lower_graph(graph, model.soc, model.opset, options=LowerOptions(known=None)),
    )


class Clock:
    """Times that were agreed on."""

    def __init__(self, times: list[int]) -> None:
        self.times = times

    def __call__(self, _stages: list[Stage]) -> int:
        return self.times.pop(0)


def test_a_way_is_timed_once_and_products_in_it_keep_their_own_tilings() -> None:
    chip = load("Ascend910A")
    soc = replace(chip, kernels=replace(chip.kernels, even_products=""))
    product = matmul(384, 512, 768, soc)  # of which the search times several tilings
    behind = VectorWork(
        1, 384 * 768, (), (Stream(ref("c", (384 * 768,))),), (Stream(ref("d", (384 * 768,))),)
    )
    work = WorkChoice((SequenceWork((product, behind)), SequenceWork((behind, product, product))))
    clock = Clock([5, 4])
    lowering = Lowering(soc, TilingSearch(lambda stage, weights: -stage.groups[0].count, clock))  # type: ignore[arg-type, return-value]
    number = lowering.ways.pick(work)
    assert number % 2 == 1
    assert clock.times == []
    assert lowering.ways.pick(work) == number
    best = lowering.settled(product, None)[0].option
    assert best > 0
    assert number // 2 == best + 64 * best
    way, stages = Lowering(soc).ways.way(work, number)
    assert way is work.ways[1]
    assert stages == lowering.ways.way(work, number)[1] != Lowering(soc).ways.way(work, 1)[1]


def test_a_number_that_no_way_has_is_refused() -> None:
    works = tuple(
        VectorWork(1, size, (), (Stream(ref("x", (size,))),), (Stream(ref("y", (size,))),))
        for size in (64, 128)
    )
    with pytest.raises(CompileError, match="must be one that it can have, not 3"):
        Lowering(load("Ascend910A")).ways.way(WorkChoice(works), 3)


def test_the_closed_form_picks_where_nothing_is_timed() -> None:
    """One core sweeps twice over all, or all cores once after another: even a formula sees that."""
    model = composite(random_composite("any_chain", 35), options={"tiling": "closed_form"})
    assert model.program.info.tilings["any_chain_35"] > 0
    assert model.program.tasks[0].block_dim == 32


@pytest.mark.parametrize(("rows", "kinds"), [(16, ["AI_CPU"]), (4096, ["AI_CPU", "AI_CPU", "AI_CORE"])])
def test_what_the_ai_core_lacks_runs_on_the_ai_cpu_and_the_rest_stays_where_it_is_quick(
    rows: int, kinds: list[str]
) -> None:
    w = CompositeWriter()
    x, y = w.input((rows, 1), "int64"), w.input((rows, 1024))
    scale = w.cast(w.op("Add", x, x), "float32")
    w.output(w.op("Add", w.op("Mul", w.op("Exp", y), scale), y))
    model = composite(w.file())
    assert [task.kind for task in model.program.tasks] == [TaskKind(kind) for kind in kinds]
    parts = asim.compile(
        asim.load(json.dumps(w.file()).encode()),
        soc="Ascend910A",
        fusion="off",
        precision_mode="must_keep_origin_dtype",
    )
    assert asim.simulate(model).duration_us < asim.simulate(parts).duration_us
