"""A corpus of seeded bugs: each is found with its kind and its line, and its mended twin has nothing.

Kernels take `bug`; the line that is wrong ends with `# BUG` (or the other place named).
"""

import inspect
from dataclasses import dataclass

import numpy as np
import pytest

import ascendsim as asim
from ascendsim import asc
from tests.support.gate import every

H, POS, UB = asc.HardEvent, asc.TPosition, asc.TPosition.VECCALC
F32, PIPE = asc.float32, asc.PipeID
BUGS = []


@dataclass(frozen=True)
class Bug:
    """A kernel with a fault.

    Attributes:
        kernel: Takes `bug` and arrays x, y, z of 1,024 float32.
        kind: Of the finding; "error" is a line that stops the kernel.
        text: What it says.
        cores: Blocks.
        options: Of `run_kernel`.
    """

    kernel: object
    kind: str
    text: str
    cores: int = 1
    options: tuple = ()


def bug(kind, text, cores=1, **options):
    def add(function):
        BUGS.append(Bug(asc.jit(function), kind, text, cores, tuple(options.items())))
        return function

    return add


def local(place, size=64, dtype=F32, pos=UB):
    return asc.LocalTensor(dtype, pos, place, size)


def gm(address):
    tensor = asc.GlobalTensor()
    tensor.set_global_buffer(address)
    return tensor


def order(event, number=0, unless=False):
    """A flag, set and waited for."""
    if not unless:
        asc.set_flag(H[event], number)
        asc.wait_flag(H[event], number)


def queue(pos=POS.VECIN, slots=1, size=256):
    pipe, que = asc.TPipe(), asc.TQue(pos, slots)
    pipe.init_buffer(que, slots, size)
    return que


def touch(*addresses):
    """Reads arrays that a kernel has no use for."""
    for number, address in enumerate(addresses):
        asc.data_copy(local(190000 // 32 * 32 + 32 * number, 8), gm(address), 8)


def keep(z, *tensors):
    """Stores what there is at the end, with nothing else under way."""
    asc.pipe_barrier(PIPE.PIPE_ALL)
    for number, tensor in enumerate(tensors):
        asc.data_copy(gm(z)[512 + 64 * number :], tensor, 64)


# --- races between pipes ------------------------------------------------------------------------------------


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


@bug("race", "put wait_flag(HardEvent.V_S, 0)", sync="manual")
def scalar_reads_too_early(bug, x, y, z):
    touch(x, y)
    a = local(0)
    asc.duplicate(a, 1.0, 64)
    order("V_S", unless=bug)
    value = a.get_value(3)  # BUG
    asc.pipe_barrier(PIPE.PIPE_ALL)
    asc.duplicate(a, value, 64)
    keep(z, a)


@bug("race", "put wait_flag(HardEvent.S_V, 0)", sync="manual")
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


# --- races between cores ------------------------------------------------------------------------------------


@bug("cores", "writes too", cores=2)
def all_cores_write_the_same(bug, x, y, z):
    touch(x, y)
    a = local(0)
    asc.duplicate(a, 1.0 + asc.get_block_idx(), 64)
    order("V_MTE3")
    asc.data_copy(gm(z)[0 if bug else 64 * asc.get_block_idx() :], a, 64)  # BUG


@bug("cores", "rounded up to 32 bytes", cores=4)
def parts_rounded_up(bug, x, y, z):
    """Ragged parts with tails of whole blocks (tilelang-ascend #890)."""
    touch(x, y)
    a = local(0)
    asc.duplicate(a, 1.0 + asc.get_block_idx(), 64)
    order("V_MTE3")
    to = gm(z)[60 * asc.get_block_idx() :]
    if bug:
        asc.data_copy(to, a, 64)  # BUG
    else:
        asc.data_copy_pad(to, a, asc.DataCopyExtParams(1, 240, 0, 0))


@bug("cores", "which core", cores=3)
def neighbours_read_and_write(bug, x, y, z):
    """A halo is read from what the neighbour writes."""
    touch(x, y)
    a, b, me = local(0, 72), local(512), asc.get_block_idx()
    asc.duplicate(b, 1.0, 64)
    order("V_MTE3")
    if me % 2:
        asc.data_copy(gm(z)[64 * me :], b, 64)
    else:
        asc.data_copy(a, gm(z)[64 * me :], 72 if bug else 64)  # BUG
        asc.pipe_barrier(PIPE.PIPE_ALL)
        asc.data_copy(gm(y)[256 + 8 * me :], a[64 if bug else 0 :], 8)


# --- memory -------------------------------------------------------------------------------------------------


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


# --- flags and queues ---------------------------------------------------------------------------------------


@bug("deadlock", "V waits")
def wait_without_set(bug, x, y, z):
    """The hang of PTOAS #428."""
    touch(x, y, z)
    if not bug:
        asc.set_flag(H.MTE2_V, 0)
    asc.wait_flag(H.MTE2_V, 0)  # BUG
    asc.duplicate(local(0), 1.0, 8)


@bug("deadlock", "set it once before the loop")
def circle_of_two_pipes(bug, x, y, z):
    touch(y, z)
    if not bug:
        asc.set_flag(H.V_MTE2, 0)
    for i in range(4):
        asc.wait_flag(H.V_MTE2, 0)
        asc.data_copy(local(0), gm(x)[64 * i :], 64)
        asc.set_flag(H.MTE2_V, 0)
        asc.wait_flag(H.MTE2_V, 0)  # BUG
        asc.adds(local(256), local(0), 1.0, 64)
        asc.set_flag(H.V_MTE2, 0)
    if not bug:
        asc.wait_flag(H.V_MTE2, 0)


@bug("deadlock", "MTE2_S")
def scalar_waits_for_ever(bug, x, y, z):
    touch(x, y, z)
    if not bug:
        asc.set_flag(H.MTE2_S, 0)
    asc.wait_flag(H.MTE2_S, 0)  # BUG


@bug("set twice", "which is set already")
def set_twice(bug, x, y, z):
    touch(x, y, z)
    asc.set_flag(H.MTE2_V, 0)
    if bug:
        asc.set_flag(H.MTE2_V, 0)  # BUG
        asc.wait_flag(H.MTE2_V, 0)
    asc.wait_flag(H.MTE2_V, 0)


@bug("set twice", "3 times")
def set_in_a_loop(bug, x, y, z):
    touch(x, y, z)
    for _ in range(4):
        asc.set_flag(H.V_MTE3, 2)  # BUG
        if not bug:
            asc.wait_flag(H.V_MTE3, 2)
    if bug:
        for _ in range(4):
            asc.wait_flag(H.V_MTE3, 2)


@bug("left set", "left set at the end")
def left_set(bug, x, y, z):
    touch(x, y, z)
    asc.set_flag(H.MTE2_V, 0)  # BUG
    if not bug:
        asc.wait_flag(H.MTE2_V, 0)


@bug("left set", "left set at the end")
def last_pass_leaves_it_set(bug, x, y, z):
    touch(x, y, z)
    asc.set_flag(H.V_MTE2, 0)
    for _ in range(3):
        asc.wait_flag(H.V_MTE2, 0)
        asc.set_flag(H.V_MTE2, 0)  # BUG
    if not bug:
        asc.wait_flag(H.V_MTE2, 0)


@bug("deadlock", "for sync_all, core 1 has ended", cores=2)
def meeting_that_one_core_leaves_out(bug, x, y, z):
    touch(x, y, z)
    if not bug or asc.get_block_idx() == 0:
        asc.sync_all()  # BUG


@bug("deadlock", "core 2 waits at", cores=3)
def meetings_as_often_as_a_core_has_tiles(bug, x, y, z):
    touch(x, y, z)
    for _ in range(1 + asc.get_block_idx() // 2 if bug else 2):
        asc.sync_all()  # BUG


@bug("deadlock", "for cross-core flag 3, core 1 has not set it", cores=2)
def flag_between_cores_that_one_does_not_set(bug, x, y, z):
    touch(x, y, z)
    if not bug or asc.get_block_idx() == 0:
        asc.cross_core_set_flag(3, 0, PIPE.PIPE_MTE3)
    asc.cross_core_wait_flag(3, 0)  # BUG


@bug("error", "that the vector core of Ascend910B1 lacks; put it under `if asc.ascend_is_aic():`")
def pair_of_the_cube_core(bug, x, y, z):
    touch(x, y, z)
    event = H.MTE1_M if bug else H.MTE2_V
    asc.set_flag(event, 0)  # BUG
    asc.wait_flag(event, 0)


@bug("error", "names MTE2_V, a pair of pipes that the cube core of Ascend910B1 lacks")
def pair_of_the_vector_core(bug, x, y, z):
    for number, address in enumerate((x, y, z)):
        asc.data_copy(local(256 * number, 64, pos=POS.A1), gm(address), 64)
    event = H.MTE2_V if bug else H.MTE2_MTE1
    asc.set_flag(event, 0)  # BUG
    asc.wait_flag(event, 0)


@bug("error", "takes an id of 0 to 7, not 8")
def flag_beyond_the_chips(bug, x, y, z):
    touch(x, y, z)
    asc.set_flag(H.MTE2_V, 8 if bug else 7)  # BUG
    asc.wait_flag(H.MTE2_V, 7)


@bug("error", "takes an id of 0 to 7, not -1")
def negative_flag(bug, x, y, z):
    touch(x, y, z)
    if bug:
        asc.wait_flag(H.MTE2_V, -1)  # BUG


@bug("error", "has 2 slots, and all are taken")
def more_tensors_than_slots(bug, x, y, z):
    touch(x, y, z)
    que = queue(slots=2)
    for _ in range(3 if bug else 2):
        que.alloc_tensor(F32)  # BUG


@bug("error", "is empty")
def deque_of_nothing(bug, x, y, z):
    touch(x, y, z)
    que = queue()
    a = que.alloc_tensor(F32)
    if not bug:
        que.enque(a)
    que.deque(F32)  # BUG


@bug("error", "has this tensor already")
def enqueued_twice(bug, x, y, z):
    touch(x, y, z)
    que = queue(slots=2)
    a = que.alloc_tensor(F32)
    que.enque(a)
    if bug:
        que.enque(a)  # BUG


@bug("error", "takes its own tensors")
def freed_into_another_queue(bug, x, y, z):
    touch(x, y, z)
    one, two = queue(POS.VECCALC), queue(POS.VECCALC)
    a = one.alloc_tensor(F32)
    (two if bug else one).free_tensor(a)  # BUG


@bug("error", "got this tensor back")
def freed_twice(bug, x, y, z):
    touch(x, y, z)
    que = queue(POS.VECCALC)
    a = que.alloc_tensor(F32)
    que.free_tensor(a)
    if bug:
        que.free_tensor(a)  # BUG


# --- rules of an instruction --------------------------------------------------------------------------------


@bug("error", "works on UB, a lies in L1")
def wrong_position(bug, x, y, z):
    touch(x, y, z)
    a = local(0, pos=POS.A1 if bug else UB)
    asc.duplicate(a, 1.0, 64)  # BUG


@bug("error", "float16, float32")
def type_that_the_chip_lacks(bug, x, y, z):
    touch(x, y, z)
    a = local(0, dtype=asc.uint8 if bug else asc.float16)
    asc.exp(a, a, 64)  # BUG


@bug("error", "at most 255 times, not 256")
def too_many_repeats(bug, x, y, z):
    touch(x, y, z)
    a = local(0, 64 * 256)
    asc.duplicate(a, 1.0, 64 * 256)
    asc.exp(a, a, 32, 256 if bug else 255, asc.UnaryRepeatParams())  # BUG


@bug("error", "mask of 1 to 64 lanes")
def mask_beyond_the_lanes(bug, x, y, z):
    touch(x, y, z)
    a = local(0, 128)
    asc.duplicate(a, 1.0, 128)
    asc.exp(a, a, 128 if bug else 64, 1, asc.UnaryRepeatParams())  # BUG


@bug("error", "mask")
def empty_mask(bug, x, y, z):
    touch(x, y, z)
    a = local(0)
    asc.duplicate(a, 1.0, 64)
    asc.exp(a, a, [0, 0] if bug else [1, 0], 1, asc.UnaryRepeatParams())  # BUG


@bug("operands", "in part")
def operands_that_overlap_in_part(bug, x, y, z):
    touch(x, y, z)
    a = local(0, 256)
    asc.duplicate(a, 1.0, 256)
    asc.adds(a[32 if bug else 128 :], a, 1.0, 128)  # BUG


@bug("operands", "in part")
def shifted_sum(bug, x, y, z):
    touch(x, y, z)
    a = local(0, 256)
    asc.duplicate(a, 1.0, 256)
    asc.add(a, a, a[8 if bug else 64 :], 64)  # BUG


# ------------------------------------------------------------------------------------------------------------


def run(item, wrong, **options):
    return ran(item, wrong, **options)[0]


def ran(item, wrong, **options):
    """The result, and what the arrays hold then."""
    arrays = [np.arange(1024, dtype=np.float32) + 10_000 * number for number in range(3)]
    result = asim.run_kernel(item.kernel, item.cores, wrong, *arrays, **dict(item.options), **options)
    return result, np.stack(arrays)


def findings(item):
    try:
        return list(run(item, True).findings), ""
    except asim.KernelError as error:
        return list(getattr(error, "findings", ())), str(error)


@pytest.mark.parametrize("item", BUGS, ids=lambda item: item.kernel.name)
def test_a_seeded_bug_is_found_with_its_kind_and_line(item):
    lines, first = inspect.getsourcelines(item.kernel.function)
    marked = [first + number for number, text in enumerate(lines) if text.rstrip().endswith("# BUG")]
    found, error = findings(item)
    if item.kind == "error":
        assert item.text in error
        assert error.startswith(f"test_asc_corpus.py:{marked[0]}: ")
        return
    right = [one for one in found if one.kind == item.kind]
    assert right, [str(one) for one in found]
    if marked:
        here = f"test_asc_corpus.py:{marked[0]}: "
        right = [one for one in right if here in one.where + one.other]
    assert any(item.text in str(one) for one in right), [str(one) for one in found]
    assert {one.kind for one in found} == {item.kind}


@pytest.mark.parametrize("item", BUGS, ids=lambda item: item.kernel.name)
def test_its_mended_twin_has_nothing(item):
    assert run(item, False).findings == ()
    assert run(item, False, order="late").findings == ()


# One pipe takes its instructions in their order in every replay, and the scalar unit waits for what it reads.
IN_ORDER = {
    "stores_that_overlap",
    "loads_that_overlap",
    "vector_reads_what_the_vector_unit_writes",
    "vector_writes_what_the_vector_unit_reads",
    "scalar_reads_too_early",
    "vector_reads_what_the_scalar_unit_writes",
}
RACES = [item for item in BUGS if item.kind in ("race", "cores") and item.kernel.name not in IN_ORDER]


@pytest.mark.parametrize("item", every(3, RACES), ids=lambda item: item.kernel.name)
def test_an_order_shows_other_values_of_a_race_and_shows_them_again(item):
    in_order = ran(item, True)[1]
    other = [
        order
        for order in ("late", *range(16))
        if not np.array_equal(ran(item, True, order=order)[1], in_order)
    ]
    assert other
    first, again = (ran(item, True, order=other[0])[1] for _ in range(2))
    np.testing.assert_array_equal(first, again)
    mended = ran(item, False)[1]
    for order in other:  # it is the fault that shows, not the order
        np.testing.assert_array_equal(ran(item, False, order=order)[1], mended)


def test_the_corpus_is_large_enough():
    assert len(RACES) >= 20
    assert len(BUGS) >= 60
    kinds = [item.kind for item in BUGS]
    assert min(kinds.count(kind) for kind in set(kinds)) >= 2
