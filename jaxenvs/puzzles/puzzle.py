"""`Puzzle`: base class of deterministic environments for learners and for search.

A puzzle's rules are one pure function, `apply`. `step` (for learners), `neighbours` (for search)
and the action mask are derived from it.

The constant part of an episode, such as walls and targets, is called the instance. It is not part
of the board, so that a search stores and hashes only boards.
"""

import functools
from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, PyTree, UInt32

from ..core import eager, texts
from ..core.env import Ending, Env, Params, State, Step, Transition
from ..core.facts import sentences
from ..core.random import Key, below, words
from ..core.spaces import Discrete, Space
from ..core.struct import Struct, struct

# Names of the actions 0 to 3 of puzzles on a grid. The action (a + 2) % 4 is opposite to action a.
DIRECTIONS = ("up", "right", "down", "left")


@functools.cache
def characters_of(characters: str) -> texts.Memo:
    """Return a dict: bytes of a board's row -> the row's text, computed on first use."""
    return texts.Memo(lambda row: "".join(characters[cell] for cell in row))


class Move(NamedTuple):
    """Result of an action: the next board, its cost, and whether the action is legal.

    An illegal action leaves the board unchanged.
    """

    board: PyTree[Array]
    cost: Float32[Array, "*actions"]
    # Whether the action is legal; a legal action always changes the board.
    valid: Bool[Array, "*actions"]


class Predecessors(NamedTuple):
    """Boards from which a single action leads to a given board.

    The same action may lead from several of these boards to the given board. An entry is one board,
    with the action and its cost; entries that are not `valid` must be ignored.
    """

    board: PyTree[Array]
    action: Int32[Array, " predecessors"]
    cost: Float32[Array, " predecessors"]
    valid: Bool[Array, " predecessors"]


@struct
class PuzzleLevel(Struct):
    """Level: initial board of an episode, and its instance (the constant part, such as walls)."""

    board: PyTree[Array]
    instance: PyTree[Array] = ()  # the constant part of the episode, which no action changes


@struct
class PuzzleState(State):
    """State: time step, board, and instance of the episode (the constant part, such as walls)."""

    board: PyTree[Array]  # the variable part of the state, which actions change
    instance: PyTree[Array]  # the constant part of the episode, which no action changes


class Puzzle(Env):
    """Base class of deterministic, fully known puzzles, in which only actions change the board.

    A subclass defines the abstract methods, `observation_space` and `atlas`. It also defines
    `tiles` unless its observation is a matrix of sprite indices. Other methods and fields are
    optional: `inverse` or `predecessors`, `goal`, `heuristic`, `oracle`, `is_dead`, `read_level`,
    and, for texts, `legend` with `characters`, `written` or `text`.
    """

    reset_source: ClassVar[str] = "auto"
    reward_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    unit_cost: ClassVar[bool] = True  # whether every action costs 1
    steps_limit: ClassVar[int] = 200  # default time limit, in steps
    fully_observed: ClassVar[bool] = True
    level_format: ClassVar[str] = "jaxenvs.puzzles.leveltext.board"
    level_solver: ClassVar[str] = "jaxenvs.search.levels"
    # Line above the board in the text of a state, without the final colon.
    legend: ClassVar[str] = "The board"
    # Characters that `text` writes: character i for value i of the observation.
    characters: ClassVar[str] = ""

    # Methods that subclasses define.

    @property
    @abstractmethod
    def action_names(self) -> tuple[str, ...]:
        """Short names of the actions."""
        raise NotImplementedError

    @abstractmethod
    def draw_level(self, key: Key, params: Any) -> PuzzleLevel:
        """Draw the initial board and the instance of an episode."""
        raise NotImplementedError

    @eager.compiled
    @abstractmethod
    def apply(self, instance: Any, board: Any, action: Int32[Array, ""]) -> Move:
        """Return the result of an action; an invalid action leaves the board unchanged."""
        raise NotImplementedError

    @eager.compiled
    @abstractmethod
    def is_goal(self, instance: Any, board: Any) -> Bool[Array, ""]:
        """Return whether the board is solved."""
        raise NotImplementedError

    @eager.compiled
    def is_dead(self, instance: Any, board: Any) -> Bool[Array, ""]:
        """Return whether the board is known to be unsolvable, which ends the episode.

        It may return False for an unsolvable board, but never True for a solvable one.
        """
        return jnp.zeros((), jnp.bool_)

    @eager.compiled
    @abstractmethod
    def pack(self, board: Any) -> UInt32[Array, " words"]:
        """Encode the board as 32-bit words; different boards have different words."""
        raise NotImplementedError

    @eager.compiled
    @abstractmethod
    def unpack(self, words: UInt32[Array, " words"]) -> Any:
        """Return the board that `pack` encoded in these words."""
        raise NotImplementedError

    @eager.compiled
    @abstractmethod
    def observe_board(self, instance: Any, board: Any) -> PyTree[Array]:
        """Return the observation; it determines the board unless `fully_observed` is False."""
        raise NotImplementedError

    @eager.compiled
    def heuristic(self, instance: Any, board: Any) -> Float32[Array, ""]:
        """Return a lower bound on the cost from the board to a goal; it is 0 at a goal."""
        return jnp.zeros((), jnp.float32)

    @eager.compiled
    def goal(self, instance: Any) -> Any:
        """Return the solved board, if there is only one; bidirectional search needs it."""
        raise NotImplementedError(f"{self.name} has no single goal")

    @eager.compiled
    def oracle(self, instance: Any, board: Any) -> Array:
        """Return the optimal cost to a goal, computed without a search."""
        raise NotImplementedError(f"{self.name} has no closed form of its distances")

    @property
    def inverse(self) -> np.ndarray | None:
        """For each action, the index of the action that undoes it, int32; None if there is none."""
        return None

    @eager.compiled
    def predecessors(self, instance: Any, board: Any) -> Predecessors:
        """Return every board from which one action leads to `board`; by default use `inverse`."""
        if self.inverse is None:
            raise NotImplementedError(f"{self.name} has no predecessors")
        undone = self.neighbours(instance, board)
        return Predecessors(undone.board, jnp.asarray(self.inverse), undone.cost, undone.valid)

    def step_reward(self, instance: Any, before: Any, move: Move, solved: Array) -> Array:
        """Return the reward of a move: 1 if it solves the puzzle, else 0."""
        return solved.astype(jnp.float32)

    def read_level(self, text: str) -> PuzzleLevel:
        """Parse a level; raise a `ValueError` that names the error and its place."""
        raise NotImplementedError(f"{self.name} cannot read levels")

    def text(self, instance: Any, board: Any) -> str:
        """Write a board as text, in the format of `read_level` if the puzzle has this method."""
        obs = self.observe_board(instance, jax.tree.map(jnp.asarray, board))
        return self.written(np.asarray(obs)[None])[0]

    def written(self, boards: np.ndarray) -> list[str]:
        """Write a batch of observations as the texts that `text` returns.

        By default, an observation must be a matrix, and each value is written as one character.
        """
        if not self.characters:
            raise NotImplementedError(f"{self.name} has no text")
        return texts.written_by_row(boards, characters_of(self.characters))

    def tiles(self, state: PuzzleState) -> Int32[Array, "rows columns"]:
        """Return the index of each cell's sprite in `atlas`; by default the observation."""
        return self.observe_board(state.instance, state.board).astype(jnp.int32)

    # Methods derived from the methods that subclasses define.

    def describe(self, state: PuzzleState, params: Any = None, detail: str = "full") -> str:
        """Describe a state in words: the facts, the legend, and the board as text.

        A puzzle without `text` is described by its observation.
        """
        has_board = type(self).text is not Puzzle.text or self._has_written()
        if self.has_text_inputs or not has_board:
            return super().describe(state, params, detail)
        texts.check_detail(f"{type(self).__name__}.describe", detail)
        known, board = sentences(self.facts(state, params)), self.text(state.instance, state.board)
        return texts.board_text(known, self.legend, board, detail)

    @property
    def has_text_inputs(self) -> bool:
        """True if `describe` returns what `texts` returns.

        False if a subclass overrides `text` or `facts`, but not `texts`.
        """
        first = next(k for k in type(self).__mro__ if {"texts", "text", "facts"} & vars(k).keys())
        is_written = "texts" in vars(first) and self._has_written()
        return is_written and super().has_text_inputs

    def _has_written(self) -> bool:
        is_default = type(self).written is Puzzle.written and type(self).texts is Puzzle.texts
        return bool(self.characters) or not is_default

    def text_inputs(self, state: PuzzleState, params: Any = None) -> PyTree[Array]:
        """Return the observation of the board, which `texts` converts to text."""
        return self.observe_board(state.instance, state.board)

    def texts(self, inputs: PyTree[np.ndarray], detail: str = "full") -> list[str]:
        """Return the text of each board: legend and rows.

        With `detail="short"`, there is no legend, and one line has all rows, separated by slashes.
        """
        legend = self.legend
        return [texts.board_text((), legend, board, detail) for board in self.written(inputs)]

    def text_changes(self, old: PyTree[np.ndarray], new: PyTree[np.ndarray]) -> list[str]:
        """Return, for each board of a batch, its text rows that differ in `old` and `new`."""
        both = texts.pairs(self.written(old), self.written(new))
        return [texts.board_changes(*pair) for pair in both]

    @property
    def default_params(self) -> Params:
        """The time limit, `steps_limit` steps."""
        return Params(max_steps_in_episode=np.int32(self.steps_limit))

    @property
    def action_space(self) -> Space:
        """One action for each entry of `action_names`."""
        return Discrete(len(self.action_names))

    @property
    def num_actions(self) -> int:
        """Number of actions."""
        return len(self.action_names)

    @eager.compiled
    def neighbours(self, instance: Any, board: Any) -> Move:
        """Apply every action to the board; the first axis of each returned array is the action."""
        actions = jnp.arange(self.num_actions, dtype=jnp.int32)
        return jax.vmap(lambda action: self.apply(instance, board, action))(actions)

    def action_mask(self, state: PuzzleState, params: Any = None) -> Bool[Array, " actions"]:
        """Return the mask of legal actions: the actions that change the board."""
        return self.neighbours(state.instance, state.board).valid

    def reset_state(self, key: Key, level: PuzzleLevel, params: Any) -> PuzzleState:
        """Return the initial state, which has the level's board and instance."""
        return PuzzleState(time=jnp.int32(0), board=level.board, instance=level.instance)

    def step_state(self, key: Key, state: PuzzleState, action: Array, params: Any) -> Transition:
        """Apply the action; the episode ends if the board is solved or `is_dead`."""
        instance = state.instance
        move = self.apply(instance, state.board, action)
        solved = self.is_goal(instance, move.board)
        reward = self.step_reward(instance, state.board, move, solved)
        ended = solved | self.is_dead(instance, move.board)
        return Transition(state.replace(board=move.board), reward, ended, {"solved": solved})

    def ending(self, level: PuzzleLevel) -> Ending:
        """Return a level that a single action solves, and this action.

        Puzzles without a unique goal override this method.
        """
        before = self.predecessors(level.instance, self.goal(level.instance))
        first = int(np.argmax(before.valid))
        board = jax.tree.map(lambda leaf: leaf[first], before.board)
        return Ending(level.replace(board=board), (before.action[first],))

    def succeeded(self, step: Step) -> Bool[Array, ""]:
        """Return whether the puzzle is solved."""
        return step.info["solved"]

    def observe(self, state: PuzzleState, params: Any = None) -> PyTree[Array]:
        """Return the observation of the board, see `observe_board`."""
        return self.observe_board(state.instance, state.board)

    def walk(self, key: Key, instance: Any, board: Any, steps: int) -> Any:
        """Return the board after `steps` random valid actions.

        If the puzzle defines `inverse`, no action undoes the previous one. The walk stops early if
        no action is left to choose from.
        """
        drawn = words(key, max(1, steps))

        def step(i: Array, walked: tuple[Any, Array]) -> tuple[Any, Array]:
            moves = self.neighbours(instance, walked[0])
            return self.walk_on(drawn[i], *walked, moves.board, moves.valid)

        # `shard_map` requires that the initial carry of the loop varies between devices, as the
        # random numbers do. Adding 0 times a random number achieves this, and does not change the
        # value.
        last = jnp.int32(-1) + 0 * drawn[0].astype(jnp.int32)
        return jax.lax.fori_loop(0, steps, step, (board, last))[0]

    def walk_on(
        self,
        word: UInt32[Array, ""],
        board: PyTree[Array],
        last: Int32[Array, ""],
        boards: PyTree[Array],
        able: Bool[Array, " boards"],
    ) -> tuple[PyTree[Array], Int32[Array, ""]]:
        """Choose one of `boards` at random; return the chosen board and its index.

        Only boards for which `able` is True can be chosen. If actions have inverses, `boards[a]`
        must be the result of action a, and the action that undoes action `last` is not chosen
        (`last` is -1 before the first action). If no board can be chosen, return `board` and
        `last`.
        """
        if self.inverse is not None:
            undo = jnp.asarray(self.inverse)[jnp.maximum(last, 0)]
            able = able & ~((last >= 0) & (jnp.arange(self.num_actions, dtype=jnp.int32) == undo))
        count = able.sum(dtype=jnp.int32)
        rank = jnp.cumsum(able, dtype=jnp.int32) - 1
        chosen = jnp.argmax(able & (rank == below(word, count))).astype(jnp.int32)
        stays = count == 0
        after = jax.tree.map(lambda old, new: jnp.where(stays, old, new[chosen]), board, boards)
        return after, jnp.where(stays, last, chosen)


class PackedPuzzle(Puzzle):
    """Base class of puzzles whose board is the array of uint32 words that a search hashes."""

    def pack(self, board: UInt32[Array, " words"]) -> UInt32[Array, " words"]:
        """Return the board, which already consists of packed words."""
        return board

    def unpack(self, words: UInt32[Array, " words"]) -> UInt32[Array, " words"]:
        """Return `words`, which already are the board."""
        return words
