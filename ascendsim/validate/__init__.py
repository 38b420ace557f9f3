"""Simulated against published measurements."""

from ascendsim.validate.models import Comparison, compare_models, predictions
from ascendsim.validate.points import Point, measured_points
from ascendsim.validate.score import Prediction, Score, score, worst

__all__ = [
    "Comparison",
    "Point",
    "Prediction",
    "Score",
    "compare_models",
    "measured_points",
    "predictions",
    "score",
    "worst",
]
