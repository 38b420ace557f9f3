"""Triton kernels of the tests; importing this needs `triton` (`ascendsim.triton.provide()`)."""

import triton
import triton.language as tl


@triton.jit
def add(x, y, z, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(z + at, tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask), mask=mask)


@triton.jit
def softmax(out, x, stride, rows, cols, BLOCK: tl.constexpr):
    step = tl.num_programs(0)
    for row in tl.range(tl.program_id(0), rows, step):
        at = tl.arange(0, BLOCK)
        mask = at < cols
        v = tl.load(x + row * stride + at, mask=mask, other=-float("inf"))
        e = tl.exp(v - tl.max(v, axis=0))
        tl.store(out + row * stride + at, e / tl.sum(e, axis=0), mask=mask)


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0), tl.program_id(1)
    pa = tl.make_block_ptr(a, (M, K), (K, 1), (m * BM, 0), (BM, BK), (1, 0))
    pb = tl.make_block_ptr(b, (K, N), (N, 1), (0, n * BN), (BK, BN), (1, 0))
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        acc += tl.dot(tl.load(pa), tl.load(pb))
        pa = tl.advance(pa, (0, BK))
        pb = tl.advance(pb, (BK, 0))
    pc = tl.make_block_ptr(c, (M, N), (N, 1), (m * BM, n * BN), (BM, BN), (1, 0))
    tl.store(pc, acc.to(tl.float16))


@triton.jit
def _scaled(v, scale):
    return v * scale


FACTOR = tl.constexpr(3.0)


@triton.jit
def scaled_rows(x, y, cols, BLOCK: tl.constexpr):
    at = tl.program_id(0) * cols + tl.arange(0, BLOCK)
    mask = tl.arange(0, BLOCK) < cols
    tl.store(y + at, _scaled(tl.load(x + at, mask=mask), FACTOR), mask=mask)


@triton.jit
def attention(Q, K, V, out, scale, N, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0)
    q = tl.load(tl.make_block_ptr(Q, (N, D), (D, 1), (m * BM, 0), (BM, D), (1, 0)))
    pk = tl.make_block_ptr(K, (N, D), (D, 1), (0, 0), (BN, D), (1, 0))
    pv = tl.make_block_ptr(V, (N, D), (D, 1), (0, 0), (BN, D), (1, 0))
    top = tl.full((BM,), -float("inf"), tl.float32)
    norm = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for _ in range(0, N, BN):
        s = tl.dot(q, tl.trans(tl.load(pk))) * scale
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.exp(s - new[:, None])
        old = tl.exp(top - new)
        norm = norm * old + tl.sum(p, 1)
        acc = acc * old[:, None] + tl.dot(p.to(tl.float16), tl.load(pv))
        top = new
        pk = tl.advance(pk, (BN, 0))
        pv = tl.advance(pv, (BN, 0))
    po = tl.make_block_ptr(out, (N, D), (D, 1), (m * BM, 0), (BM, D), (1, 0))
    tl.store(po, (acc / norm[:, None]).to(tl.float16))


@triton.jit
def broken(x, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), nobody_knows_this)  # noqa: F821


@triton.jit
def too_much(x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at)
    tl.store(y + at, tl.exp(v) + v / tl.sum(v, 0))
