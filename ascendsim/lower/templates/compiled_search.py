"""The innermost part of the search for tilings (`share_tiles`), by the interpreter or by compiled code.

Both are one and the same source, so their results are equal to the bit. Compiled code is forty times as fast,
but loading it takes as long as some dozens of searches: it is loaded when a process has made so many.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast, get_type_hints

import numpy as np

from ascendsim.lower.templates.product import Product, Rates
from ascendsim.lower.templates.share_tiles import BANDS, HOLDS, SIZES, most_chunks, tiles_of_share
from ascendsim.lower.templates.traffic import Share

T = TypeVar("T")
# numbers of a tiling (`share_tiles.SIZES`), and its score
Found: TypeAlias = tuple[list[int], float]
# of a share, tiles along n and along m, the best so far by depth, and what is left out (`tiles_of_share`)
ShareSearch: TypeAlias = Callable[
    [Share, tuple[Sequence[int], Sequence[int]], list[float], float, bool, bool], Iterator[Found]
]

# Searches of the process by the interpreter before compiled code pays, and where numba is loaded already.
SEARCHES, WITH_NUMBA = 60, 6
KERNELS_RAN = "numba.np.arraymath"  # loaded with the first call of compiled code


class ConvNumbers(NamedTuple):
    """What compiled code reads of `ConvGeometry`."""

    height: int
    width: int
    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    dilation_h: int
    dilation_w: int
    out_h: int
    out_w: int


class ProductNumbers(NamedTuple):
    """What compiled code reads of `Product`; of matrices `conv` says nothing."""

    conv: ConvNumbers
    batch: int
    images: int
    m: int
    n: int
    k_blocks: int
    mapped: bool
    unfolds: bool
    strips: int
    whole_width: int
    skips_rows: bool
    unfolding_efficiency: tuple[float, float]
    itemsize: int
    out_itemsize: int
    out_passes: float
    row_item: int
    operand_bytes: tuple[float, float]
    extra_bytes: int
    again_bytes: int
    result_bytes: float
    b_columns: int
    b_constant: bool
    serial_batch: bool
    bias_ahead: bool
    a_rows: str
    b_rows: str
    a_cut: str
    b_cut: str
    divided: str
    images_outside: bool


class RateNumbers(NamedTuple):
    """What compiled code reads of `Rates`."""

    cores: int
    l0a: int
    l0b: int
    l0c: int
    l1: int
    l1_to_l0a: float
    l1_to_l0b: float
    out: float
    port_in: float
    port_out: float
    l2_share: float
    dram: float
    half_duplex: bool
    l2_size: int
    l2_managed: bool
    latency: float
    start: float
    load2d_gap: float
    load3d_head: float
    load3d_rows: bool
    mmad_gap: float
    per_block: float
    odd_penalty: bool
    vector: float
    queue: int
    dispatch: float
    unaligned: float
    cut_rows: float
    cut_ragged: float
    request: int
    line: int
    holds_requests: bool
    waits: tuple[float, float, float]


NO_MAP = ConvNumbers(*[1] * len(ConvNumbers._fields))


def share_search(
    product: Product, rates: Rates, units: Sequence[int], depths: Sequence[int], compiled: bool | None = None
) -> ShareSearch:
    """What finds the tilings of shares of a product.

    Args:
        product, rates: What is cut, and for which chip.
        units: See `chunk_units`.
        depths: Of the Cube's queue for which chunks are made.
        compiled: Whether compiled code does it; None = if that pays.
    """
    if compiled is None:
        compiled = _BUDGET.pays()
    code: Callable[..., int] = tiles_of_share
    numbers: tuple[Any, Any] = product, rates
    vector: Callable[[Sequence[int]], Any] = list
    scores: Callable[[Sequence[float]], Any] = list
    if compiled:
        code, numbers = _COMPILED, (product_numbers(product), rate_numbers(rates))
        vector, scores = _integers, _floats
    room = most_chunks(len(depths))
    known = vector(units), vector(depths)

    def search(
        share: Share,
        tiles: tuple[Sequence[int], Sequence[int]],
        by_depth: list[float],
        within: float,
        alone: bool,
        some: bool,
    ) -> Iterator[Found]:
        most = len(tiles[0]) * len(tiles[1]) * len(HOLDS) * len(BANDS) * room
        sizes, cycles = np.empty((most, SIZES), np.int64), np.empty(most)
        best = scores(by_depth)
        count = code(
            *numbers,
            share,
            vector(tiles[0]),
            vector(tiles[1]),
            *known,
            best,
            within,
            alone,
            some,
            vector([0] * room),
            vector([0] * room),
            sizes,
            cycles,
        )
        by_depth[:] = map(float, best)
        return zip(sizes[:count].tolist(), cycles[:count].tolist(), strict=True)

    return search


def product_numbers(product: Product) -> ProductNumbers:
    """The product in numbers."""
    conv = NO_MAP if product.conv is None else _numbers(ConvNumbers, product.conv)
    return _numbers(ProductNumbers, product, conv=conv)


@lru_cache(maxsize=256)
def rate_numbers(rates: Rates) -> RateNumbers:
    """The rates in numbers."""
    return _numbers(RateNumbers, rates)


def _numbers(kind: Callable[..., T], source: object, **given: object) -> T:
    """A named tuple of attributes of the same names, in the types that it says, since compiled code is made
    for types.
    """
    values = dict(given)
    for name, change in _changes(kind).items():
        if name not in values:
            values[name] = change(getattr(source, name))
    return kind(**values)


@lru_cache(maxsize=8)
def _changes(kind: Callable[..., object]) -> dict[str, Callable[[Any], object]]:
    """What makes a value of the type that a field has, by field."""
    hints = get_type_hints(kind)
    return {
        name: hint if hint in (int, float, bool, str) else lambda value: tuple(map(float, value))
        for name, hint in hints.items()
    }


def _integers(values: Sequence[int]) -> Any:
    return np.array(values, np.int64)


def _floats(values: Sequence[float]) -> Any:
    return np.array(values, np.float64)


class _Budget:
    """Searches that the interpreter has made in this process."""

    def __init__(self) -> None:
        self.made, self.loaded = 0, False

    def pays(self) -> bool:
        """Whether compiled code is there, or worth to be loaded by now."""
        self.made += 1
        if not self.loaded:
            self.loaded = self.made > (WITH_NUMBA if KERNELS_RAN in sys.modules else SEARCHES)
        return self.loaded


_BUDGET = _Budget()


class _Compiled:
    """`tiles_of_share` in compiled code, loaded with the first call."""

    def __init__(self) -> None:
        self._code: Callable[..., int] | None = None

    def __call__(self, *arguments: object) -> int:
        if self._code is None:
            from ascendsim_kernels.jit import compiled_with_callees  # brings numba

            self._code = cast(
                "Callable[..., int]", compiled_with_callees(tiles_of_share, "ascendsim", arguments)
            )
        return self._code(*arguments)


_COMPILED = _Compiled()
