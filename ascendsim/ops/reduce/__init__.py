"""Reductions: over axes, along an axis, over windows; ordering, and decisions on numbers."""
