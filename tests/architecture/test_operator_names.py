"""Who knows operators by name: operators, rules about named operators, front ends and models; all others are
listed here with their reason.

What another layer wants to know of an operator belongs on the operator (`opset.facts`, `opset.axes`): a list
of names elsewhere is wrong for the next operator without a word.
"""

from __future__ import annotations

import ast
from functools import cache

from ascendsim.ops import default_opset
from tests.support.sources import ROOT, parsed

FREE = ("ops/", "passes/fusion/rules/", "frontends/", "models/", "training/rules/", "validate/")

_CONTROL = "control flow: these nodes hold subgraphs, whose meaning is the operator itself"
_SHAPES = "algebra on shape vectors: each operator of it has a rule of its own"
_MAKES = "makes nodes of these operators"
_LEVER = "a rewrite of this operator by others"
_RULE = "CANN's patterns, which name operators"
_INT8 = "which operators CANN has in int8, and where their weights and data are"
REASONS: dict[str, str] = {
    "accuracy/report.py": "a column of msaccucmp's table, no operator",
    "advise/__init__.py": "the class of what advise proposes, no operator",
    "api/network_kind.py": "what people call networks by: recurrent, residual, multi-branch ...",
    "api/im2col.py": "Conv written as other operators, which is what it is for",
    "api/quantize_result.py": "a word of a sentence, no operator",
    "asc/__init__.py": "the class of cases of kernels, no operator",
    "compiler/atc_check.py": "which networks ATC counts as quantised, and what its passes are about",
    "compiler/dynamic_inputs.py": _CONTROL,
    "graph/branches.py": _CONTROL,
    "graph/composites.py": "the operator that holds a composite",
    "graph/ir.py": "the word Shape, which is a type there",
    "opset/expansion.py": _MAKES,
    "opset/facts.py": "texts that explain",
    "passes/aipp/insert.py": _MAKES,
    "passes/aipp/join.py": _RULE,
    "passes/control_flow/nodes.py": _CONTROL,
    "passes/rewriting/folding.py": _SHAPES,
    "passes/fusion/switch_file.py": "a key of CANN's files, no operator",
    "passes/gears/clone.py": _MAKES,
    "passes/host_inputs.py": _MAKES,
    "passes/host_reads.py": "changes of a tensor's type and format, behind which it is read",
    "passes/engine/cond_remove.py": _CONTROL,
    "passes/engine/constant_folding.py": "GE's exceptions from folding",
    "passes/engine/dimension_compute.py": _SHAPES,
    "passes/engine/edits.py": _MAKES,
    "passes/engine/identities.py": "GE's list of operators that hand their input on",
    "passes/engine/identity_arithmetic.py": "GE's rules: x + 0, x * 1 ...",
    "passes/engine/inlining.py": _CONTROL,
    "passes/engine/no_use.py": "GE's rules for operators that change nothing",
    "passes/engine/reshapes.py": "GE's rules for chains of reshapes",
    "passes/engine/switch_dead_branch.py": _CONTROL,
    "passes/engine/trans_ops.py": "GE's rules for pairs of transposes and casts",
    "passes/engine/value_range.py": _SHAPES,
    "passes/graph_kernel/flags.py": "examples of values",
    "passes/graph_kernel/flow.py": _MAKES,
    "passes/graph_kernel/lists.py": "an example, and the one that joins a list of MindSpore's late",
    "passes/l1/pairs.py": _RULE,
    "passes/l2/rebatch.py": _MAKES,
    "passes/layout/assign.py": "TransData; and Softmax, whose kernel for ragged rows a chip may lack",
    "passes/layout/causes.py": "what the causes are of",
    "passes/layout/fold_batch.py": "CANN's rewrite of batched products",
    "passes/levers/attention_pattern.py": _LEVER,
    "passes/levers/channel_groups.py": (
        "a convolution mixes channels by constant weights; a Concat puts them one behind the other"
    ),
    "passes/levers/channel_rewrite.py": _LEVER,
    "passes/levers/channel_shuffle.py": _LEVER,
    "passes/levers/flat_rows.py": _LEVER,
    "passes/levers/half_inputs.py": "writes a Cast behind an input",
    "passes/levers/identity_conv.py": _LEVER,
    "passes/levers/layer_norm_pattern.py": _LEVER,
    "passes/levers/narrow_types.py": _MAKES,
    "passes/levers/pad_tokens.py": _LEVER,
    "passes/levers/padded_axes.py": "what a Softmax with a mask leaves for a product to add up",
    "passes/levers/pow_to_mul.py": _LEVER,
    "passes/levers/resize_sizes.py": _LEVER,
    "passes/levers/softmax_axis.py": _LEVER,
    "passes/levers/sort_as_float.py": _MAKES,
    "passes/precision/assign.py": _MAKES,
    "passes/precision/float_status.py": "the check for overflow that a chip has",
    "passes/precision/integer_sums.py": "onnxruntime's form of dynamic quantisation",
    "passes/quant/amct_forms.py": "operators that AMCT has in its form",
    "passes/quant/pairs.py": "ONNX's form of quantised networks",
    "passes/quant/qdq.py": "ONNX's form of quantised networks",
    "passes/quant/batches.py": "what it joins are just these",
    "passes/quant/products.py": "what it joins are just these",
    "passes/quant/roundings.py": "what it joins are just these",
    "passes/quant/early.py": "which of the two forms may pass what has a reason for each",
    "passes/rewriting/outputs.py": _MAKES,
    "passes/ub/automatic.py": _RULE,
    "passes/ub/cann_passes.py": _RULE,
    "passes/ub/no_task.py": _RULE,
    "runtime/control_flow.py": _CONTROL,
    "llm/decoder.py": _MAKES,
    "llm/experts.py": _MAKES,
    "llm/layers.py": _MAKES,
    "llm/latent.py": _MAKES,
    "llm/attention.py": _MAKES,
    "llm/serving.py": "a column of a table, no operator",
    "llm/links.py": "which collectives gather",
    "profiling/communication.py": "a column of a table, no operator",
    "images/forms.py": "images that AIPP takes are bytes",
    "runtime/evaluate.py": "images that AIPP reads are bytes",
    "runtime/growth.py": _CONTROL,
    "runtime/host_run.py": _CONTROL,
    "runtime/pieces.py": _CONTROL,
    "runtime/status_register.py": "operators that clear and read the cores' register",
    "runtime/tiles.py": "whose filters lie in global memory as FRACTAL_Z has them",
    "training/backward.py": _MAKES,
    "training/combined.py": _MAKES,
    "training/data_parallel.py": "casts and conversions, which carry a gradient to its update",
    "training/losses.py": _MAKES,
    "training/optimizers.py": _MAKES,
    "quantisation/ranges.py": "which inputs of the forms of int8 are scales and weights",
    "quantisation/ascend.py": _MAKES,
    "quantisation/pairs.py": _MAKES,
    "quantisation/plan.py": _INT8,
    "quantisation/prepare.py": "models that are quantised already",
    "training/reverse.py": _MAKES,
    "training/scaling.py": _MAKES,
    "training/sequences.py": _MAKES,
    "training/source.py": "batch normalisation, which goes into training",
    "training/step.py": _MAKES,
}


@cache
def knowing() -> dict[str, set[str]]:
    """Files outside of the free folders that hold names of operators as literals."""
    names = {definition.name for definition in default_opset()}
    found = {}
    for path in sorted((ROOT / "ascendsim").rglob("*.py")):
        name = path.relative_to(ROOT / "ascendsim").as_posix()
        if name.startswith(FREE):
            continue
        literals = {node.value for node in ast.walk(parsed(path)) if isinstance(node, ast.Constant)}
        known = {value for value in literals if isinstance(value, str)} & names
        if known:
            found[name] = known
    return found


def test_who_knows_operators_by_name_says_why() -> None:
    assert knowing().keys() == REASONS.keys()


def test_these_floors_know_none() -> None:
    floors = ("machine/", "lower/", "isa/", "profiling/", "plot/", "soc/", "trace/", "core/")
    allowed = {"profiling/communication.py"}
    assert not [name for name in knowing().keys() - allowed if name.startswith(floors)]
