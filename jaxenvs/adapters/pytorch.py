"""`to_torch_vec`: a batch of one environment that returns PyTorch tensors on the batch's device.

Results are exchanged by DLPack, without copies. On a GPU, the host does not wait for results. The
batch has the methods of Gymnasium's `VectorEnv`, with two deliberate differences. First, every
entry of `info` covers the whole batch, also entries that only matter for done environments, because
selecting these environments would make the host wait. Second, actions outside the action space are
only detected if `check_actions` is true.
"""

import functools
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from jaxtyping import PyTree

from ..core.env import Env
from ..core.spaces import Box, Dict, Space
from . import common
from .exported import ExportedBatch
from .spaces import as_box, gymnasium_space

WHERE = "to_torch_vec"
# Narrow dtype -> wider dtype that holds all its values. PyTorch has few operations for the narrow
# dtypes.
WIDER = {torch.uint16: torch.int32, torch.uint32: torch.int64}
Tensors = PyTree[torch.Tensor]
# "cuda:0", a `torch.device` or a device of JAX; None is JAX's default device
Device = Any


class TorchVectorEnv(ExportedBatch):
    """Batch with tensors as actions and results, made by `to_torch_vec`."""

    def __init__(
        self,
        env: Env | str,
        num_envs: int,
        *,
        device: Device = None,
        check_actions: bool = False,
        **settings: Any,
    ) -> None:
        """Make the batch from the arguments of `to_torch_vec`."""
        where, self.device = devices(device)
        super().__init__(env, num_envs, where=WHERE, device=where, **settings)
        self.check_actions = check_actions
        # Stored, because the property makes a new space at each access.
        self._action_space = self.jaxenv.action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Tensors, dict[str, Any]]:
        """Start an episode in every environment, or in those that `options["reset_mask"]` selects.

        A `seed` (0 or above) restarts the sequence of random numbers; None continues the sequence.
        Returns the observations of the whole batch, and an info, which has the entry `action_mask`
        if an action can be illegal. Raises `ValueError` for an unknown option and for a mask of the
        wrong shape or dtype.
        """
        for name in options or {}:
            if name != "reset_mask":
                raise ValueError(f"reset: unknown option {name!r}; options here: 'reset_mask'")
        given = self._rows(options["reset_mask"] if options else torch.ones(self.num_envs) > 0)
        if self.device.type == "cuda" and (seed is not None or self._carry is None):
            # JAX will copy the seed to the GPU, perhaps into memory that PyTorch's queued work
            # still reads. The host therefore waits until PyTorch's stream is idle.
            torch.cuda.current_stream(self.device).synchronize()
        return jax.tree.map(tensor, self.begin(seed, array(given), is_all=not options))

    def step(
        self, actions: Any
    ) -> tuple[Tensors, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Advance every environment by its action.

        Returns observations, rewards (float32), `terminated` and `truncated` (bool) and `info`.
        With `autoreset="same_step"`, `info["final_obs"]` has the observation that every environment
        had after the step and before a restart. Raises `TypeError` or `ValueError` for actions of
        the wrong shape or type and, with `check_actions`, for values outside the action space.
        """
        if self.check_actions:
            on_host = jax.tree.map(_numbers, actions)
            common.taken(self._action_space, on_host, self.num_envs, ValueError)
        # The variable `given` keeps the action tensors alive until `tensor` has made PyTorch's
        # stream wait for the step. Without it, PyTorch could reuse the memory of the actions while
        # JAX still reads it.
        given = self._given(self._action_space, actions)
        results = self.advance(jax.tree.map(array, given))
        return jax.tree.map(tensor, results)

    def close(self) -> None:
        """Do nothing; Gymnasium's environments have this method."""

    @functools.cached_property
    def single_observation_space(self) -> Any:
        """Gymnasium's space of one observation (needs gymnasium)."""
        return gymnasium_space(self.jaxenv.observation_space)

    @functools.cached_property
    def single_action_space(self) -> Any:
        """Gymnasium's space of one action (needs gymnasium)."""
        return gymnasium_space(self.jaxenv.action_space)

    @property
    def observation_space(self) -> Any:
        """Gymnasium's space of the observations of the batch (needs gymnasium)."""
        return gymnasium_space(self.venv.observation_space)

    @property
    def action_space(self) -> Any:
        """Gymnasium's space of the actions of the batch (needs gymnasium)."""
        return gymnasium_space(self.venv.action_space)

    def _given(self, space: Space, action: Any) -> Tensors:
        """Return actions as contiguous tensors on the batch's device with the space's dtypes."""
        if isinstance(space, Dict):
            if not isinstance(action, Mapping) or set(action) != set(space.spaces):
                raise ValueError(
                    f"step: the action must be a dict of {sorted(space.spaces)}, got {action}"
                )
            return {name: self._given(part, action[name]) for name, part in space.spaces.items()}
        box = as_box(space)
        given = torch.as_tensor(action, device=self.device).detach()
        shape = (self.num_envs, *box.shape)
        if tuple(given.shape) != shape or not _fits(given, box):
            raise ValueError(
                f"step: needs {self.num_envs} actions of {space}, shape {shape}, got a tensor of "
                f"shape {tuple(given.shape)} and dtype {given.dtype}"
            )
        return given.to(_torch_dtype(box)).contiguous()

    def _rows(self, mask: Any) -> torch.Tensor:
        """Return `options["reset_mask"]` of `reset` as a tensor on the batch's device."""
        rows = torch.as_tensor(mask, device=self.device)
        if rows.dtype != torch.bool or tuple(rows.shape) != (self.num_envs,):
            raise ValueError(
                "reset: options['reset_mask'] must be a tensor or array of bools with shape "
                f"({self.num_envs},), got {mask!r}"
            )
        return rows.contiguous()


def to_torch_vec(
    env: Env | str,
    num_envs: int,
    *,
    device: Device = None,
    autoreset: str = "same_step",
    params: Any = None,
    reset_source: str | None = None,
    check_actions: bool = False,
    **fields: Any,
) -> TorchVectorEnv:
    """Return `num_envs` copies of an environment whose observations are PyTorch tensors.

    `device` is "cpu", "cuda", "cuda:1", a `torch.device` or a device of JAX; None is JAX's default
    device. JAX and PyTorch both run on it. `autoreset` and `reset_source` are explained in
    `VectorEnv`. Leaves of `params` may have a leading axis of `num_envs`. With `check_actions`,
    every action is compared with the action space, and the host waits for the GPU. If `env` is an
    id, `fields` are passed to `jaxenvs.make`.

    The caller may keep the returned tensors and change them in place: no later step reads or
    overwrites their memory, although JAX allocated it. Raises the errors of `make_vec`, and
    `ValueError` for a device that JAX or PyTorch cannot use.
    """
    return TorchVectorEnv(
        env,
        num_envs,
        device=device,
        autoreset=autoreset,
        params=params,
        reset_source=reset_source,
        check_actions=check_actions,
        **fields,
    )


def tensor(result: jax.Array) -> torch.Tensor:
    """Return an array as a tensor in the same memory.

    uint16 and uint32 are copied to int32 and int64. On a GPU, PyTorch's current stream waits for
    the array.
    """
    shared = torch.from_dlpack(result)
    wider = WIDER.get(shared.dtype)
    return shared if wider is None else shared.to(wider)


def array(given: torch.Tensor) -> jax.Array | np.ndarray:
    """Return a contiguous tensor as an array in the same memory, for calls of JAX functions.

    On a GPU, a JAX function waits for PyTorch's current stream before it reads the array.
    """
    # `numpy` takes a hundredth of the time of `jax.dlpack.from_dlpack`, but needs a tensor on a
    # CPU.
    return given.numpy() if given.device.type == "cpu" else jax.dlpack.from_dlpack(given)


def devices(device: Device) -> tuple[Any, torch.device]:
    """Return the JAX device and the PyTorch device that `device` names.

    The PyTorch device of a GPU includes its index, as in `cuda:0`. Raises `ValueError` if JAX or
    PyTorch cannot use the device.
    """
    if device is None:
        found = jax.local_devices()[0]
    elif isinstance(device, jax.Device):
        found = device
    else:
        found = _jax_device(torch.device(device))
    kind = "cuda" if found.platform == "gpu" else found.platform
    named = torch.device("cpu" if kind == "cpu" else f"{kind}:{found.local_hardware_id}")
    if named.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            f"{WHERE}: JAX would use {found}, but this PyTorch {torch.__version__} finds no GPU; "
            'install a PyTorch with CUDA, or give device="cpu"'
        )
    return found, named


def _jax_device(named: torch.device) -> Any:
    """Return the JAX device for a device of PyTorch; raise `ValueError` if JAX has none."""
    index = named.index
    if index is None:
        index = torch.cuda.current_device() if named.type == "cuda" else 0
    backend = "gpu" if named.type == "cuda" else named.type
    try:
        known = jax.local_devices(backend=backend)
    except RuntimeError:  # raised if JAX has no such backend
        known = []
    for found in known:
        if named.type == "cpu" or found.local_hardware_id == index:
            return found
    there = ", ".join(map(str, jax.local_devices()))
    raise ValueError(
        f"{WHERE}: JAX has no device {str(named)!r}, only {there}; for a GPU install jaxenvs[cuda]"
    )


def _fits(given: torch.Tensor, box: Box) -> bool:
    """Return whether tensors of the dtype of `given` can be converted to the dtype of the space."""
    if given.dtype.is_complex:
        return False
    if np.issubdtype(box.dtype, np.integer):
        return not given.dtype.is_floating_point and given.dtype != torch.bool
    if box.dtype == np.bool_:
        return not given.dtype.is_floating_point
    return given.dtype != torch.bool


@functools.cache
def _torch_dtype_of(name: str) -> torch.dtype:
    return getattr(torch, name)


def _torch_dtype(box: Box) -> torch.dtype:
    return _torch_dtype_of(np.dtype(box.dtype).name)


def _numbers(action: Any) -> Any:
    """Return an action on the host; a tensor becomes a NumPy array, as `common.taken` needs."""
    return action.detach().cpu().numpy() if isinstance(action, torch.Tensor) else action
