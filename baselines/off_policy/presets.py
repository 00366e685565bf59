"""Presets (tuned settings) of the off-policy learners.

docs/learners/results.md lists measured returns.
"""

from collections.abc import Mapping
from typing import Any

from ..core.preset import CARTPOLE, CRAFT, MAZES, MEMORY, PENDULUM, Preset, rows

DQN_FAMILY = ("dqn", "c51", "qr-dqn", "iqn", "rainbow")

# Settings for runs with few environment steps: replay is prioritised, and each step is sampled 8
# times on average.
FEW_STEPS = {
    "num_envs": 16,
    "rollout_steps": 8,
    "warm_up": 2000,
    "capacity": 120_000,
    "gradient_steps": 16,
    "batch_size": 64,
    "priority": 0.6,
    "epsilon_share": 0.6,
    "epsilon_end": 0.03,
    "chunk": 16,
}

OPEN_WORLD = {
    "gamma": 0.925,
    "hidden": (256, 256),
    "epsilon_end": 0.02,
    "epsilon_share": 0.1,
}

# R2D2's settings for mazes. Because of `epsilon_power`, each environment explores with a different
# epsilon: the first explores most, and the last explores least.
SEQUENCES = {
    "num_envs": 32,
    "rollout_steps": 16,
    "gradient_steps": 16,
    "epsilon_end": 0.2,
    "epsilon_power": 3.0,
    "learning_rate": 1e-3,
}
BALANCE_BY_SEQUENCES = {
    "total_steps": 100_000,
    "num_envs": 16,
    "rollout_steps": 16,
    "gradient_steps": 8,
    "warm_up": 2000,
    "capacity": 50_000,
    "learning_rate": 1e-3,
    "hidden": (64,),
    "memory": 64,
}

# Settings for Pendulum: few steps and small networks. A run takes a tenth of the time of a run with
# the default settings.
TORQUE = {"total_steps": 10_000, "learning_rate": 1e-3, "hidden": (64, 64), "chunk": 5}


def dqn_family(ids: str, settings: Mapping[str, Any]) -> tuple[Preset, ...]:
    """Return presets for DQN and its variants, including Rainbow.

    Rainbow explores by noisy layers, so its presets leave out the settings of epsilon.
    """
    noisy = {name: value for name, value in settings.items() if not name.startswith("epsilon")}
    *others, rainbow = DQN_FAMILY
    return (*rows(" ".join(others), (ids, settings)), *rows(rainbow, (ids, noisy)))


def support(ids: str, least: float, largest: float, **more: int) -> tuple[Preset, ...]:
    """Return presets of C51 and Rainbow whose atoms reach from `least` to `largest`.

    All discounted returns must lie between these bounds, the settings `v_min` and `v_max`.
    """
    return rows("c51 rainbow", (ids, {"v_min": least, "v_max": largest, **more}))


DQN = (
    *dqn_family(MAZES, {"n_step": 5}),
    *dqn_family(r"Grid-DoorKey-(5x5|6x6)-v\d+", FEW_STEPS),
    *dqn_family(r"Grid-DoorKey-5x5-v\d+", {"total_steps": 40_000}),
    *dqn_family(r"Grid-DoorKey-6x6-v\d+", {"total_steps": 120_000}),
    *dqn_family(CRAFT, OPEN_WORLD),
    *support(MAZES, -1.0, 1.0),
    *support(CARTPOLE, 0.0, 100.0),
    *support(CRAFT, -1.0, 6.0),
    *support(r"Craft-(Ids|Symbolic|Pixels)-v\d+", -2.0, 10.0),  # discounted return: at most 8
    # at least -100: a reward of -1 in every step, discounted by 0.99 per step
    *support(r"Classic-(Acrobot|MountainCar)-v\d+", -100.0, 0.0),
    # at most 59.5: a reward of 1 for each of 90 cells without a mine, discounted by 0.99 per step
    *support(r"Puzzle-Minesweeper-.*", 0.0, 60.0),
    *support(r"Puzzle-Sokoban-.*", -15.0, 15.0),
    *support(r"Puzzle-TSP-10-v\d+", -15.0, 0.0),  # a tour is at most 10 diagonals, or 14.1, long
    *support(r"Puzzle-TSP-20-v\d+", -30.0, 0.0),
    *support(r"Puzzle-2048-v\d+", 0.0, 4000.0, atoms=201),
)

R2D2 = rows(
    "r2d2",
    (MAZES, SEQUENCES),
    (MEMORY, {"burn_in": 8, "sequence": 24, "period": 12, "total_steps": 300_000}),
    (CARTPOLE, BALANCE_BY_SEQUENCES),
)

ACTOR_CRITIC = (
    *rows("sac td3 tqc crossq", (PENDULUM, TORQUE)),
    *rows("crossq", (PENDULUM, {"critic_hidden": (64, 64)})),
)

PRESETS = (*DQN, *R2D2, *ACTOR_CRITIC)
