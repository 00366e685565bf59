"""Settings tuned per environment: rows of what differs from the defaults of a learner's `Settings`.

Where an id has several rows, later rows override earlier ones; rows with a name count only where it
is asked for. Figures: baselines/README.md.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import jaxenvs
from jaxenvs.core.spaces import Dict


class Preset(NamedTuple):
    """One row."""

    ids: str  # regular expression, matched against the whole id
    settings: Mapping[str, Any]  # fields of the algorithm's Settings
    name: str | None = None  # of `--preset`; None: always
    algorithm: str = "ppo"  # whose settings they are
    mission: bool = False  # only for ids whose observation has a mission by default


# A reward at the goal only: most rollouts bring none at first, see `advantage_floor` in ppo.py.
RARE_REWARD = {"advantage_floor": 0.05, "entropy": 0.004}

# The same for learners of action values: a reward must reach back over many steps.
RARE_REWARD_BY_VALUES = {"gae_lambda": 0.9, "learning_rate": 2.5e-4, "epochs": 2, "minibatches": 16}
RARE_REWARD_BY_SEQUENCES = {**RARE_REWARD_BY_VALUES, "minibatches": 8}
RARE_REWARD_BY_REPLAY = {"n_step": 5}

# In few steps: each is learned from eight times, and what surprised more often.
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

# Sequences: longer ones, and environments of which each explores less than the one before.
BY_SEQUENCES = {
    "num_envs": 32,
    "rollout_steps": 16,
    "gradient_steps": 16,
    "epsilon_end": 0.2,
    "epsilon_power": 3.0,
    "learning_rate": 1e-3,
}

# A key and a door, or a long way, between the agent and its only reward: hundreds of steps for a
# beginner.
FAR_REWARD = {
    "rollout_steps": 256,
    "learning_rate": 5e-4,
    "gamma": 0.995,
    "gae_lambda": 0.98,
    "hidden": (128,),
}
# The same way by smaller and more frequent updates: each costs a fifth of those above.
SHORT_UPDATES = {"num_envs": 32, "epochs": 2, "embed": 4, "learning_rate": 1e-3}
# A quarter of the steps between updates, so that a first success is learned from sooner.
SHORTEST_UPDATES = {**SHORT_UPDATES, "num_envs": 16, "rollout_steps": 128, "minibatches": 4}
FAR = (
    r"Grid-(DoorKey-(6x6|8x8|16x16)|SimpleCrossing.*|(Blocked)?Unlock(Pickup)?|LockedRoom"
    r"|KeyCorridor.*|ObstructedMaze-.*|RedBlueDoors-.*)-v\d+"
    r"|BabyAI-((Blocked)?Unlock.*|KeyInBox|KeyCorridor.*|FindObj.*|PickupAbove)-v\d+"
)

# The mission is read, see `reads_mission`: the network needs features to look for what it names.
MISSION = {"embed": 16}


# Where nothing is found by chance: small updates, and a reward for what is new in an episode.
NOVELTY = {
    "num_envs": 32,
    "rollout_steps": 128,
    "epochs": 2,
    "learning_rate": 1e-3,
    "bonus": 0.1,
    "novelty": "noveld",
}

# What must be remembered is behind the agent: looking there has to be worth something before the
# memory can use it. A small memory learns sooner than one of 128.
LOOK_BACK = {"bonus": 0.1, "novelty": "noveld", "gamma": 0.995, "memory": 64, "embed": 4}
# A transformer needs more reason to look: with 0.1 it walked straight to the fork (two seeds).
LOOK_BACK_BY_ATTENTION = {"bonus": 0.2, "memory": 32, "depth": 1}

# An open world: much to gather and to make, rewards all the way. In a short run the next reward is
# what can be learned, so the future is discounted much.
OPEN_WORLD = {
    "rollout_steps": 64,
    "learning_rate": 4.5e-4,
    "gamma": 0.925,
    "gae_lambda": 0.65,
    "hidden": (256, 256),
}

# With a memory and the spatial network, for which item counts are categories.
OPEN_WORLD_BY_SIGHT = {
    "num_envs": 48,
    "rollout_steps": 96,
    "neighbours": 32,
    "activation": "relu",
    "embed": 16,
    "memory": 256,
    "target_scaling": 0.05,
    "value_weight": 2.0,
}

# The same beside a learned model. On one core beside another job an update takes 11 s during the
# warm-up, most of which teach the model, and 19 s after it.
OPEN_WORLD_BY_MODEL = {
    **OPEN_WORLD_BY_SIGHT,
    "total_steps": 100_000,
    "entropy": 0.02,
    "warm_up": 30_000,
    "context": 2,
    "num_heads": 2,
    "model_rate": 2e-3,
    "model_steps": 160,
    "model_batch": 16,
    "imagined_rollouts": 2,
    "imagined_envs": 192,
    "imagined_steps": 16,
}

# The same for learners of action values.
OPEN_WORLD_BY_VALUES = {
    "learning_rate": 4.5e-4,
    "gamma": 0.925,
    "epochs": 2,
    "hidden": (256, 256),
    "epsilon_end": 0.02,
    "epsilon_share": 0.2,
}
OPEN_WORLD_BY_SEEN_VALUES = {"neighbours": 32, "embed": 16, "memory": 256, "epochs": 4}
OPEN_WORLD_BY_REPLAY = {
    "gamma": 0.925,
    "hidden": (256, 256),
    "epsilon_end": 0.02,
    "epsilon_share": 0.1,
}

# Rewards are 1, or a tenth for health. One trial each of 60 k steps: rescaled values earned 2.8
# instead of 3.3, and `value_consistency` 3.0.
OPEN_WORLD_BY_PLANS = {
    "total_steps": 300_000,
    "gamma": 0.95,
    "learning_rate": 5e-4,
    "hidden": (256,),
    "latent": 128,
    "spacing": 0.05,
    "unroll_steps": 3,
    "simulations": 8,
    "rescale": False,
    "value_scale": 0.2,
    "entropy": 0.005,
    "reanalysed": 0.0,
    "chunk": 4,
}

# What a card wants: many environments, few large minibatches, small activations. There are fewer
# gradient steps for a step of an environment, hence more steps. Not tuned: no card was at hand. A
# call of the compiled program lasts about a tenth of a second, so that starting it costs little.
GPU = {
    "total_steps": 100_000_000,
    "num_envs": 8192,
    "rollout_steps": 16,
    "epochs": 2,
    "minibatches": 4,
    "learning_rate": 1e-3,
    "bfloat16": True,
    "unroll": 8,
    "chunk": 16,
}

# The same with steps enough for the deepest achievements.
OPEN_WORLD_GPU = {
    **GPU,
    "total_steps": 1_000_000_000,
    "learning_rate": 2e-4,
    "gamma": 0.99,
    "gae_lambda": 0.8,
    "hidden": (512, 512, 512),
    "unroll": 1,
}


# Memory learns from longer sequences.
OPEN_WORLD_GPU_BY_MEMORY = {
    **OPEN_WORLD_GPU,
    "num_envs": 1024,
    "rollout_steps": 64,
    "epochs": 4,
    "minibatches": 8,
    "bfloat16": False,
    "memory": 512,
    "neighbours": 0,
    "activation": "tanh",
    "target_scaling": 0.0,
    "value_weight": 0.5,
}


# Dyna with a model of about the size of Dedieu et al. (2025); not their table of settings.
# Not tuned, nor run: no card was at hand.
OPEN_WORLD_GPU_BY_MODEL = {
    **OPEN_WORLD_BY_MODEL,
    "total_steps": 1_000_000,
    "entropy": 0.01,
    "warm_up": 200_000,
    "hidden": (512, 512),
    "neighbours": 64,
    "capacity": 128_000,
    "context": 20,
    "width": 128,
    "num_heads": 8,
    "depth": 3,
    "model_rate": 1e-3,
    "model_steps": 500,
    "model_batch": 48,
    "imagined_rollouts": 50,
    "imagined_envs": 96,
    "imagined_steps": 20,
}

# A reward for every step, so that values are near a hundred: their loss, which shares the network
# and the clipped gradient with the policy's, would leave that next to nothing.
BALANCE = {
    "total_steps": 250_000,
    "num_envs": 16,
    "rollout_steps": 64,
    "value_weight": 0.01,
    "entropy": 0.0,
    "hidden": (64, 64),
    "chunk": 8,
}


# By plans in a learned model. Values are up to 300, and sure: the policy follows small differences.
BALANCE_BY_PLANS = {
    "total_steps": 100_000,
    "gamma": 0.997,
    "n_step": 10,
    "rescale": False,
    "value_scale": 0.02,
    "gradient_steps": 32,
    "reanalysed": 0.5,
    "chunk": 4,
}

# In few steps: random actions find the first rewards, as a search in a model that has seen none
# keeps away from them; each is learned from often (`importance` starts at 0). Values between 0 and
# 1 need atoms that are near to each other.
RARE_REWARD_BY_PLANS = {
    "total_steps": 100_000,
    "gamma": 0.98,
    "num_envs": 16,
    "rollout_steps": 8,
    "max_grad_norm": 1.0,
    "batch_size": 64,
    "priority": 0.6,
    "importance": 0.0,
    "epsilon_start": 1.0,
    "epsilon_end": 0.05,
    "epsilon_share": 0.4,
    "rescale": False,
    "value_scale": 4.0,
    "reanalysed": 0.5,
    "atoms": 20,
    "spacing": 0.05,
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

# A cost for every step until the end, which chance seldom reaches.
SWING_UP = {
    "total_steps": 500_000,
    "num_envs": 16,
    "rollout_steps": 64,
    "normalize_obs": True,
    "reward_scaling": True,
    "gae_lambda": 0.98,
    "entropy": 0.01,
    "hidden": (64, 64),
    "chunk": 8,
}

# A torque for 200 steps, a cost in each; values near a thousand are scaled.
TORQUE = {
    "total_steps": 250_000,
    "num_envs": 8,
    "rollout_steps": 128,
    "epochs": 10,
    "gamma": 0.95,
    "entropy": 0.0,
    "reward_scaling": True,
    "hidden": (64, 64),
    "chunk": 8,
}

# By gradient steps on few steps, whose small networks make a run ten times as fast.
TORQUE_BY_REPLAY = {
    "total_steps": 10_000,
    "learning_rate": 1e-3,
    "hidden": (64, 64),
    "chunk": 5,
}

# The only reward is at the flag, and force costs: whoever stays at the bottom pays least at first.
FORCE = {
    "total_steps": 250_000,
    "num_envs": 16,
    "rollout_steps": 256,
    "normalize_obs": True,
    "reward_scaling": True,
    "entropy": 0.01,
    "hidden": (64, 64),
    "chunk": 4,
}

# A reward for the solved board only. Here what is learned is one-hots of tiles in their cells.
SMALL_PUZZLE = {
    "total_steps": 200_000,
    "rollout_steps": 32,
    "advantage_floor": 0.05,
    "entropy": 0.02,
    "embed": 0,
}
# Values are hundreds, and the least reward is 1.2 squeezed. In trials of one seed plans were better
# without a model of chance. Values are not rescaled: stretched to 0 to 1, their first differences
# are noise, which one of three policies never unlearned. All policies are found anew, because those
# that were found while acting are out of date for most of a run. The latent state has 16 numbers
# for each cell of the board, and imagined ones say what the cells show: a vector of 128 for all of
# them, or one that only agrees with the true one, knew less of what a move does.
TILES_BY_MODEL = {
    "total_steps": 100_000,
    "gamma": 0.99,
    "atoms": 70,
    "spacing": 1.0,
    "latent": 256,
    "hidden": (128,),
    "embed": 0,
    "gradient_steps": 32,
    "unroll_steps": 3,
    "lines": 64,
    "consistency": 0.0,
    "reconstruction": 4.0,
    "value_consistency": 1.0,
    "rescale": False,
    "value_scale": 0.03,
    "reanalysed": 1.0,
    "simulations": 8,
    "chunk": 2,
}

# One random episode of a hundred solves the puzzle: more environments, fewer gradient steps a step.
SMALL_PUZZLE_BY_PLANS = {
    **RARE_REWARD_BY_PLANS,
    "total_steps": 600_000,
    "gamma": 0.95,
    "num_envs": 64,
    "gradient_steps": 32,
    "capacity": 300_000,
    "priority": 0.8,
    "epsilon_share": 0.3,
    "reanalysed": 0.25,
    "latent": 128,
    "embed": 0,
}

SMALL_PUZZLE_BY_SEARCH = {"total_steps": 200_000, "gamma": 0.95, "simulations": 32, "embed": 0}

# Trials of rule worlds. On a CPU, small networks, many gradient steps and the true task in training
# pay off; `gpu` has the settings of XLand-MiniGrid's own RL², which has 12,800 steps for each task.
RULE_WORLDS = {
    "task_set": "trivial-21k",
    "total_steps": 10_000_000,
    "num_envs": 128,
    "rollout_steps": 64,
    "epochs": 2,
    "minibatches": 16,
    "advantage_floor": 0.05,
    "hidden": (64,),
    "memory": 64,
    "task_loss": 0.3,
    "told": 0.6,
}
RULE_WORLDS_GPU = {
    "total_steps": 10_000_000_000,
    "num_envs": 16_384,
    "rollout_steps": 256,
    "task_loss": 0.0,
    "told": 0.0,
    "epochs": 1,
    "minibatches": 16,
    "gae_lambda": 0.95,
    "advantage_floor": 1e-8,
    "entropy": 0.01,
    "value_clip": 0.2,
    "hidden": (256,),
    "embed": 16,
    "memory": 1024,
    "bfloat16": True,
    "trial_steps": 12_800,
    "test_episodes": 25,
}


def steps(ids: str, total: float, algorithm: str = "ppo") -> Preset:
    """Row that says how many millions of steps each seed makes."""
    return Preset(ids, {"total_steps": round(total * 1e6)}, algorithm=algorithm)


BY_REPLAY = ("dqn", "c51", "qr-dqn", "iqn", "rainbow")


def by_replay(ids: str, settings: Mapping[str, Any]) -> tuple[Preset, ...]:
    """Rows for DQN and its relatives; of them Rainbow explores by its noise alone."""

    def known(name: str) -> bool:
        return not name.startswith("epsilon")

    noise = {name: value for name, value in settings.items() if known(name)}
    return tuple(
        Preset(ids, noise if name == "rainbow" else settings, algorithm=name) for name in BY_REPLAY
    )


def returns(ids: str, least: float, largest: float, **more: int) -> tuple[Preset, ...]:
    """Rows for learners that need to know the bounds of discounted returns."""
    bounds = {"v_min": least, "v_max": largest, **more}
    return tuple(Preset(ids, bounds, algorithm=name) for name in ("c51", "rainbow"))


PRESETS = (
    Preset(r"(Grid|BabyAI)-.*", RARE_REWARD),
    Preset(r"(Grid|BabyAI)-.*", MISSION, mission=True),
    Preset(FAR, FAR_REWARD),
    Preset(r"Grid-(KeyCorridorS3R3|ObstructedMaze-2Dlh)-v\d+", SHORT_UPDATES),
    Preset(r"Grid-DoorKey-8x8-v\d+", SHORTEST_UPDATES),
    Preset(r"Grid-FourRooms-v\d+", {"num_envs": 128}),
    steps(r"Grid-(v0|Empty-.*)", 0.3),
    steps(r"Grid-Empty-16x16-v\d+", 0.5),
    steps(r"Grid-DoorKey-5x5-v\d+", 0.35),
    steps(r"Grid-DoorKey-6x6-v\d+", 1),
    steps(r"Grid-DoorKey-8x8-v\d+", 3),
    steps(r"Grid-DoorKey-16x16-v\d+", 10),
    steps(r"Grid-DistShift\d+-v\d+", 0.5),
    steps(r"Grid-LavaGapS\d+-v\d+", 1),
    steps(r"Grid-LavaCrossing.*", 2),
    steps(r"Grid-SimpleCrossing.*", 3),
    steps(r"Grid-FourRooms-v\d+", 5),
    steps(r"Grid-MultiRoom-.*", 10),
    steps(r"Grid-MultiRoom-N2-S4-v\d+", 0.5),
    steps(r"Grid-LockedRoom-v\d+", 5),
    steps(r"Grid-Memory.*", 1),
    steps(r"Grid-Unlock-v\d+", 1.2),
    steps(r"Grid-UnlockPickup-v\d+", 10),
    steps(r"Grid-BlockedUnlockPickup-v\d+", 20),
    steps(r"Grid-KeyCorridor.*", 10),
    steps(r"Grid-KeyCorridorS3R1-v\d+", 1.2),
    steps(r"Grid-ObstructedMaze-.*", 8),
    steps(r"Grid-ObstructedMaze-2Dlh-v\d+", 25),
    steps(r"Grid-(Fetch|GoToDoor|GoToObject)-.*", 1),
    steps(r"Grid-PutNear-.*", 4),
    steps(r"Grid-RedBlueDoors-.*", 3),
    steps(r"Grid-Dynamic-Obstacles-.*", 2),
    steps(r"Grid-Dynamic-Obstacles-(Random-)?5x5-v\d+", 0.5),
    steps(r"BabyAI-.*", 4),
    steps(r"BabyAI-(GoToRedBallGrey|GoToLocalS5N2)-v\d+", 0.5),
    steps(r"BabyAI-(OpenRedDoor|OneRoomS8)-v\d+", 0.3),
    steps(r"BabyAI-(GoToObjS4|OpenDoor|UnlockLocal)-v\d+", 1),
    steps(r"BabyAI-PickupDist-v\d+", 2),
    Preset(r"(Grid|BabyAI)-.*", NOVELTY, name="noveld"),
    Preset(r"Grid-LockedRoom-v\d+", {"total_steps": 15_000_000}, name="noveld"),
    Preset(r"Grid-MultiRoom-.*", {"bonus": 0.1}, name="rnd"),
    Preset(r"Grid-MultiRoom-N4-S5-v\d+", {"total_steps": 3_000_000}, name="rnd"),
    *(
        row
        for name in ("ppo-rnn", "ppo-trxl", "dyna")
        for row in (
            Preset(r"(Grid|BabyAI)-.*", RARE_REWARD, algorithm=name),
            Preset(r"Grid-Memory.*", {"entropy": 0.01}, algorithm=name),
            steps(r"Grid-Memory.*", 1, name),
            Preset(r"Craft-.*", OPEN_WORLD, algorithm=name),
            steps(r"Craft-.*", 1, name),
        )
    ),
    *(
        row
        for name in ("ppo-rnn", "ppo-trxl")
        for row in (
            Preset(r"Grid-Memory.*", LOOK_BACK, algorithm=name),
            Preset(r"Grid-Memory(S13|S17).*", {"neighbours": 16}, algorithm=name),
            steps(r"Grid-Memory(S13|S17).*", 4, name),
        )
    ),
    Preset(r"Grid-Memory.*", LOOK_BACK_BY_ATTENTION, algorithm="ppo-trxl"),
    steps(r"Grid-MemoryS17.*", 5, "ppo-trxl"),
    Preset(r"(Grid|BabyAI)-.*", BY_SEQUENCES, algorithm="r2d2"),
    Preset(r"Grid-Memory.*", {"burn_in": 8, "sequence": 24, "period": 12}, algorithm="r2d2"),
    steps(r"Grid-Memory.*", 0.3, "r2d2"),
    Preset(r"Classic-CartPole-v\d+", BALANCE_BY_SEQUENCES, algorithm="r2d2"),
    Preset(r"(Grid|BabyAI)-.*", RARE_REWARD_BY_VALUES, algorithm="pqn"),
    Preset(r"(Grid|BabyAI)-.*", RARE_REWARD_BY_SEQUENCES, algorithm="pqn-rnn"),
    Preset(r"Craft-.*", OPEN_WORLD_BY_VALUES, algorithm="pqn-rnn"),
    steps(r"(Grid-Memory|Craft-).*", 1, "pqn-rnn"),
    steps(r"Grid-DoorKey-5x5-v\d+", 0.35, "pqn"),
    *by_replay(r"(Grid|BabyAI)-.*", RARE_REWARD_BY_REPLAY),
    *by_replay(r"Grid-DoorKey-(5x5|6x6)-v\d+", FEW_STEPS),
    *by_replay(r"Grid-DoorKey-5x5-v\d+", {"total_steps": 40_000}),
    *by_replay(r"Grid-DoorKey-6x6-v\d+", {"total_steps": 120_000}),
    *returns(r"(Grid|BabyAI)-.*", -1.0, 1.0),
    *returns(r"Classic-CartPole-v\d+", 0.0, 100.0),
    steps(r"Grid-DoorKey-6x6-v\d+", 1, "pqn"),
    Preset(r"Craft-.*", {**OPEN_WORLD_BY_VALUES, "epochs": 4}, algorithm="pqn"),
    *by_replay(r"Craft-.*", OPEN_WORLD_BY_REPLAY),
    *returns(r"Craft-.*", -1.0, 6.0),
    *returns(r"Craft-(Ids|Symbolic|Pixels)-v\d+", -2.0, 10.0),  # an achievement pays up to 8
    *returns(r"Classic-(Acrobot|MountainCar)-v\d+", -100.0, 0.0),  # -1 for ever, discounted
    *returns(r"Puzzle-Minesweeper-.*", 0.0, 60.0),  # 1 for each of 90 cells
    *returns(r"Puzzle-Sokoban-.*", -15.0, 15.0),
    *returns(r"Puzzle-TSP-10-v\d+", -15.0, 0.0),  # a tour is shorter than 10 diagonals
    *returns(r"Puzzle-TSP-20-v\d+", -30.0, 0.0),
    *returns(r"Puzzle-2048-v\d+", 0.0, 4000.0, atoms=201),
    Preset(r"Craft-.*", OPEN_WORLD),
    steps(r"Craft-.*", 1),
    Preset(r"Craft-.*", OPEN_WORLD_GPU, name="gpu"),
    Preset(r"Craft-Classic-Ids-v\d+", OPEN_WORLD_BY_SIGHT, algorithm="ppo-rnn"),
    Preset(
        r"Craft-Classic-Ids-v\d+",
        {**OPEN_WORLD_BY_SIGHT, "memory": 64, "width": 128, "depth": 1},
        algorithm="ppo-trxl",
    ),
    Preset(r"Craft-Classic-Ids-v\d+", OPEN_WORLD_BY_SEEN_VALUES, algorithm="pqn-rnn"),
    Preset(r"Craft-Classic-Ids-v\d+", OPEN_WORLD_BY_MODEL, algorithm="dyna"),
    Preset(r"Craft-Classic-.*", OPEN_WORLD_BY_PLANS, algorithm="muzero"),
    Preset(r"Craft-.*Ids-v\d+", OPEN_WORLD_GPU_BY_MODEL, name="gpu", algorithm="dyna"),
    Preset(r"Craft-Ids-v\d+", {"num_envs": 128, "rollout_steps": 32}, algorithm="ppo-rnn"),
    Preset(r"Craft-.*", OPEN_WORLD_GPU_BY_MEMORY, name="gpu", algorithm="ppo-rnn"),
    Preset(r"Grid-.*", GPU, name="gpu"),
    Preset(r"BabyAI-.*", {**GPU, "unroll": 1}, name="gpu"),
    Preset(r"XLand-.*", RULE_WORLDS, algorithm="rl2"),
    Preset(r"XLand-.*", RULE_WORLDS_GPU, name="gpu", algorithm="rl2"),
    Preset(r"XLand-R4-13x13-v\d+", {"task_set": "high-1m"}, name="gpu", algorithm="rl2"),
    Preset(r"Classic-CartPole-v\d+", BALANCE),
    Preset(r"(Grid|BabyAI)-.*", {**RARE_REWARD_BY_PLANS, "embed": 4}, algorithm="muzero"),
    Preset(r"Classic-CartPole-v\d+", BALANCE_BY_PLANS, algorithm="muzero"),
    Preset(r"Classic-(Acrobot|MountainCar)-v\d+", SWING_UP),
    Preset(r"Classic-Pendulum-v\d+", TORQUE),
    Preset(r"Classic-MountainCarContinuous-v\d+", FORCE),
    *(
        Preset(r"Classic-Pendulum-v\d+", TORQUE_BY_REPLAY, algorithm=name)
        for name in ("sac", "td3", "tqc", "crossq")
    ),
    Preset(r"Classic-Pendulum-v\d+", {"critic_hidden": (64, 64)}, algorithm="crossq"),
    Preset(r"Puzzle-SlidingTile-3x3-v\d+", SMALL_PUZZLE),
    Preset(r"Puzzle-.*", GPU, name="gpu"),
    Preset(r"Puzzle-SlidingTile-3x3-v\d+", SMALL_PUZZLE_BY_SEARCH, algorithm="alphazero"),
    Preset(r"Puzzle-SlidingTile-3x3-v\d+", SMALL_PUZZLE_BY_PLANS, algorithm="muzero"),
    Preset(r"Puzzle-2048-v\d+", TILES_BY_MODEL, algorithm="muzero"),
    # The model's rewards: up to 4,500, and the least is 1.2 squeezed.
    Preset(r"Puzzle-2048-v\d+", {"atoms": 70, "spacing": 1.0}, algorithm="dyna"),
    Preset(
        r"Puzzle-Cube-2x2-v\d+", {"total_steps": 8_000_000, "target_every": 4}, algorithm="davi"
    ),
    *(
        Preset(ids, settings, algorithm="world")
        for ids, settings in (
            (r"Puzzle-.*", {"total_steps": 5_000, "model_share": 0.4}),
            (
                r"Puzzle-SlidingTile-3x3-v\d+",
                {"transitions": 20_000, "hidden": 32, "views": 3, "width": 96},
            ),
            (r"Puzzle-SlidingTile-4x4-v\d+", {"scramble": 30, "walks": 24}),
            (r"Puzzle-Cube-.*", {"bits": 6, "views": 2, "scramble": 14, "walks": 24}),
            (r"Puzzle-LightsOut-.*", {"bits": 2, "views": 1, "scramble": 16, "walks": 12}),
            (r"Puzzle-Sokoban-.*", {"bits": 6, "views": 6, "model_share": 0.8}),
        )
    ),
)


def preset(id: str, name: str | None = None, algorithm: str = "ppo") -> Preset:
    """Return the row of a registered id (not an alias): all that match it, in one.

    Raises `ValueError` when the id has no rows of that name.
    """
    if name not in names(id, algorithm):
        known = ", ".join(filter(None, names(id, algorithm))) or "none"
        raise ValueError(f"--preset {name}: {id} has {known}; omit it for the usual settings")
    rows = [row for row in _rows(id, algorithm) if row.name in (None, name)]
    settings = {name: value for row in rows for name, value in row.settings.items()}
    return Preset(id, settings, name, algorithm)


def names(id: str, algorithm: str = "ppo") -> list[str | None]:
    """What `preset` takes for an id, the usual one first."""
    return list(dict.fromkeys([None, *(row.name for row in _rows(id, algorithm))]))


def _rows(id: str, algorithm: str) -> list[Preset]:
    rows = [row for row in PRESETS if row.algorithm == algorithm and re.fullmatch(row.ids, id)]
    return [row for row in rows if not row.mission or reads_mission(id)]


def reads_mission(id: str) -> bool:
    """Whether the observation of a registered id is by default the one with a mission, `dict`."""
    env = jaxenvs.make(id)
    space, chosen = env.observation_space, getattr(env, "obs", None)
    return chosen == "dict" and isinstance(space, Dict) and "mission" in space.spaces
