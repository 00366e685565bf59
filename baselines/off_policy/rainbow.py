"""Rainbow (Hessel et al., 2018): C51, double, dueling, prioritised, n-step, with noisy layers.

Run it with `jaxenvs train ID --algo rainbow`. It is c51.py with other defaults: the noise explores
instead of random actions, and steps are sampled by how much they surprised.
"""

import dataclasses

from ..core import replay_checks
from . import c51, dqn


@dataclasses.dataclass(frozen=True)
class Settings(c51.Settings):
    """What a run learns with; presets.py tunes it per environment, flags override it."""

    priority: float = 0.5  # power of the divergence by which steps are sampled; 0: all evenly
    noisy: bool = True  # whether learned noise in the last layers explores; see epsilon_start
    epsilon_start: float = 0.0  # share of random actions at the beginning
    epsilon_end: float = 0.0  # when it has fallen


Runner = dqn.Runner
DIVIDED = dqn.DIVIDED
check = replay_checks.check
init = dqn.init
update = c51.update
network = c51.network
support = c51.support
wider = c51.wider
