"""Settings tuned per environment: rows of what differs from the defaults of `ppo.Settings`.

Where an id has several rows, later rows override earlier ones. Figures: baselines/README.md.
"""

import re
from typing import Any, NamedTuple


class Preset(NamedTuple):
    """One row."""

    ids: str  # regular expression, matched against the whole id
    settings: dict[str, Any]  # fields of ppo.Settings


PRESETS = (Preset(r"Grid-DoorKey-5x5-v\d+", {}),)


def preset(id: str) -> dict[str, Any]:
    """Return the tuned settings for a registered id (not an alias); an unknown id has none."""
    chosen: dict[str, Any] = {}
    for row in PRESETS:
        if re.fullmatch(row.ids, id):
            chosen |= row.settings
    return chosen
