"""What operators may ask of a chip while they describe their work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ascendsim.core.dtypes import DType
from ascendsim.soc.spec import SocSpec

OPEN_SHAPES = "open_shapes"  # key of `LowerContext.options`: whether kernels are those for open shapes
FORM = "form of "  # key of `LowerContext.options`, in front of CANN's operator type


@dataclass(frozen=True, slots=True)
class LowerContext:
    """What an operator may ask while it describes its work.

    Attributes:
        aicpu_types: What the chip runs on the AI CPU (`OpSet.on_ai_cpu`).
        options: Profile flags ("aicpu_pow" ...).
        intrinsics: Vector instructions of the chip with the names of the types they take; empty = take all
            for granted.
        gelu_two_exponents, sigmoid_polynomial, sigmoid_divides, softmax_multiplies, transpose_packs_lines,
            select_sets_mask, transdata_in_turn, rows_in_turn, sums_in_turn, transdata_by_images,
            transdata_filter_cycles, selects_by_repeat, spreads_channels, map_blocks, register_move_cycles:
            How CANN's kernels for the chip do it (`soc.KernelSpec`).
        cores: AI Cores; of split chips the cube cores.
        split_cores: Whether cube and vector cores are apart.
        l1_bytes, ub_bytes: Sizes of the buffers of a core.
    """

    aicpu_types: frozenset[str] = frozenset()
    options: dict[str, object] = field(default_factory=dict)
    intrinsics: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    gelu_two_exponents: bool = True
    sigmoid_polynomial: bool = False
    sigmoid_divides: bool = False
    softmax_multiplies: bool = False
    transpose_packs_lines: bool = True
    select_sets_mask: bool = False
    transdata_in_turn: bool = False
    rows_in_turn: bool = False
    sums_in_turn: bool = False
    cores: int = 1
    split_cores: bool = False
    transdata_by_images: bool = False
    transdata_filter_cycles: float = 0.0
    selects_by_repeat: bool = False
    spreads_channels: bool = False
    map_blocks: bool = False
    register_move_cycles: float = 0.0
    l1_bytes: int = 0
    ub_bytes: int = 0

    @classmethod
    def of(
        cls,
        soc: SocSpec,
        aicpu_types: frozenset[str] = frozenset(),
        options: Mapping[str, object] | None = None,
    ) -> LowerContext:
        """What a chip allows."""
        kernels = soc.kernels
        return cls(
            aicpu_types,
            dict(options or {}),
            soc.vector.intrinsics,
            kernels.gelu_two_exponents,
            kernels.sigmoid_polynomial,
            kernels.sigmoid_divides,
            kernels.softmax_multiplies,
            kernels.transpose_packs_lines,
            kernels.select_sets_mask,
            kernels.transdata_in_turn,
            kernels.rows_in_turn,
            kernels.sums_in_turn,
            soc.ai_cores,
            soc.split_cores,
            kernels.transdata_by_images,
            kernels.transdata_filter_cycles,
            kernels.selects_by_repeat,
            kernels.spreads_channels,
            kernels.map_blocks,
            kernels.register_move_cycles,
            soc.buffers.l1 or 0,
            soc.buffers.ub or 0,
        )

    @property
    def register_moves(self) -> bool:
        """Whether kernels take what fills no blocks of 32 B number by number."""
        return self.register_move_cycles > 0

    @property
    def open_shapes(self) -> bool:
        """Whether kernels that CANN has for open shapes work out their tiling on the core."""
        return bool(self.options.get(OPEN_SHAPES, False))

    def form(self, cann_type: str) -> str | None:
        """The form of a kernel that the user chose; None = the kernel's own default."""
        chosen = self.options.get(FORM + cann_type)
        return None if chosen is None else str(chosen)

    def supports(self, op: str, dtype: DType) -> bool:
        """Whether the chip has a vector instruction for a type."""
        return not self.intrinsics or dtype.value in self.intrinsics.get(op, ())
