"""Tests of Dyna: model and losses against NumPy; imagined rollouts never step the environment."""

import dataclasses
import functools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from jaxtyping import Array, UInt8

import jaxenvs
from jaxenvs.baselines.core import minibatches, rollouts
from jaxenvs.baselines.core.learner import SEEDS
from jaxenvs.baselines.model_based import dyna, dyna_model, dyna_network, dyna_rollouts
from jaxenvs.baselines.model_based.dyna_model import Window
from jaxenvs.baselines.networks import two_hot
from jaxenvs.baselines.on_policy import ppo, ppo_rnn
from jaxenvs.baselines.run import loop, train
from jaxenvs.baselines.storage.runs import Run, load_policy
from jaxenvs.core.env import Env, Params, State, Transition
from jaxenvs.core.spaces import Box, Discrete
from jaxenvs.core.vocabulary import of_bytes

pytestmark = pytest.mark.full

KEY = jax.random.key(0)
ID = "Craft-Classic-Ids-v0"
SIDE = 4


@jaxenvs.struct
class WalkState(State):
    """State with the index of the walker's cell."""

    cell: UInt8[Array, ""]


class Walk(Env):
    """Walk on a torus of 4 x 4 cells, with a coin in cell 5 and lava in cell 10, which is terminal.

    Observation: 1 in the walker's cell, 2 at the coin, 3 at the lava. A step onto the coin has the
    reward 1.
    """

    @property
    def default_params(self) -> Params:
        """Return params with a time limit that truncates some episodes."""
        return Params(max_steps_in_episode=np.int32(9))

    @property
    def action_space(self) -> Discrete:
        """Return a space of two actions, right and down."""
        return Discrete(2)

    @property
    def observation_space(self) -> Box:
        """Return a space of maps of the cells."""
        return Box(0, 3, (SIDE, SIDE), np.uint8)

    def draw_level(self, key, params):
        """Draw a start cell in the first row."""
        return jaxenvs.core.random.below(jaxenvs.core.random.words(key, 1)[0], 4)

    def reset_state(self, key, level, params):
        """Start in the level's cell."""
        return WalkState(time=jnp.int32(0), cell=level.astype(jnp.uint8))

    def step_state(self, key, state, action, params):
        """Move to the next cell of the row or of the column."""
        row, column = state.cell // SIDE, state.cell % SIDE
        down = (action == 1).astype(jnp.uint8)
        row, column = (row + down) % SIDE, (column + 1 - down) % SIDE
        cell = row * np.uint8(SIDE) + column
        after = state.replace(cell=cell)
        return Transition(after, (cell == 5).astype(jnp.float32), cell == 10)

    def observe(self, state, params=None):
        """Observe the map."""
        cells = jnp.zeros(SIDE * SIDE, jnp.uint8).at[5].set(2).at[10].set(3)
        return cells.at[state.cell.astype(jnp.int32)].set(1).reshape(SIDE, SIDE)


class Choosy(Walk):
    """Environment `Walk` in which the action down is illegal in the last row."""

    def action_mask(self, state, params=None):
        """Return the legal actions: right everywhere, and down in all rows but the last."""
        return jnp.stack([jnp.bool_(True), state.cell // SIDE < SIDE - 1])


class Timed(Choosy):
    """Environment `Choosy` whose observation has the time modulo 3 after the map."""

    @property
    def observation_space(self) -> Box:
        """Return a space of bytes, the map followed by the time."""
        return Box(0, 3, (SIDE * SIDE + 1,), np.uint8)

    @property
    def vocabulary(self):
        """Return the vocabulary of the observation: a map and a number."""
        return of_bytes((SIDE, SIDE), (4,), (3,))

    def observe(self, state, params=None):
        """Observe the map and the time modulo 3."""
        now = (state.time % 3).astype(jnp.uint8)[None]
        return jnp.concatenate([super().observe(state).reshape(-1), now])


learner = functools.partial(tiny.learner, algorithm="dyna")


# Tests of the model.


def test_steps_attend_to_themselves_and_earlier_ones_of_the_episode():
    over = np.array([False, True, False, False, True, False])
    got = np.asarray(jax.jit(dyna_network.block_causal)(over))
    for looks in range(6):
        for seen in range(6):
            assert got[looks, seen] == (seen <= looks and not over[seen:looks].any())


def test_attention_equals_plain_numpy():
    rng = np.random.default_rng(0)
    steps, known, tokens, width, heads = 2, 3, 3, 8, 2
    query = rng.normal(size=(steps, tokens, width)).astype(np.float32)
    pairs = rng.normal(size=(known, tokens, 2, width)).astype(np.float32)
    age = rng.normal(size=(heads, 4)).astype(np.float32)
    seen = np.array([[False, True, False], [True, True, True]])
    got = jax.jit(dyna_network.attended)(query, pairs, seen, age)
    size = width // heads
    for step in range(steps):
        for head in range(heads):
            part = slice(head * size, (head + 1) * size)
            for token in range(tokens):
                scores = {}
                for at in range(known):
                    ago = step + known - steps - at
                    for other in range(tokens):
                        if seen[step, at]:
                            dot = query[step, token, part] @ pairs[at, other, 0, part]
                            scores[at, other] = dot / np.sqrt(size) + age[head, ago]
                shares = {place: np.exp(score) for place, score in scores.items()}
                found = sum(s * pairs[*p, 1, part] for p, s in shares.items())
                expected = found / sum(shares.values())
                np.testing.assert_allclose(got[step, token, part], expected, rtol=1e-4, atol=1e-5)


@functools.cache
def played(env: Env):
    """Return an untrained learner, its training state after four rollouts, and the last rollout."""
    agent = learner(env)
    runners = loop.start(agent, KEY[None])

    def collect(runner, key):
        return rollouts.collect(agent, runner, key, dyna.choose, dyna.store)

    collect = jax.jit(jax.vmap(collect, axis_name=SEEDS))
    for key in jax.random.split(KEY, 4):
        runners, rollout = collect(runners, key[None])
    return agent, *jax.tree.map(lambda leaf: leaf[0], (runners, rollout))


def collected(env: Env):
    """Return the learner and the training state of `played`."""
    return played(env)[:2]


def starts(env: Env):
    """Return the states in which imagined rollouts begin: all states of `played`'s last rollout."""
    rollout = played(env)[2]
    return dyna_rollouts.Start(rollout.obs, *rollout.memory)


def a_history(steps: int, categories: int, actions: int):
    """Return a random `History` for each of `steps` steps.

    A history has the categories seen and the rewards gained since the start of the episode.
    """
    rng = np.random.default_rng(1)
    shown, gained = rng.random((steps, categories)) < 0.5, rng.normal(size=(steps, actions))
    return dyna_network.History(jnp.asarray(shown), jnp.asarray(gained, jnp.float32))


def shaken(weights):
    """Return the weights plus random noise, so that none is 0."""
    rng = np.random.default_rng(0)
    return jax.tree.map(lambda leaf: leaf + np.float32(rng.normal(0, 0.3, leaf.shape)), weights)


def test_stepwise_predictions_equal_those_of_a_window():
    agent, runner = collected(Walk())
    model, weights = dyna_model.model_of(agent), shaken(runner.model.weights)
    rng = np.random.default_rng(0)
    cells = jnp.asarray(rng.integers(0, 4, (3, SIDE, SIDE, 1)), jnp.int32)
    rest, action = jnp.zeros((3, 0), jnp.int32), jnp.int32([0, 1, 1])
    history, over = a_history(3, 4, 2), jnp.zeros(3, jnp.bool_)
    whole, _ = jax.jit(model.apply)(weights, cells, rest, history, action, over)
    go_on = jax.jit(functools.partial(model.apply, weights, method="next"))
    memory = model.begin()
    for step in range(3):
        now = jax.tree.map(lambda leaf, at=step: leaf[at], (cells, rest, history, action))
        memory, alone = go_on(memory, *now)
        for part, of_all in zip(alone, whole, strict=True):
            np.testing.assert_allclose(part, of_all[step], rtol=2e-4, atol=2e-5)
    # A step attends to `context` = 3 steps: to itself, and to the two that the memory still holds.
    assert memory["length"] == 2


def test_predictions_depend_on_earlier_steps_of_the_episode_alone():
    agent, runner = collected(Walk())
    model, weights = dyna_model.model_of(agent), shaken(runner.model.weights)
    cells, rest = jnp.zeros((3, SIDE, SIDE, 1), jnp.int32), jnp.zeros((3, 0), jnp.int32)
    action, over = jnp.int32([0, 1, 0]), jnp.bool_([True, False, False])
    history = a_history(3, 4, 2)
    apply = jax.jit(lambda *seen: model.apply(weights, *seen)[0])
    before = apply(cells, rest, history, action, over)

    def changed(**given):
        given = {"cells": cells, "history": history, "action": action} | given
        after = apply(given["cells"], rest, given["history"], given["action"], over)
        return [
            float(jnp.abs(a - b).max()) > 1e-4 for a, b in zip(before.end, after.end, strict=True)
        ]

    assert changed(cells=cells.at[0].add(1)) == [True, False, False]
    assert changed(cells=cells.at[1, 3, 3].add(1)) == [False, True, True]
    assert changed(action=action.at[2].set(1)) == [False, False, True]
    shown, gained = history
    assert changed(history=history._replace(shown=shown.at[1].set(~shown[1]))) == [0, 1, 1]
    assert changed(history=history._replace(gained=gained.at[2, 0].add(1.0))) == [0, 0, 1]


def test_a_history_holds_categories_and_rewards_since_the_start():
    vocabulary = jaxenvs.make(ID).vocabulary
    rng = np.random.default_rng(0)
    cells = rng.integers(0, vocabulary.cells, (5, *vocabulary.map, len(vocabulary.cells)))
    cells //= 2  # halves the values, so that some categories never occur
    rest = rng.integers(0, vocabulary.rest, (5, len(vocabulary.rest)))
    action, reward = np.int32([3, 1, 3, 0]), np.float32([1.0, -0.1, 0.5, 0.0])
    obs = jax.jit(jax.vmap(vocabulary.write))(np.int32(cells), np.int32(rest))
    later = jax.jit(lambda past, *step: past.later(vocabulary, *step))
    past = jax.jit(lambda obs: dyna_network.History.begin(vocabulary, 4, obs))(obs[0])
    shown, gained = [set() for _ in (*vocabulary.cells, *vocabulary.rest)], [0.0] * 4
    for step in range(5):
        numbers = [*cells[step].reshape(-1, len(vocabulary.cells)).T, *rest[step][:, None]]
        for of_one, seen in zip(shown, numbers, strict=True):
            of_one |= set(seen.tolist())
        sizes = (*vocabulary.cells, *vocabulary.rest)
        expected = [
            n in of_one for of_one, size in zip(shown, sizes, strict=True) for n in range(size)
        ]
        np.testing.assert_array_equal(past.shown, expected)
        np.testing.assert_allclose(past.gained, gained, atol=1e-6)
        if step < 4:
            past = later(past, action[step], reward[step], obs[step + 1])
            gained[action[step]] += float(reward[step])
    assert not np.asarray(past.shown).all()


def test_a_reward_depends_on_the_next_numbers_but_not_after_an_end():
    agent, runner = collected(Timed())
    model, weights = dyna_model.model_of(agent), shaken(runner.model.weights)
    earn = jax.jit(functools.partial(model.apply, weights, method="reward"))
    token, ends = jnp.ones((2, 8), jnp.float32), jnp.bool_([False, True])
    history, rest = a_history(2, 7, 2), jnp.int32([[0], [0]])

    def changed(token, rest, history, after):
        got = earn(token, rest, history, after, ends)
        return (
            (jnp.abs(got - earn(jnp.ones_like(token), *first, ends)) > 1e-4).any(axis=-1).tolist()
        )

    first = (rest, history, rest + 1)
    assert changed(token, rest, history, rest + 2) == [True, False]
    assert changed(token, rest + 1, history, rest + 1) == [True, True]
    assert changed(token, rest, history._replace(shown=~history.shown), rest + 1) == [True, True]
    assert changed(token.at[1].add(1.0), *first) == [False, True]


def test_imagination_and_training_predict_the_same_reward():
    """For the same step, imagination and a training window predict the same reward."""
    agent, runner = collected(Timed())
    weights = shaken(runner.model.weights)
    runner = runner._replace(model=runner.model._replace(weights=weights))
    now = jax.jit(dyna_rollouts.begin, static_argnums=0)(agent, runner, starts(Timed()), KEY)
    action = jnp.int32([0, 1, 1, 0])
    step = jax.jit(dyna_rollouts.predicted_step, static_argnums=0)(agent, now, KEY, action)
    assert not step.terminated.all()
    model = dyna_model.model_of(agent)
    read = jax.vmap(agent.env.env.vocabulary.read)
    (cells, rest), (_, after) = read(now.obs), read(step.obs)

    def of_window(*seen):
        cells, rest, history, action, after, ended = jax.tree.map(lambda leaf: leaf[None], seen)
        over = jnp.zeros(1, jnp.bool_)
        predicted, _ = model.apply(weights, cells, rest, history, action, over)
        known = (predicted.token, rest, history, after, ended)
        reward = model.apply(weights, *known, method="reward")
        return two_hot.mean(reward, agent.settings.spacing)[0]

    seen = (cells, rest, now.history, action, after, step.terminated)
    expected = jax.jit(jax.vmap(of_window))(*seen)
    np.testing.assert_allclose(step.reward, expected, rtol=1e-3, atol=1e-5)


def test_windows_hold_the_steps_and_the_ends_of_episodes():
    _, runner = collected(Walk())
    window = jax.jit(dyna_model.sample_windows, static_argnums=(2, 3))(
        KEY, runner.replay_buffer, 200, 3
    )
    seen = jax.device_get(window)
    cell = np.argmax(seen.obs.reshape(200, 4, -1) == 1, axis=-1)
    met = set()
    for row in range(200):
        for step in range(3):
            gained = np.zeros(2, np.float32)
            if not window.over[row, step]:
                gained[seen.action[row, step]] = seen.reward[row, step]
                gained += seen.history.gained[row, step]
            np.testing.assert_array_equal(seen.history.gained[row, step + 1], gained)
            if not seen.is_step[row, step]:
                assert window.over[row, step]
                continue
            down = seen.action[row, step]
            old = cell[row, step]
            new = (old + 4) % 16 if down else old // 4 * 4 + (old + 1) % 4
            assert seen.reward[row, step] == (new == 5)
            assert seen.terminated[row, step] == window.over[row, step] == (new == 10)
            if new != 10:
                # slot `step + 1` may hold only the final observation of a truncated episode
                assert cell[row, step + 1] == new
                met.add(bool(seen.is_step[row, step + 1]) if step < 2 else None)
            else:
                # after the end, the next episode begins in the first row
                assert cell[row, step + 1] < 4
                met.add("end")
    assert met == {True, False, None, "end"}


def test_losses_over_ends_equal_a_plain_loop(monkeypatch):
    rng = np.random.default_rng(1)
    batch, steps, sizes, rest_sizes = 30, 3, (4, 3), (5, 2)
    cells = np.stack([rng.integers(0, n, (batch, steps, 6)) for n in sizes], axis=-1)
    rest = np.stack([rng.integers(0, n, (batch, steps)) for n in rest_sizes], axis=-1)
    window = Window(
        obs=(),
        history=(),
        mask=None,
        action=jnp.zeros((batch, steps), jnp.int32),
        reward=jnp.asarray(rng.normal(size=(batch, steps)), jnp.float32),
        terminated=jnp.asarray(rng.random((batch, steps)) < 0.2),
        is_step=jnp.asarray(rng.random((batch, steps)) < 0.8),
    )

    def logits(shape, sizes):
        numbers = rng.normal(size=(*shape, len(sizes), max(sizes))).astype(np.float32)
        there = np.arange(max(sizes)) < np.array(sizes)[:, None]
        return np.where(there, numbers, dyna_network.NEVER).astype(np.float32)

    predicted = dyna_network.Prediction(
        logits((batch, steps, 6), sizes),
        logits((batch, steps), rest_sizes),
        rng.normal(size=(batch, steps)).astype(np.float32),
        np.zeros((batch, steps, 8), np.float32),
    )
    reward = rng.normal(size=(batch, steps, 9)).astype(np.float32)
    find = jax.jit(jax.vmap(functools.partial(dyna_model.step_losses, spacing=0.1)))
    errors = find(predicted, reward, np.int32(cells), np.int32(rest), window)
    sums = {name: [] for name in errors}
    shares = np.asarray(two_hot.two_hot(window.reward, 4, 0.1))
    for b in range(batch):
        for s in range(steps):
            if not window.is_step[b, s]:
                continue
            log_probs = reward[b, s] - np.log(np.exp(reward[b, s]).sum())
            sums["reward_loss"].append(-(shares[b, s] * log_probs).sum())
            sums["clipped_targets"].append(two_hot.squeezed(abs(window.reward[b, s])) > 0.4)
            chance, ended = 1 / (1 + np.exp(-predicted.end[b, s])), window.terminated[b, s]
            sums["end_loss"].append(-np.log(chance if ended else 1 - chance))
            if ended:
                continue
            numbers = [
                *(
                    (predicted.cells[b, s, i, c], cells[b, s, i, c])
                    for i in range(6)
                    for c in (0, 1)
                ),
                *((predicted.rest[b, s, i], rest[b, s, i]) for i in range(2)),
            ]
            log = [row[n] - np.log(np.exp(row[row > -1e8]).sum()) for row, n in numbers]
            sums["token_loss"].append(-np.sum(log) / 7)
            sums["accuracy"].append(np.mean([row.argmax() == n for row, n in numbers]))
    monkeypatch.setattr(dyna_model, "few_at_once", lambda *_: errors)
    _, means = dyna_model.loss(collected(Choosy())[0], (), window)
    for name, values in sums.items():
        np.testing.assert_allclose(means[name], np.mean(values), rtol=1e-4)


def test_losses_ignore_slots_after_an_end():
    """Losses of the model ignore all slots after a terminal step.

    In a slot that holds only a truncated episode's final observation, losses read this observation,
    and ignore the reward, the mask and the action.
    """
    agent, runner = collected(Choosy())
    weights = shaken(runner.model.weights)
    window = jax.jit(dyna_model.sample_windows, static_argnums=(2, 3))(
        KEY, runner.replay_buffer, 4, 3
    )
    no = jnp.zeros((4, 3), jnp.bool_)
    loss = jax.jit(lambda window: dyna_model.loss(agent, weights, window)[0])
    ended = window._replace(terminated=no.at[:, 2].set(True), is_step=~no)
    assert loss(ended) == loss(ended._replace(obs=ended.obs.at[:, 3].set(0)))
    assert loss(ended) != loss(ended._replace(obs=ended.obs.at[:, 2].set(0)))
    cut = ended._replace(terminated=no, is_step=(~no).at[:, 2].set(False))
    for changed in (
        {"reward": cut.reward.at[:, 2].add(1.0)},
        {"mask": cut.mask.at[:, 2].set(False)},
        {"action": cut.action.at[:, 2].set(1 - cut.action[:, 2])},
    ):
        assert loss(cut) == loss(cut._replace(**changed))
    # the losses do read the final observation, because the model predicts it
    assert loss(cut) != loss(cut._replace(obs=cut.obs.at[:, 2].set(0)))


def test_few_rows_at_once_equal_vmap():
    """`few_at_once`, which maps over a few items at a time, gives `vmap`'s losses and gradients."""
    agent, runner = collected(Choosy())
    weights = shaken(runner.model.weights)
    window = jax.jit(dyna_model.sample_windows, static_argnums=(2, 3))(
        KEY, runner.replay_buffer, 6, 3
    )

    def total(weights, several):
        losses = several(functools.partial(dyna_model.window_losses, agent, weights), window)
        return sum(losses.values()).sum()

    slope = jax.jit(jax.value_and_grad(total), static_argnums=1)
    few = slope(weights, dyna_model.few_at_once)
    every = slope(weights, lambda function, *rows: jax.vmap(function)(*rows))
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-4), few, every)


# Tests of imagined rollouts.


@pytest.mark.parametrize("id", [ID, "Craft-Ids-v0", "Grid-DoorKey-5x5-v0", "Puzzle-2048-v0"])
def test_categories_are_written_as_they_are_read(id):
    env = jaxenvs.make(id)
    vocabulary, space = env.vocabulary, env.observation_space
    rng = np.random.default_rng(0)
    cells = rng.integers(0, vocabulary.cells, (*vocabulary.map, len(vocabulary.cells)))
    rest = rng.integers(0, vocabulary.rest) if vocabulary.rest else np.zeros(0)
    cells, rest = cells.astype(np.int32), rest.astype(np.int32)
    obs = jax.jit(vocabulary.write)(cells, rest)
    assert obs.shape == space.shape and obs.dtype == space.dtype
    again = jax.jit(vocabulary.read)(obs)
    np.testing.assert_array_equal(again[0], cells)
    np.testing.assert_array_equal(again[1], rest)


def test_observations_of_craft_are_within_their_categories():
    env = jaxenvs.make(ID)
    vocabulary, layout = env.vocabulary, env.layout
    keys = jax.random.split(KEY, 16)
    obs = jax.jit(jax.vmap(lambda key: env.reset(key).obs))(keys)
    cells, rest = jax.jit(jax.vmap(vocabulary.read))(obs)
    seen = np.asarray(obs)
    np.testing.assert_array_equal(cells[..., 0].reshape(16, -1), seen[:, layout.blocks])
    np.testing.assert_array_equal(cells[..., 1].reshape(16, -1), seen[:, layout.mobs])
    np.testing.assert_array_equal(rest, seen[:, layout.items.start :])
    np.testing.assert_array_equal(jax.vmap(vocabulary.write)(cells, rest), seen)


def test_imagination_never_steps_the_environment(monkeypatch):
    agent, runner, _ = played(Choosy())
    begins = starts(Choosy())

    def asked(*_, **__):
        raise AssertionError("the environment was asked")

    for name in (
        "step",
        "reset",
        "observe",
        "step_state",
        "action_mask",
        "reset_state",
        "reset_to",
    ):
        for kind in (Env, Walk, Choosy):
            if name in vars(kind):
                monkeypatch.setattr(kind, name, asked)
    over_seeds = jax.vmap(functools.partial(dyna_rollouts.imagine, agent), axis_name=SEEDS)
    given = jax.tree.map(lambda x: x[None], (runner, begins))
    end, memory, rollout = jax.jit(over_seeds)(*given, KEY[None])
    assert rollout.action.shape == (1, 5, 4) and memory.shape == (1, 4, 8)
    assert end.obs.shape == (1, 4, SIDE, SIDE) and end.obs.dtype == jnp.uint8
    with pytest.raises(AssertionError, match="the environment was asked"):
        agent.env.env.reset(KEY)


@pytest.fixture(scope="module")
def imagined():
    """Return a learner, its training states before and after imagination, and the rollout."""
    agent, runner = collected(Choosy())
    end = runner.model.weights["params"]["ends_1"]
    end["bias"] = end["bias"] - 1.0  # the model then predicts an end in about every fourth step
    now = jax.jit(dyna_rollouts.begin, static_argnums=0)(agent, runner, starts(Choosy()), KEY)
    act = jax.jit(
        lambda runner, keys: jax.lax.scan(
            functools.partial(dyna_rollouts.imagined_step, agent), runner, keys
        )
    )
    after, rollout = act(now, jax.random.split(KEY, 12))
    return agent, now, after, rollout


def test_imagined_episodes_begin_at_their_start_again_after_an_end(imagined):
    _, now, _, rollout = imagined
    first = np.asarray(now.obs)
    np.testing.assert_array_equal(rollout.obs[0], first)
    ends = np.asarray(rollout.terminated)
    assert 0 < ends.mean() < 1 and not np.asarray(rollout.truncated).any()
    for step, row in zip(*np.nonzero(ends[:-1]), strict=True):
        np.testing.assert_array_equal(rollout.obs[step + 1, row], first[row])


def test_learning_unrolls_imagined_rollouts_as_acted(imagined):
    """Learning recomputes the log-probabilities and values stored in an imagined rollout.

    The recomputed numbers agree also after an episode end. The model predicts the masks of legal
    actions.
    """
    agent, now, _, rollout = imagined
    batch = minibatches.as_sequences(rollout._replace(memory=now.memory[None]))
    logits, value = jax.jit(ppo_rnn.unroll, static_argnums=0)(agent, now.weights, batch)
    log_prob = np.take_along_axis(
        np.asarray(jax.nn.log_softmax(logits)), np.asarray(rollout.action.T)[..., None], axis=-1
    )[..., 0]
    np.testing.assert_allclose(log_prob, rollout.log_prob.T, atol=1e-5)
    np.testing.assert_allclose(value, rollout.value.T, atol=1e-5)
    mask = np.asarray(rollout.mask)
    assert mask.any(axis=-1).all() and not mask.all()
    assert np.take_along_axis(mask, np.asarray(rollout.action)[..., None], axis=-1).all()


def test_imagined_returns_end_at_terminal_steps_and_bootstrap_at_the_end(imagined):
    agent, _, after, rollout = imagined
    weights, gamma, decay = after.weights, agent.settings.gamma, agent.settings.gae_lambda
    _, advantage, target = jax.jit(ppo.targets, static_argnums=0)(agent, after, rollout)
    think = jax.jit(jax.vmap(agent.network.think, in_axes=(None, 0, 0, None)))
    following = np.asarray(think(weights, after.memory, after.obs, None)[2])
    later = np.zeros_like(following)
    value, reward, ends = (
        np.asarray(x) for x in (rollout.value, rollout.reward, rollout.terminated)
    )
    for step in reversed(range(len(value))):
        goes_on = 1.0 - ends[step]
        later = (
            reward[step]
            + gamma * goes_on * following
            - value[step]
            + gamma * decay * goes_on * later
        )
        np.testing.assert_allclose(advantage[step], later, rtol=1e-4, atol=1e-5)
        following = value[step]
    np.testing.assert_allclose(target, advantage + value, rtol=1e-6)


def test_imagined_steps_are_forced_if_the_model_allows_one_action(imagined):
    agent, now, *_ = imagined
    settings = dataclasses.replace(agent.settings, skip_forced=True, imagined_steps=12)
    agent = dataclasses.replace(agent, settings=settings)
    imagine = jax.vmap(functools.partial(dyna_rollouts.imagine, agent), axis_name=SEEDS)
    given = jax.tree.map(lambda leaf: leaf[None], (now, starts(Choosy())))
    found = jax.jit(imagine)(*given, KEY[None])
    after, _, rollout = jax.tree.map(lambda leaf: leaf[0], found)
    here = np.asarray(rollout.mask).sum(axis=-1) == 1
    assert here.any() and not here.all()
    np.testing.assert_array_equal(rollout.forced.here, here)
    last = np.asarray(dyna_rollouts.allowed(agent, after)).sum(axis=-1) == 1
    following = np.concatenate([here[1:], last[None]]) & ~np.asarray(rollout.terminated)
    np.testing.assert_array_equal(rollout.forced.following, following)


def test_dyna_skips_forced_steps():
    agent = learner(Choosy(), skip_forced=True)
    runners, metrics = loop.run_chunk(agent, loop.start(agent, KEY[None]))
    assert 0.0 < metrics["decisions"] < 1.0
    for leaf in jax.tree.leaves((runners.weights, runners.model.weights)):
        assert np.isfinite(leaf).all()


@pytest.mark.parametrize("least", [0.0, 0.2, 1.0])
def test_unlikely_categories_are_not_sampled(least):
    chances = np.float32([0.5, 0.3, 0.12, 0.08])
    agent = learner(Walk(), least_chance=least)
    draw = jax.jit(functools.partial(dyna_rollouts.sample_likely, agent.settings))
    found = np.asarray(draw(KEY, jnp.broadcast_to(jnp.log(chances), (4000, 4))))
    kept = np.where(chances >= least * 0.5, chances, 0.0)
    shares = np.bincount(found, minlength=4) / 4000
    np.testing.assert_allclose(shares, kept / kept.sum(), atol=0.03)
    assert not shares[kept == 0.0].any()


def test_imagined_episodes_continue_the_history_of_their_start(imagined):
    _, now, after, rollout = imagined
    ended = 0
    for row in range(4):
        gained, shown = (np.array(part[row]) for part in now.history[::-1])
        for step in range(12):
            gained[rollout.action[step, row]] += rollout.reward[step, row]
            if step < 11:
                shown[np.unique(rollout.obs[step + 1, row])] = True
            if rollout.terminated[step, row]:
                gained, shown = (np.array(part[row]) for part in now.history[::-1])
                ended += 1
        np.testing.assert_allclose(after.history.gained[row], gained, atol=1e-5)
        shown[np.unique(after.obs[row])] = True
        np.testing.assert_array_equal(after.history.shown[row], shown)
    assert ended


def test_imagined_rollouts_begin_at_true_steps_with_their_recurrent_state():
    agent, runner, rollout = played(Walk())
    begins = starts(Walk())
    now = jax.jit(dyna_rollouts.begin, static_argnums=0)(agent, runner, begins, KEY)
    think = jax.jit(agent.network.think)
    done = rollout.terminated | rollout.truncated
    assert done.any() and rollout.reward.any()
    found = set()
    for env in range(8):
        memory, gained = begins.memory[0, env], np.array(begins.history.gained[0, env])
        for step in range(8):
            np.testing.assert_allclose(begins.memory[step, env], memory, atol=1e-6)
            np.testing.assert_array_equal(begins.history.gained[step, env], gained)
            gained[rollout.action[step, env]] += rollout.reward[step, env]
            gained *= not done[step, env]
            memory, *_ = think(runner.weights, memory, rollout.obs[step, env], None)
            memory = jnp.where(done[step, env], 0.0, memory)
            for row in range(4):
                pairs = zip(
                    jax.tree.leaves((now.obs, now.memory, now.history)),
                    jax.tree.leaves((begins.obs, begins.memory, begins.history)),
                    strict=True,
                )
                if all((a[row] == b[step, env]).all() for a, b in pairs):
                    found.add(row)
    assert found == set(range(4))


# Tests of whole runs.


def test_imagination_waits_for_the_warm_up():
    agent = learner(Choosy())
    runners = loop.start(agent, KEY[None])
    types = [leaf.aval for leaf in jax.tree.leaves(runners)]
    seen = []
    for _ in range(3):  # an update has 64 steps, and the warm-up 128
        runners, metrics = loop.run_chunk(agent, runners)
        alone = jax.tree.map(lambda leaf: leaf[0], runners.optimiser)
        made = int(minibatches.step_count(alone))
        seen.append((bool(np.isfinite(metrics["imagined_kl"][0, 0])), made))
        known = [value for name, value in metrics.items() if not name.startswith("imagined_")]
        assert all(np.isfinite(value).all() for value in known)
    assert seen == [(False, 8), (True, 16 + 16), (True, 24 + 32)]
    assert [leaf.aval for leaf in jax.tree.leaves(runners)] == types


def test_the_learning_rate_falls_to_zero_over_real_and_imagined_steps():
    settings = dyna.Settings(
        num_envs=8,
        rollout_steps=16,
        minibatches=2,
        epochs=1,
        total_steps=1280,
        warm_up=256,
        imagined_rollouts=3,
    )
    assert settings.updates == 10 and settings.warm_up == 2 * settings.steps_per_update
    assert settings.gradient_steps == 2 * (1 + 3)
    made = [
        0,
        2,
        *range(2 + 8, 2 + 8 * 10, 8),
        # gradient steps made after 0, 1, ... updates: 2 in the first, 8 in each later one
    ]
    rate = minibatches.learning_rate(settings)
    seen = [float(rate(np.int32(steps))) / settings.learning_rate for steps in made]
    np.testing.assert_allclose(seen, 1.0 - np.arange(11) / 10, atol=1e-6)
    more = dataclasses.replace(settings, total_steps=2560, plans=((6, 10),))
    assert float(minibatches.learning_rate(more)(np.int32(made[6]))) == pytest.approx(
        float(rate(np.int32(made[6])))
    )


@pytest.mark.usefixtures("as_a_user")  # no jaxtyping checks, which would refuse the stand-ins
@pytest.mark.parametrize("updates", [1, 2, 16_384, 65_536])
def test_imagination_begins_after_the_warm_up_and_continues(monkeypatch, updates):
    """Imagination begins after the warm-up, and goes on when 2**31 steps are exceeded.

    An update has 8,192 x 16 steps, so 16,384 updates have 2**31 steps, which would overflow int32.
    The warm-up is therefore compared with the number of updates.
    """
    large = {"num_envs": 8192, "rollout_steps": 16, "warm_up": 2 * 8192 * 16}
    rollout = rollouts.Rollout(reward=jnp.ones(3))
    monkeypatch.setattr(dyna_rollouts, "imagine", lambda learner, runner, *_: (runner, (), rollout))
    learn = lambda learner, runner, *_: (runner, {"kl": jnp.float32(0.1)})  # noqa: E731
    monkeypatch.setattr(ppo_rnn, "learn", learn)
    agent = types.SimpleNamespace(settings=dyna.Settings(**large))

    def imagine(updates):
        model = dyna_model.Model((), (), updates)
        runner = dyna.Runner(weights=jnp.zeros(1), model=model)
        return dyna_rollouts.learn_from_imagination(agent, runner, None, KEY)[1]["imagined_reward"]

    seen = jax.vmap(imagine, axis_name=SEEDS)(jnp.int32([updates]))
    assert np.isnan(seen[0]) if updates == 1 else seen[0] == 1.0


def test_a_resumed_run_is_the_same_bit_for_bit(tmp_path):
    argv = ["Grid-Empty-5x5-v0", "--algo", "dyna", "--hidden", "8", "--embed", "2", "--memory", "8"]
    argv += ["--num-envs", "8", "--rollout-steps", "8", "--minibatches", "2", "--capacity", "512"]
    argv += [
        "--warm-up",
        "64",
        "--context",
        "2",
        "--width",
        "8",
        "--num-heads",
        "2",
        "--depth",
        "1",
    ]
    argv += ["--model-steps", "2", "--model-batch", "8", "--imagined-rollouts", "1"]
    argv += ["--imagined-envs", "4", "--imagined-steps", "3", "--no-anneal"]
    argv += ["--eval-episodes", "4", "--out"]
    assert train.main([*argv, str(tmp_path / "one"), "--total-steps", "256"]) == 0
    assert train.main([*argv, str(tmp_path / "half"), "--total-steps", "128"]) == 0
    more = ["--resume", str(tmp_path / "half"), "--total-steps", "256"]
    assert train.main(["--algo", "dyna", *more]) == 0
    whole, parts = (Run.open(tmp_path / name).records() for name in ("one", "half"))
    for a, b in zip(whole, parts, strict=True):
        same = {k: v for k, v in a.items() if "second" not in k}
        assert same == {k: b[k] for k in same}
    one, half = (load_policy(tmp_path / name) for name in ("one", "half"))
    jax.tree.map(np.testing.assert_array_equal, one.weights, half.weights)
    assert one.begin().shape == (8,)  # a loaded run of Dyna has the recurrent policy of ppo-rnn


def test_other_observations_are_refused():
    with pytest.raises(ValueError, match="dyna predicts maps of categories"):
        learner(tiny.Clock())


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"width": 20}, "width=20 must be a multiple of 4 .* num_heads=4; give a multiple of 16"),
        ({"rollout_steps": 3}, "rollout_steps=3 must be at least .* give rollout_steps=4"),
        ({"capacity": 256}, "capacity=256 leaves 4 slots .* needs 5: give capacity=320"),
        ({"bonus": 0.1}, "bonus=0.1: the model of dyna learns"),
        ({"imagined_envs": 12}, "imagined_envs=12 does not split into minibatches=8"),
        ({"context": 0}, "context=0 must be at least 1"),
        ({"least_chance": 1.5}, "least_chance=1.5 must be at most 1"),
    ],
)
def test_settings_that_cannot_work_say_why(wrong, words):
    with pytest.raises(ValueError, match=words):
        dyna.Settings(**wrong).check()


@pytest.mark.slow
def test_it_learns_a_deterministic_world():
    settings = {"width": 32, "num_heads": 4, "model_steps": 30, "model_batch": 32, "chunk": 20}
    settings |= {"rollout_steps": 16, "imagined_rollouts": 0, "capacity": 4000, "model_rate": 3e-3}
    agent = learner(Choosy(), total_steps=2560, **settings)
    runners, metrics = loop.run_chunk(agent, loop.start(agent, KEY[None]))
    assert metrics["accuracy"][0, -1] > 0.999
    assert metrics["reward_loss"][0, -1] < 0.6 and metrics["end_loss"][0, -1] < 0.02
    assert metrics["mask_loss"][0, -1] < 0.02
    del runners
