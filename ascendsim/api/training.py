"""The verb `training_step`: a model becomes one graph that trains it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ascendsim.core.arguments import checked
from ascendsim.core.errors import InputError
from ascendsim.graph.ir import Graph
from ascendsim.ops import opset_with
from ascendsim.opset import OpDef
from ascendsim.training.losses import LOSSES
from ascendsim.training.optimizers import optimizer_of
from ascendsim.training.scaling import Scaling
from ascendsim.training.source import joint_of_graph
from ascendsim.training.step import TrainingStep, complete_step


@checked(source="asim.load or asim.GraphBuilder makes one")
def training_step(
    source: Graph,
    example_inputs: Sequence[Any] | None = None,
    *,
    loss: str | None = None,
    optimizer: Any = None,
    loss_scale: float | str | None = None,
    grad_clip: float | None = None,
    accumulate: int = 1,
    output: str | None = None,
    parameters: Sequence[str] | None = None,
    operators: Sequence[OpDef] = (),
) -> TrainingStep:
    """One training step as a graph: forward, backward, and the update of the weights.

    Args:
        source: A graph for inference. It stays as it is; batch normalisation goes into training.
        example_inputs: Only for models that are no graph yet.
        loss: "cross_entropy" or "mse" (the graph gets an input `labels`), or the name of an output that is
            the loss.
        optimizer: "momentum", "adam", "adamw", "lamb", or one of `ascendsim.training.optimizers` with other
            numbers. The graph gets an input `learning_rate`. None: gradients only.
        loss_scale: Factor of the loss, or "dynamic". With one, a step whose gradients overflow changes
            nothing, and the output `overflow` says so.
        grad_clip: Largest norm of all gradients together.
        accumulate: Number of batches whose gradients make one update, as their mean.
        output: Which output "cross_entropy" and "mse" are made of; needed where there are several.
        parameters: Names of the weights to train, or patterns such as "*.weight"; by default all
            floating-point constants of more than one element that the loss depends on, tables that somebody
            computed (rotary factors, masks) among them.
        operators: Operators of your own, the same as for `load`.

    Raises:
        InputError: If an option is not usable.
        GraphError: If the graph cannot be differentiated: all operators without a rule are listed.
    """
    if example_inputs is not None:
        raise InputError("argument example_inputs", "is for models that are no graph", remedy="leave it out")
    if loss is None:
        rule = f"must be {', '.join(LOSSES)} or the name of an output"
        raise InputError("option loss", rule, None, "say what is to become small")
    chosen = None if optimizer is None else optimizer_of(optimizer)
    scaling = Scaling(loss_scale, grad_clip, accumulate)
    opset = opset_with(operators)
    joint = joint_of_graph(source, opset, loss, output, parameters)
    return complete_step(joint, opset, chosen, scaling)
