"""Graph fusion: rules with CANN's names, order and semantics."""
