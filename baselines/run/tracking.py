"""Looks at policies while they learn: evaluations, which keep the best policy, and films.

Each begins with the weights after an update and ends while training goes on. Their random numbers
are their own, so training is the same with and without them, bit for bit.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from jaxenvs.core.extras import require

from ..core import episodes as evaluation
from ..core.episodes import EVALUATION, Episodes, EvaluatedPolicy
from ..core.learner import Learner
from ..core.policy import Policy
from ..core.policy_statement import words
from ..evaluation.final import agents_of
from ..storage.runs import Run
from .options import Options

MOMENTS = 500  # of an episode, at most, in a film
COLUMNS = {  # of the log: their names in a summary
    "eval_return": "mean_return",
    "eval_length": "mean_length",
    "eval_success": "success_rate",
    "eval_score": "score",
}


class Evaluations:
    """Plays `episodes` episodes per seed every `every` updates and keeps each seed's best weights.

    The policy acts as in eval.json, see `EvaluatedPolicy.of`. With `every` None it only keeps
    `best`, the best of the run so far, see `Run.best`.
    """

    def __init__(
        self,
        run: Run,
        learner: Learner[Any],
        every: int | None,
        episodes: int,
        best: dict[str, Any] | None = None,
    ) -> None:
        self.every, self.note, self._one, self._best = every, "", learner.devices.one, best
        self._pending: tuple[int, PyTree[Array], Episodes] | None = None
        agents = agents_of(run.config)
        evaluated = EvaluatedPolicy.of(learner, agents)
        self._play = evaluated.player(agents, episodes)
        self._env, self._labels = evaluated.env, run.config.labels
        self._policy = f"{episodes} episodes, {words(evaluated.facts)}"

    def begin(self, update: int, weights: PyTree[Array]) -> None:
        """Start to play with the weights after `update`, which may be overwritten afterwards."""
        copy = jax.tree.map(jnp.copy, self._one(weights))
        self._pending = update, copy, self._play(copy)

    def finish(self, row: dict[str, Any]) -> None:
        """Add what has been played since the last call to the row of its update."""
        if self._pending is None:
            return
        (update, weights, episodes), self._pending = self._pending, None
        each = evaluation.per_seed(jax.device_get(episodes), self._labels, self._env.achievements)
        for column, name in COLUMNS.items():
            if each[0].get(name) is not None:
                row[column] = [one[name] for one in each]
        row["eval_policy"] = self._policy
        returns = np.float32(row["eval_return"])
        updates = np.full(len(each), update, np.int32)
        new = {"weights": jax.device_get(weights), "return": returns, "update": updates}
        better = returns > (-np.inf if self._best is None else self._best["return"])
        self._best = jax.tree.map(
            lambda new, old: np.where(better.reshape(-1, *[1] * (new.ndim - 1)), new, old),
            new,
            self._best or new,
        )
        self.note = f"evaluated {returns.mean():.3f}"

    def parts(self) -> dict[str, PyTree]:
        """What a checkpoint keeps, see `Run.best`."""
        return {} if self._best is None else {"best": self._best}

    def end(self) -> None:
        """Nothing is under way."""


class Films:
    """Films an episode of the first seed's policy every `every` updates: RUN/videos/UPDATE.gif.

    The level is always the same. A thread draws; longer episodes are cut after `MOMENTS` moments.
    """

    note = ""

    def __init__(self, run: Run, learner: Learner[Any], every: int) -> None:
        require(["PIL"], "play")
        self.every, self._folder, self._one = every, run.path / "videos", learner.devices.one
        shown = EvaluatedPolicy.of(learner, agents_of(run.config))
        self._env = env = shown.env
        search = shown.search and shown.search.under(run.config.agents[0][0])
        self._key = jax.random.fold_in(jax.random.key(run.config.seed), EVALUATION)
        self._thread = ThreadPoolExecutor(1)
        self._film: Future[None] | None = None

        @jax.jit
        def episode(weights: PyTree[Array], key: Array) -> Any:
            weights = jax.tree.map(lambda leaf: leaf[0], weights)
            policy = Policy.of(env, learner.network, weights, search=search)

            def step(carry: Any, key: Array) -> Any:
                memory, state = carry
                key_act, key_step = jax.random.split(key)
                memory, action = policy.act(key_act, memory, state, greedy=shown.greedy)
                after = env.step(key_step, state, action)
                return (memory, after.state), (state, after.done)

            key_reset, key_play = jax.random.split(key)
            carry = policy.begin(), env.reset(key_reset).state
            return jax.lax.scan(step, carry, jax.random.split(key_play, MOMENTS))[1]

        self._episode = episode

    def begin(self, update: int, weights: PyTree[Array]) -> None:
        """Play, and start to draw when the film before is drawn."""
        played = self._episode(self._one(weights), self._key)
        self.end()
        self._film = self._thread.submit(self._draw, update, played)

    def _draw(self, update: int, played: Any) -> None:
        from jaxenvs.render import animate

        states, done = jax.device_get(played)
        ends = np.append(np.flatnonzero(done), MOMENTS)[0] + 2
        self._folder.mkdir(exist_ok=True)
        shown = jax.tree.map(lambda leaf: leaf[:ends], states)
        animate(self._env, shown, self._folder / f"{update:08d}.gif")

    def finish(self, row: dict[str, Any]) -> None:
        """Rows have no entry for films."""

    def parts(self) -> dict[str, PyTree]:
        """Checkpoints contain no films."""
        return {}

    def end(self) -> None:
        """Return when the last film is written; `OSError` if it cannot be."""
        film, self._film = self._film, None
        if film is not None:
            film.result()


def looks(
    run: Run, learner: Learner[Any], asked: Options[Any], done: int, runners: Any
) -> list[Evaluations | Films]:
    """Evaluations and films for a run that goes on after update `done` with these runners."""
    found: list[Evaluations | Films] = []
    best = run.best(runners.weights) if done and learner.algorithm.shape else None
    if asked.eval_every or best is not None:
        found.append(Evaluations(run, learner, asked.eval_every, asked.eval_episodes, best))
    if asked.video_every:
        found.append(Films(run, learner, asked.video_every))
    return found
