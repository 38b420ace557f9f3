"""The verb `training_step`: a model becomes one graph that trains it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Union

from ascendsim.core.arguments import checked
from ascendsim.core.collection import without_collection
from ascendsim.core.errors import InputError
from ascendsim.graph.ir import Graph
from ascendsim.ops import opset_with
from ascendsim.opset import OpDef, OpSet
from ascendsim.training.combined import combine
from ascendsim.training.losses import LOSSES
from ascendsim.training.optimizers import OPTIMIZERS, Group, Optimizer, optimizer_of
from ascendsim.training.scaling import Scaling
from ascendsim.training.source import joint_of_graph
from ascendsim.training.step import Joint, TrainingStep, complete_step

if TYPE_CHECKING:
    import torch


@without_collection
@checked(source="asim.load or asim.GraphBuilder makes a graph, torch.nn a module")
def training_step(
    source: Union[Graph, torch.nn.Module],
    example_inputs: Sequence[Any] | None = None,
    *,
    loss: str | Callable[..., Any] | None = None,
    optimizer: Any = None,
    loss_scale: float | str | None = None,
    grad_clip: float | None = None,
    accumulate: int = 1,
    output: str | None = None,
    parameters: Sequence[str] | None = None,
    allow_unused: bool = False,
    operators: Sequence[OpDef] = (),
    attention: str = "formula",
    combined: bool = False,
) -> TrainingStep:
    """One training step as a graph: forward, backward, and the update of the weights.

    Args:
        source: A graph for inference; it stays as it is, and batch normalisation goes into training. Or a
            PyTorch module in the mode in which it is to be trained: PyTorch's own forward and backward pass
            are captured, with inputs `input_0`, `input_1` ... for the batch.
        example_inputs: What a module is called with; with `loss`, the last one is the target.
        loss: Of a graph: "cross_entropy" or "mse" (the graph gets an input `labels`), or the name of an
            output that is the loss. Of a module: called with its result and the target; None if the result
            is the loss.
        optimizer: "momentum", "adam", "adamw", "lamb", or one of `ascendsim.training.optimizers` with other
            numbers. The graph gets an input `learning_rate`. Of a module also SGD, Adam or AdamW of
            torch.optim: its groups, their rates and the state so far are read (inputs `learning_rate.0` ...
            where there are several groups). None: gradients only.
        loss_scale: Factor of the loss, or "dynamic". With one, a step whose gradients overflow changes
            nothing, and the output `overflow` says so.
        grad_clip: Largest norm of all gradients together.
        accumulate: Number of batches whose gradients make one update, as their mean.
        output: Which output "cross_entropy" and "mse" are made of; needed where there are several.
        parameters: Names of the weights to train, or patterns such as `"*.weight"`; by default all
            floating-point constants of more than one element that the loss depends on, tables that somebody
            computed (rotary factors, masks) among them.
        allow_unused: Whether parameters of a module on which the loss does not depend are left as they are;
            else they are an error that lists them.
        operators: Operators of your own, the same as for `load`.
        attention: Of a module: "formula", or "flash" for FlashAttentionScore and its gradient where
            `scaled_dot_product_attention` has four axes and no dropout (see `from_torch`).
        combined: Whether all weights lie in one buffer (input `weights`), their state and gradients in
            others, as Ascend's fused optimisers for PyTorch keep them (NpuFusedSGD, NpuFusedAdamW): an Add
            for each gradient and a few operators for the whole update. For momentum, adam and adamw, and
            what PyTorch launches operator by operator (`compile(..., schedule="eager")`).

    Raises:
        InputError: If an option is not usable.
        GraphError: If the graph cannot be differentiated: all operators without a rule are listed.
        UnsupportedOperatorError: If a module calls operators without a converter; lists all of them.
    """
    chosen = _optimizer(optimizer, source)
    scaling = Scaling(loss_scale, grad_clip, accumulate)
    opset = opset_with(operators)
    if not isinstance(source, Graph):
        if output is not None or parameters is not None:
            remedy = "set requires_grad_ of parameters, or pass loss="
            raise InputError("options output and parameters", "are for graphs", remedy=remedy)
        joint = _joint_of_module(source, example_inputs, opset, loss, allow_unused, attention)
        return _complete(joint, opset, chosen, scaling, combined)
    if attention != "formula":
        rule, remedy = "is for modules", "write FlashAttentionScore into the graph"
        raise InputError("option attention", rule, repr(attention), remedy)
    if example_inputs is not None:
        raise InputError("argument example_inputs", "is for models that are no graph", remedy="leave it out")
    if not isinstance(loss, str):
        rule = f"must be {', '.join(LOSSES)} or the name of an output"
        actual = None if loss is None else type(loss).__name__
        raise InputError("option loss", rule, actual, "say what is to become small")
    joint = joint_of_graph(source, opset, loss, output, parameters)
    return _complete(joint, opset, chosen, scaling, combined)


def _complete(
    joint: Joint,
    opset: OpSet,
    optimizer: Optimizer | list[Group] | None,
    scaling: Scaling,
    combined: bool,
) -> TrainingStep:
    if not combined:
        return complete_step(joint, opset, optimizer, scaling)
    if optimizer is None or isinstance(optimizer, list):
        rule = "needs one optimiser for all weights that is not of torch.optim"
        raise InputError(
            "option combined", rule, remedy="give optimizer=Momentum(...), Adam(...) or AdamW(...)"
        )
    whole, places = combine(joint, opset, optimizer)
    return replace(complete_step(whole, opset, optimizer, scaling), places=places)


def _optimizer(option: Any, source: Any) -> Optimizer | list[Group] | None:
    from ascendsim.frontends.torch.optimizers import groups_of, is_optimizer

    if option is None:
        return None
    if not is_optimizer(option):
        return optimizer_of(option)
    if isinstance(source, Graph):
        rule = "must not be of torch.optim for a graph, whose weights are not its parameters"
        raise InputError("option optimizer", rule, remedy=f"choose {', '.join(OPTIMIZERS)}")
    return [
        Group(OPTIMIZERS[one.kind](**one.numbers), one.rate, one.state, one.steps)
        for one in groups_of(option, source)
    ]


def _joint_of_module(
    module: Any,
    example_inputs: Sequence[Any] | None,
    opset: OpSet,
    loss: Any,
    allow_unused: bool,
    attention: str,
) -> Joint:
    """PyTorch's forward and backward pass."""
    from ascendsim.frontends.torch.joint import capture_step
    from ascendsim.frontends.torch.whole_calls import is_flash

    if example_inputs is None:
        raise InputError(
            "argument example_inputs", "is missing", remedy="pass what the module is called with"
        )
    if isinstance(loss, str):
        raise InputError("option loss", "must be a function for a module", repr(loss), "pass torch's")
    step = capture_step(module, example_inputs, opset=opset, loss=loss, flash=is_flash(attention))
    if step.unused and not allow_unused:
        names = ", ".join(map(repr, step.unused))
        rule = "must have a gradient: the loss does not depend on them"
        raise InputError(f"parameters {names}", rule, remedy="pass allow_unused=True")
    for tensor in (step.loss, *step.gradients.values(), *step.updated.values()):
        name = step.graph.fresh(f"captured/{tensor.name}")  # the results of the whole step have these names
        step.graph.rename_tensor(tensor, name)
    return Joint(step.graph, step.loss, step.seed, step.gradients, step.updated, step.initial)
