"""What an operator asks of the chip, as one line of text: for golden files that a person reads, and for
comparing works."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format
from ascendsim.opset.work import (
    AiCpuWork,
    AttentionWork,
    ConvGeometry,
    Copy,
    CubePair,
    CubeWork,
    FilterWork,
    FinishedProduct,
    MoveWork,
    NoTask,
    Ref,
    ScalarWork,
    SequenceWork,
    StagedProduct,
    Step,
    Stream,
    VectorWork,
    Work,
    WorkChoice,
)

SHORT = {DType.FLOAT16: "h", DType.FLOAT32: "s", DType.BFLOAT16: "b", DType.FLOAT64: "d", DType.BOOL: "t"}


def describe(work: Work | None, sizes: bool = True) -> str:
    """One line.

    Args:
        work: What `lower` gave; None = no rule, which means the AI CPU.
        sizes: Whether numbers that follow from the sizes of the tensors are printed as well.
    """
    match work:
        case None:
            return "default"
        case VectorWork():
            return _vector(work, sizes)
        case CubeWork():
            return _cube(work, sizes)
        case FilterWork():
            return _filter(work, sizes)
        case AttentionWork():
            return _attention(work, sizes)
        case MoveWork():
            return _move(work, sizes)
        case ScalarWork():
            count = f" {work.elements}" if sizes else ""
            return f"scalar{count} x {work.cycles_per_element} {_refs(work.inputs)} -> {_refs(work.outputs)}"
        case AiCpuWork():
            count = f" {work.elements} x {work.operations:.4g}" if sizes else ""
            return f"aicpu{count} {_refs(work.inputs)} -> {_refs(work.outputs)}"
        case NoTask():
            slices = [
                f"{piece.region} in {piece.whole} axis {piece.axis} from {piece.first}"
                for piece in work.slices
            ]
            return " ".join(["nothing", *(f"{new}={old}" for new, old in work.aliases), *slices])
        case SequenceWork():
            more = (
                f" repeat {work.repeat} workspace {work.workspace_bytes}"
                if sizes and (work.repeat, work.workspace_bytes) != (1, 0)
                else ""
            )
            return f"sequence{more} [" + "; ".join(describe(part, sizes) for part in work.parts) + "]"
        case StagedProduct():
            room = f" on {work.teams}, {work.slots} x {work.values} values" if sizes else ""
            made, product = describe(work.staging, sizes), describe(work.product, sizes)
            return f"staged{room} [{made}; {product}]"
        case FinishedProduct():
            room = f" {work.slots} x {work.sums.bytes // work.slots} B" if sizes else ""
            return f"finished{room} [{describe(work.product, sizes)}]"
        case WorkChoice():
            return "choice [" + " | ".join(describe(way, sizes) for way in work.ways) + "]"
        case CubePair():
            return f"pair [{describe(work.first, sizes)}; {describe(work.second, sizes)}]"


def _vector(work: VectorWork, sizes: bool) -> str:
    words = ["vector"]
    if sizes:
        words.append(f"{work.rows}x{work.cols}")
        words += [f"gather {work.gather_bytes}"] if work.gather_bytes else []
        words += [f"live {work.live_bytes}"] if work.live_bytes else []
    else:
        words += [name for name, held in (("gather", work.gather_bytes), ("live", work.live_bytes)) if held]
    if work.windows is not None:
        rows = [str(getattr(work.windows, item.name)) for item in fields(work.windows)]
        words += ["windows " + "/".join(rows) if sizes else "windows"]
    words += [f"reduces {work.reduces}"] if work.reduces != "none" else []
    words += [f"on {work.cores} cores"] if work.cores != "worthwhile" else []
    words += ["searched"] if work.search is not None else []
    words += ["one buffer"] if not work.overlaps else []
    words += [f"sweeps {work.sweeps}"] if work.sweeps != 1 else []
    words += ["planes"] if work.planes else []
    return " ".join([*words, _steps(work.steps, sizes), _streams(work.inputs), "->", _streams(work.outputs)])


def _steps(steps: Iterable[Step], sizes: bool) -> str:
    return "(" + " ".join(_step(step, sizes) for step in steps) + ")"


def _step(step: Step, sizes: bool) -> str:
    count = f"*{step.count}" if step.count != 1 else ""
    run = f" run {step.run}" if sizes and step.run else " run" if step.run else ""
    lanes = f" lanes {step.lanes}" if step.lanes else ""
    over = f".{step.over}" if step.over != "all" else ""
    indexed = " indexed" if step.indexed else ""
    return f"{step.op}:{_type(step.dtype)}{over}{count}{run}{lanes}{indexed}"


def _type(dtype: DType) -> str:
    return SHORT.get(dtype, dtype.value)


def _ref(ref: Ref) -> str:
    format = "" if ref.format is Format.ND else f"@{ref.format.value}"
    return ref.region + format


def _refs(refs: Iterable[Ref]) -> str:
    return ",".join(map(_ref, refs)) or "-"


def _streams(streams: Iterable[Stream]) -> str:
    return (
        ",".join(_ref(item.ref) + (f".{item.over}" if item.over != "all" else "") for item in streams) or "-"
    )


def _cube(work: CubeWork, sizes: bool) -> str:
    words = ["cube:" + _type(work.dtype)]
    if sizes:
        words += [f"{work.m}x{work.k}x{work.n}"]
        words += [f"batch {work.batch}"] if work.batch != 1 else []
        words += [f"useful {work.useful_macs}"] if work.useful_macs else []
        words += [_geometry(work.conv)] if work.conv is not None else []
        words += [str(work.image)] if work.image is not None else []
    names = ("a_shared", "b_shared", "transpose_a", "transpose_b", "plain_tiling")
    words += [name for name in names if getattr(work, name)]
    words += ["bias " + _ref(work.bias)] if work.bias is not None else []
    words += ["then " + _steps(work.epilogue, sizes)] if work.epilogue else []
    words += ["reading " + _streams(work.epilogue_inputs)] if work.epilogue_inputs else []
    return " ".join([*words, f"{_ref(work.a)} {_ref(work.b)} -> {_ref(work.out)}"])


def _filter(work: FilterWork, sizes: bool) -> str:
    words = ["filter:" + _type(work.dtype)]
    if sizes:
        words += [f"{work.m}x{work.n}"]
        words += [f"batch {work.batch}"] if work.batch != 1 else []
        words += [f"useful {work.useful_macs}", _geometry(work.conv)]
    words += ["depthwise"] if work.depthwise else []
    return " ".join([*words, f"{_ref(work.gradient)} {_ref(work.image)} -> {_ref(work.out)}"])


def _attention(work: AttentionWork, sizes: bool) -> str:
    words = ["attention:" + _type(work.dtype)]
    if sizes:
        for one in work.heads:
            words += [f"{one.count} heads {one.queries}x{one.keys} by {work.rows}x{work.columns}"]
            words += [f"band {one.band.low}..{one.band.high}"] + [f"group {one.group}"] * (one.group > 1)
    for products in (work.before, work.after):
        listed = [
            f"{one.m}x{one.k}x{one.n} {_ref(one.a.ref)} {_ref(one.b.ref)} -> {_ref(one.out.ref)}"
            + (" added" if one.added else "")
            for one in products
            if sizes
        ]
        words += [f"[{'; '.join(listed) or len(products)}]"]
    masked = "all" if work.masked else "edge"
    words += [f"{len(work.weights)} weights, given {_refs(work.given)}, rows {_refs(work.row_values)}"]
    words += [f"masks {masked} {_refs(work.masks)}"] if work.masks else []
    words += [" ".join(f"{step.op}:{step.over}" for step in (*work.steps, *work.mask_steps))]
    if work.join is not None:
        words += [f"join -> {_ref(work.join.out.ref)} {_refs(work.join.rows)}"]
    words += [
        f"sweep {_refs(one.inputs)} -> {_refs(one.outputs)}" for one in (*work.prologue, *work.epilogue)
    ]
    return " ".join(words)


def _geometry(conv: ConvGeometry) -> str:
    return "conv " + "/".join(str(getattr(conv, item.name)).replace(" ", "") for item in fields(conv))


def _move(work: MoveWork, sizes: bool) -> str:
    words = ["move"]
    words += [f"scalar {work.scalar_per_burst}"] if work.scalar_per_burst else []
    words += [_steps(work.steps, sizes)] if work.steps else []
    words += [_copy(item, sizes) for item in work.copies]
    words += ["and " + _refs(work.extra_inputs)] if work.extra_inputs else []
    return " ".join(words)


def _copy(copy: Copy, sizes: bool) -> str:
    if not sizes:
        return f"{_ref(copy.src)} -> {_ref(copy.dst)}"
    return (
        f"{_ref(copy.src)} -{copy.bytes}/{copy.read_burst}|{copy.write_burst}/{copy.written}-> "
        f"{_ref(copy.dst)}"
    )
