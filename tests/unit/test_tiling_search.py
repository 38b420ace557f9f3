"""The choice of tilings by time: what is measured and taken, what is remembered, and whether the closed form
agrees with the machine."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest

import ascendsim as asim
from ascendsim.api.saving_manifest import program_hash
from ascendsim.compiler import tilings
from ascendsim.compiler.tilings import tiling_search, timer_of
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import CompileError
from ascendsim.core.formats import Format
from ascendsim.lower import LowerOptions, lower_graph
from ascendsim.lower.program import Lowering
from ascendsim.lower.templates.cube import cube_options, cube_stage, product_of
from ascendsim.lower.templates.product import rates_of
from ascendsim.lower.templates.stage import Stage
from ascendsim.lower.templates.steps import Expansion
from ascendsim.lower.templates.tiling import Tiling, best_tilings, candidates
from ascendsim.lower.templates.traffic import dram_bytes
from ascendsim.lower.tiling_search import TILING, TilingSearch, anonymous, quickest, weights_of
from ascendsim.machine import run
from ascendsim.ops import default_opset
from ascendsim.opset.work import CubePair, CubeWork, Step
from ascendsim.soc import load
from tests.support.lowering import convolution, matmul, program_of, ref

SOC = load("Ascend310P3")


class Clock:
    """A timer that knows the answer; the bytes of stage number i are i."""

    def __init__(self, times: list[int]) -> None:
        self.times, self.asked, self.weights = times, 0, set[str]()

    def __call__(self, stage: Stage, weights: Collection[str]) -> int:
        self.asked += 1
        self.weights |= set(weights)
        return self.times[stage.sizes["number"]]


def options(count: int) -> list:  # type: ignore[type-arg]
    return [lambda number=number: Stage((), sizes={"number": number}) for number in range(count)]


def refuses() -> Stage:
    raise CompileError("a stage", "must fit")


def test_the_quickest_option_is_taken_and_of_equals_the_first() -> None:
    work = matmul(64, 64, 64, SOC)
    assert TilingSearch(Clock([3, 2, 1, 2])).choose(work, options(4)) == 2
    assert TilingSearch(Clock([2, 1, 1])).choose(work, options(3)) == 1
    assert TilingSearch(Clock([1, 1, 1])).choose(work, options(3)) == 0


def test_the_quickest_way_is_the_first_of_equals_that_has_a_program() -> None:
    ways = [lambda way=way: [way()] for way in (*options(3), refuses)]

    def chosen(*times: int) -> int:
        return quickest(ways, lambda stages: times[stages[0].sizes["number"]])

    assert [chosen(3, 1, 1), chosen(1, 1, 1), chosen(2, 3, 2)] == [1, 0, 0]
    assert quickest([ways[3], ways[1]], lambda _stages: 5) == 1
    assert quickest([ways[3]], lambda _stages: 5) == 0


def test_work_that_differs_in_names_only_is_timed_once() -> None:
    clock = Clock([2, 1])
    search = TilingSearch(clock)
    work = matmul(64, 64, 64, SOC)
    renamed = replace(
        work, a=ref("x", (64, 64), Format.FRACTAL_NZ), out=ref("y", (64, 64), Format.FRACTAL_NZ)
    )
    assert search.choose(work, options(2)) == search.choose(renamed, options(2)) == 1
    assert clock.asked == 2
    search.choose(matmul(64, 64, 80, SOC), options(2))
    assert clock.asked == 4


def test_nothing_is_timed_where_there_is_no_choice() -> None:
    clock = Clock([1])
    assert TilingSearch(clock).choose(matmul(64, 64, 64, SOC), options(1)) == 0
    assert clock.asked == 0


def test_work_without_a_choice_keeps_no_number() -> None:
    for size, several in ((16, False), (512, True)):
        work = matmul(size, size, size, SOC)
        (stage,) = Lowering(SOC).settled(work, 0)
        choices = len(cube_options(work, SOC, Expansion(SOC)))
        assert (choices > 1) == several == (stage.option == 0)
        assert several or stage.option == -1
        with pytest.raises(CompileError, match="the tiling of a task must be one of"):
            Lowering(SOC).settled(work, choices)


def test_a_program_keeps_the_numbers_of_nodes_that_had_a_choice() -> None:
    """None where nothing is timed; of equals the first is taken."""
    b = asim.GraphBuilder(dtype=DType.FLOAT16)
    large = b.op("MatMul", b.input("x", (512, 512)), b.weight("w", (512, 512)), name="large")
    small = b.op("MatMul", b.op("Relu", large, name="relu"), b.weight("v", (512, 16)), name="small")
    corner = b.op("Slice", small, [0], [16], name="slice")
    b.output(b.op("MatMul", corner, b.weight("u", (16, 16)), name="tiny"))
    graph = b.build()

    def kept(search: TilingSearch | None) -> dict[str, int]:
        program = lower_graph(graph, SOC, default_opset(), options=LowerOptions(tilings=search))
        return dict(program.info.tilings)

    assert kept(None) == {}
    sizes = {"large": (512, 512, 512), "small": (512, 512, 16), "tiny": (16, 16, 16)}
    several = [
        name for name, size in sizes.items() if len(cube_options(matmul(*size, SOC), SOC, Expansion(SOC))) > 1
    ]
    assert several == ["large", "small"]
    assert kept(TilingSearch(lambda stage, weights: 1)) == dict.fromkeys(several, 0)


def test_tiles_for_the_epilogue_are_timed_behind_those_for_the_bare_product() -> None:
    chip = load("Ascend910A")
    soc = replace(chip, kernels=replace(chip.kernels, even_products=""))
    steps = tuple([Step("vexp", DType.FLOAT32)] * 6)
    bias = ref("bias", (2048,))
    work = replace(matmul(256, 128, 2048, soc), epilogue=steps, epilogue_values=1, bias=bias)
    bare = replace(work, plain_tiling=True)
    tiles = [
        [replace(tiling, cycles=0) for tiling in best_tilings(product_of(one, soc), soc)]
        for one in (bare, work)
    ]
    assert tiles[0][0] != tiles[1][0]
    made = [make.args[2] for make in cube_options(bare, soc, Expansion(soc))]  # type: ignore[attr-defined]
    assert [replace(tiling, cycles=0) for tiling in made] == list(dict.fromkeys(tiles[0] + tiles[1]))
    timer = timer_of(soc)
    times = [timer(make(), weights_of(work)) for make in cube_options(bare, soc, Expansion(soc))]
    assert min(times) < 0.9 * min(times[: len(tiles[0])])


def test_options_without_a_program_are_left_out() -> None:
    work = matmul(64, 64, 64, SOC)
    assert TilingSearch(Clock([9, 1, 5])).choose(work, [refuses, *options(3)[1:]]) == 1
    assert TilingSearch(Clock([])).choose(work, [refuses, refuses]) == 0


def test_the_name_of_work_tells_sizes_and_shared_operands_apart() -> None:
    work = matmul(64, 64, 64, SOC)
    assert anonymous(work) != anonymous(replace(work, b=work.a))  # a matrix times itself reads half as much
    assert anonymous(work) != anonymous(replace(work, b=replace(work.b, constant=True)))
    assert anonymous(CubePair(work, work)) != anonymous(work)


def test_weights_are_the_constants_among_the_operands() -> None:
    work = convolution(16, 8, 16, 3, 1, 1)
    constant = replace(work, b=replace(work.b, constant=True), bias=ref("bias", (16,)))
    assert weights_of(constant) == ("w",)
    clock = Clock([1, 1])
    TilingSearch(clock).choose(constant, options(2))
    assert clock.weights == {"w"}


# --- on the machine -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("chip", ["Ascend310", "Ascend310P3", "Ascend910B1"])
def test_tensors_between_tasks_are_found_in_l2_and_weights_are_not(chip: str) -> None:
    soc = load(chip)
    work = convolution(256, 28, 256, 1)
    (stage,) = (option() for option in cube_options(work, soc, Expansion(soc))[:1])
    ticks = timer_of(soc)
    alone = run(program_of([stage]), soc).tasks[0]
    cold = ticks(stage, ("x", "w", "bias"))
    assert ticks(stage, ("w", "bias")) < cold  # the map is there
    assert ticks(stage, ()) < ticks(stage, ("w", "bias"))
    if not soc.l2.software_managed:
        assert cold == alone.end - alone.start  # nothing was there


def test_what_is_taken_is_never_slower_than_what_the_closed_form_likes_best() -> None:
    model = asim.compile(asim.load("tests/data/models/bert_tiny_s64.onnx"), "Ascend310P3")
    chosen = model.program.info.tilings
    assert len(chosen) > 15
    assert any(chosen.values())
    plain = asim.compile(model.source, "Ascend310P3", options={"tiling": "closed_form"})
    assert not any(plain.program.info.tilings.values())
    ticks = timer_of(model.soc)
    both = {task.name: [task] for task in plain.program.tasks}
    for task in model.program.tasks:
        both[task.name].append(task)
    for name, (before, after) in both.items():
        if before.groups != after.groups:
            sizes = {region: known.bytes for region, known in model.program.memory.regions.items()}
            weights = [
                region for region, known in model.program.memory.regions.items() if known.kind == "weight"
            ]
            one, two = (
                ticks(Stage(t.groups, t.kind, {a.region: sizes[a.region] for a in t.accesses}), weights)
                for t in (before, after)
            )
            assert two < one, name
    assert asim.simulate(model).duration_us < asim.simulate(plain).duration_us


def test_a_second_search_finds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = asim.load("tests/data/models/lenet5.onnx", batch=8)
    first = asim.compile(graph, "Ascend910A")
    monkeypatch.setattr(tilings, "_searches", {})
    second = asim.compile(graph, "Ascend910A")
    assert first.program.info.tilings == second.program.info.tilings
    assert program_hash(first.program) == program_hash(second.program)


def test_chips_with_equal_figures_share_a_search_and_others_do_not() -> None:
    search = tiling_search(load("Ascend310P3"))
    assert tiling_search(load("Ascend310P3")) is search
    assert tiling_search(load("Ascend310P3", {"l2.size": "8MiB"})) is not search


def test_units_that_are_lowered_one_by_one_get_the_same_tilings() -> None:
    model = asim.compile(asim.load("tests/data/models/lenet5.onnx", batch=8), "Ascend310P3")
    search = tiling_search(model.soc)
    shared, single = (
        lower_graph(
            model.graph,
            model.soc,
            default_opset(),
            options=replace(model.lowering, known=known, tilings=search),
        )
        for known in (LowerOptions().known, None)
    )
    assert shared.info.tilings == single.info.tilings == model.program.info.tilings
    assert shared == single


def test_a_saved_model_keeps_its_tilings_without_searching(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = asim.compile(asim.load("tests/data/models/lenet5.onnx", batch=64), "Ascend310P3")
    assert any(model.program.info.tilings.values())
    path = asim.save(model, tmp_path / "m.asim")

    def search(*_: object) -> int:
        raise AssertionError("nothing is searched when a model is loaded")

    monkeypatch.setattr(TilingSearch, "choose", search)
    loaded = asim.load_compiled(path)
    assert program_hash(loaded.program) == program_hash(model.program)
    assert {
        node.name: node.origin[TILING] for node in loaded.graph.nodes if TILING in node.origin
    } == model.program.info.tilings
    assert asim.save(loaded, tmp_path / "again.asim").read_bytes() == path.read_bytes()


# --- the closed form ----------------------------------------------------------------------------------------


def fetched(work: CubeWork, tiling: Tiling) -> tuple[float, int]:
    """Bytes from DRAM by the closed form, and on the machine."""
    product = product_of(work, SOC)
    share = (tiling.share_batch, tiling.share_images, tiling.share_m, tiling.share_n)
    rates = rates_of(SOC, "float16")
    stage = cube_stage(work, product, tiling, SOC, Expansion(SOC))
    trace = run(program_of([stage]), SOC)
    return sum(
        dram_bytes(product, rates.l2_size, share, (tiling.tile_m, tiling.tile_n), tiling.hold)
    ), trace.tasks[0].read_bytes["ddr"]


@pytest.mark.parametrize(
    ("tile", "share", "times_read"),
    [
        ((256, 256), 4096, 9),
        ((128, 512), 4096, 16.5),
        ((256, 256), 2048, 2.5),
        ((512, 128), 4096, 2.5),
        ((192, 256), 4096, 12),  # 64 rows are left over
        ((192, 176), 4096, 2),  # 64 rows and 160 columns are left over, and a turn fits
    ],
)
def test_bytes_from_dram_are_those_of_the_machine(
    tile: tuple[int, int], share: int, times_read: float
) -> None:
    """Also where a turn of the loop over rows touches a little more than L2 holds, so that B comes again with
    every turn."""
    work = matmul(4096, 4096, 4096, SOC)
    cut = share, 4096 * 512 // share  # for all 8 cores
    product = replace(product_of(work, SOC), divided="")
    fitting = [
        tiling
        for tiling in candidates(product, rates_of(SOC, "float16"))
        if ((tiling.tile_m, tiling.tile_n), (tiling.share_m, tiling.share_n), tiling.hold) == (tile, cut, "")
    ]
    tiling = max(fitting, key=lambda one: one.chunk_k)
    formula, machine = fetched(work, tiling)
    assert formula == pytest.approx(machine, rel=0.01)
    assert formula == times_read * (2 * 4096 * 4096 * 2)


def test_a_large_product_runs_near_the_rate_of_the_cube() -> None:
    work = matmul(4096, 4096, 4096, SOC)
    ideal = 4096**3 / 4096 / SOC.ai_cores / SOC.frequency_mhz
    (stage,) = (option() for option in cube_options(work, SOC, Expansion(SOC))[:1])
    assert run(program_of([stage]), SOC).duration_us < 1.2 * ideal


def test_products_of_a_batch_that_bring_their_own_bias_run_one_after_the_other() -> None:
    soc = load("Ascend310")
    geometry = convolution(16, 14, 16, 3, 1, 1)
    group = replace(geometry, bias=ref("bias", (512,)), a=ref("x", (1, 512, 14, 14), Format.NC1HWC0))
    each = []
    for batch in (16, 32):
        work = replace(group, batch=batch, b=replace(group.b, bytes=group.b.bytes * batch))
        product = product_of(work, soc)
        assert product.serial_batch
        best = best_tilings(product, soc)[0]
        trace = run(program_of([cube_stage(work, product, best, soc, Expansion(soc))]), soc)
        cycles = float(trace.tasks[0].end * trace.tick_seconds) * soc.frequency_mhz * 1e6
        each.append((best.cycles, cycles))
    (formula, machine), (twice, machine_twice) = each
    assert twice / formula == pytest.approx(2, rel=0.1)
    assert twice - formula == pytest.approx(machine_twice - machine, rel=0.25)
    assert not product_of(replace(group, batch=2, bias=None), soc).serial_batch
