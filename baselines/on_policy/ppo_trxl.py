"""PPO with a gated transformer, GTrXL (Parisotto et al., 2020), over the steps of an episode.

It is recurrent PPO (ppo_rnn.py) with the network of gtrxl.py. The recurrent state contains the
inputs of each layer at the latest steps. A rollout stores the recurrent state before its first
step. Each gradient step processes all steps of a sequence at once: a step attends to the stored
inputs and to earlier steps of the rollout. Run it with `jaxenvs train ID --algo ppo-trxl`.

Deliberate difference from the paper: the learner is PPO instead of V-MPO.
"""

import dataclasses
from typing import Any

from jaxenvs import Env

from ..core.bounds import Count, NonNegativeInt
from ..core.settings import Memory
from ..networks.gtrxl import GTrXL, SpatialGTrXL
from . import ppo, ppo_rnn


@dataclasses.dataclass(frozen=True)
class Settings(Memory, ppo.Settings):
    """Hyperparameters of PPO with a transformer.

    Presets (presets.py) change some defaults per environment; command-line flags override presets.
    """

    memory: Count = 64  # number of earlier steps of the episode that each layer attends to
    width: Count = 64  # number of features of a step in the transformer
    num_heads: Count = 4  # number of attention heads; each head gets width / num_heads features
    depth: Count = 2  # number of transformer layers
    # number of features of a 3 x 3 convolution over a map (spatial.py); 0: off
    neighbours: NonNegativeInt = 0

    def check(self) -> None:
        super().check()
        if self.width % (2 * self.num_heads):
            raise ValueError(
                f"width={self.width} does not divide evenly among num_heads={self.num_heads} of an "
                f"even width each; give a multiple of {2 * self.num_heads}"
            )
        ppo_rnn.check_one_map(self)
        if self.network:
            raise ValueError(
                f"network={self.network}: ppo-trxl has a fixed network; omit it, or give "
                f"--algo ppo-rnn, which takes any memory"
            )


def network(env: Env, **given: Any) -> GTrXL:
    """Return the network for an environment: `SpatialGTrXL` if `neighbours` is not 0."""
    kind: Any = SpatialGTrXL if given.get("neighbours") else GTrXL
    return kind.of(env, **given)


wrapped = ppo_rnn.wrapped
init = ppo_rnn.init
update = ppo_rnn.update
