"""Flags that hang or are left over, queues that are used wrongly."""

from ascendsim import asc
from tests.support.asc_bugs.kinds import F32, PIPE, POS, H, bug, gm, local, order, queue, touch


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


@bug("error", "has 1 slot, and all are taken")
def slot_that_is_never_freed(bug, x, y, z):
    touch(y)
    que = queue()
    for i in range(2):
        a = que.alloc_tensor(F32)  # BUG
        asc.data_copy(a, gm(x), 64)
        que.enque(a)
        a = que.deque(F32)
        order("MTE2_MTE3")
        asc.data_copy(gm(z)[64 * i :], a, 64)
        order("MTE3_MTE2")
        if not bug:
            que.free_tensor(a)


@bug("error", "is empty")
def deque_more_often_than_enque(bug, x, y, z):
    touch(x, y, z)
    que = queue(slots=2)
    for _ in range(2):
        que.enque(que.alloc_tensor(F32))
    for _ in range(3 if bug else 2):
        que.deque(F32)  # BUG


@bug("error", "has this tensor already")
def enqueued_by_two_passes(bug, x, y, z):
    touch(x, y, z)
    que = queue(slots=2)
    a = que.alloc_tensor(F32)
    for _ in range(2 if bug else 1):
        que.enque(a)  # BUG


@bug("error", "takes its own tensors")
def enqueued_into_another_queue(bug, x, y, z):
    touch(x, y, z)
    one, two = queue(POS.VECIN), queue(POS.VECOUT)
    a = one.alloc_tensor(F32)
    (two if bug else one).enque(a)  # BUG
