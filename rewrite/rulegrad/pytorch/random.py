"""`torch.random`: the state of random numbers."""

from rulegrad.tensor.generators import fork_rng, get_rng_state, manual_seed, set_rng_state

__all__ = ["fork_rng", "get_rng_state", "manual_seed", "set_rng_state"]
