"""Presets of the learners with a curriculum over levels, and of the standard maze experiment."""

from ..core.preset import MAZES, rows

# Settings for tasks whose only reward is at the goal. In a rollout without reward, advantages are
# small errors of the value function. `advantage_floor` is a lower bound of the standard deviation
# that advantages are divided by, so these errors stay small.
RARE_REWARD = {"advantage_floor": 0.05, "entropy": 0.004}

# Settings of the standard experiment on mazes, for 30,000 updates. They are the settings of the
# library minimax (Jiang et al., 2023, commit d053054), but with a GRU instead of an LSTM and no
# 3 x 3 convolution.
# SFL has the settings of Rutherford et al. (2024, commit 8b14e2e), with the same number of steps.
STANDARD = {
    "total_steps": 245_760_000,
    "num_envs": 32,
    "rollout_steps": 256,
    "learning_rate": 1e-4,
    "anneal": False,
    "gamma": 0.995,
    "gae_lambda": 0.98,
    "epochs": 5,
    "minibatches": 1,
    "entropy": 1e-3,
    "advantage_floor": 1e-8,
    "hidden": (32,),
    "memory": 256,
    "chunk": 16,
}
STANDARD_PLR = {**STANDARD, "learning_rate": 3e-4, "gamma": 0.999, "entropy": 0.0}
STANDARD_SFL = {
    **{**STANDARD, "num_envs": 256, "learning_rate": 2.5e-4, "anneal": True, "gamma": 0.99},
    **{"gae_lambda": 0.95, "clip": 0.04, "epochs": 4, "minibatches": 4, "entropy": 0.0},
    **{"hidden": (512,), "memory": 512, "chunk": 2, "every": 100, "candidates": 25_000},
    **{"candidate_steps": 2000, "candidate_envs": 5000, "kept": 1000},
}
AMAZES = r"Grid-AMaze-.*"
CURRICULA = (
    *rows("plr sfl", (MAZES, RARE_REWARD)),
    *rows("ppo-rnn", (AMAZES, STANDARD), name="standard"),
    *rows("plr", (AMAZES, STANDARD_PLR), name="standard"),
    *rows("sfl", (AMAZES, STANDARD_SFL), name="standard"),
)
