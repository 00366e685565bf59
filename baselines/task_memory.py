"""The network of RL²: a GRU that keeps what brought a reward and looks for it in what it sees.

What matters in a task is which things belong together, and these lie elsewhere in every episode.
So each kind of cell has a vector, and queries that are read from memory are compared with the cells
in view: a policy can go to whatever it remembers, wherever that is. A part of the memory changes
only with a reward, when it takes a summary of what was seen and known just before: it fades in no
trial, and gradients pass through it unchanged. The gates to keep start with time scales from one
step to 256 (Tallec and Ollivier, 2018).
"""

import functools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float32, PyTree

from jaxenvs import spaces
from jaxenvs.core.masking import Mask, legal

from .networks import Encoder, Network

LARGEST = 4096  # kinds of cells that have a vector each
LONGEST = 256.0  # steps, the longest time scale at the start
QUERIES = 4


class Seen(NamedTuple):
    """What one observation shows."""

    features: Float[Array, "*steps features"]
    gates: Float[Array, "*steps gates"]  # its part in the GRU
    note: Float[Array, "*steps kept"]  # its part in the summary
    cells: Float[Array, "*steps cells embed"]
    rewarded: Bool[Array, "*steps"]  # whether the step before brought a reward


class TaskMemory(Network):
    """Layers before a GRU; a layer after it, with the cells that its queries find."""

    memory: int = 256  # numbers that are remembered

    def setup(self) -> None:
        """Name the parts: some are applied to many observations at once, one in their order."""
        maps = {path: kinds(space) for path, space in leaves(self.observation_space)}
        self.maps = [Cells(each, self.embed) if each else None for each in maps.values()]
        self.rest = [
            None if maps[path] else Encoder(space, self.embed, conv=tuple(self.conv))
            for path, space in leaves(self.observation_space)
        ]
        self.layers = [self.dense(width) for width in self.hidden]
        self.inputs = self.dense(3 * self.memory, 1.0, bias=_time_scales)
        self.note, self.summary = (self.dense(self.kept, 1.0) for _ in range(2))
        self.carry = self.dense(3 * self.memory, 1.0, use_bias=False)
        self.queries = self.dense(QUERIES * self.embed, 1.0)
        self.read_out = self.dense(self.hidden[-1])
        self.policy, self.critic = self.dense(self.num_actions, 0.01), self.dense(1, 1.0)

    def dense(self, width: int, scale: float = np.sqrt(2), bias: Any = None, **more: Any) -> Any:
        """A layer with orthogonal weights."""
        return nn.Dense(
            width,
            dtype=self.dtype,
            kernel_init=nn.initializers.orthogonal(scale),
            bias_init=bias or nn.initializers.zeros_init(),
            **more,
        )

    @property
    def kept(self) -> int:
        """Numbers that are kept from the latest reward."""
        return self.memory // 2

    def __call__(self, obs: PyTree[Array], memory: Array | None = None) -> tuple[Any, ...]:
        seen = self.see(obs)
        memory = self.recall(self.begin() if memory is None else memory, seen)
        return memory, *self.heads(memory, seen)

    def see(self, obs: PyTree[Array]) -> Seen:
        """What is seen, whatever came before."""
        parts = [part for _, part in leaves(self.observation_space, self.read(obs))]
        cells = [map(part) for map, part in zip(self.maps, parts, strict=True) if map]
        rest = [encode(part) for encode, part in zip(self.rest, parts, strict=True) if encode]
        vectors = jnp.concatenate([*cells, jnp.zeros((0, self.embed), jnp.float32)])
        features = jnp.concatenate([vectors.reshape(-1), *rest])
        for layer in self.layers:
            features = self.activate(layer(features))
        return Seen(
            features=features,
            gates=self.inputs(features),
            note=self.note(features),
            cells=vectors.astype(self.dtype),
            rewarded=obs["reward"] != 0.0,
        )

    def recall(self, memory: Array, seen: Seen) -> Float32[Array, " memory"]:
        """What is remembered after one more observation."""
        carried, kept, summary = jnp.split(memory, [self.memory, self.memory + self.kept])
        kept = jnp.where(seen.rewarded, summary, kept)
        recalled = self.carry(jnp.concatenate([carried, kept]))
        recalled = recalled.astype(jnp.float32).reshape(3, self.memory)
        gates = seen.gates.astype(jnp.float32).reshape(3, self.memory)
        keep, use = nn.sigmoid(gates[:2] + recalled[:2])
        new = nn.tanh(gates[2] + use * recalled[2])
        carried = keep * carried + (1.0 - keep) * new
        summary = nn.tanh(seen.note + self.summary(carried)).astype(jnp.float32)
        return jnp.concatenate([carried, kept, summary])

    def heads(self, memory: Array, seen: Seen) -> tuple[Float32[Array, " actions"], Array]:
        """Logits and value."""
        memory = memory[: self.memory + self.kept].astype(self.dtype)
        queries = self.queries(memory).reshape(QUERIES, self.embed)
        found = nn.tanh(seen.cells @ queries.T).reshape(-1)
        known = jnp.concatenate([memory, seen.features, found])
        out = self.activate(self.read_out(known))
        logits, value = self.policy(out), self.critic(out)[0]
        return logits.astype(jnp.float32), value.astype(jnp.float32)

    def begin(self) -> Float32[Array, " memory"]:
        """What it remembers before the first observation of a trial."""
        return jnp.zeros(self.memory + 2 * self.kept, jnp.float32)

    def think(
        self, weights: PyTree[Array], memory: Any, obs: PyTree[Array], mask: Mask
    ) -> tuple[Any, ...]:
        """What it remembers after one more observation, logits of the legal actions, its value."""
        answer: Any = self.apply(weights, obs, memory)
        memory, logits, value = answer
        return memory, legal(logits, mask), value

    def unroll(
        self,
        weights: PyTree[Array],
        memory: Float32[Array, " memory"],
        obs: PyTree[Array],
        done: Bool[Array, " steps"],
    ) -> tuple[Float32[Array, "steps actions"], Float32[Array, " steps"]]:
        """Logits and values of the successive observations of one environment; see `Recurrent`."""
        apply: Any = functools.partial(self.apply, weights)
        seen = jax.vmap(functools.partial(apply, method="see"))(obs)

        def remember(memory: Array, now: tuple[Any, Array]) -> tuple[Array, Array]:
            seen, done = now  # what this does not need of it costs nothing in a compiled loop
            memory = apply(memory, seen, method="recall")
            return jnp.where(done, 0.0, memory), memory

        memories = jax.lax.scan(remember, memory, (seen, done))[1]
        return jax.vmap(functools.partial(apply, method="heads"))(memories, seen)


class Cells(nn.Module):
    """A vector for each cell of a map, which depends on all of its channels together."""

    kinds: tuple[int, ...]  # values of each channel
    embed: int

    @nn.compact
    def __call__(self, obs: Array) -> Float32[Array, "cells embed"]:
        code = jnp.zeros(obs.shape[:2], jnp.int32)
        for channel, count in enumerate(self.kinds):
            code = code * count + obs[..., channel].astype(jnp.int32)
        return nn.Embed(math.prod(self.kinds), self.embed)(code.reshape(-1))


def kinds(space: spaces.Space) -> tuple[int, ...]:
    """Number of values of each channel of a map of small whole numbers; () of anything else."""
    if not isinstance(space, spaces.Box) or len(space.shape) != 3:
        return ()
    if not np.issubdtype(space.dtype, np.integer) or int(space.low.min()) < 0:
        return ()
    counts = tuple(int(top) + 1 for top in space.high.max(axis=(0, 1)))
    return counts if math.prod(counts) <= LARGEST else ()


def leaves(space: spaces.Space, obs: Any = None, path: tuple[str, ...] = ()) -> Iterator[Any]:
    """Paths of the parts of a space in a fixed order, with spaces or parts of an observation."""
    if isinstance(space, spaces.Dict):
        for name, part in sorted(space.spaces.items()):
            yield from leaves(part, None if obs is None else obs[name], (*path, name))
    else:
        yield path, space if obs is None else obs


def _time_scales(key: Array, shape: tuple[int, ...], dtype: Any = jnp.float32) -> Array:
    """Biases of a GRU; those of its gates to keep are spread so that what it remembers fades over
    one step to `LONGEST` steps."""
    count = shape[0] // 3
    keep = jax.random.uniform(key, (count,), dtype, 0.0, math.log(LONGEST))
    return jnp.concatenate([keep, jnp.zeros(shape[0] - count, dtype)])
