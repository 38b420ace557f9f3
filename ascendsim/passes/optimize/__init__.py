"""passes/optimize."""
