"""Graphs that are ready to use: `seed_examples`."""
