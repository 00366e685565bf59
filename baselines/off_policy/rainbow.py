"""Rainbow (Hessel et al., 2018): C51 with double, dueling, prioritised, n-step and noisy learning.

It is c51.py with other defaults: noisy layers explore in place of random actions, and the priority
of a step is its divergence. Run it with `jaxenvs train ID --algo rainbow`.
"""

import dataclasses

from . import c51


@dataclasses.dataclass(frozen=True)
class Settings(c51.Settings):
    """What a run learns with; presets.py tunes it per environment, flags override it."""

    priority: float = 0.5  # power of the divergence by which steps are sampled; 0: all evenly
    noisy: bool = True  # whether learned noise in the last layers explores; see epsilon_start
    epsilon_start: float = 0.0  # share of random actions at the beginning
    epsilon_end: float = 0.0  # when it has fallen


Runner = c51.Runner
DIVIDED = c51.DIVIDED
check = c51.check
init = c51.init
update = c51.update
network = c51.network
support = c51.support
wider = c51.wider
