"""Check that an environment's observations do not show the task, which RL² must infer."""

import dataclasses
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, PyTree


def check_hidden(env: Any) -> None:
    """Raise `ValueError` if the environment's observation shows the task."""
    if not shows_task(env):
        return
    able = [name for name in env.observations if not shows_task(dataclasses.replace(env, obs=name))]
    raise ValueError(
        f"obs={env.obs} shows the task, which rl2 must infer: its evaluation under held-out "
        f"tasks would show them too; give --set obs={' or obs='.join(able)}, or learn "
        f"with ppo-rnn from an observation that shows the task"
    )


def shows_task(env: Any) -> bool:
    """Return whether an environment's observation depends on the ruleset: the goal and the rules.

    JAX traces `observe`, without running it, under a `vmap` over rulesets with `out_axes=None`. The
    trace fails if the output depends on the ruleset.
    """
    params = env.default_params
    batch = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((1, *np.shape(leaf)), np.asarray(leaf).dtype),
        params.ruleset,
    )

    def seen(ruleset: Any, state: Any) -> PyTree[Array]:
        return env.observe(state, params.replace(ruleset=ruleset))

    try:
        jax.eval_shape(jax.vmap(seen, in_axes=(0, None), out_axes=None), batch, env.state_shape)
    except ValueError:
        return True
    return False
