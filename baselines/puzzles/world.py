"""A* in a learned world: planning in a model of a puzzle that is only observed.

Run it with `jaxenvs train ID --algo world`, then plan with `jaxenvs solve ID --model RUN`. After
Agostinelli and Soltani (2024), "Learning discrete world models for heuristic search". All that is
known of the puzzle are observations before and after random actions, made once, and the observation
of its goal; where there is not one goal for all levels, whether the observed state is solved.

The first `model_share` of the gradient steps teach the model, see latent_world.py. The others teach
a heuristic in it: walks of random actions in the model, the cost of each action and of what follows
it by Q-learning (Agostinelli et al., 2024, "Q* Search"). An action that changes nothing in the
model is one that does not help, as illegal actions are not known. Neither these steps nor plans ask
the environment.

Deliberate differences: those of latent_world.py; one heuristic for the puzzle's goal instead of one
for any pair of states; and all actions of a state are learned from.
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
from jaxenvs.puzzles.puzzle import Puzzle, PuzzleLevel, PuzzleState

from ..core.bounds import Count, Share, Unlimited
from ..core.devices import ALONE, Devices
from ..core.episodes import Agents
from ..core.learner import SEEDS, Algorithm, Learner
from ..core.metrics import means
from ..core.minibatches import apply_gradient
from ..core.policy_statement import greedily
from ..core.settings import Checked
from .davi import CostToGo, check_one_device, costs_of_actions, solved_share
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
from .latent_world import UNDECIDED, LatentWorld, Sight


@dataclasses.dataclass(frozen=True)
class Settings(Checked):
    """What a run learns with; presets.py tunes it per environment, flags override it."""

    total_steps: int = 12_000  # gradient steps, of the model and of the heuristic
    model_share: Share = 0.5  # share of them that teach the model
    transitions: Count = 50_000  # observations before and after a random action, all that is seen
    walk_steps: Count = 50  # of them in a walk, from a level or from the goal
    tile_size: int = 0  # learn from pictures whose tiles have so many pixels; 0: the observation
    noise: float = 0.0  # standard deviation of a picture's pixels, of brightness 0 to 1
    bits: Count = 8  # of the code of each cell of an observation
    hidden: Count = 48  # width of the model's layers
    views: Count = 4  # other cells that the model sees beside a cell, for each action
    batch: Count = 128  # transitions that a gradient step of the model learns from
    walks: Count = 32  # in the batch of a gradient step of the heuristic
    scramble: Count = 20  # moves of a walk, each state of which is in the batch
    furthest: float = 100.0  # highest cost that is learned: unsolvable states have no cost
    gradient_steps: Count = 100  # in an update
    learning_rate: float = 3e-3  # of the model; it falls to zero
    q_learning_rate: float = 1e-3  # of the heuristic; it falls to zero
    max_grad_norm: Unlimited = 10.0  # global norm of the gradient, at most
    target_loss: float = 0.05  # mean loss of an update below which the target becomes the network
    target_every: Count = 1  # updates after which it does in any case
    width: Count = 128  # of the heuristic's layers
    blocks: int = 1  # residual blocks of two layers
    test_boards: Count = 32  # boards to descend from greedily after each update, for the log
    test_moves: Count = 40  # moves to solve them in
    chunk: int = 1  # updates in one call of the compiled program: Ctrl-C waits for its end

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
        """Gradient steps of an update."""
        return self.gradient_steps

    @property
    def model_updates(self) -> int:
        """Updates that teach the model."""
        return round(self.update_at(self.model_share))


class Transitions(NamedTuple):
    """All that was seen of the puzzle."""

    before: Array  # (*seeds, transitions, ...), see `Sight.look`
    action: Int32[Array, "*seeds transitions"]
    after: Array
    solved: Bool[Array, "*seeds transitions"]  # afterwards


class Runner(NamedTuple):
    """Everything a run consists of between two updates: saved as it is, resumed bit for bit."""

    weights: PyTree[Array]  # "model" and "q"
    target: PyTree[Array]  # an older copy of "q", which values successors
    optimiser: PyTree[Array]  # of both
    seen: Transitions
    updates: Int32[Array, "*seeds"]  # made so far
    age: Int32[Array, "*seeds"]  # updates since the target was changed
    key: UInt32[Array, "*seeds words"]  # data of the PRNG key


DIVIDED: tuple[str, ...] = ()


def init(learner: Learner[Settings], key: Array) -> Runner:
    """Start: look at the puzzle, draw weights, and keep the key for all that follows."""
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


def gather(learner: Learner[Settings], key: Array, count: int) -> Transitions:
    """Look at walks of random actions, also illegal ones, half of them from the goal if it is one.

    Returns `count` transitions.
    """
    env, steps = learner.env, learner.settings.walk_steps

    def walk(key: Array) -> Transitions:
        key_level, key_start, key_walk = jax.random.split(key, 3)
        level = env.sample_level(key_level)
        if one_goal(env):
            from_goal = jax.random.bernoulli(key_start)
            goal = env.goal(level.instance)
            board = jax.tree.map(lambda g, b: jnp.where(from_goal, g, b), goal, level.board)
            level = level.replace(board=board)
        start = env.reset_to(key_start, level).state
        return jax.lax.scan(act, start, jax.random.split(key_walk, steps))[1]

    def act(state: PuzzleState, key: Array) -> tuple[PuzzleState, Transitions]:
        key_action, key_step = jax.random.split(key)
        action = env.action_space.sample(key_action)
        step = env.step(key_step, state, action)
        look = learner.network.sight.look
        return step.state, Transitions(look(state), action, look(step.state), env.succeeded(step))

    walks = jax.vmap(walk)(jax.random.split(key, -(-count // steps)))
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[:count], walks)


def update(learner: Learner[Settings], runner: Runner) -> tuple[Runner, dict[str, Array]]:
    """Take gradient steps of the model or, later, of the heuristic; try out what was learned."""
    settings = learner.settings
    key_rest, key_learn, key_try = jax.random.split(jax.random.wrap_key_data(runner.key), 3)
    keys = jax.random.split(key_learn, settings.gradient_steps)
    # All seeds are equally far; the maximum makes it one number, so that it stays a branch.
    early = jax.lax.pmax(runner.updates, SEEDS) < settings.model_updates
    teach = functools.partial(learn_model, learner), functools.partial(learn_heuristic, learner)
    runner, losses = jax.lax.cond(early, *teach, runner, keys)
    runner = runner._replace(key=jax.random.key_data(key_rest), updates=runner.updates + 1)
    solved, moves = descend(learner, runner.weights, key_try, settings.test_boards)
    return runner, {
        "episodes": jnp.int32(settings.test_boards),
        "return_sum": solved.sum(dtype=jnp.float32),
        "length_sum": moves.sum(dtype=jnp.int32),
        **losses,
    }


# The model.


def learn_model(
    learner: Learner[Settings], runner: Runner, keys: Array
) -> tuple[Runner, dict[str, Array]]:
    """Gradient steps of the model; also its losses."""
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


def losses(**known: Array) -> dict[str, Array]:
    """The losses of an update by name; those of what was not taught are not known."""
    names = ("decoding", "transition", "judgement", "q_loss")
    return {**means(dict.fromkeys(names, jnp.float32(0.0)), 0), **means(known, 1)}


def model_loss(
    learner: Learner[Settings], weights: PyTree[Array], seen: Transitions, key: Array
) -> tuple[Float32[Array, ""], Float32[Array, " losses"]]:
    """Loss of a batch of transitions; also its parts.

    Where solved states are judged, half of the batch are solved ones, if any was seen.
    """
    nets, count = learner.network, learner.settings.batch
    key_rows, key_solved, key_cells, key_noise = jax.random.split(key, 4)
    rows = jax.random.randint(key_rows, (count,), 0, len(seen.action))
    judges = not one_goal(learner.env)
    if judges:
        met = jnp.cumsum(seen.solved, dtype=jnp.int32)  # solved ones so far
        rank = jax.random.randint(key_solved, (count // 2,), 1, jnp.maximum(met[-1], 1) + 1)
        solved = jnp.searchsorted(met, rank)
        rows = rows.at[: count // 2].set(jnp.where(met[-1] > 0, solved, rows[: count // 2]))
    rows = jax.tree.map(lambda leaf: leaf[rows], seen)
    split = jax.vmap(nets.sight.split)
    before, after = (
        split(leaf, jax.random.split(k, count))
        for leaf, k in zip((rows.before, rows.after), jax.random.split(key_cells), strict=True)
    )
    each = jax.vmap(functools.partial(nets.model.apply, weights))
    parts = each(before, rows.action, after, rows.solved, jax.random.split(key_noise, count))
    parts = jnp.stack([part.mean() for part in parts])
    return parts @ jnp.array([1.0, UNDECIDED, 1.0, float(judges)], jnp.float32), parts


# The heuristic.


def learn_heuristic(
    learner: Learner[Settings], runner: Runner, keys: Array
) -> tuple[Runner, dict[str, Array]]:
    """Gradient steps of the heuristic, in the model alone; perhaps change the target."""
    settings, optimiser = learner.settings, optimisers(learner.settings)["q"]

    def step(carry: Any, key: Array) -> tuple[Any, Array]:
        key_walk, key_goal = jax.random.split(key)
        goal = goal_code(learner, runner.weights, key_goal)
        codes = walked(learner, runner.weights, goal, runner.seen, key_walk)
        targets, known = action_targets(learner, runner.weights, runner.target, goal, codes)
        value, gradient = jax.value_and_grad(functools.partial(q_loss, learner))(
            carry[0], codes, targets, known
        )
        return apply_gradient(optimiser, gradient, carry[1], carry[0]), value

    start = (runner.weights["q"], runner.optimiser["q"])
    (weights, state), values = jax.lax.scan(step, start, keys)
    loss, age = values.mean(), runner.age + 1
    change = (loss < settings.target_loss) | (age >= settings.target_every)
    runner = runner._replace(
        weights={**runner.weights, "q": weights},
        optimiser={**runner.optimiser, "q": state},
        target=jax.tree.map(lambda old, new: jnp.where(change, new, old), runner.target, weights),
        age=jnp.where(change, 0, age),
    )
    return runner, losses(q_loss=loss)


def walked(
    learner: Learner[Settings], weights: PyTree[Array], goal: Any, seen: Transitions, key: Array
) -> Bool[Array, "codes cells bits"]:
    """The codes of walks in the model, from states that were seen and, every other, from the goal.

    No action leads back at once or changes nothing, unless there is no other.
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
    learner: Learner[Settings], weights: PyTree[Array], target: PyTree[Array], goal: Any, codes: Any
) -> tuple[Float32[Array, "codes actions"], Bool[Array, "codes actions"]]:
    """What each action costs with all that follows it, at most `furthest`; and what is learned."""
    solved = functools.partial(is_solved, learner, weights, goal)

    def after(code: Array) -> tuple[Array, Array]:
        return q_values(learner, target, code), solved(code)

    children = jax.vmap(functools.partial(successors, learner, weights))(codes)
    guesses, ends = jax.vmap(jax.vmap(after))(children)
    going_on = jnp.broadcast_to(~jax.vmap(solved)(codes)[:, None], ends.shape)
    able = jnp.ones(guesses.shape, jnp.bool_)
    found = costs_of_actions(jnp.ones(ends.shape), going_on, guesses, able, ends)
    return jnp.minimum(found.cost, learner.settings.furthest), found.known


def q_loss(
    learner: Learner, weights: PyTree[Array], codes: Any, targets: Array, known: Array
) -> Float32[Array, ""]:
    """Squared error of the costs that are known."""
    guesses = jax.vmap(functools.partial(q_values, learner, weights))(codes)
    errors = jnp.where(known, jnp.square(guesses - targets), 0.0)
    return errors.sum() / jnp.maximum(known.sum(dtype=jnp.float32), 1.0)


# How well it does.


def descend(
    learner: Learner[Settings], weights: PyTree[Array], key: Array, count: int
) -> tuple[Bool[Array, " boards"], Int32[Array, " boards"]]:
    """Take the least costly action, `test_moves` times, from random boards; solved, and moves.

    Actions are chosen from the first observation on in the model alone, and played in the puzzle.
    """
    env = learner.env
    key_levels, key_look = jax.random.split(key)
    levels = jax.vmap(env.sample_level)(jax.random.split(key_levels, count))
    start = look(learner, weights, levels, key_look)

    def move(level: PuzzleLevel, goal: Any, code: Array, board: Any) -> tuple[Any, ...]:
        action = jnp.argmin(q_values(learner, weights["q"], code)).astype(jnp.int32)
        solved = env.is_goal(level.instance, board)
        after = env.apply(level.instance, board, action).board
        after = jax.tree.map(lambda old, new: jnp.where(solved, old, new), board, after)
        return successors(learner, weights, code)[action], after, ~solved

    def step(carry: Any, _: None) -> tuple[Any, None]:
        code, board, taken = carry
        code, board, moved = jax.vmap(move)(levels, start.instance, code, board)
        return (code, board, taken + moved.astype(jnp.int32)), None

    begin = (start.board, levels.board, jnp.zeros(count, jnp.int32))
    _, board, taken = jax.lax.scan(step, begin, length=learner.settings.test_moves)[0]
    return jax.vmap(env.is_goal)(levels.instance, board), taken


def foretold(
    learner: Learner[Settings], weights: PyTree[Array], seen: Transitions, key: Array
) -> Float32[Array, ""]:
    """Share of transitions whose code afterwards is the one that the model foretells."""

    def right(each: Transitions, key: Array) -> Bool[Array, ""]:
        key_before, key_after = jax.random.split(key)
        before = encoded(learner, weights, each.before, key_before)
        after = encoded(learner, weights, each.after, key_after)
        return (successors(learner, weights, before)[each.action] == after).all()

    return jax.vmap(right)(seen, jax.random.split(key, len(seen.action))).mean()


# The command.


def optimisers(settings: Settings) -> dict[str, optax.GradientTransformation]:
    """Adam behind a clip of the global norm, for the model and for the heuristic."""
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
) -> Learner[Settings]:
    """Return the learner for a puzzle; `ValueError` for one that cannot be learned."""
    check_one_device(algorithm, devices)
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
    q = CostToGo(codes, settings.width, settings.blocks, env.num_actions)
    return Learner(algorithm, env, Networks(sight, model, q), settings)


def shown(settings: Any, record: dict[str, Any]) -> str:
    """Text of the progress line: the loss of the model, later the share of solved boards."""
    if record["update"] <= settings.model_updates:
        return f"model loss {np.mean(record['transition']):.3g} nats"
    solved, loss = np.mean(record["return"]), np.mean(record["q_loss"])
    return f"boards solved {solved:.0%}   Q loss {loss:.3g}"


def evaluate(
    learner: Learner[Settings], weights: PyTree[Array], agents: Agents, count: int
) -> dict[str, Any]:
    """Try each seed's model on new walks and `count` random boards; return what eval.json has."""
    settings = learner.settings

    @jax.jit
    def each_seed(weights: PyTree[Array], key: Array) -> tuple[Array, ...]:
        key_walk, key_see, key_try = jax.random.split(key, 3)
        seen = gather(learner, key_walk, 4096)
        right = foretold(learner, weights, seen, key_see)
        return (right, *descend(learner, weights, key_try, count))

    found = []
    for i, (seed, key) in enumerate(zip(agents.seeds, agents.keys, strict=True)):
        one = jax.tree.map(lambda leaf, i=i: leaf[i], weights)
        right, solved, moves = jax.device_get(each_seed(one, key))
        known = {"foretold": round(float(right), 6), **solved_share(solved, moves)}
        found.append({"seed": seed, **known})
    seen = f"pictures, tile_size={settings.tile_size}" if settings.tile_size else ""
    facts = {"policy": greedily(learner.env, seen), "boards": count}
    return {**facts, "moves": settings.test_moves, "greedy": found}


def as_text(result: dict[str, Any]) -> str:
    """Return the result of `evaluate` as text."""
    predicted = ", ".join(f"{one['foretold']:.2%}" for one in result["greedy"])
    each = ", ".join(f"{one['success_rate']:.1%}" for one in result["greedy"])
    return (
        f"Moves predicted: {predicted}\nGreedy descent in the model from {result['boards']} "
        f"boards, without search, played in the puzzle: {each}"
    )


def next_command(settings: Settings) -> tuple[str, str]:
    """What to type after training."""
    return "Plan with it", "solve {env} --model {run}"
