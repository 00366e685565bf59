"""Record the trajectories of ids with the installed JAX, and compare two records bit by bit.

    python tests/proofs/reproducibility.py record FOLDER [ID ...]    one id of each class
    python tests/proofs/reproducibility.py compare FOLDER OTHER

A record has every array of a reset and of 256 steps, for eight seeds: states, observations, rewards
and ends of episodes. `record` also compares the first three seeds with the golden traces, which are
hashes in `tests/golden.json`. Set `JAX_ENABLE_X64`, `JAX_PLATFORMS` and so on in the environment.
With several devices, the seeds are one batch that is divided among the devices.
"""

import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import defaults
import golden

from jaxenvs import make
from jaxenvs.commands.parser import Parser
from jaxenvs.testing import Subject

SEEDS = 8  # number of seeds per id; must be divisible by the number of devices


def trajectories(subject: Subject) -> list[Any]:
    """Return `(reset, steps)` of each seed, as NumPy arrays."""
    env, count = subject.env, jax.device_count()
    given = [golden.inputs(env, seed) for seed in range(SEEDS)]
    if count == 1:
        played = [subject.rollout(*one, env.default_params) for one in given]
        return [jax.tree.map(array, one) for one in played]
    mesh = jax.make_mesh((count,), ("seeds",), axis_types=(AxisType.Auto,))
    spread = NamedSharding(mesh, PartitionSpec("seeds"))
    batch = jax.device_put(jax.tree.map(lambda *leaves: jnp.stack(leaves), *given), spread)
    together = jax.jit(jax.vmap(subject.rollout, in_axes=(0, 0, 0, None)))
    played = jax.tree.map(array, together(*batch, env.default_params))
    return [jax.tree.map(lambda leaf, n=n: leaf[n], played) for n in range(SEEDS)]


def array(leaf: jax.Array) -> np.ndarray:
    """Convert a JAX array to NumPy; of an array of PRNG keys, return the key data."""
    keys = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if keys else leaf)


def record(folder: Path, ids: list[str]) -> bool:
    """Write the trajectories of ids; return whether all of them match their golden traces."""
    folder.mkdir(parents=True, exist_ok=True)
    wrong = []
    for id in ids:
        start, subject = time.perf_counter(), Subject.of(make(id))
        played = trajectories(subject)
        found = golden.trace_of(subject.env, played[: golden.SEEDS])
        if not golden.equal(found, golden.TRACES[id]):
            wrong.append(id)
        leaves = jax.tree_util.tree_leaves_with_path(jax.tree.map(lambda *x: np.stack(x), *played))
        arrays = {jax.tree_util.keystr(path): leaf for path, leaf in leaves}
        np.savez_compressed(folder / id, **arrays)
        print(f"{id}: {time.perf_counter() - start:.1f} s", flush=True)
        jax.clear_caches()
    print(f"jax {jax.__version__}, {jax.device_count()} x {jax.devices()[0].device_kind}")
    print(f"golden traces: {len(ids) - len(wrong)} of {len(ids)} hold", *wrong)
    return not wrong


def compare(a: Path, b: Path) -> bool:
    """Print the arrays that differ between two records; return whether all are equal.

    Compares the ids that both records have, and returns False if there are none.
    """
    files = sorted(path.name for path in a.glob("*.npz") if (b / path.name).exists())
    lines = [line for name in files for line in differences(name[:-4], a / name, b / name)]
    print(*lines, sep="\n")
    ids = {line.split()[0] for line in lines}
    print(f"{len(files)} ids, {len(files) - len(ids)} equal in every bit")
    return bool(files) and not lines


def differences(id: str, a: Path, b: Path) -> list[str]:
    """Return a line of text for each array that differs between the files `a` and `b`."""
    lines = []
    with np.load(a) as left, np.load(b) as right:
        if left.files != right.files:
            return [f"{id} has other arrays: {sorted({*left.files} ^ {*right.files})}"]
        for name in left.files:
            x, y = left[name], right[name]
            if x.dtype != y.dtype or x.shape != y.shape:
                lines.append(f"{id} {name} {x.dtype}{x.shape} {y.dtype}{y.shape}")
            elif (other := x.view(np.uint8) != y.view(np.uint8) if x.ndim else x != y).any():
                lines.append(f"{id} {name} {x.dtype} {difference(x, y)} ({other.sum()} bytes)")
    return lines


def difference(x: np.ndarray, y: np.ndarray) -> str:
    """Return in words how many entries differ, from which step on, and by how much at most."""
    other = x != y
    first = f"from step {other.any(axis=(0, *range(2, other.ndim))).argmax()}, " * (x.ndim > 1)
    most = np.abs(x.astype(np.float64) - y.astype(np.float64)).max()
    return f"{other.sum()} of {x.size} entries, {first}at most {most:.3g}"


def main() -> None:
    """Run the command line; exit with code 1 if records differ or golden traces do not match."""
    parser = Parser("python tests/proofs/reproducibility.py", __doc__)
    parser.add_argument("what", choices=("record", "compare"), help="what to do")
    parser.add_argument("folder", type=Path, help="where the record is")
    parser.add_argument("rest", nargs="*", metavar="ID|OTHER", help="ids, or the other record")
    options = parser.parse_args()
    if options.what == "compare":
        if len(options.rest) != 1:
            parser.error(f"compare needs two folders, got {1 + len(options.rest)}: FOLDER OTHER")
        same = compare(options.folder, Path(*options.rest))
    else:
        same = record(options.folder, options.rest or defaults.FIRST)
    sys.exit(not same)


if __name__ == "__main__":
    main()
