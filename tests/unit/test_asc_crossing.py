"""Seeded races between cores that wait for one another: each is found with its kind and both lines, and its
mended twin has nothing. Kernels take `bug`; the two lines end with `# FIRST` and `# SECOND`.
"""

import inspect

import numpy as np
import pytest

import ascendsim as asim
from ascendsim import asc

H, POS, PIPE, F32 = asc.HardEvent, asc.TPosition, asc.PipeID, asc.float32
BUGS = []


def bug(kind, text, cores=1):
    def add(function):
        BUGS.append((asc.jit(function), kind, text, cores))
        return function

    return add


def gm(address):
    tensor = asc.GlobalTensor()
    tensor.set_global_buffer(address)
    return tensor


def local(place, size=64, pos=POS.VECCALC):
    return asc.LocalTensor(F32, pos, place, size)


def then(event, number=0):
    asc.set_flag(event, number)
    asc.wait_flag(event, number)


def fill(tile, value):
    """Something to store, and the store may begin."""
    asc.duplicate(tile, value, 64)
    then(H.V_MTE3)


def both():
    """Numbers of the team and of the half of a vector core."""
    ratio = 1 if asc.ascend_is_aic() else asc.get_task_ratio()
    return asc.get_block_idx() // ratio, asc.get_sub_block_idx()


PLAIN = asc.FixpipeParamsV220(16, 8, 16, 16)  # 128 elements, one behind the other


def accumulator():
    """128 numbers in L0C."""
    f16 = asc.float16
    left, right = (asc.LocalTensor(f16, pos, 0, 256) for pos in (POS.A2, POS.B2))
    near = asc.LocalTensor(f16, POS.A1, 0, 256)
    asc.load_data(left, near, asc.LoadData2DParams(0, 1))
    asc.load_data(right, near, asc.LoadData2DParams(0, 1))
    then(H.MTE1_M)
    acc = local(0, 256, POS.CO1)
    asc.mmad(acc, left, right, asc.MmadParams(16, 16, 16))
    then(H.M_FIX)
    return acc


@bug("cores", "cube core 0 writes y[0..63], which vector core 0 reads")
def stored_tile_is_not_waited_for(bug, x, y, z):
    _, half = both()
    if asc.ascend_is_aic():
        near = asc.LocalTensor(asc.float16, POS.A1, 0, 256)
        asc.data_copy(near, x_half(x), 256)
        then(H.MTE2_MTE1)
        acc = accumulator()
        asc.fixpipe(gm(y), acc, PLAIN)  # FIRST
        asc.cross_core_set_flag(1, 2, PIPE.PIPE_FIX)
    else:
        if not bug:
            asc.cross_core_wait_flag(1, 2)
        asc.data_copy(local(0), gm(y)[64 * half :], 64)  # SECOND
        if bug:
            asc.cross_core_wait_flag(1, 2)


def x_half(x):
    tensor = asc.GlobalTensor()
    tensor.set_global_buffer(asc.GlobalAddress(x.array.view(np.float16), asc.float16, x.region))
    return tensor


@bug("cores", "cross_core_set_flag(..., PipeID.PIPE_MTE3) behind", cores=2)
def flag_of_a_pipe_that_did_not_store(bug, x, y, z):
    core = asc.get_block_idx()
    if core == 0:
        tile = local(0)
        fill(tile, 1.0)
        asc.data_copy(gm(y), tile, 64)  # FIRST
    asc.cross_core_set_flag(2, 0, PIPE.PIPE_MTE2 if bug else PIPE.PIPE_MTE3)
    asc.cross_core_wait_flag(2, 0)
    if core == 1:
        asc.data_copy(local(1024), gm(y), 64)  # SECOND


@bug("cores", "core 0 reads y[0..63], which core 1 writes", cores=2)
def tile_is_overwritten_while_it_is_read(bug, x, y, z):
    core = asc.get_block_idx()
    if core == 0:
        asc.data_copy(local(0), gm(y), 64)  # FIRST
    asc.cross_core_set_flag(2, 0, PIPE.PIPE_MTE3 if bug else PIPE.PIPE_MTE2)
    asc.cross_core_wait_flag(2, 0)
    if core == 1:
        tile = local(1024)
        fill(tile, 1.0)
        asc.data_copy(gm(y), tile, 64)  # SECOND


@bug("cores", "writes too, and no flag between cores orders the two", cores=3)
def zeros_come_after_sums(bug, x, y, z):
    core, tile = asc.get_block_idx(), local(0)
    fill(tile, 0.0)
    if core == 0:
        asc.data_copy(gm(y), tile, 64)  # FIRST
    if not bug:
        asc.sync_all()
    if core:
        asc.set_atomic_add(F32)
        asc.data_copy(gm(y), tile, 64)  # SECOND
        asc.set_atomic_none()
    if bug:
        asc.sync_all()


@bug("cores", "vector core 1", cores=1)
def half_is_read_before_it_is_there(bug, x, y, z):
    _, half = both()
    if asc.ascend_is_aiv():
        tile = local(0)
        fill(tile, float(half))
        asc.data_copy(gm(y)[64 * half :], tile, 64)  # FIRST
        if not bug:
            asc.cross_core_set_flag(0, 1, PIPE.PIPE_MTE3)
            asc.cross_core_wait_flag(0, 1)
        asc.data_copy(local(1024), gm(y)[64 - 64 * half :], 64)  # SECOND


@bug("cores", "core 2", cores=3)
def hands_on_what_it_did_not_wait_for(bug, x, y, z):
    """Core 0 stores; core 2 reads after a meeting that core 0's store may outlast."""
    core = asc.get_block_idx()
    if core == 0:
        tile = local(0)
        fill(tile, 1.0)
        asc.data_copy(gm(y), tile, 64)  # FIRST
        if not bug:
            then(H.MTE3_MTE2)
    asc.cross_core_set_flag(2, 0, PIPE.PIPE_MTE2)
    asc.cross_core_wait_flag(2, 0)
    asc.cross_core_set_flag(3, 0, PIPE.PIPE_MTE2)
    asc.cross_core_wait_flag(3, 0)
    if core == 2:
        asc.data_copy(local(1024), gm(y), 64)  # SECOND


@bug("cores", "writes y[64..127], which", cores=2)
def second_tile_is_not_waited_for(bug, x, y, z):
    core = asc.get_block_idx()
    for i in range(2):
        if core == 0:
            tile = local(256 * i)
            fill(tile, 1.0)
            asc.data_copy(gm(y)[64 * i :], tile, 64)  # FIRST
        if not (bug and i):
            asc.cross_core_set_flag(2, 0, PIPE.PIPE_MTE3)
            asc.cross_core_wait_flag(2, 0)
        if core == 1:
            asc.data_copy(local(1024 + 256 * i), gm(y)[64 * i :], 64)  # SECOND


@bug("left set", "sets cross-core flag 4 on core 0, which core 1 does not wait for", cores=2)
def flag_is_not_waited_for(bug, x, y, z):
    for _ in range(2):
        asc.cross_core_set_flag(4, 0, PIPE.PIPE_MTE3)  # FIRST
        if asc.get_block_idx() == 0 or not bug:
            asc.cross_core_wait_flag(4, 0)


@bug("left set", "sets cross-core flag 5 on vector core 0, which cube core 0 does not wait for")
def cube_core_waits_too_rarely(bug, x, y, z):
    for i in range(3):
        if asc.ascend_is_aiv():
            asc.cross_core_set_flag(5, 2, PIPE.PIPE_MTE3)  # FIRST
        elif not (bug and i == 1):
            asc.cross_core_wait_flag(5, 2)


def run(kernel, wrong, cores, **options):
    arrays = [np.arange(1024, dtype=np.float32) + 10_000 * number for number in range(3)]
    return asim.run_kernel(kernel, cores, wrong, *arrays, **options)


@pytest.mark.parametrize(
    ("kernel", "kind", "text", "cores"), BUGS, ids=lambda item: getattr(item, "name", "")
)
def test_a_seeded_bug_is_found_with_its_kind_and_lines(kernel, kind, text, cores):
    lines, first = inspect.getsourcelines(kernel.function)
    places = [
        f"test_asc_crossing.py:{first + number}: "
        for mark in ("FIRST", "SECOND")
        for number, line in enumerate(lines)
        if line.rstrip().endswith("# " + mark)
    ]
    found = [one for one in run(kernel, True, cores).findings if one.kind != "unwritten"]
    assert {one.kind for one in found} - {"undefined"} == {kind}
    assert any(text in str(one) for one in found), [str(one) for one in found]
    sides = [{one.other, one.where} if kind == "cores" else {one.where} for one in found if one.kind == kind]
    assert any(all(any(side.startswith(place) for side in both) for place in places) for both in sides), found


@pytest.mark.parametrize("order", ["program", "late", 3])
@pytest.mark.parametrize(
    ("kernel", "kind", "text", "cores"), BUGS, ids=lambda item: getattr(item, "name", "")
)
def test_its_mended_twin_has_nothing(kernel, kind, text, cores, order):
    found = run(kernel, False, cores, order=order).findings
    assert [one for one in found if one.kind not in ("unwritten", "undefined")] == []


def test_a_flag_that_is_left_set_says_how_often():
    (found,) = [one for one in run(BUGS[-2][0], True, 2).findings if one.kind == "left set"]
    assert found.count == 4  # core 1 has not waited twice, for each of the two cores
    assert found.remedy == "wait for it as often as it is set"


@asc.jit
def parts_of_blocks(z):
    """Stores 3 numbers, does something else in between, and reads them back without waiting."""
    tile, back, out = local(0), local(256), gm(z)
    fill(tile, 2.0)
    asc.data_copy_pad(out, tile, asc.DataCopyExtParams(1, 12, 0, 0))
    tile.get_value(0)  # all so far is looked at now
    asc.data_copy(out[64:], tile, 8)
    asc.data_copy(back, out, 8)


def test_parts_of_blocks_are_kept_in_sight_when_other_calls_come():
    found = asim.run_kernel(parts_of_blocks, 1, np.zeros(128, np.float32)).findings
    assert [(one.kind, one.bytes) for one in found if one.kind == "race"] == [("race", (0, 11))]
