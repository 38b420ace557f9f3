"""What the instructions of Cube work do to the byte (`isa.notes`): operands on their way into L0, products.

L1 holds A as blocks of k, each with all rows of the tile (`[k1][m][C0]`), B as the device stores it; where
the stored matrix is the other way round, fractals are turned as MTE1 loads them. Rows of a feature map are
exactly those that the tile needs; the run that needs most of them is what is timed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product as product_of

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import BLOCK_BYTES, FRACTAL_BYTES, FRACTAL_ROWS, Format, align, c0, ceil_div
from ascendsim.core.records import quickly_made
from ascendsim.isa.instructions import Affine, Buffer
from ascendsim.isa.notes import Frame, Item, Note, Row
from ascendsim.lower.templates import conv as unfold
from ascendsim.lower.templates.bias import Bias
from ascendsim.lower.templates.effects import copy, fractals, nd2nz, product, unfolded
from ascendsim.lower.templates.held import Lines, StripPlace, held_rows, under
from ascendsim.lower.templates.product import Product
from ascendsim.lower.templates.tiling import Tiling
from ascendsim.opset.work import ConvGeometry, CubeWork, Ref
from ascendsim.soc.spec import SocSpec

Extent = tuple[Affine, int]  # first index and count
AXES = ("batch", "image", "m", "n")
_FLOATS = (DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32)


@quickly_made
@dataclass(frozen=True, slots=True)
class Where:
    """Indices of the tile that is being computed: batch, image, first row and column."""

    batch: Affine
    image: Affine
    m: Affine
    n: Affine

    def at(self, frame: Frame, columns: int = 0) -> tuple[int, int, int, int]:
        """The indices, counted from the start of the tensors; rows of a strip with so many columns from the
        strip's start.
        """
        batch, image = (
            frame.at(self.batch) + frame.first("batch"),
            frame.at(self.image) + frame.first("image"),
        )
        start = frame.first("high") * columns if columns else frame.first("m")
        return batch, image, frame.at(self.m) + start, frame.at(self.n) + frame.first("n")


class CubeNotes:
    """Notes of one block.

    Args:
        work: What is computed.
        whole: The product.
        soc: The chip.
    """

    def __init__(self, work: CubeWork, whole: Product, soc: SocSpec) -> None:
        self.work, self.whole, self.split = work, whole, soc.split_cores
        self.block, self.size = c0(work.dtype), work.dtype.itemsize
        self.conv = work.conv
        self.strip: StripPlace | None = None  # what is worked on now, in tile form

    def known(self, tiling: Tiling) -> bool:
        """Whether all of it can be told."""
        work = self.work
        if tiling.columns and not self._strips_known(tiling):
            return False
        if work.dtype not in _FLOATS or work.image is not None or work.a.dtype is not work.dtype:
            return False
        if self.conv is not None:
            whole = self.conv.kernel_d == 1 and work.a.format is Format.NC1HWC0
            return whole and self.conv.batch == work.a.shape[0] and work.b.format is Format.FRACTAL_Z
        turned = work.transpose_a or not work.transpose_b
        if turned and self.size != 2:
            return False
        if work.b.format is Format.FRACTAL_Z:
            left = work.transpose_b and not work.b_shared
        else:
            left = work.b.format is Format.FRACTAL_NZ or (self.split and work.b.format is Format.ND)
        return left and (work.a.format is Format.FRACTAL_NZ or self.split or self._in_lines)

    def _strips_known(self, tiling: Tiling) -> bool:
        """Whether strips have whole rows of the filter at a time, and all columns under them. One value a
        row is told in the order of the rows, which a strip has only in parts.
        """
        conv = self.conv
        if any(stream.over == "row" for stream in self.work.epilogue_inputs):
            return False
        if conv is None or conv.stride_w > (conv.kernel_w - 1) * conv.dilation_w + 1:
            return False
        return tiling.chunk_k % conv.kernel_w == 0 or tiling.chunk_k >= unfold.taps(conv)

    @property
    def _in_lines(self) -> bool:
        """Whether rows of A are whole blocks of 32 bytes, which a plain copy brings column by column."""
        work = self.work
        line = work.k * self.size
        return not (work.transpose_a or line % BLOCK_BYTES) and work.a.bytes == work.m * line

    def _depth(self, frame: Frame, where: Where) -> int:
        """Blocks of k that there are: the last of several enlarged groups may have fewer channels."""
        if self.conv is None:
            return ceil_div(self.work.k, self.block)
        each = unfold.channel_blocks(self.conv, self.block)
        there = ceil_div(self.work.a.shape[1], self.block)
        batch = frame.at(where.batch) + frame.first("batch")
        return min(each, there - batch * each) * unfold.taps(self.conv)

    # --- into L1 --------------------------------------------------------------------------------------------

    def load_a(self, where: Where, m: int, k: Extent) -> Note:
        """MTE2 brings rows of A."""
        strip = self.strip
        return lambda frame: self._load_a(frame, where, m, (frame.at(k[0]), k[1]), strip)

    def _load_a(
        self, frame: Frame, where: Where, m: int, k: tuple[int, int], strip: StripPlace | None
    ) -> Sequence[Item]:
        work, whole = self.work, self.whole
        batch, image, first, _ = where.at(frame, strip.columns if strip else 0)
        if self.conv is not None:
            group = unfold.channel_blocks(self.conv, self.block) * self._plane
            base = batch * group + image * (work.a.bytes // whole.images)
            k = (k[0], min(k[1], self._depth(frame, where) - k[0]))
            if k[1] <= 0:
                return ()
            return self._load_map(frame, base, (first, m), k, strip)
        base = (0 if work.a_shared else batch * (work.a.bytes // whole.batch)) + image * (
            work.a.bytes // whole.images
        )
        depth = min(k[1] * self.block, work.k - k[0] * self.block)
        stored = (work.k, work.m) if work.transpose_a else (work.m, work.k)
        spans = ((first, m), (k[0] * self.block, depth))
        held = k[1] * self.block if work.transpose_a else m
        return self._load(frame, work.a, base, stored, spans[:: -1 if work.transpose_a else 1], held)

    def load_b(self, where: Where, n: int, k: Extent) -> Note:
        """MTE2 brings columns of B."""
        return lambda frame: self._load_b(frame, where, n, (frame.at(k[0]), k[1]))

    def _load_b(self, frame: Frame, where: Where, n: int, k: tuple[int, int]) -> Sequence[Item]:
        work, whole = self.work, self.whole
        batch, first = frame.at(where.batch) + frame.first("batch"), frame.at(where.n) + frame.first("n")
        if self.conv is not None:
            line = ceil_div(whole.n * whole.batch, FRACTAL_ROWS) * FRACTAL_BYTES
            length = ceil_div(n, FRACTAL_ROWS) * FRACTAL_BYTES
            column = (batch * whole.n + first) // FRACTAL_ROWS * FRACTAL_BYTES
            effect = copy((Buffer.L1, ""), (Buffer.GM, work.b.region), k[1], length, (length, line))
            return [Row(effect, (frame.target, k[0] * line + column))]
        base = 0 if work.b_shared else batch * (work.b.bytes // whole.batch)
        depth = min(k[1] * self.block, work.k - k[0] * self.block)
        stored = (work.n, work.k) if work.transpose_b else (work.k, work.n)
        spans = ((k[0] * self.block, depth), (first, n))
        held = n if work.transpose_b else k[1] * self.block
        return self._load(frame, work.b, base, stored, spans[:: -1 if work.transpose_b else 1], held)

    def _load(
        self,
        frame: Frame,
        ref: Ref,
        base: int,
        stored: tuple[int, int],
        spans: Sequence[tuple[int, int]],
        held: int,
    ) -> Sequence[Item]:
        """A tile of a stored matrix to blocks of columns in L1, each of `held` rows, rounded up to 16."""
        (row, rows), (column, columns) = spans
        step = align(held, FRACTAL_ROWS) * BLOCK_BYTES
        if ref.format is Format.ND and not self.split:
            line, found = stored[1] * self.size, list[Item]()
            effect = copy((Buffer.L1, ""), (Buffer.GM, ref.region), rows, BLOCK_BYTES, (BLOCK_BYTES, line))
            for block in range(ceil_div(columns, self.block)):
                start = base + row * line + column * self.size + block * BLOCK_BYTES
                found.append(Row(effect, (frame.target + block * step, start)))
            return found
        if ref.format is Format.ND:
            line = stored[1] * self.size
            effect = nd2nz(ref.region, ref.dtype, rows, columns, line, step)
            return [Row(effect, (frame.target, base + row * line + column * self.size))]
        height = ceil_div(stored[0], FRACTAL_ROWS) * FRACTAL_BYTES
        length = ceil_div(rows, FRACTAL_ROWS) * FRACTAL_BYTES
        blocks = ceil_div(columns, self.block)
        effect = copy((Buffer.L1, ""), (Buffer.GM, ref.region), blocks, length, (step, height))
        start = base + column // self.block * height + row // FRACTAL_ROWS * FRACTAL_BYTES
        return [Row(effect, (frame.target, start))]

    @property
    def _plane(self) -> int:
        assert self.conv is not None
        return self.conv.height * self.conv.width * BLOCK_BYTES

    def _load_map(
        self,
        frame: Frame,
        base: int,
        positions: tuple[int, int],
        k: tuple[int, int],
        strip: StripPlace | None,
    ) -> Sequence[Item]:
        """The rows of a feature map that some positions need, channel block by channel block."""
        assert self.conv is not None
        places = (Buffer.L1, ""), (Buffer.GM, self.work.a.region)
        base += k[0] // unfold.taps(self.conv) * self._plane
        units = ceil_div(k[1], unfold.taps(self.conv))
        if unfold.is_direct(self.conv):
            length = positions[1] * BLOCK_BYTES
            effect = copy(*places, units, length, (length, self._plane))
            return [Row(effect, (frame.target, base + positions[0] * BLOCK_BYTES))]
        conv, columns = under(self.conv, strip, frame)
        held, line = held_rows(conv, *positions, k), conv.width * BLOCK_BYTES
        first, end = held.inside
        wide = columns.count * BLOCK_BYTES
        size = (end - first) * wide
        base += columns.first * BLOCK_BYTES
        if not size:
            return ()
        if not held.packed and wide == line:
            effect = copy(*places, units, size, (size, self._plane))
            return [Row(effect, (frame.target, base + held.row(first) * line))]
        # rows of an output row follow each other; where rows are left out, one of each output row at a time
        phases, apart = (held.extent, held.apart) if held.packed else (1, 1)
        found = []
        for unit, phase in product_of(range(units), range(phases)):
            numbers = [at for at in range(first, end) if at % phases == phase]
            if numbers:
                into = frame.target + unit * size + (numbers[0] - first) * wide
                come = base + unit * self._plane + held.row(numbers[0]) * line
                effect = copy(*places, len(numbers), wide, (phases * wide, apart * line))
                found.append(Row(effect, (into, come)))
        return found

    # --- into L0 --------------------------------------------------------------------------------------------

    def feed_a(self, where: Where, m: int, rows: Extent, k: Extent, step: Extent) -> Note:
        """MTE1 brings a step of A.

        Args:
            where: The tile.
            m: Its rows.
            rows: What L1 holds of A: first row and how many.
            k: The same of k.
            step: First block of k in what L1 holds, and how many.
        """
        work, strip = self.work, self.strip

        def note(frame: Frame) -> Sequence[Item]:
            top, held, start = frame.at(rows[0]), (frame.at(k[0]), k[1]), frame.at(step[0])
            inside = frame.at(where.m) - top
            there = self._depth(frame, where) - held[0]
            wanted, held = min(step[1], there - start), (held[0], min(held[1], there))
            if wanted <= 0:
                return ()
            source = frame.sources[0] - start * unfold.a_bytes(work.conv, m, 1) if self._direct else 0
            if self._direct and self.conv is not None:  # each position is a row: an image of one line
                numbers = {"height": 1, "width": rows[1], "output_width": rows[1], "m_start": inside}
                return [self._unfolded(numbers, (frame.target, source), m, (start, wanted))]
            if self.conv is not None:
                run = top + (frame.first("high") * strip.columns if strip else frame.first("m")), rows[1]
                numbers, first = self._image(*under(self.conv, strip, frame), run, inside, held)
                blocks = (start + first, wanted)
                return [self._unfolded(numbers, (frame.target, frame.sources[0]), m, blocks)]
            return self._feed_rows(frame.target, source, (inside, m, rows[1]), (start, step[1], k[1]))

        return note

    @property
    def _direct(self) -> bool:
        return unfold.is_direct(self.work.conv)

    def _feed_rows(
        self, target: int, source: int, rows: tuple[int, int, int], k: tuple[int, int, int]
    ) -> Sequence[Item]:
        """Rows of a matrix as fractals; `rows`, `k`: first one and how many of how many in L1."""
        found: list[Item] = []
        turned = self.work.transpose_a
        height = align(rows[2], FRACTAL_ROWS) * BLOCK_BYTES
        for block in range(ceil_div(rows[1], FRACTAL_ROWS)):
            number = rows[0] // FRACTAL_ROWS + block
            if turned:
                start, step = number * k[2] * FRACTAL_BYTES + k[0] * FRACTAL_BYTES, FRACTAL_BYTES
            else:
                start, step = k[0] * height + number * FRACTAL_BYTES, height
            effect = fractals(Buffer.L0A, self.work.dtype, k[1], (FRACTAL_BYTES, step), turned)
            found.append(Row(effect, (target + block * k[1] * FRACTAL_BYTES, source + start)))
        return found

    @staticmethod
    def _image(
        conv: ConvGeometry, columns: Lines, run: tuple[int, int], inside: int, k: tuple[int, int]
    ) -> tuple[dict[str, int], int]:
        """What L1 holds of a map, in the words of img2col, and which of its blocks of k is the chunk's first.

        Args:
            conv: The convolution, of a strip its columns only.
            columns: Columns in L1.
            run: First position and how many.
            inside: First position that is wanted, counted from there.
            k: First block of k and how many.
        """
        there = held_rows(conv, *run, k)
        first, end = there.inside
        low, taps = there.taps
        reach = (conv.out_w - 1) * conv.stride_w + (conv.kernel_w - 1) * conv.dilation_w + 1
        numbers = {
            "height": end - first,
            "width": columns.count,
            "top": first,
            "bottom": there.virtual - end,
            "left": columns.left,
            "right": reach - columns.count - columns.left,
            "stride_h": there.stride,
            "stride_w": conv.stride_w,
            "filter_h": taps,
            "filter_w": conv.kernel_w,
            "dilation_h": conv.dilation_h,
            "dilation_w": conv.dilation_w,
            "output_width": conv.out_w,
            "m_start": run[0] + inside - there.output * conv.out_w,
        }
        # a part of a channel block may begin inside of a row of the filter
        return numbers, k[0] % unfold.taps(conv) - low * conv.kernel_w

    def _unfolded(
        self, numbers: dict[str, int], addresses: tuple[int, int], m: int, k: tuple[int, int]
    ) -> Row:
        """Positions of a map as rows; `k`: the first block in L1 and how many."""
        extent = {"m_count": m, "k_start": k[0] * self.block, "k_count": k[1] * self.block}
        return Row(
            unfolded(self.work.dtype, tuple(sorted({**_PLAIN, **numbers, **extent}.items()))), addresses
        )

    def feed_b(self, n: int, k: int, step: Extent) -> Note:
        """MTE1 brings a step of B.

        Args:
            n: Columns of the tile.
            k: Blocks of k in L1.
            step: First block of k in what L1 holds, and how many.
        """
        blocks = ceil_div(n, FRACTAL_ROWS)
        straight = self.conv is not None or self.work.transpose_b

        def note(frame: Frame) -> Sequence[Item]:
            start, number = frame.at(step[0]), step[1]
            source = frame.sources[0] - start * blocks * FRACTAL_BYTES
            if straight:
                effect = fractals(Buffer.L0B, self.work.dtype, number * blocks, _NEXT, False)
                return [Row(effect, (frame.target, frame.sources[0]))]
            effect = fractals(Buffer.L0B, self.work.dtype, blocks, (FRACTAL_BYTES, k * FRACTAL_BYTES), True)
            return [
                Row(
                    effect,
                    (frame.target + at * blocks * FRACTAL_BYTES, source + (start + at) * FRACTAL_BYTES),
                )
                for at in range(number)
            ]

        return note

    # --- products -------------------------------------------------------------------------------------------

    def multiply(self, where: Where, size: tuple[int, int], k: Extent, bias: Bias) -> Note:
        """The Cube adds the products of a step to a tile; k is counted from the start of the tensors."""
        work, (m, n) = self.work, size
        full = self.conv is not None
        rows = align(m, FRACTAL_ROWS) if m == 1 or (not full and work.a.format is not Format.ND) else m
        columns = align(n, FRACTAL_ROWS) if full or work.b.format is not Format.ND else n

        def note(frame: Frame) -> Sequence[Item]:
            start = frame.at(k[0])
            depth = min(k[1], self._depth(frame, where) - start) * self.block
            if depth <= 0:
                return ()
            if not full:
                depth = min(depth, work.k - start * self.block)
            fresh = start == 0 and not bias.preloads
            table = fresh and len(frame.sources) > 2
            effect = product(work.dtype, rows, depth, n if table else columns, fresh, table)
            before = bias.fill(frame, (where.n, n), align(rows, FRACTAL_ROWS)) if start == 0 else ()
            return [*before, Row(effect, (frame.target, *frame.sources[: 3 if table else 2]))]

        return note


_NEXT = (FRACTAL_BYTES, FRACTAL_BYTES)
_PLAIN = {
    "left": 0,
    "right": 0,
    "top": 0,
    "bottom": 0,
    "stride_w": 1,
    "stride_h": 1,
    "filter_w": 1,
    "filter_h": 1,
    "dilation_w": 1,
    "dilation_h": 1,
    "pad": 0,
}
