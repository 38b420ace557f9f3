"""Least times of transfers and of starting an instruction, by hand from the figures of a chip."""

from __future__ import annotations

import pytest

from ascendsim.isa.cost_model import start_cycles, with_start
from ascendsim.isa.cost_transfer import requests, rounded_bytes
from ascendsim.isa.costs import cost
from ascendsim.isa.instructions import Buffer, Move, Operand, Pipe
from tests.support.toy_soc import toy


def read(bursts: int, burst_bytes: int, target: Buffer = Buffer.UB) -> Move:
    size = 1 << 20
    return Move(
        Pipe.MTE2,
        Operand(target, "x", size),
        Operand(Buffer.GM, "x", size),
        bursts,
        burst_bytes,
        src_stride=4096,
    )


@pytest.mark.parametrize(
    ("bursts", "burst_bytes", "cycles"),
    [
        (1, 64, 1),  # one burst has no next one to wait for: 64 B through a path of 64 B a cycle
        (2, 64, 10),
        (64, 64, 63 * 10),
        (64, 640, 63 * 10),  # just less than the 64 * 10 cycles that the path takes
        (64, 704, 64 * 11),
    ],
)
def test_bursts_follow_each_other_after_a_least_time(bursts: int, burst_bytes: int, cycles: int) -> None:
    link = cost(read(bursts, burst_bytes), toy(dma={"burst_cycles": 10})).link
    assert link is not None
    assert link.l2_bytes / link.port_bytes_per_cycle == pytest.approx(max(cycles, bursts * burst_bytes / 64))


@pytest.mark.parametrize(
    ("nanoseconds", "megahertz", "cycles"), [(40, 680, 27.2), (25, 1000, 25), (0, 1000, 0), (40, 1, 0.04)]
)
def test_nanoseconds_in_cycles_of_a_clock(nanoseconds: float, megahertz: int, cycles: float) -> None:
    chip = toy(issue={"instruction_start_ns": nanoseconds})
    assert start_cycles(chip, megahertz) == pytest.approx(cycles, rel=1e-9)


@pytest.mark.parametrize(
    ("cycles", "start", "calls", "wanted"),
    [
        (27.0, 27.2, 100, (2720, 27)),
        (28, 27.2, 100, (2800, 28)),
        (5, 0, 3, (15, 0)),
        (0.5, 0.25, 1, (1, 1)),
        (3, 3, 2, (6, 3)),
    ],
)
def test_starts_are_hidden_behind_the_work_before(
    cycles: float, start: float, calls: int, wanted: tuple[int, int]
) -> None:
    """Back to back, instructions take the longer of the two; the shorter one is paid once, at the front."""
    assert with_start(cycles, start, calls) == wanted


@pytest.mark.parametrize("stride", [0, 48])
def test_bursts_without_a_stride_are_one_piece(stride: int) -> None:
    """4 x 48 B lie in one grain of 512 B and come with one request."""
    assert rounded_bytes(read(4, 48), stride, 512) == 512
    assert rounded_bytes(read(4, 48), stride, 64) == 192
    assert requests(read(4, 48), stride, 512) == 1
    assert requests(read(4, 48), 4096, 512) == 4
