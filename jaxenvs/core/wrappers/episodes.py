"""Wrappers that report statistics of episodes, limit their length or restart them."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float32, Int32, PyTree

from .. import checks
from ..env import Step
from ..masking import has_illegal
from ..random import Key
from ..stateful import StatefulWrapper
from ..struct import Struct, struct
from ..wrapper import Wrapper, refuse_self_resetting
from .success import SuccessInInfo, with_success


@struct
class EpisodeTotals(Struct):
    """Sum of rewards and number of steps of an episode so far."""

    total: Float32[Array, ""]  # sum of the rewards so far
    length: Int32[Array, ""]  # number of steps so far


class EpisodeStatistics(StatefulWrapper):
    """Adds statistics of the current episode to `info["episode"]`.

    `return` is the sum of rewards so far, `length` the number of steps so far, and `finished` is
    true in the last step of the episode. To average over finished episodes, call
    `mean_over_finished`.
    """

    def begin(self, obs: PyTree[Array], ended: EpisodeTotals | None) -> EpisodeTotals:
        """Return totals of zero for the new episode."""
        return EpisodeTotals(total=jnp.float32(0), length=jnp.int32(0))

    def after(self, memory: EpisodeTotals, action: Any, step: Step) -> tuple[EpisodeTotals, Step]:
        """Add the reward and the step to the totals, and write the statistics to `info`."""
        totals = _added(memory, step)
        episode = {"return": totals.total, "length": totals.length, "finished": step.done}
        return totals, step._replace(info={**step.info, "episode": episode})


def mean_over_finished(episode: dict[str, Array]) -> dict[str, Array]:
    """Return the mean return and length of the episodes that finish in a batch of steps.

    `episode` is `info["episode"]` of any batch shape, such as (steps, environments). Returns
    float32 scalars `return` and `length` (0 if no episode finished), and int32 `count`, the number
    of finished episodes.
    """
    finished = episode["finished"]
    count = finished.sum(dtype=jnp.int32)

    def mean(values: Array) -> Array:
        total = jnp.where(finished, values, jnp.zeros_like(values)).astype(jnp.float32).sum()
        return total / jnp.maximum(count, 1).astype(jnp.float32)

    return {"return": mean(episode["return"]), "length": mean(episode["length"]), "count": count}


@struct
class Log(Struct):
    """State of `LogWrapper`."""

    running: EpisodeTotals  # totals of the current episode so far
    # Totals of the latest finished episode; zeros before an episode has finished.
    returned: EpisodeTotals
    timestep: Int32[Array, ""]  # number of steps since the first reset, over all episodes


class LogWrapper(StatefulWrapper):
    """Adds the entries of `info` that PureJaxRL's `LogWrapper` adds.

    Learners written for PureJaxRL or gymnax log these entries. `returned_episode`: whether the
    episode is done in this step; `returned_episode_returns` and `returned_episode_lengths`: return
    and length of the latest finished episode, 0 before the first; `timestep`: number of steps of
    this environment over all episodes.
    """

    persists_across_episodes = True

    def begin(self, obs: PyTree[Array], ended: Log | None) -> Log:
        """Set the totals of the current episode to zero.

        The totals of the latest finished episode and the number of steps are kept.
        """
        zero = EpisodeTotals(total=jnp.float32(0), length=jnp.int32(0))
        first = Log(running=zero, returned=zero, timestep=jnp.int32(0))
        return first if ended is None else ended.replace(running=zero)

    def after(self, memory: Log, action: Any, step: Step) -> tuple[Log, Step]:
        """Add the reward and the step to the running episode, and write the entries of `info`."""
        running, done = _added(memory.running, step), step.done
        returned = jax.tree.map(
            lambda new, old: jnp.where(done, new, old), running, memory.returned
        )
        timestep = memory.timestep + jnp.int32(1)
        entries = {
            "returned_episode": done,
            "returned_episode_returns": returned.total,
            "returned_episode_lengths": returned.length,
            "timestep": timestep,
        }
        log = Log(running=running, returned=returned, timestep=timestep)
        return log, step._replace(info={**step.info, **entries})


class TimeLimit(Wrapper):
    """Truncates an episode after `max_episode_steps` steps, or earlier if `env` does.

    Deliberate difference from Gymnasium's `TimeLimit`: a step that terminates the episode is not
    also truncated. The wrapper does not change the param `max_steps_in_episode`. Rewards and
    observations that depend on this param, such as MiniGrid's rewards, therefore ignore the
    wrapper's limit.
    """

    max_episode_steps: int

    def __post_init__(self) -> None:
        """Raise an error if a field has an invalid value."""
        super().__post_init__()
        checks.integer_field("TimeLimit", "max_episode_steps", self.max_episode_steps, 1)
        refuse_self_resetting(self.env, "TimeLimit", "write AutoReset(TimeLimit(env, steps))")

    def step(self, key: Key, state: Any, action: Any, params: Any = None) -> Step:
        """Advance by one action, and truncate the episode at the limit."""
        stepped = super().step(key, state, action, params)
        late = jnp.asarray(stepped.state.time >= self.max_episode_steps)
        return stepped._replace(truncated=(stepped.truncated | late) & ~stepped.terminated)

    def time_limit(self, state: Any, params: Any) -> ArrayLike:
        """Return `max_episode_steps`, or the wrapped environment's limit if that is smaller."""
        inside = super().time_limit(state, params)
        return jnp.minimum(jnp.asarray(inside, jnp.int32), self.max_episode_steps)

    def shortest_limit(self, params: Any) -> int:
        """Return the smallest time limit of any episode.

        It is `max_episode_steps`, or the wrapped environment's smallest limit if that is smaller.
        """
        return min(super().shortest_limit(params), self.max_episode_steps)


class AutoReset(SuccessInInfo):
    """Begins the next episode in the step that ends one.

    The wrapper is meant for training loops that do not use `make_vec`. In the step that ends an
    episode, `obs` and the state are the first of the next episode. Reward, `terminated`,
    `truncated` and the info belong to the old episode. As in `make_vec`, the info also gets
    `final_obs`, the last observation of the old episode, and, if `env` can forbid an action,
    `final_mask`, the mask of legal actions in its last state.

    `make_vec` is faster for batches, because it generates levels only for done episodes.
    Gymnasium's `Autoreset` takes a separate step for each reset, and so does `make_vec` with
    `autoreset="next_step"`.
    """

    resets_itself = True

    def __post_init__(self) -> None:
        """Raise an error if a field has an invalid value."""
        super().__post_init__()
        refuse_self_resetting(self.env, "AutoReset", "one AutoReset is enough")

    def step(self, key: Key, state: Any, action: Any, params: Any = None) -> Step:
        """Advance by one action, and begin the next episode if the current one is done."""
        key_step, key_reset = jax.random.split(checks.single_key(key, "step"))
        stepped = with_success(self.env, self.env.step(key_step, state, action, params))
        info = {**stepped.info, "final_obs": stepped.obs}
        if has_illegal(self.env):
            info["final_mask"] = self.env.action_mask(stepped.state, params)
        ended = stepped.obs, stepped.state
        begun = tuple(self.env.restart(key_reset, stepped.state, params))
        obs, state = jax.tree.map(lambda a, b: jnp.where(stepped.done, a, b), begun, ended)
        return stepped._replace(obs=obs, state=state, info=info)


def _added(totals: EpisodeTotals, step: Step) -> EpisodeTotals:
    return EpisodeTotals(total=totals.total + step.reward, length=totals.length + jnp.int32(1))
