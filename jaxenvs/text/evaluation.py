"""Evaluation of agents that answer prompts with actions, episode by episode."""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from ..core.drawing import unwrapped
from ..core.env import Env
from ..core.spaces import Discrete
from ..core.transitions import Step
from .actions import ActionError, action_names, parse_action
from .agents import Agent, reset
from .measures import Progress
from .prompts import Moment, limit_of, prompt, rules_of

# Value of `Settings.invalid` -> consequence of an answer that names no legal action.
INVALID = {
    "noop": "the environment's idle action, or if there is none no action; the answer counts",
    "random": "a uniformly drawn legal action",
    "end": "the episode ends",
}


class AnswerError(TypeError):
    """Raised if an agent's answer is not text."""


class Settings(NamedTuple):
    """Settings of an evaluation."""

    seed: int = 0  # seed of the levels, the environment's random draws and random actions
    invalid: str = "noop"  # consequence of an invalid answer, one of `INVALID`
    detail: str = "full"  # level of detail of the observations


class Turn(NamedTuple):
    """One answer of an agent, and its consequence: a line of a transcript."""

    episode: int
    step: int  # number of answers before this one in the episode
    prompt: str
    answer: str
    action: str | None  # name of the action that was taken; None if no action was taken
    error: str  # reason why the answer is invalid, or ""
    reward: float
    terminated: bool
    truncated: bool


class Result(NamedTuple):
    """Result of an episode."""

    episode: int
    total: float  # return: undiscounted sum of rewards
    success: bool | None  # whether a step succeeded; None if success is not defined
    progress: float | None  # progress from 0 to 1, see `measures`; None if it is not defined
    steps: int  # number of answers
    invalid: int  # number of invalid answers
    terminated: bool


class _Programs(NamedTuple):
    """Compiled functions of an environment."""

    reset: Callable[..., Any]
    step: Callable[..., Any]
    mask: Callable[..., Any] | None


@functools.lru_cache(maxsize=8)
def _programs(env: Env) -> _Programs:
    mask = jax.jit(env.action_mask) if isinstance(env.action_space, Discrete) else None
    return _Programs(jax.jit(env.reset), jax.jit(env.step), mask)


class Episode:
    """An episode that an agent plays by text; `play` yields its turns."""

    def __init__(self, env: Env, number: int, settings: Settings) -> None:
        """Start an episode in a level that `settings.seed` and `number` determine."""
        key = jax.random.fold_in(jax.random.key(settings.seed), number)
        key_reset, self.key = jax.random.split(key)
        self.env, self.number, self.settings = env, number, settings
        self.programs = _programs(env)
        self.state = self.programs.reset(key_reset).state
        self.rng = np.random.default_rng((settings.seed, number))
        self.progress, self.invalid, self.step = Progress(env), 0, 0
        self.is_over = self.terminated = False

    def play(self, agent: Agent) -> Iterator[Turn]:
        """Ask the agent for actions until the episode ends; yield each turn.

        Raises `AnswerError` if an answer is not text.
        """
        reset(agent)
        rules, limit = rules_of(self.env), limit_of(self.env, self.state)
        last = Moment(self.env, self.state, self.settings.detail, limit=limit)
        while not self.is_over:
            legal = self._legal()
            text = prompt(last, rules, legal)
            answer = agent(text)
            if not isinstance(answer, str):
                raise AnswerError(f"the agent must return text, got {type(answer).__name__}")
            before = self.state
            turn = self._turn(text, answer, legal, limit)
            yield turn
            moved = {"before": before, "action": turn.action or "none", "refused": turn.error}
            last = last._replace(state=self.state, step=self.step, **moved)

    def result(self) -> Result:
        """Return the result of the episode; call it after the last turn."""
        played = self.progress.played
        return Result(
            episode=self.number,
            total=played.total,
            success=played.success,
            progress=self.progress.value,
            steps=self.step,
            invalid=self.invalid,
            terminated=self.terminated,
        )

    def _turn(self, text: str, answer: str, legal: Any, limit: int) -> Turn:
        """Take the action that an answer names, or handle an invalid answer; return the turn."""
        error = ""
        try:
            action = parse_action(self.env, answer, legal)
        except ActionError as refused:
            error, self.invalid = str(refused), self.invalid + 1
            action = self._instead(legal)
        stepped = None if action is None else self._take(action)
        self.step += 1
        ends = bool(error) and self.settings.invalid == "end"
        self.terminated = stepped is not None and bool(stepped.terminated)
        truncated = not self.terminated and (
            ends or self.step >= limit or (stepped is not None and bool(stepped.truncated))
        )
        self.is_over = self.terminated or truncated
        reward = 0.0 if stepped is None else float(stepped.reward)
        name = None if action is None else self._name(action)
        place = self.number, self.step - 1
        return Turn(*place, text, answer, name, error, reward, self.terminated, truncated)

    def _take(self, action: Any) -> Step:
        key = jax.random.fold_in(self.key, self.step)
        stepped = self.programs.step(key, self.state, action)
        self.state = stepped.state
        self.progress.add(stepped)
        return stepped

    def _legal(self) -> np.ndarray | None:
        """Return the mask of the legal actions; None if the actions are not discrete."""
        mask = self.programs.mask
        return None if mask is None else np.asarray(mask(self.state))

    def _instead(self, legal: np.ndarray | None) -> Any:
        """Return the action that replaces an invalid answer; None if no action is taken."""
        rule, idle = self.settings.invalid, unwrapped(self.env).idle_action
        if rule == "noop" and idle is not None:
            return np.int32(idle)
        if rule != "random":
            return None
        if legal is None:
            seed = jax.random.key(int(self.rng.integers(2**31)))
            return np.asarray(self.env.action_space.sample(seed))
        return np.int32(self.rng.choice(np.flatnonzero(legal)))

    def _name(self, action: Any) -> str:
        if isinstance(self.env.action_space, Discrete):
            return action_names(self.env)[int(action)]
        return ", ".join(f"{number:g}" for number in np.ravel(action))


def summary(results: Sequence[Result]) -> dict[str, Any]:
    """Return the means over episodes, the standard errors, and the share of invalid answers.

    Success and progress are None if the environment does not define them.
    """
    totals = [result.total for result in results]
    progress = [result.progress for result in results if result.progress is not None]
    success = [result.success for result in results if result.success is not None]
    answers = sum(result.steps for result in results)
    invalid = sum(result.invalid for result in results)
    return {
        "return": _mean(totals),
        "return_error": _error(totals),
        "success": _mean(success),
        "progress": _mean(progress),
        "progress_error": _error(progress),
        "steps": _mean([result.steps for result in results]),
        "invalid_answers": invalid,
        "invalid_share": invalid / max(1, answers),
    }


def _mean(numbers: Sequence[float]) -> float | None:
    return float(np.mean(numbers)) if numbers else None


def _error(numbers: Sequence[float]) -> float | None:
    """Return the standard error of the mean; None for fewer than two numbers."""
    if len(numbers) < 2:
        return None
    return float(np.std(numbers, ddof=1) / np.sqrt(len(numbers)))
