"""Cases of operators that ONNX's suite has none of, and forms of others that it lacks: uneven sizes, runs of
whole blocks, many axes.

Sizes of one case differ from each other wherever they may, so that no law holds by the chance that two are
equal.
"""

from __future__ import annotations

from functools import cache

from tests.support.operator_cases import Case
from tests.support.own_cases.devices import add_fused, add_gradients, add_markers, add_updates
from tests.support.own_cases.edges import add_edges
from tests.support.own_cases.elementwise import add_elementwise
from tests.support.own_cases.images import add_images
from tests.support.own_cases.making import Cases, ints, one, some
from tests.support.own_cases.movement import add_indexing, add_made, add_movement
from tests.support.own_cases.products import add_products
from tests.support.own_cases.quantised import add_quantised
from tests.support.own_cases.recurrent import add_recurrent
from tests.support.own_cases.rows import add_normalisations, add_reductions
from tests.support.own_cases.windows import add_windows

__all__ = ["Cases", "edge_cases", "ints", "one", "own_cases", "some"]


@cache
def own_cases() -> tuple[Case, ...]:
    """Those with sizes of every kind."""
    from tests.support.gradient_cases import add_training

    cases = Cases("own")
    for write in (
        add_elementwise,
        add_windows,
        add_products,
        add_reductions,
        add_normalisations,
        add_movement,
        add_indexing,
        add_made,
        add_recurrent,
        add_quantised,
    ):
        write(cases)
    for write in (add_fused, add_gradients, add_updates, add_markers, add_images, add_training):
        write(cases)
    from tests.support.language_cases import add_language
    from tests.support.training_cases import write_all

    write_all(cases)
    add_language(cases)
    return tuple(cases)


@cache
def edge_cases() -> tuple[Case, ...]:
    """Those with values and sizes at the ends of what there is."""
    cases = Cases("edge")
    add_edges(cases)
    return tuple(cases)
