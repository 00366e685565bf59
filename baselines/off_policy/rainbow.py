"""Rainbow (Hessel et al., 2018): C51 with double, dueling, prioritised, n-step and noisy learning.

It is C51 (c51.py) with other defaults. Noisy layers replace random actions for exploration. The
priority of a step is the Kullback-Leibler divergence between its predicted and its target
distribution. Run it with `jaxenvs train ID --algo rainbow`.
"""

import dataclasses

from . import c51


@dataclasses.dataclass(frozen=True)
class Settings(c51.Settings):
    """Hyperparameters of Rainbow.

    Presets (presets.py) change some defaults per environment; command-line flags override presets.
    """

    priority: float = 0.5  # exponent of the KL divergence in sampling probabilities; 0: uniform
    noisy: bool = True  # whether noisy layers explore; random actions are off by default
    epsilon_start: float = 0.0  # initial probability of a random action
    epsilon_end: float = 0.0  # final probability of a random action


check = c51.check
init = c51.init
update = c51.update
network = c51.network
support = c51.support
wider = c51.wider
