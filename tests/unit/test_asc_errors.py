"""Errors of use: one line that says where, which rule, and what to do."""

import numpy as np
import pytest

import ascendsim as asim
from ascendsim import asc
from tests.support.gate import in_one

POS, UB = asc.TPosition, asc.TPosition.VECCALC
F16, F32, I32 = asc.float16, asc.float32, asc.int32


def x32(count=1024):
    return np.arange(count, dtype=np.float32)


def local(place, size, dtype=F32, pos=UB):
    return asc.LocalTensor(dtype, pos, place, size)


def message(body, *args, **options):
    """What a kernel with this body says when it runs."""
    with pytest.raises(asim.InputError) as caught:
        asim.run_kernel(asc.jit(body), options.pop("cores", 1), *args, **options)
    text = str(caught.value)
    assert "\n" not in text
    return text


CALLS = [
    (
        lambda: asc.add(local(196352, 64), local(256, 64), local(512, 64), 65),
        "writes a tensor[0..64], but there are 64 elements, and UB ends there",
    ),
    (
        lambda: asc.add(local(0, 64), local(256, 64), local(512, 64, I32), 64),
        "one type, not float32 and float32 and",
    ),
    (
        lambda: asc.add(local(0, 64, asc.uint8), local(256, 64, asc.uint8), local(512, 64, asc.uint8), 64),
        "takes float16",
    ),
    (
        lambda: asc.add(local(0, 64), local(256, 64), local(0, 64, F32, POS.A1), 64),
        "works on UB, src1 lies in L1",
    ),
    (lambda: asc.add(local(0, 64), local(256, 64), 1.0, 64), "takes a LocalTensor as src1, not float"),
    (lambda: asc.add(local(0, 64), local(256, 64), local(512, 64), 0), "count of at least 1, not 0"),
    (lambda: asc.add(local(0, 64), local(256, 64), local(512, 64), 8.0), "whole number as count, not 8.0"),
    (lambda: asc.add(local(0, 64)[1:], local(256, 64), local(512, 64), 8), "must be a multiple of 32 bytes"),
    (
        lambda: asc.exp(local(0, 64), local(256, 64), 65, 1, asc.UnaryRepeatParams()),
        "mask of 1 to 64 lanes, not 65",
    ),
    (
        lambda: asc.exp(local(0, 64), local(256, 64), 64, 256, asc.UnaryRepeatParams()),
        "at most 255 times, not 256",
    ),
    (lambda: asc.exp(local(0, 64), local(256, 64), 64, 2, None), "takes UnaryRepeatParams"),
    (
        lambda: asc.exp(local(0, 64), local(256, 64), [0, 0], 1, asc.UnaryRepeatParams()),
        "mask of 1 to 64 lanes",
    ),
    (
        lambda: asc.exp(local(0, 64), local(256, 64), [1, 1], 1, asc.UnaryRepeatParams()),
        "mask of 1 to 64 lanes",
    ),
    (
        lambda: (
            asc.muls(local(0, 64), local(256, 64), "2", 64) or asc.muls(local(0, 64), local(256, 64), [], 64)
        ),
        "number as scalar",
    ),
    (lambda: asc.muls(local(0, 64, I32), local(256, 64, I32), 0.5, 64), "whole number with int32, not 0.5"),
    (lambda: asc.cast(local(0, 64), local(256, 64, F16), 1, 64), "takes a RoundMode"),
    (
        lambda: asc.compare(local(0, 64, asc.uint8), local(256, 64), local(512, 64), asc.CMPMODE.LT, 60),
        "whole repeats (64",
    ),
    (lambda: local(196600 // 32 * 32, 64), "must end within the 196608 bytes of UB"),
    (lambda: local(16, 64), "multiple of 32 bytes"),
    (lambda: asc.data_copy(local(0, 64), local(256, 64, F16), 64), "elements of one type"),
    (lambda: asc.data_copy(local(0, 64), local(256, 64), 0), "must have a count of at least 1, not 0"),
    (lambda: local(256, 64)[-8:], "cannot start before its first element, not -8"),
    (
        lambda: local(256, 64, asc.int8).get_value(-300),
        "cannot start before its first element, not -300",
    ),
    (lambda: asc.data_copy(local(0, 64), asc.GlobalTensor(), 64), "call its set_global_buffer first"),
    (lambda: asc.data_copy(local(0, 64, F32, POS.A2), local(0, 64), 64), "has no path, not UB to L0A"),
    (lambda: asc.set_flag(asc.HardEvent.MTE2_V, 8), "takes an id of 0 to 7, not 8"),
    (lambda: asc.set_flag("MTE2_V", 0), "takes a pair of pipes"),
    (lambda: asc.pipe_barrier(asc.HardEvent.MTE2_V), "takes a pipe"),
    (lambda: asc.TQue(POS.GM), "takes a position on the chip"),
    (lambda: asc.DataType("float17"), "element type 'float17' does not exist"),
]


@in_one("call, text", CALLS)
def test_rules_of_calls(call, text):
    found = message(lambda x: call(), x32())
    assert text in found
    if "element type" not in text:
        assert found.startswith("test_asc_errors.py:")


def queue(slots=1, pos=POS.VECIN):
    pipe, que = asc.TPipe(), asc.TQue(pos, slots)
    pipe.init_buffer(que, slots, 256)
    return que


def test_more_tensors_than_slots():
    def body(x):
        in_x = queue(2)
        for _ in range(3):
            in_x.alloc_tensor(F32)

    assert "asc.TQue.alloc_tensor in_x has 2 slots, and all are taken; free a tensor first" in message(
        body, x32()
    )


def test_an_empty_queue():
    def body(x):
        in_x = queue()
        in_x.deque(F32)

    assert "asc.TQue.deque in_x is empty; enque a tensor first" in message(body, x32())


def test_a_tensor_is_put_in_once_and_freed_once():
    def twice(x):
        in_x = queue()
        a = in_x.alloc_tensor(F32)
        in_x.enque(a)
        in_x.enque(a)

    def again(x):
        in_x = queue()
        in_x.enque(in_x.alloc_tensor(F32))
        a = in_x.deque(F32)
        in_x.free_tensor(a)
        in_x.free_tensor(a)

    def inside(x):
        in_x = queue()
        a = in_x.alloc_tensor(F32)
        in_x.enque(a)
        in_x.free_tensor(a)

    assert "in_x has this tensor already" in message(twice, x32())
    assert "in_x got this tensor back at test_asc_errors.py:" in message(again, x32())
    assert "in_x still has this tensor inside" in message(inside, x32())


def test_a_tensor_of_another_queue():
    def body(x):
        in_x, in_y = queue(), queue()
        in_x.free_tensor(in_y.alloc_tensor(F32))

    assert "in_x takes its own tensors, not one of in_y" in message(body, x32())


def test_use_after_free():
    def body(x):
        in_x = queue()
        in_x.enque(in_x.alloc_tensor(F32))
        a = in_x.deque(F32)
        in_x.free_tensor(a)
        asc.exp(a, a, 8)

    assert "asc.exp writes a, which was freed at test_asc_errors.py:" in message(body, x32())


def test_buffers_that_do_not_fit_are_listed():
    def body(x):
        pipe, in_x, in_y = asc.TPipe(), asc.TQue(POS.VECIN, 2), asc.TQue(POS.VECIN, 2)
        pipe.init_buffer(in_x, 2, 65536)
        pipe.init_buffer(in_y, 2, 65536)

    found = message(body, x32())
    assert "buffers need 262144 bytes, the UB of Ascend910B1 has 196608: in_x 131072, in_y 131072" in found


def test_a_queue_without_room():
    def body(x):
        asc.TQue(POS.VECIN, 2).alloc_tensor(F32)

    assert "call pipe.init_buffer" in message(body, x32())


def test_arrays_that_cannot_be_global_memory():
    body = lambda x: asc.duplicate(local(0, 8), 0.0, 8)
    frozen = x32()
    frozen.flags.writeable = False
    assert "must be writable; pass a copy" in message(body, frozen)
    assert "must lie in memory without gaps" in message(body, x32()[::2])
    assert "must have elements of a type that the chip has, not float64" in message(body, np.zeros(4))
    assert "must have elements of a type that the chip has, not bool" in message(body, np.zeros(4, bool))
    assert "must have elements, not shape (0,)" in message(body, np.zeros(0, np.float32))
    both = x32()
    assert "must not share memory with 'x'" in message(lambda x, y: None, both[:600], both[500:])


def test_one_array_may_be_given_twice():
    @asc.jit
    def double(x, y):
        gm = asc.GlobalTensor()
        gm.set_global_buffer(x)
        a = local(0, 64)
        asc.data_copy(a, gm, 64)
        asc.muls(a, a, 2.0, 64)
        out = asc.GlobalTensor()
        out.set_global_buffer(y)
        asc.data_copy(out, a, 64)

    x = x32(64)
    asim.run_kernel(double, 1, x, x)
    np.testing.assert_array_equal(x, 2 * x32(64))


@pytest.mark.parametrize("cores", [0, -1, True, 1.0, "8"])
def test_cores(cores):
    kernel = asc.jit(lambda x: None)
    with pytest.raises(asim.InputError, match="number of cores|argument cores"):
        asim.run_kernel(kernel, cores, x32())
    with pytest.raises(asim.InputError):
        kernel[cores](x32())


def test_calls_outside_of_kernels_and_launches_inside():
    with pytest.raises(asim.KernelError, match="asc.pipe_barrier works inside of a kernel only"):
        asc.pipe_barrier(asc.PipeID.PIPE_V)
    with pytest.raises(asim.KernelError, match="asc.LocalTensor works inside"):
        local(0, 8)
    inner = asc.jit(lambda x: None)
    with pytest.raises(asim.KernelError, match="runs on a number of cores"):
        inner(x32())
    assert "cannot be launched inside of a kernel" in message(lambda x: inner[1](x32()), x32())
    assert "cannot be launched inside" in message(lambda x: asim.run_kernel(inner, 1, x32()), x32())


def test_kernels_may_call_kernels():
    @asc.jit
    def fill(a, value):
        asc.duplicate(a, value, 64)

    @asc.jit
    def outer(z):
        a, gm = local(0, 64), asc.GlobalTensor()
        fill(a, 3.0)
        gm.set_global_buffer(z)
        asc.data_copy(gm, a, 64)

    z = np.zeros(64, np.float32)
    asim.run_kernel(outer, 1, z)
    assert (z == 3).all()


def test_too_few_arguments_name_the_parameters():
    with pytest.raises(asim.InputError, match="its parameters are x, y"):
        asim.run_kernel(asc.jit(lambda x, y: None), 1, x32())
    with pytest.raises(asim.InputError, match="cannot be called so: .*; its parameters are x, y"):
        asc.jit(lambda x, y: None)[1](x32(), z=x32())
    with pytest.raises(asim.InputError, match="must be a Kernel, not function; write @asc.jit"):
        asim.run_kernel(lambda x: None, 1, x32())


def test_an_empty_kernel_and_a_long_one():
    assert "does nothing" in message(lambda x: None, x32())

    def long(x):
        a = local(0, 64)
        for _ in range(70000):
            asc.exp(a, a, 64)

    text = message(long, x32(), limit=50000)
    assert "may have at most 50000 instructions on all cores" in text


def test_exceptions_keep_their_place_and_tell_core_and_call():
    def body(x):
        asc.duplicate(local(0, 64), 0.0, 64)
        if asc.get_block_idx() == 2:
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError) as caught:
        asim.run_kernel(asc.jit(body), 4, x32())
    (note,) = caught.value.__notes__
    assert "on core 2 of kernel 'body', after test_asc_errors.py:" in note
    assert note.endswith("asc.duplicate")
    asim.run_kernel(asc.jit(lambda x: asc.duplicate(local(0, 64), 0.0, 64)), 1, x32())  # and others still run


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("DataCopy", "asc.DataCopy is spelt data_copy here"),
        ("SetFlag", "is spelt set_flag here"),
        ("GetBlockIdx", "is spelt get_block_idx here"),
        ("TransDataTo5HD", "does not exist"),
        ("mrg_sort4", "asc.mrg_sort4 is not there yet"),
        ("LoadData3DParamsV2Pro", "is not there yet"),
        ("data_coppy", "asc.data_coppy does not exist; did you mean"),
    ],
)
def test_names_that_are_not_there(name, text):
    with pytest.raises(AttributeError, match=text):
        getattr(asc, name)


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (lambda x, gm: gm.set_value(1024, 1.0), "set_value writes element 1024, but x has 1024; stay inside"),
        (lambda x, gm: gm.get_value(-1), "get_value reads element -1, but x has 1024; stay inside"),
        (lambda x, gm: gm[-1:], "cannot start before its first element, not -1"),
        (lambda x, gm: gm.set_global_buffer(x + -4), "cannot start before its first element, not -4"),
    ],
)
def test_elements_outside_of_an_array(use, text):
    def body(x):
        gm = asc.GlobalTensor()
        gm.set_global_buffer(x)
        use(x, gm)

    assert text in message(body, x32())
