"""Network of RL²: a GRU, a summary stored at each reward, and a prediction of the task.

A task of XLand refers to kinds of cells, such as red balls, which lie at different positions in
every episode. Each kind of cell has an embedding. The network computes a few weighted sums of the
embeddings over all cells in view; the learned weights may select a single cell, for example the
cell ahead. These sums bypass the layers before the GRU, which would mix them, and the GRU also
receives the sums of the previous step.

One part of the recurrent state changes only when there is a reward: it then stores a summary of the
GRU's state from just before the reward. This part does not decay, and gradients pass through it
unchanged. The GRU's update gates start with time scales from 1 to 256 steps (Tallec and Ollivier,
2018).

If the observation has a map whose cells have at most `LARGEST` kinds, the network also predicts the
task from its recurrent state. The prediction, called belief, consists of the probabilities of each
goal and of each object that the agent might hold. For each cell in view and for the held object,
the policy receives the probability that the goal names it, so that the agent can go to a named cell
at any position. Only a separate loss trains the belief, see `rl2.loss`; the policy's gradient does
not pass through the belief.
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

# Largest number of kinds of cells for which the network learns an embedding of each kind. A kind of
# cell, such as a red ball, is a combination of the values of a map's channels.
LARGEST = 4096
LONGEST = 256.0  # longest initial time scale of the GRU's update gates, in steps
# Number of weighted sums of cell embeddings. Each sums over all cells in view, with learned
# weights.
PLACES = 4
GOAL_KINDS = 15  # number of kinds of goals, see `jaxenvs.xland.Goal`
GOAL_SIZE = 3  # length of an encoded goal: its kind, and the kinds of the two cells that it names


class Seen(NamedTuple):
    """Features of one observation, which do not depend on the recurrent state."""

    features: Float[Array, "*steps features"]
    # the `PLACES` weighted sums of the embeddings of all cells in view, concatenated
    places: Float[Array, "*steps sums"]
    # term of the current summary (before tanh) that depends on the observation; `recall` adds a
    # term that depends on the GRU's state
    note: Float[Array, "*steps kept"]
    # number of the kind, such as red ball, of each cell of the map that `counts` describes
    codes: Int32[Array, "*steps cells"]
    facing: Float[Array, "*steps directions"]  # one-hot direction; empty if it is not observed
    rewarded: Bool[Array, "*steps"]  # whether the previous step had a reward


class Belief(NamedTuple):
    """Logits of the network's prediction of the task."""

    # logits over the kinds of goals (`jaxenvs.xland.Goal`)
    kind: Float32[Array, "*steps kinds"]
    # logits over the kinds of cells: for the first and the second cell that the goal names, and for
    # the object that the agent holds
    cells: Float32[Array, "*steps 3 kinds"]


class TaskMemory(Recurrent):
    """Recurrent actor-critic that predicts the task and uses the prediction in its policy.

    A goal names up to two kinds of cells, such as red balls. For each cell in view, the policy
    receives the predicted probability that the goal names this kind of cell.
    """

    memory: int = 256  # size of the GRU's state

    def setup(self) -> None:
        """Create the network's layers.

        Only the GRU must run step by step, so its layers are separate from the layers before it.
        """
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
        """Return a dense layer whose initial weights are an orthogonal matrix times `scale`."""
        return nn.Dense(
            width,
            dtype=self.dtype,
            kernel_init=nn.initializers.orthogonal(scale),
            bias_init=bias or nn.initializers.zeros_init(),
            **more,
        )

    @property
    def convolved(self) -> list[spaces.Space]:
        """Spaces of those maps in the observation that are encoded by the convolutions `conv`.

        These maps have many kinds of cells. For a map with few kinds (see `kinds`), the network
        learns an embedding of each kind instead.
        """
        return [space for space in super().convolved if not kinds(space)]

    @property
    def kept(self) -> int:
        """Size of a summary, a vector that describes the trial so far.

        The recurrent state contains the current summary, and a copy of the summary from just before
        the latest reward.
        """
        return self.memory // 2

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of values of each channel of the observation's first map with few kinds of cells.

        A predicted goal names cells of this map (see `kinds`). If there is no such map, the result
        is (), and the network does not predict the task.
        """
        return next(filter(None, (kinds(space) for _, space in leaves(self.observation_space))), ())

    @property
    def parts(self) -> tuple[int, ...]:
        """Sizes of the five parts of the recurrent state, in order.

        The parts are the GRU's state, the summary stored at the latest reward, the current summary,
        the weighted sums of cell embeddings, and the true goal (zeros if the policy does not
        receive it).
        """
        places = PLACES * self.embed if self.counts else 0
        return self.memory, self.kept, self.kept, places, GOAL_SIZE

    def split(self, memory: Array) -> list[Array]:
        """Split the recurrent state into its five parts, whose meaning and size `parts` lists."""
        return jnp.split(memory, np.cumsum(self.parts)[:-1], axis=-1)

    def __call__(self, obs: PyTree[Array], memory: Array | None = None) -> tuple[Any, ...]:
        memory = self.begin() if memory is None else memory
        *_, before, goal = self.split(memory)
        seen = self.features(obs)
        now = (seen, self.gates(seen, before))
        memory = self.recall(memory, now)
        return memory, *self.heads(memory, now, goal)

    def features(self, obs: PyTree[Array]) -> Seen:
        """Return the features of one observation, which do not depend on the recurrent state."""
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
        has_direction = isinstance(inside, dict) and "direction" in inside
        return Seen(
            features=features,
            places=places,
            note=self.note(jnp.concatenate([features, places])),
            codes=found[0][1] if found else jnp.zeros(0, jnp.int32),
            facing=jax.nn.one_hot(inside["direction"], 4) if has_direction else jnp.zeros(0),
            rewarded=obs["reward"] != 0.0,
        )

    def gates(self, seen: Seen, before: Array) -> Float[Array, " gates"]:
        """Return the part of the GRU's gate inputs that does not depend on the GRU's state.

        A linear layer computes it from the observation's features, the weighted sums of its cell
        embeddings (`seen.places`), and the weighted sums of the previous step (`before`).
        """
        return self.inputs(jnp.concatenate([seen.features, seen.places, before.astype(self.dtype)]))

    def in_order(self, apply: Any, memory: Array, seen: Seen, done: Array) -> tuple[Seen, Array]:
        """Return the features and the GRU's inputs of all steps.

        They do not depend on the GRU's state, so all steps are computed at once. The inputs of a
        step include the weighted sums of the previous step, or 0 after the end of a trial (`done`).
        Before the first step, these sums come from the recurrent state `memory`.
        """
        first = self.split(memory)[3]
        before = jnp.where(done[:-1, None], 0.0, seen.places[:-1])
        before = jnp.concatenate([first[None], before])
        return seen, jax.vmap(functools.partial(apply, method="gates"))(seen, before)

    def recall(self, memory: Array, features: tuple[Seen, Array]) -> Float32[Array, " memory"]:
        """Return the recurrent state after one more observation."""
        seen, inputs = features
        carried, kept, summary, _, goal = self.split(memory)
        kept = jnp.where(seen.rewarded, summary, kept)
        recalled = self.carry(jnp.concatenate([carried, kept]))
        recalled = recalled.astype(jnp.float32).reshape(3, self.memory)
        gates = inputs.astype(jnp.float32).reshape(3, self.memory)
        keep, use = nn.sigmoid(gates[:2] + recalled[:2])
        new = nn.tanh(gates[2] + use * recalled[2])
        carried = keep * carried + (1.0 - keep) * new
        summary = nn.tanh(seen.note + self.summary(carried)).astype(jnp.float32)
        return jnp.concatenate([carried, kept, summary, seen.places.astype(jnp.float32), goal])

    def heads(
        self, memory: Array, seen: tuple[Seen, Array], *given: Array
    ) -> tuple[Float32[Array, " actions"], Array, Belief | None]:
        """Return logits, value, and the prediction of the task.

        `given` contains a goal, encoded as in `with_goal`. If its first number, the kind of the
        goal, is not 0, the policy receives this goal instead of the prediction.
        """
        (now, _), (goal,) = seen, given
        memory = jnp.concatenate(self.split(memory)[:2]).astype(self.dtype)
        known, belief = [memory, now.features], None
        if self.counts:
            belief = self.belief(memory)
            known += [part.astype(self.dtype) for part in self.belief_features(belief, now, goal)]
        out = nn.tanh(self.read_out(jnp.concatenate(known)))
        logits, value = self.policy(out), self.critic(out)[0]
        return logits.astype(jnp.float32), value.astype(jnp.float32), belief

    def belief(self, memory: Array) -> Belief:
        """Return the predicted goal and held object, as logits."""
        embed = next(filter(None, self.maps))
        named = self.named(memory).astype(jnp.float32).reshape(3, self.embed)
        return Belief(self.goal_kind(memory).astype(jnp.float32), embed.attend(named))

    def belief_features(self, belief: Belief, seen: Seen, goal: Array) -> tuple[Array, ...]:
        """Return the four inputs of the policy that depend on the predicted or true goal.

        - For each cell in view, the probability that the goal names the cell.
        - The probability that the goal names the held object.
        - The probability of each kind of goal, multiplied by the agent's one-hot direction.
        - The probability of each kind of goal.
        """
        kind, cells = jax.lax.stop_gradient((nn.softmax(belief.kind), nn.softmax(belief.cells)))
        code = goal.astype(jnp.int32)
        is_given = code[0] > 0
        kind = jnp.where(is_given, jax.nn.one_hot(code[0], GOAL_KINDS), kind)
        named = jnp.where(is_given, jax.nn.one_hot(code[1:], cells.shape[1]), cells[:2])
        in_view, held = named[:, seen.codes].reshape(-1), named @ cells[2]
        return 2 * in_view, 2 * held, 2 * jnp.outer(kind, seen.facing).reshape(-1), kind

    def begin(self) -> Float32[Array, " memory"]:
        """Return the recurrent state at the start of a trial, a vector of zeros."""
        return jnp.zeros(sum(self.parts), jnp.float32)

    def with_goal(
        self, memory: Float32[Array, "*rows memory"], goal: Int32[Array, "*rows 3"]
    ) -> Float32[Array, "*rows memory"]:
        """Set the goal that the policy receives; return the recurrent state, which contains it.

        `goal` contains the kind of the goal and the kinds of the two cells that it names. If the
        kind of the goal is 0, the policy receives the predicted goal instead.
        """
        return jnp.concatenate([memory[..., :-GOAL_SIZE], goal.astype(jnp.float32)], axis=-1)

    def labels(
        self, goal: UInt8[Array, "*rows 5"], pocket: UInt8[Array, "*rows 2"]
    ) -> Int32[Array, "*rows 4"]:
        """Return class labels of the true task, with which predictions of the task are trained.

        The labels are the kind of the goal, the kinds of the two cells that it names, and the kind
        of the held object (`pocket`). If a goal has positions instead of cells, their coordinates
        are encoded as if they were cells.
        """
        cells = [coded(self.counts, pair) for pair in (goal[..., 1:3], goal[..., 3:5], pocket)]
        return jnp.stack([goal[..., 0].astype(jnp.int32), *cells], axis=-1)


def coded(kinds: tuple[int, ...], obs: Array) -> Int32[Array, "*cells"]:
    """Return the kind of each cell: a number that combines the values of all channels of the cell.

    `kinds` is the number of values of each channel. A map is flattened to a vector of cells.
    """
    code = jnp.zeros(obs.shape[:-1], jnp.int32)
    for channel, count in enumerate(kinds):
        code = code * count + jnp.minimum(obs[..., channel].astype(jnp.int32), count - 1)
    return code.reshape(-1) if obs.ndim == 3 else code


def kinds(space: spaces.Space) -> tuple[int, ...]:
    """Return the number of values of each channel of a map; () for unsuitable spaces.

    Suitable are maps of integers with at most `LARGEST` kinds of cells.
    """
    if not isinstance(space, spaces.Box) or len(space.shape) != 3:
        return ()
    if not np.issubdtype(space.dtype, np.integer) or int(space.low.min()) < 0:
        return ()
    counts = tuple(int(top) + 1 for top in space.high.max(axis=(0, 1)))
    return counts if math.prod(counts) <= LARGEST else ()


def _time_scales(key: Array, shape: tuple[int, ...], dtype: Any = jnp.float32) -> Array:
    """Return initial biases of the GRU's gates, a vector.

    The biases of the update gates are random, and give time scales from 1 to `LONGEST` steps. All
    other biases are 0.
    """
    count = shape[0] // 3
    keep = jax.random.uniform(key, (count,), dtype, 0.0, math.log(LONGEST))
    return jnp.concatenate([keep, jnp.zeros(shape[0] - count, dtype)])
