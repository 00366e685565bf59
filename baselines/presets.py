"""Settings tuned per environment: rows of what differs from the defaults of `ppo.Settings`.

Where an id has several rows, later rows override earlier ones. Figures: baselines/README.md.
"""

import re
from typing import Any, NamedTuple


class Preset(NamedTuple):
    """One row."""

    ids: str  # regular expression, matched against the whole id
    settings: dict[str, Any]  # fields of ppo.Settings


# A reward at the goal only: most rollouts bring none at first, see `advantage_floor` in ppo.py.
RARE_REWARD = {"advantage_floor": 0.05, "entropy": 0.004}

# A key and a door between the agent and its only reward, hundreds of steps for a beginner.
FAR_REWARD = {
    "rollout_steps": 256,
    "learning_rate": 5e-4,
    "gamma": 0.995,
    "gae_lambda": 0.98,
    "hidden": (128,),
}

PRESETS = (
    Preset(r"Grid-.*", RARE_REWARD),
    Preset(r"Grid-(v0|Empty-.*)", {"total_steps": 300_000}),
    Preset(r"Grid-Empty-16x16-v\d+", {"total_steps": 500_000}),
    Preset(r"Grid-DoorKey-5x5-v\d+", {"total_steps": 350_000}),
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
