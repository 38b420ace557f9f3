"""Which bytes have been written: garbage may lie in padding, but must not leave; and who leaves his piece."""

import numpy as np
import pytest

import ascendsim as asim
from ascendsim import asc

F32, UB = asc.float32, asc.TPosition.VECCALC


def local(place, size, dtype=F32):
    return asc.LocalTensor(dtype, UB, place, size)


def out(kernel, size=64, *more, dtype=np.float32):
    """Findings of a kernel that writes `size` elements; these kernels leave flags out, which is not asked."""
    z = np.zeros(size, dtype)
    return found_by(kernel, z, *more), z


def found_by(kernel, *args):
    """Findings on one core, races and arrays that nobody touches left out."""
    findings = asim.run_kernel(kernel, 1, *args).findings
    return tuple(found for found in findings if found.kind not in ("race", "unwritten"))


def globally(address):
    tensor = asc.GlobalTensor()
    tensor.set_global_buffer(address)
    return tensor


def test_bytes_that_nobody_wrote_are_found_where_they_leave():
    @asc.jit
    def kernel(z):
        a = local(0, 64)
        asc.duplicate(a, 1.0, 48)
        asc.data_copy(globally(z), a, 64)

    findings, z = out(kernel)
    (finding,) = findings
    assert finding.kind == "undefined"
    assert "asc.data_copy writes z[48..63], bytes that nothing has written" in str(finding)
    assert "test_asc_definedness.py:" in finding.where
    assert (z[:48] == 1).all()
    assert np.isnan(z[48:]).all()  # 0xFF


def test_a_fault_in_a_loop_is_one_finding_with_a_count():
    @asc.jit
    def kernel(z):
        a = local(0, 8)
        z_gm = globally(z)
        for i in range(5000):
            asc.data_copy(z_gm[8 * (i % 8) :], a, 8)

    findings, _ = out(kernel)
    assert [(finding.kind, finding.count) for finding in findings] == [("undefined", 5000)]


def test_garbage_travels_lane_by_lane():
    @asc.jit
    def kernel(z, keep):
        a, b = local(0, 64), local(256, 64)
        asc.duplicate(a, 1.0, 64)
        asc.duplicate(b, 2.0, 40)
        asc.add(a, a, b, 64)  # lanes 40..63 are garbage now
        asc.exp(a, a, 64)
        asc.data_copy(globally(z), a, keep)

    assert out(kernel, 64, 40)[0] == ()
    (finding,) = out(kernel, 64, 48)[0]
    assert "z[40..47]" in str(finding)


@pytest.mark.parametrize("lanes", [8, 3, 20])
def test_lanes_that_a_mask_leaves_out_stay_as_they_were(lanes):
    """What a mask writes is defined, the rest keeps its state."""

    @asc.jit
    def kernel(z):
        a, b = local(0, 64), local(256, 64)
        asc.duplicate(b, 2.0, 64)
        asc.muls(a, b, 2.0, lanes, 1, asc.UnaryRepeatParams())
        asc.data_copy_pad(globally(z), a, asc.DataCopyExtParams(1, 4 * (lanes + 1), 0, 0))

    (finding,) = out(kernel)[0]
    assert f"z[{lanes}..{lanes}]" in str(finding)


def test_conversions_reductions_and_broadcasts_pass_it_on():
    @asc.jit
    def kernel(z, count):
        half, a, b = local(0, 64, asc.float16), local(256, 64), local(512, 64)
        asc.duplicate(half, 1.0, 30)
        asc.cast(a, half, asc.RoundMode.CAST_NONE, 64)
        asc.whole_reduce_sum(b, a, count, 1, 1, 1, 8)
        asc.brcb(a, b, 1, asc.BrcbRepeatParams())
        asc.data_copy(globally(z), a, 8)  # the block of lane 0

    assert out(kernel, 64, 30)[0] == ()
    findings, _ = out(kernel, 64, 31)
    assert "z[0..7]" in str(findings[0])


def test_selected_lanes_count_and_others_do_not():
    @asc.jit
    def kernel(z, threshold):
        index, mask = local(0, 64), local(256, 8, asc.uint8)
        a, b = local(512, 64), local(1024, 64)
        for i in range(8):
            asc.duplicate(index[8 * i :], float(i), 8)
        asc.duplicate(a, 1.0, 32)  # blocks 0 to 3 of a, 4 to 7 of b
        asc.duplicate(b[32:], 2.0, 32)
        asc.compare_scalar(mask, index, threshold, asc.CMPMODE.LT, 64)
        asc.select(a, mask, a, b, asc.SelMode.VSEL_TENSOR_TENSOR_MODE, 64)
        asc.data_copy(globally(z), a, 64)

    findings, z = out(kernel, 64, 4.0)
    assert findings == ()
    np.testing.assert_array_equal(z, np.repeat(np.float32([1, 2]), 32))
    assert "z[24..31]" in str(out(kernel, 64, 3.0)[0][0])


def test_a_mask_and_an_index_that_nobody_wrote():
    @asc.jit
    def chosen(z):
        mask, a = local(256, 8, asc.uint8), local(512, 64)
        asc.duplicate(a, 1.0, 64)
        asc.select(a, mask, a, a, asc.SelMode.VSEL_TENSOR_TENSOR_MODE, 64)
        asc.data_copy(globally(z), a, 64)

    assert [finding.kind for finding in out(chosen)[0]] == ["undefined mask"]

    @asc.jit
    def gathered(z):
        a, b = local(0, 64), local(512, 64)
        asc.duplicate(a, 1.0, 64)
        asc.gather(b, a, local(1024, 64, asc.uint32), 0, 64)

    assert [finding.kind for finding in out(gathered)[0]] == ["undefined index"]


def test_reading_one_element():
    seen = []

    @asc.jit
    def kernel(z):
        a = local(0, 64)
        asc.duplicate(a, 3.0, 8)
        seen.append(a.get_value(7))
        a.set_value(9, 5.0)
        seen.append(a.get_value(9))
        seen.append(a.get_value(8))
        z_gm = globally(z)
        z_gm.set_value(3, seen[0] + 1)
        seen.append(z_gm.get_value(3))

    findings, z = out(kernel)
    assert seen[:2] == [3.0, 5.0]
    assert np.isnan(seen[2])
    assert seen[3] == z[3] == 4.0
    (finding,) = findings
    assert "LocalTensor.get_value reads a[8] (UB 0x20), which nothing has written" in str(finding)


def test_control_flow_may_depend_on_data():
    @asc.jit
    def kernel(x, z):
        a = local(0, 64)
        asc.data_copy(a, globally(x), 64)
        while a.get_value(0) < 100:
            asc.muls(a, a, 2.0, 64)
        asc.data_copy(globally(z), a, 64)

    x, z = np.arange(3, 67, dtype=np.float32), np.zeros(64, np.float32)
    asim.run_kernel(kernel, 1, x, z)
    np.testing.assert_array_equal(z, x * 64)  # 3, 6, ... 192


def test_padding_of_a_transfer():
    @asc.jit
    def kernel(x, z, pad):
        a = local(0, 64)
        asc.data_copy_pad(a, globally(x), asc.DataCopyExtParams(4, 20, 0, 1), pad)
        asc.data_copy(globally(z), a, 64)

    x = np.arange(1, 21, dtype=np.float32)
    z = np.zeros(64, np.float32)
    pad = asc.DataCopyPadExtParams(F32, True, 1, 2, 9)
    findings = found_by(kernel, x, z, pad)
    rows = z.reshape(4, 16)
    np.testing.assert_array_equal(rows[:, 0], [9] * 4)
    np.testing.assert_array_equal(rows[:, 1:6], x.reshape(4, 5))
    np.testing.assert_array_equal(rows[:, 6:8], np.full((4, 2), 9))
    assert [(finding.kind, finding.count) for finding in findings] == [("undefined", 1)]  # gaps of one block
    assert "z[8..63]" in str(findings[0])


def test_without_padding_the_rest_of_a_block_is_undefined():
    @asc.jit
    def kernel(x, z):
        a = local(0, 8)
        asc.duplicate(a, 1.0, 8)
        asc.data_copy_pad(a, globally(x), asc.DataCopyExtParams(1, 20, 0, 0))
        asc.data_copy(globally(z), a, 8)

    (finding,) = found_by(kernel, np.arange(5, dtype=np.float32), np.zeros(8, np.float32))
    assert "z[5..7]" in str(finding)


def test_reading_and_writing_beyond_an_array_is_found_and_kept_inside():
    @asc.jit
    def kernel(x, z):
        a = local(0, 64)
        asc.data_copy(a, globally(x)[32:], 64)
        asc.data_copy(globally(z)[48:], a, 32)

    x, z = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    read, written = found_by(kernel, x, z)
    assert "asc.data_copy reads x[64..95], but x has 64 elements" in str(read)
    assert "asc.data_copy writes z[64..79], but z has 64 elements" in str(written)
    np.testing.assert_array_equal(z[48:], x[32:48])
    np.testing.assert_array_equal(x, np.arange(64))


def test_leaving_a_local_tensor_is_found_and_goes_on():
    @asc.jit
    def kernel(z):
        a, b = local(0, 64), local(256, 64)
        asc.duplicate(b, 1.0, 64)
        for _ in range(5):
            asc.duplicate(a, 2.0, 72)  # 8 elements of b
        asc.data_copy(globally(z), b, 64)

    findings, z = out(kernel)
    (finding,) = findings
    assert "asc.duplicate writes a[0..71], but there are 64 elements; core 0, 5 times" in str(finding)
    np.testing.assert_array_equal(z, [2.0] * 8 + [1.0] * 56)


@pytest.mark.parametrize(("count", "moved"), [(20, 16), (7, 0), (np.int64(12), 8)])
def test_a_count_of_no_whole_blocks_is_cut_down(count, moved):
    @asc.jit
    def kernel(z):
        a = local(0, 64)
        asc.duplicate(a, 1.0, 64)
        asc.data_copy(globally(z), a, count)

    findings, z = out(kernel)
    (finding,) = findings
    assert f"{count} elements are cut down to {moved}; core 0; use data_copy_pad" in str(finding)
    assert (z == 1).sum() == moved


def test_a_cause_stands_before_what_follows_from_it_and_elements_have_names():
    @asc.jit
    def kernel(x):
        gm, values = asc.GlobalTensor(), local(0, 64)
        gm.set_global_buffer(x)
        asc.data_copy(values, gm, 12)  # four are cut off
        values.get_value(9)

    cut, read = asim.run_kernel(kernel, 1, np.zeros(64, np.float32)).findings
    assert (cut.kind, read.kind) == ("length", "undefined")
    assert "12 elements are cut down to 8" in cut.text
    assert read.text == "reads values[9] (UB 0x24), which nothing has written"
