"""Kinds of tasks, for colours and groups in reports.

A kind says what an operator is for, and the operator says it (`opset.facts.Kind`); where its time goes is
another question (`metrics`), answered from the trace alone.
"""

from __future__ import annotations

from ascendsim.isa.program import TaskKind
from ascendsim.opset.facts import Kind
from ascendsim.profiling.view import TaskView

AI_CPU = "AI CPU"
COMMUNICATION = "Communication"
DVPP, CTRL_CPU = "DVPP", "Ctrl CPU"
KINDS = (
    *[kind.value for kind in Kind],
    AI_CPU,
    COMMUNICATION,
    DVPP,
    CTRL_CPU,
)  # the order of legends and stacks


def kind_of(view: TaskView) -> str:
    """The kind of a task, one of `KINDS`.

    A task of the AI CPU is "AI CPU" whatever it computes, a collective "Communication"; DVPP and the Ctrl
    CPU are kinds of their own. A task that used the Cube is a convolution if one of its nodes is one,
    else a matrix product. The rest goes by the operator of its first node; "Other" are tasks without
    a node.
    """
    if view.is_communication:
        return COMMUNICATION
    if view.on_ai_cpu:
        return AI_CPU
    if view.for_images:
        return DVPP if view.task.kind is TaskKind.DVPP else CTRL_CPU
    if view.busy("M"):
        kind = Kind.CONVOLUTION if Kind.CONVOLUTION in view.kinds else Kind.MATMUL
    else:
        kind = view.kinds[0] if view.kinds else Kind.OTHER
    return str(kind.value)
