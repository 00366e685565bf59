"""Tests that wrappers forward every public member of the environments of several families."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenvs
from jaxenvs import adapters, search, wrappers
from jaxenvs.core import drawing
from jaxenvs.core.env import Env
from jaxenvs.core.parts.derived import Derived
from jaxenvs.core.parts.part import members
from jaxenvs.core.wrapper import COMPOSED
from jaxenvs.render import turning

KEY = jax.random.key(1)


def public(kind):
    """Return the public members of a class and its bases, by name."""
    found = {name: it for base in reversed(kind.__mro__[:-1]) for name, it in vars(base).items()}
    return {name: it for name, it in found.items() if name[0] != "_"}


IDS = [
    "Puzzle-TSP-10-v0",
    "Grid-DoorKey-5x5-v0",
    pytest.param("Classic-Pendulum-v0", marks=pytest.mark.full),
    pytest.param("XLand-R1-9x9-v0", marks=pytest.mark.full),
    pytest.param("Craft-Classic-Ids-v0", marks=pytest.mark.full),
    pytest.param("BabyAI-GoToLocal-v0", marks=pytest.mark.full),
]
# Members that a wrapper computes from forwarded ones.
COMPUTED = COMPOSED | public(Derived).keys() - {"check_values"}
BASE = jaxenvs.make("Grid-DoorKey-5x5-v0")


def both(id):
    """Return an environment, a state, a wrapper around the environment, and its wrapped state."""
    env = jaxenvs.make(id)
    state = env.reset(KEY).state
    outer = wrappers.EpisodeStatistics(env=env)
    return env, state, outer, wrappers.WrappedState(env=state, memory=())


def same(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)


class Scaled(wrappers.Wrapper):
    """Wrapper that has a field without a default."""

    factor: float
    offset: float = 0.0


class Named(wrappers.FrameStack):
    """Wrapper with a required field after an optional field.

    The required field must be passed by name.
    """

    label: str


def test_the_environment_and_the_fields_may_be_given_by_position():
    class ByName(wrappers.Wrapper, kw_only=True):
        """Wrapper whose fields must all be passed by name."""

        factor: float

    assert wrappers.FrameStack(BASE, 3) == wrappers.FrameStack(env=BASE, count=3)
    assert wrappers.Flatten(BASE) == wrappers.Flatten(env=BASE)
    assert Scaled(BASE, 2.0, 1.0) == Scaled(env=BASE, factor=2.0, offset=1.0)
    assert Named(BASE, 3, label="a") == Named(env=BASE, count=3, label="a")
    assert ByName(BASE, factor=2.0).factor == 2.0
    for kind, given in ((Named, (3, "a")), (ByName, (2.0,))):
        with pytest.raises(TypeError, match="positional"):
            kind(BASE, *given)
    assert dataclasses.replace(Scaled(BASE, 2.0), factor=3.0) == Scaled(BASE, 3.0)
    with pytest.raises(TypeError, match="positional"):
        type(BASE)(5)  # the fields of environments must be passed by name


def test_every_public_member_is_forwarded():
    """`Wrapper` forwards each public member of `Env`, or computes it from forwarded members."""
    forwarded = {name for name in vars(wrappers.Wrapper) if name[0] != "_"}
    assert not COMPUTED & forwarded, "both"
    assert public(Env).keys() - COMPUTED - forwarded == set()


def test_a_new_member_of_a_part_is_forwarded_without_an_entry():
    assert dict(members(Env)).keys() > {"tiles", "features", "package", "action_mask"}
    assert not dict(members(Env)).keys() & public(Derived).keys()


@pytest.mark.parametrize("id", IDS)
def test_values_are_those_of_the_environment_inside(id):
    env = jaxenvs.make(id)
    outer = wrappers.StickyAction(env=wrappers.EpisodeStatistics(env=env))
    # Members that differ in `StickyAction`: its state also has the previous action, which is not
    # observed, and its params also have the probability of repeating this action.
    hidden = {"fully_observed", "default_params"}
    values = [
        name
        for name, member in public(Env).items()
        if name not in COMPUTED | hidden and not callable(member)
    ]
    assert {"observation_layout", "task_sets", "status_rows", "package", "features"} <= {*values}
    for name in values:
        mine, wanted = getattr(outer, name), getattr(env, name)
        # Compare only `actions`: the other entry, a function for mouse clicks, takes the wrapper's
        # state.
        if name == "controls":
            mine, wanted = mine.actions, wanted.actions
        # Compare a vocabulary without its functions, which are new objects in each call.
        if name == "vocabulary" and wanted is not None:
            mine, wanted = ([x for x in v if not callable(x)] for v in (mine, wanted))
        assert mine == wanted, name


def test_a_changed_observation_has_another_layout():
    assert BASE.observation_layout and wrappers.FrameStack(env=BASE).observation_layout == ()


@pytest.mark.parametrize("id", IDS)
def test_states_are_drawn_and_described_as_inside(id):
    env, state, outer, wrapped = both(id)
    params = env.default_params
    action = env.action_space.sample(KEY)
    after = wrappers.WrappedState(env=env.step(KEY, state, action).state, memory=())
    played = int(action) if np.ndim(action) == 0 else 0
    for name, given in (
        ("observe", (state,)),
        ("describe", (state,)),
        ("facts", (state,)),
        ("effects", (state, played, after.env)),
        ("tiles", (state,)),
        ("view_tiles", (state,)),
        ("picture", (state, 8)),
        ("trail", (after.env, played)),
        ("picture_between", (state, played, 0.5, 8)),
        ("time_limit", (state, params)),
    ):
        outside = [wrapped if x is state else after if x is after.env else x for x in given]
        same(getattr(outer, name)(*outside), getattr(env, name)(*given))
    same(outer.atlas(8), env.atlas(8))
    assert outer.shortest_limit(params) == env.shortest_limit(params)
    assert drawing.is_drawn(outer) and drawing.has_picture(outer) == drawing.has_picture(env)


def test_a_trail_a_turn_and_masks_are_those_inside():
    env, _, outer, wrapped = both("Puzzle-TSP-10-v0")
    stepped = outer.step(KEY, outer.reset(KEY).state, 3)
    assert len(outer.trail(stepped.state, 3)) > 0
    same(outer.action_mask(wrapped), env.action_mask(wrapped.env))
    cube = jaxenvs.make("Puzzle-Cube-2x2-v0")
    assert turning.is_drawn(cube) and turning.is_drawn(wrappers.EpisodeStatistics(env=cube))
    assert not turning.is_drawn(outer)


@pytest.mark.parametrize("id", IDS)
def test_levels_are_those_inside(id):
    env, _, outer, _ = both(id)
    level = env.sample_level(KEY)
    same(outer.sample_level(KEY), level)
    same(outer.reset_to(KEY, level).state.env, env.reset_to(KEY, level).state)
    assert outer.accepts(level) == env.accepts(level)
    same(getattr(outer.ending(level), "actions", ()), getattr(env.ending(level), "actions", ()))


def test_members_of_a_family_take_the_states_of_the_wrapper():
    env, state, _, _ = both("Grid-DoorKey-5x5-v0")
    sticky = wrappers.StickyAction(env=env)
    outer = wrappers.Flatten(env=wrappers.EpisodeStatistics(env=sticky))
    wrapped = outer.reset(KEY).state
    text = env.mission_text(state)
    assert outer.mission_text(wrapped) == outer.mission_text(state=wrapped) == text
    assert outer.size == env.size == 5 and outer.view_size == 7
    puzzle = jaxenvs.make("Puzzle-SlidingTile-3x3-v0")
    board = "1 2 3\n4 5 6\n7 0 8"
    same(wrappers.Flatten(env=puzzle).read_level(board), puzzle.read_level(board))
    craft = jaxenvs.make("Craft-Classic-Ids-v0")
    ids = jnp.zeros(145, jnp.uint8)
    same(wrappers.Flatten(env=craft).expand(ids), craft.expand(ids))
    with pytest.raises(AttributeError, match="no attribute 'missions'"):
        _ = outer.missions


def test_params_of_a_member_are_those_of_the_wrapper():
    class Slow(type(BASE)):
        """Environment with a method that returns the remaining steps."""

        def left(self, state, params):
            return int(params.max_steps_in_episode - state.time)

    env = wrappers.EpisodeStatistics(env=wrappers.StickyAction(env=Slow(size=5)))
    assert env.left(env.reset(KEY).state, env.default_params) == 250


def test_an_error_within_a_property_is_not_hidden():
    class Broken(wrappers.Wrapper):
        """Wrapper with a bug in a property that the wrapped environment has too."""

        @property
        def observation_space(self):
            return self.not_there

    with pytest.raises(AttributeError, match="not_there"):
        _ = Broken(env=BASE).observation_space


@pytest.mark.full
def test_a_search_takes_a_wrapped_puzzle():
    puzzle = wrappers.FrameStack(env=jaxenvs.make("Puzzle-SlidingTile-3x3-v0"), count=2)
    outer = wrappers.EpisodeStatistics(env=puzzle)
    level = outer.read_level("1 2 3\n4 5 6\n0 7 8")
    found = search.astar(outer, outer.reset_to(KEY, level).state, node_budget=100)
    assert found.solved and found.cost == 2


def test_trials_are_made_in_the_wrapper():
    env = wrappers.EpisodeStatistics(env=jaxenvs.make("XLand-R1-9x9-v0"))
    trials = env.trials("trivial-21k", (0.0, 0.001), episodes=2)
    assert type(trials) is wrappers.EpisodeStatistics and trials.env.episodes == 2
    assert env.task_sets and trials.task_sets == ()


def test_states_of_another_package_need_a_wrapper_without_memory():
    inside = jaxenvs.make("Grid-DoorKey-5x5-v0", obs="image")
    shown = {"image": np.zeros((7, 7, 3), np.uint8), "direction": 0, "mission": "go"}
    assert wrappers.Flatten(env=inside).upstream_obs(shown).shape == (147,)
    with pytest.raises(NotImplementedError, match="FrameStack"):
        wrappers.FrameStack(env=inside).upstream_obs(shown)


def test_an_adapter_draws_and_plays_a_wrapped_environment():
    env = wrappers.FrameStack(wrappers.TimeLimit(jaxenvs.make("Classic-CartPole-v0"), 3), 2)
    game = adapters.to_gymnasium(env, render_mode="rgb_array")
    assert game.reset(seed=0)[0].shape == (2, 4)
    ends = [game.step(0)[3] for _ in range(3)]
    assert ends == [False, False, True] and game.render().ndim == 3
