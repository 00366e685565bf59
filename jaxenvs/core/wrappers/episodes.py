"""Wrappers that count, limit or restart episodes."""

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
    """Totals of an episode so far: its return and its length."""

    total: Float32[Array, ""]  # sum of rewards
    length: Int32[Array, ""]  # number of steps


class EpisodeStatistics(StatefulWrapper):
    """Adds `info["episode"]`: `return`, `length` so far and `finished`, true in the last step.

    Averages are taken over finished episodes only: see `mean_over_finished`.
    """

    def begin(self, obs: PyTree[Array], ended: EpisodeTotals | None) -> EpisodeTotals:
        """Return totals of zero."""
        return EpisodeTotals(total=jnp.float32(0), length=jnp.int32(0))

    def after(self, memory: EpisodeTotals, action: Any, step: Step) -> tuple[EpisodeTotals, Step]:
        """Add the step to the totals, and the totals to `info`."""
        totals = _added(memory, step)
        episode = {"return": totals.total, "length": totals.length, "finished": step.done}
        return totals, step._replace(info={**step.info, "episode": episode})


def mean_over_finished(episode: dict[str, Array]) -> dict[str, Array]:
    """Average return and length over the finished episodes in `info["episode"]` (any batch shape).

    Returns float32 scalars `return` and `length` (0 if no episode finished) and int32 `count`.
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

    running: EpisodeTotals  # totals of the current episode
    returned: EpisodeTotals  # totals of the latest finished episode; zeros before the first
    timestep: Int32[Array, ""]  # steps since the first reset, over all episodes


class LogWrapper(StatefulWrapper):
    """Adds PureJaxRL's entries of `info`, which learners for it and for gymnax log.

    `returned_episode`: whether the episode is done; `returned_episode_returns` and
    `returned_episode_lengths`: return and length of the latest finished episode, 0 before the
    first; `timestep`: steps of this environment over all episodes.
    """

    remembers_episodes = True

    def begin(self, obs: PyTree[Array], ended: Log | None) -> Log:
        """Set the running totals to zero and keep those of the latest finished episode."""
        zero = EpisodeTotals(total=jnp.float32(0), length=jnp.int32(0))
        first = Log(running=zero, returned=zero, timestep=jnp.int32(0))
        return first if ended is None else ended.replace(running=zero)

    def after(self, memory: Log, action: Any, step: Step) -> tuple[Log, Step]:
        """Add the step to the totals, and the entries to `info`."""
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
    """Truncates an episode after `max_episode_steps` steps, or earlier where `env` does.

    Deliberate difference from Gymnasium's: a step that terminates is not also truncated. Params do
    not change, so rewards or observations that depend on `max_steps_in_episode`, such as MiniGrid's
    rewards, ignore this limit.
    """

    max_episode_steps: int

    def __post_init__(self) -> None:
        """Check the fields."""
        super().__post_init__()
        checks.integer_field("TimeLimit", "max_episode_steps", self.max_episode_steps, 1)
        refuse_self_resetting(self.env, "TimeLimit", "write AutoReset(TimeLimit(env, steps))")

    def step(self, key: Key, state: Any, action: Any, params: Any = None) -> Step:
        """Advance, and truncate at the limit."""
        stepped = super().step(key, state, action, params)
        late = jnp.asarray(stepped.state.time >= self.max_episode_steps)
        return stepped._replace(truncated=(stepped.truncated | late) & ~stepped.terminated)

    def time_limit(self, state: Any, params: Any) -> ArrayLike:
        """Return the smaller of this limit and the wrapped environment's."""
        inside = super().time_limit(state, params)
        return jnp.minimum(jnp.asarray(inside, jnp.int32), self.max_episode_steps)

    def shortest_limit(self, params: Any) -> int:
        """Return the smaller of this limit and the wrapped environment's."""
        return min(super().shortest_limit(params), self.max_episode_steps)


class AutoReset(SuccessInInfo):
    """Begins the next episode in the step that ends one, for loops without `make_vec`.

    In such a step, `obs` and the state are the first of the next episode; reward, `terminated`,
    `truncated` and the info belong to the previous one. `info["final_obs"]` is its last observation
    and `info["final_mask"]` its legal actions, if `env` ever forbids one, as in `make_vec`. Batches
    of `make_vec` are faster, because they make levels only for done episodes. Gymnasium's
    `Autoreset` spends a step on each reset, as `make_vec(..., autoreset="next_step")` does.
    """

    resets_itself = True

    def __post_init__(self) -> None:
        """Check the fields."""
        super().__post_init__()
        refuse_self_resetting(self.env, "AutoReset", "one AutoReset is enough")

    def step(self, key: Key, state: Any, action: Any, params: Any = None) -> Step:
        """Advance, and begin the next episode if this one is done."""
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
