"""Command `jaxenvs export`: write a policy as files that need neither jaxenvs nor Flax.

    policy.jax           StableHLO program with the weights, for `jax.export.deserialize`
    weights.safetensors  every array by its name, for any framework
    policy.json          id, observation, memory, actions, scale of the value, versions

The program maps a batch of (memory, obs) to (memory, logits, value), where `memory` is the
recurrent state. If the environment has illegal actions, a third input `mask` marks the legal ones,
and the logits of illegal actions are very low. The batch may have any size. For action spaces other
than Discrete, `distribution` in policy.json describes the outputs that replace the logits.
"""

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from jaxenvs import spaces
from jaxenvs.commands.parser import Parser, UsageError, guarded, number, unwritable
from jaxenvs.core import distributions
from jaxenvs.core.extras import require
from jaxenvs.core.files import replacing
from jaxenvs.core.masking import is_masked

from ..core import value_scales
from ..core.policy import Policy
from ..registry import ALGORITHMS
from ..storage.runs import Run, RunError, load_policy

SUMMARY = """\
Write a run's policy as files for programs without jaxenvs: a jax.export artefact that contains the
weights, and the weights as safetensors. Its value output is in units of the environment's
reward."""
EXAMPLES = ("export runs/doorkey", "export runs/doorkey --seed 2 --out doorkey-policy")
PLATFORMS = ("cpu", "cuda", "tpu")
MOST_SEEDS = 2**31 - 1


def main(argv: list[str]) -> int:
    """Run the command; return the exit code."""
    return guarded("export", _run, argv)


def _run(argv: list[str]) -> int:
    made = Parser("jaxenvs export", SUMMARY, EXAMPLES)
    made.add_argument("run", metavar="RUN", help="folder that `jaxenvs train` wrote")
    made.add_argument(
        "--seed",
        type=number(0, MOST_SEEDS),
        default=0,
        metavar="N",
        help="which of the run's trained seeds (default 0)",
    )
    made.add_best()
    made.add_argument("--out", metavar="DIR", help="folder to write (default: RUN/export)")
    args = made.parse_args(argv)
    require(["flatbuffers", "safetensors"], "export")
    try:
        policy = load_policy(args.run, args.seed, args.best, simulations=0)
        folder = Path(args.out or Path(args.run) / "export")
        write(policy, Run.open(args.run), folder)
    except RunError as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        raise unwritable(error) from error
    print(f"wrote {', '.join(str(folder / name) for name in FILES)}")
    if (row := ALGORITHMS[Run.open(args.run).config.algorithm]).searches:
        print(f"The program contains only the network, not the search of {row.name}.")
    return 0


FILES = ("policy.jax", "weights.safetensors", "policy.json")


def write(policy: Policy, run: Run, folder: Path) -> None:
    """Write the exported policy, the files named in `FILES`, into a folder."""
    from safetensors.numpy import save

    folder.mkdir(parents=True, exist_ok=True)
    contents = {
        "policy.jax": program(policy),
        "weights.safetensors": save(named(policy.weights)),
        "policy.json": (json.dumps(described(policy, run), indent=2) + "\n").encode(),
    }
    for name, content in contents.items():
        with replacing(folder / name) as temporary:
            temporary.write_bytes(content)


def program(policy: Policy) -> bytes:
    """Return the policy's program as bytes, for batches of any size on all `PLATFORMS`."""
    from jax import export

    (batch,) = export.symbolic_shape("batch")

    def rows(leaf: Any) -> Any:
        return jax.ShapeDtypeStruct((batch, *leaf.shape), leaf.dtype)

    env = policy.env
    given = [plain(policy.begin()), jax.eval_shape(env.observe, env.state_shape)]
    if is_masked(env):
        given.append(jax.eval_shape(env.action_mask, env.state_shape))
    exported = export.export(jax.jit(jax.vmap(exportable(policy))), platforms=PLATFORMS)
    return bytes(exported(*jax.tree.map(rows, given)).serialize())


def exportable(policy: Policy) -> Callable[..., Any]:
    """Return the function of one observation that the exported program applies to a batch.

    The function is `policy.think`, which returns the next recurrent state, the logits and the
    value. For a Box action space, means and standard deviations replace the logits.
    """
    actions, first = distributions.of(policy.env.action_space), policy.begin()

    def think(memory: Any, *given: Any) -> Any:
        memory, outputs, value = policy.think(_like(first, memory), *given)
        if isinstance(actions, distributions.TanhGaussian):
            outputs = jnp.concatenate(actions.moments(outputs), axis=-1)
        return plain(memory), outputs, value

    return think


def plain(tree: PyTree[Any]) -> PyTree[Any]:
    """Return a tree of dicts and tuples, which a reader without jaxenvs can unpack.

    A NamedTuple or a dataclass becomes a dict of its fields, and a list becomes a tuple.
    """
    if (names := _names(tree)) is not None:
        return {name: plain(getattr(tree, name)) for name in names}
    if isinstance(tree, dict):
        return {name: plain(part) for name, part in tree.items()}
    return tuple(map(plain, tree)) if isinstance(tree, (list, tuple)) else tree


def _like(tree: PyTree[Any], given: PyTree[Any]) -> PyTree[Any]:
    """Return `given`, a result of `plain`, with the classes of `tree`."""
    if (names := _names(tree)) is not None:
        return type(tree)(**{name: _like(getattr(tree, name), given[name]) for name in names})
    if isinstance(tree, dict):
        return {name: _like(part, given[name]) for name, part in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(_like(*parts) for parts in zip(tree, given, strict=True))
    return given


def _names(tree: Any) -> tuple[str, ...] | None:
    """Return the names of the fields of a NamedTuple or a dataclass; None for another value."""
    if dataclasses.is_dataclass(tree):
        return tuple(field.name for field in dataclasses.fields(tree))
    return getattr(tree, "_fields", None)


def distribution(space: spaces.Space) -> dict[str, Any]:
    """Describe, for policy.json, the action distribution that the program's outputs parametrise."""
    if isinstance(space, spaces.Discrete):
        return {"kind": "categorical", "logits": space.n}
    if isinstance(space, spaces.MultiDiscrete):
        return {"kind": "categorical, one after another", "logits": space.nvec.ravel().tolist()}
    assert isinstance(space, spaces.Box)
    return {
        "kind": "Gaussian before tanh: means, then standard deviations",
        "action": "low + (high - low) * (tanh(mean + deviation * normal) + 1) / 2",
        "shape": list(space.shape),
        "low": space.low.ravel().tolist(),
        "high": space.high.ravel().tolist(),
    }


def value(policy: Policy) -> dict[str, Any] | None:
    """Return a description of the program's value output: its unit and its scaling.

    The value is the network's output, scaled by `factor` and shifted by `offset`. Both are null for
    runs of older versions of jaxenvs that did not save them. The description is None if the network
    has no value; the output is then NaN.
    """
    if np.isnan(_first_value(policy)):
        return None
    offset, factor = (
        None if math.isnan(x) else x for x in value_scales.offset_and_factor(policy.weights)
    )
    return {
        "unit": "discounted return in units of the environment's reward",
        "of_network": {"offset": offset, "factor": factor},
    }


def _first_value(policy: Policy) -> Array:
    """Return the value of an observation of zeros."""
    env = policy.env
    shapes = [jax.eval_shape(env.observe, env.state_shape)]
    shapes += [jax.eval_shape(env.action_mask, env.state_shape)] if is_masked(env) else []
    zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    return jax.jit(policy.think)(policy.begin(), *zeros)[2]


def named(weights: PyTree[Array]) -> dict[str, np.ndarray]:
    """Return the arrays of a tree by name: the keys of the array's path, joined by dots."""
    leaves = jax.tree_util.tree_leaves_with_path(weights)
    paths = (jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in leaves)
    return {path: np.array(leaf, order="C") for path, (_, leaf) in zip(paths, leaves, strict=True)}


def described(policy: Policy, run: Run) -> dict[str, Any]:
    """Return the content of policy.json, which documents the program's inputs and outputs."""

    def shown(tree: PyTree[Any]) -> Any:
        return jax.tree.map(
            lambda leaf: {"shape": list(leaf.shape), "dtype": str(leaf.dtype)}, tree
        )

    env = policy.env
    begin = jax.tree.map(jnp.asarray, plain(policy.begin()))
    return {
        "id": policy.env_id,
        "fields": run.config.fields,
        "params": run.config.params,
        "algorithm": run.config.algorithm,
        "search": False,  # no search: the program contains only the network
        "obs": shown(jax.eval_shape(env.observe, env.state_shape)),
        "memory": shown(begin),
        "first_memory": jax.tree.map(lambda leaf: leaf.tolist(), begin),
        "mask": is_masked(env),
        "actions": list(env.action_names),
        "distribution": distribution(env.action_space),
        "value": value(policy),
        "platforms": list(PLATFORMS),
        "versions": run.config.versions,
    }
