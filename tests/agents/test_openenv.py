"""Tests of environments with OpenEnv's interface, in this process and with OpenEnv's client."""

import asyncio
from collections.abc import Iterator

import pytest
from doorkey_reader import Reader

pytest.importorskip("openenv", reason="OpenEnv brings 470 MB of packages")

from listening import served
from openenv.core import GenericEnvClient

import jaxenvs
from jaxenvs.agents import openenv, openenv_command
from jaxenvs.agents.episode import Episode
from jaxenvs.commands.parser import UsageError

DOOR = "Grid-DoorKey-5x5-v0"


def test_a_reader_solves_doorkey_in_this_process(as_a_user):
    env, reader = openenv.to_openenv(jaxenvs.make(DOOR)), Reader()
    seen = env.reset(seed=3, episode_id="mine")
    while not seen.done:
        seen = env.step(openenv.NamedAction(action=reader.next_action(seen.text)))
    assert seen.reward > 0.8 and env.state.success and env.state.total == seen.reward
    assert env.state.episode_id == "mine" and env.state.step_count < 50


def test_an_illegal_action_changes_nothing(as_a_user):
    env = openenv.to_openenv(jaxenvs.make(DOOR), DOOR)
    before = env.reset(seed=0)
    after = env.step(openenv.NamedAction(action="jump"))
    assert after.text == before.text and "There is no action 'jump'" in after.problem
    assert after.reward == 0 and env.state.step_count == 0
    assert env.get_metadata().name == DOOR


def test_mistakes_are_sentences(as_a_user, capsys):
    env = openenv.to_openenv(jaxenvs.make(DOOR))
    with pytest.raises(UsageError, match="call reset first"):
        env.step(openenv.NamedAction(action="left"))
    with pytest.raises(UsageError, match="seed=-1 is out of range"):
        env.reset(seed=-1)
    with pytest.raises(UsageError, match="no argument 'level'"):
        env.reset(level=3)
    assert openenv_command.main(["Grid-Dorkey-5x5-v0"]) == 2
    assert "did you mean" in capsys.readouterr().err


@pytest.fixture
def address(as_a_user) -> Iterator[str]:
    """Serve DoorKey in a thread; return the address."""
    with served(openenv.make_app(jaxenvs.make(DOOR), DOOR)) as found:
        yield found


def test_clients_play_their_own_episodes(address):
    actions, found = ["left", "forward", "right", "forward"], {}

    async def play(seed: int) -> None:
        async with GenericEnvClient(base_url=address) as client:
            await client.reset(seed=seed)
            for action in actions:
                result = await client.step({"action": action})
            found[seed] = result.observation["text"], await client.state()

    async def run() -> None:
        await asyncio.gather(*(play(seed) for seed in range(6)))

    asyncio.run(run())
    for seed, (text, state) in found.items():
        alone = Episode(jaxenvs.make(DOOR), seed)
        alone.act(actions)
        assert text == alone.describe() and state["step_count"] == 4
    assert len(found) == 6
