"""What operators that rearrange data ask for: bytes carried from one tensor to another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ascendsim.opset.refs import Ref
from ascendsim.opset.steps import Step


@dataclass(frozen=True, slots=True)
class Copy:
    """Bytes carried from one tensor to another through UB.

    Attributes:
        bytes: Bytes read; more than the source holds where pieces are read again (Gather of the same rows).
        read_burst, write_burst: Length of the contiguous pieces in GM on either side.
        write_bytes: Bytes written where they differ from those read (padding, broadcast, strided slices); 0 =
            as many.
    """

    src: Ref
    dst: Ref
    bytes: int
    read_burst: int
    write_burst: int
    write_bytes: int = 0

    @property
    def written(self) -> int:
        """Bytes that reach `dst`."""
        return self.write_bytes or self.bytes


@dataclass(frozen=True, slots=True)
class MoveWork:
    """Rearranging data: transpose, concat, slice, pad, gather, TransData.

    Attributes:
        steps: Vector work on every element on the way (vnchwconv for transposes, vconv for casts, vectordup
            for padding).
        scalar_per_burst: Scalar cycles of address computation per read burst (indexed access), 0 for affine
            patterns.
        in_turn: Whether all cores take part, however little there is, and a tile comes only when the one
            before it has left its buffer.
        one_buffer: Whether a tile comes only when the one before it has left.
        own_tiling, code_at_hand: See `VectorWork`.
        pieces: Images, filters and the like of which a core takes whole ones, all the same number; 0 = a core
            takes any part, and there are as many as are worth while.
        most_cores: Over which they are dealt out; 0 = all.
        singly: Whether pieces of the source come by a DMA instruction each ("read"), or those of the target
            go by one and are added to what lies there ("added").
        blocks: See `VectorWork`; with equally many bytes of the first copy each.
        one_by_one: Every element comes and goes by a DMA instruction of its own, on one core, without a
            second buffer; there are no steps then.
    """

    copies: tuple[Copy, ...]
    steps: tuple[Step, ...] = ()
    scalar_per_burst: int = 0
    extra_inputs: tuple[Ref, ...] = ()  # indices and the like, read once
    one_by_one: bool = False
    in_turn: bool = False
    one_buffer: bool = False
    own_tiling: bool = False
    code_at_hand: bool = False
    pieces: int = 0
    most_cores: int = 0
    blocks: int = 0
    singly: Literal["", "read", "added"] = ""
