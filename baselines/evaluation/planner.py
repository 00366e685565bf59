"""Planners for puzzles: search with a learned heuristic (davi) or policy (last-move).

A run of world has a learned model, in which the search plans.

A search in a learned model receives only the observations of a level and of the goal. Its plans are
then executed in the true puzzle.
"""

import dataclasses
import functools
import os
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, PyTree

from jaxenvs import search
from jaxenvs.core.bits import pack, unpack, words_for
from jaxenvs.puzzles.puzzle import Move, Puzzle, PuzzleLevel

from ..core.learner import Learner
from ..puzzles import davi, last_move, latent_states, world
from ..puzzles.cost_to_go import PuzzleNetwork
from ..puzzles.latent_states import Code, Networks
from ..storage.heuristics import trained


@dataclasses.dataclass(frozen=True, eq=False)
class Planner:
    """Inputs of a search that a trained run provides: states and moves, and learned heuristics."""

    puzzle: Puzzle
    # `search.Domain` with the states and moves to search: the puzzle, or its learned model
    domain: Any
    # None if the run has learned a policy instead
    heuristic: Callable[[Any, Any], Float32[Array, ""]] | None
    # For Q* search: function (constant part of the level, state) -> for each action, the predicted
    # sum of its cost and the cost-to-go after it. None if the network has no output per action.
    q: Callable[[Any, Any], Float32[Array, " actions"]] | None
    # function (levels of the puzzle, key) -> these levels, converted to states of the learned
    # model; None if the search is in the puzzle
    see: Callable[[PuzzleLevel, Array], PuzzleLevel] | None = None
    # For beam search: function (instance, board) -> log-probability of each action. None if the run
    # has learned no policy.
    policy: Callable[[Any, Any], Float32[Array, " actions"]] | None = None

    @property
    def algorithm(self) -> str:
        """Name of the default search algorithm for the learned heuristic or policy."""
        if self.policy is not None:
            return "beam"
        return "astar" if self.q is None else "qstar"

    @property
    def in_model(self) -> bool:
        """True if the domain is a learned model; its plans may fail in the true puzzle."""
        return self.see is not None

    def guide(self, algorithm: str) -> dict[str, Any]:
        """Return the keyword argument that passes the learned heuristic or policy to a search.

        Raises `ValueError` if the algorithm cannot use it.
        """
        if self.policy is not None:
            if algorithm == "beam":
                return {"policy": self.policy}
            raise ValueError(f"{algorithm} takes no policy; give beam")
        if algorithm in ("astar", "beam"):
            return {"heuristic": self.heuristic}
        if algorithm == "qstar" and self.q is not None:
            return {"q": self.q}
        if algorithm == "qstar":
            raise ValueError("qstar needs a head per action: train davi with --q, or give astar")
        raise ValueError(f"{algorithm} takes no learned heuristic; give astar, qstar or beam")

    def levels(self, levels: PuzzleLevel, key: Array) -> PuzzleLevel:
        """Convert levels of the puzzle (batch, ...) to levels of `domain`, for a search.

        If `domain` is a learned model, the board and the goal of each level are encoded. Otherwise
        the levels are returned unchanged.
        """
        return levels if self.see is None else jax.jit(self.see)(levels, key)


def load(run_dir: str | os.PathLike[str], seed: int = 0) -> Planner:
    """Load the planner of a run of the learner `davi`, `last-move` or `world`.

    `seed` is the index of one of the run's seeds, from 0.

    Raises `RunError` with a message that tells the user how to fix the run.
    """
    learner, weights = trained(run_dir, seed, PLANNERS)
    return PLANNERS[learner.algorithm.name](learner, weights)


def of_davi(learner: Learner[davi.Settings, PuzzleNetwork], weights: PyTree[Array]) -> Planner:
    """Return a planner that searches the true puzzle with the learned heuristic."""
    by_action = functools.partial(davi.action_costs, learner, weights)
    return Planner(
        puzzle=learner.env,
        domain=learner.env,
        heuristic=functools.partial(davi.cost_to_go, learner, weights),
        q=by_action if learner.settings.q else None,
    )


def of_last_move(
    learner: Learner[last_move.Settings, PuzzleNetwork], weights: PyTree[Array]
) -> Planner:
    """Return a planner that searches the true puzzle with the learned policy."""
    policy = functools.partial(last_move.log_probs, learner, weights)
    return Planner(learner.env, learner.env, heuristic=None, q=None, policy=policy)


def of_world(learner: Learner[world.Settings, Networks], weights: PyTree[Array]) -> Planner:
    """Return a planner that searches the learned model, with the learned heuristic."""
    domain = learned_domain(learner, weights)
    return Planner(
        puzzle=learner.env,
        domain=domain,
        heuristic=domain.heuristic,
        q=functools.partial(latent_states.action_costs, learner, weights),
        see=functools.partial(latent_states.look, learner, weights),
    )


PLANNERS: dict[str, Callable[[Any, PyTree[Array]], Planner]] = {
    "davi": of_davi,
    "last-move": of_last_move,
    "world": of_world,
}


def learned_domain(
    learner: Learner[world.Settings, Networks], weights: PyTree[Array]
) -> search.Domain:
    """Return the learned model of a puzzle as a `Domain`, in which search algorithms can plan.

    States and goals of the domain are codes (bits). The heuristic is 0 at a goal. Otherwise, it is
    the minimum over the actions of the predicted cost: the action's cost plus the cost-to-go after
    the action.
    """
    model = learner.network.model
    shape, actions = (model.cells, model.bits), model.actions
    count = model.cells * model.bits

    def neighbours(goal: Any, code: Code) -> Move:
        after = latent_states.successors(learner, weights, code)
        changed = (after != code).any(axis=(1, 2))
        return Move(after, jnp.ones(actions, jnp.float32), changed)

    def apply(goal: Any, code: Code, action: Int32[Array, ""]) -> Move:
        move: Any = functools.partial(model.apply, weights["model"], method="move")
        after = move(code.astype(jnp.float32), action) > 0
        return Move(after, jnp.ones((), jnp.float32), (after != code).any())

    def is_goal(goal: Any, code: Code) -> Bool[Array, ""]:
        return latent_states.is_solved(learner, weights, goal, code)

    def heuristic(goal: Any, code: Code) -> Float32[Array, ""]:
        best = latent_states.action_costs(learner, weights, goal, code).min()
        return jnp.where(is_goal(goal, code), 0.0, best)

    return search.Domain(
        neighbours=neighbours,
        is_goal=is_goal,
        pack=lambda code: pack(code.reshape(-1).astype(jnp.uint8), 1),
        unpack=lambda words: unpack(words, count, 1).reshape(shape) == 1,
        num_actions=actions,
        num_words=words_for(count, 1),
        heuristic=heuristic,
        unit_cost=True,
        apply=apply,
        possible=lambda goal, code: jnp.ones(actions, jnp.bool_),
    )


def play(puzzle: Puzzle, level: PuzzleLevel, actions: Int32[Array, " longest"]) -> PyTree[Array]:
    """Execute actions in the puzzle itself, not in a learned model of it.

    Return the board (state of the puzzle) after the last action. Actions of -1, which pad shorter
    plans, are skipped.
    """

    def step(board: PyTree[Array], action: Array) -> tuple[PyTree[Array], None]:
        after = puzzle.apply(level.instance, board, jnp.maximum(action, 0)).board
        return jax.tree.map(lambda old, new: jnp.where(action < 0, old, new), board, after), None

    return jax.lax.scan(step, level.board, actions)[0]


@functools.partial(jax.jit, static_argnums=0)
def played(
    puzzle: Puzzle, levels: PuzzleLevel, actions: Int32[Array, "levels longest"]
) -> tuple[PyTree[Array], Bool[Array, " levels"]]:
    """Execute one plan (sequence of actions) for each level, in the puzzle itself.

    Return the boards after the plans, and whether each board is solved. Plans from a learned model
    may fail in the puzzle.
    """
    boards = jax.vmap(functools.partial(play, puzzle))(levels, actions)
    return boards, jax.vmap(puzzle.is_goal)(levels.instance, boards)
