"""Files of states: the arrays of a state as `.npz`, without pickles."""

import json
import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ..core.env import Env
from ..core.extras import version
from ..core.files import replacing
from .files import id_of

ABOUT = "about"  # name of the array that holds the result of `_about` as JSON text
LARGEST = 2**34  # maximum total size of the arrays of a file, in bytes
KEY = "key:"  # prefix of the names of arrays that are random keys


def save_state(path: str | os.PathLike[str], env: Env, state: PyTree[Any]) -> None:
    """Write a state to a `.npz` file, with the properties of `env` that `load_state` compares.

    The state may have a batch axis. Each array has the path of its leaf as its name.
    """
    arrays = {}
    for where, leaf in jax.tree_util.tree_leaves_with_path(state):
        name = jax.tree_util.keystr(where)
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            arrays[KEY + name] = np.asarray(jax.random.key_data(leaf))
        else:
            arrays[name] = np.asarray(leaf)
    arrays[ABOUT] = np.array(json.dumps(_about(env)))
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)


def load_state(path: str | os.PathLike[str], env: Env) -> PyTree[Any]:
    """Return the state of `env` that `save_state` wrote.

    Raises `ValueError` for a damaged file. Also raises it if the state is from an environment of
    another class or with other fields, from another version of jaxenvs, or if it has another type
    of random keys; the message names the difference.
    """
    try:
        arrays = _arrays(path)
        about = json.loads(str(arrays.pop(ABOUT)))
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file") from None
    except Exception as error:  # damaged files raise errors of many types in NumPy
        raise ValueError(f"{path} is no file of save_state ({error})") from None
    for name, mine in _about(env).items():
        if not isinstance(about, dict) or about.get(name) != mine:
            theirs = about.get(name) if isinstance(about, dict) else about
            raise ValueError(
                f"{path} has {name} {theirs!r}, here it is {mine!r}; load it with the same "
                "environment and version"
            )
    return _state(path, env, arrays)


def _arrays(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Return the arrays of a `.npz` file; raise if they are larger than `LARGEST` in memory."""
    with np.load(path, allow_pickle=False) as file:
        size = sum(part.file_size for part in file.zip.infolist())
        if size > LARGEST:
            raise ValueError(f"its arrays have {size:,} bytes, more than {LARGEST:,}")
        return {name: file[name] for name in file.files}


def _state(path: Any, env: Env, arrays: dict[str, np.ndarray]) -> PyTree[Any]:
    """Return the arrays as a state; raise `ValueError` if they do not fit `env`."""
    wanted, structure = jax.tree_util.tree_flatten_with_path(env.state_shape)
    leaves, batches = [], set()
    for where, like in wanted:
        name = jax.tree_util.keystr(where)
        is_key = jnp.issubdtype(like.dtype, jax.dtypes.prng_key)
        given = arrays.pop(KEY + name if is_key else name, None)
        if given is None:
            raise ValueError(f"{path} lacks the array state{name}; save the state again")
        leaf = jax.random.wrap_key_data(jnp.asarray(given)) if is_key else jnp.asarray(given)
        batch = leaf.shape[: leaf.ndim - len(like.shape)]
        if (*batch, *like.shape) != leaf.shape or leaf.dtype != like.dtype:
            raise ValueError(
                f"{path}: state{name} is {leaf.dtype}{list(leaf.shape)}, this environment needs "
                f"{like.dtype}{list(like.shape)}"
            )
        batches.add(batch)
        leaves.append(leaf)
    if arrays or len(batches) > 1:
        raise ValueError(f"{path} has other arrays than a state of {env.name}; save it again")
    return jax.tree.unflatten(structure, leaves)


def _about(env: Env) -> dict[str, str]:
    """Return the properties that must be the same when a state is saved and when it is loaded."""
    key_type = str(jax.random.key_impl(jax.random.key(0)))
    return {
        "id": id_of(env)[0],
        "environment": env.name,
        "version": version("jaxenvs"),
        "key type": key_type,
    }
