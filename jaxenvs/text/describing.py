"""Descriptions of batches of states in words."""

import inspect
from typing import Any

from ..core import checks, texts
from ..core.env import Env


def describe_batch(
    env: Env, states: Any, detail: str = "full", before: Any = None, params: Any = None
) -> list[str]:
    """Return the description of each state of a batch, equal to `env.describe` of that state.

    `states` is a state whose arrays have a leading axis, as `jax.vmap(env.reset)` returns them.
    `detail` is "full", "short" or "changes". With "changes", the descriptions equal
    `env.describe_changes`, and `before` must be the batch of states before the action. `params` are
    shared by all states. In an environment with `has_text_inputs`, one compiled program reads all
    states; it is compiled once for each batch size. Otherwise, each state is described separately.

    Raises `ValueError` for an unknown detail, for "changes" without `before`, for `before` with
    another detail, and for states that are not a batch.
    """
    _check(detail, before)
    texts.batch_size(states)
    if not env.has_text_inputs:
        rows = texts.rows_of(states)
        if detail == "changes":
            both = texts.pairs(texts.rows_of(before), rows)
            return [env.describe_changes(*pair, params) for pair in both]
        return [described(env, row, detail, params) for row in rows]
    inputs = texts.many_inputs(env, states, params)
    if detail == "changes":
        return env.text_changes(texts.many_inputs(env, before, params), inputs)
    return env.texts(inputs, detail)


def described(env: Env, state: Any, detail: str = "full", params: Any = None) -> str:
    """Return `env.describe` of a state, even if `env.describe` has no argument `detail`.

    Without the argument `detail`, the short description is the first three lines of the full text.
    """
    texts.check_detail("jaxenvs.text", detail)
    if "detail" in inspect.signature(env.describe).parameters:
        return env.describe(state, params, detail)
    text = env.describe(state, params)
    return text if detail == "full" else texts.shortened(text)


def _check(detail: str, before: Any) -> None:
    checks.one_of("describe_batch", "detail", detail, (*texts.DETAILS, "changes"))
    if detail == "changes" and before is None:
        raise ValueError(
            "describe_batch: detail='changes' needs before, the batch of states before the action"
        )
    if detail != "changes" and before is not None:
        raise ValueError(
            f"describe_batch: before was given with detail={detail!r}; it is for detail='changes'"
        )
