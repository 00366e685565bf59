"""Code shared by the learners that search puzzles: davi.py, last_move.py and world.py.

DAVI learns the heuristic in the puzzle itself; world.py learns it in a learned model of the puzzle.
last_move.py learns a policy. This module has the network, the random walks from the goal, the
Q-learning targets, the schedule of the target network, and tests of greedy policies.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float32, Int32, PyTree

from jaxenvs import Env, spaces
from jaxenvs.core.random import words
from jaxenvs.puzzles.puzzle import Puzzle, PuzzleLevel

from ..core.bounds import Count, NonNegative, NonNegativeInt, Unlimited
from ..core.devices import Devices
from ..core.episodes import Agents
from ..core.learner import Algorithm, Learner
from ..core.policy_statement import greedily
from ..core.puzzles import has_goal
from ..core.settings import Checked
from ..networks.encoders import Encoder


@dataclasses.dataclass(frozen=True)
class Walking(Checked):
    """Settings shared by the learners of puzzles, whose training states come from random walks."""

    walks: Count = 64  # number of random walks per gradient step of the network
    # Number of steps of a random walk that collects training states. Each of the `scramble` + 1
    # states of the walk is a training example.
    scramble: Count = 20
    gradient_steps: Count = 50  # gradient steps per update
    learning_rate: NonNegative = 1e-3  # initial learning rate
    max_grad_norm: Unlimited = 10.0  # gradients are clipped to this global norm
    width: Count = 256  # width of the network's layers
    blocks: NonNegativeInt = 1  # number of residual blocks, of two layers each
    # number of boards on which the greedy policy is tested after each update, for the log
    test_boards: Count = 64
    test_moves: Count = 40  # maximum number of moves to solve a test board
    chunk: int = 1  # updates per call of the compiled program; Ctrl-C waits for the end of a call


@dataclasses.dataclass(frozen=True)
class Solving(Walking):
    """Settings shared by the learners of a cost-to-go heuristic."""

    # mean loss below which the weights are copied to the target network
    target_loss: NonNegative = 0.05
    # Number of updates after which the weights are copied to the target network even if the loss is
    # above `target_loss`.
    target_every: Count = 10


@dataclasses.dataclass(frozen=True)
class OnWalks(Walking):
    """Settings of learners that train on every board of random walks in the puzzle itself."""

    total_steps: int = 10_000_000  # number of training boards, rounded up to whole updates
    anneal: bool = True  # whether the learning rate falls linearly to 0

    unit: ClassVar[str] = "boards"

    @property
    def steps_per_update(self) -> int:
        """Number of training boards of an update."""
        return self.walks * (self.scramble + 1) * self.gradient_steps


class PuzzleNetwork(nn.Module):
    """Residual MLP on the one-hot encoding of a single observation; use `vmap` for a batch.

    If `actions` is 0, the network outputs a single number, the cost-to-go. Otherwise it has one
    output per action: the cost of the action plus the cost-to-go after it or, in a policy, the
    action's logit.
    """

    observation_space: spaces.Space
    width: int
    blocks: int
    actions: int = 0

    @nn.compact
    def __call__(self, obs: PyTree[Array]) -> Float32[Array, "*actions"]:
        features = nn.relu(nn.Dense(self.width)(Encoder(self.observation_space, 0)(obs)))
        for _ in range(self.blocks):
            inner = nn.relu(nn.Dense(self.width)(features))
            # Initial weights of 0 make each block start as the identity.
            change = nn.Dense(self.width, kernel_init=nn.initializers.zeros)(inner)
            features = nn.relu(features + change)
        return nn.Dense(self.actions)(features) if self.actions else nn.Dense(1)(features)[0]


def optimiser(settings: Any) -> optax.GradientTransformation:
    """Return Adam with clipped gradients; with `anneal`, the learning rate falls to 0."""

    def falling(steps: Any) -> Array:
        done = settings.progress(steps / settings.gradient_steps, settings.rate_since)
        return settings.learning_rate * (1.0 - done)

    rate = falling if settings.anneal else settings.learning_rate
    return optax.chain(optax.clip_by_global_norm(settings.max_grad_norm), optax.adam(rate))


def random_walk(
    env: Puzzle, key: Array, steps: int
) -> tuple[PyTree[Array], PyTree[Array], Int32[Array, " boards"]]:
    """Return a random instance of a puzzle, and a random walk of `steps` steps from its goal.

    The walk is a tuple: the `steps` + 1 boards, the goal first, and for each board the action that
    leads to the board before it (-1 for the goal). If every action has an inverse, no step of the
    walk undoes the step before.
    """
    key_level, key_walk = jax.random.split(key)
    instance = env.sample_level(key_level).instance
    drawn = words(key_walk, steps + 1)

    def step(carry: Any, word: Array) -> tuple[Any, Any]:
        board, last, action = carry
        # The walk steps backwards, to a board from which an action leads to `board`. In puzzles
        # whose actions have inverses, these boards are the results of the actions on `board`.
        before = env.predecessors(instance, board)
        after, chosen = env.walk_on(word, board, last, before.board, before.valid)
        stays = ~before.valid.any()
        taken = jnp.where(stays, action, before.action[jnp.maximum(chosen, 0)].astype(jnp.int32))
        return (after, chosen, taken), (board, action)

    start = (env.goal(instance), jnp.int32(-1), jnp.int32(-1))
    return instance, *jax.lax.scan(step, start, drawn)[1]


class ActionCosts(NamedTuple):
    """Targets of Q-learning: the cost of each action plus the cost-to-go after it."""

    cost: Float32[Array, "*actions"]
    # whether the action has a target: the state is unsolved, the action is legal, and it either
    # solves the puzzle or leads to a state with a legal action
    known: Bool[Array, "*actions"]


def costs_of_actions(
    cost: Float32[Array, "*actions"],
    valid: Bool[Array, "*actions"],
    guesses: Float32[Array, "*actions then"],
    able: Bool[Array, "*actions then"],
    solved: Bool[Array, "*actions"],
) -> ActionCosts:
    """Return the Q-learning targets: `cost` + min over next actions of the predicted costs.

    `guesses` are the predicted costs of the next actions; negative costs are replaced by 0. `able`
    is True for legal next actions. The target of an action that solves the puzzle (`solved`) is its
    `cost`. Actions that are not `valid` have no target, nor have actions that lead to an unsolved
    state without legal actions.
    """
    best = jnp.where(able, jnp.maximum(guesses, 0.0), jnp.inf).min(axis=-1)
    whole = cost + jnp.where(solved, 0.0, best)
    known = valid & jnp.isfinite(whole)
    return ActionCosts(jnp.where(known, whole, 0.0), known)


def squared_error(guesses: Float32[Array, "*actions"], targets: ActionCosts) -> Float32[Array, ""]:
    """Return the mean squared error of predicted costs, over actions with a known target."""
    errors = jnp.where(targets.known, jnp.square(guesses - targets.cost), 0.0)
    return errors.sum() / jnp.maximum(targets.known.sum(dtype=jnp.float32), 1.0)


def update_target(
    settings: Any, target: PyTree[Array], weights: PyTree[Array], age: Array, loss: Array
) -> tuple[PyTree[Array], Int32[Array, ""], Bool[Array, ""]]:
    """Copy the weights to the target network if the loss is low or the last copy is old.

    The loss is low below the setting `target_loss`. The last copy is old if it was made
    `target_every` or more updates ago; `age` is the number of updates since then. Returns the
    target network, the new age, and whether the weights were copied.
    """
    age = age + 1
    change = (loss < settings.target_loss) | (age >= settings.target_every)
    target = jax.tree.map(lambda old, new: jnp.where(change, new, old), target, weights)
    return target, jnp.where(change, 0, age), change


def play_greedily(
    env: Any,
    levels: PuzzleLevel,
    state: PyTree[Array],
    move: Callable[[PuzzleLevel, Any, Any], tuple[Any, Any]],
    length: int,
) -> tuple[Bool[Array, " boards"], Int32[Array, " boards"]]:
    """Play up to `length` moves on each level, until the level is solved.

    `move(level, state, board)` makes a move on one level and returns the next `state` and board.
    `state` is any data that a move passes to the next move, such as a state of a learned model. The
    argument `state` has the initial data of all levels. Returns whether each level was solved, and
    the number of moves.
    """

    def one(level: PuzzleLevel, state: Any, board: Any) -> tuple[Any, Any, Array]:
        state, after = move(level, state, board)
        solved = env.is_goal(level.instance, board)
        after = jax.tree.map(lambda old, new: jnp.where(solved, old, new), board, after)
        return state, after, ~solved

    def step(carry: Any, _: None) -> tuple[Any, None]:
        state, board, taken = carry
        state, board, moved = jax.vmap(one)(levels, state, board)
        return (state, board, taken + moved.astype(jnp.int32)), None

    count = len(jax.tree.leaves(levels.board)[0])
    start = (state, levels.board, jnp.zeros(count, jnp.int32))
    _, board, taken = jax.lax.scan(step, start, length=length)[0]
    return jax.vmap(env.is_goal)(levels.instance, board), taken


def descent_metrics(
    solved: Bool[Array, " boards"], moves: Int32[Array, " boards"]
) -> dict[str, Any]:
    """Return the log's metrics of test boards: `episodes`, `return_sum` and `length_sum`.

    Each board counts as an episode: its return is 1 if the board was solved, else 0, and its length
    is the number of moves.
    """
    return {
        "episodes": jnp.int32(len(solved)),
        "return_sum": solved.sum(dtype=jnp.float32),
        "length_sum": moves.sum(dtype=jnp.int32),
    }


def results_by_seed(
    weights: PyTree[Array], agents: Agents, evaluate: Callable[[Any, Array], dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return, for each seed, a dict of `seed` and the results of `evaluate(weights, key)`."""
    return [
        {"seed": seed, **evaluate(jax.tree.map(lambda leaf, i=i: leaf[i], weights), key)}
        for i, (seed, key) in enumerate(zip(agents.seeds, agents.keys, strict=True))
    ]


def solved_share(
    solved: Bool[Array | np.ndarray, " boards"], moves: Int32[Array | np.ndarray, " boards"]
) -> dict[str, Any]:
    """Return the fraction of solved boards, and the mean number of moves on solved boards."""
    rate = round(float(solved.mean()), 6)
    return {
        "success_rate": rate,
        "mean_length": round(float(moves[solved].mean()), 3) if rate else None,
    }


def evaluate_greedily(
    descend: Callable[..., Any],
    learner: Learner[Any, Any],
    weights: PyTree[Array],
    agents: Agents,
    count: int,
) -> dict[str, Any]:
    """Test each seed's greedy policy on `count` random boards; return eval.json's content.

    `descend(learner, weights, key, count)` plays the policy; it returns whether each board was
    solved, and the number of moves.
    """
    each_seed = jax.jit(functools.partial(descend, learner, count=count))
    found = results_by_seed(weights, agents, lambda *given: solved_share(*each_seed(*given)))
    facts = {"policy": greedily(learner.env), "boards": count}
    return {**facts, "moves": learner.settings.test_moves, "greedy": found}


def as_text(result: dict[str, Any]) -> str:
    """Format the result of `evaluate_greedily` for the terminal."""
    each = ", ".join(
        f"{one['success_rate']:.1%}"
        + (f" in {one['mean_length']} moves" if one["mean_length"] else "")
        for one in result["greedy"]
    )
    return f"Greedy descent from {result['boards']} boards, without search: {each}"


def shown(settings: Any, record: dict[str, Any]) -> str:
    """Return the text of the progress line: the fraction of solved test boards, and the loss."""
    solved, loss = np.mean(record["return"]), np.mean(record["loss"])
    return f"boards solved {solved:.0%}   loss {loss:.3g}"


def check_goal(algorithm: Algorithm, env: Env) -> None:
    """Raise `ValueError` if an instance of the puzzle does not have exactly one goal board."""
    if not has_goal(env):
        raise ValueError(
            f"{env.name} has no single goal, where {algorithm.name} starts; choose a puzzle with "
            "one, such as Puzzle-Cube-2x2-v0 or Puzzle-SlidingTile-3x3-v0"
        )


def check_walks(learner: Learner[Any, Any]) -> None:
    """Raise `ValueError` if no random walk can start at the goal of the learner's puzzle."""
    env = learner.env
    if env.inverse is None and type(env).predecessors is Puzzle.predecessors:
        raise ValueError(
            f"{env.name} cannot be walked backwards from its goal: its moves have no inverse, and "
            f"it defines no predecessors; choose another puzzle for {learner.algorithm.name}, such "
            f"as Puzzle-Cube-2x2-v0"
        )


def check_one_device(algorithm: Algorithm, devices: Devices) -> None:
    """Raise `ValueError` if the run asks for several devices, which the learner cannot use."""
    if devices.count > 1:
        raise ValueError(
            f"--devices {devices.count}: {algorithm.name} trains on one device; omit --devices"
        )
