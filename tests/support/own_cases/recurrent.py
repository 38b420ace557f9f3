"""Recurrent networks and what goes over sequences."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from tests.support.own_cases.making import Cases, some


def add_recurrent(cases: Cases) -> None:
    for name, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        for direction, count in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
            x, w, r = some(5, 2, 3), some(count, gates * 4, 3), some(count, gates * 4, 4)
            b = some(count, 2 * gates * 4)
            lengths = np.array([5, 3], np.int32)
            states = [some(count, 2, 4, seed=number) for number in range(2 if name == "LSTM" else 1)]
            results = 3 if name == "LSTM" else 2
            cases.add(
                name,
                x,
                w,
                r,
                b,
                lengths,
                *states,
                outputs=results,
                direction=direction,
                hidden_size=4,
                clip=1.5,
            )
            cases.add(name, x, w, r, outputs=results, direction=direction, hidden_size=4)
        turned = (some(2, 5, 3), some(1, gates * 4, 3), some(1, gates * 4, 4))
        cases.add(name, *turned, outputs=results, layout=1, hidden_size=4)
    lstm = (some(5, 2, 3), some(1, 16, 3), some(1, 16, 4), some(1, 32), None, None, None, some(1, 12))
    for couples in (0, 1):
        cases.add("LSTM", *lstm, outputs=3, hidden_size=4, input_forget=couples)
    gru = (some(5, 2, 3), some(1, 12, 3), some(1, 12, 4), some(1, 24))
    both = (some(5, 2, 3), some(2, 4, 3), some(2, 4, 4))
    cases.add("RNN", *both, outputs=2, hidden_size=4, direction="bidirectional", activations=("Relu", "Tanh"))
    for after in (0, 1):
        cases.add(
            "GRU",
            *gru,
            outputs=2,
            hidden_size=4,
            linear_before_reset=after,
            activations=("HardSigmoid", "Softsign"),
        )
    numbers = {
        "Affine": ((0.5,), (0.25,)),
        "ThresholdedRelu": ((0.75,), ()),
        "ScaledTanh": ((1.5,), (0.5,)),
        "HardSigmoid": ((0.3,), (0.4,)),
    }
    for function in (*numbers, "LeakyRelu", "Elu", "Softplus", "Softsign", "Relu"):
        alpha, beta = numbers.get(function, ((), ()))
        more: dict[str, Any] = {
            name: value for name, value in (("activation_alpha", alpha), ("activation_beta", beta)) if value
        }
        cases.add(
            "RNN",
            some(5, 2, 3),
            some(1, 4, 3),
            some(1, 4, 4),
            outputs=2,
            hidden_size=4,
            activations=(function,),
            **more,
        )
    for heads, rule in product(((2, 2), (4, 2)), ("linear", "gated", "delta", "gated_delta")):
        queries, keys = heads
        more = [some(2, 5, keys * 3), some(2, 5, keys, positive=True)]
        ports = (some(2, 5, queries * 3), some(2, 5, keys * 3), some(2, 5, keys * 4), None, *more)
        cases.add(
            "LinearAttention", *ports, outputs=2, q_num_heads=queries, kv_num_heads=keys, update_rule=rule
        )
    for interleaved in (0, 1):
        cases.add(
            "RotaryEmbedding",
            some(2, 4, 5, 8),
            some(2, 5, 3),
            some(2, 5, 3),
            rotary_embedding_dim=6,
            interleaved=interleaved,
        )
