"""Transformer that predicts a step of an environment with map observations.

An observation is encoded as one token per map cell and one token for its other values ("numbers",
such as item counts). The output at each token predicts the categories of the same cell, or of the
numbers, in the next observation. A token attends to all tokens of this step and of earlier steps of
the episode: attention is causal by blocks (block teacher forcing; Dedieu et al., 2025), so that an
imagined step is one forward pass.

A cell's token includes its eight neighbours, on which most changes depend. The last token also
contains a summary of the whole episode (`History`); termination is predicted from it. The reward is
predicted from this token, the summary, and the numbers before and after the step: whether a piece
of wood is rewarded depends on the inventory growing by one, and on events long before. Legal
actions are predicted from the observation alone, as masks are functions of the state.
"""

import functools
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float32, Int32, PyTree, Shaped

from jaxenvs.core.vocabulary import Vocabulary

from ..networks import two_hot
from ..networks.spatial import neighbourhoods

NEVER = -1e9  # logit of an impossible category, score of a masked token
EXPANSION = 4  # ratio of the widths of the two dense layers of a block


class Prediction(NamedTuple):
    """Predictions of one step, or of successive steps."""

    cells: Float32[Array, "*steps cells channels categories"]  # logits of the next map cells
    rest: Float32[Array, "*steps numbers categories"]  # logits of the next numbers
    end: Float32[Array, "*steps"]  # logit of termination
    token: Float[Array, "*steps width"]  # token from which `reward` predicts the reward


class History(NamedTuple):
    """Summary of an episode so far: categories that occurred, and rewards."""

    shown: Bool[Array, "*batch categories"]  # whether each occurred: cell channels, then numbers
    gained: Float32[Array, "*batch actions"]  # sum of the rewards of each action

    @classmethod
    def begin(cls, vocabulary: Vocabulary, num_actions: int, obs: PyTree[Array]) -> "History":
        """Return the history of an episode whose first observation is `obs`."""
        return cls(categories(vocabulary, obs), jnp.zeros(num_actions, jnp.float32))

    def later(
        self, vocabulary: Vocabulary, action: Array, reward: Array, obs: PyTree[Array]
    ) -> "History":
        """Return the history after one more step, whose next observation is `obs`."""
        gained = self.gained.at[action].add(reward)
        return History(self.shown | categories(vocabulary, obs), gained)


def categories(vocabulary: Vocabulary, obs: PyTree[Array]) -> Bool[Array, " categories"]:
    """Return which categories occur in an observation."""
    cells, rest = vocabulary.read(obs)
    of_cells = one_hot(cells.reshape(-1, cells.shape[-1]), vocabulary.cells, jnp.bool_)
    return jnp.concatenate([of_cells.any(axis=0), one_hot(rest, vocabulary.rest, jnp.bool_)])


class WorldTransformer(nn.Module):
    """Dyna's model of one environment; `vmap` it for a batch."""

    vocabulary: Vocabulary
    num_actions: int
    context: int  # steps that each layer attends to, including the current one
    width: int  # features of a token
    num_heads: int  # number of attention heads
    depth: int  # number of layers
    atoms: int  # number of reward atoms on either side of 0
    dtype: Any = jnp.float32  # dtype of the activations

    def setup(self) -> None:
        """Create the layers."""
        rows, columns = self.vocabulary.map
        dense = functools.partial(nn.Dense, dtype=self.dtype)
        self.cell, self.around = dense(self.width // 4, use_bias=False), dense(self.width)
        self.taken = dense(self.width, use_bias=False)
        self.before = dense(self.width)
        if self.vocabulary.rest:  # a dense layer needs at least one input and output
            self.numbers = dense(self.width)
            self.next_rest = dense(len(self.vocabulary.rest) * most(self.vocabulary.rest))
        places = (rows * columns + 1, self.width)
        self.place = self.param("place", nn.initializers.normal(0.1), places)
        self.layers = [
            Layer(self.width, self.num_heads, self.context, self.dtype) for _ in range(self.depth)
        ]
        self.next_cells = dense(len(self.vocabulary.cells) * most(self.vocabulary.cells))
        self.ends = [dense(self.width), dense(1)]
        self.earns = [dense(2 * self.width), dense(2 * self.atoms + 1)]
        self.legal = [dense(2 * self.width), dense(self.num_actions)]

    def __call__(
        self,
        cells: Int32[Array, "steps rows columns channels"],
        rest: Int32[Array, "steps numbers"],
        history: History,
        action: Int32[Array, " steps"],
        over: Bool[Array, " steps"],
    ) -> tuple[Prediction, Float32[Array, "steps actions"]]:
        """Predict successive steps, at most `context`; also return logits of the legal actions.

        `over` marks the last steps of episodes; steps of later episodes do not attend to earlier
        episodes.
        """
        seen = block_causal(over)
        tokens = self.tokens(cells, rest, history, action)
        for layer in self.layers:
            tokens, _ = layer(tokens, None, seen)
        predicted = self.heads(tokens)
        if self.is_initializing():  # creates the weights of `reward`
            self.reward(predicted.token, rest, history, rest, over)
        return predicted, jax.vmap(self.allowed)(cells, rest)

    def next(
        self,
        memory: PyTree[Array],
        cells: Int32[Array, "rows columns channels"],
        rest: Int32[Array, " numbers"],
        history: History,
        action: Int32[Array, ""],
    ) -> tuple[PyTree[Array], Prediction]:
        """Predict one step; also return the cache of keys and values after it."""
        kept = self.context - 1
        known = jnp.arange(kept, dtype=jnp.int32) >= kept - memory["length"]
        seen = jnp.concatenate([known, jnp.ones(1, jnp.bool_)])[None]
        now = jax.tree.map(lambda leaf: leaf[None], (cells, rest, history, action))
        tokens = self.tokens(*now)
        latest = []
        for layer, cached in zip(self.layers, memory["pairs"], strict=True):
            tokens, pairs = layer(tokens, cached.astype(self.dtype), seen)
            latest.append(pairs.astype(jnp.float32)[1:])
        length = jnp.minimum(memory["length"] + jnp.int32(1), jnp.int32(kept))
        memory = {"pairs": jnp.stack(latest), "length": length}
        return memory, jax.tree.map(lambda leaf: leaf[0], self.heads(tokens))

    def begin(self) -> PyTree[Array]:
        """Return the initial recurrent state: an empty cache of each layer's keys and values."""
        rows, columns = self.vocabulary.map
        shape = (self.depth, self.context - 1, rows * columns + 1, 2, self.width)
        return {"pairs": jnp.zeros(shape, jnp.float32), "length": jnp.int32(0)}

    def tokens(
        self, cells: Array, rest: Array, history: History, action: Array
    ) -> Float[Array, "steps tokens width"]:
        """Return tokens of successive steps: cells row by row, then one for numbers and history."""
        around = self.around(self.neighbours(cells))
        numbers = self.before(jnp.concatenate(self.so_far(history), axis=-1))[:, None]
        if self.vocabulary.rest:
            numbers += self.numbers(one_hot(rest, self.vocabulary.rest, self.dtype))[:, None]
        taken = self.taken(jax.nn.one_hot(action, self.num_actions, dtype=self.dtype))
        tokens = jnp.concatenate([around, numbers], axis=1)
        return tokens + taken[:, None] + self.place.astype(self.dtype)

    def neighbours(self, cells: Array) -> Float[Array, "steps cells features"]:
        """Return features of each cell and its eight neighbours, zeros beyond the border."""
        room = ((0, 0), (1, 1), (1, 1), (0, 0))
        found = jax.vmap(neighbourhoods)(jnp.pad(self.embedded(cells), room))
        return found.reshape(len(cells), -1, found.shape[-1])

    def embedded(self, cells: Int32[Array, "*map channels"]) -> Float[Array, "*map features"]:
        """Return features of each cell, without its neighbours."""
        rows = cells.reshape(-1, cells.shape[-1])
        features = self.cell(one_hot(rows, self.vocabulary.cells, self.dtype))
        return features.reshape(*cells.shape[:-1], -1)

    def heads(self, tokens: Float[Array, "steps tokens width"]) -> Prediction:
        """Return the predictions from the tokens of each step."""
        tokens = normal(tokens)
        hidden, end = self.ends
        *_, last = jnp.split(tokens, [tokens.shape[1] - 1], axis=1)
        token = last[:, 0]
        rest = jnp.zeros((len(tokens), 0))
        if self.vocabulary.rest:
            rest = self.next_rest(token)
        return Prediction(
            cells=possible(self.next_cells(tokens[:, :-1]), self.vocabulary.cells),
            rest=possible(rest, self.vocabulary.rest),
            end=end(nn.gelu(hidden(token))).astype(jnp.float32)[..., 0],
            token=token,
        )

    def reward(
        self,
        token: Float[Array, "*steps width"],
        rest: Int32[Array, "*steps numbers"],
        history: History,
        next_rest: Int32[Array, "*steps numbers"],
        terminated: Bool[Array, "*steps"],
    ) -> Float32[Array, "*steps atoms"]:
        """Return reward logits, see two_hot.py; `next_rest` is ignored where `terminated`."""
        before, after = (one_hot(x, self.vocabulary.rest, self.dtype) for x in (rest, next_rest))
        after = jnp.where(terminated[..., None], 0, after)
        hidden, earned = self.earns
        parts = [token, before, after, *self.so_far(history)]
        return earned(nn.gelu(hidden(jnp.concatenate(parts, axis=-1)))).astype(jnp.float32)

    def so_far(self, history: History) -> tuple[Array, Array]:
        """Return a history as features."""
        gained = two_hot.squeezed(history.gained)
        return history.shown.astype(self.dtype), gained.astype(self.dtype)

    def allowed(self, cells: Array, rest: Array) -> Float32[Array, " actions"]:
        """Return, for each action, the logit that it is legal at this observation."""
        numbers = one_hot(rest, self.vocabulary.rest, self.dtype)
        hidden, legal = self.legal
        known = jnp.concatenate([self.embedded(cells).reshape(-1), numbers])
        return legal(nn.gelu(hidden(known))).astype(jnp.float32)


class Layer(nn.Module):
    """Transformer block: attention, then two dense layers, each with a residual connection."""

    width: int
    num_heads: int
    context: int
    dtype: Any

    @nn.compact
    def __call__(
        self,
        tokens: Float[Array, "steps tokens width"],
        cached: Float[Array, "kept tokens 2 width"] | None,
        seen: Bool[Array, "steps known"],
    ) -> tuple[Float[Array, "steps tokens width"], Float[Array, "known tokens 2 width"]]:
        """Return the tokens after this layer, and the keys and values of cached and new steps."""
        dense = functools.partial(nn.Dense, dtype=self.dtype)
        query, pairs = jnp.split(
            dense(3 * self.width, name="look")(normal(tokens)),
            [self.width],
            -1,
        )
        pairs = pairs.reshape(*pairs.shape[:-1], 2, self.width)
        pairs = pairs if cached is None else jnp.concatenate([cached, pairs])
        age = self.param("age", nn.initializers.zeros_init(), (self.num_heads, self.context))
        found = attended(query, pairs, seen, age)
        tokens = tokens + dense(self.width, name="found")(found)
        inner = nn.gelu(dense(EXPANSION * self.width)(normal(tokens)))
        return tokens + dense(self.width)(inner), pairs


def normal(tokens: Float[Array, "steps tokens width"]) -> Float[Array, "steps tokens width"]:
    """Normalise tokens to mean 0 and variance 1 in float32.

    Learned scales are not needed, as a dense layer follows.
    """
    return jax.nn.standardize(tokens.astype(jnp.float32)).astype(tokens.dtype)


def attended(
    query: Float[Array, "steps tokens width"],
    pairs: Float[Array, "known tokens 2 width"],
    seen: Bool[Array, "steps known"],
    age: Float32[Array, "heads context"],
) -> Float[Array, "steps tokens width"]:
    """Return multi-head attention of each token over all tokens of the steps in `seen`.

    Queries belong to the last `steps` of the known steps. `age` is a learned bias that is added to
    the score of a step according to how many steps ago it was.
    """
    steps, count, width = query.shape
    known, heads = len(pairs), len(age)
    size = width // heads
    query = query.reshape(steps, count, heads, size)
    key, value = (pairs[:, :, i].reshape(known, count, heads, size) for i in (0, 1))
    scores = jnp.einsum("tlhd,smhd->htlsm", query, key).astype(jnp.float32) / np.float32(size**0.5)
    ago = np.arange(steps, dtype=np.int32)[:, None] + (known - steps) - np.arange(known)
    since = age[:, np.clip(ago, 0, age.shape[1] - 1)]
    since = jnp.where(seen, since, NEVER)[:, :, None, :, None]
    shares = nn.softmax((scores + since).reshape(heads, steps, count, -1)).astype(query.dtype)
    shares = shares.reshape(scores.shape)
    return jnp.einsum("htlsm,smhd->tlhd", shares, value).reshape(steps, count, width)


def block_causal(over: Bool[Array, " steps"]) -> Bool[Array, "steps steps"]:
    """Return which steps each step attends to: itself and earlier ones of its episode."""
    ends = jnp.cumsum(over, dtype=jnp.int32)
    episode = jnp.concatenate([jnp.zeros(1, jnp.int32), ends[:-1]])
    is_past = np.tri(len(over), dtype=np.bool_)
    return (episode[:, None] == episode) & is_past


def most(sizes: tuple[int, ...]) -> int:
    """Return the largest number of categories."""
    return max(sizes, default=1)


def one_hot(
    numbers: Int32[Array, "*batch parts"], sizes: tuple[int, ...], dtype: Any
) -> Shaped[Array, "*batch features"]:
    """Return the concatenated one-hot vectors of numbers; `sizes` are their category counts."""
    parts = [
        jax.nn.one_hot(numbers[..., i], size, dtype=dtype) for i, size in enumerate(sizes)
    ] or [jnp.zeros((*numbers.shape[:-1], 0), dtype)]
    return jnp.concatenate(parts, axis=-1)


def possible(
    logits: Float[Array, "*batch features"], sizes: tuple[int, ...]
) -> Float32[Array, "*batch parts categories"]:
    """Split logits by number; entries beyond a number's count of categories are `NEVER`."""
    logits = logits.reshape(*logits.shape[:-1], len(sizes), most(sizes)).astype(jnp.float32)
    there = np.arange(most(sizes)) < np.array(sizes, np.int32).reshape(-1, 1)
    return jnp.where(there, logits, NEVER)


def log_likelihood(
    logits: Float32[Array, "*batch parts categories"], number: Int32[Array, "*batch parts"]
) -> Float32[Array, "*batch"]:
    """Return the logarithm of the joint probability of numbers."""
    log_probs = jax.nn.log_softmax(logits)
    is_it = number[..., None] == jnp.arange(logits.shape[-1], dtype=jnp.int32)
    return jnp.where(is_it, log_probs, 0.0).sum(axis=(-1, -2))
