"""Rules that make or split normalisations."""
