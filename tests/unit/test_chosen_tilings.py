"""Tables of what the searches for tilings choose, and of how work is shared among cores
(`tests/golden/tilings`).

Nearly all of it costs only time: a mistake makes a tiling that fits and computes the same, a little more
slowly. The searches are not run on the machine but by the closed form, in the interpreter, so that a table
takes a second at most.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from ascendsim.lower.templates import compiled_search, tiling
from tests.support import chosen_operators, chosen_shares, chosen_tilings, tried_sizes

Table = tuple[str, Callable[[], str]]
TABLES: dict[str, Table] = {
    "special_maps": ("Convolutions with rules of their own.", chosen_tilings.special_maps),
    "sizes": ("Sizes that are tried along an axis, by its length.", tried_sizes.sizes),
    "filters": ("Gradients of filters: the best tiling, and its blocks.", chosen_shares.filters),
    "pairs": ("Two convolutions in a task: heights of bands, best first.", chosen_shares.pairs),
}
for chip in chosen_tilings.CHIPS:
    TABLES[f"products_{chip}"] = "Matrix products of all kinds.", partial(chosen_tilings.products, chip)
    TABLES[f"maps_{chip}"] = "Convolutions of all kinds.", partial(chosen_tilings.maps, chip)
for chip in chosen_shares.CHIPS:
    TABLES[f"vectors_{chip}"] = "Blocks of vector work.", partial(chosen_shares.vectors, chip)
    TABLES[f"moves_{chip}"] = "Blocks of movement and scalar work.", partial(chosen_shares.moves, chip)
for make in chosen_operators.OPERATORS:
    name = make.__name__
    TABLES[name] = "Blocks of an operator.", partial(chosen_operators.operators, name)
ABOUT = """\
The best tiling, those that come near and are worth a run, and what all are like that fit.
A good reason to renew it: a rule for shares or tiles, a rate or a term of the closed form has a new source,
and each line that moves is one that it is about. Cycles are the closed form's, of the busiest core.
Blocks: slots and bytes of each buffer; of each pipe its instructions / bytes, elements, products or cycles.
"""


@pytest.mark.parametrize("name", TABLES)
def test_what_is_chosen(
    name: str, golden: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled_search._BUDGET, "pays", lambda: False)
    tiling._search.cache_clear()
    tiling._best_of_all.cache_clear()
    title, table = TABLES[name]
    golden(f"tilings/{name}.txt", f"{title}\n\n{ABOUT}\n{table()}")
