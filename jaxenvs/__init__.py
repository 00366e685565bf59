"""Reinforcement-learning environments in JAX: world, agent and search in one compiled program.

env = jaxenvs.make("Grid-v0")
obs, state = env.reset(key)
obs, state, reward, terminated, truncated, info = env.step(key, state, action)
"""

from . import (  # their import registers the families
    adapters,
    babyai,
    classic,
    craft,
    grid,
    puzzles,
    search,
)
from .core import registry, spaces, wrappers
from .core.env import Env, Params, Reset, State, Step, Transition
from .core.registry import UnknownIdError, make, register, spec
from .core.struct import struct
from .core.vector import VectorEnv, VectorState, make_vec

__version__ = "0.1.0"
__all__ = [
    "Env",
    "Params",
    "Reset",
    "State",
    "Step",
    "Transition",
    "UnknownIdError",
    "VectorEnv",
    "VectorState",
    "adapters",
    "babyai",
    "classic",
    "craft",
    "grid",
    "make",
    "make_vec",
    "puzzles",
    "register",
    "registry",
    "search",
    "spaces",
    "spec",
    "struct",
    "wrappers",
]
