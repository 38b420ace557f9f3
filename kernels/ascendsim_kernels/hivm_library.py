"""The operation library of the HIVM compiler on the host: its entry points run, its intrinsics call a hook.

Memories of a core lie at fixed addresses, so that the lower bits of a pointer are the chip's own address. A
memory that every core has for itself is one file of pages; the pages of the core whose turn it is lie there.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np

from ascendsim_kernels.hivm_text import LibraryError, hosted, load, read, save

ENTRY = "_mlir_ciface_"
GM, L1, L0A, L0B, L0C, UB = range(1, 7)  # address spaces of the library
SIZES = {L1: 1 << 20, L0A: 1 << 18, L0B: 1 << 18, L0C: 1 << 20, UB: 1 << 20}
_SHIFT = 44
Hook = Callable[[str, tuple[int, ...]], int]


def start_of(space: int) -> int:
    """The first address of a memory."""
    return space << _SHIFT


def space_of(address: int) -> tuple[int, int]:
    """The memory that an address lies in, 0 if in none, and the place in it."""
    space = address >> _SHIFT
    return (space, address & ((1 << _SHIFT) - 1)) if GM <= space <= UB else (0, address)


class Memories:
    """The memories of some cores; global memory is common to all.

    Args:
        cores: How many cores have memories of their own.
        global_bytes: Size of global memory.
    """

    _FIXED, _FIXED_NEW = 0x10, 0x100000  # Linux: MAP_FIXED, MAP_FIXED_NOREPLACE

    def __init__(self, cores: int, global_bytes: int) -> None:
        library = ctypes.CDLL(None, use_errno=True)
        self._map = library.mmap
        self._map.restype = ctypes.c_void_p
        self._map.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        self._sizes = {GM: -(-global_bytes // mmap.PAGESIZE) * mmap.PAGESIZE, **SIZES}
        self._files = {}
        for space, size in self._sizes.items():
            self._files[space] = os.memfd_create(f"memory{space}")
            os.ftruncate(self._files[space], size * (1 if space == GM else cores))
            self._place(space, 0, self._FIXED_NEW)
        self.core = 0
        self.bytes = {
            space: np.frombuffer(memoryview((ctypes.c_uint8 * size).from_address(start_of(space))), np.uint8)
            for space, size in self._sizes.items()
        }

    def _place(self, space: int, core: int, how: int) -> None:
        size = self._sizes[space]
        where = self._map(
            start_of(space),
            size,
            mmap.PROT_READ | mmap.PROT_WRITE,
            mmap.MAP_SHARED | how,
            self._files[space],
            core * size,
        )
        if where != start_of(space):
            raise LibraryError(f"memory at {start_of(space):#x} is not free")

    def turn(self, core: int) -> None:
        """Puts the memories of a core in their places."""
        if core != self.core:
            for space in SIZES:
                self._place(space, core, self._FIXED)
            self.core = core


def printed(bitcode: Path, text: Path) -> None:
    """Writes a bitcode library as text, which is what modules for the host are made of.

    Raises:
        LibraryError: It is no bitcode that this LLVM reads.
    """
    try:
        module = llvm.parse_bitcode(bitcode.read_bytes())
    except RuntimeError as error:
        raise LibraryError(f"{bitcode.name} cannot be read: {error}") from None
    save(read(str(module)), text)


class Library:
    """Entry points that run on the host.

    Args:
        text: A library's text, from `printed`.
        names: Entry points, without the prefix of their interface.
        cache: Folder where what was compiled is kept, None = nowhere.

    Attributes:
        hook: What an intrinsic calls: its name and its arguments as words; what it returns is the
            intrinsic's result.

    Raises:
        LibraryError: The library lacks an entry point.
    """

    def __init__(self, text: Path, names: Iterable[str], cache: Path | None = None) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        made = hosted(load(text), [ENTRY + name for name in names])
        self.signatures: Mapping[str, tuple[str, ...]] = {
            name.removeprefix(ENTRY): kinds for name, kinds in made.signatures.items()
        }
        self._names = made.intrinsics
        self._counts = _argument_counts(made.text, made.intrinsics)
        self.hook: Hook = lambda name, words: 0
        self._failed: BaseException | None = None
        self._callback = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p)(self._called)
        module = llvm.parse_assembly(made.text)
        module.triple = llvm.get_process_triple()
        module.verify()
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(),
            features=llvm.get_host_cpu_features().flatten(),
            opt=0,
            jit=True,
        )
        self._trap = ctypes.CFUNCTYPE(None)(self._missing)
        for name in made.missing:
            llvm.add_symbol(name, ctypes.cast(self._trap, ctypes.c_void_p).value)
        self._engine = llvm.create_mcjit_compiler(module, machine)
        if cache is not None:
            self._keep(cache, hashlib.sha256(made.text.encode()).hexdigest()[:32])
        self._engine.finalize_object()
        hook_place = ctypes.c_uint64.from_address(self._engine.get_global_value_address("host.hook"))
        hook_place.value = ctypes.cast(self._callback, ctypes.c_void_p).value or 0
        self.control = ctypes.c_uint64.from_address(self._engine.get_global_value_address("host.control"))
        self._functions: dict[str, Callable[[object], None]] = {}

    def _keep(self, folder: Path, name: str) -> None:
        """Takes the machine code from a folder, or puts it there; a sum tells what a disk has damaged."""
        path = folder / f"{name}-{llvm.get_host_cpu_name()}.o"

        def kept_object(_: object) -> bytes | None:
            try:
                kept = path.read_bytes()
            except OSError:
                return None
            content = kept[32:]
            return content if hashlib.sha256(content).digest() == kept[:32] else None

        def keep_object(_: object, content: bytes) -> None:
            part = path.with_suffix(f".{os.getpid()}")
            try:
                folder.mkdir(parents=True, exist_ok=True)
                part.write_bytes(hashlib.sha256(content).digest() + content)
                part.replace(path)
            except OSError:  # a disk that takes no more stops nothing
                return

        self._engine.set_object_cache(keep_object, kept_object)

    def _called(self, number: int, words: int) -> int:
        count = self._counts[number]
        try:
            given = tuple((ctypes.c_uint64 * count).from_address(words)) if count else ()
            return self.hook(self._names[number], given) if self._failed is None else 0
        except BaseException as error:
            self._failed = error
            return 0

    def _missing(self) -> None:
        self._failed = self._failed or LibraryError("a function was called that the library only declares")

    def call(self, name: str, words: Iterable[int]) -> None:
        """Runs an entry point; what its intrinsics raise comes out of here.

        Args:
            name: The entry point.
            words: Its arguments: addresses of memref descriptors, bits of scalars.
        """
        function = self._functions.get(name)
        if function is None:
            address = self._engine.get_function_address(f"call.{ENTRY}{name}")
            function = self._functions[name] = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)
        listed = list(words)
        function((ctypes.c_uint64 * len(listed))(*listed))
        if self._failed is not None:
            error, self._failed = self._failed, None
            raise error


def _argument_counts(text: str, intrinsics: Iterable[str]) -> list[int]:
    counts = {}
    for line in text.splitlines():
        if line.startswith("define") and '@"hivm.' in line:
            name = line.split('@"hivm.', 1)[1].split('"', 1)[0]
            counts[name] = line.count("%a")
    return [counts.get(name, 2) for name in intrinsics]
