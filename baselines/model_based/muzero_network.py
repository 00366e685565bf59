"""The networks of MuZero: what is seen as a latent state, the next one, what both are worth.

Layers and latent states are normalised: the latter have mean 0 and standard deviation 1.

With `lines`, the latent state of a square board is one too: a vector for each cell, made of what
the cell shows (`BoardNetwork`). All rows are moved by the same weights, and all columns by others;
the heads, whose layers are `hidden`, read both by the same. A vector for the whole board would have
to learn of each line by itself what a move does to it. With `codes` afterstates are boards too, but
the layers that expect chance and value read such a board as one vector.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, cast

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, Int32, PyTree

from jaxenvs import spaces

from ..networks import two_hot
from ..networks.encoders import expand, lines
from ..networks.layers import dense
from ..networks.policies import Network


class MuZeroNetwork(Network):
    """Representation, dynamics and prediction; the policy is that of the latent state alone."""

    latent: int = 64  # numbers of a latent state
    atoms: int = 100  # of rewards and values on either side of 0, see two_hot.py
    spacing: float = 0.2  # of the atoms
    codes: int = 0  # outcomes of chance; 0: there is none
    activation: str = "relu"

    def setup(self) -> None:
        """Name the parts."""
        self.name_parts()
        self.dynamics = self.moves()
        count = 2 * self.atoms + 1
        self.reward, self.value = dense(count, 0.0), dense(count, 0.0)
        self.policy = dense(self.num_actions, 0.01)
        self.projections = [dense(self.latent, np.sqrt(2), self.dtype) for _ in range(2)]
        self.foresight = [dense(self.latent, np.sqrt(2), self.dtype) for _ in range(2)]
        if self.codes:
            self.outcomes = self.moves()
            self.outlook = dense(self.latent, np.sqrt(2), self.dtype)
            self.likely, self.after_value = dense(self.codes, 0.0), dense(count, 0.0)
            self.compare, self.code = (
                dense(self.latent, np.sqrt(2), self.dtype),
                dense(self.codes, 1.0),
            )

    def name_parts(self) -> None:
        """Name the parts that read observations and latent states."""
        self.encoder = self.encoder_of(self.observation_space)
        self.layers = [dense(width, np.sqrt(2), self.dtype) for width in self.hidden]
        self.represented = dense(self.latent, 1.0, self.dtype)
        self.heads = [dense(self.latent, np.sqrt(2), self.dtype) for _ in range(2)]

    def moves(self) -> Any:
        """Layers that move a latent state."""
        return [dense(self.latent, np.sqrt(2), self.dtype) for _ in range(2)]

    def __call__(self, obs: PyTree[Array]) -> tuple[Float32[Array, " actions"], Array]:
        latent = self.represent(obs)
        if self.is_initializing():
            action = jnp.int32(0)
            if self.codes:
                after = self.act(latent, action)
                self.expect(after)
                following, _ = self.happen(after, self.coded(after, latent))
            else:
                following, _ = self.imagine(latent, action)
            self.auxiliary(following)
        logits, value = self.predict(latent)
        return logits, self.number(value)

    def number(self, logits: Float[Array, "*batch atoms"]) -> Float32[Array, "*batch"]:
        """The number that a distribution of rewards or values stands for."""
        return two_hot.mean(logits, self.spacing)

    def cross_entropy(
        self, logits: Float[Array, "*batch atoms"], number: Float[Array, "*batch"]
    ) -> Float32[Array, "*batch"]:
        """Of distributions of rewards or values with those of the true numbers."""
        return two_hot.cross_entropy(logits, number, self.spacing)

    def of_batch(self, weights: PyTree[Array], method: str, *given: PyTree[Array]) -> Any:
        """What a method says of each of a batch of arguments."""
        call: Any = functools.partial(self.apply, weights, method=method)
        return jax.vmap(call)(*given)

    def represent(self, obs: PyTree[Array]) -> Float32[Array, " latent"]:
        """The latent state of an observation."""
        features = self.encoder(self.read(obs))
        for layer in self.layers:
            features = self.activate(standard(layer(features)))
        return standard(self.represented(features)).astype(jnp.float32)

    def imagine(
        self, latent: Float32[Array, " latent"], action: Int32[Array, ""]
    ) -> tuple[Float32[Array, " latent"], Float32[Array, " atoms"]]:
        """The latent state after an action, and the distribution of its reward."""
        following, features = self.moved(self.dynamics, latent, self.taken(action))
        return following, self.reward(features)

    def act(
        self, latent: Float32[Array, " latent"], action: Int32[Array, ""]
    ) -> Float32[Array, " latent"]:
        """The afterstate of an action, before chance."""
        return self.moved(self.dynamics, latent, self.taken(action))[0]

    def taken(self, action: Int32[Array, ""]) -> Float32[Array, " actions"]:
        """An action as a vector."""
        return jax.nn.one_hot(action, self.num_actions, dtype=jnp.float32)

    def happen(
        self, after: Float32[Array, " latent"], code: Float32[Array, " codes"]
    ) -> tuple[Float32[Array, " latent"], Float32[Array, " atoms"]]:
        """The latent state after chance, and the distribution of the reward."""
        following, features = self.moved(self.outcomes, after, code)
        return following, self.reward(features)

    def moved(
        self, layers: Any, latent: Array, cause: Float32[Array, " causes"]
    ) -> tuple[Float32[Array, " latent"], Float[Array, " latent"]]:
        """The latent state that a cause makes of another one, and features of both."""
        cause = cause * np.float32(np.sqrt(self.latent))  # as long as they are, to matter as much
        features = jnp.concatenate([latent, cause]).astype(self.dtype)
        first, second = layers
        features = self.activate(standard(first(features)))
        return standard(latent + second(features).astype(jnp.float32)), features

    def expect(
        self, after: Float32[Array, " latent"]
    ) -> tuple[Float32[Array, " codes"], Float32[Array, " atoms"]]:
        """Logits of the codes of chance, and the distribution of the value of an afterstate."""
        features = self.activate(standard(self.outlook(after.astype(self.dtype))))
        return self.likely(features), self.after_value(features)

    def coded(
        self, after: Float32[Array, " latent"], following: Float32[Array, " latent"]
    ) -> Float32[Array, " codes"]:
        """Probabilities of the codes of what made a latent state follow an afterstate."""
        features = jnp.concatenate([after, following]).astype(self.dtype)
        return jax.nn.softmax(self.code(self.activate(standard(self.compare(features)))))

    def predict(
        self, latent: Float32[Array, " latent"]
    ) -> tuple[Float32[Array, " actions"], Float32[Array, " atoms"]]:
        """Logits of the actions, and the distribution of the value."""
        policy, value = self.looked_at(latent.astype(self.dtype))
        return self.policy(policy), self.value(value)

    def looked_at(self, latent: Float[Array, " latent"]) -> tuple[Array, ...]:
        """Features of a latent state for the policy and for the value."""
        return tuple(self.activate(standard(head(latent))) for head in self.heads)

    def auxiliary(self, latent: Float32[Array, " latent"]) -> None:
        """Make the weights of what losses alone ask of an imagined latent state."""
        self.foreseen(latent)

    def projected(self, latent: Float32[Array, " latent"]) -> Float32[Array, " latent"]:
        """What two latent states of the same moment should agree about."""
        first, second = self.projections
        return second(self.activate(standard(first(latent.astype(self.dtype))))).astype(jnp.float32)

    def foreseen(self, latent: Float32[Array, " latent"]) -> Float32[Array, " latent"]:
        """What an imagined latent state says of the projection of the true one."""
        first, second = self.foresight
        features = self.projected(latent).astype(self.dtype)
        return second(self.activate(standard(first(features)))).astype(jnp.float32)


class BoardNetwork(MuZeroNetwork):
    """The same for a square board, whose latent state has a vector for each cell."""

    @classmethod
    def of(cls, env: Any, hidden: Sequence[int], embed: int, **more: Any) -> Any:
        """Return the network; raises `ValueError` for numbers that lines or cells cannot have."""
        made = super().of(env, hidden, embed, **more)
        if made.lines == 1:
            raise ValueError(
                "lines=1 leaves a line one feature, which is 0 when normalised; give 2 or more, "
                "such as 64"
            )
        if made.latent % (cells := made.side**2):
            raise ValueError(
                f"latent={made.latent} does not divide evenly among the {cells} cells of "
                f"{env.name}; give a multiple of {cells}, such as {16 * cells}"
            )
        return made

    @property
    def board(self) -> spaces.Box:
        """What is observed."""
        return cast("spaces.Box", self.observation_space)

    @property
    def side(self) -> int:
        """Cells of a row."""
        return self.board.shape[0]

    @property
    def categories(self) -> int:
        """How many things a cell can show."""
        return int(self.board.high.max()) - int(self.board.low.min()) + 1

    def name_parts(self) -> None:
        """Name the parts; the layers read the lines of latent states, not observations."""
        self.encoder = dense(self.latent // self.side**2, 1.0, self.dtype)
        self.lined = dense(self.lines, np.sqrt(2), self.dtype)
        self.category = dense(self.categories, 1.0)
        self.layers = [dense(width, np.sqrt(2), self.dtype) for width in self.hidden]

    def moves(self) -> Any:
        """Layers that move a latent state."""
        return LineMoves(self.side, self.lines, self.activate, self.dtype)

    def represent(self, obs: PyTree[Array]) -> Float32[Array, " latent"]:
        """The latent state of an observation."""
        cells = expand(self.board, self.read(obs), self.dtype)
        cells = cells.reshape(self.side, self.side, -1)
        return standard(self.encoder(cells).reshape(-1)).astype(jnp.float32)

    def moved(
        self, layers: Any, latent: Array, cause: Float32[Array, " causes"]
    ) -> tuple[Float32[Array, " latent"], Float[Array, " features"]]:
        """The latent state that a cause makes of another one, and features of both."""
        change, features = layers(latent.astype(self.dtype), cause.astype(self.dtype))
        return standard(latent + change.astype(jnp.float32)), features

    def auxiliary(self, latent: Float32[Array, " latent"]) -> None:
        """Make the weights of what losses alone ask of an imagined latent state."""
        self.foreseen(latent)
        self.shown(latent)

    def shown(self, latent: Float32[Array, " latent"]) -> Float32[Array, "cells categories"]:
        """Logits of what a latent state says that each cell shows."""
        return self.category(latent.reshape(self.side**2, -1))

    def surprise(self, latent: Float32[Array, " latent"], obs: PyTree[Array]) -> Float32[Array, ""]:
        """Mean cross-entropy, over the cells, of what they show with what a latent state says."""
        low = int(self.board.low.min())
        found = self.read(obs).astype(jnp.int32).reshape(-1) - low
        is_it = jax.nn.one_hot(found, self.categories, dtype=jnp.float32)
        return -(is_it * jax.nn.log_softmax(self.shown(latent))).sum(axis=-1).mean()

    def looked_at(self, latent: Float[Array, " latent"]) -> tuple[Array, ...]:
        """Features of a latent state for the policy and for the value."""
        cells = latent.reshape(self.side, self.side, -1)
        features = self.activate(self.lined(lines(cells))).reshape(-1)
        for layer in self.layers:
            features = self.activate(standard(layer(features)))
        return features, features


class LineMoves(nn.Module):
    """What a cause changes in the cells of a board: by rows, and by columns.

    Each cause has weights of its own for what it reads of a row, and of a column.
    """

    side: int  # cells of a row
    width: int  # features of a line
    activate: Callable[[Array], Array]
    dtype: Any

    @nn.compact
    def __call__(
        self, latent: Float[Array, " latent"], cause: Float[Array, " causes"]
    ) -> tuple[Float[Array, " latent"], Float[Array, " features"]]:
        """The change of each number, and features of all rows and columns."""
        cells, size = latent.reshape(self.side, self.side, -1), len(cause)
        across = jnp.split(lines(cells), 2)
        found, changes = [], []
        for name, part in zip(("rows", "columns"), across, strict=True):
            by_cause = dense(size * self.width, np.sqrt(2), self.dtype, name=name)(part)
            features = by_cause.reshape(self.side, size, self.width)
            features = jnp.einsum("lcf,c->lf", features, cause)
            features = self.activate(standard(features))
            change = dense(part.shape[1], np.sqrt(2), self.dtype, name=f"of_{name}")(features)
            changes.append(change.reshape(cells.shape))
            found.append(features.mean(axis=0))
        rows, columns = changes
        together = dense(2 * self.width, np.sqrt(2), self.dtype, name="both")
        features = self.activate(together(jnp.concatenate(found)))
        return (rows + columns.swapaxes(0, 1)).reshape(-1), features


def standard(x: Float[Array, "*rows features"]) -> Float[Array, "*rows features"]:
    """Features with mean 0 and standard deviation 1: layer normalisation without weights."""
    return jax.nn.standardize(x.astype(jnp.float32)).astype(x.dtype)
