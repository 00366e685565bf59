"""Golden traces: hashes of rollouts (256 fixed actions, 3 seeds) that reveal changed behaviour.

Every id has a trace; `defaults.py` lists the ids whose traces are checked by default.

    python tests/golden.py --write [ID ...]    records traces; a changed id needs a new version
    python tests/golden.py --check [ID ...]    tests the installed jax; needs only chex and pytest

Observations, converted to integers, and episode ends are hashed. Rewards are summed with weights,
and the sums may differ by 5e-5 plus a millionth of the sum, because other releases or flags of XLA
may change the last bit of a reward.
"""

import hashlib
import json
import operator
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from defaults import FAMILIES, IDS
from subjects import build

from jaxenvs.classic import Acrobot, Pendulum
from jaxenvs.commands.parser import Parser
from jaxenvs.core.spaces import Discrete

FILE = Path(__file__).with_name("golden.json")
SEEDS, STEPS = 3, 256
# Number of compared steps in environments with chaotic motion, where a difference in the last bit
# of a float soon changes the whole trajectory. In all other environments, all STEPS are compared.
SAME = {Acrobot: 32, Pendulum: 64}
# weight of each step's reward in the sum that is compared
WEIGHTS = np.random.default_rng(0).uniform(0.5, 1.0, STEPS)
TRACES = json.loads(FILE.read_text())


def fixed_actions(env, seed):
    """Return actions that depend only on the seed and the number of the step.

    Actions drawn by `sample` would change if its implementation changed.
    """
    words = np.arange(STEPS, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(seed * 97)
    space, words = env.action_space, words >> np.uint32(13)
    if isinstance(space, Discrete):
        return jnp.asarray((words % np.uint32(space.n)).astype(np.int32))
    shares = words.astype(np.float32)[:, None] / np.float32(2**19)
    return jnp.asarray(space.low + shares * (space.high - space.low))


def trace(env, play):
    """Return a hash of the rollouts of `play`, and the weighted sum of rewards for each seed.

    A rollout steps on after the end of an episode, without a reset.
    """
    seeds = range(SEEDS)
    return trace_of(env, [play(*inputs(env, seed), env.default_params) for seed in seeds])


def inputs(env, seed):
    """Return the key of the reset, and the keys and the actions of the steps."""
    key = jax.random.key(seed)
    return key, jax.random.split(key, STEPS), fixed_actions(env, seed)


def trace_of(env, rollouts):
    """Return the trace of rollouts `(reset, steps)`, one for each seed."""
    digest, sums, count = hashlib.sha256(), [], SAME.get(type(env), STEPS)
    for first, steps in rollouts:
        seen = jax.tree.map(operator.itemgetter(slice(count)), steps)
        for leaf in jax.tree.leaves((first.obs, seen.obs, seen.terminated, seen.truncated)):
            digest.update(np.asarray(leaf).astype(np.int64).tobytes())
        sums.append(round(float(WEIGHTS[:count] @ np.asarray(seen.reward, np.float64)), 6))
    return [digest.hexdigest()[:16], *sums]


def equal(a, b):
    """Return whether two traces show the same behaviour."""
    return a[0] == b[0] and np.allclose(a[1:], b[1:], rtol=1e-6, atol=5e-5)


def failed(traces):
    """Return the ids whose traces differ from the recorded ones."""
    return [id for id, found in traces.items() if not equal(found, TRACES[id])]


def main() -> None:
    """Run the command line: print the traces, write them to `golden.json`, or check them."""
    parser = Parser("python tests/golden.py", __doc__)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--write", action="store_true", help=f"write {FILE.name}")
    what.add_argument("--check", action="store_true", help="exit with 1 if a trace differs")
    parser.add_argument("--families", action="store_true", help="one id of each family")
    parser.add_argument("ids", nargs="*", metavar="ID", help="others stay (all)")
    options = parser.parse_args()
    ids = options.ids or ([*FAMILIES.values()] if options.families else IDS)
    made = {id: trace(build(id).env, build(id).rollout) for id in ids}
    if options.check:
        print(f"jax {jax.__version__}: {len(ids)} golden traces checked")
        sys.exit("differ: " + " ".join(failed(made)) if failed(made) else 0)
    text = json.dumps({id: made.get(id, TRACES.get(id)) for id in IDS}, indent=1) + "\n"
    if options.write:
        FILE.write_text(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
