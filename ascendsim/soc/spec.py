"""What the machine model knows about a chip: frozen, validated, each number with its source (see
`SocSpec.sources`).

Units are in the names; "per cycle" means cycles of the core clock. All figures are per core unless the name
says chip.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from html import escape

from ascendsim.core.dtypes import DType
from ascendsim.core.keys import key_of
from ascendsim.core.table import Table

COLUMNS, QUICKEST = "columns", "quickest"
OVERFLOW_MODES = INF_NAN, SATURATION = "inf_nan", "saturation"  # of `ArithmeticSpec.overflow`
EVEN_PRODUCTS = ("", COLUMNS, QUICKEST)  # of `KernelSpec.even_products`


@dataclass(frozen=True, slots=True)
class CubeSpec:
    """Matrix unit: mmad of m0 x k0 x n0 blocks."""

    m0: int
    n0: int
    k0: Mapping[str, int]  # by dtype name: float16 16, int8 32, float32 8
    cycles_per_block: Mapping[str, float]  # by dtype name; a dtype that is not listed has no instruction
    # of float32 blocks whose operands are cut to HF32's 11 bits of mantissa; None = there is no such mode
    hf32_cycles_per_block: float | None
    latency_cycles: int  # until a dependent read sees the result
    gap_cycles: int  # between independent mmads
    odd_size_penalty: bool  # v100: + (k1 - 2) cycles if k1 > 1 and m1 or n1 is odd
    unit_flag: bool  # FIXPIPE can follow an mmad unit by unit of 512 B

    def block_cycles(self, dtype: str, hf32: bool = False) -> float | None:
        """Cycles of a block of operands of a type, which may be cut to HF32; None if there is no such
        instruction.
        """
        return self.hf32_cycles_per_block if hf32 else self.cycles_per_block.get(dtype)


@dataclass(frozen=True, slots=True)
class VectorSpec:
    """Vector unit: repeats of `repeat_bytes`."""

    bytes_per_cycle: int
    repeat_bytes: int
    max_repeat: int  # repeats of one instruction
    head_cycles: int  # unit was idle
    latency_cycles: int  # until a dependent instruction or flag sees the result
    cycles_per_repeat: Mapping[str, float]  # key "vexp.float16", or "vexp" for every dtype
    intrinsics: Mapping[str, tuple[str, ...]]  # instruction -> dtype names that exist on the chip
    mask_cycles: int  # extra for a length that is no multiple of a repeat
    minimum_cycles: int  # between the starts of independent instructions
    # of UB, each serves one 32 B block a cycle; None = unknown, no conflict is charged
    bank_groups: int | None
    bank_conflict_cycles: float  # extra cycles per repeat for each further turn of a bank group
    write_conflict_cycles: float  # the same when a bank is read and written


@dataclass(frozen=True, slots=True)
class ArithmeticSpec:
    """What becomes of numbers that leave their type."""

    # modes of float16 that the chip has, the default first (`soc.arithmetic`): "inf_nan", as IEEE 754 has it,
    # and "saturation", where overflow gives the last number of the type and NaN is 0
    overflow: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BufferSpec:
    """Sizes in bytes; None = unknown (such a chip can be shown, not run)."""

    l0a: int | None
    l0b: int | None
    l0c: int | None
    l1: int | None
    ub: int | None
    bias_table: int | None
    fixpipe: int | None


@dataclass(frozen=True, slots=True)
class PortSpec:
    """Widths of one core's paths in bytes per cycle; None = no such path."""

    l1_to_l0a: float | None
    l1_to_l0b: float | None
    l1_to_ub: float | None
    ub_to_l1: float | None
    l0c_to_ub: float | None
    ub_to_l0c: float | None  # broadcast of a bias by the vector unit
    l0c_to_l1: float | None
    l0c_to_gm: float | None
    gm_to_l1: float | None
    gm_to_ub: float | None
    ub_to_gm: float | None
    ub_to_ub: float | None
    l1_to_bt: float | None
    load2d_gap_cycles: int  # between load2d instructions
    load3d_head_cycles: int
    # whether a fractal whose positions lie on several rows of the map takes the longer for each of them
    load3d_counts_rows: bool
    load3d_least_l0a: float  # share of the width that the slowest load3d into L0A reaches
    load3d_least_l0b: float
    fixpipe_elements_per_cycle: float | None  # that FIXPIPE converts, whatever their target type


@dataclass(frozen=True, slots=True)
class DmaSpec:
    """DMA engines between global memory and the buffers of a core."""

    # the path's width is what whole requests reach at L2's latency: short bursts and misses get less
    reads_hold_requests: bool
    burst_cycles: float  # least time of one burst of a strided transfer without a change of layout
    # rate at which rows are cut into fractals on the way; None = the path's
    nd2nz_bytes_per_cycle: float | None
    ragged_efficiency: float  # rate factor of rows that do not start and end with 32 B blocks
    ragged_row_cycles: (
        float  # least time of such a row on the way to or from UB, where it is an instruction of its own
    )
    # rate of such a row beyond that time, which is its start then; None = the path's, and the longer counts
    ragged_row_bytes_per_cycle: float | None
    # rate of such rows where the layout changes; None = as ragged_efficiency says
    ragged_nd2nz_bytes_per_cycle: float | None


@dataclass(frozen=True, slots=True)
class L2Spec:
    """Second-level buffer shared by all cores."""

    size: int | None
    software_managed: bool  # Ascend310: data is placed there by the compiler, it is no cache
    line_bytes: int
    read_latency_cycles: int
    write_latency_cycles: int
    read_bytes_per_cycle_per_core: (
        float  # fair share with all cores busy; the chip has this times the core count
    )
    write_bytes_per_cycle_per_core: float
    half_duplex: bool  # reads and writes take turns on a core's way to it, and on its own ports
    request_bytes: int  # what a core asks L2 for at a time; a burst is rounded up to it
    # whole chip, of lines that several cores read; None = no such limit is known
    same_line_bytes_per_cycle: float | None
    same_line_requests_per_cycle: float | None  # of cores that read the same lines in step, together


@dataclass(frozen=True, slots=True)
class DramSpec:
    """Global memory behind L2."""

    size: int | None  # of the memory that one chip has; None = not known, and nothing is refused
    reserved: int  # of it, what driver and runtime take before any model is loaded
    read_gb_per_s: float  # whole chip, 10^9 bytes
    write_gb_per_s: float
    half_duplex: bool  # reads and writes share one bus
    mixed_efficiency: float  # rate factor of that bus where a task reads and writes
    read_latency_cycles: int
    # of reads into L1 while all cores have as many requests under way as they can; None = as in idle memory
    loaded_latency_cycles: int | None
    uncached_latency_cycles: int  # of reads that pass L2 by
    write_latency_cycles: int
    transaction_bytes: int  # smallest transfer; a burst is rounded up to it
    unaligned_efficiency: float  # least rate factor of bursts that start off a transaction boundary
    max_in_flight: int  # outstanding transfers of one MTE


@dataclass(frozen=True, slots=True)
class IssueSpec:
    """Scalar unit and synchronisation."""

    scalar_cycles: float  # dispatch of one instruction by the scalar unit
    scalar_element_cycles: int  # one element of work that has no vector form
    instruction_start_ns: float  # start cost inside the target unit (Ascend310: 40 ns), 0 elsewhere
    flag_cycles: int  # from set_flag to the waiting pipe going on
    event_ids: int  # flags of the chip between each pair of pipes
    barrier_ns: float  # from the last core's arrival at a barrier until all cores go on, besides the flag
    queue_depth: Mapping[str, int]  # by pipe name

    def depth(self, pipe: str) -> int:
        """Instructions that the queue of a pipe holds; 16 (assumed) where a chip says nothing."""
        return self.queue_depth.get(pipe, 16)


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """Task scheduling."""

    kernel_init_ns: float  # head of a block on its core: pipes start, parameters read
    task_launch_us: float  # task scheduler to first block, whole graph on the device (sink)
    task_gap_us: float  # between the end of a task and the next of its stream (sink)
    block_dispatch_ns: float  # per block after the first
    model_call_us: float  # of a host that waits for a call of a model, besides the device's time (sink)
    host_launch_us: float  # per task when the host launches it
    eager_launch_us: float  # per operator when a framework calls operator by operator
    pinned_copy_gb_per_s: float  # out of memory of the host that is registered with the device
    pageable_copy_gb_per_s: float  # out of other memory of the host
    max_gears: int  # input shapes that one model can hold
    open_shapes: bool  # whether graphs run whose shapes are not known when they are compiled


@dataclass(frozen=True, slots=True)
class AiCpuSpec:
    """AI CPU cluster."""

    cores: int
    dispatch_us: float
    overhead_us: float
    elements_per_us: float  # one core, one simple scalar operation per element


@dataclass(frozen=True, slots=True)
class CtrlCpuSpec:
    """CPU that controls the device: it hands images to DVPP and starts the network, and runs no operator."""

    cores: int
    request_us: float  # to hand one image to DVPP, or to start the network once
    decode_fps_1080p: float  # one core, images of 1920 x 1080 in files that JPEGD does not take


@dataclass(frozen=True, slots=True)
class DvppSpec:
    """Image preprocessing. None = not known or not there; such a chip takes no images, only arrays."""

    jpegd_channels: int | None  # JPEG decoder
    jpegd_fps_1080p: float | None  # one channel, images of 1920 x 1080; others by their pixels
    vpc_channels: int | None  # crop, resize, colours
    vpc_fps_1080p: float | None  # one channel; by the pixels of the larger of source and result


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """How CANN's operators and tools treat the chip where that differs from chip to chip."""

    gelu_two_exponents: bool  # e^-|y| and e^min(y, 0), which cannot overflow; else e^y
    sigmoid_polynomial: bool  # high-performance form of Sigmoid: a polynomial; else it has one form
    sigmoid_divides: bool  # in float16; else a reciprocal that Newton's method makes precise
    transpose_packs_lines: bool  # lines that end inside a block go through UB block by block
    select_sets_mask: bool  # vsel has the bits of one repeat in a register, which is set for each
    selects_by_repeat: bool  # elementwise kernels that compare and select do both one repeat at a time
    softmax_multiplies: bool  # rows times the reciprocal of their sum in every format; else only in fractals
    rows_in_turn: bool  # kernels that normalise rows go through them one by one; else instructions take all
    sums_in_turn: bool  # so do those that add up or compare the elements of a row
    map_blocks: bool  # poolings that keep positions, and transposes, start a block for each map or so
    # scalar unit, for a number from one place in UB to another through a register, where kernels take what
    # fills no blocks of 32 B number by number; 0 = they do not
    register_move_cycles: float
    spreads_channels: bool  # batch normalisation in training spreads what a channel has over its map first
    softmax_pads_fractals: (
        bool  # Softmax works in FRACTAL_NZ where rows end inside a fractal; else row-major there
    )
    transdata_by_images: bool  # TransData of feature maps takes as many cores as there are images, if it can
    transdata_filter_cycles: float  # of the scalar unit for each element of a filter that TransData turns
    transdata_in_turn: bool  # TransData takes all cores and has one buffer: tiles come, turn and go in turn
    transdata_start_ns: float  # of the scalar unit before it: arguments of its tiling, read and worked out
    # kernels for open shapes that reduce or turn: time of the scalar unit for their tiling, and for each core
    # of the task for code that all of them fetch
    tiling_ns: float
    core_code_ns: float
    # kernels whose code outgrows the cores' instruction caches: for each core of the task, in every run
    long_code_ns: float
    library_start_ns: (
        float  # kernels that multiply by Ascend C's library: from the start of a block to its first transfer
    )
    # attention kernels of inference: from the start of their blocks to the first block of scores
    attention_start_ns: float
    # bytes of the result for which an elementwise kernel takes another core; None = 1024 elements of any type
    core_bytes: int | None
    # elementwise kernels cut their result to blocks of 32 B over as many cores as its bytes say, also where
    # operands are broadcast; else to lines of 512 B, and broadcasts over as many as are worth while
    even_shares: bool
    images_added: int  # images of which a core adds up the channels at least, if it has whole ones
    adds_rows_cycles: float  # of one repeat that adds a row to the sums of those before it
    # which way to cut matrix products into parts and tiles of equal size is taken (`EVEN_PRODUCTS`):
    # "columns" = most parts along n, and cores have whole images of convolutions and of gradients of maps;
    # "quickest" = the quickest; "" = uneven ones too
    even_products: str
    divides_maps: bool  # shares, chunks in L1 and tiles of convolutions cut channels into equal parts
    divides_matrices: bool  # those of matrix products cut all axes into equal parts
    # largest batch for which tilings of convolutions were tuned; with more images these are the outermost
    # loop, and weights that a core cannot hold pass once an image; None = no such batch is known
    tuned_batch: int | None
    # gradients of convolutions are cut as the vendor tuned them: those of filters share images among any
    # number of cores that divides these, those of maps begin with the images if they have one tap or a stride
    tuned_gradients: bool
    depthwise_by_blocks: bool  # gradients of depthwise filters give each core whole blocks of channels
    convolves_hf32: bool  # convolutions of float32 maps and their gradients cut them to HF32
    even_images: bool  # convolutions of about as many images as cores take as many as have equally many
    even_columns: bool  # products of few rows are cut into parts with the same number of column blocks
    # largest batch at which plain convolutional networks run in passes of smaller batches; None = none do
    cut_batches: int | None
    ai_cpu_table: str  # column of the table of operators that run on the AI CPU
    overflow_register: bool  # cores note an overflow in a register, which the check of a loss scale reads
    inference: bool  # an inference chip: msprof's statistic names the model, not the device


@dataclass(frozen=True)
class SocSpec:
    """One chip.

    Attributes:
        generation: v100 (310, 910A), m200 (310P, 610), m300 (310B), c220 (910B, 910_93) ...
        split_cores: Cube cores and vector cores are apart and meet in L2/GM (910B).
        sources: Source text by dotted key ("l2.size").
        assumed: Dotted keys of figures without a source.
        fitted_on: By dotted key of a fitted figure: the measurements it was fitted on ("microbenchmark 47").
        overrides: Dotted keys that the user changed, with their text.
        missing: Keys without a figure, with the reason where there is one. Their numbers read 0, optional
            ones None; `soc.require_runnable` refuses such a chip.
    """

    name: str
    architecture: str
    generation: str
    short_name: str
    split_cores: bool
    ai_cores: int  # cube cores if split
    vector_cores: int
    frequency_mhz: int
    vector_frequency_mhz: int
    cube: CubeSpec
    vector: VectorSpec
    arithmetic: ArithmeticSpec
    buffers: BufferSpec
    ports: PortSpec
    dma: DmaSpec
    l2: L2Spec
    dram: DramSpec
    issue: IssueSpec
    launch: LaunchSpec
    ai_cpu: AiCpuSpec
    ctrl_cpu: CtrlCpuSpec
    dvpp: DvppSpec
    kernels: KernelSpec
    sources: Mapping[str, str]
    assumed: frozenset[str]
    fitted_on: Mapping[str, tuple[str, ...]]
    overrides: Mapping[str, str]
    missing: tuple[str, ...]

    def table(self) -> Table:
        """What people compare chips by, with where each figure comes from."""
        split, changes = self.split_cores, (f"{key}={text}" for key, text in self.overrides.items())
        cores = f"{self.ai_cores} at {self.frequency_mhz} MHz"
        memories = f"{(self.buffers.l1 or 0) >> 10} KiB, {(self.buffers.ub or 0) >> 10} KiB a core"
        rows = (
            ("architecture", f"{self.architecture}, {self.generation}", None),
            ("cube cores" if split else "AI Cores", cores, "ai_cores"),
            ("vector cores", str(self.vector_units), "vector_cores" if split else "ai_cores"),
            ("peak", f"{self.peak_fp16_tflops:.1f} Tflop/s in float16", None),
            ("L1, UB", memories, "buffers.ub"),
            ("L2", f"{(self.l2.size or 0) / 2**20:g} MiB", "l2.size"),
            ("global memory", f"{self.dram.read_gb_per_s:g} GB/s", "dram.read_gb_per_s"),
            ("overflow", " or ".join(self.arithmetic.overflow), "arithmetic.overflow"),
            ("changed", ", ".join(changes) or "nothing", None),
            ("assumed", f"{len(self.assumed)} figures, see .assumed", None),
        )
        sources = [self.sources.get(key, "") if key else "" for _, _, key in rows]
        cells = tuple((name, text, source) for (name, text, _), source in zip(rows, sources, strict=True))
        return Table("soc", ("Figure", "Value", "Source"), cells)

    def __repr__(self) -> str:
        changed = f", changed: {', '.join(self.overrides)}" if self.overrides else ""
        return (
            f"SocSpec({self.name!r}, {self.architecture} {self.generation}, {self.ai_cores} cores, "
            f"{self.peak_fp16_tflops:.1f} Tflop/s{changed})"
        )

    def _repr_html_(self) -> str:
        return f"<p><b>{escape(self.name)}</b></p>{self.table().to_html()}"

    @property
    def has_bfloat16(self) -> bool:
        """Whether operators can work in bfloat16: the cores of the first generations have no instruction that
        takes or makes it.
        """
        return DType.BFLOAT16.value in self.cube.cycles_per_block

    @cached_property
    def figures(self) -> Hashable:
        """All figures of the chip, whatever their sources: equal for chips that behave alike."""
        notes = {"sources", "assumed", "fitted_on", "overrides"}
        return key_of([getattr(self, one.name) for one in fields(self) if one.name not in notes])

    @property
    def task_figures(self) -> Hashable:
        """`figures` without what no single task feels once it is written: what passes between tasks, and
        which steps operators have.
        """
        launch = replace(
            self.launch,
            task_gap_us=0,
            model_call_us=0,
            host_launch_us=0,
            eager_launch_us=0,
            max_gears=0,
            open_shapes=True,
        )
        kernels = replace(
            self.kernels, gelu_two_exponents=False, sigmoid_polynomial=False, softmax_pads_fractals=False
        )
        return replace(self, launch=launch, kernels=kernels).figures

    @property
    def peak_fp16_tflops(self) -> float:
        """2 * m0 * k0 * n0 * cores * clock; 0 if the chip's file does not describe float16 blocks."""
        if "float16" not in self.cube.cycles_per_block:
            return 0.0
        blocks = self.ai_cores * self.frequency_mhz * 1e6 / self.cube.cycles_per_block["float16"]
        return 2 * self.cube.m0 * self.cube.k0["float16"] * self.cube.n0 * blocks / 1e12

    @property
    def vector_units(self) -> int:
        """Cores that can run vector blocks of an AI Core task: the vector cores if split, the AI cores
        otherwise.
        """
        return self.vector_cores if self.split_cores else self.ai_cores
