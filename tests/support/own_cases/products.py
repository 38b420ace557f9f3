"""Matrix products."""

from __future__ import annotations

from itertools import product

import numpy as np

from ascendsim.core.dtypes import DType
from tests.support.own_cases.making import Cases, one, some


def add_products(cases: Cases) -> None:
    for a, b in (
        ((5, 34), (34, 18)),
        ((3, 5, 34), (34, 18)),
        ((2, 3, 5, 34), (3, 34, 18)),
        ((5, 34), (2, 34, 18)),
        ((34,), (34, 18)),
        ((5, 34), (34,)),
    ):
        cases.add("MatMul", some(*a), some(*b))
        cases.add("MatMul", some(*a, dtype=np.int32), some(*b, dtype=np.int32))
    cases.add("MatMul", some(5, 34, dtype=np.float64), some(34, 18, dtype=np.float64))
    for third, (alpha, beta) in product(
        (None, (18,), (5, 18), (5, 1), (1,), (), (1, 18)), ((1.0, 1.0), (0.5, 1.0), (1.0, 0.25), (2.0, 0.5))
    ):
        cases.add(
            "Gemm", some(5, 34), some(34, 18), None if third is None else some(*third), alpha=alpha, beta=beta
        )
    for turned, other in ((0, 1), (1, 0), (1, 1)):
        a, b = some(*((34, 5) if turned else (5, 34))), some(*((18, 34) if other else (34, 18)))
        cases.add("Gemm", a, b, some(18), transA=turned, transB=other)
        cases.ascend("BatchMatMul", np.stack([a, a]), b, some(18), adj_x1=turned, adj_x2=other)
        cases.ascend("BatchMatMul", a, np.stack([b, b, b]), adj_x1=turned, adj_x2=other)
        cases.ascend("CompositeMatMul", np.stack([a, a]), b, transpose_a=turned, transpose_b=other)
    cases.add("Gemm", some(5, 34, dtype=np.int32), some(34, 18, dtype=np.int32))
    cases.ascend(
        "CompositeMatMul",
        some(2, 3, 16, 16),
        some(4, 2, 16, 16),
        format_a="FRACTAL_NZ",
        format_b="FRACTAL_NZ",
        format_out="FRACTAL_NZ",
    )
    cases.ascend(
        "CompositeMatMul", some(5, 2, 3, 16, 16), some(32, 7), format_a="FRACTAL_NZ", to=DType.FLOAT32
    )
    shapes = {
        "ij,jk->ik": ((5, 34), (34, 18)),
        "bij,bjk->bik": ((3, 5, 34), (3, 34, 18)),
        "bhqd,bhkd->bhqk": ((2, 3, 5, 8), (2, 3, 7, 8)),
        "ij,kj->ik": ((5, 34), (18, 34)),
        "ij,j->i": ((5, 34), (34,)),
        "i,j->ij": ((5,), (7,)),
        "ij->ji": ((5, 7),),
        "ij->i": ((5, 7),),
        "ij,jk,kl->il": ((5, 7), (7, 3), (3, 4)),
        "...ij,...jk->...ik": ((2, 5, 7), (2, 7, 3)),
        "abc,cd->abd": ((2, 5, 7), (7, 3)),
    }
    for equation, operands in shapes.items():
        cases.add("Einsum", *(some(*shape) for shape in operands), equation=equation)
    cases.ascend("FullyConnection", some(3, 20, 2, 4), some(33, 20, 2, 4), some(33), activation="relu")
    cases.ascend("FullyConnection", some(3, 20), some(33, 20))


def add_scaled_products(cases: Cases) -> None:
    """Those of large language models: scales of rows, columns and groups."""
    name = "QuantBatchMatmulV3"
    a, b, columns = some(5, 34, dtype=np.int8), some(34, 18, dtype=np.int8), some(18, positive=True)
    rows, sums, last = some(5, positive=True), some(18, dtype=np.int32), some(18)
    cases.ascend(name, a, b, columns)
    cases.ascend(name, a, b, one(0.5), None, sums, dtype=DType.INT8)
    cases.ascend(name, a, b, columns, None, last, rows, dtype=DType.FLOAT16)
    cases.ascend(name, a, b, columns, None, sums, rows, dtype=DType.BFLOAT16)
    cases.ascend(name, a.T.copy(), b.T.copy(), columns, transpose_x1=1, transpose_x2=1)
    cases.ascend(
        name, some(2, 5, 34, dtype=np.int8), some(2, 34, 18, dtype=np.int8), columns, dtype=DType.INT32
    )
    name, x = "WeightQuantBatchMatmulV2", some(5, 34)
    cases.ascend(name, x, b, columns)
    cases.ascend(name, x, b, one(0.5), one(2.0), None, None, last)
    cases.ascend(name, x, b, some(2, 18, positive=True), some(2, 18), antiquant_group_size=32)
    cases.ascend(name, x, b.T.copy(), some(18, 2, positive=True), antiquant_group_size=32, transpose_weight=1)
    more = {"domain": "com.microsoft", "K": 32, "N": 18, "block_size": 16}
    cases.add(
        "MatMulNBits", some(5, 32), some(18, 2, 8, dtype=np.uint8), some(36, positive=True), bits=4, **more
    )
    blocks = some(18, 2, 16, dtype=np.uint8), some(36, positive=True), some(36, dtype=np.uint8)
    cases.add("MatMulNBits", some(2, 3, 32), *blocks, None, some(18), bits=8, **more)
    cases.ascend(name, x, some(34, 3, dtype=np.int32), some(24, positive=True), None, some(24, positive=True))


def add_grouped(cases: Cases) -> None:
    """Rows of experts by the experts' matrices."""
    name, x, weight = "GroupedMatmul", some(7, 20), some(3, 20, 12)
    counts, ends = np.array([2, 0, 4], np.int64), np.array([1, 4, 7], np.int64)
    none = [None] * 3
    cases.ascend(name, x, weight, None, None, *none, counts, group_list_type=1)
    cases.ascend(name, x, weight.swapaxes(1, 2).copy(), some(3, 12), None, *none, ends, transpose_weight=1)
    a, b = some(7, 34, dtype=np.int8), some(3, 34, 18, dtype=np.int8)
    columns, rows = some(3, 18, positive=True), some(7, positive=True)
    cases.ascend(name, a, b, None, columns, *none, ends)
    cases.ascend(name, a, b, some(3, 18), columns, *none, ends, rows, dtype=DType.BFLOAT16)
