"""Attention of inference as a task: which cores have what, what moves, what the programs keep to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.isa.checks import check_program
from ascendsim.isa.hazards import check_hazards
from ascendsim.isa.instructions import Buffer, Mmad, Move, Vector
from ascendsim.isa.program import CoreKind, Program
from ascendsim.isa.walk import static, times
from ascendsim.soc import load
from tests.support.lowering import loops

SOC = "Ascend910B2"  # 24 cube cores
HALF = DType.FLOAT16


def _program(
    query: Any,
    key: Any,
    *,
    ends: Any = None,
    lengths: Any = None,
    pages: int = 0,
    rope: int = 0,
    small: bool = False,
    soc: str = SOC,
    width: int = 0,
    **options: Any,
) -> Program:
    b = asim.GraphBuilder()
    kind = DType.INT8 if small else HALF
    value = (*key[:-1], width) if width else key
    given: list[Any] = [b.input("q", query, HALF), b.input("k", key, kind), b.input("v", value, kind)]
    given += [None] * 23
    if options.get("sparse_mode"):
        given[4] = b.input("mask", (2048, 2048), DType.BOOL)
    for port, values in ((5, ends), (6, lengths)):
        given[port] = None if values is None else b.constant(np.array(values, np.int64))
    if pages:
        given[14] = b.input("table", (len(lengths), pages), DType.INT32)
    if small:
        given[17], given[19] = (b.input(name, (key[1] * key[-1],), HALF) for name in ("ks", "vs"))
    if rope:
        given[24], given[25] = (
            b.input("qr", (*query[:-1], rope), HALF),
            b.input("kr", (*key[:-1], rope), HALF),
        )
    if options.get("pse_type"):
        given[3] = b.constant(np.ones(query[1], np.float32), "slopes")
    made = b.ops("FusedInferAttentionScore", *given, outputs=2, domain="ascend", scale=0.1, **options)
    b.output(made[0], "y")
    return asim.compile(b.build(), soc).program


def _step(batch: int, shared: int, keys: Any, group: int = 4, size: int = 128, **more: Any) -> Program:
    """A step of decoding with a cache of its own for each sequence."""
    lengths = [keys] * batch if isinstance(keys, int) else keys
    options = {"num_heads": shared * group, "num_key_value_heads": shared, "input_layout": "BNSD"}
    shape = (batch, shared, max(lengths), size)
    return _program((batch, shared * group, 1, size), shape, lengths=lengths, **options, **more)


def _macs(program: Program) -> int:
    (task,) = program.tasks
    return sum(
        item.m * item.k * item.n * times(around) * group.count
        for group in task.groups
        for item, around in static(group.block.body)
        if isinstance(item, Mmad)
    )


def _vector(program: Program) -> int:
    """Elements that vector instructions work on."""
    return sum(
        item.elements * item.calls * times(around) * group.count
        for task in program.tasks
        for group in task.groups
        for item, around in static(group.block.body)
        if isinstance(item, Vector)
    )


def _moved(program: Program, region: str) -> int:
    accesses = [access for task in program.tasks for access in task.accesses]
    return sum(access.moved_bytes for access in accesses if access.region == region)


def _teams(program: Program) -> int:
    groups = program.tasks[0].groups
    return sum(group.count for group in groups if group.block.core is CoreKind.CUBE)


def test_a_step_reads_keys_once_whatever_heads_share_them() -> None:
    for group in (2, 4, 8):
        program = _step(16, 2, 1024, group)
        assert _moved(program, "k") == _moved(program, "v") == 16 * 2 * 1024 * 256
        assert _moved(program, "y") == 16 * 2 * group * 256


@pytest.mark.parametrize(
    ("batch", "keys", "teams"),
    [
        (1, 8192, 16),  # 24 // 1 parts would leave 341 keys each
        (4, 8192, 24),  # 6 parts each
        (13, 8192, 13),  # more than half of the cores have something
        (1, 2047, 1),  # too few keys for heads that share them
        (30, 256, 24),
    ],
)
def test_keys_are_cut_where_cores_are_idle(batch: int, keys: int, teams: int) -> None:
    assert _teams(_step(batch, 1, keys)) == teams


def test_bounds_and_slopes_cost_vector_time_and_no_traffic() -> None:
    query = (4, 8, 512, 128)
    own = {"num_heads": 8, "num_key_value_heads": 8, "input_layout": "BNSD"}
    plain, bounded, sloped = (
        _program(query, query, **own, **more) for more in ({}, {"softcap": 50.0}, {"pse_type": 2})
    )
    assert _vector(bounded) > 1.5 * _vector(plain)  # a Tanh of each score
    assert _vector(plain) < _vector(sloped) < 1.3 * _vector(plain)
    for program in (bounded, sloped):
        assert [_moved(program, name) for name in "qkvy"] == [_moved(plain, name) for name in "qkvy"]


def test_parts_of_keys_are_joined_by_all_vector_cores() -> None:
    """What parts leave, float32, goes through memory once more; the result is written once."""
    whole, parts = _step(13, 1, 8192), _step(1, 1, 8192)
    assert not [name for name in whole.memory.regions if name.endswith("/parts")]
    (name,) = [name for name in parts.memory.regions if name.endswith("/parts")]
    assert parts.memory.regions[name].bytes == 16 * 4 * 128 * 4
    assert _moved(parts, name) >= 2 * 16 * 4 * 128 * 4
    assert _moved(parts, "y") == 4 * 256


def test_ragged_lengths_count_not_the_room_for_them() -> None:
    program = _step(3, 2, [4096, 100, 16])
    keys = 2 * (4096 + 112 + 16)
    assert _macs(program) == 2 * 4 * keys * 128
    pool = {"num_heads": 8, "num_key_value_heads": 2, "input_layout": "TND", "block_size": 128}
    paged = _program((3, 8, 128), (999, 128, 256), ends=[1, 2, 3], lengths=[4096, 100, 16], pages=64, **pool)
    assert _macs(paged) == _macs(program)
    assert _moved(paged, "k") == _moved(program, "k") == keys * 256


def test_queries_of_a_window_read_its_keys_only() -> None:
    """Band of 1024 keys before a query."""
    options = {"sparse_mode": 4, "pre_tokens": 1023, "next_tokens": 0}
    assert _moved(_step(24, 1, 8192, **options), "k") == 24 * 1024 * 256


def test_bytes_move_half_and_latent_keys_without_their_rotated_part() -> None:
    assert _moved(_step(24, 1, 1024, small=True), "k") == 24 * 1024 * 128
    options = {"num_heads": 16, "num_key_value_heads": 1, "input_layout": "BNSD"}
    program = _program((24, 16, 1, 512), (24, 1, 1024, 512), lengths=[1024] * 24, rope=64, **options)
    assert _moved(program, "k") == 24 * 1024 * 1024
    assert _moved(program, "kr") == 24 * 1024 * 128
    assert _macs(program) == 16 * 24 * 1024 * (576 + 512)


def test_prompts_of_ragged_batches_take_heads_together() -> None:
    """512 rows are 128 queries of 4 heads; a block of 512 keys is done whole where the diagonal cuts it."""
    options = {"num_heads": 4, "num_key_value_heads": 1, "input_layout": "TND", "sparse_mode": 3}
    program = _program((3072, 4, 128), (3072, 1, 128), ends=[1024, 3072], lengths=[1024, 3072], **options)
    blocks = {
        length: sum(-(-(first + 128) // 512) for first in range(0, length, 128)) for length in (1024, 2048)
    }
    assert _macs(program) == 2 * 512 * 512 * 128 * sum(blocks.values())
    assert _moved(program, "mask") == sum(length // 128 * 512 * 512 for length in blocks)


def test_time_follows_the_keys_and_starts_with_a_fixed_one() -> None:
    def time(keys: int) -> float:
        options = {"num_heads": 32, "num_key_value_heads": 8, "input_layout": "BNSD"}
        b = asim.GraphBuilder()
        q, k, v = (
            b.input(name, shape, HALF)
            for name, shape in zip(
                "qkv", ((48, 32, 1, 128), (48, 8, keys, 128), (48, 8, keys, 128)), strict=True
            )
        )
        b.output(b.ops("FusedInferAttentionScore", q, k, v, outputs=2, domain="ascend", **options)[0], "y")
        return asim.simulate(asim.compile(b.build(), SOC)).duration_us

    few, many, most = time(512), time(2048), time(4096)
    assert 1.8 < (most - few) / (many - few) / (3584 / 1536) * 2 < 2.2
    assert few - (many - few) / 3 > 12


CASES: list[dict[str, Any]] = [
    {"query": (2, 1, 4 * 16), "key": (2, 50, 2 * 16), "input_layout": "BSH"},
    {"query": (2, 77, 4, 48), "key": (2, 99, 2, 48), "input_layout": "BSND", "sparse_mode": 3},
    {"query": (1, 4, 3, 192), "key": (1, 2, 5000, 192), "input_layout": "BNSD_BSND", "width": 128},
    {
        "query": (1, 4, 1, 512),
        "key": (40, 2, 128, 512),
        "input_layout": "BNSD",
        "rope": 64,
        "lengths": [4000],
        "pages": 40,
    },
    {
        "query": (9, 4, 128),
        "key": (40, 16, 256),
        "input_layout": "TND",
        "ends": [2, 9],
        "lengths": [33, 600],
        "pages": 40,
    },
    {"query": (2, 4, 1, 128), "key": (2, 2, 3000, 128), "input_layout": "BNSD", "small": True},
    {
        "query": (300, 4, 64),
        "key": (400, 2, 64),
        "input_layout": "TND",
        "ends": [0, 7, 300],
        "lengths": [0, 0, 400],
        "sparse_mode": 2,
    },
]


@pytest.mark.parametrize("case", CASES, ids=[case["input_layout"] + str(at) for at, case in enumerate(CASES)])
def test_programs_keep_to_buffers_regions_and_order(case: dict[str, Any]) -> None:
    program = _program(**case, num_heads=4, num_key_value_heads=2)
    check_program(program, load(SOC))
    for group in program.tasks[0].groups:
        check_hazards(group.block)
        assert all(loop.trips > 1 for loop in loops(group.block.body))


def test_chips_of_one_kind_of_core_decode_by_vectors() -> None:
    """Ascend310P: no product on the Cube in a step of decoding, keys pass once; prompts have products."""

    def products(program: Program) -> int:
        bodies = [static(group.block.body) for task in program.tasks for group in task.groups]
        return len([item for body in bodies for item, _ in body if isinstance(item, Mmad)])

    step = _step(4, 2, 1024, soc="Ascend310P3")
    assert not products(step)
    assert _moved(step, "k") == _moved(step, "v") == 4 * 2 * 1024 * 256
    options = {"num_heads": 8, "num_key_value_heads": 8, "input_layout": "BSND"}
    assert products(_program((1, 256, 8, 128), (1, 256, 8, 128), soc="Ascend310P3", **options)) > 1


def test_rows_of_long_heads_come_in_bursts_of_two_tiles() -> None:
    for size, burst in ((64, 128), (128, 256), (256, 512), (512, 512)):
        (task,) = _step(24, 1, 1024, size=size).tasks
        bodies = [static(group.block.body) for group in task.groups if group.block.core is CoreKind.CUBE]
        moves = [item for body in bodies for item, _ in body if isinstance(item, Move)]
        reads = {item.burst_bytes for item in moves if item.src.buffer is Buffer.GM and item.src.name == "k"}
        assert max(reads) in (burst, 128 * burst), size  # rows without gaps are one burst


def test_equal_shapes_with_other_lengths_are_other_programs() -> None:
    """Twenty sequences: more lengths than `lower` may read of ordinary constants."""
    b = asim.GraphBuilder()
    q, k, v = (
        b.input(name, (20, 4, length, 64), HALF) for name, length in (("q", 1), ("k", 2048), ("v", 2048))
    )
    options = {"num_heads": 4, "num_key_value_heads": 4, "input_layout": "BNSD"}
    for number, last in enumerate((2048, 16, 2048)):
        lengths = b.constant(np.array([*[2048] * 19, last]), f"lengths{number}")
        given = (q, k, v, None, None, None, lengths)
        b.output(
            b.ops("FusedInferAttentionScore", *given, outputs=1, domain="ascend", **options)[0], f"y{number}"
        )
    tasks = asim.compile(b.build(), SOC).program.tasks
    moved = [sum(access.moved_bytes for access in task.accesses if access.region == "k") for task in tasks]
    whole = 20 * 4 * 2048 * 128
    assert moved == [whole, whole - 4 * 2032 * 128, whole]
