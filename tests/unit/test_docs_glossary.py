"""The glossary has every term of the field that public names are made of."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import ascendsim as asim

PAGE = Path(__file__).resolve().parents[2] / "docs" / "glossary.md"
# words of everyday English and of Python; all others need a line in the glossary
PLAIN = """
    a actual add added additions advice advise after allow alternative anchor anew apply args array ascend ask
    at ax base
    before best build builder by bytes captured carried check choices code column compare comparison conf
    context contributions count counter csv dataframe decided declined disable display drawings dump
    duration elimination enable error example execute export failed figures file fill first fit flags
    folder for form found fresh from gain goes high holders ids image initial input insert key larger last
    left limit line load loaded log low make maximize memory metadata minimize modify most multi name
    named network new note num of old optimization optimize optimized option order other out output
    parallel part path place planned plot predecessors prefix progress proposals random read reasons remedy
    remove rename reorder replace report retry reuse rows run save search seed select self set settings sim
    simulate simulation since single size skipped sorting start statistic stem subject summary sync table
    time timed
    title to too top topo type unfused unsupported unused up uses walks where which with x y
"""


def names() -> Iterator[str]:
    """Public names, those of their members, and of all arguments."""
    for name in asim.__all__:
        thing = getattr(asim, name)
        if inspect.ismodule(thing):  # a package that is called as its main function
            thing = getattr(thing, name, thing)
        members = inspect.getmembers(thing) if inspect.isclass(thing) else []
        for own, value in [(name, thing), *members]:
            if own.startswith("_"):
                continue
            yield own
            if inspect.isfunction(value) or inspect.isfunction(getattr(value, "__init__", None)):
                yield from inspect.signature(value).parameters


def terms() -> set[str]:
    """Words that the glossary explains, in its own order of letters."""
    explained = re.findall(r"^\| ([^|]+) \|", PAGE.read_text(), re.MULTILINE)
    return {word for term in explained for word in words(term)}


def words(name: str) -> set[str]:
    """Words of a name in small letters, in the singular."""
    parts = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z0-9]+(?![a-z])", name)
    return {re.sub(r"(?<=ss|ch)es$|(?<=\w[^s])s$", "", part.lower()) for part in parts}


def test_every_term_is_explained() -> None:
    used = {word for name in names() for word in words(name)}
    assert used - words(PLAIN) - terms() == set()


def test_no_everyday_word_is_kept_in_vain() -> None:
    used = {word for name in names() for word in words(name)}
    assert words(PLAIN) - used == set()
