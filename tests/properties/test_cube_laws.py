"""What the program of Cube work does, whatever its tiling: each product once, each result stored once, each
operand where it is needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ascendsim.core.formats import align, ceil_div
from ascendsim.isa.checks import check_block
from ascendsim.isa.instructions import Buffer, Img2Col, Instruction, Mmad, Move, Vector
from ascendsim.isa.walk import in_order
from ascendsim.lower.templates.bias import BROADCAST, has_table
from ascendsim.opset.work import ConvGeometry
from tests.support.coverage import length, on_chip, transfers, union
from tests.support.flags import few_trips, has_race
from tests.support.lowering import loops
from tests.support.random_cubes import CubeProgram, cube_programs, strip_programs

RESULTS = ("c", "side", "total")


def programs() -> Iterator[CubeProgram]:
    """In both forms: whole rows, and strips of columns."""
    yield from cube_programs()
    yield from strip_programs()


def moved(made: CubeProgram, region: str) -> tuple[int, int]:
    """Bytes of a region that move, and different ones."""
    spans = transfers(made.block, region, region in RESULTS)
    assert not len(transfers(made.block, region, region not in RESULTS))
    return int((spans[:, 1] - spans[:, 0]).sum()), length(union(spans))


def test_programs_are_sound() -> None:
    for made in programs():
        check_block(made.block, made.soc)
        assert all(loop.trips > 1 for loop in loops(made.block.body))
        assert not has_race(replace(made.block, body=few_trips(made.block.body))), made


def test_every_byte_of_a_result_is_stored_once() -> None:
    for made in programs():
        for region in made.sizes.keys() & set(RESULTS):
            assert moved(made, region) == (made.sizes[region],) * 2, f"{region} of {made}"


def test_every_operand_is_read_as_often_as_its_loops_come_back() -> None:
    """A held operand comes once, another one with every panel of the held one, or with every tile; row-major
    ones with their padding."""
    for made in cube_programs():
        work, tiling, product = made.work, made.tiling, made.product
        panels, rows = ceil_div(work.n, tiling.tile_n), ceil_div(product.m, tiling.tile_m) * product.images
        times = {"a": (1 if tiling.hold == "a" else panels), "b": (1 if tiling.hold == "b" else rows)}
        for region in made.sizes.keys() - set(RESULTS):
            total, different = moved(made, region)
            turns = times.get(region, 1) * (work.batch if region == "a" and work.a_shared else 1)
            if region == "a" and work.conv is not None:
                needed = bytes_of_maps(work.conv) * work.batch
                assert needed * turns <= total <= 6 * needed * turns, f"{region} of {made}"
                assert different >= 0.25 * needed, f"{region} of {made}"
            elif region in ("a", "b") and made.soc.split_cores and work.conv is None:
                assert different >= 0.75 * made.sizes[region], f"{region} of {made}"
                assert total >= turns * made.sizes[region], f"{region} of {made}"
            else:
                assert different == made.sizes[region], f"{region} of {made}"
                assert total == turns * made.sizes[region] or region == "e_row", f"{region} of {made}"


def bytes_of_maps(conv: ConvGeometry) -> int:
    """Bytes of the input rows that any output needs."""
    taps = [tap * conv.dilation_h - conv.pads[0] for tap in range(conv.kernel_h)]
    rows = {out * conv.stride_h + tap for out in range(conv.out_h) for tap in taps}
    return (
        len([row for row in rows if 0 <= row < conv.height])
        * conv.width
        * 32
        * ceil_div(conv.channels, 16)
        * conv.batch
    )


def steps(made: CubeProgram) -> Iterator[tuple[Instruction, bool]]:
    """All that runs, in order; with it whether an mmad starts anew."""
    for item, variables in in_order(made.block.body):
        yield (
            item,
            isinstance(item, Mmad)
            and (
                not item.accumulate or (bool(item.fresh_at) and not any(variables[v] for v in item.fresh_at))
            ),
        )


def test_every_tile_sums_all_of_k_once_before_it_leaves() -> None:
    for made in programs():
        product, preloads = made.product, made.work.bias is not None and not has_table(made.soc)
        depth, tiles, area, biases = 0, 0, 0, 0
        sizes: set[tuple[int, int]] = set()
        for item, fresh in steps(made):
            if isinstance(item, Vector) and item.op == BROADCAST:
                biases += 1
            if isinstance(item, Mmad):
                assert fresh == (not preloads and depth == 0), made
                assert item.bias is not None or made.work.bias is None or not fresh, made
                assert item.bias is None or has_table(made.soc), made
                depth += item.k
                sizes.add((item.m, item.n))
            elif depth and leaves(item):
                assert depth == product.k_blocks * 16, made
                ((m, n),) = sizes
                depth, tiles, area = 0, tiles + 1, area + m * n
                sizes.clear()
        assert depth == 0
        assert area == product.batch * product.images * product.m * product.n, made
        assert tiles <= biases <= 2 * tiles or not preloads, made


def leaves(item: Instruction) -> bool:
    """Whether an instruction takes a piece of a result out of L0C."""
    return (isinstance(item, Move) and item.kind == "fixpipe") or (
        isinstance(item, Vector) and item.op == "l0c_to_ub"
    )


def test_the_cube_gets_what_it_multiplies_and_what_leaves_is_what_it_made() -> None:
    """Bytes: operands of an mmad are its blocks, and were brought for it; L0C holds its result, and all of it
    leaves."""
    for made in programs():
        brought, result, useful, left = dict.fromkeys((Buffer.L0A, Buffer.L0B), 0), 0, 0, 0
        for item, _ in steps(made):
            if isinstance(item, Move | Img2Col) and item.dst.buffer in brought:
                assert item.bytes == item.dst.bytes, made
                brought[item.dst.buffer] += item.bytes
            elif isinstance(item, Mmad):
                assert item.a.bytes == brought[Buffer.L0A] == align(item.m, 16) * item.k * 2, made
                assert item.b.bytes == brought[Buffer.L0B] == align(item.n, 16) * item.k * 2, made
                brought = dict.fromkeys(brought, 0)
                assert not left, made
                result = item.dst.bytes
                useful = item.m * align(item.n, 16) * 4  # which leaves in parts if the rows lie apart
                assert result == align(item.m, 16) * align(item.n, 16) * 4, made
            elif leaves(item):
                (source,) = (
                    [item.src] if isinstance(item, Move) else item.srcs if isinstance(item, Vector) else []
                )
                left += source.bytes
                left = 0 if left in (result, useful) else left
        assert not left, made


def test_the_epilogue_sees_every_element_that_leaves() -> None:
    for made in programs():
        elements = dict.fromkeys(("l0c_to_ub", "vrelu", "vmul", "vexp"), 0)
        for item, _ in steps(made):
            if isinstance(item, Vector) and item.op in elements:
                elements[item.op] += item.elements * item.calls
                width = 4 if item.dtype in ("float32", "int32") else 2
                assert item.dst.bytes >= item.elements * min(width, 2), made
        for op in ("vrelu", "vmul"):
            count = sum(step.op == op for step in made.work.epilogue)
            if not made.soc.split_cores and op in made.soc.vector.intrinsics:
                assert elements[op] == count * elements["l0c_to_ub"], made


def test_all_that_comes_into_l1_and_l0_is_used_and_nothing_else() -> None:
    """Rows of a matrix that is not stored in blocks are padded on the way in: more is used than has come."""
    for made in programs():
        for buffer in (Buffer.L1, Buffer.L0A, Buffer.L0B):
            for name, (used, brought) in on_chip(made.block, buffer).items():
                if made.soc.split_cores and made.work.conv is None:
                    assert union(np.array(used + brought)) == used, f"{name} of {made}"
                else:
                    assert used == brought, f"{name} of {made}"
