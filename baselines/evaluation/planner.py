"""Searches with what a run has learned: a heuristic of the puzzle (davi), or a world (world).

In a learned world a search sees the observation of a level and of the goal, and nothing else of the
puzzle; its plans are then played in the true one.
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

from .. import registry
from ..core.learner import Learner
from ..puzzles import davi, latent_states, world
from ..puzzles.latent_states import Code
from ..storage.checkpoints import RunError
from ..storage.runs import Run


@dataclasses.dataclass(frozen=True, eq=False)
class Planner:
    """What to search, and by which heuristic."""

    puzzle: Puzzle
    domain: Any  # the puzzle, or a `search.Domain` that was learned
    heuristic: Callable[[Any, Any], Float32[Array, ""]]
    q: Callable[[Any, Any], Float32[Array, " actions"]] | None  # None: no head per action
    # Levels of the puzzle and a key -> levels of the domain; None where they are the same.
    see: Callable[[PuzzleLevel, Array], PuzzleLevel] | None = None

    @property
    def in_model(self) -> bool:
        """Whether the domain is a learned world, whose plans may be wrong."""
        return self.see is not None

    def guide(self, algorithm: str) -> dict[str, Any]:
        """What a search is given; `ValueError` for one that cannot use what was learned."""
        if algorithm in ("astar", "beam"):
            return {"heuristic": self.heuristic}
        if algorithm == "qstar" and self.q is not None:
            return {"q": self.q}
        if algorithm == "qstar":
            raise ValueError("qstar needs a head per action: train davi with --q, or give astar")
        raise ValueError(f"{algorithm} takes no learned heuristic; give astar, qstar or beam")

    def levels(self, levels: PuzzleLevel, key: Array) -> PuzzleLevel:
        """Levels, by a leading axis, as the domain has them."""
        return levels if self.see is None else jax.jit(self.see)(levels, key)


def load(run_dir: str | os.PathLike[str], seed: int = 0) -> Planner:
    """Load what a run of davi or world has learned, of its seed, counted from 0.

    Raises `RunError`, which says how to fix the run.
    """
    run = Run.open(run_dir)
    name = run.config.algorithm
    if name not in PLANNERS:
        raise RunError(
            f"{run.path} was trained by {name}, which learns nothing that a search takes; give a "
            f"run of {' or '.join(PLANNERS)}"
        )
    settings = registry.ALGORITHMS[name].load().Settings(**run.config.settings)
    learner = registry.build(name, run.config.env, settings)
    return PLANNERS[name](learner, run.weights(learner, seed))


def of_davi(learner: Learner[davi.Settings], weights: PyTree[Array]) -> Planner:
    """Search the puzzle by a learned heuristic."""
    by_action = functools.partial(davi.action_costs, learner, weights)
    return Planner(
        puzzle=learner.env,
        domain=learner.env,
        heuristic=functools.partial(davi.cost_to_go, learner, weights),
        q=by_action if learner.settings.q else None,
    )


def of_world(learner: Learner[world.Settings], weights: PyTree[Array]) -> Planner:
    """Search a learned world."""
    domain = learned_domain(learner, weights)
    return Planner(
        puzzle=learner.env,
        domain=domain,
        heuristic=domain.heuristic,
        q=functools.partial(latent_states.action_costs, learner, weights),
        see=functools.partial(latent_states.look, learner, weights),
    )


PLANNERS: dict[str, Callable[[Any, PyTree[Array]], Planner]] = {"davi": of_davi, "world": of_world}


def learned_domain(learner: Learner[world.Settings], weights: PyTree[Array]) -> search.Domain:
    """The learned world as a search takes it: boards are codes, the instance is the goal's code.

    The heuristic is the least cost of an action.
    """
    model = learner.network.model
    shape, actions = (model.cells, model.bits), model.actions
    count = model.cells * model.bits

    def neighbours(goal: Any, code: Code) -> Move:
        after = latent_states.successors(learner, weights, code)
        changed = (after != code).any(axis=(1, 2))
        return Move(after, jnp.ones(actions, jnp.float32), changed)

    def apply(goal: Any, code: Code, action: Int32[Array, ""]) -> Move:
        asked = functools.partial(model.apply, weights["model"], method="move")
        after = asked(code.astype(jnp.float32), action) > 0
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
    """Take the actions that are not -1 in the true puzzle; return the last board."""

    def step(board: PyTree[Array], action: Array) -> tuple[PyTree[Array], None]:
        after = puzzle.apply(level.instance, board, jnp.maximum(action, 0)).board
        return jax.tree.map(lambda old, new: jnp.where(action < 0, old, new), board, after), None

    return jax.lax.scan(step, level.board, actions)[0]


@functools.partial(jax.jit, static_argnums=0)
def played(
    puzzle: Puzzle, levels: PuzzleLevel, actions: Int32[Array, "levels longest"]
) -> tuple[PyTree[Array], Bool[Array, " levels"]]:
    """The last boards of plans in the true puzzle, and which of them are solved."""
    boards = jax.vmap(functools.partial(play, puzzle))(levels, actions)
    return boards, jax.vmap(puzzle.is_goal)(levels.instance, boards)
