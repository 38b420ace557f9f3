"""Arithmetic of affine expressions of loop variables."""

from __future__ import annotations

from ascendsim.isa.instructions import Affine


def plus(*values: Affine | int) -> Affine:
    """Returns the sum of affine expressions.

    >>> str(plus(Affine(2, (("i", 3),)), Affine(1, (("i", 1), ("j", 5))), 4))
    '7 + 4*i + 5*j'
    """
    base = 0
    terms: tuple[tuple[str, int], ...] = ()  # mostly of one value at most
    steps: dict[str, int] | None = None
    for value in values:
        if isinstance(value, int):
            base += value
            continue
        base += value.base
        if not value.terms:
            continue
        if not terms:
            terms = value.terms
            continue
        if steps is None:
            steps = dict(terms)
        for name, step in value.terms:
            steps[name] = steps.get(name, 0) + step
    if steps is not None:
        terms = tuple(steps.items())
    for _, step in terms:
        if not step:
            return Affine(base, tuple([term for term in terms if term[1]]))
    return Affine(base, terms)


def times(value: Affine, factor: int) -> Affine:
    """Returns factor * value."""
    if factor == 1:
        return value
    terms = value.terms
    if terms:
        terms = tuple([(name, step * factor) for name, step in terms]) if factor else ()
    return Affine(value.base * factor, terms)


def scaled(value: Affine, numerator: int, denominator: int) -> Affine:
    """The value times numerator / denominator, each coefficient rounded down."""
    return Affine(
        value.base * numerator // denominator,
        tuple((name, step * numerator // denominator) for name, step in value.terms),
    )
