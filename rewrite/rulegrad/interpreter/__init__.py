"""The reference interpreter: what a graph means, computed with NumPy; the `numpy` device runs kernels with it."""
