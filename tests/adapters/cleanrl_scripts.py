"""Run a script of CleanRL on `to_torch_vec`; only its statement `envs = ...` is replaced.

    python tests/adapters/cleanrl_scripts.py cleanrl/ppo.py --id Classic-CartPole-v0 --seeds 5

prints the mean return of the last 100 episodes of each seed, at each fifth of the steps.
"""

import argparse
import ast
import contextlib
import io
import json
import runpy
import sys
import tempfile
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import jaxenvs
from jaxenvs import adapters
from jaxenvs.core.spaces import Box
from jaxenvs.core.wrapper import Wrapper

MADE: list["Recorded"] = []  # the batches that `recorded` made for scripts
LINE = "envs = __import__('cleanrl_scripts').recorded({id!r}, args.num_envs)"


class Floats(Wrapper):
    """Observe a flat vector of float32, which the network of CleanRL's ppo.py needs."""

    @property
    def observation_space(self):
        """Return the space of the vector."""
        size = sum(leaf.size for leaf in jax.tree.leaves(self.env.observation_space.low))
        return Box(-np.inf, np.inf, (size,), np.float32)

    def transform(self, obs):
        """Flatten the observation."""
        return obs.ravel().astype(jnp.float32)


class Frames(Wrapper):
    """Observe (1, 84, 84) bytes, which the network of ppo_atari_lstm.py needs."""

    @property
    def observation_space(self):
        """Return the space of the picture."""
        return Box(0, 255, (1, 84, 84), np.uint8)

    def transform(self, obs):
        """Enlarge the first channel of a grid's image (7, 7, 3) to 84 x 84 pixels."""
        cell = jnp.ones((12, 12), jnp.uint8)
        return jnp.kron(obs[..., 0] * jnp.uint8(25), cell)[None]


class Recorded:
    """Wrapper of a `to_torch_vec` batch that records each finished episode as (step, return)."""

    def __init__(self, env, num_envs):
        self.envs = adapters.to_torch_vec(env, num_envs, device="cpu")  # this call imports PyTorch
        self.sums, self.steps, self.episodes = np.zeros(num_envs), 0, []

    def __getattr__(self, name):
        return getattr(self.envs, name)

    def step(self, action):
        """Step the batch; record the episodes that end."""
        results = self.envs.step(action)
        _, reward, terminated, truncated, _ = results
        self.sums += reward.numpy()
        self.steps += len(self.sums)
        for i in np.flatnonzero((terminated | truncated).numpy()):
            self.episodes.append((self.steps, float(self.sums[i])))
            self.sums[i] = 0
        return results


def recorded(id, num_envs):
    """Return the batch that the script uses instead of Gymnasium's `SyncVectorEnv`.

    An `id` that ends in `:floats` or `:frames` adds the wrapper `Floats` or `Frames`.
    """
    env, _, form = id.partition(":")
    made = jaxenvs.make(env)
    made = {"": lambda e: e, "floats": Floats, "frames": Frames}[form](made)
    MADE.append(Recorded(made, num_envs))
    return MADE[-1]


def changed(source, id):
    """Return a script's source with its statement `envs = ...SyncVectorEnv(...)` replaced.

    Raises `ValueError` if the script has no such statement or several.
    """
    found = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Assign) and ast.unparse(node).startswith("envs = gym.vector.Sync")
    ]
    if len(found) != 1:
        raise ValueError(
            f"the script has {len(found)} statements `envs = gym.vector.SyncVectorEnv(...)`, and "
            "exactly one can be replaced; give a script such as cleanrl/ppo.py"
        )
    node = found[0]
    lines = source.splitlines()
    lines[node.lineno - 1 : node.end_lineno] = [" " * node.col_offset + LINE.format(id=id)]
    return "\n".join(lines) + "\n"


def run(script, id, *options):
    """Run the changed script in an empty folder; return its batch."""
    sys.modules["cleanrl_scripts"] = sys.modules[__name__]
    script = Path(script).resolve()
    argv, path = sys.argv, [*sys.path]
    sys.path.append(str(script.parent.parent))  # folder of modules that scripts import
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        copy = Path(folder) / script.name
        copy.write_text(changed(script.read_text(), id))
        sys.argv = [str(copy), *options]
        try:
            with contextlib.chdir(folder), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # ignore warnings of the script and its packages
                runpy.run_path(str(copy), run_name="__main__")
        finally:
            sys.argv, sys.path[:] = argv, path
    return MADE.pop()


def curve(episodes, steps):
    """Return the mean return of the last 100 episodes at each fifth of the steps."""
    ends = [steps * k // 5 for k in range(1, 6)]
    past = [[value for step, value in episodes if step <= end][-100:] for end in ends]
    return [round(float(np.mean(values)), 3) for values in past]


def main():
    """Train with several seeds; print a line of JSON for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("script")
    parser.add_argument("--id", required=True)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=50_000)
    args, rest = parser.parse_known_args()
    for seed in range(args.first_seed, args.first_seed + args.seeds):
        options = ("--seed", str(seed), "--total-timesteps", str(args.steps), "--no-cuda", *rest)
        made = run(args.script, args.id, *options)
        print(json.dumps({"seed": seed, "returns": curve(made.episodes, made.steps)}), flush=True)


if __name__ == "__main__":
    main()
