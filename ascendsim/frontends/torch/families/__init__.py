"""Converters of ATen operators, one file a family; none of them imports torch."""
