"""What L1 and L2 fusion decided, as lines of the log (plog).

One INFO line a decision, each with the graph's number, as the lines of graph fusion have it; places and
wording are of this project, no public log of CANN shows such lines:

    [INFO] FE(1,ascendsim):... [l2_fusion.cc:1]1 L2Fusion:GraphId[0], tensor[x]: in L2 at 0x010000, ...
    [INFO] FE(1,ascendsim):... [l2_fusion.cc:1]1 L2Fusion:GraphId[0], tensor[y]: in DDR, no room ...
    [INFO] FE(1,ascendsim):... [l1_fusion.cc:1]1 L1Fusion:GraphId[0], nodes[conv1 + conv2]: joined, ...
"""

from __future__ import annotations

from collections.abc import Iterator

from ascendsim.compiler.buffers import BufferReport
from ascendsim.passes.fusion.plog import LogText


def buffer_texts(report: BufferReport) -> Iterator[LogText]:
    """The lines of a compilation: pairs joined through L1 or left apart, blocks in passes of a smaller batch,
    tensors in L2 by first use, tensors that had no place.

    Args:
        report: What L1 and L2 fusion did.
    """
    for pair in report.l1.pairs:
        times = f"{pair.apart_us:.3f} -> {pair.pair_us:.3f} us"
        yield _line("L1Fusion", f"nodes[{' + '.join(pair.nodes)}]: joined, {times}")
    for nodes, reason in report.l1.refused.items():
        yield _line("L1Fusion", f"nodes[{nodes}]: apart, {reason}")
    for block in report.blocks:
        passes = f"{len(block.nodes)} nodes in {block.passes} passes of batch {block.batch}"
        yield _line("L2Fusion", f"nodes[{block.nodes[0]} .. {block.nodes[-1]}]: {passes}")
    if report.whole:
        yield _line("L2Fusion", report.whole)
    if report.l2 is None:
        return
    for item in report.l2.placed:
        where = f"in L2 at 0x{item.offset:06x}, bytes={item.bytes}, tasks={item.first}..{item.last}"
        yield _line("L2Fusion", f"tensor[{item.region}]: {where}, saved_bytes={item.saved_bytes}")
    for name, reason in report.l2.refused.items():
        yield _line("L2Fusion", f"tensor[{name}]: in DDR, {reason}")


def _line(function: str, message: str) -> LogText:
    place = {"L1Fusion": "l1_fusion.cc:1", "L2Fusion": "l2_fusion.cc:1"}[function]
    return ("INFO", "FE", place, function, f"GraphId[0], {' '.join(message.split())}")
