"""Tensors of the kernel language: addresses and pieces of global and on-chip memory."""

from __future__ import annotations

from sys import _getframe
from types import FrameType
from typing import Any

import numpy as np

from ascendsim.asc.overlap import Room, placed, touched
from ascendsim.asc.recorder import STATE, Recorder, Region, fail, name_of, outside, recorder_for
from ascendsim.asc.types import BUFFERS, CacheMode, CacheRwMode, DataType, TPosition
from ascendsim.core.errors import KernelError
from ascendsim.core.formats import BLOCK_BYTES, align
from ascendsim.isa.capacity import capacity
from ascendsim.isa.effects import Box, Effect, row
from ascendsim.isa.instructions import Buffer, Pipe

_SORTS: dict[Any, int] = {}  # sorts of operands: what forms depend on


def sort_of(*parts: Any) -> int:
    """A number that equal sorts share."""
    return _SORTS.setdefault(parts, len(_SORTS))


class GlobalAddress:
    """An address in an array of the user.

    A kernel gets one for every array. Outside of kernels `GlobalAddress(array, asc.bfloat16)` says of what
    type the elements of an array are meant to be (bfloat16 as uint16).
    """

    __slots__ = ("array", "dtype", "offset", "region")

    def __init__(
        self, array: Any, dtype: DataType | None = None, region: Region | None = None, offset: int = 0
    ) -> None:
        self.array, self.region, self.offset = array, region, offset
        self.dtype: Any = dtype

    def __add__(self, elements: int) -> GlobalAddress:
        return GlobalAddress(
            self.array, self.dtype, self.region, self.offset + int(elements) * self.dtype.bytes
        )

    __radd__ = __add__

    def __repr__(self) -> str:
        name = "an array" if self.region is None else self.region.name
        return f"GlobalAddress({name} + {self.offset // (self.dtype.bytes if self.dtype else 1)})"


class GlobalTensor:
    """A stretch of global memory; where it lies `set_global_buffer` says.

    Attributes:
        address: Its first byte in the region.
        sort: What forms depend on: region, type, whether L2 is used.
    """

    __slots__ = ("address", "cached", "dtype", "length", "region", "sort")
    buffer = Buffer.GM

    def __init__(self) -> None:
        recorder_for("GlobalTensor")
        self.address, self.length, self.sort, self.cached = 0, 0, -1, True
        self.region: Any = None
        self.dtype: Any = None

    def set_global_buffer(self, buffer: GlobalAddress, buffer_size: int | None = None) -> None:
        """Puts the tensor at an address.

        Args:
            buffer: The first element.
            buffer_size: Elements; None = up to the end of the array.
        """
        if not isinstance(buffer, GlobalAddress) or buffer.region is None:
            raise fail(
                _getframe(1),
                "GlobalTensor.set_global_buffer",
                "takes an address that the kernel was given",
                type(buffer).__name__,
                "pass the array to the kernel and hand its address on",
            )
        if buffer.offset < 0:
            raise _negative(_getframe(1), buffer.offset // buffer.dtype.bytes)
        self.region, self.address, self.dtype = buffer.region, buffer.offset, buffer.dtype
        rest = (buffer.region.bytes - buffer.offset) // buffer.dtype.bytes
        self.length = rest if buffer_size is None else int(buffer_size)
        self._sort()

    def _sort(self) -> None:
        self.sort = sort_of(Buffer.GM, self.region.number, self.region.name, self.dtype.kind, self.cached)

    def set_l2_cache_hint(
        self, mode: CacheMode = CacheMode.CACHE_MODE_NORMAL, rw: CacheRwMode = CacheRwMode.RW
    ) -> None:
        """Says whether reads go through L2."""
        self.cached = mode is not CacheMode.CACHE_MODE_DISABLE
        if self.region is not None:
            self._sort()

    def __getitem__(self, index: Any) -> GlobalTensor:
        start = index.start or 0 if type(index) is slice else index
        made: GlobalTensor = _new_global(GlobalTensor)
        dtype = made.dtype = self.dtype
        if dtype is None:
            raise _homeless(_getframe(1))
        if start < 0:
            raise _negative(_getframe(1), start)
        made.region, made.sort, made.cached = self.region, self.sort, self.cached
        made.address = self.address + start * dtype.bytes
        made.length = self.length - start
        if type(index) is slice and index.stop is not None:
            made.length = index.stop - start
        return made

    __call__ = __getitem__

    @property
    def piece(self) -> Region:
        """What it is a part of."""
        region: Region = self.region
        return region

    def get_size(self) -> int:
        """Elements."""
        return self.length

    def get_phy_addr(self, offset: int = 0) -> GlobalAddress:
        """Address of an element."""
        return GlobalAddress(None, self.dtype, self.region, self.address + offset * self.dtype.bytes)

    def get_value(self, offset: int = 0) -> Any:
        """One element, read by the scalar unit: what was recorded so far is evaluated first."""
        return _get(self, int(offset), "GlobalTensor.get_value", _getframe(1))

    def set_value(self, offset: int, value: float) -> None:
        """Writes one element, by the scalar unit."""
        _set(self, int(offset), value, "GlobalTensor.set_value", _getframe(1))

    def box(self, dims: Any) -> Box:
        """Elements of this tensor's region, from 0."""
        return Box(Buffer.GM, self.region.name, self.dtype.kind, dims)


_new_global: Any = object.__new__


def _homeless(frame: FrameType) -> KernelError:
    return fail(
        frame, "GlobalTensor", "has no place in global memory", remedy="call its set_global_buffer first"
    )


def _negative(frame: FrameType, start: int) -> KernelError:
    return fail(
        frame, "tensor", "cannot start before its first element", start, "count from the first element"
    )


class Piece:
    """A stretch of on-chip memory that tensors lie in.

    Attributes:
        start, end: First byte and the one behind the last; the end is -1 once a queue has taken it back.
        slot: Of a queue, the number of its slot.
        owner: The queue or buffer that it belongs to.
        stage: Of a queue's: "allocated", "enqueued", "dequeued" or "freed".
        freed: Where it was freed.
        room: Of a tensor that overlaps another one in part, its stretch of the buffer; `end` is below 0 then.
    """

    __slots__ = ("end", "freed", "owner", "room", "slot", "stage", "start")

    def __init__(self, start: int, end: int, owner: Any = None, slot: int = 0) -> None:
        self.start, self.end, self.owner, self.slot = start, end, owner, slot
        self.stage = "allocated"
        self.freed = ""
        self.room: Room | None = None


class LocalTensor:
    """A stretch of on-chip memory.

    Args:
        dtype: Type of its elements.
        pos: What it is for, which says in which buffer it lies.
        addr: Its first byte in the buffer.
        tile_size: Elements.
    """

    __slots__ = ("address", "buffer", "dtype", "length", "piece", "position", "sort", "tag")

    def __init__(
        self, dtype: DataType, pos: TPosition = TPosition.VECIN, addr: int = 0, tile_size: int = 0
    ) -> None:
        recorder = recorder_for("LocalTensor")
        frame = _getframe(1)
        buffer = BUFFERS.get(pos)
        if not isinstance(dtype, DataType) or buffer is None:
            wrong = dtype if not isinstance(dtype, DataType) else pos
            raise fail(frame, "LocalTensor", "takes a type, a position, an address and a length", repr(wrong))
        self._fill(dtype, pos, buffer, int(addr), int(tile_size))
        # the last block is the tensor's own: instructions work on whole blocks
        self.piece = Piece(self.address, align(self.address + self.length * dtype.bytes, BLOCK_BYTES))
        size = capacity(recorder.soc, buffer)
        if self.address < 0 or self.length < 1 or self.address % 32:
            raise fail(
                frame,
                "LocalTensor",
                "must have elements and start at a multiple of 32 bytes",
                f"{self.length} elements at {self.address:#x}",
                "round the address up",
            )
        if self.piece.end > size:
            raise fail(
                frame,
                "LocalTensor",
                f"must end within the {size} bytes of {buffer.value} of {recorder.soc.name}",
                f"{self.piece.end}",
                "use smaller tiles",
            )
        placed(recorder, self)

    def _fill(self, dtype: DataType, pos: TPosition, buffer: Buffer, address: int, length: int) -> None:
        self.dtype, self.position, self.buffer = dtype, pos, buffer
        self.address, self.length, self.tag = address, length, 0
        self.sort = sort_of(buffer, dtype.kind)

    @classmethod
    def of(cls, piece: Piece, dtype: DataType, pos: TPosition, address: int, length: int) -> LocalTensor:
        """A tensor in a piece that is there already."""
        made: LocalTensor = _new_local(cls)
        made._fill(dtype, pos, BUFFERS[pos], address, length)
        made.piece = piece
        return made

    def __getitem__(self, index: Any) -> LocalTensor:
        start = index.start or 0 if type(index) is slice else index
        made: LocalTensor = _new_local(LocalTensor)
        dtype = made.dtype = self.dtype
        if start < 0:
            raise _negative(_getframe(1), start)
        made.sort, made.piece, made.buffer, made.position = self.sort, self.piece, self.buffer, self.position
        made.address = self.address + start * dtype.bytes
        made.length = self.length - start
        made.tag = 0
        if type(index) is slice and index.stop is not None:
            made.length = index.stop - start
        return made

    __call__ = __getitem__

    def get_size(self) -> int:
        """Elements."""
        return self.length

    def get_length(self) -> int:
        """Bytes."""
        return self.length * self.dtype.bytes

    def get_phy_addr(self, offset: int = 0) -> int:
        """Byte address of an element in its buffer."""
        address = self.address + offset * self.dtype.bytes
        recorder_for("LocalTensor.get_phy_addr").state.setdefault("tensors", {})[address] = self[offset:]
        return address

    def get_position(self) -> TPosition:
        """What it is for."""
        return self.position

    def set_size(self, size: int = 0) -> None:
        """Changes the number of elements that `get_size` tells."""
        self.length = int(size)

    def set_buffer_len(self, data_len: int) -> None:
        """Changes the number of bytes that `get_length` tells."""
        self.length = int(data_len) // self.dtype.bytes

    def set_user_tag(self, tag: int = 0) -> None:
        """Keeps a number with the tensor."""
        self.tag = int(tag)

    def get_user_tag(self) -> int:
        """The number that `set_user_tag` kept."""
        return self.tag

    def set_addr_with_offset(self, src: LocalTensor, offset: int) -> None:
        """Moves the tensor to an element of another one."""
        if int(offset) < 0:
            raise _negative(_getframe(1), int(offset))
        self.piece = src.piece
        self.address = src.address + int(offset) * src.dtype.bytes

    def reinterpret_cast(self, dtype: DataType) -> LocalTensor:
        """The same bytes as elements of another type."""
        length = self.length * self.dtype.bytes // dtype.bytes
        return LocalTensor.of(self.piece, dtype, self.position, self.address, length)

    def get_value(self, index: int = 0) -> Any:
        """One element, read by the scalar unit: what was recorded so far is evaluated first."""
        return _get(self, int(index), "LocalTensor.get_value", _getframe(1))

    def set_value(self, index: int, value: float) -> None:
        """Writes one element, by the scalar unit."""
        _set(self, int(index), value, "LocalTensor.set_value", _getframe(1))

    def box(self, dims: Any) -> Box:
        """Elements of this tensor's buffer, from 0."""
        return Box(self.buffer, "", self.dtype.kind, dims)


_new_local: Any = object.__new__


def beyond(recorder: Recorder, frame: FrameType, name: str, operand: tuple[str, Any, int]) -> None:
    """Notes an operand that ends outside of its piece; the call goes on with the bytes behind it.

    Args:
        recorder: The core.
        frame: Where the call stands.
        name: The call.
        operand: "reads" or "writes", the tensor, and bytes from its address to the end of what is touched.

    Raises:
        KernelError: The piece is gone, or the operand ends outside of the buffer.
    """
    verb, tensor, end = operand
    piece, last = tensor.piece, tensor.piece.end
    if getattr(piece, "room", None) is not None:
        touched(recorder, frame, name, operand, tensor.buffer)
        last = piece.room.end
        if tensor.address + end <= last:
            return
    called = name_of(frame, tensor, "a tensor")
    if last < 0:
        rule = f"{verb} {called}, which was freed at {piece.freed}"
        raise fail(frame, name, rule, remedy="free it after its last use")
    size = tensor.dtype.bytes
    start = tensor.address - piece.start
    rule = f"{verb} {called}[{start // size}..{(start + end - 1) // size}], but there are "
    rule += f"{(last - piece.start) // size} elements"
    remedy = "make the tensor larger or the count smaller"
    if tensor.address < 0 or tensor.address + end > capacity(recorder.soc, tensor.buffer):
        raise fail(frame, name, f"{rule}, and {tensor.buffer.value} ends there", remedy=remedy)
    recorder.note(frame, name, "outside", rule, remedy)


def float_bits(value: float) -> int:
    """A number as the int64 that has the bits of its float64: how rows hold scalars."""
    return int(np.float64(value).view(np.int64))


def _access(tensor: Any, index: int, name: str, frame: FrameType, write: bool) -> tuple[Recorder, int]:
    recorder = STATE.recorder
    if recorder is None:
        raise outside(name)
    if tensor.dtype is None:
        raise _homeless(frame)
    address = tensor.address + index * tensor.dtype.bytes
    if tensor.buffer is not Buffer.GM:
        if index < 0:
            raise _negative(frame, index)
        if address + tensor.dtype.bytes > tensor.piece.end:
            verb = "writes" if write else "reads"
            beyond(recorder, frame, name, (verb, tensor[index:], tensor.dtype.bytes))
    if tensor.buffer is Buffer.GM and not 0 <= address <= tensor.region.bytes - tensor.dtype.bytes:
        verb, there = "writes" if write else "reads", tensor.region.bytes // tensor.dtype.bytes
        rule = f"{verb} element {address // tensor.dtype.bytes}, but {tensor.region.name} has {there}"
        raise fail(frame, name, rule, remedy="stay inside")
    key = (name, id(frame.f_code), frame.f_lasti, tensor.sort)
    form = recorder.known.get(key)
    if form is None:
        boxes = (tensor.box(row(1, tensor.dtype.kind)),)
        effect = (
            Effect("scalar", "SET", writes=boxes, scalars=1)
            if write
            else Effect("scalar", "GET", reads=boxes)
        )
        form = recorder.forms.add(key, frame, name, Pipe.S, effect)
    recorder.values.append(address)
    recorder.rows.append(form.number)
    return recorder, address


def _get(tensor: Any, index: int, name: str, frame: FrameType) -> Any:
    recorder, address = _access(tensor, index, name, frame, write=False)
    recorder.flush()
    return recorder.read(tensor, address, site_text(frame, name), _element_name(tensor, index, frame))


def _element_name(tensor: Any, index: int, frame: FrameType) -> str:
    """An element as the kernel's text calls it: "x_local[3]"; "" if no variable there holds the tensor."""
    found = next((name for name, value in frame.f_locals.items() if value is tensor), "")
    return f"{found}[{index}]" if found else ""


def _set(tensor: Any, index: int, value: float, name: str, frame: FrameType) -> None:
    recorder, address = _access(tensor, index, name, frame, write=True)
    recorder.values.append(float_bits(value))
    if tensor.dtype.name == "uint64":  # lists of addresses, which instructions take from memory
        recorder.state.setdefault("addresses", {})[address] = int(value)


def site_text(frame: FrameType, name: str) -> str:
    """Where a call stands, for messages."""
    return str(fail(frame, name, ""))
