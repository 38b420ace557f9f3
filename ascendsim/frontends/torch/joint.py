"""`capture_step`: forward and backward pass of a module as one graph, captured by AOTAutograd."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ascendsim.core.errors import InputError
from ascendsim.frontends.torch.conversion import (
    GRADIENTS,
    Conversion,
    MissingConverterError,
    check_converters,
    has_converter,
)
from ascendsim.frontends.torch.inference import check_module, constant_of, first_lines
from ascendsim.frontends.torch.requirement import require_torch
from ascendsim.frontends.torch.source import line_of_error
from ascendsim.frontends.torch.tensors import dtype_of
from ascendsim.frontends.torch.whole_calls import attention_calls, whole_calls
from ascendsim.graph.ir import Constant, Graph, Tensor
from ascendsim.opset import OpSet

LOSS = "loss"
_INNER = "module"  # what the user's module is called inside of the step that adds a loss


@dataclass(frozen=True, slots=True)
class CapturedStep:
    """A training step without its optimizer.

    Attributes:
        graph: Inputs are the batch, the parameters and the buffers that are read; outputs `loss`,
            `<parameter>.grad` and `<buffer>.updated`.
        loss: One number.
        seed: The constant 1 that is the gradient of the loss; a loss scale can take its place.
        gradients: By the name of a parameter.
        updated: New values of buffers by their name.
        initial: Values of parameters and buffers by input name, in the tensors' own memory.
        batch: Names of the batch's inputs, in the order of the example inputs; None where one is not read.
        unused: Names of the parameters that the loss does not depend on.
    """

    graph: Graph
    loss: Tensor
    seed: Tensor
    gradients: Mapping[str, Tensor]
    updated: Mapping[str, Tensor]
    initial: Mapping[str, Constant]
    batch: tuple[str | None, ...]
    unused: tuple[str, ...]


def capture_step(
    module: Any,
    example_inputs: Sequence[Any],
    *,
    opset: OpSet,
    loss: Callable[..., Any] | None = None,
    flash: bool = False,
) -> CapturedStep:
    """Captures forward and backward pass, operators undecomposed, on tensors without memory.

    Args:
        module: A `torch.nn.Module` whose result is the loss, or whose results `loss` takes.
        example_inputs: What the module is called with; with `loss`, the last one is the target.
        opset: Operators.
        loss: Called with the module's result and the target.
        flash: Whether attention is to be CANN's kernel.

    Raises:
        InputError: If torch is missing or too old, the result is no scalar loss, no parameter wants a
            gradient, the module cannot be captured, or a tensor is of a kind that the chip lacks.
        UnsupportedOperatorError: Lists all operators without a converter.
    """
    torch = require_torch()
    if not isinstance(module, torch.nn.Module):
        raise InputError("argument module", "must be a torch.nn.Module", type(module).__name__)
    check_module(module, (tuple(example_inputs), {}))
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise InputError(f"module {type(module).__name__}", "must have a parameter that wants a gradient")
    step = module if loss is None else _with_loss(torch, module, loss)
    prefix = "" if loss is None else f"{_INNER}."
    graph = _captured(torch, *_off_meta(torch, step, tuple(example_inputs)), flash)
    return _converted(graph, module, prefix, len(example_inputs), opset)


def _with_loss(torch: Any, module: Any, loss: Callable[..., Any]) -> Any:
    class Step(torch.nn.Module):  # type: ignore[misc]
        """A module and the loss of its result."""

        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, *inputs: Any) -> Any:
            return loss(self.module(*inputs[:-1]), inputs[-1])

    return Step().train(module.training)


def _off_meta(torch: Any, step: Any, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """Module and inputs with tensors on the CPU, still without memory, in the place of those on the meta
    device: for that device autograd takes some calls (losses of classes) for others, without a gradient.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils import _pytree

    held = [tensor for _, tensor in (*step.named_parameters(), *step.named_buffers()) if tensor.is_meta]
    if not held:
        return step, args
    with FakeTensorMode(allow_non_fake_inputs=True):
        memo = {id(tensor): _fake(torch, tensor) for tensor in held}
        fake_args = _pytree.tree_map_only(torch.Tensor, lambda tensor: _fake(torch, tensor), args)
    return copy.deepcopy(step, memo), fake_args


def _fake(torch: Any, tensor: Any) -> Any:
    fake = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(fake, tensor.requires_grad)
    return fake.requires_grad_(tensor.requires_grad)


def _captured(torch: Any, step: Any, args: tuple[Any, ...], flash: bool) -> Any:
    """The joint graph, traced directly, or by way of Dynamo where Python asks for values or a line is
    wanted.
    """
    try:
        graph = _joint(torch, step, args, {}, flash)
        table = _decompositions(graph)
        if table:
            graph = _joint(torch, step, args, table, flash)
        check_converters(graph.nodes)
        return graph
    except (InputError, MissingConverterError) as error:
        first = error
        table = {}
    try:
        from torch._dynamo.functional_export import dynamo_graph_capture_for_export

        graph = _joint(torch, dynamo_graph_capture_for_export(step)(*args), args, table, flash)
    except Exception:  # what the direct way said is nearer to the user's code
        raise first from None
    check_converters(graph.nodes)
    return graph


def _decompositions(graph: Any) -> dict[Any, Any]:
    """How PyTorch writes the calls that have no converter in others, as far as it knows."""
    from torch._decomp import decomposition_table

    missing = {node.target for node in graph.nodes if not has_converter(node)}
    return {target: how for target, how in decomposition_table.items() if target in missing}


def _joint(torch: Any, step: Any, args: tuple[Any, ...], decompositions: dict[Any, Any], flash: bool) -> Any:
    from torch._functorch.aot_autograd import aot_export_joint_with_descriptors
    from torch.fx._lazy_graph_module import _use_lazy_graph_module

    try:
        with (
            ExitStack() as stack,
            whole_calls(torch),
            attention_calls(flash),
            torch.fx.traceback.preserve_node_meta(),
            _use_lazy_graph_module(True),  # nobody runs the graph, so that it needs no Python code
        ):
            with noted_modules(torch, step):
                joint = aot_export_joint_with_descriptors(stack, step, args, decompositions=decompositions)
            return joint.graph_module.graph
    except Exception as error:  # PyTorch has no common class for what cannot be captured
        raise InputError(
            f"module {type(step).__name__}",
            f"cannot be captured{line_of_error(error, torch)}: {first_lines(error)}",
            remedy=_remedy(error),
        ) from error


def _remedy(error: Exception) -> str:
    text = str(error)
    asked = type(error).__name__.startswith("DataDependent") or "data-dependent" in text
    if not asked and ("scalar" in text or "grad" in text):
        return "return one loss, or pass loss="
    return 'torch.compile(module, backend="ascendsim") takes what depends on values'


@contextmanager
def noted_modules(torch: Any, root: Any) -> Iterator[None]:
    """While it is open, traced calls carry the path of the module that makes them."""
    names = {module: name for name, module in root.named_modules()}
    meta = torch.fx.traceback.current_meta
    outer: list[Any] = []

    def enter(module: Any, _inputs: Any) -> None:
        outer.append(meta.get("nn_module_stack"))
        if module in names:
            meta["nn_module_stack"] = {names[module]: (names[module], type(module))}

    def leave(_module: Any, _inputs: Any, _result: Any) -> None:
        before = outer.pop()
        if before is None:
            meta.pop("nn_module_stack", None)
        else:
            meta["nn_module_stack"] = before

    hooks = torch.nn.modules.module
    handles = [
        hooks.register_module_forward_pre_hook(enter),
        hooks.register_module_forward_hook(leave, always_call=True),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        meta.pop("nn_module_stack", None)


def _converted(graph: Any, module: Any, prefix: str, batch_size: int, opset: OpSet) -> CapturedStep:
    conversion = Conversion(type(module).__name__, opset, prefix)
    nodes = list(graph.nodes)
    batch: list[str | None] = [None] * batch_size
    initial: dict[str, Constant] = {}
    seed: Tensor | None = None
    tensors, own_name = _tensors_of(module)
    for node in (node for node in nodes if node.op == "placeholder"):
        role = node.meta["desc"]
        kind = type(role).__name__
        dtype = dtype_of(node.meta["val"].dtype, f"input {node.name!r}")
        if kind in ("ParamAOTInput", "BufferAOTInput"):
            name = own_name[role.target.removeprefix(prefix)]
            if name in initial:  # a tied weight comes once under each of its names
                conversion.bind(node, conversion.builder.graph.tensors[name])
                continue
            conversion.input(name, node, dtype)
            initial[name] = constant_of(tensors[name])
        elif kind == "PlainAOTInput":
            batch[role.idx] = conversion.input(f"input_{role.idx}", node, dtype).name
        elif kind == "TangentAOTInput":
            one = np.ones(tuple(node.meta["val"].shape), dtype.numpy)
            seed = conversion.builder.constant(one, f"{LOSS}.grad")
            conversion.bind(node, seed)
        else:
            raise InputError(
                f"input {node.name!r} of the captured step", "has a role that is not known", kind
            )
    conversion.run(nodes)
    loss, gradients, updated = _outputs(
        conversion, nodes[-1], lambda target: own_name[target.removeprefix(prefix)]
    )
    if loss is None or seed is None:
        raise InputError("the module", "must return a loss", remedy="or pass loss=")
    made = conversion.finish()
    for tensor in list(made.inputs):
        if not tensor.uses:
            made.inputs.remove(tensor)
            made.remove_tensor(tensor)
    read = {tensor.name for tensor in made.inputs}
    wanted = [name for name, parameter in module.named_parameters() if parameter.requires_grad]
    return CapturedStep(
        made,
        loss,
        seed,
        gradients,
        updated,
        {name: value for name, value in initial.items() if name in read},
        tuple(name if name in read else None for name in batch),
        tuple(name for name in wanted if name not in gradients),
    )


def _tensors_of(module: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Parameters and buffers by every name that they have, and of each name the one that PyTorch lists; a
    tied weight has several.
    """
    tensors: dict[str, Any] = {}
    for listed in (module.named_parameters, module.named_buffers):
        tensors.update(listed(remove_duplicate=False))
    first: dict[int, str] = {}
    for name, tensor in tensors.items():
        first.setdefault(id(tensor), name)
    return tensors, {name: first[id(tensor)] for name, tensor in tensors.items()}


def _outputs(
    conversion: Conversion, output: Any, name_of: Callable[[str], str]
) -> tuple[Tensor | None, dict[str, Tensor], dict[str, Tensor]]:
    """Names the outputs; returns the loss, gradients by parameter and new values by buffer."""
    loss: Tensor | None = None
    gradients: dict[str, Tensor] = {}
    updated: dict[str, Tensor] = {}
    for node, role in zip(output.args[0], output.meta["desc"], strict=True):
        kind = type(role).__name__
        if node is None:
            continue
        value = conversion.values[node]
        if kind == "PlainAOTOutput":
            if loss is not None or node.meta["val"].numel() != 1:
                shape = list(node.meta["val"].shape)
                raise InputError(
                    "the module", "must return one scalar loss", f"a result of shape {shape}", "or pass loss="
                )
            loss = conversion.output(value, LOSS)
        elif kind == "GradAOTOutput" and hasattr(role.grad_of, "target"):
            name = name_of(role.grad_of.target)
            if name in gradients:
                value = conversion.builder.op("Add", gradients[name], value, name=f"{GRADIENTS}/Add")
            gradients[name] = value
        elif kind == "InputMutationAOTOutput":
            name = _changed(role.mutated_input, name_of)
            updated[name] = conversion.output(value, f"{name}.updated")
    named = {name: conversion.output(value, f"{name}.grad") for name, value in gradients.items()}
    return loss, named, updated


def _changed(source: Any, name_of: Callable[[str], str]) -> str:
    """The buffer that a step changes.

    Raises:
        InputError: If it is none: batches are the user's, and parameters the optimizer's.
    """
    kind = type(source).__name__
    if kind == "BufferAOTInput":
        return name_of(source.target)
    subject = f"parameter {name_of(source.target)!r}" if kind == "ParamAOTInput" else f"input {source.idx}"
    rule = "must not change in place in a training step"
    raise InputError(subject, rule, remedy="work on a copy of it (clone)")
