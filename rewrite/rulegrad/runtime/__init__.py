"""Running compiled kernels: devices, buffers, caches, profiles, and the reference interpreter."""
