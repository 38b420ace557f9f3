"""Rules of quantised graphs."""
