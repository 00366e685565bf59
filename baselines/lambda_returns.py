"""Lambda-returns as the targets of learners that shape no policy by advantages: PQN, AlphaZero."""

from typing import Any

from jaxtyping import Array

from .ppo import PPO, Runner, advantages


class LambdaReturns(PPO):
    """PPO's loop for a loss of a rollout and a target of each of its values."""

    def targets(self, runner: Runner, rollout: Any) -> tuple[Any, ...]:
        """The rollout with the value that each step should have had: its lambda-return."""
        last_value = self.value(runner, self.mask(runner.world.env))
        gamma, gae_lambda = self.settings.gamma, self.settings.gae_lambda
        return rollout, advantages(rollout, last_value, gamma, gae_lambda) + rollout.value

    def scales(self, batch: Any, orders: Array) -> tuple[Array, ...]:
        """Nothing: no advantage is normalised."""
        return ()
