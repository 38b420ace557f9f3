"""Rules around matrix products."""
