"""Environments with the interface of OpenEnv; `jaxenvs openenv ID` serves one over HTTP.

An action is a name, and an observation is a description in words. OpenEnv makes one
`JaxEnvironment` for each WebSocket connection. All of these environments share the compiled step.
"""

import functools
import secrets
from typing import Any

from ..core.extras import require

require(["openenv"], "openenv")

from fastapi import FastAPI  # noqa: E402  # pyright: ignore[reportMissingImports]
from openenv.core.env_server import (  # noqa: E402  # pyright: ignore[reportMissingImports]
    Action,
    Environment,
    Observation,
    State,
    create_fastapi_app,
)
from openenv.core.env_server.types import (  # noqa: E402  # pyright: ignore[reportMissingImports]
    EnvironmentMetadata,
)
from starlette.middleware.trustedhost import TrustedHostMiddleware  # noqa: E402

from .. import __version__  # noqa: E402
from ..commands.parser import UsageError  # noqa: E402
from ..core.env import Env  # noqa: E402
from .episode import MAX_SEED, NAMES_SHOWN, Episode  # noqa: E402
from .serving import HOST  # noqa: E402

CONNECTIONS = 64  # maximum number of connections, each with its own episode


class NamedAction(Action):
    """An action: its name, its number, or the beginning of its name if no other legal action fits.

    With actions `left` and `right`, for example, `l` names `left`.
    """

    action: str


class WordsObservation(Observation):
    """Description of the agent's knowledge; `reward` and `done` are fields of the base class."""

    text: str
    legal_actions: list[str]  # names of the legal actions, at most `NAMES_SHOWN`
    problem: str = ""  # reason why the action was not taken; "" if it was taken


class EpisodeState(State):
    """Score of the episode; `step_count` and `episode_id` are fields of the base class."""

    environment: str
    seed: int
    limit: int
    total: float  # return: sum of the rewards so far
    over: bool
    success: bool | None
    progress: float | None
    achievements: list[str]


class JaxEnvironment(Environment):
    """An environment of this library with OpenEnv's `reset`, `step` and `state`.

    An action that is not legal, or that follows the end of the episode, changes nothing and has
    reward 0. The observation's field `problem` gives the reason.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, env: Env, id: str = "") -> None:
        """Wrap an environment whose actions have names."""
        super().__init__()
        self._env, self._id = env, id or env.name
        self._name = ""
        self._episode: Episode | None = None

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any
    ) -> WordsObservation:
        """Start an episode, which `seed` determines. If `seed` is None, a seed is drawn."""
        if kwargs:
            raise UsageError(f"reset has no argument {next(iter(kwargs))!r}, only seed, episode_id")
        seed = secrets.randbelow(MAX_SEED) if seed is None else seed
        if not 0 <= seed <= MAX_SEED:
            raise UsageError(f"seed={seed} is out of range; give 0 to {MAX_SEED}")
        self._episode = Episode(self._env, seed, self._id)
        self._name = episode_id or secrets.token_hex(8)
        return self._observed(0.0)

    def step(
        self, action: NamedAction, timeout_s: float | None = None, **kwargs: Any
    ) -> WordsObservation:
        """Take an action. `timeout_s` has no effect."""
        taken = self._begun().act([action.action])
        return self._observed(taken.reward, taken.problem)

    @property
    def state(self) -> EpisodeState:
        """The score of the episode."""
        episode = self._begun()
        score = episode.score()
        return EpisodeState(
            episode_id=self._name,
            step_count=score.steps,
            environment=episode.id,
            seed=episode.seed,
            limit=score.limit,
            total=score.total,
            over=score.over,
            success=score.success,
            progress=score.progress,
            achievements=list(score.achievements),
        )

    def get_metadata(self) -> EnvironmentMetadata:
        """Return the environment's name and description, and the version of jaxenvs."""
        about = (type(self._env).__doc__ or "").strip().partition("\n\n")[0]
        return EnvironmentMetadata(name=self._id, description=about, version=__version__)

    def _begun(self) -> Episode:
        if self._episode is None:
            raise UsageError("no episode has begun; call reset first")
        return self._episode

    def _observed(self, reward: float, problem: str = "") -> WordsObservation:
        episode = self._begun()
        return WordsObservation(
            text=episode.describe(),
            legal_actions=episode.legal()[:NAMES_SHOWN],
            problem=problem,
            reward=reward,
            done=episode.is_over,
        )


def to_openenv(env: Env, id: str = "") -> JaxEnvironment:
    """Return an environment as an `Environment` of OpenEnv, for use in this process.

    Raises `UsageError` at `reset` if the actions have no names.
    """
    return JaxEnvironment(env, id)


def make_app(env: Env, id: str = "", connections: int = CONNECTIONS) -> FastAPI:
    """Return the web application with which OpenEnv serves an environment.

    The application answers only requests whose header `Host` names this machine.
    """
    factory = functools.partial(JaxEnvironment, env, id)
    app = create_fastapi_app(factory, NamedAction, WordsObservation, connections)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"])
    return app
