"""DAVI: deep approximate value iteration of the cost-to-go (Agostinelli et al., 2019, DeepCubeA).

Training boards come from random walks that start at the goal of a puzzle. The target of a board is
the minimum, over its moves, of the move's cost plus the target network's cost-to-go after the move.
At the goal, the target is 0. Run it with `jaxenvs train ID --algo davi`; `load_heuristic` then
returns the heuristic for A* and beam search.

With `--q` the network has one output per action: the cost of the action plus the cost-to-go after
it. The network is then trained by Q-learning (Agostinelli et al., 2024, "Q* Search: Heuristic
Search with Deep Q-Networks"). A single forward pass then evaluates all moves of a board; `load_q`
returns the trained function for Q*.

Deliberate differences from the papers:

- Every board of a walk is a training example, because the walk computes the boards after each move
  anyway.
- There is no batch normalisation.
- If the actions of a puzzle have no inverse, the walk goes backwards to predecessors.
- With `--q`, every legal action of a board has a target, not only the network's choice.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, PyTree, UInt32

from jaxenvs import Env
from jaxenvs.puzzles.puzzle import PuzzleLevel

from ..core.devices import ALONE, Devices
from ..core.episodes import Agents
from ..core.learner import Algorithm, Learner
from ..core.minibatches import apply_gradient
from . import cost_to_go as shared
from .cost_to_go import ActionCosts, PuzzleNetwork, costs_of_actions, squared_error


@dataclasses.dataclass(frozen=True)
class Settings(shared.OnWalks, shared.Solving):
    """Hyperparameters of DAVI.

    Presets (presets.py) change some defaults per puzzle; command-line flags override presets.
    """

    q: bool = False  # whether the network has an output per action, for Q*


class Runner(NamedTuple):
    """Training state between updates; checkpoints store it, so a resumed run is bit-identical."""

    weights: PyTree[Array]
    target: PyTree[Array]  # weights of the target network
    optimiser: PyTree[Array]
    key: UInt32[Array, "*seeds words"]  # data of the PRNG key
    age: Int32[Array, "*seeds"]  # number of updates since the last copy to `target`


class Boards(NamedTuple):
    """Boards (states of a puzzle), with the cost of each action and the board after it."""

    board: PyTree[Array]  # boards, (*batch, ...)
    child: PyTree[Array]  # boards after each action, (*batch, actions, ...)
    cost: Float32[Array, "*batch actions"]
    valid: Bool[Array, "*batch actions"]  # whether the action is legal


DaviLearner = Learner[Settings, PuzzleNetwork]


def init(learner: DaviLearner, key: Array) -> Runner:
    """Return the initial training state; the target network has the weights of the network."""
    key_weights, key_level, key_rest = jax.random.split(key, 3)
    weights = learner.network.init(key_weights, learner.env.reset(key_level).obs)
    state, data = shared.optimiser(learner.settings).init(weights), jax.random.key_data(key_rest)
    return Runner(weights, target=weights, optimiser=state, key=data, age=jnp.int32(0))


def update(learner: DaviLearner, runner: Runner) -> tuple[Runner, dict[str, Array]]:
    """Make one update; return the new training state and metrics.

    Take `gradient_steps` gradient steps, copy the weights to the target network if
    `cost_to_go.update_target` requires it, and test the policy that greedily follows the heuristic.
    """
    settings = learner.settings
    key_rest, key_learn, key_try = jax.random.split(jax.random.wrap_key_data(runner.key), 3)
    keys = jax.random.split(key_learn, settings.gradient_steps)
    runner, losses = jax.lax.scan(functools.partial(gradient_step, learner), runner, keys)
    loss = losses.mean()
    target, age, change = shared.update_target(
        settings, runner.target, runner.weights, runner.age, loss
    )
    runner = runner._replace(key=jax.random.key_data(key_rest), target=target, age=age)
    tested = descend(learner, runner.weights, key_try, settings.test_boards)
    return runner, {**shared.descent_metrics(*tested), "loss": loss, "target_changed": change}


def gradient_step(learner: DaviLearner, runner: Runner, key: Array) -> tuple[Runner, Array]:
    """Take a gradient step on the boards of new random walks; also return the loss."""
    keys = jax.random.split(key, learner.settings.walks)
    instances, boards = jax.vmap(functools.partial(walk, learner))(keys)
    find, minimised = (action_targets, action_loss) if learner.settings.q else (targets, loss)
    goals = jax.vmap(functools.partial(find, learner, runner.target))(instances, boards)
    minimised = functools.partial(minimised, learner)
    value, gradient = jax.value_and_grad(minimised)(runner.weights, instances, boards.board, goals)
    adam = shared.optimiser(learner.settings)
    weights, state = apply_gradient(adam, gradient, runner.optimiser, runner.weights)
    return runner._replace(weights=weights, optimiser=state), value


def loss(
    learner: DaviLearner, weights: PyTree, instances: PyTree, boards: PyTree, goals: Array
) -> Float32[Array, ""]:
    """Return the mean squared error of the predicted cost-to-go, over all boards of all walks.

    `goals` are the value-iteration targets (walks, boards).
    """
    guesses = predict_walks(learner, weights, instances, boards)
    chex.assert_equal_shape([guesses, goals], custom_message="guesses, goals: [walks, boards]")
    return jnp.square(guesses - goals).mean()


def action_loss(
    learner: DaviLearner, weights: PyTree, instances: PyTree, boards: PyTree, goals: ActionCosts
) -> Float32[Array, ""]:
    """Return the loss of the setting `q`: the mean squared error of the predicted action costs.

    The mean is over all actions of all boards that have a target in `goals`.
    """
    guesses = predict_walks(learner, weights, instances, boards)
    chex.assert_equal_shape(
        [guesses, goals.cost], custom_message="guesses, goals: [walks, boards, actions]"
    )
    return squared_error(guesses, goals)


def predict_walks(
    learner: DaviLearner, weights: PyTree, instances: PyTree, boards: PyTree
) -> Float32[Array, "walks boards *actions"]:
    """Return the network's outputs for all boards of all walks; walk i has `instances[i]`."""
    over_walk = jax.vmap(functools.partial(predict, learner), in_axes=(None, None, 0))
    return jax.vmap(over_walk, in_axes=(None, 0, 0))(weights, instances, boards)


def walk(learner: DaviLearner, key: Array) -> tuple[PyTree[Array], Boards]:
    """Return a random puzzle instance, and `scramble` + 1 boards on a random walk from its goal."""
    env = learner.env
    instance, board, _ = shared.random_walk(env, key, learner.settings.scramble)
    moves = jax.vmap(functools.partial(env.neighbours, instance))(board)
    return instance, Boards(board, moves.board, moves.cost, moves.valid)


def targets(
    learner: DaviLearner, weights: PyTree[Array], instance: PyTree[Array], boards: Boards
) -> Float32[Array, " boards"]:
    """Return value-iteration targets: for each board, the min over actions of cost + cost-to-go.

    The network with the weights `weights` predicts the cost-to-go of the board after each action.
    The target is 0 at the goal, and for boards without a legal action.
    """
    to_goal = jax.vmap(jax.vmap(functools.partial(cost_to_go, learner, weights, instance)))
    after = to_goal(boards.child)
    chex.assert_equal_shape(
        [boards.valid, boards.cost, after],
        custom_message="valid, cost and the children's costs, [boards, actions]",
    )
    costs = jnp.where(boards.valid, boards.cost + after, jnp.inf)
    least = costs.min(axis=-1)
    at_goal = jax.vmap(functools.partial(learner.env.is_goal, instance))(boards.board)
    return jnp.where(at_goal | jnp.isinf(least), 0.0, least)


def action_targets(
    learner: DaviLearner, weights: PyTree[Array], instance: PyTree[Array], boards: Boards
) -> ActionCosts:
    """Return the Q-learning targets of the actions on each board of a walk.

    The target of an action is its cost plus the minimum over the next actions of their predicted
    costs. The target network, with the weights `weights`, predicts these costs.
    """
    env = learner.env

    def after(board: PyTree[Array]) -> tuple[Array, Array, Array]:
        able = env.neighbours(instance, board).valid
        return predict(learner, weights, instance, board), able, env.is_goal(instance, board)

    guesses, able, solved = jax.vmap(jax.vmap(after))(boards.child)
    at_goal = jax.vmap(functools.partial(env.is_goal, instance))(boards.board)
    # Actions at the goal get no target: a search stops at the goal and never uses their costs.
    valid = boards.valid & ~at_goal[:, None]
    return costs_of_actions(boards.cost, valid, guesses, able, solved)


def predict(learner: DaviLearner, weights: PyTree, instance: PyTree, board: PyTree) -> Array:
    """Return the network's output for a board: the predicted cost-to-go.

    With the setting `q`, return one number per action instead: the predicted sum of the action's
    cost and the cost-to-go after it.
    """
    outputs: Any = learner.network.apply(weights, learner.env.observe_board(instance, board))
    return outputs


def cost_to_go(learner: DaviLearner, weights: PyTree, instance: PyTree, board: PyTree) -> Array:
    """Return the predicted cost-to-go of a board: at least 0, and exactly 0 at the goal.

    With the setting `q`, this is the smallest predicted cost of a legal action.
    """
    if learner.settings.q:
        cost = action_costs(learner, weights, instance, board).min()
    else:
        cost = jnp.maximum(predict(learner, weights, instance, board), 0.0)
    return jnp.where(learner.env.is_goal(instance, board), 0.0, cost)


def action_costs(
    learner: DaviLearner, weights: PyTree, instance: PyTree, board: PyTree
) -> Float32[Array, " actions"]:
    """Return the predicted cost of each action: at least 0, and inf if the action is illegal.

    A predicted cost consists of the cost of the action itself and the cost-to-go after it.
    """
    able = learner.env.neighbours(instance, board).valid
    return jnp.where(able, jnp.maximum(predict(learner, weights, instance, board), 0.0), jnp.inf)


def descend(
    learner: DaviLearner, weights: PyTree[Array], key: Array, count: int
) -> tuple[Bool[Array, " boards"], Int32[Array, " boards"]]:
    """Play up to `test_moves` moves of the greedy policy on each of `count` random boards.

    The greedy policy takes the action with the smallest sum of its cost and the predicted
    cost-to-go after it. Returns whether each board was solved, and the number of moves.
    """
    levels = jax.vmap(learner.env.sample_level)(jax.random.split(key, count))

    def move(level: PuzzleLevel, _: Any, board: PyTree[Array]) -> tuple[Any, PyTree[Array]]:
        moves = learner.env.neighbours(level.instance, board)
        if learner.settings.q:
            best = jnp.argmin(action_costs(learner, weights, level.instance, board))
        else:
            to_goal = functools.partial(cost_to_go, learner, weights, level.instance)
            costs = moves.cost + jax.vmap(to_goal)(moves.board)
            best = jnp.argmin(jnp.where(moves.valid, costs, jnp.inf))
        return (), jax.tree.map(lambda leaf: leaf[best], moves.board)

    return shared.play_greedily(learner.env, levels, (), move, learner.settings.test_moves)


def check(learner: Learner[Any, Any], seeds: int, episodes: int) -> None:
    """Raise `ValueError` if no random walk can start at the goal of the puzzle."""
    shared.check_walks(learner)


def build(
    algorithm: Algorithm, env: Env, settings: Settings, devices: Devices = ALONE
) -> DaviLearner:
    """Return the learner for a puzzle.

    Raises `ValueError` if an instance of the puzzle does not have exactly one goal board.
    """
    shared.check_one_device(algorithm, devices)
    shared.check_goal(algorithm, env)
    actions = env.num_actions if settings.q else 0
    network = PuzzleNetwork(env.observation_space, settings.width, settings.blocks, actions)
    return Learner(algorithm, env, network, settings)


def evaluate(
    learner: DaviLearner, weights: PyTree[Array], agents: Agents, count: int
) -> dict[str, Any]:
    """Test each seed's greedy policy on `count` random boards; return eval.json's content."""
    return shared.evaluate_greedily(descend, learner, weights, agents, count)


shown = shared.shown
as_text = shared.as_text


def next_command(settings: Settings) -> tuple[str, str]:
    """Return a title and a command, which are printed as a suggestion after training."""
    algorithm = " --algorithm qstar" if settings.q else ""
    return "Search with it", "solve {env} --model {run}" + algorithm
