"""Optimisers, learning-rate schedules, and gradient steps on shuffled minibatches of a rollout."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Int32, PyTree

from jaxenvs.core.platforms import by_platform
from jaxenvs.core.random import shuffled

from .learner import Learner

Loss = tuple[Array, dict[str, Any]]  # the loss, and a dict of its components, for the log


def optimiser(
    settings: Any, every: int = 1, stacked: bool | str = False
) -> optax.GradientTransformation:
    """Return the optimiser that `settings` choose, with gradient clipping by global norm before it.

    `every` is the number of the learner's gradient steps per step of this optimiser. It is above 1,
    for example, if SAC trains the actor less often than the critics. The learning-rate schedule
    computes the progress of the run from `every` and the optimiser's step count. With `stacked`,
    the weights of several networks are stacked along a first axis, so Muon treats arrays with three
    axes as stacks of matrices. If `stacked` is a name, only the entry of this name is stacked.
    Weight decay applies only to the weights that `decaying` selects.

    Muon (Jordan, 2024) orthogonalises the Nesterov momentum of each matrix by five Newton-Schulz
    steps, and multiplies it by sqrt(max(1, outputs / inputs)). Adam updates all other weights; its
    learning rate is multiplied by the setting `vector_rate`.
    """
    rate, decay = learning_rate(settings, every), settings.weight_decay
    given = getattr(settings, "momentum", None)
    momentum, beta = (0.9, 0.95) if given is None else (given, given)
    share = getattr(settings, "vector_rate", 1.0)
    name = stacked if isinstance(stacked, str) else ""
    matrices = functools.partial(_matrices, name=name) if stacked else None
    chosen = {
        "adam": lambda: optax.adam(rate, b1=momentum, eps=1e-5),
        "adamw": lambda: adamw(rate, decay, momentum, eps=1e-5),
        "radam": lambda: optax.radam(rate, b1=momentum),
        "muon": lambda: optax.contrib.muon(
            rate,
            beta=beta,
            weight_decay=decay,
            weight_decay_mask=decaying,
            adam_b1=momentum,
            adam_learning_rate=rate if share == 1.0 else lambda steps: share * rate(steps),
            muon_weight_dimension_numbers=matrices,
        ),
    }[settings.optimiser]()
    return optax.chain(optax.clip_by_global_norm(settings.max_grad_norm), chosen)


def adamw(
    rate: Any, decay: Any, momentum: float = 0.9, eps: float = 1e-8
) -> optax.GradientTransformation:
    """Return optax's AdamW, whose weight decay applies only to weights that `decaying` selects."""
    return optax.adamw(rate, b1=momentum, eps=eps, weight_decay=decay, mask=decaying)


def decaying(weights: PyTree[Array]) -> PyTree[bool]:
    """Return a tree of bools: True for kernels, the only weights to which weight decay applies.

    Biases, normalisation scales, embeddings, noise scales and scalars such as SAC's temperature do
    not decay.
    """

    def is_kernel(path: Any, _: Array) -> bool:
        return bool(path) and getattr(path[-1], "key", None) == "kernel"

    return jax.tree_util.tree_map_with_path(is_kernel, weights)


def _matrices(weights: PyTree[Array], name: str = "") -> PyTree[Any]:
    """Return the axes of the matrices that Muon orthogonalises, for `optax.contrib.muon`.

    In the entry `name` (if "": in all entries), the weights of several networks are stacked along
    axis 0, so a matrix has axes 1 and 2.
    """

    def axes(path: Any, leaf: Array) -> optax.contrib.MuonDimensionNumbers | None:
        first = int(not name or path[0].key == name)
        of_one = optax.contrib.MuonDimensionNumbers(first, first + 1)
        return of_one if leaf.ndim == first + 2 else None

    return jax.tree_util.tree_map_with_path(axes, weights)


def learning_rate(settings: Any, every: int = 1) -> Callable[[Any], Array]:
    """Return the learning-rate schedule, a function of the optimiser's step count.

    `every` is the number of the learner's gradient steps per step of the optimiser. If the setting
    `anneal` is on, the rate falls to zero with the progress of the run: linearly, or as the half
    cosine (1 + cos(pi * progress)) / 2.
    """
    cosine = getattr(settings, "schedule", "linear") == "cosine"

    def schedule(steps: Any) -> Array:
        done = settings.progress(settings.updates_of(steps, every), settings.rate_since)
        left = 0.5 * (1.0 + jnp.cos(np.pi * done)) if cosine else 1.0 - done
        return settings.learning_rate * (left if settings.anneal else jnp.ones_like(done))

    return schedule


def step_count(optimiser: Any) -> Int32[Array, ""]:
    """Return the number of steps taken, from the state `optimiser` of an optax optimiser.

    It is the counter of the learning-rate schedule, which `restarted` keeps.
    """
    return optax.tree_utils.tree_get_all_with_path(optimiser, "count", _is_of_schedule)[0][1]


def restarted(optimiser: Any, initial: Any) -> Any:
    """Return the state `initial` of an optimiser, with the schedule's counter of `optimiser`."""
    return optax.tree_utils.tree_set(initial, _is_of_schedule, count=step_count(optimiser))


def _is_of_schedule(path: Any, _: Any) -> bool:
    """Return whether a leaf of an optimiser's state belongs to the learning-rate schedule."""
    return getattr(path[-1], "tuple_name", "") == optax.ScaleByScheduleState.__name__


def with_step_count(optimiser: Any, count: Array) -> Any:
    """Return the optax state `optimiser` with all its step counters set to `count`."""
    return optax.tree_utils.tree_set(optimiser, count=count)


def as_steps(batch: PyTree[Array]) -> PyTree[Array]:
    """Flatten a rollout's arrays from (steps, envs, ...) to (steps * envs, ...).

    The first axis then indexes single steps, which are shuffled into minibatches.
    """
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), batch)


def as_sequences(batch: PyTree[Array]) -> PyTree[Array]:
    """Transpose a rollout's arrays from (steps, envs, ...) to (envs, steps, ...).

    The first axis then indexes whole sequences, which are shuffled into minibatches.
    """
    return jax.tree.map(lambda leaf: leaf.swapaxes(0, 1), batch)


def shuffled_items(
    settings: Any, batch: PyTree[Array], key: Array
) -> Int32[Array, "minibatches items"]:
    """Return the indices of the items of each minibatch, for all epochs.

    Every epoch contains each item once, in a new random order.
    """
    count = len(jax.tree.leaves(batch)[0])
    keys = jax.random.split(key, settings.epochs)
    orders = jax.vmap(lambda key: shuffled(key, count))(keys)
    return orders.reshape(settings.epochs * settings.minibatches, -1)


def descend(
    learner: Learner[Any],
    loss: Callable[..., Any],
    runner: Any,
    batch: tuple[Any, ...],
    orders: Int32[Array, "minibatches items"],
    scales: tuple[Array, ...] = (),
) -> tuple[Any, dict[str, Array]]:
    """Take a gradient step on each minibatch; return the runner and the mean losses.

    `orders` has the indices of each minibatch's items. `loss` is a loss function, see `gradients`.
    `scales` are arrays with one entry per minibatch; `loss` gets the entries of its minibatch as
    last arguments.
    """
    settings, (weights, fixed) = learner.settings, split_weights(runner.weights)
    chain = optimiser(settings)
    given = (weights, runner.optimiser, batch, orders, scales)

    def of_all(learner: Learner[Any], weights: PyTree, *given: Any) -> Any:
        return loss(learner, {**weights, **fixed}, *given)

    def in_parts(weights: PyTree, state: PyTree, *given: Any) -> Any:
        step = functools.partial(gradients, learner, of_all)
        return _scan_minibatches(chain, step, weights, state, *given)

    def in_one(weights: PyTree, state: PyTree, *given: Any) -> Any:
        vector, rebuilt = ravel_pytree(weights)

        def step(weights: Array, *minibatch: Any) -> tuple[Array, dict[str, Array]]:
            gradient, losses = gradients(learner, of_all, rebuilt(weights), *minibatch)
            return ravel_pytree(gradient)[0], losses

        like = jax.tree.structure(weights)
        joined = _map_like(like, lambda part: ravel_pytree(part)[0], state, state)
        vector, joined, losses = _scan_minibatches(chain, step, vector, joined, *given)
        return rebuilt(vector), _map_like(like, rebuilt, state, joined), losses

    # On an accelerator, all weights are concatenated into one vector, because an optimiser step
    # then launches few kernels, instead of a few per array. On a CPU, concatenation does not help.
    # AdamW and Muon need separate arrays, because they treat matrices and biases differently.
    by_array = settings.optimiser in ("adamw", "muon")
    default = in_parts if by_array else in_one
    weights, state, losses = by_platform(*given, cpu=in_parts, default=default)
    return runner._replace(weights={**weights, **fixed}, optimiser=state), losses


def split_weights(weights: PyTree[Array]) -> tuple[PyTree[Array], PyTree[Array]]:
    """Split a network's weights into the trainable collection "params" and all other entries.

    The other entries, such as running statistics, get no gradients.
    """
    return {"params": weights["params"]}, {k: v for k, v in weights.items() if k != "params"}


def _scan_minibatches(
    chain: optax.GradientTransformation,
    gradient: Callable[..., tuple[PyTree, dict[str, Array]]],
    weights: PyTree,
    state: PyTree,
    batch: tuple[Any, ...],
    orders: Int32[Array, "minibatches items"],
    scales: tuple[Array, ...],
) -> tuple[PyTree, PyTree, dict[str, Array]]:
    """Take a gradient step per minibatch; return weights, optimiser state and mean losses.

    Each iteration of the scan gets the optimiser's step count as an input. If the iterations
    incremented a count in the carry instead, a GPU would launch two more kernels per gradient step.
    """
    before = step_count(state)
    counts = before + jnp.arange(len(orders), dtype=before.dtype)

    def step(carry: Any, chosen: Any) -> tuple[Any, Array]:
        weights, state = carry
        order, scale, count = chosen
        state = with_step_count(state, count)
        minibatch = jax.tree.map(lambda leaf: take(leaf, order), batch)
        direction, losses = gradient(weights, *minibatch, *scale)
        names[:] = losses
        losses = jnp.stack([*losses.values()]) if losses else jnp.zeros(0)
        weights, state = apply_gradient(chain, direction, state, weights)
        return (weights, with_step_count(state, before)), losses

    names: list[str] = []
    (weights, state), losses = jax.lax.scan(step, (weights, state), (orders, scales, counts))
    state = with_step_count(state, before + len(orders))
    return weights, state, dict(zip(names, losses.mean(axis=0), strict=True))


def take(leaf: Array, order: Int32[Array, "*items"]) -> Array:
    """Return `leaf[order]`, without the check for indices out of bounds that XLA would add."""
    return leaf.at[order].get(mode="promise_in_bounds", wrap_negative_indices=False)


def _map_like(like: Any, change: Callable[[Any], Any], old: PyTree, tree: PyTree) -> PyTree:
    """Apply `change` to those subtrees of an optimiser state that have one value per weight.

    Examples are Adam's moments; all other leaves are returned unchanged. In the state `tree`, each
    of these subtrees may have been concatenated into one vector. They are therefore located in
    `old`, the state before concatenation, where each has the same tree structure as the weights,
    `like`.
    """

    def is_like(part: Any) -> bool:
        return jax.tree.structure(part) == like

    def changed(before: Any, part: Any) -> Any:
        return change(part) if is_like(before) else part

    return jax.tree.map(changed, old, tree, is_leaf=is_like)


def gradients(
    learner: Learner[Any], loss: Callable[..., Any], weights: PyTree[Array], *given: Any
) -> tuple[PyTree[Array], dict[str, Any]]:
    """Return the gradient of a loss, averaged over the devices, and the loss's components.

    `loss(learner, weights, *given)` returns the loss and a dict of its components, for the log. The
    components are this device's: they are not averaged over the devices.
    """
    gradient, losses = jax.grad(functools.partial(loss, learner), has_aux=True)(weights, *given)
    return learner.devices.mean(gradient), losses


def apply_gradient(
    optimiser: optax.GradientTransformation, gradient: PyTree, state: PyTree, weights: PyTree
) -> tuple[PyTree[Array], PyTree[Array]]:
    """Take one optimiser step; return the new weights and optimiser state."""
    # optax mixes dtypes. JAX would reject this if the user has set the option
    # `jax_numpy_dtype_promotion` to "strict".
    with jax.numpy_dtype_promotion("standard"):
        change, state = optimiser.update(gradient, state, weights)
    return optax.apply_updates(weights, change), state
