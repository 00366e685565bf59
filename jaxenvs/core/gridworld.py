"""Grid worlds in which one agent sees the cells ahead of it: shared code of `grid` and `xland`.

A cell is one tile byte. `facing` is the agent's direction in MiniGrid's encoding: 0 right, 1 down,
2 left, 3 up; `direction` is in the family's own encoding, which may differ.
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
    """Map and pose with which an episode begins."""

    grid: UInt8[Array, "height width"]  # tile bytes
    pose: Int8[Array, "3"]  # row, column, direction of the agent

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
    """Map and agent. The agent is packed into one int32, because XLA launches a kernel for each
    small array that a step of a scan rewrites."""

    grid: UInt8[Array, "height width"]  # tile bytes, see the family's `tiles.py`
    # Four bytes, the lowest first: row, column, direction (2 bits, then flags such as `REJECTED` of
    # `grid`), carried tile (0 for none).
    agent: Int32[Array, ""]

    @property
    def row(self) -> Int32[Array, "*batch"]:
        """Row of the agent, from the top."""
        return self.agent & 0xFF

    @property
    def column(self) -> Int32[Array, "*batch"]:
        """Column of the agent, from the left."""
        return (self.agent >> 8) & 0xFF

    @property
    def direction(self) -> Int32[Array, "*batch"]:
        """Direction of the agent, in the family's encoding."""
        return (self.agent >> 16) & 3

    @property
    def facing(self) -> Int32[Array, "*batch"]:
        """Direction of the agent: 0 right, 1 down, 2 left, 3 up."""
        return self.direction

    @property
    def carried(self) -> UInt8[Array, "*batch"]:
        """Tile that the agent carries, 0 for none."""
        return (self.agent >> 24).astype(jnp.uint8)


def packed(
    row: ArrayLike, column: ArrayLike, direction: ArrayLike, carried: ArrayLike
) -> Int32[Array, "*batch"]:
    """Pack the agent into one int32, the field `AgentState.agent`."""
    return join((row, 8), (column, 8), (direction, 8), (carried, 8))


def direction_vector(facing: Array) -> tuple[Int32[Array, ""], Int32[Array, ""]]:
    """Return (rows, columns) of one step in direction `facing`: 0 right, 1 down, 2 left, 3 up."""
    facing = facing.astype(jnp.int32)
    rows = (facing == 1).astype(jnp.int32) - (facing == 3).astype(jnp.int32)
    columns = (facing == 0).astype(jnp.int32) - (facing == 2).astype(jnp.int32)
    return rows, columns


class Sprites:
    """Sprites of a family, indexed by (light, agent, tile byte), flattened; see `looks.sheet`."""

    def __init__(
        self, tile_looks: tuple[looks.Look, ...], num_codes: int, name: Callable[[int], str]
    ) -> None:
        """Take the looks of the tiles, the number of tile bytes, and a function that names them."""
        self.num_codes = num_codes
        codes = sorted(code for look in tile_looks for code in look.codes)
        self.names = {code: name(code) for code in codes}
        self.atlas = functools.lru_cache(maxsize=8)(
            functools.partial(looks.sheet, tile_looks, num_codes)
        )

    def sprite(self, code: ArrayLike, agent: ArrayLike, lit: ArrayLike) -> Int32[Array, "..."]:
        """Return the index of a tile byte's sprite; `agent` is 0 (none) or 1 + facing."""
        code, agent, lit = (jnp.asarray(x).astype(jnp.int32) for x in (code, agent, lit))
        return code + self.num_codes * agent + self.num_codes * looks.NUM_AGENTS * lit

    def icon(self, name: str, size: int) -> np.ndarray | None:
        """Return the sprite of a named tile, uint8 (size, size, 3); None for another name."""
        code = next((code for code, other in self.names.items() if name and other == name), None)
        return None if code is None else self.atlas(size)[code]


class GridWorld(Env):
    """A grid of tiles and an agent that sees a square of cells ahead.

    A family adds the rules, `tile_space`, `observe_tiles` and `seen_tiles`.
    """

    view_size: int = 7  # side of the view in cells, odd
    obs: str = "image"  # name of the observation, one of `observations`
    see_through_walls: bool = False  # whether no cell blocks the agent's sight
    tile_size: int = 8  # side of a tile in the rgb observations, pixels

    reset_source: ClassVar[str] = "auto"  # a level is cheap: a little integer arithmetic
    reward_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    keys: ClassVar[tuple[ActionKeys, ...]]  # keys of each action; `action_space` may omit the last
    sprites: ClassVar[Sprites]
    outside: ClassVar[int]  # tile byte seen beyond the grid
    bounds: ClassVar[dict[str, tuple[int, int]]] = {}  # smallest, largest value of integer fields

    def __post_init__(self) -> None:
        """Check the fields."""
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
        """Rows and columns of the grid, walls included."""
        raise NotImplementedError

    @property
    @abstractmethod
    def tile_space(self) -> Space:
        """Space of the symbolic observation that `obs` names (pixels: `observation_space`)."""
        raise NotImplementedError

    @abstractmethod
    def observe_tiles(self, state: Any, params: Any) -> PyTree[Array]:
        """Return the symbolic observation that `obs` names (`observe` handles pixels)."""
        raise NotImplementedError

    @abstractmethod
    def seen_tiles(self, state: Any) -> UInt8[Array, "view_size view_size"]:
        """Tiles in sight, `[across, ahead]`, 0 for cells that the agent does not see."""
        raise NotImplementedError

    @property
    def action_space(self) -> Discrete:
        """Actions, one for each entry of `keys`."""
        return Discrete(len(self.keys))

    @property
    def action_names(self) -> tuple[str, ...]:
        """Names of the actions."""
        return self.controls.names

    @property
    def controls(self) -> Controls:
        """Arrows turn and move; see `keys`."""
        return Controls(self.keys[: self.action_space.n])

    @property
    def observation_space(self) -> Space:
        """Space of the observation named by the field `obs`."""
        return _observation_space(self)

    def observe(self, state: Any, params: Any = None) -> PyTree[Array]:
        """Return the observation named by the field `obs`."""
        if self.obs not in ("rgb", "rgb_full"):
            return self.observe_tiles(state, params)
        shown = self.view_tiles(state) if self.obs == "rgb" else self.tiles(state)
        return compose(shown, self.atlas(self.tile_size))

    def prize(self, state: Any, params: Any) -> Float32[Array, ""]:
        """Return the reward of success at this step: 1 - 0.9 * steps / max(limit, 1)."""
        limit = jnp.maximum(self.time_limit(state, params), 1)
        share = state.time.astype(jnp.float32) / limit.astype(jnp.float32)
        return jnp.clip(1.0 - 0.9 * share, 0.0, 1.0)

    def view(self, state: Any) -> UInt8[Array, "view_size view_size"]:
        """Return the tiles in sight, `[across, ahead]`; 0 for cells that the agent does not see."""
        return self.seen_tiles(state)

    def _window(self, state: Any) -> UInt8[Array, "view_size view_size"]:
        """Tiles ahead of the agent, `[across, ahead]`, seen or not."""
        place = state.row, state.column, state.facing
        return window(state.grid, *place, self.view_size, self.outside)

    def _occluded(self, tiles: Array, opaque: Array) -> UInt8[Array, "view_size view_size"]:
        """Replace tiles hidden behind `opaque` cells by 0, unless `see_through_walls`."""
        return tiles if self.see_through_walls else jnp.where(visible(opaque), tiles, jnp.uint8(0))

    def lit(self, state: Any) -> Bool[Array, "height width"]:
        """Return which cells of the grid the agent sees."""
        place, step = (state.row, state.column), direction_vector(state.facing)
        return seen_cells(self.seen_tiles(state) != 0, place, step, state.grid.shape)

    def tiles(self, state: Any) -> Int32[Array, "height width"]:
        """Return sprites of the whole grid; cells that the agent sees are lighter."""
        height, width = state.grid.shape
        rows = jnp.arange(height, dtype=np.int32)[:, None] == state.row
        here = rows & (jnp.arange(width, dtype=np.int32)[None, :] == state.column)
        agent = jnp.where(here, state.facing + 1, 0)
        return self.sprites.sprite(state.grid, agent, self.lit(state))

    def view_tiles(self, state: Any) -> Int32[Array, "view_size view_size"]:
        """Return sprites of the view: far row first, the agent at the bottom, looking up."""
        size = self.view_size
        agent = np.zeros((size, size), np.int32)
        agent[size - 1, size // 2] = 1 + 3  # facing up
        return self.sprites.sprite(self.seen_tiles(state).T, agent, jnp.zeros((), jnp.bool_))

    def atlas(self, tile_size: int) -> np.ndarray:
        """Return the sprites, uint8 (sprites, tile_size, tile_size, 3)."""
        return self.sprites.atlas(tile_size)

    def icon(self, name: str, size: int, background: RGB) -> np.ndarray | None:
        """Return the sprite of a thing such as `red key`; its background is the floor."""
        return self.sprites.icon(name, size)


@functools.lru_cache(maxsize=512)
def _observation_space(env: GridWorld) -> Space:
    if env.obs not in ("rgb", "rgb_full"):
        return env.tile_space
    shape = (env.view_size, env.view_size) if env.obs == "rgb" else env.grid_shape
    rows, columns = (cells * env.tile_size for cells in shape)
    return Box(0, 255, (rows, columns, 3), np.uint8)
