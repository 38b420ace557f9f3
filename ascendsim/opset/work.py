"""What an operator asks of the chip, before tiling: the language between `ops` and the lowering templates.

An operator's `lower` function describes its work; a template (`lower/templates/`) cuts it into tiles and
blocks and emits instructions. No cost is computed here. Fusion composes these descriptions: steps of a vector
operator become the epilogue of a cube operator, chains of vector work join.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Union

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Node
from ascendsim.opset.attention import AttentionWork as AttentionWork
from ascendsim.opset.lower_context import FORM as FORM
from ascendsim.opset.lower_context import LowerContext as LowerContext
from ascendsim.opset.moves import Copy as Copy
from ascendsim.opset.moves import MoveWork as MoveWork
from ascendsim.opset.refs import WORKSPACE as WORKSPACE
from ascendsim.opset.refs import Ref as Ref
from ascendsim.opset.refs import workspace_of as workspace_of
from ascendsim.opset.row_windows import RowWindows as RowWindows
from ascendsim.opset.steps import Over as Over
from ascendsim.opset.steps import Step as Step


@dataclass(frozen=True, slots=True)
class ConvGeometry:
    """A convolution on one group of channels as the Cube sees it (2-d; 1-d has height 1, 3-d folds depth into
    `batch` and `k`).

    Attributes:
        channels: Input channels of one (enlarged) group, padded to C0 by the template.
        pads: top, left, bottom, right.
    """

    batch: int
    channels: int
    height: int
    width: int
    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    dilation_h: int
    dilation_w: int
    pads: tuple[int, int, int, int]
    out_h: int
    out_w: int
    kernel_d: int = 1  # depth taps, each a further k step over another input slice


# Pseudo-intrinsic, first in the epilogue of integer Cube work: int32 sums times a scale, by what moves them
# out of L0C (TIK, tensor_mov: `deqscale` for int32 -> float16; FIXPIPE's pre-stage on split cores)
SCALED = "deqscale"


@dataclass(frozen=True, slots=True)
class Stream:
    """A tensor that a vector program reads or writes: full size, one value a row or a column, or one
    value.
    """

    ref: Ref
    over: Over = "all"


@dataclass(frozen=True, slots=True)
class ColumnSum:
    """A sum down the columns of a Cube result, one value a column, made while the result is on its way out.

    Attributes:
        ref: Where it goes.
        steps: On every element before it is added; the first sum's read the result, those of later ones what
            the ones before made.
        fold: How elements are added up.
    """

    ref: Ref
    steps: tuple[Step, ...]
    fold: Step


@dataclass(frozen=True, slots=True)
class SideOutput:
    """A value on the way through an epilogue that is stored as well, since somebody else reads it.

    Attributes:
        ref: Where it goes; shape and format are those of the Cube's result.
        after: Number of epilogue steps that make it.
    """

    ref: Ref
    after: int


@dataclass(frozen=True, slots=True)
class RawImage:
    """Images in global memory that AIPP converts on their way into L1, where they are NC1HWC0.

    Attributes:
        row_bytes: Bytes from the start of one stored row to the next.
        used_bytes: Bytes of a stored row that are read (crop).
        first_byte: Offset of the first used byte in an image.
        image_bytes: Bytes of one image.
        rows, per: Stored rows that `per` rows of pixels take: 3 rows for 2 where half-size chroma planes
            follow (YUV420SP).
    """

    row_bytes: int
    used_bytes: int
    first_byte: int
    image_bytes: int
    rows: int = 1
    per: int = 1


@dataclass(frozen=True, slots=True)
class CubeWork:
    """batch x (m x k) @ (k x n) on the Cube, as matmul or convolution, with bias in L0C and vector steps on
    the way out.

    Attributes:
        m, k, n: Useful sizes of one product. For a convolution m = N * out_h * out_w, k = kernel taps *
            channels.
        batch: Independent products (batched matmul, or groups of a convolution).
        conv: Geometry if A is unfolded by img2col, else None.
        image: How A lies in global memory where that is not NC1HWC0 but an image for AIPP to convert.
        a, b: Operands in GM. `b_shared`/`a_shared`: the same matrix serves all of `batch` (broadcast).
        dtype: Operand type on the Cube (float16, int8); accumulation is float32 or int32.
        epilogue: Vector steps on every output tile while it is in UB, and what else they read.
        epilogue_values: Tiles that the epilogue holds at once besides the one that it stores.
        plain_tiling: Whether tiles are chosen as if there were no epilogue.
        library: Whether the kernel multiplies by Ascend C's library (`KernelSpec.library_start_ns`).
        transposed: Whether it is a transposed convolution, or the gradient of a convolution's map.
        side_outputs: Values inside the epilogue that are stored too, by rising `after`; `out` is what the
            last step makes.
        sums: Sums over the rows of `out` that are made as well.
    """

    m: int
    k: int
    n: int
    a: Ref
    b: Ref
    out: Ref
    batch: int = 1
    conv: ConvGeometry | None = None
    bias: Ref | None = None
    a_shared: bool = False
    b_shared: bool = False
    transpose_a: bool = False
    transpose_b: bool = False
    dtype: DType = DType.FLOAT16
    epilogue: tuple[Step, ...] = ()
    epilogue_inputs: tuple[Stream, ...] = ()
    epilogue_values: int = 1
    plain_tiling: bool = False
    sums: tuple[ColumnSum, ...] = ()
    side_outputs: tuple[SideOutput, ...] = ()
    useful_macs: int = 0  # without padding and enlarged groups; 0 = batch * m * k * n
    image: RawImage | None = None
    library: bool = False
    transposed: bool = False


@dataclass(frozen=True, slots=True)
class FilterWork:
    """The gradient of a convolution's filters on the Cube: for every group of channels [m x positions] @
    [positions x n], the left matrix being the gradient of the convolution's result, the right one its map
    unfolded by img2col. Where cores have parts of the positions, what they make is added up in memory.

    Attributes:
        m: Output channels of a group.
        n: Kernel taps times input channels of a group.
        conv: The convolution; `batch` x `out_h` x `out_w` are the positions.
        gradient, image: Operands, both feature maps.
        out: The filters' gradient; its memory holds zeros when the work begins.
        batch: Groups.
        dtype: Operand type on the Cube; accumulation is float32.
        useful_macs: Without padding and enlarged groups.
        depthwise: Whether each filter has one channel of its own.
    """

    m: int
    n: int
    conv: ConvGeometry
    gradient: Ref
    image: Ref
    out: Ref
    batch: int = 1
    dtype: DType = DType.FLOAT16
    useful_macs: int = 0
    depthwise: bool = False


@dataclass(frozen=True, slots=True)
class CubePair:
    """Two convolutions, the second one on what the first one makes, which stays in L1."""

    first: CubeWork
    second: CubeWork


@dataclass(frozen=True, slots=True)
class Maps:
    """Feature maps in channel blocks that a kernel walks through plane by plane (a plane = all positions of
    one image and one block); a core has whole images or whole blocks.

    Attributes:
        images: Images.
        blocks: Channel blocks.
        split: What cores share: "images"; "images or blocks" = blocks where there are fewer images than
            cores; "sums" = see `lower.templates.sharing`.
    """

    images: int
    blocks: int
    split: Literal["images", "images or blocks", "sums"]


@dataclass(frozen=True, slots=True)
class Search:
    """The axis of a tensor that is searched for the place of an element.

    Attributes:
        outer: Elements of the axes in front of it.
        length: Its own.
        inner: Elements of the axes behind it.
        piece: Elements of a row that come at a time.
    """

    outer: int
    length: int
    inner: int
    piece: int


@dataclass(frozen=True, slots=True)
class VectorWork:
    """A vector program over rows x cols elements, tiled by UB size.

    Attributes:
        rows, cols: The iteration space; a row is contiguous. Pure elementwise work may use rows = 1.
        steps: In order, on each tile.
        reduces: "none"; "cols" = each row is reduced or normalised (a row wants to be in UB as a whole);
            "rows" = reduced over rows, one result a column.
        sweeps: How often the inputs are read if a whole row does not fit into UB (softmax 3, layer norm 3,
            reduce 1).
        gather_bytes: > 0 if reads come in pieces of this size instead of contiguous ones (planes under
            windows, strided slices).
        windows: What a row of the result is made of, where windows lie over rows of maps; a row of `rows` and
            `cols` is one of a map then.
        live_bytes: UB bytes that an element needs for values between steps, where they are several at once
            (fused chains).
        planes: Whether rows are added up plane by plane (a plane = all positions of one channel block), each
            tile on its own in UB.
        maps: How rows and columns are feature maps, where the kernel goes by them.
        in_turn: Whether the kernel that reduces rows does all its steps on one before it begins the next;
            with `blocks`, whether it has one row at a time in UB.
        own_tiling: Whether the kernel is one for open shapes (`LowerContext.open_shapes`), where the chip has
            such: it works out its tiling on the core.
        code_at_hand: Whether such a kernel runs so often between others that the cores have its code.
        long_code: Whether the kernel's code outgrows the cores' instruction caches, where the chip has such a
            kernel (`KernelSpec.long_code_ns`).
        cores: How many the kernel is started on: as many as bring the end nearer ("worthwhile"); as many as
            there are rows, or lines of 512 B in rows that nothing needs whole ("shares": so do the tiling
            functions of kernels in Ascend C); all, also those that have nothing to do ("all"); or one for
            each piece of memory that a clearing kernel takes ("pieces").
        blocks: In how many blocks the kernel is started, each with equally many whole rows; more than there
            are cores run in turns, if nothing is reduced. 0 = as `cores` says.
        search: What is searched, where the kernel of split cores goes by it.
        pads_rows: Whether rows come and go one by one, each to blocks of its own in UB (DataCopyPad).
        overlaps: Whether the next tile comes and the last one leaves while one is worked on: each stream has
            two buffers then, else one.
        inputs, outputs: What is read and written.
    """

    rows: int
    cols: int
    steps: tuple[Step, ...]
    inputs: tuple[Stream, ...]
    outputs: tuple[Stream, ...]
    reduces: Literal["none", "cols", "rows"] = "none"
    sweeps: int = 1
    gather_bytes: int = 0
    windows: RowWindows | None = None
    live_bytes: int = 0
    planes: bool = False
    maps: Maps | None = None
    in_turn: bool = False
    own_tiling: bool = False
    code_at_hand: bool = False
    long_code: bool = False
    cores: Literal["worthwhile", "shares", "all", "pieces"] = "worthwhile"
    blocks: int = 0
    search: Search | None = None
    pads_rows: bool = False
    overlaps: bool = True


@dataclass(frozen=True, slots=True)
class ScalarWork:
    """Element-by-element work of the scalar unit on the AI Core (no vector form exists)."""

    elements: int
    cycles_per_element: int
    inputs: tuple[Ref, ...]
    outputs: tuple[Ref, ...]


@dataclass(frozen=True, slots=True)
class AiCpuWork:
    """Runs on the AI CPU: `elements` x `operations` simple scalar operations, on one core or spread evenly
    over all of them.
    """

    elements: int
    operations: float
    inputs: tuple[Ref, ...] = ()
    outputs: tuple[Ref, ...] = ()
    spread: bool = False

    @classmethod
    def of(cls, node: Node, operations: float = 1.0, *, spread: bool = False) -> AiCpuWork:
        """A node on the AI CPU: `operations` simple operations for each element of the larger side."""
        inputs = tuple(Ref.of(tensor) for tensor in node.inputs if tensor is not None)
        known = (tensor for tensor in node.outputs if tensor.is_static and tensor.dtype is not None)
        outputs = tuple(Ref.of(tensor) for tensor in known)
        elements = max((math.prod(ref.shape) for ref in inputs + outputs), default=0)
        return cls(elements, operations, inputs, outputs, spread)


@dataclass(frozen=True, slots=True)
class LinkWork:
    """A collective on the links between devices, or a copy out of the host's memory or to it: its time is
    known beforehand, and no core takes part.

    Attributes:
        us: The time.
        inputs, outputs: What it reads and writes.
        from_host: Whether it is a copy.
        host_waits: Whether the host goes on only when it has ended.
    """

    us: float
    inputs: tuple[Ref, ...] = ()
    outputs: tuple[Ref, ...] = ()
    from_host: bool = False
    host_waits: bool = False


@dataclass(frozen=True, slots=True)
class Slice:
    """A tensor whose memory is a piece of another one's.

    Attributes:
        region: The piece.
        whole: What it lies in.
        axis: Logical axis along which `whole` is cut.
        first: Index of the piece's first element along that axis.
    """

    region: str
    whole: str
    axis: int
    first: int


@dataclass(frozen=True, slots=True)
class NoTask:
    """Nothing to run: the output is the input's memory under another shape (Reshape, Identity), or a
    constant.

    Attributes:
        aliases: (region, region whose memory it shares): an output and its input, or an input that its
            producer writes into the output.
        slices: Inputs that lie inside the output (Concat), or outputs that lie inside the input (Split).
    """

    aliases: tuple[tuple[str, str], ...] = ()
    slices: tuple[Slice, ...] = ()


@dataclass(frozen=True, slots=True)
class FinishedProduct:
    """A product whose results vector cores finish while the Cube goes on with the next ones, on chips where
    both are apart and FIXPIPE cannot do the steps.

    Attributes:
        product: Of the steps on its way out, what they read and the results; it has no side outputs.
        sums: Scratch memory for some tiles of its sums.
        slots: Tiles that scratch memory holds for each cube core.
    """

    product: CubeWork
    sums: Ref
    slots: int


Part = Union[CubeWork, FinishedProduct, FilterWork, VectorWork, MoveWork, ScalarWork, AiCpuWork]


@dataclass(frozen=True, slots=True)
class SequenceWork:
    """Several pieces of work in one task, one after the other on the same cores (LSTM steps, attention as one
    kernel).

    Attributes:
        parts: In order; one on the AI CPU is a task of its own, between those on the cores.
        repeat: How often the list runs (time steps).
        apart: Whether each part works on pieces of tensors of its own.
    """

    parts: tuple[Part, ...]
    repeat: int = 1
    workspace_bytes: int = 0
    apart: bool = False


@dataclass(frozen=True, slots=True)
class StagedProduct:
    """A product whose right operand vector cores make while the Cube multiplies what they have made before,
    on chips where both are apart: weights of few bits, made floats.

    Attributes:
        staging: Rows x columns of the operand as it is stored: integers, scales and offsets in, floats out.
        product: Of one batch; `b` has the operand's shape, and the bytes of scratch memory for some chunks.
        values: That a vector core makes at a time, at most.
        slots: Chunks that scratch memory holds for each cube core.
        teams: Cube cores at most.
        packed: Elements of the operand for each one of `staging`.
    """

    staging: VectorWork
    product: CubeWork
    values: int
    slots: int
    teams: int
    packed: int = 1


Way = Union[Part, SequenceWork, StagedProduct]


@dataclass(frozen=True, slots=True)
class WorkChoice:
    """Several ways to do the same, of which the lowering takes the quickest on the chip.

    Attributes:
        ways: At least two, all different.
    """

    ways: tuple[Way, ...]


Work = Union[
    CubeWork,
    FilterWork,
    CubePair,
    AttentionWork,
    VectorWork,
    MoveWork,
    ScalarWork,
    AiCpuWork,
    LinkWork,
    NoTask,
    SequenceWork,
    StagedProduct,
    FinishedProduct,
    WorkChoice,
]
