"""Dropout masks: seeded, packed, of the share that is asked for; and what they do to a tensor."""

from __future__ import annotations

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.errors import GraphError
from ascendsim.opset.work import VectorWork
from tests.support.operator_cases import work_of
from tests.support.single_node import infer, make_node, run

pytestmark = pytest.mark.usefixtures("untimed_tiles")


def _mask(shape: tuple[int, ...], share: float, **seeds: int) -> np.ndarray:
    (mask,) = run("DropOutGenMask", [np.array(shape), np.float32(share)], 1, "ascend", **seeds)
    return mask


def test_a_mask_has_a_bit_an_element_filled_up_to_128() -> None:
    for shape, size in (((5, 77), 64), ((128,), 16), ((129,), 32), ((), 16), ((0, 3), 0)):
        mask = _mask(shape, 1.0, seed=1)
        assert mask.shape == (size,)
        bits = np.unpackbits(mask, bitorder="little")
        count = int(np.prod(shape))
        assert bits[:count].all()
        assert not bits[count:].any()


def test_seeds_decide_the_mask() -> None:
    shape = (100, 100)
    first = _mask(shape, 0.5, seed=3, seed2=4)
    np.testing.assert_array_equal(first, _mask(shape, 0.5, seed=3, seed2=4))
    for seeds in ((3, 5), (4, 4), (4, 3)):
        other = _mask(shape, 0.5, seed=seeds[0], seed2=seeds[1])
        assert 0.4 < np.unpackbits(first ^ other).mean() < 0.6
    given = [np.array(shape), np.float32(0.5), np.array([3]), np.array([4])]
    (stateless,) = run("StatelessDropOutGenMask", given, 1, "ascend")
    (again,) = run("StatelessDropOutGenMask", given, 1, "ascend")
    (later,) = run("StatelessDropOutGenMask", [*given, np.array([1])], 1, "ascend")
    np.testing.assert_array_equal(stateless, again)
    assert (stateless != later).any()


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_share_that_stays_is_that_which_is_asked_for(share: float) -> None:
    bits = np.unpackbits(_mask((200, 200), share, seed=9), bitorder="little")[:40000]
    assert abs(bits.mean() - share) < 4 * np.sqrt(share * (1 - share) / 40000)


def test_a_mask_is_not_folded_away() -> None:
    """Each node without a seed draws its own numbers, the same ones in each run."""
    builder = asim.GraphBuilder()
    x = builder.input("x", (16, 64))
    for name in ("a", "b"):
        mask = builder.op("DropOutGenMask", np.array([16, 64]), np.float32(0.5), domain="ascend")
        builder.output(builder.op("DropOutDoMask", x, mask, np.float32(0.5), domain="ascend"), name)
    model = asim.compile(builder.build(), soc="Ascend910A")
    assert [node.op_type for node in model.graph.nodes].count("DropOutGenMask") == 2
    ones = {"x": np.ones((16, 64), np.float32)}
    first, second = asim.run(model, ones).outputs, asim.run(model, ones).outputs
    assert set(np.unique(first["a"])) == {0, 2}
    assert (first["a"] != first["b"]).any()
    np.testing.assert_array_equal(first["a"], second["a"])


def test_bits_and_bytes_keep_the_same_elements() -> None:
    x = np.arange(1, 301, dtype=np.float32).reshape(3, 100)
    bits = np.random.default_rng(0).random(384) < 0.5
    wanted = np.where(bits[:300].reshape(3, 100), x * np.float32(1 / np.float32(0.8)), 0)
    packed = np.packbits(bits, bitorder="little")
    share = np.array([0.8], np.float32)
    np.testing.assert_array_equal(run("DropOutDoMask", [x, packed, share], 1, "ascend")[0], wanted)
    plain = bits.astype(np.uint8)
    np.testing.assert_array_equal(run("DropOutDoMaskV3", [x, plain, share], 1, "ascend")[0], wanted)


def test_masks_of_another_size_are_refused() -> None:
    with pytest.raises(GraphError, match=r"needs a mask of shape \(48,\)"):
        make_node("DropOutDoMask", [np.ones((3, 100)), np.ones(32, np.uint8), np.float64(1)], 1, "ascend")
    with pytest.raises(GraphError, match=r"needs a mask of shape \(384,\)"):
        make_node("DropOutDoMaskV3", [np.ones((3, 100)), np.ones(48, np.uint8), np.float64(1)], 1, "ascend")
    with pytest.raises(GraphError, match="needs a mask of uint8"):
        make_node("DropOutDoMask", [np.ones((3, 100)), np.ones(48), np.float64(1)], 1, "ascend")
    assert infer("DropOutGenMask", [("rank",), ()], domain="ascend") == [(None,)]


def test_a_mask_of_bits_is_read_by_the_bit() -> None:
    x, share = np.ones((64, 100), np.float16), np.float16(0.5)
    for name, size, wanted in (("DropOutDoMask", 800, 800), ("DropOutDoMaskV3", 6400, 6400)):
        node = make_node(name, [x, np.ones(size, np.uint8), share], 1, "ascend")
        work = work_of(node, "Ascend910A")
        assert isinstance(work, VectorWork)
        assert [stream.ref.bytes for stream in work.inputs] == [12800, wanted, 2]


def test_masks_take_the_instructions_of_the_kernel_on_all_cores_of_the_ai_cpu() -> None:
    """72 instructions make 128 bits (16 vectors, one round of AES each)."""
    builder = asim.GraphBuilder()
    x = builder.input("x", (128, 1000))
    mask = builder.op("DropOutGenMask", np.array([128, 1000]), np.float32(0.5), domain="ascend", name="draw")
    builder.output(builder.op("DropOutDoMask", x, mask, np.float32(0.5), domain="ascend"), "y")
    model = asim.compile(builder.build(), soc="Ascend910A")
    (task,) = model.tasks_of("draw")
    spec = model.soc.ai_cpu
    assert task.cpu_us == pytest.approx(72_000 / spec.elements_per_us / 4)
