"""passes/layout."""
