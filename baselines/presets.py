"""Settings tuned per environment: rows of what differs from the defaults of `ppo.Settings`.

Where an id has several rows, later rows override earlier ones. Figures: baselines/README.md.
"""

import re
from typing import Any, NamedTuple


class Preset(NamedTuple):
    """One row."""

    ids: str  # regular expression, matched against the whole id
    settings: dict[str, Any]  # fields of ppo.Settings


# A key and a door between the agent and its only reward: most rollouts bring little of it at first.
FAR_REWARD = {
    "rollout_steps": 256,
    "learning_rate": 5e-4,
    "entropy": 0.004,
    "gamma": 0.995,
    "gae_lambda": 0.98,
    "hidden": (128,),
    "advantage_floor": 0.05,
}

PRESETS = (
    Preset(r"Grid-(v0|Empty-.*)", {"total_steps": 200_000}),
    Preset(r"Grid-Empty-16x16-v\d+", {"total_steps": 500_000}),
    Preset(r"Grid-DoorKey-5x5-v\d+", {"total_steps": 250_000}),
    Preset(r"Grid-DoorKey-6x6-v\d+", FAR_REWARD | {"total_steps": 1_000_000}),
    Preset(r"Grid-DoorKey-8x8-v\d+", FAR_REWARD | {"total_steps": 2_000_000}),
    Preset(r"Grid-DoorKey-16x16-v\d+", FAR_REWARD | {"total_steps": 10_000_000}),
    Preset(r"Grid-DistShift\d+-v\d+", {"total_steps": 500_000}),
    Preset(r"Grid-LavaGapS\d+-v\d+", {"total_steps": 1_000_000}),
    Preset(r"Grid-(Simple|Lava)Crossing.*", {"total_steps": 2_000_000}),
    Preset(r"Grid-FourRooms-v\d+", {"total_steps": 2_000_000, "num_envs": 128}),
)


def preset(id: str) -> dict[str, Any]:
    """Return the tuned settings for a registered id (not an alias); an unknown id has none."""
    chosen: dict[str, Any] = {}
    for row in PRESETS:
        if re.fullmatch(row.ids, id):
            chosen |= row.settings
    return chosen
