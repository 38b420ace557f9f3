"""Units that are lowered once and copied under other names give the program that lowering each by itself
gives."""

from __future__ import annotations

from pathlib import Path

import pytest

import ascendsim
from ascendsim.compiler import pipeline
from ascendsim.compiler.model import CompiledModel
from ascendsim.core.errors import AscendSimError
from ascendsim.isa.listing import listing
from ascendsim.isa.program import RenamedBlock
from ascendsim.lower import LowerOptions
from tests.support.gate import case

MODELS = Path(__file__).parent.parent / "data" / "models"
QUICK = ("lenet5", "bert_tiny_s64", "squeezenet1_1")
LONG = tuple(sorted(path.stem for path in MODELS.glob("*.onnx") if path.stem not in QUICK))
FLOWS = (("Ascend310", "all"), ("Ascend310P3", "all"), ("Ascend910B1", "all"), ("Ascend910A", "graph-kernel"))


def compiled(name: str, chip: str, fusion: str) -> CompiledModel | str:
    """A network compiled, or why it cannot be."""
    try:
        return ascendsim.compile(
            ascendsim.load(MODELS / f"{name}.onnx"), soc=chip, fusion=fusion, options={"l1_fusion": True}
        )
    except AscendSimError as error:
        return str(error)


@pytest.mark.parametrize(
    ("name", "chip", "fusion"),
    [
        case(name, *flow, quick=name in QUICK and (place + turn) % 4 in (0, 3))
        for place, name in enumerate((*QUICK, *LONG))
        for turn, flow in enumerate(FLOWS)
    ],
)
def test_programs_are_equal(name: str, chip: str, fusion: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reused = compiled(name, chip, fusion)
    monkeypatch.setattr(pipeline, "LowerOptions", lambda **given: LowerOptions(**{**given, "known": None}))
    alone = compiled(name, chip, fusion)
    if isinstance(reused, str) or isinstance(alone, str):
        assert reused == alone
        return
    assert reused.program == alone.program
    assert reused.fusion == alone.fusion
    for copied, own in zip(reused.program.tasks, alone.program.tasks, strict=True):
        for group, single in zip(copied.groups, own.groups, strict=True):
            assert not isinstance(single.block, RenamedBlock)
            assert listing(group.block) == listing(single.block)
            assert group.block == single.block
            assert hash(group.block) == hash(single.block)


def test_equal_layers_share_their_programs() -> None:
    model = compiled("bert_tiny_s64", "Ascend310", "all")
    assert isinstance(model, CompiledModel)
    groups = [group for task in model.program.tasks for group in task.groups]
    copies = [group for group in groups if isinstance(group.block, RenamedBlock)]
    assert len(copies) > len(groups) / 3
