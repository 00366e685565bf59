"""Tests of Craft-Classic's observations, rewards, action masks and error messages."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scene
from scene import ENV, mob, set_slot

import jaxenvs
from jaxenvs.craft import CLASSIC, Action, Block, CraftClassic, chance

GROUP = "craft_scenes"  # tests of this group share a worker, which compiles their step once

A = Action
view = jax.jit(ENV.view)
# Use the environment of `test_contract.py`, so that both files share its compiled programs.
of_the_contract = pytest.mark.parametrize("id", ["Craft-Classic-Ids-v0"])


# The following tests check observations.
def seen(state, bit):
    _, mobs = view(state)
    return [tuple(cell) for cell in np.argwhere((np.asarray(mobs) >> bit) & 1).tolist()]


def test_the_view_is_7_by_9_around_the_player():
    state = scene.scene("T . . . . . . . # \n . . . . > . . . c", at=(5, 3))
    blocks, _ = view(state)
    assert blocks.shape == (7, 9)
    assert blocks[2, 0] == Block.TREE and blocks[2, 8] == Block.STONE and blocks[3, 8] == Block.COAL
    corner, _ = view(scene.scene(">", at=(0, 0)))
    assert (corner[:3] == Block.OUT_OF_BOUNDS).all()
    assert (corner[:, :4] == Block.OUT_OF_BOUNDS).all()
    assert (corner[3:, 4:] != Block.OUT_OF_BOUNDS).all()


@pytest.mark.parametrize(("sign", "bit"), [("Z", 0), ("C", 1), ("S", 2), ("l", 3)])
def test_mobs_are_seen_where_they_are(sign, bit):
    state = scene.scene(f". . {sign} \n > . .")
    assert seen(state, bit) == [(2, 6)]
    assert not any(seen(state, other) for other in range(4) if other != bit)


def test_quirk_a_dead_slot_hides_a_mob_on_its_cell():
    dead = set_slot("passive", 1, mob(4, 6, health=0, alive=False, marked=False))
    assert seen(scene.scene("> . C", change=dead), 1) == []
    earlier = lambda world: world._replace(  # noqa: E731 - a later slot wins
        mobs={
            **world.mobs,
            "passive": (mob(4, 6, 0, alive=False, marked=False), mob(4, 6), mob(9, 9, alive=False)),
        }
    )
    assert seen(scene.scene("> . .", change=earlier), 1) == [(3, 6)]


def test_quirk_a_mob_out_of_sight_above_or_left_hides_one_at_the_opposite_side():
    """Check that an unseen cow in a later slot hides a cow on the opposite side of the view.

    The hidden cow is one view height below the unseen cow, or one view width right of it.
    """
    for row, column, shown in ((-7, 0, []), (0, -9, []), (7, 0, [(4, 5)]), (-8, 0, [(4, 5)])):
        other = set_slot("passive", 1, mob(9 + row, 10 + column))
        state = scene.scene("> . \n . C", at=(8, 9), change=other)
        assert seen(state, 1) == shown, (row, column)


# The following tests check rewards, masks, time limit and state.
@pytest.mark.full
def test_reward_of_a_task():
    env = CraftClassic(size=16, obs="ids", task="collect_wood")
    advance = jax.jit(env.advance)
    for drawing, action, reward in (("> T", A.DO, 1), ("> ~", A.DO, 0), ("> L", A.RIGHT, 0)):
        state = scene.scene(drawing).ticked()
        after = advance(state, jnp.int32(action), scene.QUIET, env.default_params)
        assert float(after.reward) == reward, drawing


@pytest.mark.full
def test_masked_actions_have_the_result_of_noop():
    """Check that a masked action leads to the same state and reward as NOOP.

    Moves are never masked for an awake player, because even a blocked move turns the player.
    """
    mask, advance, params = jax.jit(ENV.action_mask), scene.advance(), ENV.default_params
    pictures = ["B > .", "F v B", "> #", "^ \n L", "> C", "B < F", "> ~"]
    bags = [{}, {"wood": 2}, {"stone": 1, "wood": 1}, {"sapling": 1}]
    bags += [{"wood": 9, "stone": 9, "coal": 9, "iron": 9}]
    bodies = [{}, {"vitals": {"energy": 3}}, {"sleeping": True, "vitals": {"energy": 3}}]
    allowed = np.zeros(len(CLASSIC.actions), int)
    for picture in pictures:
        for bag in bags:
            for body in bodies:
                state = scene.scene(picture, items=bag, **body)
                legal = np.asarray(mask(state))
                allowed += legal
                noop, *others = jax.device_get(
                    [advance(state, np.int32(a), scene.QUIET, params)[0] for a in CLASSIC.actions]
                )
                for action, moment in zip(CLASSIC.actions, [noop, *others], strict=True):
                    changed = not _same(moment.state, noop.state) or moment.reward != noop.reward
                    assert legal[action] or not changed, (picture, bag, action)
                    # For SLEEP and later actions, the mask is exact: an allowed action has an
                    # effect. NOOP, DO and moves may be allowed without having an effect.
                    if action >= A.SLEEP:
                        assert changed == legal[action], (picture, bag, action)
    assert (allowed > 0).all() and (allowed < len(pictures) * len(bags) * len(bodies))[1:].all()


def _same(a, b):
    return all(
        np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    )


@of_the_contract
def test_the_time_limit_truncates_and_lava_in_the_last_step_terminates(id, compiled):
    game = compiled(id)

    def last(drawing, action, time):
        state = scene.scene(drawing, time=time)
        state = state.replace(map=jnp.pad(state.map, (0, 48), constant_values=Block.SAND))
        return game.step(jax.random.key(0), state, jnp.int32(action), game.env.default_params)

    for drawing, action, terminated in ((">", A.NOOP, False), ("> L", A.RIGHT, True)):
        step = last(drawing, action, 9_999)
        assert (bool(step.terminated), bool(step.truncated)) == (terminated, not terminated)
    assert not last(">", A.NOOP, 9_998).done


def test_dicts_of_worlds_pass_through_compiled_functions():
    """JAX sorts the keys of dicts, so the rules must not depend on their order."""
    state = scene.scene(
        "Z . C \n > . S_", items={"wood": 1, "coal": 3}, vitals={"food": 4}, counters={"thirst": 6}
    )
    unpacked = jax.jit(ENV.world)(state)
    again = jax.jit(ENV.packed)(state.time, state.map, unpacked)
    assert _same(again, state)


def test_states_are_small():
    leaves = jax.tree.leaves(jax.eval_shape(CraftClassic().reset, jax.random.key(0)).state)
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)
    assert size <= 4_400


def test_ids_expand_to_the_symbolic_observation():
    symbolic = CraftClassic(size=16, obs="symbolic")
    expand, both = jax.jit(ENV.expand), jax.jit(lambda s: (ENV.observe(s), symbolic.observe(s)))
    for picture in ("Z . C \n > . S_ \n l # T", "< D"):
        for time in (0, 60, 210):
            state = scene.scene(picture, time=time, items={"wood": 3, "iron_sword": 1})
            ids, floats = both(state)
            np.testing.assert_allclose(expand(ids), floats, atol=1 / 255)
            where = ENV.layout
            assert ids[where.items][0] == 3 and ids[where.facing] in (1, 2)
            assert ids.shape == (where.size,) == (145,)


# The following tests check random draws.
def test_draws_are_uniform_and_independent():
    """Check over many keys that all draws of a step are uniform and pairwise uncorrelated."""
    count = 20_000
    draw = jax.jit(jax.vmap(lambda key: chance.draw(key, scene.SLOTS)))
    draws = draw(jax.random.split(jax.random.key(3), count))
    columns, choices = [], []
    for path, values in jax.tree_util.tree_flatten_with_path(draws)[0]:
        name = jax.tree_util.keystr(path)
        values = np.asarray(values).reshape(count, -1)
        is_step = name.endswith(".step")
        sides = next(n for role, n in chance.WAYS.items() if role in name) if is_step else 16
        whole = values if is_step else np.floor(values * sides).astype(int)
        assert values.min() >= 0 and whole.min() == 0 and whole.max() == sides - 1, name
        for column in whole.T:
            expected = count / sides
            square = ((np.bincount(column, minlength=sides) - expected) ** 2 / expected).sum()
            assert square < sides + 5 * np.sqrt(2 * sides), name
        columns += list(values.T)
        choices.append(values.shape[1])
    assert sum(choices) == 25
    correlation = np.corrcoef(np.array(columns, float)) - np.eye(25)
    assert abs(correlation).max() < 5 / np.sqrt(count)


@of_the_contract
def test_a_step_is_its_draws_and_the_rules(id, compiled):
    game = compiled(id)
    advance = jax.jit(game.env.advance)
    params = game.env.default_params
    state = game.reset(jax.random.key(0), params).state
    for i in range(20):
        key, action = jax.random.key(i), jnp.int32(i * 7 % 17)
        step = game.step(key, state, action, params)
        alone = advance(state.ticked(), action, chance.draw(key, game.env.slots), params)
        assert _same(step.state, alone.state) and step.reward == alone.reward
        state = step.state


# The following tests check error messages.
@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"task": "collect_gold"}, ["collect_gold", "'collect_wood'", "did you mean"]),
        ({"obs": "picture"}, ["'symbolic', 'ids', 'pixels'"]),
        ({"size": 60}, ["60", "multiple of 16", "64"]),
        ({"size": 8}, ["8", "from 16 to"]),
        ({"size": 256}, ["256", "to 224"]),
        ({"reach": 0}, ["reach=0", "from 1"]),
    ],
)
def test_bad_fields(fields, words):
    with pytest.raises(ValueError) as caught:
        CraftClassic(**fields)
    for word in words:
        assert word in str(caught.value)


def test_bad_slots(as_a_user):
    with pytest.raises(TypeError, match="slots must be"):
        CraftClassic(slots=(3, 3, 2, 3, 10))
    with pytest.raises(ValueError, match=r"slots\.melee=0 is out of range"):
        CraftClassic(slots=scene.Slots(melee=0))
    CraftClassic(slots=scene.Slots(melee=8, passive=4, ranged=3))
    with pytest.raises(ValueError, match="15"):
        CraftClassic(slots=scene.Slots(melee=8, passive=4, ranged=4))


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("spawn_cow_chance", 1.5, "from 0 to 1"),
        ("spawn_zombie_base_chance", -0.1, "from 0 to 1"),
        ("spawn_zombie_night_chance", float("nan"), "from 0 to 1"),
        ("spawn_skeleton_chance", 2.0, "from 0 to 1"),
        ("zombie_health", 0, "from 1 to 31"),
        ("cow_health", 99, "from 1 to 31"),
        ("skeleton_health", -1, "from 1 to 31"),
        ("mob_despawn_distance", 15, "from 1 to 14"),
        ("mob_despawn_distance", 0, "from 1 to 14"),
        ("day_length", 0, "from 1 to"),
        ("max_steps_in_episode", 0, "from 1 to"),
    ],
)
def test_params_out_of_range(name, value, allowed):
    like = getattr(ENV.default_params, name)
    params = ENV.default_params.replace(**{name: like.dtype.type(value)})
    with pytest.raises(ValueError) as caught:
        ENV.reset(jax.random.key(0), params)
    message = str(caught.value)
    assert name in message and allowed in message


@pytest.mark.full
def test_params_of_a_wrapped_world_are_checked_too():
    params = ENV.default_params.replace(cow_health=np.int32(99))
    with pytest.raises(ValueError, match="cow_health=99"):
        jaxenvs.wrappers.Flatten(env=ENV).reset(jax.random.key(0), params)


def test_a_batch_of_params_is_checked_too():
    chances = np.array([0.1, 3.0], np.float32)
    params = ENV.default_params.replace(spawn_cow_chance=chances)
    with pytest.raises(ValueError, match=r"spawn_cow_chance=3\.0 is out of range"):
        ENV.reset(jax.random.key(0), params)


def test_params_that_are_traced_are_clipped():
    """Traced params out of range are clipped, because traced code cannot raise an error.

    A value that is not clipped would corrupt other fields that are packed into its word.
    """

    @jax.jit
    def cow(health):
        state = ENV.reset(jax.random.key(0), ENV.default_params.replace(cow_health=health)).state
        return ENV.world(state).mobs["passive"][0]

    assert [int(cow(jnp.int32(h)).health) for h in (-1, 3, 100)] == [1, 3, 31]
    assert not cow(jnp.int32(100)).alive


def test_worlds_drawn_few_at_a_time_are_the_same(monkeypatch):
    params = ENV.default_params.replace(cow_health=jnp.arange(1, 6, dtype=jnp.int32))
    # Use two function objects. JAX would not trace the same function again after `levels_at_once`
    # has changed.
    together, few = (lambda key: jaxenvs.make_vec(ENV, 5).reset(key, params) for _ in range(2))
    together = jax.jit(together)(jax.random.key(0))
    monkeypatch.setattr(CraftClassic, "levels_at_once", 2)
    few = jax.jit(few)(jax.random.key(0))
    chex.assert_trees_all_equal(together, few)
