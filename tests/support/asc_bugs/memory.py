"""Memory that is not written, lies elsewhere, is too small or is somebody else's."""

from ascendsim import asc
from tests.support.asc_bugs.kinds import F32, POS, bug, gm, local, order, queue, touch


@bug("undefined", "writes z[48..63], bytes that nothing has written")
def tail_that_nothing_wrote(bug, x, y, z):
    touch(x, y)
    a = local(0)
    asc.duplicate(a, 1.0, 48 if bug else 64)
    order("V_MTE3")
    asc.data_copy(gm(z), a, 64)  # BUG


@bug("undefined", "bytes that nothing has written")
def accumulator_without_start(bug, x, y, z):
    touch(y)
    a, total = local(0), local(256)
    if not bug:
        asc.duplicate(total, 0.0, 64)
    asc.data_copy(a, gm(x), 64)
    order("MTE2_V")
    asc.add(total, total, a, 64)
    order("V_MTE3")
    asc.data_copy(gm(z), total, 64)  # BUG


@bug("undefined", "nothing has written")
def value_that_nothing_wrote(bug, x, y, z):
    touch(x, y, z)
    a = local(0)
    if not bug:
        asc.duplicate(a, 1.0, 64)
    a.get_value(5)  # BUG


@bug("outside", "reads x[1024..1055]")
def load_beyond_the_array(bug, x, y, z):
    touch(y, z)
    asc.data_copy(local(0), gm(x)[992 if bug else 960 :], 64)  # BUG


@bug("outside", "writes z[1024..")
def store_beyond_the_array(bug, x, y, z):
    touch(x, y)
    a = local(0)
    asc.duplicate(a, 1.0, 64)
    order("V_MTE3")
    asc.data_copy(gm(z)[976 if bug else 960 :], a, 64)  # BUG


@bug("outside", "but there are 64 elements")
def vector_beyond_its_tensor(bug, x, y, z):
    touch(x, y, z)
    a = local(0)
    asc.duplicate(a, 1.0, 72 if bug else 64)  # BUG


@bug("outside", "but there are 64 elements")
def load_beyond_its_tensor(bug, x, y, z):
    touch(y, z)
    a = local(0)
    asc.data_copy(a, gm(x), 72 if bug else 64)  # BUG


@bug("overlap", "which is still in use")
def buffers_that_overlap(bug, x, y, z):
    """Addresses by a wrong sum (tilelang-ascend #1156)."""
    touch(y, z)
    a, b = local(0, 64), local(128 if bug else 256, 64)
    asc.data_copy(a, gm(x), 64)
    order("MTE2_V")
    asc.duplicate(b, 1.0, 64)
    asc.adds(local(4096), a, 1.0, 64)  # BUG


@bug("overlap", "overlaps")
def sum_of_sizes_in_elements(bug, x, y, z):
    touch(x, y, z)
    a, b = local(0, 64), local(64 if bug else 256, 64)
    asc.duplicate(a, 1.0, 64)
    asc.duplicate(b, 2.0, 64)
    asc.exp(a, a, 64)  # BUG


@bug("length", "are cut down to")
def count_of_no_whole_blocks(bug, x, y, z):
    touch(y, z)
    asc.data_copy(local(0), gm(x), 60 if bug else 64)  # BUG


@bug("length", "are cut down to 64")
def store_of_a_ragged_tail(bug, x, y, z):
    touch(x, y)
    a = local(0, 72)
    asc.duplicate(a, 1.0, 72)
    order("V_MTE3")
    if bug:
        asc.data_copy(gm(z), a, 67)  # BUG
    else:
        asc.data_copy_pad(gm(z), a, asc.DataCopyExtParams(1, 268, 0, 0))


@bug("unwritten", "neither reads nor writes z")
def output_that_is_forgotten(bug, x, y, z):
    touch(x, y, *(() if bug else (z,)))


@bug("unwritten", "neither reads nor writes y")
def second_output_that_is_forgotten(bug, x, y, z):
    touch(x, z)
    if not bug:
        asc.data_copy(local(0), gm(y), 64)


@bug("error", "which was freed at")
def use_after_free(bug, x, y, z):
    touch(x, y, z)
    que = queue(POS.VECCALC)
    a = que.alloc_tensor(F32)
    if bug:
        que.free_tensor(a)
    asc.duplicate(a, 1.0, 64)  # BUG
    if not bug:
        que.free_tensor(a)


@bug("error", "which was freed at")
def load_after_free(bug, x, y, z):
    touch(y, z)
    que = queue(POS.VECIN)
    a = que.alloc_tensor(F32)
    que.enque(a)
    a = que.deque(F32)
    if bug:
        que.free_tensor(a)
    asc.data_copy(a, gm(x), 64)  # BUG
    if not bug:
        que.free_tensor(a)


@bug("error", "the UB of Ascend910B1 has 196608")
def more_than_the_buffer(bug, x, y, z):
    touch(x, y, z)
    pipe, que = asc.TPipe(), asc.TQue(POS.VECIN, 2)
    pipe.init_buffer(que, 2, 100_000 if bug else 10_000)  # BUG


@bug("error", "must be a multiple of 32 bytes")
def start_within_a_block(bug, x, y, z):
    touch(x, y, z)
    a = local(0)
    asc.duplicate(a[1 if bug else 8 :], 1.0, 8)  # BUG


@bug("error", "must be a multiple of 32 bytes")
def load_to_within_a_block(bug, x, y, z):
    touch(y, z)
    asc.data_copy(local(0)[2 if bug else 8 :], gm(x), 8)  # BUG
