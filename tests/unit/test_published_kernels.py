"""Kernels of examples/kernels/published: their values at small sizes; rows, and the page that shows them."""

import importlib
import importlib.util
import itertools
from pathlib import Path

import numpy as np
import pytest

import ascendsim as asim
from ascendsim import asc
from tests.support.gate import in_turn

ROOT = Path(__file__).parents[2]
_spec = importlib.util.spec_from_file_location("make_kernels_page", ROOT / "scripts" / "make_kernels_page.py")
page_maker = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(page_maker)
LAUNCHES = page_maker.published()
matmuls, adds, vectors, fused, int8, flash, grouped, split_k = (
    importlib.import_module(f"published.{name}")
    for name in ("matmul", "add", "vector", "fused", "int8", "attention", "grouped", "split_k")
)
Plan = matmuls.Plan
PAGE = page_maker.TARGET.read_text(encoding="utf-8")


def numbers(*shape, dtype="float16"):
    return np.random.default_rng(1).integers(-4, 5, shape).astype(dtype)


PLANS = {
    "packets": (Plan(base=(32, 32, 16), steps=(4, 2)), (64, 64, 128)),
    "one_slot": (Plan(base=(32, 32, 16), steps=(1, 1), slots=1), (64, 64, 64)),
    "transposed": (Plan(base=(32, 48, 32), steps=(2, 2), transposed=True), (64, 96, 160)),
    "fractals": (Plan(base=(32, 32, 32), steps=(2, 1), fractals=True), (32, 64, 128)),
    "units": (
        Plan(base=(32, 32, 32), steps=(2, 2), unit_flag=True, quant=asc.QuantModes.F322F16),
        (64, 64, 64),
    ),
    "turned": (Plan(base=(16, 32, 32), steps=(2, 2), turned=True), (64, 64, 192)),
    "kept": (Plan(base=(32, 32, 32), steps=(2, 1), keep_a=True, along_rows=True), (64, 96, 64)),
    "ragged": (Plan(base=(32, 64, 32), steps=(2, 2)), (53, 100, 112)),
    "ragged_transposed": (
        Plan(base=(32, 64, 32), steps=(2, 2), transposed=True, along_rows=True),
        (53, 99, 80),
    ),
}


@pytest.mark.parametrize(("name", "share"), in_turn([*PLANS], ["blocks", "rounds", "swizzled", "columns"]))
def test_a_plan_gives_the_product(name, share):
    plan, (m, n, k) = PLANS[name]
    size = m, n, k
    shares = {
        "blocks": matmuls.by_blocks(size, (-(-m // 2), -(-n // 2))),
        "rounds": matmuls.by_blocks(size, (-(-m // 4), -(-n // 2)), 2),
        "swizzled": matmuls.swizzled(size, plan.base[:2], 2),
        "columns": matmuls.swizzled(size, plan.base[:2], 2, True),
    }
    a, b = numbers(m, k), numbers(k, n)
    given = np.ascontiguousarray(b.T) if plan.transposed else b
    if plan.fractals:
        given = np.ascontiguousarray(b.reshape(k, n // 16, 16).transpose(1, 0, 2))
    c = np.full((m, n), 99, np.float32 if plan.quant is asc.QuantModes.NoQuant else np.float16)
    result = asim.run_kernel(matmuls.matmul, 4, a, given, c, size, plan, shares[share])
    np.testing.assert_array_equal(c, (a.astype(np.float32) @ b.astype(np.float32)).astype(c.dtype))
    assert result.findings == ()


@pytest.mark.parametrize("by_columns", [False, True])
def test_swizzles_deal_every_tile_out_once(by_columns):
    size, tile = (1000, 1500, 1), (128, 256)
    share = matmuls.swizzled(size, tile, 3, by_columns)
    pieces = [piece for core in range(7) for piece in share(core, 7)]
    area = np.zeros(size[:2], int)
    for piece in pieces:
        area[piece.top : piece.top + piece.height, piece.left : piece.left + piece.width] += 1
    assert (area == 1).all()
    first = [(piece.top, piece.left) for piece in share(0, 1)][:4]
    down, right = ((0, 256), (128, 0)) if by_columns else ((128, 0), (0, 256))
    assert first == [(0, 0), down, tuple(2 * place for place in down), right]


def test_additions_add():
    x, y = numbers(20, 256), numbers(20, 256)
    runs = [
        (adds.add_single, (512,)),
        (adds.add_scalar, (512,)),
        (adds.add_double, (512, True, adds.IN_A_ROW)),
        (adds.add_double, (384, False, adds.APART)),
    ]
    for kernel, rest in runs:
        z = np.zeros_like(x)
        result = asim.run_kernel(kernel, 3, x, y, z, 20, 256, *rest)
        np.testing.assert_array_equal(z, x + y)
        assert result.findings == ()


def test_fractals_at_either_distance():
    x = numbers(256, 256)
    for column in (48, 49):
        z = np.zeros((16, 256, 16), np.float16)
        asim.run_kernel(vectors.nd_to_nz, 4, x, z, 256, (48, 128), column, (2, 2))
        np.testing.assert_array_equal(z, x.reshape(256, 16, 16).transpose(1, 0, 2))


def test_gelu_behind_a_product():
    size = m, n, k = 64, 128, 64
    plan, share = Plan(base=(32, 64, 32), steps=(1, 1), unit_flag=True), matmuls.by_blocks(size, (32, 128))
    a, b, c = numbers(m, k) / 8, numbers(k, n) / 8, np.zeros((m, n), np.float32)
    result = asim.run_kernel(
        fused.matmul_gelu, 2, a.astype("float16"), b.astype("float16"), c, size, plan, share
    )
    x = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(c, x / (1 + np.exp(-1.595769 * (x + 0.044715 * x**3))), rtol=1e-4, atol=1e-6)
    assert result.findings == ()


def dequantised(cores, size, plan, slices, kernel, last):
    *given, d = int8.arrays(size, slices)
    random = np.random.default_rng(2)
    for array in given[:2]:
        array[:] = random.integers(-9, 9, array.shape)
    for array in given[2:4]:
        array[:] = 2.0 ** random.integers(-3, 3, array.shape)
    args = *given, asc.GlobalAddress(d, asc.bfloat16), size, plan, last
    result = asim.run_kernel(kernel, cores, *args, soc="Ascend910B3")
    a, b, scale, token = given[:4]
    expected = (a.astype(np.int32) @ b.T.astype(np.int32)) * scale * token[:, None]
    got = (d.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_allclose(got, expected, rtol=2**-8)
    assert result.findings == ()


def test_int8_products_go_through_the_vector_cores():
    size, plan = (80, 256, 192), Plan(base=(64, 128, 32), steps=(2, 2), transposed=True, turned=True)
    dequantised(3, size, plan, 0, int8.quant_matmul, matmuls.swizzled(size, (64, 128)))


def test_int8_products_in_slices_of_k():
    size, plan = (80, 256, 320), Plan(base=(64, 128, 32), steps=(2, 2), transposed=True, unit_flag=True)
    assert int8.slices_of(size, plan, 3) == 2
    assert int8.slices_of(size, plan, 20) == 5
    dequantised(3, size, plan, 3, int8.quant_split_matmul, 3)


@pytest.mark.parametrize(("ring", "workers"), [(1, 1), (3, 2)])
def test_groups_of_rows_have_weights_of_their_own(ring, workers):
    groups, random = grouped.Groups(2, 256, 512, 256, (128, 512)), np.random.default_rng(4)
    plan = Plan((128, 256, 128), (2, 1), fractals=True, unit_flag=True, keep_a=True, ring=ring)
    args = x, weight, scale, token, _, y = grouped.arrays(groups, plan, 2)
    for array in (x, weight):
        array[:] = random.integers(-9, 9, array.shape)
    for array in (scale, token):
        array[:] = random.random(array.shape) / 8
    result = asim.run_kernel(grouped.grouped_matmul, 2, *args, groups, plan, workers)
    rows = [weight[at : at + 16].transpose(0, 2, 1).reshape(512, 256) for at in (0, 16)]
    sums = [x[at * 256 :][:256].astype(np.int64) @ rows[at].T.astype(np.int64) for at in (0, 1)]
    wide = np.concatenate([part * scale[at * 512 :][:512] for at, part in enumerate(sums)]) * token[:, None]
    np.testing.assert_allclose(y, wide / (1 + np.exp(-1.702 * wide)), rtol=2e-3, atol=1e-4)
    assert result.findings == ()


@pytest.mark.parametrize(
    ("cores", "size", "tile", "slots"),
    [(2, (96, 112, 80), (64, 32, 48), (1, 2)), (3, (300, 200, 130), (128, 256, 64), (2, 1))],
)
def test_slices_of_k_add_up_on_one_core(cores, size, tile, slots):
    m, n, k = size
    a, b, sums, c = numbers(m, k), numbers(n, k), np.full((m, n), 9, np.float32), numbers(m, n)
    laid = np.zeros(matmuls.up(m, 16) * matmuls.up(k, 16), np.float16)
    plan = split_k.Slices(tile, slots)
    result = asim.run_kernel(split_k.split_matmul, cores, a, b, laid, sums, c, size, plan)
    np.testing.assert_array_equal(sums, a.astype(np.float32) @ b.T.astype(np.float32))
    np.testing.assert_array_equal(c, sums.astype(np.float16))
    assert result.findings == ()


def test_a_matrix_that_the_vector_cores_lay_out():
    m, n, k = size = (96, 100, 64)
    plan = Plan((32, 64, 32), (2, 2), quant=asc.QuantModes.F322F16, fractals=True)
    a, b, c = numbers(m, k), numbers(k, n), numbers(m, n)
    laid = np.zeros(k * matmuls.up(n, 16), np.float16)
    args = a, b, laid, c, size, plan, matmuls.by_blocks(size, (48, 100))
    assert asim.run_kernel(split_k.laid_matmul, 2, *args).findings == ()
    np.testing.assert_array_equal(c, (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16))


def test_tiles_of_a_snake_are_neighbours_and_all_there():
    for down, across in ((3, 20), (8, 32), (16, 45), (2, 61)):
        places = list(split_k._snake(down, across))
        assert sorted(places) == [(row, column) for row in range(down) for column in range(across)]
        jumps = sum(abs(a - c) + abs(b - d) != 1 for (a, b), (c, d) in itertools.pairwise(places))
        assert jumps < max(2, across // split_k.BAND)  # only from one band to the next


@pytest.mark.parametrize(("teams", "keys"), [(2, 512), (1, 2304)])  # the second goes round the rings
def test_attention_through_rings(teams, keys):
    random = np.random.default_rng(3)
    q, k, v = (random.standard_normal((n, 128)).astype(np.float16) for n in (128 * teams, keys, keys))
    out = np.zeros(q.shape, np.float32)
    result = asim.run_kernel(flash.attention, teams, q, k, v, out, *flash.room(teams), keys)
    shares = np.exp(q.astype(np.float64) @ k.astype(np.float64).T / np.sqrt(128))
    np.testing.assert_allclose(out, shares @ v / shares.sum(1, keepdims=True), rtol=2e-3, atol=2e-4)
    assert result.findings == ()


@pytest.mark.parametrize(
    ("keys", "ring", "lost", "kinds"),
    [
        (512, 0, "pop", {"cores", "left set"}),
        (512, 1, "pop", {"cores", "left set"}),
        (2304, 0, "_wait", {"left set"}),  # weights come after their scores were read, so places are free
    ],
)
def test_attention_that_does_not_wait_for_the_other_core(monkeypatch, keys, ring, lost, kinds):
    flags, wait = [flash.SCORES, flash.WEIGHTS, flash.SUMS], getattr(flash.Ring, lost)
    late = []

    def skipped(self):
        if self.flag == flags[ring]:
            late.append(self)
            self.waited += 1
        else:
            wait(self)

    monkeypatch.setattr(flash.Ring, lost, skipped)
    q, k, v = (np.ones((n, 128), np.float16) for n in (128, keys, keys))
    out = np.zeros(q.shape, np.float32)
    result = asim.run_kernel(flash.attention, 1, q, k, v, out, *flash.room(1), keys)
    assert late
    assert {one.kind for one in result.findings} == kinds


def test_every_row_is_on_the_page_with_what_is_published_of_it():
    assert set(page_maker.predictions(PAGE)) == set(LAUNCHES) == set(page_maker.given())


def test_the_summary_follows_from_the_table():
    notes = {number: LAUNCHES[number].note for number in sorted(LAUNCHES)}
    made = page_maker.section(page_maker.predictions(PAGE), notes)
    assert page_maker.BEGIN + made + page_maker.END in PAGE


@pytest.mark.parametrize("number", [14, 18, 23, 28, 30, 208, 240])
def test_the_page_shows_what_the_machine_says(number):
    shown = page_maker.predictions(PAGE)[number]
    assert page_maker.number_text(LAUNCHES[number].predict()) == page_maker.number_text(shown)


def test_a_row_far_off_has_a_reason():
    assert page_maker.MISSING not in PAGE
    lines = page_maker.given()
    assert "- row 3 (+226 %): no reason is known yet." in page_maker.summary(
        {3: 1000.0, 5: 264.02}, lines, {}
    )
    text = "\n".join(page_maker.summary({1: 1.0, 5: 264.02, 6: 1.0}, lines, {5: "smaller"}))
    assert "3 rows have a kernel; the figures of 1 are not known here. Of the 2 that are," in text
    assert "the mean error is 50.0 %, and 1 (50 %) lie within 25 %" in text
    assert "- row 1 (-100 %): the scalar unit" in text
    assert "- row 5: smaller." in text


def test_unknown_rows_are_refused():
    with pytest.raises(SystemExit, match=r"no kernel for rows \['999'\]"):
        page_maker.main(["999"])
