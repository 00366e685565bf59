"""Record demonstrations of BabyAI's bot: it plays the original levels of minigrid.

    python -m jaxenvs.benchmarks.bot_demos BabyAI-GoToLocal-v0 --episodes 1000 --out mine/bot-v0

The bot is minigrid's `BabyAIBot`, which knows only the cells that the agent has seen. Observations
are converted to the format of the jaxenvs environment, and the dataset has the layout of
`jaxenvs demos`. Levels are drawn with seeds 0, 1, 2 ... Episodes in which the bot fails are
counted, not recorded.
"""

import argparse
import contextlib
import io
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jaxenvs.commands.parser import number
from jaxenvs.core import registry
from jaxenvs.core.env import Env
from jaxenvs.core.extras import require
from jaxenvs.demos import DemosError, Episode, Writer


def main(argv: Sequence[str] | None = None) -> int:
    """Record the episodes; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m jaxenvs.benchmarks.bot_demos")
    parser.description = (__doc__ or "").split("\n")[0]
    add = parser.add_argument
    add("id", metavar="ID", help="BabyAI environment")
    add("--episodes", type=number(1, 10_000_000), default=1000, metavar="N", help="(default 1000)")
    add("--out", required=True, metavar="NAME", help="name of the dataset")
    add("--overwrite", action="store_true", help="replace a dataset of this name")
    args = parser.parse_args(argv)
    require(["minigrid"], "minigrid")
    try:
        spec = registry.spec(args.id)
        if not (spec.upstream or "").startswith("BabyAI-"):
            raise ValueError(f"{args.id} is no level of BabyAI, and only these have a bot")
        return _record(spec.make(), spec, args)
    except (DemosError, LookupError, ValueError) as error:
        print(f"bot_demos: {error}", file=sys.stderr)
        return 2


def _record(env: Env, spec: Any, args: argparse.Namespace) -> int:
    import gymnasium
    import minigrid  # noqa: F401  # registers its ids

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Gymnasium warns if an id has a newer version
        original = gymnasium.make(spec.upstream)
    writer = Writer(args.out, env, spec.id, overwrite=args.overwrite)
    failed = seed = 0
    try:
        while writer.episodes < args.episodes:
            episode = played(env, original, seed)
            seed += 1
            if episode is None:
                failed += 1
                if not writer.episodes and failed > 100:
                    raise DemosError(f"the bot solves no level of {spec.id}")
                continue
            writer.add(episode)
        path = writer.finish(algorithm_name="minigrid's BabyAIBot", jaxenvs_failed=failed)
    except BaseException:
        writer.discard()
        raise
    print(f"wrote {writer.episodes} episodes, {writer.steps} steps, {failed} failed: {path}")
    return 0


def played(env: Env, original: Any, seed: int) -> Episode | None:
    """Return the bot's episode in the level drawn with `seed`; None if the bot fails."""
    from minigrid.utils.baby_ai_bot import BabyAIBot

    with contextlib.redirect_stdout(io.StringIO()):  # discard BabyAI's list of rejected levels
        shown, _ = original.reset(seed=seed)
    bot: Any = BabyAIBot(original.unwrapped)
    action: Any = None
    seen, taken, rewards, ends = [env.upstream_obs(shown)], [], [], []
    over = False
    while not over:
        try:
            action = bot.replan(action)
        except Exception:  # the bot has several ways to fail, among them AssertionError
            return None
        shown, reward, terminated, truncated, _ = original.step(action)
        over = terminated or truncated
        seen.append(env.upstream_obs(shown))
        taken.append(int(action))
        rewards.append(float(reward))
        ends.append((terminated, truncated and not terminated))
    if rewards[-1] <= 0:
        return None
    return Episode(
        obs=jax.tree.map(lambda *leaves: np.stack(leaves), *seen),
        action=np.array(taken, np.int32),
        reward=np.array(rewards, np.float32),
        terminated=np.array([end[0] for end in ends]),
        truncated=np.array([end[1] for end in ends]),
        options={"seed": seed},
    )


if __name__ == "__main__":
    sys.exit(main())
