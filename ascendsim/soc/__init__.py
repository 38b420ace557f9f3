"""Chips: what the machine model knows about each, with the source of every figure."""

from __future__ import annotations

from ascendsim.soc.loading import ALIASES, load, names, require_runnable
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
from ascendsim.soc.table import SpecRow, spec_table

__all__ = [
    "ALIASES",
    "AiCpuSpec",
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
    "load",
    "names",
    "require_runnable",
    "spec_table",
]
