"""Rules around pooling."""
