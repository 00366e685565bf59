"""Evaluation at the end of a run, which writes eval.json."""

from typing import Any

from jaxtyping import Array, PyTree

from jaxenvs.core.typed import program
from jaxenvs.core.vector import VectorEnv

from ..core import episodes
from ..core.episodes import Agents
from ..core.learner import Learner
from ..storage.runs import Config, Run
from . import episode_measures, setups


def agents_of(config: Config) -> Agents:
    """Return the `Agents` of a run: the environment, and each agent's seed and swept settings."""
    return Agents(
        env=config.env,
        seeds=[seed for _, seed in config.agents],
        labels=config.labels,
        greedy=bool(config.tracking.get("eval_greedy", False)),
    )


def report(run: Run, learner: Learner[Any], weights: PyTree[Array], count: int) -> None:
    """Evaluate the policy of every agent over `count` episodes; write eval.json and print results.

    The module of a learner may replace the evaluation and its text (see `learner.Algorithm`). The
    results of a sweep are not printed, because the caller prints them as a table.
    """
    module = learner.algorithm.load()
    evaluate = getattr(module, "evaluate", episodes.evaluate)
    as_text = getattr(module, "as_text", episodes.as_text)
    result = evaluate(learner, weights, agents_of(run.config), count)
    result |= setups.of(run.config)
    run.write_json("eval.json", result)
    if not run.config.sweep:
        print(as_text(result), *setups.as_text(result), sep="\n")
        env = learner.env.env if isinstance(learner.env, VectorEnv) else learner.env
        measures = getattr(env, "measures", ())  # a Gymnasium environment has none
        if measures and (text := episode_measures.deaths(run.records())):
            print(text)
    what, command = getattr(module, "next_command", _watch)(learner.settings)
    print(f"{what}: {program()} {command.format(env=run.config.typed, run=run.path)}")


def _watch(settings: Any) -> tuple[str, str]:
    return "Watch it", "watch {run}"
