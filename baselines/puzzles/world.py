"""A* in a learned model of a puzzle (Agostinelli and Soltani, 2024).

The learner receives a fixed data set of random transitions. It also receives the observation of the
goal or, if levels have different goals, whether each state in the data set is solved. From these
data, it learns a discrete model ("Learning discrete world models for heuristic search";
latent_world.py) and a heuristic for states of the model. Run it with
`jaxenvs train ID --algo world`, then plan with `jaxenvs solve ID --model RUN`.

The first gradient steps, a fraction `model_share` of all, train the model. The later steps train
the heuristic by Q-learning (Agostinelli et al., 2024, "Q* Search") on random walks in the model.
The learner does not know which actions are legal. Walks avoid actions that change nothing in the
model, as illegal actions do. Neither the training of the heuristic nor planning steps the
environment.

Deliberate differences from the paper (latent_world.py lists more): the heuristic estimates the cost
to the goal of the puzzle only, not between any two states, and every action of a state has a target
instead of only one action.
"""

import dataclasses
import functools
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float32, Int32, PyTree, UInt32

from jaxenvs import Env
from jaxenvs.core.spaces import Box
from jaxenvs.puzzles.puzzle import Puzzle, PuzzleLevel

from ..core.bounds import Count, NonNegative, NonNegativeInt, Share
from ..core.devices import ALONE, Devices
from ..core.episodes import Agents
from ..core.learner import SEEDS, Algorithm, Learner
from ..core.metrics import means
from ..core.minibatches import apply_gradient
from ..core.policy_statement import greedily
from . import cost_to_go as shared
from .cost_to_go import ActionCosts, PuzzleNetwork, costs_of_actions, squared_error
from .latent_states import (
    Networks,
    encoded,
    goal_code,
    is_solved,
    look,
    one_goal,
    q_values,
    successors,
)
from .latent_training import Transitions, gather, model_loss, predicted_share
from .latent_world import LatentWorld, Sight


@dataclasses.dataclass(frozen=True)
class Settings(shared.Solving):
    """Hyperparameters of the learned model of a puzzle, and of the heuristic of its states.

    Presets (presets.py) change some defaults; command-line flags override presets.
    """

    total_steps: int = 12_000  # gradient steps of the model and of the heuristic together
    model_share: Share = 0.5  # fraction of the gradient steps that train the model
    transitions: Count = 50_000  # number of random transitions in the data set, collected once
    walk_steps: Count = 50  # number of steps of each random walk that collects the data set
    # Side length of a tile in pixels, such as 8, to learn from pictures of the puzzle; 0: learn
    # from the puzzle's observations.
    tile_size: NonNegativeInt = 0
    noise: NonNegative = 0.0  # standard deviation of noise on a picture's pixels, which are 0 to 1
    bits: Count = 8  # number of bits that encode one cell of an observation or picture
    hidden: Count = 48  # width of the model's hidden layers
    # number of weighted sums of all cells' bits that help to predict a cell's bits after an action
    views: Count = 4
    batch: Count = 128  # number of transitions per gradient step of the model
    walks: int = 32  # number of walks in the model per gradient step of the heuristic
    # upper bound of cost targets, for states from which the puzzle cannot be solved
    furthest: NonNegative = 100.0
    gradient_steps: int = 100  # gradient steps per update
    learning_rate: float = 3e-3  # initial learning rate of the model
    q_learning_rate: NonNegative = 1e-3  # initial learning rate of the heuristic
    # Number of updates after which the weights are copied to the target network even if the loss is
    # above `target_loss`.
    target_every: int = 1
    width: int = 128  # width of the heuristic's layers
    # number of boards on which the greedy policy is tested after each update, for the log
    test_boards: int = 32

    restarts: ClassVar[bool] = False

    def check(self) -> None:
        super().check()
        if self.transitions < self.walk_steps:
            raise ValueError(
                f"transitions={self.transitions} is less than one walk of walk_steps="
                f"{self.walk_steps}; give at least that"
            )

    unit: ClassVar[str] = "gradient steps"

    @property
    def steps_per_update(self) -> int:
        """Number of gradient steps of an update."""
        return self.gradient_steps

    @property
    def model_updates(self) -> int:
        """Number of updates that train the model."""
        return round(self.update_at(self.model_share))


class Runner(NamedTuple):
    """Training state between updates; checkpoints store it, so a resumed run is bit-identical."""

    weights: PyTree[Array]  # dict: weights of the model ("model") and of the heuristic ("q")
    target: PyTree[Array]  # weights of the heuristic's target network
    optimiser: PyTree[Array]  # dict: optimiser states of "model" and "q"
    seen: Transitions  # data set, collected by random actions, on which the model is trained
    updates: Int32[Array, "*seeds"]  # number of updates made so far
    age: Int32[Array, "*seeds"]  # number of updates since the last copy to `target`
    key: UInt32[Array, "*seeds words"]  # data of the PRNG key


WorldLearner = Learner[Settings, Networks]


def init(learner: WorldLearner, key: Array) -> Runner:
    """Return the initial training state; its data set of transitions is collected here."""
    key_seen, key_model, key_q, key_rest = jax.random.split(key, 4)
    nets, settings = learner.network, learner.settings
    seen = gather(learner, key_seen, settings.transitions)
    first = nets.sight.split(seen.before[0], key_model)
    model = nets.model.init(key_model, first, jnp.int32(0), first, jnp.bool_(False), key_model)
    q = nets.q.init(key_q, jnp.zeros(nets.q.observation_space.shape, jnp.float32))
    weights, optimiser = {"model": model, "q": q}, optimisers(settings)
    return Runner(
        weights=weights,
        target=jax.tree.map(jnp.copy, q),
        optimiser={name: optimiser[name].init(weights[name]) for name in weights},
        seen=seen,
        updates=jnp.int32(0),
        age=jnp.int32(0),
        key=jax.random.key_data(key_rest),
    )


def update(learner: WorldLearner, runner: Runner) -> tuple[Runner, dict[str, Array]]:
    """Train the model or, later in the run, the heuristic; then test the greedy policy."""
    settings = learner.settings
    key_rest, key_learn, key_try = jax.random.split(jax.random.wrap_key_data(runner.key), 3)
    keys = jax.random.split(key_learn, settings.gradient_steps)
    # `cond` trains either the model or the heuristic. Its condition must be shared by all seeds:
    # under `vmap`, a `cond` with a condition per seed computes both branches. All seeds have made
    # the same number of updates, and `pmax` returns this number without an axis of seeds.
    early = jax.lax.pmax(runner.updates, SEEDS) < settings.model_updates
    train = functools.partial(train_model, learner), functools.partial(train_heuristic, learner)
    runner, losses = jax.lax.cond(early, *train, runner, keys)
    runner = runner._replace(key=jax.random.key_data(key_rest), updates=runner.updates + 1)
    tested = descend(learner, runner.weights, key_try, settings.test_boards)
    return runner, {**shared.descent_metrics(*tested), **losses}


def train_model(
    learner: WorldLearner, runner: Runner, keys: Array
) -> tuple[Runner, dict[str, Array]]:
    """Take one gradient step of the model per key; also return the mean losses by name."""
    optimiser = optimisers(learner.settings)["model"]

    def step(carry: Any, key: Array) -> tuple[Any, Array]:
        gradient, parts = jax.grad(functools.partial(model_loss, learner), has_aux=True)(
            carry[0], runner.seen, key
        )
        return apply_gradient(optimiser, gradient, carry[1], carry[0]), parts

    start = (runner.weights["model"], runner.optimiser["model"])
    (weights, state), parts = jax.lax.scan(step, start, keys)
    decoding, _, transition, judgement = parts.mean(axis=0)
    runner = runner._replace(
        weights={**runner.weights, "model": weights},
        optimiser={**runner.optimiser, "model": state},
    )
    return runner, losses(decoding=decoding, transition=transition, judgement=judgement)


def train_heuristic(
    learner: WorldLearner, runner: Runner, keys: Array
) -> tuple[Runner, dict[str, Array]]:
    """Take one gradient step of the heuristic per key, on new random walks in the model.

    Also return the mean loss.
    """
    settings, optimiser = learner.settings, optimisers(learner.settings)["q"]

    def step(carry: Any, key: Array) -> tuple[Any, Array]:
        key_walk, key_goal = jax.random.split(key)
        goal = goal_code(learner, runner.weights, key_goal)
        codes = walk_codes(learner, runner.weights, goal, runner.seen, key_walk)
        targets = action_targets(learner, runner.weights, runner.target, goal, codes)
        value, gradient = jax.value_and_grad(functools.partial(q_loss, learner))(
            carry[0], codes, targets
        )
        return apply_gradient(optimiser, gradient, carry[1], carry[0]), value

    start = (runner.weights["q"], runner.optimiser["q"])
    (weights, state), values = jax.lax.scan(step, start, keys)
    loss = values.mean()
    target, age, _ = shared.update_target(settings, runner.target, weights, runner.age, loss)
    runner = runner._replace(
        weights={**runner.weights, "q": weights},
        optimiser={**runner.optimiser, "q": state},
        target=target,
        age=age,
    )
    return runner, losses(q_loss=loss)


def losses(**known: Array) -> dict[str, Array]:
    """Return the losses of an update by name; losses that the update did not compute are NaN."""
    names = ("decoding", "transition", "judgement", "q_loss")
    return {**means(dict.fromkeys(names, jnp.float32(0.0)), 0), **means(known, 1)}


def walk_codes(
    learner: WorldLearner, weights: PyTree[Array], goal: Any, seen: Transitions, key: Array
) -> Bool[Array, "codes cells bits"]:
    """Return the states (called codes) that random walks in the learned model visit.

    Walks start at states of the data set. If all levels have the same goal, every other walk starts
    at the goal instead. A walk takes only actions that change the state and do not lead back to the
    previous state. If there is no such action, it takes any action.
    """
    settings = learner.settings
    key_rows, key_see, key_walk = jax.random.split(key, 3)
    rows = jax.random.randint(key_rows, (settings.walks,), 0, len(seen.action))
    see = jax.vmap(functools.partial(encoded, learner, weights))
    start = see(seen.before[rows], jax.random.split(key_see, settings.walks))
    if one_goal(learner.env):
        start = start.at[::2].set(goal)

    def step(carry: tuple[Array, Array], key: Array) -> tuple[tuple[Array, Array], Array]:
        code, last = carry
        after = jax.vmap(functools.partial(successors, learner, weights))(code)
        able = (after != code[:, None]).any(axis=(2, 3)) & (after != last[:, None]).any(axis=(2, 3))
        chosen = jax.random.categorical(key, jnp.where(able, 0.0, -1e9))
        return (jax.vmap(lambda x, i: x[i])(after, chosen), code), code

    steps = jax.random.split(key_walk, settings.scramble + 1)
    codes = jax.lax.scan(step, (start, start), steps)[1]
    return codes.reshape(-1, *codes.shape[2:])


def action_targets(
    learner: WorldLearner, weights: PyTree[Array], target: PyTree[Array], goal: Any, codes: Any
) -> ActionCosts:
    """Return the Q-learning target of each action in each state of `codes`, at most `furthest`."""
    solved = functools.partial(is_solved, learner, weights, goal)

    def after(code: Array) -> tuple[Array, Array]:
        return q_values(learner, target, code), solved(code)

    children = jax.vmap(functools.partial(successors, learner, weights))(codes)
    guesses, ends = jax.vmap(jax.vmap(after))(children)
    unsolved = jnp.broadcast_to(~jax.vmap(solved)(codes)[:, None], ends.shape)
    able = jnp.ones(guesses.shape, jnp.bool_)
    found = costs_of_actions(jnp.ones(ends.shape), unsolved, guesses, able, ends)
    return found._replace(cost=jnp.minimum(found.cost, learner.settings.furthest))


def q_loss(
    learner: WorldLearner, weights: PyTree[Array], codes: Any, targets: ActionCosts
) -> Float32[Array, ""]:
    """Return the mean squared error of the predicted costs of the actions that have a target."""
    return squared_error(jax.vmap(functools.partial(q_values, learner, weights))(codes), targets)


def descend(
    learner: WorldLearner, weights: PyTree[Array], key: Array, count: int
) -> tuple[Bool[Array, " boards"], Int32[Array, " boards"]]:
    """Play up to `test_moves` moves of the greedy policy on each of `count` random boards.

    The policy observes only the initial board, and the model predicts all later states. Each action
    is also played in the puzzle, and only the puzzle decides whether the board is solved. Returns
    whether each board was solved, and the number of moves.
    """
    env = learner.env
    key_levels, key_look = jax.random.split(key)
    levels = jax.vmap(env.sample_level)(jax.random.split(key_levels, count))
    start = look(learner, weights, levels, key_look)

    def move(level: PuzzleLevel, code: Array, board: Any) -> tuple[Any, Any]:
        action = jnp.argmin(q_values(learner, weights["q"], code)).astype(jnp.int32)
        after = env.apply(level.instance, board, action).board
        return successors(learner, weights, code)[action], after

    return shared.play_greedily(env, levels, start.board, move, learner.settings.test_moves)


def optimisers(settings: Settings) -> dict[str, optax.GradientTransformation]:
    """Return the optimisers of "model" and "q": Adam with clipped gradients.

    The learning rate of each optimiser falls to 0 on a cosine schedule, over the part of the run
    that trains the optimiser's network.
    """
    later = settings.model_updates
    between = settings.progress_at(later)

    def falling(rate: float, before: int, begin: float, end: float) -> optax.GradientTransformation:
        def rate_after(steps: Any) -> Array:
            done = settings.progress(before + steps / settings.gradient_steps)
            part = jnp.clip((done - begin) / max(end - begin, 1e-9), 0.0, 1.0)
            return rate * 0.5 * (1.0 + jnp.cos(jnp.pi * part))

        return optax.chain(
            optax.clip_by_global_norm(settings.max_grad_norm), optax.adam(rate_after)
        )

    return {
        "model": falling(settings.learning_rate, 0, 0.0, between),
        "q": falling(settings.q_learning_rate, later, between, 1.0),
    }


def build(
    algorithm: Algorithm, env: Env, settings: Settings, devices: Devices = ALONE
) -> WorldLearner:
    """Return the learner for a puzzle.

    Raises `ValueError` if the environment is not a puzzle, or has actions that do not cost 1.
    """
    shared.check_one_device(algorithm, devices)
    if not isinstance(env, Puzzle):
        raise ValueError(
            f"{env.name} is no puzzle that a search can solve; {algorithm.name} needs one, such as "
            "Puzzle-SlidingTile-3x3-v0 (muzero plans in models of other environments)"
        )
    if not env.unit_cost:
        raise ValueError(
            f"{env.name} has actions of different costs, which are not observed; {algorithm.name} "
            "needs a puzzle whose actions all cost 1, such as Puzzle-SlidingTile-3x3-v0"
        )
    sight = Sight(env, settings.tile_size, settings.noise)
    model = LatentWorld(
        sight.cells, sight.features, env.num_actions, settings.bits, settings.hidden, settings.views
    )
    codes = Box(0.0, 1.0, (sight.cells * settings.bits,), np.float32)
    q = PuzzleNetwork(codes, settings.width, settings.blocks, env.num_actions)
    return Learner(algorithm, env, Networks(sight, model, q), settings)


def shown(settings: Any, record: dict[str, Any]) -> str:
    """Return the text of the progress line.

    The text is the transition loss while the model is trained, and later the fraction of solved
    test boards and the loss of the heuristic.
    """
    if record["update"] <= settings.model_updates:
        return f"model loss {np.mean(record['transition']):.3g} nats"
    solved, loss = np.mean(record["return"]), np.mean(record["q_loss"])
    return f"boards solved {solved:.0%}   Q loss {loss:.3g}"


def evaluate(
    learner: WorldLearner, weights: PyTree[Array], agents: Agents, count: int
) -> dict[str, Any]:
    """Test the model and the greedy policy of each seed; return the content of eval.json.

    The model is tested on new random walks: the entry `predicted` is the fraction of steps whose
    result it predicts exactly. The greedy policy is tested on `count` random boards.
    """
    settings = learner.settings

    @jax.jit
    def test(weights: PyTree[Array], key: Array) -> tuple[Array, ...]:
        key_walk, key_see, key_try = jax.random.split(key, 3)
        seen = gather(learner, key_walk, 4096)
        right = predicted_share(learner, weights, seen, key_see)
        return (right, *descend(learner, weights, key_try, count))

    def each_seed(weights: PyTree[Array], key: Array) -> dict[str, Any]:
        right, solved, moves = jax.device_get(test(weights, key))
        return {"predicted": round(float(right), 6), **shared.solved_share(solved, moves)}

    found = shared.results_by_seed(weights, agents, each_seed)
    seen = f"pictures, tile_size={settings.tile_size}" if settings.tile_size else ""
    facts = {"policy": greedily(learner.env, seen), "boards": count}
    return {**facts, "moves": settings.test_moves, "greedy": found}


def as_text(result: dict[str, Any]) -> str:
    """Format the result of `evaluate` for the terminal."""
    predicted = ", ".join(f"{one['predicted']:.2%}" for one in result["greedy"])
    each = ", ".join(f"{one['success_rate']:.1%}" for one in result["greedy"])
    return (
        f"Moves predicted: {predicted}\nGreedy descent in the model from {result['boards']} "
        f"boards, without search, played in the puzzle: {each}"
    )


def next_command(settings: Settings) -> tuple[str, str]:
    """Return a title and a command, which are printed as a suggestion after training."""
    return "Plan with it", "solve {env} --model {run}"
