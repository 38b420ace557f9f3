"""Tokens from a model with values: a prompt goes in, then step by step its own choices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from ascendsim.api.running import run
from ascendsim.core.errors import InputError
from ascendsim.graph.ir import Array, Graph
from ascendsim.llm.layers import BLOCK

if TYPE_CHECKING:
    from ascendsim.llm.language_model import Chip, LanguageModel

NEW = "_new"  # behind the name of a pool that a step has written


def generate(
    model: LanguageModel, soc: Chip, prompt: Sequence[int], count: int, values: Literal["device", "float32"]
) -> list[int]:
    """The likeliest tokens behind a prompt; see `LanguageModel.generate`."""
    vocabulary = model.architecture.vocabulary
    if not prompt or not all(0 <= token < vocabulary for token in prompt):
        raise InputError(
            "argument prompt", f"must be one or more tokens below {vocabulary}", repr(prompt)[:40]
        )
    pools: dict[str, Array] = {}
    found: list[int] = []
    fresh, context = list(prompt), len(prompt)
    for _ in range(count):
        compiled = model.compiled(soc, 1, len(fresh), context)
        given = {name: _grown(pools.get(name), compiled.source, name) for name in _pools(compiled.source)}
        places = np.arange(context - len(fresh), context)
        given |= {"input_ids": np.array(fresh), "slots": places}
        if any(tensor.name == "positions" for tensor in compiled.source.inputs):
            given["positions"] = places
        outputs = run(compiled, given, values=values).outputs
        pools = {name: outputs[name + NEW] for name in _pools(compiled.source)}
        fresh = [int(outputs["next_tokens"].reshape(-1)[0])]
        found += fresh
        context += 1
    return found


def _pools(graph: Graph) -> list[str]:
    """Names of the inputs that hold the cache."""
    outputs = {tensor.name for tensor in graph.outputs}
    return [tensor.name for tensor in graph.inputs if tensor.name + NEW in outputs]


def _grown(pool: Array | None, graph: Graph, name: str) -> Array:
    """A pool with as many blocks as a step wants; new ones are empty."""
    tensor = graph.tensors[name]
    wanted = np.zeros(tensor.static_shape, tensor.element_type.numpy)
    assert wanted.shape[1] == BLOCK
    if pool is not None:
        wanted[: len(pool)] = pool
    return wanted
