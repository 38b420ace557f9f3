"""Laws of the lowering on random work: legal, race-free, complete programs; memory that never overlaps."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ascendsim.core.formats import Format, align
from ascendsim.lower.templates.cube import lower_cube, product_of
from ascendsim.lower.templates.movement import lower_movement
from ascendsim.lower.templates.steps import Expansion
from ascendsim.lower.templates.vector import lower_vector
from ascendsim.opset.work import Copy, MoveWork, Step, Stream, VectorWork
from ascendsim.soc import load
from tests.support.lowering import convolution, matmul, moved, multiplied, ref, verify

SOCS = [load(name) for name in ("Ascend310", "Ascend910A", "Ascend910B1")]
socs = st.sampled_from(SOCS)
sizes = st.integers(1, 600)


@given(soc=socs, m=sizes, k=sizes, n=sizes, batch=st.integers(1, 5))
def test_matmul(soc, m, k, n, batch) -> None:  # type: ignore[no-untyped-def]
    work = matmul(m, k, n, soc, batch=batch)
    stages, rest = lower_cube(work, soc, Expansion(soc))
    assert rest is None
    verify(stages, soc, 1500)
    assert multiplied(stages) == batch * m * n * align(k, 16)


@given(
    soc=socs,
    channels=st.integers(1, 200),
    size=st.integers(1, 60),
    outputs=st.integers(1, 200),
    kernel=st.integers(1, 7),
    stride=st.integers(1, 4),
    pad=st.integers(0, 3),
    images=st.integers(1, 3),
)
def test_convolution(soc, channels, size, outputs, kernel, stride, pad, images) -> None:  # type: ignore[no-untyped-def]
    if size + 2 * pad < kernel or pad >= kernel:
        return
    work = convolution(channels, size, outputs, kernel, stride, pad, images)
    stages, _ = lower_cube(work, soc, Expansion(soc))
    verify(stages, soc, 1500)
    product = product_of(work, soc)
    assert multiplied(stages) == images * product.m * outputs * product.k_blocks * 16
    assert moved(stages)["y", True] == images * product.m * align(outputs, 16) * 2


@given(
    soc=socs,
    rows=st.integers(1, 3000),
    cols=st.integers(1, 3000),
    kind=st.sampled_from(["none", "cols", "rows"]),
    over=st.sampled_from(["all", "row", "col"]),
)
def test_vector(soc, rows, cols, kind, over) -> None:  # type: ignore[no-untyped-def]
    x, y = ref("x", (rows, cols)), ref("y", (rows, cols))
    z = {"all": ref("z", (rows, cols)), "row": ref("z", (rows,)), "col": ref("z", (cols,))}[over]
    result = {
        "none": Stream(y),
        "cols": Stream(ref("y", (rows,)), "row"),
        "rows": Stream(ref("y", (cols,)), "col"),
    }[kind]
    steps = (Step("vmul"), Step("vcadd" if kind == "cols" else "vadd"))
    stage = lower_vector(
        VectorWork(rows, cols, steps, (Stream(x), Stream(z, over)), (result,), kind), soc, Expansion(soc)
    )
    verify([stage], soc, 1500)
    assert moved([stage])["x", False] == x.bytes
    assert moved([stage])["y", True] >= result.ref.bytes
    assert sum(group.count for group in stage.groups) <= soc.vector_units


@given(
    soc=socs,
    total=st.integers(1, 200_000),
    read=st.integers(2, 5000),
    write=st.integers(2, 5000),
    turns=st.booleans(),
)
def test_movement(soc, total, read, write, turns) -> None:  # type: ignore[no-untyped-def]
    x, y = ref("x", (total,)), ref("y", (total,))
    work = MoveWork((Copy(x, y, x.bytes, read, write),), (Step("vnchwconv"),) if turns else ())
    stage = lower_movement(work, soc, Expansion(soc))
    verify([stage], soc, 1500)
    assert moved([stage]) == {("x", False): x.bytes, ("y", True): y.bytes}


def test_formats_cover_the_products() -> None:
    soc = SOCS[0]
    assert matmul(8, 8, 8, soc).a.format is Format.FRACTAL_NZ
