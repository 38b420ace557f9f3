"""Operators that move elements or make them from little, and compute nothing."""
