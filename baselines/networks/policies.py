"""Policy networks for any registered environment, recurrent and feed-forward.

Users can subclass `Network` and train their class by the setting `network`, see `load_network`.
"""

import dataclasses
import functools
import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, PyTree

from jaxenvs import spaces
from jaxenvs.core import distributions
from jaxenvs.core.facts import identity
from jaxenvs.core.masking import Mask, legal

from ..core.learner import Reader
from ..core.recurrence import reset_memory
from .encoders import Encoder, embedded, is_board, is_map, leaves
from .layers import dense, joint_linear


class Network(nn.Module):
    """Base class of policy networks for one observation; `jax.vmap` it for a batch."""

    observation_space: spaces.Space
    # number of policy outputs: logits or, for a Box of actions, means and raw standard deviations
    num_actions: int
    hidden: Sequence[int]  # width of each hidden layer
    embed: int  # embedding size of each cell of a map; 0: cells are one-hot vectors
    # function that converts the environment's observation to an element of `observation_space`
    read: Reader = identity
    bfloat16: bool = False  # whether activations are bfloat16; weights and outputs are float32
    activation: str = "tanh"  # activation function of flax.linen
    conv: Sequence[int] = ()  # kernel size and features of each convolution, see `Encoder`
    # Number of features of each row and of each column of a square board, see `Encoder`; 0: none.
    lines: int = 0
    # Number of features of each cell's 3 x 3 neighbourhood, in networks of spatial.py; 0: none.
    neighbours: int = 0

    @property
    def activate(self) -> Callable[[Array], Array]:
        """Activation function between layers."""
        return getattr(nn, self.activation)

    @property
    def dtype(self) -> Any:
        """Dtype of the activations."""
        return jnp.bfloat16 if self.bfloat16 else jnp.float32

    @classmethod
    def of(cls, env: Any, hidden: Sequence[int], embed: int, **more: Any) -> Any:
        """Return the network for an `Env`, or for a Gymnasium environment (ray/gym_envs.py).

        Raises `ValueError` for an unsupported action space, for `conv` if observations contain no
        map or picture, and for `lines` if they contain no square board.
        """
        try:
            policy = distributions.of(env.action_space)
        except ValueError as error:
            raise ValueError(f"{env.name}: {error}") from error
        space, read = env.features
        made = cls(space, policy.outputs, tuple(hidden), embed, read, **more)
        if made.conv and not made.convolved:
            raise ValueError(
                f"conv={tuple(made.conv)}: {env.name} observes no map or picture to convolve; omit "
                f"it"
            )
        if made.lines and not made.boards:
            raise ValueError(
                f"lines={made.lines}: {env.name} observes no square board of categories; give "
                f"lines=0"
            )
        return made

    @property
    def boards(self) -> list[spaces.Space]:
        """Spaces of those entries of an observation that are square boards.

        If the setting `lines` is not 0, each row and each column of a board is encoded as a vector.
        """
        return [part for _, part in leaves(self.observation_space) if is_board(part)]

    @property
    def convolved(self) -> list[spaces.Space]:
        """Spaces of the maps and pictures in an observation; the layers `conv` encode them."""
        return [part for _, part in leaves(self.observation_space) if is_map(part, 1)]

    def encoder_of(self, space: spaces.Space, name: str | None = None) -> "Encoder":
        """Return the encoder that maps an observation in `space` to features."""
        return Encoder(space, self.embed, self.dtype, tuple(self.conv), self.lines, name=name)

    def begin(self) -> Any:
        """Return the recurrent state at the start of an episode: () for a feed-forward network."""
        return ()

    def think(
        self, weights: PyTree[Array], memory: Any, obs: PyTree[Array], mask: Mask
    ) -> tuple[Any, ...]:
        """Return the next recurrent state, logits of the legal actions, and the value."""
        outputs: Any = self.apply(weights, obs)
        logits, value = outputs
        return memory, legal(logits, mask), value

    def unroll(
        self, weights: PyTree[Array], memory: Any, obs: PyTree[Array], done: Bool[Array, " steps"]
    ) -> tuple[Any, ...]:
        """Return logits and values for successive observations (steps, ...) of one environment.

        `memory` is the recurrent state before the first observation. The recurrent state is reset
        after each step that is `done`.
        """

        def step(memory: Any, now: tuple[PyTree[Array], Array]) -> tuple[Any, tuple[Array, Array]]:
            obs, done = now
            memory, logits, value = self.think(weights, memory, obs, None)
            return reset_memory(memory, self.begin(), done), (logits, value)

        return jax.lax.scan(step, memory, (obs, done))[1]


class ActorCritic(Network):
    """Feed-forward actor-critic: an MLP whose output a policy head and a value head read."""

    value_gain: float = 1.0  # scale of the value head's initial weights; 0: initial values are 0

    @nn.compact
    def __call__(self, obs: PyTree[Array]) -> tuple[Float32[Array, " actions"], Float32[Array, ""]]:
        layers = [
            dense(width, scale, self.dtype, name=f"Dense_{i}")
            for i, (width, scale) in enumerate(
                [(width, np.sqrt(2)) for width in self.hidden]
                + [(self.num_actions, 0.01), (1, self.value_gain)]
            )
        ]
        *layers, policy, value = layers
        encoder = self.encoder_of(self.observation_space, name="Encoder_0")
        seen = self.read(obs)
        if self.is_initializing():
            features = encoder(seen)
            for layer in layers:
                features = self.activate(layer(features))
            return policy(features).astype(jnp.float32), value(features)[0].astype(jnp.float32)
        weights = self.variables["params"]
        if layers and not self.conv and is_map(self.observation_space, self.embed):
            embedding = weights["Encoder_0"]["Dense_0"]["kernel"]
            space: Any = self.observation_space  # a Box, because `is_map` is True
            first = weights["Dense_0"]
            features = self.activate(embedded(space, seen, embedding, first, self.dtype))
            layers = layers[1:]
        else:
            features = encoder(seen)
        for layer in layers:
            features = self.activate(layer(features))
        logits, values = joint_linear(
            features, *(weights[str(head.name)] for head in (policy, value))
        )
        return logits, values[0]


class Recurrent(Network):
    """Recurrent actor-critic: an MLP, a GRU (Cho et al., 2014), and policy and value heads.

    Other recurrent networks subclass it and override the methods `features`, `in_order`, `recall`,
    `heads` and `begin`; their recurrent state may be any pytree of arrays.
    """

    memory: int = 128  # size of the GRU's state

    def setup(self) -> None:
        """Create all layers. Flax needs this because several methods apply layers."""
        self.encoder = self.encoder_of(self.observation_space)
        self.layers = [dense(width, np.sqrt(2), self.dtype) for width in self.hidden]
        self.cell = nn.GRUCell(self.memory, dtype=self.dtype)
        self.policy, self.critic = dense(self.num_actions, 0.01), dense(1, 1.0)

    def __call__(self, obs: PyTree[Array], memory: Any = None) -> tuple[Any, ...]:
        seen = self.features(obs)
        memory = self.recall(self.begin() if memory is None else memory, seen)
        return memory, *self.heads(memory, seen)

    def features(self, obs: PyTree[Array]) -> Any:
        """Return features of one observation, which do not depend on the recurrent state.

        In this class the features are an array. Subclasses may return any pytree, which their
        `recall` and `heads` read.
        """
        features = self.encoder(self.read(obs))
        for layer in self.layers:
            features = self.activate(layer(features))
        return features

    def recall(self, memory: Any, features: Any) -> Any:
        """Return the recurrent state after one more observation."""
        # With bfloat16 activations, Flax's GRU adds them to the float32 recurrent state. JAX would
        # reject this sum if the user has set `jax_numpy_dtype_promotion` to "strict".
        with jax.numpy_dtype_promotion("standard"):
            return self.cell(memory, features)[0].astype(jnp.float32)

    def heads(self, memory: Any, seen: Any, *given: Any) -> tuple[Any, ...]:
        """Return logits and value.

        `memory` is the recurrent state after the current observation. `seen` are the features of
        the current observation, which only some subclasses use here.
        """
        return self.policy(memory), self.critic(memory)[0]

    def begin(self) -> Any:
        """Return the recurrent state at the start of an episode."""
        return jnp.zeros(self.memory, jnp.float32)

    def think(
        self, weights: PyTree[Array], memory: Any, obs: PyTree[Array], mask: Mask
    ) -> tuple[Any, ...]:
        """Return the next recurrent state, logits of the legal actions, and the value."""
        outputs: Any = self.apply(weights, obs, memory)
        memory, logits, value, *_ = outputs
        return memory, legal(logits, mask), value

    def unroll(
        self,
        weights: PyTree[Array],
        memory: PyTree[Array],
        obs: PyTree[Array],
        done: Bool[Array, " steps"],
        *given: PyTree[Array],
    ) -> tuple[Any, ...]:
        """Return the outputs of `heads` for successive observations (steps, ...) of an environment.

        `memory` is the recurrent state before the first observation. The recurrent state is reset
        after each step that is `done`. `given` are further inputs of `heads` (steps, ...). Only
        `recall_window` may run step by step; all other methods process all steps at once.
        """
        _, memories, features = self.remembered(weights, memory, obs, done)
        heads: Any = functools.partial(self.apply, weights, method="heads")
        return jax.vmap(heads)(memories, features, *given)

    def remembered(
        self,
        weights: PyTree[Array],
        memory: PyTree[Array],
        obs: PyTree[Array],
        done: Bool[Array, " steps"],
    ) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        """Return the recurrent states for successive observations of one environment.

        The result is a tuple: the recurrent state after the last step, reset if this step is
        `done`; the recurrent state after each step, before any reset; and the features that `heads`
        reads. `unroll` describes the arguments.
        """
        apply: Any = functools.partial(self.apply, weights)
        seen = jax.vmap(functools.partial(apply, method="features"))(obs)
        features = self.in_order(apply, memory, seen, done)
        return *self.recall_window(apply, memory, features, done), features

    def recall_window(
        self, apply: Any, memory: PyTree[Array], features: Any, done: Bool[Array, " steps"]
    ) -> tuple[PyTree[Array], PyTree[Array]]:
        """Return the recurrent state after a window of steps, and the states after each step.

        The state after the window is reset if its last step is `done`; the states after each step
        are those before any reset. `apply(*inputs, method=name)` calls a method of the network with
        its weights.
        """

        def remember(memory: PyTree[Array], now: tuple[Any, Array]) -> tuple[PyTree, PyTree]:
            features, done = now
            memory = apply(memory, features, method="recall")
            return reset_memory(memory, self.begin(), done), memory

        return jax.lax.scan(remember, memory, (features, done))

    def in_order(self, apply: Any, memory: PyTree, seen: PyTree, done: Array) -> PyTree[Array]:
        """Return the features of successive observations, as `recall` and `heads` read them.

        The features are `seen`, the results of the method `features`. Subclasses may add features
        that depend on earlier steps; `apply(*inputs, method=name)` calls a method of the network
        with its weights.
        """
        return seen


@dataclasses.dataclass(frozen=True)
class Separate:
    """Separate actor and critic networks of the same class.

    Each network has a policy head and a value head. The actor's value head and the critic's policy
    head are not used, and so never trained.
    """

    network: Network

    @property
    def observation_space(self) -> spaces.Space:
        """Space of the networks' input."""
        return self.network.observation_space

    @property
    def read(self) -> Callable[[Any], Any]:
        """Function that converts an observation to an element of `observation_space`."""
        return self.network.read

    def init(self, key: Array, obs: PyTree[Array]) -> PyTree[Array]:
        """Return the weights of both networks, as `{collection: {"actor": ..., "critic": ...}}`."""
        actor, critic = (self.network.init(key, obs) for key in jax.random.split(key))
        return {kind: {"actor": actor[kind], "critic": critic[kind]} for kind in actor}

    def begin(self) -> tuple[Any, Any]:
        """Return the recurrent states of actor and critic at the start of an episode."""
        return self.network.begin(), self.network.begin()

    def apply(self, weights: PyTree[Array], obs: PyTree[Array]) -> tuple[Array, Array]:
        """Return the actor's logits and the critic's value, for feed-forward networks."""
        outputs: Any = [self.network.apply(part, obs) for part in self._parts(weights)]
        return outputs[0][0], outputs[1][1]

    def think(self, weights: PyTree, memory: Any, obs: PyTree, mask: Mask) -> tuple[Any, ...]:
        """Return the next recurrent states, logits of the legal actions, and the value."""
        (actor, critic), (of_actor, of_critic) = self._parts(weights), memory
        of_actor, logits, _ = self.network.think(actor, of_actor, obs, mask)
        of_critic, _, value = self.network.think(critic, of_critic, obs, mask)
        return (of_actor, of_critic), logits, value

    def unroll(
        self, weights: PyTree, memory: Any, obs: PyTree[Array], done: Array
    ) -> tuple[Array, Array]:
        """Return logits and values for successive observations of one environment."""
        actor, critic = self._parts(weights)
        logits, _ = self.network.unroll(actor, memory[0], obs, done)
        return logits, self.network.unroll(critic, memory[1], obs, done)[1]

    def _parts(self, weights: PyTree[Array]) -> Iterator[PyTree[Array]]:
        return (
            {kind: part[name] for kind, part in weights.items()} for name in ("actor", "critic")
        )


def load_network(name: str) -> type[Network]:
    """Import a user's network class, given as `module:name`.

    Raises `ValueError` if it cannot be imported or is no subclass of `Network`.
    """
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise ValueError(
            f"network={name}: {error}; give module:name of a class in a module that Python can "
            f"import, such as one in this folder"
        ) from error
    if not (isinstance(found, type) and issubclass(found, Network)):
        raise ValueError(
            f"network={name} is {found!r}; give a subclass of jaxenvs.baselines.networks.Network"
        )
    return found


def check_outputs(network: Network, env: Any, name: str, recurrent: bool) -> None:
    """Raise `ValueError` unless a user's network has the output shapes that learners need.

    `name` is the user's text `module:name`, which error messages quote. `recurrent` is whether the
    learner supports recurrent states.
    """
    key = jax.random.key(0)
    obs = jax.eval_shape(env.observation_space.sample, key)
    memory = jax.eval_shape(network.begin)
    if jax.tree.leaves(memory) and not recurrent:
        raise ValueError(f"network={name} is recurrent: give --algo ppo-rnn")
    weights = jax.eval_shape(network.init, key, obs)
    after, logits, value = jax.eval_shape(
        lambda weights, memory, obs: network.think(weights, memory, obs, None), weights, memory, obs
    )
    for what, got, wanted in (
        ("memory", after, memory),
        ("logits", logits, jax.ShapeDtypeStruct((network.num_actions,), jnp.float32)),
        ("value", value, jax.ShapeDtypeStruct((), jnp.float32)),
    ):
        shapes = [
            jax.tree.map(lambda leaf: f"{leaf.dtype}{list(leaf.shape)}", tree)
            for tree in (got, wanted)
        ]
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"network={name}: for one observation its {what} must be {shapes[1]}, not "
                f"{shapes[0]}"
            )
