"""Runs a function of a compiled module: scalars, control flow and addresses here, operations of the library
in the library, whose instructions go to a core.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from ascendsim.core.errors import KernelError
from ascendsim.triton.affine import AffineMap, affine_map
from ascendsim.triton.memrefs import SHAPES, Memref, Step, Values, number, pointer_cast
from ascendsim.triton.reading import Function, Module, Operation, closing, split
from ascendsim.triton.scalars import arithmetic, bits_of, comparison, constant, conversion

PIPES = {"S": 0, "V": 1, "M": 2, "MTE1": 3, "MTE2": 4, "MTE3": 5, "ALL": 6, "FIX": 10}
NO_WORK = ("annotation.mark", "memref.dealloc", "hivm.hir.debug")
# Steps that a block may take: a loop that does not end is a finding, no hang.
MOST_STEPS = 50_000_000


class Core(Protocol):
    """What a function runs on."""

    block: int
    sub_block: int

    def emit(self, name: str, words: tuple[int, ...]) -> int:
        """An instruction."""

    def call(self, name: str, words: Sequence[int]) -> None:
        """An operation of the library."""

    def cross(self, name: str, flag: int, pipe: str, words: str) -> None:
        """Sets a flag of another core, or waits for one."""

    def element(self, address: int, kind: str) -> Any:
        """A scalar in memory."""

    def put(self, address: int, kind: str, value: Any) -> None:
        """Writes a scalar."""

    def start(self, space: int) -> int:
        """The first address of a memory."""


class _Yield(list[Any]):
    """What a region hands to the operation that it belongs to."""


def unknown(operation: Operation) -> KernelError:
    """What cannot be run yet, by its name."""
    return KernelError(f"compiled operation {operation.name}", "cannot be run yet", repr(operation.text[:60]))


class Interpreter:
    """A function of a module, made ready to run.

    Args:
        module: The module.
        function: One of its functions.
        core: What it runs on.
        blocks: Blocks of the launch.
        signatures: Types of the parameters of the library's functions.

    Raises:
        KernelError: It has an operation that is not known, or a call that the library does not take.
    """

    def __init__(
        self,
        module: Module,
        function: Function,
        core: Core,
        blocks: int = 1,
        signatures: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self._module, self._function, self._core, self._blocks = module, function, core, blocks
        self._signatures = signatures or {}
        self._steps = 0
        self._body = self._region(function.body)

    def run(self, given: Mapping[str, Any]) -> list[Any]:
        """Runs it with arguments by name; what it returns."""
        self._steps = 0
        return list(self._through(self._body, dict(given)) or [])

    def _through(self, steps: Sequence[Step], values: Values) -> _Yield | None:
        self._steps += len(steps)
        if self._steps > MOST_STEPS:
            raise KernelError(
                f"kernel {self._function.name!r}",
                f"runs more than {MOST_STEPS:,} steps in a block",
                remedy="does a loop of it end?",
            )
        for step in steps:
            done = step(values)
            if done is not None:
                return done  # type: ignore[no-any-return]
        return None

    def _region(self, operations: Iterable[Operation]) -> list[Step]:
        return [self._step(operation) for operation in operations if operation.name not in NO_WORK]

    def _step(self, operation: Operation) -> Step:
        name = operation.name
        if name in ("scf.yield", "return", "func.return", "scf.condition"):
            return self._yield(operation)
        if name == "scf.for":
            return self._for(operation)
        if name == "scf.if":
            return self._if(operation)
        if name == "scf.while":
            return self._while(operation)
        if name in ("func.call", "call"):
            return self._call(operation)
        value = self._value(operation)
        if value is not None:
            return _bound(operation, value)
        effect = self._effect(operation)
        if effect is None:
            raise unknown(operation)

        def run(values: Values) -> None:
            effect(values)

        return run

    def _yield(self, operation: Operation) -> Step:
        names = [
            one for one in split(operation.text.split(" : ")[0].replace("(", " ").replace(")", ",")) if one
        ]
        return lambda values: _Yield([values[one] for one in names])

    def _for(self, operation: Operation) -> Step:
        found = re.match(r"(%\S+) = (\S+) to (\S+) step (\S+)", operation.text)
        if found is None:
            raise unknown(operation)
        variable = found[1]
        start, end, step = (number(one) for one in found.groups()[1:])
        carried = re.findall(r"(%[\w$.-]+) = (%[\w$.#-]+)", operation.text[found.end() :].split("->")[0])
        body, through, emit = self._region(operation.regions[0]), self._through, self._core.emit
        results = operation.results

        def run(values: Values) -> None:
            state: list[Any] = [values[initial] for _, initial in carried]
            stride = step(values)
            if stride <= 0:
                raise KernelError("loop of the compiled kernel", "must have a positive step", stride)
            for at in range(start(values), end(values), stride):
                values[variable] = at
                for (inner, _), one in zip(carried, state, strict=True):
                    values[inner] = one
                emit("loop", ())
                state = through(body, values) or state
            values.update(zip(results, state, strict=False))

        return run

    def _if(self, operation: Operation) -> Step:
        condition = operation.text.split()[0]
        branches = [self._region(region) for region in operation.regions] + [[]]
        through, emit, results = self._through, self._core.emit, operation.results

        def run(values: Values) -> None:
            emit("branch", ())
            given = through(branches[0] if values[condition] else branches[1], values)
            values.update(zip(results, given or (), strict=False))

        return run

    def _while(self, operation: Operation) -> Step:
        carried = re.findall(r"(%[\w$.-]+) = (%[\w$.#-]+)", operation.text.split(" : ")[0])
        before, after = (list(region) for region in operation.regions)
        names: list[str] = []
        if after and after[0].name == "^bb0":
            names = re.findall(r"(%[\w$.-]+):", after.pop(0).text)
        test, body = self._region(before), self._region(after)
        through, emit, results = self._through, self._core.emit, operation.results

        def run(values: Values) -> None:
            state: list[Any] = [values[initial] for _, initial in carried]
            while True:
                values.update(zip([inner for inner, _ in carried], state, strict=True))
                emit("loop", ())
                going, *given = through(test, values) or [0]
                if not going:
                    break
                values.update(zip(names, given, strict=False))
                state = list(through(body, values) or state)
            values.update(zip(results, given, strict=False))

        return run

    def _call(self, operation: Operation) -> Step:
        name, types, _ = _called(operation)
        given = split(
            operation.text[operation.text.index("(") + 1 : closing(operation.text, operation.text.index("("))]
        )
        if name not in self._module.declared:
            raise KernelError(f"compiled call of {name}", "must name a function of the library")
        wanted = self._signatures.get(name)
        # what a call leaves out is undefined on the chip: a buffer that the function has no use for
        lacking = () if wanted is None else wanted[len(types) :]
        if wanted is not None and (not _fits(types, wanted) or set(lacking) - {"ptr"}):
            raise KernelError(
                f"compiled call of {name}",
                f"must give what the library takes ({', '.join(wanted)})",
                ", ".join(types),
            )
        count = len(types) if wanted is None else len(wanted)
        pairs = list(zip(given, types, strict=True))[:count]
        call = self._core.call

        def run(values: Values) -> None:
            words = []
            for one, kind in pairs:
                value = values[one]
                words.append(value.descriptor() if isinstance(value, Memref) else bits_of(value, kind))
            words += [_NOTHING.descriptor() for _ in lacking]
            call(name, words)

        return run

    def _value(self, operation: Operation) -> Step | None:
        """What an operation with one result computes; None if it has none or is not known."""
        name, text = operation.name, operation.text
        shape = SHAPES.get(name)
        if shape is not None:
            return shape(operation)
        dialect, _, short = name.partition(".")
        emit = self._core.emit
        if name == "arith.constant":
            kind = text.rpartition(" : ")[2] if " : " in text else "i1"
            fixed = constant(text.partition(" : ")[0].split(" {")[0].strip(), kind.strip())
            return lambda values: fixed
        if dialect in ("arith", "math"):
            compute = _scalar(operation)
            if compute is None:
                return None
            if short in ("index_cast", "index_castui", "trunci", "extsi", "extui"):
                return compute  # no instruction of their own

            def counted(values: Values) -> Any:
                emit("s.alu", ())
                return compute(values)

            return counted
        if dialect == "affine":
            return self._affine(operation)
        if name == "hivm.hir.pointer_cast":
            return pointer_cast(operation, self._core.start)
        if name == "hivm.hir.get_block_idx":
            return lambda values: emit("GET.BLOCK.IDX", ()) * 0 + self._core.block
        if name == "hivm.hir.get_sub_block_idx":
            return lambda values: self._core.sub_block
        if name == "hivm.hir.get_block_num":
            return lambda values: self._blocks
        if name == "memref.load":
            return self._load(operation)
        return None

    def _affine(self, operation: Operation) -> Step | None:
        choose: Callable[[list[int]], int] | None = {
            "affine.apply": lambda found: found[0],
            "affine.min": min,
            "affine.max": max,
        }.get(operation.name)  # type: ignore[assignment]
        if choose is None:
            return None
        made, rest = self._map(operation.text)
        given = [number(one) for part in re.findall(r"[(\[]([^()\[\]]*)[)\]]", rest) for one in split(part)]
        emit = self._core.emit

        def compute(values: Values) -> int:
            emit("s.alu", ())
            return choose(made([one(values) for one in given]))

        return compute

    def _map(self, text: str) -> tuple[AffineMap, str]:
        if text.startswith("#"):
            name = re.match(r"#\w+", text)
            assert name is not None
            return self._module.maps[name[0]], text[name.end() :]
        start = text.index("<")
        end = closing(text, start)
        return affine_map(text[start + 1 : end]), text[end + 1 :]

    def _load(self, operation: Operation) -> Step:
        source, place = _indexed(operation.text)
        core = self._core

        def load(values: Values) -> Any:
            memref: Memref = values[source]
            address = _address(memref, [one(values) for one in place])
            core.emit("s.ld", (address,))
            return core.element(address, memref.element)

        return load

    def _effect(self, operation: Operation) -> Step | None:
        """An operation without a result; None if it is not known."""
        name, text, emit = operation.name, operation.text, self._core.emit
        if name == "memref.store":
            stored, _, rest = text.partition(",")
            target, place = _indexed(rest.strip())
            core = self._core

            def store(values: Values) -> None:
                memref: Memref = values[target]
                address = _address(memref, [one(values) for one in place])
                core.emit("s.st", (address,))
                core.put(address, memref.element, values[stored.strip()])

            return store
        if name in ("hivm.hir.set_flag", "hivm.hir.wait_flag"):
            found = re.match(r"\[<PIPE_(\w+)>, <PIPE_(\w+)>, (?:<EVENT_ID(\d+)>|(%[\w$.#-]+))\]", text)
            if found is None or found[1] not in PIPES or found[2] not in PIPES:
                return None
            which = ("SET" if name.endswith("set_flag") else "WAIT") + ".FLAG.IMM"
            pipes = PIPES[found[1]], PIPES[found[2]]
            event = number(found[3] or found[4])
            return lambda values: emit(which, (*pipes, event(values)))
        if name == "hivm.hir.pipe_barrier":
            pipe = re.match(r"\[<PIPE_(\w+)>\]", text)
            if pipe is None or pipe[1] not in PIPES:
                return None
            words = (PIPES[pipe[1]],)
            return lambda values: emit("BARRIER", words)
        if name in ("hivm.hir.set_mask_norm", "hivm.hir.set_ffts_base_addr"):
            return lambda values: emit(name.removeprefix("hivm.hir."), ())
        if name in ("hivm.hir.sync_block_set", "hivm.hir.sync_block_wait"):
            return self._cross(operation)
        return None

    def _cross(self, operation: Operation) -> Step | None:
        parts = re.match(r"\[<(\w+)>, <PIPE_(\w+)>, <PIPE_(\w+)>\] flag = (\S+)", operation.text)
        if parts is None:
            return None
        which, flag, core = operation.name.removeprefix("hivm.hir."), number(parts[4]), self._core
        pipe = parts[2] if which.endswith("set") else parts[3]
        return lambda values: core.cross(which, flag(values), pipe, parts[1])


def _bound(operation: Operation, compute: Step) -> Step:
    if len(operation.results) != 1:
        raise unknown(operation)
    (name,) = operation.results

    def run(values: Values) -> None:
        values[name] = compute(values)

    return run


def _called(operation: Operation) -> tuple[str, list[str], str]:
    """The function that a call names, and the types that it hands over."""
    found = re.match(r"@([\w.$]+)\(", operation.text)
    if found is None:
        raise unknown(operation)
    behind = operation.text[closing(operation.text, found.end() - 1) + 1 :]
    start = behind.index("(")
    end = closing(behind, start)
    return found[1], split(behind[start + 1 : end]), behind[end + 1 :]


def called(body: Iterable[Operation]) -> set[str]:
    """Functions that operations call, those in their regions too."""
    names = set()
    for operation in body:
        if operation.name in ("func.call", "call"):
            names.add(_called(operation)[0])
        for region in operation.regions:
            names |= called(region)
    return names


_NOTHING = Memref(0, 0, [0] * 8, [0] * 8, "i8")
_PASSED = {"index": "i64", "f32": "float", "f16": "half", "bf16": "bfloat"}


def _fits(types: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether what a call gives is what a function takes, type for type, as far as both go."""
    passed = ["ptr" if one.startswith("memref") else _PASSED.get(one, one) for one in types]
    known = min(len(passed), len(wanted))
    return passed[:known] == [one.split(" ")[0] for one in wanted[:known]]


def _scalar(operation: Operation) -> Step | None:
    short = operation.name.partition(".")[2]
    head, _, kinds = operation.text.rpartition(" : ")
    operands = re.findall(r"%[\w$.#-]+", head)
    source, _, target = kinds.partition(" to ")
    source, target = source.strip(), target.strip()
    if short in ("cmpi", "cmpf"):
        compute: Any = comparison(short, head.split(",")[0].split()[0], source)
    elif short == "select":
        condition, first, second = operands
        return lambda values: values[first] if values[condition] else values[second]
    elif target:
        compute = conversion(short, source, target)
    else:
        compute = arithmetic(short, source)
    if compute is None:
        return None
    if len(operands) == 1:
        (only,) = operands
        return lambda values: compute(values[only])
    if len(operands) == 2:
        left, right = operands
        return lambda values: compute(values[left], values[right])
    return lambda values: compute(*[values[one] for one in operands])


def _indexed(text: str) -> tuple[str, list[Step]]:
    """`%memref[%i, %j] : ...`: the memref, and its indices."""
    start = text.index("[")
    return text[:start].strip(), [number(one) for one in split(text[start + 1 : closing(text, start)])]


BYTES = {"f32": 4, "f16": 2, "bf16": 2, "i32": 4, "i8": 1, "i16": 2, "i64": 8, "i1": 1, "f64": 8}


def _address(memref: Memref, place: Sequence[int]) -> int:
    steps = sum(at * stride for at, stride in zip(place, memref.strides, strict=True))
    return memref.base + (memref.offset + steps) * BYTES[memref.element]
