"""Tests of `jaxenvs.agents` without a protocol: episodes, sessions, tools and their messages."""

import io
import threading

import jax
import numpy as np
import pytest
from doorkey_reader import Reader
from PIL import Image

import jaxenvs
from jaxenvs.agents import games, tools
from jaxenvs.agents.episode import MAX_ACTIONS, Episode
from jaxenvs.agents.games import Games
from jaxenvs.commands.parser import UsageError
from jaxenvs.render.session import MIN_MOMENTS, Session

GROUP = "agents"  # tests of this group share a worker, which compiles their games once
ID, DOOR = "Grid-Empty-5x5-v0", "Grid-DoorKey-5x5-v0"


@pytest.fixture
def client(as_a_user) -> tools.Client:
    return tools.Client(Games())


def ask(client: tools.Client, tool: str, **arguments) -> tools.Answer:
    """Call a tool that must succeed, and return its answer."""
    answer = tools.call(client, tool, arguments)
    assert not answer.failed, answer.text
    return answer


def refused(client: tools.Client, tool: str, **arguments) -> str:
    """Call a tool that must fail, and return its message."""
    answer = tools.call(client, tool, arguments)
    assert answer.failed and not (answer.data or {}).get("taken")
    assert "failed on the server" not in answer.text
    return answer.text


def test_an_episode_equals_a_session_of_play():
    env, names = jaxenvs.make(ID), ["right", "forward", "left", "forward"]
    episode, session = Episode(env, 3), Session(env, seed=3)
    assert episode.act(names).actions == tuple(names)
    for name in names:
        session.act(env.controls.names.index(name))
    jax.tree.map(np.testing.assert_array_equal, episode.state, session.state())
    assert episode.describe() == env.describe(session.state())


def test_a_script_that_reads_solves_doorkey(client):
    for seed in range(4):
        reader = Reader()
        answer = ask(client, "reset", environment=DOOR, seed=seed)
        while not answer.data["over"]:
            answer = ask(client, "act", actions=[reader.next_action(answer.text)])
        assert "has ended by the rules, with success" in answer.text
        score = ask(client, "score")
        assert score.data["success"] and score.data["progress"] == 1
        assert score.data["return"] > 0.8 and "Success: yes." in score.text


def test_actions_stop_at_an_unknown_one_and_at_the_end(client):
    ask(client, "reset", environment=ID)
    answer = ask(client, "act", actions=["forward", "jump", "left"])
    assert answer.data["taken"] == ["forward"] and answer.data["steps"] == 1
    assert "Stopped at action 2 of 3, 'jump': There is no action 'jump'." in answer.text
    assert "Legal now: 0 left, 1 right, 2 forward" in answer.text
    answer = ask(client, "act", actions=["forward", "right", "forward", "forward", "left", "left"])
    assert answer.data["over"] and len(answer.data["taken"]) == 4
    assert "Stopped at action 5 of 6, 'left': the episode has ended" in answer.text
    assert "No action is legal: reset starts another" in answer.text
    assert "Stopped at action 1 of 1" in refused(client, "act", actions=["left"])
    assert ask(client, "legal_actions").data["count"] == 0


def test_undo_returns_to_the_earlier_state_and_its_outcomes(client):
    first = ask(client, "reset", environment=ID)
    won = ["forward", "forward", "right", "forward", "forward"]
    ended = ask(client, "act", actions=won)
    assert ended.data["success"] and ended.data["undoable"] == 5
    back = ask(client, "undo", steps=5)
    assert back.text == first.text.partition("\n")[2] and not back.data["success"]
    assert ask(client, "act", actions=won).text == ended.text
    assert "give 1 to 5" in refused(client, "undo", steps=6)
    ask(client, "undo", steps=5)
    assert "no step was taken yet" in refused(client, "undo")


def test_observations_in_full_in_short_and_as_changes(client):
    ask(client, "reset", environment=DOOR)
    assert "No step before this state is known." in ask(client, "observe", detail="changes").text
    ask(client, "act", actions=["pick up"], detail="short")
    changes, short = (ask(client, "observe", detail=d).text for d in ("changes", "short"))
    assert "You now carry a yellow key" in changes and "Your view" not in changes
    several = ask(client, "act", actions=["drop", "left"], detail="changes").text
    assert "You now carry nothing." in several and "You now see a yellow key" in several
    assert len(short) < len(ask(client, "observe").text)
    message = refused(client, "observe", detail="long")
    assert message == "observe: detail must be one of full, short, changes, got 'long'"


def test_a_picture_decodes(client):
    ask(client, "reset", environment=ID)
    picture = Image.open(io.BytesIO(ask(client, "look").png))
    assert picture.format == "PNG" and picture.size == (224, 224)  # the view: 7 cells per side
    ask(client, "reset", environment="Puzzle-SlidingTile-3x3-v0")
    assert min(Image.open(io.BytesIO(ask(client, "look").png)).size) >= 96


def test_a_picture_shows_only_what_the_agent_sees():
    """Levels that differ only in cells that the agent does not see have the same picture."""
    env, seen = jaxenvs.make(DOOR), {}
    for seed in range(20):
        episode = Episode(env, seed)
        whole = np.asarray(jaxenvs.render(env, episode.state)).tobytes()
        seen.setdefault(episode.describe(), []).append((episode.picture(), whole))
    assert all(len({picture for picture, _ in alike}) == 1 for alike in seen.values())
    assert any(len({whole for _, whole in alike}) > 1 for alike in seen.values())


def test_environments_are_found_and_explained(client):
    found = ask(client, "list_environments", search="doorkey", limit=2)
    assert found.text.startswith(f"{DOOR}: ") and found.data["found"] > 2
    assert "more: give another word" in found.text
    assert len(ask(client, "list_environments").data["environments"]) == 20
    assert "no id" in refused(client, "list_environments", search="nothing-like-this")
    rules = ask(client, "rules", environment=DOOR).text
    assert "A wall splits the room" in rules and "max_steps_in_episode" in rules
    assert "jaxenvs play" not in rules and "--param" not in rules
    assert "REFERENCE RETURNS" in ask(client, "rules", environment=DOOR, full=True).text


def test_fields_set_the_environment(client):
    ask(client, "reset", environment=ID, fields={"size": 6, "max_steps_in_episode": 2})
    answer = ask(client, "act", actions=["left", "left", "left"])
    assert answer.data["truncated"] and "has ended at the time limit" in answer.text


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("play", {}, "no tool 'play'; the tools are list_environments, rules, reset"),
        ("act", {"action": "left"}, "no argument 'action'; the arguments are actions, session"),
        ("reset", {}, "the argument 'environment' is missing: an id of list_environments"),
        ("reset", {"environment": 3}, "environment must be a string, got 3"),
        ("reset", {"environment": "Grid-Emty-5x5-v0"}, "did you mean 'Grid-Empty-5x5-v0'"),
        ("reset", {"environment": ID, "seed": -1}, "seed must be a whole number from 0 to"),
        ("reset", {"environment": ID, "seed": True}, "seed must be a whole number from 0 to"),
        ("reset", {"environment": ID, "fields": []}, "fields must be an object of names"),
        ("reset", {"environment": ID, "fields": {"sise": 6}}, "did you mean 'size'"),
        ("reset", {"environment": ID, "fields": {"size": "x"}}, "size"),
        ("reset", {"environment": ID, "session": "x"}, "session 'x' is not open"),
        ("reset", {"environment": "os:Grid-v0"}, "which clients cannot load; start the server"),
        ("rules", {"environment": "os:Grid-v0"}, "which clients cannot load; start the server"),
        ("rules", {"environment": "Grid-v"}, "list_environments finds ids"),
        ("act", {"actions": "left"}, "no session is open; call reset first"),
        ("act", {"actions": [None]}, "actions must be a list of names of actions"),
        ("observe", {"session": "x"}, "give a name that reset returned, or call reset"),
    ],
)
def test_mistakes_are_sentences(tool, arguments, says, client):
    assert says in refused(client, tool, **arguments)


@pytest.mark.parametrize("path", ["/etc/passwd", "..\\x", ".", "~", "~root"])
def test_fields_read_no_files(path, client):
    fields = {"levels": path}
    message = refused(client, "reset", environment="Puzzle-Sokoban-6x6-v0", fields=fields)
    assert "names a file of the server's machine" in message


def test_hostile_values_of_arguments_are_sentences_of_bounded_length(client, caplog):
    deep = []
    for _ in range(3000):
        deep = [deep]
    for tool, given in (
        *(("reset", {"environment": ID, "fields": {"size": bad}}) for bad in (deep, {"a": 1})),
        *(
            ("reset", {"environment": ID, "fields": {bad: 1}})
            for bad in ("id", "self", "x" * 10**5)
        ),
        ("reset", {"environment": ID, "fields": {"size": 10**5000}}),
        ("reset", {"environment": ID, "seed": 10**5000}),
        ("rules", {"environment": "x" * 10**5}),
        ("observe", {"session": "x" * 10**5}),
        ("observe", {"session": deep}),
        ("x" * 10**5, {}),
    ):
        answer = tools.call(client, tool, given)
        assert answer.failed and len(answer.text) <= tools.MAX_PROBLEM
        assert "failed on the server" not in answer.text and "make()" not in answer.text
    tools.call(client, "reset", {"environment": ID})
    for actions in (["x" * 10**5], 10**5000, [10**5000]):
        answer = tools.call(client, "act", {"actions": actions})
        assert answer.failed and answer.text.endswith("6 done.")
        assert len(answer.text) <= tools.MAX_PROBLEM and answer.data["problem"]
    assert not caplog.records


def test_large_states_are_refused(client, monkeypatch):
    monkeypatch.setattr(games, "MAX_STATE_BYTES", 10)
    assert "at most 10 are allowed" in refused(client, "reset", environment=ID)


def test_the_number_of_actions_is_bounded(client):
    ask(client, "reset", environment=ID)
    many = ["left"] * (MAX_ACTIONS + 1)
    assert "give 1 to 500 names" in refused(client, "act", actions=many)
    assert "give 1 to 500 names" in refused(client, "act", actions=[])


def test_the_history_is_bounded(monkeypatch, client):
    monkeypatch.setattr("jaxenvs.agents.episode.HISTORY_BYTES", 1)
    ask(client, "reset", environment=ID, fields={"max_steps_in_episode": 400})
    kept = ask(client, "act", actions=["left"] * (MIN_MOMENTS + 20), detail="short")
    assert kept.data["undoable"] == MIN_MOMENTS - 1
    assert "(the oldest 21 steps cannot)" in refused(client, "undo", steps=MIN_MOMENTS)


def test_sessions_are_separate_and_the_least_used_one_is_closed(client):
    games = Games(per_client=2, in_all=3)
    one, two = tools.Client(games, "one"), tools.Client(games, "two")
    first = ask(one, "reset", environment=ID).data["session"]
    second = ask(one, "reset", environment=ID, seed=1).data["session"]
    ask(one, "act", actions=["left"], session=first)
    assert ask(one, "score", session=second).data["steps"] == 0
    ask(one, "observe", session=first)  # now `second` is the least recently used session
    assert "is not open" in refused(two, "observe", session=first)
    third = ask(one, "reset", environment=ID).data["session"]
    closed = refused(one, "observe", session=second)
    assert f"session {second!r} was closed: this client opened 2 others" in closed
    assert ask(one, "observe").data["session"] == third
    ask(two, "reset", environment=ID)
    ask(two, "reset", environment=ID)
    assert "the clients of this server opened 3 others" in refused(one, "observe", session=first)
    assert len(games) == 3


def test_a_session_is_closed_and_restarted(client):
    first = ask(client, "reset", environment=ID).data["session"]
    second = ask(client, "reset", environment=ID).data["session"]
    again = ask(client, "reset", environment=ID, seed=5, session=first)
    assert again.data["session"] == first and again.data["seed"] == 5
    ask(client, "close", session=first)
    # Without `session`, the tool uses the only open session.
    assert ask(client, "observe").data["session"] == second
    assert "the client closed it" in refused(client, "observe", session=first)
    ask(client, "close")
    assert "no session is open" in refused(client, "close")


def test_a_client_that_cannot_be_known_names_its_session(client):
    stranger = tools.Client(client.games, None)
    session = ask(stranger, "reset", environment=ID).data["session"]
    assert "give `session`, the name that reset returned" in refused(stranger, "observe")
    ask(stranger, "observe", session=session)
    # Open more sessions than one client may have. Clients without a name have no such limit, only
    # the limit `in_all`.
    for _ in range(games.PER_CLIENT):
        ask(stranger, "reset", environment=ID)
    ask(stranger, "observe", session=session)


def test_a_fault_of_an_environment_is_an_answer(client, monkeypatch, caplog):
    def fail(self, detail, steps):
        raise ZeroDivisionError("of the test")

    ask(client, "reset", environment=ID)
    monkeypatch.setattr(Episode, "describe", fail)
    answer = tools.call(client, "observe", {})
    assert answer.failed and "observe failed on the server: ZeroDivisionError" in answer.text
    assert "of the test" in caplog.text


def test_actions_without_names_cannot_be_played(as_a_user, monkeypatch):
    env = jaxenvs.make("Classic-Pendulum-v0")
    monkeypatch.setattr(type(env), "controls", jaxenvs.core.controls.Controls())
    with pytest.raises(UsageError, match="actions without names"):
        Episode(env)


def test_episodes_in_threads_are_the_ones_played_alone(client):
    """Sessions that play in threads at the same time end in the states of episodes played alone."""
    drawn = np.random.default_rng(0).integers(0, 3, (8, 30))
    lists = [[("left", "right", "forward")[i] for i in row] for row in drawn]
    answers: dict[int, str] = {}

    def play(seed: int) -> None:
        session = ask(client, "reset", environment=DOOR, seed=seed).data["session"]
        for name in lists[seed]:
            answers[seed] = ask(client, "act", actions=[name], session=session).text

    threads = [threading.Thread(target=play, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == len(threads)
    for seed, text in answers.items():
        alone = Episode(jaxenvs.make(DOOR), seed)
        alone.act(lists[seed])
        assert alone.describe() in text
