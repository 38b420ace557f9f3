"""Races: seeded ones are found with their lines, good kernels have none, and an order shows wrong values."""

import inspect

import numpy as np
import pytest

import ascendsim as asim
from ascendsim import asc
from tests.support.asc_kernels import softmax
from tests.support.gate import in_turn

H, UB = asc.HardEvent, asc.TPosition.VECCALC
F32, COUNT = asc.float32, 256
WAITS = ("V_MTE2", "MTE2_V", "MTE3_V", "V_MTE3")


def local(place, size=COUNT, dtype=F32):
    return asc.LocalTensor(dtype, UB, place, size)


def gm(address):
    tensor = asc.GlobalTensor()
    tensor.set_global_buffer(address)
    return tensor


@asc.jit
def pipeline(x, z, n, without, op):
    """x to UB, one or two vector instructions, out; `without` a pair of flags."""
    a, b, xs, zs = local(0), local(1024), gm(x), gm(z)
    for event in ("V_MTE2", "MTE3_V"):
        if without != event:
            asc.set_flag(H[event], 0)
    for i in range(0, n, COUNT):
        if without != "V_MTE2":
            asc.wait_flag(H.V_MTE2, 0)
        asc.data_copy(a, xs[i:], COUNT)  # IN
        if without != "MTE2_V":
            asc.set_flag(H.MTE2_V, 0)
            asc.wait_flag(H.MTE2_V, 0)
        if without != "MTE3_V":
            asc.wait_flag(H.MTE3_V, 0)
        op(b, a)  # OP
        if without != "V_MTE2":
            asc.set_flag(H.V_MTE2, 0)
        if without != "V_MTE3":
            asc.set_flag(H.V_MTE3, 0)
            asc.wait_flag(H.V_MTE3, 0)
        asc.data_copy(zs[i:], b, COUNT)  # OUT
        if without != "MTE3_V":
            asc.set_flag(H.MTE3_V, 0)
    for event in ("V_MTE2", "MTE3_V"):
        if without != event:
            asc.wait_flag(H[event], 0)


def one(b, a):
    asc.adds(b, a, 1.0, COUNT)


def masked(b, a):
    asc.adds(b, a, 1.0, 64, COUNT // 64, asc.UnaryRepeatParams())


def copied(b, a):
    asc.data_copy(b, a, COUNT)
    asc.adds(b, b, 1.0, COUNT)


def line(kernel, mark):
    """The line of the kernel that ends with a comment."""
    lines, first = inspect.getsourcelines(getattr(kernel, "function", kernel))
    return first + next(number for number, text in enumerate(lines) if text.rstrip().endswith(f"# {mark}"))


def run(kernel, *args, cores=1, **options):
    return asim.run_kernel(kernel, cores, *args, **options)


def data(n=4 * COUNT):
    return np.arange(n, dtype=np.float32), np.zeros(n, np.float32)


def races(result):
    return {(found.kind, found.where.split(":")[1], found.pipes) for found in result.findings}


@pytest.mark.parametrize("op", [one, masked, copied])
def test_all_flags_in_place(op):
    x, z = data()
    for order in ("program", "late", 0, 1, 2):
        z[:] = 0
        assert run(pipeline, x, z, len(x), None, op, order=order).findings == ()
        np.testing.assert_array_equal(z, x + 1)


# what is missing: the second and the first instruction of the race, their pipes, and cases
MISSING = {
    "MTE2_V": ("OP", "IN", ("MTE2", "V"), 4),
    "V_MTE3": ("OUT", "OP", ("V", "MTE3"), 4),
    "V_MTE2": ("IN", "OP", ("V", "MTE2"), 3),
    "MTE3_V": ("OP", "OUT", ("MTE3", "V"), 3),
}


@pytest.mark.parametrize("without", WAITS)
def test_every_missing_flag_is_found_with_both_places(without):
    x, z = data()
    result = run(pipeline, x, z, len(x), without, one)
    second, first, pipes, count = MISSING[without]
    lines = {mark: line(pipeline, mark) for mark in ("IN", "OUT")} | {"OP": line_of_op(one)}
    (found,) = [item for item in result.findings if item.pipes == pipes]
    assert (found.kind, found.count, found.core) == ("race", count, 0)
    assert found.where.startswith(f"test_asc_races.py:{lines[second]}: asc.")
    assert found.other.startswith(f"test_asc_races.py:{lines[first]}: asc.")
    assert f"wait_flag(HardEvent.{without}, 0)" in found.remedy
    assert found.buffer == "UB"
    assert found.bytes == ((0, 1023) if without in ("MTE2_V", "V_MTE2") else (1024, 2047))


def line_of_op(op):
    return inspect.getsourcelines(op)[1] + 1


def test_the_text_of_a_race():
    x, z = data()
    (found, *_) = run(pipeline, x, z, len(x), "MTE2_V", one).findings
    name = f"test_asc_races.py:{line_of_op(one)}"
    assert str(found).startswith(
        f"{name}: asc.adds (V) reads a (UB 0x0000..0x03ff), which asc.data_copy at "
        f"test_asc_races.py:{line(pipeline, 'IN')} (MTE2) may still be writing; core 0, i=0, 4 times; put"
    )
    flag = "(HardEvent.MTE2_V, 0)"
    said = f"4 times; put set_flag{flag} behind the first and wait_flag{flag} before the second"
    assert str(found).endswith(said)


@pytest.mark.parametrize(("without", "op"), in_turn(WAITS, [one, masked, copied]))
def test_a_missing_flag_gives_wrong_values_in_some_order_repeatably(without, op):
    x, z = data()
    wrong = {}
    for order in ("late", *range(8)):
        for _ in range(2):
            z[:] = 0
            run(pipeline, x, z, len(x), without, op, order=order)
            wrong.setdefault(order, []).append(z.tobytes())
    assert all(first == second for first, second in wrong.values())
    assert any(first != (x + 1).tobytes() for first, _ in wrong.values())


def test_lanes_that_do_not_meet_are_no_race():
    """Bytes count, not blocks: MTE3 takes the first two lanes while the vector unit writes the others."""

    @asc.jit
    def kernel(z, low):
        a = local(0)
        asc.duplicate(a, 1.0, 64)
        asc.set_flag(H.V_MTE3, 0)
        asc.wait_flag(H.V_MTE3, 0)
        asc.data_copy_pad(gm(z), a, asc.DataCopyExtParams(1, 8, 0, 0))
        asc.duplicate(a, 2.0, [((1 << 64) - 1) >> low << low, 0], 1, 1, 8)

    z = np.zeros(8, np.float32)
    assert run(kernel, z, 2).findings == ()
    (found,) = run(kernel, z, 1).findings
    assert (found.kind, found.bytes, found.pipes) == ("race", (4, 7), ("MTE3", "V"))


def test_strides_leave_blocks_out():
    @asc.jit
    def kernel(x, z, first):
        a = local(0, 128)
        asc.data_copy(a[first:], gm(x), asc.DataCopyParams(8, 1, 0, 1))  # every second block
        asc.duplicate(a, 2.0, 64, 1, 2, 8)  # the even ones

    x, z = data(128)
    assert "race" not in {found.kind for found in run(kernel, x, z, 8).findings}
    assert "race" in {found.kind for found in run(kernel, x, z, 0).findings}


def test_transfers_to_the_same_bytes_need_a_barrier():
    @asc.jit
    def kernel(z, barrier):
        a = local(0, 16)
        asc.duplicate(a, 1.0, 16)
        asc.set_flag(H.V_MTE3, 0)
        asc.wait_flag(H.V_MTE3, 0)
        asc.data_copy(gm(z), a, 16)
        if barrier:
            asc.pipe_barrier(asc.PipeID.PIPE_MTE3)
        asc.data_copy(gm(z)[8:], a, 16)  # SECOND

    z = np.zeros(24, np.float32)
    assert run(kernel, z, True).findings == ()
    (found,) = run(kernel, z, False).findings
    assert found.where.startswith(f"test_asc_races.py:{line(kernel, 'SECOND')}:")
    assert "writes z[8..15]" in found.text
    assert found.remedy == "put pipe_barrier(PipeID.PIPE_MTE3) between them"


@asc.jit
def chain(z, barrier):
    a, b = local(0), local(1024)
    asc.duplicate(a, 1.0, COUNT)
    if barrier:
        asc.pipe_barrier(asc.PipeID.PIPE_V)
    asc.adds(b, a, 1.0, COUNT)
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    asc.data_copy(gm(z), b, COUNT)


def test_order_within_the_vector_unit_is_the_compilers_or_ones_own():
    z = np.zeros(COUNT, np.float32)
    assert run(chain, z, False).findings == ()
    assert run(chain, z, True, sync="manual").findings == ()
    (found,) = run(chain, z, False, sync="manual").findings
    assert found.pipes == ("V", "V")
    assert found.remedy == "put pipe_barrier(PipeID.PIPE_V) between them"


@asc.jit
def scalar(x, z, flags):
    a = local(0, 8)
    asc.data_copy(a, gm(x), 8)
    if flags:
        asc.set_flag(H.MTE2_S, 0)
        asc.wait_flag(H.MTE2_S, 0)
    value = a.get_value(0)
    a.set_value(1, value + 1)
    if flags:
        asc.set_flag(H.S_MTE3, 0)
        asc.wait_flag(H.S_MTE3, 0)
    asc.data_copy(gm(z), a, 8)


def test_the_scalar_unit_is_ordered_by_the_compiler_or_by_flags():
    x, z = data(8)
    for order in ("program", "late", 5):
        z[:] = 0
        assert run(scalar, x + 3, z, False, order=order).findings == ()
        assert z[1] == 4
    assert run(scalar, x, z, True, sync="manual").findings == ()
    kinds = {found.pipes for found in run(scalar, x, z, False, sync="manual").findings}
    assert {("MTE2", "S"), ("S", "MTE3"), ("MTE2", "MTE3")} <= kinds


def test_what_the_scalar_unit_waited_for_all_later_instructions_know():
    @asc.jit
    def kernel(x, z):
        a = local(0, 8)
        asc.data_copy(a, gm(x), 8)
        asc.set_flag(H.MTE2_S, 0)
        asc.wait_flag(H.MTE2_S, 0)
        asc.data_copy(gm(z), a, 8)

    x, z = data(8)
    assert run(kernel, x, z).findings == ()


def test_order_passes_on_from_pipe_to_pipe():
    """MTE3 waits for V, which waited for MTE2: MTE3 may read what MTE2 wrote."""

    @asc.jit
    def kernel(x, z, through):
        a, b = local(0, 8), local(64, 8)
        asc.data_copy(a, gm(x), 8)
        asc.set_flag(H.MTE2_V, 0)
        if through:
            asc.wait_flag(H.MTE2_V, 0)
        asc.duplicate(b, 1.0, 8)
        asc.set_flag(H.V_MTE3, 0)
        asc.wait_flag(H.V_MTE3, 0)
        asc.data_copy(gm(z), a, 8)
        if not through:
            asc.wait_flag(H.MTE2_V, 0)

    x, z = data(8)
    assert run(kernel, x, z, True).findings == ()
    assert [found.pipes for found in run(kernel, x, z, False).findings] == [("MTE2", "MTE3")]


def test_memory_that_one_core_uses_twice_through_global_memory():
    @asc.jit
    def kernel(z, flag):
        a, b = local(0, 8), local(64, 8)
        asc.duplicate(a, 1.0, 8)
        asc.set_flag(H.V_MTE3, 0)
        asc.wait_flag(H.V_MTE3, 0)
        asc.data_copy(gm(z), a, 8)
        if flag:
            asc.set_flag(H.MTE3_MTE2, 0)
            asc.wait_flag(H.MTE3_MTE2, 0)
        asc.data_copy(b, gm(z), 8)

    z = data(8)[1]
    assert run(kernel, z, True).findings == ()
    (found,) = run(kernel, z, False).findings
    assert found.pipes == ("MTE3", "MTE2")
    flag = "(HardEvent.MTE3_MTE2, 0)"
    assert found.remedy == f"put set_flag{flag} behind the first and wait_flag{flag} before the second"


# --- several cores ------------------------------------------------------------------------------------------


@asc.jit
def parts(z, part, moved, pad):
    a = local(0, 64)
    asc.duplicate(a, float(asc.get_block_idx()), 64)
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    to = gm(z)[asc.get_block_idx() * part :]
    if pad:
        asc.data_copy_pad(to, a, asc.DataCopyExtParams(1, 4 * moved, 0, 0))
    else:
        asc.data_copy(to, a, moved)  # OUT


def test_cores_that_write_the_same_bytes():
    z = np.zeros(5 * 64, np.float32)
    assert run(parts, z, 60, 60, True, cores=5).findings == ()
    (found,) = run(parts, z, 60, 64, False, cores=5).findings
    assert found.kind == "cores"
    assert found.where.startswith(f"test_asc_races.py:{line(parts, 'OUT')}: asc.data_copy")
    assert found.count == 4
    assert "core 0 writes z[60..63], which core 1 writes too" in found.text
    assert "its part of 60 elements was rounded up to 32 bytes" in found.text
    assert found.remedy == "use data_copy_pad"


def test_the_order_of_cores_shows():
    given = {}
    for order in ("program", "late", 0, 1, 2, 3):
        z = np.zeros(5 * 64, np.float32)
        run(parts, z, 60, 64, False, cores=5, order=order)
        given[order] = z.tobytes()
    assert len(set(given.values())) > 1


def test_cores_that_read_what_others_write():
    @asc.jit
    def kernel(z):
        a = local(0, 8)
        asc.data_copy(a, gm(z), 8)
        asc.pipe_barrier(asc.PipeID.PIPE_ALL)
        if asc.get_block_idx() == 1:
            asc.data_copy(gm(z), a, 8)

    result = run(kernel, np.zeros(8, np.float32), cores=3)
    assert {found.kind for found in result.findings} == {"cores"}
    texts = [found.text for found in result.findings]
    assert "core 0 reads z[0..7], which core 1 writes" in texts
    assert "core 1 writes z[0..7], which core 2 reads" in texts
    assert run(kernel, np.zeros(8, np.float32), cores=1).findings == ()


def test_cores_that_only_read_share_bytes():
    x = np.random.default_rng(0).standard_normal((8, 512)).astype(np.float32)
    y = np.zeros_like(x)
    assert run(softmax, x, y, 2, 512, cores=4).findings == ()


# --- operands -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("start", "found"), [(0, 0), (8, 1), (56, 1), (64, 0)])
def test_operands_that_overlap_in_part(start, found):
    @asc.jit
    def kernel():
        a = local(0, 128)
        asc.duplicate(a, 1.0, 128)
        asc.adds(a[start:], a, 1.0, 64)

    result = run(kernel)
    kinds = [item for item in result.findings if item.kind == "operands"]
    assert len(kinds) == found
    if found:
        assert "gets a and a, which share UB" in kinds[0].text
        assert kinds[0].bytes[0] == 4 * start


def test_strided_operands_that_interleave_do_not_overlap():
    @asc.jit
    def kernel():
        a = local(0, 256)
        asc.duplicate(a, 1.0, 256)
        asc.adds(a[8:], a, 1.0, 64, 1, asc.UnaryRepeatParams(2, 2, 8, 8))

    assert run(kernel).findings == ()


# --- flags --------------------------------------------------------------------------------------------------


def fault(kernel, *args):
    with pytest.raises(asim.KernelError) as caught:
        run(kernel, *args)
    assert "\n" not in str(caught.value)
    return caught.value


def test_deadlock():
    @asc.jit
    def kernel(x, n):
        a = local(0)
        for i in range(0, n, COUNT):
            asc.wait_flag(H.V_MTE2, 0)  # FREE
            asc.data_copy(a, gm(x)[i:], COUNT)
            asc.set_flag(H.MTE2_V, 0)
            asc.wait_flag(H.MTE2_V, 0)  # FULL
            asc.adds(a, a, 1.0, COUNT)
            asc.set_flag(H.V_MTE2, 0)  # SET

    error = fault(kernel, *(data()[0], 4 * COUNT))
    free, full, first = (f"test_asc_races.py:{line(kernel, mark)}" for mark in ("FREE", "FULL", "SET"))
    assert str(error) == (
        f"deadlock: on core 0 V waits at {full} for MTE2_V 0; MTE2 waits at {free} for V_MTE2 0, "
        f"first set at {first}; set it once before the loop"
    )
    assert [found.kind for found in error.findings] == ["deadlock"]


def test_a_flag_that_nothing_sets():
    @asc.jit
    def kernel(x):
        asc.wait_flag(H.MTE2_V, 3)  # WAIT
        asc.adds(local(0), local(0), 1.0, 8)

    text = str(fault(kernel, data()[0]))
    assert f"V waits at test_asc_races.py:{line(kernel, 'WAIT')} for MTE2_V 3" in text
    assert "nothing sets" in text
    assert "set_flag(HardEvent.MTE2_V, 3)" in text


def test_a_wait_may_stand_before_its_set():
    """Each pipe has a queue of its own: V waits while the scalar unit goes on to hand the set out."""

    @asc.jit
    def kernel(x, z):
        a = local(0)
        asc.wait_flag(H.MTE2_V, 0)
        asc.adds(a, a, 1.0, COUNT)
        asc.data_copy(a, gm(x), COUNT)
        asc.set_flag(H.MTE2_V, 0)
        asc.pipe_barrier(asc.PipeID.PIPE_ALL)
        asc.data_copy(gm(z), a, COUNT)

    x, z = data(COUNT)
    for order in ("late", 0):
        result = run(kernel, x, z, order=order)
        assert result.findings == ()
        np.testing.assert_array_equal(z, x + 1)


@pytest.mark.parametrize("times", [2, 4])
def test_set_twice(times):
    @asc.jit
    def kernel(x):
        for _ in range(times):
            asc.set_flag(H.MTE2_V, 1)  # SET
        asc.wait_flag(H.MTE2_V, 1)
        asc.duplicate(local(0), 1.0, 8)

    error = fault(kernel, data()[0])
    assert (
        f"test_asc_races.py:{line(kernel, 'SET')}: asc.set_flag sets MTE2_V 1, which is set already"
        in str(error)
    )
    (found,) = error.findings
    assert (found.kind, found.count) == ("set twice", times - 1)


def test_left_set():
    @asc.jit
    def kernel(x):
        asc.duplicate(local(0), 1.0, 8)
        asc.set_flag(H.V_MTE3, 1)  # SET

    error = fault(kernel, data()[0])
    assert (
        f"test_asc_races.py:{line(kernel, 'SET')}: asc.set_flag sets V_MTE3 1, which nothing waits for"
        in str(error)
    )
    assert [found.kind for found in error.findings] == ["left set"]


def test_sums_of_several_cores_need_no_order_and_plain_writes_do():
    @asc.jit
    def kernel(z, plain):
        a = local(0, 8)
        asc.duplicate(a, 1.0, 8)
        asc.set_flag(H.V_MTE3, 0)
        asc.wait_flag(H.V_MTE3, 0)
        if asc.get_block_idx() != plain:
            asc.set_atomic_add(F32)
        asc.data_copy(gm(z), a, 8)
        asc.set_atomic_none()

    z = np.zeros(8, np.float32)
    assert run(kernel, z, -1, cores=4).findings == ()
    np.testing.assert_array_equal(z, 4)
    assert {found.kind for found in run(kernel, z, 2, cores=4).findings} == {"cores"}
