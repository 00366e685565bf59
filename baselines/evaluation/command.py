"""Command `jaxenvs eval`: evaluate a trained run again.

With `--in PACKAGE`, the policy also plays in the original package, such as MiniGrid, whose rules
jaxenvs reimplements.
"""

import functools
import json
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxenvs.commands.parser import (
    Parser,
    UsageError,
    check_outputs,
    guarded,
    number,
    run_fields,
    run_params,
    unwritable,
)
from jaxenvs.core.extras import version
from jaxenvs.core.files import replacing

from ..core.episodes import EVALUATION, achievements, table
from ..core.playing import EpisodePlayer, Episodes, random_episodes
from ..core.policy import Policy
from ..core.policy_statement import as_phrase, describe
from ..core.terminal import activity
from ..storage import checkpoints
from ..storage.runs import Run, load_policy
from . import regret, setups, upstream, worst

SUMMARY = """\
Evaluate a run: the first episode of each of many environments, for every seed.

Actions are sampled, and a policy of MuZero or AlphaZero acts by its search, as in eval.json. The
output and the JSON describe the policy. With --in the same policy also plays in the original
package, with that package's levels and random outcomes; the difference between the returns is
printed in units of its standard error.

With --regret the optimum of the very levels played is computed, where an exact solver exists (Grid,
BabyAI, puzzles). Regret is the optimum minus the return. The optimum assumes that the whole level
is known, so a policy that sees a part of it may keep a regret above 0.

--worst also reports success on solvable levels: the mean, and the mean of the 10 % and the 1 % with
the least success. These are chosen by one set of episodes and evaluated by another."""
EXAMPLES = (
    "eval runs/doorkey",
    "eval runs/doorkey --in minigrid",
    "eval runs/craft --in craftax --episodes 1024 --greedy",
    "eval runs/doorkey --param max_steps_in_episode=50",
    "eval runs/craft --setup original",
    "eval runs/games --set levels=test --random",
    "eval runs/muzero --simulations 0",
    "eval runs/doorkey --regret",
    "eval runs/maze --worst 10000",
)
MOST = 1_000_000
_play_randomly = jax.jit(random_episodes, static_argnums=(0, 2))  # compiled once for all seeds


def main(argv: list[str]) -> int:
    """Run the command; return the exit code."""
    return guarded("eval", _run, argv)


def _run(argv: list[str]) -> int:
    parser = _parser()
    args = parser.read(argv)
    check_outputs({"--json": args.json})
    if args.attempts != parser.get_default("attempts") and not args.worst:
        raise UsageError("--attempts belongs to --worst N; add --worst, or omit --attempts")
    params, fields = run_params(args.params), run_fields(args.fields)
    try:
        run = Run.open(args.run)
        config = run.config
        seeds, given = range(config.seeds), (args.best, params, args.simulations)
        policies = [load_policy(args.run, seed, *given, fields=fields) for seed in seeds]
        found = {
            "id": config.id,
            "algorithm": config.algorithm,
            "steps": None if args.best else _steps(run),
            "package": args.package,
            "episodes": args.episodes,
            "greedy": args.greedy,
            "policy": describe(policies[0], args.greedy),
            "best": args.best,
            "fields": {**config.env_fields, **fields},
            **setups.of(config, fields),
            "params": {**config.params, **params},
            **({"chosen_by": _chosen_by(run)} if args.best else {}),
            "seeds": [
                label | _result(name, label["seed"], policy, args)
                for name, label, policy in zip(config.names, config.labels, policies, strict=True)
            ],
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
            "versions": {name: version(name) for name in ("jaxenvs", "jax", args.package) if name},
        }
        for line in _statements(found):
            print(line)
        if policies[0].env.achievements:
            print(table([seed["here"] for seed in found["seeds"]]))
        if args.json:
            with replacing(Path(args.json)) as temporary:
                temporary.write_text(json.dumps(found, indent=2) + "\n", "utf-8")
            print(f"wrote {args.json}")
    except OSError as error:
        raise unwritable(error) from error
    except ValueError as error:  # the run is invalid, or the package of --in lacks the environment
        raise UsageError(str(error)) from error
    return 0


def _steps(run: Run) -> int | None:
    """Return the number of steps of each seed at the newest intact checkpoint, from log.jsonl.

    Returns None if log.jsonl has no record of the update of this checkpoint.
    """
    update = checkpoints.newest_intact(run.checkpoints)
    made = (record.get("steps") for record in run.records() if record["update"] == update)
    return next(made, None)


def _statements(found: dict[str, Any]) -> list[str]:
    """Return sentences that say how the policy acted and, with --best, how it was chosen."""
    episodes = f"{found['episodes']} episodes{' per seed' if found['seeds'][1:] else ''}"
    lines = [f"Evaluated over {episodes}: {as_phrase(found['policy'])}."]
    lines += setups.as_text(found)
    if found["best"]:
        chosen = "; ".join(dict.fromkeys(each["policy"] for each in found["chosen_by"]))
        lines.append(f"The best while training, chosen over {chosen}.")
    return lines


def _chosen_by(run: Run) -> list[dict[str, Any]]:
    """Return, for each seed, the best evaluation in training: update, return and policy text."""
    newest = checkpoints.newest_intact(run.checkpoints)  # later evaluations chose no saved weights
    rows = [row for row in run.records() if "eval_return" in row and row["update"] <= newest]
    found = []
    for seed in range(run.config.seeds):
        # Among evaluations with equal returns, `max` takes the first one, as training does.
        best = max(rows, key=lambda row, seed=seed: row["eval_return"][seed])
        policy = best.get("eval_policy", "episodes of an older version: no search")
        returned = best["eval_return"][seed]
        found.append({"update": best["update"], "return": returned, "policy": policy})
    return found


def _parser() -> Parser:
    made = Parser("jaxenvs eval", SUMMARY, EXAMPLES)
    made.add_argument("run", metavar="RUN", help="folder that `jaxenvs train` wrote")
    made.add_argument(
        "--in",
        dest="package",
        choices=upstream.PACKAGES,
        help="also play in this package, which must be installed",
    )
    made.add_argument(
        "--episodes",
        type=number(2, MOST),
        default=256,
        metavar="N",
        help="number of environments, each for one episode (default: 256)",
    )
    made.add_argument("--greedy", action="store_true", help="take the most likely action")
    made.add_argument("--random", action="store_true", help="also play random legal actions")
    regret = "also print the optimum of the levels played, and the regret against it"
    made.add_argument("--regret", action="store_true", help=regret)
    made.add_argument(
        "--worst", type=number(100, MOST), metavar="N", help="also report the worst of N levels"
    )
    made.add_argument(
        "--attempts",
        type=number(1, 1000),
        default=10,
        metavar="N",
        help="--worst: episodes of each level, for choosing and again for evaluating (default: 10)",
    )
    made.add_best()
    made.add_fields("levels=test")
    made.add_levels()
    made.add_simulations()
    made.add_argument("--json", metavar="FILE", help="write all figures")
    return made


def _result(name: str, seed: int, policy: Policy, args: Namespace) -> dict[str, Any]:
    """Evaluate the policy of one seed, print a line of results, and return the results for --json.

    The returned dict has an entry `here` with the results in jaxenvs. Options add entries:
    `--random` adds `random` (random play), `--worst` adds `worst` (the worst levels), and `--in`
    adds `there` (the original package).
    """
    package, count, greedy = args.package, args.episodes, args.greedy
    key_here, key_there = jax.random.split(jax.random.fold_in(jax.random.key(seed), EVALUATION))
    result: dict[str, Any] = {}
    best = regret.optimum(policy.env, key_here, count) if args.regret else None
    with activity(policy.env_id, "evaluating"):
        played = here(policy, key_here, count, greedy)
    result["here"] = ours = _figures(played) | achievements(played, policy.env.achievements)
    line = f"{name}: {_words(ours)}"
    line += _with_regret(ours, best, played)
    if args.random:
        played = _play_randomly(policy.env, key_here, count)
        result["random"] = _figures(played)
        line += f"; random play {_words(result['random'])}"
        line += _with_regret(result["random"], best, played)
    if args.worst:
        with activity(policy.env_id, "evaluating"):
            given = args.worst, args.attempts, greedy
            result["worst"] = worst.figures(policy, key_here, *given)
        line += f"; {worst.as_text(result['worst'])}"
    if package is not None:
        played = upstream.play(policy, package, key_there, count, greedy)
        result["there"] = there = _figures(played)
        apart = ours["mean_return"] - there["mean_return"]
        error = float(np.hypot(ours["error"], there["error"]))
        result["standard_errors_apart"] = round(apart / error, 3) if error else None
        line += f"; in {package} {_words(there)}; {_difference(apart, error)}"
    print(line, flush=True)
    return result


def _with_regret(result: dict[str, Any], best: regret.Optimum | None, played: Episodes) -> str:
    """Add the regret to `result`, and return it as text; return "" without `--regret`."""
    if best is None:
        return ""
    found = regret.figures(best, played)
    result |= found
    return f", {regret.words(found)}"


def here(policy: Policy, key: Any, count: int, greedy: bool = False) -> Episodes:
    """Play `count` episodes of the policy's jaxenvs environment."""

    def act(weights: Any, key: Any, obs: Any, state: Any, memory: Any) -> tuple[Any, Any]:
        keys = jax.random.split(key, len(jax.tree.leaves(state)[0]))
        decide = functools.partial(policy.decide, greedy=greedy)
        memory, action = jax.vmap(decide)(keys, memory, obs, policy.masks(state), state)
        return action, memory

    player = EpisodePlayer(policy.env, act, count, policy.begin())
    played = player.finish(player.begin((), key[None]))
    return jax.tree.map(lambda leaf: leaf[0], played)


def _figures(episodes: Episodes) -> dict[str, float]:
    returns = np.asarray(episodes.returns, float)
    return {
        "mean_return": round(float(returns.mean()), 6),
        "error": round(float(returns.std(ddof=1) / np.sqrt(len(returns))), 6),
        "mean_length": round(float(np.mean(episodes.lengths)), 3),
        "terminated_rate": round(float(np.mean(episodes.terminated)), 6),
    }


def _words(figures: dict[str, float]) -> str:
    return (
        f"return {figures['mean_return']:.3f} +- {figures['error']:.3f}, "
        f"length {figures['mean_length']:.1f}"
    )


def _difference(apart: float, error: float) -> str:
    if error == 0:
        return "the same return in every episode" if apart == 0 else "constant returns that differ"
    return f"{abs(apart) / error:.1f} standard errors apart"
