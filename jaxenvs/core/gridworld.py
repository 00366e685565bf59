"""`GridWorld`, the base class of the families `grid` and `xland`.

One agent moves on a grid and sees the cells ahead of it. Each cell is stored as one byte, the tile
byte. The agent's direction has two encodings. `facing` is MiniGrid's: 0 right, 1 down, 2 left, 3
up. `direction` is the family's own, which may differ.
"""

import functools
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float32, Int8, Int32, PyTree, UInt8

from . import checks, looks
from .bits import join
from .controls import ActionKeys, Controls
from .env import Env, State
from .facts import RGB
from .pixels import compose
from .sight import seen_cells, visible, window
from .spaces import Box, Discrete, Space
from .struct import Struct, struct

Start = TypeVar("Start", bound="AgentLevel")


@struct
class AgentLevel(Struct):
    """A level: the map and the agent's pose at the start of an episode."""

    grid: UInt8[Array, "height width"]  # tile byte of each cell
    pose: Int8[Array, "3"]  # row, column and direction of the agent

    @classmethod
    def of(
        cls: type[Start],
        grid: ArrayLike,
        row: ArrayLike,
        column: ArrayLike,
        direction: ArrayLike,
        **more: Any,
    ) -> Start:
        """Build a level from a grid and the agent's row, column and direction."""
        pose = [jnp.asarray(x).astype(jnp.int8) for x in (row, column, direction)]
        return cls(grid=jnp.asarray(grid, jnp.uint8), pose=jnp.stack(pose), **more)


@struct
class AgentState(State):
    """State of the map and the agent.

    The agent's pose, flags and carried tile are packed into one int32. In a scan over steps, XLA
    launches one kernel for each small array that a step rewrites, so one array needs fewer kernels.
    """

    # one tile byte per cell; the family's `tiles.py` defines the tile bytes
    grid: UInt8[Array, "height width"]
    # Four bytes, the lowest first: row; column; direction and flags; tile byte of the carried
    # object (0: none). In the third byte, the low 2 bits are the direction, and the other 6 bits
    # are flags such as `REJECTED` of the family `grid`.
    agent: Int32[Array, ""]

    @property
    def row(self) -> Int32[Array, "*batch"]:
        """Row of the agent, counted from the top."""
        return self.agent & 0xFF

    @property
    def column(self) -> Int32[Array, "*batch"]:
        """Column of the agent, counted from the left."""
        return (self.agent >> 8) & 0xFF

    @property
    def direction(self) -> Int32[Array, "*batch"]:
        """Direction of the agent in the family's own encoding, 0 to 3."""
        return (self.agent >> 16) & 3

    @property
    def facing(self) -> Int32[Array, "*batch"]:
        """Direction of the agent in MiniGrid's encoding: 0 right, 1 down, 2 left, 3 up."""
        return self.direction

    @property
    def carried(self) -> UInt8[Array, "*batch"]:
        """Tile byte of the object that the agent carries; 0 if it carries none."""
        return (self.agent >> 24).astype(jnp.uint8)


def packed(
    row: ArrayLike, column: ArrayLike, direction: ArrayLike, carried: ArrayLike
) -> Int32[Array, "*batch"]:
    """Pack the agent's pose and carried tile into one int32, for the field `AgentState.agent`."""
    return join((row, 8), (column, 8), (direction, 8), (carried, 8))


def unpacked(agent: Any) -> tuple[int, int, int, int]:
    """Return row, column, direction and carried tile of a field `AgentState.agent`, on the host."""
    word = int(agent)
    return word & 0xFF, word >> 8 & 0xFF, word >> 16 & 3, word >> 24 & 0xFF


def pose_of(value: AgentLevel | AgentState) -> tuple[int, int, int]:
    """Return the row, column and direction of the agent in a level or state, on the host."""
    if isinstance(value, AgentState):
        return unpacked(value.agent)[:3]
    row, column, direction = np.asarray(value.pose).tolist()
    return row, column, direction


def direction_vector(facing: Array) -> tuple[Int32[Array, ""], Int32[Array, ""]]:
    """Return the change of (row, column) by one step in the direction `facing`.

    Directions are 0 right, 1 down, 2 left, 3 up.
    """
    facing = facing.astype(jnp.int32)
    rows = (facing == 1).astype(jnp.int32) - (facing == 3).astype(jnp.int32)
    columns = (facing == 0).astype(jnp.int32) - (facing == 2).astype(jnp.int32)
    return rows, columns


class Sprites:
    """All sprites of a family of grid environments, as one array (atlas) for each tile size.

    `looks.sheet` paints the atlas; the method `sprite` returns the index of a sprite in the atlas.
    """

    def __init__(
        self, tile_looks: tuple[looks.Look, ...], num_codes: int, name: Callable[[int], str]
    ) -> None:
        """Prepare the sprites; an atlas is painted at its first use.

        `tile_looks` are the looks of all tiles, `num_codes` is the number of values of a tile byte,
        and `name` returns the name of the tile that a byte stands for.
        """
        self.num_codes = num_codes
        codes = sorted(code for look in tile_looks for code in look.codes)
        self.names = {code: name(code) for code in codes}
        self.atlas = functools.lru_cache(maxsize=8)(
            functools.partial(looks.sheet, tile_looks, num_codes)
        )

    def sprite(self, code: ArrayLike, agent: ArrayLike, lit: ArrayLike) -> Int32[Array, "..."]:
        """Return the index of a tile byte's sprite in the atlas.

        `agent` is 0 for no agent, else 1 + facing. `lit` is 1 where the agent sees the cell.
        """
        code, agent, lit = (jnp.asarray(x).astype(jnp.int32) for x in (code, agent, lit))
        return code + self.num_codes * agent + self.num_codes * looks.NUM_AGENTS * lit

    def icon(self, name: str, size: int) -> np.ndarray | None:
        """Return the sprite of the tile called `name`, uint8 (size, size, 3).

        None if no tile has this name.
        """
        code = next((code for code, other in self.names.items() if name and other == name), None)
        return None if code is None else self.atlas(size)[code]


class GridWorld(Env):
    """A grid of tiles and an agent that sees a square of cells ahead of it.

    A family of environments subclasses it and adds the rules, `grid_shape`, `tile_space`,
    `observe_tiles` and `seen_tiles`.
    """

    view_size: int = 7  # side of the agent's square view in cells, an odd number
    obs: str = "image"  # which observation the environment returns, one of `observations`
    see_through_walls: bool = False  # whether the agent sees through walls and other opaque cells
    tile_size: int = 8  # side of a tile in the observations `rgb` and `rgb_full`, in pixels

    # The reset source `auto` suits levels that are cheap to generate (see `VectorEnv`). Generating
    # a level of most grid worlds takes few integer operations.
    reset_source: ClassVar[str] = "auto"
    reward_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    # Names and keys of the actions, in order; `action_space` may have fewer actions.
    keys: ClassVar[tuple[ActionKeys, ...]]
    sprites: ClassVar[Sprites]
    outside: ClassVar[int]  # tile byte that the agent sees beyond the edge of the grid
    # Name of an integer field -> (smallest, largest) allowed value.
    bounds: ClassVar[dict[str, tuple[int, int]]] = {}

    def __post_init__(self) -> None:
        """Raise an error if a field has an invalid value."""
        owner = type(self).__name__
        checks.one_of(owner, "obs", self.obs, self.observations)
        checks.integer_field(owner, "view_size", self.view_size, 3, 31)
        if self.view_size % 2 == 0:
            usual = type(self).view_size
            raise ValueError(f"{owner}: view_size={self.view_size} must be odd, such as {usual}")
        checks.integer_field(owner, "tile_size", self.tile_size, 4, 128)
        checks.one_of(owner, "see_through_walls", self.see_through_walls, (False, True))
        for name, (least, most) in self.bounds.items():
            checks.integer_field(owner, name, getattr(self, name), least, most)

    @property
    @abstractmethod
    def grid_shape(self) -> tuple[int, int]:
        """Number of rows and columns of the grid, walls included."""
        raise NotImplementedError

    @property
    @abstractmethod
    def tile_space(self) -> Space:
        """Space of the symbolic observation that the field `obs` selects.

        `observation_space` handles pixel observations.
        """
        raise NotImplementedError

    @abstractmethod
    def observe_tiles(self, state: Any, params: Any) -> PyTree[Array]:
        """Return the symbolic observation that the field `obs` selects.

        `observe` handles pixel observations.
        """
        raise NotImplementedError

    @abstractmethod
    def seen_tiles(self, state: Any) -> UInt8[Array, "view_size view_size"]:
        """Return the tile bytes of the agent's view, indexed `[across, ahead]`; 0 for unseen cells.

        `across` runs from the agent's left to its right. `ahead` runs from the far row (index 0) to
        the agent's row (last index).
        """
        raise NotImplementedError

    @property
    def action_space(self) -> Discrete:
        """Discrete actions, one for each entry of `keys`."""
        return Discrete(len(self.keys))

    @property
    def action_names(self) -> tuple[str, ...]:
        """Names of the actions, from `keys`."""
        return self.controls.names

    @property
    def controls(self) -> Controls:
        """Keys with which a person plays, for each action in `action_space`."""
        return Controls(self.keys[: self.action_space.n])

    @property
    def observation_space(self) -> Space:
        """Space of the observation that the field `obs` selects."""
        return _observation_space(self)

    def observe(self, state: Any, params: Any = None) -> PyTree[Array]:
        """Return the observation that the field `obs` selects, symbolic or pixels."""
        if self.obs not in ("rgb", "rgb_full"):
            return self.observe_tiles(state, params)
        shown = self.view_tiles(state) if self.obs == "rgb" else self.tiles(state)
        return compose(shown, self.atlas(self.tile_size))

    def prize(self, state: Any, params: Any) -> Float32[Array, ""]:
        """Return the reward for success at this step: 1 - 0.9 * steps / max(time limit, 1)."""
        limit = jnp.maximum(self.time_limit(state, params), 1)
        share = state.time.astype(jnp.float32) / limit.astype(jnp.float32)
        return jnp.clip(1.0 - 0.9 * share, 0.0, 1.0)

    def view(self, state: Any) -> UInt8[Array, "view_size view_size"]:
        """Return the tile bytes of the agent's view; 0 for unseen cells.

        The view is indexed `[across, ahead]`, as in `seen_tiles`, unless a family overrides this
        method: `xland` returns the transpose.
        """
        return self.seen_tiles(state)

    def _window(self, state: Any) -> UInt8[Array, "view_size view_size"]:
        """Return the tile bytes of the agent's view before occlusion, indexed `[across, ahead]`."""
        place = state.row, state.column, state.facing
        return window(state.grid, *place, self.view_size, self.outside)

    def _occluded(self, tiles: Array, opaque: Array) -> UInt8[Array, "view_size view_size"]:
        """Return the view's tiles, with 0 where `opaque` cells hide a tile from the agent.

        Returns the tiles unchanged if `see_through_walls` is set.
        """
        return tiles if self.see_through_walls else jnp.where(visible(opaque), tiles, jnp.uint8(0))

    def lit(self, state: Any) -> Bool[Array, "height width"]:
        """Return the mask of the grid's cells that the agent sees."""
        place, step = (state.row, state.column), direction_vector(state.facing)
        return seen_cells(self.seen_tiles(state) != 0, place, step, state.grid.shape)

    def tiles(self, state: Any) -> Int32[Array, "height width"]:
        """Return the sprite index of each grid cell; cells that the agent sees are lighter."""
        height, width = state.grid.shape
        rows = jnp.arange(height, dtype=np.int32)[:, None] == state.row
        here = rows & (jnp.arange(width, dtype=np.int32)[None, :] == state.column)
        agent = jnp.where(here, state.facing + 1, 0)
        return self.sprites.sprite(state.grid, agent, self.lit(state))

    def view_tiles(self, state: Any) -> Int32[Array, "view_size view_size"]:
        """Return the sprite index of each cell of the agent's view.

        Row 0 is the far row; the agent is in the middle of the last row and looks up.
        """
        size = self.view_size
        agent = np.zeros((size, size), np.int32)
        agent[size - 1, size // 2] = 1 + 3  # the agent (1) plus its direction, up (3)
        return self.sprites.sprite(self.seen_tiles(state).T, agent, jnp.zeros((), jnp.bool_))

    def atlas(self, tile_size: int) -> np.ndarray:
        """Return all sprites, uint8 (sprites, tile_size, tile_size, 3)."""
        return self.sprites.atlas(tile_size)

    def icon(self, name: str, size: int, background: RGB) -> np.ndarray | None:
        """Return the sprite of the tile called `name`, such as `red key`; None if none exists.

        The sprite includes the floor, so `background` is not used.
        """
        return self.sprites.icon(name, size)


@functools.lru_cache(maxsize=512)
def _observation_space(env: GridWorld) -> Space:
    if env.obs not in ("rgb", "rgb_full"):
        return env.tile_space
    shape = (env.view_size, env.view_size) if env.obs == "rgb" else env.grid_shape
    rows, columns = (cells * env.tile_size for cells in shape)
    return Box(0, 255, (rows, columns, 3), np.uint8)
