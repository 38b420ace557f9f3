"""Inverse square root unit: y = x / sqrt(1 + alpha x^2), element by element."""

import numpy as np

from ascendsim.ops.shared.common import elementwise_lower, same_as, with_numpy
from ascendsim.opset import Layout, OpDef
from ascendsim.opset.structure import ELEMENTWISE

DOMAIN = "ascendsim_isru"


def isru(node, x):
    """The values; float16 comes as float32 and is rounded once."""
    return x / np.sqrt(1 + x.dtype.type(node.attr("alpha", 1.0)) * x * x)


OPERATORS = (
    OpDef(
        "Isru",
        domain=DOMAIN,
        infer=same_as(0),
        compute=with_numpy(isru),
        lower=elementwise_lower(["vmul", "vmuls", "vadds", "vsqrt", "vdiv"]),
        layout=Layout.FOLLOW,
        in_place=True,
        facts=ELEMENTWISE,
    ),
)
