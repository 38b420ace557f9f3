"""What the tiling search knows: the sizes of a product and the rates of a chip, both hashable so that
searches can be remembered.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from functools import cached_property

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import CompileError
from ascendsim.core.formats import (
    BLOCK_BYTES,
    FRACTAL_BYTES,
    FRACTAL_ROWS,
    L0C_ELEMENT_BYTES,
    TRANSACTION_BYTES,
    align,
    ceil_div,
)
from ascendsim.isa.cost_model import Waiting, slowdown
from ascendsim.isa.instructions import LOAD3D_STRIDES
from ascendsim.lower.templates.conv import (
    input_rows,
    is_direct,
    matrix_bytes,
    positions_bytes,
    run_grain,
    taps,
    unfolded_bytes,
)
from ascendsim.lower.templates.strips import Strip, strip_columns
from ascendsim.opset.work import ConvGeometry
from ascendsim.soc.spec import SocSpec

ACCUMULATOR_BYTES = FRACTAL_ROWS * FRACTAL_ROWS * L0C_ELEMENT_BYTES  # of one block in L0C


@dataclass(frozen=True)
class Product:
    """What the search needs to know of Cube work (hashable).

    Attributes:
        batch: Products with operands of their own.
        images: Products that share B (images of a convolution, batched A against one B).
        m, n: Useful rows and columns of one product.
        k_blocks: Blocks of k0 along k.
        conv: Geometry if A is unfolded.
        out_itemsize: Bytes of an output element.
        out_passes: Vector passes over the output besides the move out of L0C, each as long as one over 16-bit
            elements.
        extra_out_bytes: Bytes an output element that the epilogue stores besides.
        a_rows, b_rows: Axis along which a row-major operand is contiguous ("m", "k" or "n"), "" for blocked
            formats.
        extra_in_bytes: Bytes an output element that the epilogue reads.
        again_bytes: Bytes of these that another product has read before (operands that serve several).
        most_n: Columns that a tile may have at most (values in the bias table).
        b_columns: Columns of a block in which B is stored: 16, or 32 for int8 matrices. A tile of B holds
            whole ones.
        serial_batch: Whether a core begins a product of the batch only when the one before it has left, since
            both bring columns of their own (bias, scale) to the same place.
        b_constant: Whether B are weights, which no task before has brought into L2.
        a_cut, b_cut: What brings a row-major operand: "" = a plain copy, "rows" = its rows are cut into
            fractals on the way, "ragged" = so are rows that do not fill blocks of 32 bytes.
        most_share_n: Columns that a block takes at most, for which it keeps values (bias, scale). A product
            with more has more blocks than cores.
        row_item: Bytes of an element of a map that is stored row by row, one channel after the other; 0 = in
            blocks of channels.
        bias_ahead: Whether the vector unit writes the bias into L0C, a tile ahead where that is known (see
            `bias`).
        divided: Axes that shares, chunks and tiles cut into equal parts ("nk" of maps, "mnk" of matrices); of
            others the last part may be smaller (`kernels.divides_maps`, `kernels.divides_matrices`).
        images_outside: Whether a core goes through all columns of an image before the next one, so that
            weights that L1 does not hold pass once an image (`kernels.tuned_batch`).
        images_first: Whether cores share the images before anything else, as evenly as their number allows
            (`kernels.tuned_gradients`).
    """

    batch: int
    images: int
    m: int
    n: int
    k_blocks: int
    conv: ConvGeometry | None
    out_itemsize: int
    dtype: str
    out_passes: float = 0
    extra_out_bytes: int = 0
    most_n: int = 1 << 30
    a_rows: str = ""
    b_rows: str = ""
    extra_in_bytes: int = 0
    b_columns: int = FRACTAL_ROWS
    serial_batch: bool = False
    b_constant: bool = False
    a_cut: str = ""
    b_cut: str = ""
    most_share_n: int = sys.maxsize
    row_item: int = 0
    bias_ahead: bool = False
    again_bytes: int = 0
    divided: str = ""
    images_outside: bool = False
    images_first: bool = False

    def b_blocks(self, tile_n: int) -> int:
        """Blocks of 16 columns that a tile of B holds in L1."""
        return blocks_of_b(self, tile_n)

    def a_bytes(self, share_m: int, run: int, k_blocks: int) -> int:
        """What L1 holds of A for the longest runs of at most so many rows, where a core takes so many."""
        return held_bytes(self, share_m, run, k_blocks)

    @cached_property
    def mapped(self) -> bool:
        """Whether A is a feature map."""
        return self.conv is not None

    @cached_property
    def skips_rows(self) -> bool:
        """Whether tiles leave out rows of the map that lie between them."""
        return self.conv is not None and self.conv.stride_h > self.conv.kernel_h

    @cached_property
    def strips(self) -> int:
        """Strips of an image; 0 for maps in whole rows, and matrices."""
        return self.conv.count if isinstance(self.conv, Strip) else 0

    @cached_property
    def whole_width(self) -> int:
        """Columns of the map that strips are cut from."""
        return self.conv.whole_width if isinstance(self.conv, Strip) else 0

    @cached_property
    def extra_bytes(self) -> int:
        """Bytes that the epilogue reads in all."""
        return self.m * self.n * self.images * self.batch * self.extra_in_bytes

    @cached_property
    def result_bytes(self) -> float:
        """Bytes that are stored in all."""
        return self.m * self.n * self.images * self.batch * (self.out_itemsize + self.extra_out_bytes) * 1.0

    @cached_property
    def itemsize(self) -> int:
        """Bytes of an operand's element."""
        return DType(self.dtype).itemsize

    @cached_property
    def grains(self) -> tuple[int, int]:
        """Rows and columns that tiles and shares are multiples of: the Cube's 16, or as many as make a block
        of 32 bytes of a row-major operand. What ends inside such a block is cut into fractals row by row.
        """
        whole = max(FRACTAL_ROWS, BLOCK_BYTES // self.itemsize)
        return whole if self.a_rows == "m" else FRACTAL_ROWS, whole if self.b_rows == "n" else FRACTAL_ROWS

    @cached_property
    def line_columns(self) -> tuple[int, ...]:
        """Columns of a row-major B whose rows are whole transactions or halves of one: no transfer of theirs
        crosses a border that it need not.
        """
        whole = TRANSACTION_BYTES // self.itemsize
        return (whole, whole // 2) if self.b_rows == "n" else ()

    @cached_property
    def unfolds(self) -> bool:
        """Whether rows of A are made by img2col."""
        return not is_direct(self.conv)

    @cached_property
    def unfolding_efficiency(self) -> tuple[float, float]:
        """Rate of load3d relative to the port, by c220's table: where rows of the map do not count, and where
        they do.
        """
        conv = self.conv
        if conv is None or not self.unfolds:
            return 1.0, 1.0
        if conv.stride_w not in LOAD3D_STRIDES:
            return 32 / 256, 32 / 256
        rows = input_rows(conv)
        spanned = rows if rows > 1 else 0
        counted = 512 / (2 * conv.stride_w + spanned)
        return 1 / conv.stride_w, (counted if conv.stride_w == 1 else max(32.0, counted)) / 256

    @cached_property
    def operand_bytes(self) -> tuple[float, float]:
        """Bytes of A and of B."""
        conv = self.conv
        if conv is None or not self.unfolds:
            a = ceil_div(self.m, FRACTAL_ROWS) * FRACTAL_BYTES * self.k_blocks
        else:
            a = conv.height * conv.width * BLOCK_BYTES * ceil_div(self.k_blocks, taps(conv))
        b = ceil_div(self.n, FRACTAL_ROWS) * FRACTAL_BYTES * self.k_blocks
        return a * self.batch * self.images, self.batch * b


@dataclass(frozen=True, slots=True)
class Rates:
    """Figures of a chip that the score needs, in bytes per cycle and cycles (hashable, so that searches can
    be cached).
    """

    cores: int
    l0a: int
    l0b: int
    l0c: int
    l1: int
    l1_to_l0a: float
    l1_to_l0b: float
    out: float  # L0C out, bytes of L0C a cycle
    port_in: float
    port_out: float
    l2_share: float
    dram: float  # whole chip
    half_duplex: bool
    l2_size: int
    l2_managed: bool  # by software; else it is a cache
    latency: int
    start: float
    load2d_gap: float
    load3d_head: float
    load3d_rows: bool  # whether rows of the map count that a fractal spans
    mmad_gap: float
    per_block: float
    odd_penalty: bool
    vector: int
    queue: int
    dispatch: float
    unaligned: float  # share of the rate of transfers that do not start on a 512 B boundary
    cut_rows: float = math.inf  # on the way in, where rows are cut into fractals
    cut_ragged: float = math.inf  # the same for rows that do not fill blocks of 32 bytes
    request: int = 1  # bytes that L2 brings at once
    line: int = 1  # bytes that a request of a core brings at most
    holds_requests: bool = False  # whether a core has a fixed number of requests at a time
    load3d_least_l0b: float = 1.0  # share of the port's rate that the slowest load3d into L0B reaches
    waiting: Waiting | None = None  # how long requests take; None = that does not decide

    def way_in(self, cut: str, lines: float = 1.0, missed: float = 0.0, cores: int = 0) -> float:
        """Bytes per cycle that a core's own path brings of an operand.

        Args:
            cut: See `Product.a_cut`.
            lines: Bytes of the lines that it touches, for each byte.
            missed: Share of its bytes that DRAM delivers.
            cores: That read so.
        """
        return way_in(self, cut, lines, missed, cores)

    @property
    def waits(self) -> tuple[int, int, int]:
        """How long requests wait (`Waiting`): for L2, for memory, for memory that all ask; zeros = that does
        not decide.
        """
        waiting = self.waiting
        return (0, 0, 0) if waiting is None else (waiting.hit, waiting.idle, waiting.most)


def blocks_of_b(product: Product, tile_n: int) -> int:
    """`Product.b_blocks`."""
    return align(tile_n, product.b_columns) // FRACTAL_ROWS


def held_bytes(product: Product, share_m: int, run: int, k_blocks: int) -> int:
    """`Product.a_bytes`."""
    rows = min(run, share_m, product.m)
    if not product.mapped:
        return matrix_bytes(rows, k_blocks)
    if not product.unfolds:
        return positions_bytes(rows, k_blocks)
    conv = product.conv
    assert conv is not None
    columns = strip_columns(conv, product.whole_width, k_blocks) if product.strips else conv.width
    return unfolded_bytes(conv, columns, rows, k_blocks, run_grain(conv, product.m, share_m, run))


def way_in(rates: Rates, cut: str, lines: float, missed: float, cores: int) -> float:
    """`Rates.way_in`."""
    port = rates.port_in / lines if rates.holds_requests else rates.port_in
    hit, idle, loaded = rates.waits
    if missed > 0 and hit:
        port /= slowdown(hit, idle, loaded, missed / lines, min(1.0, cores / rates.cores))
    if cut == "rows":
        return min(port, rates.cut_rows)
    return min(port, rates.cut_ragged) if cut == "ragged" else port


def in_hf32(dtype: str, convolves: bool, soc: SocSpec) -> bool:
    """Whether float32 operands are cut to HF32: by default those of convolutions (CANN, --allow_hf32)."""
    known = soc.cube.hf32_cycles_per_block is not None and soc.kernels.convolves_hf32
    return known and convolves and dtype == "float32"


def rates_of(soc: SocSpec, dtype: str, convolves: bool = False) -> Rates:
    """Reads the figures.

    Args:
        soc: The chip.
        dtype: Element type of the operands.
        convolves: Whether they are those of a convolution or of its gradients.

    Raises:
        CompileError: If the Cube has no instruction for the type.
    """
    per_block = soc.cube.block_cycles(dtype, in_hf32(dtype, convolves, soc))
    if per_block is None:
        known = ", ".join(sorted(soc.cube.cycles_per_block))
        remedy = "export the model in float32 or float16"
        if dtype == "float32":
            remedy = "compile with precision_mode force_fp16 or allow_fp32_to_fp16"
        raise CompileError(f"Cube of {soc.name}", f"multiplies {known}", dtype, remedy)
    hertz = soc.frequency_mhz * 1e6
    buffers, ports = soc.buffers, soc.ports
    loaded = soc.dram.loaded_latency_cycles
    if ports.l0c_to_ub is not None:
        out: float = ports.l0c_to_ub
        port_out = ports.ub_to_gm or 1.0
    else:
        out = 2.0 * (ports.l0c_to_gm or 1.0)  # the width counts converted bytes, two of four that L0C holds
        port_out = ports.l0c_to_gm or 1.0
    return Rates(
        cores=soc.ai_cores,
        l0a=buffers.l0a or 0,
        l0b=buffers.l0b or 0,
        l0c=buffers.l0c or 0,
        l1=buffers.l1 or 0,
        l1_to_l0a=ports.l1_to_l0a or 1.0,
        l1_to_l0b=ports.l1_to_l0b or 1.0,
        out=out,
        port_in=ports.gm_to_l1 or 1.0,
        port_out=port_out,
        l2_share=soc.l2.read_bytes_per_cycle_per_core,
        dram=soc.dram.read_gb_per_s * 1e9 / hertz,
        half_duplex=soc.dram.half_duplex,
        l2_size=soc.l2.size or 0,
        l2_managed=soc.l2.software_managed,
        latency=soc.dram.read_latency_cycles,
        start=soc.issue.instruction_start_ns * soc.frequency_mhz / 1000,
        load2d_gap=soc.ports.load2d_gap_cycles,
        load3d_head=soc.ports.load3d_head_cycles,
        load3d_rows=soc.ports.load3d_counts_rows,
        mmad_gap=soc.cube.gap_cycles,
        per_block=per_block,
        odd_penalty=soc.cube.odd_size_penalty,
        vector=soc.vector.bytes_per_cycle,
        queue=soc.issue.depth("M"),
        unaligned=soc.dram.unaligned_efficiency,
        cut_rows=soc.dma.nd2nz_bytes_per_cycle or math.inf,
        cut_ragged=soc.dma.ragged_nd2nz_bytes_per_cycle or soc.dma.nd2nz_bytes_per_cycle or math.inf,
        dispatch=soc.launch.block_dispatch_ns * soc.frequency_mhz / 1000,
        request=soc.l2.request_bytes,
        line=soc.l2.line_bytes,
        holds_requests=soc.dma.reads_hold_requests,
        load3d_least_l0b=soc.ports.load3d_least_l0b,
        waiting=Waiting(soc.l2.read_latency_cycles, soc.dram.read_latency_cycles, loaded)
        if loaded is not None and soc.dma.reads_hold_requests
        else None,
    )
