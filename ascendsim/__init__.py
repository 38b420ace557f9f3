"""ascendsim."""
