"""What a run of a kernel gives besides values: reports, waves, chips."""

import numpy as np
import pytest

import ascendsim as asim
from ascendsim import asc
from ascendsim.isa.program import CoreKind, TaskKind
from tests.support.asc_kernels import softmax


def run(cores=8, rows=4, n=512, **options):
    x = np.random.default_rng(0).standard_normal((cores * rows, n)).astype(np.float32)
    y = np.zeros_like(x)
    result = asim.run_kernel(softmax, cores, x, y, rows, n, **options)
    return result, y


def test_more_cores_than_the_chip_has_run_in_waves():
    one, _ = run(48, 1)
    two, y = run(96, 1)
    assert one.program.tasks[0].block_dim == 48
    assert 1.6 * one.duration_us < two.duration_us < 2.4 * one.duration_us
    np.testing.assert_allclose(y.sum(1), 1, rtol=1e-5)


def test_coupled_chips_run_it_on_their_only_kind_of_core():
    result, _ = run(4, soc="Ascend910B1")
    assert result.program.tasks[0].kind is TaskKind.AI_VECTOR_CORE
    assert result.program.tasks[0].groups[0].block.core is CoreKind.VECTOR

    @asc.jit
    def kernel(x, z):
        a = asc.LocalTensor(asc.float16, asc.TPosition.VECCALC, 0, 128)
        for gm, arrive in ((x, True), (z, False)):
            tensor = asc.GlobalTensor()
            tensor.set_global_buffer(gm)
            if arrive:
                asc.data_copy(a, tensor, 128)
                asc.relu(a, a, 128)
            else:
                asc.data_copy(tensor, a, 128)

    x = np.arange(-64, 64).astype(np.float16)
    z = np.zeros_like(x)
    for chip in ("Ascend310P3", "Ascend910A"):
        found = asim.run_kernel(kernel, 1, x, z, soc=chip)
        assert found.program.tasks[0].groups[0].block.core is CoreKind.AI
        np.testing.assert_array_equal(z, np.maximum(x, 0))


def test_a_chip_without_an_instruction_says_so():
    @asc.jit
    def kernel(x):
        a = asc.LocalTensor(asc.float32, asc.TPosition.VECCALC, 0, 64)
        asc.brcb(a, a, 1, asc.BrcbRepeatParams())

    with pytest.raises(asim.KernelError, match="asc.brcb does not exist on Ascend910A"):
        asim.run_kernel(kernel, 1, np.zeros(8, np.float32), soc="Ascend910A")


def test_reports():
    result, _ = run()
    table = result.op_summary()
    assert len(table) == 1
    assert "softmax" in str(table)
    drawn = result.plot_timeline().to_table()
    lanes = set(drawn.column("Lane"))
    assert {"Vector core 0 MTE2", "Vector core 0 Vector", "Vector core 0 MTE3"} <= lanes
    assert any("vexp" in label for label in drawn.column("Label"))
    pipes = result.pipes()
    assert set(pipes) == {"S", "MTE2", "V", "MTE3"}
    assert 0 < pipes["MTE2"] < result.duration_us


def test_parts_of_the_time_add_up_and_the_repr_is_a_line():
    result, _ = run()
    table = result.where_time_goes()
    assert sum(table.column("Of the time(%)")) == pytest.approx(100, abs=1e-6)
    assert sum(table.column("Alone(us)")) == pytest.approx(result.duration_us)
    launch = dict(zip(table.column("Pipe"), table.column("Alone(us)"), strict=True))["launch"]
    assert 0 < launch < result.duration_us
    assert len(repr(result)) <= 100
    assert repr(result).startswith("KernelResult('softmax")


def test_the_time_does_not_depend_on_values():
    with_values, _ = run()
    without, y = run(values=False)
    assert with_values.trace.end == without.trace.end
    assert not y.any()


def test_a_kernel_that_reads_values_needs_them():
    @asc.jit
    def kernel(x):
        gm = asc.GlobalTensor()
        gm.set_global_buffer(x)
        gm.get_value(0)

    with pytest.raises(asim.KernelError, match="needs values, but only the time was asked for"):
        asim.run_kernel(kernel, 1, np.zeros(8, np.float32), values=False)


def test_transfers_past_l2_take_longer_when_l2_would_hold_the_data():
    @asc.jit
    def kernel(x, mode):
        gm = asc.GlobalTensor()
        gm.set_global_buffer(x)
        gm.set_l2_cache_hint(mode)
        a = asc.LocalTensor(asc.float32, asc.TPosition.VECCALC, 0, 4096)
        for _ in range(20):
            asc.data_copy(a, gm, 4096)

    x = np.zeros(4096, np.float32)
    cached = asim.run_kernel(kernel, 8, x, asc.CacheMode.CACHE_MODE_NORMAL)
    past = asim.run_kernel(kernel, 8, x, asc.CacheMode.CACHE_MODE_DISABLE)
    assert past.duration_us > 1.2 * cached.duration_us


def test_a_deadlock_names_core_pipe_and_flag():
    @asc.jit
    def kernel(x):
        a = asc.LocalTensor(asc.float32, asc.TPosition.VECCALC, 0, 64)
        asc.wait_flag(asc.HardEvent.MTE2_V, 0)
        asc.exp(a, a, 64)

    with pytest.raises(asim.AscendSimError, match="MTE2_V 0"):
        asim.run_kernel(kernel, 1, np.zeros(8, np.float32))


def test_bfloat16_is_declared_or_known():
    import ml_dtypes

    @asc.jit
    def widen(x, z):
        a = asc.LocalTensor(asc.bfloat16, asc.TPosition.VECCALC, 0, 64)
        b = asc.LocalTensor(asc.float32, asc.TPosition.VECCALC, 1024, 64)
        x_gm, z_gm = asc.GlobalTensor(), asc.GlobalTensor()
        x_gm.set_global_buffer(x)
        z_gm.set_global_buffer(z)
        asc.data_copy(a, x_gm, 64)
        asc.cast(b, a, asc.RoundMode.CAST_NONE, 64)
        asc.data_copy(z_gm, b, 64)

    x = np.arange(64).astype(ml_dtypes.bfloat16)
    for given in (x, asc.GlobalAddress(x.view(np.uint16), asc.bfloat16)):
        z = np.zeros(64, np.float32)
        asim.run_kernel(widen, 1, given, z)
        np.testing.assert_array_equal(z, np.arange(64))
