"""Launches of Triton kernels: compiled, recorded in a process of its own, timed by the machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.api.kernels import KernelResult
from ascendsim.core.arguments import checked
from ascendsim.core.errors import InputError, KernelError
from ascendsim.isa.program import (
    Access,
    BlockGroup,
    CoreKind,
    MemoryPlan,
    Program,
    ProgramInfo,
    Task,
    TaskKind,
)
from ascendsim.machine import run as run_machine
from ascendsim.soc import SocSpec, load
from ascendsim.tile.advice import Timed
from ascendsim.tile.findings import Finding
from ascendsim.triton.arguments import Arguments
from ascendsim.triton.compiling import compiled
from ascendsim.triton.hints import one_by_one
from ascendsim.triton.kit import compilers
from ascendsim.triton.source import bound, function_of, source_of
from ascendsim.triton.streams import WORKSPACE, Row, Streams

MOST_BLOCKS = 65535  # of a grid, as the vendor's launcher has it
LIMIT = 2_000_000  # instructions of a block
SECONDS = 3600


class TritonResult(KernelResult):
    """One launch of a Triton kernel, of instructions as the vendor's compiler made them."""

    @cached_property
    def advice(self) -> tuple[Finding, ...]:
        """What costs time and is no fault, with the cycles that are lost; made when it is first asked for."""
        found = one_by_one(self.program, self.soc)
        return () if found is None else (found,)


@checked(soc="see `ascendsim soc list`")
def run_triton(
    kernel: Any,
    *args: Any,
    soc: str | PathLike[str] | SocSpec = "Ascend910B1",
    grid: Any = None,
    values: bool = True,
    compilers_folder: str | PathLike[str] | None = None,
    **named: Any,
) -> KernelResult:
    """Runs a Triton kernel on the simulated chip; arrays that it writes are filled.

    Args:
        kernel: `kernel[grid]`, or the kernel with `grid=` beside it.
        *args: What the kernel gets: arrays of NumPy, tensors of PyTorch on the CPU, numbers.
        soc: Name of a chip of the families Ascend910B and Ascend910_93, path of a chip's file, or a
            `SocSpec`.
        grid: Programs: a number, up to three, or a function of the arguments that gives them.
        values: Whether values are computed; False gives the time alone. Scalars that a kernel reads from
            memory then are what the arrays hold at the start.
        compilers_folder: Where `ascendsim kernel setup-triton` has put the vendor's compilers, if not in its
            own place.
        **named: Parameters of the kernel by name, and options of the compiler (`multibuffer=False`).

    Raises:
        InputError: An argument cannot be used, or the compilers are not there.
        CompileError: The vendor's compiler refuses the kernel; says at which stage and why.
        KernelError: The compiled kernel has an instruction that cannot be run yet.
    """
    chip = soc if isinstance(soc, SocSpec) else load(soc)
    if not chip.split_cores or chip.name.startswith("Ascend910_95"):
        rule = "runs Triton kernels on chips of the families Ascend910B and Ascend910_93"
        raise InputError("the vendor's compiler", rule, chip.name)
    kernel, grid = launched(kernel, grid)
    function = function_of(kernel)
    given, options = bound(function, args, named)
    folder = compilers(None if compilers_folder is None else Path(compilers_folder))
    arguments = Arguments(function.__name__, given)
    programs = blocks_of(function.__name__, grid, given)
    with tempfile.TemporaryDirectory(prefix="ascendsim-triton-") as temporary:
        scratch = Path(temporary)
        source = source_of(kernel)
        made = compiled(
            source, function.__name__, arguments.seen(), options, chip, kit=folder, scratch=scratch
        )
        memrefs, scalars = arguments.of(made.parameters)
        job = {
            "module": str(made.module),
            "libraries": str(folder / "libraries"),
            "arrays": len(arguments.arrays),
            "memrefs": memrefs,
            "scalars": scalars,
            "grid": programs,
            "values": values,
            "limit": LIMIT,
        }
        recorded = _recorded(function.__name__, job, arguments.arrays, scratch / "record")
    if values:
        arguments.fill(recorded.arrays)
    return _timed(function.__name__, chip, recorded, arguments)


def launched(kernel: Any, grid: Any) -> tuple[Any, Any]:
    """A kernel and its grid, out of `kernel[grid]` too.

    Raises:
        InputError: There is no grid.
    """
    code = getattr(kernel, "__code__", None)
    if code is not None and {"grid", "self"} <= set(code.co_freevars):  # what kernel[grid] of Triton is
        cells = dict(zip(code.co_freevars, kernel.__closure__, strict=True))
        kernel, grid = cells["self"].cell_contents, cells["grid"].cell_contents
    elif isinstance(kernel, tuple) and len(kernel) == 2:
        kernel, grid = kernel
    if grid is None:
        raise InputError("Triton kernel", "needs a grid", remedy="write run_triton(kernel[grid], ...)")
    return kernel, grid


def blocks_of(name: str, grid: Any, given: Mapping[str, Any]) -> list[int]:
    """The grid as three numbers.

    Raises:
        InputError: It is none, or has too many programs.
    """
    found = grid(dict(given)) if callable(grid) else grid
    listed = [found] if isinstance(found, int | np.integer) else list(found)
    whole = [one for one in listed if isinstance(one, int | np.integer) and not isinstance(one, bool)]
    if not 1 <= len(listed) <= 3 or len(whole) != len(listed) or min(whole) < 1:
        raise InputError(f"grid of kernel {name!r}", "must be one to three positive integers", found)
    sizes = [int(one) for one in listed] + [1] * (3 - len(listed))
    if sizes[0] * sizes[1] * sizes[2] > MOST_BLOCKS:
        total = f"{sizes[0] * sizes[1] * sizes[2]:,}"
        raise InputError(f"grid of kernel {name!r}", f"may have at most {MOST_BLOCKS:,} programs", total)
    return sizes


@dataclass(frozen=True)
class Recorded:
    """What a launch has issued.

    Attributes:
        streams: Of each core of each block the rows, cores of a block one behind the other.
        roles: Kinds and numbers of the cores of a block.
        starts: Where each array lay.
        arrays: What they hold.
    """

    streams: Sequence[tuple[NDArray[np.int32], NDArray[np.int8], NDArray[np.uint64]]]
    names: Sequence[str]
    roles: Sequence[tuple[str, int]]
    starts: Sequence[int]
    arrays: Sequence[NDArray[Any]]

    def rows(self, at: int) -> list[Row]:
        """Rows of one stream."""
        codes, counts, words = self.streams[at]
        ends = np.cumsum(counts, dtype=np.int64).tolist()
        listed = words.tolist()
        return [
            (self.names[code], tuple(listed[end - count : end]))
            for code, count, end in zip(codes.tolist(), counts.tolist(), ends, strict=True)
        ]


def _recorded(name: str, job: Mapping[str, Any], arrays: Sequence[NDArray[Any]], folder: Path) -> Recorded:
    """Runs the recording's own process."""
    folder.mkdir()
    for at, array in enumerate(arrays):
        np.save(folder / f"array{at}.npy", array)
    (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
    command = [sys.executable, "-m", "ascendsim.triton.recording", str(folder / "job.json")]
    path = os.pathsep.join(filter(None, sys.path))
    environment = {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        raise KernelError(f"kernel {name!r}", f"runs for more than {SECONDS} seconds") from None
    try:
        result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        last = (done.stderr.strip().splitlines() or [""])[-1]
        said = signal.Signals(-done.returncode).name if done.returncode < 0 else last
        raise KernelError(f"kernel {name!r}", f"stopped the vendor's library: {said}") from None
    if "error" in result:
        raise KernelError(f"kernel {name!r}:", result["error"])
    with np.load(folder / "streams.npz", allow_pickle=False) as found:
        codes, counts, words, lengths = (found[part] for part in ("codes", "counts", "words", "lengths"))
    streams, row, word = [], 0, 0
    for length in lengths.tolist():
        taken = int(counts[row : row + length].sum(dtype=np.int64))
        streams.append((codes[row : row + length], counts[row : row + length], words[word : word + taken]))
        row, word = row + length, word + taken
    filled = [np.load(folder / f"array{at}.npy", allow_pickle=False) for at in range(len(arrays))]
    return Recorded(streams, result["names"], result["roles"], result["starts"], filled)


_KINDS = {"AIC": CoreKind.CUBE, "AIV": CoreKind.VECTOR}
_GM_FIRST, _GM_END = 1 << 44, 2 << 44


def _signature(stream: tuple[NDArray[np.int32], NDArray[np.int8], NDArray[np.uint64]]) -> bytes:
    """Equal for streams that take the same time: addresses of global memory count by their place in a
    transaction only.
    """
    codes, counts, words = stream
    outside = (words >= _GM_FIRST) & (words < _GM_END)
    return b"".join(part.tobytes() for part in (codes, counts, np.where(outside, words % 512, words)))


def _timed(name: str, chip: SocSpec, recorded: Recorded, arguments: Arguments) -> KernelResult:
    """The launch as a program, timed."""
    regions = [
        (region, start, start + array.nbytes)
        for region, start, array in zip(arguments.regions, recorded.starts, recorded.arrays, strict=True)
    ]
    making = Streams(chip, regions)
    size = len(recorded.roles)
    teams = [range(first, first + size) for first in range(0, len(recorded.streams), size)]
    signatures = [tuple([_signature(recorded.streams[at]) for at in team]) for team in teams]
    numbers, first = Counter(signatures), dict(zip(signatures[::-1], teams[::-1], strict=True))
    groups: list[BlockGroup] = []
    moved: Counter[tuple[str, bool]] = Counter()
    for number, (signature, count) in enumerate(numbers.items()):
        parts = list(zip(recorded.roles, first[signature], strict=True))
        alike = len(parts) == 3 and signature[1] == signature[2]
        for (kind, _), at in parts[:2] if alike else parts:
            block = making.block(recorded.rows(at), _KINDS[kind])
            times = count * (2 if alike and kind == "AIV" else 1)
            groups.append(BlockGroup(block, times, number if size > 1 else None))
            for key, length in making.moved.items():
                moved[key] += length * times
    sizes = {region: end - start for region, start, end in regions}
    if any(region == WORKSPACE for region, _ in moved):
        sizes[WORKSPACE] = max(length for (region, _), length in moved.items() if region == WORKSPACE)
    accesses = tuple(
        [
            Access(region, min(length, sizes[region]), length, written)
            for (region, written), length in moved.items()
        ]
    )
    only = TaskKind.AI_CORE if recorded.roles[0][0] == "AIC" else TaskKind.AI_VECTOR_CORE
    task = Task(0, name, TaskKind.MIX_AIC if size > 1 else only, groups=tuple(groups), accesses=accesses)
    program = Program((task,), MemoryPlan.in_a_row(sizes, "input"), info=ProgramInfo(chip.name, name))
    timed = Timed(program, [], [], [], chip, lambda other: run_machine(other, chip).cycles)
    instructions = sum(len(codes) for codes, _, _ in recorded.streams)
    return TritonResult(name, chip, program, run_machine(program, chip), (), instructions, timed)
