"""A group of elementwise functions in one pass over the data: an interpreter of short programs on blocks that
stay in the L1 cache.

Registers are float32 blocks. An instruction is a row (kind, op, target, first, second, third); the arithmetic
is that of `elementwise` and `pairwise`, so a program gives the same bits as one call after the other. Where a
value is float16 on the device, the program rounds it right after it was computed (`Kind.ROUND`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from ascendsim_kernels.elementwise import BLOCK, _curved32, _plain32, in_two
from ascendsim_kernels.half import float_to_half, half_to_float
from ascendsim_kernels.jit import kernel
from ascendsim_kernels.math32 import ONE, ZERO
from ascendsim_kernels.pairwise import _binary32, pattern


class Kind(IntEnum):
    """What an instruction does with its registers."""

    PLAIN = 0  # target = op(first, a, b), op of `Unary`
    CURVED = 1  # as PLAIN, for what is made of exponentials
    BINARY = 2  # target = op(first, second), op of `Binary`
    COMPARE = 3  # target = 1 where op(first, second), else 0; op of `Compare`
    SELECT = 4  # target = second where first is not 0, else third
    ROUND = 5  # target = first, rounded to float16; op of `Overflow`
    CUBE = 6  # target = (first * first) * first
    TRUTH = 7  # target = 1 where first is not 0, else 0
    COPY = 8


class Overflow(IntEnum):
    """What becomes of a result beyond float16."""

    INFINITE = 0
    SATURATE = 1  # it is the last number, and NaN is 0


class Compare(IntEnum):
    """Comparisons of two numbers; LOGICAL_AND and LOGICAL_OR of two truth values."""

    EQUAL = 0
    GREATER = 1
    GREATER_EQUAL = 2
    LESS = 3
    LESS_EQUAL = 4
    LOGICAL_AND = 5
    LOGICAL_OR = 6
    LOGICAL_XOR = 7


_PLAIN, _CURVED, _BINARY, _COMPARE, _SELECT, _ROUND, _CUBE, _TRUTH, _COPY = (int(kind) for kind in Kind)
_EQUAL, _GREATER, _GREATER_EQUAL, _LESS, _LESS_EQUAL, _AND, _OR, _XOR = (int(op) for op in Compare)
_SATURATE, _LAST = int(Overflow.SATURATE), np.float32(65504)
_NO_SIGN = np.int32(0x7FFFFFFF)
_TO_ZERO = np.int32(0x33000000)  # 2^-25, half of float16's smallest number: a tie that goes to zero
_HALF, _SINGLE, _BOOL = 0, 1, 2  # element types of arrays in memory
_CODES = {np.dtype(np.float16): _HALF, np.dtype(np.float32): _SINGLE, np.dtype(np.bool_): _BOOL}


@intrinsic
def _halves(_context: Any, _address: Any) -> Any:
    """A pointer to uint16 from an address (jitted code only)."""

    def generate(_ctx: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], ir.IntType(16).as_pointer())

    return types.CPointer(types.uint16)(types.int64), generate


@intrinsic
def _singles(_context: Any, _address: Any) -> Any:
    """A pointer to float32 from an address (jitted code only)."""

    def generate(_ctx: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], ir.FloatType().as_pointer())

    return types.CPointer(types.float32)(types.int64), generate


@intrinsic
def _bytes(_context: Any, _address: Any) -> Any:
    """A pointer to uint8 from an address (jitted code only)."""

    def generate(_ctx: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return types.CPointer(types.uint8)(types.int64), generate


@kernel
def _bring(address: Any, code: Any, size: Any, first: Any, at: Any, count: Any, register: Any) -> None:
    """register[at : at + count] = elements first .. first + count of an array, as float32.

    Loops run over slices: an index that counts from 0 needs no check for negative ones, so they become vector
    code.
    """
    target = register[at : at + count]
    if code == _HALF:
        halves = carray(_halves(address), (size,))[first : first + count]
        for i in range(target.size):
            target[i] = half_to_float(halves[i])
    elif code == _SINGLE:
        singles = carray(_singles(address), (size,))[first : first + count]
        for i in range(target.size):
            target[i] = singles[i]
    else:
        truths = carray(_bytes(address), (size,))[first : first + count]
        for i in range(target.size):
            target[i] = ONE if truths[i] != 0 else ZERO


@kernel
def _load(address: Any, code: Any, period: Any, inner: Any, start: Any, count: Any, register: Any) -> None:
    """register[i] = array[(start + i) // inner % period] for i < count."""
    done = np.int64(0)  # a plain 0 would be a type of its own and compile everything twice
    while done < count:
        place = start + done
        if inner == 1:
            run = min(count - done, period - place % period)
            first, brought = place % period, run
        else:
            run = min(count - done, inner - place % inner)
            first, brought = place // inner % period, np.int64(1)
        _bring(address, code, period, first, done, brought, register)
        for i in range(done + brought, done + run):
            register[i] = register[done]
        done += run


@kernel
def _keep(register: Any, address: Any, code: Any, size: Any, start: Any, count: Any) -> None:
    """Elements start .. start + count of an array = register, which holds values of the array's type."""
    if code == _HALF:
        halves = carray(_halves(address), (size,))[start : start + count]
        for i in range(halves.size):
            halves[i] = float_to_half(register[i])
    elif code == _SINGLE:
        singles = carray(_singles(address), (size,))[start : start + count]
        for i in range(singles.size):
            singles[i] = register[i]
    else:
        truths = carray(_bytes(address), (size,))[start : start + count]
        for i in range(truths.size):
            truths[i] = 1 if register[i] != ZERO else 0


@kernel
def _compare(op: Any, x: Any, y: Any, z: Any, n: Any) -> None:
    """z[i] = 1 if op(x[i], y[i]) else 0."""
    if op == _EQUAL:
        for i in range(n):
            z[i] = ONE if x[i] == y[i] else ZERO
    elif op == _GREATER:
        for i in range(n):
            z[i] = ONE if x[i] > y[i] else ZERO
    elif op == _GREATER_EQUAL:
        for i in range(n):
            z[i] = ONE if x[i] >= y[i] else ZERO
    elif op == _LESS:
        for i in range(n):
            z[i] = ONE if x[i] < y[i] else ZERO
    elif op == _LESS_EQUAL:
        for i in range(n):
            z[i] = ONE if x[i] <= y[i] else ZERO
    elif op == _AND:
        for i in range(n):
            z[i] = x[i] * y[i]
    elif op == _OR:
        for i in range(n):
            z[i] = max(x[i], y[i])
    else:
        for i in range(n):
            z[i] = abs(x[i] - y[i])


@kernel
def _other(kind: Any, x: Any, y: Any, z: Any, target: Any, n: Any) -> None:
    """Instructions that are no arithmetic of one or two numbers."""
    if kind == _SELECT:
        for i in range(n):
            target[i] = y[i] if x[i] != ZERO else z[i]
    elif kind == _CUBE:
        for i in range(n):
            target[i] = x[i] * x[i] * x[i]
    elif kind == _TRUTH:
        for i in range(n):
            target[i] = ONE if x[i] != ZERO else ZERO
    else:
        for i in range(n):
            target[i] = x[i]


@kernel
def _round(x: Any, bits: Any, target: Any, n: Any, seen: Any) -> None:
    """Rounds x to float16; notes the largest magnitude and how many numbers became zero.

    `bits` is x as int32: the order of magnitudes is that of their bits, and integers make vector code.
    """
    largest, lost = np.int32(seen[0]), np.int32(0)
    for i in range(n):
        target[i] = half_to_float(float_to_half(x[i]))
        magnitude = np.int32(bits[i] & _NO_SIGN)
        largest = max(largest, magnitude)
        lost = np.int32(lost + np.int32((magnitude <= _TO_ZERO) & (magnitude > 0)))
    seen[0] = largest
    seen[1] += lost


@kernel
def _saturate(target: Any, n: Any) -> None:
    """Numbers that were rounded to float16, where it saturates."""
    for i in range(n):
        v = target[i]
        target[i] = min(max(v, -_LAST), _LAST) if v == v else ZERO


@kernel
def _interpret(
    code: Any,
    numbers: Any,
    loads: Any,
    stores: Any,
    registers: Any,
    bits: Any,
    seen: Any,
    start: Any,
    stop: Any,
) -> None:
    """Runs a program on elements start .. stop, block by block; `bits` are the registers as int32."""
    for begin in range(start, stop, BLOCK):
        n = min(BLOCK, stop - begin)
        for k in range(loads.shape[0]):
            _load(loads[k, 0], loads[k, 1], loads[k, 2], loads[k, 3], begin, n, registers[loads[k, 4]])
        for k in range(code.shape[0]):
            kind, op = code[k, 0], code[k, 1]
            target, x, y, z = (
                registers[code[k, 2]],
                registers[code[k, 3]],
                registers[code[k, 4]],
                registers[code[k, 5]],
            )
            if kind == _PLAIN:
                _plain32(op, x, target, n, numbers[k, 0], numbers[k, 1])
            elif kind == _CURVED:
                _curved32(op, x, target, n, numbers[k, 0], numbers[k, 1])
            elif kind == _BINARY:
                _binary32(op, x, y, target, n)
            elif kind == _COMPARE:
                _compare(op, x, y, target, n)
            elif kind == _ROUND:
                _round(x, bits[code[k, 3]], target, n, seen[k])
                if op == _SATURATE:
                    _saturate(target, n)
            else:
                _other(kind, x, y, z, target, n)
        for k in range(stores.shape[0]):
            _keep(registers[stores[k, 2]], stores[k, 0], stores[k, 1], stores[k, 3], begin, n)


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: registers by number; an instruction's target is none of its sources.

    Attributes:
        op: Number in `Unary`, `Binary`, `Compare` or `Overflow`; 0 where the kind says all.
        a, b: Parameters of unary functions.
    """

    kind: Kind
    op: int
    target: int
    sources: tuple[int, ...]
    a: float = 0.0
    b: float = 0.0


def run_program(
    instructions: Sequence[Instruction],
    registers: int,
    inputs: Sequence[tuple[int, NDArray[Any], tuple[int, ...]]],
    outputs: Sequence[tuple[int, np.dtype[Any]]],
    size: int,
) -> tuple[list[NDArray[Any]], NDArray[np.float32], NDArray[np.int32]]:
    """Runs a program over `size` elements.

    Args:
        instructions: In order.
        registers: How many there are.
        inputs: Register, array (float16, float32 or bool), and the shape of `size` elements that it
            broadcasts to.
        outputs: Register and element type of the results.
        size: Elements.

    Returns:
        Flat arrays; by instruction the largest magnitude that it rounded (NaN above infinity above numbers),
        and how many numbers it made zero; 0 for those that do not round.
    """
    held: list[NDArray[Any]] = []  # keeps arrays alive while their addresses are in use
    loads = np.zeros((len(inputs), 5), np.int64)
    for number, (register, array, shape) in enumerate(inputs):
        regular = pattern(shape, array.shape)
        if regular is None:
            array = np.broadcast_to(array, shape)
            regular = (size, 1)
        flat = np.ascontiguousarray(array)
        held.append(flat)
        loads[number] = (flat.ctypes.data, _CODES[flat.dtype], *regular, register)
    results = [np.empty(size, dtype) for _, dtype in outputs]
    stores = np.zeros((len(outputs), 4), np.int64)
    for number, ((register, dtype), result) in enumerate(zip(outputs, results, strict=True)):
        stores[number] = (result.ctypes.data, _CODES[np.dtype(dtype)], register, size)
    code = np.zeros((len(instructions), 6), np.int64)
    numbers = np.zeros((len(instructions), 2), np.float32)
    for number, item in enumerate(instructions):
        code[number, :3] = (int(item.kind), item.op, item.target)
        code[number, 3 : 3 + len(item.sources)] = item.sources
        numbers[number] = (item.a, item.b)

    seen = np.zeros((2, len(instructions), 2), np.int32)  # by thread, of which there are two

    def run(start: int, stop: int) -> None:
        held = np.zeros((max(1, registers), BLOCK), np.float32)
        own = seen[1 if start else 0]
        _interpret(code, numbers, loads, stores, held, held.view(np.int32), own, start, stop)

    if size:
        in_two(run, size, BLOCK)
    return results, seen[:, :, 0].max(axis=0).view(np.float32), seen[:, :, 1].sum(axis=0, dtype=np.int32)
