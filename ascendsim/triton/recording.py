"""Runs a compiled kernel on the host, block by block, and writes down every instruction: the process of its
own in which the vendor's library runs.

    python -m ascendsim.triton.recording JOB.json

The job names the module, the arguments and the blocks; streams and arrays come back as plain arrays. What
crashes here ends this process alone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from threading import Condition, Thread
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.core.errors import AscendSimError, KernelError
from ascendsim.triton.interpreter import Interpreter, called
from ascendsim.triton.meaning import DTYPES, Unit
from ascendsim.triton.memrefs import Memref, memref_type
from ascendsim.triton.reading import Argument, Function, read_module
from ascendsim_kernels.hivm_library import GM, Library, Memories, start_of
from ascendsim_kernels.hivm_text import LibraryError

ALIGNMENT = 512
RESERVED = 1 << 20  # bytes in front of the arrays: locks and workspaces
_ELEMENTS = {"f32": "f32", "f16": "f16", "bf16": "bf16", "i32": "s32", "i16": "s16", "i8": "s8", "i64": "s64"}


class Stream:
    """Rows of one core: numbers of instructions, and their words one behind the other."""

    def __init__(self, names: dict[str, int], limit: int) -> None:
        self._names, self._limit = names, limit
        self.codes: list[int] = []
        self.words: list[int] = []
        self.counts: list[int] = []

    def add(self, name: str, words: tuple[int, ...]) -> None:
        self.codes.append(self._names.setdefault(name, len(self._names)))
        self.words.extend(words)
        self.counts.append(len(words))
        if len(self.codes) > self._limit:
            raise KernelError(
                "compiled kernel",
                f"issues more than {self._limit:,} instructions in a block",
                remedy="make the grid larger",
            )


class Team:
    """The cores of one team: one of them runs, the others wait for their turn."""

    def __init__(self, memories: Memories, number: int) -> None:
        self._memories, self._turn, self._changed = memories, 0, Condition()
        self._done = [False] * number
        self._flags: dict[tuple[int, str], int] = {}
        self._waiting = 0
        self.failed: BaseException | None = None

    def begin(self, core: int) -> None:
        """Waits for the first turn of a core."""
        with self._changed:
            self._changed.wait_for(lambda: self._turn == core)
        self._memories.turn(core)

    def end(self, core: int) -> None:
        """A core has nothing more to do."""
        self._done[core] = True
        self._waiting = 0
        self._next(core)

    def _next(self, core: int) -> None:
        going = [at for at in range(len(self._done)) if not self._done[at]]
        with self._changed:
            if going:
                self._turn = min((at for at in going if at > core), default=going[0])
            self._changed.notify_all()

    def add(self, flag: int, target: str) -> None:
        self._flags[flag, target] = self._flags.get((flag, target), 0) + 1
        self._waiting = 0

    def take(self, core: int, flag: int, target: str) -> None:
        """Waits until a flag has been set, and takes one away."""
        while not self._flags.get((flag, target), 0):
            if self.failed is not None:
                raise KernelError("compiled kernel", "has stopped on another core")
            self._waiting += 1
            if self._waiting > 2 * len(self._done):
                raise KernelError("compiled kernel", f"waits for cross-core flag {flag}, which nothing sets")
            self._next(core)
            self.begin(core)
        self._waiting = 0
        self._flags[flag, target] -= 1


class RecordingCore:
    """A core that writes down its instructions and, if values are wanted, executes them."""

    def __init__(self, memories: Memories, number: int, kind: str, sub_block: int) -> None:
        self._memories, self.number, self.kind, self.sub_block = memories, number, kind, sub_block
        self.team: Team | None = None
        self.control = 0
        self.block = 0
        self.unit: Unit | None = None
        self.stream: Stream | None = None
        self.library: Library | None = None

    def emit(self, name: str, words: tuple[int, ...]) -> int:
        if name == "GET.SUBBLOCKID":
            return self.sub_block
        assert self.stream is not None
        self.stream.add(name, words)
        if self.unit is not None:
            self.unit.execute(name, words)
            if name == "GET.MAX.MIN.CNT":
                return self.unit.registers.extreme
        return self.block if name == "GET.BLOCK.IDX" else 0

    def call(self, name: str, words: Sequence[int]) -> None:
        assert self.library is not None
        self.library.hook = self.emit  # the vector cores of a team share a library
        self.library.control.value = self.control
        self.library.call(name, words)
        self.control = self.library.control.value

    def cross(self, name: str, flag: int, pipe: str, words: str) -> None:
        self.emit(f"{name}.{pipe}.{words}", (flag,))
        if self.team is None:
            return
        # what the cube core sets each vector core sees; what they set, each of them, the cube core sees
        if name.endswith("set"):
            targets = ["AIC"] if self.kind == "AIV" else ["AIV0", "AIV1"]
            for target in targets:
                self.team.add(flag, f"{target}{self.sub_block}" if target == "AIC" else target)
            return
        if self.kind == "AIC":
            for sub in range(2):
                self.team.take(self.number, flag, f"AIC{sub}")
        else:
            self.team.take(self.number, flag, f"AIV{self.sub_block}")

    def _element(self, address: int, kind: str) -> NDArray[Any]:
        if kind == "i1":
            kind = "i8"
        if kind not in _ELEMENTS:
            raise KernelError(f"scalar of {kind}", "in memory cannot be read yet")
        dtype = np.dtype(DTYPES[_ELEMENTS[kind]])
        space, place = address >> 44, address & ((1 << 44) - 1)
        found: NDArray[Any] = self._memories.bytes[space][place : place + dtype.itemsize].view(dtype)
        return found

    def element(self, address: int, kind: str) -> Any:
        value = self._element(address, kind)[0]
        if kind == "i1":
            return int(value) & 1
        return float(value) if kind in ("f32", "f16", "bf16") else int(value)

    def put(self, address: int, kind: str, value: Any) -> None:
        self._element(address, kind)[0] = value

    def start(self, space: int) -> int:
        return start_of(space)


class Recording:
    """A kernel with its arguments in memory.

    Args:
        job: What to run.
        folder: Where arrays are read from and results go.
    """

    def __init__(self, job: Mapping[str, Any], folder: Path) -> None:
        self._job, self._folder = job, folder
        self._module = read_module(Path(job["module"]).read_text(encoding="utf-8"))
        entries = self._module.entries
        self._cubes = [one for one in entries if one.core == "AIC"]
        self._vectors = [one for one in entries if one.core == "AIV"]
        self.mixed = bool(self._cubes and self._vectors)
        self._arrays = [np.load(folder / f"array{at}.npy", allow_pickle=False) for at in range(job["arrays"])]
        self._starts: list[int] = []
        blocks = int(np.prod(job["grid"]))
        workspace = self._workspace()
        place = RESERVED + -(-workspace * blocks // ALIGNMENT) * ALIGNMENT
        for array in self._arrays:
            self._starts.append(place)
            place += -(-max(1, array.nbytes) // ALIGNMENT) * ALIGNMENT
        self._names: dict[str, int] = {}
        roles = [("AIC", 0), ("AIV", 0), ("AIV", 1)] if self.mixed else [("AIC" if self._cubes else "AIV", 0)]
        self._memories = Memories(len(roles), place + ALIGNMENT)
        self._roles = roles
        for start, array in zip(self._starts, self._arrays, strict=True):
            self._memories.bytes[GM][start : start + array.nbytes] = array.reshape(-1).view(np.uint8)

    def _workspace(self) -> int:
        """Bytes of the workspace of a block, which a function of the module says."""
        for name, function in self._module.functions.items():
            if name.endswith("_infer_workspace_shape_function"):
                return int(Interpreter(self._module, function, _Nowhere()).run({})[0])
        return 0

    def run(self) -> dict[str, Any]:
        """Runs all blocks; writes streams and arrays."""
        grid = self._job["grid"]
        blocks = int(np.prod(grid))
        cores, interpreters, given = [], [], []
        libraries: dict[str, Library] = {}
        for number, (kind, sub) in enumerate(self._roles):
            core = RecordingCore(self._memories, number, kind, sub)
            function = (self._cubes if kind == "AIC" else self._vectors)[0]
            if kind not in libraries:
                libraries[kind] = self._library(kind, function)
            core.library = libraries[kind]
            if self._job["values"]:
                core.unit = Unit(self._memories)
            cores.append(core)
            interpreters.append(Interpreter(self._module, function, core, blocks, core.library.signatures))
            given.append(self._arguments(function))
        streams: list[tuple[Stream, ...]] = []
        for block, _ in enumerate(product(*map(range, grid))):
            self._block(block, cores, interpreters, given)
            streams.append(tuple([core.stream for core in cores if core.stream is not None]))
        return self._written(streams)

    def _block(
        self,
        block: int,
        cores: Sequence[RecordingCore],
        interpreters: Sequence[Interpreter],
        given: Sequence[Mapping[str, Any]],
    ) -> None:
        for core in cores:
            core.block, core.stream = block, Stream(self._names, self._job["limit"])
        if len(cores) == 1:
            interpreters[0].run(given[0])
            return
        shared = Team(self._memories, len(cores))

        def work(at: int) -> None:
            try:
                shared.begin(at)
                interpreters[at].run(given[at])
            except BaseException as error:
                shared.failed = shared.failed or error
            finally:
                shared.end(at)

        for core in cores:
            core.team = shared
        threads = [Thread(target=work, args=(at,), daemon=True) for at in range(len(cores))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if shared.failed is not None:
            raise shared.failed

    def _library(self, kind: str, function: Function) -> Library:
        """The library of a kind of core that has all functions which a kernel calls."""
        wanted = called(function.body)
        stem = kind.lower()
        folder = Path(self._job["libraries"])
        problem: LibraryError | None = None
        for name in (stem, f"mix_{stem}"):
            bitcode = Path(self._module.libraries.get(name, ""))
            text = folder / f"{bitcode.stem}.ll"
            if not text.is_file():
                continue
            try:
                return Library(text, wanted, folder / "objects")
            except LibraryError as error:
                problem = problem or error
        raise KernelError("library of operations", str(problem or f"for {kind} is missing"), remedy=SETUP)

    def _arguments(self, function: Function) -> dict[str, Any]:
        """Arguments of the module by name: workspaces, arrays, scalars, the grid."""
        scalars = [*self._job["scalars"], *self._job["grid"], 0, 0, 0]
        arrays = iter([(self._starts[at], self._arrays[at]) for at in self._job["memrefs"]])
        values: dict[str, Any] = {}
        rest = iter(scalars)
        for argument in function.arguments:
            values[argument.name] = self._argument(argument, arrays, rest)
        return values

    def _argument(self, argument: Argument, arrays: Any, rest: Any) -> Any:
        if "ffts_base_address" in argument.attributes:
            return 0
        if not argument.type.startswith("memref"):
            return next(rest)
        kind = memref_type(argument.type)
        if "hacc.arg_type" in argument.attributes:
            lock = "sync_block_lock" in argument.attributes
            return Memref(start_of(GM) + (0 if lock else RESERVED), 0, [1 << 30], [1], kind.element)
        start, array = next(arrays)
        return Memref(start_of(GM) + start, 0, [array.size], [1], kind.element)

    def _written(self, streams: Sequence[Sequence[Stream]]) -> dict[str, Any]:
        for at, array in enumerate(self._arrays):
            start = self._starts[at]
            filled = self._memories.bytes[GM][start : start + array.nbytes].copy()
            np.save(self._folder / f"array{at}.npy", filled.view(array.dtype).reshape(array.shape))
        listed = [stream for team in streams for stream in team]
        codes = np.array([code for one in listed for code in one.codes], np.int32)
        counts = np.array([count for one in listed for count in one.counts], np.int8)
        words = np.array([word & (1 << 64) - 1 for one in listed for word in one.words], np.uint64)
        lengths = np.array([len(one.codes) for one in listed], np.int64)
        np.savez(self._folder / "streams.npz", codes=codes, counts=counts, words=words, lengths=lengths)
        return {
            "names": list(self._names),
            "roles": [[kind, sub] for kind, sub in self._roles],
            "starts": self._starts,
            "kernel": next(iter(self._cubes + self._vectors)).name,
        }


SETUP = "run: ascendsim kernel setup-triton"


class _Nowhere:
    """A core for functions of the host, which have no instructions."""

    block = sub_block = 0

    def emit(self, name: str, words: tuple[int, ...]) -> int:
        return 0

    def call(self, name: str, words: Sequence[int]) -> None:
        raise KernelError(f"function {name}", "cannot run on the host")

    def cross(self, name: str, flag: int, pipe: str, words: str) -> None:
        raise KernelError("cross-core flag", "cannot be used on the host")

    def element(self, address: int, kind: str) -> Any:
        raise KernelError("memory of a core", "cannot be read on the host")

    def put(self, address: int, kind: str, value: Any) -> None:
        raise KernelError("memory of a core", "cannot be written on the host")

    def start(self, space: int) -> int:
        return 0


def main(path: str) -> None:
    """Does the job of a file; `result.json` beside it says what came out."""
    job = json.loads(Path(path).read_text(encoding="utf-8"))
    folder = Path(path).parent
    try:
        result = Recording(job, folder).run()
    except (AscendSimError, LibraryError) as error:
        result = {"error": str(error)}
    (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
