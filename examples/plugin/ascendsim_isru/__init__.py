"""An operator, a fusion rule and a chip for ascendsim; `pyproject.toml` says where they are."""
