"""Which PyTorch operators have a converter, and which ones a model calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from inspect import getmodule
from typing import Any

from ascendsim.core.errors import InputError
from ascendsim.frontends.torch.conversion import has_converter
from ascendsim.frontends.torch.inference import first_lines
from ascendsim.frontends.torch.requirement import require_torch
from ascendsim.frontends.torch.source import line_of, line_of_error
from ascendsim.frontends.torch.table import CONVERTERS
from ascendsim.frontends.torch.whole_calls import whole_calls


@dataclass(frozen=True, slots=True)
class Use:
    """An operator that a model calls.

    Attributes:
        operator: As PyTorch prints it, "aten.add.Tensor".
        graph: "forward", "backward" or "inference".
        calls: How often.
        line: The user's line of the first call.
        known: Whether it has a converter.
    """

    operator: str
    graph: str
    calls: int
    line: str
    known: bool


def converters() -> list[tuple[str, str]]:
    """Every operator that has a converter, with the converter, "elementwise.unary"."""
    found = []
    for name, converter in CONVERTERS.items():
        home = getmodule(converter)
        family = "" if home is None else home.__name__.rpartition(".")[2]
        word = converter.__qualname__.partition(".")[0]
        found.append((name if name.startswith("prims.") else f"aten.{name}", f"{family}.{word}"))
    return sorted(found)


def operators_of(module: Any, inputs: Sequence[Any]) -> list[Use]:
    """The operators of a model's graphs as torch.compile gives them to the back end: forward and backward, or
    inference where nothing wants a gradient. The model runs once, in PyTorch.

    Raises:
        InputError: If torch is missing or too old, or the model fails.
    """
    torch = require_torch()
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.partitioners import default_partition
    from torch.nn.attention import SDPBackend, sdpa_kernel

    seen: dict[tuple[str, str], list[Any]] = {}

    def listing(kind: str) -> Any:
        def compiled(graph_module: Any, _examples: Any) -> Any:
            from torch._functorch.aot_autograd import make_boxed_func

            for node in graph_module.graph.nodes:
                if node.op == "call_function" and hasattr(node.target, "_schema"):
                    seen.setdefault((kind, str(node.target)), []).append(node)
            return make_boxed_func(graph_module)

        return compiled

    backend = aot_autograd(
        fw_compiler=listing("forward"),
        bw_compiler=listing("backward"),
        inference_compiler=listing("inference"),
        partition_fn=default_partition,
        decompositions={},
    )
    try:
        with whole_calls(torch), sdpa_kernel(SDPBackend.MATH), torch.fx.traceback.preserve_node_meta():
            _run(torch, torch.compile(module, backend=backend), inputs)
    except Exception as error:  # the user's, or PyTorch's, which has no common class
        where = line_of_error(error, torch)
        raise InputError("the model", f"cannot be run{where}: {first_lines(error)}") from error
    finally:
        torch._dynamo.reset()
    return [
        Use(name, kind, len(nodes), line_of(nodes[0]), has_converter(nodes[0]))
        for (kind, name), nodes in seen.items()
    ]


def _run(torch: Any, function: Any, inputs: Sequence[Any]) -> None:
    """Once forward, and backward from all results that want a gradient."""
    from torch.utils import _pytree

    results = _pytree.tree_leaves(function(*inputs))
    wanted = [one for one in results if isinstance(one, torch.Tensor) and one.requires_grad]
    if wanted:
        torch.autograd.backward(wanted, [torch.ones_like(one) for one in wanted])
