"""`jaxenvs list` and `jaxenvs info ID`: what is registered, and what an environment is."""

import argparse
import dataclasses
import inspect
import sys
from typing import Any

import jax
import numpy as np

from .core import registry
from .core.env import Env
from .core.registry import EnvSpec, UnknownIdError


def main(argv: list[str]) -> int:
    """Run `list` or `info` (the first word of `argv`); return the exit code."""
    parser = argparse.ArgumentParser(prog="jaxenvs", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list", help="ids that are registered")
    listing.add_argument("family", nargs="?", help="only this family, such as Grid")
    info = commands.add_parser("info", help="rules, spaces and settings of an id")
    info.add_argument("id", help="such as Grid-DoorKey-8x8-v0")
    options = parser.parse_args(argv)
    try:
        lines = _list(options.family) if options.command == "list" else _info(options.id)
    except (UnknownIdError, ValueError) as error:
        print(f"jaxenvs {options.command}: {error}", file=sys.stderr)
        return 2
    print("\n".join(lines))
    return 0


def _list(family: str | None) -> list[str]:
    specs = [registry.spec(id) for id in registry.list(family)]
    width = max(len(spec.id) for spec in specs)
    return [f"{spec.id:<{width}}  {spec.summary}" for spec in specs]


def _info(id: str) -> list[str]:
    spec = registry.spec(id)
    env = spec.make()
    params = {
        f.name: getattr(env.default_params, f.name) for f in dataclasses.fields(env.default_params)
    }
    rows = {
        "id": spec.id,
        "aliases": ", ".join(spec.aliases) or "none",
        "actions": env.action_space,
        "observation": env.observation_space,
        "reward range": f"{env.reward_range[0]:g} to {env.reward_range[1]:g}",
        "reset source": spec.reset_source,
    }
    if spec.achievements:
        rows["achievements"] = ", ".join(spec.achievements)
    state = jax.tree_util.tree_flatten_with_path(env.state_shape)[0]
    size = sum(leaf.size * leaf.dtype.itemsize for _, leaf in state)
    return [
        inspect.cleandoc(env.__class__.__doc__ or ""),
        "",
        *(f"{name + ':':<14}{value}" for name, value in rows.items()),
        "",
        "constructor fields (make keywords):",
        *(f"  {f.name} = {getattr(env, f.name)!r}" for f in dataclasses.fields(env)),  # type: ignore[arg-type]
        "params (numbers, may be batched):",
        *(f"  {name} = {_shown(value)}" for name, value in params.items()),
        f"state ({size} bytes):",
        *(
            f"  {jax.tree_util.keystr(path)[1:]} {leaf.dtype}{list(leaf.shape)}"
            for path, leaf in state
        ),
        *_general(spec),
    ]


def _shown(value: Any) -> str:
    """A number as it is, arrays by their shapes."""
    leaves = jax.tree.leaves(value)
    if all(np.ndim(leaf) == 0 for leaf in leaves):
        return str(value)
    return ", ".join(f"{np.asarray(leaf).dtype}{list(np.shape(leaf))}" for leaf in leaves)


def _general(spec: EnvSpec) -> list[str]:
    """Docstrings of the engine below the family, where actions and observations are explained."""
    engine = [c for c in spec.env_class.__mro__[1:] if issubclass(c, Env) and c is not Env]
    texts = [inspect.cleandoc(c.__doc__ or "") for c in engine]
    return [line for text in texts if "Actions:" in text for line in ("", text)]
