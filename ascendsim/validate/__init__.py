"""Simulated against published measurements."""

from ascendsim.validate.models import Comparison, compare_models, predictions
from ascendsim.validate.own_chip import OwnChip, fit_chip
from ascendsim.validate.points import Point, measured_points
from ascendsim.validate.rows import LeftOutRow, read_rows
from ascendsim.validate.score import Prediction, Score, score, worst

__all__ = [
    "Comparison",
    "LeftOutRow",
    "OwnChip",
    "Point",
    "Prediction",
    "Score",
    "compare_models",
    "fit_chip",
    "measured_points",
    "predictions",
    "read_rows",
    "score",
    "worst",
]
