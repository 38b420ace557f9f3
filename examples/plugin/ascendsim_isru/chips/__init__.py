"""One TOML file a chip."""
