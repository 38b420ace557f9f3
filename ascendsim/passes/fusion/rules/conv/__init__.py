"""Rules around convolutions."""
