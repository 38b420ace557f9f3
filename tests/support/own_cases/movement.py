"""Data that moves, indices, and what is made of nothing."""

from __future__ import annotations

from itertools import product

import numpy as np

from ascendsim.core.dtypes import DType
from tests.support.own_cases.making import Cases, ints, one, some


def add_movement(cases: Cases) -> None:
    for shape, orders in (
        ((2, 20, 32), ((1, 0, 2), (0, 2, 1), (2, 1, 0))),
        ((2, 3, 40, 64), ((0, 2, 1, 3), (0, 2, 3, 1), (3, 2, 1, 0))),
    ):
        for perm in orders:
            for dtype in (np.float32, np.int8, np.int64):
                cases.add("Transpose", some(*shape, dtype=dtype), perm=perm)
    cases.add("Transpose", some(20, 30, 3), perm=(1, 0, 2))
    cases.add("Transpose", some(1, 20, 1, 30), perm=(2, 1, 0, 3))
    for axis, parts in ((1, (32, 16, 48)), (1, (20, 3)), (0, (2, 2)), (-1, (2, 2)), (2, (3, 3))):
        arrays = []
        for number, size in enumerate(parts):
            shape = [2, 20, 3, 2]
            shape[axis] = size
            arrays.append(some(*shape, seed=number))
        cases.add("Concat", *arrays, axis=axis)
        cases.add("Concat", *(array[:1] if axis else array for array in arrays), axis=axis)
        whole = np.concatenate(arrays, axis=axis)
        cases.add("Split", whole, ints(*parts), outputs=len(parts), axis=axis)
        cases.add("Split", whole[:1] if axis else whole, ints(*parts), outputs=len(parts), axis=axis)
    cases.add("Split", some(7, 6), outputs=3, axis=0, num_outputs=3)
    cases.add("Concat", some(2, 0, 3), some(2, 4, 3), axis=1)
    x = some(6, 20, 34)
    for starts, ends, axes, steps in (
        ((1,), (5,), (0,), (1,)),
        ((2,), (18,), (1,), (1,)),
        ((3,), (19,), (2,), (1,)),
        ((1, 2), (6, 30), (0, 2), (2, 3)),
        ((-1,), (-30,), (2,), (-2,)),
        ((-5, 0), (1000, -1), (-2, 0), (1, 1)),
        ((-1,), (-1000,), (0,), (-1,)),
        ((0, 1), (6, 20), (0, 1), (1, 2)),
    ):
        for dtype in (np.float32, np.int8):
            cases.add("Slice", x.astype(dtype), ints(*starts), ints(*ends), ints(*axes), ints(*steps))
    cases.add("Slice", x, ints(1, 2), ints(4, 9))
    for source, target in (
        ((3, 1), (2, 3, 32)),
        ((20, 1), (20, 7)),
        ((1, 7), (20, 7)),
        ((1,), (40, 50)),
        ((3, 1, 16), (3, 5, 16)),
        ((3, 4), (1, 1)),
    ):
        for dtype in (np.float32, np.int64, np.int8):
            cases.add("Expand", some(*source, dtype=dtype), ints(*target))
    for source, repeats in (
        ((3, 20), (2, 1)),
        ((3, 20), (1, 3)),
        ((3, 1), (1, 7)),
        ((2, 3, 16), (1, 4, 1)),
        ((3, 20), (1, 1)),
        ((1, 1), (30, 40)),
    ):
        cases.add("Tile", some(*source), ints(*repeats))
    for mode in ("constant", "reflect", "edge", "wrap"):
        for pads in ((0, 0, 1, 2, 0, 0, 2, 1), (0, 0, 1, 0, 0, 0, 1, 0), (0, 1, 0, 0, 0, 1, 0, 0)):
            cases.add("Pad", some(2, 20, 5, 7), ints(*pads), mode=mode)
    cases.add("Pad", some(2, 20, 5, 8), ints(-1, 1, 0, 2), one(3.0), ints(-1, 1))
    cases.add("CenterCropPad", some(5, 20, 7), ints(8, 3), axes=(1, 2))
    cases.add("CenterCropPad", some(5, 20, 7), ints(6, 17, 8))
    for mode, shape in product(("DCR", "CRD"), ((2, 36, 5, 7), (1, 8, 3, 64))):
        cases.add("DepthToSpace", some(*shape), blocksize=2, mode=mode)
        cases.add("SpaceToDepth", some(shape[0], shape[1], 6, 8), blocksize=2, mode=mode)
    cases.add("ReverseSequence", some(5, 3, 7), ints(5, 2, 0), time_axis=0, batch_axis=1)
    cases.add("ReverseSequence", some(3, 5, 16), ints(5, 2, 1), time_axis=1, batch_axis=0)
    for k, upper in product((None, 2, -3), (0, 1)):
        cases.add("Trilu", some(2, 6, 9), None if k is None else np.array(k, np.int64), upper=upper)
    cases.add("Col2Im", some(2, 30, 16), ints(5, 6), ints(2, 3))
    cases.add("Col2Im", some(2, 30, 9), ints(5, 6), ints(2, 3), strides=(2, 2), pads=(0, 1, 1, 0))
    for target in ((6, 20), (-1, 5), (0, 0, 40)):
        cases.add("Reshape", some(*((3, 1, 40) if 0 in target else (3, 40))), ints(*target))
    cases.add("Reshape", some(0, 3), ints(3, 0), allowzero=1)
    for axis in (0, 1, -1, 3):
        cases.add("Flatten", some(3, 20, 7), axis=axis)
    cases.add("Squeeze", some(3, 1, 20, 1), ints(1, -1))
    cases.add("Squeeze", some(3, 1, 20, 1))
    cases.add("Unsqueeze", some(3, 20), ints(0, -1))
    for training in (None, False, True):
        ports = (one(0.25), None if training is None else np.array(training))
        cases.add("Dropout", some(3, 20), *ports, outputs=2, seed=3)
        cases.add("Dropout", some(3, 20), *ports, seed=3)
    cases.add("Shape", some(3, 20, 7, 2), start=1, end=-1)
    for source, target in (("ND", "FRACTAL_NZ"), ("FRACTAL_NZ", "ND")):
        for shape in ((20, 40), (32, 48), (3, 20, 48)):
            cases.ascend("TransData", some(*shape, dtype=np.float16), src_format=source, dst_format=target)
    for source, target in (
        ("NCHW", "NC1HWC0"),
        ("NC1HWC0", "NCHW"),
        ("NCHW", "FRACTAL_Z"),
        ("FRACTAL_Z", "NCHW"),
        ("NCHW", "ND"),
        ("NC1HWC0", "FRACTAL_NZ"),
    ):
        for shape, dtype in product(((2, 20, 5, 7), (33, 3, 3, 3)), (np.float16, np.int8, np.float32)):
            cases.ascend("TransData", some(*shape, dtype=dtype), src_format=source, dst_format=target)


def add_indexing(cases: Cases) -> None:
    table = some(20, 7, 16)
    for axis in (0, 1, 2):
        for dtype in (np.float32, np.int8):
            cases.add("Gather", table.astype(dtype), np.array([[0, 3, -1], [2, 1, 1]], np.int64), axis=axis)
    cases.add("Gather", table, np.array(3, np.int64))
    cases.add("GatherElements", some(5, 20), some(4, 20, dtype=np.int64, positive=True) % 5)
    cases.add("GatherElements", some(5, 20, dtype=np.int64), some(5, 3, dtype=np.int64), axis=1)
    cases.add("GatherND", table, np.array([[0, 3], [2, 1], [-1, 6]], np.int64))
    cases.add("GatherND", some(3, 7, 16), np.array([[[0, 3], [2, 1]]] * 3, np.int64), batch_dims=1)
    cases.add("GatherND", some(3, 7, 4), np.array([[0], [2]], np.int64))
    for reduction in ("none", "add", "mul", "max", "min"):
        cases.add(
            "ScatterElements",
            some(5, 20),
            some(4, 20, dtype=np.int64, positive=True) % 5,
            some(4, 20),
            reduction=reduction,
        )
        cases.add(
            "ScatterND", some(9, 3, 16), ints(0, 3, 3, 8).reshape(4, 1), some(4, 3, 16), reduction=reduction
        )
        cases.add("ScatterND", some(9, 5), np.array([[0, 3], [8, 1]], np.int64), some(2), reduction=reduction)
    cases.add("ScatterND", some(9, 7), ints(0, 3).reshape(2, 1), some(2, 7))
    cases.add("ScatterND", some(9, 8), ints(0, 3).reshape(2, 1), some(2, 8))
    cases.add("ScatterElements", some(5, 20), np.zeros((0, 20), np.int64), some(0, 20))
    cases.add("TensorScatter", some(2, 3, 9, 4), some(2, 3, 2, 4), ints(1, 7))
    cases.add("TensorScatter", some(2, 9, 4), some(2, 3, 4), ints(7, 8), axis=1, mode="circular")
    cases.add("Compress", some(5, 20), np.array([True, False, True, True]), axis=0)
    cases.add("NonZero", some(5, 20, dtype=np.int32))
    for axis, order in product((None, 0, 1), (0, 1)):
        more = {} if axis is None else {"axis": axis}
        cases.add("Unique", some(6, 3, dtype=np.int64) % 2, outputs=4, sorted=order, **more)
    boxes, scores = (
        np.sort(some(2, 6, 2, 2, positive=True), axis=2).reshape(2, 6, 4),
        some(2, 3, 6, positive=True),
    )
    for center in (0, 1):
        cases.add("NonMaxSuppression", boxes, scores, ints(2), one(0.4), one(0.8), center_point_box=center)
    cases.add("NonMaxSuppression", boxes, scores, ints(3))
    cases.ascend(
        "Proposal",
        some(2, 4, 3, 5, positive=True),
        some(2, 8, 3, 5) / 4,
        np.array([[40, 60, 1], [50, 70, 1]], np.float32),
        outputs=2,
        **{"base_size": 12.0, "ratio": (1.0, 2.0), "scale": (1.0,), "min_size": 4.0, "post_nms_topn": 16},
    )
    sixteen = np.arange(16, dtype=np.float32)
    boxes = np.stack([sixteen, sixteen / 2, sixteen * 3, sixteen + 9], axis=1)
    chosen = {"score_threshold": 0.25, "k": 16, "min_size": 4.0, "nms_threshold": 0.5, "post_nms_num": 16}
    cases.ascend("RpnProposalsD", boxes, some(16, 1, positive=True), img_size=(20, 30), **chosen)
    cases.ascend("RpnProposals", boxes, some(16, 1, positive=True), np.array([20, 30], np.int32), **chosen)
    cases.ascend("MapIndex", np.array([3, 4], np.int32), np.array([1, 2, 3, 4, 5, 6], np.int32))


def add_made(cases: Cases) -> None:
    for name, more in (
        ("RandomUniform", {"low": 2.0, "high": 3.0}),
        ("RandomNormal", {"mean": 50.0, "scale": 0.5}),
    ):
        cases.add(name, shape=(3, 20), seed=1.5, **more)
        cases.add(name, shape=(3, 20), dtype=DType.FLOAT16, **more)
        cases.add(f"{name}Like", some(3, 20), **more)
    cases.add("Multinomial", some(3, 5), sample_size=4, seed=2.0)
    cases.add("EyeLike", some(6, 9), k=2, dtype=DType.FLOAT32)
    cases.add(
        "OneHot", some(6, 3, dtype=np.int64), np.array(7, np.int64), np.array([2, 5], np.float32), axis=1
    )
    cases.add("ConstantOfShape", ints(3, 20), value=np.array([7], np.int64))
    cases.add("ConstantOfShape", ints(3, 0))
    cases.add("Range", *(np.array(v, np.int64) for v in (3, 20, 4)))
    cases.add("Range", *(np.array(v, np.float32) for v in (3, -2, -0.5)))
    cases.add("Det", some(3, 4, 4))
    cases.add("DFT", some(2, 10, 1), np.array(16, np.int64), onesided=1)
    cases.add("DFT", some(2, 10, 2), inverse=1)
    cases.add("STFT", some(2, 40, 1), np.array(3, np.int64), None, np.array(8, np.int64))
