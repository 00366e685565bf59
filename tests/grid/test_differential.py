"""Tests of grid worlds against MiniGrid 3.2.0: same level and actions, same outputs each step."""

import defaults
import expert
import jax
import numpy as np
import pytest
import upstream
from minigrid.wrappers import FullyObsWrapper, OneHotPartialObsWrapper, ViewSizeWrapper

import jaxenvs
from jaxenvs.core import platforms
from jaxenvs.grid import Action, Kind, tiles

IDS = upstream.IDS
FIRST = [id for id in defaults.FIRST if id in IDS]
# Number of random steps per id in slow tests, and in default tests. Experts play the same number.
STEPS, FEW_STEPS = 2_000, 400
RANDOM_LENGTH = 300  # largest number of steps of an episode of random play
# Probabilities of the actions turn left, turn right, forward, pick up, drop, toggle and done.
UNIFORM = np.full(7, 1 / 7)
BUSY = np.array([0.14, 0.14, 0.36, 0.14, 0.07, 0.15, 0.0])
# Action probabilities with which the agent never moves to another cell.
STILL = np.array([0.2, 0.2, 0.0, 0.2, 0.2, 0.0, 0.2])

NO_DIFFERENCE = dict.fromkeys(upstream.FIELDS, 0)
# MiniGrid's families in which `done` ends the episode; families without a task
DONE_ENDS, NOTHING_TO_WIN = ("GoToDoor", "GoToObject"), ("Playground",)


class Ways:
    """Policies: functions that map a MiniGrid environment to the actions of an episode."""

    def __init__(self, env, seed):
        self.rng, self.actions = np.random.default_rng(seed), env.action_space.n
        self.family = upstream.family(env)
        by_chance = self.family == "DynamicObstacles"
        # Action with which the agent waits without changing the state, except for the time. All
        # actions of Dynamic-Obstacles change the state, so there the agent turns left.
        self.wait = Action.DROP if self.family in DONE_ENDS else Action.DONE
        self.wait = Action.LEFT if by_chance else self.wait
        upstream.record(env, [], seed=seed)
        winning, failing = expert.players(env)
        self.expert = [self.playing(player) for player in winning] + [self.wandering(winning[-1])]
        if not by_chance:
            self.expert += [self.late(winning[-1]), self.detour(winning[-1])]
        self.expert += [self.playing(player) for player in failing]
        self.random = [self.idle, *(self.weighted(w) for w in (UNIFORM, BUSY, STILL))]

    def draw(self, weights, count):
        weights = weights[: self.actions] / weights[: self.actions].sum()
        return self.rng.choice(self.actions, size=count, p=weights).tolist()

    def weighted(self, weights):
        return lambda env: self.draw(weights, min(env.max_steps, RANDOM_LENGTH))

    def idle(self, env):
        """Repeat an action without effect until the time limit."""
        return [self.wait] * env.max_steps

    def playing(self, player):
        """Follow a scripted player of `expert.py`; play at random if the player is stuck."""
        return lambda env: expert.plan(env, player) or self.draw(BUSY, 50)

    def wandering(self, player):
        """Start with random play, then follow the player."""

        def play(env):
            start = self.draw(BUSY, min(20, env.max_steps // 4))

            def both(env):
                yield from start
                yield from player(env)

            return expert.plan(env, both) or start

        return play

    def late(self, player):
        """Wait, then follow a player so that it succeeds in the last step of the time limit.

        The last step therefore terminates the episode and does not truncate it.
        """

        def play(env):
            way = expert.plan(env, player) or []
            wins = expert.reward_of(env, way) > 0
            return [self.wait] * (env.max_steps - len(way)) * wins + way

        return play

    def detour(self, player):
        """Follow the player, but turn left and right before each of its actions."""

        def play(env):
            around = [Action.LEFT, Action.RIGHT]
            way = expert.plan(env, player) or []
            return [a for step in way for a in (*around, step)][-env.max_steps :]

        return play


def recorded(id, steps, seed=0):
    """Return recorded episodes of MiniGrid, and the policies that played them.

    The random policies play at least `steps` steps in total, and so do the experts.
    """
    env = upstream.make(id)
    ways = Ways(env, seed)
    episodes = []
    for kind in (ways.random, ways.expert):
        found = []
        while len(found) < len(kind) or sum(len(e.actions) for e in found) < steps:
            way = kind[len(found) % len(kind)]
            found.append(upstream.record(env, way, seed=seed + len(episodes) + len(found)))
        episodes += found
    return episodes, ways


def compare(id, steps, record_property):
    """Check that this library replays MiniGrid's episodes of an id without a difference.

    Also report the numbers of wins, failures and other events.
    """
    env = jaxenvs.make(id)
    episodes, ways = recorded(id, steps)
    counts, _ = upstream.differences(env, episodes)
    wins = [e for e in episodes if e.reward[-1] > 0]
    report = {
        "episodes": len(episodes),
        "steps": sum(len(e.actions) for e in episodes),
        "wins": len(wins),
        "wins at the limit": sum(abs(e.reward[-1] - 0.1) < 1e-6 for e in wins),
        "failures": sum(e.terminated[-1] and e.reward[-1] <= 0 for e in episodes),
        "truncations": sum(e.truncated[-1] for e in episodes),
        "missions": len({e.mission[0] for e in episodes}),
    }
    record_property("report", report)
    print(id, report, "differences", counts)
    assert counts == NO_DIFFERENCE
    assert report["steps"] >= 2 * steps and report["truncations"]
    assert bool(wins) == (ways.family not in NOTHING_TO_WIN)
    fails = len(expert.players(upstream_world(id))[1]) > 0
    assert bool(report["failures"]) == fails
    assert report["wins at the limit"] or ways.family in (*NOTHING_TO_WIN, "DynamicObstacles")


def upstream_world(id):
    """Return a MiniGrid environment after a reset."""
    env = upstream.make(id)
    upstream.record(env, [], seed=0)
    return env


@pytest.mark.parametrize("id", defaults.params(defaults.DIFFERENTIAL, full=FIRST, of=FIRST))
def test_every_family_is_minigrid(id, record_property):
    compare(id, FEW_STEPS, record_property)


@pytest.mark.slow
@pytest.mark.parametrize("id", IDS)
def test_every_id_is_minigrid(id, record_property):
    compare(id, STEPS, record_property)


def test_numbers_of_every_id_are_minigrids():
    for id in IDS:
        ours, theirs = jaxenvs.make(id), upstream.make(id)
        assert (ours.width, ours.height) == (theirs.width, theirs.height), id
        if theirs.max_steps:  # skipped for BabyAI, whose time limit may depend on the mission
            assert ours.default_params.max_steps_in_episode == theirs.max_steps, id
        assert ours.view_size == theirs.agent_view_size
        assert ours.see_through_walls == theirs.see_through_walls
        assert ours.action_space.n == theirs.action_space.n


OBSERVATIONS = {
    "full": (FullyObsWrapper, lambda obs: obs["image"]),
    "onehot": (OneHotPartialObsWrapper, lambda obs: obs["image"]),
    "dict": (lambda env: env, lambda obs: obs["image"]),
}
CARRYING = "BabyAI-PutNextS5N2Carrying-v0"
WORLDS = ("Grid-DoorKey-8x8-v0", "Grid-LavaCrossingS9N2-v0", "Grid-DistShift2-v0", CARRYING)


# For each observation, the ids without the marker `full` in `PAIRS`; each id occurs at least once.
SEEN = {"full": WORLDS[:2], "onehot": WORLDS[::2], "dict": (WORLDS[0], CARRYING)}
PAIRS = [
    pytest.param(id, obs, marks=[] if id in SEEN[obs] else [pytest.mark.full])
    for obs in OBSERVATIONS
    for id in WORLDS
]


@pytest.mark.full
@pytest.mark.parametrize(("id", "obs"), PAIRS)
def test_observations_are_those_of_the_wrappers(id, obs):
    wrap, image = OBSERVATIONS[obs]
    theirs = wrap(upstream.make(id))
    rng = np.random.default_rng(1)
    ways = [
        lambda env: rng.choice(7, size=120, p=BUSY),
        lambda env: expert.plan(env, expert.to_the_goal) if id != CARRYING else [Action.DROP],
    ]
    episodes = [upstream.record(theirs, ways[i % 2], seed=i, image=image) for i in range(6)]
    env = jaxenvs.make(id, obs=obs)
    assert upstream.differences(env, episodes)[0] == NO_DIFFERENCE


@pytest.mark.parametrize(
    "size", [3, pytest.param(5, marks=pytest.mark.full), pytest.param(9, marks=pytest.mark.full)]
)
def test_view_sizes_are_those_of_the_wrapper(size):
    id = "Grid-FourRooms-v0"
    theirs = ViewSizeWrapper(upstream.make(id), agent_view_size=size)
    rng = np.random.default_rng(size)
    way = lambda env: rng.choice(7, size=100, p=BUSY)  # noqa: E731
    episodes = [upstream.record(theirs, way, seed=i) for i in range(5)]
    env = jaxenvs.make(id, view_size=size)
    assert upstream.differences(env, episodes)[0] == NO_DIFFERENCE


SOLID = (Kind.WALL, Kind.FLOOR, Kind.DOOR, Kind.CLOSED_DOOR, Kind.LOCKED_DOOR, Kind.BALL, Kind.BOX)
KINDS = (*SOLID, Kind.KEY, Kind.KEY, Kind.GOAL, Kind.LAVA)
FIXED = {Kind.WALL: tiles.WALL, Kind.GOAL: tiles.GOAL, Kind.LAVA: tiles.LAVA}


def drawn(rng, rows=8, columns=8):
    """Return a random grid with every kind of object in two or three colours, and a random pose."""
    colours = rng.choice(6, size=rng.integers(2, 4), replace=False)
    kinds = rng.choice(KINDS, size=(rows, columns))
    codes = kinds | rng.choice(colours, size=(rows, columns)) << 4
    for kind, code in FIXED.items():
        codes[kinds == kind] = code
    codes[rng.random((rows, columns)) < 0.6] = tiles.EMPTY
    codes[[0, -1], :] = codes[:, [0, -1]] = tiles.WALL
    row, column = rng.integers(1, rows - 1), rng.integers(1, columns - 1)
    codes[row, column] = tiles.EMPTY
    return codes.astype(np.uint8), (row, column, rng.integers(4))


def events(ours, episodes):
    """Return the numbers of pick-ups, drops, and openings, closings and unlockings of doors."""
    counts = dict.fromkeys(("picked", "dropped", "opened", "closed", "unlocked", "boxes opened"), 0)
    held, kinds = ours["carried"], ours["grid"] & 15
    for row, episode in enumerate(episodes):
        time = len(episode.actions)
        before, after = held[row, :time], held[row, 1 : time + 1]
        toggles = np.array(episode.actions) == Action.TOGGLE
        counts["picked"] += int(((before == 0) & (after != 0)).sum())
        counts["dropped"] += int(((before != 0) & (after == 0)).sum())
        old, new = kinds[row, :time][toggles], kinds[row, 1 : time + 1][toggles]
        for name, was, becomes in (
            ("opened", Kind.CLOSED_DOOR, Kind.DOOR),
            ("closed", Kind.DOOR, Kind.CLOSED_DOOR),
            ("unlocked", Kind.LOCKED_DOOR, Kind.DOOR),
            ("boxes opened", Kind.BOX, Kind.EMPTY),
        ):
            counts[name] += int(((old == was) & (new == becomes)).sum())
    return counts


def play_drawn(size, see, grids, steps, seed):
    """Compare play in random grids with MiniGrid, also beyond the end of episodes.

    Return (differences, events, number of steps).


    The time limit is 95 % of the steps. The last step is therefore before 1.11 times the limit,
    when MiniGrid's rewards become negative.
    """
    rng = np.random.default_rng([size, see, seed])
    limit = steps - steps // 20
    episodes = []
    for _ in range(grids):
        codes, pose = drawn(rng)
        fields = {"agent_view_size": size, "see_through_walls": see, "max_steps": limit}
        env = upstream.DrawnUpstream(codes, pose, **fields)
        actions = rng.choice(7, size=steps, p=BUSY)
        episodes.append(upstream.record(env, actions, stop=False, seed=0))
        np.testing.assert_array_equal(
            episodes[-1].level.grid, codes
        )  # check that `lift` inverts `DrawnUpstream`
    ours = upstream.DrawnGrid(rows=8, columns=8, view_size=size, see_through_walls=see, limit=limit)
    counts, played = upstream.differences(ours, episodes)
    return counts, events(played, episodes), grids * steps


SIZES = (3, 5, 7, 9, 11)
SOME_VIEWS = [*((size, False) for size in SIZES), (7, True)]
VIEWS = [(size, see) for size in SIZES for see in (False, True)]


def check_drawn(views, grids, steps, seed):
    total = {}
    for size, see in views:
        counts, happened, played = play_drawn(size, see, grids, steps, seed)
        assert counts == NO_DIFFERENCE, (size, see)
        for name, count in {**happened, "steps": played}.items():
            total[name] = total.get(name, 0) + count
    print("drawn worlds:", total)
    assert all(total.values())
    return total


@pytest.mark.full
def test_drawn_levels_with_every_object_in_every_view():
    assert check_drawn(SOME_VIEWS, grids=15, steps=60, seed=0)["steps"] >= 5_000


def test_drawn_levels_with_the_code_for_accelerators(monkeypatch):
    """Run the code for accelerators on the CPU; the results must equal MiniGrid's."""

    def elsewhere(*args, default, **platforms):
        return default(*args)

    monkeypatch.setattr(platforms, "is_cpu_alone", lambda: False)
    monkeypatch.setattr(jax.lax, "platform_dependent", elsewhere)
    counts, happened, _ = play_drawn(7, False, grids=10, steps=60, seed=2)
    assert counts == NO_DIFFERENCE and happened["picked"] and happened["opened"]


@pytest.mark.slow
def test_drawn_levels_with_every_object_for_long():
    assert check_drawn(VIEWS, grids=40, steps=300, seed=1)["steps"] >= 100_000
