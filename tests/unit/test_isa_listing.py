"""The text form of programs."""

from __future__ import annotations

from collections.abc import Callable

from ascendsim.isa.instructions import (
    Affine,
    Allocation,
    Buffer,
    Img2Col,
    Loop,
    Mmad,
    Move,
    Operand,
    Pipe,
    Scalar,
    Vector,
)
from ascendsim.isa.listing import instruction_name, listing, operand_text, task_listing
from ascendsim.isa.program import Block, CoreKind, Task, TaskKind
from tests.support.toy_programs import gm, matmul_block, task_of


def test_a_double_buffered_matmul(golden: Callable[[str, str], None]) -> None:
    golden("listing_matmul.txt", listing(matmul_block(2, 3)))


def test_every_instruction_has_a_line(golden: Callable[[str, str], None]) -> None:
    a = Operand(Buffer.L0A, "a", 512, slot=Affine(1))
    x = Operand(Buffer.UB, "x", 512, Affine(64, (("i", 32),)), Affine(1, (("i", 1), ("j", 3))))
    c = Operand(Buffer.L0C, "c", 1024)
    body = (
        Scalar(12, "addresses"),
        Loop(
            "i",
            3,
            (
                Loop(
                    "j",
                    2,
                    (
                        Move(
                            Pipe.MTE2,
                            x,
                            gm("t", 512, Affine(0, (("j", 512),))),
                            2,
                            256,
                            src_stride=1024,
                            aligned=False,
                        ),
                        Vector("vadd", "float16", 100, x, (x, x), calls=4, bank_conflict=True),
                        Img2Col(a, Operand(Buffer.L1, "f", 2048), 512, 2, 3),
                        Mmad(c, a, Operand(Buffer.L0B, "b", 512), 16, 16, 16, fresh_at=("i", "j")),
                        Mmad(c, a, Operand(Buffer.L0B, "b", 512), 16, 32, 16, "int8", False),
                    ),
                ),
            ),
        ),
    )
    block = Block(
        body,
        (Allocation("x", Buffer.UB, 0, 1024, 2), Allocation("a", Buffer.L0A, 0, 512, 2)),
        (),
        CoreKind.AI,
    )
    golden("listing_instructions.txt", listing(block))


def test_slots_are_shown_modulo_their_number() -> None:
    assert operand_text(Operand(Buffer.L1, "a", 1, slot=Affine(0, (("i", 1),))), 2) == "L1.a[slot i%2]"
    assert operand_text(Operand(Buffer.L1, "a", 1, slot=Affine(1, (("i", 1),))), 2) == "L1.a[slot (1 + i)%2]"
    assert operand_text(Operand(Buffer.L1, "a", 1, slot=Affine(1)), 2) == "L1.a[slot 1]"
    assert operand_text(Operand(Buffer.L1, "a", 1), 1) == "L1.a"
    assert operand_text(gm("x", 1, Affine(0, (("i", 32),))), 1) == "GM.x+32*i"


def test_tasks_name_their_blocks() -> None:
    text = task_listing(task_of((matmul_block(1, 1), 3), id=5, waits_for=(1, 2)))
    assert text.startswith("task 5 t5 AI_CORE stream 0 blocks 3 after 1, 2\n3 x block on AI core\n")
    assert (
        task_listing(Task(1, "nms", TaskKind.AI_CPU, cpu_us=12.5))
        == "task 1 nms AI_CPU stream 0 blocks 1 cpu 12.5 us\n"
    )


def test_short_names() -> None:
    assert instruction_name(Scalar(3)) == "scalar"
    assert instruction_name(Vector("vadd", "float16", 128, gm("x", 1), (), calls=2)) == "vadd 128 float16 x2"
