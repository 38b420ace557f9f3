"""Value kernels: numba functions of arrays. Knows no `ascendsim` type."""
