"""DAVI: a cost-to-go network by approximate value iteration (Agostinelli et al., 2019, DeepCubeA).

Random walks lead away from the goal; each board on them learns the least of (cost + what an older
copy of the network says) over its neighbours, and the goal is worth 0. Run it with `jaxenvs train
ID --algo davi`; `load_heuristic` gives what A* and beam search take. Deliberate differences: all
boards of a walk are learned from, whose neighbours the walk has computed already; no batch
normalisation; and for a puzzle whose actions have no inverse the walk goes to predecessors.

With `--q` the network has a head per action: the cost of the action and of what follows it, learned
by Q-learning (Agostinelli et al., 2024, "Q* Search: Heuristic Search with Deep Q-Networks"). One
evaluation then values every successor of a board, which `load_q` gives to Q*. Deliberate
difference: all legal actions of a board are learned from, not one that the network prefers.
"""

import dataclasses
import functools
from typing import Any, ClassVar, NamedTuple

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float32, Int32, PyTree, UInt32

from jaxenvs import Env, spaces
from jaxenvs.core.random import words

from ..core.bounds import Count, Unlimited
from ..core.devices import ALONE, Devices
from ..core.episodes import Agents
from ..core.learner import Algorithm, Learner
from ..core.minibatches import apply_gradient
from ..core.policy_statement import greedily
from ..core.puzzles import has_goal
from ..core.settings import Checked
from ..networks.encoders import Encoder


@dataclasses.dataclass(frozen=True)
class Settings(Checked):
    """What a run learns with; presets.py tunes it per environment, flags override it."""

    total_steps: int = 10_000_000  # boards to learn from, rounded up to whole updates
    walks: Count = 64  # in the batch of a gradient step
    scramble: Count = 20  # moves of a walk, each board of which is in the batch
    gradient_steps: Count = 50  # in an update
    learning_rate: float = 1e-3  # at the start
    anneal: bool = True  # whether the learning rate falls linearly to zero
    max_grad_norm: Unlimited = 10.0  # global norm of the gradient, at most
    target_loss: float = 0.05  # mean loss of an update below which the target becomes the network
    target_every: Count = 10  # updates after which it does in any case
    width: Count = 256  # of the network's layers
    blocks: int = 1  # residual blocks of two layers
    q: bool = False  # whether the network has a head per action, for Q*
    test_boards: Count = 64  # boards to descend from greedily after each update, for the log
    test_moves: Count = 40  # moves to solve them in
    chunk: int = 1  # updates in one call of the compiled program: Ctrl-C waits for its end

    unit: ClassVar[str] = "boards"

    @property
    def steps_per_update(self) -> int:
        """Boards learned from in an update."""
        return self.walks * (self.scramble + 1) * self.gradient_steps


class CostToGo(nn.Module):
    """A residual MLP on one-hots of one observation; `vmap` it.

    It returns one cost, or with `actions` that of each.
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
            # Each block begins as the identity.
            change = nn.Dense(self.width, kernel_init=nn.initializers.zeros)(inner)
            features = nn.relu(features + change)
        return nn.Dense(self.actions)(features) if self.actions else nn.Dense(1)(features)[0]


class Runner(NamedTuple):
    """Everything a run consists of between two updates: saved as it is, resumed bit for bit."""

    weights: PyTree[Array]
    target: PyTree[Array]  # the older copy, which values the neighbours
    optimiser: PyTree[Array]
    key: UInt32[Array, "*seeds words"]  # data of the PRNG key
    age: Int32[Array, "*seeds"]  # updates since the target was changed


class Boards(NamedTuple):
    """Boards with all that actions lead to."""

    board: PyTree[Array]  # (*batch, ...)
    child: PyTree[Array]  # (*batch, actions, ...)
    cost: Float32[Array, "*batch actions"]
    valid: Bool[Array, "*batch actions"]


class ActionCosts(NamedTuple):
    """What actions cost with all that follows them."""

    cost: Float32[Array, "*actions"]
    known: Bool[Array, "*actions"]  # whether there is something to learn


DIVIDED: tuple[str, ...] = ()


def init(learner: Learner[Settings], key: Array) -> Runner:
    """Start: weights, twice, and the key for all that follows."""
    key_weights, key_level, key_rest = jax.random.split(key, 3)
    weights = learner.network.init(key_weights, learner.env.reset(key_level).obs)
    state, data = optimiser(learner.settings).init(weights), jax.random.key_data(key_rest)
    return Runner(weights, target=weights, optimiser=state, key=data, age=jnp.int32(0))


def update(learner: Learner[Settings], runner: Runner) -> tuple[Runner, dict[str, Array]]:
    """Take the gradient steps, perhaps change the target, and try the network out."""
    key_rest, key_learn, key_try = jax.random.split(jax.random.wrap_key_data(runner.key), 3)
    keys = jax.random.split(key_learn, learner.settings.gradient_steps)
    runner, losses = jax.lax.scan(functools.partial(gradient_step, learner), runner, keys)
    loss, age = losses.mean(), runner.age + 1
    change = (loss < learner.settings.target_loss) | (age >= learner.settings.target_every)
    runner = runner._replace(
        key=jax.random.key_data(key_rest),
        target=jax.tree.map(
            lambda old, new: jnp.where(change, new, old), runner.target, runner.weights
        ),
        age=jnp.where(change, 0, age),
    )
    solved, moves = descend(learner, runner.weights, key_try, learner.settings.test_boards)
    return runner, {
        "episodes": jnp.int32(learner.settings.test_boards),
        "return_sum": solved.sum(dtype=jnp.float32),
        "length_sum": moves.sum(dtype=jnp.int32),
        "loss": loss,
        "target_changed": change,
    }


def gradient_step(learner: Learner[Settings], runner: Runner, key: Array) -> tuple[Runner, Array]:
    """Learn from new walks; also return the loss."""
    keys = jax.random.split(key, learner.settings.walks)
    instances, boards = jax.vmap(functools.partial(walk, learner))(keys)
    find, minimised = (action_targets, action_loss) if learner.settings.q else (targets, loss)
    goals = jax.vmap(functools.partial(find, learner, runner.target))(instances, boards)
    minimised = functools.partial(minimised, learner)
    value, gradient = jax.value_and_grad(minimised)(runner.weights, instances, boards.board, goals)
    adam = optimiser(learner.settings)
    weights, state = apply_gradient(adam, gradient, runner.optimiser, runner.weights)
    return runner._replace(weights=weights, optimiser=state), value


def loss(
    learner: Learner, weights: PyTree, instances: PyTree, boards: PyTree, goals: Array
) -> Float32[Array, ""]:
    """Squared error of the guesses for the boards of walks, each walk in an instance."""
    guesses = guesses_of_walks(learner, weights, instances, boards)
    chex.assert_equal_shape([guesses, goals], custom_message="guesses, goals: [walks, boards]")
    return jnp.square(guesses - goals).mean()


def action_loss(
    learner: Learner, weights: PyTree, instances: PyTree, boards: PyTree, goals: ActionCosts
) -> Float32[Array, ""]:
    """Squared error of the guesses for the actions whose costs are known."""
    guesses = guesses_of_walks(learner, weights, instances, boards)
    chex.assert_equal_shape(
        [guesses, goals.cost], custom_message="guesses, goals: [walks, boards, actions]"
    )
    errors = jnp.where(goals.known, jnp.square(guesses - goals.cost), 0.0)
    return errors.sum() / jnp.maximum(goals.known.sum(dtype=jnp.float32), 1.0)


def guesses_of_walks(
    learner: Learner, weights: PyTree, instances: PyTree, boards: PyTree
) -> Float32[Array, "walks boards *actions"]:
    """What the network says of the boards of walks, each walk in an instance."""
    over_walk = jax.vmap(functools.partial(guess, learner), in_axes=(None, None, 0))
    return jax.vmap(over_walk, in_axes=(None, 0, 0))(weights, instances, boards)


def walk(learner: Learner[Settings], key: Array) -> tuple[PyTree[Array], Boards]:
    """Walk from the goal of an instance, which is returned too: `scramble` + 1 boards.

    No move is undone by the next.
    """
    env = learner.env
    key_level, key_walk = jax.random.split(key)
    instance = env.sample_level(key_level).instance
    drawn = words(key_walk, learner.settings.scramble + 1)

    def step(carry: Any, word: Array) -> tuple[Any, Boards]:
        board, last = carry
        moves = env.neighbours(instance, board)
        before = env.predecessors(instance, board)  # the same boards, if there is an inverse
        walked = env.walk_on(word, board, last, before.board, before.valid)
        return walked, Boards(board, moves.board, moves.cost, moves.valid)

    start = (env.goal(instance), jnp.int32(-1))
    return instance, jax.lax.scan(step, start, drawn)[1]


def targets(
    learner: Learner[Settings], weights: PyTree[Array], instance: PyTree[Array], boards: Boards
) -> Float32[Array, " boards"]:
    """What boards of one instance are worth one action further: 0 at the goal."""
    to_goal = jax.vmap(jax.vmap(functools.partial(cost_to_go, learner, weights, instance)))
    after = to_goal(boards.child)
    chex.assert_equal_shape(
        [boards.valid, boards.cost, after],
        custom_message="valid, cost and what the children cost, [boards, actions]",
    )
    costs = jnp.where(boards.valid, boards.cost + after, jnp.inf)
    least = costs.min(axis=-1)
    at_goal = jax.vmap(functools.partial(learner.env.is_goal, instance))(boards.board)
    return jnp.where(at_goal | jnp.isinf(least), 0.0, least)


def action_targets(
    learner: Learner[Settings], weights: PyTree[Array], instance: PyTree[Array], boards: Boards
) -> ActionCosts:
    """What each action of boards of one instance costs with all that follows it."""
    env = learner.env

    def after(board: PyTree[Array]) -> tuple[Array, Array, Array]:
        able = env.neighbours(instance, board).valid
        return guess(learner, weights, instance, board), able, env.is_goal(instance, board)

    guesses, able, solved = jax.vmap(jax.vmap(after))(boards.child)
    at_goal = jax.vmap(functools.partial(env.is_goal, instance))(boards.board)
    valid = boards.valid & ~at_goal[:, None]  # a search never goes on from a goal
    return costs_of_actions(boards.cost, valid, guesses, able, solved)


def costs_of_actions(
    cost: Float32[Array, "*actions"],
    valid: Bool[Array, "*actions"],
    guesses: Float32[Array, "*actions then"],
    able: Bool[Array, "*actions then"],
    solved: Bool[Array, "*actions"],
) -> ActionCosts:
    """The cost of each action and of the best one after it, of which `guesses` are the costs.

    Nothing follows an action that solves. `able` are the actions that are legal then; where there
    is none, nothing is known. Guesses below 0 count as 0.
    """
    best = jnp.where(able, jnp.maximum(guesses, 0.0), jnp.inf).min(axis=-1)
    whole = cost + jnp.where(solved, 0.0, best)
    known = valid & jnp.isfinite(whole)
    return ActionCosts(jnp.where(known, whole, 0.0), known)


def guess(learner: Learner, weights: PyTree, instance: PyTree, board: PyTree) -> Array:
    """What the network says of a board."""
    return learner.network.apply(weights, learner.env.observe_board(instance, board))


def cost_to_go(learner: Learner, weights: PyTree, instance: PyTree, board: PyTree) -> Array:
    """The heuristic: never negative, 0 at the goal; of actions, that of the best one."""
    if learner.settings.q:
        cost = action_costs(learner, weights, instance, board).min()
    else:
        cost = jnp.maximum(guess(learner, weights, instance, board), 0.0)
    return jnp.where(learner.env.is_goal(instance, board), 0.0, cost)


def action_costs(
    learner: Learner, weights: PyTree, instance: PyTree, board: PyTree
) -> Float32[Array, " actions"]:
    """What each action costs with all that follows it: never negative, infinite if illegal."""
    able = learner.env.neighbours(instance, board).valid
    return jnp.where(able, jnp.maximum(guess(learner, weights, instance, board), 0.0), jnp.inf)


def descend(
    learner: Learner[Settings], weights: PyTree[Array], key: Array, count: int
) -> tuple[Bool[Array, " boards"], Int32[Array, " boards"]]:
    """Take the best action, `test_moves` times, from random boards; solved, and moves.

    It is the one that leads to the best neighbour, or with `q` that of the least cost.
    """
    levels = jax.vmap(learner.env.sample_level)(jax.random.split(key, count))

    def move(instance: PyTree[Array], board: PyTree[Array]) -> tuple[Any, Array]:
        moves = learner.env.neighbours(instance, board)
        if learner.settings.q:
            best = jnp.argmin(action_costs(learner, weights, instance, board))
        else:
            there = jax.vmap(functools.partial(cost_to_go, learner, weights, instance))(moves.board)
            best = jnp.argmin(jnp.where(moves.valid, moves.cost + there, jnp.inf))
        solved = learner.env.is_goal(instance, board)
        after = jax.tree.map(lambda o, n: jnp.where(solved, o, n[best]), board, moves.board)
        return after, ~solved

    def step(carry: Any, _: None) -> tuple[Any, None]:
        board, taken = carry
        board, moved = jax.vmap(move)(levels.instance, board)
        return (board, taken + moved.astype(jnp.int32)), None

    start = (levels.board, jnp.zeros(count, jnp.int32))
    board, taken = jax.lax.scan(step, start, length=learner.settings.test_moves)[0]
    return jax.vmap(learner.env.is_goal)(levels.instance, board), taken


def check_one_device(algorithm: Algorithm, devices: Devices) -> None:
    """Raise `ValueError` for more than one device."""
    if devices.count > 1:
        raise ValueError(
            f"--devices {devices.count}: {algorithm.name} trains on one device; omit --devices"
        )


def optimiser(settings: Settings) -> optax.GradientTransformation:
    """Adam behind a clip of the global norm."""

    def falling(steps: Any) -> Array:
        done = settings.progress(steps / settings.gradient_steps, settings.rate_since)
        return settings.learning_rate * (1.0 - done)

    rate = falling if settings.anneal else settings.learning_rate
    return optax.chain(optax.clip_by_global_norm(settings.max_grad_norm), optax.adam(rate))


def build(
    algorithm: Algorithm, env: Env, settings: Settings, devices: Devices = ALONE
) -> Learner[Settings]:
    """Return the learner for a puzzle; `ValueError` for what has no single goal to walk from."""
    check_one_device(algorithm, devices)
    if not has_goal(env):
        raise ValueError(
            f"{env.name} has no single goal, where {algorithm.name} starts; choose a puzzle with "
            "one, such as Puzzle-Cube-2x2-v0 or Puzzle-SlidingTile-3x3-v0"
        )
    actions = env.num_actions if settings.q else 0
    network = CostToGo(env.observation_space, settings.width, settings.blocks, actions)
    return Learner(algorithm, env, network, settings)


def shown(settings: Any, record: dict[str, Any]) -> str:
    """Text of the progress line: the share of boards that greedy descent solves, and the loss."""
    solved, loss = np.mean(record["return"]), np.mean(record["loss"])
    return f"boards solved {solved:.0%}   loss {loss:.3g}"


def evaluate(
    learner: Learner[Settings], weights: PyTree[Array], agents: Agents, count: int
) -> dict[str, Any]:
    """Descend greedily from `count` random boards; return the content of eval.json."""
    each_seed = jax.jit(functools.partial(descend, learner, count=count))
    found = []
    for i, (seed, key) in enumerate(zip(agents.seeds, agents.keys, strict=True)):
        solved, moves = each_seed(jax.tree.map(lambda leaf, i=i: leaf[i], weights), key)
        found.append({"seed": seed, **solved_share(solved, moves)})
    facts = {"policy": greedily(learner.env), "boards": count}
    return {**facts, "moves": learner.settings.test_moves, "greedy": found}


def solved_share(solved: Bool[Array, " boards"], moves: Int32[Array, " boards"]) -> dict[str, Any]:
    """Return the share of boards that were solved, and the mean number of moves of those."""
    rate = round(float(solved.mean()), 6)
    return {
        "success_rate": rate,
        "mean_length": round(float(moves[solved].mean()), 3) if rate else None,
    }


def as_text(result: dict[str, Any]) -> str:
    """Return the result of `evaluate` as text."""
    each = ", ".join(
        f"{one['success_rate']:.1%}"
        + (f" in {one['mean_length']} moves" if one["mean_length"] else "")
        for one in result["greedy"]
    )
    return f"Greedy descent from {result['boards']} boards, without search: {each}"


def next_command(settings: Settings) -> tuple[str, str]:
    """What to type after training."""
    algorithm = " --algorithm qstar" if settings.q else ""
    return "Search with it", "solve {env} --model {run}" + algorithm
