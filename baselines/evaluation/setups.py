"""Setups of training and evaluation, which every evaluation of a Craft policy names."""

import types
from collections.abc import Mapping
from typing import Any

from ..storage.runs import Config


def of(config: Config, given: Mapping[str, Any] = types.MappingProxyType({})) -> dict[str, Any]:
    """Return the entry `setup` of an eval.json; {} if the environment has no setups.

    `given` are the constructor fields that the evaluation replaces, such as `setup`.
    """
    fields = config.env_fields
    if "setup" not in fields:
        return {}
    used = {**fields, **given}["setup"]
    return {"setup": {"trained": fields["setup"], "evaluated": used}}


def as_text(result: dict[str, Any]) -> list[str]:
    """Return a line that names the setups in `result`; [] if it has none."""
    if "setup" not in result:
        return []
    setup = result["setup"]
    return [f"Setup: trained {setup['trained']}, evaluated {setup['evaluated']}."]
