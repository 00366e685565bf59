"""A network of your own: `jaxenvs train Grid-DoorKey-5x5-v0 --network nets:Residual`."""

import flax.linen as nn

from jaxenvs.baselines.networks.policies import Network


class Residual(Network):
    """Residual layers with layer norm, then a policy and a value head."""

    blocks: int = 2

    @nn.compact
    def __call__(self, obs):
        """Return logits (actions,) and the value () of one observation."""
        features = self.encoder_of(self.observation_space)(self.read(obs))
        features = nn.Dense(self.hidden[0])(features)
        for _ in range(self.blocks):
            change = nn.Dense(self.hidden[0])(self.activate(nn.LayerNorm()(features)))
            features = features + change
        features = self.activate(features)
        return nn.Dense(self.num_actions)(features), nn.Dense(1)(features)[0]
