"""What CANN's graph engine has as passes (`data/ge_passes.csv`), and which of them are built here."""

from __future__ import annotations

import csv
import inspect
import sys
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from ascendsim.opset import OpSet
from ascendsim.passes.engine.stages import all_stages


@dataclass(frozen=True, slots=True)
class GePass:
    """One row of GE's order of work.

    Attributes:
        order: Position in GE.
        stage: GE's stage, with its number.
        name: Of the pass.
        semantics: One sentence; empty where the name says it.
        source: File and line in GE.
    """

    order: int
    stage: str
    name: str
    semantics: str
    source: str


@dataclass(frozen=True, slots=True)
class BuiltPass:
    """A pass of the graph engine that is built here.

    Attributes:
        name: GE's name, or a name of its own.
        stages: Stages in which it runs, in order.
        summary: One line.
        description: What its module says about it (several kindred passes may share one).
    """

    name: str
    stages: tuple[str, ...]
    summary: str
    description: str


@cache
def ge_passes() -> tuple[GePass, ...]:
    """GE's passes in its order of work."""
    text = files("ascendsim.passes.engine").joinpath("data", "ge_passes.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return tuple(
        GePass(int(row["order"]), row["stage"], row["pass"], row["semantics"], row["source"]) for row in rows
    )


SUMMARIES: dict[str, str] = {
    "CondRemovePass": (
        "dead-edge elimination: If and Case with a constant condition become a call of the "
        "branch that is taken"
    ),
    "SwitchDeadBranchElimination": "what the dead side of a Switch with a constant condition feeds goes",
    "MergePass": "a Merge that has one input left hands it on",
    "InferShapePass": "types and shapes of outputs from what is known of inputs",
    "ReplaceWithEmptyConstPass": "nodes whose outputs have no elements become empty constants",
    "DimensionComputePass": "Shape and Size fold as soon as the shape of their input is known",
    "ConstantFoldingPass": "nodes whose inputs are all constant become their values",
    "InferValueRangePass": (
        "elements of shape vectors are followed though others are open; where all are known the node folds"
    ),
    "ConvertPotentialConstantToOfficialPass": "values that the traversal found become constants of the graph",
    "InlinePartitionedCallPass": "the body of a PartitionedCall takes the place of the call",
    "NoUseReshapeRemovePass": "Reshape, Flatten, Squeeze, Unsqueeze to the same shape go",
    "DropOutPass": "Dropout outside training goes",
    "UnchangedTransposeRemovePass": "Transpose that keeps the order of dimensions goes",
    "PrintOpPass": "Print goes",
    "StopGradientPass": "StopGradient goes",
    "PreventGradientPass": "PreventGradient goes",
    "PlaceholderWithDefaultPass": "PlaceholderWithDefault goes",
    "SnapshotPass": "Snapshot goes",
    "GuaranteeConstPass": "GuaranteeConst goes",
    "IdentityPass": "Identity goes",
    "PrunePass": "what the outputs do not need goes; inputs of the model stay",
    "UnusedConstPass": "constants that nobody reads go",
    "TransOpWithoutReshapeFusionPass": "chains of Transpose or Cast become one",
    "ConstantFuseSamePass": "equal single elements and small integer vectors become one constant",
    "CommonSubexpressionEliminationPass": "nodes that compute the same from the same are merged",
    "AddNPass": "Sum of one input goes",
    "CastRemovePass": "Cast to the type that its input has goes",
    "NoUseMovementRemovePass": "Expand, Tile, Slice, Pad, Concat, Split that change nothing go",
    "IdentityArithmeticPass": "x * 1, x / 1, x - 0 and the like become x, where every bit stays",
    "ReshapeRemovePass": "Reshapes behind each other become one or none",
    "TransOpSymmetryEliminationPass": "pairs of Transpose or Cast that undo each other go",
    "DimensionAdjustPass": "Squeeze and Unsqueeze behind another reshape join it",
    "Dim1TransposeToSqueezePass": "Transpose that moves only dimensions of 1 becomes Reshape, which is free",
    "RemoveSameConstPass": "constants of equal bytes become one, found level by level",
}


def built_passes(opset: OpSet) -> tuple[BuiltPass, ...]:
    """The passes that are built here, in the order in which they first run."""
    stages: dict[str, list[str]] = {}
    modules: dict[str, str] = {}
    for stage in all_stages(opset):
        for item in stage.all_passes:
            modules.setdefault(item.name, type(item).__module__)
            if stage.name not in stages.setdefault(item.name, []):
                stages[item.name].append(stage.name)
    return tuple(
        BuiltPass(name, tuple(stages[name]), SUMMARIES[name], _description(modules[name])) for name in stages
    )


def _description(module: str) -> str:
    return inspect.getdoc(sys.modules[module]) or ""
