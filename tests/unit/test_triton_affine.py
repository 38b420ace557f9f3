"""Affine maps of compiled modules, against Python's own arithmetic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendsim.core.errors import InputError
from ascendsim.triton.affine import affine_map

NUMBERS = st.integers(1, 9).map(str)
LEAVES = st.one_of(st.sampled_from(["d0", "d1", "s0"]), NUMBERS)
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*"]), inner),
        st.tuples(inner, st.sampled_from(["floordiv", "ceildiv", "mod"]), NUMBERS),
    ),
    max_leaves=12,
)


def text(tree):
    return tree if isinstance(tree, str) else f"({text(tree[0])} {tree[1]} {text(tree[2])})"


def value(tree, names):
    if isinstance(tree, str):
        return names.get(tree) if tree in names else int(tree)
    left, right = value(tree[0], names), value(tree[2], names)
    return {
        "+": lambda: left + right,
        "-": lambda: left - right,
        "*": lambda: left * right,
        "floordiv": lambda: left // right,
        "ceildiv": lambda: -(-left // right),
        "mod": lambda: left % right,
    }[tree[1]]()


@given(EXPRESSIONS, EXPRESSIONS, st.tuples(*[st.integers(-1000, 1000)] * 3))
def test_maps_are_what_their_text_says(first, second, values):
    made = affine_map(f"(d0, d1)[s0] -> ({text(first)}, {text(second)})")
    names = dict(zip(("d0", "d1", "s0"), values, strict=True))
    assert made(values) == [value(first, names), value(second, names)]


def test_products_bind_before_sums_and_go_from_left_to_right():
    assert affine_map("()[s0, s1] -> (s0 - s1 * 2 - 1 floordiv 2 mod 3)")([9, 2]) == [5]


@pytest.mark.parametrize(
    "bad", ["", "(d0) -> (d1)", "(d0) -> (d0 +)", "(d0) -> ((d0)", "(d0) -> (__import__('os'))", "d0 -> d0"]
)
def test_what_is_no_map_is_refused(bad):
    with pytest.raises(InputError, match="affine map cannot be read"):
        affine_map(bad)
