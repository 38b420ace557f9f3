"""What a seeded bug is, and the small words that their kernels are written in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ascendsim import asc

H, POS, UB = asc.HardEvent, asc.TPosition, asc.TPosition.VECCALC
F32, PIPE = asc.float32, asc.PipeID
BUGS: list[Bug] = []


@dataclass(frozen=True)
class Bug:
    """A kernel with a fault.

    Attributes:
        kernel: Takes `bug`, whether it has its fault, and arrays x, y, z of 1,024 float32. The line that is
            wrong ends with `# BUG`; without such a line the finding has none.
        kind: Of the finding; "error" is a line that stops the kernel.
        text: What it says.
        cores: Blocks.
        options: Of `run_kernel`.
    """

    kernel: Any
    kind: str
    text: str
    cores: int = 1
    options: tuple[tuple[str, Any], ...] = ()


def bug(kind: str, text: str, cores: int = 1, **options: Any) -> Callable[[Any], Any]:
    """Puts a kernel among the bugs."""

    def add(function: Any) -> Any:
        BUGS.append(Bug(asc.jit(function), kind, text, cores, tuple(options.items())))
        return function

    return add


def local(place: int, size: int = 64, dtype: Any = F32, pos: Any = UB) -> Any:
    """A tensor at an address."""
    return asc.LocalTensor(dtype, pos, place, size)


def gm(address: Any) -> Any:
    """A whole array."""
    tensor = asc.GlobalTensor()
    tensor.set_global_buffer(address)
    return tensor


def order(event: str, number: int = 0, unless: bool = False) -> None:
    """A flag, set and waited for."""
    if not unless:
        asc.set_flag(H[event], number)
        asc.wait_flag(H[event], number)


def queue(pos: Any = POS.VECIN, slots: int = 1, size: int = 256) -> Any:
    """A queue with its room."""
    pipe, que = asc.TPipe(), asc.TQue(pos, slots)
    pipe.init_buffer(que, slots, size)
    return que


def touch(*addresses: Any) -> None:
    """Reads arrays that a kernel has no use for."""
    for number, address in enumerate(addresses):
        asc.data_copy(local(190000 // 32 * 32 + 32 * number, 8), gm(address), 8)


def keep(z: Any, *tensors: Any) -> None:
    """Stores what there is at the end, with nothing else under way."""
    asc.pipe_barrier(PIPE.PIPE_ALL)
    for number, tensor in enumerate(tensors):
        asc.data_copy(gm(z)[512 + 64 * number :], tensor, 64)
