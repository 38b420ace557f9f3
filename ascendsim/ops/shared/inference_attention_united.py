"""Attention of inference on chips whose cores have Cube and vector unit together (Ascend310P).

A step of decoding is vector work alone, as CANN's kernel for these chips has it (IncreFlashAttention's
template of vectors): keys pass once, each multiplied by all queries that share it and added up, then values.
A prompt's scores go from the Cube to the vector unit and back. Assumed: that scores lie in scratch memory
between, and that no part of the keys is left out where a band would allow it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ascendsim.core.dtypes import DType
from ascendsim.ops.shared.common import StepSpec, make_steps
from ascendsim.opset.attention import EqualHeads
from ascendsim.opset.refs import Ref, workspace_of
from ascendsim.opset.work import CubeWork, Part, SequenceWork, Stream, VectorWork

_WIDE = DType.FLOAT32


def united_work(
    heads: Sequence[EqualHeads],
    pairs: Sequence[tuple[int, Ref, Ref]],
    value: tuple[int, Ref],
    given: Sequence[Ref],
    results: tuple[Ref, Sequence[Ref]],
    more: Sequence[StepSpec],
    *,
    decoding: bool,
) -> SequenceWork:
    """The work of all heads, one kind after the other.

    Args:
        heads: Of queries, or of keys where steps of decoding share them.
        pairs: Elements of a query, queries and keys; rotated parts by themselves.
        value: Elements of a value, and values.
        given: Shift and mask, where there are such.
        results: What is made, and what else is stored a row.
        more: Further steps on scores.
        decoding: Whether it is a step of decoding.
    """
    width, values = value
    result, logs = results
    query = pairs[0][1]
    kind = query.dtype
    parts: list[Part] = []
    most = max((one.count * one.queries * one.group * one.keys for one in heads), default=1)
    scores = Ref(workspace_of("scores"), (most,), kind, query.format, most * kind.itemsize)
    softmax = ("vmuls", *more, *(["vadd"] if given else []), "vsub", "vexp", "vdiv")
    for one in heads:
        rows, items = one.queries * one.group, one.count * one.keys
        if decoding:
            steps = make_steps([("vmul", rows), ("vcadd", rows)], kind)
            reading = [stream for _, q, k in pairs for stream in (Stream(k), Stream(q, "col"))]
            size = sum(elements for elements, _, _ in pairs)
            parts.append(
                VectorWork(items, size, steps, tuple(reading), (Stream(scores, "row"),), reduces="cols")
            )
        else:
            parts += [
                CubeWork(rows, size, one.keys, q, k, scores, one.count, transpose_b=True, dtype=kind)
                for size, q, k in pairs
            ]
        parts.append(
            VectorWork(
                one.count * rows,
                one.keys,
                (*make_steps(["vcmax"], kind), *make_steps(softmax, kind), *make_steps(["vcadd"], kind)),
                (Stream(scores), *(Stream(ref) for ref in given)),
                (Stream(scores), *(Stream(ref, "row") for ref in logs)),
                reduces="cols",
                sweeps=3,
            )
        )
        if decoding:
            steps = make_steps([("vmul", rows), ("vadd", rows)], kind)
            weighted = (Stream(values), Stream(scores, "row"))
            parts.append(VectorWork(items, width, steps, weighted, (Stream(result, "col"),), reduces="rows"))
        else:
            parts.append(CubeWork(rows, one.keys, width, scores, values, result, one.count, dtype=kind))
    return SequenceWork(tuple(parts))
