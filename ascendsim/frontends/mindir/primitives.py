"""MindSpore's primitives in ONNX's operators: the one table of what is known."""

from __future__ import annotations

from collections.abc import Mapping

from ascendsim.frontends.mindir.layers import LAYERS
from ascendsim.frontends.mindir.movement import MOVEMENT
from ascendsim.frontends.mindir.pointwise import POINTWISE
from ascendsim.frontends.mindir.writer import WriteCall

PRIMITIVES: Mapping[str, WriteCall] = {**POINTWISE, **LAYERS, **MOVEMENT}
