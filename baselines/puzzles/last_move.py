"""Last move: a policy that undoes random walks (Takano, 2023, EfficientCube).

Training boards come from random walks that start at the goal of a puzzle. A network predicts, for
each board, the action that leads back to the board before it on the walk. The prediction is a
policy that leads to the goal: on average, walks come from boards that are closer to the goal. There
are no value targets and no target network, so a gradient step costs one pass over the boards. Run
it with `jaxenvs train ID --algo last-move`; `load_move_policy` then returns the policy for beam
search.

Deliberate differences from the paper:

- No step of a walk undoes the step before.
- If the actions of a puzzle have no inverse, the walk goes backwards to predecessors.
- There is no batch normalisation, and the learning rate falls linearly to 0.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, PyTree, UInt32

from jaxenvs.core.masking import legal

from ..core.devices import ALONE, Devices
from ..core.episodes import Agents
from ..core.learner import Algorithm, Learner
from ..core.minibatches import apply_gradient
from . import cost_to_go as shared
from .cost_to_go import PuzzleNetwork


@dataclasses.dataclass(frozen=True)
class Settings(shared.OnWalks):
    """Hyperparameters of the last-move learner.

    Presets (presets.py) change some defaults per puzzle; command-line flags override presets.
    """


class Runner(NamedTuple):
    """Training state between updates; checkpoints store it, so a resumed run is bit-identical."""

    weights: PyTree[Array]
    optimiser: PyTree[Array]
    key: UInt32[Array, "*seeds words"]  # data of the PRNG key


LastMoveLearner = Learner[Settings, PuzzleNetwork]


def init(learner: LastMoveLearner, key: Array) -> Runner:
    """Return the initial training state."""
    key_weights, key_level, key_rest = jax.random.split(key, 3)
    weights = learner.network.init(key_weights, learner.env.reset(key_level).obs)
    state = shared.optimiser(learner.settings).init(weights)
    return Runner(weights, state, jax.random.key_data(key_rest))


def update(learner: LastMoveLearner, runner: Runner) -> tuple[Runner, dict[str, Array]]:
    """Make one update; return the new training state and metrics.

    Take `gradient_steps` gradient steps, and test the greedy policy on random boards.
    """
    settings = learner.settings
    key_rest, key_learn, key_try = jax.random.split(jax.random.wrap_key_data(runner.key), 3)
    keys = jax.random.split(key_learn, settings.gradient_steps)
    runner, (losses, right) = jax.lax.scan(functools.partial(gradient_step, learner), runner, keys)
    runner = runner._replace(key=jax.random.key_data(key_rest))
    tested = descend(learner, runner.weights, key_try, settings.test_boards)
    means = {"loss": losses.mean(), "accuracy": right.mean()}
    return runner, {**shared.descent_metrics(*tested), **means}


def gradient_step(
    learner: LastMoveLearner, runner: Runner, key: Array
) -> tuple[Runner, tuple[Array, Array]]:
    """Take a gradient step on the boards of new random walks.

    Also return the loss, and the share of boards whose most probable action is the right one.
    """
    env, settings = learner.env, learner.settings
    keys = jax.random.split(key, settings.walks)
    walk = functools.partial(shared.random_walk, env, steps=settings.scramble)
    instances, boards, actions = jax.vmap(walk)(keys)
    minimised = functools.partial(loss, learner)
    (value, right), gradient = jax.value_and_grad(minimised, has_aux=True)(
        runner.weights, instances, boards, actions
    )
    adam = shared.optimiser(settings)
    weights, state = apply_gradient(adam, gradient, runner.optimiser, runner.weights)
    return runner._replace(weights=weights, optimiser=state), (value, right)


def loss(
    learner: LastMoveLearner,
    weights: PyTree[Array],
    instances: PyTree[Array],
    boards: PyTree[Array],
    actions: Int32[Array, "walks boards"],
) -> tuple[Float32[Array, ""], Float32[Array, ""]]:
    """Return the mean cross-entropy of the right actions, and the share of right predictions.

    The right action of a board leads to the board before it on the walk. The goal, the first board
    of each walk, has none: its action is -1, and it is not counted.
    """
    over_walk = jax.vmap(functools.partial(log_probs, learner, weights), in_axes=(None, 0))
    guesses = jax.vmap(over_walk)(instances, boards)
    known = actions >= 0
    chosen = jnp.take_along_axis(guesses, jnp.maximum(actions, 0)[..., None], axis=-1)[..., 0]
    count = known.sum(dtype=jnp.float32)
    right = (guesses.argmax(axis=-1).astype(jnp.int32) == actions) & known
    mean = -jnp.where(known, chosen, 0.0).sum() / count
    return mean, right.sum(dtype=jnp.float32) / count


def log_probs(
    learner: LastMoveLearner, weights: PyTree[Array], instance: PyTree[Array], board: PyTree[Array]
) -> Float32[Array, " actions"]:
    """Return the log-probability of each action on a board; about -1e9 for illegal actions."""
    logits: Any = learner.network.apply(weights, learner.env.observe_board(instance, board))
    return jax.nn.log_softmax(legal(logits, learner.env.neighbours(instance, board).valid))


def descend(
    learner: LastMoveLearner, weights: PyTree[Array], key: Array, count: int
) -> tuple[Bool[Array, " boards"], Int32[Array, " boards"]]:
    """Play up to `test_moves` most probable actions on each of `count` random boards.

    Returns whether each board was solved, and the number of moves.
    """
    levels = jax.vmap(learner.env.sample_level)(jax.random.split(key, count))

    def move(level: Any, _: Any, board: PyTree[Array]) -> tuple[Any, PyTree[Array]]:
        best = log_probs(learner, weights, level.instance, board).argmax().astype(jnp.int32)
        return (), learner.env.apply(level.instance, board, best).board

    return shared.play_greedily(learner.env, levels, (), move, learner.settings.test_moves)


def check(learner: Learner[Any, Any], seeds: int, episodes: int) -> None:
    """Raise `ValueError` if no random walk can start at the goal of the puzzle."""
    shared.check_walks(learner)


def build(
    algorithm: Algorithm, env: Any, settings: Settings, devices: Devices = ALONE
) -> LastMoveLearner:
    """Return the learner for a puzzle.

    Raises `ValueError` if an instance of the puzzle does not have exactly one goal board.
    """
    shared.check_one_device(algorithm, devices)
    shared.check_goal(algorithm, env)
    network = PuzzleNetwork(
        env.observation_space, settings.width, settings.blocks, actions=env.num_actions
    )
    return Learner(algorithm, env, network, settings)


def evaluate(
    learner: LastMoveLearner, weights: PyTree[Array], agents: Agents, count: int
) -> dict[str, Any]:
    """Test each seed's greedy policy on `count` random boards; return eval.json's content."""
    return shared.evaluate_greedily(descend, learner, weights, agents, count)


shown = shared.shown
as_text = shared.as_text


def next_command(settings: Settings) -> tuple[str, str]:
    """Return a title and a command, which are printed as a suggestion after training."""
    return "Search with it", "solve {env} --model {run} --algorithm beam --batch-size 4096"
