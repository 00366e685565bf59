"""NovelD (Zhang et al., 2021): a reward for steps across the border of what is known.

The novelty of an observation is the error of random network distillation (rnd.py). A step earns by
how much more novel what it led to is than what it came from, once in an episode for each
observation: the agent is led onwards, and does not circle around what is new. Observations are told
apart by a hash. Deliberate differences: those of rnd.py; and where the hashes of two observations
of one episode share a place in the table, the older one counts as new again.
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

SLOTS = 4096  # observations of an episode that are remembered, at most
GOLDEN = np.uint32(0x9E3779B9)


class Seen(NamedTuple):
    """The observations of the episode under way; an environment's table is never cleared."""

    table: UInt32[Array, "envs slots"]  # words of observation and episode
    episode: UInt32[Array, " envs"]  # its number, from 1 on


@dataclasses.dataclass(frozen=True)
class NovelD(RND):
    """The bonus: pure functions of a `Curiosity` and of what an episode has seen."""

    alpha: float = 0.5  # share of the novelty of where a step came from that is taken off

    def begin(self, curiosity: Any, obs: PyTree[Array]) -> Seen:
        """Tables with the first observations."""
        marks = jax.vmap(fingerprint)(obs)
        empty = Seen(jnp.zeros((len(marks), SLOTS), jnp.uint32), jnp.ones(len(marks), jnp.uint32))
        return visited(empty, marks)[0]

    def rewards(
        self,
        curiosity: Curiosity,
        memory: Seen,
        returns: Float32[Array, " envs"],
        visits: Visits,
        devices: Devices = ALONE,
    ) -> Rewards:
        """By how much what each step led to is newer than what it came from, at the first visit."""
        steps, envs = visits.done.shape
        flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), visits.obs)
        features = self.features(curiosity, flat)
        led_to = features[envs:]
        curiosity = curiosity._replace(seen=curiosity.seen.and_of(led_to.T, devices))
        inputs = self.normalised(curiosity, features)
        novelty = jnp.sqrt(self.errors(curiosity, inputs)).reshape(steps + 1, envs)
        memory, is_first = first_visits(memory, visits)
        new = jnp.where(is_first & ~visits.done, border(novelty, self.alpha), 0.0)
        earned, returns, bonus = self.scaled(curiosity.earned, returns, new, devices)
        curiosity = self.taught(curiosity._replace(earned=earned), inputs[envs:], devices)
        return curiosity, memory, returns, bonus


def border(
    novelty: Float32[Array, "moments envs"], alpha: float
) -> Float32[Array, "moments-1 envs"]:
    """How much more novel each moment is than `alpha` times the one before; at least 0."""
    return jnp.maximum(novelty[1:] - alpha * novelty[:-1], 0.0)


def first_visits(seen: Seen, visits: Visits) -> tuple[Seen, Bool[Array, "steps envs"]]:
    """Whether each step led to something that its episode had not seen."""
    after = jax.tree.map(lambda leaf: leaf[1:], visits.obs)
    marks = jax.vmap(jax.vmap(fingerprint))(after)

    def step(seen: Seen, now: tuple[Array, Array]) -> tuple[Seen, Array]:
        marks, done = now
        return visited(seen._replace(episode=seen.episode + done.astype(jnp.uint32)), marks)

    return jax.lax.scan(step, seen, (marks, visits.done))


def visited(seen: Seen, marks: UInt32[Array, " envs"]) -> tuple[Seen, Bool[Array, " envs"]]:
    """What has been seen with one more observation of each environment; whether it was new."""
    rows = jnp.arange(len(marks), dtype=jnp.int32)
    slot = (marks % np.uint32(SLOTS)).astype(jnp.int32)
    word = mix(marks ^ mix(seen.episode * GOLDEN))
    is_new = seen.table[rows, slot] != word
    return seen._replace(table=seen.table.at[rows, slot].set(word)), is_new


def fingerprint(obs: PyTree[Array]) -> UInt32[Array, ""]:
    """A hash of an observation, of every bit of it and of its place."""
    words = jnp.concatenate([_words(leaf) for leaf in jax.tree.leaves(obs)])
    places = jnp.arange(1, len(words) + 1, dtype=jnp.uint32) * GOLDEN
    return mix(mix(words ^ mix(places)).sum(dtype=jnp.uint32))


def _words(leaf: Array) -> UInt32[Array, " words"]:
    leaf = jnp.ravel(leaf)
    if jnp.issubdtype(leaf.dtype, jnp.floating):
        return jax.lax.bitcast_convert_type(leaf.astype(jnp.float32), jnp.uint32)
    return leaf.astype(jnp.uint32)
