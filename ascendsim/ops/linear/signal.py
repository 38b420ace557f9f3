"""Signals: DFT, STFT, MelWeightMatrix; and Det, the determinant of matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.graph.ir import Array, Dim, Node
from ascendsim.ops.movement.generators import dtype_attribute
from ascendsim.ops.shared.common import as_float32, finish, on_ai_cpu
from ascendsim.ops.shared.dims import known_ints, need_numbers, need_rank, unknown_shape, wrapped_axis
from ascendsim.opset import InferContext, OpDef
from ascendsim.opset.axes import NOTHING_SAID, AxisMap, by_labels, rank_of
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.structure import along_axes, constant_ints, opaque
from ascendsim.opset.work import LowerContext, Ref, Work

Wanted = Sequence["np.dtype[Any]"]


def _scalar(value: Any, default: int) -> int:
    return default if value is None else int(np.asarray(value).item())


def _complex(array: Array) -> Array:
    """(..., 1) real or (..., 2) complex parts as complex numbers."""
    wide = as_float32(array)
    return (
        wide[..., 0] + 1j * wide[..., 1]
        if wide.shape[-1] == 2
        else wide[..., 0].astype(np.result_type(wide.dtype, np.complex64))
    )


def _parts(array: Array, dtype: np.dtype[Any]) -> Array:
    return finish(np.stack([array.real, array.imag], axis=-1), dtype)


def _dft_infer(ctx: InferContext) -> None:
    need_numbers(ctx, (1, 2))
    source, length, axis = ctx.shape(0), known_ints(ctx, 1), known_ints(ctx, 2)
    inverse, onesided = ctx.node.attr("inverse", 0), ctx.node.attr("onesided", 0)
    if source is None:
        ctx.set(0, ctx.dtype(0), None)
        return
    if not source or (source[-1] not in (1, 2, None) and not isinstance(source[-1], str)):
        raise ctx.fail("needs a last axis of 1 (real) or 2 (complex) parts", list(source))
    if length is not None and length[0] < 1:
        raise ctx.fail("needs a length above 0", length[0])
    if (ctx.has(1) and length is None) or (ctx.has(2) and axis is None):
        ctx.set(0, ctx.dtype(0), unknown_shape(len(source)))
        return
    at = wrapped_axis(ctx, -2 if axis is None else axis[0], len(source))
    points: Dim = source[at] if length is None else length[0]
    if inverse and onesided:
        parts: Dim = 1
    else:
        parts = 2
        if onesided:
            points = points // 2 + 1 if isinstance(points, int) else None
    if inverse and onesided and length is None:
        points = 2 * (points - 1) if isinstance(points, int) else None
    dims = list(source)
    dims[at], dims[-1] = points, parts
    ctx.set(0, ctx.dtype(0), tuple(dims))


def _dft(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Array]:
    data, length, axis = (*inputs, None, None)[:3]
    at = _scalar(axis, -2) % data.ndim
    signal = _complex(data)
    if node.attr("inverse", 0):
        if node.attr("onesided", 0):
            points = _scalar(length, 2 * (data.shape[at] - 1))
            return [finish(np.fft.irfft(signal, points, axis=at)[..., None], wanted[0])]
        return [_parts(np.fft.ifft(signal, _scalar(length, data.shape[at]), axis=at), wanted[0])]
    spectrum = np.fft.fft(signal, _scalar(length, data.shape[at]), axis=at)
    if node.attr("onesided", 0):
        spectrum = spectrum.take(np.arange(spectrum.shape[at] // 2 + 1), axis=at)
    return [_parts(spectrum, wanted[0])]


def _fft_lower(node: Node, _ctx: LowerContext) -> Work:
    elements = math.prod(Ref.of(node.output).shape)
    # butterflies: about 5 operations an element and stage
    return on_ai_cpu(node, 5 * max(1.0, math.log2(max(2, elements))))


def _stft_frames(ctx_length: int, frame: int, step: int) -> int:
    return (ctx_length - frame) // step + 1


def _stft_infer(ctx: InferContext) -> None:
    need_numbers(ctx, (1, 3))
    need_rank(ctx, 0, 2)
    signal, step, frame, window = (
        ctx.shape(0),
        known_ints(ctx, 1),
        known_ints(ctx, 3),
        ctx.shape(2) if ctx.has(2) else None,
    )
    if window is not None and len(window) != 1:
        raise ctx.fail("needs a window of rank 1", list(window))
    if step is not None and step[0] < 1:
        raise ctx.fail("needs a frame step above 0", step[0])
    size: Dim = frame[0] if frame is not None else window[0] if window is not None else None
    batch = signal[0] if signal else None
    if not isinstance(size, int) or ctx.has(3) is (frame is None):
        ctx.set(0, ctx.dtype(0), (batch, None, None, 2))
        return
    bins = size // 2 + 1 if ctx.node.attr("onesided", 1) else size
    length = signal[1] if signal is not None else None
    frames = _stft_frames(length, size, step[0]) if isinstance(length, int) and step is not None else None
    ctx.set(0, ctx.dtype(0), (batch, frames, bins, 2))


def _stft(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Array]:
    data, hop, window, frame = (*inputs, None, None)[:4]
    step = _scalar(hop, 1)
    size = _scalar(frame, window.shape[0] if window is not None else data.shape[1])
    if step < 1 or not 1 <= size <= data.shape[1]:
        raise GraphError(
            f"node {node.name!r} (STFT)",
            "needs a frame step above 0 and frames inside the signal",
            (step, size),
        )
    signal = _complex(data) if data.ndim == 3 else as_float32(data)
    places = np.arange(_stft_frames(data.shape[1], size, step))[:, None] * step + np.arange(size)
    frames = signal[:, places]
    if window is not None:
        taper = np.zeros(size, np.float64)
        taper[(size - window.shape[0]) // 2 :][: window.shape[0]] = as_float32(window)
        frames = frames * taper
    spectrum = np.fft.fft(frames, axis=-1)
    if node.attr("onesided", 1):
        spectrum = spectrum[..., : size // 2 + 1]
    return [_parts(spectrum, wanted[0])]


def _mel_infer(ctx: InferContext) -> None:
    need_numbers(ctx, range(5))
    bins, length = known_ints(ctx, 0), known_ints(ctx, 1)
    dtype = dtype_attribute(ctx.node, "output_datatype", DType.FLOAT32)
    ctx.set(0, dtype, (None if length is None else length[0] // 2 + 1, None if bins is None else bins[0]))


def _mel(node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Array]:
    """Triangles over spectrogram bins, evenly spaced on the mel scale 2595 log10(1 + f / 700)."""
    bins, length, rate = (int(np.asarray(item).item()) for item in inputs[:3])
    low, high = (2595 * np.log10(1 + float(np.asarray(item).item()) / 700) for item in inputs[3:])
    spectrum = length // 2 + 1
    if bins < 1 or length < 1 or rate < 1 or not 0 <= low <= high < np.inf:
        rule = "needs bins, a length and a rate above 0, and edges from 0 on, the lower first"
        raise GraphError(f"node {node.name!r} (MelWeightMatrix)", rule, (bins, length, rate))
    mel = np.arange(bins + 2) * ((high - low) / (bins + 2)) + low
    edges = ((length + 1) * (700 * (10 ** (mel / 2595) - 1)) // rate).astype(np.int64)
    if edges[-1] > spectrum:
        rule = f"needs an upper edge of at most half the rate, {rate / 2:g} Hz"
        raise GraphError(f"node {node.name!r} (MelWeightMatrix)", rule, float(np.asarray(inputs[4]).item()))
    result = np.zeros((spectrum, bins))
    for band in range(bins):
        lower, centre, upper = edges[band : band + 3]
        if centre == lower:
            result[centre, band] = 1
        else:
            rising = np.arange(lower, centre + 1)
            result[lower : centre + 1, band] = (rising - lower) / (centre - lower)
        if upper > centre:
            falling = np.arange(centre, upper)
            result[centre:upper, band] = (upper - falling) / (upper - centre)
    return [result.astype(wanted[0])]


def _mel_lower(node: Node, _ctx: LowerContext) -> Work:
    return on_ai_cpu(node, 2)


def _det_infer(ctx: InferContext) -> None:
    source = ctx.shape(0)
    if source is not None and (
        len(source) < 2
        or (isinstance(source[-1], int) and isinstance(source[-2], int) and source[-1] != source[-2])
    ):
        raise ctx.fail("needs square matrices", list(source))
    ctx.set(0, ctx.dtype(0), None if source is None else source[:-2])


def _det(_node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Array]:
    return [finish(np.asarray(np.linalg.det(as_float32(inputs[0]))), wanted[0])]


def _det_lower(node: Node, _ctx: LowerContext) -> Work:
    # LU: 2/3 n^3 operations for n^2 elements
    return on_ai_cpu(node, 2 / 3 * node.required(0).static_shape[-1])


def _transformed_axes(node: Node, rank: int) -> tuple[int, ...] | None:
    """The transformed axis, and the last one, which holds real and imaginary parts."""
    given = constant_ints(node.input(2))
    axis = -2 if node.input(2) is None else None if given is None else given[0]
    return None if axis is None or not rank else (axis % rank, rank - 1)


def _stft_links(node: Node) -> AxisMap:
    rank = rank_of(node, 0) or 0
    return by_labels(node, {0: ("n", "t", "parts")[:rank], 2: ("w",)}, {0: ("n", "frame", "bin", "complex")})


def _det_links(node: Node) -> AxisMap:
    rank = rank_of(node, 0)
    return (
        NOTHING_SAID
        if rank is None
        else by_labels(node, {0: (*range(rank - 2), "row", "column")}, {0: range(rank - 2)})
    )


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "DFT",
        _dft_infer,
        _dft,
        _fft_lower,
        most_inputs=3,
        facts=Facts(along_axes(_transformed_axes), Kind.OTHER, Precision.GRAY, parameters=(1, 2)),
    ),
    OpDef(
        "STFT",
        _stft_infer,
        _stft,
        _fft_lower,
        most_inputs=4,
        facts=Facts(_stft_links, Kind.OTHER, Precision.GRAY, parameters=(1, 3)),
    ),
    OpDef(
        "MelWeightMatrix",
        _mel_infer,
        _mel,
        _mel_lower,
        most_inputs=5,
        facts=Facts(opaque(), Kind.OTHER, Precision.GRAY, parameters=(0, 1, 2)),
    ),
    OpDef(
        "Det",
        _det_infer,
        _det,
        _det_lower,
        cann="MatrixDeterminant",
        facts=Facts(_det_links, Kind.OTHER, Precision.GRAY),
    ),
)
