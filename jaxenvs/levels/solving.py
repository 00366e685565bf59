"""`solve`: find shortest plans of levels, for families of environments with an exact solver.

Families are, for example, Grid (MiniGrid) and Puzzle; `Env.level_solver` names a family's solver.
"""

import importlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
from jaxtyping import Array, Bool, Int32, PyTree

from ..core.env import Env
from . import api
from .api import Entry


class Solution(NamedTuple):
    """Shortest plan of a level, or bounds on its length; returned by `solve`."""

    steps: int | None  # number of steps of the shortest known plan; None if none is known
    plan: tuple[int, ...]  # actions that succeed from the start of the level; () if none are known
    lower: int  # proven lower bound on the number of steps
    proven: bool  # whether it is proven that `plan` is a shortest plan
    unsolvable: bool  # whether it is proven that no plan exists
    # Highest return that a plan can have within the time limit; 0 if no plan fits into the limit.
    # None if the highest return is not proven, or if the reward depends on more than the number of
    # steps.
    optimal_return: float | None
    # Proven upper bound on the return; None if no bound is known. If `optimal_return` is proven,
    # the bound equals it.
    return_bound: float | None = None

    @property
    def upper(self) -> int | None:
        """Proven upper bound on the number of steps: the plan's length; None without a plan."""
        return self.steps


def solve(
    env: Env,
    levels: PyTree[Any] | Entry | Sequence[PyTree[Any] | Entry],
    *,
    node_budget: int = 1_000_000,
    batch_size: int = 256,
    shared: bool = False,
) -> list[Solution]:
    """Find the fewest steps to success in each level, with a plan and a proof or bounds.

    levels: a level, levels stacked along a leading axis, or a sequence of levels or `Entry`s. For
        Grid, BabyAI and puzzles, a level may be replaced by a state, from which the plan then
        starts.
    node_budget: largest number of states that a search stores.
    batch_size: number of states that a search expands together.
    shared: whether levels with different numbers of objects share a compiled program. Sharing makes
        the search a little slower, but saves compilations in an editor or viewer, which solves one
        level after another.

    Plans ignore the time limit; `optimal_return` takes it into account. Wrappers of `env` are
    ignored, so a `TimeLimit` does not count. Raises `NotImplementedError` for an environment whose
    family has no solver, and `TypeError` for an environment without an optimum, such as one with
    obstacles that move at random.
    """
    settings = {"node_budget": node_budget, "batch_size": batch_size, "shared": shared}
    if isinstance(levels, Entry):
        levels = [levels]
    if not isinstance(levels, (list, tuple)):
        return _solver(env)(env, levels, **settings)
    found: dict[int, Solution] = {}
    for places, group in _groups(levels):
        made = env_of(env, group[0])
        found |= zip(places, _solver(made)(made, api.stack(group), **settings), strict=True)
    return [found[place] for place in range(len(levels))]


def first_actions(
    env: Env, states: PyTree[Any], *, node_budget: int = 1 << 16, batch_size: int = 256
) -> tuple[Int32[Array, " states"], Bool[Array, " states"]]:
    """Return the first action of a shortest plan from each state, and whether it is known.

    states: states of `env` without its wrappers, arrays (states, ...), at any time of an episode.
    node_budget: largest number of states that a search stores. One search finds the actions for up
        to 64 of the `states`.
    batch_size: number of states that a search expands together.

    Works inside `jit`, for Grid and BabyAI. Raises the errors of `check_first_actions`.
    """
    return check_first_actions(env)(env, states, node_budget=node_budget, batch_size=batch_size)


def check_first_actions(env: Env) -> Any:
    """Return the function `first_actions` of the module that solves levels of `env`.

    Raises `NotImplementedError` if this module has no such function, and `TypeError` for an
    environment without shortest plans, such as one with obstacles that move at random.
    """
    check_solver(env)
    found = getattr(_module(env), "first_actions", None)
    if found is None:
        raise NotImplementedError(
            f"levels.first_actions: {type(api.bare(env)).__name__} has no solver inside compiled "
            "programs; Grid and BabyAI have one"
        )
    return found


def has_first_actions(env: Env) -> bool:
    """Return whether `first_actions` supports an environment."""
    try:
        check_first_actions(env)
    except (NotImplementedError, TypeError):
        return False
    return True


def has_solver(env: Env) -> bool:
    """Return whether an environment names a module with an exact solver, its `level_solver`."""
    return bool(api.bare(env).level_solver)


def check_solver(env: Env, states: bool = False) -> None:
    """Raise the error that `solve` would raise for `env`; do nothing if `solve` supports `env`.

    states: whether `solve` must also accept states in the middle of an episode.
    """
    module = _module(env)
    if hasattr(module, "check"):
        module.check(env)
    if states and not getattr(module, "TAKES_STATES", False):
        raise NotImplementedError(
            f"levels.solve: {type(api.bare(env)).__name__} has plans only from the start of a level"
        )


def _solver(env: Env) -> Any:
    return _module(env).solve_levels


def _module(env: Env) -> Any:
    name = api.bare(env).level_solver
    if not name:
        raise NotImplementedError(
            f"levels.solve: {type(api.bare(env)).__name__} has no exact solver; families with one "
            "are Grid, BabyAI, XLand and Puzzle"
        )
    return importlib.import_module(name)


def _groups(levels: Sequence[Any]) -> Iterator[tuple[list[int], list[Entry]]]:
    """Yield (indices, levels) for each group of levels that one search can solve together."""
    entries = [each if isinstance(each, Entry) else Entry(each) for each in levels]
    groups: dict[Any, list[int]] = {}
    for place, entry in enumerate(entries):
        shapes = jax.tree.map(lambda leaf: jax.numpy.shape(leaf), entry.level)
        kind = (str(entry.params), str(entry.fields), type(entry.level).__name__, str(shapes))
        groups.setdefault(kind, []).append(place)
    for places in groups.values():
        yield places, [entries[place] for place in places]


def env_of(env: Env, entry: Entry) -> Env:
    """Return the environment with the fields and params of an entry."""
    made = api.with_fields(env, entry.fields)
    return made.with_params(**entry.params) if entry.params else made
