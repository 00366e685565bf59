"""TSP: the shortest round trip through all cities (based on Jumanji 1.1 `TSP-v1`).

There are two differences from Jumanji. First, the trip always starts in city 0; in Jumanji, the
first action chooses the start. A fixed start does not make levels easier or harder, because all
cities are drawn alike. Second, going to a visited city does nothing; in Jumanji, it ends the
episode.
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, UInt32

from ..core import checks
from ..core.controls import Controls, Place, Pointing, pointed
from ..core.env import Ending, Params
from ..core.random import Key, words
from ..core.registry import register
from ..core.spaces import Box, Space
from ..core.struct import Struct, struct
from . import sprites
from .puzzle import Move, Puzzle, PuzzleLevel, PuzzleState

MOST_CITIES = 32  # largest number of cities: `Tour.visited` has 32 bits, one per city
GRID = 16  # tiles per side of the picture
NOTHING, CITY, VISITED, HERE, HOME, HERE_HOME = range(6)  # sprite indices that `tiles` returns
MARKS = ("", "visited", "here")


@struct
class Tour(Struct):
    """The visited cities, and the city of the traveller, who starts and ends at home (city 0)."""

    visited: UInt32[Array, ""]  # bit i is 1 if city i is visited; the bit of home is always 1
    city: Int32[Array, ""]  # city where the traveller is


@register("Puzzle-TSP-10-v0", cities=10)
@register("Puzzle-TSP-20-v0", cities=20)
class TSP(Puzzle):
    """Visit every city of the unit square once and return home on the shortest route.

    Actions: action i goes to city i; nothing happens if it is visited. From the last city the
        traveller returns home in the same step.
    Observation: float32 (cities, 4): x, y, 1 if visited, 1 if the traveller is there. City 0 is
        home.
    Reward: minus the distance travelled, including the return home in the last step.
    Episode ends: when all cities are visited, or at the time limit (by default 2 * cities steps).
    State: the instance has x and y of each city.
    """

    cities: int = 10  # number of cities, home included

    reset_source: ClassVar[str] = "auto"
    reward_range: ClassVar[tuple[float, float]] = (-2 * 2**0.5, 0.0)
    unit_cost: ClassVar[bool] = False
    legend: ClassVar[str] = (
        "The cities from city 0, where the trip begins: x, y, and whether you were or are there"
    )

    def __post_init__(self) -> None:
        """Raise an error if a field has an invalid value."""
        checks.integer_field(type(self).__name__, "cities", self.cities, 2, MOST_CITIES)

    @property
    def default_params(self) -> Params:
        """The time limit: two steps per city."""
        return Params(max_steps_in_episode=np.int32(2 * self.cities))

    @property
    def observation_layout(self) -> tuple[tuple[str, str], ...]:
        """Return pairs (index, meaning) that document the four values of each city."""
        return (
            ("`[city, 0]`", "x, from 0 to 1"),
            ("`[city, 1]`", "y, from 0 to 1, which is down in pictures"),
            ("`[city, 2]`", "1 if it was visited, else 0; 1 at home, `[0]`, from the start"),
            ("`[city, 3]`", "1 if the traveller is there, else 0"),
        )

    @property
    def observation_space(self) -> Space:
        """Coordinates of each city, and two flags: visited, and whether the traveller is there."""
        return Box(0.0, 1.0, (self.cities, 4), np.float32)

    @property
    def action_names(self) -> tuple[str, ...]:
        """Names of the cities."""
        return tuple(f"city {i}" for i in range(self.cities))

    @property
    def controls(self) -> Controls:
        """A click on a tile of the picture chooses the city nearest to the tile's centre."""

        def nearest(state: Any, place: Place) -> int:
            at = (np.array((place[1], place[0])) + 0.5) / GRID
            return int(np.argmin(np.hypot(*(np.asarray(state.instance) - at).T)))

        return pointed(self.action_names, Pointing(GRID, GRID, nearest, "go to the nearest city"))

    @property
    def all_visited(self) -> np.uint32:
        """Value of `Tour.visited` when every city is visited: a 1 for each city."""
        return np.uint32((1 << self.cities) - 1)

    def draw_level(self, key: Key, params: Any) -> PuzzleLevel:
        """Draw cities uniformly from the unit square; their coordinates are multiples of 2**-23."""
        drawn = words(key, 2 * self.cities) >> np.uint32(9)
        places = drawn.astype(jnp.float32) * np.float32(2.0**-23)
        at_home = Tour(visited=jnp.uint32(1), city=jnp.int32(0))
        return PuzzleLevel(board=at_home, instance=places.reshape(self.cities, 2))

    def apply(
        self, instance: Float32[Array, "cities 2"], board: Tour, action: Int32[Array, ""]
    ) -> Move:
        """Go to a city; from the last city, also return home in the same move."""
        there, bit = instance[action], jnp.uint32(1) << action.astype(jnp.uint32)
        valid = (board.visited & bit) == 0
        visited = board.visited | bit
        last = visited == self.all_visited
        cost = _length(instance[board.city] - there)
        cost = cost + jnp.where(last, _length(instance[0] - there), np.float32(0))
        city = jnp.where(last, jnp.int32(0), action.astype(jnp.int32))
        return Move(Tour(visited=visited, city=jnp.where(valid, city, board.city)), cost, valid)

    def step_reward(
        self, instance: Float32[Array, "cities 2"], before: Tour, move: Move, solved: Array
    ) -> Float32[Array, ""]:
        """Return minus the distance travelled."""
        return jnp.where(move.valid, -move.cost, np.float32(0))

    def is_goal(self, instance: Float32[Array, "cities 2"], board: Tour) -> Bool[Array, ""]:
        """Return whether all cities are visited."""
        return board.visited == self.all_visited

    def goal(self, instance: Float32[Array, "cities 2"]) -> Tour:
        """Return the board with all cities visited and the traveller at home."""
        return Tour(visited=jnp.uint32(self.all_visited), city=jnp.int32(0))

    def pack(self, board: Tour) -> UInt32[Array, " words"]:
        """Encode visited cities and the traveller's city in one uint32 if both fit, else in two."""
        city = board.city.astype(jnp.uint32)
        if self._one_word:
            return (board.visited | (city << np.uint32(self.cities)))[None]
        return jnp.stack([board.visited, city])

    def unpack(self, words: UInt32[Array, " words"]) -> Tour:
        """Return the board that `pack` encoded in these words."""
        city = words[0] >> np.uint32(self.cities) if self._one_word else words[1]
        return Tour(visited=words[0] & self.all_visited, city=city.astype(jnp.int32))

    @property
    def _one_word(self) -> bool:
        return self.cities + (self.cities - 1).bit_length() <= 32

    def heuristic(self, instance: Float32[Array, "cities 2"], board: Tour) -> Float32[Array, ""]:
        """Return the length of a minimum spanning tree of the cities left to connect.

        These are home, the traveller's city and all unvisited cities. The heuristic is admissible,
        because the rest of the trip is a spanning tree of these cities. It is consistent: the tree
        after a move, with the edge of the move added, connects all cities of the tree before the
        move. It is therefore at least as long as the tree before the move.
        """
        index = np.arange(self.cities, dtype=np.uint32)
        left = ((board.visited >> index) & np.uint32(1)) == 0
        wanted = left | (index == board.city.astype(jnp.uint32))
        distances = _length(instance[:, None, :] - instance[None, :, :])
        tree = _spanning_tree(distances, wanted)
        # Rounding errors must not make the heuristic larger than the true cost, so reduce it
        # slightly.
        return jnp.where(self.is_goal(instance, board), np.float32(0), tree * np.float32(1 - 1e-6))

    def observe_board(
        self, instance: Float32[Array, "cities 2"], board: Tour
    ) -> Float32[Array, "cities 4"]:
        """Return for each city x, y, whether it is visited, and whether the traveller is there."""
        index = np.arange(self.cities, dtype=np.int32)
        visited = (board.visited >> index.astype(np.uint32)) & np.uint32(1)
        flags = jnp.stack([visited.astype(jnp.float32), (index == board.city).astype(jnp.float32)])
        return jnp.concatenate([instance, flags.T], axis=1)

    def read_level(self, text: str) -> PuzzleLevel:
        """Parse one line `x y` per city, with coordinates from 0 to 1, home first.

        A line may end with `visited`. One line may end with `here`: the traveller is in this city.
        Without `here` the traveller is at home. Raises `ValueError` for any other text.
        """
        lines = text.strip("\n").splitlines()
        if len(lines) != self.cities:
            raise ValueError(f"tsp: {len(lines)} lines, expected {self.cities}, one for each city")
        places = np.zeros((self.cities, 2), np.float32)
        marks = []
        for i, line in enumerate(lines):
            places[i], mark = _read_city(line, i + 1)
            marks.append(mark)
        if marks.count("here") > 1:
            raise ValueError("tsp: more than one line ends with 'here'")
        city = marks.index("here") if "here" in marks else 0
        visited = {0, city, *(i for i, mark in enumerate(marks) if mark)}
        if (city == 0) != (len(visited) in (1, self.cities)):
            raise ValueError(
                "tsp: the traveller must be at home (line 1) before the first city and after the "
                "last, and elsewhere in between"
            )
        word = np.uint32(sum(1 << i for i in visited))
        board = Tour(visited=jnp.uint32(word), city=jnp.int32(city))
        return PuzzleLevel(board=board, instance=jnp.asarray(places))

    def written(self, boards: np.ndarray) -> list[str]:
        """Write one line per city in the format of `read_level`."""
        return ["\n".join(_city(*city) for city in cities) for cities in boards.tolist()]

    def ending(self, level: PuzzleLevel) -> Ending:
        """Return a level and the actions that end its episode: visit cities 1, 2, ... in turn."""
        return Ending(level, range(1, self.cities))

    def tiles(self, state: PuzzleState) -> Int32[Array, "16 16"]:
        """Return the picture of the unit square as sprite indices.

        The indices are 0 nothing, 1 city, 2 visited city, 3 city with the traveller, 4 home, 5 home
        with the traveller. If several cities are in one tile, the largest of their indices is used.
        """
        index = np.arange(self.cities, dtype=np.uint32)
        visited = (state.board.visited >> index) & np.uint32(1)
        shown = jnp.where(visited != 0, jnp.int32(VISITED), jnp.int32(CITY))
        shown = jnp.where(index == 0, jnp.int32(HOME), shown)
        here = index == state.board.city.astype(jnp.uint32)
        shown = jnp.where(here, jnp.where(index == 0, jnp.int32(HERE_HOME), HERE), shown)
        place = (state.instance * GRID).astype(jnp.int32).clip(0, GRID - 1)
        picture = jnp.full((GRID, GRID), NOTHING, jnp.int32)
        return picture.at[place[:, 1], place[:, 0]].max(shown)

    def trail(self, state: PuzzleState, action: int) -> list[tuple[float, float]]:
        """Return the positions (x, y), from 0 to 1, of the cities that a step reaches.

        A position is the centre of the city's tile in the picture. The last step reaches two
        cities: the last city and home.
        """
        last = [action] if action >= 0 and int(state.board.visited) == self.all_visited else []
        tiles = (np.asarray(state.instance) * GRID).astype(int).clip(0, GRID - 1)
        places = ((tiles + 0.5) / GRID).tolist()
        return [(places[i][0], places[i][1]) for i in (*last, int(state.board.city))]

    def atlas(self, tile_size: int) -> np.ndarray:
        """Return the sprites in the order of `tiles`, uint8 (6, tile_size, tile_size, 3)."""
        return sprites.tsp(tile_size)


def _length(vector: Float32[Array, "*batch 2"]) -> Float32[Array, "*batch"]:
    x, y = vector[..., 0], vector[..., 1]
    return jnp.sqrt(x * x + y * y)


def _spanning_tree(distances: Array, wanted: Array) -> Array:
    """Return the length of a minimum spanning tree of home and the wanted cities.

    The tree is grown by Prim's algorithm.
    """
    count = wanted.shape[0]
    index = np.arange(count, dtype=np.int32)
    none = np.float32(np.inf)

    def grow(_: Array, grown: tuple[Array, Array]) -> tuple[Array, Array]:
        # `reach` has the distance from the tree to each city that still has to be connected, and
        # infinity for all other cities.
        reach, total = grown
        city = jnp.argmin(reach).astype(jnp.int32)
        nearest = reach[city]
        left = (reach < none) & (index != city)
        reach = jnp.where(left, jnp.minimum(reach, distances[city]), none)
        return reach, total + jnp.where(nearest < none, nearest, np.float32(0))

    reach = jnp.where(wanted & (index != 0), distances[0], none)
    return jax.lax.fori_loop(0, count - 1, grow, (reach, distances[0, 0]))[1]


def _read_city(line: str, number: int) -> tuple[tuple[float, float], str]:
    """Parse a line `x y [mark]` into ((x, y), mark); raise `ValueError` for any other text."""
    parts = line.split()
    try:
        x, y = float(parts[0]), float(parts[1])
        mark = parts[2] if len(parts) > 2 else ""
    except (IndexError, ValueError):
        raise ValueError(f"tsp: line {number} is {line!r}; expected two numbers 'x y'") from None
    if not (0 <= x <= 1 and 0 <= y <= 1):
        raise ValueError(f"tsp: line {number} is {line!r}; x and y must be from 0 to 1")
    if mark not in MARKS or len(parts) > 3:
        raise ValueError(
            f"tsp: line {number} is {line!r}; after x and y there may be 'visited' or 'here'"
        )
    return (x, y), mark


def _city(x: float, y: float, is_visited: float, is_here: float) -> str:
    mark = 2 if is_here else int(is_visited)
    return f"{x:.9g} {y:.9g} {MARKS[mark]}".rstrip()
