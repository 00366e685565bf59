"""Batches whose results another package may keep, and change in place, without copies.

JAX assumes that an array never changes, but the tensor of another package can share its memory and
change it. Every array that an `ExportedBatch` returns therefore has its own buffer: the buffer is
not part of the state and is not donated, and no later call reads or overwrites it. This module
needs no package but JAX.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PyTree, UInt32

from ..core import checks
from ..core.env import Env
from ..core.masking import has_illegal
from ..core.random import Key
from ..core.vector import VectorEnv, VectorState, make_vec
from . import common

# Entry of `info` with the mask of legal actions, present if an action can be illegal.
MASK = "action_mask"
MOST_SEED = 2**32 - 1


class Carry(NamedTuple):
    """Data that one call of a batch passes to its next call.

    The jitted functions `step` and `reset_rows` donate the buffers of the data.
    """

    key: UInt32[Array, " words"]  # data of the key that the seed determines
    # Number of calls since the seed was set; it is folded into the key of the next call.
    number: UInt32[Array, ""]
    state: VectorState | None  # state of the batch; None before the first reset


class ExportedBatch(common.Adapter):
    """A batch on one device, stepped by one compiled call; base class of `TorchVectorEnv`."""

    def __init__(
        self,
        env: Env | str,
        num_envs: int,
        *,
        where: str,
        device: Any,
        autoreset: str = "same_step",
        params: Any = None,
        reset_source: str | None = None,
        **fields: Any,
    ) -> None:
        """Check and store the arguments of `to_torch_vec`; `where` begins error messages."""
        self.jaxenv = common.environment(env, fields, where)
        self.venv = make_vec(self.jaxenv, num_envs, autoreset=autoreset, reset_source=reset_source)
        self.num_envs = num_envs
        self.params = common.host_params(self.jaxenv, params, where, self.venv)
        self._place = (device.platform, device.id)  # a `jax.Device` itself cannot be pickled
        self._carry: Carry | None = None
        self._compile()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickled adapter, and put its arrays back on their device.

        The device is stored separately, because pickled arrays do not contain it.
        """
        super().__setstate__(state)
        if self._carry is not None:
            self._carry, self.params = jax.device_put((self._carry, self.params), self._device)

    @property
    def _device(self) -> Any:
        platform, number = self._place
        return next(one for one in jax.local_devices(backend=platform) if one.id == number)

    def begin(
        self, seed: int | None, rows: Bool[Array | np.ndarray, " num_envs"], is_all: bool
    ) -> tuple[PyTree[Array], dict[str, Any]]:
        """Start an episode in each environment that the mask `rows` selects.

        `is_all` is True if the mask selects all environments. A `seed` restarts the sequence of
        random numbers. If the first call has no `seed`, a seed is drawn. Returns the observations
        of the whole batch and the info.
        """
        if self._carry is None:
            if not is_all:
                raise ValueError("reset: reset all environments once before some of them")
            self.params = jax.device_put(self.params, self._device)
            seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed
        if seed is not None:
            self._seed(seed)
        assert self._carry is not None
        old = self._carry.state
        if is_all and (old is None or seed is not None or not self.jaxenv.carries_over):
            # Without statistics to keep, None: a state as input would compile `reset` once more.
            old = old if self.jaxenv.carries_over else None
            self._carry, results = self._reset(self._carry[:2], rows, self.params, old)
        else:
            self._carry, results = self._reset_rows(self._carry, rows, self.params)
        return results

    def advance(self, action: PyTree) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        """Advance every environment by its action. `action` has the dtypes of the action space.

        Returns observations, rewards, `terminated`, `truncated` and the info of the whole batch.
        Does not wait for the device.
        """
        if self._carry is None:
            raise ValueError("step: no episode has begun; call reset() first")
        self._carry, results = self._step(self._carry, action, self.params)
        return results

    def _seed(self, seed: int) -> None:
        """Set the key of the batch, and set the number that is folded into it to 0."""
        seed = int(seed) if isinstance(seed, np.integer) else seed
        checks.integer_field("reset", "seed", seed, 0, MOST_SEED)
        words = np.asarray(jax.random.key_data(jax.random.key(seed)))
        key, number = jax.device_put((words, np.uint32(0)), self._device)
        self._carry = Carry(key, number, None if self._carry is None else self._carry.state)

    def _compile(self) -> None:
        self._reset, self._reset_rows, self._step = compiled(self.venv)


@functools.lru_cache(maxsize=64)
def compiled(venv: VectorEnv) -> tuple[Any, Any, Any]:
    """Return jitted `reset`, `reset_rows` and `step`, which all equal batches share.

    Each function returns a `Carry` and results in separate buffers.
    """

    def info_of(info: dict[str, Any], state: VectorState, params: Any) -> dict[str, Any]:
        if has_illegal(venv.env):
            return {**info, MASK: venv.action_mask(state, params)}
        return info

    def reset(
        named: tuple[Array, Array], rows: Array, params: Any, old: VectorState | None
    ) -> tuple[Carry, Any]:
        key = _folded(*named)
        begun = venv.reset(key, params) if old is None else venv.reset_again(key, old, params)
        obs, state = begun
        return separate(_next(*named, state), (obs, info_of({}, state, params)))

    def reset_rows(carry: Carry, rows: Array, params: Any) -> tuple[Carry, Any]:
        key = _folded(carry.key, carry.number)
        assert carry.state is not None
        obs, state = venv.reset_rows(key, carry.state, rows, params)
        return separate(_next(*carry[:2], state), (obs, info_of({}, state, params)))

    def step(carry: Carry, action: Any, params: Any) -> tuple[Carry, Any]:
        assert carry.state is not None
        key = _folded(carry.key, carry.number)
        obs, state, *ends, info = venv.step(key, carry.state, action, params)
        return separate(_next(*carry[:2], state), (obs, *ends, info_of(info, state, params)))

    # `keep_unused` keeps `rows` and `action` as inputs even if the function does not read them. A
    # GPU starts a call only when all work on its inputs that PyTorch queued has finished. Without
    # these inputs, the call could overwrite memory that PyTorch's queued work still reads.
    donating = functools.partial(jax.jit, donate_argnums=0, keep_unused=True)
    return jax.jit(reset, keep_unused=True), donating(reset_rows), donating(step)


def separate(*parts: PyTree[Array]) -> tuple[PyTree[Array], ...]:
    """Return copies of `parts`, in which each leaf is a separate buffer.

    Without the copies, JAX may let two arrays share memory: the state and the results of a step, or
    the state and an action that it stores. Under `jax.disable_jit`, a function may even return one
    of its inputs. XLA removes the copies that a compiled program does not need.
    """
    return jax.tree.map(jnp.copy, parts)


def _folded(key: Array, number: Array) -> Key:
    """Return the key for one call: `key` with `number` folded in."""
    return jax.random.fold_in(jax.random.wrap_key_data(key), number)


def _next(key: Array, number: Array, state: VectorState) -> Carry:
    return Carry(key, number + jnp.uint32(1), state)
