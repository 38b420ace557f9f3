"""Kernels for open shapes on split cores, and what kernels of the first Ascend910B do that others do not."""

from __future__ import annotations

import math

import pytest

import ascendsim as asim
from ascendsim import soc as chips
from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format
from ascendsim.graph.ir import Graph
from ascendsim.isa.program import Task

OPEN = {"open_shape_kernels": "always"}


def one(op: str, *shape: int, soc: str = "Ascend910B1", dtype: str = "float32", **more: object) -> Task:
    """The task of an operator on one tensor."""
    axes = more.pop("axes", None)
    b = asim.GraphBuilder("one")
    given = b.input("x", shape, dtype)
    inputs = [given] if axes is None else [given, list(axes)]  # type: ignore[call-overload]
    made = b.op(op, *inputs, **more)  # type: ignore[arg-type]
    b.output(made, "y")
    return task_of(b.build(), soc)


def task_of(graph: Graph, soc: str) -> Task:
    model = asim.compile(
        graph, soc, fusion="off", precision_mode="must_keep_origin_dtype", optimize=False, options=OPEN
    )
    return model.program.tasks[-1]


def microseconds(op: str, *shape: int, soc: str, overrides: dict[str, float], **more: object) -> float:
    b = asim.GraphBuilder("one")
    b.output(b.op(op, b.input("x", shape), **more), "y")  # type: ignore[arg-type]
    model = asim.compile(
        b.build(),
        soc=chips.load(soc, overrides),
        fusion="off",
        precision_mode="must_keep_origin_dtype",
        options=OPEN,
    )
    return asim.simulate(model).duration_us


def block_us(op: str, shape: tuple[int, ...], given: dict[str, object], **more: object) -> float:
    b = asim.GraphBuilder("one")
    b.output(b.op(op, b.input("x", shape), **more), "y")  # type: ignore[arg-type]
    trace = asim.simulate(asim.compile(b.build(), "Ascend910B1", fusion="off", **given)).trace  # type: ignore[arg-type]
    return max(trace.us(task.end - task.start) for task in trace.tasks)


@pytest.mark.parametrize(
    ("shape", "axes", "blocks"),
    [
        ((32, 1000), [0], 42),
        ((32, 4096), [0], 47),
        ((256, 169), [1], 43),
        ((384, 169), [1], 48),
        ((64, 3025), [1], 32),
        ((160,), [0], 1),
    ],
)
def test_sums_take_the_published_blocks(shape: tuple[int, ...], axes: list[int], blocks: int) -> None:
    """AlexNet's training on Ascend910B."""
    assert one("ReduceSum", *shape, axes=axes, keepdims=0).block_dim == blocks


def test_long_rows_are_still_cut() -> None:
    assert one("ReduceSum", 4_000_000, axes=[0], keepdims=0).block_dim > 20


def test_tiling_and_code_are_paid_once_a_core_and_by_the_number_of_cores() -> None:
    hardly = {"kernels.tiling_ns": 0.01, "kernels.core_code_ns": 0}
    for op, shape, more in (("Transpose", (32, 5), {"perm": (1, 0)}), ("LogSoftmax", (32, 1000), {})):
        bare = microseconds(op, *shape, soc="Ascend910B1", overrides=hardly, **more)
        full = microseconds(op, *shape, soc="Ascend910B1", overrides={}, **more)
        cores = one(op, *shape, **more).block_dim
        assert full - bare == pytest.approx(3.0 + 0.21 * cores, abs=1.0)


@pytest.mark.parametrize(
    ("asked", "pays"), [("unsunk", ("host", "eager")), ("always", asim.isa.program.MODES), ("never", ())]
)
def test_sunk_graphs_have_kernels_for_their_own_shapes(asked: str, pays: tuple[str, ...]) -> None:
    """Of the task alone, without what the host does around it."""
    for schedule in ("sink", "host", "eager"):
        for op, more in (("Transpose", {"perm": (1, 0)}), ("Softmax", {}), ("Relu", {})):
            blocks = [
                block_us(
                    op, (320, 50), {"schedule": schedule, "options": {"open_shape_kernels": way}}, **more
                )
                for way in (asked, "never")
            ]
            assert (blocks[0] > blocks[1] + 3) is (op != "Relu" and schedule in pays)


def test_graphs_of_open_shapes_are_not_sunk_and_pay() -> None:
    b = asim.GraphBuilder("open")
    b.output(b.op("Softmax", b.input("x", ("n", 64))), "y")
    graph, shapes = b.build(), {"x": (320, 64)}
    models = [
        asim.compile(graph, "Ascend910B1", fusion="off", options={"open_shape_kernels": way})
        for way in ("unsunk", "always", "never")
    ]
    times = [asim.simulate(model, shapes=shapes).duration_us for model in models]
    assert times[0] == times[1] > times[2]


def chain_us(schedule: str, fusion: str, soc: str = "Ascend910B1") -> list[float]:
    """Times of the tasks of Exp(x * 2 + 1)."""
    b = asim.GraphBuilder("chain")
    x = b.input("x", (1024, 1024))
    b.output(b.op("Exp", b.op("Add", b.op("Mul", x, 2.0), 1.0)), "y")
    trace = asim.simulate(asim.compile(b.build(), soc, fusion=fusion, schedule=schedule)).trace
    return [trace.us(task.end - task.start) for task in trace.tasks if "Exp" in task.name]


def test_what_ub_fusion_makes_of_elementwise_kernels_has_its_tiling_on_the_core() -> None:
    """Published, warm: Exp with a product and a sum in one kernel takes 8 to 10 us more than Exp alone. Here
    the code is fetched too.
    """
    (sunk,), (unsunk,) = chain_us("sink", "all"), chain_us("host", "all")
    assert unsunk - sunk == pytest.approx(3 + 0.21 * 48, abs=1)
    assert chain_us("host", "off") == pytest.approx(chain_us("sink", "off"), abs=0.5)
    assert chain_us("host", "all", "Ascend910A") == pytest.approx(
        chain_us("sink", "all", "Ascend910A"), abs=0.5
    )


@pytest.mark.parametrize("op", ["Relu", "ReduceL2"])
def test_other_kernels_have_their_tiling_from_the_host(op: str) -> None:
    none = {"kernels.tiling_ns": 0, "kernels.core_code_ns": 0}
    assert microseconds(op, 32, 1000, soc="Ascend910B1", overrides=none) == microseconds(
        op, 32, 1000, soc="Ascend910B1", overrides={}
    )


@pytest.mark.parametrize(("images", "blocks"), [(32, 32), (45, 45), (100, 34)])
def test_transdata_gives_a_core_whole_images(images: int, blocks: int) -> None:
    """Published for 32 images."""
    b = asim.GraphBuilder("maps")
    x = b.input("x", (images, 64, 13, 13))
    b.output(b.op("TransData", x, domain="ascend", src_format="NCHW", dst_format="NC1HWC0"), "y")
    assert task_of(b.build(), "Ascend910B1").block_dim == blocks


@pytest.mark.parametrize(
    ("shape", "blocks"),
    [((256, 256, 3, 3), 43), ((384, 192, 3, 3), 43), ((256, 384, 3, 3), 43), ((192, 64, 5, 5), 39)],
)
def test_filters_take_time_by_their_elements(shape: tuple[int, ...], blocks: int) -> None:
    """Published: the block counts, and 3.3 to 4.9 cycles an element of a core at 1.85 GHz."""
    b = asim.GraphBuilder("filters")
    x = b.input("x", shape)
    b.output(b.op("TransData", x, domain="ascend", src_format="NCHW", dst_format="FRACTAL_Z"), "y")
    model = asim.compile(b.build(), "Ascend910B1", fusion="off", precision_mode="must_keep_origin_dtype")
    (task,) = model.program.tasks
    assert task.block_dim == blocks
    alone = chips.load("Ascend910B1", {"launch.block_dispatch_ns": 0})
    took = asim.simulate(
        asim.compile(b.build(), soc=alone, fusion="off", precision_mode="must_keep_origin_dtype")
    ).duration_us
    elements = math.prod(shape) / blocks
    assert 3.3 < took * 1850 / elements < 4.9


@pytest.mark.parametrize(("channels", "side", "low", "high"), [(256, 13, 10.7, 15.6), (192, 27, 14.3, 39.8)])
def test_ragged_rows_of_maps_take_their_time(channels: int, side: int, low: float, high: float) -> None:
    """Published: time of the vector cores for 32 images, without launch; the longest of data from memory."""
    b = asim.GraphBuilder("maps")
    x = b.input("x", (32, channels, side, side))
    b.output(b.op("TransData", x, domain="ascend", src_format="NCHW", dst_format="NC1HWC0"), "y")
    chip = chips.load("Ascend910B1", {"launch.block_dispatch_ns": 0, "launch.task_launch_us": 0})
    model = asim.compile(
        b.build(),
        soc=chip,
        fusion="off",
        precision_mode="must_keep_origin_dtype",
        optimize=False,
        options=OPEN,
    )
    assert low < asim.simulate(model).duration_us < high


def adam_w(dtype: str, overrides: dict[str, float], elements: int = 1 << 20) -> float:
    b = asim.GraphBuilder("update")
    w, m, v, g = (b.input(name, (elements,), dtype) for name in "wmvg")
    numbers = [b.input(f"n{number}", (), dtype) for number in range(7)]
    made = b.ops("ApplyAdamW", w, m, v, *numbers, g, outputs=3, domain="ascend")
    b.output(made[0])
    chip = chips.load("Ascend910B2", {"launch.block_dispatch_ns": 27, **overrides})
    model = asim.compile(
        b.build(),
        soc=chip,
        fusion="off",
        precision_mode="must_keep_origin_dtype",
        optimize=False,
        options=OPEN,
    )
    return asim.simulate(model).duration_us


@pytest.mark.parametrize(("dtype", "measured"), [("float16", 28.7), ("bfloat16", 34.4), ("float32", 38.1)])
def test_long_code_is_fetched_whatever_the_type(dtype: str, measured: float) -> None:
    """Published: calls of ApplyAdamW with a million elements; half types are computed as the kernel does."""
    whole, without = (adam_w(dtype, {"kernels.long_code_ns": ns}) for ns in (380, 0))
    assert whole == pytest.approx(measured, rel=0.12)
    assert whole - without == pytest.approx(48 * 0.38, rel=0.02)


def test_the_smallest_matrix_is_turned_by_all_cores() -> None:
    """Published: 48 blocks for 32 x 5 of int64, 19.04 us."""
    assert one("Transpose", 32, 5, dtype="int64", perm=(1, 0)).block_dim == 48
    never = {"options": {"open_shape_kernels": "never"}}
    took = block_us("Transpose", (32, 5), {"options": OPEN}, perm=(1, 0))
    assert took - block_us("Transpose", (32, 5), never, perm=(1, 0)) > 10


def test_memory_is_cleared_by_all_cores() -> None:
    """Published: MemSet has 48 blocks, 40 on Ascend910B4, for memory of any size."""
    for soc, cores in (("Ascend910B1", 48), ("Ascend910B4", 40)):
        assert one("AtomicAddrClean", 100, soc=soc, domain="ascend").block_dim == cores


def convolution_model(dtype: str, images: int = 32, **overrides: bool) -> asim.CompiledModel:
    b = asim.GraphBuilder("convolution")
    x, w = b.input("x", (images, 256, 13, 13), dtype), b.input("w", (256, 256, 3, 3), dtype)
    b.output(b.op("Conv", x, w, pads=(1, 1, 1, 1)))
    chip = chips.load("Ascend910B1", {f"kernels.{key}": value for key, value in overrides.items()})
    return asim.compile(
        b.build(), soc=chip, fusion="off", precision_mode="must_keep_origin_dtype", optimize=False
    )


def convolved(dtype: str, images: int) -> Task:
    tasks = convolution_model(dtype, images).program.tasks
    return next(task for task in tasks if task.name == "Conv")


@pytest.mark.parametrize(("images", "blocks"), [(32, 16), (24, 24), (48, 24)])
def test_cores_convolve_equally_many_images(images: int, blocks: int) -> None:
    """Published: 16 of 24 cores for 32 images."""
    assert convolved("float32", images).block_dim == blocks


def test_float32_is_cut_to_hf32_in_convolutions_alone() -> None:
    """CANN's default: at the rate of half the blocks; products keep float32."""
    times = [
        asim.simulate(convolution_model("float32", convolves_hf32=cut)).duration_us for cut in (True, False)
    ]
    assert 1.4 < times[1] / times[0] < 2
    half = [
        asim.simulate(convolution_model("float16", convolves_hf32=cut)).duration_us for cut in (True, False)
    ]
    assert half[0] == half[1]
    products = []
    for cut in (True, False):
        b = asim.GraphBuilder("product")
        b.output(b.op("MatMul", b.input("x", (1024, 1024)), b.input("w", (1024, 1024))))
        chip = chips.load("Ascend910B1", {"kernels.convolves_hf32": cut})
        model = asim.compile(b.build(), soc=chip, precision_mode="must_keep_origin_dtype")
        products.append(asim.simulate(model).duration_us)
    assert products[0] == products[1]


def test_filters_of_one_point_go_as_a_matrix() -> None:
    """Nothing published says that they go element by element."""
    times = []
    for cycles in (3.6, 0.0):
        b = asim.GraphBuilder("filters")
        x = b.input("x", (512, 512, 1, 1))
        b.output(b.op("TransData", x, domain="ascend", src_format="NCHW", dst_format="FRACTAL_Z"), "y")
        chip = chips.load("Ascend910B1", {"kernels.transdata_filter_cycles": cycles})
        model = asim.compile(b.build(), soc=chip, fusion="off", precision_mode="must_keep_origin_dtype")
        times.append(asim.simulate(model).duration_us)
    assert times[0] == times[1]


def test_transdata_of_the_first_generation_launches_all_cores() -> None:
    """Published: 30 blocks for 16 x 100 numbers, most of them with nothing to do."""
    b = asim.GraphBuilder("small")
    x = b.input("x", (16, 100), "float16")
    b.output(b.op("TransData", x, domain="ascend", src_format="ND", dst_format="FRACTAL_NZ"), "y")
    task = task_of(b.build(), "Ascend910B")
    assert task.block_dim == 30
    assert sum(group.count for group in task.groups if not group.block.body) > 15


@pytest.mark.parametrize(
    ("op", "elements", "dtype", "blocks"),
    [("Relu", 3072, "float32", 6), ("Relu", 12000, "float32", 24), ("Relu", 3072, "float16", 3)],
)
def test_blocks_of_the_first_910b_go_by_bytes(op: str, elements: int, dtype: str, blocks: int) -> None:
    assert one(op, elements, soc="Ascend910B", dtype=dtype).block_dim == blocks
    assert one(op, elements, soc="Ascend910A", dtype=dtype).block_dim == -(-elements // 1024)


def test_casts_are_shared_by_what_they_make() -> None:
    for source, target, blocks in (("float16", DType.FLOAT32, 4), ("float32", DType.FLOAT16, 2)):
        assert one("Cast", 16, 100, soc="Ascend910B", dtype=source, to=target).block_dim == blocks


def sums(soc: str, columns: int, format: Format = Format.ND, **overrides: float) -> float:
    b = asim.GraphBuilder("sums")
    b.output(b.op("BiasAddGrad", b.input("x", (3200, columns), "float16"), domain="ascend"), "y")
    chip = chips.load(soc, {f"kernels.{key}": value for key, value in overrides.items()})
    model = asim.compile(b.build(), soc=chip, fusion="off", precision_mode="must_keep_origin_dtype")
    return asim.simulate(model).duration_us


def test_rows_are_added_one_after_the_other() -> None:
    """Published, ViT: 18.2 us for 768 columns and 34.0 for 3072."""
    assert sums("Ascend910B", 768) == pytest.approx(18.2, rel=0.15)
    assert sums("Ascend910B", 3072) == pytest.approx(34.0, rel=0.15)
    assert sums("Ascend910B", 768, adds_rows_cycles=1) < 12
    assert sums("Ascend910A", 768) < 14  # nothing published says it there


def test_masks_are_set_for_each_repeat() -> None:
    """Published, ViT: 20.5 and 86.5 us on the first Ascend910B."""
    for shape, published in (((128, 50, 768), 20.5), ((128, 50, 3072), 86.5)):
        b = asim.GraphBuilder("dropout")
        x, bits = b.input("x", shape, "float16"), b.input("bits", (shape[0] * 50 * shape[2] // 8,), "uint8")
        kept = b.constant(0.9, dtype=DType.FLOAT16)
        b.output(b.op("DropOutDoMask", b.op("Neg", x), bits, kept, domain="ascend"), "y")
        model = asim.compile(
            b.build(), soc="Ascend910B", fusion="off", precision_mode="must_keep_origin_dtype"
        )
        trace = asim.simulate(model).trace
        assert trace.us(trace.tasks[-1].end - trace.tasks[-1].start) == pytest.approx(published, rel=0.25)


def test_long_rows_of_root_norm_gradients_go_one_by_one() -> None:
    """ops-nn, rms_norm_grad_split_n_high_precision.h: SMALLD_THRESHOLD."""
    times = []
    for cols in (640, 656):
        b = asim.GraphBuilder("gradient")
        dy, x = (b.input(name, (4096, cols), "bfloat16") for name in ("dy", "x"))
        rstd, gamma = b.input("rstd", (4096, 1)), b.input("gamma", (cols,), "bfloat16")
        b.output(b.ops("RmsNormGrad", dy, x, rstd, gamma, outputs=2, domain="ascend")[0])
        model = asim.compile(b.build(), "Ascend910B4", fusion="off", optimize=False, options=OPEN)
        times.append(asim.simulate(model).duration_us)
    assert times[1] > 1.4 * times[0]


def test_short_rows_of_root_norms_are_padded_one_by_one() -> None:
    """Published: 1146 us for a million rows of two bfloat16 (ops-nn, rms_norm_merge_n.h)."""
    times = []
    for cols in (2, 16):
        b = asim.GraphBuilder("rows")
        x, scale = b.input("x", (1_000_003, cols), "bfloat16"), b.input("scale", (cols,), "bfloat16")
        b.output(b.op("RMSNormalization", x, scale, axis=-1))
        times.append(asim.simulate(asim.compile(b.build(), "Ascend910B2", fusion="off")).duration_us)
    assert 1146 / 2 < times[0] < 1146
    assert times[1] < times[0] / 2  # eight times as much, in whole blocks


def test_quantised_products_start_with_the_library() -> None:
    """Published: 7.82 us for 32 x 256 x 512; by the vendor's guide the library takes 2.76 of it."""
    times = []
    for start in (2756, 0):
        b = asim.GraphBuilder("product")
        x, w = b.input("x", (32, 256), "int8"), b.input("w", (256, 512), "int8")
        scale = b.input("scale", (512,))
        made = b.op("QuantBatchMatmulV3", x, w, scale, None, None, None, domain="ascend", dtype=DType.FLOAT16)
        b.output(made)
        chip = chips.load("Ascend910B2", {"kernels.library_start_ns": start})
        times.append(asim.simulate(asim.compile(b.build(), soc=chip, fusion="off")).duration_us)
    assert times[0] - times[1] == pytest.approx(2.756, abs=0.01)
    assert times[0] < 7.82
