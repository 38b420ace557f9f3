"""Dropout and its gradient."""

from __future__ import annotations

from ascendsim.frontends.torch.call import Call
from ascendsim.graph.ir import Tensor


def dropout(call: Call, x: Tensor, share: float, training: bool) -> Tensor:
    """The form that modules call; in an inference graph there is nothing to do."""
    if training and share:
        raise call.unsupported("needs a module in inference", "training", "call .eval() first")
    return x
