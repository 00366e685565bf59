"""Presets (tuned settings) of the on-policy learners.

docs/learners/results.md lists measured returns.
"""

from ..core.preset import (
    CARTPOLE,
    CRAFT,
    CRAFT_CLASSIC_IDS,
    CRAFT_IDS,
    EIGHT_PUZZLE,
    GAMES,
    MAZES,
    MEMORY,
    PENDULUM,
    Preset,
    rows,
    steps,
)
from .maze_presets import CURRICULA, RARE_REWARD

# PQN's settings for tasks whose only reward is at the goal. Lambda is larger than by default,
# because the reward must propagate back over many steps to the action values.
RARE_REWARD_BY_VALUES = {"gae_lambda": 0.9, "learning_rate": 2.5e-4, "epochs": 2, "minibatches": 16}
RARE_REWARD_BY_SEQUENCES = {**RARE_REWARD_BY_VALUES, "minibatches": 8}

# Settings for tasks in which the only reward is far: behind a key and a door, or at the end of a
# long path. An untrained policy needs hundreds of steps to reach the reward.
FAR_REWARD = {
    "rollout_steps": 256,
    "learning_rate": 5e-4,
    "gamma": 0.995,
    "gae_lambda": 0.98,
    "hidden": (128,),
}
# Settings to add to FAR_REWARD for smaller and more frequent updates: an update takes a fifth of
# the time that it takes with FAR_REWARD alone.
SHORT_UPDATES = {"num_envs": 32, "epochs": 2, "embed": 4, "learning_rate": 1e-3}
# With these settings, a rollout has a quarter of the steps that it has with SHORT_UPDATES. So the
# policy learns sooner from its first success.
SHORTEST_UPDATES = {**SHORT_UPDATES, "num_envs": 16, "rollout_steps": 128, "minibatches": 4}
FAR = (
    r"Grid-(DoorKey-(6x6|8x8|16x16)|SimpleCrossing.*|(Blocked)?Unlock(Pickup)?|LockedRoom"
    r"|KeyCorridor.*|ObstructedMaze-.*|RedBlueDoors-.*)-v\d+"
    r"|BabyAI-((Blocked)?Unlock.*|KeyInBox|KeyCorridor.*|FindObj.*|PickupAbove)-v\d+"
)

# Settings for tasks with a mission that names an object. Learned embeddings of cells, here of size
# 16, help the network to find the object.
MISSION = {"embed": 16}

# Settings for tasks in which random play finds no reward. Updates are small, and observations that
# are new in the episode get an exploration bonus.
NOVELTY = {
    "num_envs": 32,
    "rollout_steps": 128,
    "epochs": 2,
    "learning_rate": 1e-3,
    "bonus": 0.1,
    "novelty": "noveld",
}

# Settings for Grid-Memory. The agent must remember an object, but at the start it faces away from
# the object. An exploration bonus teaches the agent to look back; only then can a recurrent network
# learn to use the object. A recurrent state of size 64 learns sooner than one of size 128.
LOOK_BACK = {"bonus": 0.1, "novelty": "noveld", "gamma": 0.995, "memory": 64, "embed": 4}
# Settings for Grid-Memory with a transformer. They need a larger bonus than LOOK_BACK, the settings
# for a recurrent network: with a bonus of 0.1, two seeds did not learn to look back at the object,
# and walked straight to the fork.
LOOK_BACK_BY_ATTENTION = {"bonus": 0.2, "memory": 32, "depth": 1}

# Settings for Craft's open world. Rewards come throughout an episode, for gathering and making many
# things. A short run can only learn to reach the next reward, so `gamma` is small.
OPEN_WORLD = {
    "rollout_steps": 64,
    "learning_rate": 4.5e-4,
    "gamma": 0.925,
    "gae_lambda": 0.65,
    "hidden": (256, 256),
}

# Settings of recurrent PPO for Craft with the spatial network (spatial.py), which applies a 3 x 3
# convolution to the map and reads item counts as categories.
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

# PQN's settings for Craft's open world. `gamma` is small because a short run can only learn to
# reach the next reward.
OPEN_WORLD_BY_VALUES = {
    "learning_rate": 4.5e-4,
    "gamma": 0.925,
    "epochs": 2,
    "hidden": (256, 256),
    "epsilon_end": 0.02,
    "epsilon_share": 0.2,
}

# Settings for GPUs, which run fastest with many environments, few large minibatches and small
# activations. There are fewer gradient steps per environment step, so a run needs more environment
# steps. With this `chunk`, a call of the compiled program lasts about a tenth of a second, so the
# time to launch the program matters little. These settings were not tuned, because no GPU was
# available.
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

# Settings of PPO for Craft on GPUs. The run is long enough for achievements that require many other
# achievements first.
OPEN_WORLD_GPU = {
    **GPU,
    "total_steps": 1_000_000_000,
    "learning_rate": 2e-4,
    "gamma": 0.99,
    "gae_lambda": 0.8,
    "hidden": (512, 512, 512),
    "unroll": 1,
}

# Settings of recurrent PPO for Craft on GPUs. A recurrent network learns from longer sequences, so
# rollouts have more steps, in fewer environments.
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

# Settings of recurrent PPO for Craft Classic on GPUs, with the spatial network. The horizon of
# `gamma` is 333 steps, because a policy that only reaches the next reward neglects food and drink.
# A minibatch has 512 sequences of 32 steps. No run with these settings is recorded.
OPEN_WORLD_GPU_BY_SIGHT = {
    **OPEN_WORLD_GPU,
    **OPEN_WORLD_BY_SIGHT,
    "num_envs": 8192,
    "rollout_steps": 32,
    "epochs": 2,
    "minibatches": 16,
    "learning_rate": 4.5e-4,
    "gamma": 0.997,
    "gae_lambda": 0.9,
    "entropy": 0.01,
    "entropy_end": 0.003,
    "hidden": (256, 256),
    "chunk": 4,
}

# Settings of recurrent PPO for the whole game of Craft on GPUs. Optimiser, loss and returns follow
# PufferLib's `craftax_1m.ini`, but advantages are standardised and the entropy coefficient is
# larger. A minibatch has 256 sequences of 128 steps. No run with these settings is recorded.
WHOLE_GAME_GPU_BY_SIGHT = {
    **OPEN_WORLD_GPU_BY_SIGHT,
    "num_envs": 4096,
    "rollout_steps": 128,
    "cell": "mingru",
    "layers": 4,
    "recompute": True,
    "optimiser": "muon",
    "learning_rate": 0.0037,
    "momentum": 0.94,
    "vector_rate": 0.1,
    "schedule": "cosine",
    "max_grad_norm": 0.64,
    "clip": 0.3,
    "gamma": 0.999,
    "gae_lambda": 0.87,
    "entropy": 0.002,
    "entropy_end": 0.0005,
    "chunk": 2,
}

# Settings for classic control: small networks, and short rollouts in few environments.
CLASSIC = {"num_envs": 16, "rollout_steps": 64, "hidden": (64, 64), "chunk": 8}

# Settings for CartPole. Every step has a reward, so values are near a hundred, and the value loss
# is large. Policy and value share one network, whose gradient is clipped by its norm. The value
# loss therefore has a small weight; with the default weight, the clipped gradient would contain
# almost nothing of the policy's gradient.
BALANCE = {**CLASSIC, "total_steps": 250_000, "value_weight": 0.01, "entropy": 0.0}

# Settings for Acrobot and MountainCar. Every step has a cost until the goal, which random play
# seldom reaches.
SWING_UP = {
    **CLASSIC,
    "total_steps": 500_000,
    "normalize_obs": True,
    "reward_scaling": True,
    "gae_lambda": 0.98,
    "entropy": 0.01,
}

# Settings for Pendulum. An episode has 200 steps, each with a cost. Values have magnitudes near a
# thousand, so rewards are scaled.
TORQUE = {
    **CLASSIC,
    "total_steps": 250_000,
    "num_envs": 8,
    "rollout_steps": 128,
    "epochs": 10,
    "gamma": 0.95,
    "entropy": 0.0,
    "reward_scaling": True,
}

# Settings for MountainCarContinuous. The only reward is at the flag, and force has a cost. An agent
# that has not found the flag yet does best by staying at the bottom without force.
FORCE = {
    **CLASSIC,
    "total_steps": 250_000,
    "rollout_steps": 256,
    "normalize_obs": True,
    "reward_scaling": True,
    "entropy": 0.01,
    "chunk": 4,
}

# Settings for the 3 x 3 sliding-tile puzzle. Only the solved board has a reward. The network reads
# the tile in each cell as a one-hot vector.
SMALL_PUZZLE = {
    "total_steps": 200_000,
    "rollout_steps": 32,
    "advantage_floor": 0.05,
    "entropy": 0.02,
    "embed": 0,
}

# Settings for PuzzleScript. Only a win has a reward.
PUZZLESCRIPT = {
    "rollout_steps": 64,
    "advantage_floor": 0.05,
    "embed": 16,
}

# Settings of RL² for XLand on a CPU, where small networks, many gradient steps and the use of the
# true task in training pay off. The preset `gpu` uses RULE_WORLDS_GPU instead: the settings of
# XLand-MiniGrid's RL², whose trials have 12,800 steps.
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
    "privileged_share": 0.6,
}
RULE_WORLDS_GPU = {
    "total_steps": 10_000_000_000,
    "num_envs": 16_384,
    "rollout_steps": 256,
    "task_loss": 0.0,
    "privileged_share": 0.0,
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

# Default of `total_steps` for PPO, in millions: pattern of ids -> number. If several patterns match
# an id, the last of them applies.
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
        (GAMES, PUZZLESCRIPT),
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

# Settings that recurrent PPO, PPO with a transformer, and Dyna share: pairs (pattern of ids,
# settings).
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
        (CRAFT_IDS, OPEN_WORLD_BY_SIGHT),
    ),
    *rows(
        "ppo-rnn",
        (CRAFT, OPEN_WORLD_GPU_BY_MEMORY),
        (CRAFT_CLASSIC_IDS, OPEN_WORLD_GPU_BY_SIGHT),
        (CRAFT_IDS, WHOLE_GAME_GPU_BY_SIGHT),
        name="gpu",
    ),
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

PRESETS = (*PPO, *PPO_WITH_MEMORY, *PQN, *RL2, *CURRICULA)
