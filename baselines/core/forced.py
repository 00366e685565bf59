"""Forced steps: steps in states with exactly one legal action, for example while the player sleeps.

The agent decides nothing in a forced step. The setting `skip_forced` says whether a learner skips
forced steps; if it is None, the environment's attribute `skips_forced` says so. A learner that
skips them treats a decision and the forced steps after it as one step of a semi-Markov decision
process (Sutton et al., 1999):

- Rewards between two decisions are added without a discount. Discount and trace of a step are 1 if
  the next state is forced and belongs to the same episode; else they are gamma and gamma * lambda.
  In GAE and lambda-returns, the values of forced states then cancel.
- Forced steps have weight 0 in losses and in the moments by which advantages are normalised. The
  weights of a rollout are divided by their mean over all devices. A loss is therefore a mean over
  decisions, and each decision of a rollout has the same weight, in every minibatch.
- There is one exception. If a rollout begins in a forced state, this state has a value loss,
  because the rollout before it was bootstrapped from its value. Otherwise that value would never
  be learned. Rollouts of a curriculum begin with new episodes. There, the exception is the middle
  step of the rollout, see `SkipForced.valued_step`.
- A replay buffer (replay_buffer.py) stores a decision and the forced steps after it in one slot.
  R2D2, whose network reads forced observations too, stores every step (off_policy/r2d2.py).
- In AlphaZero's search, an edge to a forced state has discount 1. Forced states have a value loss
  there, because the search evaluates them (model_based/alphazero.py).

Every learner that trains with masks supports this. The others refuse it: `bc` and `iql`, because
datasets have no masks; `sac`, `td3`, `tqc` and `crossq`, because continuous actions have none; and
`davi`, `last-move` and `world`, because they learn the solutions of puzzles, without a discount.

Recurrent states, episode lengths and `steps` still count every environment step. The metric
`decisions` is the share of steps that are decisions.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32

from jaxenvs.core.masking import is_forced as is_forced

from .devices import Devices

TINY = 1e-8  # lower bound of the mean weight, so that no weight is divided by 0


class Forced(NamedTuple):
    """Forced steps of a rollout, and the weights of its steps in losses."""

    here: Bool[Array, "..."]  # whether the step is forced
    # whether the next state is forced and belongs to the same episode
    following: Bool[Array, "..."]
    # weights of the policy loss, the entropy and the moments of advantages; their mean is 1
    policy: Float32[Array, "..."]
    value: Float32[Array, "..."]  # weights of the value loss; their mean is 1


def are_skipped(env: Any, settings: Any) -> bool:
    """Return whether a learner in the environment `env` treats forced steps as no decisions.

    The setting `skip_forced` decides; if it is None, the environment does.
    """
    asked = getattr(settings, "skip_forced", None)
    return bool(getattr(env, "skips_forced", False) if asked is None else asked)


def check(
    env: Any, settings: Any, name: str, able: str | None, env_name: str, masked: bool
) -> None:
    """Raise `ValueError` if forced steps are to be skipped but the learner `name` cannot do so.

    `able` names the learners that can; None: the learner `name` is one of them. `env_name` is the
    environment's name in the messages, and `masked` says whether learners use its masks.
    """
    if not are_skipped(env, settings):
        return
    asked = getattr(settings, "skip_forced", None)
    given = "skip_forced=True" if asked else f"{env_name} skips forced steps"
    omit = "omit --skip-forced" if asked else "give --no-skip-forced"
    if able is not None:
        fix = "omit --skip-forced, or give" if asked else "give"
        raise ValueError(f"{given}: {name} counts every step as a decision; {fix} --algo {able}")
    if not masked:
        has_setup = "masked" in getattr(env, "setups", ())
        raise ValueError(
            f"{given}: {env_name} forbids no action in any state, so no step is forced; "
            f"{'give --setup masked, or ' if has_setup else ''}{omit}"
        )


def marked(
    here: Bool[Array, "steps envs"],
    after: Bool[Array, " envs"],
    done: Bool[Array, "steps envs"],
    devices: Devices,
    valued: int = 0,
) -> Forced:
    """Return the forced steps of a rollout, with the weights of its steps.

    `here` says of each step whether it is forced, and `after` whether the states after the rollout
    are; `done` says whether a step ended its episode. At step `valued`, forced states have a value
    loss.
    """
    following = jnp.concatenate([here[1:], after[None]]) & ~done
    return Forced(here, following, *weights(here, devices, valued))


def weights(
    here: Bool[Array, "steps envs"], devices: Devices, valued: int = 0
) -> tuple[Float32[Array, "steps envs"], Float32[Array, "steps envs"]]:
    """Return the weights `policy` and `value` of the steps of a rollout, see `Forced`."""
    policy = (~here).astype(jnp.float32)
    value = policy.at[valued].set(1.0)
    means = devices.mean(jnp.stack([policy.mean(), value.mean()]))
    policy, value = (
        weight / jnp.maximum(mean, TINY)
        for weight, mean in zip((policy, value), means, strict=True)
    )
    return policy, value


def discount(gamma: Any, forced: Bool[Array, "*batch"] | tuple[()]) -> Any:
    """Return the discount of transitions: 1 where `forced` is True, else `gamma`.

    `forced` is () if forced steps are not skipped.
    """
    return gamma if isinstance(forced, tuple) else jnp.where(forced, 1.0, gamma)


def weighted(values: Array, weight: Float32[Array, "*items"] | tuple[()]) -> Array:
    """Return values times their weights; unchanged values if `weight` is ()."""
    return values if isinstance(weight, tuple) else weight * values


def metrics(here: Bool[Array, "steps envs"] | tuple[()]) -> dict[str, Array]:
    """Return the share of a rollout's steps that are decisions; {} if no steps are skipped.

    `here` says of each step whether it is forced; it is () if forced steps are not skipped.
    """
    return {} if isinstance(here, tuple) else {"decisions": 1.0 - here.mean(dtype=jnp.float32)}
