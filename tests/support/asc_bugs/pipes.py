"""Races between the pipes of a core: vector kernels with a wait too few, and their mended twins."""

from ascendsim import asc
from tests.support.asc_bugs.kinds import F32, PIPE, UB, H, bug, gm, keep, local, order, queue, touch


@bug("race", "MTE2) may still be writing")
def read_before_the_load_has_landed(bug, x, y, z):
    touch(y)
    a = local(0)
    asc.data_copy(a, gm(x), 64)
    order("MTE2_V", unless=bug)
    asc.adds(a, a, 1.0, 64)  # BUG
    order("V_MTE3")
    asc.data_copy(gm(z), a, 64)


@bug("race", "MTE2) may still be writing")
def second_operand_without_wait(bug, x, y, z):
    a, b = local(0), local(256)
    asc.data_copy(a, gm(x), 64)
    if bug:
        order("MTE2_V")
    asc.data_copy(b, gm(y), 64)
    order("MTE2_V", 1, unless=bug)
    asc.add(a, a, b, 64)  # BUG
    asc.pipe_barrier(PIPE.PIPE_ALL)
    asc.data_copy(gm(z), a, 64)


@bug("race", "(V) may still be writing")
def store_before_the_result(bug, x, y, z):
    touch(x, y)
    a = local(0)
    asc.duplicate(a, 1.0, 64)
    order("V_MTE3", unless=bug)
    asc.data_copy(gm(z), a, 64)  # BUG


@bug("race", "(MTE2) may still be writing")
def copy_through_without_order(bug, x, y, z):
    touch(y)
    a = local(0)
    asc.data_copy(a, gm(x), 64)
    order("MTE2_MTE3", unless=bug)
    asc.data_copy(gm(z), a, 64)  # BUG


@bug("race", "(V) may still be reading")
def load_over_what_is_read(bug, x, y, z):
    a, b = local(0), local(256)
    asc.data_copy(a, gm(x), 64)
    order("MTE2_V")
    asc.adds(b, a, 1.0, 64)
    order("V_MTE2", unless=bug)
    asc.data_copy(a, gm(y), 64)  # BUG
    asc.pipe_barrier(PIPE.PIPE_ALL)
    asc.data_copy(gm(z), b, 64)


@bug("race", "(MTE3) may still be reading")
def overwrite_what_is_stored(bug, x, y, z):
    touch(x, y)
    a = local(0)
    asc.duplicate(a, 1.0, 64)
    order("V_MTE3")
    asc.data_copy(gm(z), a, 64)
    order("MTE3_V", unless=bug)
    asc.duplicate(a, 2.0, 64)  # BUG


@bug("race", "(MTE3) may still be reading")
def load_over_what_is_stored(bug, x, y, z):
    a = local(0)
    asc.data_copy(a, gm(x), 64)
    order("MTE2_MTE3")
    asc.data_copy(gm(z), a, 64)
    order("MTE3_MTE2", unless=bug)
    asc.data_copy(a, gm(y), 64)  # BUG


@bug("race", "(V) may still be writing")
def load_over_a_result_that_nobody_read(bug, x, y, z):
    a = local(0)
    asc.duplicate(a, 1.0, 64)
    order("V_MTE2", unless=bug)
    asc.data_copy(a, gm(x), 64)  # BUG
    touch(y)
    keep(z, a)


@bug("race", "(MTE2) may still be writing")
def clear_what_is_being_loaded(bug, x, y, z):
    touch(y)
    a = local(0)
    asc.data_copy(a, gm(x), 64)
    order("MTE2_V", unless=bug)
    asc.duplicate(a, 0.0, 64)  # BUG
    keep(z, a)


@bug("race", "16 times")
def wait_behind_the_use(bug, x, y, z):
    """Two slots with flags of their own; one wait stands too low (tilelang-ascend #1660)."""
    touch(y)
    slots, out = (local(0), local(256)), local(512)
    for slot in range(2):
        asc.set_flag(H.V_MTE2, slot)
    for i in range(16):
        slot = i % 2
        asc.wait_flag(H.V_MTE2, slot)
        asc.data_copy(slots[slot], gm(x)[64 * i :], 64)
        asc.set_flag(H.MTE2_V, slot)
        if not bug:
            asc.wait_flag(H.MTE2_V, slot)
        asc.adds(out, slots[slot], 1.0, 64)  # BUG
        if bug:
            asc.wait_flag(H.MTE2_V, slot)
        asc.set_flag(H.V_MTE2, slot)
        order("V_MTE3")
        asc.data_copy(gm(z)[64 * i :], out, 64)
        order("MTE3_V")
    for slot in range(2):
        asc.wait_flag(H.V_MTE2, slot)


@bug("race", "put pipe_barrier(PipeID.PIPE_MTE3) between them")
def stores_that_overlap(bug, x, y, z):
    touch(x, y)
    a = local(0, 128)
    asc.duplicate(a, 1.0, 128)
    order("V_MTE3")
    for row in range(4):
        if not bug:
            asc.pipe_barrier(PIPE.PIPE_MTE3)
        asc.data_copy(gm(z)[60 * row :], a, 64)  # BUG


@bug("race", "put pipe_barrier(PipeID.PIPE_MTE2) between them")
def loads_that_overlap(bug, x, y, z):
    touch(z)
    a = local(0, 128)
    asc.data_copy(a, gm(x), 64)
    if not bug:
        asc.pipe_barrier(PIPE.PIPE_MTE2)
    asc.data_copy(a[32:], gm(y), 64)  # BUG


@bug("race", "may still be writing", sync="manual")
def vector_reads_what_the_vector_unit_writes(bug, x, y, z):
    touch(x, y, z)
    a, b = local(0), local(256)
    asc.duplicate(a, 1.0, 64)
    if not bug:
        asc.pipe_barrier(PIPE.PIPE_V)
    asc.exp(b, a, 64)  # BUG


@bug("race", "may still be reading", sync="manual")
def vector_writes_what_the_vector_unit_reads(bug, x, y, z):
    touch(x, y, z)
    a, b = local(0), local(256)
    asc.duplicate(a, 1.0, 64)
    asc.pipe_barrier(PIPE.PIPE_V)
    asc.exp(b, a, 64)
    if not bug:
        asc.pipe_barrier(PIPE.PIPE_V)
    asc.duplicate(a, 2.0, 64)  # BUG


@bug("race", "put set_flag(HardEvent.V_S, 0)", sync="manual")
def scalar_reads_too_early(bug, x, y, z):
    touch(x, y)
    a = local(0)
    asc.duplicate(a, 1.0, 64)
    order("V_S", unless=bug)
    value = a.get_value(3)  # BUG
    asc.pipe_barrier(PIPE.PIPE_ALL)
    asc.duplicate(a, value, 64)
    keep(z, a)


@bug("race", "put set_flag(HardEvent.S_V, 0)", sync="manual")
def vector_reads_what_the_scalar_unit_writes(bug, x, y, z):
    touch(x, y)
    a, b = local(0, 8), local(256, 8)
    for lane in range(8):
        a.set_value(lane, 1.0)
    order("S_V", unless=bug)
    asc.adds(b, a, 1.0, 8)  # BUG
    asc.pipe_barrier(PIPE.PIPE_ALL)
    asc.data_copy(gm(z), b, 8)


@bug("race", "reads z[0..63]")
def workspace_read_too_early(bug, x, y, z):
    """The result of a first phase comes back from global memory (msSanitizer: read after write)."""
    touch(x, y)
    a, b = local(0), local(256)
    asc.duplicate(a, 1.0, 64)
    order("V_MTE3")
    asc.data_copy(gm(z), a, 64)
    order("MTE3_MTE2", unless=bug)
    asc.data_copy(b, gm(z), 64)  # BUG
    keep(z, b)


@bug("race", "writes z[0..63]")
def in_place_stored_before_it_was_loaded(bug, x, y, z):
    touch(x, y)
    a, b = local(0), local(256)
    asc.duplicate(b, 1.0, 64)
    asc.data_copy(a, gm(z), 64)
    order("V_MTE3")
    order("MTE2_MTE3", unless=bug)
    asc.data_copy(gm(z), b, 64)  # BUG
    keep(z, a)


@bug("race", "(UB 0x0000..0x00ff)")
def flag_with_another_id(bug, x, y, z):
    touch(y)
    a, b = local(0), local(256)
    asc.set_flag(H.MTE2_V, 1)
    asc.data_copy(a, gm(x), 64)
    asc.set_flag(H.MTE2_V, 0)
    asc.wait_flag(H.MTE2_V, 1 if bug else 0)
    asc.adds(b, a, 1.0, 64)  # BUG
    asc.wait_flag(H.MTE2_V, 0 if bug else 1)
    keep(z, b)


@bug("race", "may still be writing")
def flag_set_before_the_load(bug, x, y, z):
    touch(y)
    a, b = local(0), local(256)
    if bug:
        asc.set_flag(H.MTE2_V, 0)
    asc.data_copy(a, gm(x), 64)
    if not bug:
        asc.set_flag(H.MTE2_V, 0)
    asc.wait_flag(H.MTE2_V, 0)
    asc.adds(b, a, 1.0, 64)  # BUG
    keep(z, b)


@bug("race", "may still be reading")
def tensor_freed_before_its_last_use(bug, x, y, z):
    """The queue hands the slot out again while the vector unit still reads it through an alias."""
    touch(y)
    que, outs = queue(), [local(4096 + 256 * i) for i in range(3)]
    alias = local(0)
    for i in range(3):
        a = que.alloc_tensor(F32)
        asc.data_copy(a, gm(x)[64 * i :], 64)  # BUG
        que.enque(a)
        a = que.deque(F32)
        if bug:
            que.free_tensor(a)
        asc.adds(outs[i], alias, 1.0, 64)
        if not bug:
            que.free_tensor(a)
    keep(z, *outs)


@bug("race", "(V) reads")
def buffer_without_queue(bug, x, y, z):
    touch(y)
    pipe, buf = asc.TPipe(), asc.TBuf(UB)
    pipe.init_buffer(buf, 256)
    a = buf.get(F32)
    asc.data_copy(a, gm(x), 64)
    order("MTE2_V", unless=bug)
    asc.adds(a, a, 1.0, 64)  # BUG
    keep(z, a)


@bug("race", "(MTE3) may still be reading")
def slots_in_turn_without_a_way_back(bug, x, y, z):
    """Nobody tells the vector unit that a slot has been stored."""
    touch(x, y)
    slots = local(0), local(256)
    for i in range(4):
        asc.duplicate(slots[i % 2], float(i), 64)  # BUG
        order("V_MTE3")
        asc.data_copy(gm(z)[64 * i :], slots[i % 2], 64)
        order("MTE3_V", unless=bug)


@bug("race", "(MTE2) may still be writing")
def one_flag_between_two_loads(bug, x, y, z):
    a, b = local(0), local(256)
    asc.data_copy(a, gm(x), 64)
    if bug:
        asc.set_flag(H.MTE2_V, 0)
    asc.data_copy(b, gm(y), 64)
    if not bug:
        asc.set_flag(H.MTE2_V, 0)
    asc.wait_flag(H.MTE2_V, 0)
    asc.sub(a, b, a, 64)  # BUG
    keep(z, a)


@bug("race", "(MTE3) may still be writing")
def sum_that_comes_back_from_global_memory(bug, x, y, z):
    touch(x, y)
    a = local(0)
    for _ in range(4):
        asc.data_copy(a, gm(z), 64)  # BUG
        order("MTE2_V")
        asc.adds(a, a, 1.0, 64)
        order("V_MTE3")
        asc.data_copy(gm(z), a, 64)
        order("MTE3_MTE2", unless=bug)
