"""Blind search through `env.step`, without bounds and with whole states, to test the oracle."""

import jax
import jax.numpy as jnp
import numpy as np

BATCH = 1024  # number of states that are stepped together


class TooLargeError(Exception):
    """The level has more states than allowed."""


class Blind:
    """Breadth-first search in the levels of an environment."""

    def __init__(self, env):
        self.env = env
        params = env.default_params.replace(max_steps_in_episode=np.int32(1_000_000))
        actions = jnp.arange(env.action_space.n)

        def step(state, action):
            done = env.step(jax.random.key(0), state, action, params)
            return done.state, done.terminated & (done.reward > 0), done.terminated

        self.begin = jax.jit(lambda level: env.reset_to(jax.random.key(0), level, params).state)
        self.step = jax.jit(jax.vmap(jax.vmap(step, (None, 0)), (0, None)))
        self.actions = actions

    def shortest(self, level, most=20_000):
        """Return the fewest steps to success in a level; None if success is impossible.

        Raises `TooLargeError` if more than `most` states are reached before.
        """
        front = [jax.tree.map(np.asarray, jax.device_get(self.begin(level)))]
        seen, depth = {key_of(front[0])}, 0
        while front:
            depth, after = depth + 1, []
            for at in range(0, len(front), BATCH):
                part = front[at : at + BATCH]
                rows = [*part, *[part[0]] * (BATCH - len(part))]
                states = jax.tree.map(lambda *leaves: np.stack(leaves), *rows)
                states, won, over = jax.device_get(self.step(states, self.actions))
                if won[: len(part)].any():
                    return depth
                for row, action in np.argwhere(~over[: len(part)]).tolist():
                    state = jax.tree.map(lambda leaf, i=(row, action): leaf[i], states)
                    key = key_of(state)
                    if key not in seen:
                        seen.add(key)
                        after.append(state)
            front = after
            if len(seen) > most:
                raise TooLargeError
        return None


def key_of(state):
    """Return the bytes of a state without its time."""
    fields = {name: value for name, value in vars(state).items() if name != "time"}
    return b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(fields))
