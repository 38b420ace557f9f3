"""Rules of training graphs."""
