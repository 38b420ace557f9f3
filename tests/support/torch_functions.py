"""Functions of PyTorch, called on small tensors: every converter in one module, so that one capture does."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

A = torch.arange(24.0).reshape(2, 3, 4) / 7 - 1.5
B = torch.linspace(-2, 3, 24).reshape(2, 3, 4).flip(1)
W = torch.arange(20).reshape(5, 4).sin()
IMAGE = (torch.arange(2 * 4 * 7 * 6) * 0.7).sin().reshape(2, 4, 7, 6)
FILTERS = (torch.arange(8 * 2 * 3 * 3) * 0.3).cos().reshape(8, 2, 3, 3)
POSITIVE = A.abs() + 0.1
ROWS = torch.tensor([2, 0, 2])
WHERE = torch.tensor([[True, False, True, False]])
HEADS = (torch.arange(2 * 4 * 3 * 8) * 0.37).sin().reshape(2, 4, 3, 8)


def functions(a: Tensor, b: Tensor, image: Tensor, heads: Tensor, rows: Tensor) -> dict[str, Tensor]:
    """Results by what they are results of."""
    positive = a.abs() + 0.1
    wide = torch.zeros(4, 3, 4) + a[:1]
    return {
        "add_alpha": torch.add(a, b, alpha=0.5),
        "sub_number": a - 2,
        "rsub": 1.5 - a,
        "rsub_alpha": torch.rsub(a, b, alpha=2),
        "div": a / positive,
        "div_floor": torch.div(a, 0.7, rounding_mode="floor"),
        "div_trunc": torch.div(a, 0.7, rounding_mode="trunc"),
        "integers": rows * 3 + 1,
        "integers_over": rows / 2,
        "integers_floor": torch.div(rows - 1, 2, rounding_mode="floor"),
        "integers_trunc": torch.div(rows - 3, 2, rounding_mode="trunc"),
        "mixed": rows[:2, None, None] * a,
        "maximum": torch.maximum(a, b),
        "minimum": torch.minimum(a, b),
        "remainder": torch.remainder(a, 0.7),
        "compared": (a > b) | (a <= 0.3) & (a != b),
        "compared_mixed": rows > 0.5,
        "compared_bools": (a > 0) == True,  # noqa: E712
        "not": torch.logical_not(rows),
        "xor": torch.logical_xor(rows, rows > 1),
        "bits": ~rows & 3,
        "clamp": a.clamp(-0.5, 0.7),
        "clamp_min": a.clamp(min=0.1),
        "clamp_max": a.clamp_max(0.1),
        "hardtanh": F.hardtanh(a, -0.5, 0.25),
        "relu6": F.relu6(a * 9),
        "gelu": F.gelu(a),
        "gelu_tanh": F.gelu(a, approximate="tanh"),
        "leaky_relu": F.leaky_relu(a, 0.2),
        "elu": F.elu(a, 0.7),
        "selu": F.selu(a),
        "softplus": F.softplus(a),
        "softplus_beta": F.softplus(a, beta=2),
        "hardsigmoid": F.hardsigmoid(a * 3),
        "hardswish": F.hardswish(a * 3),
        "silu": F.silu(a),
        "mish": F.mish(a),
        "pow": positive**1.7,
        "pow_number": 2.0**a,
        "pow_tensor": positive**b,
        "expm1": torch.expm1(a),
        "log1p": torch.log1p(positive),
        "log2": torch.log2(positive),
        "rsqrt": torch.rsqrt(positive),
        "square": torch.square(a),
        "where": torch.where(a > 0, a, 0.25),
        "masked_fill": a.masked_fill(b > 0, -7.0),
        "cast": (a * 3).to(torch.int32),
        "addcmul": torch.addcmul(a, b, b, value=0.3),
        "addcdiv": torch.addcdiv(a, b, positive, value=0.3),
        "lerp": torch.lerp(a, b, 0.25),
        "lerp_far": torch.lerp(a, b, 0.75),
        "matmul": a @ b.transpose(1, 2),
        "addmm": torch.addmm(b[0, :, :3], a[0], b[0].t(), beta=0.5, alpha=2),
        "baddbmm": torch.baddbmm(b[:, :, :3], a, b.mT),
        "linear_3d": F.linear(a, W, W[:, 0]),
        "linear_2d": F.linear(a[0], W),
        "einsum": torch.einsum("bij,bkj->bik", a, b),
        "conv_groups": F.conv2d(image, FILTERS, stride=2, padding=1, groups=2),
        "conv_same": F.conv2d(image, FILTERS[:, :, :2, :], padding="same", groups=2),
        "conv_1d": F.conv1d(image[:, :, 0], FILTERS[:, :, 0], dilation=2, groups=2),
        "conv_transpose": F.conv_transpose2d(
            image, FILTERS[:4], stride=2, padding=1, output_padding=1, groups=2
        ),
        "conv_transpose_uneven": F.conv_transpose2d(
            image, FILTERS[:4], stride=(2, 3), padding=(1, 0), output_padding=(0, 2)
        ),
        "conv_dilated": F.conv2d(image, FILTERS, dilation=(2, 1), padding=(0, 2), stride=(1, 2), groups=2),
        "attention": F.scaled_dot_product_attention(heads, heads * 0.5, heads + 1),
        "attention_causal": F.scaled_dot_product_attention(heads, heads, heads, is_causal=True, scale=0.3),
        "attention_mask": F.scaled_dot_product_attention(
            heads, heads, heads, attn_mask=torch.ones(3, 3, dtype=torch.bool).tril()
        ),
        "attention_groups": F.scaled_dot_product_attention(
            heads, heads[:, :2], heads[:, 1:3], enable_gqa=True
        ),
        "softmax": F.softmax(a, 1),
        "log_softmax": F.log_softmax(a, -1),
        "layer_norm": F.layer_norm(a, (3, 4)),
        "layer_norm_weight": F.layer_norm(a, (4,), W[0], W[1], eps=1e-3),
        "rms_norm": F.rms_norm(a, (4,), W[0]),
        "group_norm": F.group_norm(image, 2, W[0], W[1]),
        "batch_norm": F.batch_norm(image, W[0], W[1].abs(), W[2], W[3]),
        "batch_norm_training": F.batch_norm(image, None, None, W[2], training=True),
        "sum": a.sum(),
        "sum_axis": a.sum(1, keepdim=True),
        "sum_bools": (a > 0).sum(-1),
        "mean": a.mean((0, -1)),
        "amax": a.amax(1),
        "logsumexp": a.logsumexp(1),
        "max_values": b.max(1).values,
        "max_places": b.max(1).indices,
        "argmin": b.argmin(),
        "any": (a > 1.5).any(1),
        "all": (a > -1.4).all(),
        "var": a.var(1),
        "var_mean_over": a.var((0, 2), correction=0, keepdim=True),
        "cumsum": a.cumsum(-1),
        "topk": b.topk(2, 1).values,
        "max_pool": F.max_pool2d(image, 3, 2, 1, ceil_mode=True),
        "avg_pool": F.avg_pool2d(image, (3, 2), 2, (1, 0)),
        "avg_pool_inside": F.avg_pool2d(image, 3, 2, 1, count_include_pad=False),
        "adaptive_one": F.adaptive_avg_pool2d(image, 1),
        "adaptive_even": F.adaptive_avg_pool2d(image, (7, 2)),
        "adaptive_uneven": F.adaptive_avg_pool2d(image, (3, 4)),
        "permute": image.permute(0, 2, 3, 1),
        "expand": a[:1].expand(5, -1, -1),
        "repeat": a.repeat(2, 1, 1, 3),
        "select": a[:, -1],
        "slice": a[:, 1:, ::2],
        "cat": torch.cat((a, b, torch.zeros(0)), 1),
        "stack": torch.stack((a, b), -1),
        "split": torch.cat(a.split([1, 2], 1)[::-1], 1),
        "chunk": torch.cat(b.chunk(3, 2)[::-1], 2),
        "unbind": torch.add(*a.unbind(0)),
        "embedding": F.embedding(rows, W),
        "gather": a.gather(1, rows[None, :, None].expand(2, 3, 4) % 3),
        "index_select": a.index_select(1, rows),
        "index_one": a[:, rows],
        "index_two": a[:, rows, rows + 1],
        "index_put": a.index_put((torch.tensor([0, 1]), rows[:2]), W[:2]),
        "index_add": a.index_put((rows[1:] % 2, rows[:2] % 2), W[:2], accumulate=True),
        "pad": F.pad(a, (1, 2, 0, 1), value=0.5),
        "pad_cut": F.pad(a, (-1, 1)),
        "pad_reflect": F.pad(image, (1, 2, 2, 0), mode="reflect"),
        "pad_edge": F.pad(image, (1, 2, 2, 0), mode="replicate"),
        "roll": a.roll((1, -1), (1, 2)),
        "roll_flat": a.roll(5),
        "flip": a.flip(0, 2),
        "triu": a.triu(1),
        "tril": a.tril(-1),
        "slice_scatter": torch.slice_scatter(a, b[:, :1], 1, 1, 2),
        "select_scatter": torch.select_scatter(a, b[:, 0], 1, -1),
        "copy": wide.clone().copy_(a[1]),
        "strided": a.as_strided((4, 6), (1, 4)),
        "zeros": a.new_zeros(3) + 1,
        "full": torch.full((2, 2), 7),
        "full_like": torch.full_like(a, 0.5),
        "arange": torch.arange(2, 9, 3) * 1.5,
        "bernoulli_none": F.dropout(a, 0.5, training=False),
        "nll": F.nll_loss(F.log_softmax(a[0], -1), rows, W[0].abs()),
        "nll_sum_ignored": F.nll_loss(F.log_softmax(a[0], -1), rows, ignore_index=2, reduction="sum"),
        "nll_one": F.nll_loss(F.log_softmax(a[0, 0], -1), rows[0], W[0].abs(), reduction="sum"),
        "nll_image": F.nll_loss(F.log_softmax(image, 1), (image[:, 0] > 0).long(), reduction="none"),
        "mse": F.mse_loss(a, b),
        "scalar": a[0, 0, 0].squeeze() + torch.tensor(2.0),
    }


def examples() -> tuple[Tensor, ...]:
    return A.clone(), B.clone(), IMAGE.clone(), HEADS.clone(), ROWS.clone()


# Each takes a parameter of the shape of A and gives anything that has a gradient.
DIFFERENTIABLE = {
    "relu": lambda a: F.relu(a),
    "threshold": lambda a: F.threshold(a, 0.5, 0.0),
    "gelu": lambda a: F.gelu(a),
    "gelu_tanh": lambda a: F.gelu(a, approximate="tanh"),
    "silu": lambda a: F.silu(a),
    "sigmoid": lambda a: torch.sigmoid(a),
    "tanh": lambda a: torch.tanh(a),
    "hardswish": lambda a: F.hardswish(a * 3),
    "hardsigmoid": lambda a: F.hardsigmoid(a * 3),
    "hardtanh": lambda a: F.hardtanh(a, -0.5, 0.25),
    "leaky_relu": lambda a: F.leaky_relu(a, 0.2),
    "elu": lambda a: F.elu(a, 0.7),
    "selu": lambda a: F.selu(a),
    "softplus": lambda a: F.softplus(a, beta=2),
    "softmax": lambda a: F.softmax(a, 1),
    "log_softmax": lambda a: F.log_softmax(a, 1),
    "layer_norm": lambda a: F.layer_norm(a, (3, 4)),
    "batch_norm": lambda a: F.batch_norm(a, None, None, training=True),
    "batch_norm_inference": lambda a: F.batch_norm(a, W[0, :3], W[1, :3].abs(), W[2, :3], W[3, :3]),
    "group_norm": lambda a: F.group_norm(a.reshape(2, 4, 3), 2, W[0], W[1]),
    "embedding": lambda a: F.embedding(ROWS, a[0], padding_idx=0),
    "slice": lambda a: a[:, 1:],
    "slice_step": lambda a: a[:, :, ::2],
    "select": lambda a: a[:, -1],
    "conv_weight": lambda a: F.conv2d(IMAGE, a.reshape(4, 2, 3, 1), stride=2, padding=1, groups=2),
    "conv_input": lambda a: F.conv2d(
        a.reshape(1, 4, 2, 3), FILTERS, W[:, 0].repeat(2)[:8], padding=1, groups=2
    ),
    "conv_depthwise": lambda a: F.conv2d(IMAGE, a.reshape(4, 1, 3, 2), groups=4),
    "conv_1d": lambda a: F.conv1d(a.reshape(1, 4, 6), FILTERS[:, :, 0], groups=2),
    "conv_transpose": lambda a: F.conv_transpose2d(a.reshape(1, 4, 2, 3), FILTERS[:4], stride=2, padding=1),
    "conv_transpose_weight": lambda a: F.conv_transpose2d(IMAGE, a.reshape(4, 2, 3, 1), stride=2),
    "max_pool": lambda a: F.max_pool2d(a.reshape(1, 2, 3, 4), 2, 1),
    "avg_pool": lambda a: F.avg_pool2d(a.reshape(1, 2, 3, 4), 2, 1, 1),
    "adaptive": lambda a: F.adaptive_avg_pool2d(a[None], (2, 3)),
    "cross_entropy": lambda a: F.cross_entropy(a[0], ROWS, W[0].abs()),
    "cross_entropy_image": lambda a: F.cross_entropy(a, torch.tensor([[0, 2, 1, 1], [2, 2, 0, -100]])),
    "mse": lambda a: F.mse_loss(a, B),
    "attention": lambda a: F.scaled_dot_product_attention(a, B, a),
    "gather": lambda a: a[:, ROWS],
    "expand": lambda a: a[:1].expand(3, -1, -1) * B[:1],
    "var": lambda a: a.var(1),
}
