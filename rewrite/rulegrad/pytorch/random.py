"""`torch.random`: the state of random numbers."""

from typing import Any

from rulegrad.tensor.generators import fork_rng, get_rng_state, initial_seed, manual_seed, seed, set_rng_state

__all__ = [
    "fork_rng", "get_device_states", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_device_states",
    "set_rng_state",
]  # fmt: skip


def get_device_states(*arguments: Any) -> tuple[list[Any], list[Any]]:
    """`([], [])`: all devices draw from the state of `get_rng_state`."""
    return [], []


def set_device_states(devices: Any, states: Any) -> None:
    """Nothing: all devices draw from the state of `set_rng_state`."""
