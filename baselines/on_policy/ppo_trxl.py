"""PPO with a transformer that remembers (Parisotto et al., 2020).

Run it with `jaxenvs train ID --algo ppo-trxl`. It is recurrent PPO (ppo_rnn.py) with the network of
gtrxl.py. A rollout keeps what each layer remembered before its first step, and each gradient step
attends over that and the rollout's steps at once. Deliberate difference to the paper, which trains
with V-MPO: PPO.
"""

import dataclasses
from typing import Any

from jaxenvs import Env

from ..core import rollouts
from ..core.bounds import Count
from ..core.settings import Remembering
from ..networks.gtrxl import GTrXL, SpatialGTrXL
from . import ppo, ppo_rnn


@dataclasses.dataclass(frozen=True)
class Settings(Remembering, ppo.Settings):
    """What a run learns with; presets.py tunes it per environment, flags override it."""

    memory: Count = 64  # earlier steps of the episode that each layer attends to
    width: Count = 64  # features of a step in the transformer
    num_heads: Count = 4  # of attention, among which the width is divided
    depth: Count = 2  # layers of the transformer
    neighbours: int = 0  # features of a cell with the eight around it (spatial.py); 0: without

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
                f"network={self.network}: ppo-trxl has a network of its own; omit it, or give "
                f"--algo ppo-rnn, which takes any memory"
            )


DIVIDED = rollouts.DIVIDED
Runner = rollouts.Runner


def network(env: Env, **given: Any) -> GTrXL:
    """The network for an environment, a spatial one if `neighbours` is not 0."""
    kind: Any = SpatialGTrXL if given.get("neighbours") else GTrXL
    return kind.of(env, **given)


wrapped = ppo_rnn.wrapped
init = ppo_rnn.init
update = ppo_rnn.update
