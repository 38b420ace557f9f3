"""Cases of training operators: gradients, losses, dropout, weight updates, checks of overflow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tests.support.own_cases import Cases

from tests.support.own_cases import ints, one, some

Array = Any


def write_all(cases: Cases) -> None:
    families = (
        activation_gradients,
        losses,
        index_gradients,
        slice_gradients,
        attention,
        inference_attention,
        dropout,
        status,
    )
    for write in (*families, applied):
        write(cases)


def activation_gradients(cases: Cases) -> None:
    pairs = [(some(2, 20, 3, 5), some(2, 20, 3, 5, seed=1)), (some(7, 33), some(7, 33, seed=1))]
    for dy, x in pairs:
        for form in ("none", "tanh"):
            cases.ascend("GeluGrad", dy, x, some(*x.shape, seed=2), approximate=form)
        cases.ascend("SwishGrad", dy, x, some(*x.shape, seed=2), scale=1.7)
        for name in (
            *("FastGeluGrad", "TanhGrad", "SigmoidGrad", "SiluGrad", "HardSwishGrad"),
            *("Relu6Grad", "EluGrad", "SoftplusGrad", "ReciprocalGrad"),
        ):
            cases.ascend(name, dy, 2 * x)
        cases.ascend("SqrtGrad", abs(x) + np.float32(0.5), dy)
        cases.ascend("HardSigmoidGrad", dy, 3 * x, alpha=0.25, beta=0.75)
        cases.ascend("HardtanhGrad", x, dy, min_val=-0.5, max_val=0.75)
        cases.ascend("LeakyReluGrad", dy, x, negative_slope=0.1)
        cases.ascend("ThresholdGradV2D", dy, x, threshold=0.25)
        for known in (0, 1):
            cases.ascend("EluGradV2", dy, x, alpha=0.5, scale=1.5, input_scale=0.75, is_result=known)
        cases.ascend("SoftplusV2Grad", dy, x, beta=2.0, threshold=1.5)
    for shape, weights in (
        ((2, 20, 3, 5), (20,)),
        ((2, 20, 3), (1,)),
        ((3, 20), (20,)),
        ((7,), (7,)),
        ((7,), ()),
    ):
        dy, x = some(*shape), some(*shape, seed=1)
        cases.ascend("PReluGrad", dy, x, some(*weights, positive=True), outputs=2)
    for name in ("HardSigmoidGrad", "HardtanhGrad", "LeakyReluGrad", "EluGradV2", "SoftplusV2Grad"):
        cases.ascend(name, *pairs[1])
    cases.ascend("GeluGrad", *pairs[1], pairs[1][1])
    cases.ascend("SwishGrad", *pairs[1], pairs[1][1])


def losses(cases: Cases) -> None:
    labels = np.array([[3, 1, 4, 1, 0], [9, -100, 6, 5, 11]], np.int64)
    weight = some(12, positive=True)
    for kind in ("none", "mean", "sum"):
        cases.ascend("NLLLoss", some(2, 12, 5), labels, weight, outputs=2, reduction=kind)
        cases.ascend("NLLLoss", some(2, 12), labels[:, 0], outputs=2, reduction=kind, ignore_index=3)
        dy = some(2, 5) if kind == "none" else one(1.5)
        total = one(4.5)
        cases.ascend("NLLLossGrad", some(2, 12, 5), dy, labels, weight, total, reduction=kind)
    cases.ascend("NLLLoss", some(2, 12, 5), labels, weight, outputs=2)
    cases.ascend("NLLLossGrad", some(2, 12, 5), one(1.5), labels, weight, one(4.5))
    rows = some(7, 12, positive=True)
    cases.ascend("SoftmaxCrossEntropyWithLogits", some(7, 12), rows / rows.sum(1, keepdims=True), outputs=2)
    cases.ascend("SparseSoftmaxCrossEntropyWithLogits", some(7, 12), np.arange(7) + 2, outputs=2)
    cases.ascend("SigmoidCrossEntropyWithLogits", some(7, 12), some(7, 12, positive=True))
    cases.ascend("SigmoidCrossEntropyWithLogitsGrad", some(7, 12), some(7, 12, seed=1), some(7, 12, seed=2))
    for kind in ("none", "mean", "sum"):
        weights = (some(12, positive=True), some(7, 1, positive=True))
        kept = (some(7, 12), some(7, 12, positive=True))
        cases.ascend("SigmoidCrossEntropyWithLogitsV2", *kept, *weights, reduction=kind)
    cases.ascend("SigmoidCrossEntropyWithLogitsV2", *kept, reduction="none")
    for axis in (-1, 1, 0):
        cases.ascend("LogSoftmaxGrad", some(3, 20, 5), some(3, 20, 5, seed=1) - 2, axis=axis)
    cases.ascend("LogSoftmaxGrad", some(3, 40), some(3, 40, seed=1) - 2)


def index_gradients(cases: Cases) -> None:
    words = np.array([[3, 0, 7, 3, 5], [0, 3, 10, 7, 6]], np.int64)
    for dtype, width in ((np.int64, 33), (np.int32, 3)):
        indices = words.astype(dtype)
        cases.ascend("EmbeddingDenseGrad", some(2, 5, width), indices, num_weights=11)
        more = {"padding_idx": 3, "scale_grad_by_freq": 1}
        cases.ascend("EmbeddingDenseGrad", some(2, 5, width), indices, num_weights=11, **more)
    ids = words - 1  # one of them is negative
    for shape in ((2, 5, 4, 7), (2, 5)):
        cases.ascend("UnsortedSegmentSum", some(*shape), ids.astype(np.int32), np.array(11, np.int64))
    cases.ascend("UnsortedSegmentSum", some(6, dtype=np.int32), ints(1, 0, 3, 1, 1, 0), ints(5))
    for kind in ("Max", "Min", "Prod"):
        name, places = f"UnsortedSegment{kind}", ids.astype(np.int32)
        cases.ascend(name, some(2, 5, 4, 7), places, np.array(11, np.int64))
        cases.ascend(name, some(2, 5), places, np.array(11, np.int64))
    rising = np.array([0, 0, 2, 3, 3, 3], np.int32)
    for kind in ("Sum", "Mean", "Max", "Min", "Prod"):
        for shape in ((6, 5, 7), (6,)):
            cases.ascend(f"Segment{kind}", some(*shape), rising)
    for axis in (0, 1, -1):
        data, length = some(6, 8, 7), (6, 8, 7)[axis]
        indices = np.arange(5)[::-1] * 3 % length
        updates = some(*(5 if at == axis % 3 else size for at, size in enumerate(data.shape)))
        cases.ascend("InplaceIndexAdd", data, indices, updates, axis=axis)
        cases.ascend("InplaceIndexAdd", data, indices.astype(np.int32), updates, one(0.5), axis=axis)


def slice_gradients(cases: Cases) -> None:
    def add(dy: Array, shape: Array, begin: Array, end: Array, strides: Array, **masks: int) -> None:
        cases.ascend("StridedSliceGrad", shape, begin, end, strides, dy, **masks)

    add(some(2, 3, 7), ints(2, 5, 7), ints(0, 1, 0), ints(2, 4, 7), ints(1, 1, 1))
    add(some(2, 2, 3), ints(2, 5, 7), ints(0, 4, 1), ints(2, -5, 7), ints(1, -2, 2), end_mask=4)
    add(some(5, 4), ints(2, 5, 7), ints(1, 0, 3), ints(2, 5, 7), ints(1, 1, 1), shrink_axis_mask=1)
    add(
        some(1, 2, 5, 3),
        ints(2, 5, 7),
        ints(0, 0, 4),
        ints(0, 0, 7),
        ints(1, 1, 1),
        new_axis_mask=1,
        ellipsis_mask=2,
    )
    add(some(4, 6), ints(4, 9), ints(0, 3), ints(0, 9), ints(1, 1), begin_mask=1, end_mask=1)
    for mode in ("reflect", "edge"):
        cases.ascend("PadV3Grad", some(3, 9, 11), ints(0, 0, 1, 2, 3, 0), mode=mode)
    cases.ascend("PadV3Grad", some(3, 9), ints(0, 1, 0, 2), mode="reflect", paddings_contiguous=0)
    cases.ascend("PadV3Grad", some(6, 9), ints(0, 1, 2, 2))


def attention(cases: Cases) -> None:
    """Shared heads, masks, shifts, dropout; the gradients' statistics are those of any forward pass."""
    for dtype in (np.float32, np.float16):
        for layout, turn in (("BNSD", (0, 1, 2, 3)), ("BSND", (0, 2, 1, 3))):
            numbers = {"head_num": 4, "input_layout": layout, "scale_value": 0.25}
            q, k, v, dy, y = (
                some(3, heads, length, size, dtype=dtype, seed=seed).transpose(turn)
                for seed, (heads, length, size) in enumerate(
                    ((4, 7, 16), (2, 9, 16), (2, 9, 8), (4, 7, 8), (4, 7, 8))
                )
            )
            top, total = some(3, 4, 7, 8), some(3, 4, 7, 8, positive=True)
            mask, shift = some(7, 9, dtype=bool), some(3, 4, 7, 9, dtype=dtype)
            cases.ascend("FlashAttentionScore", q, k, v, outputs=4, **numbers)
            more = (shift, None, None, mask)
            cases.ascend("FlashAttentionScore", q, k, v, *more, outputs=4, sparse_mode=1, **numbers)
            ends = (top, total, None, y)
            cases.ascend("FlashAttentionScoreGrad", q, k, v, dy, *[None] * 4, *ends, outputs=4, **numbers)
            cases.ascend(
                "FlashAttentionScoreGrad", q, k, v, dy, *more, *ends, outputs=4, sparse_mode=1, **numbers
            )


def inference_attention(cases: Cases) -> None:
    """A prompt, a step of decoding, pages, bytes, latent keys."""
    lengths, table = ints(9, 4, 7), ints(0, 1, 2, 3, 4, 5).reshape(3, 2)
    for dtype in (np.float32, np.float16):
        q, k, v = (some(3, n, length, 16, dtype=dtype, seed=n) for n, length in ((4, 7), (2, 9), (2, 9)))
        step, rope, key_rope = q[:, :, :1], some(3, 4, 1, 8, dtype=dtype), some(3, 2, 9, 8, dtype=dtype)
        pool = [some(6, 2, 8, 16, dtype=dtype, seed=n) for n in (5, 6)]
        numbers = {"num_heads": 4, "num_key_value_heads": 2, "input_layout": "BNSD"}
        mask, shift = some(7, 9, dtype=bool), some(3, 4, 7, 9, dtype=dtype)
        cases.ascend("PromptFlashAttention", q, k, v, shift, mask, scale_value=0.25, **numbers)
        cases.ascend("IncreFlashAttention", step, k, v, None, None, lengths, scale_value=0.25, **numbers)
        numbers |= {"scale": 0.25, "softmax_lse_flag": 1, "outputs": 2}
        cases.ascend("FusedInferAttentionScore", q, k, v, None, mask, None, lengths, sparse_mode=1, **numbers)
        paged = (None, None, None, lengths, *[None] * 7, table)
        falling = {"pse_type": 2, "softcap": 1.5}
        slopes = np.array([0.5, 0.25, 0.125, 0.0625], np.float32)
        cases.ascend("FusedInferAttentionScore", q, k, v, slopes, **falling, **numbers)
        cases.ascend("FusedInferAttentionScore", step, *pool, *paged, block_size=8, **numbers)
        rotated = (*[None] * 21, rope, key_rope)
        cases.ascend("FusedInferAttentionScore", step, k, k, *rotated, **numbers)
        cases.ascend("Scatter", pool[0], ints(1, 0, 3, 2, 5, 6), pool[1][:, :, :2], axis=2)
        small = [some(3, 2, 9, 16, dtype=np.int8, seed=n) for n in (7, 8)]
        scales = (*[None] * 9, some(2, 32, dtype=dtype, positive=True))
        cases.ascend("FusedInferAttentionScore", step, *small, *scales, **numbers)


def dropout(cases: Cases) -> None:
    for shape in ((5, 77), (3, 128), (200,)):
        x = some(*shape)
        elements = -(-x.size // 128) * 128
        cases.ascend("DropOutGenMask", ints(*shape), one(0.75), seed=7, seed2=3)
        cases.ascend("DropOutGenMask", ints(*shape), one(0.75))
        cases.ascend("StatelessDropOutGenMask", ints(*shape), one(0.75), ints(7), ints(3), ints(4))
        bits = some(elements // 8, dtype=np.uint8) * np.uint8(29)
        cases.ascend("DropOutDoMask", x, bits, one(0.75))
        if x.size == elements:
            cases.ascend("DropOutDoMaskV3", x, some(elements, dtype=np.uint8) % np.uint8(2), one(0.75))
    cases.ascend("StatelessDropOutGenMask", ints(5, 77), one(0.75), ints(7), ints(3))


def status(cases: Cases) -> None:
    cases.ascend("AtomicAddrClean", some(3, 20))
    cases.ascend("NPUAllocFloatStatus")
    cases.ascend("NPUClearFloatStatus", some(8), some(3, 20))
    cases.ascend("NPUGetFloatStatus", np.zeros(8, np.float32), some(3, 20), some(7))
    for name in ("AllFinite", "NonFiniteCheck"):
        cases.ascend(name, some(3, 20))
        cases.ascend(name, some(3, 20), np.array([1, np.inf, 2], np.float32), some(5, 7))
    for axes in ((0,), (1,), (-1, 0), ()):
        cases.ascend("SquareSumV2", some(5, 20, 7), outputs=2, axis=axes, keep_dims=int(len(axes) == 1))
    cases.ascend("SquareSumV2", some(5, 20, 7), outputs=2, axis=(2,))
    cases.ascend("L2Loss", some(5, 20, 7))


def applied(cases: Cases) -> None:
    def tensors(count: int) -> list[Array]:
        return [some(3, 40, seed=number, positive=True) for number in range(count)]

    def numbers(count: int) -> list[Array]:
        return [one(0.1 + 0.07 * number) for number in range(count)]

    w, m, v, g = tensors(4)
    for shape, room in (((3, 40), 120), ((2, 5, 3, 3), 90)):
        cases.ascend("AccumulateGrad", some(room), some(*shape, seed=1))
    for ahead in (0, 1):
        cases.ascend("ApplyMomentum", w, m, one(0.1), g, one(0.9), outputs=2, use_nesterov=ahead)
        cases.ascend("ApplyAdam", w, m, v, *numbers(6), g, outputs=3, use_nesterov=ahead)
        cases.ascend("ApplyAdamW", w, m, v, *numbers(7), g, outputs=3, maximize=ahead)
    cases.ascend("ApplyMomentum", w, m, one(0.1), g, one(0.9), outputs=2)
    cases.ascend("ApplyAdam", w, m, v, *numbers(6), g, outputs=3)
    cases.ascend("ApplyAdamW", w, m, v, *numbers(7), g, outputs=3)
    step = np.array([3], np.int64)
    rates: dict[str, Any] = {"lr": 0.01, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.02, "eps": 1e-6}
    cases.ascend("ApplyAdamWV2", w, m, v, g, step, outputs=3, **rates)
    cases.ascend("ApplyAdamWV2", w, m, v, g, step, outputs=3, maximize=1)
    cases.ascend("ApplyAdamWV2", w, m, v, g, one(3.0), some(3, 40, positive=True), outputs=4, amsgrad=1)
    cases.ascend(
        "LambApplyOptimizerAssign", g, v, m, w, *numbers(5), one(3.0), one(1.0), one(0.01), outputs=3
    )
    cases.ascend("LambApplyWeightAssign", one(0.5), one(0.7), one(0.1), g, w)
