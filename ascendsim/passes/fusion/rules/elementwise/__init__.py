"""Rules of elementwise operators."""
