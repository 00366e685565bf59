"""PuzzleScript games as environments and search problems."""

import functools
from pathlib import Path
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array, Bool, Float32, Int32, UInt8, UInt32

from ..core import checks
from ..core.controls import ARROWS, ActionKeys, Controls
from ..core.env import Ending, Transition
from ..core.random import Key, below, hashed, mix, uniform
from ..core.registry import register
from ..core.spaces import Space
from ..core.texts import board_changes, pairs
from ..puzzles.puzzle import DIRECTIONS, Move, PackedPuzzle, PuzzleLevel, PuzzleState
from . import boards, glyphs, observations, pictures
from .boards import Instance
from .collection import Collection, read
from .game import Game
from .machine import NOTHING, START, TICK, Board, Machine, planes
from .machine.sizes import SIZES
from .selection import Selection, select

ACTION = len(DIRECTIONS)
MOST_AGAIN = 1_000_000  # largest `again_limit`
MOST_KINDS = 40  # largest number of games or levels whose success a log of training distinguishes
MOST_BOARDS = 20_000  # maximum number of boards that `ending` visits to find a solution


@register("PuzzleScript-v0", representative=True)
class PuzzleScript(PackedPuzzle):
    """Play PuzzleScript games from their source text: one game, or all games of a folder.

    A step plays an action, and then the turns that a rule's command `again` adds. The result is the
    same as in the original engine (increpare/PuzzleScript 4db08ebe). Messages and sounds are
    skipped, and `undo` is not an action.

    Actions: 0 up, 1 right, 2 down, 3 left, then action and tick (time passes). `action` is absent
        if all games have `noaction`; `tick` is absent unless a game has `realtime_interval`.
    Observation: `objects`: uint8 (side, side, objects), 1 where a cell has the object; `planes`:
        the same as bits, uint32 (objects, side, words): bit x % 32 of word x // 32 of line y is the
        cell in column x; `names`: uint8 (side, side, names), 1 where a cell has an object of this
        name, so games share the objects of the same name; `sprites`: uint8 (side, side, 75), the
        colours of the 5 x 5 pixels of a cell.
    Reward: 1 for a win, plus the shaping reward, if any.
    Episode ends: with a win, or at the time limit.
    State: the board is packed: the object of each layer and cell in as few bits as possible.

    Levels are drawn from the selected levels of the selected games: first the game, then its level.
    """

    # Name of a shipped game, path of a game's file, or path of a folder of games; shipped: all
    # shipped games.
    game: str = "crates"
    level: int | None = None  # number of the level, from 0, messages not counted; None: all
    # Levels of each game that are drawn: all, test (every third level), train (the others), or a
    # range of numbers such as 0:20.
    levels: str = "all"
    # Names of the games that are drawn, such as crates,relay. Games with a minus are left out, such
    # as -crates,-relay. Empty: all games.
    games: str = ""
    # Size of the interpreter's arrays: exact (as small as the games and levels allow), small,
    # medium or large (presets), or auto (the smallest preset that fits).
    size: str = "exact"
    observation: str = "objects"  # type of observation: objects, planes, names or sprites
    # Actions that `action_mask` allows: changes (those that change the board) or inputs (all that
    # the game has).
    mask: str = "changes"
    # Coefficient of the shaping reward, which is the decrease of the number of cells with X but not
    # Y in a win condition `all X on Y`; 0: off.
    shaping: float = 0.0
    # Whether `heuristic` is the number of cells with X but not Y in a win condition `all X on Y`,
    # which may exceed the number of actions to a win; otherwise `heuristic` is 0.
    count: bool = False
    again_limit: int = 200  # maximum number of turns that the command `again` adds to an action

    reset_source: ClassVar[str] = "exact"
    steps_limit: ClassVar[int] = 500

    def __post_init__(self) -> None:
        """Check the fields and read the games."""
        owner = type(self).__name__
        checks.one_of(owner, "size", self.size, ("exact", "auto", *SIZES))
        checks.one_of(owner, "observation", self.observation, observations.KINDS)
        checks.one_of(owner, "mask", self.mask, ("changes", "inputs"))
        checks.one_of(owner, "count", self.count, (False, True))
        checks.integer_field(owner, "again_limit", self.again_limit, 0, MOST_AGAIN)
        checks.float_field(owner, "shaping", self.shaping, 0.0)
        if self.level is not None:
            checks.integer_field(owner, "level", self.level, 0)
        for name, example in (
            ("game", "a name or str(path)"),
            ("levels", "'test' or '0:20'"),
            ("games", "'crates,relay'"),
        ):
            if not isinstance(given := getattr(self, name), str):
                raise TypeError(f"{owner}: {name} must be a str, such as {example}, got {given!r}")
        self._selection  # noqa: B018  raises for games that cannot be read, and for no level

    @functools.cached_property
    def collection(self) -> Collection:
        """Games and levels that `game` and `level` select, as arrays."""
        return read(self.game, self.level, self.size)

    @functools.cached_property
    def _selection(self) -> Selection:
        """The levels that episodes can draw, as selected by the fields `levels` and `games`."""
        return select(self.collection, self.levels, self.games)

    @property
    def is_random(self) -> bool:
        """True if a rule of any of the games draws random numbers; search is then impossible."""
        return bool(self.collection.random)

    @property
    def reward_range(self) -> tuple[float, float]:  # type: ignore[override]
        """Lowest and highest reward: -s and 1 + s, where s is the largest shaping reward."""
        most = self.shaping * self.collection.size.side**2
        return -most, 1.0 + most

    # Spaces of actions and observations.

    @property
    def action_names(self) -> tuple[str, ...]:
        """Names of the actions that at least one of the games has."""
        return tuple(name for name, _ in self._inputs)

    @property
    def controls(self) -> Controls:
        """Arrow keys, X for action and T to let time pass."""
        keys = {**ARROWS, "action": ("x", "space"), "tick": ("t",)}
        return Controls(tuple(ActionKeys(name, keys[name]) for name in self.action_names))

    @property
    def _inputs(self) -> list[tuple[str, int]]:
        """Pairs (name, number in the interpreter) of the actions that at least one game has."""
        collection = self.collection
        every = [*enumerate(DIRECTIONS), (ACTION, "action"), (TICK, "tick")]
        return [(name, i) for i, name in every if any(_has(game, i) for game in collection.games)]

    @functools.cached_property
    def _allowed(self) -> np.ndarray:
        """Mask of the actions that each game has, bool (games, actions)."""
        inputs = [number for _, number in self._inputs]
        return np.array([[_has(game, i) for i in inputs] for game in self.collection.games])

    @property
    def observation_space(self) -> Space:
        """Space of observations: all cells' objects, in the format that `observation` names."""
        return observations.space(self.collection, self.observation)

    @property
    def observation_layout(self) -> tuple[tuple[str, str], ...]:
        """Pairs (index, object's name); () for pixels, or if the indices differ between games."""
        return observations.layout(self.collection, self.observation)

    # Rules: levels, turns, win and heuristic.

    def draw_level(self, key: Key, params: Any) -> PuzzleLevel:
        """Draw one of the games that `levels` and `games` select, then one of its levels."""
        selection = self._selection
        game = below(hashed(key, 0), len(selection.first))
        drawn = below(hashed(key, 1), jnp.asarray(selection.counts)[game])
        place = jnp.asarray(selection.places)[jnp.asarray(selection.first)[game] + drawn]
        return self._level(place, hashed(key, 2))

    @functools.cached_property
    def level_kinds(self) -> tuple[str, ...]:  # type: ignore[override]  # depends on the levels
        """Names of the games that are drawn or, for one game, of its levels: `level_0` and so on.

        Games with the same name, from different folders, have their number appended. Empty if there
        is one kind, or more than `MOST_KINDS`.
        """
        found = np.unique(self._kinds)
        if not 1 < len(found) <= MOST_KINDS:
            return ()
        if len(self._selection.first) == 1:
            return tuple(f"level_{number}" for number in found)
        names = [Path(self.collection.games[game].name).stem for game in found]
        return tuple(
            name if names.count(name) == 1 else f"{name}_{game}"
            for name, game in zip(names, found, strict=True)
        )

    @functools.cached_property
    def _kinds(self) -> np.ndarray:
        """Game of each level that is drawn or, if there is one game, number in its game."""
        places, game = self._selection.places, np.asarray(self.collection.game)
        if len(self._selection.first) > 1:
            return game[places]
        return places - np.asarray(self.collection.first)[game[places]]

    def level_kind(self, state: Any) -> Int32[Array, ""]:
        """Return the index in `level_kinds` of the state's game or level."""
        is_of_games = len(self._selection.first) > 1
        kind = state.instance.game if is_of_games else state.instance.number
        return jnp.searchsorted(jnp.asarray(np.unique(self._kinds)), kind).astype(jnp.int32)

    def level_of(self, number: int, game: int = 0) -> PuzzleLevel:
        """Return level `number` of game `game`, both from 0; raise `IndexError` if it is absent."""
        collection = self.collection
        if not (0 <= game < len(collection.games) and 0 <= number < collection.levels[game]):
            counts = ", ".join(map(str, collection.levels))
            raise IndexError(
                f"{self.name}: game={game}, level={number}: the numbers of levels of the games are "
                f"{counts}; games and levels are counted from 0"
            )
        return self._level(jnp.int32(collection.first[game] + number), jnp.uint32(0))

    def _level(self, place: Array, word: Array) -> PuzzleLevel:
        """Return the level with index `place` in the collection.

        `word` seeds the random numbers of the first turn, which only some games play (see
        `_started`).
        """
        collection = self.collection
        game = jnp.asarray(collection.game)[place]
        return self._started(
            Instance(
                game=game,
                number=place - jnp.asarray(collection.first)[game],
                width=jnp.asarray(collection.width)[place],
                height=jnp.asarray(collection.height)[place],
                start=jnp.asarray(collection.boards)[place],
            ),
            _draw(word),
        )

    def _started(self, instance: Instance, draw: Partial) -> PuzzleLevel:
        """Return the level, after a first turn if its game has `run_rules_on_level_start`."""
        no = jnp.bool_(False)
        board = Board(
            instance.start, instance.start, instance.width, instance.height, won=no, stuck=no
        )
        if self.collection.has("run_rules_on_level_start"):
            board = self._play(instance, board, jnp.int32(START), draw)
        return PuzzleLevel(board=boards.packed(self.collection, instance, board), instance=instance)

    def _play(self, instance: Instance, board: Board, action: Array, draw: Partial) -> Board:
        collection = self.collection
        machine = Machine(collection.size, self.again_limit)
        return machine.play(collection.tables, instance.game, board, action, draw)[0]

    def _turn(
        self, instance: Instance, words: UInt32[Array, " packed"], action: Array, draw: Partial
    ) -> tuple[UInt32[Array, " packed"], Bool[Array, ""]]:
        """Return the packed board after an action, and whether a limit has cut off the turn.

        The limits are `again_limit`, and the maximum number of micro-steps (iterations of the
        interpreter). An action that the game lacks leaves the board unchanged.
        """
        inputs = np.array([number for _, number in self._inputs], np.int32)
        board = boards.unpacked(self.collection, instance, words)
        allowed = jnp.asarray(self._allowed)[instance.game, action]
        number = jnp.where(allowed, jnp.asarray(inputs)[action], NOTHING)
        after = self._play(instance, board, number, draw)
        return boards.packed(self.collection, instance, after), after.stuck

    def apply(
        self, instance: Instance, board: UInt32[Array, " packed"], action: Int32[Array, ""]
    ) -> Move:
        """Return the board after an action, and whether the action is valid: it changes the board.

        Raises `ValueError` if a game has random rules.
        """
        if self.is_random:
            raise ValueError(
                f"{self.name}: {self.collection.random[0]} draws random numbers, so no search is "
                "possible; choose a game without `random` and `randomdir`"
            )
        after, _ = self._turn(instance, board, action, _draw(jnp.uint32(0)))
        return Move(after, jnp.ones((), jnp.float32), (after != board).any())

    def step_state(self, key: Key, state: PuzzleState, action: Array, params: Any) -> Transition:
        """Play a turn; `info` has `solved` for a win, and `stuck` if a limit stopped the turn."""
        after, stuck = self._turn(state.instance, state.board, action, _draw(hashed(key, 0)))
        won = self.is_goal(state.instance, after)
        info = {"solved": won, "stuck": stuck}
        reward = won.astype(jnp.float32)
        if self.shaping:
            before, now = (self._missing(state.instance, each) for each in (state.board, after))
            reward += np.float32(self.shaping) * (before - now)
        return Transition(state.replace(board=after), reward, won, info)

    def action_mask(self, state: PuzzleState, params: Any = None) -> Bool[Array, " actions"]:
        """Return the mask of the legal actions, as the field `mask` defines them.

        With `mask="changes"`, the actions that change the board are legal. With `mask="inputs"`, or
        if a rule of any game draws random numbers, all actions that the state's game has are legal.
        """
        if self.is_random or self.mask == "inputs":
            return jnp.asarray(self._allowed)[state.instance.game]
        return super().action_mask(state, params)

    def is_goal(self, instance: Instance, board: UInt32[Array, " packed"]) -> Bool[Array, ""]:
        """Return whether a turn has won the level; the packed board stores this flag."""
        return boards.has_won(board)

    def heuristic(self, instance: Instance, board: UInt32[Array, " packed"]) -> Float32[Array, ""]:
        """Return an estimate of the number of actions to a win: `_missing` if `count`, else 0.

        `_missing` counts the cells that violate a win condition `all X on Y`. It can exceed the
        number of actions to a win, because one turn may move many objects.
        """
        if not self.count:
            return jnp.zeros((), jnp.float32)
        return self._missing(instance, board)

    def _missing(self, instance: Instance, board: UInt32[Array, " packed"]) -> Float32[Array, ""]:
        """Return the number of cells that have X but not Y, for a win condition `all X on Y`.

        For several such conditions, return the maximum of their numbers. After a win, return 0.
        """
        collection = self.collection
        found = boards.unpacked(collection, instance, board)
        missing = Machine(collection.size).missing(collection.tables, instance.game, found)
        return jnp.where(self.is_goal(instance, board), 0, missing).astype(jnp.float32)

    @property
    def num_words(self) -> int:
        """Number of 32-bit words of a packed board."""
        return boards.words_of(self.collection)

    # Observation, pictures and text.

    def objects(
        self, instance: Instance, board: UInt32[Array, " packed"]
    ) -> UInt32[Array, "objects side words"]:
        """Return one bit plane per object: the cells of a packed board that have the object."""
        return boards.unpacked(self.collection, instance, board).objects

    def observe_board(
        self, instance: Instance, board: UInt32[Array, " packed"]
    ) -> UInt8[Array, "side side objects"] | UInt32[Array, "objects side words"]:
        """Return the objects of all cells, in the format that `observation` names."""
        objects = self.objects(instance, board)
        return observations.observed(self.collection, self.observation, instance, objects)

    def tiles(self, state: PuzzleState) -> Int32[Array, "side side"]:
        """Return, for each cell, the index in `atlas` of the topmost object's sprite.

        Objects below the topmost one are not shown; `picture` draws all objects of a cell.
        """
        collection = self.collection
        cells = planes.cells(self.objects(state.instance, state.board))
        number = planes.index(collection.size.objects)[:, None, None] + np.int32(1)
        shown = jnp.where(cells, number, np.int32(0)).max(axis=0)
        return shown + state.instance.game * np.int32(collection.size.objects + 1)

    def atlas(self, tile_size: int) -> np.ndarray:
        """Return each game's tiles: the colour outside of levels, then one sprite per object."""
        sprites = pictures.sheet(self.collection.games, self.collection.size.objects, tile_size)
        ground = sprites[:, :1, ..., :3]
        drawn = np.where(sprites[..., 3:] > 0, sprites[..., :3], ground)
        return drawn.reshape(-1, tile_size, tile_size, 3)

    def picture(
        self, state: PuzzleState, tile_size: int, params: Any = None
    ) -> UInt8[Array, "height width 3"]:
        """Return a picture of the board: the sprites of all objects, drawn layer over layer."""
        objects = self.objects(state.instance, state.board)
        return pictures.picture(self.collection, state.instance.game, objects, tile_size)

    def text(self, instance: Instance, board: UInt32[Array, " packed"]) -> str:
        """Return the board as text, in the characters of the game's legend."""
        objects = np.asarray(self.objects(instance, jnp.asarray(board)))
        cells = glyphs.cells_of(objects, int(instance.width), int(instance.height))
        return glyphs.written(self.collection.games[int(instance.game)], cells)

    def text_inputs(self, state: PuzzleState, params: Any = None) -> dict[str, Array]:
        """Return the inputs of `texts`: each object's cells, the game and the level's size."""
        objects, level = self.objects(state.instance, state.board), state.instance
        size = {"width": level.width, "height": level.height}
        return {"objects": objects, "game": level.game, **size}

    def texts(self, inputs: dict[str, np.ndarray], detail: str = "full") -> list[str]:
        """Return a text for each state: title, board, and a legend if `detail` is "full"."""
        return [
            glyphs.description(*one, detail) for one in glyphs.boards_of(self.collection, inputs)
        ]

    def text_changes(self, old: dict[str, np.ndarray], new: dict[str, np.ndarray]) -> list[str]:
        """Return, for each state of a batch, the rows of the board that differ in `old` and `new`.

        `old` and `new` have a batch of the arrays that `text_inputs` returns.
        """
        boards = (glyphs.boards_of(self.collection, inputs) for inputs in (old, new))
        texts = ([glyphs.written(*one) for one in batch] for batch in boards)
        return [board_changes(*pair) for pair in pairs(*texts)]

    def read_level(self, text: str) -> PuzzleLevel:
        """Parse `text`, a level of the first game, in the format that the method `text` writes.

        Raises `ValueError` for a wrong character, with its line and column, and for a level that
        has more rows or columns than the environment's boards.
        """
        collection = self.collection
        start, width, height = glyphs.to_planes(
            collection, glyphs.parsed(collection.games[0], text)
        )
        instance = Instance(
            game=jnp.int32(0),
            number=jnp.int32(0),
            width=jnp.int32(width),
            height=jnp.int32(height),
            start=jnp.asarray(start),
        )
        return self._started(instance, _draw(jnp.uint32(0)))

    def ending(self, level: PuzzleLevel) -> Ending:
        """Return the level with a shortest solution, found by breadth-first search.

        Raises `NotImplementedError` if the game has random rules, or if the search of at most
        `MOST_BOARDS` different boards finds no win.
        """
        if self.is_random:
            raise NotImplementedError(
                f"{self.name}: {self.collection.random[0]} draws random numbers, so no solution is "
                "certain; choose a game without `random` and `randomdir`"
            )
        start = np.asarray(level.board)
        seen: set[bytes] = {start.tobytes()}
        queue: list[tuple[np.ndarray, tuple[int, ...]]] = [(start, ())]
        # `queue` grows during the loop, because the loop body appends new boards.
        for board, actions in queue:
            moves = jax.device_get(self.neighbours(level.instance, jnp.asarray(board)))
            for action in np.flatnonzero(moves.valid):
                after, path = moves.board[action], (*actions, int(action))
                if after[-1]:
                    return Ending(level, path)
                if after.tobytes() not in seen and len(seen) < MOST_BOARDS:
                    seen.add(after.tobytes())
                    queue.append((after, path))
        raise NotImplementedError(
            f"{self.name}: no solution among {len(seen):,} boards; try jaxenvs.search.astar, or "
            "choose another level"
        )


def _has(game: Game, number: int) -> bool:
    """Return whether a game has the action `number`, numbered as in `Machine.play`."""
    if number == ACTION:
        return "noaction" not in game.prelude
    return number != TICK or "realtime_interval" in game.prelude


def _draw(word: UInt32[Array, ""]) -> Partial:
    """Return a function: i -> random number i of a turn, in [0, 1), a hash of `word` and i."""
    return Partial(_number, word)


def _number(word: UInt32[Array, ""], number: Int32[Array, ""]) -> Float32[Array, ""]:
    return uniform(mix(word ^ mix(number.astype(jnp.uint32) + np.uint32(1))))
