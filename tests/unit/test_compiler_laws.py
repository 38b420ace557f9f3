"""What the compiler asks and reports: keys of equal graphs, names, limits, tables in their units, dumps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest

import ascendsim as asim
from ascendsim.compiler.composites import graph_saver, structure
from ascendsim.compiler.fusion import FusionSettings, pass_states, ub_limits
from ascendsim.compiler.memory_report import MemoryReport
from ascendsim.compiler.options import CompileOptions
from ascendsim.compiler.scheduling import Scheduling
from ascendsim.compiler.settings import Settings
from ascendsim.compiler.tilings import tiling_search, tilings_of
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import InputError
from ascendsim.core.formats import Format
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.isa.program import Region
from ascendsim.lower.memory.report import MemoryFigures
from ascendsim.soc import load
from tests.unit.test_gears import network

# Keys of graphs: what has one key is priced once.


def small_graph(prefix: str = "") -> Graph:
    """y = Clip(Transpose(x) + c, low), of which somebody reads the sum as well."""
    graph = Graph(f"{prefix}small")
    x = graph.add_input(f"{prefix}x", DType.FLOAT16, (4, 8))
    c = graph.add_constant(f"{prefix}c", np.arange(4, dtype=np.float16))
    large = graph.add_constant(f"{prefix}w", np.arange(17, dtype=np.float16))
    turned = node(graph, "Transpose", [x], (8, 4), perm=(1, 0))
    total = node(graph, "Add", [turned, c], (8, 4))
    clipped = node(graph, "Clip", [total, None, large], (8, 4))
    graph.outputs += [total, clipped]
    return graph


def node(graph: Graph, op: str, inputs: list[Tensor | None], shape: tuple[int, ...], **more: Any) -> Tensor:
    made = graph.add_node(op, inputs, [graph.fresh(f"{graph.name}_{op}")], **more).output
    made.shape, made.dtype, made.origin_dtype = shape, DType.FLOAT16, DType.FLOAT16
    return made


def of_type(graph: Graph, op: str) -> Node:
    return next(item for item in graph.nodes if item.op_type == op)


CHANGES: dict[str, Callable[[Graph], object]] = {
    "operator": lambda g: setattr(of_type(g, "Add"), "op_type", "Mul"),
    "domain": lambda g: setattr(of_type(g, "Add"), "domain", "ascend"),
    "attribute": lambda g: of_type(g, "Transpose").attributes.update(perm=(0, 1)),
    "another attribute": lambda g: of_type(g, "Add").attributes.update(axis=1),
    "text": lambda g: of_type(g, "Add").attributes.update(mode="nearest"),
    "order of inputs": lambda g: swap(of_type(g, "Add")),
    "missing input": lambda g: of_type(g, "Clip").set_input(1, g.tensors["c"]),
    "shape": lambda g: setattr(g.inputs[0], "shape", (8, 4)),
    "type": lambda g: setattr(g.inputs[0], "dtype", DType.FLOAT32),
    "format": lambda g: setattr(g.inputs[0], "format", Format.FRACTAL_NZ),
    "format of a result": lambda g: setattr(of_type(g, "Add").output, "format", Format.FRACTAL_NZ),
    "small constant": lambda g: exchange(g, "c", np.ones(4, np.float16)),
    "outputs": lambda g: g.outputs.pop(),
    "order of outputs": lambda g: g.outputs.reverse(),
    "body": lambda g: of_type(g, "Add").attributes.update(body=small_graph("inner_")),
}


def swap(item: Node) -> None:
    first, second = item.inputs
    item.set_input(0, second)
    item.set_input(1, first)


def exchange(graph: Graph, name: str, array: np.ndarray) -> None:
    old = graph.tensors[name]
    graph.replace_uses(old, graph.add_constant("new", array))


@pytest.mark.parametrize("change", CHANGES)
def test_graphs_that_differ_have_different_keys(change: str) -> None:
    graph = small_graph()
    CHANGES[change](graph)
    assert structure(graph) != structure(small_graph())


def test_names_and_large_weights_are_no_part_of_a_key() -> None:
    assert structure(small_graph("other_")) == structure(small_graph())
    graph = small_graph()
    exchange(graph, "w", np.zeros(17, np.float16))
    assert structure(graph) == structure(small_graph())
    sixteen, seventeen = small_graph(), small_graph()
    for changed, count in ((sixteen, 16), (seventeen, 17)):
        exchange(changed, "w", np.zeros(count, np.float16))
    others = small_graph(), small_graph()
    for changed, count in zip(others, (16, 17), strict=True):
        exchange(changed, "w", np.ones(count, np.float16))
    assert structure(sixteen) != structure(others[0])
    assert structure(seventeen) == structure(others[1])
    marked = small_graph()
    of_type(marked, "Add").attributes.update(graph_kernel="parallel_1")
    assert structure(marked) == structure(small_graph())


# Options


@pytest.mark.parametrize(
    ("options", "single", "online", "level"),
    [
        ({}, False, False, "all"),
        ({"schedule": "host"}, True, False, "all"),
        ({"schedule": "eager"}, True, True, "off"),
        ({"schedule": "host", "multi_stream_parallel_mode": "cv"}, False, False, "all"),
        ({"enable_single_stream": True}, True, False, "all"),
    ],
)
def test_who_launches_decides_streams_memory_and_fusion(
    options: dict[str, Any], single: bool, online: bool, level: str
) -> None:
    found = Scheduling.of(**options)
    assert found.streams.single == single
    assert found.memory.online == online
    assert found.memory.reuse
    fusion = Settings.of(CompileOptions(soc="Ascend310", **options), False).fusion
    assert fusion.level.name.lower() == level
    assert not Scheduling.of(**options, disable_reuse_memory=True).memory.reuse


@pytest.mark.parametrize("value", [-1, 4, True, False, "1", 0.5])
def test_orders_are_numbers_that_exist(value: Any) -> None:
    with pytest.raises(InputError, match="topo_sorting_mode must be one of 0, 1, 2, 3"):
        Scheduling.of(topo_sorting_mode=value)


def test_an_order_that_was_asked_for_is_the_order_of_the_graph() -> None:
    plain, sorted_ = small_graph(), small_graph()
    last = of_type(sorted_, "Clip")
    for graph in (plain, sorted_):
        graph.reorder([*graph.nodes][::-1])
    Scheduling.of().sort(plain)
    Scheduling.of(topo_sorting_mode=0).sort(sorted_)
    assert [item.op_type for item in plain.nodes] == ["Clip", "Add", "Transpose"]
    assert [item.op_type for item in sorted_.nodes] == ["Transpose", "Add", "Clip"]
    assert sorted_.nodes[-1] is last


@pytest.mark.parametrize(("cores", "fits"), [(0, False), (1, True), (2, True), (3, False)])
def test_a_chip_has_from_one_core_to_all(cores: int, fits: bool) -> None:
    def checked(**options: Any) -> Settings:
        return Settings.of(CompileOptions(**options))

    assert load("Ascend310").ai_cores == 2
    if fits:
        assert checked(soc="Ascend310", aicore_num=cores).soc.ai_cores == cores
        both = checked(soc="Ascend310", aicore_num=cores, set={"l2.size": 1 << 20})
        assert (both.soc.ai_cores, both.soc.l2.size) == (cores, 1 << 20)
        with pytest.raises(InputError, match="option set needs the chip by name or file, not a SocSpec"):
            checked(soc=load("Ascend310"), aicore_num=cores)
    else:
        with pytest.raises(InputError, match=f"aicore_num must be between 1 and 2 on this chip, not {cores}"):
            checked(soc="Ascend310", aicore_num=cores)
    with pytest.raises(InputError, match="option set needs the chip by name or file, not a SocSpec"):
        checked(soc=load("Ascend310"), set={"l2.size": 1 << 20})
    spec = load("Ascend310")
    assert checked(soc=spec).soc is spec


def test_limits_of_tasks_are_those_that_options_name() -> None:
    names = {
        "ub_conv": "conv_elementwise",
        "ub_elementwise": "elementwise",
        "ub_reduce": "reduce_all",
        "ub_segment": "segment_all",
        "ub_automatic": "automatic",
    }
    for name in ("Ascend310", "MindSpore", "documents"):
        plain = ub_limits("Ascend910B1", {"ub_limits": name, **dict.fromkeys(names, "profile")})
        assert plain.name == name
        for option, limit in names.items():
            changed = ub_limits("Ascend910B1", {"ub_limits": name, option: 2})
            assert getattr(changed, limit) == 2
            below = [item for item in fields(plain) if item.name.startswith(limit.removesuffix("all"))]
            back = {item.name: getattr(plain, item.name) for item in below}
            assert all(value <= 2 for value in (getattr(changed, item.name) for item in below))
            assert replace(changed, **back) == plain
    assert ub_limits(None, {"ub_limits": "chip"}) == ub_limits(None, {"ub_limits": "documents"})
    assert ub_limits("Ascend310", {}) == ub_limits("Ascend310", {"ub_limits": "chip"})


def test_states_of_passes() -> None:
    for level, graph, ub in (("off", False, False), ("graph", True, False), ("ub", True, True)):
        states = pass_states(FusionSettings.of(level))
        kinds = {kind: [s for s in states if s.kind.startswith(kind)] for kind in ("graph", "ub")}
        assert all(kinds.values())
        assert {s.why for s in kinds["ub"] if not ub} <= {f"--fusion {level}"}
        assert any(s.state == "on" for s in kinds["graph"]) == graph
        assert any(s.state == "on" for s in kinds["ub"]) == ub
        assert {(s.matched, s.effected) for s in states} == {(None, None)}
        assert [s.name for s in kinds["ub"]] == sorted(s.name for s in kinds["ub"])
    everything = pass_states(FusionSettings.of("all"), everything=True)
    lacking = [s for s in everything if s.state == "-"]
    assert lacking
    assert {(s.why, s.matched) for s in lacking} == {("no rule here", None)}
    model = asim.compile(network((2, 8)), fusion="all")
    counted = pass_states(FusionSettings.of("all"), model.fusion)
    assert all(isinstance(s.matched, int) and isinstance(s.effected, int) for s in counted)
    assert any(s.matched == 0 for s in counted)


def test_chips_with_equal_figures_share_what_was_timed() -> None:
    one, same = load("Ascend310P3"), load("Ascend310P3", {"ai_cores": load("Ascend310P3").ai_cores})
    other = load("Ascend310P3", {"ai_cores": 1})
    assert tiling_search(one) is tiling_search(same)
    assert tiling_search(one) is not tiling_search(other)
    assert tilings_of(one, {"tiling": "verified"}) is tiling_search(one)
    assert tilings_of(one, {"tiling": "closed_form"}) is tilings_of(one, {}) is None


# Reports


def report(peak: int, bound: int) -> MemoryReport:
    figures = MemoryFigures(peak, bound, 0, {"first fit": 3 * bound, "no reuse": 4 * bound}, 512, 0, (bound,))
    regions = {
        "b": Region("b", 1024, 700, "activation", first=1, last=2),
        "a": Region("a", 0, 1000, "input", first=0, last=2),
        "also_a": Region("also_a", 0, 1000, "activation", "a"),
        "part": Region("part", 512, 100, "activation", "also_a"),
        "w": Region("w", 0, 512, "weight", first=0, last=2),
    }
    return MemoryReport("net", figures, regions)


def test_a_row_for_each_tensor_that_owns_its_bytes() -> None:
    assert report(1 << 20, 1 << 19).table().rows == (
        ("a", "input", 0, 1024, 0, 2, None, "also_a;part"),
        ("b", "activation", 1024, 1024, 1, 2, None, None),
        ("w", "weight", 0, 512, None, None, None, None),
    )


def test_planners_stand_against_the_largest_live_set() -> None:
    assert report(600, 400).planners().rows == (
        ("best fit", 600, 1.5),
        ("largest live set", 400, 1.0),
        ("first fit", 1200, 3.0),
        ("no reuse", 1600, 4.0),
    )
    assert report(0, 0).planners().rows[0] == ("best fit", 0, 0.0)


@pytest.mark.parametrize(
    ("peak", "bound", "text"),
    [
        ((1 << 20) - 512, 1 << 19, "1,023.5 KiB at most (2.00 of the largest live set)"),
        (1 << 20, 1 << 20, "1.00 MiB at most (1.00 of the largest live set)"),
        (3 << 19, 0, "1.50 MiB at most"),
        (0, 0, "0.0 KiB at most"),
    ],
)
def test_a_map_says_how_much_there_is(peak: int, bound: int, text: str) -> None:
    mpl.use("Agg")
    shown = report(peak, bound).plot()
    assert shown.title == f"net: device memory, {text}"
    assert {item.name for item in shown.rectangles} == {"a", "b"}


def test_gears_are_listed_with_shapes_and_mebibytes() -> None:
    model = asim.compile(network(), soc="Ascend310P3", dynamic_batch_size="1,64")
    assert [(row[0], row[1]) for row in model.table().rows] == [("1", "x: [1, 8]"), ("64", "x: [64, 8]")]
    for row, batch in zip(model.table().rows, (1, 64), strict=True):
        memory = asim.compile(network((batch, 8)), soc="Ascend310P3").program.memory
        few = 4096  # the index and the table of gears
        assert memory.peak_bytes <= float(str(row[2])) * 2**20 <= memory.peak_bytes + few
        assert memory.weight_bytes <= float(str(row[3])) * 2**20 <= memory.weight_bytes + few
    tasks = model.tasks_of("ascend_mbatch_case/ascend_mbatch_batch_1/*")
    assert tasks
    assert all(task.name.startswith("ascend_mbatch_case/ascend_mbatch_batch_1/") for task in tasks)
    assert repr(model) == "GearedModel('net', soc=Ascend310P3, dynamic_batch_size=1,64)"


def test_dumps_make_their_folder_and_say_if_they_cannot(tmp_path: Path) -> None:
    home = tmp_path / "a" / "b"
    graph_saver(home)("one", small_graph())
    graph_saver(home, as_text=True)("two", small_graph())
    assert sorted(path.name for path in home.iterdir()) == ["one.dot", "two.dot", "two.ir"]
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="below. cannot be written"):
        graph_saver(tmp_path / "file" / "below")("one", small_graph())
