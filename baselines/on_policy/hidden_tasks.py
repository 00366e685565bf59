"""Refusal of observations that show the task which a learner of tasks (RL²) must find out."""

import dataclasses
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, PyTree


def check_hidden(env: Any) -> None:
    """Raise `ValueError` if the observation shows the task, which the agent must find out."""
    if not shows_task(env):
        return
    able = [name for name in env.observations if not shows_task(dataclasses.replace(env, obs=name))]
    raise ValueError(
        f"obs={env.obs} shows the task, and rl2 learns to find it out: its evaluation under "
        f"held-out tasks would show them too; give --set obs={' or obs='.join(able)}, or learn "
        f"with ppo-rnn from an observation that shows the task"
    )


def shows_task(env: Any) -> bool:
    """Return whether an observation depends on the goal or the rules, by tracing as `has_illegal`.

    An output without a batch axis must not depend on the batch: here one of rulesets.
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
