"""Instructions of recorded streams: their values against loops over elements, their time on the machine."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendsim.core.errors import KernelError
from ascendsim.isa.instructions import Pipe
from ascendsim.isa.program import Access, BlockGroup, CoreKind, MemoryPlan, Program, Task, TaskKind
from ascendsim.machine import run
from ascendsim.soc import load
from ascendsim.triton.hints import one_by_one
from ascendsim.triton.meaning import Unit
from ascendsim.triton.streams import Streams

UB, GM, L1, L0C = 6 << 44, 1 << 44, 2 << 44, 5 << 44
FULL = (1 << 64) - 1


class Memory:
    def __init__(self) -> None:
        self.bytes = {space: np.zeros(1 << 18, np.uint8) for space in range(1, 7)}

    def view(self, space, dtype):
        return self.bytes[space].view(dtype)


@pytest.fixture
def memory():
    return Memory()


def packed(*fields):
    """A word of (value, first bit) pairs."""
    return sum(value << bit for value, bit in fields)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, FULL),
    st.integers(1, 4),
    st.tuples(*[st.sampled_from([1, 2])] * 3),
    st.tuples(*[st.sampled_from([0, 8, 16])] * 3),
)
def test_lanes_strides_and_repeats(mask, repeats, blocks, steps):
    memory = Memory()
    rng = np.random.default_rng(1)
    floats = memory.view(6, np.float32)
    floats[:] = rng.standard_normal(len(floats))
    wanted = floats.copy()
    word = packed(
        *zip(blocks, (0, 8, 16), strict=True), *zip(steps, (24, 32, 40), strict=True), (repeats, 56)
    )
    starts = [0x8000, 0, 0x4000]
    for repeat in range(repeats):
        for lane in range(64):
            if mask >> lane & 1:
                at = [
                    (start + (repeat * step + lane // 8 * block) * 32) // 4 + lane % 8
                    for start, block, step in zip(starts, blocks, steps, strict=True)
                ]
                wanted[at[0]] = wanted[at[1]] * wanted[at[2]]
    unit = Unit(memory)
    unit.execute("MOVEMASK", (0, mask))
    unit.execute("VMUL.f32", (*[UB + start for start in starts], word))
    np.testing.assert_array_equal(floats, wanted)


def test_repeats_that_build_on_one_another_go_in_order(memory):
    """A maximum folds onto its own first repeat: target stride 0."""
    floats = memory.view(6, np.float32)
    values = np.random.default_rng(2).standard_normal(512).astype(np.float32)
    floats[:512] = values
    floats[4096:4160] = -np.inf
    word = packed((1, 0), (1, 8), (1, 16), (0, 24), (8, 32), (0, 40), (8, 56))
    Unit(memory).execute("VMAX.f32", (UB + 4096 * 4, UB, UB + 4096 * 4, word))
    np.testing.assert_array_equal(floats[4096:4160], values.reshape(8, 64).max(0))


def test_in_count_mode_the_mask_is_a_number(memory):
    floats = memory.view(6, np.float32)
    floats[:300] = 1
    unit = Unit(memory)
    unit.execute("SET.CTRL", (1 << 56,))
    unit.execute("MOVEMASK", (0, 201))
    unit.execute("VADDS.f32", (UB + 4096, UB, 0x40000000, packed((1, 0), (1, 16), (8, 32), (8, 40), (1, 56))))
    assert floats[1024:1324].tolist() == [3.0] * 201 + [0.0] * 99


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32])
def test_moves_that_transpose(memory, dtype):
    """Sixteen rows at a time, as the library sets the address registers up; repeats go along the rows."""
    size, rows, columns = np.dtype(dtype).itemsize, 16, 64
    values = np.random.default_rng(7).integers(0, 1 << 15, (rows, columns)).astype(dtype)
    memory.view(6, dtype)[: rows * columns] = values.reshape(-1)
    per, line = 32 // size, rows * size  # elements of a block, bytes of a row of the result
    sources = [UB + row * columns * size for row in range(rows)]
    pieces = line // 32  # blocks of a row of the result
    targets = [UB + 0x8000 + at // pieces * line + at % pieces * 32 for at in range(16)]
    stream = [
        ("MOVEVA", (register + at // 8, at % 8, listed[at], listed[at + 1]))
        for register, listed in ((0, targets), (2, sources))
        for at in range(0, 16, 2)
    ]
    word = packed((per * line // 32, 0), (1, 16), (columns // per, 56))
    stream.append((f"S.VNCHWCONV.b{size * 8}", (0, 2, word)))
    unit = Unit(memory)
    for name, words in stream:
        unit.execute(name, words)
    found = memory.bytes[6][0x8000 : 0x8000 + values.nbytes].view(dtype).reshape(columns, rows)
    np.testing.assert_array_equal(found, values.T)
    *_, last = Streams(load("Ascend910B1"), []).block(stream, CoreKind.VECTOR).body
    assert (last.op, last.elements) == ("vnchwconv", values.size)


def test_halves_of_bytes_are_transposed(memory):
    values = np.arange(16 * 32, dtype=np.uint8).reshape(16, 32)
    memory.bytes[6][:512] = values.reshape(-1)
    unit = Unit(memory)
    for register, start in ((0, 0x4000), (2, 0)):
        for at in range(0, 16, 2):
            pair = [UB + start + (at + one) * 32 for one in (0, 1)]
            unit.execute("MOVEVA", (register + at // 8, at % 8, *pair))
    unit.execute("S.VNCHWCONV.b8", (0, 2, packed((1, 56)), 1, 0))
    found = memory.bytes[6][0x4000 : 0x4000 + 512].reshape(16, 32)
    np.testing.assert_array_equal(found[:, 16:], values[:, :16].T)
    assert not found[:, :16].any()


@pytest.mark.parametrize(("op", "function"), [("VCMAX", np.argmax), ("VCMIN", np.argmin)])
def test_the_register_of_extremes_knows_value_and_lane(memory, op, function):
    values = np.random.default_rng(6).standard_normal(100).astype(np.float32)
    memory.view(6, np.float32)[:100] = values
    unit = Unit(memory)
    unit.execute("SET.CTRL", (1 << 56,))
    unit.execute("MOVEMASK", (0, 100))
    unit.execute(f"{op}.f32.order.v220", (UB + 4096, UB, packed((1, 0), (1, 16), (8, 32), (1, 56)), 0))
    place = int(function(values))
    assert unit.registers.extreme == int(values[place : place + 1].view(np.uint32)[0]) | place << 32


@pytest.mark.parametrize("count", [40, 128])
def test_a_row_is_copied_to_many(memory, count):
    """In count mode a copy takes as many elements for each of its repeats, more than 256 bytes too."""
    words = memory.view(6, np.uint32)
    words[:128] = np.arange(1, 129)
    unit = Unit(memory)
    rows = [
        ("SET.CTRL", (1 << 56,)),
        ("MOVEMASK", (0, count)),
        ("VCOPY.u32", (UB + 4096, UB, packed((1, 0), (1, 16), (16, 32), (5, 56)))),
    ]
    for one in rows:
        unit.execute(*one)
    found = words[1024 : 1024 + 5 * 128].reshape(5, 128)
    assert (found[:, :count] == words[:count]).all()
    assert not found[:, count:].any()
    *_, copied = Streams(load("Ascend910B1"), []).block(rows, CoreKind.VECTOR).body
    assert copied.elements == 5 * -(-count // 64) * 64


def test_sums_and_extremes_of_repeats(memory):
    floats = memory.view(6, np.float32)
    values = np.random.default_rng(3).integers(-9, 9, 128).astype(np.float32)
    floats[:128] = values
    word = packed((1, 0), (1, 16), (8, 32), (2, 56))
    unit = Unit(memory)
    unit.execute("VCADD.f32.order", (UB + 4096, UB, word, 0))
    unit.execute("VCMAX.f32.order.v220", (UB + 8192, UB, word, 2))
    unit.execute("VCMIN.f32.order.v220", (UB + 12288, UB, word, 0))
    rows = values.reshape(2, 64)
    assert floats[1024:1026].tolist() == rows.sum(1).tolist()
    assert floats[2048:2050].tolist() == rows.max(1).tolist()
    assert floats[3072:3076:2].tolist() == rows.min(1).tolist()
    assert memory.view(6, np.uint32)[3073:3076:2].tolist() == rows.argmin(1).tolist()


def test_a_comparison_chooses(memory):
    floats = memory.view(6, np.float32)
    values = np.random.default_rng(4).standard_normal(64).astype(np.float32)
    floats[:64], floats[64] = values, -7.0
    unit = Unit(memory)
    unit.execute("VCMPVS.GT.f32", (UB + 4096, UB, 0, packed((1, 0), (1, 16), (8, 32), (8, 40), (1, 56))))
    unit.execute("SET.CMPMASK", (UB + 256,))
    word = packed((1, 0), (1, 8), (1, 16), (8, 24), (8, 32), (8, 40), (1, 48), (1, 56))
    unit.execute("VSEL.f32.1", (UB + 8192, UB, UB + 4096, word))
    np.testing.assert_array_equal(floats[2048:2112], np.where(values > 0, values, np.float32(-7)))


@pytest.mark.parametrize(
    ("letter", "function"), [("r", np.rint), ("f", np.floor), ("c", np.ceil), ("z", np.trunc)]
)
def test_conversions_round_as_their_letter_says(memory, letter, function):
    values = np.array([0.5, 1.5, -0.5, -1.5, 2.5, 3e9, -3e9, 7.49], np.float32)
    memory.view(6, np.float32)[:8] = values
    unit = Unit(memory)
    unit.execute("MOVEMASK", (0, 0xFF))
    word = packed((1, 0), (1, 16), (8, 32), (8, 40), (1, 56))
    unit.execute(f"VCONV.f322s32{letter}.v220", (UB + 4096, UB, word))
    limits = np.iinfo(np.int32)
    wanted = np.clip(function(values.astype(np.float64)), limits.min, limits.max).astype(np.int32)
    np.testing.assert_array_equal(memory.view(6, np.int32)[1024:1032], wanted)


def test_bursts_are_padded(memory):
    source = memory.view(1, np.uint16)
    source[:100] = np.arange(1, 101)
    unit = Unit(memory)
    unit.execute("SET.MOV.PAD.VAL", (0xAAAA,))
    bursts = packed((3, 4), (20, 16), (0, 48), (6, 54))  # three of ten elements, six of padding each
    unit.execute("MOV.OUT.TO.UB.ALIGN.b16.V220", (UB, GM, bursts, packed((40, 0), (1, 32))))
    rows = memory.view(6, np.uint16)[: 3 * 32].reshape(3, 32)
    for at, row in enumerate(rows):
        assert row[:16].tolist() == [*range(1 + 30 * at, 11 + 30 * at), *[0xAAAA] * 6]
    back = packed((3, 4), (20, 16))
    unit.execute("MOV.UB.TO.OUT.ALIGN.b16.V220", (GM + 4096, UB, back, packed((1, 0), (2, 32))))
    out = memory.view(1, np.uint16)[2048:2081]
    assert out[:10].tolist() == list(range(1, 11))
    assert out[11:21].tolist() == list(range(31, 41))


@pytest.mark.parametrize(("bits", "function"), [(0, np.add), (1, np.maximum), (2, np.minimum)])
def test_stores_add_to_what_is_there(memory, bits, function):
    there, arrives = np.array([1, -5, 7, 2], np.int32), np.array([2, 3, -9, 2], np.int32)
    memory.view(1, np.int32)[:4], memory.view(6, np.int32)[:4] = there, arrives
    word = packed((1, 4), (16, 16))
    rows = [("SET.CTRL", (4 << 6 | bits << 9,)), ("MOV.UB.TO.OUT.ALIGN.b32.V220", (GM, UB, word, 0))]
    unit = Unit(memory)
    for name, words in rows:
        unit.execute(name, words)
    assert memory.view(1, np.int32)[:4].tolist() == function(there, arrives).tolist()
    block = Streams(load("Ascend910B1"), [("x", 0, 16)]).block(rows, CoreKind.VECTOR)
    assert [one.atomic for one in block.body if one.pipe is Pipe.MTE3] == [function.__name__[:3]]
    unit.execute("SET.CTRL", (bits << 9,))  # no type: what arrives replaces
    unit.execute(*rows[1])
    assert memory.view(1, np.int32)[:4].tolist() == arrives.tolist()


def product(memory, m, k, n):
    """The instructions of one product of float16 matrices in global memory."""
    rng = np.random.default_rng(5)
    a, b = rng.integers(-4, 5, (m, k)).astype(np.float16), rng.integers(-4, 5, (k, n)).astype(np.float16)
    memory.view(1, np.float16)[: m * k] = a.reshape(-1)
    memory.view(1, np.float16)[32768 : 32768 + k * n] = b.reshape(-1)
    rows = [
        (dst, src, packed((1, 4), (h, 16), (w, 32)), packed((w, 0), (h, 16), (1, 32)))
        for dst, src, h, w in ((L1, GM, m, k), (L1 + 65536, GM + 65536, k, n))
    ]
    plain = packed((1, 0), (1, 6), (1, 12), (1, 20))
    return (a, b), [
        *[("MOV.OUT.TO.L1.MULTI.ND2NZ.f16", row) for row in rows],
        ("SET.FMATRIX", (packed((m, 0), (1, 16)),)),
        ("LOAD.L1.TO.L0A.3DV2.f16", (0, L1, packed((k, 0), (m, 16)), plain)),
        ("SET.FMATRIX.B", (packed((k, 0), (1, 16)),)),
        (
            "LOAD.L1.TO.L0B.3DV2.f16",
            (0, L1 + 65536, packed((n, 0), (k, 16)), plain | packed((1, 46), (1, 47))),
        ),
        ("MAD.f162f32", (L0C, 0, 0, packed((m, 0), (k, 12), (n, 24), (1, 63)))),
        ("MAD.f162f32", (L0C, 0, 0, packed((m, 0), (k, 12), (n, 24)))),
        (
            "FIX.L0C.TO.OUT.f2h",
            (GM + 131072, L0C, packed((n, 4), (m, 16), (n, 32)), packed((m, 0), (1, 34), (1, 43))),
        ),
    ]


@pytest.mark.parametrize(("m", "k", "n"), [(16, 16, 16), (32, 64, 48), (128, 32, 64)])
def test_a_product_by_fractals(memory, m, k, n):
    (a, b), rows = product(memory, m, k, n)
    unit = Unit(memory)
    for name, words in rows:
        unit.execute(name, words)
    found = memory.view(1, np.float16)[65536 : 65536 + m * n].reshape(m, n)
    wanted = 2 * (a.astype(np.float32) @ b.astype(np.float32))
    np.testing.assert_array_equal(found, wanted.astype(np.float16))


def test_a_stream_becomes_a_block_that_the_machine_times(memory):
    _, rows = product(memory, 128, 64, 64)
    chip = load("Ascend910B1")
    regions = [("a", 0, 65536), ("b", 65536, 131072), ("c", 131072, 1 << 18)]
    flags = [("SET.FLAG.IMM", (2, 10, 0)), ("WAIT.FLAG.IMM", (2, 10, 0))]
    making = Streams(chip, regions)
    block = making.block([*rows[:-1], *flags, rows[-1]], CoreKind.CUBE)
    assert making.moved == {("a", False): 16384, ("b", False): 8192, ("c", True): 16384}
    pipes = [one.pipe for one in block.body if one.pipe is not Pipe.S]
    assert [pipe.value for pipe in pipes] == ["MTE2"] * 2 + ["MTE1"] * 2 + ["M"] * 3 + ["FIX"] * 2
    accesses = tuple(Access(name, size, size, write) for (name, write), size in making.moved.items())
    task = Task(0, "k", TaskKind.AI_CORE, groups=(BlockGroup(block, 4),), accesses=accesses)
    sizes = {name: end - start for name, start, end in regions}
    assert run(Program((task,), MemoryPlan.in_a_row(sizes)), chip).cycles > 128 // 16 * 64 // 16 * 64 // 16


def test_numbers_that_go_one_by_one_are_told_with_what_they_cost():
    chip = load("Ascend910B1")

    def program(number):
        rows = [("MOVEV.f32", (UB, 0, packed((1, 0), (8, 32), (1, 56)))), ("s.alu", ())]
        rows += [(name, (UB + at % 64 * 4,)) for at in range(number // 2) for name in ("s.ld", "s.st")]
        block = Streams(chip, []).block(rows, CoreKind.VECTOR)
        task = Task(0, "k", TaskKind.AI_VECTOR_CORE, groups=(BlockGroup(block, 2),))
        return Program((task,), MemoryPlan.in_a_row({}))

    assert one_by_one(program(200), chip) is None
    found = one_by_one(program(1000), chip)
    assert "moves 1,000 numbers one by one by the scalar unit" in str(found)
    assert found.cycles == run(program(1000), chip).cycles - run(program(0), chip).cycles
    assert not found.error


@pytest.mark.parametrize("name", ["VRIDDLE.f32", "VMRGSORT.f32.V220", "LOAD.L1.TO.L0A.2D.TRANSPOSE.s8"])
def test_an_instruction_that_is_not_known_is_named(memory, name):
    with pytest.raises(KernelError, match=f"instruction {name} of the compiled kernel cannot be run yet"):
        Unit(memory).execute(name, (0, 0, 0, 0))
    with pytest.raises(KernelError, match=f"instruction {name}"):
        Streams(load("Ascend910B1"), []).block([(name, (0, 0, 0, 0))], CoreKind.VECTOR)
