"""Composite JSON (.info), the form in which MindSpore hands fused sub-graphs to its kernel compiler AKG."""

from ascendsim.frontends.composite.loading import load_composite
from ascendsim.frontends.composite.reading import is_composite

__all__ = ["is_composite", "load_composite"]
