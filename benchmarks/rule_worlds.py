"""Rule worlds with a separate task for each environment, compared with XLand-MiniGrid.

    python -m jaxenvs.benchmarks.rule_worlds --sets medium-1m      steps per processor-second
    python -m jaxenvs.benchmarks.rule_worlds --work                kernels and bytes on an H200

Rule worlds are this library's XLand environments. Their tasks (goal, rules and initial tiles)
follow the distribution of XLand-MiniGrid's task sets. Tasks are arguments of the compiled program,
so they do not count as state. Both libraries start the next episode in the step that ends one.
"""

import argparse
import importlib
import statistics
from collections.abc import Sequence
from typing import Any

import jax
from jaxtyping import Array

import jaxenvs
from jaxenvs.core.starts import tree_bytes
from jaxenvs.xland import SETS, Ruleset, XLand, sample_ruleset

from . import gpu_work
from .harness import contestants, instrument, timing
from .harness.contestants import NO_RESET, Contestant
from .tables.gpu import counted

ID = "XLand-R4-13x13-v0"
SOURCES = ("fresh", "exact", NO_RESET)


def tasks(key: Array, name: str, num_envs: int) -> Ruleset:
    """Draw a task for each environment, distributed as in XLand-MiniGrid's task set `name`."""
    recipe = SETS[name].recipe._asdict()
    return jax.vmap(lambda key: sample_ruleset(key, **recipe))(jax.random.split(key, num_envs))


def ours(name: str, num_envs: int, source: str = "default", env_id: str = ID) -> Contestant:
    """Return this library's batch with tasks of task set `name`.

    The state of the batch is a pair (state, params), because the params contain the tasks.
    """
    like = jax.eval_shape(lambda key: tasks(key, name, 1), jax.random.key(0))
    sizes = {"num_rules": like.rules.shape[1], "num_tiles": like.init_tiles.shape[1]}
    venv = contestants.batched(env_id, num_envs, source, **sizes)
    env: XLand = venv.env  # type: ignore[assignment]
    reset_source = contestants.source_of(venv)

    def reset(key: Array) -> Any:
        params = env.params_for(tasks(key, name, num_envs))
        return venv.reset(key, params).state, params

    def step(key: Array, state: Any, action: Array) -> tuple:
        inner, params = state
        stepped = venv.step(key, inner, action, params)
        return (stepped.state, params), stepped.obs, stepped.reward, stepped.done

    return Contestant("jaxenvs", env_id, num_envs, 6, reset, step, "image", reset_source)


def package(name: str, num_envs: int, env_id: str = ID) -> Contestant:
    """Return a batch of XLand-MiniGrid's environments, to be timed against ours.

    The tasks come from task set `name`. Each environment keeps its task when it is reset.
    """
    xminigrid = importlib.import_module("xminigrid")
    types = importlib.import_module("xminigrid.types")
    wrappers = importlib.import_module("xminigrid.wrappers")
    plain, params = xminigrid.make(jaxenvs.spec(env_id).upstream)
    env = wrappers.GymAutoResetWrapper(plain)

    def params_of(task: Ruleset) -> Any:
        return params.replace(ruleset=types.RuleSet(task.goal, task.rules, task.init_tiles))

    def reset(key: Array) -> Any:
        drawn = tasks(key, name, num_envs)
        begin = jax.vmap(lambda key, task: env.reset(params_of(task), key))
        return begin(jax.random.split(key, num_envs), drawn), drawn

    def step(key: Array, state: Any, action: Array) -> tuple:
        inner, drawn = state
        inner = jax.vmap(lambda task, *one: env.step(params_of(task), *one))(drawn, inner, action)
        return (inner, drawn), inner.observation, inner.reward, inner.last()

    return contestants.foreign("XLand-MiniGrid", env_id, num_envs, 6, reset, step)


def state_bytes(contestant: Contestant) -> float:
    """Return the size in bytes of one environment's state; its task does not count."""
    state, _ = jax.eval_shape(contestant.reset, jax.random.key(0))
    return tree_bytes(state) / contestant.num_envs


def count(args: argparse.Namespace) -> dict[str, Any]:
    """Return a step's kernels and bytes on an H200, for every task set and both libraries."""
    gpu_work.choose_target(here=False)
    rows = []
    for name in args.sets:
        batches = [ours(name, args.batch, source) for source in SOURCES]
        for batch in [*batches, package(name, args.batch)]:
            row = gpu_work.measure(batch)[0] | {"state": state_bytes(batch), "set": name}
            rows.append(row | {"name": f"{batch.name}, {name}", "rules": SETS[name].num_rules})
    print(counted(rows).plain())
    return gpu_work.report(rows)


def compare(args: argparse.Namespace) -> dict[str, Any]:
    """Return the steps per second of CPU time of both libraries, measured in turns."""
    rows = []
    for name in args.sets:
        batches = (ours(name, args.batch), package(name, args.batch))
        runners = [timing.BatchRunner(batch, args.seconds) for batch in batches]
        made = timing.take_turns(runners, args.repeats)
        speeds = [row["steps"] / statistics.median(row["processor_seconds"]) for row in made]
        print(
            f"{name}: {speeds[0]:,.0f} steps per processor-second, the package {speeds[1]:,.0f}: "
            f"{speeds[0] / speeds[1]:.1f} times; compiled in {made[0]['compile_seconds']:.1f} and "
            f"{made[1]['compile_seconds']:.1f} s"
        )
        pairs = zip(made, speeds, strict=True)
        rows += [row | {"set": name, "per_processor_second": round(s)} for row, s in pairs]
    return instrument.dated(rows)


@instrument.program
def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark with the options in `argv`; print results and write the `--json` file."""
    parser = instrument.parser("rule_worlds", __doc__)
    add = parser.add_argument
    add("--sets", nargs="+", default=["trivial-21k", "medium-1m", "high-1m"], choices=[*SETS])
    add("--batch", type=int, help="environments (default: 1,024; 4,096 with --work)")
    add("--work", action="store_true", help="count kernels and bytes of a step on an H200")
    instrument.add_repeats(parser, seconds=2.0, repeats=5)
    args = parser.parse_args(argv)
    args.batch = args.batch or (4096 if args.work else 1024)
    instrument.write(args.json, (count if args.work else compare)(args))
