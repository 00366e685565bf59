"""A policy trained in our whole game of Craft plays the game of the `craftax` package.

    python tests/proofs/bridge.py runs/craft                 # 256 episodes of each game

Each state of the package is turned into ours, from which the policy sees and acts; the package
resets and steps by its own chance. The same policy plays our game as often. Both mean returns with
their standard errors are printed, and the difference in units of its own.
"""

import functools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenvs.baselines.evaluate import Episodes, first_episodes
from jaxenvs.baselines.run.checkpoints import RunError
from jaxenvs.baselines.runs import load_policy
from jaxenvs.commands.parser import Parser
from jaxenvs.craft import CraftFull

sys.path.append(str(Path(__file__).parents[1] / "craft"))
import peer_full as peer

FAR = 3.3  # standard errors of the difference: one of a thousand pairs of equal games is farther


def theirs(act: Callable[..., Any], begin: Callable[[], Any], key: Any, count: int) -> Episodes:
    """Play one episode in each of `count` games of the package."""
    key, key_begin = jax.random.split(key)
    words = jax.vmap(jax.random.key_data)
    first = jax.vmap(peer.begin)(words(jax.random.split(key_begin, count)))
    memory = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), begin())

    def one(key: Any, memory: Any, state: Any) -> tuple[Any, ...]:
        key_act, key_step = jax.random.split(key)
        memory, action = act(key_act, memory, peer.from_craftax(state))
        (_, after, reward, done), *_ = peer.step(jax.random.key_data(key_step), state, action)
        return memory, after, reward, done

    def play(carry: Any) -> Any:
        key, memory, state, playing, episodes = carry
        key, key_step = jax.random.split(key)
        keys = jax.random.split(key_step, count)
        memory, state, reward, done = jax.vmap(one)(keys, memory, state)
        episodes = Episodes(
            returns=episodes.returns + jnp.where(playing, reward, 0.0),
            lengths=episodes.lengths + playing.astype(jnp.int32),
            terminated=episodes.terminated | (playing & done),
        )
        return key, memory, state, playing & ~done, episodes

    nothing = Episodes(jnp.zeros(count), jnp.zeros(count, jnp.int32), jnp.zeros(count, jnp.bool_))
    carry = (key, memory, first, jnp.ones(count, jnp.bool_), nothing)
    return jax.lax.while_loop(lambda carry: carry[3].any(), play, carry)[-1]


def ours(policy: Any, key: Any, count: int) -> Episodes:
    """Play one episode in each of `count` games of ours."""

    def act(key: Any, obs: Any, state: Any, memory: Any) -> tuple[Any, Any]:
        memory, action = jax.vmap(policy.act)(jax.random.split(key, count), memory, state)
        return action, memory

    return first_episodes(policy.env, act, key, count, policy.begin())


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0 where the games do not differ, 1 where they do, 2 for what cannot be compared."""
    parser = Parser("python tests/proofs/bridge.py", __doc__)
    parser.add_argument("run", metavar="RUN", help="folder of a run in Craft-Ids or -Symbolic")
    parser.add_argument("--episodes", type=int, default=256, help="of each game")
    parser.add_argument("--seed", type=int, default=0, help="of the run, counted from 0")
    given = parser.parse_args(argv)
    try:
        policy = load_policy(given.run, given.seed)
    except RunError as error:
        parser.error(str(error))
    if not isinstance(policy.env, CraftFull) or policy.env.obs == "pixels":
        parser.error(f"{given.run} was trained in {policy.env_id}; give one of Craft-Ids-v0")
    count = given.episodes
    keys = jax.random.split(jax.random.key(7))
    games = {
        "ours": jax.jit(functools.partial(ours, policy, count=count)),
        "craftax": jax.jit(functools.partial(theirs, policy.act, policy.begin, count=count)),
    }
    means, errors = [], []
    for key, (name, play) in zip(keys, games.items(), strict=True):
        episodes = jax.device_get(play(key=key))
        means.append(episodes.returns.mean())
        errors.append(episodes.returns.std(ddof=1) / np.sqrt(count))
        length = episodes.lengths.mean()
        print(
            f"{name}: return {means[-1]:.3f} +- {errors[-1]:.3f}, length {length:.1f}", flush=True
        )
    apart = (means[0] - means[1]) / np.hypot(*errors)
    print(f"the difference is {apart:.2f} of its standard errors")
    return int(abs(apart) > FAR)


if __name__ == "__main__":
    raise SystemExit(main())
