"""Breadth-first search with `env.step`, to test the solver `jaxenvs.grid.oracle`.

Unlike the solver, the search uses neither lower bounds nor packed states.
"""

import jax
import jax.numpy as jnp
import numpy as np

BATCH = 1024  # number of states per call of the compiled step


class TooLargeError(Exception):
    """Error: a level has more states than the caller allows."""


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

        Raises `TooLargeError` if the search reaches more than `most` states before success.
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

    def distances(self, level, most=20_000):
        """Return all non-terminal states of a level, stacked, and their fewest steps to success.

        The steps are an int array (states,), -1 where success is impossible. Raises `TooLargeError`
        if there are more than `most` states.
        """
        states = [jax.tree.map(np.asarray, jax.device_get(self.begin(level)))]
        number, into, wins, at = {key_of(states[0]): 0}, [[]], [], 0
        while at < len(states):
            for parent, after, won, over in self._stepped(states, at):
                wins += [parent] * bool((won & over).any())
                for action in np.flatnonzero(~over).tolist():
                    state = jax.tree.map(lambda leaf, i=action: leaf[i], after)
                    child = number.setdefault(key_of(state), len(states))
                    if child == len(states):
                        states.append(state)
                        into.append([])
                    into[child].append(parent)
                at = parent + 1
            if len(states) > most:
                raise TooLargeError
        return jax.tree.map(lambda *leaves: np.stack(leaves), *states), _backward(into, wins)

    def _stepped(self, states, at):
        """Yield (index of a state, results of all its actions) for `states[at : at + BATCH]`."""
        part = states[at : at + BATCH]
        rows = [*part, *[part[0]] * (BATCH - len(part))]
        found = jax.device_get(self.step(jax.tree.map(lambda *x: np.stack(x), *rows), self.actions))
        for i in range(len(part)):
            yield (at + i, *jax.tree.map(lambda leaf, i=i: leaf[i], found))


def _backward(into, wins):
    """Return the fewest steps to success of each state; -1 if success is impossible.

    into: for each state, the indices of the states that lead to it by one action.
    wins: indices of the states from which one action succeeds.
    """
    steps = np.full(len(into), -1)
    front, depth = sorted(set(wins)), 1
    steps[front] = depth
    while front:
        depth += 1
        front = sorted({p for state in front for p in into[state] if steps[p] < 0})
        steps[front] = depth
    return steps


def key_of(state):
    """Return the bytes of a state without its time."""
    fields = {name: value for name, value in vars(state).items() if name != "time"}
    return b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(fields))
