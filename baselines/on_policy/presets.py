"""Presets of the on-policy learners. Measured returns: baselines/README.md."""

from ..core.preset import (
    CARTPOLE,
    CRAFT,
    CRAFT_CLASSIC_IDS,
    EIGHT_PUZZLE,
    MAZES,
    MEMORY,
    PENDULUM,
    Preset,
    rows,
    steps,
)

# Tasks with a reward at the goal only: most early rollouts contain no reward (see `advantage_floor`
# in ppo.py).
RARE_REWARD = {"advantage_floor": 0.05, "entropy": 0.004}

# The same tasks for PQN, which learns action values: a reward must propagate back over many steps.
RARE_REWARD_BY_VALUES = {"gae_lambda": 0.9, "learning_rate": 2.5e-4, "epochs": 2, "minibatches": 16}
RARE_REWARD_BY_SEQUENCES = {**RARE_REWARD_BY_VALUES, "minibatches": 8}

# A key and a door, or a long path, separate the agent from its only reward, which an untrained
# policy needs hundreds of steps to reach.
FAR_REWARD = {
    "rollout_steps": 256,
    "learning_rate": 5e-4,
    "gamma": 0.995,
    "gae_lambda": 0.98,
    "hidden": (128,),
}
# The same tasks with smaller and more frequent updates: each update costs a fifth of an update with
# FAR_REWARD.
SHORT_UPDATES = {"num_envs": 32, "epochs": 2, "embed": 4, "learning_rate": 1e-3}
# A quarter of SHORT_UPDATES' steps between updates, so the policy learns sooner from its first
# success.
SHORTEST_UPDATES = {**SHORT_UPDATES, "num_envs": 16, "rollout_steps": 128, "minibatches": 4}
FAR = (
    r"Grid-(DoorKey-(6x6|8x8|16x16)|SimpleCrossing.*|(Blocked)?Unlock(Pickup)?|LockedRoom"
    r"|KeyCorridor.*|ObstructedMaze-.*|RedBlueDoors-.*)-v\d+"
    r"|BabyAI-((Blocked)?Unlock.*|KeyInBox|KeyCorridor.*|FindObj.*|PickupAbove)-v\d+"
)

# The network reads the mission (see `reads_mission`) and needs learned cell features to find the
# object that the mission names.
MISSION = {"embed": 16}

# Random play finds no reward: updates are small, and states that are new in the episode get a
# bonus.
NOVELTY = {
    "num_envs": 32,
    "rollout_steps": 128,
    "epochs": 2,
    "learning_rate": 1e-3,
    "bonus": 0.1,
    "novelty": "noveld",
}

# The object to remember is behind the agent: before a recurrent network can use this object, a
# bonus must teach the agent to look back. A small recurrent state learns sooner than one of 128.
LOOK_BACK = {"bonus": 0.1, "novelty": "noveld", "gamma": 0.995, "memory": 64, "embed": 4}
# The transformer needs a larger bonus to look back: with 0.1 it walked straight to the fork (two
# seeds).
LOOK_BACK_BY_ATTENTION = {"bonus": 0.2, "memory": 32, "depth": 1}

# Craft's open world gives rewards all along, for gathering and making many things. A short run can
# only learn to reach the next reward, so later rewards are discounted strongly.
OPEN_WORLD = {
    "rollout_steps": 64,
    "learning_rate": 4.5e-4,
    "gamma": 0.925,
    "gae_lambda": 0.65,
    "hidden": (256, 256),
}

# Recurrent PPO with the spatial network (spatial.py), which reads item counts as categories.
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

# The same tasks for PQN.
OPEN_WORLD_BY_VALUES = {
    "learning_rate": 4.5e-4,
    "gamma": 0.925,
    "epochs": 2,
    "hidden": (256, 256),
    "epsilon_end": 0.02,
    "epsilon_share": 0.2,
}

# GPUs prefer many environments, few large minibatches and small activations. With fewer gradient
# steps per environment step, a run needs more environment steps. Not tuned: no GPU was available.
# With `chunk`, a call of the compiled program lasts about a tenth of a second, so that launching it
# costs little in comparison.
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

# GPU settings with enough steps for Craft's deepest achievements.
OPEN_WORLD_GPU = {
    **GPU,
    "total_steps": 1_000_000_000,
    "learning_rate": 2e-4,
    "gamma": 0.99,
    "gae_lambda": 0.8,
    "hidden": (512, 512, 512),
    "unroll": 1,
}

# A recurrent network learns from longer sequences.
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

# Every step has a reward, so values are near a hundred. Actor and critic share the network and the
# gradient clipping: a value loss of that size would leave almost no gradient to the policy.
BALANCE = {
    "total_steps": 250_000,
    "num_envs": 16,
    "rollout_steps": 64,
    "value_weight": 0.01,
    "entropy": 0.0,
    "hidden": (64, 64),
    "chunk": 8,
}

# Every step has a cost until the goal, which random play seldom reaches.
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

# An episode has 200 steps, each with a cost. Values are near a thousand, so rewards are scaled.
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

# The only reward is at the flag, and force has a cost, so at first staying at the bottom pays most.
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

# Only the solved board has a reward. The network reads each cell's tile as a one-hot vector.
SMALL_PUZZLE = {
    "total_steps": 200_000,
    "rollout_steps": 32,
    "advantage_floor": 0.05,
    "entropy": 0.02,
    "embed": 0,
}

# Trials of XLand. On a CPU, small networks, many gradient steps and conditioning on the true task
# pay off. The preset `gpu` has the settings of XLand-MiniGrid's RL²: 12,800 steps for each task.
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

STEPS = {
    r"Grid-(v0|Empty-.*)": 0.3,
    r"Grid-Empty-16x16-v\d+": 0.5,
    r"Grid-DoorKey-5x5-v\d+": 0.35,
    r"Grid-DoorKey-6x6-v\d+": 1,
    r"Grid-DoorKey-8x8-v\d+": 3,
    r"Grid-DoorKey-16x16-v\d+": 10,
    r"Grid-DistShift\d+-v\d+": 0.5,
    r"Grid-LavaGapS\d+-v\d+": 1,
    r"Grid-LavaCrossing.*": 2,
    r"Grid-SimpleCrossing.*": 3,
    r"Grid-FourRooms-v\d+": 5,
    r"Grid-MultiRoom-.*": 10,
    r"Grid-MultiRoom-N2-S4-v\d+": 0.5,
    r"Grid-LockedRoom-v\d+": 5,
    MEMORY: 1,
    r"Grid-Unlock-v\d+": 1.2,
    r"Grid-UnlockPickup-v\d+": 10,
    r"Grid-BlockedUnlockPickup-v\d+": 20,
    r"Grid-KeyCorridor.*": 10,
    r"Grid-KeyCorridorS3R1-v\d+": 1.2,
    r"Grid-ObstructedMaze-.*": 8,
    r"Grid-ObstructedMaze-2Dlh-v\d+": 25,
    r"Grid-(Fetch|GoToDoor|GoToObject)-.*": 1,
    r"Grid-PutNear-.*": 4,
    r"Grid-RedBlueDoors-.*": 3,
    r"Grid-Dynamic-Obstacles-.*": 2,
    r"Grid-Dynamic-Obstacles-(Random-)?5x5-v\d+": 0.5,
    r"BabyAI-.*": 4,
    r"BabyAI-(GoToRedBallGrey|GoToLocalS5N2)-v\d+": 0.5,
    r"BabyAI-(OpenRedDoor|OneRoomS8)-v\d+": 0.3,
    r"BabyAI-(GoToObjS4|OpenDoor|UnlockLocal)-v\d+": 1,
    r"BabyAI-PickupDist-v\d+": 2,
    CRAFT: 1,
}

PPO = (
    Preset(MAZES, RARE_REWARD),
    Preset(MAZES, MISSION, mission=True),
    *rows(
        "ppo",
        (FAR, FAR_REWARD),
        (r"Grid-(KeyCorridorS3R3|ObstructedMaze-2Dlh)-v\d+", SHORT_UPDATES),
        (r"Grid-DoorKey-8x8-v\d+", SHORTEST_UPDATES),
        (r"Grid-FourRooms-v\d+", {"num_envs": 128}),
        (CRAFT, OPEN_WORLD),
        (CARTPOLE, BALANCE),
        (r"Classic-(Acrobot|MountainCar)-v\d+", SWING_UP),
        (PENDULUM, TORQUE),
        (r"Classic-MountainCarContinuous-v\d+", FORCE),
        (EIGHT_PUZZLE, SMALL_PUZZLE),
    ),
    *steps("ppo", STEPS),
    *rows(
        "ppo",
        (MAZES, NOVELTY),
        (r"Grid-LockedRoom-v\d+", {"total_steps": 15_000_000}),
        name="noveld",
    ),
    *rows(
        "ppo",
        (r"Grid-MultiRoom-.*", {"bonus": 0.1}),
        (r"Grid-MultiRoom-N4-S5-v\d+", {"total_steps": 3_000_000}),
        name="rnd",
    ),
    *rows(
        "ppo",
        (CRAFT, OPEN_WORLD_GPU),
        (r"Grid-.*", GPU),
        (r"BabyAI-.*", {**GPU, "unroll": 1}),
        (r"Puzzle-.*", GPU),
        name="gpu",
    ),
)

# Presets of every recurrent PPO, including Dyna.
RECURRENT = (
    (MAZES, RARE_REWARD),
    (MEMORY, {"entropy": 0.01, "total_steps": 1_000_000}),
    (CRAFT, {**OPEN_WORLD, "total_steps": 1_000_000}),
)
PPO_WITH_MEMORY = (
    *rows(
        "ppo-rnn ppo-trxl",
        *RECURRENT,
        (MEMORY, LOOK_BACK),
        (r"Grid-Memory(S13|S17).*", {"neighbours": 16, "total_steps": 4_000_000}),
    ),
    *rows(
        "ppo-rnn",
        (CRAFT_CLASSIC_IDS, OPEN_WORLD_BY_SIGHT),
        (r"Craft-Ids-v\d+", {"num_envs": 128, "rollout_steps": 32}),
    ),
    *rows("ppo-rnn", (CRAFT, OPEN_WORLD_GPU_BY_MEMORY), name="gpu"),
    *rows(
        "ppo-trxl",
        (MEMORY, LOOK_BACK_BY_ATTENTION),
        (r"Grid-MemoryS17.*", {"total_steps": 5_000_000}),
        (CRAFT_CLASSIC_IDS, {**OPEN_WORLD_BY_SIGHT, "memory": 64, "width": 128, "depth": 1}),
    ),
)

PQN = (
    *rows("pqn", (MAZES, RARE_REWARD_BY_VALUES), (CRAFT, {**OPEN_WORLD_BY_VALUES, "epochs": 4})),
    *steps("pqn", {r"Grid-DoorKey-5x5-v\d+": 0.35, r"Grid-DoorKey-6x6-v\d+": 1}),
    *rows(
        "pqn-rnn",
        (MAZES, RARE_REWARD_BY_SEQUENCES),
        (CRAFT, OPEN_WORLD_BY_VALUES),
        (r"(Grid-Memory|Craft-).*", {"total_steps": 1_000_000}),
        (CRAFT_CLASSIC_IDS, {"neighbours": 32, "embed": 16, "memory": 256, "epochs": 4}),
    ),
)

RL2 = (
    *rows("rl2", (r"XLand-.*", RULE_WORLDS)),
    *rows(
        "rl2",
        (r"XLand-.*", RULE_WORLDS_GPU),
        (r"XLand-R4-13x13-v\d+", {"task_set": "high-1m"}),
        name="gpu",
    ),
)

PRESETS = (*PPO, *PPO_WITH_MEMORY, *PQN, *RL2)
