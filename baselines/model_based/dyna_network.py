"""Transformer that predicts a step of an environment with map observations.

An observation is encoded as one token per map cell, and a last token for all values outside the
map, such as item counts. The code calls these values `rest` or numbers. The output at a cell's
token predicts the categories of this cell in the next observation, and the output at the last token
predicts the numbers. A token attends to all tokens of the current step and of earlier steps in the
episode. This block-causal attention (block teacher forcing; Dedieu et al., 2025) makes an imagined
step a single forward pass.

The token of a cell also encodes the eight neighbouring cells, on which most changes depend. The
last token also encodes a summary of the whole episode (`History`), and termination is predicted
from this token. The reward is predicted from the last token, the summary, and the item counts
before and after the step. For example, collecting wood is rewarded only the first time in an
episode: the item counts show that wood was collected, and the summary shows whether it was
collected before. Legal actions are predicted from the current observation alone, because a mask of
legal actions is a function of the state.
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

NEVER = -1e9  # logit of an impossible category, and attention score of a masked token
EXPANSION = 4  # hidden width of a block's dense layers, as a multiple of the token width


class Prediction(NamedTuple):
    """Predictions of the model for one environment step, or for successive steps."""

    # For each cell of the map and each of its channels, logits over the values (categories) that it
    # can have in the next observation.
    cells: Float32[Array, "*steps cells channels categories"]
    # For each number of the next observation outside the map, such as an item count, logits over
    # the values (categories) that it can have.
    rest: Float32[Array, "*steps numbers categories"]
    end: Float32[Array, "*steps"]  # logit of the probability that the step terminates the episode
    # features of the last token, from which the method `reward` predicts the reward
    token: Float[Array, "*steps width"]


class History(NamedTuple):
    """Summary of an episode up to the current observation, an input of the model.

    An observation consists of map cells, and of numbers outside the map, such as item counts. Cells
    and numbers have finitely many possible values, which are called categories.
    """

    # Whether each value (category) has occurred in the episode so far. The first entries are the
    # values of map cells, channel by channel: True if any cell has had the value. Then come the
    # values of the other numbers, number by number.
    shown: Bool[Array, "*batch categories"]
    # for each action, sum of the rewards in the steps of the episode that took this action
    gained: Float32[Array, "*batch actions"]

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
    """Return a mask of all possible values (categories), True for values that occur in `obs`.

    The values are in the order of the field `shown` of a `History`.
    """
    cells, rest = vocabulary.read(obs)
    of_cells = one_hot(cells.reshape(-1, cells.shape[-1]), vocabulary.cells, jnp.bool_)
    return jnp.concatenate([of_cells.any(axis=0), one_hot(rest, vocabulary.rest, jnp.bool_)])


class WorldTransformer(nn.Module):
    """Dyna's model of an environment, for a single episode; use `vmap` for a batch."""

    vocabulary: Vocabulary
    num_actions: int
    context: int  # number of steps that each layer attends to, including the current one
    width: int  # number of features of each token
    num_heads: int  # number of attention heads
    depth: int  # number of layers
    atoms: int  # number of atoms on either side of 0 in the two-hot encoding of rewards
    dtype: Any = jnp.float32  # dtype of the activations

    def setup(self) -> None:
        """Create the layers and the learned embedding of token positions."""
        rows, columns = self.vocabulary.map
        dense = functools.partial(nn.Dense, dtype=self.dtype)
        self.cell, self.around = dense(self.width // 4, use_bias=False), dense(self.width)
        self.taken = dense(self.width, use_bias=False)
        self.before = dense(self.width)
        # If observations have no values besides the map, omit the layers for these values: Flax
        # does not allow layers without inputs or outputs.
        if self.vocabulary.rest:
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
        """Return the predictions for up to `context` successive steps, and logits of legal actions.

        The sigmoid of an action's logit is the predicted probability that the action is legal at a
        step. `over` is True at the last step of an episode; steps of later episodes do not attend
        to this episode.
        """
        seen = block_causal(over)
        tokens = self.tokens(cells, rest, history, action)
        for layer in self.layers:
            tokens, _ = layer(tokens, None, seen)
        predicted = self.heads(tokens)
        # Flax creates the weights of a layer at its first call, so call the layers of `reward` too.
        if self.is_initializing():
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
        """Return the key-value cache `memory` after one more step, and the step's predictions.

        The cache has room for `context` - 1 steps. If it is full, the oldest step is dropped.
        """
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
        """Return the model's initial recurrent state: an empty key-value cache for each layer."""
        rows, columns = self.vocabulary.map
        shape = (self.depth, self.context - 1, rows * columns + 1, 2, self.width)
        return {"pairs": jnp.zeros(shape, jnp.float32), "length": jnp.int32(0)}

    def tokens(
        self, cells: Array, rest: Array, history: History, action: Array
    ) -> Float[Array, "steps tokens width"]:
        """Return the tokens of successive steps.

        A step has one token per map cell, row by row. The last token encodes the observation's
        values outside the map (`rest`) and the history. An embedding of the action is added to
        every token.
        """
        around = self.around(self.neighbours(cells))
        numbers = self.before(jnp.concatenate(self.so_far(history), axis=-1))[:, None]
        if self.vocabulary.rest:
            numbers += self.numbers(one_hot(rest, self.vocabulary.rest, self.dtype))[:, None]
        taken = self.taken(jax.nn.one_hot(action, self.num_actions, dtype=self.dtype))
        tokens = jnp.concatenate([around, numbers], axis=1)
        return tokens + taken[:, None] + self.place.astype(self.dtype)

    def neighbours(self, cells: Array) -> Float[Array, "steps cells features"]:
        """Return features of each cell and its eight neighbours; neighbours off the map give 0."""
        room = ((0, 0), (1, 1), (1, 1), (0, 0))
        found = jax.vmap(neighbourhoods)(jnp.pad(self.embedded(cells), room))
        return found.reshape(len(cells), -1, found.shape[-1])

    def embedded(self, cells: Int32[Array, "*map channels"]) -> Float[Array, "*map features"]:
        """Return learned features of each map cell, computed from the cell's own values only."""
        rows = cells.reshape(-1, cells.shape[-1])
        features = self.cell(one_hot(rows, self.vocabulary.cells, self.dtype))
        return features.reshape(*cells.shape[:-1], -1)

    def heads(self, tokens: Float[Array, "steps tokens width"]) -> Prediction:
        """Return the predictions for each step, from the tokens after the last layer."""
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
        """Predict the reward of a step: return logits over the atoms of a two-hot encoding.

        two_hot.py describes the encoding. `token` is the field `token` of the step's `Prediction`.
        `rest` and `next_rest` are the values outside the map (such as item counts) in the
        observations before and after the step. Where `terminated`, there is no next observation,
        and `next_rest` is ignored.
        """
        before, after = (one_hot(x, self.vocabulary.rest, self.dtype) for x in (rest, next_rest))
        after = jnp.where(terminated[..., None], 0, after)
        hidden, earned = self.earns
        parts = [token, before, after, *self.so_far(history)]
        return earned(nn.gelu(hidden(jnp.concatenate(parts, axis=-1)))).astype(jnp.float32)

    def so_far(self, history: History) -> tuple[Array, Array]:
        """Convert the fields `shown` and `gained` of a history to float inputs of a layer.

        The sums of rewards in `gained` are compressed by the function h of two_hot.py.
        """
        gained = two_hot.squeezed(history.gained)
        return history.shown.astype(self.dtype), gained.astype(self.dtype)

    def allowed(self, cells: Array, rest: Array) -> Float32[Array, " actions"]:
        """Return the logit of the probability that each action is legal at this observation."""
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
        """Return the tokens after this layer, and the keys and values of the cached and new steps.

        `cached` holds the keys and values of earlier steps, or is None. `seen` is the attention
        mask, with a row per new step and a column per cached or new step. It is True where the step
        of the row attends to the step of the column.
        """
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
    """Normalise each token to mean 0 and variance 1, computed in float32.

    Unlike `nn.LayerNorm`, the function has no learned scale and bias, because a dense layer always
    follows.
    """
    return jax.nn.standardize(tokens.astype(jnp.float32)).astype(tokens.dtype)


def attended(
    query: Float[Array, "steps tokens width"],
    pairs: Float[Array, "known tokens 2 width"],
    seen: Bool[Array, "steps known"],
    age: Float32[Array, "heads context"],
) -> Float[Array, "steps tokens width"]:
    """Return the multi-head attention output of each token.

    A token attends to all tokens of those steps for which the mask `seen` (query step, key step) is
    True. `pairs` holds the keys and values of `known` successive steps. `query` holds the queries
    of the last `steps` steps among them. `age[head, n]` is a learned bias, which is added to the
    attention scores of keys from n steps ago.
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
    """Return an attention mask (query step, key step) for successive steps.

    `over` is True at the last step of an episode. Each step attends to itself and to the earlier
    steps of the same episode.
    """
    ends = jnp.cumsum(over, dtype=jnp.int32)
    episode = jnp.concatenate([jnp.zeros(1, jnp.int32), ends[:-1]])
    is_past = np.tri(len(over), dtype=np.bool_)
    return (episode[:, None] == episode) & is_past


def most(sizes: tuple[int, ...]) -> int:
    """Return the largest of `sizes`, or 1 if `sizes` is empty.

    `sizes[i]` is the number of values (categories) that the i-th number of an observation can have.
    """
    return max(sizes, default=1)


def one_hot(
    numbers: Int32[Array, "*batch parts"], sizes: tuple[int, ...], dtype: Any
) -> Shaped[Array, "*batch features"]:
    """Encode each number in the last axis as a one-hot vector, and concatenate the vectors.

    `sizes[i]` is the number of values (categories) of number i, and the length of its vector.
    """
    parts = [
        jax.nn.one_hot(numbers[..., i], size, dtype=dtype) for i, size in enumerate(sizes)
    ] or [jnp.zeros((*numbers.shape[:-1], 0), dtype)]
    return jnp.concatenate(parts, axis=-1)


def possible(
    logits: Float[Array, "*batch features"], sizes: tuple[int, ...]
) -> Float32[Array, "*batch parts categories"]:
    """Split a layer's output into logits for each predicted number of an observation.

    Number i has `sizes[i]` possible values. The last axis of the result has the largest of `sizes`;
    numbers with fewer values are padded with the logit `NEVER`.
    """
    logits = logits.reshape(*logits.shape[:-1], len(sizes), most(sizes)).astype(jnp.float32)
    there = np.arange(most(sizes)) < np.array(sizes, np.int32).reshape(-1, 1)
    return jnp.where(there, logits, NEVER)


def log_likelihood(
    logits: Float32[Array, "*batch parts categories"], number: Int32[Array, "*batch parts"]
) -> Float32[Array, "*batch"]:
    """Return the log-probability that the predicted distributions assign to the values `number`.

    The last axis of `number` holds numbers that are predicted independently, so their
    log-probabilities are summed.
    """
    log_probs = jax.nn.log_softmax(logits)
    is_it = number[..., None] == jnp.arange(logits.shape[-1], dtype=jnp.int32)
    return jnp.where(is_it, log_probs, 0.0).sum(axis=(-1, -2))
