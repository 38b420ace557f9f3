"""Chips: what the machine model knows about each, with the source of every figure."""

from __future__ import annotations

from ascendsim.soc.boards import Board, boards
from ascendsim.soc.building import ONE_CLOCK, checked_override
from ascendsim.soc.chip_file import chip_file
from ascendsim.soc.loading import ALIASES, load, name_warning, names, require_runnable
from ascendsim.soc.spec import (
    AiCpuSpec,
    BufferSpec,
    CtrlCpuSpec,
    CubeSpec,
    DmaSpec,
    DramSpec,
    DvppSpec,
    IssueSpec,
    KernelSpec,
    L2Spec,
    LaunchSpec,
    PortSpec,
    SocSpec,
    VectorSpec,
)
from ascendsim.soc.table import SpecRow, figures_by_key, spec_table

__all__ = [
    "ALIASES",
    "ONE_CLOCK",
    "AiCpuSpec",
    "Board",
    "BufferSpec",
    "CtrlCpuSpec",
    "CubeSpec",
    "DmaSpec",
    "DramSpec",
    "DvppSpec",
    "IssueSpec",
    "KernelSpec",
    "L2Spec",
    "LaunchSpec",
    "PortSpec",
    "SocSpec",
    "SpecRow",
    "VectorSpec",
    "boards",
    "checked_override",
    "chip_file",
    "figures_by_key",
    "load",
    "name_warning",
    "names",
    "require_runnable",
    "spec_table",
]
