"""How far two arrays are apart, in the measures of CANN's msaccucmp.

They are those of "Parameters in a Complete Model Comparison Result" (CANN 8.0). Mine is x, the golden array
y; sums, means and largest over all elements:

    CosineSimilarity            sum(x y) / (|x| |y|)
    MaxAbsoluteError            largest |x - y|
    AccumulatedRelativeError    sum(|x - y| / |y|)
    RelativeEuclideanDistance   |x - y| / |y|
    KullbackLeiblerDivergence   sum(p log(p / q)), p and q are x and y moved to 0..1 and divided by their sums
    StandardDeviation           "(mean;deviation),(mean;deviation)" of x and of y
    MeanAbsoluteError           mean |x - y|
    RootMeanSquareError         root of the mean of (x - y)^2
    MaxRelativeError            largest |x - y| / |y|
    MeanRelativeError           mean |x - y| / |y|

Relative errors leave out elements of y that are zero to float32's precision. Where x is not finite, errors
are infinite or NaN, as arithmetic has it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ascendsim.core.table import Cell
from ascendsim.graph.ir import Array

_EPSILON = float(np.finfo(np.float32).eps)
MEASURES = (
    "CosineSimilarity",
    "MaxAbsoluteError",
    "AccumulatedRelativeError",
    "RelativeEuclideanDistance",
    "KullbackLeiblerDivergence",
    "StandardDeviation",
    "MeanAbsoluteError",
    "RootMeanSquareError",
    "MaxRelativeError",
    "MeanRelativeError",
)


def measures(mine: Array, golden: Array) -> dict[str, Cell]:
    """All measures of two arrays of one shape; None where one is not defined (an array of zeros has no
    direction).
    """
    x, y = (np.asarray(array).astype(np.float64).reshape(-1) for array in (mine, golden))
    if not x.size:
        return dict.fromkeys(MEASURES)
    with np.errstate(all="ignore"):
        apart = np.abs(x - y)
        apart[x == y] = 0.0  # infinities that both have
        known = np.abs(y) > _EPSILON
        relative = apart[known] / np.abs(y[known])
        return {
            "CosineSimilarity": _cosine(x, y),
            "MaxAbsoluteError": _largest(apart),
            "AccumulatedRelativeError": float(relative.sum()),
            "RelativeEuclideanDistance": distance(mine, golden),
            "KullbackLeiblerDivergence": _divergence(x, y),
            "StandardDeviation": f"{_spread(x)},{_spread(y)}",
            "MeanAbsoluteError": float(apart.mean()),
            "RootMeanSquareError": float(np.sqrt(np.mean(apart * apart))),
            "MaxRelativeError": _largest(relative),
            "MeanRelativeError": float(relative.mean()) if relative.size else 0.0,
        }


def distance(mine: Array, golden: Array) -> float:
    """The relative Euclidean distance; infinite where one array is finite and the other is not, or only the
    golden one is zero.

    >>> distance(np.array([3.0, 4.0]), np.array([3.0, 5.0])) == 1 / math.sqrt(34)
    True
    """
    x, y = (np.asarray(array).astype(np.float64).reshape(-1) for array in (mine, golden))
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    if same.all():
        return 0.0
    with np.errstate(all="ignore"):
        apart, size = np.linalg.norm((x - y)[~same]), np.linalg.norm(y[np.isfinite(y)])
    return float(apart / size) if size and np.isfinite(apart) else math.inf


def output_error(outputs: Mapping[str, Array], golden: Mapping[str, Array]) -> float:
    """The largest relative Euclidean distance of outputs that both runs have."""
    found = [distance(outputs[name], array) for name, array in golden.items() if name in outputs]
    return max(found, default=0.0)


def _cosine(x: Array, y: Array) -> float | None:
    lengths = float(np.linalg.norm(x) * np.linalg.norm(y))
    if lengths == 0:
        return 1.0 if not x.any() and not y.any() else None
    return float(x @ y) / lengths


def _largest(values: Array) -> float:
    return float(np.max(values, initial=0.0))


def _spread(values: Array) -> str:
    return f"({values.mean():.3f};{values.std():.3f})"


def _divergence(x: Array, y: Array) -> float:
    p, q = (_shares(values) for values in (x, y))
    return float(np.sum(p * np.log(p / q)))


def _shares(values: Array) -> Array:
    """Moved to 0..1, where nothing is quite 0, and divided by the sum."""
    low, high = values.min(), values.max()
    moved = np.maximum((values - low) / (high - low) if high > low else np.ones_like(values), _EPSILON)
    return np.asarray(moved / moved.sum())
