"""Rules of vector instructions that a call breaks, and operands that overlap."""

from ascendsim import asc
from tests.support.asc_bugs.kinds import POS, UB, bug, local, touch


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


@bug("error", "takes")
def sum_of_bytes(bug, x, y, z):
    touch(x, y, z)
    a = local(0, 64, dtype=asc.uint8 if bug else asc.int32)
    asc.add(a, a, a, 64)  # BUG


@bug("error", "at most 255 times, not 300")
def sum_over_too_many_repeats(bug, x, y, z):
    touch(x, y, z)
    a = local(0, 64 * 300)
    asc.duplicate(a, 1.0, 64 * 300)
    asc.add(a, a, a, 64, 300 if bug else 200, asc.BinaryRepeatParams(1, 1, 1, 8, 8, 8))  # BUG


@bug("error", "mask")
def mask_of_no_lanes(bug, x, y, z):
    touch(x, y, z)
    a = local(0, 64)
    asc.duplicate(a, 1.0, 64)
    asc.add(a, a, a, 0 if bug else 64, 1, asc.BinaryRepeatParams())  # BUG
