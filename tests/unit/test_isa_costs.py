"""Costs of single instructions against tables that were worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ascendsim.core.errors import CompileError
from ascendsim.isa.cost_compute import unit_flag_cycles
from ascendsim.isa.cost_model import Waiting
from ascendsim.isa.costs import cost
from ascendsim.isa.instructions import Buffer, Img2Col, Mmad, Move, Operand, Pipe, Scalar, SetFlag, Vector
from ascendsim.isa.program import CoreKind
from tests.support.toy_soc import TOY, toy

ANY = 1 << 20


def at(buffer: Buffer, size: int = ANY) -> Operand:
    return Operand(buffer, "x", size)


def mmad(m: int, k: int, n: int, dtype: str = "float16") -> Mmad:
    return Mmad(at(Buffer.L0C), at(Buffer.L0A), at(Buffer.L0B), m, k, n, dtype)


def vector(op: str, elements: int, dtype: str = "float16", **more: object) -> Vector:
    return Vector(op, dtype, elements, at(Buffer.UB), (at(Buffer.UB),), **more)  # type: ignore[arg-type]


def move(pipe: Pipe, source: Buffer, target: Buffer, bursts: int, burst_bytes: int, **more: object) -> Move:
    return Move(pipe, at(target), at(source), bursts, burst_bytes, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("m", "k", "n", "dtype", "cycles"),
    [
        (16, 16, 16, "float16", 1 + 2),
        (17, 16, 16, "float16", 2 + 2),
        (64, 64, 64, "float16", 64 + 2),
        (128, 64, 256, "float16", 8 * 4 * 16 + 2),
        (16, 32, 16, "int8", 1 + 2),
        (64, 64, 64, "int8", 4 * 2 * 4 + 2),
        (1, 1, 1, "float16", 3),
    ],
)
def test_mmad_counts_whole_blocks(m: int, k: int, n: int, dtype: str, cycles: int) -> None:
    assert cost(mmad(m, k, n, dtype), TOY).occupancy == cycles
    assert cost(mmad(m, k, n, dtype), TOY).latency == 15


@pytest.mark.parametrize(
    ("m", "k", "n", "extra"),
    [(16, 80, 32, 3), (32, 80, 16, 3), (32, 80, 32, 0), (16, 16, 16, 0), (16, 32, 16, 0)],
)
def test_odd_block_counts_cost_more_where_the_chip_says_so(m: int, k: int, n: int, extra: int) -> None:
    odd = toy(cube={"odd_size_penalty": True})
    assert cost(mmad(m, k, n), odd).occupancy - cost(mmad(m, k, n), TOY).occupancy == extra


def test_fp32_mmad_of_c220_takes_two_cycles_a_block_of_k_8() -> None:
    chip = toy(generation="c220", cube={"k0": {"float32": 8}, "cycles_per_block": {"float32": 2}})
    assert cost(mmad(32, 32, 32, "float32"), chip).occupancy == 2 * 4 * 2 * 2 + 2


def test_mmad_of_a_type_without_instruction_is_an_error() -> None:
    with pytest.raises(
        CompileError, match=r"mmad of float32 does not exist on Toy; the Cube takes float16, int8"
    ):
        cost(mmad(16, 16, 16, "float32"), TOY)


@pytest.mark.parametrize(
    ("op", "elements", "dtype", "cycles"),
    [
        ("vadd", 128 * 10, "float16", 10),
        ("vadd", 64 * 10, "float32", 10),
        ("vexp", 128 * 10, "float16", 40),
        ("vexp", 64 * 10, "float32", 20),
        ("vadd", 128, "float16", 3),  # never faster than the pitch of instructions
        ("vadd", 100, "float16", 3 + 16),  # mask
        ("vadd", 128 * 300, "float16", 300),
    ],
)
def test_vector_cycles_by_repeats(op: str, elements: int, dtype: str, cycles: int) -> None:
    price = cost(vector(op, elements, dtype), TOY)
    assert (price.occupancy, price.latency, price.head) == (cycles, 20, 13)


def test_long_vectors_are_several_instructions() -> None:
    assert cost(vector("vadd", 128 * 255), TOY).issues == 1
    assert cost(vector("vadd", 128 * 256), TOY).issues == 2


def test_each_call_pays_its_own_rounding_and_issue() -> None:
    price = cost(vector("vadd", 128 * 10 + 1, calls=7), TOY)
    assert price.occupancy == 7 * (11 + 16)
    assert price.issues == 7


def test_bank_conflicts_cost_a_cycle_a_repeat() -> None:
    assert cost(vector("vadd", 128 * 10, bank_conflict=True), TOY).occupancy == 20


def test_a_narrow_vector_unit_takes_proportionally_longer() -> None:
    assert cost(vector("vadd", 128 * 10), toy(vector={"bytes_per_cycle": 64})).occupancy == 40


@pytest.mark.parametrize(
    ("op", "dtype", "text"),
    [
        ("vtan", "float16", "intrinsic 'vtan' does not exist on Toy; known are vadd, vexp, vln, vmuls"),
        ("vadd", "int64", "intrinsic vadd of int64 does not exist on Toy; it takes float16, float32"),
        ("vln", "float16", "intrinsic vln has no cost on Toy; set vector.cycles_per_repeat of 'vln'"),
    ],
)
def test_missing_intrinsics_are_errors(op: str, dtype: str, text: str) -> None:
    with pytest.raises(CompileError) as caught:
        cost(vector(op, 128, dtype), TOY)
    assert str(caught.value) == text


def test_the_vector_unit_fetches_results_at_the_width_of_l0c() -> None:
    assert cost(vector("l0c_to_ub", 4096, "float32"), TOY).occupancy == 4096 * 4 // 256


@pytest.mark.parametrize(
    ("source", "target", "size", "cycles"),
    [
        (Buffer.L1, Buffer.L0A, 8192, 16 + 10),
        (Buffer.L1, Buffer.L0B, 8192, 32 + 10),
        (Buffer.L1, Buffer.L0A, 513, 2 + 10),  # whole fractals
        (Buffer.L1, Buffer.UB, 8192, 64),
        (Buffer.L1, Buffer.UB, 33, 1),  # two blocks of 32 B
    ],
)
def test_moves_from_l1(source: Buffer, target: Buffer, size: int, cycles: int) -> None:
    assert cost(move(Pipe.MTE1, source, target, 1, size), TOY).occupancy == cycles


def test_a_path_that_the_chip_lacks_is_an_error() -> None:
    with pytest.raises(CompileError, match=r"path L0C -> GM does not exist on Toy"):
        cost(move(Pipe.FIX, Buffer.L0C, Buffer.GM, 1, 512), TOY)


@pytest.mark.parametrize(
    ("stride", "rows", "bytes_per_cycle"),
    # relative to the port of 512 B/cycle of the toy chip, whose c220 counterpart has 256
    [
        (1, 1, 512),
        (1, 2, 2 * 128),
        (1, 6, 2 * 64),
        (2, 1, 2 * 128),
        (4, 1, 2 * 64),
        (2, 4, 2 * 64),
        (8, 16, 2 * 32),
        (3, 1, 2 * 32),
    ],
)
def test_load3d_follows_the_stride_table(stride: int, rows: int, bytes_per_cycle: int) -> None:
    load = Img2Col(at(Buffer.L0A), at(Buffer.L1), 65536, stride, rows)
    assert cost(load, TOY).occupancy == 65536 // bytes_per_cycle + 15


# TIK's model of the first generation: a fractal a cycle of L0A, two of L0B, whatever rows it spans
@pytest.mark.parametrize(
    ("buffer", "stride", "rows", "cycles"),
    [(Buffer.L0A, 1, 6, 128), (Buffer.L0A, 2, 4, 256), (Buffer.L0B, 1, 60, 256)],
)
def test_rows_that_a_fractal_spans_cost_nothing_where_the_chip_does_not_count_them(
    buffer: Buffer, stride: int, rows: int, cycles: int
) -> None:
    soc = toy(ports={"load3d_counts_rows": False})
    load = Img2Col(at(buffer), at(Buffer.L1), 65536, stride, rows)
    assert cost(load, soc).occupancy == cycles + 15


def test_load3d_knows_strides_up_to_8_where_the_least_share_of_the_port_is_lower() -> None:
    soc = toy(ports={"load3d_least_l0a": 1 / 64})
    took = {
        stride: cost(Img2Col(at(Buffer.L0A), at(Buffer.L1), 65536, stride, 1), soc).occupancy - 15
        for stride in (1, 4, 8, 9, 16)
    }
    assert (took[4], took[8], took[9], took[16]) == (4 * took[1], 8 * took[1], 64 * took[1], 64 * took[1])


# 256, 2 * 512 / 8 and never below 2 * 512 / 18 bytes per cycle on the toy chip's port; strides divide them
@pytest.mark.parametrize(
    ("stride", "rows", "cycles"),
    [
        (1, 1, 256),
        (1, 4, 512),
        (1, 60, 1152),
        (2, 1, 512),
        (2, 4, 768),
        (4, 1, 1024),
        (8, 1, 1152),
        (3, 1, 1152),
    ],
)
def test_load3d_into_l0b(stride: int, rows: int, cycles: int) -> None:
    load = Img2Col(at(Buffer.L0B), at(Buffer.L1), 65536, stride, rows)
    assert cost(load, TOY).occupancy == cycles + 15


@pytest.mark.parametrize(
    ("bursts", "burst", "stride", "aligned", "l2", "dram"),
    [
        (1, 16384, 0, True, 16384, 16384),
        (1, 100, 0, True, 128, 512),
        (16, 1024, 0, True, 16384, 16384),
        (64, 128, 1024, True, 8192, 64 * 512),
        # neighbours share their transaction: the span bounds the sum
        (
            64,
            128,
            256,
            True,
            8192,
            63 * 256 + 512 - 256,
        ),
        # a transaction more for the burst, and never less than half the rate here
        (1, 16384, 0, False, 16896, 16896),
        (8, 2048, 4096, False, 8 * 2560, 8 * 2560),
        (64, 256, 0, False, 16896, 16896),
        (64, 256, 1024, False, 32768, 65536),
        (64, 48, 4096, True, 64 * 64 / 0.8, 64 * 512 / 0.8),
    ],
)
def test_gm_reads_round_bursts_up(
    bursts: int, burst: int, stride: int, aligned: bool, l2: float, dram: float
) -> None:
    link = cost(
        move(Pipe.MTE2, Buffer.GM, Buffer.L1, bursts, burst, src_stride=stride, aligned=aligned), TOY
    ).link
    assert link is not None
    assert (link.bytes, link.l2_bytes, link.dram_bytes) == (bursts * burst, l2, dram)
    assert (link.write, link.hit_latency, link.miss_latency, link.port_bytes_per_cycle) == (
        False,
        100,
        300,
        64,
    )


@pytest.mark.parametrize(("burst", "stride"), [(48, 4096), (64, 4094)])
def test_ragged_rows_of_a_layout_change_go_at_their_own_rate(burst: int, stride: int) -> None:
    chip = toy(dma={"ragged_nd2nz_bytes_per_cycle": 16})
    link = cost(
        move(Pipe.MTE2, Buffer.GM, Buffer.L1, 64, burst, kind="nd2nz", src_stride=stride, aligned=False), chip
    ).link
    assert link is not None
    assert link.l2_bytes == 64 * 64
    assert link.l2_bytes / link.port_bytes_per_cycle == pytest.approx(64 * burst / 16)


def test_ragged_rows_to_and_from_ub_are_an_instruction_each() -> None:
    """64 rows of 48 B are 64 B each in blocks: at 45 cycles a row the row decides, at half a cycle the path
    of 64 B a cycle does."""
    for source, target, pipe in ((Buffer.GM, Buffer.UB, Pipe.MTE2), (Buffer.UB, Buffer.GM, Pipe.MTE3)):
        stride = {"src_stride": 4096} if source is Buffer.GM else {"dst_stride": 4096}
        for row_cycles, expected in ((45, 64 * 45), (0.5, 64 / 0.8)):
            link = cost(
                move(pipe, source, target, 64, 48, **stride), toy(dma={"ragged_row_cycles": row_cycles})
            ).link
            assert link is not None
            assert link.l2_bytes / link.port_bytes_per_cycle == pytest.approx(expected)


@pytest.mark.parametrize(("rows", "expected"), [(64, 64 * (40 + 24)), (1, 40 + 24)])
def test_ragged_rows_start_and_go_at_a_rate_of_their_own(rows: int, expected: float) -> None:
    """48 B at 2 B a cycle behind a start of 40 cycles; a single row too, if it begins within a block."""
    chip = toy(dma={"ragged_row_cycles": 40, "ragged_row_bytes_per_cycle": 2})
    stride = {"src_stride": 4096} if rows > 1 else {}
    ragged = move(Pipe.MTE2, Buffer.GM, Buffer.UB, rows, 48, aligned=False, **stride)
    link = cost(ragged, chip).link
    assert link is not None
    assert link.l2_bytes / link.port_bytes_per_cycle == pytest.approx(expected)


def test_a_single_row_on_a_boundary_is_not_ragged() -> None:
    chip = toy(dma={"ragged_row_cycles": 40, "ragged_row_bytes_per_cycle": 2})
    whole = move(Pipe.MTE2, Buffer.GM, Buffer.UB, 1, 48)
    assert cost(whole, chip).link == cost(whole, TOY).link


@pytest.mark.parametrize(("target", "burst"), [(Buffer.UB, 64), (Buffer.L1, 48)])
def test_rows_of_whole_blocks_and_rows_to_l1_share_an_instruction(target: Buffer, burst: int) -> None:
    ragged = move(Pipe.MTE2, Buffer.GM, target, 64, burst, src_stride=4096)
    assert cost(ragged, toy(dma={"ragged_row_cycles": 45})).link == cost(ragged, TOY).link


HOLDING = {
    "dma": {"reads_hold_requests": True},
    "l2": {"line_bytes": 512, "read_latency_cycles": 100},
    "dram": {"read_latency_cycles": 150},
}


@pytest.mark.parametrize(
    ("bursts", "burst", "stride", "requests"),
    [
        (64, 128, 4096, 64),
        (64, 512, 4096, 64),
        (64, 640, 4096, 128),
        (1, 4096, 0, 8),
        (8, 512, 512, 8),
        (1, 32, 0, 1),
    ],
)
def test_a_short_burst_takes_a_request_of_its_own(
    bursts: int, burst: int, stride: int, requests: int
) -> None:
    """The path of 64 B a cycle carries a request of 512 B in 8 cycles, and a shorter one in as many."""
    for kind, target in (("copy", Buffer.UB), ("nd2nz", Buffer.L1)):
        link = cost(
            move(Pipe.MTE2, Buffer.GM, target, bursts, burst, kind=kind, src_stride=stride), toy(**HOLDING)
        ).link
        assert link is not None
        assert link.request_bytes_per_cycle is not None
        assert link.l2_bytes / link.request_bytes_per_cycle == pytest.approx(8 * requests)
        assert link.waiting is not None
        assert link.waiting.slowdown(1.0, 1) == 1.5  # 150 cycles of DRAM over 100 of L2


@pytest.mark.parametrize(
    ("burst", "stride", "lines"),
    [(512, 4096, 1), (4096, 0, 1), (128, 4096, 4), (256, 4096, 2), (640, 4096, 1.6)],
)
def test_pieces_of_a_line_wait_for_memory_once(burst: int, stride: int, lines: float) -> None:
    chip = toy(**(HOLDING | {"dram": {"read_latency_cycles": 150, "loaded_latency_cycles": 500}}))
    read = move(Pipe.MTE2, Buffer.GM, Buffer.L1, 8 if stride else 1, burst, kind="nd2nz", src_stride=stride)
    link, around = cost(read, chip).link, cost(replace(read, cached=False), chip).link
    assert link is not None
    assert around is not None
    assert link.waiting == Waiting(100, 150, 500, lines)
    assert link.miss_latency == 150  # of the first byte, as in idle memory
    assert around.waiting == Waiting(100, 400)  # 400 past L2


def test_requests_wait_for_memory_as_far_as_they_are_meant_for_it() -> None:
    waiting = Waiting(100, 150, 500)
    assert [waiting.slowdown(1.0, cores) for cores in (0, 0.5, 1)] == [1.5, 3.25, 5]
    assert waiting.slowdown(0.0, 1) == 1
    # a quarter of them takes 500 of 800 cycles, which is how far memory is from idle: 150 + 350 * 5 / 8
    assert waiting.slowdown(0.25, 1) == pytest.approx(0.75 + 0.25 * 3.6875)
    assert Waiting(100, 150, 500, lines=4).slowdown(1.0, 1) == waiting.slowdown(0.25, 1)
    assert Waiting(100, 50).slowdown(1.0, 1) == 1  # L2 is never the slower one
    assert Waiting(100, 150).slowdown(0.5, 1) == 1.25


def test_vector_cores_wait_as_for_idle_memory() -> None:
    chip = toy(**(HOLDING | {"dram": {"read_latency_cycles": 150, "loaded_latency_cycles": 500}}))
    link = cost(move(Pipe.MTE2, Buffer.GM, Buffer.UB, 8, 128, src_stride=4096), chip).link
    assert link is not None
    assert link.waiting == Waiting(100, 150)


def test_stores_and_chips_without_the_figure_know_no_requests() -> None:
    store = cost(move(Pipe.MTE3, Buffer.UB, Buffer.GM, 64, 128, dst_stride=4096), toy(**HOLDING)).link
    load = cost(move(Pipe.MTE2, Buffer.GM, Buffer.UB, 64, 128, src_stride=4096), TOY).link
    for link in (store, load):
        assert link is not None
        assert (link.request_bytes_per_cycle, link.waiting) == (None, None)
        assert link.l2_bytes / link.port_bytes_per_cycle == pytest.approx(64 * 128 / 64)


def test_reads_past_l2_pay_requests_and_their_own_latency() -> None:
    chip = toy(**(HOLDING | {"dram": {"read_latency_cycles": 150, "uncached_latency_cycles": 250}}))
    read = move(Pipe.MTE2, Buffer.GM, Buffer.UB, 64, 128, src_stride=4096)
    cached, around = cost(read, chip).link, cost(replace(read, cached=False), chip).link
    assert cached is not None
    assert around is not None
    assert (cached.dram_bytes, around.dram_bytes) == (64 * 512, 64 * 128)  # whole transactions, requests
    assert (around.cached, around.miss_latency, around.waiting) == (False, 250, Waiting(100, 250))


@pytest.mark.parametrize(
    ("k", "rate", "early"),
    [
        (64, 64, 512 * 255 // 256),  # both take 512 cycles: FIXPIPE starts after the first of 256 units
        (16, 64, 128 * 255 // 256),  # FIXPIPE is the slower one
        (64, 256, 128 * 255 // 256),  # it starts late enough not to overtake
    ],
)
def test_unit_flag_lets_fixpipe_follow_unit_by_unit(k: int, rate: int, early: int) -> None:
    chip = toy(ports={"fixpipe_elements_per_cycle": rate}, cube={"gap_cycles": 0})
    assert unit_flag_cycles(mmad(128, k, 256), chip) == early


@pytest.mark.parametrize(("rate", "taken"), [(32, 32), (1024, 64)])
def test_layout_changes_on_the_way_have_a_rate_of_their_own(rate: int, taken: int) -> None:
    """None that is above that of the path: 64 B a cycle."""
    plain, changed = (
        cost(
            move(Pipe.MTE2, Buffer.GM, Buffer.L1, 16, 512, kind=kind),
            toy(dma={"nd2nz_bytes_per_cycle": rate}),
        ).link
        for kind in ("copy", "nd2nz")
    )
    assert plain is not None
    assert changed is not None
    assert plain.l2_bytes / plain.port_bytes_per_cycle == pytest.approx(16 * 512 / 64)
    assert changed.l2_bytes / changed.port_bytes_per_cycle == pytest.approx(16 * 512 / taken)
    assert changed.hit_latency == plain.hit_latency


@pytest.mark.parametrize(("itemsize", "cycles"), [(1, 64), (2, 64), (4, 128)])
def test_fixpipe_converts_so_many_elements_a_cycle(itemsize: int, cycles: int) -> None:
    chip = toy(ports={"l0c_to_gm": 128, "l0c_to_l1": 128, "fixpipe_elements_per_cycle": 64})
    size = 4096 * itemsize
    out = Move(Pipe.FIX, at(Buffer.GM, size), at(Buffer.L0C, 4096 * 4), 1, size, "fixpipe")
    link = cost(out, chip).link
    assert link is not None
    assert link.l2_bytes / link.port_bytes_per_cycle == pytest.approx(cycles)
    assert cost(replace(out, dst=at(Buffer.L1, size)), chip).occupancy == cycles


def test_gm_writes_use_the_write_side() -> None:
    link = cost(move(Pipe.MTE3, Buffer.UB, Buffer.GM, 4, 512, dst_stride=8192), TOY).link
    assert link is not None
    assert (link.write, link.hit_latency, link.miss_latency) == (True, 50, 200)


def test_starting_an_instruction_costs_its_unit_40_ns_on_the_310() -> None:
    slow = toy(frequency_mhz=680, issue={"instruction_start_ns": 40})  # 27.2 cycles
    alone = [cost(mmad(64, 64, 64), slow), cost(move(Pipe.MTE1, Buffer.L1, Buffer.L0A, 1, 8192), slow)]
    # the longer of the two holds the unit
    assert [(price.head, price.occupancy) for price in alone] == [(28, 64 + 2), (26, 28)]
    assert cost(vector("vadd", 1280, calls=10), slow).occupancy == 272
    assert cost(vector("vadd", 1280, calls=10), slow).head == 13 + 10
    assert cost(move(Pipe.MTE2, Buffer.GM, Buffer.L1, 1, 512), slow).occupancy == 28
    assert cost(SetFlag(Pipe.M, "f"), slow).occupancy == 0


def test_scalar_work_costs_its_cycles() -> None:
    assert cost(Scalar(17), TOY).occupancy == 17


def test_a_core_without_the_pipe_refuses() -> None:
    with pytest.raises(CompileError, match=r"pipe M does not exist on a VECTOR core"):
        cost(mmad(16, 16, 16), TOY, CoreKind.VECTOR)
