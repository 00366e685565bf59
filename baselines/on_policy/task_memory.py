"""The network of RL²: a GRU, a part set at the latest reward, and a belief about the task.

What matters in a task is which things belong together, and these lie elsewhere in every episode.
So each kind of cell has a vector. Weighted sums over the view (such as the cell ahead) bypass the
layers before the GRU, where everything is mixed, and the GRU also sees those of the previous step.
A part of the memory changes only with a reward, when it takes a summary of what was seen and known
just before: it does not fade, and gradients pass through it unchanged. The gates to keep start with
time scales from one step to 256 (Tallec and Ollivier, 2018).

Where the observation has a map of few kinds of cells, beliefs are read from memory: probabilities
of each goal and of what the agent holds. The policy sees, for each cell in view and for what is
held, the probability that the goal names it, so it can go there wherever that lies. Beliefs learn
only from their own loss, see `rl2.loss`: no gradient of the policy passes through them.
"""

import functools
import math
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float32, Int32, PyTree, UInt8

from jaxenvs import spaces

from ..networks.encoders import Encoder, leaves
from ..networks.policies import Recurrent

LARGEST = 4096  # kinds of cells that have a vector each
LONGEST = 256.0  # steps, the longest time scale at the start
PLACES = 4  # weighted sums over the view
GOAL_KINDS = 15  # see `jaxenvs.xland.Goal`
TOLD = 3  # numbers of a goal: its kind, kinds of the cells that it names


class Seen(NamedTuple):
    """What one observation shows."""

    features: Float[Array, "*steps features"]
    places: Float[Array, "*steps sums"]  # weighted sums of the cells' vectors
    note: Float[Array, "*steps kept"]  # its part in the summary
    codes: Int32[Array, "*steps cells"]  # kinds of the cells of the first map
    facing: Float[Array, "*steps directions"]  # one-hot, empty if no direction is seen
    rewarded: Bool[Array, "*steps"]  # whether the step before brought a reward


class Belief(NamedTuple):
    """Logits."""

    kind: Float32[Array, "*steps kinds"]  # of the goal
    cells: Float32[Array, "*steps 3 kinds"]  # two that the goal names, one that is held


class TaskMemory(Recurrent):
    """Layers before a GRU; a layer after it, which also sees what is believed of the view."""

    memory: int = 256  # numbers that are remembered

    def setup(self) -> None:
        """Name the parts: some are applied to many observations at once, one in their order."""
        maps = [kinds(space) for _, space in leaves(self.observation_space)]
        self.maps = [nn.Embed(math.prod(each), self.embed) if each else None for each in maps]
        self.rest = [
            None if each else Encoder(space, self.embed, conv=tuple(self.conv), lines=self.lines)
            for each, (_, space) in zip(maps, leaves(self.observation_space), strict=True)
        ]
        self.layers = [self.dense(width) for width in self.hidden]
        self.places = self.dense(PLACES, 1.0, use_bias=False)
        self.inputs = self.dense(3 * self.memory, 1.0, bias=_time_scales)
        self.note, self.summary = (self.dense(self.kept, 1.0) for _ in range(2))
        self.carry = self.dense(3 * self.memory, 1.0, use_bias=False)
        self.goal_kind, self.named = self.dense(GOAL_KINDS, 0.1), self.dense(3 * self.embed, 0.1)
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
    def convolved(self) -> list[spaces.Space]:
        """Parts of an observation that `conv` reads: not maps whose cells have vectors."""
        return [space for space in super().convolved if not kinds(space)]

    @property
    def kept(self) -> int:
        """Numbers that are kept from the latest reward."""
        return self.memory // 2

    @property
    def counts(self) -> tuple[int, ...]:
        """Values of each channel of the map whose cells beliefs are about; () without one."""
        return next(filter(None, (kinds(space) for _, space in leaves(self.observation_space))), ())

    @property
    def parts(self) -> tuple[int, ...]:
        """Sizes of the parts of memory: carried, kept, summary, places, told."""
        places = PLACES * self.embed if self.counts else 0
        return self.memory, self.kept, self.kept, places, TOLD

    def parted(self, memory: Array) -> list[Array]:
        """The parts of memory."""
        return jnp.split(memory, np.cumsum(self.parts)[:-1], axis=-1)

    def __call__(self, obs: PyTree[Array], memory: Array | None = None) -> tuple[Any, ...]:
        memory = self.begin() if memory is None else memory
        *_, before, told = self.parted(memory)
        seen = self.features(obs)
        now = (seen, self.gates(seen, before))
        memory = self.recall(memory, now)
        return memory, *self.heads(memory, now, told)

    def features(self, obs: PyTree[Array]) -> Seen:
        """What is seen, whatever came before."""
        parts = [part for _, part in leaves(self.observation_space, self.read(obs))]
        found = [
            (embed, coded(kinds(space), part))
            for (_, space), embed, part in zip(
                leaves(self.observation_space), self.maps, parts, strict=True
            )
            if embed
        ]
        rest = [encode(part) for encode, part in zip(self.rest, parts, strict=True) if encode]
        vectors = [embed(codes) for embed, codes in found]
        features = jnp.concatenate([*(each.reshape(-1) for each in vectors), *rest])
        places = self.places(vectors[0].T).reshape(-1) if vectors else jnp.zeros(0, self.dtype)
        for layer in self.layers:
            features = self.activate(layer(features))
        inside = obs["obs"]
        told = isinstance(inside, dict) and "direction" in inside
        return Seen(
            features=features,
            places=places,
            note=self.note(jnp.concatenate([features, places])),
            codes=found[0][1] if found else jnp.zeros(0, jnp.int32),
            facing=jax.nn.one_hot(inside["direction"], 4) if told else jnp.zeros(0),
            rewarded=obs["reward"] != 0.0,
        )

    def gates(self, seen: Seen, before: Array) -> Float[Array, " gates"]:
        """What is seen, and where things were the step before, for the GRU."""
        return self.inputs(jnp.concatenate([seen.features, seen.places, before.astype(self.dtype)]))

    def in_order(self, apply: Any, memory: Array, seen: Seen, done: Array) -> tuple[Seen, Array]:
        """What is seen, and the gates of all steps at once."""
        first = self.parted(memory)[3]
        before = jnp.where(done[:-1, None], 0.0, seen.places[:-1])
        before = jnp.concatenate([first[None], before])
        return seen, jax.vmap(functools.partial(apply, method="gates"))(seen, before)

    def recall(self, memory: Array, features: tuple[Seen, Array]) -> Float32[Array, " memory"]:
        """What is remembered after one more observation."""
        seen, inputs = features
        carried, kept, summary, _, told = self.parted(memory)
        kept = jnp.where(seen.rewarded, summary, kept)
        recalled = self.carry(jnp.concatenate([carried, kept]))
        recalled = recalled.astype(jnp.float32).reshape(3, self.memory)
        gates = inputs.astype(jnp.float32).reshape(3, self.memory)
        keep, use = nn.sigmoid(gates[:2] + recalled[:2])
        new = nn.tanh(gates[2] + use * recalled[2])
        carried = keep * carried + (1.0 - keep) * new
        summary = nn.tanh(seen.note + self.summary(carried)).astype(jnp.float32)
        return jnp.concatenate([carried, kept, summary, seen.places.astype(jnp.float32), told])

    def heads(
        self, memory: Array, seen: tuple[Seen, Array], *given: Array
    ) -> tuple[Float32[Array, " actions"], Array, Belief | None]:
        """Logits, value and belief, in place of which a goal counts that is given and not 0."""
        (now, _), (told,) = seen, given
        memory = jnp.concatenate(self.parted(memory)[:2]).astype(self.dtype)
        known, belief = [memory, now.features], None
        if self.counts:
            belief = self.belief(memory)
            known += [part.astype(self.dtype) for part in self.believed(belief, now, told)]
        out = nn.tanh(self.read_out(jnp.concatenate(known)))
        logits, value = self.policy(out), self.critic(out)[0]
        return logits.astype(jnp.float32), value.astype(jnp.float32), belief

    def belief(self, memory: Array) -> Belief:
        """What the goal may be, and what is held."""
        embed = next(filter(None, self.maps))
        named = self.named(memory).astype(jnp.float32).reshape(3, self.embed)
        return Belief(self.goal_kind(memory).astype(jnp.float32), embed.attend(named))

    def believed(self, belief: Belief, seen: Seen, told: Array) -> tuple[Array, ...]:
        """Probabilities: of cells in view, and of what is held, to be named by the goal; of kinds
        of goals, by direction and alone."""
        kind, cells = jax.lax.stop_gradient((nn.softmax(belief.kind), nn.softmax(belief.cells)))
        code = told.astype(jnp.int32)
        is_told = code[0] > 0
        kind = jnp.where(is_told, jax.nn.one_hot(code[0], GOAL_KINDS), kind)
        named = jnp.where(is_told, jax.nn.one_hot(code[1:], cells.shape[1]), cells[:2])
        in_view, held = named[:, seen.codes].reshape(-1), named @ cells[2]
        return 2 * in_view, 2 * held, 2 * jnp.outer(kind, seen.facing).reshape(-1), kind

    def begin(self) -> Float32[Array, " memory"]:
        """What it remembers before the first observation of a trial."""
        return jnp.zeros(sum(self.parts), jnp.float32)

    def tell(
        self, memory: Float32[Array, "*rows memory"], goal: Int32[Array, "*rows 3"]
    ) -> Float32[Array, "*rows memory"]:
        """Memory with goals that agents are told; 0 for those that must find theirs out."""
        return jnp.concatenate([memory[..., :-TOLD], goal.astype(jnp.float32)], axis=-1)

    def labels(
        self, goal: UInt8[Array, "*rows 5"], pocket: UInt8[Array, "*rows 2"]
    ) -> Int32[Array, "*rows 4"]:
        """What beliefs are about: kind of the goal, kinds of the cells it names, of what is held.

        Goals that name places count as those that name the cells of the same numbers.
        """
        cells = [coded(self.counts, pair) for pair in (goal[..., 1:3], goal[..., 3:5], pocket)]
        return jnp.stack([goal[..., 0].astype(jnp.int32), *cells], axis=-1)


def coded(kinds: tuple[int, ...], obs: Array) -> Int32[Array, "*cells"]:
    """A number for each cell of a map, of all of its channels together; maps become vectors."""
    code = jnp.zeros(obs.shape[:-1], jnp.int32)
    for channel, count in enumerate(kinds):
        code = code * count + jnp.minimum(obs[..., channel].astype(jnp.int32), count - 1)
    return code.reshape(-1) if obs.ndim == 3 else code


def kinds(space: spaces.Space) -> tuple[int, ...]:
    """Number of values of each channel of a map of small whole numbers; () of anything else."""
    if not isinstance(space, spaces.Box) or len(space.shape) != 3:
        return ()
    if not np.issubdtype(space.dtype, np.integer) or int(space.low.min()) < 0:
        return ()
    counts = tuple(int(top) + 1 for top in space.high.max(axis=(0, 1)))
    return counts if math.prod(counts) <= LARGEST else ()


def _time_scales(key: Array, shape: tuple[int, ...], dtype: Any = jnp.float32) -> Array:
    """Biases of a GRU; those of its gates to keep are spread so that what it remembers fades over
    one step to `LONGEST` steps."""
    count = shape[0] // 3
    keep = jax.random.uniform(key, (count,), dtype, 0.0, math.log(LONGEST))
    return jnp.concatenate([keep, jnp.zeros(shape[0] - count, dtype)])
