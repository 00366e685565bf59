"""A recorded game from the overworld to the graveyard: the player of `winner.py` beats the boss.

The world and the chance of every step are the package's, from one seed, so both games can be played
with the same actions: ours by default, and the package beside it in the slow proof.
"""

import base64
import functools
import json
import zlib
from pathlib import Path

import jax
import jax.numpy as jnp
import lockstep_full as lockstep
import numpy as np
import peer_full as peer
import pytest

from jaxenvs.craft.tables import Achievement

RECORD = Path(__file__).parent / "data" / "winner.json"


@functools.cache
def record():
    """The key of the recorded game, and its actions."""
    given = json.loads(RECORD.read_text())
    actions = np.frombuffer(zlib.decompress(base64.b85decode(given["actions"])), np.uint8)
    return jax.random.PRNGKey(given["seed"]), jnp.asarray(actions, jnp.int32)


def test_the_recorded_game_goes_through_all_floors_and_is_won():
    key, actions = record()

    @jax.jit
    def replay(state, actions):
        def step(state, given):
            time, action = given
            draws = peer.draws_of(jax.random.split(jax.random.fold_in(key, time))[0])
            after = peer.ENV.advance(state.ticked(), action, draws, peer.ENV.default_params)
            floor = peer.ENV.world(after.state).floor
            return after.state, (floor, after.reward, after.terminated, after.info["achievements"])

        return jax.lax.scan(step, state, (jnp.arange(len(actions), dtype=jnp.int32), actions))

    begin = jax.jit(lambda key: peer.from_craftax(peer.begin(key)))
    _, (floors, rewards, ends, earned) = jax.device_get(replay(begin(key), actions))
    assert list(dict.fromkeys(floors.tolist())) == list(range(9))
    assert ends[-1] and not ends[:-1].any()
    assert earned[-1][Achievement.DEFEAT_NECROMANCER]
    print(len(actions), rewards.sum(), int(earned[-1].sum()))


@pytest.mark.slow
def test_the_package_plays_the_recorded_game_alike():
    key, actions = record()
    run, params = lockstep.sides(batched=False), peer.ENV.default_params
    theirs, ours = run.begin(jax.jit(peer.begin)(key), params)
    for time, action in enumerate(actions):
        outputs, took, draws, *_ = run.theirs(theirs, run.fold(key, time), -1 - action, params)
        mine = run.ours(ours, took, draws, params)
        found = jax.device_get(run.compare(outputs, mine, params))
        assert not [name for name, differs in found.items() if differs], time
        theirs, ours = outputs[1], mine[1]
    assert theirs.achievements[Achievement.DEFEAT_NECROMANCER] and outputs[3]
