"""Boards of the puzzle entries: searches with known optima, and replays in plain Python."""

import functools
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

import jaxenvs
from jaxenvs import search
from jaxenvs.benchmarks.card import korf
from jaxenvs.benchmarks.card import search as card
from jaxenvs.puzzles.puzzle import PuzzleLevel

from ..evaluation import planner
from ..run.tracking import ERROR
from ..storage.heuristics import trained as load_trained
from . import moves
from .entries import Entry
from .training import DAVI, Timing, uncached

FIXED = 0xF1BED  # folded into the key of the seed: boards of the evaluations in training
NODES = 4_000  # nodes that a search with the learned cost-to-go may store for a board, on average
PROOF_NODES = 20_000  # the same, for the search that proves the optimum
LONGEST = 128  # most moves of a plan
KORF_BATCH = {"cpu": 20_000}  # boards expanded together, by platform
KORF_BATCH_ELSEWHERE = 100_000


class Known(NamedTuple):
    """Boards whose fewest moves are known."""

    puzzle: Any
    levels: PuzzleLevel  # (boards, ...)
    fewest: np.ndarray  # number of moves of a shortest solution, (boards,)


class Plans(NamedTuple):
    """Solutions that a search found."""

    actions: np.ndarray  # (boards, LONGEST), -1 after the last action
    optimal: np.ndarray  # whether the board is solved with the fewest moves, (boards,)


def drawn(id: str, key: Array, count: int) -> Known:
    """Draw `count` boards of a puzzle; A* with the built-in heuristic proves the fewest moves.

    Raises `RuntimeError` if the search runs out of nodes.
    """
    puzzle: Any = jaxenvs.make(id)
    levels = jax.jit(jax.vmap(puzzle.sample_level))(jax.random.split(key, count))
    prove = functools.partial(search.astar, puzzle, terminate="optimal", batch_size=4096)
    found = jax.jit(functools.partial(prove, node_budget=PROOF_NODES * count))(levels)
    if not np.asarray(found.optimal).all():
        raise RuntimeError(f"{id}: {PROOF_NODES:,} nodes per board do not prove the optimum")
    return Known(puzzle, levels, np.asarray(found.cost))


@functools.partial(jax.jit, static_argnums=0)
def _searched(learner: Any, weights: PyTree[Array], levels: PuzzleLevel) -> search.Result:
    """Search with the cost-to-go of a learner; `weights` are an argument of the program."""
    plan = planner.of_davi(learner, weights)
    count = len(jax.tree.leaves(levels.board)[0])
    name = "astar" if plan.q is None else "qstar"
    limits = {"node_budget": NODES * count, "max_length": LONGEST}
    return getattr(search, name)(plan.domain, levels, **plan.guide(name), **limits)


def solved(learner: Any, weights: PyTree[Array], known: Known) -> Plans:
    """Search from boards with the learned cost-to-go of one seed."""
    found = jax.device_get(_searched(learner, weights, known.levels))
    return Plans(found.actions, found.solved & (found.cost <= known.fewest))


class Searches:
    """Searches from fixed boards, every `every` updates of a learner of a cost-to-go.

    A log record gets the share of boards solved with the fewest moves, as `eval_return`. The
    weights with the highest share are kept, because training makes a few updates more after the
    evaluation that stops it.
    """

    def __init__(self, every: int, known: Known, learner: Any) -> None:
        self.every, self.note = every, ""
        self.best: PyTree[Array] | None = None  # None until the first evaluation
        self._highest = -1.0  # share of boards that `best` solved with the fewest moves
        self._known, self._learner = known, learner
        self._weights: PyTree[Array] | None = None

    def begin(self, update: int, weights: PyTree[Array]) -> None:
        """Copy the weights of the first seed after `update`."""
        self._weights = jax.tree.map(lambda leaf: jnp.copy(leaf[0]), weights)

    def finish(self, row: dict[str, Any]) -> None:
        """Search with the copied weights, and add the result to a log record."""
        if self._weights is None:
            return
        weights, self._weights = self._weights, None
        optimal = solved(self._learner, weights, self._known).optimal
        share = float(optimal.mean())
        if share > self._highest:
            self.best, self._highest = weights, share
        row["eval_return"] = [share]
        row[ERROR] = [float(optimal.std(ddof=1)) / len(optimal) ** 0.5]
        self.note = f"solved optimally {share:.1%}"

    def parts(self) -> dict[str, PyTree]:
        """Return an empty dict, because checkpoints contain no searches."""
        return {}

    def end(self) -> None:
        """Do nothing: searches write no files."""

    def solved(self, known: Known) -> Plans:
        """Search from boards with the weights `best`."""
        return solved(self._learner, self.best, known)


def load(folder: Path, known: Known) -> Plans:
    """Search from boards with the last cost-to-go of a run."""
    return solved(*load_trained(folder, 0, (DAVI,)), known)


def replayed_cubes(known: Known, plans: Plans) -> np.ndarray:
    """Replay plans in plain Python: whether each solves its cube with the fewest moves."""
    names = known.puzzle.action_names
    found = []
    for board, actions, fewest in zip(known.levels.board, plans.actions, known.fewest, strict=True):
        turns = [names[action] for action in actions if action >= 0]
        stickers = np.asarray(board).reshape(-1).tolist()
        found.append(moves.solves_cube(stickers, turns) and len(turns) == fewest)
    return np.array(found)


def korfs(entry: Entry, seed: int) -> tuple[Timing, np.ndarray, np.ndarray]:
    """Solve the easiest `entry.episodes` of Korf's boards with a proof of optimality.

    Returns the length of the search, whether each solution has the published length, and the same
    for its replay in plain Python. The seed orders the boards.
    """
    puzzle: Any = jaxenvs.make(entry.id)
    order = np.random.default_rng(seed).permutation(entry.episodes)
    chosen = [korf.LEVELS[i] for i in order]
    begun = time.perf_counter()
    start = jnp.stack([puzzle.level(level.numbers).board for level in chosen])
    limits = {
        "batch_size": KORF_BATCH.get(jax.default_backend(), KORF_BATCH_ELSEWHERE),
        "node_budget": card.node_budget(start.shape[1] + 1, small=False),
        "max_length": LONGEST,
    }
    run = functools.partial(search.astar, puzzle, terminate="optimal", **limits)
    with uncached():
        compiled = jax.jit(run).lower(start).compile()
    passes = card.passes(compiled, start, puzzle.goal(()), entry.budget)
    seconds = time.perf_counter() - begun
    timing = Timing(seconds, sum(passes.counts["times_s"]), passes.counts["nodes"])
    lengths = np.array([level.optimal for level in chosen])
    replayed = [
        moves.solves_tiles(level.numbers, plan[plan >= 0].tolist())
        and (plan >= 0).sum() == level.optimal
        for level, plan in zip(chosen, passes.actions, strict=True)
    ]
    return timing, passes.cost == lengths, np.array(replayed)
