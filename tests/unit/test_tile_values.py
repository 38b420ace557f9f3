"""Values by the blocks that were timed: equal to the operators' own, and none where a block does wrong."""

import math
from dataclasses import replace

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.api.tile_values import tiles_of
from ascendsim.cli.main import main
from ascendsim.compiler.noted import noted_program
from ascendsim.core.errors import InputError, SimulationError
from ascendsim.isa.instructions import Loop, Mmad, Move, Pipe, Vector
from ascendsim.isa.listing import task_listing
from ascendsim.isa.program import RenamedBlock
from ascendsim.runtime.device_memory import DeviceMemory
from tests.support.gate import in_turn
from tests.support.tile_runs import task_runs

COUPLED, SPLIT = "Ascend310", "Ascend910B1"
CHIPS = pytest.mark.parametrize("chip", [COUPLED, SPLIT])
CONVOLUTIONS = {
    "ragged": ((2, 20, 13, 11), 24, 3, {"pads": (1, 1, 1, 1)}),
    "strided": ((1, 3, 30, 30), 16, 5, {"strides": (2, 2), "pads": (2, 1, 0, 2)}),
    "direct": ((1, 32, 9, 9), 40, 1, {}),
    "skipping": ((1, 16, 17, 17), 16, 1, {"strides": (3, 3)}),
    "dilated": ((1, 16, 16, 16), 16, 3, {"dilations": (2, 2), "pads": (2, 2, 2, 2)}),
    "depthwise": ((1, 24, 10, 10), 24, 3, {"group": 24, "pads": (1, 1, 1, 1)}),
    "grouped": ((2, 64, 8, 8), 32, 3, {"group": 4, "strides": (2, 2)}),
    "uneven": ((2, 240, 6, 6), 120, 1, {"group": 3}),
    "odd": ((1, 72, 9, 9), 72, 3, {"group": 9}),
}
WIDE = [  # image, kernel, stride, pads
    ((1, 64, 4, 1201), (3, 3), 1, (1, 1, 1, 1)),
    ((2, 32, 7, 1201), (5, 7), 2, (0, 3, 1, 2)),
    ((1, 128, 2, 1201), (1, 9), 3, (0, 0, 0, 0)),
]
POOLS = {
    "strided": (
        "MaxPool",
        (2, 40, 29, 31),
        {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)},
    ),
    "rounded up": ("MaxPool", (1, 64, 56, 56), {"kernel_shape": (3, 3), "strides": (2, 2), "ceil_mode": 1}),
    "next to each other": ("AveragePool", (1, 64, 14, 14), {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1)}),
    "apart": (
        "AveragePool",
        (3, 20, 9, 8),
        {"kernel_shape": (2, 2), "strides": (3, 3), "pads": (1, 0, 0, 1), "count_include_pad": 1},
    ),
    "dilated": ("MaxPool", (1, 20, 20, 20), {"kernel_shape": (3, 3), "dilations": (2, 2)}),
    "lines": ("MaxPool", (2, 10, 70), {"kernel_shape": (3,), "strides": (2,)}),
    "norms": ("LpPool", (1, 16, 9, 9), {"kernel_shape": (3, 3)}),
}
HALF = 2.0**-10  # two roundings to float16
SINGLE = 2.0**-24


def model_of(chip, shapes, make, **options):
    """A compiled graph of what `make` builds on inputs of these shapes."""
    builder = asim.GraphBuilder()
    inputs = [builder.input(f"x{number}", shape) for number, shape in enumerate(shapes)]
    made = make(builder, *inputs)
    for number, tensor in enumerate(made if isinstance(made, tuple) else (made,)):
        builder.output(tensor, f"y{number}")
    return asim.compile(builder.build(), chip, **options)


def checked(model, products=None):
    """Every task by its blocks: products within the bound of float32 summation, all others equal.

    Args:
        model: Compiled.
        products: By operator whose results may differ by the order of float32 sums, the length of a sum.
    """
    names = []
    for run in task_runs(model):
        assert not run.lacks, (run.name, run.lacks)
        names.append(run.name)
        depth = (products or {}).get(run.name.split("+")[0])
        if depth is None:
            assert run.equal, (run.name, run.difference)
            continue
        wanted = run.operators.astype(np.float64)
        bound = HALF * np.abs(wanted) + depth * SINGLE * np.abs(wanted).max()
        assert (np.abs(run.tiles - wanted) <= bound).all(), (run.name, run.difference)
        assert np.mean(run.tiles != run.operators) < 0.02, run.name  # a rounding here and there
    return names


def weights(builder, name, *shape, scale=1.0):
    values = np.random.default_rng(7).standard_normal(shape) * scale
    return builder.constant(values.astype(np.float32), name)


@pytest.mark.parametrize(("chip", "name"), in_turn([COUPLED, SPLIT], [*CONVOLUTIONS]))
def test_convolutions(chip, name):
    shape, outputs, kernel, attributes = CONVOLUTIONS[name]

    def make(builder, x, y=None):
        depth = shape[1] // attributes.get("group", 1)
        w = weights(builder, "w", outputs, depth, kernel, kernel, scale=depth**-0.5)
        made = builder.op("Conv", x, w, weights(builder, "b", outputs), **attributes)
        return made if y is None else builder.op("Relu", builder.op("Max", made, y))

    alone = model_of(chip, [shape], make)
    result = alone.graph.outputs[0].static_shape
    for model in (alone, model_of(chip, [shape, result], make, fusion="all")):
        names = checked(model, {"Conv": kernel * kernel * shape[1]})
        assert any(name.startswith("Conv") for name in names)


def test_runs_of_whole_rows_in_shares_that_begin_inside_of_one():
    """Shares of 20 x 20 positions that begin inside of a row, tiles of four whole ones."""

    def make(builder, x):
        w, b = weights(builder, "w", 16, 16, 3, 3), weights(builder, "b", 16)
        return builder.op("Conv", x, w, b, dilations=(2, 2), pads=(2, 2, 2, 2))

    model = model_of(COUPLED, [(1, 16, 20, 20)], make)
    assert "Conv" in checked(model, {"Conv": 9 * 16})


@pytest.mark.parametrize(("chip", "layer"), in_turn([SPLIT, COUPLED], WIDE))
def test_convolutions_of_wide_maps_in_strips_of_columns(chip, layer):
    shape, kernel, stride, pads = layer

    def make(builder, x):
        w = weights(builder, "w", 24, shape[1], *kernel, scale=0.05)
        return builder.op("Conv", x, w, weights(builder, "b", 24), pads=pads, strides=(stride, stride))

    model = model_of(chip, [shape], make)
    groups = [group for task in noted_program(model).tasks for group in task.groups]
    assert any("@wide" in dict(origin) for group in groups for origin in group.origins)
    checked(model, {"Conv": shape[1] * kernel[0] * kernel[1]})


@CHIPS
@pytest.mark.parametrize("turn", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_products_of_matrices_stored_either_way(chip, turn):
    m, k, n = 70, 100, 52

    def make(builder, x):
        w = weights(builder, "w", *((n, k) if turn[1] else (k, n)), scale=0.1)
        return builder.op("Gemm", x, w, weights(builder, "b", n), transA=turn[0], transB=turn[1])

    model = model_of(chip, [(k, m) if turn[0] else (m, k)], make)
    assert "Gemm" in checked(model, {"Gemm": k})


@CHIPS
def test_batches_of_products_and_what_follows_them(chip):
    def make(builder, x, y, z):
        return builder.op("Softmax", builder.op("Tanh", builder.op("Add", builder.op("MatMul", x, y), z)))

    model = model_of(chip, [(3, 40, 33), (3, 33, 44), (3, 40, 44)], make, fusion="all")
    checked(model, {"BatchMatMul": 33, "MatMul": 33})


@CHIPS
def test_vector_work(chip):
    def make(builder, x, y):
        row = builder.op("Mul", x, weights(builder, "scale", 48))
        soft = builder.op("Softmax", builder.op("Add", row, y), axis=-1)
        mean = builder.op("ReduceMean", soft, np.array([-1], np.int64), keepdims=1)
        return builder.op("Sub", soft, mean), builder.op("Exp", x)

    names = "+".join(checked(model_of(chip, [(5, 37, 48), (5, 37, 48)], make)))
    assert all(name in names for name in ("Softmax", "ReduceMean", "Exp"))


@CHIPS
@pytest.mark.parametrize("fusion", ["off", "all"])
def test_values_a_row_a_column_and_one(chip, fusion):
    """Rows of 20 of one value each, of all three axes; and what a norm reads of every row."""

    def make(builder, x, row, column):
        scaled = builder.op("Mul", builder.op("Mul", x, row), weights(builder, "one", 1))
        moved = builder.op("Add", scaled, column)
        norm = builder.op("LayerNormalization", moved, weights(builder, "s", 20), weights(builder, "b", 20))
        most = builder.op("ReduceMax", moved, np.array([-1], np.int64), keepdims=1)
        return builder.op("Softmax", norm), most

    names = checked(model_of(chip, [(4, 30, 20), (4, 30, 1), (20,)], make, fusion=fusion))
    assert {"LayerNormalization", "Softmax"} <= set(names)


@CHIPS
def test_maps_with_values_a_channel_and_sums_of_planes(chip):
    def make(builder, x):
        w = weights(builder, "w", 24, 20, 1, 1, scale=0.2)
        scaled = builder.op("Mul", builder.op("Conv", x, w), weights(builder, "s", 24, 1, 1))
        return builder.op("Sigmoid", scaled), builder.op("GlobalAveragePool", scaled)

    checked(model_of(chip, [(2, 20, 7, 9)], make), {"Conv": 20})


@pytest.mark.parametrize(("chip", "name"), in_turn([COUPLED, SPLIT], [*POOLS]))
def test_windows_and_what_follows_them(chip, name):
    operator, shape, attributes = POOLS[name]

    def make(builder, x):
        return builder.op("Relu", builder.op("Mul", builder.op(operator, x, **attributes), np.float32(-0.5)))

    assert operator in checked(model_of(chip, [shape], make, fusion="off"))
    # an average may become a convolution
    checked(model_of(chip, [shape], make, fusion="all"), {"Conv": math.prod(attributes["kernel_shape"])})


def test_a_window_without_room_for_its_halo_is_found():
    def make(builder, x):
        return builder.op("MaxPool", x, kernel_shape=(3, 3), strides=(2, 2))

    def lacking_a_row(block):
        cut = [replace(one, slot_bytes=one.slot_bytes - 57 * 32) for one in block.allocations[:1]]
        return replace(block, allocations=(*cut, *block.allocations[1:]))

    with pytest.raises(SimulationError, match="must stay in its slot"):
        run_changed(model_of(COUPLED, [(1, 64, 57, 57)], make), lacking_a_row, "MaxPool")


@CHIPS
def test_elements_that_move(chip):
    def make(builder, x, y):
        turned = builder.op("Transpose", x, perm=(0, 2, 3, 1))
        joined = builder.op("Concat", x, y, axis=1)
        taken = builder.op("Gather", y, np.array([4, 0, 4, 2], np.int64), axis=1)
        ends = np.array([2], np.int64), np.array([9], np.int64), np.array([3], np.int64)
        return turned, joined, taken, builder.op("Slice", x, *ends)

    names = checked(model_of(chip, [(1, 40, 30, 33), (1, 24, 30, 33)], make))
    assert {"Transpose", "Concat", "Gather", "Slice"} <= set(names)


@CHIPS
def test_a_network_by_its_blocks_is_near_the_network_by_its_operators(chip):
    def make(builder, x):
        a = builder.op("Conv", x, weights(builder, "w", 32, 16, 3, 3, scale=0.1), pads=(1, 1, 1, 1))
        joined = builder.op(
            "Relu", builder.op("Add", a, builder.op("Conv", x, weights(builder, "v", 32, 16, 1, 1)))
        )
        return builder.op("Flatten", builder.op("GlobalAveragePool", joined))

    model = model_of(chip, [(1, 16, 12, 12)], make, fusion="all")
    given = asim.random_inputs(model)
    tile, device = asim.run(model, given, values="tile"), asim.run(model, given)
    assert tile.duration_us == device.duration_us
    np.testing.assert_allclose(tile.outputs["y0"], device.outputs["y0"], rtol=0, atol=2e-3)
    found = tile.tile_coverage()
    assert (found.tasks, found.bytes, found.time, found.lacking) == (1, 1, 1, {})
    with pytest.raises(InputError, match="came tile by tile"):
        tile.numerics  # noqa: B018 - it is the look that fails


def pooled(chip):
    def make(builder, x):
        pool = builder.op("MaxPool", x, kernel_shape=(2, 2, 2), strides=(2, 2, 2))
        return builder.op("Exp", pool)

    return model_of(chip, [(1, 16, 4, 8, 8)], make)


@CHIPS
def test_what_lacks_effects_is_refused_by_name_or_computed_by_its_operator(chip):
    model = pooled(chip)
    with pytest.raises(InputError, match=r"MaxPool \(1\)") as caught:
        asim.run(model, asim.random_inputs(model), values="tile")
    assert 'lacking="operators"' in str(caught.value)
    given = asim.random_inputs(model)
    found = asim.run(model, given, values="tile", lacking="operators")
    np.testing.assert_array_equal(found.outputs["y0"], asim.run(model, given).outputs["y0"])
    covered = found.tile_coverage()
    assert covered.lacking == {"MaxPool": 1}
    assert all(0 < share < 1 for share in (covered.tasks, covered.bytes, covered.time))


@CHIPS
def test_a_product_with_more_behind_it_says_why_it_cannot_run_by_its_blocks(chip):
    """A core that has all units computes all of it in one task, others hand the product on to another."""

    def make(builder, x):
        ones = np.ones((48, 32), np.float32)
        return builder.op("Gemm", x, weights(builder, "w", 64, 32), builder.constant(ones, "c"), alpha=0.5)

    runs = task_runs(model_of(chip, [(48, 64)], make, fusion="off"))
    (reason,) = {run.lacks for run in runs if "Gemm" in run.name}
    one = "computes behind the product in the Cube's own operator"
    assert reason == ("runs as several tasks" if chip == SPLIT else one)


def test_elements_that_come_twice_are_not_carried_by_blocks():
    """A tensor beside itself: which of the two copies an element is of, its place does not tell."""

    def lacking(*operands):
        model = model_of(
            COUPLED, [(40, 48), (40, 48)], lambda b, x, z: b.op("Concat", *((x, z)[n] for n in operands))
        )
        return {tiles_of(model).lacks(task.id) for task in model.program.tasks}

    assert lacking(0, 1) == {""}
    assert "does not move elements as they are" in lacking(0, 0)


def test_open_shapes_are_refused():
    builder = asim.GraphBuilder()
    builder.output(builder.op("Exp", builder.input("x", ("n", 4))), "y")
    model = asim.compile(builder.build(), SPLIT)
    with pytest.raises(InputError, match="fixed shapes"):
        asim.run(model, {"x": np.zeros((2, 4), np.float32)}, values="tile")


@CHIPS
def test_notes_change_no_block(chip):
    graph = asim.load("tests/data/models/lenet5.onnx", weights="random")
    model = asim.compile(graph, chip, fusion="all")
    noted = noted_program(model)
    assert [task_listing(task) for task in noted.tasks] == [
        task_listing(task) for task in model.program.tasks
    ]
    plain = (
        one for task in model.program.tasks for group in task.groups for one in group.block.template.body
    )
    assert all(getattr(one, "effect", None) is None for one in plain)


# --- blocks that do wrong -----------------------------------------------------------------------------------


def product(chip=SPLIT):
    return model_of(chip, [(64, 96)], lambda b, x: b.op("MatMul", x, weights(b, "w", 96, 64)))


def number_of(tiles, model, name):
    """The task of an operator."""
    tasks = [task.id for task in model.program.tasks]
    (number,) = [task for task in tasks if name in {node.op_type for node in tiles.nodes(task)}]
    return number


def changed(task, change):
    """A task with other blocks."""

    def other(block):
        made = change(block.template)
        return made if block is block.template else RenamedBlock(made, block._names)

    return replace(task, groups=tuple([replace(one, block=other(one.block)) for one in task.groups]))


def run_changed(model, change, name="MatMul"):
    """What the task of an operator does with other blocks, on tensors of ones."""
    tiles = tiles_of(model)
    number = number_of(tiles, model, name)
    for tasks in (tiles._tasks, tiles._timed):
        tasks[number] = changed(tasks[number], change)
    memory = DeviceMemory(model.graph, model.program.memory, "device")
    for tensor in model.graph.tensors.values():
        if memory.holds(tensor) and not tensor.is_constant:
            memory.write(tensor, np.ones(tensor.static_shape, memory.dtype(tensor)))
    return tiles.run(number, memory)


def without(is_it):
    """A block without some of its instructions."""

    def kept(body):
        for one in body:
            if isinstance(one, Loop):
                yield replace(one, body=tuple(kept(one.body)))
            elif not is_it(one):
                yield one

    return lambda block: replace(block, body=tuple(kept(block.body)))


def loads(one):
    return isinstance(one, Move) and one.pipe is Pipe.MTE2


def test_the_same_task_untouched():
    (result,) = run_changed(product(), lambda block: block).values()
    assert result.shape == (64, 64)


@pytest.mark.parametrize(
    ("is_it", "message"),
    [
        (loads, "nothing has written"),
        (lambda one: isinstance(one, Move) and one.pipe is Pipe.MTE1, "nothing has written"),
        (lambda one: isinstance(one, Mmad), "nothing has written"),
        (lambda one: isinstance(one, Move) and one.pipe is Pipe.FIX, "must be stored as a whole"),
    ],
    ids=["load", "feed", "product", "store"],
)
def test_a_block_that_leaves_an_instruction_out_is_found(is_it, message):
    with pytest.raises(SimulationError, match=message):
        run_changed(product(), without(is_it))


def test_a_block_on_too_small_a_slot_is_found():
    def halved(block):
        halves = [replace(one, slot_bytes=one.slot_bytes // 2) for one in block.allocations]
        return replace(block, allocations=tuple(halves))

    with pytest.raises(SimulationError, match="must stay in its slot"):
        run_changed(product(), halved)


def test_a_vector_block_that_loads_or_computes_nothing_is_found():
    model = model_of(SPLIT, [(64, 96)], lambda b, x: b.op("Exp", x))
    with pytest.raises(SimulationError, match="reads bytes of UB that nothing has written"):
        run_changed(model, without(loads), "Exp")
    with pytest.raises(SimulationError, match="nothing has written"):
        run_changed(model, without(lambda one: isinstance(one, Vector)), "Exp")


def test_other_blocks_than_those_that_were_timed_are_refused():
    model = product()
    tiles = tiles_of(model)
    number = number_of(tiles, model, "MatMul")
    tiles._timed[number] = changed(tiles._timed[number], without(loads))
    with pytest.raises(SimulationError, match="that were timed"):
        tiles.run(number, DeviceMemory(model.graph, model.program.memory, "device"))


def test_the_command_says_how_much_it_computed(capsys):
    command = ["run", "tests/data/models/lstm_lm.onnx", "--weights", "random", "--soc_version", COUPLED]
    assert main([*command, "--values", "tile"]) == 2
    assert "LSTM (2)" in capsys.readouterr().err
    assert main([*command, "--values", "tile", "--lacking", "operators"]) == 0
    out = capsys.readouterr().out
    assert "computed by their operators: LSTM (2)" in out
    assert "outputs (tile values)" in out
    assert main([*command, "--lacking", "operators"]) == 2
