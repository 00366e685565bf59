"""Tests of `Session`: history, cursor, branches, episodes and clock.

A session holds the environments that a window shows as boards, the history of their time steps, and
the cursor, which is the displayed time step.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenvs
from jaxenvs.grid import Action
from jaxenvs.render import session as sessions
from jaxenvs.render.pilots import RANDOM, Pilot, of_policy
from jaxenvs.render.session import NO_ACTION, Moment, Session, action_name, board_moment

ENV = jaxenvs.make("Grid-Empty-5x5-v0")  # The agent starts in a corner and faces along a wall.
TO_GOAL = [Action.FORWARD] * 2 + [Action.RIGHT] + [Action.FORWARD] * 2


def session(boards: int = 1, pilot: Pilot | None = RANDOM, seed: int = 0, **more) -> Session:
    return Session(ENV, pilot, boards, seed, **more)


def same(a: Moment, b: Moment) -> bool:
    return all(map(np.array_equal, jax.tree.leaves(a), jax.tree.leaves(b)))


def forward(s: Session, steps: int) -> Session:
    for _ in range(steps):
        s.forward()
    return s


def play(s: Session, actions) -> Session:
    for action in actions:
        s.act(action)
    return s


def test_the_same_seed_gives_the_same_history_and_another_one_does_not():
    a, b, c = forward(session(), 30), forward(session(), 30), forward(session(seed=1), 30)
    assert all(map(same, a.history, b.history))
    assert not all(map(same, a.history, c.history))


def test_a_board_does_not_depend_on_the_number_of_boards():
    one, three = forward(session(1), 12), forward(session(3), 12)
    for a, b in zip(one.history, three.history, strict=True):
        assert same(a, jax.tree.map(lambda leaf: leaf[:1], b))
    assert len({tuple(int(m.action[i]) for m in three.history) for i in range(3)}) == 3


def test_going_back_and_forward_changes_nothing():
    s = forward(session(), 20)
    history = list(s.history)
    s.seek(3)
    assert s.now is history[3] and not s.at_end
    forward(s, 17)
    assert s.at_end and s.history == history
    s.seek(-5)
    assert s.cursor == 0
    s.seek(999)
    assert s.cursor == 20


def test_a_person_acting_in_the_past_begins_a_branch():
    s = forward(session(), 20)
    s.seek(5)
    assert s.act(Action.LEFT)
    assert s.human and s.at_end and len(s.history) == 7
    assert s.now.action[0] == Action.LEFT
    assert not s.tick(10.0)  # the policy does not act, because a person has acted
    s.toggle_pause()  # lets the policy act again
    assert s.tick(0.13) and len(s.history) == 8


def test_a_branch_that_repeats_the_past_is_the_past():
    s = forward(session(seed=4), 12)
    past = list(s.history)
    s.seek(2)
    play(s, [int(moment.action[0]) for moment in past[3:]])
    assert all(map(same, past, s.history))
    s.seek(2)
    s.toggle_pause()
    s.history = s.history[:3]
    forward(s, 10)
    assert all(map(same, past, s.history))  # the policy's random actions are repeated too


def test_undo_takes_back_a_move():
    s = play(session(pilot=None), [Action.FORWARD, Action.RIGHT])
    before = s.history[1]
    s.seek(s.cursor - 1)
    assert same(s.now, before)
    play(s, [Action.LEFT])
    assert len(s.history) == 3 and s.now.action[0] == Action.LEFT


def test_an_episode_ends_and_the_next_one_begins():
    s = play(session(pilot=None), TO_GOAL)
    assert s.is_over() and s.now.terminated[0] and not s.now.truncated[0]
    assert s.now.score[0] == s.now.reward[0] == pytest.approx(1 - 0.9 * 5 / 100)
    # Once the episode has ended, `act` does nothing; `new_level` starts the next episode.
    assert not s.act(Action.FORWARD) and len(s.history) == 6
    s.new_level()
    assert s.now.action[0] == NO_ACTION and s.now.score[0] == 0 and s.now.reward[0] == 0
    assert s.now.episode[0] == 1 and s.now.finished[0] == 1
    assert s.now.total[0] == pytest.approx(1 - 0.9 * 5 / 100)
    s.seek(s.cursor - 1)
    assert s.is_over()  # the previous time step is the end of the first episode


def test_the_pilot_begins_the_next_episode_by_itself():
    s = forward(session(seed=2), 450)
    ends = [i for i, moment in enumerate(s.history[:-1]) if moment.over[0]]
    assert ends
    for i in ends:
        after = s.history[i + 1]
        assert after.action[0] == NO_ACTION and after.episode[0] == s.history[i].episode[0] + 1
        s.seek(i + 1)
        assert int(s.state().time) == 0
    assert s.history[-1].finished[0] == len(ends)


def test_levels_do_not_depend_on_earlier_episodes():
    env = jaxenvs.make("Grid-Empty-Random-5x5-v0")
    slow, quick = Session(env, RANDOM), Session(env, RANDOM)
    play(slow, [Action.DONE] * 7)
    slow.new_level()
    quick.new_level()
    assert same(slow.now, quick.now)


def test_a_new_level_of_one_board_or_of_all():
    s = forward(session(3), 4)
    s.new_level(1)
    assert s.now.episode.tolist() == [0, 1, 0] and s.now.action[0] != NO_ACTION
    s.new_level()
    assert s.now.episode.tolist() == [1, 2, 1]


def test_acting_on_one_board_moves_the_others_by_the_pilot():
    s, other = forward(session(3), 3), forward(session(3), 4)
    s.act(Action.DONE, 1)
    assert s.now.action.tolist() == [
        other.now.action[0],
        Action.DONE,
        other.now.action[2],
    ]


def test_the_clock_makes_steps_at_the_speed():
    s = session(speed=4)
    assert not s.tick(0.2) and s.cursor == 0
    assert s.tick(0.06) and s.cursor == 1
    assert s.tick(0.5) and s.cursor == 3
    s.toggle_pause()
    assert not s.tick(5.0) and s.paused
    s.toggle_pause()
    # If a minute has passed at once, as after a pause of the program, most steps are skipped.
    assert s.tick(60.0) and s.cursor < 10


def test_the_end_of_an_episode_is_shown_for_end_pause():
    s = play(session(pilot=RANDOM, speed=60), TO_GOAL)
    s.toggle_pause()
    assert s.delay == sessions.END_PAUSE and not s.tick(0.5) and s.tick(0.4)
    assert s.delay == pytest.approx(1 / 60)


def test_speeds_stay_in_their_range():
    s = session(speed=5)
    s.change_speed(True)
    assert s.speed == 8
    for _ in range(9):
        s.change_speed(True)
    assert s.speed == sessions.SPEEDS[-1]
    for _ in range(20):
        s.change_speed(False)
    assert s.speed == sessions.SPEEDS[0]


def test_a_full_history_drops_the_oldest_moments(monkeypatch):
    s = session(seed=3)
    s.capacity = 10
    whole = forward(session(seed=3), 25)
    forward(s, 25)
    assert len(s.history) == 10 and s.dropped == 16 and s.at_end
    assert all(map(same, s.history, whole.history[16:]))
    s.seek(0)
    assert same(s.now, whole.history[16])


def test_a_full_history_stays_below_max_bytes():
    for boards in (1, 64):
        s = session(boards)
        size = sum(leaf.nbytes for leaf in jax.tree.leaves(s.now))
        assert 100 <= s.capacity <= sessions.MAX_MOMENTS
        assert s.capacity * size <= sessions.MAX_BYTES


class Stubborn:
    """Policy without recurrent state that prefers to go forward."""

    begin = tuple

    def think(self, memory, obs, mask):
        return memory, jnp.zeros(7).at[Action.FORWARD].set(4.0), jnp.float32(0.5)


class Counting:
    """Recurrent policy whose value is the number of observations in the episode so far."""

    def begin(self):
        return jnp.int32(0)

    def think(self, memory, obs, mask):
        return memory + 1, jnp.zeros(7), (memory + 1).astype(jnp.float32)


def test_policies_act_greedily_or_sample_and_report_probabilities_and_value():
    greedy = forward(session(pilot=of_policy(Stubborn(), greedy=True)), 6)
    assert {int(moment.action[0]) for moment in greedy.history[1:]} == {Action.FORWARD}
    drawn = forward(session(pilot=of_policy(Stubborn())), 60)
    actions = [int(moment.action[0]) for moment in drawn.history[1:]]
    assert len(set(actions)) > 1 and actions.count(Action.FORWARD) > 40
    probabilities, value = sessions.policy_output(greedy, 0)
    assert value == 0.5 and probabilities.sum() == pytest.approx(1)
    assert probabilities[Action.FORWARD] == pytest.approx(np.exp(4) / (np.exp(4) + 6))
    assert np.isnan(sessions.policy_output(session(), 0)[1])


def test_recurrent_state_is_reset_at_the_end_of_an_episode():
    s = play(session(boards=2, pilot=of_policy(Counting())), TO_GOAL[:-1])
    # The policy has observed 5 states: four in which a person acted, and the displayed state.
    assert sessions.policy_output(s, 0)[1] == 5.0
    s.act(TO_GOAL[-1])
    assert s.is_over(0) and not s.is_over(1)
    s.toggle_pause()
    forward(s, 1)  # begins a new episode of board 0
    assert [sessions.policy_output(s, board)[1] for board in (0, 1)] == [1.0, 7.0]
    s.seek(2)
    assert sessions.policy_output(s, 0)[1] == 3.0  # count at the displayed time step


PENDULUM = jaxenvs.make("Classic-Pendulum-v0")


def test_keys_and_pilots_give_continuous_actions():
    s = Session(PENDULUM, None, seed=3)
    assert s.now.action[0] == NO_ACTION and action_name(PENDULUM, board_moment(s.now, 0)) == ""
    left = [row.name for row in PENDULUM.controls.actions].index("full counter-clockwise")
    s.act(left)
    assert s.now.action[0] == left and s.now.taken.tolist() == [[2.0]]
    assert action_name(PENDULUM, board_moment(s.now, 0)) == "torque 2"
    s.toggle_pause()  # from here on the random policy acts
    drawn = np.array([forward(s, 1).now.taken[0, 0] for _ in range(20)])
    assert abs(drawn).max() <= 2 and len(set(drawn.tolist())) == 20
    plain = PENDULUM.step(jax.random.key(0), s.state(), np.float32([0.0]))
    assert not plain.info["invalid_action"]


def test_a_policy_of_continuous_actions_reports_its_mode():
    class Fixed:
        begin = staticmethod(tuple)

        @staticmethod
        def think(memory, obs, mask):
            assert mask is None
            # Outputs of the policy: mean before tanh, and log standard deviation.
            return memory, jnp.float32([0.5, -20.0]), obs[0]

    s = Session(PENDULUM, of_policy(Fixed(), greedy=True))
    forward(s, 2)
    likeliest, value = sessions.policy_output(s, 0)
    np.testing.assert_allclose(likeliest, [2 * np.tanh(0.5)], rtol=1e-6)
    np.testing.assert_allclose(s.now.taken[0], likeliest, rtol=1e-6)
    assert value == pytest.approx(np.cos(s.state().angle), abs=1e-6)


def test_the_history_keeps_no_buffers_of_jax():
    """The history copies arrays; views of JAX's buffers would need ten times the memory."""
    session = Session(ENV, RANDOM, 2)
    session.forward()
    session.new_level(0)
    leaves = jax.tree.leaves(session.history)
    assert leaves and all(leaf.base is None for leaf in leaves)
