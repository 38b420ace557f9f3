"""Model files -> Graph."""
