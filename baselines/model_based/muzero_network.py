"""Networks of MuZero: representation, dynamics and prediction functions.

Hidden layers and latent states are normalised, so each latent state has mean 0 and standard
deviation 1 over its components.

If the setting `lines` is not 0, the latent state of a square board consists of a vector per cell
(`BoardNetwork`). The dynamics function updates all rows with one set of weights and all columns
with another, so a move's effect, learned in one row, applies to every row. The policy and value
heads, whose layers have the widths `hidden`, read all rows and columns with the same weights. If
`codes` is not 0, an afterstate also has a vector per cell, but the layers that predict chance
outcomes and values from an afterstate read all cells as one vector.
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

from ..core.learner import Learner
from ..networks import two_hot
from ..networks.encoders import expand, lines
from ..networks.layers import dense
from ..networks.policies import Network


class MuZeroNetwork(Network):
    """Representation, dynamics and prediction networks for vector latent states."""

    latent: int = 64  # size of a latent state
    atoms: int = 100  # number of reward and value atoms on either side of 0, see two_hot.py
    spacing: float = 0.2  # distance between neighbouring atoms, after the transform h of two_hot.py
    codes: int = 0  # number of chance outcomes; 0: a deterministic model
    activation: str = "relu"

    def setup(self) -> None:
        """Create the layers."""
        self.create_encoder()
        self.dynamics = self.transition_layers()
        count = 2 * self.atoms + 1
        self.reward, self.value = dense(count, 0.0), dense(count, 0.0)
        self.policy = dense(self.num_actions, 0.01)
        self.projections = [dense(self.latent, np.sqrt(2), self.dtype) for _ in range(2)]
        self.foresight = [dense(self.latent, np.sqrt(2), self.dtype) for _ in range(2)]
        if self.codes:
            self.outcomes = self.transition_layers()
            self.outlook = dense(self.latent, np.sqrt(2), self.dtype)
            self.likely, self.after_value = dense(self.codes, 0.0), dense(count, 0.0)
            self.compare, self.code = (
                dense(self.latent, np.sqrt(2), self.dtype),
                dense(self.codes, 1.0),
            )

    def create_encoder(self) -> None:
        """Create the layers of the representation function, and the first layers of the heads."""
        self.encoder = self.encoder_of(self.observation_space)
        self.layers = [dense(width, np.sqrt(2), self.dtype) for width in self.hidden]
        self.represented = dense(self.latent, 1.0, self.dtype)
        self.heads = [dense(self.latent, np.sqrt(2), self.dtype) for _ in range(2)]

    def transition_layers(self) -> Any:
        """Create the layers that update a latent state for an action or a chance outcome."""
        return [dense(self.latent, np.sqrt(2), self.dtype) for _ in range(2)]

    def __call__(self, obs: PyTree[Array]) -> tuple[Float32[Array, " actions"], Array]:
        latent = self.represent(obs)
        if self.is_initializing():
            action = jnp.int32(0)
            if self.codes:
                after = self.afterstate(latent, action)
                self.predict_afterstate(after)
                code = self.encode_chance(after, latent)
                next_latent, _ = self.chance_transition(after, code)
            else:
                next_latent, _ = self.transition(latent, action)
            self.create_auxiliary(next_latent)
        logits, value = self.predict(latent)
        return logits, self.number(value)

    def number(self, logits: Float[Array, "*batch atoms"]) -> Float32[Array, "*batch"]:
        """Return the reward or value that logits over atoms encode (see two_hot.py)."""
        return two_hot.mean(logits, self.spacing)

    def cross_entropy(
        self, logits: Float[Array, "*batch atoms"], number: Float[Array, "*batch"]
    ) -> Float32[Array, "*batch"]:
        """Return the cross-entropy of `logits` with the two-hot encoding of `number`.

        `number` holds rewards or values.
        """
        return two_hot.cross_entropy(logits, number, self.spacing)

    def of_batch(self, weights: PyTree[Array], method: str, *given: PyTree[Array]) -> Any:
        """Call the method named `method` for each item of a batch; return the batch of results."""
        call: Any = functools.partial(self.apply, weights, method=method)
        return jax.vmap(call)(*given)

    def represent(self, obs: PyTree[Array]) -> Float32[Array, " latent"]:
        """Return the latent state of an observation (MuZero's function h)."""
        features = self.encoder(self.read(obs))
        for layer in self.layers:
            features = self.activate(standard(layer(features)))
        return standard(self.represented(features)).astype(jnp.float32)

    def transition(
        self, latent: Float32[Array, " latent"], action: Int32[Array, ""]
    ) -> tuple[Float32[Array, " latent"], Float32[Array, " atoms"]]:
        """Return the next latent state and the reward's logits after an action (MuZero's g)."""
        next_latent, features = self.change(self.dynamics, latent, self.one_hot(action))
        return next_latent, self.reward(features)

    def afterstate(
        self, latent: Float32[Array, " latent"], action: Int32[Array, ""]
    ) -> Float32[Array, " latent"]:
        """Return the afterstate: the latent state after an action, before its chance outcome."""
        return self.change(self.dynamics, latent, self.one_hot(action))[0]

    def one_hot(self, action: Int32[Array, ""]) -> Float32[Array, " actions"]:
        """Return an action as a one-hot vector."""
        return jax.nn.one_hot(action, self.num_actions, dtype=jnp.float32)

    def chance_transition(
        self, after: Float32[Array, " latent"], code: Float32[Array, " codes"]
    ) -> tuple[Float32[Array, " latent"], Float32[Array, " atoms"]]:
        """Return the latent state and the reward's logits after a chance outcome."""
        next_latent, features = self.change(self.outcomes, after, code)
        return next_latent, self.reward(features)

    def change(
        self, layers: Any, latent: Array, cause: Float32[Array, " causes"]
    ) -> tuple[Float32[Array, " latent"], Float[Array, " latent"]]:
        """Update a latent state for `cause`, a one-hot action or chance code.

        Also return the features from which the reward is predicted.
        """
        # Scale the one-hot vector to the norm of `latent`.
        cause = cause * np.float32(np.sqrt(self.latent))
        features = jnp.concatenate([latent, cause]).astype(self.dtype)
        first, second = layers
        features = self.activate(standard(first(features)))
        return standard(latent + second(features).astype(jnp.float32)), features

    def predict_afterstate(
        self, after: Float32[Array, " latent"]
    ) -> tuple[Float32[Array, " codes"], Float32[Array, " atoms"]]:
        """Return the logits of the chance codes, and of the value, at an afterstate."""
        features = self.activate(standard(self.outlook(after.astype(self.dtype))))
        return self.likely(features), self.after_value(features)

    def encode_chance(
        self, after: Float32[Array, " latent"], next_latent: Float32[Array, " latent"]
    ) -> Float32[Array, " codes"]:
        """Return the probability of each chance code, given an afterstate and the state after it.

        Both are latent states. Only training uses this encoder, because a search does not know the
        true next state.
        """
        features = jnp.concatenate([after, next_latent]).astype(self.dtype)
        return jax.nn.softmax(self.code(self.activate(standard(self.compare(features)))))

    def predict(
        self, latent: Float32[Array, " latent"]
    ) -> tuple[Float32[Array, " actions"], Float32[Array, " atoms"]]:
        """Return the policy's and the value's logits for a latent state (MuZero's function f)."""
        policy, value = self.head_features(latent.astype(self.dtype))
        return self.policy(policy), self.value(value)

    def head_features(self, latent: Float[Array, " latent"]) -> tuple[Array, ...]:
        """Return two feature vectors of a latent state: for the policy and for the value."""
        return tuple(self.activate(standard(head(latent))) for head in self.heads)

    def create_auxiliary(self, latent: Float32[Array, " latent"]) -> None:
        """Call all layers that only auxiliary losses use, so that Flax creates their weights."""
        self.predict_projection(latent)

    def project(self, latent: Float32[Array, " latent"]) -> Float32[Array, " latent"]:
        """Return the projection of a latent state; the consistency loss compares projections."""
        first, second = self.projections
        return second(self.activate(standard(first(latent.astype(self.dtype))))).astype(jnp.float32)

    def predict_projection(self, latent: Float32[Array, " latent"]) -> Float32[Array, " latent"]:
        """Predict, from a latent state of the model, the projection of the true latent state.

        The true latent state is the encoding of the true observation. The consistency loss compares
        this prediction with `project(true latent state)`.
        """
        first, second = self.foresight
        features = self.project(latent).astype(self.dtype)
        return second(self.activate(standard(first(features)))).astype(jnp.float32)


MuZeroLearner = Learner[Any, MuZeroNetwork]


class BoardNetwork(MuZeroNetwork):
    """MuZero's networks for a square board; the latent state has a vector for each cell."""

    @classmethod
    def of(cls, env: Any, hidden: Sequence[int], embed: int, **more: Any) -> Any:
        """Return the network for the environment `env`.

        Raises `ValueError` if `lines` is 1, or `latent` is not a multiple of the number of cells.
        """
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
        """Observation space, typed as a `Box`."""
        return cast("spaces.Box", self.observation_space)

    @property
    def side(self) -> int:
        """Side length of the board, in cells."""
        return self.board.shape[0]

    @property
    def categories(self) -> int:
        """Number of different values that a cell of the board can have in an observation."""
        return int(self.board.high.max()) - int(self.board.low.min()) + 1

    def create_encoder(self) -> None:
        """Create the encoder of the board's cells, and the layers that read latent states.

        These layers compute the features of the policy and value heads, and predict the board's
        cells for the reconstruction loss.
        """
        self.encoder = dense(self.latent // self.side**2, 1.0, self.dtype)
        self.lined = dense(self.lines, np.sqrt(2), self.dtype)
        self.category = dense(self.categories, 1.0)
        self.layers = [dense(width, np.sqrt(2), self.dtype) for width in self.hidden]

    def transition_layers(self) -> Any:
        """Create the layers that update a latent state for an action or a chance outcome."""
        return LineMoves(self.side, self.lines, self.activate, self.dtype)

    def represent(self, obs: PyTree[Array]) -> Float32[Array, " latent"]:
        """Return the latent state of an observation (MuZero's function h)."""
        cells = expand(self.board, self.read(obs), self.dtype)
        cells = cells.reshape(self.side, self.side, -1)
        return standard(self.encoder(cells).reshape(-1)).astype(jnp.float32)

    def change(
        self, layers: Any, latent: Array, cause: Float32[Array, " causes"]
    ) -> tuple[Float32[Array, " latent"], Float[Array, " features"]]:
        """Update a latent state for `cause`, a one-hot action or chance code.

        Also return the features from which the reward is predicted.
        """
        change, features = layers(latent.astype(self.dtype), cause.astype(self.dtype))
        return standard(latent + change.astype(jnp.float32)), features

    def create_auxiliary(self, latent: Float32[Array, " latent"]) -> None:
        """Apply the layers that only auxiliary losses use, so that Flax creates their weights."""
        self.predict_projection(latent)
        self.cell_logits(latent)

    def cell_logits(self, latent: Float32[Array, " latent"]) -> Float32[Array, "cells categories"]:
        """Predict the board from a latent state: return logits over the values of each cell.

        Index 0 of the last axis is the lowest value that a cell can have.
        """
        return self.category(latent.reshape(self.side**2, -1))

    def reconstruction_loss(
        self, latent: Float32[Array, " latent"], obs: PyTree[Array]
    ) -> Float32[Array, ""]:
        """Return the cross-entropy of the board that `latent` predicts with the board in `obs`.

        The cross-entropy is averaged over the board's cells.
        """
        low = int(self.board.low.min())
        found = self.read(obs).astype(jnp.int32).reshape(-1) - low
        is_it = jax.nn.one_hot(found, self.categories, dtype=jnp.float32)
        return -(is_it * jax.nn.log_softmax(self.cell_logits(latent))).sum(axis=-1).mean()

    def head_features(self, latent: Float[Array, " latent"]) -> tuple[Array, ...]:
        """Return two feature vectors of a latent state: for the policy and for the value."""
        cells = latent.reshape(self.side, self.side, -1)
        features = self.activate(self.lined(lines(cells))).reshape(-1)
        for layer in self.layers:
            features = self.activate(standard(layer(features)))
        return features, features


class LineMoves(nn.Module):
    """Layers that compute how an action or a chance code changes a board's latent state.

    The change of a cell is the sum of a term from the features of its row and a term from the
    features of its column. All rows share the weights that compute their features, and so do all
    columns. These weights are separate for each action or chance code.
    """

    side: int  # side length of the board, in cells
    width: int  # number of features of each row or column
    activate: Callable[[Array], Array]
    dtype: Any

    @nn.compact
    def __call__(
        self, latent: Float[Array, " latent"], cause: Float[Array, " causes"]
    ) -> tuple[Float[Array, " latent"], Float[Array, " features"]]:
        """Return the change of the latent state, and features for the reward prediction."""
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
    """Normalise features to mean 0 and standard deviation 1, without learned weights."""
    return jax.nn.standardize(x.astype(jnp.float32)).astype(x.dtype)
