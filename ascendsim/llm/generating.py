"""Tokens from a model with values: a prompt goes in, then step by step its own choices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from ascendsim.api.running import run
from ascendsim.compiler.model import CompiledModel
from ascendsim.core.errors import InputError
from ascendsim.graph.ir import Array, Graph
from ascendsim.llm.layers import BLOCK

NEW = "_new"  # behind the name of a pool that a step has written


def generate(
    step: Callable[[int, int], CompiledModel],
    vocabulary: int,
    prompt: Sequence[int],
    count: int,
    values: Literal["device", "float32"],
) -> list[int]:
    """The likeliest tokens behind a prompt.

    Args:
        step: The program of a step, by its new tokens and all tokens after it.
        vocabulary: Tokens that there are.
        prompt, count, values: As for `LanguageModel.generate`.

    Raises:
        InputError: If a token is not in the vocabulary.
    """
    if not prompt or not all(0 <= token < vocabulary for token in prompt):
        raise InputError(
            "argument prompt", f"must be one or more tokens below {vocabulary}", repr(prompt)[:40]
        )
    pools: dict[str, Array] = {}
    found: list[int] = []
    fresh, context = list(prompt), len(prompt)
    for _ in range(count):
        compiled = step(len(fresh), context)
        names = _pools(compiled.source)
        given = {name: _grown(pools[name] if pools else None, compiled.source, name) for name in names}
        places = np.arange(context - len(fresh), context)
        given |= {"input_ids": np.array(fresh), "slots": places}
        if any(tensor.name == "positions" for tensor in compiled.source.inputs):
            given["positions"] = places
        outputs = run(compiled, given, values=values).outputs
        pools = {name: outputs[name + NEW] for name in names}
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
