"""Tests of the command `jaxenvs eval-text`, and of `progress`, an episode's score from 0 to 1."""

import json
import sys
import types

import jax
import numpy as np
import pytest
from defaults import with_full

import jaxenvs
from jaxenvs import cli
from jaxenvs.text import Progress, progress
from jaxenvs.text.agents import load
from jaxenvs.text.evaluation import Episode, Settings, summary
from jaxenvs.text.prompts import legal_names, observation

ID = "Grid-Empty-5x5-v0"


class Walker:
    """Agent with a memory: the number of its calls since `reset`."""

    def __init__(self):
        self.calls, self.resets = 0, 0

    def reset(self):
        self.calls, self.resets = 0, self.resets + 1

    def __call__(self, text):
        self.calls += 1
        return "I look around.\nAction: " + ("jump" if self.calls == 2 else "forward")


@pytest.fixture
def agents(monkeypatch):
    module = types.ModuleType("agents_of_this_test")
    module.Walker, module.walker = Walker, Walker()
    module.number = lambda text: 3
    module.idle = lambda text: "nonsense"
    module.constant = 3
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def run(*more, agent="random", id=ID):
    return cli.main(["eval-text", id, "--agent", agent, *map(str, more)])


@pytest.mark.full
def test_results_and_transcripts_are_written(agents, tmp_path, capsys):
    out = tmp_path / "out"
    assert run("--episodes", 2, "--seed", 5, "--out", out, agent="agents_of_this_test:walker") == 0
    found = json.loads((out / "eval.json").read_text())
    assert found["id"] == ID and found["seed"] == 5 and found["versions"]["jax"]
    assert [result["steps"] for result in found["results"]] == [100, 100]
    assert [result["invalid"] for result in found["results"]] == [1, 1]
    assert found["summary"]["success"] == 0.0 and found["summary"]["invalid_answers"] == 2
    assert agents.walker.resets == 2
    turns = [json.loads(line) for line in (out / "transcripts.jsonl").read_text().splitlines()]
    assert len(turns) == 200 and turns[-1]["truncated"]
    first, second, third = turns[:3]
    assert legal_names(first["prompt"])[:3] == ["left", "right", "forward"]
    assert observation(first["prompt"])[0] == "Mission: get to the green goal square."
    assert first["action"] == "forward" and "Changes: " not in first["prompt"]
    assert second["action"] is None and "There is no action" in second["error"]
    assert "Last action: forward." in second["prompt"] and "Changes: " in second["prompt"]
    assert "Answer refused: There is no action" in third["prompt"]
    assert "return 0.000" in capsys.readouterr().out


@pytest.mark.parametrize(("rule", "steps"), [("noop", 100), ("random", None), ("end", 1)])
def test_invalid_answers_are_handled_by_the_rule(agents, tmp_path, rule, steps):
    out = tmp_path / "out"
    more = ("--episodes", 1, "--invalid", rule, "--out", out)
    assert run(*more, agent="agents_of_this_test:idle") == 0
    (result,) = json.loads((out / "eval.json").read_text())["results"]
    assert result["invalid"] == result["steps"] and steps in (None, result["steps"])
    turns = [json.loads(line) for line in (out / "transcripts.jsonl").read_text().splitlines()]
    assert all((turn["action"] is None) == (rule != "random") for turn in turns)


def test_an_episode_without_a_valid_answer_counts_as_a_failure():
    """Success and progress are 0, not None, if an episode ends before its first step."""
    env, ends = jaxenvs.make("Grid-Empty-5x5-v0"), Settings(0, "end")
    results = []
    for number, answers in enumerate([["nonsense"], ["right", "forward", "forward"] * 9]):
        episode, answer = Episode(env, number, ends), iter(answers)
        turns = [*episode.play(lambda text, answer=answer: next(answer))]
        assert bool(turns[0].error) == (number == 0)
        results.append(episode.result())
        assert episode.progress.definition == "1 if the episode succeeded, else 0"
    assert results[0].success is False and results[0].progress == 0.0
    found = summary(results)
    assert found["success"] == found["progress"] == 0.5
    assert progress(env, []) == 0.0
    no_task = Progress(jaxenvs.make("Grid-Playground-v0"))
    assert no_task.value is None and no_task.played.success is None


@pytest.mark.full
def test_the_idle_action_is_taken_if_there_is_one():
    episode = Episode(jaxenvs.make("Craft-Classic-Ids-v0"), 0, Settings())
    turn = next(episode.play(lambda text: "nonsense"))
    assert turn.action == "noop" and int(episode.state.time) == 1


def test_equal_seeds_give_equal_episodes():
    env, played = jaxenvs.make("Grid-DoorKey-5x5-v0"), []
    for _ in range(2):
        agent = load("random", 3)
        turns = [
            turn
            for _, turn in zip(
                range(20), Episode(env, 1, Settings(seed=3)).play(agent), strict=False
            )
        ]
        played.append([(turn.prompt, turn.action) for turn in turns])
    assert played[0] == played[1]


@pytest.mark.parametrize(
    "id", ["Grid-DoorKey-6x6-v0", *with_full("BabyAI-GoToLocal-v0", "Grid-Empty-8x8-v0")]
)
def test_the_reader_solves_simple_grid_worlds(id):
    env, reader = jaxenvs.make(id), load("reader")
    for number in range(3):
        episode = Episode(env, number, Settings())
        *_, last = episode.play(reader)
        assert last.terminated and episode.result().success and episode.result().progress == 1.0


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        ("randm", "did you mean 'random' or 'reader'?"),
        ("no_such_module:f", "there is no module 'no_such_module'"),
        ("agents_of_this_test:absent", "has no 'absent'"),
        ("agents_of_this_test:constant", "is a int, which cannot be called"),
        ("agents_of_this_test:number", "the agent must return text, got int"),
    ],
)
def test_errors_are_one_sentence(agents, agent, said, capsys):
    assert run("--episodes", 1, agent=agent) == 2
    err = capsys.readouterr().err
    assert err.startswith("jaxenvs eval-text: ") and said in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("agent", "id", "said"),
    [
        ("random", "Classic-Pendulum-v0", "this environment's actions are not discrete"),
        ("first-legal", "Classic-Pendulum-v0", "this environment's actions are not discrete"),
        ("reader", "Classic-Pendulum-v0", "`reader` needs observations with a drawn view"),
        ("reader", "Classic-CartPole-v0", "`reader` needs observations with a drawn view"),
    ],
)
def test_a_reference_agent_that_cannot_play_an_id_says_why(agent, id, said, capsys):
    assert run("--episodes", 1, agent=agent, id=id) == 2
    err = capsys.readouterr().err
    assert err.splitlines()[-1].startswith("jaxenvs eval-text: ") and said in err


def test_continuous_actions_are_evaluated(agents, tmp_path, capsys):
    agents.push = lambda text: "0.5" if "write 1 number (torque)" in text else ""
    more = ("--episodes", 1, "--param", "max_steps_in_episode=3")
    assert run(*more, agent="agents_of_this_test:push", id="Classic-Pendulum-v0") == 0
    assert "3.0 steps, 0.0% of the answers invalid" in capsys.readouterr().out


def steps_of(env, actions):
    state, found = env.reset(jax.random.key(0)).state, []
    for action in actions:
        found.append(env.step(jax.random.key(0), state, np.int32(action)))
        state = found[-1].state
    return found


def test_progress_is_success_or_a_share():
    env = jaxenvs.make(ID)
    assert progress(env, steps_of(env, [2])) == 0.0
    assert progress(env, steps_of(env, [2, 2, 1, 2, 2])) == 1.0
    assert progress(env, []) == 0.0
    pole = jaxenvs.make("Classic-CartPole-v0")
    assert progress(pole, steps_of(pole, [0] * 5)) == pytest.approx(5 / 500)
    tiles = jaxenvs.make("Puzzle-2048-v0")
    assert 0 < progress(tiles, steps_of(tiles, [0, 1])) < 0.3


@pytest.mark.full
def test_progress_in_craft_is_the_share_of_the_achievements():
    env = jaxenvs.make("Craft-Classic-Ids-v0")
    (step,) = steps_of(env, [0])
    earned = step.info["achievements"].at[jax.numpy.array([0, 3])].set(True)
    episode = Progress(env)
    episode.add(step._replace(info={**step.info, "achievements": earned}))
    assert episode.value == pytest.approx(2 / 22) and "achievements" in episode.definition


def test_an_environment_whose_describe_has_no_detail_is_evaluated():
    class Old(jaxenvs.wrappers.Wrapper):
        def describe(self, state, params=None):
            return "\n".join("abcd")

    episode = Episode(Old(jaxenvs.make(ID)), 0, Settings(detail="short"))
    turn = next(episode.play(lambda text: "left"))
    assert observation(turn.prompt) == ["a", "b", "c"]
