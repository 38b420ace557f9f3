"""Cube work: how it is shared among cores and tiled, and the stage with a given tiling.

The closed form picks the tiling. Callers that can time programs take the best few from `cube_options` (see
`lower.tiling_search`). What a core does with its share is in `cube_block`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import dropwhile

from ascendsim.core.errors import CompileError
from ascendsim.core.formats import BLOCK_BYTES, FRACTAL_ROWS, Format, c0, ceil_div
from ascendsim.isa.program import BlockGroup
from ascendsim.lower.templates import conv as unfold
from ascendsim.lower.templates.bias import bias_passes, has_table, most_columns, most_share
from ascendsim.lower.templates.cube_block import CubeWriter
from ascendsim.lower.templates.cube_notes import AXES
from ascendsim.lower.templates.even_tiling import (
    cores_of_columns,
    cores_of_images,
    even_tiling,
    map_tiling,
    quickest_even,
)
from ascendsim.lower.templates.product import Product, rates_of
from ascendsim.lower.templates.stage import Stage, share_groups, share_origins, sizes_of
from ascendsim.lower.templates.steps import Expansion
from ascendsim.lower.templates.strip_block import strip_groups
from ascendsim.lower.templates.tiling import Tiling, best_tilings
from ascendsim.lower.templates.way_out import fixpipe_takes, vector_passes
from ascendsim.opset.work import CubeWork, Ref, Stream, VectorWork
from ascendsim.soc.spec import COLUMNS, QUICKEST, SocSpec


def lower_cube(work: CubeWork, soc: SocSpec, expansion: Expansion) -> tuple[list[Stage], VectorWork | None]:
    """Blocks of Cube work, with the tiling that the closed form likes best.

    Returns:
        The Cube's stage, and vector work that must follow it as a task of its own, if any.

    Raises:
        CompileError: If the Cube lacks the type or no tile fits.
    """
    return [cube_options(work, soc, expansion)[0]()], vector_rest(work, soc)


def cube_options(work: CubeWork, soc: SocSpec, expansion: Expansion) -> list[Callable[[], Stage]]:
    """What makes the stage with each of the best few tilings, by the closed form's score; of work that is to
    be tiled as if it had no epilogue, then the best few with it.

    Raises:
        CompileError: If the Cube lacks the type or no tile fits.
    """
    product = product_of(work, soc)

    def staged(tilings: Sequence[Tiling]) -> list[Callable[[], Stage]]:
        return [partial(cube_stage, work, product, tiling, soc, expansion) for tiling in tilings]

    if even := list(dropwhile(_does_not_fit, staged(_even(work, product, soc)))):
        return even
    fewer = soc
    forward = product.conv is not None and not work.transposed
    if soc.kernels.even_products == COLUMNS or (soc.kernels.even_images and forward):
        fewer = replace(soc, ai_cores=cores_of_images(product, soc.ai_cores))
    elif soc.kernels.even_columns:
        fewer = replace(soc, ai_cores=cores_of_columns(product, soc.ai_cores))
    tilings = list(best_tilings(product, fewer))
    if work.plain_tiling:  # among all tilings time tells whether reading more is worth a hidden epilogue
        known = {replace(tiling, cycles=0) for tiling in tilings}
        others = best_tilings(product_of(replace(work, plain_tiling=False), soc), fewer)
        tilings += [tiling for tiling in others if replace(tiling, cycles=0) not in known]
    return staged(tilings)


def _does_not_fit(option: Callable[[], Stage]) -> bool:
    """Whether L1 and UB have no room for what the epilogue reads beside the tile."""
    try:
        option()
    except CompileError:
        return True
    return False


def _even(work: CubeWork, product: Product, soc: SocSpec) -> Sequence[Tiling]:
    """The tilings that kernels which cut evenly may take; none if they do not, or that is not known."""
    rates, rule = rates_of(soc, product.dtype, work.conv is not None), soc.kernels.even_products
    if rule == QUICKEST:
        return quickest_even(product, rates)
    if rule != COLUMNS:
        return ()
    one = map_tiling(product, rates) if work.transposed else even_tiling(product, rates, work.transpose_a)
    return () if one is None else (one,)


def vector_rest(work: CubeWork, soc: SocSpec) -> VectorWork | None:
    """Vector work that must follow as a task of its own: on split cores an epilogue that FIXPIPE cannot
    do.
    """
    if not soc.split_cores or fixpipe_takes(work.epilogue):
        return None
    result = Stream(work.out)
    return VectorWork(work.m * work.batch, work.n, work.epilogue, (result, *work.epilogue_inputs), (result,))


def cube_stage(work: CubeWork, product: Product, tiling: Tiling, soc: SocSpec, expansion: Expansion) -> Stage:
    """Blocks of Cube work with a given tiling.

    Raises:
        CompileError: If the operands of its epilogue do not fit beside its tiles.
    """
    refs = [
        *(stream.ref for stream in work.epilogue_inputs),
        *(side.ref for side in work.side_outputs),
        *(item.ref for item in work.sums),
    ]
    sizes = sizes_of(work.a, work.b, work.bias, work.out, *refs)
    if tiling.columns:
        return Stage(tuple(strip_groups(work, product, tiling, soc, expansion)), sizes=sizes)
    axes = [
        (product.batch, tiling.share_batch),
        (product.images, tiling.share_images),
        (product.m, tiling.share_m),
        (product.n, tiling.share_n),
    ]
    groups = [
        BlockGroup(
            CubeWriter(work, product, tiling, soc, expansion, (m, n)).write(batch, images, m, n), count
        )
        for (batch, images, m, n), count in share_groups(axes)
    ]
    if expansion.noted:
        named = [(name, *axis) for name, axis in zip(AXES, axes, strict=True)]
        groups = [replace(one, origins=at) for one, at in zip(groups, share_origins(named), strict=True)]
    return Stage(tuple(groups), sizes=sizes)


def product_of(work: CubeWork, soc: SocSpec) -> Product:
    """What the tiling search needs to know; a shared B turns the batch into images."""
    block = c0(work.dtype)
    conv = work.conv
    if conv is None:
        images, m, k_blocks = (work.batch if work.b_shared else 1), work.m, ceil_div(work.k, block)
    else:
        images, m = conv.batch, conv.out_h * conv.out_w
        k_blocks = conv.kernel_d * ceil_div(conv.channels, block) * unfold.taps(conv)
    passes = vector_passes(work, soc)
    brought = sum(stream.ref.dtype.itemsize for stream in work.epilogue_inputs if stream.over == "all")
    again = 0 if soc.l2.software_managed else sum(map(partial(_again, work), work.epilogue_inputs))
    stored = sum(side.ref.dtype.itemsize for side in work.side_outputs)
    if work.plain_tiling:
        passes, brought, stored, again = bias_passes(work, soc), 0, 0, 0
    batch = 1 if conv is None and work.b_shared else work.batch
    row_major = (Format.ND, Format.NCHW)
    a_rows = ("m" if work.transpose_a else "k") if conv is None and work.a.format in row_major else ""
    b_rows = ("k" if work.transpose_b else "n") if conv is None and work.b.format in row_major else ""
    kept = (
        []
        if soc.split_cores
        else [stream for stream in work.epilogue_inputs if stream.over in ("col", "one")]
    )
    return Product(
        batch,
        images,
        m,
        work.n,
        k_blocks,
        conv,
        work.out.dtype.itemsize,
        work.dtype.value,
        passes,
        stored,
        most_columns(work, soc),
        a_rows,
        b_rows,
        brought,
        max(FRACTAL_ROWS, block)
        if conv is None and work.b.format is Format.FRACTAL_NZ and not work.transpose_b
        else FRACTAL_ROWS,
        batch > 1 and (work.bias is not None or bool(kept)),
        work.b.constant,
        _cut(work.a, soc) if a_rows else "",
        _cut(work.b, soc) if b_rows else "",
        most_share(work, soc),
        work.out.dtype.itemsize if conv is not None and work.out.format in row_major else 0,
        work.bias is not None and not has_table(soc),
        again,
        _divided(conv is not None, soc),
        conv is not None and conv.batch > (soc.kernels.tuned_batch or conv.batch),
        soc.kernels.tuned_gradients and _by_image(work),
    )


def _by_image(work: CubeWork) -> bool:
    """Whether this is the gradient of a map, of one group, with one tap or a stride that is not 1."""
    conv = work.conv
    if conv is None or not work.transposed or work.batch > 1:
        return False
    spread = conv.height * conv.width > math.prod(work.a.shape[2:][-2:])  # by zeros in between
    return unfold.taps(conv) == 1 or spread


def _divided(maps: bool, soc: SocSpec) -> str:
    """`Product.divided` of a convolution or of a product of matrices."""
    if maps:
        return "nk" if soc.kernels.divides_maps else ""
    return "mnk" if soc.kernels.divides_matrices else ""


def _again(work: CubeWork, stream: Stream) -> int:
    """Bytes of an operand of the epilogue that products read after others have."""
    if stream.over != "all" or stream.ref.shape == work.out.shape or work.conv is not None:
        return 0
    _, count = stream.ref.matrices(work.out) or (1, work.batch)
    return work.m * work.n * (work.batch - count) * stream.ref.dtype.itemsize


def _cut(operand: Ref, soc: SocSpec) -> str:
    """How a row-major matrix comes; see `Product.a_cut`."""
    if not soc.split_cores or operand.format is not Format.ND:
        return ""
    return "ragged" if operand.shape[-1] * operand.dtype.itemsize % BLOCK_BYTES else "rows"
