"""Training on several devices: all run the same program, each on part of the environments (SPMD).

Weights, optimiser state and random keys are replicated. They stay equal, because every device
applies the same averaged gradients. Environments and their data are divided among the devices. With
a single device, the methods below return their arguments and add nothing to the program.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float32, Int32, PyTree, Shaped

from jaxenvs import Env, VectorEnv, make_vec
from jaxenvs.core.vector import usual_source

DEVICES = "devices"  # name of the mesh's only axis
EVERYWHERE = PartitionSpec()  # sharding of replicated arrays
# Sharding of arrays (seeds, envs, ...) whose environment axis is divided among the devices.
DIVIDED = PartitionSpec(None, DEVICES)
# Number of levels that the reset source `pool` generates in advance, over all devices together.
POOL = 4096


@dataclasses.dataclass(frozen=True)
class Devices:
    """The devices of a run: their number, over all processes, and operations between devices."""

    count: int = 1

    @classmethod
    def chosen(cls, text: str) -> "Devices":
        """Return the devices that the value `text` of `--devices` selects: a number, or `all`.

        Raises `ValueError` if `text` is neither, or if fewer devices exist. A run of several
        processes must use all devices; `ValueError` is raised if `text` selects fewer.
        """
        there = jax.device_count()
        if text == "all":
            return cls(there)
        if not text.isdecimal() or not int(text):
            raise ValueError(f"--devices {text}: give a number from 1 to {there}, or all")
        if int(text) > there:
            raise ValueError(
                f"--devices {text}: there {'is' if there == 1 else 'are'} {there} "
                f"({jax.default_backend()}); give at most that, or all. CPU devices can be "
                f"simulated: XLA_FLAGS=--xla_force_host_platform_device_count={text}"
            )
        if jax.process_count() > 1 and int(text) != there:
            raise ValueError(
                f"--devices {text}: {jax.process_count()} processes have {there} devices together "
                f"and use all of them; give --devices all"
            )
        return cls(int(text))

    def batch(self, env: Env, num_envs: int, reset_source: str | None) -> VectorEnv:
        """Return the vectorised environments of one device, an equal part of all `num_envs`.

        Each device generates levels for its own environments. With a pool of levels, each device
        has an equal part of the pool. Raises `ValueError` if the environments or the pool do not
        divide evenly.
        """
        source = usual_source(env) if reset_source is None else reset_source
        if num_envs % self.count:
            near = max(num_envs // self.count, 1) * self.count
            raise ValueError(
                f"num_envs={num_envs} does not divide evenly among {self.count} devices; "
                f"try --num-envs {near}, or another --devices"
            )
        if source == "pool" and POOL % self.count:
            raise ValueError(
                f"a pool of {POOL} levels does not divide evenly among {self.count} devices; give "
                f"--devices a power of two, or --reset-source exact"
            )
        share = num_envs // self.count
        return make_vec(env, share, reset_source=source, pool_size=POOL // self.count)

    # The following methods are called inside the compiled program.

    def local_key(self, key: Array) -> Array:
        """Return a random key that differs between devices, derived from a replicated `key`."""
        return key if self.count == 1 else jax.random.fold_in(key, jax.lax.axis_index(DEVICES))

    @property
    def index(self) -> Any:
        """Index of the device that runs this code, from 0; a traced value on several devices."""
        return 0 if self.count == 1 else jax.lax.axis_index(DEVICES)

    def first_key(self, key: Array) -> Array:
        """Return device 0's `key` on all devices, so that they draw the same random numbers."""
        if self.count == 1:
            return key
        return jax.random.wrap_key_data(self.all_gather(jax.random.key_data(key)[None])[0])

    def all_gather(self, array: Shaped[Array, "rows ..."]) -> Shaped[Array, "all ..."]:
        """Concatenate the arrays of all devices along the first axis, in the order of devices."""
        return array if self.count == 1 else jax.lax.all_gather(array, DEVICES, tiled=True)

    def distribute(self, tree: PyTree[Array], source: Int32[Array, " all"]) -> PyTree[Array]:
        """Return this device's equal part of a batch: device 0 gets the first items, and so on.

        Before the call, each device has arrays for the whole batch, in which only some items are
        valid. Item i is valid on device `source[i]`, and is copied from there.
        """
        if self.count == 1:
            return tree
        share = len(source) // self.count
        row = jnp.arange(share, dtype=jnp.int32)
        source = jax.lax.dynamic_slice_in_dim(source, self.index * share, share)

        def deal(leaf: Array) -> Array:
            hands = leaf.reshape(self.count, share, *leaf.shape[1:])
            return jax.lax.all_to_all(hands, DEVICES, 0, 0)[source, row]

        return jax.tree.map(deal, tree)

    def mean(self, tree: PyTree[Array]) -> PyTree[Array]:
        """Average float arrays over the devices, in one all-reduce for the whole tree."""
        if self.count == 1:
            return tree
        values, rebuild = ravel_pytree(tree)
        return rebuild(jax.lax.pmean(values, DEVICES))

    def total(self, tree: PyTree[Array]) -> PyTree[Array]:
        """Sum arrays elementwise over the devices."""
        return tree if self.count == 1 else jax.lax.psum(tree, DEVICES)

    def maximum(self, tree: PyTree[Array]) -> PyTree[Array]:
        """Take the elementwise maximum of arrays over the devices."""
        return tree if self.count == 1 else jax.lax.pmax(tree, DEVICES)

    def minimum(self, tree: PyTree[Array]) -> PyTree[Array]:
        """Take the elementwise minimum of arrays over the devices."""
        return tree if self.count == 1 else jax.lax.pmin(tree, DEVICES)

    def moments(
        self,
        values: Float32[Array, "rows *rest"],  # noqa: F821 - a shape that parses as Python
        weights: Float32[Array, "rows *rest"] | None = None,  # noqa: F821
    ) -> tuple[Float32[Array, " rows"], Float32[Array, " rows"]]:
        """Return the mean and variance of each row `values[i]`, over all devices.

        `weights` are weights of the values, 0 or more; None: all values have the same weight. A row
        whose weights are all 0 has mean and variance 0.
        """
        values = values.reshape(len(values), -1)
        if weights is not None:
            weights = weights.reshape(values.shape)
            sums = jnp.stack([weights.mean(axis=1), (weights * values).mean(axis=1)])
            total, weighted = self.mean(sums)
            total = jnp.where(total > 0.0, total, 1.0)
            mean = weighted / total
            squares = weights * jnp.square(values - mean[:, None])
            return mean, self.mean(squares.mean(axis=1)) / total
        here, variance = values.mean(axis=1), values.var(axis=1)
        mean = self.mean(here)
        return mean, self.mean(variance + jnp.square(here - mean))

    # The following methods are called on the host, outside the compiled program.

    @property
    def mesh(self) -> Mesh:
        """One-dimensional mesh of the devices."""
        return Mesh(np.array(jax.devices()[: self.count]), (DEVICES,))

    def program(self, function: Callable[..., Any], in_specs: Any, out_specs: Any) -> Any:
        """Wrap `function` in `shard_map`, so that each device runs it on its part of the arrays."""
        if self.count == 1:
            return function
        # With `check_vma=True`, `jax.grad` would sum the gradients of replicated arrays over the
        # devices. Instead, the method `mean` averages them.
        return jax.shard_map(
            function, mesh=self.mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False
        )

    def place(self, tree: PyTree[np.ndarray], spec: PartitionSpec) -> PyTree[Array]:
        """Copy NumPy arrays from this process to the devices, sharded according to `spec`."""
        if self.count == 1:
            return jax.tree.map(jnp.array, tree)
        sharding = NamedSharding(self.mesh, spec)

        def divided(leaf: np.ndarray) -> Array:
            return jax.make_array_from_callback(leaf.shape, sharding, lambda index: leaf[index])

        return jax.tree.map(divided, tree)

    def fetchable(self, tree: PyTree[Array]) -> PyTree[Array]:
        """Return arrays that this process can read in full; `tree` may be sharded."""
        if jax.process_count() == 1:
            return tree
        everywhere = NamedSharding(self.mesh, EVERYWHERE)
        return jax.device_get(jax.jit(lambda tree: tree, out_shardings=everywhere)(tree))

    def on_one_device(self, tree: PyTree[Array]) -> PyTree[Array]:
        """Copy replicated arrays to a single device of this process."""
        return tree if self.count == 1 else jax.tree.map(jnp.array, jax.device_get(tree))


ALONE = Devices()
