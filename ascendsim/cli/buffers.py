"""What UB, L1 and L2 fusion did with a model: one line each, and tables of tensors, pairs and blocks with the
reasons of what was left.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ascendsim.cli.common import print_table

if TYPE_CHECKING:
    from ascendsim.compiler.model import CompiledModel
    from ascendsim.lower.l2_placement import L2Plan

MIB = 2**20


def summary(model: CompiledModel) -> Iterator[str]:
    """One line for each kind of fusion that did something; nothing at lower fusion levels."""
    scopes, buffers = model.fusion.scopes, model.buffers
    if scopes:
        yield (
            f"UB fusion: {len(scopes)} tasks of several operators, {model.fusion.saved_bytes / MIB:,.1f} "
            f"MiB less to move"
        )
    if buffers.l1.pairs:
        yield (
            f"L1 fusion: {len(buffers.l1.pairs)} pairs of convolutions joined, {len(buffers.l1.refused)} "
            f"left apart"
        )
    if buffers.blocks:
        yield f"L2 fusion: {len(buffers.blocks)} blocks run in passes of a smaller batch"
    if buffers.whole:
        yield buffers.whole
    if buffers.l2 is not None:
        plan = buffers.l2
        yield (
            f"L2 fusion: {len(plan.placed)} tensors in L2, at most {plan.peak_bytes / MIB:.1f} of "
            f"{plan.capacity / MIB:.1f} MiB, "
            f"{plan.saved_bytes / MIB:,.1f} MiB less on DDR; {len(plan.refused)} tensors had no place"
        )


def print_summary(model: CompiledModel) -> None:
    """Prints the lines of `summary`."""
    for line in summary(model):
        print(line)


def print_details(model: CompiledModel) -> None:
    """Prints what lies in L2 and what was joined or cut, with what was left and why."""
    buffers = model.buffers
    if buffers.l2 is not None:
        _print_placed(buffers.l2)
    if buffers.blocks:
        print()
        rows = [
            (
                block.nodes[0],
                block.nodes[-1],
                len(block.nodes),
                f"{block.passes} x {block.batch}",
                block.whole_us,
                block.estimated_us,
            )
            for block in buffers.blocks
        ]
        columns = ("first operator", "last operator", "operators", "passes", "whole [us]", "in passes [us]")
        print_table(columns, [(*row[:4], f"{row[4]:,.1f}", f"{row[5]:,.1f}") for row in rows])
    if buffers.l1.pairs or buffers.l1.refused:
        print()
        joined = [
            (" + ".join(pair.nodes), f"joined: {pair.apart_us:,.1f} -> {pair.pair_us:,.1f} us")
            for pair in buffers.l1.pairs
        ]
        print_table(("convolutions", "through L1"), [*joined, *buffers.l1.refused.items()])
    if buffers.l2 is None and not buffers.blocks and not buffers.l1.pairs and not buffers.l1.refused:
        print(
            "nothing was placed in L2 or joined through L1 (placing needs --fusion all and a chip whose L2 "
            "is a buffer)"
        )


def _print_placed(plan: L2Plan) -> None:
    rows = [
        (
            item.region,
            f"0x{item.offset:06x}",
            f"{item.bytes / 1024:,.1f}",
            item.first,
            item.last,
            f"{item.saved_bytes / 1024:,.1f}",
        )
        for item in plan.placed
    ]
    print_table(("tensor", "L2 address", "KiB", "first task", "last task", "DDR KiB saved"), rows)
    if plan.refused:
        print()
        print_table(("tensor", "why it stays in DDR"), list(plan.refused.items()))
