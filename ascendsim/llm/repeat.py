"""The time of a step from a few of its layers: equal layers take equally long, so the rest is counted.

The first layers of each kind warm up what later ones find (tables in L2, the stream's first gap), so that the
period of layers is simulated twice, and the second time repeats.
"""

from __future__ import annotations

from collections.abc import Callable

from ascendsim.llm.structure import Architecture


def period(model: Architecture) -> int:
    """Layers after which their kinds repeat, behind those at the start that have no experts."""
    first = 0 if model.experts is None else model.experts.dense_layers
    kinds = [model.kind(layer) for layer in range(first, model.layers)]
    for length in range(1, len(kinds)):
        if all(kind == kinds[place % length] for place, kind in enumerate(kinds)):
            return length
    return max(1, len(kinds))


def repeated_us(model: Architecture, layers_us: Callable[[int], float]) -> float:
    """The time of all layers of a model.

    Args:
        model: What it is made of.
        layers_us: Time of a step with the first so many layers.
    """
    length = period(model)
    first = 0 if model.experts is None else model.experts.dense_layers
    left = (model.layers - first) % length
    short = first + left + length
    if model.layers <= short + 2 * length:
        return layers_us(model.layers)
    one, two = layers_us(short), layers_us(short + length)
    return one + (two - one) * ((model.layers - short) // length)
