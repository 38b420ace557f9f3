"""load, compile, simulate, run, and the Result that users hold."""
