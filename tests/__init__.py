"""The tests. A package, since a `tests` that a wheel leaves in site-packages would hide one that is none."""
