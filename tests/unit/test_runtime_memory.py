"""The simulated device memory: types of both kinds of values, what shares bytes, what is too large for a
weight's type."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import InputError, SimulationError
from ascendsim.graph.ir import Constant, Graph, Tensor
from ascendsim.isa.program import MemoryPlan, Region
from ascendsim.runtime.device_memory import DeviceMemory, Values, constant_values
from tests.support.gate import in_one

pytestmark = pytest.mark.usefixtures("untimed_tiles")

F16_MAX, F32_MAX = 65504.0, float(np.finfo(np.float32).max)


def tensor(
    graph: Graph, name: str, shape: tuple[int, ...], dtype: DType = DType.FLOAT32, origin: DType | None = None
) -> Tensor:
    made = graph.add_tensor(Tensor(name, dtype, shape))
    made.origin_dtype = origin
    return made


def memory_of(graph: Graph, *regions: Region, values: Values = "device") -> DeviceMemory:
    return DeviceMemory(graph, MemoryPlan({region.name: region for region in regions}, 0, 0), values)


def test_only_what_has_an_address_of_its_own_has_a_place() -> None:
    graph = Graph("g")
    held, unread = tensor(graph, "held", (4,)), tensor(graph, "unread", (4,))
    ones = graph.add_tensor(Tensor("ones", DType.FLOAT32, (4,), constant=Constant(np.ones(4, np.float32))))
    memory = memory_of(graph, Region("held", 16, 16, "activation"), Region("ones", 32, 16, "weight"))
    place = memory.place(held)
    assert place is not None
    place[...] = 3
    np.testing.assert_array_equal(memory.read(held), np.full(4, 3, np.float32))
    assert memory.place(unread) is None
    assert memory.place(ones) is None


# -----------------------------------------------------------------------------------------------------------


def weight(values: NDArray[Any], device: DType, origin: DType | None, kind: Values) -> NDArray[Any]:
    """A constant as a run sees it."""
    graph = Graph("g")
    made = graph.add_tensor(Tensor("w", device, values.shape, constant=Constant(values)))
    made.origin_dtype = origin
    return memory_of(graph, Region("w", 0, values.nbytes, "weight"), values=kind).read(made)


@pytest.mark.parametrize(
    ("values", "dtype", "device", "wanted"),
    [
        (
            [1.5, np.inf, -np.inf, 1e6, -1e6],
            np.float32,
            DType.FLOAT16,
            [1.5, F16_MAX, -F16_MAX, F16_MAX, -F16_MAX],
        ),
        # would be rounded up to infinity
        ([65519.0, 65520.0], np.float32, DType.FLOAT16, [F16_MAX, F16_MAX]),
        ([2049.0, 2051.0, 1e-8], np.float32, DType.FLOAT16, [2048, 2052, 0]),  # to nearest even
        ([1e300, -np.inf, 0.1], np.float64, DType.FLOAT32, [F32_MAX, -F32_MAX, float(np.float32(0.1))]),
        ([1e300, -1e300, 0.5], np.float64, DType.FLOAT16, [F16_MAX, -F16_MAX, 0.5]),
        # no narrower: as it is
        ([np.inf, -np.inf, 1e38], np.float32, DType.FLOAT32, [np.inf, -np.inf, float(np.float32(1e38))]),
        ([np.inf, 0.5], np.float16, DType.FLOAT32, [np.inf, 0.5]),
        ([3.0, -2.0, 100.0], np.float32, DType.INT8, [3, -2, 100]),
        ([3.0, -2.0], np.float64, DType.INT32, [3, -2]),
        ([7, -3, 1 << 20], np.int64, DType.FLOAT32, [7, -3, 1 << 20]),
        ([7, -3, 60000], np.int32, DType.FLOAT16, [7, -3, 60000]),
        ([1 << 40, -5], np.int64, DType.INT32, [0, -5]),  # integers keep their low bits
        ([True, False], np.bool_, DType.FLOAT16, [1, 0]),
    ],
)
def test_a_weight_takes_the_type_of_the_device(
    values: list[Any], dtype: Any, device: DType, wanted: list[Any]
) -> None:
    held = np.array(values, dtype)
    found = weight(held, device, DType.of(held.dtype), "device")
    assert found.dtype == device.numpy
    np.testing.assert_array_equal(found, np.array(wanted, found.dtype))
    # the model's own type
    np.testing.assert_array_equal(weight(held, device, DType.of(held.dtype), "float32"), held)


def test_an_infinite_mask_is_the_largest_number_in_half_precision_and_stays_infinite_in_the_models_type() -> (
    None
):
    """A user's way: x + mask, with a mask that switches elements off."""
    b = asim.GraphBuilder("masked")
    x = b.input("x", (2, 8))
    mask = b.constant(np.where(np.arange(8) < 4, 0, -np.inf).astype(np.float32), "mask")
    b.output(b.op("Add", x, mask), "y")
    model = asim.compile(b.build(), soc="Ascend310P3")
    inputs = {"x": np.zeros((2, 8), np.float32)}
    assert asim.run(model, inputs, values="float32").outputs["y"][0, 4:].tolist() == [-np.inf] * 4
    assert asim.run(model, inputs).outputs["y"][0, 4:].tolist() == [-F16_MAX] * 4


def test_a_weight_is_converted_once() -> None:
    values, calls = np.ones(4, np.float32), []
    graph = Graph("g")
    constant = Constant(loader=lambda: calls.append(1) or values)  # type: ignore[func-returns-value]
    made = graph.add_tensor(Tensor("w", DType.FLOAT16, (4,), constant=constant))
    made.origin_dtype = DType.FLOAT32
    memory = memory_of(graph, Region("w", 0, 8, "weight"))
    assert memory.read(made) is not None
    assert np.shares_memory(memory.read(made), memory.read(made))
    assert calls == [1]


def test_a_weight_without_values_says_why() -> None:
    graph = Graph("g")
    absent = graph.add_tensor(
        Tensor("w", DType.FLOAT32, (4,), constant=Constant(absent_because="the file is missing"))
    )
    with pytest.raises(
        asim.GraphError,
        match=r"weight 'w' has no values \(the file is missing\); load the model with weights=",
    ):
        memory_of(graph, Region("w", 0, 16, "weight")).read(absent)


def test_a_tensor_that_is_no_constant_has_no_values_to_be_converted() -> None:
    plain = Tensor("x", DType.FLOAT32, (4,))
    with pytest.raises(asim.GraphError, match=r"weight 'x' has no values \(it is no constant\)"):
        constant_values(plain, np.dtype(np.float32))


# ------------------------------------------------------------------------------------------------------- acti


def test_inputs_are_read_where_they_are_if_nothing_else_lies_at_their_address() -> None:
    graph = Graph("g")
    apart, shared, other = (tensor(graph, name, (4,)) for name in ("apart", "shared", "other"))
    memory = memory_of(
        graph,
        Region("apart", 0, 16, "input"),
        Region("shared", 512, 16, "input"),
        Region("other", 520, 16, "activation"),
    )
    given = np.arange(8, dtype=np.float32)
    memory.take(apart, given[:4])
    memory.take(shared, given[4:])
    assert np.shares_memory(memory.read(apart), given)
    assert not np.shares_memory(memory.read(shared), given)
    np.testing.assert_array_equal(memory.read(shared), given[4:])
    memory.write(other, np.full(4, 9, np.float32))
    assert memory.read(shared).tolist() == [4, 5, 9, 9]
    memory.give_back()
    assert not np.shares_memory(memory.read(apart), given)
    memory.take(apart, given[::2])  # what has gaps is copied
    assert memory.read(apart).tolist() == [0, 2, 4, 6]
    assert not np.shares_memory(memory.read(apart), given)
    for wrong in (given, given[:4].astype(np.float64)):
        with pytest.raises(SimulationError, match=r"'apart' must be float32\[4\], not float"):
            memory.take(apart, wrong)


def test_memory_that_nobody_wrote_reads_as_nan() -> None:
    graph = Graph("g")
    x = tensor(graph, "x", (3,), DType.FLOAT16, DType.FLOAT32)
    for values in ("device", "float32"):
        memory = memory_of(graph, Region("x", 512, 6, "activation"), values=values)  # type: ignore[arg-type]
        assert np.isnan(memory.read(x).astype(np.float32)).all()
        memory.write(x, np.ones(3, memory.dtype(x)))
        assert memory.read(x).tolist() == [1, 1, 1]
        memory.wipe()
        assert np.isnan(memory.read(x).astype(np.float32)).all()


@pytest.mark.parametrize("values", ["device", "float32"])
@pytest.mark.parametrize(
    ("device", "origin"),
    [
        (DType.FLOAT16, DType.FLOAT32),
        (DType.FLOAT32, DType.FLOAT32),
        (DType.FLOAT16, None),
        (DType.INT32, DType.INT64),
        (DType.FLOAT16, DType.FLOAT64),
        (DType.BOOL, DType.BOOL),
    ],
)
def test_values_have_the_devices_type_or_the_models(
    values: Values, device: DType, origin: DType | None
) -> None:
    graph = Graph("g")
    x = tensor(graph, "x", (2, 3), device, origin)
    memory = memory_of(graph, Region("x", 0, 6 * device.itemsize, "activation"), values=values)
    wanted = (device if values == "device" else origin or device).numpy
    assert memory.dtype(x) == wanted
    written = np.arange(6).reshape(2, 3).astype(wanted)
    memory.write(x, written)
    assert memory.read(x).dtype == wanted
    np.testing.assert_array_equal(memory.read(x), written)


@in_one("values", ["device", "float32"])
@in_one("seed", range(15))
def test_tensors_that_overlap_on_the_device_overlap_here(seed: int, values: Values) -> None:
    """Random addresses: after a write, exactly the elements whose bytes on the device were hit have changed,
    stretched or not."""
    random = Random(seed)
    graph, regions = Graph("g"), []
    for number in range(4):
        tensor(graph, f"t{number}", (random.randint(1, 6),), DType.FLOAT16, DType.FLOAT32)
        regions.append(Region(f"t{number}", 2 * random.randint(0, 8), 12, "activation"))
    memory = memory_of(graph, *regions, values=values)
    owner: dict[int, float] = {}
    for step in range(12):
        place = random.randrange(4)
        made = graph.tensors[f"t{place}"]
        content = [float(step * 10 + index) for index in range(made.elements)]
        memory.write(made, np.array(content, memory.dtype(made)))
        owner.update({regions[place].offset // 2 + index: value for index, value in enumerate(content)})
        for number, region in enumerate(regions):
            other = graph.tensors[f"t{number}"]
            wanted = [owner.get(region.offset // 2 + index, np.nan) for index in range(other.elements)]
            np.testing.assert_array_equal(memory.read(other).astype(np.float64), wanted)


def test_a_reshaped_tensor_shares_its_bytes_and_an_alias_of_a_weight_reads_it() -> None:
    graph = Graph("g")
    x, view = tensor(graph, "x", (2, 3)), tensor(graph, "view", (6,))
    w = graph.add_constant("w", np.arange(4, dtype=np.float32))
    flat = tensor(graph, "flat", (2, 2))
    memory = memory_of(
        graph,
        Region("x", 64, 24, "activation"),
        Region("view", 64, 24, "activation", alias_of="x"),
        Region("w", 0, 16, "weight"),
        Region("flat", 0, 16, "weight", alias_of="w"),
    )
    memory.write(x, np.arange(6, dtype=np.float32).reshape(2, 3))
    assert memory.read(view).tolist() == [0, 1, 2, 3, 4, 5]
    memory.write(view, np.full(6, 7, np.float32))
    assert memory.read(x).tolist() == [[7, 7, 7], [7, 7, 7]]
    assert memory.read(flat).tolist() == [[0, 1], [2, 3]]
    assert memory.read(w).tolist() == [0, 1, 2, 3]
    assert [memory.holds(graph.tensors[name]) for name in ("x", "flat")] == [True, True]


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_slices_are_read_and_written_where_they_lie_in_the_whole(axis: int) -> None:
    graph = Graph("g")
    shape = (2, 4, 3)
    whole = tensor(graph, "whole", shape)
    sizes = [1, shape[axis] - 1]
    pieces = [
        tensor(graph, f"p{number}", (*shape[:axis], size, *shape[axis + 1 :]))
        for number, size in enumerate(sizes)
    ]
    flat = tensor(graph, "flat", (pieces[1].elements,))  # a view of a slice
    regions = [Region("whole", 0, 96, "activation")]
    regions += [
        Region(f"p{number}", 0, 96, "activation", alias_of="whole", cut=(axis, number)) for number in range(2)
    ]
    regions.append(Region("flat", 0, 96, "activation", alias_of="p1"))
    memory = memory_of(graph, *regions)
    content = np.arange(24, dtype=np.float32).reshape(shape)
    first, second = np.split(content, [1], axis)
    memory.write(pieces[0], first)
    memory.write(pieces[1], second)
    np.testing.assert_array_equal(memory.read(whole), content)
    np.testing.assert_array_equal(memory.read(pieces[1]), second)
    np.testing.assert_array_equal(memory.read(flat), second.reshape(-1))
    assert memory.read(pieces[1]).flags.c_contiguous
    if axis:
        with pytest.raises(SimulationError, match="tensor 'flat' is a slice under another shape"):
            memory.write(flat, second.reshape(-1))
    else:
        memory.write(flat, np.zeros(flat.elements, np.float32))
        assert memory.read(whole)[1:].sum() == 0


def test_results_that_lie_where_their_inputs_lay_do_not_spoil_each_other() -> None:
    """Two results that are views of memory change places; one alone is written as it is."""
    graph = Graph("g")
    a, b = tensor(graph, "a", (3,)), tensor(graph, "b", (3,))
    memory = memory_of(graph, Region("a", 0, 12, "activation"), Region("b", 64, 12, "activation"))
    memory.write(a, np.array([1, 2, 3], np.float32))
    memory.write(b, np.array([4, 5, 6], np.float32))
    memory.write_all({a: memory.read(b), b: memory.read(a)})
    assert (memory.read(a).tolist(), memory.read(b).tolist()) == ([4, 5, 6], [1, 2, 3])
    memory.write_all({a: memory.read(b)})
    assert memory.read(a).tolist() == [1, 2, 3]


def test_what_does_not_fit_is_refused() -> None:
    graph = Graph("g")
    x, lost = tensor(graph, "x", (3,)), tensor(graph, "lost", (3,))
    memory = memory_of(graph, Region("x", 0, 12, "activation"))
    for wrong in (np.zeros(4, np.float32), np.zeros((3, 1), np.float32), np.zeros(3, np.float64)):
        with pytest.raises(SimulationError, match=r"values of tensor 'x' must be float32\[3\]"):
            memory.write(x, wrong)
    assert not memory.holds(lost)
    for access in (lambda: memory.read(lost), lambda: memory.write(lost, np.zeros(3, np.float32))):
        with pytest.raises(SimulationError, match="tensor 'lost' has no address in device memory"):
            access()
    with pytest.raises(SimulationError, match="tensor 'x' needs 12 bytes of its region's 11"):
        memory_of(graph, Region("x", 0, 11, "activation"), Region("other", 0, 64, "activation")).read(x)


def test_values_in_the_models_type_have_room_for_the_widest() -> None:
    """float64 where the device has float16: all addresses are stretched by four, also those of tensors that
    need no more."""
    graph = Graph("g")
    wide = tensor(graph, "wide", (4,), DType.FLOAT16, DType.FLOAT64)
    plain = tensor(graph, "plain", (2,), DType.FLOAT32, DType.FLOAT32)
    memory = memory_of(
        graph, Region("wide", 0, 8, "activation"), Region("plain", 8, 8, "activation"), values="float32"
    )
    memory.write(wide, np.arange(4, dtype=np.float64))
    memory.write(plain, np.array([8, 9], np.float32))
    assert (memory.read(wide).tolist(), memory.read(plain).tolist()) == ([0, 1, 2, 3], [8, 9])


@pytest.mark.parametrize(("values", "needed"), [("device", "3,072.0"), ("float32", "5,120.0")])
def test_memory_that_the_host_has_not_is_refused(values: Values, needed: str) -> None:
    """The highest address, twice where float16 is held as float32, and constants beside it; a second name of
    a constant takes nothing."""
    graph, tib = Graph("g"), 1 << 40
    graph.add_input("x", DType.FLOAT16, (4,)).origin_dtype = DType.FLOAT32
    regions = {
        "x": Region("x", tib, tib, "input"),
        "w": Region("w", 0, tib, "weight"),
        "v": Region("v", 0, tib, "weight", alias_of="w"),
    }
    with pytest.raises(InputError, match=rf"values of graph 'g' need {needed} GiB"):
        DeviceMemory(graph, MemoryPlan(regions, 0, 0), values)


def test_memory_that_is_held_ends_with_the_last_activation() -> None:
    """Constants lie elsewhere on the host: one at a high address takes no room."""
    graph = Graph("g")
    ends = {"activation": 100, "input": 164, "workspace": 240}
    regions = [Region(kind, end - 36, 36, kind) for kind, end in ends.items()]
    memory = memory_of(graph, *regions, Region("w", 1 << 20, 64, "weight"))
    assert memory._bytes.size == 240
    assert memory_of(graph, Region("w", 1 << 20, 64, "weight"))._bytes.size == 0
