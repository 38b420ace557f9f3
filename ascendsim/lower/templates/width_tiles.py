"""The tile form of a convolution: which strips of columns are worth a look, and how cores share them.

To the search a strip is an image (`strips`): tiles are runs of whole strip rows, bands hold the input rows
under them. A strip is as wide as a tile in L0C at most, but for maps of height 1, whose strips may hold
several tiles side by side.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ascendsim.core.formats import FRACTAL_BYTES, FRACTAL_ROWS, align, ceil_div
from ascendsim.lower.templates.conv import is_direct
from ascendsim.lower.templates.product import Product, Rates
from ascendsim.lower.templates.strips import Strip, strip_of

ROOM = 1 / 2  # of L1: what two bands of the row form may take before strips are looked at


def strips_may_pay(product: Product, rates: Rates) -> bool:
    """Whether rows are so long that two bands of input rows for 16 positions, all of k, fill much of L1.

    Bands of more rows, which would read the halo less often, do not fit then.
    """
    conv = product.conv
    if conv is None or is_direct(conv):
        return False
    return 2 * product.a_bytes(product.m, min(FRACTAL_ROWS, conv.out_w), product.k_blocks) > ROOM * rates.l1


def strip_views(product: Product, rates: Rates) -> Iterator[Product]:
    """A product whose images are strips, for each width of strips that is worth a look; the last one is the
    narrowest, which fits where any does.
    """
    conv = product.conv
    if conv is None or is_direct(conv):
        return
    most = rates.l0a // 2 // FRACTAL_BYTES * FRACTAL_ROWS
    widths: dict[int, None] = {}
    for wanted in (64, 32, 16, 8, 4, 2, 1):
        if wanted * FRACTAL_ROWS <= most or conv.out_h == 1:
            strips = ceil_div(conv.out_w, wanted * FRACTAL_ROWS)
            widths[min(conv.out_w, align(ceil_div(conv.out_w, strips), FRACTAL_ROWS))] = None
    for columns in widths:
        strip = strip_of(conv, columns)
        yield replace(product, conv=strip, images=strip.batch, m=conv.out_h * columns)


def whole_images(strip: Strip, share: int) -> int:
    """Strips that a core takes at most when cores share images first and then the strips of one.

    Args:
        strip: The geometry.
        share: Strips of a core if they could be dealt out one by one.
    """
    images, parts = strip.batch // strip.count, ceil_div(strip.batch, share)
    if parts <= images:
        return ceil_div(images, parts) * strip.count
    return ceil_div(strip.count, parts // images)


def image_share(strip: Strip, share: int) -> tuple[int, int]:
    """Images and columns of the result that a core with so many strips takes."""
    if share >= strip.count:
        return share // strip.count, strip.whole_out
    return 1, share * strip.out_w
