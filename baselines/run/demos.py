"""Command `jaxenvs demos`: record episodes as a dataset that Minari opens."""

import argparse
import contextlib
import dataclasses
import functools
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console

from jaxenvs.commands import fields
from jaxenvs.commands.parser import (
    Parser,
    UsageError,
    guarded,
    make_env,
    number,
    run_fields,
    run_params,
    unwritable,
)
from jaxenvs.core import registry
from jaxenvs.core.checks import counted
from jaxenvs.core.env import Env
from jaxenvs.core.masking import legal, legal_actions
from jaxenvs.core.wrappers import PreviousStep
from jaxenvs.core.wrappers.levels import LevelSet
from jaxenvs.demos import DemosError, Episode, Recorder, Writer

from ..core.policy import Policy
from ..core.terminal import bar, say
from ..storage.runs import Run, load_policy
from . import oracle_demos
from .interrupt import EXIT_CODE, Interrupt
from .oracle_demos import Counts

SUMMARY = """Record episodes of an environment as a dataset in Minari's layout.

--by oracle plays shortest plans, --by RUN a trained policy, --by random random legal actions. The
dataset goes to $MINARI_DATASETS_PATH, or ~/.minari/datasets. Ctrl-C keeps the episodes so far."""
EXAMPLES = (
    "demos BabyAI-GoToLocal-v0 --by oracle --episodes 1000",
    "demos Grid-DoorKey-5x5-v0 --by runs/doorkey --episodes 500",
    "demos Grid-Empty-8x8-v0 --levels mylevels.txt --overwrite",
)
BATCH = 64  # number of episodes that are played together
RANDOM_EPISODES = 256  # number of episodes of random play for the reference score
# Purposes of random keys: each constant is folded into the seed's key, which gives a separate key
# per purpose.
OF_RANDOM_PLAY, OF_LEVELS, OF_PLAY = 0, 1, 2


# result for each level: its episode, or a string with the reason why the level was left out
Played = Sequence[Episode | str]


class Source(NamedTuple):
    """Environment to record, and its player: a policy, the oracle or random actions."""

    env: Env  # environment whose episodes are recorded
    id: str
    keywords: dict[str, Any]  # arguments of `jaxenvs.make`
    # Function of (key, levels, number of levels) that plays the levels and returns `Played`.
    play: Callable[..., Played]
    counts: Counts  # number of levels left out, for each reason
    about: str  # description of the player, such as "random legal actions"


# Option -> the player that it applies to.
OF_PLAYERS = {"greedy": "policy", "agent": "policy", "best": "policy", "budget": "oracle"}


def main(argv: list[str]) -> int:
    """Run the command and return its exit code."""
    return guarded("demos", _run, argv)


def _run(argv: list[str]) -> int:
    parser = _parser()
    options = parser.read(argv)
    kind = options.by if options.by in ("oracle", "random") else "policy"
    for name, player in OF_PLAYERS.items():
        if kind != player and getattr(options, name) != parser.get_default(name):
            wanted = "the folder of a run" if player == "policy" else player
            raise UsageError(f"--{name} needs --by with {wanted}, got --by {options.by}; omit it")
    id = registry.spec(options.id).id
    name = options.out or f"jaxenvs/{id}/{kind}-v0"
    leaving = contextlib.ExitStack()  # cleanup that a second Ctrl-C runs
    stop = Interrupt("Stopping soon, then saving; Ctrl-C again stops at once.", leaving.close)
    try:
        with stop:
            source = _source(options, id, kind, lambda: stop.asked)
            writer = Writer(
                name, source.env, id, source.keywords, options.folder, options.overwrite
            )
            leaving.callback(writer.remove)
            try:
                _record(options, source, writer, lambda: stop.asked)
                path = writer.finish(**_about(options, source, argv))
            except BaseException:
                writer.discard()
                raise
    except OSError as error:
        raise unwritable(error) from error
    except (LookupError, NotImplementedError, TypeError, ValueError) as error:
        if stop.asked and isinstance(error, DemosError):
            print("Stopped before an episode was complete.", file=sys.stderr)
            return EXIT_CODE
        raise UsageError(str(error)) from error
    for sentence in source.counts.sentences():
        print(sentence)
    print(f"wrote {counted(writer.episodes, 'episode')}, {counted(writer.steps, 'step')}: {path}")
    return EXIT_CODE if stop.asked else 0


def _parser() -> Parser:
    made = Parser("jaxenvs demos", SUMMARY, EXAMPLES)
    add = made.add_argument
    add("id", metavar="ID", help="environment, such as BabyAI-GoToLocal-v0")
    add("--by", default="oracle", metavar="WHO", help="oracle, random or the folder of a run")
    episodes = "number of episodes (default 1000)"
    add("--episodes", type=number(1, 10_000_000), default=1000, metavar="N", help=episodes)
    add("--out", metavar="NAME", help="name of the dataset (default: jaxenvs/ID/WHO-v0)")
    add("--overwrite", action="store_true", help="replace a dataset of this name")
    add("--folder", metavar="DIR", help="root of the datasets (default: Minari's)")
    add("--seed", type=number(0, 2**31 - 1), default=0, metavar="N", help="random seed (default 0)")
    budget = "oracle: states that a search of 64 levels stores (default 1000000)"
    add("--budget", type=number(1, 2**30), default=1_000_000, metavar="N", help=budget)
    agent = "RUN: index of the seed whose policy plays (default 0)"
    add("--agent", type=number(0, 10**6), default=0, metavar="N", help=agent)
    add("--greedy", action="store_true", help="RUN: take the most likely actions")
    made.add_best()
    made.add_fields("view_size=5")
    made.add_levels()
    return made


def _source(options: argparse.Namespace, id: str, kind: str, stopped: Callable[[], bool]) -> Source:
    """Return the environment to record and its player, as the command's options specify."""
    if kind == "policy":
        return _of_run(options, id, stopped)
    env = make_env(options.id, options.fields, options.params)
    keywords = {**fields.parse(options.fields), **fields.parse(options.params, fields.PARAM)}
    if kind == "oracle":
        play = oracle_demos.player(env, options.budget, stopped)
        return Source(env, id, keywords, play, Counts(), "shortest plans of jaxenvs.levels.solve")
    recorder = Recorder(env, random_actions(env))
    play = functools.partial(_played, recorder, (), stopped)
    return Source(env, id, keywords, play, Counts(), "random legal actions")


def _of_run(options: argparse.Namespace, id: str, stopped: Callable[[], bool]) -> Source:
    """Return the environment of a run, without the learner's wrappers, and its policy as player."""
    if not os.path.isdir(options.by):
        raise UsageError(f"--by {options.by}: give oracle, random or the folder of a run")
    config = Run.open(options.by).config
    if config.id != id:
        raise UsageError(f"--by {options.by} was trained in {config.id}, not in {id}; give that id")
    given, params = run_fields(options.fields), run_params(options.params)
    policy = load_policy(options.by, options.agent, options.best, params, fields=given)
    keywords = {**config.env_fields, **given, **config.params, **params}
    env, show = policy.env, None
    if isinstance(env, PreviousStep):
        env, show = env.env, lambda obs, state: obs["obs"]
    if env != registry.make(id, **keywords):
        raise UsageError(f"--by {options.by}: episodes of {config.algorithm} cannot be recorded")
    recorder = Recorder(policy.env, _actions_of(policy, options.greedy), show)
    play = functools.partial(_played, recorder, policy.begin(), stopped)
    how = "most likely" if options.greedy else "sampled"
    return Source(env, id, keywords, play, Counts(), f"{config.algorithm}, {how} actions")


def _played(
    recorder: Recorder, memory: Any, stopped: Callable[[], bool], key: Any, levels: Any, count: int
) -> list[Episode]:
    many = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *jnp.shape(leaf))), memory)
    return recorder.play(count, key, levels, many, stopped)


def random_actions(env: Env) -> Callable[..., Any]:
    """Return a function for `Recorder` that draws a legal action for each state of a batch."""

    def one(key: Any, state: Any) -> Any:
        mask = legal_actions(env, state)
        if mask is None:
            return env.action_space.sample(key)
        return jax.random.categorical(key, legal(jnp.zeros(mask.shape, jnp.float32), mask))

    def choose(key: Any, obs: Any, state: Any, memory: Any) -> tuple[Any, Any]:
        count = len(jax.tree.leaves(obs)[0])
        return memory, jax.vmap(one)(jax.random.split(key, count), state)

    return choose


def _actions_of(policy: Policy, greedy: bool) -> Callable[..., Any]:
    def choose(key: Any, obs: Any, state: Any, memory: Any) -> tuple[Any, Any]:
        return policy.decide_batch(key, memory, obs, state, greedy)

    return choose


def _record(
    options: argparse.Namespace, source: Source, writer: Writer, stopped: Callable[[], bool]
) -> None:
    """Record and write `options.episodes` episodes, or fewer if `stopped()` becomes True."""
    console, most = Console(), options.episodes
    key = jax.random.fold_in(jax.random.key(options.seed), OF_PLAY)
    progress = bar(console)
    if not console.is_terminal:
        say(f"{source.id}: recording {counted(most, 'episode')} ...")
    with progress:
        task = progress.add_task(source.id, total=most, text="", left="", what="compiling")
        for part, (levels, count) in enumerate(_levels(source.env, options.seed, most)):
            played = source.play(jax.random.fold_in(key, part), levels, count)
            _write(source, writer, most, played, jax.device_get(levels))
            text = f"{writer.episodes:,} of {most:,} episodes   {source.counts.short()}"
            progress.update(task, completed=writer.episodes, text=text, left=" ")
            source.counts.check(writer.episodes)
            if stopped() or writer.episodes >= most:
                return


def _write(source: Source, writer: Writer, most: int, played: Played, levels: Any) -> None:
    """Write the episodes of a batch of levels; stop when the dataset has `most` episodes."""
    counts = source.counts
    for row, episode in enumerate(played):
        if writer.episodes == most:
            return
        if isinstance(episode, str):
            counts.left_out[episode] += 1
            continue
        text = _level_text(source.env, jax.tree.map(lambda leaf, i=row: leaf[i], levels))
        writer.add(dataclasses.replace(episode, options=text))
        if episode.infos:
            counts.returns.append(float(np.sum(episode.reward)))


def _levels(env: Env, seed: int, most: int) -> Iterator[tuple[Any, int]]:
    """Yield batches of levels and their sizes, without end.

    If the environment has a `LevelSet`, yield its levels in order, again and again. Otherwise, draw
    each level with its own random key.
    """
    given = getattr(env, "levels", None)
    count = min(BATCH, max(most, 1))
    base = jax.random.fold_in(jax.random.key(seed), OF_LEVELS)

    @jax.jit
    def drawn(numbers: Any) -> Any:
        return jax.vmap(lambda n: env.sample_level(jax.random.fold_in(base, n)))(numbers)

    for begin in itertools.count(0, count):
        numbers = np.arange(begin, begin + count)
        if isinstance(given, LevelSet):
            yield jax.vmap(given.at)(jnp.asarray(numbers % len(given), jnp.int32)), count
        else:
            yield drawn(jnp.asarray(numbers, jnp.int32)), count


def _level_text(env: Env, level: Any) -> dict[str, str]:
    """Return the text of a level under the key `level`; {} if it has none."""
    if not getattr(env, "unwrapped", env).level_format:
        return {}
    try:
        return {"level": env.level_text(level)}
    except (NotImplementedError, ValueError):
        return {}


def _about(options: argparse.Namespace, source: Source, argv: list[str]) -> dict[str, Any]:
    """Return entries of the dataset's metadata.json: source, command and reference scores."""
    scores: dict[str, Any] = {}
    if source.counts.returns:
        key = jax.random.fold_in(jax.random.key(options.seed), OF_RANDOM_PLAY)
        scores = {
            "ref_min_score": _random_score(source.env, key),
            "ref_max_score": round(float(np.mean(source.counts.returns)), 6),
            "num_episodes_average_score": RANDOM_EPISODES,
        }
    return {
        "algorithm_name": source.about,
        "description": f"{source.about} in {source.id}",
        "code_permalink": "",
        "author": ["jaxenvs"],
        "jaxenvs_command": f"jaxenvs demos {' '.join(argv)}",
        "jaxenvs_env": json.dumps({"id": source.id, "keywords": source.keywords}),
        **source.counts.facts(),
        **scores,
    }


def _random_score(env: Env, key: Any) -> float:
    from ..core.playing import random_episodes

    played = jax.jit(random_episodes, static_argnums=(0, 2))(env, key, RANDOM_EPISODES)
    return round(float(played.returns.mean()), 6)
