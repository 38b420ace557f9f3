"""Faults on the Cube: fractals of 16 x 8 float32 on their way from global memory through L1, L0 and L0C."""

from ascendsim import asc
from tests.support.asc_bugs.kinds import PIPE, POS, bug, gm, local, order

ROWS = asc.Nd2NzParams(1, 16, 8, 0, 8, 16, 1, 0)  # 16 rows of 8 elements: one fractal
FRACTAL, TILE = 128, 256  # elements of a fractal, and of a tile of sums
PRODUCT = asc.MmadParams(16, 16, 8)
OUT = asc.FixpipeParamsV220(16, 16, 16, 16)
HALF = asc.QuantModes.F322F16


def room(number=0):
    """A fractal of each operand in L1 and in L0, and a tile of sums."""
    places = [local(4096 * at + 512 * number, FRACTAL, pos=pos) for at, pos in enumerate((POS.A1, POS.B1))]
    inner = [local(512 * number, FRACTAL, pos=pos) for pos in (POS.A2, POS.B2)]
    return *places, *inner, local(1024 * number, TILE, pos=POS.CO1)


def load(a1, b1, a2, b2, x, y):
    """Both operands up to L0, with nothing under way behind it."""
    asc.data_copy(a1, gm(x), ROWS)
    asc.data_copy(b1, gm(y), ROWS)
    order("MTE2_MTE1")
    asc.load_data(a2, a1, asc.LoadData2DParams(0, 1, 1))
    asc.load_data(b2, b1, asc.LoadData2DParams(0, 1, 1))
    order("MTE1_M")


def store(z, sums):
    """The sums to global memory, and all is over."""
    asc.pipe_barrier(PIPE.PIPE_ALL)
    asc.fixpipe(gm(z), sums, OUT)
    asc.pipe_barrier(PIPE.PIPE_ALL)


@bug("race", "(MTE2) may still be writing")
def load_of_what_has_not_come(bug, x, y, z):
    a1, b1, a2, b2, sums = room()
    asc.data_copy(b1, gm(y), ROWS)
    order("MTE2_MTE1")
    asc.load_data(b2, b1, asc.LoadData2DParams(0, 1, 1))
    asc.data_copy(a1, gm(x), ROWS)
    order("MTE2_MTE1", 1, unless=bug)
    asc.load_data(a2, a1, asc.LoadData2DParams(0, 1, 1))  # BUG
    order("MTE1_M")
    asc.mmad(sums, a2, b2, PRODUCT)
    store(z, sums)


@bug("race", "(MTE1) may still be writing")
def product_of_what_has_not_come(bug, x, y, z):
    a1, b1, a2, b2, sums = room()
    asc.data_copy(a1, gm(x), ROWS)
    asc.data_copy(b1, gm(y), ROWS)
    order("MTE2_MTE1")
    asc.load_data(a2, a1, asc.LoadData2DParams(0, 1, 1))
    asc.load_data(b2, b1, asc.LoadData2DParams(0, 1, 1))
    order("MTE1_M", unless=bug)
    asc.mmad(sums, a2, b2, PRODUCT)  # BUG
    store(z, sums)


@bug("race", "(M) may still be reading")
def operand_replaced_while_it_is_multiplied(bug, x, y, z):
    a1, b1, a2, b2, sums = room()
    load(a1, b1, a2, b2, x, y)
    asc.mmad(sums, a2, b2, PRODUCT)
    order("M_MTE1", unless=bug)
    asc.load_data(a2, b1, asc.LoadData2DParams(0, 1, 1))  # BUG
    store(z, sums)


@bug("race", "(MTE1) may still be reading")
def packet_replaced_while_it_is_loaded(bug, x, y, z):
    a1, b1, a2, b2, sums = room()
    load(a1, b1, a2, b2, x, y)
    order("MTE1_MTE2", unless=bug)
    asc.data_copy(a1, gm(x)[128:], ROWS)  # BUG
    asc.mmad(sums, a2, b2, PRODUCT)
    store(z, sums)


@bug("race", "(M) may still be writing")
def sums_stored_before_they_are_made(bug, x, y, z):
    a1, b1, a2, b2, sums = room()
    load(a1, b1, a2, b2, x, y)
    asc.mmad(sums, a2, b2, PRODUCT)
    order("M_FIX", unless=bug)
    asc.fixpipe(gm(z), sums, OUT)  # BUG


@bug("race", "(FIX) may still be reading")
def product_over_sums_that_leave(bug, x, y, z):
    a1, b1, a2, b2, sums = room()
    load(a1, b1, a2, b2, x, y)
    asc.mmad(sums, a2, b2, PRODUCT)
    order("M_FIX")
    asc.fixpipe(gm(z), sums, OUT)
    order("FIX_M", unless=bug)
    asc.mmad(sums, a2, b2, asc.MmadParams(16, 16, 8, cmatrix_init_val=False))  # BUG
    order("M_FIX", 1)
    asc.fixpipe(gm(z)[256:], sums, OUT)


@bug("race", "(FIX) may still be reading")
def one_tile_of_sums_in_a_loop(bug, x, y, z):
    a1, b1, a2, b2, sums = room()
    load(a1, b1, a2, b2, x, y)
    for i in range(3):
        asc.mmad(sums, a2, b2, asc.MmadParams(16, 16, 8, cmatrix_init_val=i == 0))  # BUG
        order("M_FIX")
        asc.fixpipe(gm(z)[256 * i :], sums, OUT)
        order("FIX_M", unless=bug)


@bug("undefined", "bytes that nothing has written")
def sums_that_start_from_nothing(bug, x, y, z):
    a1, b1, a2, b2, sums = room()
    load(a1, b1, a2, b2, x, y)
    asc.mmad(sums, a2, b2, asc.MmadParams(16, 16, 8, cmatrix_init_val=not bug))
    order("M_FIX")
    asc.fixpipe(gm(z), sums, OUT)  # BUG


@bug("outside", "but there are 128 elements")
def more_fractals_than_were_reserved(bug, x, y, z):
    a1, b1, a2, b2, sums = room()
    load(a1, b1, a2, b2, x, y)
    more = local(1024, 2 * FRACTAL, pos=POS.A2)
    asc.load_data(more, a1, asc.LoadData2DParams(0, 2 if bug else 1, 1))  # BUG
    asc.mmad(sums, a2, b2, PRODUCT)
    store(z, sums)


@bug("outside", "but there are 128 elements")
def product_deeper_than_its_operand(bug, x, y, z):
    a1, b1, a2, b2, sums = room()
    load(a1, b1, a2, b2, x, y)
    for pos, source in ((POS.A2, a1), (POS.B2, b1)):  # what lies behind the operands is somebody else's
        asc.load_data(local(512, FRACTAL, pos=pos), source, asc.LoadData2DParams(0, 1, 1))
    order("MTE1_M", 1)
    asc.mmad(sums, a2, b2, asc.MmadParams(16, 16, 16 if bug else 8))  # BUG
    store(z, sums)


@bug("error", "operands at multiples of 512 bytes")
def load_into_the_middle_of_a_fractal(bug, x, y, z):
    a1, b1, a2, b2, sums = room()
    load(a1, b1, a2, b2, x, y)
    more = local(2048, 2 * FRACTAL, pos=POS.A2)
    asc.load_data(more[16 if bug else FRACTAL :], a1, asc.LoadData2DParams(0, 1, 1))  # BUG
    asc.mmad(sums, a2, b2, PRODUCT)
    store(z, sums)


@bug("error", "with F322F16 makes float16 of float32, not float32 to float32")
def halves_into_singles(bug, x, y, z):
    a1, b1, a2, b2, sums = room()
    load(a1, b1, a2, b2, x, y)
    asc.mmad(sums, a2, b2, PRODUCT)
    order("M_FIX")
    mode = HALF if bug else asc.QuantModes.NoQuant
    asc.fixpipe(gm(z), sums, asc.FixpipeParamsV220(16, 16, 16, 16, mode))  # BUG


@bug("error", "with DEQF16 makes float16 of int32")
def floats_dequantised(bug, x, y, z):
    a1, b1, a2, b2, sums = room()
    load(a1, b1, a2, b2, x, y)
    asc.mmad(sums, a2, b2, PRODUCT)
    order("M_FIX")
    mode = asc.QuantModes.DEQF16 if bug else asc.QuantModes.NoQuant
    asc.fixpipe(gm(z), sums, asc.FixpipeParamsV220(16, 16, 16, 16, mode, 1))  # BUG


@bug("error", "takes fm in L0A, b2 lies in L0B")
def operands_the_wrong_way_round(bug, x, y, z):
    a1, b1, a2, b2, sums = room()
    load(a1, b1, a2, b2, x, y)
    asc.mmad(sums, b2 if bug else a2, b2, PRODUCT)  # BUG
    store(z, sums)


@bug("error", "the L1 of Ascend910B1 has 524288")
def more_than_l1(bug, x, y, z):
    a1, b1, a2, b2, sums = room()
    load(a1, b1, a2, b2, x, y)
    asc.mmad(sums, a2, b2, PRODUCT)
    pipe, que = asc.TPipe(), asc.TQue(POS.A1, 2)
    pipe.init_buffer(que, 2, 300_000 // 32 * 32 if bug else 8192)  # BUG
    store(z, sums)
