"""Listings of small programs, to be read in a diff when tiling or emission changes."""

from __future__ import annotations

from collections.abc import Callable

from ascendsim.isa.listing import listing
from ascendsim.lower.program import Lowering
from ascendsim.opset.work import Step, Stream, VectorWork, Work
from ascendsim.soc import load
from tests.support.lowering import convolution, matmul, ref


def text(work: Work, chip: str) -> str:
    return "".join(
        f"{stage.kind.value}\n" + "".join(f"{group.count} x {listing(group.block)}" for group in stage.groups)
        for stage in Lowering(load(chip)).stages(work)
    )


def test_convolution_on_coupled_cores(golden: Callable[[str, str], None]) -> None:
    golden("lower_convolution_Ascend310.txt", text(convolution(64, 56, 64, 3, 1, 1), "Ascend310"))


def test_matmul_on_split_cores(golden: Callable[[str, str], None]) -> None:
    golden("lower_matmul_Ascend910B1.txt", text(matmul(128, 768, 3072, load("Ascend910B1")), "Ascend910B1"))


def test_softmax_in_one_pass(golden: Callable[[str, str], None]) -> None:
    steps = (Step("vcmax"), Step("vsub"), Step("vexp"), Step("vcadd"), Step("vdiv"))
    work = VectorWork(
        512, 128, steps, (Stream(ref("x", (512, 128))),), (Stream(ref("y", (512, 128))),), "cols", 3
    )
    golden("lower_softmax_Ascend910A.txt", text(work, "Ascend910A"))
