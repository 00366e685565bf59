"""NovelD (Zhang et al., 2021): a reward for crossing from familiar to novel observations.

The novelty of an observation is the square root of the predictor's error in random network
distillation (rnd.py). A step's bonus is the increase in novelty from its observation to the next
one. The bonus is paid only if the next observation is new in the episode. Otherwise the agent could
collect bonuses by circling around a novel place.

Observations are identified by a hash. The deliberate differences from the paper are the ones
in rnd.py, and another: if two observations of an episode fall into the same slot of the hash table,
the older one is overwritten and counts as new when it occurs again.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, PyTree, UInt32

from jaxenvs.core.random import mix

from ..core.bonuses import Rewards, Visits
from ..core.devices import ALONE, Devices
from .rnd import RND, Curiosity

SLOTS = 4096  # number of slots of each environment's hash table of visited observations
GOLDEN = np.uint32(0x9E3779B9)  # 2**32 divided by the golden ratio, as in Fibonacci hashing


class Seen(NamedTuple):
    """Hash tables of the observations in each environment's current episode.

    A hash is computed from an observation and the index of its episode. The tables need not be
    cleared, because hashes of earlier episodes do not match.
    """

    table: UInt32[Array, "envs slots"]  # hashes of (observation, index of the episode)
    episode: UInt32[Array, " envs"]  # index of the current episode, from 1


@dataclasses.dataclass(frozen=True)
class NovelD(RND):
    """NovelD bonus.

    The bonus's networks and statistics are stored in a `Curiosity`, as in RND. The bonus's state
    is a `Seen`: for each environment, a hash table of the observations of the current episode.
    """

    alpha: float = 0.5  # a bonus is novelty minus `alpha` times the previous observation's novelty

    def begin(self, curiosity: Any, obs: PyTree[Array]) -> Seen:
        """Return hash tables that contain the first observation of each environment."""
        marks = jax.vmap(fingerprint)(obs)
        empty = Seen(jnp.zeros((len(marks), SLOTS), jnp.uint32), jnp.ones(len(marks), jnp.uint32))
        return add_visits(empty, marks)[0]

    def rewards(
        self,
        curiosity: Curiosity,
        memory: Seen,
        returns: Float32[Array, " envs"],
        visits: Visits,
        devices: Devices = ALONE,
    ) -> Rewards:
        """Compute each step's bonus, then train the predictor on the rollout.

        The bonus is the increase in novelty, divided by the standard deviation of the discounted
        sums of these increases. It is 0 if the step ends an episode, or if the step's next
        observation is not new in the episode. `Bonus.rewards` describes arguments and results.
        """
        steps, envs = visits.done.shape
        flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), visits.obs)
        features = self.features(curiosity, flat)
        led_to = features[envs:]
        curiosity = curiosity._replace(seen=curiosity.seen.merged_with(led_to.T, devices))
        inputs = self.normalised(curiosity, features)
        novelty = jnp.sqrt(self.errors(curiosity, inputs)).reshape(steps + 1, envs)
        memory, is_first = first_visits(memory, visits)
        new = jnp.where(is_first & ~visits.done, novelty_increase(novelty, self.alpha), 0.0)
        earned, returns, bonus = self.scaled(curiosity.earned, returns, new, devices)
        curiosity = self.trained(curiosity._replace(earned=earned), inputs[envs:], devices)
        return curiosity, memory, returns, bonus


def novelty_increase(
    novelty: Float32[Array, "moments envs"], alpha: float
) -> Float32[Array, "moments-1 envs"]:
    """Return max(novelty - `alpha` * previous novelty, 0) for each observation after the first.

    The first axis of `novelty` indexes successive observations.
    """
    return jnp.maximum(novelty[1:] - alpha * novelty[:-1], 0.0)


def first_visits(seen: Seen, visits: Visits) -> tuple[Seen, Bool[Array, "steps envs"]]:
    """Return the updated hash tables, and whether each step's next observation is new.

    An observation is new if it occurs for the first time in its episode.
    """
    after = jax.tree.map(lambda leaf: leaf[1:], visits.obs)
    marks = jax.vmap(jax.vmap(fingerprint))(after)

    def step(seen: Seen, now: tuple[Array, Array]) -> tuple[Seen, Array]:
        marks, done = now
        return add_visits(seen._replace(episode=seen.episode + done.astype(jnp.uint32)), marks)

    return jax.lax.scan(step, seen, (marks, visits.done))


def add_visits(seen: Seen, marks: UInt32[Array, " envs"]) -> tuple[Seen, Bool[Array, " envs"]]:
    """Add one observation of each environment to the hash tables; also return whether it was new.

    `marks` are the hashes of the observations.
    """
    rows = jnp.arange(len(marks), dtype=jnp.int32)
    slot = (marks % np.uint32(SLOTS)).astype(jnp.int32)
    word = mix(marks ^ mix(seen.episode * GOLDEN))
    is_new = seen.table[rows, slot] != word
    return seen._replace(table=seen.table.at[rows, slot].set(word)), is_new


def fingerprint(obs: PyTree[Array]) -> UInt32[Array, ""]:
    """Return a 32-bit hash of an observation, which depends on the order of its values."""
    words = jnp.concatenate([_words(leaf) for leaf in jax.tree.leaves(obs)])
    places = jnp.arange(1, len(words) + 1, dtype=jnp.uint32) * GOLDEN
    return mix(mix(words ^ mix(places)).sum(dtype=jnp.uint32))


def _words(leaf: Array) -> UInt32[Array, " words"]:
    leaf = jnp.ravel(leaf)
    if jnp.issubdtype(leaf.dtype, jnp.floating):
        return jax.lax.bitcast_convert_type(leaf.astype(jnp.float32), jnp.uint32)
    return leaf.astype(jnp.uint32)
