"""What notes tell of small works of every template, as text (`tests/golden/notes`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from ascendsim.lower.templates.cube import cube_stage, product_of
from ascendsim.lower.templates.movement import lower_movement
from ascendsim.lower.templates.stage import Stage
from ascendsim.lower.templates.steps import Expansion
from ascendsim.lower.templates.vector import lower_vector
from ascendsim.opset.work import MoveWork, VectorWork, Work
from tests.support import listed_stages
from tests.support.listed_cubes import CASES as CUBES
from tests.support.listed_cubes import Tiled
from tests.support.listed_stages import cores
from tests.support.listed_works import CASES, scalar
from tests.support.notes_text import notes_of

Golden = Callable[[str, str], None]
WORKS = [case for case in CASES if case[0] is not scalar]
STRIPS = (listed_stages.strips, listed_stages.strips_of_images, listed_stages.strips_by_taps)


def told(make: Callable[[], object], stage: Stage) -> str:
    """What a work is, and the notes of its blocks."""
    return f"{' '.join((make.__doc__ or '').split())}\n\n{notes_of(stage)}"


@pytest.mark.parametrize(("make", "chip"), WORKS, ids=[make.__name__ for make, _ in WORKS])
def test_notes_of_vector_and_movement_work(make: Callable[[], Work], chip: str, golden: Golden) -> None:
    soc, work = cores(chip, 2), make()
    expansion = Expansion(soc, noted=True)
    if isinstance(work, MoveWork):
        stage = lower_movement(work, soc, expansion)
    else:
        assert isinstance(work, VectorWork)
        stage = lower_vector(work, soc, expansion)
    golden(f"notes/{make.__name__}.txt", told(make, stage))


@pytest.mark.parametrize(("make", "chip"), CUBES, ids=[make.__name__ for make, _ in CUBES])
def test_notes_of_products(make: Callable[[], Tiled], chip: str, golden: Golden) -> None:
    soc, made = cores(chip, 2), make()
    stage = cube_stage(made.work, product_of(made.work, soc), made.tiling, soc, Expansion(soc, noted=True))
    golden(f"notes/{make.__name__}.txt", told(make, stage))


@pytest.mark.parametrize("make", STRIPS, ids=[make.__name__ for make in STRIPS])
def test_notes_of_strips(
    make: Callable[[], list[Stage]], golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listed_stages, "Expansion", partial(Expansion, noted=True))
    (stage,) = make()
    golden(f"notes/{make.__name__}.txt", told(make, stage))
