"""Recurrent networks with a convolution over the cells of a map.

The 3 x 3 convolution has the same weights for all cells, so a network that learned to recognise an
object in one cell (such as a tree in Craft) recognises it in all cells. The convolution is computed
as a matrix product, which XLA runs several times faster than `nn.Conv` inside a scan on a CPU.

The convolution is followed by dense layers, whose widths are the setting `hidden`. LayerNorm (Ba et
al., 2016) follows the first of them. The others are residual, with LayerNorm before each of them.

In the networks with a GRU, each head (policy and value in `Spatial`, action values in `SpatialQ`)
has a separate layer. This layer reads both the current features and the recurrent state (Dedieu et
al., 2025), so the GRU need not store the current observation. gtrxl.py has a network with a
transformer instead of a GRU.
"""

from typing import Any, NamedTuple

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from jaxenvs import Env, spaces

from .encoders import cell_categories, expand
from .layers import dense
from .policies import Recurrent
from .q_network import RecurrentQ

SIDE = 3  # side of the neighbourhood that the convolution reads, in cells


class Seen(NamedTuple):
    """Features of one observation, which do not depend on the recurrent state."""

    features: Float[Array, "*steps features"]
    # terms of the GRU's gates that depend only on this observation, not on the recurrent state
    gates: Float[Array, "*steps gates"]


class Sight(Recurrent):
    """Base class of networks that encode an observation by a convolution over a map and an MLP."""

    @classmethod
    def of(cls, env: Env, *args: Any, **more: Any) -> "Sight":
        """Return the network for an environment.

        A map is an array [row, column, channel] with at least 3 x 3 cells, whose entries are
        integer categories (such as kinds of objects) or flags (0 or 1). Raises `ValueError` if the
        observation contains no map, or if `hidden` is empty or has unequal widths.
        """
        space, read = env.map_features
        made: Sight = super().of(env, *args, **more)
        made = made.clone(observation_space=space, read=read)
        if not made.maps:
            raise ValueError(
                f"neighbours={made.neighbours} needs a map of {SIDE} x {SIDE} cells or more, and "
                f"{env.name} observes {env.observation_space}; give neighbours=0"
            )
        if len({*made.hidden}) != 1:
            raise ValueError(
                f"hidden={made.hidden}: layers after a convolution are residual; give one width "
                f"for all of them, at least once"
            )
        return made

    @property
    def parts(self) -> dict[str, spaces.Space]:
        """Space of each entry of a Dict observation, by key; any other observation has key ""."""
        space = self.observation_space
        return dict(space.spaces) if isinstance(space, spaces.Dict) else {"": space}

    @property
    def maps(self) -> list[str]:
        """Keys of the observation's entries that are maps; only the first map is convolved."""
        return [name for name, space in self.parts.items() if _is_map(space)]

    def name_layers(self) -> None:
        """Create the layers that `look` applies. `setup` calls this method."""
        rest = {name: space for name, space in self.parts.items() if name != self.maps[0]}
        self.encoder = self.encoder_of(spaces.Dict(rest)) if rest else None
        self.cells = nn.Dense(self.embed, use_bias=False, dtype=self.dtype) if self.embed else None
        self.around = self.dense(self.neighbours)
        self.layers = [self.dense(width) for width in self.hidden]
        self.norms = [nn.LayerNorm() for _ in self.hidden]

    def look(self, obs: PyTree[Array]) -> Float[Array, " features"]:
        """Return features of one observation: the output of the convolution and the MLP."""
        seen = self.read(obs)
        seen = dict(seen) if isinstance(seen, dict) else {"": seen}
        name = self.maps[0]
        cells = expand(self.parts[name], seen.pop(name), self.dtype)
        cells = cells if self.cells is None else self.cells(cells)
        found = self.activate(self.around(neighbourhoods(cells))).reshape(-1)
        parts = [found] if self.encoder is None else [self.encoder(seen), found]
        first, *others = zip(self.layers, self.norms, strict=True)
        features = self.activate(self.normal(first[1], first[0](jnp.concatenate(parts))))
        for layer, norm in others:
            features = features + self.activate(layer(self.normal(norm, features)))
        return features

    def normal(self, norm: nn.LayerNorm, features: Array) -> Array:
        """Apply a LayerNorm in float32, whatever the dtype of the activations."""
        return norm(features.astype(jnp.float32)).astype(self.dtype)

    def dense(self, width: int, scale: float = np.sqrt(2), **more: Any) -> nn.Dense:
        """Return a dense layer with orthogonal initial weights times `scale`."""
        initial = nn.initializers.orthogonal(scale)
        return nn.Dense(width, kernel_init=initial, dtype=self.dtype, **more)


class Spatial(Sight):
    """Recurrent actor-critic: convolution over a map, MLP, GRU, and a layer before each head."""

    def setup(self) -> None:
        """Create all layers. Flax needs this because several methods apply layers."""
        self.name_memory()
        self.branches = [self.dense(self.hidden[-1]) for _ in range(2)]
        self.branch_norms = [nn.LayerNorm() for _ in range(2)]
        self.policy, self.critic = dense(self.num_actions, 0.01), dense(1, 1.0)

    def name_memory(self) -> None:
        """Create the layers before the heads, including the GRU's. `setup` calls this method."""
        self.name_layers()
        self.inputs = self.dense(3 * self.memory, 1.0)
        self.carry = self.dense(3 * self.memory, 1.0, use_bias=False)
        self.recalled = nn.LayerNorm()

    def features(self, obs: PyTree[Array]) -> Seen:
        """Return features of one observation, which `recall` and `heads` read."""
        features = self.look(obs)
        return Seen(features, self.inputs(features))

    def recall(self, memory: Any, features: Seen) -> Any:
        """Return the recurrent state after one more observation."""
        carried = self.carry(memory).astype(jnp.float32).reshape(3, -1)
        gates = features.gates.astype(jnp.float32).reshape(3, -1)
        use, keep = nn.sigmoid(gates[:2] + carried[:2])
        return keep * memory + (1.0 - keep) * nn.tanh(gates[2] + use * carried[2])

    def heads(self, memory: Any, seen: Seen, *given: Any) -> tuple[Any, ...]:
        """Return logits and value, from the recurrent state and the features of the observation."""
        known = self.known(memory, seen)
        branches = zip(self.branches, self.branch_norms, strict=True)
        policy, value = (
            self.activate(self.normal(norm, branch(known))) for branch, norm in branches
        )
        return self.policy(policy), self.critic(value)[0]

    def known(self, memory: Any, seen: Seen) -> Float[Array, " features"]:
        """Return the input of the heads: current features, and the normalised recurrent state."""
        return jnp.concatenate([seen.features, self.normal(self.recalled, memory)])


class SpatialQ(Spatial, RecurrentQ):
    """Recurrent Q-network like `Spatial`, with one head for the values of all actions."""

    activation: str = "relu"

    def setup(self) -> None:
        """Create all layers of the network."""
        self.name_memory()
        self.branch, self.branch_norm = self.dense(self.hidden[-1]), nn.LayerNorm()
        self.actions = dense(self.num_actions, 0.1)

    def heads(self, memory: Any, seen: Seen, *given: Any) -> tuple[Any, ...]:
        """Return a tuple that contains the values of all actions."""
        features = self.normal(self.branch_norm, self.branch(self.known(memory, seen)))
        return (self.actions(self.activate(features)),)


def neighbourhoods(
    cells: Float[Array, "rows columns features"],
) -> Float[Array, "rows-2 columns-2 9*features"]:
    """Return the features of the 3 x 3 cells around each cell, concatenated row by row.

    Cells at the border of the map are left out, because some of their neighbours do not exist.
    """
    rows, columns = (size - SIDE + 1 for size in cells.shape[:2])
    corners = [(i, j) for i in range(SIDE) for j in range(SIDE)]
    return jnp.concatenate([cells[i : i + rows, j : j + columns] for i, j in corners], axis=-1)


def _is_map(space: spaces.Space) -> bool:
    """Return whether a space is a map of categories or flags with at least 3 x 3 cells."""
    if not isinstance(space, spaces.Box) or len(space.shape) != 3 or min(space.shape[:2]) < SIDE:
        return False
    return float(space.high.max()) == 1.0 or cell_categories(space) > 0
