"""Evaluations and videos during training; evaluations also keep each seed's best weights.

An evaluation or video uses the weights after an update, while training continues. Its random keys
are separate, so training is bit-identical with and without evaluations and videos.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from jaxenvs.core.extras import require

from ..core import episodes as evaluation
from ..core.episodes import EVALUATION, EvaluatedPolicy
from ..core.learner import Learner
from ..core.playing import Begun
from ..core.policy import Policy
from ..core.policy_statement import as_phrase
from ..evaluation.final import agents_of
from ..storage.runs import Run
from .options import Options

MOMENTS = 500  # largest number of steps in a video
COLUMNS = {  # field of a log record -> key of the dict that `episodes.per_seed` returns
    "eval_return": "mean_return",
    "eval_length": "mean_length",
    "eval_success": "success_rate",
    "eval_score": "score",
}
ERROR = "eval_error"  # field of a log record: standard error of `eval_return`


@runtime_checkable
class Look(Protocol):
    """An evaluation or a drawing of the weights, every `every` updates (None: never)."""

    every: int | None
    note: str  # text of the latest result, for the progress line

    def begin(self, update: int, weights: PyTree[Array]) -> None:
        """Begin with the stacked weights of all agents after `update`."""

    def finish(self, row: dict[str, Any]) -> None:
        """Add the results of `begin`, if any, to a log record."""

    def parts(self) -> dict[str, PyTree]:
        """Return parts of a checkpoint, by name."""
        ...

    def end(self) -> None:
        """Finish when training has ended."""


class Evaluations:
    """Evaluations of `episodes` episodes per seed, every `every` updates.

    For each seed, the weights with the highest mean return so far are kept. The policy acts as in
    the final evaluation (`EvaluatedPolicy.of`). `best` is None in a new run; in a resumed run, it
    is the result of `Run.best`: the best weights so far. If `every` is None, nothing is evaluated,
    but checkpoints still contain `best`.
    """

    def __init__(
        self,
        run: Run,
        learner: Learner[Any],
        every: int | None,
        episodes: int,
        best: dict[str, Any] | None = None,
    ) -> None:
        self.every, self.note, self._on_one_device, self._best = (
            every,
            "",
            learner.devices.on_one_device,
            best,
        )
        self._pending: tuple[int, PyTree[Array], Begun] | None = None
        agents = agents_of(run.config)
        evaluated = EvaluatedPolicy.of(learner, agents)
        self._player, self._keys = evaluated.player(len(agents.seeds), episodes), agents.keys
        self._env, self._labels = evaluated.env, run.config.labels
        self._policy = f"{episodes} episodes, {as_phrase(evaluated.facts)}"

    def begin(self, update: int, weights: PyTree[Array]) -> None:
        """Copy the weights after `update`, and dispatch their evaluation to the device."""
        copy = jax.tree.map(jnp.copy, self._on_one_device(weights))
        self._pending = update, copy, self._player.begin(copy, self._keys)

    def finish(self, row: dict[str, Any]) -> None:
        """Add the results of the evaluation begun last to a log record, unless already added."""
        if self._pending is None:
            return
        (update, weights, begun), self._pending = self._pending, None
        episodes = self._player.finish(begun)
        each = evaluation.per_seed(episodes, self._labels, self._env.achievements)
        for column, name in COLUMNS.items():
            if each[0].get(name) is not None:
                row[column] = [one[name] for one in each]
        row["eval_policy"] = self._policy
        if (count := np.shape(episodes.returns)[1]) > 1:
            deviations = np.std(np.asarray(episodes.returns, float), axis=1, ddof=1)
            row[ERROR] = [round(float(x), 6) for x in deviations / np.sqrt(count)]
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
        """Return the best policies so far as a part of a checkpoint, which `Run.best` reads."""
        return {} if self._best is None else {"best": self._best}

    def end(self) -> None:
        """Do nothing: evaluations write no separate files."""


class Videos:
    """Videos of an episode of the first seed, every `every` updates, in RUN/videos/UPDATE.gif.

    All videos begin with the same level and show at most `MOMENTS` steps. A thread draws the
    videos.
    """

    note = ""

    def __init__(self, run: Run, learner: Learner[Any], every: int) -> None:
        require(["PIL"], "play")
        self.every, self._folder, self._on_one_device = (
            every,
            run.path / "videos",
            learner.devices.on_one_device,
        )
        shown = EvaluatedPolicy.of(learner, agents_of(run.config))
        self._env = env = shown.env
        self._key = jax.random.fold_in(jax.random.key(run.config.seed), EVALUATION)
        self._thread = ThreadPoolExecutor(1)
        self._video: Future[None] | None = None

        @jax.jit
        def episode(weights: PyTree[Array], key: Array) -> Any:
            weights = jax.tree.map(lambda leaf: leaf[0], weights)
            policy = Policy.of(env, learner.network, weights, search=shown.search)

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
        """Play an episode, and let a thread draw it after the previous video is written."""
        played = self._episode(self._on_one_device(weights), self._key)
        self.end()
        self._video = self._thread.submit(self._draw, update, played)

    def _draw(self, update: int, played: Any) -> None:
        from jaxenvs.render import animate

        states, done = jax.device_get(played)
        ends = np.append(np.flatnonzero(done), MOMENTS)[0] + 2
        self._folder.mkdir(exist_ok=True)
        shown = jax.tree.map(lambda leaf: leaf[:ends], states)
        animate(self._env, shown, self._folder / f"{update:08d}.gif")

    def finish(self, row: dict[str, Any]) -> None:
        """Do nothing, because videos add nothing to log records."""

    def parts(self) -> dict[str, PyTree]:
        """Return an empty dict, because checkpoints contain no videos."""
        return {}

    def end(self) -> None:
        """Wait until the last video is written; `OSError` if it cannot be written."""
        video, self._video = self._video, None
        if video is not None:
            video.result()


def looks(
    run: Run, learner: Learner[Any], options: Options[Any], done: int, runners: Any
) -> list[Look]:
    """Return the evaluations and videos that the options ask for.

    `done` is the number of updates that the run has made (0: a new run), and `runners` is its
    training state. If a resumed run has a best policy, the result always has `Evaluations`, which
    keep this policy in later checkpoints.
    """
    found: list[Look] = []
    best = run.best(runners.weights) if done and learner.algorithm.shape else None
    if options.eval_every or best is not None:
        found.append(Evaluations(run, learner, options.eval_every, options.eval_episodes, best))
    if options.video_every:
        found.append(Videos(run, learner, options.video_every))
    return found
