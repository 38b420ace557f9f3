"""Races between cores, over bytes of global memory."""

from ascendsim import asc
from tests.support.asc_bugs.kinds import PIPE, bug, gm, local, order, touch


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
